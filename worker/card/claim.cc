#include "worker/card/claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::card {
namespace {

using Card = device::VisibleCard;

// For every user to lock and to sign.
constexpr mode_t kForAll = 0666;
constexpr size_t kLongestSign = 200;

// The file is another user's mostly: to open such a one with O_CREAT is refused in a folder that
// all may write (fs.protected_regular).
int OpenOrMake(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  int fd = open(path.c_str(), kFlags);
  if (fd >= 0 || errno != ENOENT) return fd;
  const mode_t mask = umask(0);
  fd = open(path.c_str(), kFlags | O_CREAT | O_EXCL, kForAll);
  umask(mask);
  if (fd < 0 && errno == EEXIST) fd = open(path.c_str(), kFlags);  // another was quicker
  return fd;
}

// What its owner wrote into it; anybody may, so nothing that would spoil a line.
std::string SignOf(int fd) {
  char text[kLongestSign] = {};
  const ssize_t size = pread(fd, text, sizeof text, 0);
  if (size <= 0) return "one that has just taken it";
  std::string sign(text, size);
  std::replace_if(
      sign.begin(), sign.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return sign;
}

absl::Status NoCard(const std::string& wanted, const absl::Status& why) {
  return absl::Status(
      why.code(), absl::StrCat(absl::IsNotFound(why) ? "no CUDA card was found: "
                                                     : "there is a driver that does not start: ",
                               std::string(why.message()), "; mend that, or say --device host",
                               wanted == "auto" ? " to work on the processor" : ""));
}

// The first that can be had.
absl::StatusOr<Found> FirstOf(const std::vector<Card>& cards, const std::string& folder) {
  std::vector<std::string> taken;
  for (const Card& card : cards) {
    auto claim = Claim::Take(card.uuid, folder);
    if (claim.ok()) return Found{card.name, *std::move(claim), ""};
    const std::string why(claim.status().message());
    if (!absl::IsUnavailable(claim.status())) {
      return Found{card.name, Claim(),
                   absl::StrCat("its card is not claimed, and another worker may take it: ", why)};
    }
    taken.push_back(absl::StrCat(card.name, " ", why));
  }
  return absl::UnavailableError(absl::StrCat(
      cards.size() == 1 ? "the card has a worker: " : "each card has a worker: ",
      absl::StrJoin(taken, ", "), "; a worker needs a card of its own: end one of them first"));
}

}  // namespace

absl::StatusOr<Claim> Claim::Take(const std::string& uuid, const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/warpsmith-card-", uuid);
  Claim claim;
  claim.fd_ = OpenOrMake(path);
  const bool opened = claim.fd_ >= 0;
  if (opened && flock(claim.fd_, LOCK_EX | LOCK_NB) == 0) {
    // What is there is of who had it before; that it stays would do no harm.
    (void)!ftruncate(claim.fd_, 0);
    return claim;
  }
  if (opened && errno == EWOULDBLOCK) return absl::UnavailableError(SignOf(claim.fd_));
  return absl::InternalError(
      absl::StrCat("cannot ", opened ? "lock " : "open ", path, ": ", std::strerror(errno)));
}

Claim& Claim::operator=(Claim&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Claim::~Claim() {
  if (fd_ >= 0) close(fd_);
}

void Claim::Sign(const std::string& worker) const {
  if (fd_ < 0) return;
  const std::string sign =
      absl::StrCat(worker, " (process ", getpid(), ")").substr(0, kLongestSign);
  // Without it there is less to say to the next one, and no more.
  (void)!pwrite(fd_, sign.data(), sign.size(), 0);
}

absl::StatusOr<Found> FindDevice(const std::string& wanted,
                                 const std::function<absl::StatusOr<std::vector<Card>>()>& list,
                                 const std::string& folder) {
  if (wanted == "host") return Found{"host", Claim(), ""};
  const bool any = wanted == "auto" || wanted == "cuda";
  if (!any && !absl::StartsWith(wanted, "cuda:")) {
    return absl::InvalidArgumentError("it is auto, host, cuda, or a card: cuda:0, ...");
  }
  auto cards = list();
  if (wanted == "auto" && absl::IsNotFound(cards.status())) {
    return Found{"host", Claim(),
                 absl::StrCat("no CUDA card, so it works on the processor: ",
                              std::string(cards.status().message()))};
  }
  if (!cards.ok()) return NoCard(wanted, cards.status());
  if (any) return FirstOf(*cards, folder);
  const auto card = std::find_if(cards->begin(), cards->end(),
                                 [&wanted](const Card& card) { return card.name == wanted; });
  if (card != cards->end()) return FirstOf({*card}, folder);
  return absl::NotFoundError(absl::StrCat("there is no such card: CUDA shows this process ",
                                          cards->front().name,
                                          cards->size() == 1 ? "" : " to " + cards->back().name));
}

}  // namespace warpsmith::card
