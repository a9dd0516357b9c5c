// Convolutions as the import writes them (cli/import/convolutions.cc): whatever way they are
// multiplied, their windows, groups and remainders are found.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/codegen/run_and_compare.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

const Case kConvolutions[] = {
    {"padded, of stride 2 down",
     {"input x: f32[2, 5, 9, 8] ~ normal", "input w: f32[6, 5, 3, 3] ~ normal",
      "y: f32[n: 2, o: 6, i: 5, j: 8] = sum[c: 5, u: 3, v: 3](select(0 <= 2 * i + u - 1 and 2 * i "
      "+ "
      "u - 1 < 9 and 0 <= j + v - 1 and j + v - 1 < 8, x[n, c, 2 * i + u - 1, j + v - 1], 0.0) * "
      "w[o, c, u, v])",
      "output y"}},
    {"dilated, with a bias and what is made of the sum",
     {"input x: f32[1, 16, 20, 20] ~ normal", "input w: f32[24, 16, 3, 3] ~ normal",
      "input b: f32[24] ~ normal",
      "s: f32[n: 1, o: 24, i: 16, j: 16] = sum[c: 16, u: 3, v: 3](x[n, c, i + 2 * u, j + 2 * v] * "
      "w[o, c, u, v])",
      "y: f32[n: 1, o: 24, i: 16, j: 16] = max(s[n, o, i, j] + b[o], 0.0)", "output y"}},
    {"in groups",
     {"input x: f32[2, 6, 7] ~ normal", "input w: f32[8, 3, 3] ~ normal",
      "y: f32[n: 2, g: 2, o: 4, i: 5] = sum[c: 3, u: 3](x[n, g * 3 + c, i + u] * w[g * 4 + o, c, "
      "u])",
      "output y"}},
    {"in volumes",
     {"input x: f32[1, 3, 6, 5, 7] ~ normal", "input w: f32[8, 3, 2, 3, 2] ~ normal",
      "y: f32[n: 1, o: 8, h: 5, i: 3, j: 6] = sum[c: 3, t: 2, u: 3, v: 2](x[n, c, h + t, i + u, j "
      "+ "
      "v] * w[o, c, t, u, v])",
      "output y"}},
    {"its gradient by the weights",
     {"input x: f32[2, 5, 8] ~ normal", "input d: f32[2, 6, 8] ~ normal",
      "y: f32[o: 6, c: 5, u: 3] = sum[n: 2, i: 8](select(0 <= i + u - 1 and i + u - 1 < 8, x[n, c, "
      "i "
      "+ u - 1], 0.0) * d[n, o, i])",
      "output y"}},
};

const Case kOneTap = {
    "transposed, a remainder's axis",
    {"input x: f32[2, 4, 5] ~ normal", "input w: f32[4, 3, 2] ~ normal",
     "y: f32[n: 2, o: 3, q: 5, r: 2] = sum[c: 4](x[n, c, q] * w[c, o, r])", "output y"}};

// With what comes behind: a choice by the remainder; each channel by itself.
const Case kOthers[] = {
    {"transposed, of stride 2",
     {"input x: f32[2, 4, 5] ~ normal", "input w: f32[4, 3, 3] ~ normal",
      "a: f32[n: 2, o: 3, q: 6] = sum[c: 4, j: 2](select(0 <= q - j and q - j < 5, x[n, c, q - j], "
      "0.0) * w[c, o, 2 * j])",
      "b: f32[n: 2, o: 3, q: 6] = sum[c: 4](select(q < 5, x[n, c, q], 0.0) * w[c, o, 1])",
      "y: f32[n: 2, o: 3, t: 11] = select(t % 2 < 1, a[n, o, t / 2], b[n, o, t / 2])", "output y"}},
    {"depthwise",
     {"input x: f32[2, 4, 9, 8] ~ normal", "input w: f32[4, 1, 3, 3] ~ normal",
      "y: f32[n: 2, c: 4, i: 9, j: 8] = sum[u: 3, v: 3](select(0 <= i + u - 1 and i + u - 1 < 9 "
      "and 0 "
      "<= j + v - 1 and j + v - 1 < 8, x[n, c, i + u - 1, j + v - 1], 0.0) * w[c, 0, u, v])",
      "output y"}},
};

