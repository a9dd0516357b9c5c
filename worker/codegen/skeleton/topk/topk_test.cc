// The first elements of rows on the host device, against the oracle: ties, NaNs, types, where the
// rows lie, and every knob; and what is none.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

// Of x[r, c], as it is imported; `before` compares mine with theirs.
Lines Ranked(const std::string& input, int rows, int elements, int places,
             const std::string& before = "x[r, c] < x[r, d]") {
  const std::string c = absl::StrCat("r: ", rows, ", c: ", elements);
  return {input,
          absl::StrCat("rank: i64[", c, "] = sum[d: ", elements, "](select(", before,
                       ", 1, select(x[r, c] == x[r, d] and d < c, 1, 0)))"),
          absl::StrCat("y: i64[r: ", rows, ", k: ", places, "] = max[c: ", elements,
                       "](select(rank[r, c] == k, c, 0))"),
          "output y"};
}

v1::Schedule With(const std::string& knobs) {
  v1::Schedule schedule;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("groups { roots: 'y' topk { ", knobs, " } }"), &schedule));
  return schedule;
}

const std::vector<Lines> kGraphs = {
    Ranked("input x: f32[37, 256] ~ normal", 37, 256, 8),
    Ranked("input x: f32[37, 256] ~ normal", 37, 256, 8, "x[r, d] < x[r, c]"),  // the least
    Ranked("input x: f32[5, 1] ~ normal", 5, 1, 1),
    Ranked("input x: f32[9, 7] ~ normal", 9, 7, 7),               // sorted
    Ranked("input x: f32[3, 10] ~ normal", 3, 10, 12),            // more than there are
    Ranked("input x: bf16[40, 61] ~ integers(0, 6)", 40, 61, 9),  // ties
    Ranked("input x: f16[40, 64] ~ normal", 40, 64, 5),
    Ranked("input x: i64[11, 33] ~ integers(-4, 4)", 11, 33, 33),
    Ranked("input x: i8[11, 33] ~ integers(-4, 4)", 11, 33, 3),
    Ranked("input x: f64[6, 130] ~ normal", 6, 130, 2),
    Ranked("input x: f32[4, 1000] ~ normal", 4, 1000, 16),
    // What is compared is computed, of rows that others share, and masked.
    {"input s: f32[21, 64] ~ normal", "input bias: f32[64] ~ normal",
     "input keep: bool[21, 8] ~ integers(0, 2)",
     "p: f32[r: 21, c: 64] = 1 / (1 + exp(-s[r, c])) + bias[c]",
     "x: f32[r: 21, c: 64] = select(keep[r, c / 8], p[r, c], -inf)",
     "rank: i64[r: 21, c: 64] = sum[d: 64](select(x[r, c] < x[r, d], 1, "
     "select(x[r, c] == x[r, d] and d < c, 1, 0)))",
     "y: i64[r: 21, k: 6] = max[c: 64](select(rank[r, c] == k, c, 0))", "output y"},
    // Rows along another axis, places in the middle, an axis of one.
    {"input x: f32[6, 50, 3] ~ normal",
     "rank: i64[a: 6, c: 50, b: 3] = sum[d: 50](select(x[a, c, b] < x[a, d, b], 1, "
     "select(x[a, c, b] == x[a, d, b] and d < c, 1, 0)))",
     "y: i64[a: 6, k: 4, b: 3] = max[c: 50](select(rank[a, c, b] == k, c, 0))", "output y"},
    {"input x: f32[1, 20] ~ normal",
     "rank: i64[a: 1, c: 20] = sum[d: 20](select(x[0, c] < x[0, d], 1, "
     "select(x[0, c] == x[0, d] and d < c, 1, 0)))",
     "y: i64[k: 3] = max[c: 20](select(rank[0, c] == k, c, 0))", "output y"},
};

TEST_CASE("the first of each row are found, ties, NaNs and infinities included") {
  std::vector<Trial> trials;
  for (const Lines& lines : kGraphs) {
    const graph::Graph graph = ParseOrDie(lines);
    const int64_t elements = graph.nodes.back().reduce_axes[0].extent;
    for (int lanes : {0, 1, 2, 8, 32}) {
      if (lanes > 0 && elements > int64_t{32} * lanes) continue;
      for (int threads : {0, 32, 128}) {
        trials.push_back(
            {graph, With(absl::StrCat("threads_per_row: ", lanes, " block_threads: ", threads)),
             trials.size() + 1, trials.size() % 2 == 1});
      }
    }
  }
  const std::vector<absl::Status> done = RunAndCompareAll(trials);
  for (size_t i = 0; i < done.size(); ++i) {
    INFO(absl::StrJoin(graph::Print(trials[i].graph), "\n") << trials[i].schedule.DebugString());
    INFO(done[i].message());
    CHECK(done[i].ok());
  }
}

TEST_CASE("ranks and what finds them are one group of a first schedule, on a card") {
  const graph::Graph graph = ParseOrDie(Ranked("input x: f32[2048, 256] ~ normal", 2048, 256, 8));
  const v1::Schedule schedule = FirstSchedule(graph, Target());
  REQUIRE(schedule.groups_size() == 1);
  const auto infos = Describe(graph, schedule, Target());
  REQUIRE(infos.ok());
  CHECK((*infos)[0].skeleton == v1::Group::kTopk);
  CHECK((*infos)[0].seconds < 10e-6);
}

