// A card that a test makes up: what NVML says of it, in a library that a worker can load.
//
//   NvmlScript card(folder + "/card");
//   card.Set({{"temperature", 40}});     // in the place of all that was said before
//   card.Xid(79);
//   ... --nvml NvmlScript::library(), with NvmlScript::kVariable set to card.path()
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace warpsmith::support {

class NvmlScript {
 public:
  explicit NvmlScript(std::string path);

  static std::string library();
  // For the process that loads it: NAME and value.
  static constexpr char kVariable[] = "WARPSMITH_NVML_SCRIPT";
  const std::string& path() const { return path_; }

  void Set(std::map<std::string, uint64_t> values, std::vector<int> processes = {});
  void Xid(int number);

 private:
  void Write() const;

  const std::string path_;
  std::map<std::string, uint64_t> values_;
  std::vector<int> processes_;
  std::vector<int> xids_;
};

}  // namespace warpsmith::support