// Windows that the copy engine could bring: of few channels and of many, of one axis to three,
// whichever way their taps go.
const Case kWindows[] = {
    {"of many channels, padded",
     {"input x: f32[2, 70, 6, 8] ~ normal", "input w: f32[5, 70, 3, 3] ~ normal",
      "y: f32[n: 2, o: 5, i: 6, j: 8] = sum[c: 70, u: 3, v: 3](select(0 <= i + u - 1 and i + u - 1 "
      "< 6 and 0 <= j + v - 1 and j + v - 1 < 8, x[n, c, i + u - 1, j + v - 1], 0.0) * w[o, c, u, "
      "v])",
      "output y"}},
    {"of stride 2, taps backwards",
     {"input x: f32[1, 64, 11, 9] ~ normal", "input w: f32[4, 64, 2, 3] ~ normal",
      "y: f32[n: 1, o: 4, i: 5, j: 4] = sum[c: 64, u: 2, v: 3](x[n, c, 2 * i - u + 1, 2 * j + v] * "
      "w[o, c, u, v])",
      "output y"}},
    {"of stride 3 and dilation 2",
     {"input x: f32[2, 65, 17] ~ normal", "input w: f32[3, 65, 3] ~ normal",
      "y: f32[n: 2, o: 3, i: 5] = sum[c: 65, u: 3](x[n, c, 3 * i + 2 * u] * w[o, c, u])",
      "output y"}},
    {"one tap down, in groups",
     {"input x: f32[2, 128, 5, 6] ~ normal", "input w: f32[6, 64, 1, 3] ~ normal",
      "y: f32[n: 2, g: 2, o: 3, i: 5, j: 6] = sum[c: 64, v: 3](select(0 <= j + v - 1 and j + v - 1 "
      "< 6, x[n, g * 64 + c, i, j + v - 1], 0.0) * w[g * 3 + o, c, 0, v])",
      "output y"}},
    {"of many channels in volumes",
     {"input x: f32[1, 64, 4, 5, 4] ~ normal", "input w: f32[4, 64, 3, 2, 3] ~ normal",
      "y: f32[n: 1, o: 4, h: 4, i: 4, j: 4] = sum[c: 64, t: 3, u: 2, v: 3](select(0 <= h - t + 1 "
      "and h - t + 1 < 4 and 0 <= j + v - 1 and j + v - 1 < 4, x[n, c, h - t + 1, i + u, j + v - "
      "1], 0.0) * w[o, c, t, u, v])",
      "output y"}},
    {"of what is made of an image",
     {"input x: f32[1, 64, 12] ~ normal", "input w: f32[16, 64, 3] ~ normal",
      "input b: f32[16] ~ normal",
      "s: f32[n: 1, o: 16, i: 12] = sum[c: 64, u: 3](select(0 <= i + u - 1 and i + u - 1 < 12, "
      "max(x[n, c, i + u - 1] * 2.0, 0.5), 0.0) * w[o, c, u])",
      "y: f32[n: 1, o: 16, i: 12] = max(s[n, o, i] + b[o], 0.0)", "output y"}},
};
const Case kHalfWindows[] = {
    {"of 16 bits",
     {"input x: f16[2, 16, 9, 8] ~ normal", "input w: f16[8, 16, 3, 3] ~ normal",
      "s: f32[n: 2, o: 8, i: 9, j: 8] = sum[c: 16, u: 3, v: 3](f32(select(0 <= i + u - 1 and i + u "
      "- 1 < 9 and 0 <= j + v - 1 and j + v - 1 < 8, x[n, c, i + u - 1, j + v - 1], f16(0.0))) * "
      "f32(w[o, c, u, v]))",
      "y: f16[n: 2, o: 8, i: 9, j: 8] = f16(s[n, o, i, j])", "output y"}},
};

class Trials {
 public:
  // `special`: infinities, NaN and the like among the inputs.
  void Add(const Case& c, const std::string& knobs, double tolerance, v1::Schedule schedule,
           const graph::Graph& graph, bool special = false,
           const std::optional<Target>& target = std::nullopt) {
    trials_.push_back({graph, std::move(schedule), seed_++, special, tolerance, target});
    what_.push_back(absl::StrCat(c.what, ", ", knobs));
  }
  void Add(const Case& c, const std::string& knobs, double tolerance, bool special = false) {
    const graph::Graph graph = ParseOrDie(c.graph);
    Add(c, knobs, tolerance, ScheduleOf(graph, knobs), graph, special);
  }
  void Check() const {
    const std::vector<absl::Status> answers = RunAndCompareAll(trials_);
    for (size_t i = 0; i < answers.size(); ++i) {
      INFO(what_[i] << ": " << answers[i].message());
      CHECK(answers[i].ok());
    }
  }

