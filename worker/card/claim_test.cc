#include "worker/card/claim.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::card {
namespace {

using Catch::Contains;
using Card = device::VisibleCard;
using Cards = std::vector<Card>;

// A process that has found a device, signed, and lives until it is told to end.
class Worker {
 public:
  Worker(const std::string& wanted, const Cards& cards, const std::string& folder) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      const auto found = FindDevice(
          wanted, [&cards] { return cards; }, folder);
      if (found.ok()) found->claim.Sign("gpu7-" + found->device);
      const std::string told =
          found.ok() ? found->device : "none: " + std::string(found.status().message());
      if (write(ends[1], told.data(), told.size()) < 0 || close(ends[1]) != 0) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    char buffer[512];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) told_.append(buffer, n);
    close(ends[0]);
  }
  ~Worker() { Kill(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& told() const { return told_; }
  pid_t pid() const { return pid_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::string told_;
};

const Cards kTwo = {{"cuda:0", "a"}, {"cuda:1", "b"}};

absl::StatusOr<Cards> NeverAsked() {
  FAIL("no card is meant");
  return Cards();
}

TEST_CASE("workers find a card each, and the last one is told who has them") {
  const support::TemporaryFolder folder;
  const Worker first("auto", kTwo, folder.path());
  Worker second("cuda", kTwo, folder.path());
  CHECK(first.told() == "cuda:0");
  CHECK(second.told() == "cuda:1");
  for (const char* wanted : {"auto", "cuda"}) {
    const auto none = FindDevice(
        wanted, [] { return kTwo; }, folder.path());
    REQUIRE(absl::IsUnavailable(none.status()));
    CHECK(none.status().message() ==
          absl::StrCat("each card has a worker: cuda:0 gpu7-cuda:0 (process ", first.pid(),
                       "), cuda:1 gpu7-cuda:1 (process ", second.pid(),
                       "); a worker needs a card of its own: end one of them first"));
  }
  const Worker named("cuda:1", kTwo, folder.path());
  CHECK_THAT(named.told(), Contains("the card has a worker: cuda:1 gpu7-cuda:1"));
  // By whatever number it goes where CUDA_VISIBLE_DEVICES says so.
  const Worker other("cuda:0", {{"cuda:0", "b"}}, folder.path());
  CHECK_THAT(other.told(), Contains("cuda:0 gpu7-cuda:1"));

  second.Kill();  // and its claim is gone with it
  const Worker third("auto", kTwo, folder.path());
  CHECK(third.told() == "cuda:1");
}

TEST_CASE("a card is one's from when it was found, signed or not") {
  const support::TemporaryFolder folder;
  std::vector<Claim> claims;
  Cards cards;
  for (int i = 0; i < 8; ++i) cards.push_back({absl::StrCat("cuda:", i), absl::StrCat("u", i)});
  for (int i = 0; i < 8; ++i) {
    auto found = FindDevice(
        "auto", [&] { return cards; }, folder.path());
    REQUIRE(found.ok());
    CHECK(found->device == cards[i].name);
    claims.push_back(std::move(found->claim));
  }
  // Nobody has signed yet.
  const auto ninth = FindDevice(
      "auto", [&] { return cards; }, folder.path());
  CHECK_THAT(std::string(ninth.status().message()), Contains("cuda:7 one that has just taken it"));
  claims.clear();
  CHECK(Claim::Take("u0", folder.path()).ok());
}

TEST_CASE("what is no card") {
  const support::TemporaryFolder folder;
  const auto find = [&](const std::string& wanted, const absl::StatusOr<Cards>& cards) {
    return FindDevice(
        wanted, [&cards] { return cards; }, folder.path());
  };
  CHECK(FindDevice("host", &NeverAsked)->device == "host");
  CHECK(FindDevice("host", &NeverAsked)->note.empty());
  CHECK(absl::IsInvalidArgument(FindDevice("abacus", &NeverAsked).status()));

  const absl::Status none = absl::NotFoundError("no libcuda.so.1");
  const auto host = find("auto", none);
  REQUIRE(host.ok());
  CHECK(host->device == "host");
  CHECK_THAT(host->note, Contains("works on the processor: no libcuda.so.1"));
  for (const char* wanted : {"cuda", "cuda:0"}) {
    const auto found = find(wanted, none);
    CHECK(absl::IsNotFound(found.status()));
    CHECK_THAT(std::string(found.status().message()),
               Contains("no CUDA card was found: no libcuda.so.1"));
  }
  // A driver that is there is meant to work.
  for (const char* wanted : {"auto", "cuda", "cuda:0"}) {
    const auto found = find(wanted, absl::UnavailableError("cuInit: 803"));
    CHECK(absl::IsUnavailable(found.status()));
    CHECK_THAT(std::string(found.status().message()), Contains("does not start: cuInit: 803"));
  }
  CHECK_THAT(std::string(find("cuda:2", kTwo).status().message()),
             Contains("no such card: CUDA shows this process cuda:0 to cuda:1"));
  CHECK(absl::IsNotFound(find("cuda:", kTwo).status()));
}

TEST_CASE("where there is no claiming a card is had all the same, and it is said") {
  for (const char* wanted : {"auto", "cuda:0"}) {
    const auto found = FindDevice(
        wanted, [] { return kTwo; }, "/nonexistent");
    REQUIRE(found.ok());
    CHECK(found->device == "cuda:0");
    CHECK_THAT(found->note, Contains("not claimed") && Contains("/nonexistent/warpsmith-card-a"));
    found->claim.Sign("nobody");
  }
}

TEST_CASE("a claim is for all users of the machine") {
  const support::TemporaryFolder folder;
  const mode_t mask = umask(077);
  auto claim = Claim::Take("a", folder.path());
  CHECK(umask(mask) == 077);
  REQUIRE(claim.ok());
  struct stat file = {};
  REQUIRE(stat((folder / "warpsmith-card-a").c_str(), &file) == 0);
  CHECK((file.st_mode & 0777) == 0666);
  // Who signs with something else than a line.
  REQUIRE(truncate((folder / "warpsmith-card-a").c_str(), 0) == 0);
  claim->Sign("a\nb");
  CHECK_THAT(std::string(Claim::Take("a", folder.path()).status().message()),
             Contains("a?b (process "));
}

}  // namespace
}  // namespace warpsmith::card
