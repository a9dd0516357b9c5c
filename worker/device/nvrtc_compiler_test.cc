#include "worker/device/nvrtc_compiler.h"

#include <catch2/catch.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/device/cuda_roof.h"
#include "worker/device/kernel_scan.h"
#include "worker/device/plan_builder.h"
#include "worker/device/report.h"
#include "worker/kernels/headers.h"

namespace warpsmith::device {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(30);

// Null where there is no NVRTC: those cases say so and end.
Compiler* CompilerFor(const std::string& arch) {
  static std::map<std::string, std::unique_ptr<Compiler>> compilers;
  if (compilers.count(arch) == 0) {
    auto made = NvrtcCompiler::Make(arch, "");
    if (!made.ok()) {
      WARN("not run: " << made.status());
      return nullptr;
    }
    compilers[arch] = *std::move(made);
  }
  return compilers[arch].get();
}

TEST_CASE("kernels compile to cubin for each architecture") {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    INFO(arch);
    Compiler* const compiler = CompilerFor(arch);
    if (compiler == nullptr) return;
    const auto binary = compiler->Compile(R"(
__constant__ float table[4] = {1, 2, 3, 4};
extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] * table[threadIdx.x % 4];
}
extern "C" __global__ void g(float* y, int n) {
  float local[64];
  for (int i = 0; i < 64; ++i) local[i * n & 63] = y[i];
  for (int i = 0; i < 64; ++i) y[i] = local[i * n * 3 + 1 & 63];
})",
                                          kLimit);
    INFO(binary.status());
    REQUIRE(binary.ok());
    REQUIRE(absl::StartsWith(binary->bytes, "\177ELF"));
    REQUIRE(binary->report.kernels_size() == 2);
    for (const auto& kernel : binary->report.kernels()) {
      REQUIRE(kernel.registers() > 0);
      REQUIRE(kernel.spill_bytes() == (kernel.entry() == "g" ? 256 : 0));
    }
    REQUIRE(binary->report.compile_ms() > 0);
  }
}

TEST_CASE("every header of the skeletons compiles for the card") {
  for (const auto& [name, text] : kernels::Headers()) {
    if (absl::StartsWith(name, "warpsmith/host")) continue;
    INFO(name);
    Compiler* const compiler = CompilerFor("sm_90a");
    if (compiler == nullptr) return;
    const auto binary = compiler->Compile(
        absl::StrCat("#include <", name, ">\nextern \"C\" __global__ void f() {}\n"), kLimit);
    INFO(binary.status());
    REQUIRE(binary.ok());
  }
}

TEST_CASE("the kernels that measure a card's rates compile and keep what they load in registers") {
  Compiler* const compiler = CompilerFor("sm_90a");
  if (compiler == nullptr) return;
  const auto binary = compiler->Compile(CudaRoofSource(), kLimit);
  INFO(binary.status());
  REQUIRE(binary.ok());
  for (const auto& kernel : binary->report.kernels()) {
    INFO(kernel.entry() << ": " << kernel.registers() << " registers");
    CHECK(kernel.spill_bytes() == 0);
  }
}

TEST_CASE("products that measure tensor cores stay in registers and wait for nothing") {
  CHECK(CudaProductsSource("sm_75").empty());
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    INFO(arch);
    Compiler* const compiler = CompilerFor(arch);
    if (compiler == nullptr) return;
    const auto binary = compiler->Compile(CudaProductsSource(arch), kLimit);
    INFO(binary.status());
    REQUIRE(binary.ok());
    CHECK(binary->report.warnings_size() == 0);
    REQUIRE(binary->report.kernels_size() == 1);
    CHECK(binary->report.kernels(0).spill_bytes() == 0);
  }
}

TEST_CASE("what far arguments of sines take stands once in a kernel") {
  Compiler* const compiler = CompilerFor("sm_90a");
  if (compiler == nullptr) return;
  const auto bytes_of = [&](int sines) {
    std::string y = "0.0f";
    for (int i = 0; i < sines; ++i)
      absl::StrAppend(&y, i % 2 == 0 ? " + ws::sin(" : " + ws::cos(", "x[", i, "])");
    const auto binary = compiler->Compile(
        absl::StrCat(
            "#include <warpsmith/base.cuh>\nextern \"C\" __global__ void f(const float* x, "
            "float* y) { *y = ",
            y, "; }\n"),
        kLimit);
    INFO(binary.status());
    REQUIRE(binary.ok());
    return static_cast<int>(binary->bytes.size());
  };
  const int each = (bytes_of(18) - bytes_of(2)) / 16;
  INFO(each << " bytes a sine, of instructions of 16");
  CHECK(each < 50 * 16);  // 140 instructions where each has all
}

