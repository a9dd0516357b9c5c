#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/base/sha256.h"
#include "common/base/text.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::base {
namespace {

using support::TemporaryFolder;

TEST_CASE("sha256 of known texts") {
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a file is written whole and read back") {
  TemporaryFolder folder;
  const std::string path = folder / "deep/er/file";
  std::string data(100000, 'x');
  data[5] = '\0';
  REQUIRE(WriteFileAtomically(path, "old").ok());
  REQUIRE(WriteFileAtomically(path, data).ok());
  CHECK(ReadFile(path).value() == data);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    files += entry.is_regular_file();
  }
  CHECK(files == 1);  // no temporary file is left
  REQUIRE(WriteFileAtomically(path, "").ok());
  CHECK(ReadFile(path).value() == "");
}

TEST_CASE("file errors name the path and the reason") {
  TemporaryFolder folder;
  const auto missing = ReadFile(folder / "missing");
  CHECK(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(missing.status().message()), Catch::Contains("missing"));
  CHECK_FALSE(ReadFile(folder.path()).ok());
  REQUIRE(WriteFileAtomically(folder / "file", "x").ok());
  CHECK_FALSE(WriteFileAtomically(folder / "file/below", "x").ok());
}

TEST_CASE("a simulated clock wakes who waits, and only then") {
  SimulatedClock clock;
  CHECK(clock.TimeNow() == Instant());
  absl::Mutex mutex;
  bool done = false, result = true;
  std::thread waiter([&] {
    absl::MutexLock lock(&mutex);
    result = clock.AwaitWithDeadline(&mutex, absl::Condition(&done), Instant(absl::Seconds(10)));
  });
  while (clock.Waiters() == 0) std::this_thread::yield();
  clock.AdvanceTime(absl::Seconds(9));
  CHECK(clock.Waiters() == 1);
  clock.AdvanceTime(absl::Seconds(1));
  waiter.join();
  CHECK_FALSE(result);
  CHECK(clock.Waiters() == 0);
}

TEST_CASE("a condition ends the wait on a simulated clock") {
  SimulatedClock clock;
  absl::Mutex mutex;
  bool done = false, result = false;
  std::thread waiter([&] {
    absl::MutexLock lock(&mutex);
    result = clock.AwaitWithDeadline(&mutex, absl::Condition(&done), Instant(absl::Seconds(10)));
  });
  while (clock.Waiters() == 0) std::this_thread::yield();
  {
    absl::MutexLock lock(&mutex);
    done = true;
  }
  waiter.join();
  CHECK(result);
  CHECK(clock.Waiters() == 0);
  absl::MutexLock lock(&mutex);
  CHECK(clock.AwaitWithDeadline(&mutex, absl::Condition(&done), Instant::InfinitePast()));
}

TEST_CASE("sleepers on a simulated clock wake in their order") {
  SimulatedClock clock;
  clock.Sleep(absl::ZeroDuration());
  std::thread sleeper([&] { clock.Sleep(absl::Seconds(5)); });
  while (clock.Waiters() == 0) std::this_thread::yield();
  clock.AdvanceTime(absl::Seconds(5));
  sleeper.join();
  CHECK(clock.TimeNow() == Instant(absl::Seconds(5)));
  CHECK(clock.Date() == absl::UnixEpoch() + absl::Seconds(5));
}

TEST_CASE("the real clock runs") {
  const Instant before = Clock::Real()->TimeNow();
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  bool never = false;
  CHECK_FALSE(
      Clock::Real()->AwaitWithDeadline(&mutex, absl::Condition(&never), Instant::InfinitePast()));
  CHECK(Clock::Real()->TimeNow() >= before);
}

TEST_CASE("what poll() waits for a deadline") {
  CHECK(PollMs(Instant::InfiniteFuture()) == -1);
  CHECK(PollMs(Instant::InfinitePast()) == 0);
  CHECK(PollMs(Now()) == 0);
  const int soon = PollMs(Now() + absl::Microseconds(900));
  CHECK((soon == 0 || soon == 1));  // 0: this thread was away
  const int minute = PollMs(Now() + absl::Minutes(1));
  CHECK((minute > 0 && minute <= 60'000));
  CHECK(PollMs(Now() + absl::Hours(24 * 365)) > 0);
}

}  // namespace
TEST_CASE("text that is too long ends at a character") {
  CHECK(Shortened("", 3) == "");
  CHECK(Shortened("abcdef", 6) == "abcdef");
  CHECK(Shortened("abcdefg", 6) == "abc\u2026");
  CHECK(Shortened("ab\u00e9defg", 6) == "ab\u2026");
  CHECK(Shortened("a\U0001F600\U0001F600", 8) == "a\U0001F600\u2026");
  CHECK(Shortened("\U0001F600\U0001F600", 6) == "\u2026");
}

// Kubernetes' Secrets and Debian's ssl-cert are root's, for a group.
TEST_CASE("a secret that root keeps for our group is private, and no other that others read") {
  if (geteuid() != 0) return;
  constexpr uid_t kUser = 64646;
  TemporaryFolder folder;
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  const std::string path = folder / "key";
  const auto reads = [&path](uid_t owner, gid_t group, mode_t mode) {
    REQUIRE(WriteFileAtomically(path, "secret").ok());
    REQUIRE(chown(path.c_str(), owner, group) == 0);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    REQUIRE(setegid(kUser) == 0);
    REQUIRE(seteuid(kUser) == 0);
    const absl::StatusCode code = ReadPrivateFile(path).status().code();
    REQUIRE(seteuid(0) == 0);
    REQUIRE(setegid(0) == 0);
    REQUIRE(unlink(path.c_str()) == 0);
    return code;
  };
  CHECK(reads(0, kUser, 0440) == absl::StatusCode::kOk);
  CHECK(reads(0, kUser, 0640) == absl::StatusCode::kOk);
  CHECK(reads(kUser, kUser, 0600) == absl::StatusCode::kOk);
  CHECK(reads(0, kUser, 0660) == absl::StatusCode::kFailedPrecondition);
  CHECK(reads(0, kUser, 0444) == absl::StatusCode::kFailedPrecondition);
  CHECK(reads(kUser, kUser, 0640) == absl::StatusCode::kFailedPrecondition);
  CHECK(ReadPrivateFile(folder / "none").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("what root replaces stays its owner's") {
  if (geteuid() != 0) return;
  TemporaryFolder folder;
  const std::string path = folder / "f";
  REQUIRE(WriteFileAtomically(path, "a").ok());
  REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
  REQUIRE(WriteFileAtomically(path, "b").ok());
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK(info.st_uid == 12345);
  CHECK(info.st_gid == 12345);
}

}  // namespace warpsmith::base
