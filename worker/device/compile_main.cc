// warpsmith-compile: a process of a compile pool. Standard input is a socket, over which sources
// come and binaries go (worker/device/compile_wire.h) until it closes. Not for people.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "common/base/clock.h"
#include "worker/device/compile_wire.h"
#include "worker/device/device.h"

int main(int argc, char** argv) {
  using warpsmith::device::Binary;
  using warpsmith::device::CompileRequest;
  std::string arch, cache_dir, nvrtc;
  CLI::App app{"Compiles for a compile pool."};
  app.add_option("--arch", arch)->required();
  app.add_option("--cache", cache_dir)->required();
  app.add_option("--nvrtc", nvrtc);
  CLI11_PARSE(app, argc, argv);

  auto compiler = warpsmith::device::MakeCompiler(arch, cache_dir, nvrtc);
  if (!warpsmith::device::WriteFrame(STDIN_FILENO, "ready").ok()) return 1;
  for (;;) {
    const auto frame =
        warpsmith::device::ReadFrame(STDIN_FILENO, warpsmith::base::Instant::InfiniteFuture());
    if (!frame.ok()) return 0;  // the pool has ended
    absl::StatusOr<CompileRequest> request = warpsmith::device::DecodeRequest(*frame);
    absl::StatusOr<Binary> reply = absl::InternalError("");
    if (!compiler.ok()) {
      reply = compiler.status();
    } else if (!request.ok()) {
      reply = request.status();
    } else {
      reply = (*compiler)->Compile(request->source, request->limit);
    }
    if (!warpsmith::device::WriteFrame(STDIN_FILENO, warpsmith::device::Encode(reply)).ok()) {
      return 0;
    }
  }
}
