#include "worker/oracle/torch_child.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace warpsmith::oracle {
namespace {

using nlohmann::json;

// Importing PyTorch: seconds, or a good part of a minute from a cold disk.
constexpr absl::Duration kStartLimit = absl::Minutes(3);

absl::Status FailureOf(const std::string& command, const json& reply) {
  const std::string text = reply["error"].is_string() ? reply["error"].get<std::string>() : "";
  const std::string kind = reply.value("kind", "");
  const std::string message = absl::StrCat("PyTorch oracle, ", command, ": ", text);
  if (kind == "invalid") return absl::InvalidArgumentError(message);
  if (kind == "memory") return absl::ResourceExhaustedError(message);
  if (kind == "lost") return absl::AbortedError(message);
  return absl::InternalError(message);
}

}  // namespace

TorchChild::TorchChild(const TorchOracleOptions& options) : options_(options) {}

absl::Status TorchChild::Start() {
  // IPC handles name allocations of cudaMalloc, which expandable segments are not.
  std::vector<std::pair<std::string, std::string>> environment = {
      {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False"},
      {"PYTORCH_ALLOC_CONF", "expandable_segments:False"}};
  environment.insert(environment.end(), options_.environment.begin(), options_.environment.end());
  if (!options_.python_path.empty()) environment.push_back({"PYTHONPATH", options_.python_path});
  auto child = base::Child::Start({options_.python, "-m", "warpsmith_torch.oracle"}, environment);
  if (!child.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no Python for the PyTorch oracle: ", child.status().message()));
  }
  child_ = *std::move(child);
  loaded_.clear();
  return absl::OkStatus();
}

absl::Status TorchChild::Gone(const std::string& command, const absl::Status& why) {
  const std::string said = child_->errors();
  child_.reset();
  loaded_.clear();
  if (absl::IsDeadlineExceeded(why)) {
    return absl::DeadlineExceededError(
        absl::StrCat("PyTorch oracle, ", command, ": no answer in time; it was killed"));
  }
  return absl::UnavailableError(
      absl::StrCat("PyTorch oracle, ", command, ": ", why.message(), "; it said: ", said));
}

absl::StatusOr<TorchInfo> TorchChild::Hello() {
  auto reply = Call({{"command", "hello"}}, kStartLimit);
  if (!reply.ok()) {
    const std::string said(reply.status().message());
    const bool no_torch = said.find("No module named 'torch'") != std::string::npos;
    if (no_torch) {
      return absl::FailedPreconditionError(absl::StrCat(
          "'", options_.python, "' has no PyTorch: install torch 2.8 or later for it"));
    }
    if (said.find("No module named") != std::string::npos) {
      return absl::FailedPreconditionError(absl::StrCat("'", options_.python,
                                                        "' does not find warpsmith_torch in '",
                                                        options_.python_path, "': ", said));
    }
    return reply.status();
  }
  info_.version = reply->value("version", "");
  info_.cuda = reply->value("cuda", false);
  info_.card = reply->value("card", "");
  return info_;
}

absl::StatusOr<json> TorchChild::Call(const json& request, absl::Duration limit) {
  const std::string command = request.value("command", "");
  const base::Instant deadline = base::Now() + limit;
  if (child_ == nullptr) {
    const absl::Status started = Start();
    if (!started.ok()) return started;
  }
  const absl::Status asked = child_->WriteLine(request.dump(), deadline);
  if (!asked.ok()) {
    // A child that died at once has said why, and closed its output after that.
    auto rest = child_->ReadLine(base::Now() + absl::Seconds(1));
    return Gone(command, asked);
  }
  const absl::StatusOr<std::string> line = child_->ReadLine(deadline);
  if (!line.ok()) return Gone(command, line.status());
  json reply = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object() || (!reply.contains("ok") && !reply.contains("error"))) {
    return Gone(command, absl::UnavailableError("an answer that is none"));
  }
  if (reply.contains("ok")) return std::move(reply["ok"]);
  const absl::Status failure = FailureOf(command, reply);
  if (absl::IsAborted(failure)) {
    child_.reset();
    loaded_.clear();
  }
  return failure;
}

}  // namespace warpsmith::oracle
