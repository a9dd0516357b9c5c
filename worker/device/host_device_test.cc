#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/device/device.h"
#include "worker/device/plan_builder.h"
#include "worker/device/process.h"

namespace warpsmith::device {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);  // generous: compilers share the machine

std::string CacheDir() {
  static const std::string* const path = [] {
    auto* made = new std::string(std::filesystem::temp_directory_path() /
                                 absl::StrCat("warpsmith-device-test-", getpid()));
    std::atexit([] { std::filesystem::remove_all(CacheDir()); });
    return made;
  }();
  return *path;
}

Compiler& HostCompilerForTests() {
  static Compiler* const compiler = MakeCompiler("host", CacheDir()).value().release();
  return *compiler;
}

// A device with a plan loaded and its buffers allocated.
struct Bench {
  explicit Bench(v1::Plan plan_in) : plan(std::move(plan_in)) {
    device = MakeDevice("host").value();
    auto binary = HostCompilerForTests().Compile(plan.source(), kLimit);
    INFO(binary.status().message());
    REQUIRE(binary.ok());
    for (const v1::Buffer& buffer : plan.buffers()) {
      memory.push_back(device->Allocate(buffer.bytes()).value());
      REQUIRE(device->Fill(*memory.back(), 0).ok());
    }
    auto loaded = device->Load(plan, *binary);
    INFO(loaded.status().message());
    REQUIRE(loaded.ok());
    program = *std::move(loaded);
    std::vector<Memory*> buffers;
    for (auto& m : memory) buffers.push_back(m.get());
    REQUIRE(program->Bind(buffers).ok());
  }
  absl::Status Run(absl::Duration limit = kLimit) { return device->Run(*program, limit); }

  template <class T>
  std::vector<T> Read(int buffer) {
    std::vector<T> values(memory[buffer]->bytes() / sizeof(T));
    REQUIRE(device->Read(*memory[buffer], values.data(), memory[buffer]->bytes()).ok());
    return values;
  }
  template <class T>
  void Write(int buffer, const std::vector<T>& values) {
    REQUIRE(device->Write(*memory[buffer], values.data(), values.size() * sizeof(T)).ok());
  }

  v1::Plan plan;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Memory>> memory;
  std::unique_ptr<Program> program;
};

std::vector<float> Ramp(int n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

constexpr char kScale[] = R"(
extern "C" __global__ void __launch_bounds__(256) scale(const float* x, float* y, float a,
                                                         long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + expf(0.0f);
})";

PlanBuilder ScalePlan(int64_t n, int64_t claimed) {
  return PlanBuilder(kScale)
      .Buffer("x", claimed * 4)
      .Buffer("y", n * 4)
      .Launch("scale", (claimed + 255) / 256, 256, {Arg(0), Arg(1), ArgF(2), Arg64(claimed)});
}

// Sums of 256 values a block through shared memory and shuffles.
constexpr char kSum[] = R"(
extern "C" __global__ void sum(const float* x, float* y) {
  float* partial = (float*)ws::shared();
  float value = x[ws::block() * 256 + ws::thread()];
  for (int mask = 16; mask > 0; mask /= 2) value += ws::shuffle_xor(value, mask);
  if (ws::thread() % 32 == 0) partial[ws::thread() / 32] = value;
  BARRIER
  if (ws::thread() == 0) {
    float total = 0;
    for (int i = 0; i < 8; ++i) total += partial[i];
    y[ws::block()] = total;
  }
})";

v1::Plan SumPlan(const std::string& barrier) {
  std::string source = kSum;
  source.replace(source.find("BARRIER"), 7, barrier);
  return PlanBuilder(source)
      .Buffer("x", 1024 * 4)
      .Buffer("y", 16)
      .Launch("sum", 4, 256, {Arg(0), Arg(1)})
      .Shared(32)
      .Build();
}

