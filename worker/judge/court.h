// For tests: a judge on the host device, and what it is to judge. Includes Catch.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/judge/cheats.h"
#include "worker/judge/judge.h"
#include "worker/oracle/native_device.h"

namespace warpsmith::judge {

inline std::string CacheDir() {
  return (std::filesystem::temp_directory_path() / "warpsmith_judge_test").string();
}

// A judge of its own on the host device, with the native oracle.
struct Court {
  using Wrap = std::function<std::unique_ptr<oracle::Oracle>(std::unique_ptr<oracle::Oracle>)>;

  explicit Court(Options options = {}, Wrap wrap = nullptr,
                 std::unique_ptr<device::Device> own = *device::MakeDevice("host"))
      : device(std::move(own)),
        judge(
            *device, *compiler,
            [this, wrap](const v1::Problem&, const v1::Workload&, const graph::Graph& graph,
                         bool) -> absl::StatusOr<std::unique_ptr<oracle::Oracle>> {
              auto native = oracle::MakeNativeOracle(graph, *compiler, device->info());
              if (!native.ok() || wrap == nullptr) return native;
              return wrap(*std::move(native));
            },
            options) {}

  v1::CompiledPlan Compile(const v1::Plan& plan) {
    v1::CompiledPlan compiled;
    auto binary = compiler->Compile(plan.source(), absl::Minutes(1));
    INFO(binary.status());
    REQUIRE(binary.ok());
    *compiled.mutable_plan() = plan;
    compiled.set_binary(binary->bytes);
    return compiled;
  }
  v1::JudgeOpened Open(v1::JudgeOpen open) {
    auto opened = judge.Open(open);
    INFO(opened.status());
    REQUIRE(opened.ok());
    return *opened;
  }
  v1::JudgeOpened Open(const std::string& problem) {
    v1::JudgeOpen open;
    *open.mutable_problem() = CheatProblem(problem);
    open.set_seed(5);
    return Open(open);
  }
  v1::JudgeVerdict Evaluate(const std::vector<v1::Plan>& plans) { return Judged(plans).verdict; }
  Judgement Judged(const std::vector<v1::Plan>& plans) {
    v1::JudgeEvaluate request;
    request.set_trial_id("t");
    for (const v1::Plan& plan : plans) *request.add_plans() = Compile(plan);
    return judge.Evaluate(request);
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Compiler> compiler = *device::MakeCompiler("host", CacheDir());
  Judge judge;
};

// The host device, for a test to override what is to go otherwise.
class HostDevice : public device::Device {
 public:
  using Memory = device::Memory;
  using Program = device::Program;

  const device::DeviceInfo& info() const override { return device_->info(); }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t bytes) override {
    return device_->Allocate(bytes);
  }
  int64_t allocated_bytes() const override { return device_->allocated_bytes(); }
  void LimitMemory(int64_t bytes) override { device_->LimitMemory(bytes); }
  absl::StatusOr<int64_t> FreeBytes() override { return device_->FreeBytes(); }
  absl::Status Write(Memory& to, const void* from, int64_t bytes, int64_t offset) override {
    return device_->Write(to, from, bytes, offset);
  }
  absl::Status Read(const Memory& from, void* to, int64_t bytes, int64_t offset) override {
    return device_->Read(from, to, bytes, offset);
  }
  absl::Status Fill(Memory& memory, uint32_t pattern) override {
    return device_->Fill(memory, pattern);
  }
  absl::Status Copy(const Memory& from, Memory& to, int64_t bytes) override {
    return device_->Copy(from, to, bytes);
  }
  absl::Status CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                               int64_t bytes) override {
    return device_->CopyFromForeign(handle, offset, to, bytes);
  }
  absl::StatusOr<std::unique_ptr<Program>> Load(const v1::Plan& plan,
                                                const device::Binary& binary) override {
    return device_->Load(plan, binary);
  }
  absl::Status Run(Program& program, absl::Duration limit) override {
    return device_->Run(program, limit);
  }
  absl::StatusOr<double> Time(Program& program, absl::Duration limit,
                              device::Launching how) override {
    return device_->Time(program, limit, how);
  }
  absl::StatusOr<double> TimeLaunch() override { return device_->TimeLaunch(); }
  absl::StatusOr<std::vector<double>> TimeLaunches(Program& program,
                                                   absl::Duration limit) override {
    return device_->TimeLaunches(program, limit);
  }
  absl::StatusOr<std::vector<std::optional<v1::Counters>>> Count(Program& program,
                                                                 absl::Duration limit) override {
    return device_->Count(program, limit);
  }
  absl::Status Settle(absl::Duration limit) override { return device_->Settle(limit); }
  double SmClockMhz() override { return device_->SmClockMhz(); }
  device::Throttling Throttled() override { return device_->Throttled(); }
  absl::StatusOr<graph::Roof> MeasureRoof() override { return device_->MeasureRoof(); }

 private:
  const std::unique_ptr<device::Device> device_ = *device::MakeDevice("host");
};

// What an honest plan does beside its work, where it is to be slow.
inline constexpr int kWork = 64;

// y = factor * x.
inline v1::Plan DoublingPlan(int64_t n, const std::string& factor) {
  v1::Plan plan;
  plan.set_source(absl::StrCat(
      "extern \"C\" __global__ void candidate(const float* x, float* y) { int i = blockIdx.x * "
      "blockDim.x + threadIdx.x; if (i < ",
      n, ") y[i] = x[i] * ", factor, "; }"));
  for (auto [kind, name] : {std::pair(v1::Buffer::INPUT, "x"), {v1::Buffer::OUTPUT, "y"}}) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(kind);
    buffer->set_tensor(name);
    buffer->set_dtype("f32");
    buffer->add_shape(n);
    buffer->set_bytes(4 * n);
  }
  v1::Launch* launch = plan.add_steps()->mutable_launch();
  launch->set_entry("candidate");
  for (uint32_t size : {static_cast<uint32_t>((n + 127) / 128), 1u, 1u}) launch->add_grid(size);
  for (uint32_t size : {128u, 1u, 1u}) launch->add_block(size);
  for (int i = 0; i < 2; ++i) launch->add_arguments()->set_buffer(i);
  return plan;
}

// A problem of one workload.
inline v1::JudgeOpen ProblemOf(const std::string& name, const std::vector<std::string>& graph) {
  v1::JudgeOpen open;
  v1::Problem& problem = *open.mutable_problem();
  problem.set_name(name);
  for (const std::string& line : graph) problem.add_graph(line);
  problem.add_workloads()->set_name("default");
  return open;
}

// A state that the plan's kernel takes as its next argument.
inline void AddState(const std::string& name, const std::string& dtype, int64_t elements,
                     int64_t bytes, v1::Plan& plan) {
  v1::Buffer* state = plan.add_buffers();
  state->set_kind(v1::Buffer::STATE);
  state->set_tensor(name);
  state->set_dtype(dtype);
  state->add_shape(elements);
  state->set_bytes(bytes);
  plan.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(plan.buffers_size() - 1);
}

}  // namespace warpsmith::judge
