// Indexes of first elements: which rows are right though they are others, and what follows.
#include "worker/judge/places.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/judge/court.h"

namespace warpsmith::judge {
namespace {

constexpr Tolerance kTolerance = {1e-4, 1e-4};

oracle::Ranking RankingOf(std::vector<double> values, bool sorted) {
  oracle::Ranking ranking;
  ranking.elements = std::ssize(values);
  ranking.values = std::move(values);
  ranking.sorted = sorted;
  return ranking;
}

// Of the largest three of one row: "", wrong; "other", right with another element; else where the
// reference's are.
std::string Judged(const oracle::Ranking& ranking, const std::vector<double>& got,
                   const std::vector<double>& want) {
  const auto rows = RightRows(ranking, kTolerance, 3, got, want);
  if (rows.empty()) return "";
  if (rows[0].from.empty()) return "other";
  return absl::StrCat(rows[0].from[0], rows[0].from[1], rows[0].from[2]);
}

TEST_CASE("indexes of first elements are right by what they point at") {
  const double ulp = 1e-7;
  const std::vector<double> values = {5, 1, 4, 4 - 4 * ulp, 3, 3 - 3 * ulp, 3 - 2e-4, 2};
  const oracle::Ranking sorted = RankingOf(values, true), unsorted = RankingOf(values, false);
  const std::vector<double> want = {0, 2, 3};
  CHECK(Judged(sorted, {0, 3, 2}, want) == "021");  // rounding may put them so
  CHECK(Judged(sorted, {2, 0, 3}, want) == "");
  CHECK(Judged(unsorted, {2, 3, 0}, want) == "201");
  CHECK(Judged(unsorted, {0, 3, 4}, want) == "");  // 3 is no 4
  for (const oracle::Ranking& ranking : {sorted, unsorted}) {
    INFO(ranking.sorted);
    CHECK(Judged(ranking, {0, 2, 2}, want) == "");  // one twice
    CHECK(Judged(ranking, {0, 2, 8}, want) == "");
    CHECK(Judged(ranking, {0, 2, -1}, want) == "");
    CHECK(Judged(ranking, {0, 2, 1}, want) == "");
    // Another element, as large: by rounding any number of them, by the tolerance one of so many.
    CHECK(Judged(ranking, {0, 2, 5}, {0, 2, 4}) == "other");
    CHECK(Judged(ranking, {0, 2, 6}, {0, 2, 4}) == "other");
    CHECK(Judged(ranking, {0, 2, 7}, {0, 2, 4}) == "");
  }
  oracle::Ranking given = unsorted;  // nothing was rounded
  given.given = true;
  CHECK(Judged(given, {0, 2, 5}, {0, 2, 4}) == "");
  CHECK(Judged(given, {2, 4, 0}, {0, 2, 4}) == "201");
  oracle::Ranking least = unsorted;
  least.largest = false;
  CHECK(Judged(least, {7, 1, 5}, {1, 7, 6}) == "other");
  CHECK(Judged(least, {7, 1, 2}, {1, 7, 6}) == "");
  // Infinities and NaN are what they are.
  const double inf = std::numeric_limits<double>::infinity();
  const oracle::Ranking masked = RankingOf({1, -inf, -inf, 2, std::nan("")}, true);
  CHECK(Judged(masked, {3, 0, 2}, {3, 0, 1}) == "other");
  CHECK(Judged(masked, {3, 1, 0}, {3, 0, 1}) == "");
  CHECK(Judged(masked, {3, 0, 4}, {3, 0, 1}) == "");
}

TEST_CASE("of many rows few have other elements, or are off by more than rounding") {
  oracle::Ranking ranking;
  ranking.elements = 3;
  ranking.sorted = false;
  constexpr int kRows = 1000;
  std::vector<double> want;
  for (int r = 0; r < kRows; ++r) {
    for (double x : {2.0, 1.0, r % 2 ? 1.0 - 1e-7 : 1.0 - 1e-4}) ranking.values.push_back(x);
    for (double index : {0.0, 1.0}) want.push_back(index);
  }
  const auto flipped = [&](int count, int first) {
    std::vector<double> got = want;
    for (int k = 0; k < count; ++k) got[2 * (first + 2 * k) + 1] = 2;
    return RightRows(ranking, kTolerance, 2, got, want).size();
  };
  CHECK(flipped(2, 0) == 2);  // 1 and one of 1000
  CHECK(flipped(3, 0) == 0);
  CHECK(flipped(11, 1) == 11);  // 1 and one of 100
  CHECK(flipped(12, 1) == 0);
}

// ---- what follows ---------------------------------------------------------------------------

constexpr int kRows = 64, kElements = 8, kPlaces = 3;

// The largest three of y = x * 3 + 1, unsorted, with weights of their own read at the indexes.
v1::JudgeOpen Router() {
  return ProblemOf(
      "router",
      {"input x: f32[64, 8] ~ integers(0, 8)", "input w: f32[64, 8] ~ normal",
       "y: f32[r: 64, c: 8] = x[r, c] * 3 + 1",
       "rank: i64[r: 64, c: 8] = sum[d: 8](select(y[r, c] < y[r, d], 1, select(y[r, c] == y[r, d] "
       "and d < c, 1, 0)))",
       "i: i64[r: 64, k: 3] = max[c: 8](select(rank[r, c] == k, c, 0))",
       "v: f32[r: 64, k: 3] = w[r, i[r, k]]", "output i", "output v"});
}

// Says what the indexes are of, as an oracle does that has seen the reference compute it.
class Saying : public oracle::Oracle {
 public:
  Saying(std::unique_ptr<oracle::Oracle> own, bool sorted)
      : own_(std::move(own)), sorted_(sorted) {}
  std::string name() const override { return own_->name(); }
  absl::StatusOr<oracle::Case> Draw(device::Device& device, uint64_t seed,
                                    oracle::Variation variation) override {
    auto drawn = own_->Draw(device, seed, variation);
    if (!drawn.ok()) return drawn;
    std::vector<float> x(kRows * kElements);
    const absl::Status read = device.Read(*drawn->inputs[0], x.data(), 4 * kRows * kElements, 0);
    if (!read.ok()) return read;
    oracle::Ranking ranking;
    ranking.elements = kElements;
    ranking.sorted = sorted_;
    for (float value : x) ranking.values.push_back(value * 3 + 1);
    drawn->rankings.push_back(std::move(ranking));
    return drawn;
  }
  int64_t WorkingBytes() const override { return own_->WorkingBytes(); }
  absl::StatusOr<v1::BaselineReport> TimeBaselines(device::Device& device) override {
    return own_->TimeBaselines(device);
  }