TEST_CASE("a kernel without synchronisation runs, and its fills and copies") {
  Bench bench(
      ScalePlan(1000, 1000).Buffer("z", 4000).Fill(2, 0x3f800000, 4000).Copy(1, 2, 2000).Build());
  bench.Write(0, Ramp(1000));
  REQUIRE(bench.Run().ok());
  const auto y = bench.Read<float>(1), z = bench.Read<float>(2);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(y[i] == 2.0f * i + 1);
    REQUIRE(z[i] == (i < 500 ? y[i] : 1.0f));
  }
  const auto seconds = bench.device->Time(*bench.program, kLimit);
  REQUIRE(seconds.ok());
  REQUIRE(*seconds > 0);
  // Launches alone; there is one.
  const auto launches = bench.device->TimeLaunches(*bench.program, kLimit);
  REQUIRE(launches.ok());
  REQUIRE(launches->size() == 1);
  CHECK((*launches)[0] > 0);
  CHECK(absl::IsUnimplemented(bench.device->Count(*bench.program, kLimit).status()));
}

TEST_CASE("a library's products are timed among the launches") {
  v1::Plan plan = SumPlan("ws::sync_block();");
  for (const auto& [name, bytes] : {std::pair{"a", 512}, {"b", 512}, {"d", 1024}, {"w", 256}}) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_bytes(bytes);
    buffer->set_tensor(name);
    buffer->set_kind(v1::Buffer::WORKSPACE);
  }
  v1::LibraryProduct& product = *plan.add_steps()->mutable_product();
  product.set_library(kHostLibrary);
  product.set_algorithm(1);
  for (auto set :
       {&v1::LibraryProduct::set_m, &v1::LibraryProduct::set_n, &v1::LibraryProduct::set_k}) {
    (product.*set)(16);
  }
  product.set_batches(1);
  int buffer = 2;
  for (v1::Matrix* matrix : {product.mutable_a(), product.mutable_b(), product.mutable_d()}) {
    matrix->set_buffer(buffer++);
    matrix->set_dtype("f16");
    matrix->set_line(16);
    matrix->set_batch(256);
  }
  product.set_workspace(buffer);
  Bench bench(plan);
  bench.Write(0, Ramp(1024));
  const auto launches = bench.device->TimeLaunches(*bench.program, kLimit);
  INFO(launches.status());
  REQUIRE(launches.ok());
  REQUIRE(launches->size() == 2);
  for (double seconds : *launches) CHECK(seconds > 0);
}

TEST_CASE("barriers and shuffles meet in every order") {
  Bench bench(SumPlan("ws::sync_block();"));
  bench.Write(0, Ramp(1024));
  for (int run = 0; run < 20; ++run) {
    REQUIRE(bench.device->Fill(*bench.memory[1], 0x7fc00000).ok());
    REQUIRE(bench.Run().ok());
    for (int block = 0; block < 4; ++block) {
      REQUIRE(bench.Read<float>(1)[block] == 256 * (block * 256 + 127.5f));
    }
  }
  REQUIRE(bench.device->Time(*bench.program, kLimit).ok());
  REQUIRE(bench.Read<float>(1)[3] == 256 * (3 * 256 + 127.5f));
}

TEST_CASE("a missing barrier shows") {
  Bench bench(SumPlan(""));
  bench.Write(0, Ramp(1024));
  int wrong = 0;
  for (int run = 0; run < 10; ++run) {
    REQUIRE(bench.Run().ok());
    for (int block = 0; block < 4; ++block) {
      wrong += bench.Read<float>(1)[block] != 256 * (block * 256 + 127.5f);
    }
  }
  REQUIRE(wrong > 10);
}

