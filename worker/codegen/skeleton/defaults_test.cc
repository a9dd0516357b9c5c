// What a skeleton that matches a group chooses by itself fits the card, whatever the card: knobs
// that nobody set are never what a refusal is about.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/group/structure.h"
#include "worker/codegen/run_and_compare.h"
#include "worker/codegen/skeleton/skeleton.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

constexpr int kRandomGraphs = 60;

Target Card(const char* arch, int sm_count, int threads, int blocks, int64_t shared_per_sm,
            int64_t shared_per_block, int cluster) {
  Target target;
  target.arch = arch;
  target.sm_count = sm_count;
  target.max_threads_per_sm = threads;
  target.max_blocks_per_sm = blocks;
  target.shared_per_sm = shared_per_sm << 10;
  target.shared_per_block = shared_per_block << 10;
  target.max_cluster = cluster;
  return target;
}

// By the CUDA programming guide's table of compute capabilities.
std::vector<Target> Targets() {
  return {Card("sm_90a", 132, 2048, 32, 228, 227, 16),
          Card("sm_100a", 148, 2048, 32, 228, 227, 16),
          Card("sm_86", 84, 1536, 16, 100, 99, 1),
          Card("sm_80", 108, 2048, 32, 164, 163, 1),
          Card("sm_75", 40, 1024, 16, 64, 64, 1),
          Card("sm_75", 14, 1024, 16, 64, 48, 1),
          TestTarget()};
}

struct Kind {
  const char* what;
  std::vector<std::string> lines;  // $T: the type, $R rows, $K the row's length
};

const Kind kKinds[] = {
    {"a sum along rows of a product",
     {"input a: $T[$R, $K] ~ normal", "input b: $T[$R, $K] ~ normal",
      "y: $T[r: $R, k: $K] = cumsum[k](a[r, k] * b[r, k])", "output y"}},
    {"a product along rows of four",
     {"input a: $T[$R, $K] ~ normal", "input b: $T[$R, $K] ~ normal",
      "input c: $T[$R, $K] ~ normal", "input d: $T[$R, $K] ~ normal",
      "y: $T[r: $R, k: $K] = cumprod[k](a[r, k] * b[r, k] + c[r, k] * d[r, k])", "output y"}},
    {"a scan over rows",
     {"input a: $T[$R, $K] ~ normal", "input b: $T[$R, $K] ~ normal",
      "y: $T[r: $R, k: $K] = cumprod[r](a[r, k] * b[r, k])", "output y"}},
    {"a running maximum and where it is",
     {"input a: $T[$R, $K] ~ normal", "v, i: $T[r: $R, k: $K] = cumargmax[k](a[r, k])",
      "output v, i"}},
    {"a softmax of a sum",
     {"input a: $T[$R, $K] ~ normal", "input b: $T[$R, $K] ~ normal",
      "x: $T[r: $R, k: $K] = a[r, k] + b[r, k]", "m: $T[r: $R] = max[k: $K](x[r, k])",
      "s: $T[r: $R] = sum[k: $K](exp(x[r, k] - m[r]))",
      "y: $T[r: $R, k: $K] = exp(x[r, k] - m[r]) / s[r]", "output y"}},
    {"a norm of columns",
     {"input a: $T[$K, $R] ~ normal", "s: $T[r: $R] = sum[k: $K](a[k, r] * a[k, r])",
      "y: $T[k: $K, r: $R] = a[k, r] / (1 + s[r])", "output y"}},
    {"sums", {"input a: $T[$R, $K] ~ normal", "y: $T[r: $R] = sum[k: $K](a[r, k])", "output y"}},
    {"sums over the outer axis",
     {"input a: $T[$K, $R] ~ normal", "y: $T[r: $R] = sum[k: $K](a[k, r])", "output y"}},
    {"sums of two axes of three",
     {"input a: $T[$R, $K, 3] ~ normal", "y: $T[r: $R] = sum[k: $K, c: 3](a[r, k, c])",
      "output y"}},
    {"the place of the largest",
     {"input a: $T[$R, $K] ~ normal", "v, i: $T[r: $R] = argmax[k: $K](a[r, k])", "output v, i"}},
    {"pooling",
     {"input a: $T[$R, $K] ~ normal",
      "y: $T[r: $R, k: $K] = max[i: 3](select(k + i < $K, a[r, k + i], 0))", "output y"}},
    {"turned", {"input a: $T[$R, $K] ~ normal", "y: $T[k: $K, r: $R] = a[r, k]", "output y"}},
    {"turned and added",
     {"input a: $T[$R, $K] ~ normal", "input b: $T[$K, $R] ~ normal",
      "input c: $T[$R, $K] ~ normal", "y: $T[k: $K, r: $R] = a[r, k] + b[k, r] * c[r, k]",
      "output y"}},
    {"point by point",
     {"input a: $T[$R, $K] ~ normal", "input b: $T[$K] ~ normal",
      "y: $T[r: $R, k: $K] = a[r, k] * b[k]", "output y"}},
};

