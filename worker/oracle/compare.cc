#include "worker/oracle/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
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

// control: elements (or bytes), poison, absolute, relative (as the bits of doubles).
// stats: field f of thread t at [f * threads + t].
constexpr char kCompareText[] = R"cuda(
struct Bool {
  typedef unsigned char T;
  static __device__ i64 value(T x) { return x != 0; }
  static __device__ u64 bits(T x) { return x; }
};
struct I32 {
  typedef int T;
  static __device__ i64 value(T x) { return x; }
  static __device__ u64 bits(T x) { return (unsigned)x; }
};
struct I64 {
  typedef i64 T;
  static __device__ i64 value(T x) { return x; }
  static __device__ u64 bits(T x) { return (u64)x; }
};
struct F16 {
  typedef unsigned short T;
  static __device__ double value(T x) { return (double)from_f16(x); }
  static __device__ u64 bits(T x) { return x; }
};
struct BF16 {
  typedef unsigned short T;
  static __device__ double value(T x) { return (double)from_bf16(x); }
  static __device__ u64 bits(T x) { return x; }
};
struct F32 {
  typedef float T;
  static __device__ double value(T x) { return (double)x; }
  static __device__ u64 bits(T x) { return __float_as_uint(x); }
};
struct F64 {
  typedef double T;
  static __device__ double value(T x) { return x; }
  static __device__ u64 bits(T x) { return (u64)__double_as_longlong(x); }
};

struct Stats {
  i64 beyond, first_beyond, disagree, first_disagree, unwritten, first_unwritten, finite;
  double largest, squares;
};
ORACLE void note(i64& count, i64& first, i64 at) {
  ++count;
  if (first < 0 || at < first) first = at;
}
ORACLE bool is_finite(double x) { return x - x == 0; }

ORACLE void judge(Stats& s, double got, double want, double absolute, double relative, i64 at,
                  bool poisoned) {
  if (is_finite(got) && is_finite(want)) {
    double difference = fabs(got - want);
    ++s.finite;
    s.squares += want * want;
    if (difference > s.largest) s.largest = difference;
    if (difference > absolute + relative * fabs(want)) {
      note(s.beyond, s.first_beyond, at);
      if (poisoned) note(s.unwritten, s.first_unwritten, at);
    }
  } else if (!(got == want || (is_nan(got) && is_nan(want)))) {
    note(s.disagree, s.first_disagree, at);
    if (poisoned) note(s.unwritten, s.first_unwritten, at);
  }
}
ORACLE void judge(Stats& s, i64 got, i64 want, double, double, i64 at, bool poisoned) {
  ++s.finite;
  if (got == want) return;
  note(s.beyond, s.first_beyond, at);
  if (poisoned) note(s.unwritten, s.first_unwritten, at);
}

template <class E>
ORACLE void compare(const i64* control, const typename E::T* got, const typename E::T* want,
                    i64* stats) {
  const i64 count = control[0];
  u64 pattern = (u64)control[1] & 0xffu;
  u64 poison = 0;
  for (int i = 0; i < (int)sizeof(typename E::T); ++i) poison |= pattern << (8 * i);
  const double absolute = __longlong_as_double(control[2]);
  const double relative = __longlong_as_double(control[3]);
  Stats s;
  s.beyond = s.disagree = s.unwritten = s.finite = 0;
  s.first_beyond = s.first_disagree = s.first_unwritten = -1;
  s.largest = s.squares = 0;
  const i64 threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  i64 n = me;
  for (; n + 3 * threads < count; n += 4 * threads) {   // four loads of each in flight
    typename E::T g[4], w[4];
    for (int j = 0; j < 4; ++j) g[j] = got[n + j * threads];
    for (int j = 0; j < 4; ++j) w[j] = want[n + j * threads];
    for (int j = 0; j < 4; ++j) {
      judge(s, E::value(g[j]), E::value(w[j]), absolute, relative, n + j * threads,
            E::bits(g[j]) == poison);
    }
  }
  for (; n < count; n += threads) {
    judge(s, E::value(got[n]), E::value(want[n]), absolute, relative, n, E::bits(got[n]) == poison);
  }
  stats[0 * threads + me] = s.beyond;
  stats[1 * threads + me] = s.first_beyond;
  stats[2 * threads + me] = s.disagree;
  stats[3 * threads + me] = s.first_disagree;
  stats[4 * threads + me] = s.unwritten;
  stats[5 * threads + me] = s.first_unwritten;
  stats[6 * threads + me] = s.finite;
  stats[7 * threads + me] = __double_as_longlong(s.largest);
  stats[8 * threads + me] = __double_as_longlong(s.squares);
}

