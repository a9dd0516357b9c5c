#include "worker/oracle/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/oracle/compare_text.h"
#include "worker/oracle/device_prelude.h"
#include "worker/oracle/native_device.h"

namespace warpsmith::oracle {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 8;
constexpr int kFields = 9;        // of the statistics that each thread keeps
constexpr int kMergeBlocks = 16;  // of the kernel that brings them together
constexpr int kMerged = kMergeBlocks * kThreads;
constexpr absl::Duration kCompileLimit = absl::Minutes(1);
constexpr absl::Duration kRunLimit = absl::Minutes(1);

struct TypeName {
  graph::DType type;
  const char* element;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {graph::DType::kBool, "Bool", "bool"}, {graph::DType::kI8, "I8", "i8"},
    {graph::DType::kU8, "U8", "u8"},       {graph::DType::kI32, "I32", "i32"},
    {graph::DType::kI64, "I64", "i64"},    {graph::DType::kF16, "F16", "f16"},
    {graph::DType::kBF16, "BF16", "bf16"}, {graph::DType::kF32, "F32", "f32"},
    {graph::DType::kF64, "F64", "f64"},
};

int64_t Bits(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
double FromBits(int64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
int64_t FirstOf(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

}  // namespace

std::string ComparerSource() {
  std::string source = absl::StrCat(kDevicePrelude, kCompareText);
  for (const TypeName& t : kTypes) {
    absl::StrAppend(&source, "extern \"C\" __global__ void compare_", t.name,
                    "(const i64* control, const ", t.element, "::T* got, const ", t.element,
                    "::T* want, i64* stats) {\n  compare<", t.element,
                    ">(control, got, want, stats);\n}\n", "extern \"C\" __global__ void gather_",
                    t.name, "(const i64* control, const ", t.element,
                    "::T* memory, const i64* positions, double* values) {\n  gather<", t.element,
                    ">(control, memory, positions, values);\n}\n");
  }
  return source;
}

absl::StatusOr<std::unique_ptr<Comparer>> Comparer::Make(device::Device& device,
                                                         device::Compiler& compiler) {
  auto binary = compiler.Compile(ComparerSource(), kCompileLimit);
  if (!binary.ok()) {
    return absl::Status(
        binary.status().code(),
        absl::StrCat("the judge's comparison kernels: ", std::string(binary.status().message())));
  }
  std::unique_ptr<Comparer> comparer(new Comparer(device, *std::move(binary)));
  if (absl::Status s = comparer->Allocate(); !s.ok()) return s;
  return comparer;
}

Comparer::Comparer(device::Device& device, device::Binary binary)
    : device_(device),
      binary_(std::move(binary)),
      blocks_(std::max(1, device.info().sm_count) * kBlocksPerSm) {}

absl::Status Comparer::Allocate() {
  const std::pair<std::unique_ptr<device::Memory>*, int64_t> wanted[] = {
      {&control_, 5 * 8},
      {&stats_, int64_t{8} * kFields * blocks_ * kThreads},
      {&merged_, int64_t{8} * kFields * kMerged},
      {&positions_, kSampled * 8},
      {&values_, kSampled * 8}};
  for (const auto& [memory, bytes] : wanted) {
    auto allocated = device_.Allocate(bytes);
    if (!allocated.ok()) return allocated.status();
    *memory = *std::move(allocated);
  }
  return absl::OkStatus();
}

int64_t Comparer::bytes() const {
  return control_->bytes() + stats_->bytes() + merged_->bytes() + positions_->bytes() +
         values_->bytes();
}

absl::StatusOr<device::Program*> Comparer::Get(const std::string& kernel, int pointers,
                                               bool merged) {
  std::unique_ptr<device::Program>& loaded = loaded_[kernel];
  if (loaded != nullptr) return loaded.get();
  auto program = LoadKernel(binary_, kernel, pointers, merged);
  if (!program.ok()) return program.status();
  loaded = *std::move(program);
  return loaded.get();
}

absl::StatusOr<std::unique_ptr<device::Program>> Comparer::LoadKernel(const device::Binary& binary,
                                                                      const std::string& kernel,
                                                                      int pointers, bool merged) {
  v1::Plan plan;
  const int buffers = 1 + pointers + (merged ? 1 : 0);
  for (int i = 0; i < buffers; ++i) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(v1::Buffer::WORKSPACE);
    buffer->set_bytes(1);  // at least: they are bound to tensors of any size
  }
  auto launch = [&](const std::string& entry, int blocks, std::vector<int> arguments) {
    v1::Launch* l = plan.add_steps()->mutable_launch();
    l->set_entry(entry);
    l->add_grid(blocks), l->add_block(kThreads);
    for (int i = 0; i < 2; ++i) l->add_grid(1), l->add_block(1);
    for (int a : arguments) l->add_arguments()->set_buffer(a);
  };
  std::vector<int> all;
  for (int i = 0; i <= pointers; ++i) all.push_back(i);
  launch(kernel, blocks_, all);
  if (merged) launch("merge", kMergeBlocks, {0, pointers, pointers + 1});
  return device_.Load(plan, binary);
}

absl::StatusOr<Difference> Comparer::Compare(graph::DType type, device::Memory& got,
                                             device::Memory& want, int64_t elements,
                                             double absolute, double relative, uint32_t poison) {
  auto program = Get(absl::StrCat("compare_", graph::NameOf(type)), 3, true);
  if (!program.ok()) return program.status();
  return RunComparison(**program, {&got, &want}, elements, absolute, relative, poison);
}

absl::StatusOr<Difference> Comparer::RunComparison(device::Program& program,
                                                   std::vector<device::Memory*> compared,
                                                   int64_t elements, double absolute,
                                                   double relative, uint32_t poison) {
  const int64_t control[5] = {elements, poison, Bits(absolute), Bits(relative),
                              int64_t{blocks_} * kThreads};
  if (absl::Status s = device_.Write(*control_, control, sizeof(control)); !s.ok()) return s;
  compared.insert(compared.begin(), control_.get());
  compared.push_back(stats_.get());
  compared.push_back(merged_.get());
  if (absl::Status s = program.Bind(compared); !s.ok()) return s;
  if (absl::Status s = device_.Run(program, kRunLimit); !s.ok()) return s;
  std::vector<int64_t> merged(kFields * kMerged);
  if (absl::Status s = device_.Read(*merged_, merged.data(), merged_->bytes()); !s.ok()) return s;
  Difference d;
  d.elements = elements;
  double squares = 0;
  int64_t finite = 0;
  for (int t = 0; t < kMerged; ++t) {
    auto field = [&](int f) { return merged[f * kMerged + t]; };
    d.beyond += field(0);
    d.first_beyond = FirstOf(d.first_beyond, field(1));
    d.disagree += field(2);
    d.first_disagree = FirstOf(d.first_disagree, field(3));
    d.unwritten += field(4);
    d.first_unwritten = FirstOf(d.first_unwritten, field(5));
    finite += field(6);
    d.largest = std::max(d.largest, FromBits(field(7)));
    squares += FromBits(field(8));
  }
  d.differing = static_cast<int64_t>(squares);
  d.want_rms = finite > 0 ? std::sqrt(squares / finite) : 0;
  return d;
}

absl::StatusOr<uint64_t> Comparer::Hash(device::Memory& memory) {
  auto program = Get("hash", 2, true);
  if (!program.ok()) return program.status();
  const int64_t control[5] = {memory.bytes(), 0, 0, 0, int64_t{blocks_} * kThreads};
  if (absl::Status s = device_.Write(*control_, control, sizeof(control)); !s.ok()) return s;
  device::Memory* const bound[] = {control_.get(), &memory, stats_.get(), merged_.get()};
  if (absl::Status s = (*program)->Bind(bound); !s.ok()) return s;
  if (absl::Status s = device_.Run(**program, kRunLimit); !s.ok()) return s;
  std::vector<int64_t> merged(kMerged);
  const int64_t bytes = static_cast<int64_t>(merged.size()) * 8;
  if (absl::Status s = device_.Read(*merged_, merged.data(), bytes); !s.ok()) return s;
  uint64_t sum = 0;
  for (int64_t part : merged) sum += static_cast<uint64_t>(part);
  return sum;
}

absl::Status Comparer::Reverse(graph::DType type, device::Memory& memory, int64_t parts) {
  const int64_t element_bytes = graph::SizeOf(type);
  auto program = Get(absl::StrCat("reverse_", element_bytes), 1, false);
  if (!program.ok()) return program.status();
  const int64_t elements = memory.bytes() / element_bytes;
  const int64_t control[5] = {elements, (elements + parts - 1) / parts, 0, 0, 0};
  if (absl::Status s = device_.Write(*control_, control, sizeof(control)); !s.ok()) return s;
  device::Memory* const bound[] = {control_.get(), &memory};
  if (absl::Status s = (*program)->Bind(bound); !s.ok()) return s;
  return device_.Run(**program, kRunLimit);
}

absl::StatusOr<std::vector<double>> Comparer::Gather(graph::DType type, device::Memory& memory,
                                                     absl::Span<const int64_t> positions) {
  std::vector<double> values(positions.size());
  for (size_t from = 0; from < positions.size(); from += kSampled) {
    const auto some = positions.subspan(from, kSampled);
    absl::Status s = GatherSome(type, memory, some, values.data() + from);
    if (!s.ok()) return s;
  }
  return values;
}

absl::Status Comparer::GatherSome(graph::DType type, device::Memory& memory,
                                  absl::Span<const int64_t> positions, double* values) {
  const int64_t count = static_cast<int64_t>(positions.size());
  auto program = Get(absl::StrCat("gather_", graph::NameOf(type)), 3, false);
  if (!program.ok()) return program.status();
  const int64_t control[5] = {count, 0, 0, 0, 0};
  if (absl::Status s = device_.Write(*control_, control, sizeof(control)); !s.ok()) return s;
  if (absl::Status s = device_.Write(*positions_, positions.data(), count * 8); !s.ok()) return s;
  device::Memory* const bound[] = {control_.get(), &memory, positions_.get(), values_.get()};
  if (absl::Status s = (*program)->Bind(bound); !s.ok()) return s;
  if (absl::Status s = device_.Run(**program, kRunLimit); !s.ok()) return s;
  return device_.Read(*values_, values, count * 8);
}

}  // namespace warpsmith::oracle