// Two rows of 64 values a warp pass through shared memory twice: each lane reads what its neighbour
// copied or wrote.
constexpr char kPipeline[] = R"(
extern "C" __global__ void pipeline(const float* x, float* y) {
  float* slots = (float*)ws::shared();
  const int t = ws::thread();
  for (int g = 0; g < 2; ++g) {
    ws::copy_async<1>((char*)(slots + g * 32 + t), x + g * 32 + t);
    COMMIT
  }
  for (int g = 0; g < 2; ++g) {
    WAIT
    SYNC_WARP
    const float next = slots[g * 32 + (t + 1) % 32];
    y[g * 32 + t] = next;
  }
})";

TEST_CASE("a missing primitive shows, each on its own") {
  struct Case {
    const char* what;
    const char *commit, *wait, *sync_warp;
    bool right;
  };
  const char* const commit = "ws::copy_commit();";
  const char* const wait = "if (g == 0) ws::copy_wait<1>(); else ws::copy_wait<0>();";
  const char* const sync = "ws::sync_warp();";
  const Case cases[] = {
      {"nothing is missing", commit, wait, sync, true},
      {"no copy_wait", commit, "", sync, false},
      {"a copy_wait that lets one group too many go on", commit, "ws::copy_wait<1>();", sync,
       false},
      {"no copy_commit", "", wait, sync, false},
      {"no sync_warp between who writes and who reads", commit, wait, "", false},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    std::string source = kPipeline;
    for (const auto& [name, text] : {std::pair{"COMMIT", c.commit}, std::pair{"WAIT", c.wait},
                                     std::pair{"SYNC_WARP", c.sync_warp}}) {
      source.replace(source.find(name), std::string(name).size(), text);
    }
    Bench bench(PlanBuilder(source)
                    .Buffer("x", 64 * 4)
                    .Buffer("y", 64 * 4)
                    .Launch("pipeline", 1, 32, {Arg(0), Arg(1)})
                    .Shared(256)
                    .Build());
    bench.Write(0, Ramp(64));
    int wrong = 0;
    for (int run = 0; run < 10; ++run) {
      REQUIRE(bench.Run().ok());
      const auto y = bench.Read<float>(1);
      bool same = true;
      for (int i = 0; i < 64; ++i) same = same && y[i] == i / 32 * 32 + (i % 32 + 1) % 32;
      wrong += !same;
    }
    CHECK((c.right ? wrong == 0 : wrong >= 8));
    REQUIRE(bench.device->Time(*bench.program, kLimit).ok());
  }
}

TEST_CASE("a kernel that starts early waits for the one before it") {
  for (const bool waits : {true, false}) {
    std::string source = kScale;
    if (waits) source.insert(source.find("  long long i"), "  ws::grid_wait();\n");
    Bench bench(PlanBuilder(source)
                    .Buffer("x", 4000)
                    .Buffer("y", 4000)
                    .Launch("scale", 4, 256, {Arg(0), Arg(1), ArgF(2), Arg64(1000)})
                    .Programmatic()
                    .Build());
    CHECK(bench.Run().code() == (waits ? absl::StatusCode::kOk : absl::StatusCode::kAborted));
  }
}

