// Runs kernels of these headers on the host device, for their tests.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/device.h"
#include "worker/device/plan_builder.h"

namespace warpsmith::kernels {

// The whole test has a limit of its own; the compiler shares the machine with others.
constexpr absl::Duration kCompileLimit = absl::Minutes(20);
constexpr absl::Duration kRunLimit = absl::Minutes(2);  // of a kernel, in processor time

inline device::Compiler& TestCompiler() {
  static device::Compiler* const compiler = [] {
    static const std::string* const path = new std::string(
        std::filesystem::temp_directory_path() / absl::StrCat("warpsmith-kernels-test-", getpid()));
    std::atexit([] { std::filesystem::remove_all(*path); });
    return device::MakeCompiler("host", *path).value().release();
  }();
  return *compiler;
}

// A plan on the host device. Buffers begin with a pattern that is no answer.
class TestRun {
 public:
  explicit TestRun(v1::Plan plan)
      : plan_(std::move(plan)), device_(device::MakeDevice("host").value()) {
    auto binary = TestCompiler().Compile(plan_.source(), kCompileLimit);
    INFO(binary.status().message());
    REQUIRE(binary.ok());
    std::vector<device::Memory*> bound;
    for (const v1::Buffer& buffer : plan_.buffers()) {
      memory_.push_back(device_->Allocate(buffer.bytes()).value());
      REQUIRE(device_->Fill(*memory_.back(), 0x7fc0dead).ok());
      bound.push_back(memory_.back().get());
    }
    auto program = device_->Load(plan_, *binary);
    INFO(program.status().message());
    REQUIRE(program.ok());
    program_ = *std::move(program);
    REQUIRE(program_->Bind(bound).ok());
  }
  void Run() {
    const absl::Status status = device_->Run(*program_, kRunLimit);
    INFO(status.message());
    REQUIRE(status.ok());
    for (auto& memory : memory_) REQUIRE(memory->GuardIntact().value());
  }
  template <class T>
  std::vector<T> Read(int buffer) {
    std::vector<T> values(memory_[buffer]->bytes() / sizeof(T));
    REQUIRE(device_->Read(*memory_[buffer], values.data(), values.size() * sizeof(T)).ok());
    return values;
  }
  template <class T>
  void Write(int buffer, const std::vector<T>& values) {
    REQUIRE(device_->Write(*memory_[buffer], values.data(), values.size() * sizeof(T)).ok());
  }

 private:
  v1::Plan plan_;
  std::unique_ptr<device::Device> device_;
  std::vector<std::unique_ptr<device::Memory>> memory_;
  std::unique_ptr<device::Program> program_;
};

}  // namespace warpsmith::kernels