graph::Graph Made(const Kind& kind, const char* type, int64_t rows, int64_t length) {
  std::vector<std::string> lines;
  for (const std::string& line : kind.lines) {
    lines.push_back(absl::StrReplaceAll(
        line, {{"$T", type}, {"$R", absl::StrCat(rows)}, {"$K", absl::StrCat(length)}}));
  }
  auto graph = graph::Parse(lines, {});
  INFO(kind.what << ": " << graph.status().message());
  REQUIRE(graph.ok());
  return *graph;
}

// Every skeleton that matches a group of the schedule, with all knobs open.
void CheckAll(const graph::Graph& graph, const v1::Schedule& schedule, const Target& target) {
  auto structure = StructureOf(graph, schedule);
  REQUIRE(structure.ok());
  for (const GroupWork& work : structure->groups) {
    if (work.analysis == nullptr) continue;
    for (const Skeleton* skeleton : Skeletons()) {
      if (!skeleton->Matches(*work.analysis).ok()) continue;
      v1::Group open;
      SetSkeleton(open, skeleton->id());
      const auto resolved = ResolveGroup(*work.analysis, open, target);
      if (resolved.ok()) continue;
      INFO(target.arch << " with " << (target.shared_per_block >> 10) << " KiB, "
                       << NameOf(skeleton->id()) << ": " << resolved.status().message() << "\n"
                       << absl::StrJoin(graph::Print(graph), "\n"));
      CHECK(resolved.ok());
    }
  }
}

TEST_CASE("what skeletons choose by themselves fits every card", "[codegen]") {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1 << 24},   {2, 7'654'321}, {3, 100'003},
                                               {4096, 4096},   {65'537, 129},  {131, 65'536},
                                               {1'000'003, 5}, {8, 16},        {1 << 20, 1}};
  for (const Target& target : Targets()) {
    for (const Kind& kind : kKinds) {
      for (const char* type : {"f32", "f64", "bf16"}) {
        for (const auto& [rows, length] : sizes) {
          const graph::Graph graph = Made(kind, type, rows, length);
          CheckAll(graph, DefaultSchedule(graph, target), target);
        }
      }
    }
  }
}

TEST_CASE("what skeletons choose for random graphs fits every card", "[codegen]") {
  for (const Target& target : Targets()) {
    for (int number = 1; number <= kRandomGraphs; ++number) {
      graph::RandomGraphOptions options;
      options.scans = number % 2 == 0;
      options.max_elements = 1 << 14;
      const graph::Graph graph = graph::RandomGraph(number, options);
      CheckAll(graph, DefaultSchedule(graph, target), target);
      CheckAll(graph, OpByOpSchedule(graph, target), target);
    }
  }
}

