// Domains and placements: what is taken for a row, and what is refused.
#include "worker/codegen/group/domain.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/group/bijection.h"
#include "worker/codegen/group/structure.h"
#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {
namespace {

using Lines = std::vector<std::string>;

graph::Graph ParseOrDie(const Lines& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  return *graph;
}

Variable Axis(int id, int64_t extent) {
  Variable variable;
  variable.id = id;
  variable.name = absl::StrCat("a", id);
  variable.range = {0, extent - 1};
  return variable;
}

TEST_CASE("a placement holds every element exactly once", "[codegen]") {
  const std::vector<DomainAxis> axes = {{Axis(0, 6), Role::kKept}, {Axis(1, 8), Role::kReduced}};
  const Index r = Index::Of(axes[0].variable), k = Index::Of(axes[1].variable);
  struct Case {
    const char* what;
    std::vector<Index> at;
    std::vector<int64_t> shape;
    bool bijection;
  };
  const Case cases[] = {
      {"as they are", {r, k}, {6, 8}, true},
      {"transposed", {k, r}, {8, 6}, true},
      {"as one axis", {r * 8 + k}, {48}, true},
      {"an axis in two digits", {r, FloorDiv(k, 4), FloorMod(k, 4)}, {6, 2, 4}, true},
      {"digits the other way round", {r, FloorMod(k, 4), FloorDiv(k, 4)}, {6, 4, 2}, true},
      {"an axis is missing", {r, Index(0)}, {6, 8}, false},
      {"an axis twice", {r, FloorMod(r, 6)}, {6, 6}, false},
      {"half of an axis", {r, FloorMod(k, 4)}, {6, 4}, false},
      {"digits that do not divide the axis", {r, FloorDiv(k, 3), FloorMod(k, 3)}, {6, 3, 3}, false},
      {"out of range", {r + Index(1), k}, {6, 8}, false},
      {"elements in between stay unwritten", {r * 2, k}, {12, 8}, false},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    CHECK(IsBijection(c.at, c.shape, axes) == c.bijection);
  }
}

// h has as many elements as there are rows of y, by its size alone. It was taken for a value of the
// row, at a coordinate that a row does not have.
TEST_CASE("a tensor of the rows' size is no value of the row", "[codegen]") {
  for (int64_t b : {64, 16}) {
    const std::string n = absl::StrCat(b);
    const graph::Graph graph =
        ParseOrDie({"input x: f32[" + n + ", 64] ~ normal", "param w: f32[64, 64] ~ normal",
                    "h: f32[b: " + n + ", k: 64] = tanh(x[b, k])",
                    "y: f32[b: " + n + ", i: 64] = sum[k: 64](w[i, k] * h[b, k])",
                    "z: f32[b: " + n + ", i: 64] = y[b, i] + h[b, i]", "output z, h"});
    v1::Schedule together;
    for (const char* root : {"h", "z"}) {
      if (together.groups_size() == 0) together.add_groups();
      together.mutable_groups(0)->add_roots(root);
    }
    v1::Schedule apart;
    apart.add_groups()->add_roots("h");
    apart.add_groups()->add_roots("z");
    for (const v1::Schedule& schedule : {together, apart, DefaultSchedule(graph, TestTarget()),
                                         OpByOpSchedule(graph, TestTarget())}) {
      const absl::Status status = RunAndCompare(graph, schedule, 1);
      INFO(schedule.DebugString() << status.message());
      // Right, or refused by name; never wrong, never the end of the process.
      CHECK((status.ok() || (status.code() == absl::StatusCode::kInvalidArgument &&
                             absl::StrContains(status.message(), "group '"))));
    }
    CHECK(RunAndCompare(graph, apart, 1).ok());
  }
}

TEST_CASE("of factors alike the one that lies as the result does gives the lanes", "[codegen]") {
  const std::string a = "a[r, i]", b = "b[r, j]";
  for (const std::string& product : {a + " * " + b, b + " * " + a}) {
    INFO(product);
    const graph::Graph graph =
        ParseOrDie({"input a: f32[4, 64] ~ normal", "input b: f32[4, 128] ~ normal",
                    "y: f32[i: 64, j: 128] = sum[r: 4](" + product + ")", "output y"});
    const int y = graph.Find("y");
    const auto domain = StagesOf(graph, {y}, [&](int t) { return t != y; });
    INFO(domain.status().message());
    REQUIRE(domain.ok());
    CHECK(domain->pattern.stride == std::vector<int64_t>{0, 1, 128});
  }
}

TEST_CASE("a factor without conditions gives the lanes, however the other lies", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input a: f32[4, 64] ~ normal", "input b: f32[4, 128] ~ normal",
       "y: f32[i: 64, j: 128] = sum[r: 4](select(r > 0, b[r - 1, j], 0.0) * a[r, i])", "output y"});
  const int y = graph.Find("y");
  const auto domain = StagesOf(graph, {y}, [&](int t) { return t != y; });
  INFO(domain.status().message());
  REQUIRE(domain.ok());
  CHECK_FALSE(domain->pattern.guarded);
  CHECK(domain->pattern.stride == std::vector<int64_t>{1, 0, 64});
}

TEST_CASE("what is written apart costs its sectors", "[codegen]") {
  // Sums of columns that are stored as they lie, and turned; of pairs turned, which lie in a
  // sector.
  const auto seconds = [](const std::string& y) {
    const Target target;
    const graph::Graph graph = ParseOrDie({"input x: f32[16, 256, 1024] ~ normal",
                                           "input z: f32[16, 524288, 2] ~ normal", y, "output y"});
    v1::Schedule columns;
    columns.add_groups()->add_roots("y");
    columns.mutable_groups(0)->mutable_columns();
    const auto groups = Describe(graph, columns, target);
    INFO(groups.status().message());
    REQUIRE(groups.ok());
    return groups->front().seconds;
  };
  const double straight = seconds("y: f32[i: 256, j: 1024] = max[r: 16](x[r, i, j])"),
               turned = seconds("y: f32[j: 1024, i: 256] = max[r: 16](x[r, i, j])");
  // A sixteenth as many bytes as are read, eight times.
  CHECK(turned > 1.2 * straight);
  const double pairs = seconds("y: f32[i: 524288, j: 2] = max[r: 16](z[r, i, j])"),
               pairs_turned = seconds("y: f32[j: 2, i: 524288] = max[r: 16](z[r, i, j])");
  CHECK(pairs_turned < 1.1 * pairs);
}

TEST_CASE("placements of random graphs are bijections", "[codegen]") {
  int placed = 0;
  for (int seed = 1; seed <= 200; ++seed) {
    const graph::Graph graph = graph::RandomGraph(seed);
    auto structure = StructureOf(graph, DefaultSchedule(graph, Target{}));
    INFO(seed << " " << structure.status().message());
    REQUIRE(structure.ok());
    for (const GroupWork& work : structure->groups) {
      if (work.analysis == nullptr) continue;
      for (const auto* domain : {&work.analysis->elements(), &work.analysis->stages()}) {
        if (!domain->ok()) continue;
        for (const RootPlace& root : (*domain)->roots) {
          ++placed;
          CHECK(IsBijection(root.at, graph.tensors[root.tensor].shape,
                            (*domain)->AxesOf(root.level)));
        }
      }
    }
  }
  CHECK(placed > 300);
}

}  // namespace
}  // namespace warpsmith::codegen
