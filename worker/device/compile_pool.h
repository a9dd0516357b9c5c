// Compiles in processes of their own, several at once.
//
//   CompilePool::Options options;
//   options.arch = "sm_90a";
//   auto pool = CompilePool::Start(options);
//   (*pool)->Submit(source, absl::Seconds(5), [](absl::StatusOr<Binary> binary) { ... });
//
// For a card, a source's units are compiled side by side, and those that were compiled before are
// remembered (unit_cache.h). A compiler that crashes, or does not end, on a candidate's source
// takes one process with it, which is started again. Nothing of the card is held here, so that it
// measures while the processors compile. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/device.h"
#include "worker/device/unit_cache.h"

namespace warpsmith::device {

inline constexpr int kMaxQueuedCompilations = 4096;
inline constexpr int kMaxCompileProcesses = 256;

class CompilePool : public Compiler {
 public:
  struct Options {
    int processes = 1;
    std::string arch;  // as for MakeCompiler
    std::string cache_dir;
    std::string nvrtc;
    // The program that compiles; empty: `warpsmith-compile` beside this process's own.
    std::string program;
    // Compilers leak a little: a process ends after so many sources.
    int sources_per_process = 1000;
    int stderr_fd = 2;  // the compilers' standard error
  };
  // Called once, on a thread of the pool; it must not block, nor destroy the pool.
  using Callback = std::function<void(absl::StatusOr<Binary>)>;

  // NotFound: no such program. Processes start with the first source they get.
  static absl::StatusOr<std::unique_ptr<CompilePool>> Start(const Options& options);
  // Kills what runs; what is queued is answered with Cancelled.
  ~CompilePool() override;

  // The results are Compiler::Compile's; the limit counts from the start of a unit's compilation,
  // not from now, and holds whatever the compiler does. InvalidArgument also says that the compiler
  // crashed. ResourceExhausted: kMaxQueuedCompilations wait already.
  void Submit(std::string source, absl::Duration limit, Callback done);
  std::future<absl::StatusOr<Binary>> Submit(std::string source, absl::Duration limit);
  // Waits for its turn and the result.
  absl::StatusOr<Binary> Compile(const std::string& source, absl::Duration limit) override;

 private:
  class Child;
  struct Job {
    std::string source;
    absl::Duration limit;
    Callback done;
  };

  explicit CompilePool(Options options);
  void Work(Child* child);
  void Enqueue(std::string source, absl::Duration limit, Callback done);

  const Options options_;
  UnitCache units_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<std::thread> threads_;  // one for each child
};

}  // namespace warpsmith::device