 private:
  std::vector<Trial> trials_;
  std::vector<std::string> what_;
  uint64_t seed_ = 1;
};
constexpr double kFull = 1e-5, kElevenBits = 4e-3;

TEST_CASE("convolutions are right whichever way they are multiplied", "[codegen]") {
  Trials trials;
  std::vector<Case> all(std::begin(kConvolutions), std::end(kConvolutions));
  all.push_back(kOneTap);
  for (const Case& c : all) {
    for (const auto& [knobs, tolerance] :
         {std::pair("contract {}", kFull),
          {"contract { math: PRODUCT_PLAIN tile_m: 32 }", kFull},
          {"contract { math: PRODUCT_FP16X3 }", kFull},
          {"contract { math: PRODUCT_FP16 tile_n: 32 }", kElevenBits}})
      trials.Add(c, knobs, tolerance);
  }
  for (const Case& c : kOthers) {
    const graph::Graph graph = ParseOrDie(c.graph);
    trials.Add(c, "", kFull, FirstSchedule(graph, TestTarget()), graph);
  }
  trials.Check();
}

TEST_CASE("windows are found in an image that is written out once", "[codegen]") {
  Trials trials;
  const auto add = [&](const Case& c) {
    trials.Add(c, "contract { math: PRODUCT_FP16X3 windows: 2 }", kFull);
    trials.Add(c, "contract { math: PRODUCT_FP16 windows: 2 tile_n: 32 ties: 2 }", kElevenBits);
  };
  for (const Case& c : kWindows) add(c);
  for (const Case& c : kConvolutions) add(c);
  for (const Case& c : kHalfWindows)
    trials.Add(c, "contract { math: PRODUCT_TENSOR windows: 2 }", kElevenBits);
  trials.Check();
}

// More places than a block has, and more channels and filters than it has at a time.
const Case kManyPlaces = {
    "of many places",
    {"input x: f32[2, 60, 5, 11, 75] ~ normal", "input w: f32[37, 60, 2, 3, 3] ~ normal",
     "input b: f32[37] ~ normal",
     "s: f32[n: 2, o: 37, h: 4, i: 11, j: 38] = sum[c: 60, t: 2, u: 3, v: 3](select(0 <= i + u - 1 "
     "and i + u - 1 < 11 and 0 <= 2 * j + v - 1 and 2 * j + v - 1 < 75, x[n, c, h + t, i + u - 1, "
     "2 "
     "* j + v - 1], 0.0) * w[o, c, t, u, v])",
     "y: f32[n: 2, o: 37, h: 4, i: 11, j: 38] = max(s[n, o, h, i, j] + b[o], 0.0)", "output y"}};

TEST_CASE("windows are multiplied as they are, by ordinary instructions", "[codegen]") {
  Trials trials;
  std::vector<Case> all(std::begin(kWindows), std::end(kWindows));
  all.insert(all.end(), std::begin(kConvolutions), std::end(kConvolutions));
  all.insert(all.end(), std::begin(kHalfWindows), std::end(kHalfWindows));
  for (const Case& c : all) {
    if (absl::StrContains(c.what, "stride 3 and dilation 2")) continue;  // of rows alone
    const double tolerance = absl::StrContains(c.what, "16 bits") ? kElevenBits : kFull;
    for (const bool special : {false, true})
      trials.Add(c, "contract { math: PRODUCT_PLAIN windows: 2 }", tolerance, special);
  }
  for (const char* tile :
       {"tile_m: 16 tile_n: 128", "tile_m: 32 tile_n: 128", "tile_m: 16 tile_n: 256"})
    trials.Add(kManyPlaces, absl::StrCat("contract { math: PRODUCT_PLAIN windows: 2 ", tile, " }"),
               kFull);
  trials.Check();
}