// A router whose top-k is in no order, as it is imported: the places are few, and what puts them by
// their indexes is in the same kernel as the weights that are read at them.
TEST_CASE("what puts first elements by their indexes is one kernel with what is read at them") {
  const auto router = [](int rows, int elements, const std::string& drawn) {
    Lines lines = Ranked(absl::StrCat("input x: f32[", rows, ", ", elements, "] ~ ", drawn), rows,
                         elements, 8);
    lines.pop_back();
    const std::string axes = absl::StrCat("[r: ", rows, ", k: 8]");
    for (const std::string& line :
         {absl::StrCat("key: i64", axes, " = y[r, k] + select(x[r, y[r, k]] == x[r, y[r, 7]], ",
                       elements, ", 0)"),
          absl::StrCat("place: i64", axes, " = sum[j: 8](select(key[r, j] < key[r, k], 1, 0))"),
          absl::StrCat("i: i64", axes, " = max[j: 8](select(place[r, j] == k, y[r, j], 0))"),
          absl::StrCat("w: f32", axes, " = exp(x[r, i[r, k]])"),
          absl::StrCat("s: f32[r: ", rows, "] = sum[j: 8](w[r, j])"),
          absl::StrCat("z: f32", axes, " = w[r, k] / s[r]"), std::string("output i"),
          std::string("output z")}) {
      lines.push_back(line);
    }
    return ParseOrDie(lines);
  };
  const graph::Graph wide = router(2048, 256, "normal");
  const v1::Schedule schedule = FirstSchedule(wide, Target());
  REQUIRE(schedule.groups_size() == 2);
  const auto infos = Describe(wide, schedule, Target());
  REQUIRE(infos.ok());
  CHECK((*infos)[0].skeleton == v1::Group::kTopk);
  CHECK((*infos)[0].seconds + (*infos)[1].seconds < 13e-6);
  // Ties, also with the last.
  for (const char* drawn : {"normal", "integers(0, 9)"}) {
    const graph::Graph graph = router(50, 33, drawn);
    Check(graph, FirstSchedule(graph, Target()), 7);
  }
}

// What looks alike and is something else.
TEST_CASE("groups that find no first elements are refused") {
  const auto refused = [](const Lines& lines) {
    const graph::Graph graph = ParseOrDie(lines);
    return absl::IsInvalidArgument(Lower(graph, With(""), Target()).status());
  };
  const auto with = [](Lines lines, int line, const std::string& text) {
    lines[line] = text;
    return lines;
  };
  const Lines plain = Ranked("input x: f32[8, 16] ~ normal", 8, 16, 4);
  REQUIRE(!refused(plain));
  const std::string rank = "rank: i64[r: 8, c: 16] = sum[d: 16](select(";
  const std::string find = "y: i64[r: 8, k: 4] = max[c: 16](select(";
  CHECK(refused(
      with(plain, 1, rank + "x[r, c] < x[r, d], 1, select(x[r, c] == x[r, d] and c < d, 1, 0)))")));
  CHECK(refused(with(
      plain, 1, rank + "x[r, c] <= x[r, d], 1, select(x[r, c] == x[r, d] and d < c, 1, 0)))")));
  CHECK(refused(
      with(plain, 1, rank + "x[r, c] < x[r, d], 2, select(x[r, c] == x[r, d] and d < c, 1, 0)))")));
  CHECK(refused(with(
      plain, 1, rank + "x[r, c] < x[r, d] + 1, 1, select(x[r, c] == x[r, d] and d < c, 1, 0)))")));
  CHECK(refused(with(plain, 2, find + "rank[r, c] == k, c, -1))")));
  CHECK(refused(with(plain, 2, find + "rank[r, c] == k, c + 1, 0))")));
  CHECK(refused(with(plain, 2, find + "rank[r, c] == k + 1, c, 0))")));
  CHECK(refused(with(plain, 2, find + "rank[k, c] == k, c, 0))")));
  CHECK(refused({"input x: f32[8, 16] ~ normal", "input w: f32[16] ~ normal",
                 rank + "x[r, c] + w[d] < x[r, d] + w[d], 1, "
                        "select(x[r, c] + w[d] == x[r, d] + w[d] and d < c, 1, 0)))",
                 plain[2], "output y"}));
  CHECK(refused(Ranked("input x: f32[8, 2000] ~ normal", 8, 2000, 4)));
  CHECK(refused(Ranked("input x: f32[8, 100] ~ normal", 8, 100, 65)));
}

TEST_CASE("knobs that do not do are refused by name") {
  const graph::Graph graph = ParseOrDie(Ranked("input x: f32[8, 256] ~ normal", 8, 256, 4));
  const auto few = Lower(graph, With("threads_per_row: 4"), Target());
  REQUIRE(absl::IsInvalidArgument(few.status()));
  CHECK(few.status().message() ==
        "group 'y': topk.threads_per_row is 4 for rows of 256 elements; a thread has at most 32");
  const graph::Graph wide = ParseOrDie(Ranked("input x: f64[8, 1024] ~ normal", 8, 1024, 4));
  CHECK(Lower(wide, With("block_threads: 256"), Target()).ok());
  CHECK(Lower(wide, With("block_threads: 1024"), Target()).status().message() ==
        "group 'y': topk.block_threads is 1024 with 98 registers each; a multiprocessor has 65536");
}

}  // namespace
}  // namespace warpsmith::codegen