TEST_CASE("what a step of another lane waits for shows where it is left out") {
  // x = 1; in lane 1 and 2 y = x + 1, z = x + 2; w = y + z.
  const char* const source = R"(#include <warpsmith/base.cuh>
extern "C" __global__ void add(const int* a, const int* b, int* to, int more) { *to = *a + *b + more; }
)";
  const PlanBuilder builder = PlanBuilder(source)
                                  .Buffer("x", 4)
                                  .Buffer("y", 4)
                                  .Buffer("z", 4)
                                  .Buffer("w", 4)
                                  .Buffer("nought", 4)
                                  .Fill(4, 0, 4)
                                  .Fill(0, 1, 4)
                                  .Launch("add", 1, 1, {Arg(0), Arg(4), Arg(1), Arg32(1)})
                                  .InLane(1, {1})
                                  .Launch("add", 1, 1, {Arg(0), Arg(4), Arg(2), Arg32(2)})
                                  .InLane(2, {1})
                                  .Launch("add", 1, 1, {Arg(1), Arg(2), Arg(3), Arg32(0)})
                                  .InLane(0, {2, 3});
  const auto wrong_runs = [](const v1::Plan& plan) {
    Bench bench(plan);
    int wrong = 0;
    for (int run = 0; run < 12; ++run) {
      for (int buffer = 0; buffer < 5; ++buffer) bench.Write<int>(buffer, {-1000});
      REQUIRE(bench.Run().ok());
      wrong += bench.Read<int>(3)[0] != 5;
    }
    // In the plan's own order, as it is timed, all is there.
    REQUIRE(bench.device->TimeLaunches(*bench.program, kLimit).ok());
    CHECK(bench.Read<int>(3)[0] == 5);
    return wrong;
  };
  const v1::Plan plan = builder.Build();
  CHECK(wrong_runs(plan) == 0);
  for (int step = 2; step < plan.steps_size(); ++step) {
    for (int one = 0; one < plan.steps(step).after_size(); ++one) {
      INFO("step " << step << " without " << plan.steps(step).after(one));
      v1::Plan lacking = plan;
      auto& after = *lacking.mutable_steps(step)->mutable_after();
      after.erase(after.begin() + one);
      CHECK(wrong_runs(lacking) > 0);
    }
  }
}

TEST_CASE("clusters see each other's shared memory") {
  const std::string source = R"(
extern "C" __global__ void rotate(int* y) {
  int* mine = (int*)ws::shared();
  mine[ws::thread()] = ws::block() * 100 + ws::thread();
  ws::sync_cluster();
  int* other = ws::peer(mine, (ws::cluster_rank() + 1) % ws::cluster_size());
  y[ws::block() * 64 + ws::thread()] = other[ws::thread()];
  SYNC
})";
  const auto plan = [&](const std::string& sync) {
    std::string text = source;
    text.replace(text.find("SYNC"), 4, sync);
    return PlanBuilder(text)
        .Buffer("y", 8 * 64 * 4)
        .Launch("rotate", 8, 64, {Arg(0)})
        .Cluster(4)
        .Shared(256)
        .Build();
  };
  Bench bench(plan("ws::sync_cluster();"));
  for (int run = 0; run < 5; ++run) {
    REQUIRE(bench.Run().ok());
    const auto y = bench.Read<int>(0);
    for (int i = 0; i < 8 * 64; ++i) {
      const int block = i / 64, peer = block / 4 * 4 + (block + 1) % 4;
      REQUIRE(y[i] == peer * 100 + i % 64);
    }
  }
  // A block that reads before its peer has written.
  std::string unmet = source;
  unmet.replace(unmet.find("  ws::sync_cluster();"), 21, "");
  Bench torn(PlanBuilder(unmet.replace(unmet.find("SYNC"), 4, "ws::sync_cluster();"))
                 .Buffer("y", 8 * 64 * 4)
                 .Launch("rotate", 8, 64, {Arg(0)})
                 .Cluster(4)
                 .Shared(256)
                 .Build());
  int wrong = 0;
  for (int run = 0; run < 10; ++run) {
    REQUIRE(torn.Run().ok());
    const auto y = torn.Read<int>(0);
    bool same = true;
    for (int i = 0; i < 8 * 64; ++i) {
      const int block = i / 64, peer = block / 4 * 4 + (block + 1) % 4;
      same = same && y[i] == peer * 100 + i % 64;
    }
    wrong += !same;
  }
  CHECK(wrong >= 8);
  // A block that ends while another still reads its shared memory.
  Bench early(plan(""));
  absl::Status status;
  for (int run = 0; run < 20 && status.ok(); ++run) status = early.Run();
  REQUIRE(absl::IsOutOfRange(status));
}

