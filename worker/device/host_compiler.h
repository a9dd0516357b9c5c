// The compiler of the host device: the C++ compiler found in PATH makes a shared object.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Objects above this many are removed, oldest first, when a compiler is made; none younger than an
// hour, since somebody may be about to load it.
inline constexpr int kMaxCachedObjects = 4096;

// Objects are kept in `cache_dir` under a digest of source, headers, flags, compiler and processor;
// several processes may share it. NotFound: no C++ compiler in PATH.
class HostCompiler : public Compiler {
 public:
  // `flags` come behind the compiler's own (tests: -O0).
  static absl::StatusOr<std::unique_ptr<HostCompiler>> Make(
      const std::string& cache_dir, const std::vector<std::string>& flags = {});

  // Binary.bytes is the path of the shared object.
  absl::StatusOr<Binary> Compile(const std::string& source, absl::Duration limit) override;

  const std::string& version() const { return version_; }  // "c++ (Debian 12.2.0-14) 12.2.0"

 private:
  HostCompiler() = default;

  std::string program_, version_, cache_dir_, include_dir_;
  std::vector<std::string> flags_;
  std::string key_;  // what the digest holds beside the source
};

}  // namespace warpsmith::device
