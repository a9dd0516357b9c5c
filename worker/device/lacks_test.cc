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

constexpr Software kAll = {.torch = true, .nvrtc = true, .cupti = true, .cublaslt = true};

DeviceInfo Of(const std::string& kind) {
  DeviceInfo device;
  device.kind = kind;
  return device;
}

TEST_CASE("counters that the driver keeps to administrators are named, to others") {
  Root root;
  CHECK(Lacks(Of("cuda"), kAll, root.path()).empty());  // no such driver: nothing is known
  root.Capabilities("0000000000000000");
  root.Driver("RmLogonRC: 1\nRmProfilingAdminOnly: 0\n");
  CHECK(Lacks(Of("cuda"), kAll, root.path()).empty());
  root.Driver("RmLogonRC: 1\nRmProfilingAdminOnly: 1\n");
  const auto lacks = Lacks(Of("cuda"), kAll, root.path());
  REQUIRE(lacks.size() == 1);
  CHECK_THAT(lacks[0], Catch::Contains("CAP_SYS_ADMIN"));
  root.Capabilities("00000000a80425fb");  // as Docker gives them
  CHECK(Lacks(Of("cuda"), kAll, root.path()).size() == 1);
  root.Capabilities("000001ffffffffff");
  CHECK(Lacks(Of("cuda"), kAll, root.path()).empty());
  root.Capabilities("0000000000200000");
  CHECK(Lacks(Of("cuda"), kAll, root.path()).empty());
}

TEST_CASE("shared memory that is not there is named where PyTorch uses it") {
  Root root;
  CHECK(Lacks(Of("host"), Software(), root.path()).empty());
  CHECK(Lacks(Of("cuda"), kAll, root.path()).empty());
  auto lacks = Lacks(Of("host"), kAll, root.path());
  REQUIRE(lacks.size() == 1);
  CHECK_THAT(lacks[0], Catch::Contains("(/dev/shm: No such file or directory)"));
  // That of the folder's own file system, which has room.
  REQUIRE(std::filesystem::create_directories(root.path() + "/dev/shm"));
  CHECK(Lacks(Of("host"), kAll, root.path()).empty());
}

TEST_CASE("what others make is named where it is not there, with what to do, on cards") {
  const Root root;
  CHECK(Lacks(Of("host"), Software(), root.path()).empty());
  const struct {
    bool Software::*part;
    const char *name, *advice;
  } parts[] = {{&Software::nvrtc, "NVRTC", "--nvrtc PATH"},
               {&Software::torch, "PyTorch", "--python PATH"},
               {&Software::cublaslt, "cuBLASLt", "--cublaslt PATH"},
               {&Software::cupti, "CUPTI", "nvidia-cuda-cupti, 12.6 or newer"}};
  for (const auto& part : parts) {
    Software software = kAll;
    software.*part.part = false;
    const auto lacks = Lacks(Of("cuda"), software, root.path());
    REQUIRE(lacks.size() == 1);
    CHECK_THAT(lacks[0], Catch::StartsWith("lacks ") && Catch::Contains(part.name) &&
                             Catch::Contains(part.advice));
  }
  CHECK(Lacks(Of("cuda"), Software(), root.path()).size() == 4);
}

TEST_CASE("software is looked for where it is named") {
  DeviceInfo card = Of("cuda");
  card.arch = "sm_90a";
  const Software none = FindSoftware(true, "/nonexistent/libnvrtc.so", "/nonexistent/lt.so", card);
  CHECK(none.torch);
  CHECK_FALSE(none.nvrtc);
  CHECK_FALSE(none.cublaslt);
  CHECK(card.library.empty());
  DeviceInfo host = Of("host");
  CHECK_FALSE(FindSoftware(false, "", "", host).nvrtc);
}

}  // namespace
}  // namespace warpsmith::device