ORACLE i64 first_of(i64 a, i64 b) { return a < 0 ? b : b < 0 ? a : a < b ? a : b; }

extern "C" __global__ void merge(const i64* control, const i64* stats, i64* merged) {
  const i64 from = control[4], threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  i64 count[9], first[3] = {-1, -1, -1};
  for (int f = 0; f < 9; ++f) count[f] = 0;
  double largest = 0, squares = 0;
  for (i64 t = me; t < from; t += threads) {
    for (int f = 0; f < 7; ++f) {
      i64 part = stats[f * from + t];
      if (f == 1 || f == 3 || f == 5) {
        first[f / 2] = first_of(first[f / 2], part);
      } else {
        count[f] += part;
      }
    }
    double part = __longlong_as_double(stats[7 * from + t]);
    if (part > largest) largest = part;
    squares += __longlong_as_double(stats[8 * from + t]);
  }
  for (int f = 0; f < 7; ++f) {
    merged[f * threads + me] = f == 1 || f == 3 || f == 5 ? first[f / 2] : count[f];
  }
  merged[7 * threads + me] = __double_as_longlong(largest);
  merged[8 * threads + me] = __double_as_longlong(squares);
}

ORACLE u64 mix(u64 x) {   // splitmix64's end
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
extern "C" __global__ void hash(const i64* control, const unsigned char* memory, i64* stats) {
  const i64 bytes = control[0], words = bytes / 8;
  const u64* word = (const u64*)memory;
  const i64 threads = (i64)gridDim.x * blockDim.x;
  const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  u64 sum = 0;
  i64 n = me;
  for (; n + 3 * threads < words; n += 4 * threads) {
    u64 w[4];
    for (int j = 0; j < 4; ++j) w[j] = word[n + j * threads];
    for (int j = 0; j < 4; ++j) sum += mix(w[j] + mix((u64)(n + j * threads) + 0x9e3779b97f4a7c15ull));
  }
  for (; n < words; n += threads) sum += mix(word[n] + mix((u64)n + 0x9e3779b97f4a7c15ull));
  if (me == 0) {
    u64 rest = 0;
    for (i64 b = words * 8; b < bytes; ++b) rest = rest << 8 | memory[b];
    sum += mix(rest + mix((u64)words + 0x9e3779b97f4a7c15ull));
  }
  for (int f = 1; f < 9; ++f) stats[f * threads + me] = 0;
  stats[me] = (i64)sum;
}

template <class E>
ORACLE void gather(const i64* control, const typename E::T* memory, const i64* positions,
                   double* values) {
  for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < control[0];
       n += (i64)gridDim.x * blockDim.x) {
    values[n] = (double)E::value(memory[positions[n]]);
  }
}
)cuda";

struct TypeName {
  graph::DType type;
  const char* element;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {graph::DType::kBool, "Bool", "bool"}, {graph::DType::kI32, "I32", "i32"},
    {graph::DType::kI64, "I64", "i64"},    {graph::DType::kF16, "F16", "f16"},
    {graph::DType::kBF16, "BF16", "bf16"}, {graph::DType::kF32, "F32", "f32"},
    {graph::DType::kF64, "F64", "f64"},
};