TEST_CASE("what NVRTC refuses says why") {
  Compiler* const compiler = CompilerFor("sm_90a");
  if (compiler == nullptr) return;
  const auto wrong =
      compiler->Compile("extern \"C\" __global__ void f(float* x) {\n  x[0] = nothing;\n}", kLimit);
  REQUIRE(absl::IsInvalidArgument(wrong.status()));
  INFO(wrong.status());
  REQUIRE(absl::StrContains(wrong.status().message(), "kernel.cu(2): error"));
  REQUIRE(absl::StrContains(wrong.status().message(), "nothing"));

  for (const char* declaration : {"__device__ int calls;", "__device__ int calls = 7;",
                                  "static __device__ int calls;", "__managed__ int calls;"}) {
    INFO(declaration);
    const auto global = compiler->Compile(
        absl::StrCat(declaration,
                     "extern \"C\" __global__ void f(int* x) { *x = calls; calls = *x + 1; }"),
        kLimit);
    INFO(global.status());
    REQUIRE(absl::IsFailedPrecondition(global.status()));
    REQUIRE(absl::StrContains(global.status().message(), "calls"));
  }
  const auto local = compiler->Compile(
      "extern \"C\" __global__ void f(int* x) { static int calls; *x = ++calls; }", kLimit);
  REQUIRE(absl::IsFailedPrecondition(local.status()));

  // Constants do not count, nor does what nobody uses.
  REQUIRE(compiler
              ->Compile("namespace ws { constexpr int kTwo = 2; inline constexpr int kThree = 3; }"
                        "__device__ int unused;"
                        "extern \"C\" __global__ void f(int* x) { *x = ws::kTwo + ws::kThree; }",
                        kLimit)
              .ok());

  auto unknown = NvrtcCompiler::Make("sm_1", "");
  REQUIRE(unknown.ok());
  REQUIRE_FALSE((*unknown)->Compile("", kLimit).ok());
  REQUIRE(absl::IsNotFound(NvrtcCompiler::Make("sm_90a", "/nowhere/libnvrtc.so").status()));
}

