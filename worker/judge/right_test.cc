// Which answers are right.
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "worker/judge/court.h"

namespace warpsmith::judge {
namespace {

// y = 2x, for two sizes.
v1::Problem Doubling() {
  v1::Problem problem;
  problem.set_name("doubling");
  for (const char* line : {"input x: f32[N] ~ normal", "y: f32[i: N] = x[i] * 2", "output y"}) {
    problem.add_graph(line);
  }
  for (int64_t n : {1000, 3000}) {
    v1::Workload* workload = problem.add_workloads();
    workload->set_name(absl::StrCat("n", n));
    (*workload->mutable_dims())["N"] = n;
  }
  return problem;
}

TEST_CASE("a plan is right only if it is for every workload") {
  Court court;
  v1::JudgeOpen open;
  *open.mutable_problem() = Doubling();
  court.Open(open);
  CHECK(court.Evaluate({DoublingPlan(1000, "2.0f")}).verdict() == v1::REFUSED);
  v1::JudgeVerdict wrong = court.Evaluate({DoublingPlan(1000, "2.0f"), DoublingPlan(3000, "2.5f")});
  CHECK(wrong.verdict() == v1::WRONG);
  CHECK(absl::StrContains(wrong.reason(), "workload 'n3000'"));
  CHECK(absl::StrContains(wrong.reason(), "output 'y'"));
  CHECK(absl::StrContains(wrong.reason(), "at [0]"));
  CHECK(court.Evaluate({DoublingPlan(1000, "2.0f"), DoublingPlan(3000, "2.0f")}).verdict() ==
        v1::ACCEPTED);
}

TEST_CASE("what is rounded to a byte may be its neighbour where rounding decides, and rarely") {
  Court court;
  court.Open(ProblemOf(
      "quantise", {"input x: f32[4096] ~ normal(0, 30)",
                   "q: i8[i: 4096] = i8(min(max(round(x[i] / 0.3), -127), 127))", "output q"}));
  const auto plan = [](const std::string& value) {
    v1::Plan quantise = DoublingPlan(4096, "2.0f");
    quantise.mutable_buffers(1)->set_tensor("q");
    quantise.mutable_buffers(1)->set_dtype("i8");
    quantise.mutable_buffers(1)->set_bytes(4096);
    quantise.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, signed char* q) { int i = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (i >= 4096) return; float v = rintf(x[i] / "
        "0.3f); v = v < -127.0f ? -127.0f : v > 127.0f ? 127.0f : v; int c = (int)v; q[i] = ",
        value, "; }"));
    return quantise;
  };
  const auto often = court.Evaluate({plan("c == 5 ? 4 : c")});
  CHECK(often.verdict() == v1::WRONG);
  CHECK(absl::StrContains(often.reason(), "off by one"));
  CHECK(court.Evaluate({plan("i == 9 ? (c > 0 ? c - 2 : c + 2) : c")}).verdict() == v1::WRONG);
  const auto rarely = court.Evaluate({plan("i == 9 ? (c > 0 ? c - 1 : c + 1) : c")});
  INFO(rarely.reason());
  CHECK(rarely.verdict() == v1::ACCEPTED);
}

TEST_CASE("a state that is updated with what is rounded to a byte may be its neighbour, too") {
  Court court;
  court.Open(ProblemOf("kept", {"input x: f32[4096] ~ normal(0, 30)",
                                "state q: i8[4096] ~ integers(-9, 9)", "y: f32[i: 4096] = x[i] * 2",
                                "n: i8[i: 4096] = i8(min(max(round(x[i] / 0.3), -127), 127))",
                                "output y", "update q = n"}));
  const auto plan = [](const std::string& value) {
    v1::Plan kept = DoublingPlan(4096, "2.0f");
    AddState("q", "i8", 4096, 4096, kept);
    kept.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, float* y, signed char* q) { int i "
        "= blockIdx.x * blockDim.x + threadIdx.x; if (i >= 4096) return; y[i] = x[i] * 2.0f; float "
        "v = rintf(x[i] / 0.3f); v = v < -127.0f ? -127.0f : v > 127.0f ? 127.0f : v; int c = "
        "(int)v; q[i] = ",
        value, "; }"));
    return kept;
  };
  const auto often = court.Evaluate({plan("c == 5 ? 4 : c")});
  CHECK(often.verdict() == v1::WRONG);
  CHECK(absl::StrContains(often.reason(), "state 'q'"));
  CHECK(absl::StrContains(often.reason(), "off by one"));
  const auto rarely = court.Evaluate({plan("i == 9 ? (c > 0 ? c - 1 : c + 1) : c")});
  INFO(rarely.reason());
  CHECK(rarely.verdict() == v1::ACCEPTED);
}

