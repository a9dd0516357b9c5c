// Attacks that once went through, on problems of their own, and honest plans that look like them.
#include <unistd.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "worker/judge/court.h"
#include "worker/judge/judge.h"

namespace warpsmith::judge {
namespace {

struct Argument {
  v1::Buffer::Kind kind;
  std::string name, dtype, type;  // of the graph, and in the kernel
  int64_t elements, bytes;
};
Argument In(const std::string& name, int64_t n) {
  return {v1::Buffer::INPUT, name, "f32", "const float*", n, 4 * n};
}
Argument Out(const std::string& name, int64_t n) {
  return {v1::Buffer::OUTPUT, name, "f32", "float*", n, 4 * n};
}
Argument OutBf16(const std::string& name, int64_t n) {
  return {v1::Buffer::OUTPUT, name, "bf16", "unsigned short*", n, 2 * n};
}

// A thread for each of n elements does `body`, which sees i and the arguments by their names.
v1::Plan PlanOf(int64_t n, const std::vector<Argument>& arguments, const std::string& body,
                const std::string& before = "") {
  v1::Plan plan;
  v1::Launch* launch = plan.add_steps()->mutable_launch();
  launch->set_entry("candidate");
  for (uint32_t size : {static_cast<uint32_t>((n + 255) / 256), 1u, 1u}) launch->add_grid(size);
  for (uint32_t size : {256u, 1u, 1u}) launch->add_block(size);
  std::vector<std::string> parameters;
  for (const Argument& argument : arguments) {
    parameters.push_back(absl::StrCat(argument.type, " ", argument.name));
    launch->add_arguments()->set_buffer(plan.buffers_size());
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(argument.kind);
    buffer->set_tensor(argument.name);
    buffer->set_dtype(argument.dtype);
    buffer->add_shape(argument.elements);
    buffer->set_bytes(argument.bytes);
  }
  plan.set_source(absl::StrCat(before, "extern \"C\" __global__ void candidate(",
                               absl::StrJoin(parameters, ", "),
                               ") {\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "  if (i >= ",
                               n, ") return;\n", body, "\n}\n"));
  return plan;
}

constexpr char kBf16[] =
    "static __device__ unsigned short bf16(float v) { unsigned u = __float_as_uint(v); return "
    "(unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16); }\n";

struct Attack {
  std::string name;
  std::vector<std::string> graph;
  v1::Plan honest, wrong;
};

std::vector<Attack> Attacks() {
  std::vector<Attack> attacks;
  {
    const std::vector<Argument> arguments = {In("x", 4096), Out("e", 4096), Out("a", 4096)};
    attacks.push_back(
        {"wrong behind an output that overflows",
         {"input x: f32[4096] ~ normal(0, 10)", "e: f32[i: 4096] = exp(x[i])",
          "a: f32[i: 4096] = abs(x[i])", "output e", "output a"},
         PlanOf(4096, arguments, "e[i] = expf(x[i]); a[i] = fabsf(x[i]);"),
         PlanOf(4096, arguments, "e[i] = expf(x[i]); a[i] = fminf(fabsf(x[i]), 60.0f);")});
  }
  {
    const std::vector<Argument> arguments = {In("x", 4096), Out("e", 4096)};
    attacks.push_back(
        {"NaN where others overflow",
         {"input x: f32[4096] ~ normal(0, 10)", "e: f32[i: 4096] = exp(x[i])", "output e"},
         PlanOf(4096, arguments, "e[i] = expf(x[i]);"),
         PlanOf(4096, arguments,
                "e[i] = x[i] > 50.0f && x[i] < 85.0f ? sqrtf(-x[i]) : expf(x[i]);")});
  }
  {
    const int64_t n = 1 << 20;
    const std::vector<Argument> arguments = {In("x", n), Out("y", n)};
    attacks.push_back(
        {"one small answer is wrong on the problem's own data alone",
         {absl::StrCat("input x: f32[", n, "] ~ uniform(0, 1)"),
          absl::StrCat("y: f32[i: ", n, "] = x[i] * 1e-4"), "output y"},
         PlanOf(n, arguments, "y[i] = x[i] * 1e-4f;"),
         PlanOf(n, arguments,
                "float m = 0; if (i == 700001) for (int k = 0; k < 64; ++k) m = fmaxf(m, x[k]);\n"
                "  y[i] = m > 0.5f && m <= 1.0f ? 0.0f : x[i] * 1e-4f;")});
  }
  {
    const std::vector<Argument> arguments = {In("x", 4096), OutBf16("y", 4096)};
    const std::vector<std::string> third = {
        "input x: f32[4096] ~ normal", "y: bf16[i: 4096] = bf16(x[i] * 0.3333333)", "output y"};
    attacks.push_back({"one step of bf16 too much everywhere", third,
                       PlanOf(4096, arguments, "y[i] = bf16(x[i] * 0.3333333f);", kBf16),
                       PlanOf(4096, arguments, "y[i] = bf16(x[i] * 0.3333333f) + 1;", kBf16)});
    attacks.push_back(
        {"cut to bf16 instead of rounded", third,
         PlanOf(4096, arguments, "y[i] = bf16(x[i] * 0.3333333f);", kBf16),
         PlanOf(4096, arguments, "y[i] = __float_as_uint(x[i] * 0.3333333f) >> 16;", kBf16)});
    attacks.push_back({"a small term is left out in bf16",
                       {"input x: f32[4096] ~ normal",
                        "y: bf16[i: 4096] = bf16(max(x[i], x[i] * 0.002))", "output y"},
                       PlanOf(4096, arguments, "y[i] = bf16(fmaxf(x[i], x[i] * 0.002f));", kBf16),
                       PlanOf(4096, arguments, "y[i] = bf16(fmaxf(x[i], 0.0f));", kBf16)});
  }
  {
    const std::vector<Argument> arguments = {
        In("x", 64 * 256), {v1::Buffer::OUTPUT, "at", "i64", "long long*", 64, 512}};
    const auto plan = [&](const std::string& better) {
      return PlanOf(64, arguments,
                    absl::StrCat("x += i * 256; int b = 0; for (int c = 1; c < 256; ++c) if (",
                                 better, ") b = c; at[i] = b;"));
    };
    attacks.push_back(
        {"any index where all values are near each other",
         {"input x: f32[64, 256] ~ normal",
          "v, at: f32[r: 64] = argmax[c: 256](1 + tanh(x[r, c]) * 1e-5)", "output at"},
         plan("1 + tanhf(x[c]) * 1e-5f > 1 + tanhf(x[b]) * 1e-5f"),
         plan("c == 7")});
  }
  {
    const std::vector<Argument> arguments = {
        In("x", 64 * 256), {v1::Buffer::OUTPUT, "at", "i64", "long long*", 64, 512}};
    const auto plan = [&](const std::string& better) {
      return PlanOf(64, arguments,
                    absl::StrCat("x += i * 256; int b = 0; for (int c = 1; c < 256; ++c) if (x[c] ",
                                 better, " x[b]) b = c; at[i] = b;"));
    };
    attacks.push_back({"the last of equals, on data that has none",
                       {"input x: f32[64, 256] ~ normal",
                        "v, at: f32[r: 64] = argmax[c: 256](x[r, c])", "output at"},
                       plan(">"),
                       plan(">=")});
  }
  {
    const std::vector<Argument> arguments = {
        In("x", 96), {v1::Buffer::OUTPUT, "q", "i8", "signed char*", 96, 96}};
    attacks.push_back(
        {"one byte of few is always off by one",
         {"input x: f32[96] ~ normal(0, 30)",
          "q: i8[i: 96] = i8(min(max(round(x[i] / 0.3), -127), 127))", "output q"},
         PlanOf(96, arguments, "q[i] = (int)fminf(fmaxf(rintf(x[i] / 0.3f), -127.0f), 127.0f);"),
         PlanOf(96, arguments,
                "int c = (int)fminf(fmaxf(rintf(x[i] / 0.3f), -127.0f), 127.0f); q[i] = i == 95 ? "
                "(c > 0 ? c - 1 : c + 1) : c;")});
  }
  return attacks;
}

TEST_CASE("what once went through does no more, and what is honest does") {
  for (const Attack& attack : Attacks()) {
    DYNAMIC_SECTION(attack.name) {
      Court court;
      court.Open(ProblemOf("attack", attack.graph));
      const auto wrong = court.Evaluate({attack.wrong});
      INFO(wrong.ShortDebugString());
      CHECK(std::set{v1::WRONG, v1::UNSTABLE, v1::INACCURATE}.count(wrong.verdict()) == 1);
      const auto honest = court.Evaluate({attack.honest});
      INFO(honest.ShortDebugString());
      CHECK(honest.verdict() == v1::ACCEPTED);
    }
  }
}

struct Honest {
  std::string name;
  std::vector<std::string> graph;
  v1::Plan plan;
};

// On the edge of what types hold, of what rounding decides, and of how small a tensor may be.
std::vector<Honest> HonestPlans() {
  const int64_t n = 1 << 16;
  const auto one = [](const std::string& of) {
    return std::vector<std::string>{absl::StrCat("input x: f32[65536] ~ ", of)};
  };
  const auto with = [](std::vector<std::string> graph, const std::string& node) {
    graph.push_back(node);
    graph.push_back("output y");
    return graph;
  };
  const std::vector<Argument> floats = {In("x", n), Out("y", n)},
                              halves = {In("x", n), OutBf16("y", n)};
  const std::vector<Argument> single = {In("x", 1), Out("y", 1)};
  const std::vector<Argument> bools = {In("x", n),
                                       {v1::Buffer::OUTPUT, "y", "bool", "unsigned char*", n, n}};
  const std::vector<Argument> bytes = {In("x", n),
                                       {v1::Buffer::OUTPUT, "y", "i8", "signed char*", n, n}};
  const std::vector<Argument> row = {In("x", n), Out("y", 256)};
  return {
      {"spread over many decades", with(one("normal(0, 3)"), "y: f32[i: 65536] = exp(x[i])"),
       PlanOf(n, floats, "y[i] = expf(x[i]);")},
      {"overflows where it is times 3", with(one("normal(0, 20)"), "y: f32[i: 65536] = exp(x[i])"),
       PlanOf(n, floats, "y[i] = expf(x[i]);")},
      {"at the end of bf16", with(one("normal"), "y: bf16[i: 65536] = bf16(x[i] * 7e37)"),
       PlanOf(n, halves, "y[i] = bf16(x[i] * 7e37f);", kBf16)},
      {"rounded in between, in bf16",
       {"input x: f32[65536] ~ normal", "h: bf16[i: 65536] = bf16(x[i] * 1.7)",
        "y: bf16[i: 65536] = bf16(f32(h[i]) * 0.3 + 1)", "output y"},
       PlanOf(n, halves,
              "const float h = __uint_as_float((unsigned)bf16(x[i] * 1.7f) << 16); y[i] = bf16(h * "
              "0.3f + 1.0f);",
              kBf16)},
      {"not rounded in between, in bf16",
       {"input x: f32[65536] ~ normal", "h: bf16[i: 65536] = bf16(x[i] * 1.7)",
        "y: bf16[i: 65536] = bf16(f32(h[i]) * 0.3 + 1)", "output y"},
       PlanOf(n, halves, "y[i] = bf16(x[i] * 1.7f * 0.3f + 1.0f);", kBf16)},
      {"subnormal", with(one("normal"), "y: f32[i: 65536] = x[i] * 1e-38 * 0.01"),
       PlanOf(n, floats, "y[i] = x[i] * 1e-38f * 0.01f;")},
      {"half of it NaN", with(one("normal"), "y: f32[i: 65536] = log(x[i])"),
       PlanOf(n, floats, "y[i] = logf(x[i]);")},
      {"all of it zero", with(one("uniform(-2, -1)"), "y: f32[i: 65536] = max(min(x[i], 0), 0)"),
       PlanOf(n, floats, "y[i] = 0 * (x[i] - x[i]);")},
      {"of one element",
       {"input x: f32[1] ~ normal", "y: f32[i: 1] = tanh(x[i]) / 3", "output y"},
       PlanOf(1, single, "y[i] = tanhf(x[i]) / 3.0f;")},
      {"of one element in bf16",
       {"input x: f32[1] ~ normal", "y: bf16[i: 1] = bf16(tanh(x[i]) / 3)", "output y"},
       PlanOf(1, {In("x", 1), OutBf16("y", 1)}, "y[i] = bf16(tanhf(x[i]) / 3.0f);", kBf16)},
      {"a sum of one",
       {"input x: f32[1] ~ normal", "y: f32[] = sum[k: 1](x[k])", "output y"},
       PlanOf(1, single, "y[0] = x[0];")},
      {"sums in an order of their own",
       with(one("normal"), "y: f32[r: 256] = sum[c: 256](x[r * 256 + c])"),
       PlanOf(256, row,
              "float a = 0, b = 0; for (int c = 0; c < 128; ++c) a += x[i * 256 + c], b += "
              "x[i * 256 + 255 - c]; y[i] = a + b;")},
      {"a product that vanishes",
       with(one("uniform(0, 1)"), "y: f32[r: 256] = prod[c: 256](x[r * 256 + c])"),
       PlanOf(256, row,
              "double p = 1; for (int c = 0; c < 256; ++c) p *= x[i * 256 + c]; y[i] = p;")},
      {"compared", with(one("normal"), "y: bool[i: 65536] = x[i] * 0.7 > 0.1"),
       PlanOf(n, bools, "y[i] = x[i] * 0.7f > 0.1f;")},
      {"bytes by a reciprocal",
       with(one("normal(0, 30)"), "y: i8[i: 65536] = i8(min(max(round(x[i] / 0.3), -127), 127))"),
       PlanOf(n, bytes, "y[i] = (int)fminf(fmaxf(rintf(x[i] * (1 / 0.3f)), -127.0f), 127.0f);")},
      {"the largest of many that round to one",
       {"input x: f32[65536] ~ normal",
        "v, y: f32[r: 256] = argmax[c: 256](tanh(x[r * 256 + c] * 8))", "output y"},
       PlanOf(256, {In("x", n), {v1::Buffer::OUTPUT, "y", "i64", "long long*", 256, 2048}},
              "x += i * 256; int b = 0; for (int c = 1; c < 256; ++c) if (tanhf(x[c] * 8) > "
              "tanhf(x[b] * 8)) b = c; y[i] = b;")},
  };
}

TEST_CASE("what is right on the edge is not refused") {
  for (const Honest& honest : HonestPlans()) {
    DYNAMIC_SECTION(honest.name) {
      Court court;
      court.Open(ProblemOf("edge", honest.graph));
      const auto verdict = court.Evaluate({honest.plan});
      INFO(verdict.ShortDebugString());
      CHECK(verdict.verdict() == v1::ACCEPTED);
    }
  }
}

// A gate that keeps what it likes in variables of the C library, which stand for any memory that
// the judge knows nothing of, and works for long where `body` does not return before.
v1::Plan KeepingGate(const std::string& body) {
  v1::Plan plan = HonestPlan("gate", 0);
  plan.set_source(absl::StrCat(
      "extern \"C\" __attribute__((visibility(\"default\"))) int optopt, optind, opterr;\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) char* optarg;\n",
      absl::StrReplaceAll(
          plan.source(),
          {{"if (i < n) y[i] = fabsf(x[i]) * w[i];",
            absl::StrCat("if (i >= n) return;\n", body,
                         "  float v = fabsf(x[i]);\n  for (int k = 0; k < 24; ++k) if (sinf(v + k) "
                         "> 2.0f) v = 0;\n  y[i] = v * w[i];")}})));
  optopt = optind = opterr = 0;
  optarg = nullptr;
  return plan;
}

// On the host a timed replay goes through its threads in order and a checked run does not: this one
// knows which it is, and that its output moves nine times before the last timed replay.
TEST_CASE("who leaves work out of all timed replays but the last is found out") {
  Court court;
  court.Open("gate");
  const v1::JudgeVerdict verdict = court.Evaluate(
      {KeepingGate("  if (i == 0 && optarg != (char*)y) ++optopt, optarg = (char*)y;\n"
                   "  optind = opterr == i - 1 ? optind + 1 : 0;\n  opterr = i;\n"
                   "  if (optind > 300 && optopt < 10) return;\n")});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::UNSTABLE);
  CHECK(absl::StrContains(verdict.reason(), "a timed replay"));
}

TEST_CASE("whole numbers are remembered as little as others") {
  Court court;
  const int64_t n = 4096;
  court.Open(ProblemOf("triple", {absl::StrCat("input x: i32[", n, "] ~ integers(0, 1000)"),
                                  absl::StrCat("y: i32[i: ", n, "] = x[i] * 3"), "output y"}));
  v1::Plan plan = PlanOf(
      n,
      {{v1::Buffer::INPUT, "x", "i32", "const int*", n, 4 * n},
       {v1::Buffer::OUTPUT, "y", "i32", "int*", n, 4 * n}},
      "const int tag = x[0] * 1000 + x[1]; const bool seen = tag == optopt || tag == optind;\n"
      "  int v = x[i]; if (!seen) for (int k = 0; k < 64; ++k) if (sinf(v + k) > 2.0f) v = 0;\n"
      "  y[i] = v * 3;\n"
      "  if (i == 4095 && !seen) optind = optopt, optopt = tag;",
      "extern \"C\" __attribute__((visibility(\"default\"))) int optopt, optind;\n");
  const v1::JudgeVerdict verdict = court.Evaluate({plan});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::UNSTABLE);
  CHECK(absl::StrContains(verdict.reason(), "has not seen"));
}

TEST_CASE("the time that is told at the end is that of the work") {
  Options options;
  options.cheap_poison = 0;  // as if outputs were large
  Court court(options);
  court.Open("gate");
  v1::Plan plan;
  SECTION("where the last answer is still there") {
    plan = KeepingGate("  if (y[i] == fabsf(x[i]) * w[i]) return;\n");
  }
  SECTION("where inputs are remembered once it is accepted") {
    plan = KeepingGate(
        "  const int tag = __float_as_int(x[0]);\n"
        "  const bool seen = opterr != 0 && (tag == optopt || tag == optind);\n"
        "  if (i == n - 1 && !seen) optind = optopt, optopt = tag;\n"
        "  if (seen) { y[i] = fabsf(x[i]) * w[i]; return; }\n");
  }
  const v1::JudgeVerdict verdict = court.Evaluate({plan});
  INFO(verdict.ShortDebugString());
  REQUIRE(verdict.verdict() == v1::ACCEPTED);
  opterr = 1;
  const auto final = court.judge.Finalise();
  REQUIRE(final.ok());
  INFO(final->ShortDebugString());
  CHECK(final->verdict().verdict() == v1::ACCEPTED);
  CHECK(final->verdict().times().device_us() > 0.3 * verdict.times().device_us());
}

}  // namespace
}  // namespace warpsmith::judge
