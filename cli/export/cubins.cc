#include "cli/export/cubins.h"

#include "absl/time/time.h"
#include "cli/export/cuda_source.h"
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
    auto source = ExpandHeaders(plan.source());
    if (!source.ok()) return source.status();
    auto binary = (*compiler)->Compile(*source, kCompileLimit);
    if (!binary.ok()) return binary.status();
    cubins.push_back(std::move(binary->bytes));
  }
  return cubins;
}

}  // namespace warpsmith::exporter