// Of magnitudes that one scale cannot keep: parts that are small, and all.
const Case kWideImages[] = {
    {"an image that is small as a whole",
     {"input x: f32[2, 64, 6, 8] ~ normal", "input w: f32[5, 64, 3, 3] ~ normal",
      "y: f32[n: 2, o: 5, i: 4, j: 6] = sum[c: 64, u: 3, v: 3](select(n < 1, x[n, c, i + u, j + v] "
      "* 1e-9, x[n, c, i + u, j + v]) * w[o, c, u, v])",
      "z: f32[n: 2, o: 5, i: 4, j: 6] = select(n < 1, y[n, o, i, j] * 1e9, y[n, o, i, j])",
      "output z"}},
    {"few channels, of which an image is small",
     {"input x: f32[2, 3, 6, 8] ~ normal", "input w: f32[5, 3, 3, 3] ~ normal",
      "y: f32[n: 2, o: 5, i: 4, j: 6] = sum[c: 3, u: 3, v: 3](select(n < 1, x[n, c, i + u, j + v] "
      "* 1e-9, x[n, c, i + u, j + v]) * w[o, c, u, v])",
      "z: f32[n: 2, o: 5, i: 4, j: 6] = select(n < 1, y[n, o, i, j] * 1e9, y[n, o, i, j])",
      "output z"}},
    {"three small places of 63",
     {"input x: f32[1, 64, 21, 3] ~ normal", "input w: f32[5, 64, 1, 2] ~ normal",
      "y: f32[n: 1, o: 5, i: 21, j: 2] = sum[c: 64, v: 2](select(i < 1, x[n, c, i, j + v] * 1e-9, "
      "x[n, c, i, j + v]) * w[o, c, 0, v])",
      "z: f32[n: 1, o: 5, i: 21, j: 2] = select(i < 1, y[n, o, i, j] * 1e9, y[n, o, i, j])",
      "output z"}},
    {"three small places of 63, of three channels",
     {"input x: f32[1, 3, 21, 3] ~ normal", "input w: f32[5, 3, 1, 2] ~ normal",
      "y: f32[n: 1, o: 5, i: 21, j: 2] = sum[c: 3, v: 2](select(i < 1, x[n, c, i, j + v] * 1e-9, "
      "x[n, c, i, j + v]) * w[o, c, 0, v])",
      "z: f32[n: 1, o: 5, i: 21, j: 2] = select(i < 1, y[n, o, i, j] * 1e9, y[n, o, i, j])",
      "output z"}},
    {"over many powers of ten",
     {"input x: f32[2, 16, 9] ~ normal", "input w: f32[5, 16, 3] ~ normal",
      "y: f32[n: 2, o: 5, i: 7] = sum[c: 16, u: 3](exp(6.0 * x[n, c, i + u]) * w[o, c, u])",
      "output y"}},
};

TEST_CASE("an image of no one scale is multiplied in fp32", "[codegen]") {
  Trials trials;
  for (const Case& c : kWideImages) {
    trials.Add(c, "contract { math: PRODUCT_FP16X3 windows: 2 }", kFull);
    trials.Add(c, "contract { math: PRODUCT_FP16 windows: 2 }", kFull);
  }
  for (const Case& c : kWindows) {
    trials.Add(c, "contract { math: PRODUCT_FP16X3 windows: 2 }", kFull, /*special=*/true);
    trials.Add(c, "contract { math: PRODUCT_FP16 windows: 2 }", kElevenBits, /*special=*/true);
  }
  for (const Case& c : kHalfWindows)
    trials.Add(c, "contract { math: PRODUCT_TENSOR windows: 2 }", kElevenBits, /*special=*/true);
  trials.Check();
}