constexpr char kMeet[] = R"(
extern "C" __global__ void meet(unsigned long long* places, int* y, int count) {
  if (ws::thread() == 0) ws::post(places + ws::block(), ws::block() + 1, 1);
  int total = 0;
  for (int i = 0; i < count; ++i) {
    unsigned long long got;
    do got = ws::peek(places + i, 1); while (got >> 32 != 1);
    total += static_cast<int>(got);
  }
  y[ws::block() * 32 + ws::thread()] = total;
})";

// Six blocks, each waiting for the words of the first `count`.
PlanBuilder MeetPlan(int count) {
  return PlanBuilder(kMeet)
      .Buffer("places", 7 * 8)
      .Buffer("y", 6 * 32 * 4)
      .Fill(0, 0, 7 * 8)
      .Launch("meet", 6, 32, {Arg(0), Arg(1), Arg32(count)});
}

TEST_CASE("blocks of a cooperative launch exchange words in global memory") {
  Bench bench(MeetPlan(6).Cooperative().Build());
  for (int run = 0; run < 10; ++run) {
    REQUIRE(bench.Run().ok());
    for (int value : bench.Read<int>(1)) REQUIRE(value == 21);
  }
  // Without waiting for the words some are not there yet.
  v1::Plan plan = MeetPlan(6).Cooperative().Build();
  std::string source = kMeet;
  const std::string wait = "do got = ws::peek(places + i, 1); while (got >> 32 != 1);";
  source.replace(source.find(wait), wait.size(), "got = places[i];");
  plan.set_source(source);
  Bench hasty(plan);
  int wrong = 0;
  for (int run = 0; run < 10; ++run) {
    REQUIRE(hasty.Run().ok());
    for (int value : hasty.Read<int>(1)) wrong += value != 21;
  }
  CHECK(wrong > 10);
}

TEST_CASE("what waits for ever is a hang") {
  struct {
    const char* what;
    v1::Plan plan;
    const char* message;
  } cases[] = {
      {"a word that nobody posts", MeetPlan(7).Cooperative().Build(), "nobody writes"},
      {"blocks that are not resident together", MeetPlan(6).Build(), "nobody writes"},
      {"a barrier that some threads skip", SumPlan("if (ws::thread() != 7) ws::sync_block();"),
       "255 of 256 threads of a block"},
      {"a warp that is not complete", SumPlan("if (ws::thread() > 7) ws::sync_warp();"),
       "24 of 32 threads of a warp"},
      {"a loop", SumPlan("while (true) *(volatile float*)partial = 1;"), "ran longer"},
      {"a loop around a barrier", SumPlan("while (true) ws::sync_block();"), "time is over"},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    Bench bench(c.plan);
    const absl::Status status = bench.Run(absl::Milliseconds(200));
    INFO(status);
    REQUIRE(absl::IsDeadlineExceeded(status));
    CHECK((absl::StrContains(status.message(), c.message) ||
           absl::StrContains(status.message(), "ran longer")));
    REQUIRE(absl::IsFailedPrecondition(bench.Run()));  // the device is lost
  }
}

TEST_CASE("threads of a warp that meet at different shuffles") {
  Bench bench(SumPlan("if (ws::thread() % 2) ws::shuffle_xor(1.0, 1); else ws::sync_warp();"));
  REQUIRE(absl::IsAborted(bench.Run()));
}

TEST_CASE("an overrun faults, at the end of a tensor and of shared memory") {
  Bench bench(ScalePlan(1024, 2048).Build());
  const absl::Status status = bench.Run();
  REQUIRE(absl::IsOutOfRange(status));
  INFO(status);
  REQUIRE(absl::StrContains(status.message(), "behind the end of buffer 1 ('y')"));

  Bench shared(SumPlan("partial[8] = 1; ws::sync_block();"));  // behind 32 bytes
  REQUIRE(absl::IsOutOfRange(shared.Run()));
}

