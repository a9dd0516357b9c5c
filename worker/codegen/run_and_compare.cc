#include "worker/codegen/run_and_compare.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/graph/numeric.h"
#include "worker/device/device.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;
using graph::DType;

constexpr absl::Duration kCompileLimit = absl::Seconds(60);
constexpr absl::Duration kRunLimit = absl::Seconds(30);
constexpr uint32_t kPoison = 0xffc0dead;  // a NaN as f32

device::Compiler& HostCompiler() {
  static device::Compiler* const compiler = [] {
    const auto dir =
        std::filesystem::temp_directory_path() / StrCat("warpsmith-codegen-test-", getuid());
    return device::MakeCompiler("host", dir.string()).value().release();
  }();
  return *compiler;
}

// The bits of a value of a 16-bit type that represents it exactly.
uint16_t Half(DType type, double value) {
  const float f = static_cast<float>(value);
  uint32_t u;
  std::memcpy(&u, &f, 4);
  if (type == DType::kBF16) return static_cast<uint16_t>(u >> 16);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const double magnitude = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14)
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(magnitude * 0x1p24));
  return static_cast<uint16_t>(sign | (((u & 0x7fffffffu) - 0x38000000u) >> 13));
}

double FromHalf(DType type, uint16_t bits) {
  if (type == DType::kBF16) {
    const uint32_t u = uint32_t{bits} << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

template <class T>
void Put(double value, std::string& bytes) {
  const T t = static_cast<T>(value);
  bytes.append(reinterpret_cast<const char*>(&t), sizeof(t));
}

std::string Encode(DType type, const std::vector<double>& values) {
  std::string bytes;
  for (double v : values) {
    switch (type) {
      case DType::kBool:
        Put<uint8_t>(v != 0, bytes);
        break;
      case DType::kI8:
        Put<int8_t>(v, bytes);
        break;
      case DType::kU8:
        Put<uint8_t>(v, bytes);
        break;
      case DType::kI32:
        Put<int32_t>(v, bytes);
        break;
      case DType::kI64:
        Put<int64_t>(v, bytes);
        break;
      case DType::kF32:
        Put<float>(v, bytes);
        break;
      case DType::kF64:
        Put<double>(v, bytes);
        break;
      default:
        Put<uint16_t>(Half(type, graph::RoundTo(type, v)), bytes);
        break;
    }
  }
  return bytes;
}

template <class T>
T Take(const std::string& bytes, size_t i) {
  T t;
  std::memcpy(&t, bytes.data() + i * sizeof(T), sizeof(T));
  return t;
}

double Decode(DType type, const std::string& bytes, size_t i) {
  switch (type) {
    case DType::kBool:
      return Take<uint8_t>(bytes, i);
    case DType::kI8:
      return Take<int8_t>(bytes, i);
    case DType::kU8:
      return Take<uint8_t>(bytes, i);
    case DType::kI32:
      return Take<int32_t>(bytes, i);
    case DType::kI64:
      return static_cast<double>(Take<int64_t>(bytes, i));
    case DType::kF32:
      return Take<float>(bytes, i);
    case DType::kF64:
      return Take<double>(bytes, i);
    default:
      return FromHalf(type, Take<uint16_t>(bytes, i));
  }
}

// Relative to the largest magnitude of the answer: graphs mix types, so what a tensor of few bits
// loses on the way shows in the end.
double ToleranceOf(const graph::Graph& graph) {
  double tolerance = 2e-5;
  for (const graph::Tensor& t : graph.tensors) {
    if (t.type == DType::kF16) tolerance = std::max(tolerance, 2e-2);
    if (t.type == DType::kBF16) tolerance = std::max(tolerance, 1e-1);
  }
  return tolerance;
}

absl::Status Compare(const graph::Tensor& tensor, const std::string& bytes,
                     const std::vector<double>& expected, double tolerance) {
  double largest = 3;  // what cancels on the way leaves rounding of values of about this size
  for (double e : expected) {
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  }
  const bool exact = !graph::IsFloat(tensor.type);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double got = Decode(tensor.type, bytes, i),
                 want = exact ? expected[i] : graph::RoundTo(tensor.type, expected[i]);
    const bool same = got == want || (std::isnan(got) && std::isnan(want)) ||
                      (!exact && std::isfinite(want) &&
                       std::abs(got - want) <= tolerance * (std::abs(want) + 0.1 * largest));
    if (!same)
      return absl::InternalError(StrCat("'", tensor.name, "' element ", i, " of ", expected.size(),
                                        " is ", got, ", not ", want));
  }
  return absl::OkStatus();
}

}  // namespace

Target TestTarget() {
  Target target;
  target.arch = "host";
  target.sm_count = 4;
  return target;
}

