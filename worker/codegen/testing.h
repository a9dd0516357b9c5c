// What tests of code generation begin with. Includes Catch.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {

using Lines = std::vector<std::string>;

// Fails the test where the text is no graph.
inline graph::Graph ParseOrDie(const Lines& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(absl::StrJoin(lines, "\n") << "\n" << graph.status().message());
  REQUIRE(graph.ok());
  return *std::move(graph);
}

// Runs it and checks the answers.
inline void Check(const graph::Graph& graph, const v1::Schedule& schedule, uint64_t seed) {
  const absl::Status status = RunAndCompare(graph, schedule, seed);
  INFO(absl::StrJoin(graph::Print(graph), "\n") << "\n" << schedule.DebugString());
  INFO(status.message());
  CHECK(status.ok());
}

}  // namespace warpsmith::codegen