TEST_CASE("an index that a state is updated with is judged by the value it points at, too") {
  Court court;
  court.Open(ProblemOf(
      "crest", {"input x: f32[8, 4096] ~ normal", "state at: i64[8] ~ constant(0)",
                "v, i: f32[r: 8] = argmax[c: 4096](sin(x[r, c]))", "output v", "update at = i"}));
  // The last whose value is within so much of the largest.
  const auto plan = [](const std::string& within) {
    v1::Plan crest = DoublingPlan(8, "2.0f");
    crest.mutable_buffers(0)->set_bytes(4 * 8 * 4096);
    crest.mutable_buffers(1)->set_tensor("v");
    AddState("at", "i64", 8, 64, crest);
    crest.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, float* v, long long* at) { int r = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (r >= 8) return; x += r * 4096; float m = "
        "sinf(x[0]); for (int c = 1; c < 4096; ++c) if (sinf(x[c]) > m) m = sinf(x[c]); for (int c "
        "= 0; c < 4096; ++c) if (sinf(x[c]) >= m - m * ",
        within, ") at[r] = c; v[r] = m; }"));
    return crest;
  };
  const auto far = court.Evaluate({plan("1e-2f")});
  CHECK(far.verdict() == v1::WRONG);
  CHECK(absl::StrContains(far.reason(), "state 'at'"));
  CHECK(absl::StrContains(far.reason(), "the value they point at"));
  const auto near = court.Evaluate({plan("3e-7f")});
  INFO(near.reason());
  CHECK(near.verdict() == v1::ACCEPTED);
}

TEST_CASE("on other inputs an answer of 16 bits may round the other way") {
  Court court;
  court.Open(ProblemOf("third", {"input x: f32[4096] ~ normal",
                                 "y: bf16[i: 4096] = bf16(x[i] * 0.3333333)", "output y"}));
  // Rounds x by fp32's bits: a little more makes some round up that the reference rounds down.
  const auto plan = [](const std::string& factor) {
    v1::Plan third = DoublingPlan(4096, "2.0f");
    third.mutable_buffers(1)->set_dtype("bf16");
    third.mutable_buffers(1)->set_bytes(8192);
    third.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, unsigned short* y) { int i = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (i >= 4096) return; float v = x[i] * 0.3333333f "
        "* ",
        factor,
        "; unsigned u = __float_as_uint(v); y[i] = (unsigned short)((u + 0x7fffu + ((u >> 16) & "
        "1u)) >> 16); }"));
    return third;
  };
  const auto near = court.Evaluate({plan("1.0003f")});
  INFO(near.reason());
  CHECK(near.verdict() == v1::ACCEPTED);
  const auto far = court.Evaluate({plan("1.03f")});
  INFO(far.reason());
  CHECK(far.verdict() != v1::ACCEPTED);
  CHECK(far.verdict() != v1::SLOWER);
}

