// Which worker of this machine has which card.
//
// A claim is a lock (flock) on a file of the card's UUID, held until the worker's process ends,
// however that is. The files lie in /dev/shm: every user of a machine may write there, also a
// service that is confined (ProtectSystem, PrivateTmp, DynamicUser), and in a container without a
// file system to write to. They are never removed, since another may be about to lock one: a few
// bytes each, until the machine is started again.
//
// Containers have a /dev/shm each, and so has a job of Slurm where its administrator says so. There
// whoever starts them gives each its card; one that two have is seen by the processes on it
// (strangers.h).
//
//   auto found = FindDevice("auto", &device::ListCards);
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

inline constexpr char kClaims[] = "/dev/shm";

// Lets the card go when it is destroyed. Take sets the process's umask for a moment: before there
// are threads.
class Claim {
 public:
  // Unavailable: another worker has the card; the message is who. Other codes: the file cannot be
  // had, and nobody knows.
  static absl::StatusOr<Claim> Take(const std::string& uuid, const std::string& folder = kClaims);

  Claim() = default;  // of nothing
  Claim(Claim&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  // Who has it, for those who come later.
  void Sign(const std::string& worker) const;

 private:
  int fd_ = -1;
};

struct Found {
  std::string device;  // "cuda:3", "host"
  Claim claim;         // of nothing on the host, and where `note` says so
  std::string note;    // what an operator has to know of it; empty: nothing
};

// `wanted`: "host"; "cuda:N", which nobody else may have; "cuda", the first that nobody has;
// "auto", as "cuda", or the host where there is no card. `list` is asked where a card may be meant.
// InvalidArgument: it is none of these. NotFound: no such card. Unavailable: they have their
// workers, or the driver does not start.
absl::StatusOr<Found> FindDevice(
    const std::string& wanted,
    const std::function<absl::StatusOr<std::vector<device::VisibleCard>>()>& list,
    const std::string& folder = kClaims);

}  // namespace warpsmith::card