// Registers that all resident threads would want, of those that there are.
TEST_CASE("layouts to try do not have to spill most of what they keep", "[codegen]") {
  const Target target;
  int tried = 0;
  for (const auto& [rows, length] :
       {std::pair<int64_t, int64_t>{65'536, 1024}, {65'536, 128}, {8192, 8192}, {100'003, 999}}) {
    for (const char* type : {"f32", "bf16"}) {
      const Kind& softmax = *std::find_if(
          std::begin(kKinds), std::end(kKinds),
          [](const Kind& kind) { return std::string(kind.what) == "a softmax of a sum"; });
      const graph::Graph graph = Made(softmax, type, rows, length);
      const v1::Schedule schedule = DefaultSchedule(graph, target);
      Describer describer(graph, target);
      REQUIRE(describer.Describe(schedule).status().message() == "");
      for (const Layout& layout : describer.Layouts(schedule, 0)) {
        v1::Schedule changed = schedule;
        v1::Group& group = *changed.mutable_groups(0);
        SetSkeleton(group, v1::Group::kRows);
        for (const auto& [knob, value] : layout.knobs) {
          for (const KnobRow& row : KnobsOf(v1::Group::kRows)) {
            if (row.name == knob) SetValue(group, row, value);
          }
        }
        auto infos = describer.Describe(changed);
        if (!infos.ok()) continue;
        const GroupInfo& info = infos->front();
        const int64_t blocks = info.resolved.rows().blocks_per_sm();
        tried += blocks > 0;
        INFO(length << " of " << type << ": " << layout.name);
        CHECK(info.registers * info.threads * blocks <= 2 * target.registers_per_sm);
      }
    }
  }
  CHECK(tried > 20);
}

// Blocks that share a column fill the card in whole waves; where columns are short each thread has
// its own.
TEST_CASE("sums over outer axes fill the card", "[codegen]") {
  const struct {
    int64_t rows, columns;
    const char* type;
  } cases[] = {{99'753, 2'691, "f32"},  {115'456, 4'160, "bf16"}, {32'775, 16'380, "bf16"},
               {1'768, 151'800, "f32"}, {47'726, 11'232, "bf16"}, {17, 15'287'607, "f32"},
               {28, 9'586'734, "f32"}};
  const Target target;
  for (const auto& c : cases) {
    const Kind sums = {
        "sums",
        {"input a: $T[$K, $R] ~ normal", "y: f32[r: $R] = sum[k: $K](f32(a[k, r]))", "output y"}};
    const graph::Graph graph = Made(sums, c.type, c.columns, c.rows);
    const auto infos = Describe(graph, DefaultSchedule(graph, target), target);
    REQUIRE(infos.ok());
    const GroupInfo& info = infos->front();
    INFO(c.rows << " x " << c.columns << ": " << info.resolved.ShortDebugString());
    REQUIRE(info.skeleton == v1::Group::kColumns);
    const v1::ColumnsKnobs& columns = info.resolved.columns();
    CHECK(columns.thread_rows() * 16 <= std::max<int64_t>(16, c.rows / columns.split()));
    if (columns.split() == 1) continue;
    const double most = target.sm_count * (target.max_threads_per_sm / columns.block_threads());
    CHECK(info.blocks <= 8 * most);
    CHECK(info.blocks >= 0.5 * most);
  }
}

// A refusal for room says which knobs of this skeleton take it.
TEST_CASE("a refusal names knobs that there are", "[codegen]") {
  const graph::Graph graph = Made(kKinds[1], "f64", 1, 1 << 20);
  v1::Schedule schedule;
  v1::Group* group = schedule.add_groups();
  group->add_roots("y");
  group->mutable_scan()->set_vectors(16);
  group->mutable_scan()->set_block_threads(1024);
  const auto plan = Lower(graph, schedule, Target());
  REQUIRE(!plan.ok());
  INFO(plan.status().message());
  CHECK(absl::StrContains(plan.status().message(), "scan.vectors"));
  CHECK(!absl::StrContains(plan.status().message(), "shared_vectors"));
}

// Merging var.squares with layer_norm.sum and var.sum with layer_norm were worth something by
// themselves; after either of them the other makes two groups that need each other.
TEST_CASE("no two groups of a first schedule need each other", "[codegen]") {
  const graph::Graph graph =
      graph::Parse({"input x: f32[19, 509] ~ normal", "add: f32[i: 19, j: 509] = x[i, j] + 1000",
                    "var.sum: f32[i: 19, j: 1] = sum[r: 509](add[i, r])",
                    "var.mean: f32[i: 19, j: 1] = var.sum[i, 0] / 509",
                    "var.squares: f32[i: 19] = sum[r: 509]((add[i, r] - var.mean[i, 0]) * "
                    "(add[i, r] - var.mean[i, 0]))",
                    "var: f32[i: 19] = var.squares[i] / 508",
                    "norm.sum: f32[i: 19] = sum[r: 509](add[i, r])",
                    "norm.mean: f32[i: 19] = norm.sum[i] / 509",
                    "norm.squares: f32[i: 19] = sum[r: 509]((add[i, r] - norm.mean[i]) * (add[i, "
                    "r] - norm.mean[i]))",
                    "norm.rstd: f32[i: 19] = rsqrt(norm.squares[i] / 509 + 1e-05)",
                    "norm: f32[i: 19, j: 509] = (add[i, j] - norm.mean[i]) * norm.rstd[i]",
                    "mean.sum: f32 = sum[r: 19, s: 509](add[r, s])",
                    "mean: f32 = mean.sum[] / 9671", "output var, norm, mean"},
                   {})
          .value();
  for (const Target& target : Targets()) {
    for (const v1::Schedule& schedule :
         {FirstSchedule(graph, target), DefaultSchedule(graph, target)}) {
      INFO(schedule.DebugString());
      auto rewritten = Rewrite(graph, schedule.rewrites());
      REQUIRE(rewritten.ok());
      CHECK(Lower(*rewritten, schedule, target).status().message() == "");
    }
  }
}

// The mean is computed twice here; what is lowered has it once, which is what is grouped.
TEST_CASE("a first schedule is one of what is lowered", "[codegen]") {
  const graph::Graph graph =
      graph::Parse({"input x: f32[31, 1021] ~ normal",
                    "mean.sum: f32[i: 31, j: 1] = sum[r: 1021](x[i, r])",
                    "mean: f32[i: 31, j: 1] = mean.sum[i, 0] / 1021",
                    "sub: f32[i: 31, j: 1021] = x[i, j] - mean[i, 0]",
                    "var.sum: f32[i: 31, j: 1] = sum[r: 1021](x[i, r])",
                    "var.mean: f32[i: 31, j: 1] = var.sum[i, 0] / 1021",
                    "var.squares: f32[i: 31, j: 1] = sum[r: 1021]((x[i, r] - var.mean[i, 0]) * "
                    "(x[i, r] - var.mean[i, 0]))",
                    "var: f32[i: 31, j: 1] = var.squares[i, 0] / 1020",
                    "add: f32[i: 31, j: 1] = sqrt(var[i, 0]) + 1e-06",
                    "div: f32[i: 31, j: 1021] = sub[i, j] / add[i, 0]",
                    "cube: f32[i: 31, j: 1021] = div[i, j] * div[i, j] * div[i, j]",
                    "mean_1.sum: f32[i: 31] = sum[r: 1021](cube[i, r])",
                    "mean_1: f32[i: 31] = mean_1.sum[i] / 1021",
                    "fourth: f32[i: 31, j: 1021] = cube[i, j] * div[i, j]",
                    "mean_2.sum: f32[i: 31] = sum[r: 1021](fourth[i, r])",
                    "sub_1: f32[i: 31] = mean_2.sum[i] / 1021 - 3",
                    "amax: f32[i: 31] = max[r: 1021](x[i, r])",
                    "amin: f32[i: 31] = min[r: 1021](x[i, r])",
                    "mean_3.sum: f32[i: 31] = sum[r: 1021](abs(x[i, r]))",
                    "div_1: f32[i: 31] = (amax[i] - amin[i]) / (mean_3.sum[i] / 1021)",
                    "clamp: f32[i: 31, j: 1021] = min(max(div[i, j], -2), 2)",
                    "sum_1: f32[j: 1021] = sum[r: 31](clamp[r, j])",
                    "output mean_1, sub_1, div_1, sum_1"},
                   {})
          .value();
  for (const Target& target : Targets()) {
    const v1::Schedule schedule = FirstSchedule(graph, target);
    INFO(schedule.DebugString());
    auto rewritten = Rewrite(graph, schedule.rewrites());
    REQUIRE(rewritten.ok());
    CHECK(Lower(*rewritten, schedule, target).status().message() == "");
  }
}

v1::Accumulator FirstAccumulator(const graph::Graph& graph) {
  const v1::Schedule schedule = FirstSchedule(graph, Target());
  for (const v1::Group& group : schedule.groups()) {
    if (group.precision().accumulator() != v1::ACCUMULATOR_AUTO)
      return group.precision().accumulator();
  }
  return v1::ACCUMULATOR_AUTO;
}

TEST_CASE("sums of products that elements have subtracted from them are in fp64 first",
          "[codegen]") {
  const char* const kInputs =
      "input x: f32[R, C] ~ normal\ninput d: f32[R, C] ~ normal\ninput w: f32[C] ~ normal\n";
  const struct {
    const char *what, *lines;
    bool wide;
  } cases[] = {
      {"the gradient of an RMS norm",
       "b: f32[r: R] = sum[c: C](d[r, c] * w[c] * x[r, c])\n"
       "y: f32[r: R, c: C] = d[r, c] * w[c] - x[r, c] * b[r] / C\n"
       "output y",
       true},
      {"of a softmax, by nodes of its own for the products",
       "p: f32[r: R, c: C] = d[r, c] * x[r, c]\n"
       "b: f32[r: R, one: 1] = sum[c: C](p[r, c])\n"
       "q: f32[r: R, c: C] = x[r, c] * b[r, 0]\n"
       "y: f32[r: R, c: C] = p[r, c] - q[r, c]\n"
       "output y",
       true},
      {"two kernels, and the sum an output",
       "b: f32[c: C] = sum[r: R](d[r, c] * x[r, c])\n"
       "y: f32[r: R, c: C] = d[r, c] - (w[c] + x[r, c] * b[c]) / R\n"
       "output b, y",
       true},
      {"rounded to 16 bits",
       "b: f32[r: R] = sum[c: C](d[r, c] * x[r, c])\n"
       "y: bf16[r: R, c: C] = bf16(d[r, c] - x[r, c] * b[r])\n"
       "output y",
       false},
      {"squares",
       "b: f32[r: R] = sum[c: C](x[r, c] * x[r, c])\n"
       "y: f32[r: R, c: C] = d[r, c] - x[r, c] * b[r]\n"
       "output y",
       false},
      {"no products",
       "b: f32[r: R] = sum[c: C](x[r, c])\n"
       "y: f32[r: R, c: C] = d[r, c] - b[r] / C\n"
       "output y",
       false},
      {"a factor alone",
       "b: f32[r: R] = sum[c: C](d[r, c] * x[r, c])\n"
       "y: f32[r: R, c: C] = d[r, c] * rsqrt(b[r] / C + 1e-6)\n"
       "output y",
       false},
      {"a product of matrices with a residual",
       "b: f32[r: R, i: R] = sum[c: C](d[r, c] * x[i, c])\n"
       "y: f32[r: R, i: R] = b[r, i] + x[r, i]\n"
       "output y",
       false},
  };
  for (const auto& c : cases) {
    std::string text = absl::StrCat(kInputs, c.lines);
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    auto graph = graph::Parse(lines, {{"R", 512}, {"C", 1024}});
    INFO(c.what << ": " << graph.status());
    REQUIRE(graph.ok());
    CHECK((FirstAccumulator(*graph) == v1::ACCUMULATOR_F64) == c.wide);
  }
}

TEST_CASE("a sum that many rows would each make again is stored", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input y: f32[10000, 33, 72] ~ normal", "input f: f32[33, 72] ~ uniform(0.5, 1.5)",
       "squares: f32[i: 10000, j: 33] = sum[r: 72](y[i, j, r] * y[i, j, r])",
       "logs: f32[j: 33] = sum[r: 72](log(f[j, r]))",
       "z: f32[i: 10000, j: 33] = logs[j] - squares[i, j]", "output z"});
  const v1::Schedule schedule = DefaultSchedule(graph, Target());
  INFO(schedule.DebugString());
  CHECK(std::any_of(schedule.groups().begin(), schedule.groups().end(), [](const v1::Group& group) {
    return group.roots_size() == 1 && group.roots(0) == "logs";
  }));
}