// An answer that is off by `parts` of its rms, a part for each element.
absl::StatusOr<std::vector<float>> PutOff(device::Device& device, device::Memory& memory,
                                          const std::function<double(size_t i)>& parts) {
  std::vector<float> values(memory.bytes() / sizeof(float));
  if (auto status = device.Read(memory, values.data(), memory.bytes()); !status.ok()) return status;
  double squares = 0;
  for (float value : values) squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(parts(i) * rms);
  if (auto status = device.Write(memory, values.data(), memory.bytes()); !status.ok())
    return status;
  return values;
}

// A module whose answers are off by up to `errors` of their rms, one each, and known to be; on one
// kind of data alone, where that is given.
class Rough : public oracle::Oracle {
 public:
  Rough(std::unique_ptr<oracle::Oracle> oracle, std::vector<double> errors,
        std::optional<oracle::Variation> where = std::nullopt)
      : oracle_(std::move(oracle)), errors_(std::move(errors)), where_(where) {}
  std::string name() const override { return "rough"; }
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    auto drawn = oracle_->Draw(device, seed, variation);
    if (!drawn.ok() || variation != where_.value_or(variation)) return drawn;
    drawn->reference.clear();
    for (size_t a = 0; a < errors_.size(); ++a) {
      const auto values =
          PutOff(device, *drawn->answers[a], [&](size_t i) { return errors_[a] * std::sin(i); });
      if (!values.ok()) return values.status();
      drawn->reference.push_back({errors_[a], errors_[a] / 2, errors_[a]});
      drawn->whole.Add(drawn->reference.back());
      for (size_t i = 0; i < drawn->sample[a].size(); ++i)
        drawn->rounded[a][i] = (*values)[drawn->sample[a][i]];
    }
    return drawn;
  }
  int64_t WorkingBytes() const override { return oracle_->WorkingBytes(); }
  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) override {
    return oracle_->TimeBaselines(device);
  }

 private:
  const std::unique_ptr<oracle::Oracle> oracle_;
  const std::vector<double> errors_;
  const std::optional<oracle::Variation> where_;
};

// A sum in an exponent leaves more of it than is allowed, whoever adds it up.
TEST_CASE("on other data nobody has to be nearer to the reference than that is to the truth") {
  // What only such data has may be too far from the truth, too.
  const bool exact = GENERATE(true, false);
  const auto where = GENERATE(oracle::Variation::kDense, oracle::Variation::kTimes3);
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Rough>(std::move(native), std::vector{5e-3}, where);
  });
  court.Open(ProblemOf("rough", {"input x: f32[100000] ~ uniform(0, 1)",
                                 "y: f32[i: 100000] = x[i] * 2", "output y"}));
  v1::Plan twice = DoublingPlan(100000, "2.0f");
  twice.set_source(absl::StrCat(
      "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
      "blockDim.x + threadIdx.x; if (i < 100000) y[i] = x[i] * (x[i] > 2.0f ? ",
      exact ? "2.0f" : "2.03f", " : 2.0f); }"));
  const auto verdict = court.Evaluate({twice});
  INFO(verdict.reason());
  CHECK(verdict.verdict() == (exact ? v1::ACCEPTED : v1::WRONG));
}

// On wide data a few elements may be further off than a sample shows; of one far off, nobody knows
// whether it is the reference's or the candidate's unless the truth was asked for all of them.
class FarInOnePlace : public Rough {
 public:
  FarInOnePlace(std::unique_ptr<oracle::Oracle> oracle, bool looked)
      : Rough(std::move(oracle), {1e-7}, oracle::Variation::kWide), looked_(looked) {}
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    auto drawn = Rough::Draw(device, seed, variation);
    if (!drawn.ok() || variation != oracle::Variation::kWide) return drawn;
    const std::set<int64_t> sample(drawn->sample[0].begin(), drawn->sample[0].end());
    size_t place = 0;
    while (sample.count(static_cast<int64_t>(place)) > 0) ++place;
    const auto values =
        PutOff(device, *drawn->answers[0], [&](size_t i) { return i == place ? 0.5 : 0.0; });
    if (!values.ok()) return values.status();
    if (place >= values->size()) return absl::InternalError("the sample is everything");
    if (looked_) drawn->farthest = {0.5};
    return drawn;
  }

 private:
  const bool looked_;
};

