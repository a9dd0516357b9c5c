// Small plans for tests and for the device's own check program.
//
//   v1::Plan plan = PlanBuilder(source).Buffer("x", 4096).Buffer("y", 4096)
//                       .Launch("copy", 4, 256, {Arg(0), Arg(1), Arg64(1024)}).Build();
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::device {

inline v1::Argument Arg(int buffer) {
  v1::Argument argument;
  argument.set_buffer(buffer);
  return argument;
}
inline v1::Argument Arg64(int64_t value) {
  v1::Argument argument;
  argument.set_i64(value);
  return argument;
}
inline v1::Argument Arg32(int32_t value) {
  v1::Argument argument;
  argument.set_i32(value);
  return argument;
}
inline v1::Argument ArgF(float value) {
  v1::Argument argument;
  argument.set_f32(value);
  return argument;
}

class PlanBuilder {
 public:
  explicit PlanBuilder(std::string source) { plan_.set_source(std::move(source)); }

  PlanBuilder& Buffer(const std::string& name, int64_t bytes) {
    v1::Buffer& buffer = *plan_.add_buffers();
    buffer.set_kind(v1::Buffer::WORKSPACE);
    buffer.set_tensor(name);
    buffer.set_bytes(bytes);
    return *this;
  }
  // One-dimensional grid and block.
  PlanBuilder& Launch(const std::string& entry, uint32_t grid, uint32_t block,
                      const std::vector<v1::Argument>& arguments) {
    v1::Launch& launch = *plan_.add_steps()->mutable_launch();
    launch.set_entry(entry);
    for (uint32_t size : {grid, 1u, 1u}) launch.add_grid(size);
    for (uint32_t size : {block, 1u, 1u}) launch.add_block(size);
    for (const v1::Argument& argument : arguments) *launch.add_arguments() = argument;
    return *this;
  }
  // These change the launch that was added last, before any other step.
  PlanBuilder& Shared(uint32_t bytes) {
    Last().set_shared_bytes(bytes);
    return *this;
  }
  PlanBuilder& Cluster(uint32_t blocks) {
    for (uint32_t size : {blocks, 1u, 1u}) Last().add_cluster(size);
    return *this;
  }
  PlanBuilder& Cooperative() {
    Last().set_cooperative(true);
    return *this;
  }
  PlanBuilder& Programmatic() {
    Last().set_programmatic(true);
    return *this;
  }
  // This changes the step that was added last.
  PlanBuilder& InLane(uint32_t lane, const std::vector<uint32_t>& after = {}) {
    v1::Step& step = *plan_.mutable_steps(plan_.steps_size() - 1);
    step.set_lane(lane);
    for (const uint32_t before : after) step.add_after(before);
    return *this;
  }
  PlanBuilder& Fill(int buffer, uint32_t pattern, int64_t bytes) {
    v1::Fill& fill = *plan_.add_steps()->mutable_fill();
    fill.set_buffer(buffer);
    fill.set_pattern(pattern);
    fill.set_bytes(bytes);
    return *this;
  }
  PlanBuilder& Copy(int from, int to, int64_t bytes) {
    v1::Copy& copy = *plan_.add_steps()->mutable_copy();
    copy.set_from(from);
    copy.set_to(to);
    copy.set_bytes(bytes);
    return *this;
  }
  v1::Plan Build() const { return plan_; }

 private:
  v1::Launch& Last() { return *plan_.mutable_steps(plan_.steps_size() - 1)->mutable_launch(); }

  v1::Plan plan_;
};

}  // namespace warpsmith::device
