// The problem set that ships: it loads, and every workload that is small is computed.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/graph/graph.h"
#include "common/problem/problem.h"
#include "worker/oracle/oracle.h"

namespace warpsmith {
namespace {

v1::ProblemSet Starter() {
  auto set = problem::LoadSet(WARPSMITH_PROBLEMS "/starter.json");
  INFO(set.status().message());
  REQUIRE(set.ok());
  return *std::move(set);
}

TEST_CASE("the starter set is large enough and of several workloads each") {
  const v1::ProblemSet set = Starter();
  CHECK(set.problems_size() >= 18);
  for (const v1::Problem& problem : set.problems()) {
    INFO(problem.name());
    CHECK(problem.workloads_size() >= 2);
    CHECK_FALSE(problem.description().empty());
    CHECK(problem.name().find_first_of("0123456789") == std::string::npos);
  }
}

TEST_CASE("no two problems of the starter set are the same") {
  const v1::ProblemSet set = Starter();
  std::set<std::string> digests;
  for (const v1::Problem& problem : set.problems()) digests.insert(problem::Digest(problem));
  CHECK(digests.size() == set.problems_size());
}

TEST_CASE("every small workload of the starter set has a finite answer") {
  constexpr int64_t kSmallElements = 1 << 17;
  const v1::ProblemSet set = Starter();
  for (const v1::Problem& problem : set.problems()) {
    int evaluated = 0;
    for (const v1::Workload& workload : problem.workloads()) {
      INFO(problem.name() << ", " << workload.name());
      const graph::Graph graph = problem::GraphOf(problem, workload).value();
      int64_t elements = 0;
      std::vector<oracle::Values> inputs;
      for (const graph::Tensor& tensor : graph.tensors) elements += tensor.elements();
      const graph::Cost cost = graph::Count(graph);
      CHECK(cost.bytes() > 0);
      CHECK(elements <= (4 << 20));
      if (elements > kSmallElements) continue;
      for (const graph::Tensor& tensor : graph.tensors) {
        if (tensor.node >= 0) continue;
        inputs.push_back(oracle::DrawOnHost(tensor, 7, oracle::Variation::kNone));
      }
      const auto exact = oracle::EvaluateOnHost(graph, inputs, false);
      const auto rounded = oracle::EvaluateOnHost(graph, inputs, true);
      INFO(exact.status().message());
      REQUIRE(exact.ok());
      REQUIRE(rounded.ok());
      for (size_t o = 0; o < exact->size(); ++o) {
        for (size_t i = 0; i < (*exact)[o].size(); ++i) {
          const double y = (*exact)[o][i];
          if (std::fabs((*rounded)[o][i] - y) > 1e-4 * (1 + std::fabs(y))) FAIL("element " << i);
        }
      }
      ++evaluated;
    }
    INFO(problem.name());
    CHECK(evaluated >= 1);
  }
}

}  // namespace
}  // namespace warpsmith