TEST_CASE("on wide data the reference may be far off where the sample is not") {
  const bool looked = GENERATE(true, false), exact = GENERATE(true, false);
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<FarInOnePlace>(std::move(native), looked);
  });
  court.Open(ProblemOf(
      "far", {"input x: f32[200000] ~ uniform(0, 1)", "y: f32[i: 200000] = x[i] * 2", "output y"}));
  // What is far off by itself on such data is so at the sample, too.
  v1::Plan twice = DoublingPlan(200000, "2.0f");
  twice.set_source(absl::StrCat(
      "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
      "blockDim.x + threadIdx.x; if (i < 200000) y[i] = x[i] * (x[i] > 20.0f ? ",
      exact ? "2.0f" : "2.2f", " : 2.0f); }"));
  const auto verdict = court.Evaluate({twice});
  INFO(verdict.reason());
  CHECK((verdict.verdict() == v1::ACCEPTED) == (looked && exact));
}

// An answer that is zero but in a few places, where its rms says little of what it is made of.
TEST_CASE("with new weights nobody has to be nearer to the reference than that is to the truth") {
  const bool exact = GENERATE(true, false);
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Rough>(std::move(native), std::vector{5e-3},
                                   oracle::Variation::kNewWeights);
  });
  court.Open(ProblemOf(
      "rough", {"input x: f32[100000] ~ uniform(0, 1)", "param w: f32[100000] ~ uniform(0, 1)",
                "y: f32[i: 100000] = x[i] * w[i]", "output y"}));
  v1::Plan plan = DoublingPlan(100000, "2.0f");
  v1::Buffer weights = plan.buffers(0);
  weights.set_kind(v1::Buffer::PARAM);
  weights.set_tensor("w");
  plan.mutable_buffers()->Add()->Swap(&weights);
  plan.mutable_buffers()->SwapElements(1, 2);  // x, w, y
  plan.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(2);
  plan.set_source(absl::StrCat(
      "extern \"C\" __global__ void candidate(const float* x, const float* w, float* y) { int i = "
      "blockIdx.x * blockDim.x + threadIdx.x; if (i < 100000) y[i] = x[i] * w[i] * (w[i] > 1.0f ? ",
      exact ? "1.0f" : "1.03f", " : 1.0f); }"));
  const auto verdict = court.Evaluate({plan});
  INFO(verdict.reason());
  CHECK(verdict.verdict() == (exact ? v1::ACCEPTED : v1::WRONG));
}

TEST_CASE("who asks for the tolerance alone has it on other inputs, too") {
  const bool asked = GENERATE(true, false);
  Court court;
  v1::JudgeOpen open = ProblemOf(
      "rough", {"input x: f32[100000] ~ normal", "y: f32[i: 100000] = x[i] * 2", "output y"});
  v1::AccuracyRule& accuracy = *open.mutable_problem()->mutable_accuracy();
  accuracy.set_absolute(0.05);
  accuracy.set_relative(0.05);
  accuracy.set_tolerance_only(asked);
  court.Open(open);
  const auto verdict = court.Evaluate({DoublingPlan(100000, "2.04f")});
  INFO(verdict.reason());
  CHECK((verdict.verdict() == v1::ACCEPTED) == asked);
  if (asked) {
    const auto far = court.Evaluate({DoublingPlan(100000, "2.4f")});
    INFO(far.reason());
    CHECK(far.verdict() == v1::WRONG);
  }
}

