// The process behind the PyTorch oracle: started when it is first needed, and again after it died.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/child.h"
#include "worker/oracle/torch_oracle.h"

namespace warpsmith::oracle {

class TorchChild {
 public:
  explicit TorchChild(const TorchOracleOptions& options);

  // Starts it and asks what it is.
  absl::StatusOr<TorchInfo> Hello();

  // One command and its answer. `request` has "command" and its arguments.
  //   InvalidArgument    the child says that the module is not what was said
  //   ResourceExhausted  not enough device memory
  //   Internal           the module raised
  //   DeadlineExceeded, Unavailable, Aborted (the card is lost)   the child is gone
  absl::StatusOr<nlohmann::json> Call(const nlohmann::json& request, absl::Duration limit);

  // Whether there is a process: none before the first call, and none after an error that ended it.
  bool running() const { return child_ != nullptr; }
  // What is loaded, by the loader's own name for it; empty after the child was started.
  const std::string& loaded() const { return loaded_; }
  void set_loaded(std::string name) { loaded_ = std::move(name); }
  const TorchInfo& info() const { return info_; }
  const TorchOracleOptions& options() const { return options_; }

 private:
  absl::Status Start();
  absl::Status Gone(const std::string& command, const absl::Status& why);

  const TorchOracleOptions options_;
  std::unique_ptr<base::Child> child_;
  TorchInfo info_;
  std::string loaded_;
};

}  // namespace warpsmith::oracle
