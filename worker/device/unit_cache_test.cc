#include "worker/device/unit_cache.h"

#include <catch2/catch.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/problem/units.h"

namespace warpsmith::device {
namespace {

using problem::ImagesOf;

// A compiler that finishes when it is told to.
struct Compiling {
  struct Job {
    std::string source;
    UnitCache::Callback done;
  };
  std::vector<Job> jobs;
  UnitCache cache;

  explicit Compiling(int64_t most_bytes = 1 << 20)
      : cache(
            [this](std::string source, absl::Duration, UnitCache::Callback done) {
              jobs.push_back({std::move(source), std::move(done)});
            },
            most_bytes) {}

  std::vector<std::string> Sources() const {
    std::vector<std::string> sources;
    for (const Job& job : jobs) sources.push_back(job.source);
    return sources;
  }
  // Answers all that is asked: the source as binary, a kernel of its name, 5 ms; or an error.
  void Answer(bool fail = false) {
    for (Job& job : std::exchange(jobs, {})) {
      Binary binary;
      binary.bytes = job.source;
      binary.report.add_kernels()->set_entry(job.source);
      binary.report.add_warnings(absl::StrCat("of ", job.source));
      binary.report.set_compile_ms(5);
      if (fail) {
        job.done(absl::InvalidArgumentError(job.source));
      } else {
        job.done(binary);
      }
    }
  }
  // What becomes of a program; an error that says "waits" until something did.
  std::shared_ptr<absl::StatusOr<Binary>> Submit(const std::string& source) {
    auto result = std::make_shared<absl::StatusOr<Binary>>(absl::UnknownError("waits"));
    cache.Submit(source, absl::Seconds(1),
                 [result](absl::StatusOr<Binary> binary) { *result = std::move(binary); });
    return result;
  }
};

using Sources = std::vector<std::string>;
constexpr char kTwo[] = "//: unit\na\n//: unit\nb\n";

TEST_CASE("units are compiled apart and joined in their order") {
  Compiling compiling;
  const auto result = compiling.Submit(kTwo);
  CHECK(compiling.Sources() == Sources{"a\n", "b\n"});
  CHECK(result->status().message() == "waits");
  std::swap(compiling.jobs[0], compiling.jobs[1]);
  compiling.Answer();
  REQUIRE(result->ok());
  CHECK(*ImagesOf((*result)->bytes) == Sources{"a\n", "b\n"});
  CHECK((*result)->report.kernels(0).entry() == "a\n");
  CHECK((*result)->report.kernels(1).entry() == "b\n");
  CHECK((*result)->report.warnings_size() == 2);
  CHECK((*result)->report.compile_ms() == 10);
}

TEST_CASE("what was compiled, or is being, is not compiled again") {
  Compiling compiling;
  const auto first = compiling.Submit(kTwo);
  const auto beside = compiling.Submit("//: unit\nb\n//: unit\nc\n");
  CHECK(compiling.Sources() == Sources{"a\n", "b\n", "c\n"});
  compiling.Answer();
  REQUIRE(first->ok());
  REQUIRE(beside->ok());
  CHECK(*ImagesOf((*beside)->bytes) == Sources{"b\n", "c\n"});
  CHECK((*first)->report.compile_ms() == 10);
  CHECK((*beside)->report.compile_ms() == 5);  // b was the first's
  const auto again = compiling.Submit("//: unit\nc\n//: unit\na\n");
  CHECK(compiling.jobs.empty());
  REQUIRE(again->ok());
  CHECK(*ImagesOf((*again)->bytes) == Sources{"c\n", "a\n"});
  CHECK((*again)->report.compile_ms() == 0);
}

TEST_CASE("a program of one unit is that unit's, also twice the same") {
  Compiling compiling;
  const auto plain = compiling.Submit("no marks");
  const auto twice = compiling.Submit("//: unit\na\n//: unit\na\n");
  CHECK(compiling.Sources() == Sources{"no marks", "a\n"});
  compiling.Answer();
  CHECK((*plain)->bytes == "no marks");
  CHECK(*ImagesOf((*twice)->bytes) == Sources{"a\n", "a\n"});
}

TEST_CASE("an error is the first unit's, and is asked for again") {
  Compiling compiling;
  const auto result = compiling.Submit(kTwo);
  compiling.Answer(/*fail=*/true);
  CHECK(result->status() == absl::InvalidArgumentError("a\n"));
  const auto again = compiling.Submit(kTwo);
  CHECK(compiling.jobs.size() == 2);
  compiling.Answer();
  CHECK(again->ok());
}

TEST_CASE("what was asked for longest ago is forgotten first") {
  Compiling compiling(/*most_bytes=*/4);  // two units of two bytes
  for (const char* source : {"//: unit\na\n", "//: unit\nb\n", "//: unit\na\n", "//: unit\nc\n"}) {
    compiling.Submit(source);
    compiling.Answer();
  }
  compiling.Submit("//: unit\na\n");
  CHECK(compiling.jobs.empty());
  compiling.Submit("//: unit\nb\n");
  CHECK(compiling.jobs.size() == 1);
}

TEST_CASE("many ask at once for units that they share") {
  UnitCache cache(
      [](const std::string& source, absl::Duration, const UnitCache::Callback& done) {
        std::this_thread::yield();
        done(Binary{source, {}});
      },
      1 << 10);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string one = absl::StrCat("u", (i * 7 + t) % 13, "\n"),
                          other = absl::StrCat("u", i % 17, "\n");
        cache.Submit(absl::StrCat("//: unit\n", one, "//: unit\n", other), absl::Seconds(1),
                     [&right, one, other](absl::StatusOr<Binary> binary) {
                       right += binary.ok() && *ImagesOf(binary->bytes) == Sources{one, other};
                     });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 4 * 500);
}

}  // namespace
}  // namespace warpsmith::device
