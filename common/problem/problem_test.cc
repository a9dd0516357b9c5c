#include "common/problem/problem.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::problem {
namespace {

class ProblemFile {
 public:
  std::string path() const { return folder_ / "set.json"; }

  absl::StatusOr<v1::ProblemSet> Load(const std::string& text) const {
    REQUIRE(base::WriteFileAtomically(path(), text).ok());
    return LoadSet(path());
  }

 private:
  support::TemporaryFolder folder_;
};

// A set of one problem that is right; pieces of it are replaced by what is wrong.
const char kGood[] = R"({
  "name": "set",
  "problems": [
    {
      "name": "double",
      "graph": ["input x: f32[N]", "y: f32[n: N] = x[n] * 2", "output y"],
      "workloads": [{"name": "small", "dims": {"N": "4"}}, {"name": "large", "dims": {"N": "9"}}],
      "accuracy": {"absolute": 0.001}
    }
  ]
})";

std::string Replaced(const std::string& what, const std::string& with) {
  std::string text = kGood;
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

TEST_CASE("a good file loads, and is the same after it was saved") {
  ProblemFile file;
  const auto set = file.Load(kGood);
  INFO(set.status().message());
  REQUIRE(set.ok());
  CHECK(set->problems(0).workloads(1).dims().at("N") == 9);
  const auto graph = GraphOf(set->problems(0), set->problems(0).workloads(1));
  REQUIRE(graph.ok());
  CHECK(graph->tensors[0].shape == std::vector<int64_t>{9});
  REQUIRE(SaveSet(*set, file.path()).ok());
  const std::string text = base::ReadFile(file.path()).value();
  CHECK_THAT(text, Catch::Contains("\n  \"name\": \"set\",\n"));
  CHECK_THAT(text, Catch::Contains("\n      \"name\": \"double\",\n"));
  const auto again = LoadSet(file.path());
  REQUIRE(again.ok());
  CHECK(again->SerializeAsString() == set->SerializeAsString());
}

TEST_CASE("bad files are refused with the place") {
  struct Case {
    const char *what, *with, *message;
  };
  const Case cases[] = {
      {"\"name\": \"set\",", "\"name\": \"set\", \"colour\": 1,", "colour"},
      {"\"name\": \"set\",", "\"name\": \"set\"", "not a problem set"},
      {"\"name\": \"set\"", "\"name\": \"\"", "the problem set: '' is no name"},
      {"\"double\"", "\"dou ble\"", "a problem: 'dou ble' is no name"},
      {"\"double\"", "\"..\"", "'..' is no name"},
      {"\"small\"", "\"a/b\"", "problem 'double': a workload: 'a/b' is no name"},
      {"\"small\"", "\"large\"", "problem 'double': has a second workload 'large'"},
      {"{\"N\": \"9\"}", "{\"M\": \"9\"}",
       "problem 'double', workload 'large': line 1, column 14: unknown name 'N'"},
      {"{\"N\": \"9\"}", "{}", "problem 'double', workload 'large': line 1, column 14"},
      {"\"9\"", "\"0\"", "workload 'large': dimension 'N' is 0"},
      {"{\"N\": \"9\"}", "{\"N\": \"9\", \"a b\": \"1\"}", "'a b' is no name for a dimension"},
      {"x[n] * 2", "x[n + 1]", "workload 'small': 'y': loads 'x' out of bounds"},
      {", \"output y\"", "", "workload 'small': the graph has no output"},
      {"x[n] * 2", "x[n] *", "line 2, column 22: expected an expression"},
      {"0.001", "-1", "problem 'double': accuracy"},
      {"0.001", "\"NaN\"", "problem 'double': accuracy"},
      {"0.001", "\"Infinity\"", "problem 'double': accuracy"},
  };
  ProblemFile file;
  for (const Case& c : cases) {
    INFO(c.what << " -> " << c.with);
    const auto set = file.Load(Replaced(c.what, c.with));
    REQUIRE_FALSE(set.ok());
    CHECK(set.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(set.status().message()), Catch::Contains(c.message));
    CHECK_THAT(std::string(set.status().message()), Catch::Contains(file.path()));
    CHECK_THAT(std::string(set.status().message()), !Catch::Contains("\n"));
  }
  CHECK(LoadSet(file.path() + ".none").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("limits and missing parts") {
  ProblemFile file;
  const v1::ProblemSet good = file.Load(kGood).value();
  const auto error = [&](auto change) {
    v1::ProblemSet set = good;
    change(set);
    return std::string(Validate(set).message());
  };
  CHECK(error([](v1::ProblemSet&) {}).empty());
  CHECK_THAT(error([](v1::ProblemSet& s) { s.clear_problems(); }), Catch::Contains("no problem"));
  CHECK_THAT(error([](v1::ProblemSet& s) { *s.add_problems() = s.problems(0); }),
             Catch::Contains("problem 'double': a second one"));
  CHECK_THAT(error([](v1::ProblemSet& s) { s.mutable_problems(0)->clear_graph(); }),
             Catch::Contains("has no graph"));
  CHECK_THAT(error([](v1::ProblemSet& s) { s.mutable_problems(0)->clear_workloads(); }),
             Catch::Contains("has no workload"));
  CHECK_THAT(error([](v1::ProblemSet& s) {
               for (int i = 0; i < kMaxWorkloads; ++i) {
                 v1::Workload* workload = s.mutable_problems(0)->add_workloads();
                 workload->set_name("w" + std::to_string(i));
                 (*workload->mutable_dims())["N"] = 3;
               }
             }),
             Catch::Contains("66 workloads; the limit is 64"));
  CHECK_THAT(error([](v1::ProblemSet& s) {
               v1::Problem* problem = s.mutable_problems(0);
               for (int i = 0; i < kMaxNodes; ++i) {
                 problem->add_graph("z" + std::to_string(i) + ": f32 = x[0]");
               }
             }),
             Catch::Contains("4097 nodes; the limit is 4096"));
  CHECK_THAT(error([](v1::ProblemSet& s) {
               for (int i = 0; i < kMaxProblems; ++i) *s.add_problems() = s.problems(0);
             }),
             Catch::Contains("10001 problems; the limit is 10000"));
  const auto orders = [&](std::vector<std::vector<int>> of) {
    return error([&](v1::ProblemSet& s) {
      for (const std::vector<int>& axes : of) {
        v1::AxisOrder& order = *s.mutable_problems(0)->mutable_torch()->add_orders();
        order.mutable_axes()->Add(axes.begin(), axes.end());
      }
    });
  };
  CHECK(orders({{0}}).empty());
  CHECK_THAT(orders({{0}, {0}}), Catch::Contains("torch.orders: there are 2 for 1 outputs"));
  for (const std::vector<int>& axes : {std::vector<int>{}, {1}, {-1}, {0, 1}}) {
    CHECK_THAT(orders({axes}), Catch::Contains("is no order of the 1 axes of output 0"));
  }
  const auto views = [&](std::vector<std::array<int64_t, 3>> of) {  // size, stride, offset
    return error([&](v1::ProblemSet& s) {
      for (const auto& [size, stride, offset] : of) {
        v1::View& view = *s.mutable_problems(0)->mutable_torch()->add_views();
        view.add_sizes(size);
        view.add_strides(stride);
        view.set_offset(offset);
      }
    });
  };
  CHECK(views({{1, 1, 0}}).empty());
  CHECK(views({{1, 1ll << 62, 0}}).empty());
  CHECK_THAT(views({{1, 1, 0}, {1, 1, 0}}), Catch::Contains("torch.views: there are 2 for 1"));
  for (const std::array<int64_t, 3>& view : {std::array<int64_t, 3>{1, 1, -1},
                                             {0, 1, 0},
                                             {2, -1, 1},
                                             {1, 1, 1ll << 40},
                                             {1ll << 40, 1, 0},
                                             {1ll << 33, 1ll << 33, 0}}) {
    CHECK_THAT(views({view}), Catch::Contains("is no part of output 0"));
  }
}

TEST_CASE("some of a problem's workloads, in its own order") {
  ProblemFile file;
  const v1::Problem good = file.Load(kGood).value().problems(0);
  REQUIRE(good.workloads_size() == 2);
  const std::string first = good.workloads(0).name(), second = good.workloads(1).name();
  const auto both = WithWorkloads(good, {second, first});
  REQUIRE(both.ok());
  CHECK(both->SerializeAsString() == good.SerializeAsString());
  const auto one = WithWorkloads(good, {second});
  REQUIRE(one.ok());
  REQUIRE(one->workloads_size() == 1);
  CHECK(one->workloads(0).name() == second);
  CHECK(one->graph_size() == good.graph_size());
  CHECK(Validate(*one).ok());
  CHECK(Digest(*one) != Digest(good));
  CHECK_THAT(std::string(WithWorkloads(good, {first, "none"}).status().message()),
             Catch::Contains("problem 'double' has no workload 'none'"));
}

TEST_CASE("the digest is of what decides the answer") {
  ProblemFile file;
  const v1::Problem good = file.Load(kGood).value().problems(0);
  const auto digest = [&](auto change) {
    v1::Problem problem = good;
    change(problem);
    return Digest(problem);
  };
  const std::string same = Digest(good);
  CHECK(same.size() == 64);
  CHECK(digest([](v1::Problem& p) { p.set_name("other"); }) == same);
  CHECK(digest([](v1::Problem& p) { p.set_description("other"); }) == same);
  CHECK(digest([](v1::Problem& p) { p.set_graph(1, "y: f32[n: N] = x[n] * 3"); }) != same);
  CHECK(digest([](v1::Problem& p) { (*p.mutable_workloads(0)->mutable_dims())["N"] = 5; }) != same);
  CHECK(digest([](v1::Problem& p) { p.mutable_accuracy()->set_relative(1e-9); }) != same);
  CHECK(digest([](v1::Problem& p) { p.mutable_accuracy()->set_tolerance_only(true); }) != same);
  CHECK(digest([](v1::Problem& p) { p.mutable_torch()->set_source("class Model"); }) != same);
  CHECK(digest([](v1::Problem& p) { p.mutable_torch()->add_orders()->add_axes(0); }) != same);
  CHECK(digest([](v1::Problem& p) { p.set_weights_constant(true); }) != same);
}

}  // namespace
}  // namespace warpsmith::problem
