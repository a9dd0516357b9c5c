// Which worker of this machine has which card.
//
// A claim is a name of the card's UUID in Linux's abstract namespace of sockets, where only one can
// be bound to a name. There is no file: every user and every confined service may bind one, nobody
// can take it away, and it goes with the worker's process, however that ends. Who has it is a
// second such name, which others read in /proc/net/unix.
//
// The names are those of a network namespace: containers, pods and services with a network of their
// own (PrivateNetwork) have their own. There whoever starts them gives each its card; one that two
// have is seen by the processes on it (strangers.h).
//
//   auto found = FindDevice("auto", &device::ListCards, [](const std::string& device) { ... });
//   if (!found.ok()) ...                             // says who has which card
//   found->claim.Sign("gpu7-cuda0");
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::card {

// Lets the card go when it is destroyed.
class Claim {
 public:
  // AlreadyExists: another worker has the card; the message is who. Other codes: no name can be
  // had.
  static absl::StatusOr<Claim> Take(const std::string& uuid);

  Claim() = default;  // of nothing
  Claim(Claim&& other) noexcept { *this = std::move(other); }
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  // Who has it, for those who come later. Once.
  void Sign(const std::string& worker);

 private:
  std::string name_;
  int socket_ = -1, sign_ = -1;
};

struct Found {
  std::string device;  // "cuda:3", "host"
  Claim claim;         // of nothing on the host
  std::string note;    // what an operator has to know: why it is the host, or no other card
};

// `wanted`: "host"; "cuda:N", which nobody else may have; "cuda", the first that nobody has and
// that is `fit`; "auto", as "cuda", or the host where there is no card. `list` is asked where a
// card may be meant. `fit` is asked of a device that could be had: what keeps this worker from it.
// InvalidArgument: it is none of these, or `fit` says so of each. NotFound: no such card.
// Unavailable: none is left, or the driver does not start. AlreadyExists: another worker has the
// one that was named. Else as `fit`.
absl::StatusOr<Found> FindDevice(
    const std::string& wanted,
    const std::function<absl::StatusOr<std::vector<device::VisibleCard>>()>& list,
    const std::function<absl::Status(const std::string& device)>& fit);

}  // namespace warpsmith::card
