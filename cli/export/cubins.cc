#include "cli/export/cubins.h"

#include "absl/time/time.h"
#include "worker/device/nvrtc_compiler.h"

namespace warpsmith::exporter {
namespace {

constexpr absl::Duration kCompileLimit = absl::Minutes(2);

}  // namespace

absl::StatusOr<std::vector<std::string>> CompileCubins(const v1::Solution& solution,
                                                       const std::string& nvrtc) {
  auto compiler = device::NvrtcCompiler::Make(solution.arch(), nvrtc);
  if (!compiler.ok()) return compiler.status();
  std::vector<std::string> cubins;
  for (const v1::Plan& plan : solution.plans()) {
    // Not with the headers written out, as it is exported: their assembly would be taken for the
    // source's own (device/ptx_check.h).
    auto binary = (*compiler)->Compile(plan.source(), kCompileLimit);
    if (!binary.ok()) return binary.status();
    cubins.push_back(std::move(binary->bytes));
  }
  return cubins;
}

}  // namespace warpsmith::exporter
