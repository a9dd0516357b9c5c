#include "worker/call/call_timer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/launcher/plan_text.h"
#include "common/problem/units.h"

namespace warpsmith::call {
namespace {

using nlohmann::json;

absl::StatusOr<std::string> RequestOf(const CallTimer::Options& options,
                                      const std::vector<v1::Plan>& plans,
                                      const std::vector<std::string>& cubins) {
  json request = {{"device", options.device}, {"architecture", options.arch},
                  {"clock", options.clock},   {"seconds", options.seconds},
                  {"plans", json::array()},   {"sources", json::array()},
                  {"binaries", json::array()}};
  for (size_t i = 0; i < plans.size(); ++i) {
    auto text = launcher::PlanText(plans[i]);
    if (!text.ok()) return text.status();
    request["plans"].push_back(json::parse(*text));
    request["sources"].push_back("");
    auto images = problem::ImagesOf(cubins[i]);
    if (!images.ok()) return images.status();
    json binaries = json::array();
    for (const std::string& image : *images) binaries.push_back(launcher::BinaryText(image));
    request["binaries"].push_back(std::move(binaries));
  }
  return request.dump();
}

// The geometric mean of `count` positive numbers; an error where the reply has others.
absl::StatusOr<double> MeanOf(const json& reply, const char* name, size_t count) {
  const json& numbers = reply.contains(name) ? reply[name] : json::array();
  double log_sum = 0;
  for (const json& number : numbers) {
    if (!number.is_number() || number.get<double>() <= 0) {
      return absl::InternalError("a time that is none");
    }
    log_sum += std::log(number.get<double>());
  }
  if (numbers.size() != count || count == 0) return absl::InternalError("not a time a plan");
  return std::exp(log_sum / static_cast<double>(count));
}

}  // namespace

absl::StatusOr<std::unique_ptr<base::Child>> CallTimer::Start() const {
  auto environment = options_.environment;
  environment.push_back({"PYTHONPATH", options_.python_path});
  return base::Child::Start({options_.python, "-m", "warpsmith_torch.call_time"}, environment);
}

void CallTimer::Prepare() {
  if (options_.python.empty() || prepared_ != nullptr) return;
  if (auto child = Start(); child.ok()) prepared_ = *std::move(child);
}

absl::StatusOr<CallTimes> CallTimer::Time(const std::vector<v1::Plan>& plans,
                                          const std::vector<std::string>& cubins) {
  if (options_.python.empty()) {
    return absl::FailedPreconditionError("the worker has no Python with PyTorch");
  }
  if (cubins.size() != plans.size()) {
    return absl::FailedPreconditionError("there is not a binary for each plan");
  }
  auto request = RequestOf(options_, plans, cubins);
  if (!request.ok()) return request.status();
  const base::Instant deadline = base::Now() + options_.limit;
  std::unique_ptr<base::Child> child = std::move(prepared_);
  absl::StatusOr<std::string> line = absl::UnavailableError("not asked");
  const auto ask = [&] {
    const absl::Status asked = child->WriteLine(*request, deadline);
    line = asked.ok() ? child->ReadLine(deadline) : asked;
  };
  if (child != nullptr) ask();
  // What was prepared may have ended before it was asked, with its thread or for want of memory.
  if (!line.ok() && !absl::IsDeadlineExceeded(line.status())) {
    auto started = Start();
    if (!started.ok()) return started.status();
    child = *std::move(started);
    ask();
  }
  const auto said = [&](const absl::Status& status) {
    const std::string& errors = child->errors();
    return absl::Status(status.code(), absl::StrCat("timing the exported call: ", status.message(),
                                                    errors.empty() ? "" : "; it said: ", errors));
  };
  if (!line.ok()) return said(line.status());
  const json reply = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return said(absl::InternalError("an answer that is none"));
  if (reply.contains("error")) {
    const json& error = reply["error"];
    return said(absl::InternalError(error.is_string() ? error.get<std::string>() : error.dump()));
  }
  CallTimes times;
  for (auto [name, time] : {std::pair("call_us", &times.call_us), {"graph_us", &times.graph_us}}) {
    auto mean = MeanOf(reply, name, plans.size());
    if (!mean.ok()) return said(mean.status());
    *time = *mean;
  }
  return times;
}

}  // namespace warpsmith::call
