#include "worker/device/lacks.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/file.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::device {
namespace {

// A file system with what is looked at.
class Root {
 public:
  void Driver(const std::string& params) { Write("proc/driver/nvidia/params", params); }
  void Capabilities(const std::string& mask) {
    Write("proc/self/status", "Name:\tworker\nCapPrm:\t000001ffffffffff\nCapEff:\t" + mask + "\n");
  }
  void Write(const std::string& path, const std::string& text) {
    REQUIRE(base::WriteFileAtomically(folder_ / path, text).ok());
  }
  std::string path() const { return folder_.path(); }

 private:
  support::TemporaryFolder folder_;
};

DeviceInfo Of(const std::string& kind) {
  DeviceInfo device;
  device.kind = kind;
  return device;
}

TEST_CASE("counters that the driver keeps to administrators are named, to others") {
  Root root;
  CHECK(Lacks(Of("cuda"), true, root.path()).empty());  // no such driver: nothing is known
  root.Capabilities("0000000000000000");
  root.Driver("RmLogonRC: 1\nRmProfilingAdminOnly: 0\n");
  CHECK(Lacks(Of("cuda"), true, root.path()).empty());
  root.Driver("RmLogonRC: 1\nRmProfilingAdminOnly: 1\n");
  const auto lacks = Lacks(Of("cuda"), true, root.path());
  REQUIRE(lacks.size() == 1);
  CHECK_THAT(lacks[0], Catch::Contains("CAP_SYS_ADMIN"));
  root.Capabilities("00000000a80425fb");  // as Docker gives them
  CHECK(Lacks(Of("cuda"), true, root.path()).size() == 1);
  root.Capabilities("000001ffffffffff");
  CHECK(Lacks(Of("cuda"), true, root.path()).empty());
  root.Capabilities("0000000000200000");
  CHECK(Lacks(Of("cuda"), true, root.path()).empty());
}

TEST_CASE("shared memory that is not there is named where PyTorch uses it") {
  Root root;
  CHECK(Lacks(Of("host"), false, root.path()).empty());
  CHECK(Lacks(Of("cuda"), true, root.path()).empty());
  auto lacks = Lacks(Of("host"), true, root.path());
  REQUIRE(lacks.size() == 1);
  CHECK_THAT(lacks[0], Catch::Contains("(/dev/shm: No such file or directory)"));
  // That of the folder's own file system, which has room.
  REQUIRE(std::filesystem::create_directories(root.path() + "/dev/shm"));
  CHECK(Lacks(Of("host"), true, root.path()).empty());
}

}  // namespace
}  // namespace warpsmith::device
