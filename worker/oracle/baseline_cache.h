// Baselines that were measured before, one file each. They are worth keeping: compiling a module
// with PyTorch takes longer than judging a hundred candidates.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::oracle {

// What a measurement is good for.
struct BaselineKey {
  std::string problem_digest;
  std::string card;
  std::string driver;
  std::string torch_version;
  std::string protocol;  // and what was asked for
};

// Safe to share between processes.
class BaselineCache {
 public:
  // `directory` empty: nothing is found or kept.
  explicit BaselineCache(std::string directory);

  // With from_cache set. A file that cannot be read counts as absent.
  std::optional<v1::BaselineReport> Find(const BaselineKey& key) const;
  absl::Status Store(const BaselineKey& key, const v1::BaselineReport& report) const;

 private:
  std::string PathOf(const BaselineKey& key) const;

  const std::string directory_;
};

}  // namespace warpsmith::oracle
