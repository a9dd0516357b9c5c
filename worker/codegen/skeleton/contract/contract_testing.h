// What tests of the contract skeleton share.
#pragma once

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "worker/codegen/testing.h"

namespace warpsmith::codegen {

struct Case {
  const char* what;
  Lines graph;
};

// The graph's only group with such knobs.
inline v1::Schedule ScheduleOf(const graph::Graph& graph, const std::string& knobs) {
  v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
  INFO(schedule.DebugString());
  REQUIRE(schedule.groups_size() == 1);
  v1::Group parsed;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &parsed));
  parsed.mutable_roots()->CopyFrom(schedule.groups(0).roots());
  *schedule.mutable_groups(0) = parsed;
  return schedule;
}

// The group that writes `roots`, with such knobs.
inline v1::Schedule OneGroup(const std::vector<std::string>& roots, const std::string& knobs) {
  v1::Schedule schedule;
  v1::Group& group = *schedule.add_groups();
  REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &group));
  for (const std::string& root : roots) group.add_roots(root);
  return schedule;
}

}  // namespace warpsmith::codegen
