// Catch2's main, and a tally of test cases for scripts/test.sh.
//
// With WARPSMITH_TEST_TALLY=DIR each binary writes DIR/BINARY.PID: a line `start NAME` before and
// `pass NAME` or `fail NAME` after each test case. A case that started and never ended has crashed.
#define CATCH_CONFIG_MAIN
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

class Tally : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo& run) override {
    if (const char* folder = std::getenv("WARPSMITH_TEST_TALLY")) {
      out_.open(std::string(folder) + "/" + run.name + "." + std::to_string(getpid()));
    }
  }
  void testCaseStarting(const Catch::TestCaseInfo& test) override { Write("start", test.name); }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    Write(stats.totals.testCases.failed > 0 ? "fail" : "pass", stats.testInfo.name);
  }

 private:
  void Write(const char* what, const std::string& name) {
    if (out_.is_open()) out_ << what << ' ' << name << std::endl;
  }
  std::ofstream out_;
};
CATCH_REGISTER_LISTENER(Tally)

}  // namespace