std::string Source() {
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

absl::StatusOr<std::unique_ptr<Comparer>> Comparer::Make(device::Device& device,
                                                         device::Compiler& compiler) {
  auto binary = compiler.Compile(Source(), kCompileLimit);
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

// A plan of one kernel over control and `pointers` buffers, and the merging one after it.
absl::StatusOr<device::Program*> Comparer::Get(const std::string& kernel, int pointers,
                                               bool merged) {
  Loaded& loaded = loaded_[kernel];
  if (loaded.program != nullptr) return loaded.program.get();
  loaded.plan = v1::Plan();
  const int buffers = 1 + pointers + (merged ? 1 : 0);
  for (int i = 0; i < buffers; ++i) {
    v1::Buffer* buffer = loaded.plan.add_buffers();
    buffer->set_kind(v1::Buffer::WORKSPACE);
    buffer->set_bytes(1);  // at least: they are bound to tensors of any size
  }
  auto launch = [&](const std::string& entry, int blocks, std::vector<int> arguments) {
    v1::Launch* l = loaded.plan.add_steps()->mutable_launch();
    l->set_entry(entry);
    l->add_grid(blocks), l->add_block(kThreads);
    for (int i = 0; i < 2; ++i) l->add_grid(1), l->add_block(1);
    for (int a : arguments) l->add_arguments()->set_buffer(a);
  };
  std::vector<int> all;
  for (int i = 0; i <= pointers; ++i) all.push_back(i);
  launch(kernel, blocks_, all);
  if (merged) launch("merge", kMergeBlocks, {0, pointers, pointers + 1});
  auto program = device_.Load(loaded.plan, binary_);
  if (!program.ok()) return program.status();
  loaded.program = *std::move(program);
  return loaded.program.get();
}

absl::StatusOr<Difference> Comparer::Compare(graph::DType type, device::Memory& got,
                                             device::Memory& want, int64_t elements,
                                             double absolute, double relative, uint32_t poison) {
  auto program = Get(absl::StrCat("compare_", graph::NameOf(type)), 3, true);
  if (!program.ok()) return program.status();
  const int64_t control[5] = {elements, poison, Bits(absolute), Bits(relative),
                              int64_t{blocks_} * kThreads};
  if (absl::Status s = device_.Write(*control_, control, sizeof(control)); !s.ok()) return s;
  device::Memory* const bound[] = {control_.get(), &got, &want, stats_.get(), merged_.get()};
  if (absl::Status s = (*program)->Bind(bound); !s.ok()) return s;
  if (absl::Status s = device_.Run(**program, kRunLimit); !s.ok()) return s;
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

absl::StatusOr<std::vector<double>> Comparer::Gather(graph::DType type, device::Memory& memory,
                                                     absl::Span<const int64_t> positions) {
  const int64_t count = static_cast<int64_t>(positions.size());
  WS_CHECK(count <= kSampled, "more positions than a sample has");
  std::vector<double> values(positions.size());
  if (values.empty()) return values;
  auto program = Get(absl::StrCat("gather_", graph::NameOf(type)), 3, false);
  if (!program.ok()) return program.status();
  const int64_t control[5] = {count, 0, 0, 0, 0};
  if (absl::Status s = device_.Write(*control_, control, sizeof(control)); !s.ok()) return s;
  if (absl::Status s = device_.Write(*positions_, positions.data(), count * 8); !s.ok()) return s;
  device::Memory* const bound[] = {control_.get(), &memory, positions_.get(), values_.get()};
  if (absl::Status s = (*program)->Bind(bound); !s.ok()) return s;
  if (absl::Status s = device_.Run(**program, kRunLimit); !s.ok()) return s;
  if (absl::Status s = device_.Read(*values_, values.data(), count * 8); !s.ok()) return s;
  return values;
}

}  // namespace warpsmith::oracle