TEST_CASE("memory that outlives a launch is refused however it is come by, and so are clocks") {
  Compiler* const compiler = CompilerFor("sm_90a");
  if (compiler == nullptr) return;
  const auto kernel = [](const std::string& body) {
    return absl::StrCat("extern \"C\" __global__ void f(unsigned* x) {\n", body, "\n}\n");
  };
  const auto takes_map = [](const std::string& body) {
    return absl::StrCat(
        "struct alignas(64) Map { unsigned long long words[16]; };\n"
        "extern \"C\" __global__ void f(const __grid_constant__ Map map, unsigned* x) {\n",
        body, "\n}\n");
  };
  const std::string declares = "{ .global .u32 seen; ld.global.u32 %0, [seen]; ";
  const std::string stores = "st.global.u32 [seen], 7; }\" : \"=r\"(v)); *x = v;";
  const struct {
    const char* what;
    std::string source, reason;
  } cases[] = {
      {"a variable of inline PTX", kernel("unsigned v; asm volatile(\"" + declares + stores),
       "global memory"},
      {"the same with its name in a comment",
       kernel("unsigned v; asm volatile(\"/* ; .global .u32 $__seen__27$1; */ // $__seen__27$1\\n" +
              declares + stores),
       "global memory"},
      {"a table of the compiler's, by an assembled name",
       kernel("unsigned* p; asm volatile(\"mov.u64 %0, __cud\" \"art_i2opi_f;\" : \"=l\"(p));"
              "x[0] = __float_as_uint(sinf(x[1])) + p[0]; p[0] = 9;"),
       "__cudart_i2opi_f"},
      {"the heap", kernel("unsigned* p = (unsigned*)malloc(64); x[0] = p[1]; p[1] = 5; free(p);"),
       "malloc"},
      {"the driver's buffer", kernel("printf(\"%d\", x[0]);"), "vprintf"},
      {"a clock", kernel("*x = (unsigned)clock64();"), "%clock64"},
      {"half a clock", kernel("*x = (unsigned)clock();"), "%clock"},
      {"the time of day",
       kernel("unsigned v; asm volatile(\"mov.u32 %0, %globaltimer_lo;\" : \"=r\"(v)); *x = v;"),
       "%globaltimer_lo"},
      {"constants by a generic pointer",
       kernel("unsigned v; asm volatile(\"{ .const .align 4 .b32 t[4] = {1, 2, 3, 4}; .reg .b64 a; "
              "cvta/**/ .const.u64 a, t; ld.u32 %0, [a]; st.u32 [a], 5; }\" : \"=r\"(v)); *x = v;"),
       "cvta.const"},
      {"the place of a tensor map that is written",
       takes_map(
           "*(unsigned*)&map = 5; asm volatile(\"prefetch.tensormap [%0];\" :: \"l\"(&map));"),
       "cvta.param"},
      {"the same by assembly",
       takes_map("asm volatile(\"prefetch.tensormap [%0]; st.u32 [%0], 5;\" :: \"l\"(&map));"),
       "cvta.param"},
      {"the same by another register",
       takes_map("asm volatile(\"{.reg .b64 a; mov.b64 a, %0; st.u32 [a], 5;}\" :: \"l\"(&map));"),
       "cvta.param"},
      {"a map's place as what is loaded to",
       takes_map(
           "asm "
           "volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
           "[%0], [%0, {%1}], [%1];\" :: \"l\"(&map), \"r\"(0));"),
       "cvta.param"},
      {"a conversion with room in it",
       takes_map("unsigned v; asm volatile(\"{.reg .b64 a; cvta/**/.param.u64 a, f_param_0; ld.u32 "
                 "%0, [a];}\" "
                 ": \"=r\"(v)); *x = v;"),
       "cvta.param"},
      {"a clock behind what is a comment only in a string",
       kernel("unsigned v; asm volatile(\".pragma \\\"//\\\"; mov.u32 %0, %clock;\" : \"=r\"(v)); "
              "*x = v;"),
       "%clock"},
      {"a map's place behind what is a function only in a string",
       takes_map("unsigned long long a; asm volatile(\"prefetch.tensormap [%1]; .pragma "
                 "\\\".func\\\"; mov.b64 %0, %1;\" "
                 ": \"=l\"(a) : \"l\"(&map)); *(unsigned*)a = 5;"),
       "cvta.param"},
      {"a string that might end elsewhere",
       kernel("asm volatile(\".pragma \\\"a\\\\\\\";\"); *x = 1;"), "backslash"},
      {"a tensor map that is changed",
       kernel("asm volatile(\"tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;\" "
              ":: \"l\"(x), \"l\"(x));"),
       "tensormap.replace"},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const auto binary = compiler->Compile(c.source, kLimit);
    INFO(binary.status());
    CHECK(absl::IsFailedPrecondition(binary.status()));
    CHECK(absl::StrContains(binary.status().message(), c.reason));
  }
  // The copy engine may have a map's place, also behind a predicate and a label.
  const auto engine = compiler->Compile(
      takes_map(
          "__shared__ alignas(128) int to[32]; __shared__ alignas(8) unsigned long long come;\n"
          "const unsigned at = (unsigned)__cvta_generic_to_shared(to), by = "
          "(unsigned)__cvta_generic_to_shared(&come);\n"
          "for (unsigned i = 0; i < x[0]; ++i) asm volatile(\"{.reg .pred p; setp.ne.b32 p, %2, "
          "0;\\nprefetch.tensormap [%0];\\n"
          "again: @p cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
          "[%1], [%0, {%2}], [%3];\\n"
          "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
          "[%1], [%0, {%2, %2, %2}], [%3], {%4};}\" "
          ":: \"l\"(&map), \"r\"(at), \"r\"(i), \"r\"(by), \"h\"(short(1)) : \"memory\");"),
      kLimit);
  INFO(engine.status());
  CHECK(engine.ok());
  // Sine, tables of constants and inline assembly are no reason by themselves.
  for (const char* body :
       {"x[0] = __float_as_uint(sinf(x[1]) + (float)cos((double)x[2]));",
        "unsigned v; asm(\"mov.u32 %0, %laneid;\" : \"=r\"(v)); *x = table[v];"}) {
    const auto binary = compiler->Compile(
        "__constant__ unsigned table[32] = {1, 2}; constexpr int kUnused[2] = {1, 2};" +
            kernel(body),
        kLimit);
    INFO(binary.status());
    CHECK(binary.ok());
  }
}

