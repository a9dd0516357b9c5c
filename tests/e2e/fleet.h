// A planner and workers on the host device, in a folder that goes away with them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/e2e/answers.h"
#include "tests/e2e/process.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {

using Folder = support::TemporaryFolder;

// `warpsmith up` on a folder of its own.
class Fleet : public Answers {
 public:
  // bin: folder of the programs; more: further flags of `up`; prepare: is called with the folder
  // before it starts.
  Fleet(std::string bin, int workers, const std::vector<std::string>& more = {},
        const std::function<void(const std::string& dir)>& prepare = nullptr);
  ~Fleet() override;

  const std::string& dir() const { return folder_.path(); }
  Process& up() { return *up_; }

  // The planner answers and all workers have joined.
  bool Ready();
  // warpsmith --dir DIR arguments...
  Finished Warpsmith(std::vector<std::string> arguments,
                     absl::Duration limit = absl::Seconds(30)) const;
  absl::StatusOr<std::string> Addresses() const override;
  // Ends it with SIGTERM; its exit status.
  int Down();
  // The last lines of its logs, for a message.
  std::string Logs() const;

 private:
  const std::string bin_;
  const int workers_;
  Folder folder_;
  std::unique_ptr<Process> up_;
};

// Whether `up` has said that all is up. Others may be answered before; a signal until then
// interrupts it.
bool IsUp(const Process& up);

// Writes a set of a few small problems of different kinds; gives its path.
std::string WriteSmallSet(const std::string& folder);

}  // namespace warpsmith::e2e
