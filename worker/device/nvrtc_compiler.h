// The compiler of CUDA devices: NVRTC, loaded at run time, to cubin. Needs no device.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// What NVRTC's functions are, once for each library.
struct Nvrtc;

class NvrtcCompiler : public Compiler {
 public:
  // `arch`: "sm_90a", "sm_100a", ... `library`: path of libnvrtc.so, or empty to look for it: by
  // the dynamic linker, in CUDA's own folders, and in those of Python wheels. NotFound says what
  // was tried.
  static absl::StatusOr<std::unique_ptr<NvrtcCompiler>> Make(const std::string& arch,
                                                             const std::string& library);

  // The limit is kept as far as NVRTC lets itself be stopped, which is not everywhere: where it has
  // to hold, compile in another process (compile_pool.h).
  absl::StatusOr<Binary> Compile(const std::string& source, absl::Duration limit) override;

 private:
  NvrtcCompiler(std::string arch, const Nvrtc* nvrtc) : arch_(std::move(arch)), nvrtc_(nvrtc) {}

  const std::string arch_;
  const Nvrtc* const nvrtc_;  // never deleted
};

// Registers, local and shared memory of each kernel, from what `ptxas -v` says.
v1::StaticReport ParsePtxasLog(const std::string& log);

}  // namespace warpsmith::device