absl::Status RunAndCompare(const graph::Graph& original, const v1::Schedule& schedule,
                           uint64_t seed) {
  auto rewritten = Rewrite(original, schedule.rewrites());
  if (!rewritten.ok()) return rewritten.status();
  const graph::Graph& graph = *rewritten;
  auto plan = Lower(graph, schedule, TestTarget());
  if (!plan.ok()) return plan.status();
  auto fail = [&](const absl::Status& status) {
    return absl::InternalError(StrCat(status.message(), "\n", plan->source()));
  };

  std::vector<oracle::Values> inputs;
  std::vector<int> input_tensors;
  for (size_t t = 0; t < original.tensors.size(); ++t) {
    if (original.tensors[t].node >= 0) continue;
    inputs.push_back(oracle::DrawOnHost(original.tensors[t], seed + t, oracle::Variation::kNone));
    for (double& v : inputs.back()) {
      v = graph::IsFloat(original.tensors[t].type) ? graph::RoundTo(original.tensors[t].type, v)
                                                   : v;
    }
    input_tensors.push_back(static_cast<int>(t));
  }
  auto answers = oracle::EvaluateOnHost(original, inputs, false);
  if (!answers.ok()) return fail(answers.status());

  auto device = device::MakeDevice("host");
  if (!device.ok()) return fail(device.status());
  auto binary = HostCompiler().Compile(plan->source(), kCompileLimit);
  if (!binary.ok()) return fail(binary.status());
  std::vector<std::unique_ptr<device::Memory>> memory;
  std::vector<device::Memory*> bound;
  for (const v1::Buffer& buffer : plan->buffers()) {
    auto allocated = (*device)->Allocate(buffer.bytes());
    if (!allocated.ok()) return fail(allocated.status());
    memory.push_back(std::move(*allocated));
    bound.push_back(memory.back().get());
  }
  auto program = (*device)->Load(*plan, *binary);
  if (!program.ok()) return fail(program.status());
  if (absl::Status s = (*program)->Bind(bound); !s.ok()) return fail(s);

  const double tolerance = ToleranceOf(original);
  // Twice: workspace of the first run must not matter to the second.
  for (int run = 0; run < 2; ++run) {
    size_t next_input = 0;
    std::vector<std::string> given;
    for (int b = 0; b < plan->buffers_size(); ++b) {
      const auto kind = plan->buffers(b).kind();
      if (kind == v1::Buffer::OUTPUT || kind == v1::Buffer::WORKSPACE) {
        if (absl::Status s = (*device)->Fill(*memory[b], kPoison); !s.ok()) return fail(s);
        continue;
      }
      given.push_back(Encode(original.tensors[input_tensors[next_input]].type, inputs[next_input]));
      if (absl::Status s = (*device)->Write(*memory[b], given.back().data(), given.back().size());
          !s.ok())
        return fail(s);
      ++next_input;
    }
    if (absl::Status s = (*device)->Run(**program, kRunLimit); !s.ok()) return fail(s);
    auto read = [&](int b, int64_t bytes) {
      std::string data(bytes, '\0');
      (void)(*device)->Read(*memory[b], data.data(), bytes);
      return data;
    };
    size_t answer = 0;
    for (int b = 0; b < plan->buffers_size(); ++b) {
      if (plan->buffers(b).kind() != v1::Buffer::OUTPUT) continue;
      const graph::Tensor& tensor = original.tensors[original.outputs[answer]];
      if (absl::Status s = Compare(tensor, read(b, tensor.bytes()), (*answers)[answer], tolerance);
          !s.ok())
        return fail(s);
      ++answer;
    }
    for (const auto& update : original.updates) {
      for (int b = 0; b < plan->buffers_size(); ++b) {
        const graph::Tensor& state = original.tensors[update.state];
        if (plan->buffers(b).kind() != v1::Buffer::STATE || plan->buffers(b).tensor() != state.name)
          continue;
        if (absl::Status s = Compare(state, read(b, state.bytes()), (*answers)[answer], tolerance);
            !s.ok())
          return fail(s);
      }
      ++answer;
    }
    for (int b = 0, i = 0; b < plan->buffers_size(); ++b) {
      auto intact = memory[b]->GuardIntact();
      if (!intact.ok() || !*intact)
        return fail(absl::InternalError(StrCat("wrote beyond '", plan->buffers(b).tensor(), "'")));
      const auto kind = plan->buffers(b).kind();
      if (kind == v1::Buffer::OUTPUT || kind == v1::Buffer::WORKSPACE) continue;
      if (kind != v1::Buffer::STATE && read(b, given[i].size()) != given[i]) {
        return fail(
            absl::InternalError(StrCat("changed the input '", plan->buffers(b).tensor(), "'")));
      }
      ++i;
    }
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