// Angles of places by frequencies that are powers, which each head's rows ask for.
Lines Turned(int batch, int places, int heads) {
  const std::string all = absl::StrCat("b: ", batch, ", p: ", places, ", h: ", heads, ", k: 64");
  const std::string x = absl::StrCat(batch, ", ", places, ", ", heads, ", 64");
  return {
      absl::StrCat("input x: bf16[", x, "] ~ normal"),
      absl::StrCat("input at: i64[", batch, ", ", places, "] ~ integers(0, 4096)"),
      "base: f32[k: 32] = 1 / pow(10000, f32(k) / 32)",
      absl::StrCat("angle: f32[b: ", batch, ", p: ", places,
                   ", k: 64] = f32(at[b, p]) * base[k % 32]"),
      absl::StrCat("c: bf16[b: ", batch, ", p: ", places, ", k: 64] = bf16(cos(angle[b, p, k]))"),
      absl::StrCat("s: bf16[b: ", batch, ", p: ", places, ", k: 64] = bf16(sin(angle[b, p, k]))"),
      absl::StrCat("half: bf16[", all,
                   "] = select(k < 32, bf16(-f32(x[b, p, h, k + 32])), "
                   "x[b, p, h, k - 32])"),
      absl::StrCat("y: bf16[", all,
                   "] = bf16(f32(bf16(f32(x[b, p, h, k]) * f32(c[b, p, k]))) + "
                   "f32(bf16(f32(half[b, p, h, k]) * f32(s[b, p, k]))))"),
      "output y"};
}

