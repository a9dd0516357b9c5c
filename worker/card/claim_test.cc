#include "worker/card/claim.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace warpsmith::card {
namespace {

using Catch::Contains;
using Card = device::VisibleCard;
using Cards = std::vector<Card>;

// Of this run alone: claims are the machine's.
std::string Uuid(const std::string& name) { return absl::StrCat("test-", getpid(), "-", name); }

absl::Status Fits(const std::string&) { return absl::OkStatus(); }

// A process that has found a device, signed, and lives until it is told to end.
class Worker {
 public:
  Worker(const std::string& wanted, const Cards& cards) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      auto found = FindDevice(
          wanted, [&cards] { return cards; }, &Fits);
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

const Cards kTwo = {{"cuda:0", Uuid("a")}, {"cuda:1", Uuid("b")}};

absl::StatusOr<Cards> NeverAsked() {
  FAIL("no card is meant");
  return Cards();
}

TEST_CASE("workers find a card each, and the last one is told who has them") {
  const Worker first("auto", kTwo);
  Worker second("cuda", kTwo);
  CHECK(first.told() == "cuda:0");
  CHECK(second.told() == "cuda:1");
  for (const char* wanted : {"auto", "cuda"}) {
    const auto none = FindDevice(
        wanted, [] { return kTwo; }, &Fits);
    REQUIRE(absl::IsUnavailable(none.status()));
    CHECK(none.status().message() ==
          absl::StrCat("no card is left, and a worker needs one of its own: cuda:0: the card has a "
                       "worker: gpu7-cuda:0 (process ",
                       first.pid(), "); cuda:1: the card has a worker: gpu7-cuda:1 (process ",
                       second.pid(), ")"));
  }
  const Worker named("cuda:1", kTwo);
  CHECK_THAT(named.told(), Contains("none: the card has a worker: gpu7-cuda:1 ("));
  // By whatever number it goes where CUDA_VISIBLE_DEVICES says so.
  const Worker other("cuda:0", {{"cuda:0", Uuid("b")}});
  CHECK_THAT(other.told(), Contains("the card has a worker: gpu7-cuda:1"));

  second.Kill();  // and its claim is gone with it
  const Worker third("auto", kTwo);
  CHECK(third.told() == "cuda:1");
}

TEST_CASE("a card is one's from when it was found, signed or not") {
  std::vector<Claim> claims;
  Cards cards;
  for (int i = 0; i < 8; ++i)
    cards.push_back({absl::StrCat("cuda:", i), Uuid(absl::StrCat("u", i))});
  for (int i = 0; i < 8; ++i) {
    auto found = FindDevice(
        "auto", [&] { return cards; }, &Fits);
    REQUIRE(found.ok());
    CHECK(found->device == cards[i].name);
    claims.push_back(std::move(found->claim));
  }
  // Nobody has signed yet.
  const auto ninth = FindDevice(
      "auto", [&] { return cards; }, &Fits);
  CHECK_THAT(std::string(ninth.status().message()),
             Contains("cuda:7: the card has a worker: one that has just taken it"));
  claims.clear();
  CHECK(Claim::Take(Uuid("u0")).ok());
}

TEST_CASE("what is no card") {
  const auto find = [&](const std::string& wanted, const absl::StatusOr<Cards>& cards) {
    return FindDevice(
        wanted, [&cards] { return cards; }, &Fits);
  };
  CHECK(FindDevice("host", &NeverAsked, &Fits)->device == "host");
  CHECK(FindDevice("host", &NeverAsked, &Fits)->note.empty());
  CHECK(absl::IsInvalidArgument(FindDevice("abacus", &NeverAsked, &Fits).status()));

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

TEST_CASE("a card that cannot be used or claimed is passed over") {
  Cards cards = kTwo;
  cards.push_back({"cuda:2", std::string(100, 'x')});
  cards.push_back({"cuda:3", Uuid("d")});
  const Worker first("cuda:0", kTwo);
  absl::Status ill = absl::UnavailableError("it is ill");
  std::vector<std::string> tried;
  const auto find = [&](const std::string& wanted, const std::string& well) {
    return FindDevice(
        wanted, [&] { return cards; },
        [&](const std::string& device) {
          tried.push_back(device);
          return device == well ? absl::OkStatus() : ill;
        });
  };
  for (const char* wanted : {"auto", "cuda"}) {
    tried.clear();
    const auto found = find(wanted, "cuda:3");
    REQUIRE(found.ok());
    CHECK(found->device == "cuda:3");
    CHECK(found->note ==
          "cards are passed over: cuda:1: it is ill; cuda:2: the card cannot be claimed: its UUID "
          "is too long");
    CHECK(tried == std::vector<std::string>{"cuda:1", "cuda:3"});
    CHECK(Claim::Take(Uuid("b")).ok());  // it was let go
    CHECK(absl::IsAlreadyExists(Claim::Take(Uuid("d")).status()));
  }
  const auto none = find("auto", "");
  CHECK(absl::IsUnavailable(none.status()));
  CHECK_THAT(std::string(none.status().message()),
             Contains("cuda:0: the card has a worker: gpu7-cuda:0") &&
                 Contains("; cuda:1: it is ill; cuda:2: the card cannot be claimed: its UUID is "
                          "too long; cuda:3: it is ill"));
  // One that is named, and the host.
  CHECK(find("cuda:1", "cuda:3").status() == ill);
  CHECK(find("host", "cuda:3").status() == ill);
  // What the same again would not mend.
  ill = absl::InvalidArgumentError("a slice");
  cards = {kTwo[1]};
  CHECK(absl::IsInvalidArgument(find("auto", "").status()));
  cards = kTwo;
  CHECK(absl::IsUnavailable(find("auto", "").status()));
}

TEST_CASE("who has a card is a line, however the worker is called") {
  const auto signed_as = [](const std::string& name) {
    auto claim = Claim::Take(Uuid("a"));
    REQUIRE(claim.ok());
    claim->Sign(name);
    return std::string(Claim::Take(Uuid("a")).status().message());
  };
  CHECK(signed_as("a\tb") == absl::StrCat("the card has a worker: a?b (process ", getpid(), ")"));
  CHECK_THAT(
      signed_as(std::string(100, 'w')),
      Contains("worker: wwwwwwwwwwwwwwww") && Contains(absl::StrCat("(process ", getpid(), ")")));
}

}  // namespace
}  // namespace warpsmith::card
