#include "tests/support/nvml_script.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file.h"

namespace warpsmith::support {

NvmlScript::NvmlScript(std::string path) : path_(std::move(path)) { Write(); }

std::string NvmlScript::library() { return WARPSMITH_NVML_LIBRARY; }

void NvmlScript::Set(std::map<std::string, uint64_t> values, std::vector<int> processes) {
  values_ = std::move(values);
  processes_ = std::move(processes);
  Write();
}

void NvmlScript::Xid(int number) {
  xids_.push_back(number);
  Write();
}

void NvmlScript::Write() const {
  std::string text;
  for (const auto& [key, value] : values_) absl::StrAppend(&text, key, " ", value, "\n");
  for (const int pid : processes_) absl::StrAppend(&text, "process ", pid, "\n");
  for (const int xid : xids_) absl::StrAppend(&text, "xid ", xid, "\n");
  const absl::Status written = base::WriteFileAtomically(path_, text);
  WS_CHECK(written.ok(), std::string(written.message()));
}

}  // namespace warpsmith::support