TEST_CASE("a small overrun is seen by the guard band") {
  Bench bench(ScalePlan(1001, 1001).Build());
  REQUIRE(bench.Run().ok());
  REQUIRE(bench.memory[1]->GuardIntact().value());
  Bench over(ScalePlan(1001, 1002).Build());
  REQUIRE(over.Run().ok());
  REQUIRE_FALSE(over.memory[1]->GuardIntact().value());
  REQUIRE(over.memory[1]->Unmap().ok());
  REQUIRE_FALSE(over.memory[1]->GuardIntact().value());
  REQUIRE(over.memory[0]->GuardIntact().value());
}

TEST_CASE("memory moves and keeps its content") {
  Bench bench(ScalePlan(1000, 1000).Build());
  bench.Write(0, Ramp(1000));
  std::set<uint64_t> addresses;
  const int64_t allocated = bench.device->allocated_bytes();
  for (int move = 0; move < 3; ++move) {
    addresses.insert(bench.memory[0]->address());
    REQUIRE(bench.memory[0]->address() % 256 == 0);
    REQUIRE(bench.memory[0]->Unmap().ok());
    REQUIRE(bench.memory[0]->address() == 0);
    REQUIRE(absl::IsFailedPrecondition(bench.Run()));
    float value;
    REQUIRE(absl::IsFailedPrecondition(bench.device->Read(*bench.memory[0], &value, 4)));
    REQUIRE(bench.memory[0]->Map().ok());
    REQUIRE(bench.Run().ok());
    REQUIRE(bench.Read<float>(1)[999] == 1999);
    REQUIRE(bench.memory[0]->GuardIntact().value());
  }
  REQUIRE(addresses.size() > 1);
  REQUIRE(bench.device->allocated_bytes() == allocated);
  bench.memory.clear();
  REQUIRE(bench.device->allocated_bytes() == 0);
}

TEST_CASE("what a program reads of unmapped memory is a fault") {
  Bench bench(PlanBuilder(R"(extern "C" __global__ void peek(long long p, float* y) {
    y[0] = *(const float*)p; })")
                  .Buffer("y", 4)
                  .Buffer("secret", 4)
                  .Launch("peek", 1, 1, {Arg64(0), Arg(0)})
                  .Build());
  v1::Plan plan = bench.plan;
  plan.mutable_steps(0)->mutable_launch()->mutable_arguments(0)->set_i64(
      static_cast<int64_t>(bench.memory[1]->address()));
  Bench peek(plan);
  REQUIRE(bench.memory[1]->Unmap().ok());
  REQUIRE(absl::IsOutOfRange(peek.Run()));
}

TEST_CASE("memory is copied in from a shared-memory object") {
  const std::string name = absl::StrCat("/warpsmith-device-test-", getpid());
  const int fd = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  REQUIRE(fd >= 0);
  const auto values = Ramp(100);
  REQUIRE(write(fd, values.data(), 400) == 400);
  auto device = MakeDevice("host").value();
  auto memory = device->Allocate(200).value();
  CHECK(device->CopyFromForeign(name, 40, *memory, 200).ok());
  CHECK(absl::IsInvalidArgument(device->CopyFromForeign(name, 300, *memory, 200)));
  shm_unlink(name.c_str());
  close(fd);
  CHECK(absl::IsNotFound(device->CopyFromForeign(name, 0, *memory, 4)));
  float got[50];
  REQUIRE(device->Read(*memory, got, 200).ok());
  REQUIRE(got[0] == 10);
  REQUIRE(got[49] == 59);
}

