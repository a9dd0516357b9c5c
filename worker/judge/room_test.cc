// How much memory judging takes, and what is done where there is less.
#include "absl/strings/match.h"
#include "worker/judge/court.h"

namespace warpsmith::judge {
namespace {

// A map of many inputs and outputs, beside which all else is small.
v1::JudgeOpen OpenOf(int64_t elements) {
  return ProblemOf("large", {absl::StrCat("input x: f32[", elements, "] ~ normal"),
                             absl::StrCat("y: f32[i: ", elements, "] = x[i] * 2"), "output y"});
}

// Stands for PyTorch's: says what it needs, and notes what it may take. One of its draws fails, the
// `*fails`-th from now (0: the next; -1: none).
class Frugal : public oracle::Oracle {
 public:
  Frugal(std::unique_ptr<oracle::Oracle> oracle, int64_t bytes, Room* room, int* fails)
      : oracle_(std::move(oracle)), bytes_(bytes), room_(room), fails_(fails) {}
  std::string name() const override { return "frugal"; }
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    if (*fails_ >= 0 && (*fails_)-- == 0) {
      return absl::ResourceExhaustedError("the module takes more than it seemed");
    }
    return oracle_->Draw(device, seed, variation);
  }
  int64_t WorkingBytes() const override { return 6 * bytes_; }
  int64_t LeastBytes() const override { return bytes_; }
  int64_t PeakBytes() const override { return 0; }
  void SetRoom(const Room& room) override { *room_ = room; }
  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) override {
    return oracle_->TimeBaselines(device);
  }

 private:
  std::unique_ptr<oracle::Oracle> oracle_;
  const int64_t bytes_;
  Room* const room_;
  int* const fails_;
};

TEST_CASE("what does not fit is refused with the figure before it is allocated") {
  Court court;
  const v1::JudgeOpen open = ProblemOf("huge", {"input x: f32[68719476736] ~ normal",
                                                "y: f32[i: 68719476736] = x[i] + 1", "output y"});
  auto opened = court.judge.Open(open);
  REQUIRE(opened.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(std::string(opened.status().message()), "needs"));
  CHECK(absl::StrContains(std::string(opened.status().message()), "549755813888"));
  court.Open("gate");  // and the judge goes on
}

TEST_CASE("judging takes four times inputs and outputs, and no more under a budget") {
  constexpr int64_t kElements = 1 << 20;
  constexpr int64_t kBytes = 8 * kElements;  // of a case
  Options options;
  options.reserve = 0;
  options.least_workspace = 0;
  oracle::Oracle::Room room;
  int fails = -1;
  Court court(options, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Frugal>(std::move(native), kBytes, &room, &fails);
  });
  REQUIRE_FALSE(court.judge.Open(OpenOf(int64_t{1} << 36)).ok());
  const int64_t own = court.device->allocated_bytes();  // what the judge has for every problem
  auto open = [&](int64_t budget) {
    court.device->LimitMemory(budget == 0 ? 0 : own + budget);
    return court.judge.Open(OpenOf(kElements));
  };
  SECTION("with plenty there are two cases, and the oracle may keep what it has") {
    auto opened = open(0);
    REQUIRE(opened.ok());
    CHECK(opened->needed_bytes() == 2 * kBytes + 3 * kBytes + 6 * kBytes);
    CHECK(room.bytes == 0);
  }
  SECTION("at the least") {
    auto opened = open(4 * kBytes);
    INFO(opened.status());
    REQUIRE(opened.ok());
    CHECK(opened->needed_bytes() == 4 * kBytes);
    CHECK(room.bytes == 3 * kBytes);
    CHECK_FALSE(room.keep);
    // What is said of the workspace holds: that much is taken, a byte more refused.
    REQUIRE(opened->allowance_bytes_size() == 1);
    const int64_t allowance = opened->allowance_bytes(0);
    CHECK(allowance == kBytes + kBytes / 4);
    v1::Plan plan = DoublingPlan(kElements, "2.0f");
    v1::Buffer* workspace = plan.add_buffers();
    workspace->set_kind(v1::Buffer::WORKSPACE);
    workspace->set_tensor("w");
    workspace->set_dtype("f32");
    workspace->add_shape(allowance / 4);
    workspace->set_bytes(allowance);
    CHECK(court.Evaluate({plan}).verdict() == v1::ACCEPTED);
    plan.mutable_buffers(2)->set_bytes(allowance + 4);
    plan.mutable_buffers(2)->set_shape(0, allowance / 4 + 1);
    const v1::JudgeVerdict refused = court.Evaluate({plan});
    CHECK(refused.verdict() == v1::REFUSED);
    CHECK(absl::StrContains(refused.reason(), "workspace"));
    CHECK(court.judge.Finalise().ok());
  }
  SECTION("less is refused, with the figure") {
    auto opened = open(4 * kBytes - 1);
    CHECK(opened.status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(absl::StrContains(std::string(opened.status().message()), absl::StrCat(4 * kBytes)));
  }
}

TEST_CASE("a module that takes more than it seemed gets the room of all but one case") {
  constexpr int64_t kElements = 1 << 12;
  Options options;
  options.reserve = 0;
  options.redraw_after = 0;
  options.quick_draw = absl::Minutes(1);
  options.fresh_seeds = 5;
  options.final_pairs = 1;  // nothing is to come of how long it takes
  oracle::Oracle::Room room;
  // Draws are 2 cases, one that is renewed, 5 variations, and 5 fresh seeds, twice.
  int fails = GENERATE(0, 1, 2, 3, 7, 8, 9, 12, 13, 17);
  INFO("draw " << fails);
  Court court(options, [&](std::unique_ptr<oracle::Oracle> native) {
    return std::make_unique<Frugal>(std::move(native), 8 * kElements, &room, &fails);
  });
  court.Open(OpenOf(kElements));
  const v1::JudgeVerdict verdict = court.Evaluate({DoublingPlan(kElements, "2.0f")});
  INFO(verdict.reason());
  CHECK(verdict.verdict() == v1::ACCEPTED);
  CHECK(court.judge.Finalise().ok());
  CHECK(fails == -1);
  CHECK(room.bytes > 0);
  CHECK_FALSE(room.keep);
}

}  // namespace
}  // namespace warpsmith::judge