// Of the places of all remainders the last ones are left out, or the first.
const Case kCropped[] = {
    {"transposed, with what comes behind",
     {"input x: f32[2, 5, 6, 7] ~ normal", "input w: f32[5, 4, 3, 3] ~ normal",
      "input b: f32[4] ~ normal", "input r: f32[2, 4, 13, 15] ~ normal",
      "a: f32[n: 2, o: 4, i: 7, p: 2, j: 8, q: 2] = sum[c: 5, s: 2, t: 2](select(0 <= i - s and i "
      "- s < 6 and 0 <= j - t and j - t < 7, x[n, c, i - s, j - t], 0.0) * select(p + 2 * s < 3 "
      "and q + 2 * t < 3, w[c, o, p + 2 * s, q + 2 * t], 0.0))",
      "v: f32[n: 2, o: 4, k: 13, l: 15] = a[n, o, k / 2, k % 2, l / 2, l % 2]",
      "y: f32[n: 2, o: 4, k: 13, l: 15] = max(v[n, o, k, l] + b[o], 0.0) + r[n, o, k, l]",
      "output y"}},
    {"padded",
     {"input x: f32[2, 5, 6, 7] ~ normal", "input w: f32[5, 4, 3, 3] ~ normal",
      "input r: f32[2, 4, 12, 13] ~ normal",
      "a: f32[n: 2, o: 4, i: 7, p: 2, j: 8, q: 2] = sum[c: 5, s: 2, t: 2](select(0 <= i - s and i "
      "- s < 6 and 0 <= j - t and j - t < 7, x[n, c, i - s, j - t], 0.0) * select(p + 2 * s < 3 "
      "and q + 2 * t < 3, w[c, o, p + 2 * s, q + 2 * t], 0.0))",
      "v: f32[n: 2, o: 4, k: 12, l: 13] = a[n, o, (k + 1) / 2, (k + 1) % 2, (l + 1) / 2, (l + 1) % "
      "2]",
      "y: f32[n: 2, o: 4, k: 12, l: 13] = v[n, o, k, l] * r[n, o, k, l]", "output y"}},
};

TEST_CASE("places that are left out are not finished", "[codegen]") {
  Trials trials;
  for (const auto& [knobs, tolerance] :
       {std::pair("contract {}", kFull),
        {"contract { math: PRODUCT_PLAIN windows: 1 }", kFull},
        {"contract { math: PRODUCT_PLAIN windows: 2 }", kFull},
        {"contract { math: PRODUCT_FP16X3 windows: 1 }", kFull},
        {"contract { math: PRODUCT_FP16X3 windows: 2 }", kFull},
        {"contract { math: PRODUCT_FP16 windows: 2 ties: 2 }", kElevenBits}}) {
    for (const Case& c : kCropped) {
      for (const bool special : {false, true}) trials.Add(c, knobs, tolerance, special);
    }
  }
  trials.Check();
  for (const Case& c : kCropped)
    CHECK(FirstSchedule(ParseOrDie(c.graph), TestTarget()).groups_size() == 1);
}

const Case kMoreFilters = {
    "of more filters than a tile has rows",
    {"input x: f32[1, 9, 7, 6] ~ normal", "input w: f32[130, 9, 3, 3] ~ normal",
     "y: f32[n: 1, o: 130, i: 5, j: 4] = sum[c: 9, u: 3, v: 3](x[n, c, i + u, j + v] * w[o, c, "
     "u, v])",
     "output y"}};

TEST_CASE("taps are shifts of an image that lies in planes", "[codegen]") {
  std::vector<Case> all;
  const auto add = [&](const auto& cases) {
    all.insert(all.end(), std::begin(cases), std::end(cases));
  };
  add(kWindows);
  add(kConvolutions);
  add(kHalfWindows);
  add(kWideImages);
  add(kCropped);
  all.push_back(kMoreFilters);
  Trials trials;
  int shifted = 0;
  for (const Case& c : all) {
    const graph::Graph graph = ParseOrDie(c.graph);
    const bool halves = absl::StrContains(c.what, "16 bits");
    const char* const exact = halves ? "contract { math: PRODUCT_TENSOR windows: 3 }"
                                     : "contract { math: PRODUCT_FP16X3 windows: 3 }";
    const auto plan = Lower(graph, ScheduleOf(graph, exact), TestTarget());
    if (!plan.ok()) {  // and says so
      INFO(c.what << ": " << plan.status().message());
      CHECK(
          (absl::StrContains(plan.status().message(), "its windows move by more than an element") ||
           absl::StrContains(plan.status().message(), "its channels come in groups")));
      continue;
    }
    ++shifted;
    const bool wide = std::any_of(std::begin(kWideImages), std::end(kWideImages),
                                  [&](const Case& one) { return one.what == c.what; });
    for (const bool special : {false, true}) {
      trials.Add(c, exact, halves ? kElevenBits : kFull, special);
      if (halves) continue;
      trials.Add(c, "contract { math: PRODUCT_FP16 windows: 3 tile_m: 128 tile_n: 64 }",
                 wide ? kFull : kElevenBits, special);
      // Ties away round what is made in fp32, too.
      if (wide) continue;
      trials.Add(c, "contract { math: PRODUCT_FP16 windows: 3 tile_n: 128 turns: 3 ties: 2 }",
                 kElevenBits, special);
    }
  }
  CHECK(shifted == 15);
  trials.Check();
}

