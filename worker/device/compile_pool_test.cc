#include "worker/device/compile_pool.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/device/compile_wire.h"

namespace warpsmith::device {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() /
             absl::StrCat("warpsmith-compile-pool-test-", getpid())) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::filesystem::path path;
};

std::unique_ptr<CompilePool> HostPool(const Folder& folder, int processes) {
  CompilePool::Options options;
  options.processes = processes;
  options.arch = "host";
  options.cache_dir = folder.path / "cache";
  options.sources_per_process = 3;
  auto pool = CompilePool::Start(options);
  INFO(pool.status());
  REQUIRE(pool.ok());
  return *std::move(pool);
}

std::string Kernel(int i) {
  return absl::StrCat("extern \"C\" __global__ void f", i, "(float* x) { x[0] = ", i, "; }");
}

// 2^N instantiations.
std::string Endless(int n) {
  return absl::StrCat(
      "template <int N, long K> struct F { enum { v = F<N - 1, 2 * K>::v + F<N - 1, 2 * K + 1>::v "
      "};"
      "}; template <long K> struct F<0, K> { enum { v = 1 }; };"
      "extern \"C\" __global__ void f(long* x) { *x = F<",
      n, ", 0>::v; }");
}

TEST_CASE("sources compile in several processes, which are replaced") {
  Folder folder;
  auto pool = HostPool(folder, 2);
  std::vector<std::future<absl::StatusOr<Binary>>> results;
  for (int i = 0; i < 8; ++i) results.push_back(pool->Submit(Kernel(i), kLimit));
  for (int i = 0; i < 8; ++i) {
    const auto binary = results[i].get();
    INFO(binary.status());
    REQUIRE(binary.ok());
    REQUIRE(binary->report.kernels(0).entry() == absl::StrCat("f", i));
    REQUIRE(std::filesystem::exists(binary->bytes));
  }
}

TEST_CASE("errors come back, and an endless compilation is killed") {
  Folder folder;
  auto pool = HostPool(folder, 2);
  auto wrong = pool->Submit("extern \"C\" __global__ void f() { nothing(); }", kLimit);
  auto endless = pool->Submit(Endless(30), absl::Milliseconds(200));
  auto right = pool->Submit(Kernel(1), kLimit);
  const auto message = wrong.get().status();
  REQUIRE(absl::IsInvalidArgument(message));
  REQUIRE(absl::StrContains(message.message(), "nothing"));
  REQUIRE(absl::IsDeadlineExceeded(endless.get().status()));
  REQUIRE(right.get().ok());
  REQUIRE(pool->Compile(Kernel(2), kLimit).ok());
}

// A program in the place of warpsmith-compile.
std::string Script(const Folder& folder, const std::string& body) {
  const std::string path = folder.path / "script";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST_CASE("a process that dies, hangs or does not start") {
  Folder folder;
  CompilePool::Options options;
  options.arch = "host";
  options.cache_dir = folder.path / "cache";
  const std::string ready = "printf '\\005\\000\\000\\000ready' >&0; ";
  options.program = Script(folder, ready + "kill -SEGV $$");
  {
    auto pool = CompilePool::Start(options).value();
    for (int i = 0; i < 2; ++i) {
      const auto status = pool->Compile("", kLimit).status();
      INFO(status);
      REQUIRE(absl::IsInvalidArgument(status));
      REQUIRE(absl::StrContains(status.message(), "signal 11"));
    }
  }
  options.program = Script(folder, ready + "exec sleep 1000");
  {
    auto pool = CompilePool::Start(options).value();
    REQUIRE(absl::IsDeadlineExceeded(pool->Compile("", absl::Milliseconds(1)).status()));
    // Ending the pool does not wait for what runs.
    auto waiting = pool->Submit("", absl::Hours(1));
    auto queued = pool->Submit("", absl::Hours(1));
    pool.reset();
    REQUIRE(absl::IsCancelled(waiting.get().status()));
    REQUIRE(absl::IsCancelled(queued.get().status()));
  }
  options.program = Script(folder, "exit 3");
  {
    auto pool = CompilePool::Start(options).value();
    REQUIRE(absl::IsUnavailable(pool->Compile("", kLimit).status()));
  }
  options.program = "/nowhere/warpsmith-compile";
  REQUIRE(absl::IsNotFound(CompilePool::Start(options).status()));
}

TEST_CASE("what cannot compile says so in each answer") {
  Folder folder;
  CompilePool::Options options;
  options.arch = "sm_90a";
  options.cache_dir = folder.path / "cache";
  options.nvrtc = "/nowhere/libnvrtc.so";
  auto pool = CompilePool::Start(options).value();
  for (int i = 0; i < 2; ++i) {
    REQUIRE(absl::IsNotFound(pool->Compile(Kernel(1), kLimit).status()));
  }
}

TEST_CASE("NVRTC compiles in the pool and is killed where it does not end") {
  Folder folder;
  CompilePool::Options options;
  options.arch = "sm_90a";
  options.cache_dir = folder.path / "cache";
  auto pool = CompilePool::Start(options).value();
  const auto binary = pool->Compile(Kernel(1), kLimit);
  if (absl::IsNotFound(binary.status())) {
    WARN("not run: " << binary.status());
    return;
  }
  REQUIRE(binary.ok());
  REQUIRE(absl::StartsWith(binary->bytes, "\177ELF"));
  const base::Instant start = base::Now();
  REQUIRE(absl::IsDeadlineExceeded(pool->Compile(Endless(30), absl::Milliseconds(100)).status()));
  REQUIRE(base::Now() - start < absl::Seconds(10));
  REQUIRE(pool->Compile(Kernel(2), kLimit).ok());
}

TEST_CASE("requests and replies keep what they say") {
  Binary binary;
  binary.bytes = std::string("\0\1\2", 3);
  binary.report.add_kernels()->set_registers(17);
  const auto reply = DecodeReply(Encode(absl::StatusOr<Binary>(binary)));
  REQUIRE(reply.ok());
  REQUIRE(reply->bytes == binary.bytes);
  REQUIRE(reply->report.kernels(0).registers() == 17);
  const auto error = DecodeReply(Encode(absl::StatusOr<Binary>(absl::NotFoundError("what"))));
  REQUIRE(error.status() == absl::NotFoundError("what"));
  const auto request = DecodeRequest(Encode(CompileRequest{"source", absl::Milliseconds(1500)}));
  REQUIRE(request.ok());
  REQUIRE(request->source == "source");
  REQUIRE(request->limit == absl::Milliseconds(1500));
  for (const char* broken : {"", "abc", "\1\2\3\4\xff\xff\xff\xff"}) {
    REQUIRE(absl::IsDataLoss(DecodeReply(broken).status()));
    REQUIRE(absl::IsDataLoss(DecodeRequest(broken).status()));
  }
}

}  // namespace
}  // namespace warpsmith::device