TEST_CASE("the limit stops the front end") {
  Compiler* const compiler = CompilerFor("sm_90a");
  if (compiler == nullptr) return;
  const auto endless = compiler->Compile(
      "template <int N, long K> struct F { enum { v = F<N - 1, 2 * K>::v + F<N - 1, 2 * K + 1>::v "
      "};"
      "}; template <long K> struct F<0, K> { enum { v = 1 }; };"
      "extern \"C\" __global__ void f(long* x) { *x = F<11, 0>::v; }",
      absl::Milliseconds(1));
  INFO(endless.status());
  REQUIRE(absl::IsDeadlineExceeded(endless.status()));
}

TEST_CASE("several threads compile at once") {
  Compiler* const compiler = CompilerFor("sm_90a");
  if (compiler == nullptr) return;
  std::vector<std::thread> threads;
  std::vector<absl::Status> statuses(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = compiler
                        ->Compile(absl::StrCat("extern \"C\" __global__ void f", i,
                                               "(float* x) { x[", i, "] = 1; }"),
                                  kLimit)
                        .status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) CHECK(status.ok());
}

TEST_CASE("what ptxas says becomes a report") {
  const v1::StaticReport report = ParsePtxasLog(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'f' for 'sm_90a'\n"
      "ptxas info    : Function properties for f\n"
      "    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Function properties for helper\n"
      "    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 42 registers, used 1 barriers, 512 bytes smem\n");
  REQUIRE(report.kernels_size() == 1);
  REQUIRE(report.kernels(0).entry() == "f");
  REQUIRE(report.kernels(0).registers() == 42);
  REQUIRE(report.kernels(0).spill_bytes() == 16);
  REQUIRE(report.kernels(0).shared_bytes() == 512);
}

TEST_CASE("occupancy follows from registers, threads and shared memory") {
  DeviceInfo h200;
  h200.kind = "cuda";
  h200.shared_per_sm = 228 << 10;
  h200.shared_per_block = 227 << 10;
  const struct {
    int registers, threads, shared, blocks;
  } cases[] = {{32, 256, 0, 8},          {33, 256, 0, 6}, {64, 256, 0, 4},
               {128, 512, 0, 1},         {16, 32, 0, 32}, {32, 256, 100 << 10, 2},
               {32, 1024, 227 << 10, 1}, {255, 256, 0, 1}};
  for (const auto& c : cases) {
    INFO(c.registers << " registers, " << c.threads << " threads, " << c.shared << " bytes");
    v1::StaticReport report;
    report.add_kernels()->set_entry("f");
    report.mutable_kernels(0)->set_registers(c.registers);
    CompleteReport(PlanBuilder("").Launch("f", 1, c.threads, {}).Shared(c.shared).Build(), h200,
                   &report);
    REQUIRE(report.kernels(0).blocks_per_sm() == c.blocks);
    REQUIRE(report.kernels(0).shared_bytes() == c.shared);
  }
}

TEST_CASE("kernels are found in a source") {
  const std::vector<std::string> names = KernelNames(R"x(
// extern "C" __global__ void commented(int);
/* extern "C" __global__ void commented_too(int); */
const char* text = "extern \"C\" __global__ void quoted(int)";
extern "C" __global__ void __launch_bounds__(256, (1 + 1)) first(const float* x) {}
extern "C" __global__
void second() {}
extern "C" void __global__ __cluster_dims__(2, 1, 1) third(int) {}
template <int N> __global__ void templated() {}
extern "C" __device__ int helper();
extern "C" __global__ void first(const float* x);
)x");
  REQUIRE(names == std::vector<std::string>{"first", "second", "third"});
}

}  // namespace
}  // namespace warpsmith::device
