#include "worker/card/claim.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"

namespace warpsmith::card {
namespace {

using Card = device::VisibleCard;

// Behind the zero that makes a name abstract.
constexpr size_t kLongestName = sizeof(sockaddr_un::sun_path) - 1;

// A socket of that name. AlreadyExists: somebody has the name.
absl::StatusOr<int> Bind(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() > kLongestName) return absl::InternalError("its UUID is too long");
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bound >= 0 && bind(bound, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    return bound;
  }
  const int error = errno;
  if (bound >= 0) close(bound);
  if (error == EADDRINUSE) return absl::AlreadyExistsError(name);
  return absl::InternalError(
      absl::StrCat("no socket can be named ", name, ": ", std::strerror(error)));
}

// What its owner has signed; anybody may, so nothing that would spoil a line.
std::string SignOf(const std::string& name) {
  const std::string mark = absl::StrCat(" @", name, " ");
  const auto sockets = base::ReadFile("/proc/net/unix");
  for (const absl::string_view line : absl::StrSplit(sockets.value_or(""), '\n')) {
    const size_t at = line.find(mark);
    if (at == line.npos) continue;
    std::string sign(line.substr(at + mark.size()));
    std::replace_if(
        sign.begin(), sign.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    return sign;
  }
  return "one that has just taken it";
}

absl::Status NoCard(const std::string& wanted, const absl::Status& why) {
  return absl::Status(
      why.code(), absl::StrCat(absl::IsNotFound(why) ? "no CUDA card was found: "
                                                     : "there is a driver that does not start: ",
                               std::string(why.message()), "; mend that, or say --device host",
                               wanted == "auto" ? " to work on the processor" : ""));
}

using Fit = std::function<absl::Status(const std::string&)>;

absl::StatusOr<Found> Try(const Card& card, const Fit& fit) {
  auto claim = Claim::Take(card.uuid);
  if (!claim.ok()) return claim.status();
  if (absl::Status fits = fit(card.name); !fits.ok()) return fits;
  return Found{card.name, *std::move(claim), ""};
}

// The first that can be had.
absl::StatusOr<Found> FirstOf(const std::vector<Card>& cards, const Fit& fit) {
  std::vector<std::string> why, passed_over;
  bool for_good = true;
  for (const Card& card : cards) {
    auto found = Try(card, fit);
    if (found.ok()) {
      if (!passed_over.empty()) {
        found->note = "cards are passed over: " + absl::StrJoin(passed_over, "; ");
      }
      return found;
    }
    why.push_back(absl::StrCat(card.name, ": ", std::string(found.status().message())));
    if (!absl::IsAlreadyExists(found.status())) passed_over.push_back(why.back());
    for_good = for_good && absl::IsInvalidArgument(found.status());
  }
  return absl::Status(
      for_good ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
      absl::StrCat("no card is left, and a worker needs one of its own: ",
                   absl::StrJoin(why, "; ")));
}

}  // namespace

absl::StatusOr<Claim> Claim::Take(const std::string& uuid) {
  Claim claim;
  claim.name_ = absl::StrCat("warpsmith-card-", uuid);
  const auto bound = Bind(claim.name_);
  if (bound.ok()) {
    claim.socket_ = *bound;
    return claim;
  }
  if (absl::IsAlreadyExists(bound.status())) {
    return absl::AlreadyExistsError(absl::StrCat("the card has a worker: ", SignOf(claim.name_)));
  }
  return absl::Status(bound.status().code(), absl::StrCat("the card cannot be claimed: ",
                                                          std::string(bound.status().message())));
}

Claim& Claim::operator=(Claim&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(socket_, other.socket_);
  std::swap(sign_, other.sign_);
  return *this;
}

Claim::~Claim() {
  if (socket_ >= 0) close(socket_);
  if (sign_ >= 0) close(sign_);
}

void Claim::Sign(const std::string& worker) {
  if (socket_ < 0 || sign_ >= 0) return;
  const std::string process = absl::StrCat(" (process ", getpid(), ")");
  const size_t left = kLongestName - std::min(kLongestName, name_.size() + 1 + process.size());
  // Without it there is less to say to the next one, and no more.
  sign_ = Bind(absl::StrCat(name_, " ", worker.substr(0, left), process)).value_or(-1);
}

absl::StatusOr<Found> FindDevice(const std::string& wanted,
                                 const std::function<absl::StatusOr<std::vector<Card>>()>& list,
                                 const Fit& fit) {
  const auto host = [&fit](const std::string& note) -> absl::StatusOr<Found> {
    if (absl::Status fits = fit("host"); !fits.ok()) return fits;
    return Found{"host", Claim(), note};
  };
  if (wanted == "host") return host("");
  const bool any = wanted == "auto" || wanted == "cuda";
  if (!any && !absl::StartsWith(wanted, "cuda:")) {
    return absl::InvalidArgumentError("it is auto, host, cuda, or a card: cuda:0, ...");
  }
  auto cards = list();
  if (wanted == "auto" && absl::IsNotFound(cards.status())) {
    return host(absl::StrCat("no CUDA card, so it works on the processor: ",
                             std::string(cards.status().message())));
  }
  if (!cards.ok()) return NoCard(wanted, cards.status());
  if (any) return FirstOf(*cards, fit);
  const auto card = std::find_if(cards->begin(), cards->end(),
                                 [&wanted](const Card& card) { return card.name == wanted; });
  if (card != cards->end()) return Try(*card, fit);
  return absl::NotFoundError(absl::StrCat("there is no such card: CUDA shows this process ",
                                          cards->front().name,
                                          cards->size() == 1 ? "" : " to " + cards->back().name));
}

}  // namespace warpsmith::card