TEST_CASE("angles that many heads ask for are made once, where that is quicker", "[codegen]") {
  const auto stores = [](const Lines& lines) {
    const graph::Graph graph = ParseOrDie(lines);
    const v1::Schedule schedule = FirstSchedule(graph, Target());
    std::string roots;
    for (const v1::Group& group : schedule.groups())
      for (const std::string& root : group.roots()) absl::StrAppend(&roots, root, " ");
    return roots;
  };
  const std::string many = stores(Turned(64, 128, 16));
  INFO(many);
  CHECK(absl::StrContains(many, "c "));
  CHECK(absl::StrContains(many, "s "));
  // A launch takes longer than a few angles.
  CHECK(stores(Turned(1, 16, 2)) == "y ");
  const graph::Graph graph = ParseOrDie(Turned(2, 5, 3));
  Check(graph, FirstSchedule(graph, TestTarget()), 3);
}

TEST_CASE("what a matrix and its transpose are made of is stored", "[codegen]") {
  const auto stores = [](const char* sum, const char* tensor) {
    const graph::Graph graph = ParseOrDie(
        {"input x: f32[2048, 2048] ~ normal", "input s: f32[2048] ~ uniform(1, 2)",
         "l: f32[r: 2048] = log(s[r])",
         "e: f32[r: 2048, c: 2048] = tanh(exp(x[r, c] - l[r])) / log1p(x[r, c] * x[r, c])", sum,
         "output y"});
    const v1::Schedule schedule = FirstSchedule(graph, Target());
    return std::any_of(schedule.groups().begin(), schedule.groups().end(), [&](const auto& group) {
      return std::count(group.roots().begin(), group.roots().end(), tensor) > 0;
    });
  };
  const char* const both = "y: f32[r: 2048, c: 2048] = e[r, c] + e[c, r]";
  const char* const one = "y: f32[r: 2048, c: 2048] = e[r, c] + x[c, r]";
  CHECK(stores(both, "e"));
  CHECK_FALSE(stores(one, "e"));
  CHECK(stores(one, "l"));  // else each element of a tile takes the logarithm
}