// Where every remainder has as many places, so that two rows are written at once.
const Case kEvenRemainders[] = {
    {"transposed, all places",
     {"input x: f32[2, 9, 6, 7] ~ normal", "input w: f32[9, 20, 3, 3] ~ normal",
      "input b: f32[20] ~ normal",
      "a: f32[n: 2, o: 20, i: 6, p: 2, j: 8, q: 2] = sum[c: 9, s: 2, t: 2](select(0 <= i - s and "
      "i - s < 6 and 0 <= j - t and j - t < 7, x[n, c, i - s, j - t], 0.0) * select(p + 2 * s < 3 "
      "and q + 2 * t < 3, w[c, o, p + 2 * s, q + 2 * t], 0.0))",
      "y: f32[n: 2, o: 20, k: 12, l: 16] = max(a[n, o, k / 2, k % 2, l / 2, l % 2] + b[o], 0.0)",
      "output y"}},
    {"transposed, all places, with a residual",
     {"input x: f32[1, 16, 6, 7] ~ normal", "input w: f32[16, 3, 3, 3] ~ normal",
      "input r: f32[1, 3, 12, 16] ~ normal",
      "a: f32[n: 1, o: 3, i: 6, p: 2, j: 8, q: 2] = sum[c: 16, s: 2, t: 2](select(0 <= i - s and "
      "i - s < 6 and 0 <= j - t and j - t < 7, x[n, c, i - s, j - t], 0.0) * select(p + 2 * s < 3 "
      "and q + 2 * t < 3, w[c, o, p + 2 * s, q + 2 * t], 0.0))",
      "y: f32[n: 1, o: 3, k: 12, l: 16] = a[n, o, k / 2, k % 2, l / 2, l % 2] * r[n, o, k, l]",
      "output y"}},
};

// The tensor cores' kernels as they are written for a card, with groups that take turns and blocks
// that take tiles; of some several blocks for each row of tiles.
TEST_CASE("taps are shifts for sm_90a", "[codegen]") {
  Target card = TestTarget();
  card.arch = "sm_90a";
  card.sm_count = 5;
  card.library.clear();
  struct Of {
    const Case& what;
    const char* knobs;
    double tolerance;
    bool special = false;
  };
  const Of all[] = {
      {kWindows[0], "math: PRODUCT_FP16 tile_m: 64 tile_n: 64 turns: 2 stages: 2", kElevenBits},
      {kWindows[0], "math: PRODUCT_FP16X3 tile_m: 64 tile_n: 64 turns: 4", kFull, true},
      {kConvolutions[1], "math: PRODUCT_FP16 tile_m: 64 tile_n: 128 turns: 2", kElevenBits},
      {kConvolutions[3], "math: PRODUCT_FP16 tile_m: 64 tile_n: 64 turns: 3 stages: 5",
       kElevenBits},
      {kMoreFilters, "math: PRODUCT_FP16 tile_m: 64 tile_n: 64 turns: 4 stages: 3", kElevenBits},
      {kMoreFilters, "math: PRODUCT_FP16 tile_m: 128 tile_n: 64 turns: 2", kElevenBits, true},
      {kHalfWindows[0], "math: PRODUCT_TENSOR tile_m: 64 tile_n: 128 turns: 2", kElevenBits},
      {kWideImages[1], "math: PRODUCT_FP16 tile_m: 64 tile_n: 64 turns: 2", kFull},
      {kCropped[0], "math: PRODUCT_FP16 tile_m: 64 tile_n: 64 turns: 4", kElevenBits},
      {kEvenRemainders[0], "math: PRODUCT_FP16 tile_m: 64 tile_n: 128 turns: 2", kElevenBits},
      {kEvenRemainders[0], "math: PRODUCT_FP16X3 tile_m: 64 tile_n: 64 turns: 2", kFull, true},
      {kEvenRemainders[1], "math: PRODUCT_FP16 tile_m: 64 tile_n: 64 turns: 4", kElevenBits},
  };
  Trials trials;
  for (const Of& of : all) {
    const graph::Graph graph = ParseOrDie(of.what.graph);
    const std::string knobs = absl::StrCat("contract { windows: 3 ", of.knobs, " }");
    const v1::Schedule schedule = ScheduleOf(graph, knobs);
    const auto plan = Lower(graph, schedule, card);
    INFO(of.what.what << ", " << knobs << ": " << plan.status().message());
    REQUIRE(plan.ok());
    CHECK(absl::StrContains(plan->source(), "ws::contract_shifts<"));
    CHECK(absl::StrContains(plan->source(), "kRowsTogether = true") ==
          absl::StrContains(of.what.what, "all places"));
    trials.Add(of.what, knobs, of.tolerance, schedule, graph, of.special, card);
  }
  trials.Check();
}

