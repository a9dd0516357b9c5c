#include "worker/call/call_timer.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

namespace warpsmith::call {
namespace {

namespace fs = std::filesystem;

// A folder with a warpsmith_torch/call_time.py that answers with what the test says.
class Python {
 public:
  explicit Python(const std::string& program)
      : folder_((fs::temp_directory_path() / "warpsmith_call_timer_test").string()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/warpsmith_torch");
    std::ofstream(folder_ + "/warpsmith_torch/__init__.py") << "\n";
    std::ofstream(folder_ + "/warpsmith_torch/call_time.py")
        << "import json, sys\nrequest = json.loads(sys.stdin.readline())\n"
        << program << "\n";
  }
  ~Python() { fs::remove_all(folder_); }

  absl::StatusOr<CallTimes> Time(const std::vector<std::string>& cubins = {"one", "two"}) const {
    return TimeWith(*Timer(), cubins);
  }
  static absl::StatusOr<CallTimes> TimeWith(CallTimer& timer,
                                            const std::vector<std::string>& cubins = {"one",
                                                                                      "two"}) {
    v1::Plan plan;
    plan.set_workload("w");
    return timer.Time({plan, plan}, cubins);
  }
  std::unique_ptr<CallTimer> Timer() const {
    CallTimer::Options options;
    options.python = "python3";
    options.python_path = folder_;
    options.device = "cuda:0";
    options.arch = "sm_90a";
    options.limit = absl::Seconds(30);
    return std::make_unique<CallTimer>(options);
  }

 private:
  const std::string folder_;
};

std::string Refusal(const absl::StatusOr<CallTimes>& times) {
  return std::string(times.status().message());
}

TEST_CASE("times are geometric means over plans", "[call]") {
  const Python python(R"(
assert request["architecture"] == "sm_90a" and len(request["plans"]) == 2
assert request["plans"][0]["workload"] == "w" and request["binaries"][0] != request["binaries"][1]
print(json.dumps({"call_us": [10, 40], "graph_us": [8, 2]})))");
  const auto times = python.Time();
  REQUIRE(Refusal(times) == "");
  CHECK(times->call_us == Approx(20));
  CHECK(times->graph_us == Approx(4));
}

TEST_CASE("what is prepared is used once, and done without where it has ended", "[call]") {
  const Python python(
      "import os; print(json.dumps({'call_us': [os.getpid()] * 2, 'graph_us': [1, 1]}))");
  const auto timer = python.Timer();
  timer->Prepare();
  timer->Prepare();
  double last = 0;
  for (int i = 0; i < 2; ++i) {
    const auto times = Python::TimeWith(*timer);
    REQUIRE(Refusal(times) == "");
    CHECK(times->call_us != last);  // another process
    last = times->call_us;
  }
  // A prepared process ends with its thread.
  std::thread([&] { timer->Prepare(); }).join();
  CHECK(Refusal(Python::TimeWith(*timer)) == "");
}

TEST_CASE("what goes wrong is said", "[call]") {
  const auto fails = [](const std::string& program, const std::string& text) {
    const std::string refusal = Refusal(Python(program).Time());
    INFO(refusal);
    CHECK(refusal.find(text) != std::string::npos);
  };
  fails("print(json.dumps({'error': 'CUDA out of memory'}))", "CUDA out of memory");
  fails("print(json.dumps({'call_us': [1], 'graph_us': [1, 1]}))", "not a time a plan");
  fails("print(json.dumps({'call_us': [1, 0], 'graph_us': [1, 1]}))", "a time that is none");
  fails("print('hello')", "an answer that is none");
  fails("sys.exit('no such module')", "no such module");
  CHECK(Refusal(Python("").Time({"one"})) == "there is not a binary for each plan");
  CHECK(Refusal(CallTimer({}).Time({}, {})) == "the worker has no Python with PyTorch");
}

}  // namespace
}  // namespace warpsmith::call