// Products of whole numbers, and the few that a vector's lanes add up, are exact in fp32, and sums
// of them in fp64: then only the sum itself is rounded, which is better than what any order of
// additions in fp32 promises (n terms added pairwise: log2 n roundings).
TEST_CASE("a first schedule's sum of products is rounded once", "[codegen]") {
  const graph::Graph graph =
      graph::Parse({"input x: f32[24, 4096] ~ integers(-2000, 2000)",
                    "input d: f32[24, 4096] ~ integers(-2000, 2000)",
                    "b: f32[r: 24] = sum[c: 4096](d[r, c] * x[r, c])",
                    "y: f32[r: 24, c: 4096] = min(max(d[r, c] - b[r], -1), 1)", "output b, y"},
                   {})
          .value();
  const Trial trial{graph, FirstSchedule(graph, TestTarget()), 1, false, 1e-12};
  CHECK(RunAndCompareAll({trial})[0].message() == "");
}

// The first group of the default schedule, with its knobs.
v1::Group First(const std::vector<std::string>& lines) {
  const auto graph = graph::Parse(lines, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  const Target target;
  const auto groups = Describe(*graph, DefaultSchedule(*graph, target), target);
  INFO(groups.status().message());
  REQUIRE(groups.ok());
  return groups->front().resolved;
}

TEST_CASE("first schedules keep memory busy where little is read at a time", "[codegen]") {
  // Rows that an index finds, and bytes that become words, against a plain sum.
  const std::string index = "input i: i64[60000] ~ integers(0, 1000)";
  CHECK(First({index, "input x: f16[1000, 1024] ~ normal", "y: f16[r: 60000, c: 1024] = x[i[r], c]",
               "output y"})
            .map()
            .unroll() == 2);
  CHECK(First({"input x: i8[60000, 1024] ~ integers(-100, 100)",
               "y: f16[r: 60000, c: 1024] = f16(x[r, c])", "output y"})
            .map()
            .unroll() == 2);
  CHECK(First({"input x: f16[60000, 1024] ~ normal", "input z: f16[60000, 1024] ~ normal",
               "y: f16[r: 60000, c: 1024] = x[r, c] + z[r, c]", "output y"})
            .map()
            .unroll() == 1);
  // Few columns: a block for every few of them.
  const v1::Group few =
      First({"input x: f32[160, 128] ~ normal", "m: f32[c: 128] = max[r: 160](x[r, c])",
             "y: f32[r: 160, c: 128] = x[r, c] / m[c]", "output y"});
  REQUIRE(few.has_columns());
  CHECK(few.columns().block_threads() / few.columns().thread_rows() == 4);
}

TEST_CASE("first schedules read windows as they lie in memory", "[codegen]") {
  // Pools that leave the last elements of each line out, and one that does not.
  const std::string lines = "input x: f32[64, 64, 126, 126] ~ normal";
  CHECK_FALSE(First({lines,
                     "y: f32[n: 64, c: 64, i: 31, j: 31] = max[r: 4, s: 4](x[n, c, 4 * i + r, "
                     "4 * j + s])",
                     "output y"})
                  .has_fold());
  CHECK(First({lines,
               "y: f32[n: 64, c: 64, i: 63, j: 63] = max[r: 2, s: 2](x[n, c, 2 * i + r, 2 * j + "
               "s])",
               "output y"})
            .has_fold());
  // Neighbours whose windows overlap, by pairs; with an element of nothing before the first pairs
  // lie apart.
  const std::string image = "input x: f32[16, 64, 128, 256] ~ normal",
                    filter = "param w: f32[64, 3, 3] ~ normal";
  CHECK(First({image, filter,
               "y: f32[n: 16, c: 64, i: 126, j: 254] = sum[r: 3, s: 3](x[n, c, i + r, j + s] * "
               "w[c, r, s])",
               "output y"})
            .window()
            .vector_bytes() == 8);
  CHECK(First({image, filter,
               "y: f32[n: 16, c: 64, i: 126, j: 256] = sum[r: 3, s: 3](select(0 <= j + s - 1 and j "
               "+ s - 1 < 256, x[n, c, i + r, j + s - 1], 0) * w[c, r, s])",
               "output y"})
            .window()
            .vector_bytes() == 4);
}

}  // namespace
}  // namespace warpsmith::codegen