// A convolution of drawn sizes whose windows move an element at a time, or a transposed one of
// stride 2, with a drawn end.
Lines DrawnConvolution(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  using absl::StrCat;
  const int images = draw(1, 3), channels = draw(1, 40), height = draw(3, 12), width = draw(3, 20);
  if (draw(0, 1) == 0) {
    const int filters = draw(1, 140), down = draw(1, 3), across = draw(1, 3), pad = draw(0, 1),
              apart = draw(1, width > 6 ? 2 : 1), end = draw(0, 2);
    const int rows = height + 2 * pad - down + 1, columns = width + 2 * pad - apart * (across - 1);
    const std::string shape = StrCat("[n: ", images, ", o: ", filters, ", i: ", rows,
                                     ", j: ", columns, "]"),
                      at_i = StrCat("i + u - ", pad), at_j = StrCat("j + ", apart, " * v - ", pad);
    return {
        StrCat("input x: f32[", images, ", ", channels, ", ", height, ", ", width, "] ~ normal"),
        StrCat("input w: f32[", filters, ", ", channels, ", ", down, ", ", across, "] ~ normal"),
        StrCat("input b: f32[", filters, "] ~ normal"),
        StrCat("input r: f32[", images, ", ", filters, ", ", rows, ", ", columns, "] ~ normal"),
        StrCat("s: f32", shape, " = sum[c: ", channels, ", u: ", down, ", v: ", across,
               "](select(0 <= ", at_i, " and ", at_i, " < ", height, " and 0 <= ", at_j, " and ",
               at_j, " < ", width, ", x[n, c, ", at_i, ", ", at_j, "], 0.0) * w[o, c, u, v])"),
        StrCat("y: f32", shape, " = ",
               end == 0   ? "s[n, o, i, j] * 2.0"
               : end == 1 ? "max(s[n, o, i, j] + b[o], 0.0)"
                          : "(s[n, o, i, j] + b[o]) * r[n, o, i, j]"),
        "output y"};
  }
  const int filters = draw(1, 40), rest = draw(0, 1), end = draw(0, 1);
  const int rows = 2 * (height + 1), columns = 2 * (width + 1) - rest;
  const std::string out =
      StrCat("[n: ", images, ", o: ", filters, ", k: ", rows, ", l: ", columns, "]");
  return {
      StrCat("input x: f32[", images, ", ", channels, ", ", height, ", ", width, "] ~ normal"),
      StrCat("input w: f32[", channels, ", ", filters, ", 3, 3] ~ normal"),
      StrCat("input b: f32[", filters, "] ~ normal"),
      StrCat("input r: f32[", images, ", ", filters, ", ", rows, ", ", columns, "] ~ normal"),
      StrCat("a: f32[n: ", images, ", o: ", filters, ", i: ", height + 1, ", p: 2, j: ", width + 1,
             ", q: 2] = sum[c: ", channels, ", s: 2, t: 2](select(0 <= i - s and i - s < ", height,
             " and 0 <= j - t and j - t < ", width,
             ", x[n, c, i - s, j - t], 0.0) * select(p + 2 * s < 3 and q + 2 * t < 3, w[c, o, p "
             "+ 2 * s, q + 2 * t], 0.0))"),
      StrCat("v: f32", out, " = a[n, o, k / 2, k % 2, l / 2, l % 2]"),
      StrCat("y: f32", out, " = ",
             end == 0 ? "max(v[n, o, k, l] + b[o], 0.0)" : "v[n, o, k, l] * r[n, o, k, l]"),
      "output y"};
}

