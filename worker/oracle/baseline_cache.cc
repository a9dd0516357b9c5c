#include "worker/oracle/baseline_cache.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"

namespace warpsmith::oracle {

BaselineCache::BaselineCache(std::string directory) : directory_(std::move(directory)) {}

std::string BaselineCache::PathOf(const BaselineKey& key) const {
  // The separator is in none of the parts, so that no two keys are one text.
  const std::string text = absl::StrCat(key.problem_digest, "\n", key.card, "\n", key.driver, "\n",
                                        key.torch_version, "\n", key.protocol, "\n");
  return absl::StrCat(directory_, "/baselines/", base::Sha256Hex(text), ".json");
}

std::optional<v1::BaselineReport> BaselineCache::Find(const BaselineKey& key) const {
  if (directory_.empty()) return std::nullopt;
  const auto text = base::ReadFile(PathOf(key));
  if (!text.ok()) return std::nullopt;
  v1::BaselineReport report;
  if (!google::protobuf::util::JsonStringToMessage(*text, &report).ok()) return std::nullopt;
  if (report.baselines().empty()) return std::nullopt;
  report.set_from_cache(true);
  return report;
}

absl::Status BaselineCache::Store(const BaselineKey& key, const v1::BaselineReport& report) const {
  if (directory_.empty()) return absl::OkStatus();
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  if (!google::protobuf::util::MessageToJsonString(report, &text, options).ok()) {
    return absl::InternalError("baselines cannot be written as JSON");
  }
  return base::WriteFileAtomically(PathOf(key), text);
}

}  // namespace warpsmith::oracle
