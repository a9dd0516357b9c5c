// Memory: mapped, guarded, moved, and of another process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "worker/device/check/cases.h"
#include "worker/device/cuda_driver.h"

namespace warpsmith::device {

Result MapFillCopy(Bench& bench) {
  auto loaded = Load(
      bench, WritePlan(1000, 0, 1000).Buffer("z", 4000).Fill(1, 7, 4000).Copy(0, 1, 2000).Build());
  if (!loaded.ok()) return loaded.status();
  for (int run = 0; run < 3; ++run) RETURN_IF_ERROR(loaded->Run());
  auto z = loaded->Ints(1);
  if (!z.ok()) return z.status();
  for (int i = 0; i < 1000; ++i)
    RETURN_IF_ERROR(Expect((*z)[i] == (i < 500 ? i : 7), "the values"));
  return "1000 values";
}

Result GuardBands(Bench& bench) {
  auto inside = Load(bench, WritePlan(501, 0, 501).Build());
  auto behind = Load(bench, WritePlan(501, 0, 502).Build());
  auto before = Load(bench, WritePlan(501, -1, 5).Build());
  for (auto* loaded : {&inside, &behind, &before}) {
    if (!loaded->ok()) return loaded->status();
    RETURN_IF_ERROR((*loaded)->Run());
    auto intact = (*loaded)->memory[0]->GuardIntact();
    if (!intact.ok()) return intact.status();
    RETURN_IF_ERROR(Expect(*intact == (loaded == &inside), "the guard's verdict"));
    RETURN_IF_ERROR(Expect((*loaded)->memory[0]->address() % 256 == 0, "alignment"));
  }
  return "4 bytes behind and before are seen";
}

Result Moves(Bench& bench) {
  auto loaded = Load(bench, WritePlan(100000, 0, 10).Build());
  if (!loaded.ok()) return loaded.status();
  Memory& memory = *loaded->memory[0];
  std::vector<int> values(100000);
  std::iota(values.begin(), values.end(), 5);
  RETURN_IF_ERROR(bench.device->Write(memory, values.data(), 400000));
  double microseconds = 0;
  for (int move = 0; move < 10; ++move) {
    const uint64_t address = memory.address();
    const base::Instant start = base::Now();
    RETURN_IF_ERROR(memory.Unmap());
    RETURN_IF_ERROR(Expect(memory.address() == 0, "no address while unmapped"));
    RETURN_IF_ERROR(memory.Map());
    microseconds = absl::ToDoubleMicroseconds(base::Now() - start);
    RETURN_IF_ERROR(Expect(memory.address() != address, "a new address"));
    RETURN_IF_ERROR(loaded->Bind());
    RETURN_IF_ERROR(loaded->Run());
  }
  auto got = loaded->Ints(0);
  if (!got.ok()) return got.status();
  for (int i = 0; i < 100000; ++i) {
    RETURN_IF_ERROR(Expect((*got)[i] == (i < 10 ? i : i + 5), "the content"));
  }
  auto intact = memory.GuardIntact();
  if (!intact.ok()) return intact.status();
  RETURN_IF_ERROR(Expect(*intact, "an intact guard"));
  return absl::StrFormat("10 moves, the last in %.0f us", microseconds);
}

Result Overrun(Bench& bench) {
  auto loaded = Load(bench, WritePlan(1024, 0, 1088).Build());
  if (!loaded.ok()) return loaded.status();
  const absl::Status status = loaded->Run();
  RETURN_IF_ERROR(
      Expect(absl::IsOutOfRange(status), absl::StrCat("OutOfRange, got ", status.ToString())));
  RETURN_IF_ERROR(Expect(absl::IsFailedPrecondition(loaded->Run()), "a lost device"));
  return std::string(status.message());
}

Result ReadOfUnmapped(Bench& bench) {
  auto secret = bench.device->Allocate(4096);
  if (!secret.ok()) return secret.status();
  v1::Plan plan =
      PlanBuilder(kWrite)
          .Buffer("y", 4096)
          .Launch("read", 1, 32, {Arg64(static_cast<int64_t>((*secret)->address())), Arg(0)})
          .Build();
  auto loaded = Load(bench, plan);
  if (!loaded.ok()) return loaded.status();
  RETURN_IF_ERROR(loaded->Run());  // mapped: it can be read
  RETURN_IF_ERROR((*secret)->Unmap());
  const absl::Status status = loaded->Run();
  RETURN_IF_ERROR(
      Expect(absl::IsOutOfRange(status), absl::StrCat("OutOfRange, got ", status.ToString())));
  return std::string(status.message());
}

constexpr int kForeignInts = 1000;

// The other process: owns memory, says how to find it, and lives until its input ends.
int OwnMemory(const Options& options) {
  std::vector<int> values(kForeignInts);
  std::iota(values.begin(), values.end(), 0);
  std::string handle;
  const std::string name = absl::StrCat("/warpsmith-device-check-", getpid());
  if (options.device == "host") {
    const int fd = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || write(fd, values.data(), kForeignInts * 4) != kForeignInts * 4) return 1;
    handle = name;
  } else {
    auto device = MakeDevice(options.device);  // makes its context current
    auto driver = cuda::LoadDriver();
    if (!device.ok() || !driver.ok()) return 1;
    cuda::Address address = 0;
    cuda::IpcHandle ipc;
    if ((*driver)->MemAlloc(&address, kForeignInts * 4) != 0 ||
        (*driver)->MemcpyHtoDAsync(address, values.data(), kForeignInts * 4, nullptr) != 0 ||
        (*driver)->StreamSynchronize(nullptr) != 0 ||
        (*driver)->IpcGetMemHandle(&ipc, address) != 0) {
      return 1;
    }
    handle.assign(ipc.bytes, sizeof(ipc.bytes));
    std::cout << absl::BytesToHexString(handle) << std::endl;
    std::cin.get();
    return 0;
  }
  std::cout << absl::BytesToHexString(handle) << std::endl;
  std::cin.get();
  shm_unlink(name.c_str());
  return 0;
}

Result Foreign(Bench& bench) {
  int to_child[2], from_child[2];
  if (pipe(to_child) != 0 || pipe(from_child) != 0) return absl::UnknownError("no pipe");
  const std::string device = bench.options.device;
  const pid_t child = fork();
  if (child == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    close(to_child[1]);
    execl("/proc/self/exe", "warpsmith-device-check", "--device", device.c_str(), "--own-memory",
          nullptr);
    _exit(127);
  }
  close(to_child[0]);
  close(from_child[1]);
  std::string hex;
  for (char c; read(from_child[0], &c, 1) == 1 && c != '\n';) hex += c;
  const auto copy = [&]() -> Result {
    RETURN_IF_ERROR(Expect(!hex.empty(), "a handle from the other process"));
    auto memory = bench.device->Allocate(400);
    if (!memory.ok()) return memory.status();
    int got[100] = {};
    for (int round = 0; round < 3; ++round) {
      RETURN_IF_ERROR(
          bench.device->CopyFromForeign(absl::HexStringToBytes(hex), 80, **memory, 400));
      RETURN_IF_ERROR(bench.device->Read(**memory, got, 400));
      for (int i = 0; i < 100; ++i) RETURN_IF_ERROR(Expect(got[i] == i + 20, "the values"));
    }
    return "400 bytes, three times";
  };
  Result result = copy();
  close(to_child[1]);
  close(from_child[0]);
  waitpid(child, nullptr, 0);
  return result;
}

}  // namespace warpsmith::device