TEST_CASE("who is nearer to the truth than the reference may miss the tolerance with it") {
  const double error = GENERATE(1e-3, 1e-6);  // of answers around 1, tolerance 1e-4
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Rough>(std::move(native), std::vector{error});
  });
  court.Open(ProblemOf(
      "rough", {"input x: f32[100000] ~ normal", "y: f32[i: 100000] = x[i] * 2", "output y"}));
  const auto plan = [](const std::string& value) {
    v1::Plan twice = DoublingPlan(100000, "2.0f");
    twice.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
        "blockDim.x + threadIdx.x; if (i < 100000) y[i] = ",
        value, "; }"));
    return twice;
  };
  const auto exact = court.Evaluate({plan("x[i] * 2.0f")});
  INFO(exact.reason());
  CHECK(exact.verdict() == v1::ACCEPTED);
  // As far off as the reference, in another direction, is further from the truth in places.
  CHECK(court.Evaluate({plan("x[i] * 2.004f")}).verdict() == v1::WRONG);
  // One element, where no sample may have looked.
  CHECK(court.Evaluate({plan("x[i] * 2.0f + (i == 77777 ? 0.01f : 0.0f)")}).verdict() == v1::WRONG);
}

TEST_CASE("who misses the tolerance with the reference may have the largest error by chance") {
  const double other = GENERATE(1e-2, 1e-4);  // the reference's error of another answer
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Rough>(std::move(native), std::vector{1e-3, other});
  });
  court.Open(ProblemOf("rough", {"input x: f32[100000] ~ normal", "y: f32[i: 100000] = x[i] * 2",
                                 "z: f32[i: 100000] = x[i] * 4", "output y", "output z"}));
  // An error of y, the reference's being sin(i), and another one at one of so many elements; on
  // data of the problem's size.
  const auto verdict = [&](const std::string& error, const std::string& most, int one_of) {
    v1::Plan twice = DoublingPlan(100000, "2.0f");
    v1::Buffer& z = *twice.add_buffers();
    z = twice.buffers(1);
    z.set_tensor("z");
    twice.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(2);
    twice.set_source(absl::StrFormat(
        "extern \"C\" __global__ void candidate(const float* x, float* y, float* z) { int i = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (i >= 100000) return; float size = 0.0f; for "
        "(int j = 0; j < 256; ++j) size += fabsf(x[j]) / 204.8f; bool own = size > 0.7f && size < "
        "1.3f; y[i] = x[i] * 2.0f + (own ? 0.002f * (i %% %d == 0 ? %s : %s) : 0.0f); z[i] = x[i] "
        "* 4.0f; }",
        one_of, most, error));
    const auto answer = court.Evaluate({twice});
    UNSCOPED_INFO(answer.reason());
    return answer.verdict();
  };
  CHECK(verdict("0.6f * sinf(i)", "1.4f", 20000) == v1::ACCEPTED);
  CHECK(verdict("0.6f * sinf(i)", "1.4f", 1000) == v1::WRONG);   // too many
  CHECK(verdict("0.6f * sinf(i)", "2.2f", 20000) == v1::WRONG);  // too far
  CHECK(verdict("0.85f", "1.4f", 20000) == v1::WRONG);           // further on the whole
  // As near on the whole: if the reference is as far off elsewhere.
  const auto near = verdict("0.705f", "1.4f", 20000);
  CHECK((near == v1::WRONG) == (other < 1e-3));
}

std::unique_ptr<oracle::Oracle> MakeRough(std::unique_ptr<oracle::Oracle> native) {
  return std::make_unique<Rough>(std::move(native), std::vector{1e-3});
}

// Whose errors are within the tolerance.
std::unique_ptr<oracle::Oracle> MakeNearlyRough(std::unique_ptr<oracle::Oracle> native) {
  return std::make_unique<Rough>(std::move(native), std::vector{1.4e-4});
}

v1::JudgeOpen RoughProblem(int64_t elements, double most = 1.01) {
  const std::string n = absl::StrCat(elements);
  return ProblemOf("rough", {absl::StrFormat("input x: f32[%s] ~ uniform(0.99, %f)", n, most),
                             absl::StrCat("y: f32[i: ", n, "] = x[i] * 2"), "output y"});
}

