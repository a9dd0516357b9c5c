#include "worker/daemon/lineage.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace warpsmith::daemon {
namespace {

constexpr size_t kMaxInstance = 64;  // the planner's limit

// A line that was cut short, or is damaged, names nobody.
bool IsInstance(absl::string_view line) {
  return !line.empty() && line.size() <= kMaxInstance &&
         std::all_of(line.begin(), line.end(), absl::ascii_isalnum);
}

// `instances` are what the next start follows, also after a power loss.
void Keep(const std::vector<std::string>& instances, LogFile& file) {
  absl::Status status = file.Replace(absl::StrCat(absl::StrJoin(instances, "\n"), "\n"));
  if (status.ok()) status = file.Sync();
  if (status.ok()) return;
  spdlog::warn("a worker started here next will wait for its name: {}",
               std::string(status.message()));
}

}  // namespace

std::string DrawInstance() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

absl::StatusOr<std::unique_ptr<Lineage>> Lineage::Open(std::unique_ptr<LogFile> file,
                                                       std::string instance, std::string secret) {
  const absl::StatusOr<std::string> text = file->Read();
  if (!text.ok()) return text.status();
  std::unique_ptr<Lineage> lineage(
      new Lineage(std::move(file), std::move(instance), std::move(secret)));
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (IsInstance(line)) lineage->follows_.emplace_back(line);
  }
  std::vector<std::string>& follows = lineage->follows_;
  if (follows.size() > kMaxFollowed) {
    follows.erase(follows.begin() + 1, follows.end() - (kMaxFollowed - 1));
  }
  // Before any call: an answer may be lost, and this process die.
  std::vector<std::string> all = follows;
  all.push_back(lineage->instance_);
  Keep(all, *lineage->file_);
  return lineage;
}

void Lineage::Answered() {
  if (answered_) return;
  answered_ = true;
  Keep({instance_}, *file_);
}

}  // namespace warpsmith::daemon