 private:
  const std::unique_ptr<oracle::Oracle> own_;
  const bool sorted_;
};

// Takes the largest one after the other: where `later`, the last of equal ones. Then `change` may
// do something to the indexes `at`, and `weight` is what is read at each.
v1::Plan RouterPlan(bool later, const std::string& change, const std::string& weight) {
  v1::Plan plan = DoublingPlan(kRows, "2.0f");
  plan.mutable_buffers(0)->set_bytes(4 * kRows * kElements);
  plan.mutable_buffers(1)->set_tensor("i");
  plan.mutable_buffers(1)->set_dtype("i64");
  plan.mutable_buffers(1)->set_bytes(8 * kRows * kPlaces);
  v1::Buffer* w = plan.add_buffers();
  *w = plan.buffers(0);
  w->set_tensor("w");
  v1::Buffer* v = plan.add_buffers();
  *v = plan.buffers(1);
  v->set_tensor("v");
  v->set_dtype("f32");
  v->set_bytes(4 * kRows * kPlaces);
  for (int buffer : {2, 3})
    plan.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(buffer);
  plan.set_source(absl::StrCat(
      "extern \"C\" __global__ void candidate(const float* x, long long* i, const float* w, float* "
      "v) { int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= 64) return; x += r * 8; w += r "
      "* 8; i += r * 3; v += r * 3; int at[3]; bool taken[8] = {}; for (int k = 0; k < 3; ++k) { "
      "int best = -1; for (int c = 0; c < 8; ++c) if (!taken[c] && (best < 0 || x[best] ",
      later ? "<=" : "<", " x[c])) best = c; taken[best] = true; at[k] = best; } ", change,
      " for (int k = 0; k < 3; ++k) { i[k] = at[k]; v[k] = ", weight, "; } }"));
  return plan;
}

TEST_CASE("what follows from indexes that are others, and right, is judged with them") {
  const auto verdict = [](bool sorted, const v1::Plan& plan) {
    Court court({}, [sorted](std::unique_ptr<oracle::Oracle> own) {
      return std::make_unique<Saying>(std::move(own), sorted);
    });
    court.Open(Router());
    const v1::JudgeVerdict said = court.Evaluate({plan});
    return absl::StrCat(v1::Verdict_Name(said.verdict()), " ", said.reason());
  };
  const std::string turned = "int t = at[0]; at[0] = at[2]; at[2] = t;", read = "w[at[k]]";
  CHECK(absl::StartsWith(verdict(true, RouterPlan(false, "", read)), "ACCEPTED"));
  CHECK(absl::StartsWith(verdict(false, RouterPlan(false, turned, read)), "ACCEPTED"));
  CHECK(absl::StartsWith(verdict(true, RouterPlan(false, turned, read)), "WRONG"));
  // Weights of another order than the indexes', or of none.
  CHECK(absl::StartsWith(verdict(false, RouterPlan(false, turned, "w[at[2 - k]]")), "WRONG"));
  CHECK(absl::StartsWith(verdict(false, RouterPlan(false, turned, "0.0f")), "WRONG"));
  // One is there twice, or none of the row's.
  CHECK(absl::StartsWith(verdict(false, RouterPlan(false, "at[2] = at[0];", read)), "WRONG"));
  CHECK(absl::StartsWith(verdict(false, RouterPlan(false, "", "w[at[k]]; i[k] = at[k] + 8")),
                         "WRONG"));
  // So many rows with other elements are no accident.
  CHECK(absl::StartsWith(verdict(true, RouterPlan(true, "", read)), "WRONG"));
}

}  // namespace
}  // namespace warpsmith::judge