// Of MakeRough's reference, whose errors are sin(i): a candidate with others, on data of the
// problem's own. `error`: C of i and x; `turns` make it slow.
v1::Plan OffBy(int64_t elements, const std::string& error, int turns) {
  v1::Plan twice = DoublingPlan(elements, "2.0f");
  twice.set_source(absl::StrFormat(
      "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
      "blockDim.x + threadIdx.x; if (i >= %d) return; float size = 0.0f; for (int j = 0; j < 16; "
      "++j) size += fabsf(x[j]) / 16.0f; bool own = size > 0.9f && size < 1.1f; for (int j = 0; j "
      "< "
      "%d; ++j) size += sqrtf(size); y[i] = x[i] * 2.0f + (own ? 0.002f * (%s) : 0.0f) + (size < "
      "0.0f ? 1.0f : 0.0f); }",
      elements, turns, error));
  return twice;
}

TEST_CASE("who is right by chance gives way to who is nearer to the truth and little slower") {
  Court court({}, &MakeRough);
  court.Open(RoughProblem(100000));
  const auto verdict = [&](const std::string& error, int turns) {
    return court.Evaluate({OffBy(100000, error, turns)});
  };
  const auto even = verdict("0.999f * sinf(i + 1.0f)", 400);
  INFO(even.reason());
  REQUIRE(even.verdict() == v1::ACCEPTED);
  CHECK(even.accuracy().even());
  const auto nearer = verdict("0.1f * sinf(i)", 400);
  INFO(nearer.reason());
  CHECK(nearer.verdict() == v1::ACCEPTED);  // no faster
  CHECK_FALSE(nearer.accuracy().even());
  const auto again = verdict("0.998f * sinf(i + 1.0f)", 390);
  INFO(again.reason());
  CHECK(again.verdict() == v1::SLOWER);
  const auto quick = verdict("0.999f * sinf(i + 1.0f)", 0);
  INFO(quick.reason());
  CHECK(quick.verdict() == v1::ACCEPTED);  // by far
}

TEST_CASE("who is right by chance gives way to who misses nothing where it missed") {
  Court court({}, &MakeRough);
  court.Open(RoughProblem(100000));
  const auto verdict = [&](const std::string& error, int turns) {
    return court.Evaluate({OffBy(100000, error, turns)});
  };
  REQUIRE(verdict("0.999f * sinf(i + 1.0f)", 400).accuracy().even());
  const auto same = verdict("sinf(i)", 400);  // as the reference has it
  INFO(same.reason());
  CHECK(same.verdict() == v1::ACCEPTED);  // no faster, and no nearer to the truth
  CHECK_FALSE(same.accuracy().even());
  const auto again = verdict("0.998f * sinf(i + 1.0f)", 390);
  INFO(again.reason());
  CHECK(again.verdict() == v1::SLOWER);
}

TEST_CASE("who nearly misses the tolerance gives way to who keeps to the reference") {
  Court court({}, &MakeRough);
  court.Open(RoughProblem(20000));
  const auto verdict = [&](const std::string& error, int turns) {
    return court.Evaluate({OffBy(20000, error, turns)});
  };
  const auto strays = verdict("sinf(i) + 0.1f * cosf(i)", 400);  // two thirds of the tolerance
  INFO(strays.reason());
  REQUIRE(strays.verdict() == v1::ACCEPTED);
  CHECK_FALSE(strays.accuracy().even());
  const auto same = verdict("sinf(i)", 400);
  INFO(same.reason());
  CHECK(same.verdict() == v1::ACCEPTED);  // no faster
  CHECK(absl::StrContains(same.reason(), "the incumbent strays from the reference"));
  const auto again = verdict("sinf(i) + 0.11f * cosf(i)", 390);
  INFO(again.reason());
  CHECK(again.verdict() == v1::SLOWER);
  const auto quick = verdict("sinf(i) + 0.1f * cosf(i)", 0);
  INFO(quick.reason());
  CHECK(quick.verdict() == v1::ACCEPTED);  // by far
}