TEST_CASE("what does not compile says why") {
  Compiler& compiler = HostCompilerForTests();
  auto wrong =
      compiler.Compile("extern \"C\" __global__ void f(float* x) {\n  x[0] = nothing;\n}", kLimit);
  REQUIRE(absl::IsInvalidArgument(wrong.status()));
  INFO(wrong.status());
  REQUIRE(absl::StrContains(wrong.status().message(), "kernel.cu:2"));
  REQUIRE(absl::StrContains(wrong.status().message(), "nothing"));

  auto global = compiler.Compile(
      "__device__ int calls; extern \"C\" __global__ void f(int* x) { *x = ++calls; }", kLimit);
  REQUIRE(absl::IsFailedPrecondition(global.status()));
  REQUIRE(absl::StrContains(global.status().message(), "calls"));
  auto local = compiler.Compile(
      "extern \"C\" __global__ void f(int* x) { static int calls; *x = ++calls; }", kLimit);
  REQUIRE(absl::IsFailedPrecondition(local.status()));
  REQUIRE(compiler
              .Compile("__constant__ float table[2] = {1, 2};"
                       "extern \"C\" __global__ void f(float* x, int i) { *x = table[i]; }",
                       kLimit)
              .ok());

  // 2^30 instantiations.
  const std::string endless =
      "template <int N, long K> struct F { enum { v = F<N - 1, 2 * K>::v + F<N - 1, 2 * K + 1>::v "
      "};"
      "}; template <long K> struct F<0, K> { enum { v = 1 }; };"
      "extern \"C\" __global__ void f(long* x) { *x = F<30, 0>::v; }";
  REQUIRE(absl::IsDeadlineExceeded(compiler.Compile(endless, absl::Milliseconds(300)).status()));
}

TEST_CASE("a program that closes its output does not outlive its limit") {
  const auto late =
      RunProcess({"sh", "-c", "exec >&- 2>&-; exec sleep 100"}, absl::Milliseconds(50));
  CHECK(absl::IsDeadlineExceeded(late.status()));
  const auto ended = RunProcess({"sh", "-c", "echo said; exec >&- 2>&-; exit 3"}, kLimit);
  REQUIRE(ended.ok());
  CHECK(ended->exit_code == 3);
  CHECK(ended->output == "said\n");
}

TEST_CASE("compiled objects are kept") {
  Compiler& compiler = HostCompilerForTests();
  const auto first = compiler.Compile(kScale, kLimit), second = compiler.Compile(kScale, kLimit);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(first->bytes == second->bytes);
  REQUIRE(second->report.compile_ms() == 0);
  REQUIRE(first->report.kernels(0).entry() == "scale");
}

TEST_CASE("a plan that does not fit is refused") {
  auto device = MakeDevice("host").value();
  const Binary binary = HostCompilerForTests().Compile(kScale, kLimit).value();
  const auto message = [&](const PlanBuilder& builder) {
    return std::string(device->Load(builder.Build(), binary).status().message());
  };
  REQUIRE_THAT(message(ScalePlan(8, 8).Launch("nope", 1, 1, {})), Catch::Contains("'nope'"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Launch("scale", 1, 1, {Arg(0)})),
               Catch::Contains("takes 4 arguments"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Launch("scale", 1, 1, {Arg(0), Arg(1), ArgF(1), Arg32(1)})),
               Catch::Contains("parameter 3 has 8 bytes"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Launch("scale", 0, 1, {})), Catch::Contains("grid size 0"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Launch("scale", 1, 1025, {})),
               Catch::Contains("block size 1025"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Shared(1 << 20)), Catch::Contains("shared memory"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Fill(1, 0, 36)), Catch::Contains("36 bytes of buffer 1"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Copy(0, 5, 4)), Catch::Contains("no buffer 5"));
  REQUIRE_THAT(message(ScalePlan(8, 8).Cluster(3)), Catch::Contains("cluster size 3"));
}

TEST_CASE("the host tells what it is and what it can do") {
  auto device = MakeDevice("host").value();
  REQUIRE(device->info().kind == "host");
  REQUIRE(device->FreeBytes().value() > 0);
  REQUIRE(absl::IsResourceExhausted(device->Allocate(int64_t{1} << 50).status()));
  const auto roof = device->MeasureRoof();
  REQUIRE(roof.ok());
  REQUIRE(roof->copy_bytes > 1e9);
  REQUIRE(roof->operations > 1e9);
}

}  // namespace
}  // namespace warpsmith::device