TEST_CASE("convolutions of drawn sizes are shifts for sm_90a", "[codegen]") {
  Target card = TestTarget();
  card.arch = "sm_90a";
  card.library.clear();
  std::mt19937 random(11);
  const auto one_of = [&](std::initializer_list<int> all) {
    return all.begin()[std::uniform_int_distribution<size_t>(0, all.size() - 1)(random)];
  };
  const int wanted = std::getenv("WARPSMITH_TEST_THOROUGH") != nullptr ? 80 : 12;
  Trials trials;
  std::vector<std::unique_ptr<std::string>> names;
  int drawn = 0, refused = 0;
  while (drawn < wanted && refused < 20 * wanted) {
    const Lines lines = DrawnConvolution(random);
    const graph::Graph graph = ParseOrDie(lines);
    const bool two = one_of({0, 1}) == 1;
    const std::string knobs =
        absl::StrCat("contract { windows: 3 math: ", two ? "PRODUCT_FP16X3" : "PRODUCT_FP16",
                     " tile_m: ", one_of({64, 128}), " tile_n: ", one_of({64, 128, 256}),
                     " turns: ", one_of({2, 3, 4}), " stages: ", one_of({2, 3, 4, 5, 8, 12}), " }");
    card.sm_count = one_of({1, 2, 3, 5, 8});
    const v1::Schedule schedule = ScheduleOf(graph, knobs);
    if (!Lower(graph, schedule, card).ok()) {  // tiles that do not fit
      ++refused;
      continue;
    }
    ++drawn;
    names.push_back(std::make_unique<std::string>(absl::StrJoin(lines, "\n")));
    trials.Add({names.back()->c_str(), lines}, knobs, two ? kFull : kElevenBits, schedule, graph,
               /*special=*/one_of({0, 0, 1}) == 1, card);
  }
  CHECK(drawn == wanted);
  trials.Check();
}

TEST_CASE("a product that is of no image's windows says so", "[codegen]") {
  const graph::Graph graph = ParseOrDie(kOneTap.graph);
  const auto plan = Lower(graph, ScheduleOf(graph, "contract { windows: 2 }"), TestTarget());
  INFO(plan.status().message());
  CHECK(absl::StrContains(plan.status().message(),
                          "contract.windows is 2; neither operand is windows of an image"));
}

TEST_CASE("windows that cannot be read as they are say so", "[codegen]") {
  struct Refused {
    const char* graph;  // which of kWindows
    const char* knobs;
    const char* why;
  };
  const Refused all[] = {
      {"of stride 3 and dilation 2", "contract { math: PRODUCT_PLAIN windows: 2 }",
       "its windows are strided and their taps apart"},
      // Nothing fits that tile.
      {"of stride 3 and dilation 2", "contract { windows: 2 tile_m: 16 tile_n: 128 }",
       "its windows are strided and their taps apart"},
      {"of many channels, padded",
       "precision { accumulator: ACCUMULATOR_F64 } contract { math: PRODUCT_PLAIN windows: 2 }",
       "no totals in fp64"},
      {"of many channels, padded", "contract { math: PRODUCT_PLAIN windows: 2 tile_n: 64 }",
       "a warp has 128 or 256 places"},
      {"of many channels, padded", "contract { math: PRODUCT_PLAIN windows: 2 split: 2 }",
       "contract.stages, cluster and split are 1"},
      {"of many channels, padded", "contract { math: PRODUCT_FP16 windows: 3 tile_n: 32 }",
       "contract.tile_n is 32; where taps are shifts it is 64, 128 or 256"},
      {"of many channels, padded", "contract { math: PRODUCT_FP16 windows: 3 turns: 1 }",
       "contract.turns is 1; where taps are shifts two to four groups take turns"},
      {"of many channels, padded", "contract { math: PRODUCT_FP16 windows: 2 turns: 3 }",
       "more than two groups take turns where contract.windows is 3"},
  };
  for (const Refused& refused : all) {
    INFO(refused.graph << ", " << refused.knobs);
    const Case* const found = std::find_if(std::begin(kWindows), std::end(kWindows), [&](auto& c) {
      return std::string(c.what) == refused.graph;
    });
    REQUIRE(found != std::end(kWindows));
    const graph::Graph graph = ParseOrDie(found->graph);
    const auto plan = Lower(graph, ScheduleOf(graph, refused.knobs), TestTarget());
    INFO(plan.status().message());
    CHECK(absl::StrContains(plan.status().message(), refused.why));
  }
}

}  // namespace
}  // namespace warpsmith::codegen