TEST_CASE("who strays from the reference to the truth gives way to nobody who is further from it") {
  Court court({}, &MakeNearlyRough);
  court.Open(RoughProblem(20000));
  const auto verdict = [&](const std::string& error, int turns) {
    return court.Evaluate({OffBy(20000, error, turns)});
  };
  REQUIRE(verdict("0.0f", 400).verdict() == v1::ACCEPTED);
  const auto same = verdict("0.14f * sinf(i)", 400);  // as the reference has it
  INFO(same.reason());
  CHECK(same.verdict() == v1::SLOWER);
  CHECK_FALSE(absl::StrContains(same.reason(), "strays"));
}

TEST_CASE("who has the larger of two largest errors is not said to be nearer to the truth") {
  Court court({}, &MakeRough);
  const auto is_even = [&](const std::string& fifth) {
    court.Open(RoughProblem(4096));
    const v1::JudgeVerdict verdict =
        court.Evaluate({OffBy(4096, absl::StrCat("i == 5 ? ", fifth, " : 0.1f * sinf(i)"), 0)});
    INFO(verdict.reason());
    REQUIRE(verdict.verdict() == v1::ACCEPTED);
    return verdict.accuracy().even();
  };
  CHECK_FALSE(is_even("0.9f"));
  CHECK(is_even("1.05f"));
}

TEST_CASE("how near to the truth the same answers are is known from one candidate to the next") {
  Options redraws;
  redraws.redraw_after = 0;  // so that the incumbent has not met what the next one meets first
  Court courts[] = {Court({}, &MakeRough), Court(redraws, &MakeRough)};
  constexpr int kTries = 24;
  int chances = 0;
  for (int salt = 0; salt < kTries; ++salt) {
    Court& court = courts[salt % 2];
    court.Open(RoughProblem(4096, 1.01 + 1e-4 * salt));
    // As near to the truth as the reference in one draw of five, nearer in the others.
    const auto verdict = [&](int turns) {
      return court.Evaluate({OffBy(4096,
                                   "__float_as_uint(x[0]) * 2654435761u % 5u == 0u ? 0.999f * "
                                   "sinf(i + 1.0f) : 0.1f * sinf(i)",
                                   turns)});
    };
    const auto first = verdict(200);
    INFO(first.reason());
    if (first.verdict() != v1::ACCEPTED || !first.accuracy().even()) continue;
    const auto alike = verdict(0);
    INFO(alike.reason());
    if (alike.verdict() != v1::ACCEPTED) continue;
    ++chances;
    CHECK(alike.accuracy().even());
  }
  CHECK(chances > kTries / 8);  // by its own draws one of several would be told otherwise
}

// Of a million places a sample has 65,536: where the first one misses the tolerance, and the second
// one does not, is most likely not among them.
TEST_CASE("who differs at one place is not the same") {
  Court court({}, &MakeRough);
  court.Open(RoughProblem(1 << 20));
  const auto is_even = [&](const std::string& error, int turns) {
    const v1::JudgeVerdict verdict = court.Evaluate({OffBy(1 << 20, error, turns)});
    INFO(verdict.reason());
    REQUIRE(verdict.verdict() == v1::ACCEPTED);
    return verdict.accuracy().even();
  };
  CHECK(is_even("i == 777777 ? -sinf(i) : sinf(i)", 40));
  CHECK_FALSE(is_even("sinf(i)", 0));
}

// A module whose one answer, of bf16, is off by a step everywhere, away from zero, and known to be.
class AStepOff : public oracle::Oracle {
 public:
  // `told`: whether the truth is known at all.
  explicit AStepOff(std::unique_ptr<oracle::Oracle> oracle, bool told = true)
      : oracle_(std::move(oracle)), told_(told) {}
  std::string name() const override { return "a step off"; }
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    auto drawn = oracle_->Draw(device, seed, variation);
    if (!drawn.ok()) return drawn;
    device::Memory& memory = *drawn->answers[0];
    std::vector<uint16_t> bits(memory.bytes() / sizeof(uint16_t));
    if (auto s = device.Read(memory, bits.data(), memory.bytes()); !s.ok()) return s;
    const auto value = [&](size_t i) { return absl::bit_cast<float>(uint32_t{bits[i]} << 16); };
    double largest = 0, squares = 0, of_errors = 0;
    for (size_t i = 0; i < bits.size(); ++i) {
      const double before = value(i);
      ++bits[i];
      const double off = std::abs(value(i) - before);
      largest = std::max(largest, off);
      squares += before * before;
      of_errors += off * off;
    }
    if (auto s = device.Write(memory, bits.data(), memory.bytes()); !s.ok()) return s;
    const double rms = std::sqrt(squares / static_cast<double>(bits.size()));
    drawn->reference = {{largest / rms, std::sqrt(of_errors / squares), largest / rms}};
    drawn->whole.Add(drawn->reference.back());
    for (size_t i = 0; i < drawn->sample[0].size(); ++i)
      drawn->rounded[0][i] = value(drawn->sample[0][i]);
    if (!told_) drawn->exact[0].clear();
    return drawn;
  }
  int64_t WorkingBytes() const override { return oracle_->WorkingBytes(); }
  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) override {
    return oracle_->TimeBaselines(device);
  }

 private:
  const std::unique_ptr<oracle::Oracle> oracle_;
  const bool told_;
};

TEST_CASE("of bf16 it is told who is beyond the common tolerance by chance") {
  const bool told = GENERATE(true, false);
  Court court({}, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<AStepOff>(std::move(native), told);
  });
  court.Open(ProblemOf(
      "twice", {"input x: f32[65536] ~ normal", "y: bf16[i: 65536] = bf16(x[i] * 2)", "output y"}));
  // So many steps towards zero: with one, two from the reference, which our tolerance allows.
  const auto verdict = [&](int steps) {
    v1::Plan plan = DoublingPlan(65536, "2.0f");
    plan.mutable_buffers(1)->set_dtype("bf16");
    plan.mutable_buffers(1)->set_bytes(2 * 65536);
    plan.set_source(absl::StrCat(
        "extern \"C\" __global__ void candidate(const float* x, unsigned short* y) { int i = "
        "blockIdx.x * blockDim.x + threadIdx.x; if (i >= 65536) return; unsigned u = "
        "__float_as_uint(x[i] * 2.0f); y[i] = (unsigned short)(((u + 0x7fffu + ((u >> 16) & 1u)) "
        ">> 16) - ",
        steps, "u); }"));
    return court.Evaluate({plan});
  };
  const auto other = verdict(1);
  INFO(other.reason());
  REQUIRE(other.verdict() == v1::ACCEPTED);
  CHECK(other.accuracy().even());
  const auto exact = verdict(0);
  INFO(exact.reason());
  CHECK(exact.verdict() != v1::WRONG);
  CHECK(exact.verdict() != v1::INACCURATE);
  CHECK_FALSE(exact.accuracy().even());
}

TEST_CASE("a state that the problem only reads stays as it is") {
  Court court;
  v1::JudgeOpen open;
  v1::Problem& problem = *open.mutable_problem() = CheatProblem("running");
  problem.mutable_graph()->RemoveLast();  // update mean = next
  court.Open(open);
  v1::JudgeVerdict verdict = court.Evaluate({HonestPlan("running", 0)});  // which updates it
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::WRONG);
  CHECK(absl::StrContains(verdict.reason(), "state 'mean'"));
  v1::Plan reads = HonestPlan("running", 0);
  reads.set_source(
      absl::StrReplaceAll(reads.source(), {{"mean[i] = 0.5f * mean[i] + 0.5f * x[i];", ""}}));
  verdict = court.Evaluate({reads});
  INFO(verdict.ShortDebugString());
  CHECK(verdict.verdict() == v1::ACCEPTED);
}

}  // namespace
}  // namespace warpsmith::judge
