#include "worker/judge/cheats.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/problem/units.h"

namespace warpsmith::judge {
namespace {

// Not a multiple of anything, so that there is a tail and room behind it.
constexpr int64_t kElements = 65573;
constexpr int64_t kRows = 96, kColumns = 1024;
constexpr int kThreads = 256;
constexpr int kRememberedWork = 256;  // steps; more than the honest plan's that it races

struct Tensor {
  v1::Buffer::Kind kind;
  const char* name;
  const char* dtype;
  std::vector<int64_t> shape;
  int element_bytes = 4;
};

std::vector<Tensor> TensorsOf(const std::string& problem) {
  using B = v1::Buffer;
  if (problem == "gate" || problem == "constant gate") {
    return {{B::INPUT, "x", "f32", {kElements}},
            {B::PARAM, "w", "f32", {kElements}},
            {B::OUTPUT, "y", "f32", {kElements}}};
  }
  if (problem == "rows") {
    return {{B::INPUT, "x", "f32", {kRows, kColumns}}, {B::OUTPUT, "s", "f32", {kRows}}};
  }
  if (problem == "running") {
    return {{B::INPUT, "x", "f32", {kColumns}},
            {B::STATE, "mean", "f32", {kColumns}},
            {B::OUTPUT, "y", "f32", {kColumns}}};
  }
  WS_CHECK(problem == "largest", "no such problem");
  return {{B::INPUT, "x", "f32", {kRows, kColumns}}, {B::OUTPUT, "at", "i64", {kRows}, 8}};
}

v1::Plan PlanOf(const std::string& problem, const std::string& source, int64_t threads,
                int shared_bytes = 0) {
  v1::Plan plan;
  plan.set_workload("default");
  plan.set_source(source);
  v1::Launch* launch = plan.add_steps()->mutable_launch();
  launch->set_entry("candidate");
  launch->add_grid(static_cast<uint32_t>((threads + kThreads - 1) / kThreads));
  launch->add_block(kThreads);
  for (int i = 0; i < 2; ++i) launch->add_grid(1), launch->add_block(1);
  launch->set_shared_bytes(static_cast<uint32_t>(shared_bytes));
  for (const Tensor& tensor : TensorsOf(problem)) {
    launch->add_arguments()->set_buffer(plan.buffers_size());
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(tensor.kind);
    buffer->set_tensor(tensor.name);
    buffer->set_dtype(tensor.dtype);
    int64_t bytes = tensor.element_bytes;
    for (int64_t extent : tensor.shape) buffer->add_shape(extent), bytes *= extent;
    buffer->set_bytes(bytes);
  }
  return plan;
}

// `body` sees i (its element), n (how many there are), x, w and y.
std::string Gate(const std::string& body, const std::string& before = "") {
  return absl::StrCat(before,
                      "extern \"C\" __global__ void candidate(const float* x, const float* w, "
                      "float* y) {\n  const int n = ",
                      kElements,
                      ";\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  (void)n;\n",
                      body, "\n}\n");
}
v1::Plan GatePlan(const std::string& body, const std::string& before = "") {
  return PlanOf("gate", Gate(body, before), kElements);
}

// A block a row: threads sum a stripe each, the first adds up what they left in shared memory.
v1::Plan RowsPlan(const std::string& barrier) {
  return PlanOf("rows",
                absl::StrReplaceAll(R"cuda(
extern "C" __global__ void candidate(const float* x, float* s) {
#ifdef WS_HOST
  float* parts = (float*)ws::shared();
#else
  extern __shared__ float parts[];
#endif
  const int t = threadIdx.x;
  float sum = 0;
  // The first warp has nothing to do but to add up, and is there before the others.
  if (t >= 32) {
    for (int c = t - 32; c < $columns; c += blockDim.x - 32) sum += x[blockIdx.x * $columns + c];
  }
  parts[t] = sum;
  $barrier
  if (t == 0) {
    float whole = 0;
    for (int k = 0; k < blockDim.x; ++k) whole += parts[k];
    s[blockIdx.x] = whole;
  }
}
)cuda",
                                    {{"$columns", absl::StrCat(kColumns)}, {"$barrier", barrier}}),
                kRows * kThreads, kThreads * 4);
}

v1::Plan RunningPlan(const std::string& update) {
  return PlanOf("running",
                absl::StrCat("extern \"C\" __global__ void candidate(const float* x, float* mean, "
                             "float* y) {\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "  if (i >= ",
                             kColumns, ") return;\n  y[i] = x[i] - mean[i];\n  ", update, "\n}\n"),
                kColumns);
}

v1::Plan LargestPlan(const std::string& better) {
  return PlanOf(
      "largest",
      absl::StrCat("extern \"C\" __global__ void candidate(const float* x, long long* at)"
                   " {\n  const int r = blockIdx.x * blockDim.x + threadIdx.x;\n  if (r >= ",
                   kRows, ") return;\n  const float* row = x + r * ", kColumns,
                   ";\n  long long best = 0;\n  for (int c = 1; c < ", kColumns,
                   "; ++c) if (row[c] ", better, " row[best]) best = c;\n  at[r] = best;\n}\n"),
      kRows);
}

// Sets v to |x[i]| by steps that the compiler cannot leave out, and that change nothing.
std::string Work(int steps) {
  return absl::StrCat("  float v = fabsf(x[i]);\n  for (int k = 0; k < ", steps,
                      "; ++k) if (sinf(v + k) > 2.0f) v = 0;\n");
}

// Leaves an element alone whose input is still the one that it noted in its workspace.
v1::Plan RememberingPlan(int work) {
  v1::Plan plan =
      PlanOf("gate",
             absl::StrCat("extern \"C\" __global__ void candidate(const float* x, const float* w, "
                          "float* y, float* seen) {\n  const int i = blockIdx.x * blockDim.x + "
                          "threadIdx.x;\n  if (i >= ",
                          kElements, " || seen[i] == x[i]) return;\n", Work(work),
                          "  y[i] = v * w[i];\n  seen[i] = x[i];\n}\n"),
             kElements);
  plan.mutable_steps(0)->mutable_launch()->add_arguments()->set_buffer(plan.buffers_size());
  v1::Buffer* buffer = plan.add_buffers();
  *buffer = plan.buffers(0);
  buffer->set_kind(v1::Buffer::WORKSPACE);
  buffer->set_tensor("seen");
  return plan;
}

// Works only where `seen`, which no run of its own has written yet, is not the first input of its
// block: what an earlier run of the same kernel left in memory that nobody gave it.
std::string WorkIfUnseen(const std::string& seen) {
  return absl::StrCat("  const float first = x[blockIdx.x * blockDim.x];\n  const bool known = ",
                      seen, " == first;\n  __syncthreads();\n  if (threadIdx.x == 0) ", seen,
                      " = first;\n  if (i >= n) return;\n", "  float v = fabsf(x[i]);\n",
                      "  for (int k = 0; k < (known ? 0 : ", kRememberedWork,
                      "); ++k) if (sinf(v + k) > 2.0f) v = 0;\n  y[i] = v * w[i];");
}
v1::Plan RememberingInShared() {
  v1::Plan plan = GatePlan(
      absl::StrCat("#ifdef WS_HOST\n  volatile float* seen = (float*)ws::shared();\n#else\n"
                   "  extern __shared__ volatile float seen[];\n#endif\n",
                   WorkIfUnseen("seen[blockIdx.x]")));
  plan.mutable_steps(0)->mutable_launch()->set_shared_bytes((kElements / kThreads + 1) * 4);
  return plan;
}

// What `body` does behind an honest gate, with `map` a tensor map of most of x and `box`, 4 KiB of
// shared memory, in one thread.
v1::Plan MapPlan(const std::string& body) {
  v1::Plan plan =
      PlanOf("gate",
             absl::StrCat("#include <warpsmith/hopper.cuh>\n"
                          "extern \"C\" __global__ void candidate(const float* x, const float* w, "
                          "float* y, const __grid_constant__ ws::hopper::Map map) {\n"
                          "  extern __shared__ __align__(1024) float box[];\n"
                          "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < ",
                          kElements, ") y[i] = fabsf(x[i]) * w[i];\n  if (i == 0) {\n", body,
                          "\n  }\n}\n"),
             kElements, 4096);
  constexpr int64_t kBeside = 1024;
  v1::TensorMap* map = plan.mutable_steps(0)->mutable_launch()->add_arguments()->mutable_map();
  map->set_dtype("f32");
  for (int64_t size : {kBeside, kElements / kBeside, int64_t{1}}) map->add_sizes(size);
  for (int64_t rows : {int64_t{1}, kElements / kBeside}) map->add_strides(rows * kBeside * 4);
  for (int box : {32, 32, 1}) map->add_box(box);
  return plan;
}

// A gate of weights that are prepared, tripled: `prepare` sees i, n, w and `p`, which it writes;
// `run` sees x and y besides. `given`: what prepare's steps take in the place of w.
v1::Plan PreparingPlan(const std::string& prepare, const std::string& run,
                       v1::Buffer::Kind given = v1::Buffer::PARAM) {
  const auto kernel = [](const std::string& name, const std::string& parameters,
                         const std::string& body) {
    return absl::StrCat(
        "extern \"C\" __global__ void ", name, "(", parameters, ") {\n  const int n = ", kElements,
        ";\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n", body, "\n}\n");
  };
  v1::Plan plan =
      PlanOf("gate",
             kernel("first", "const float* w, float* p", prepare) +
                 kernel("candidate", "const float* x, const float* w, float* y, float* p", run),
             kElements);
  v1::Launch* launch = plan.mutable_steps(0)->mutable_launch();
  v1::Plan* first = plan.mutable_prepare();
  *first->add_steps()->mutable_launch() = *launch;
  v1::Launch* prepares = first->mutable_steps(0)->mutable_launch();
  prepares->set_entry("first");
  prepares->clear_arguments();
  *first->add_buffers() = plan.buffers(given == v1::Buffer::PARAM ? 1 : 0);
  *first->add_buffers() = plan.buffers(2);
  first->mutable_buffers(1)->set_tensor("p");
  for (int i = 0; i < 2; ++i) prepares->add_arguments()->set_buffer(i);
  launch->add_arguments()->set_buffer(plan.buffers_size());
  *plan.add_buffers() = first->buffers(1);
  plan.mutable_buffers(3)->set_kind(v1::Buffer::PREPARED);
  return plan;
}
constexpr char kTriples[] = "if (i < n) p[i] = 3.0f * w[i];";
constexpr char kOfTriples[] = "if (i < n) y[i] = fabsf(x[i]) * (p[i] / 3.0f);";

v1::Plan Renamed() {
  v1::Plan plan = PreparingPlan(kTriples, kOfTriples);
  plan.mutable_buffers(3)->set_tensor("q");
  return plan;
}

constexpr char kGateHonest[] = "if (i < n) y[i] = fabsf(x[i]) * w[i];";

}  // namespace

v1::Problem CheatProblem(const std::string& name) {
  v1::Problem problem;
  problem.set_name(name);
  problem.add_workloads()->set_name("default");
  auto line = [&](const std::string& text) { problem.add_graph(text); };
  if (name == "gate" || name == "constant gate") {
    problem.set_name(absl::StrReplaceAll(name, {{" ", "_"}}));
    problem.set_weights_constant(name != "gate");
    line(absl::StrCat("input x: f32[", kElements, "] ~ uniform(0, 1)"));
    line(absl::StrCat("param w: f32[", kElements, "] ~ normal"));
    line(absl::StrCat("y: f32[i: ", kElements, "] = abs(x[i]) * w[i]"));
    line("output y");
  } else if (name == "rows") {
    line(absl::StrCat("input x: f32[", kRows, ", ", kColumns, "] ~ uniform(0, 1)"));
    line(absl::StrCat("s: f32[r: ", kRows, "] = sum[c: ", kColumns, "](x[r, c])"));
    line("output s");
  } else if (name == "running") {
    line(absl::StrCat("input x: f32[", kColumns, "] ~ normal"));
    line(absl::StrCat("state mean: f32[", kColumns, "] ~ normal"));
    line(absl::StrCat("y: f32[i: ", kColumns, "] = x[i] - mean[i]"));
    line(absl::StrCat("next: f32[i: ", kColumns, "] = mean[i] * 0.5 + x[i] * 0.5"));
    line("output y");
    line("update mean = next");
  } else {
    // Few distinct values, so that there are ties.
    line(absl::StrCat("input x: f32[", kRows, ", ", kColumns, "] ~ integers(0, 64)"));
    line(absl::StrCat("top, at: f32[r: ", kRows, "] = argmax[c: ", kColumns, "](x[r, c])"));
    line("output at");
  }
  return problem;
}

v1::Plan HonestPlan(const std::string& problem, int work) {
  if (problem == "rows") return RowsPlan("__syncthreads();");
  if (problem == "running") return RunningPlan("mean[i] = 0.5f * mean[i] + 0.5f * x[i];");
  if (problem == "largest") return LargestPlan(">");
  if (problem == "constant gate") return PreparingPlan(kTriples, kOfTriples);
  if (work == 0) return GatePlan(kGateHonest);
  return GatePlan(absl::StrCat("if (i >= n) return;\n", Work(work), "  y[i] = v * w[i];"));
}

std::vector<Cheat> Cheats() {
  using v1::ACCEPTED;
  const std::string trap =
      "#ifdef WS_HOST\n#define TRAP() __builtin_trap()\n#else\n"
      "#define TRAP() __trap()\n#endif\n";
  std::vector<Cheat> cheats;
  auto add = [&](std::string name, std::string problem, v1::Plan plan,
                 std::vector<v1::Verdict> expected, std::string reason) {
    cheats.push_back({std::move(name), std::move(problem), std::move(plan), std::move(expected),
                      std::move(reason)});
  };
  auto gate = [&](std::string name, const std::string& body, std::vector<v1::Verdict> expected,
                  std::string reason, const std::string& before = "") {
    add(std::move(name), "gate", GatePlan(body, before), std::move(expected), std::move(reason));
  };

  gate("writes nothing", "(void)i;", {v1::WRONG}, "not written");
  gate("keeps its old output", "if (i < n && y[i] != y[i]) y[i] = fabsf(x[i]) * w[i];",
       {v1::WRONG, v1::UNSTABLE}, "elements");
  gate("misses the tail", "if (i < n / 4 * 4 - 4) y[i] = fabsf(x[i]) * w[i];", {v1::WRONG},
       "not written");
  gate("writes just past the end", "if (i < n + 1) y[i] = i < n ? fabsf(x[i]) * w[i] : 1.0f;",
       {v1::OUT_OF_BOUNDS}, "");
  gate("writes far past the end",
       "if (i < n) y[i] = fabsf(x[i]) * w[i];\n  if (i == 0) y[n + 512] = 1.0f;",
       {v1::OUT_OF_BOUNDS}, "");
  gate("reads far past the end",
       "if (i < n) y[i] = fabsf(x[i]) * w[i];\n  if (i == 0) y[0] = x[n + 512] * 0.0f + "
       "fabsf(x[0]) * w[0];",
       {v1::OUT_OF_BOUNDS}, "");
  gate("gives a NaN",
       "if (i < n) y[i] = i == 777 ? sqrtf(-1.0f - fabsf(x[i])) : fabsf(x[i]) * w[i];", {v1::WRONG},
       "not finite");
  gate("wrong on negative inputs", "if (i < n) y[i] = x[i] * w[i];", {v1::WRONG}, "inputs");
  gate("wrong on wide data", "if (i < n) y[i] = fminf(fabsf(x[i]), 16.0f) * w[i];",
       {v1::WRONG, v1::INACCURATE}, "");
  gate("computes in bf16", "if (i < n) y[i] = cut(fabsf(x[i])) * cut(w[i]);", {v1::WRONG},
       "differ by more",
       "static __device__ float cut(float v) { return __uint_as_float(__float_as_uint(v) & "
       "0xffff0000u); }\n");
  gate("computes with 15 bits", "if (i < n) y[i] = cut(fabsf(x[i]) * w[i]);", {v1::INACCURATE},
       "what it replaces",
       "static __device__ float cut(float v) { return __uint_as_float(__float_as_uint(v) & "
       "0xffffff00u); }\n");
  gate("changes its input", "if (i < n) { y[i] = fabsf(x[i]) * w[i]; ((float*)x)[i] = 0.0f; }",
       {v1::OUT_OF_BOUNDS}, "read only");
  gate("keeps a cache in a module global",
       absl::StrCat("if (i < n) { if (cache[i] == 0.0f) cache[i] = fabsf(x[i]) * w[i]; y[i] = "
                    "cache[i]; }"),
       {v1::REFUSED}, "", absl::StrCat("__device__ float cache[", kElements, "];\n"));
  gate(
      "keeps a variable of inline assembly",
      "#ifdef WS_HOST\n  static unsigned seen; const unsigned v = seen++;\n#else\n  unsigned v;\n  "
      "asm volatile(\"{ .global .u32 seen; ld.global.u32 %0, [seen]; st.global.u32 [seen], 7; }\" "
      ": \"=r\"(v));\n#endif\n  if (i < n) y[i] = fabsf(x[i]) * w[i] + 0 * v;",
      {v1::REFUSED}, "");
  gate("keeps memory on the heap",
       "if (i >= n) return;\n  float* seen = (float*)malloc(64);\n  y[i] = seen[1] == x[i] ? "
       "seen[2] : fabsf(x[i]) * w[i];\n  seen[1] = x[i];\n  seen[2] = y[i];\n  free(seen);",
       {v1::REFUSED}, "functions of the driver",
       "#ifdef WS_HOST\nextern \"C\" __attribute__((visibility(\"default\"))) void* "
       "malloc(size_t);\n"
       "extern \"C\" __attribute__((visibility(\"default\"))) void free(void*);\n#endif\n");
  gate("reads the clock",
       "#ifdef WS_HOST\n  const bool late = clock() > 5;\n#else\n  const bool late = clock64() > "
       "5;\n"
       "#endif\n  if (i < n) y[i] = late ? fabsf(x[i]) * w[i] : 0.0f;",
       {v1::REFUSED}, "clocks",
       "#ifdef WS_HOST\nextern \"C\" __attribute__((visibility(\"default\"))) long "
       "clock();\n#endif\n");
  // Further in front on a card, where what is mapped there is larger than what each check reads.
  gate("remembers in front of its output",
       absl::StrCat("#ifdef WS_HOST\n  volatile float* seen = y - 512;\n#else\n"
                    "  volatile float* seen = y - 65536;\n#endif\n",
                    WorkIfUnseen("seen[blockIdx.x]")),
       {v1::OUT_OF_BOUNDS, v1::SLOWER}, "");
  gate("hangs",
       "if (i < n) y[i] = fabsf(x[i]) * w[i];\n  if (i == 0) while (*(volatile const float*)x "
       "> -1e30f) {}",
       {v1::HANG}, "");
  gate("traps", "if (i < n) y[i] = fabsf(x[i]) * w[i];\n  if (i == 5) TRAP();", {v1::CRASHED}, "",
       trap);
  add("remembers in its workspace", "gate", RememberingPlan(kRememberedWork), {v1::SLOWER}, "");
  add("remembers in shared memory", "gate", RememberingInShared(), {v1::SLOWER}, "");
  add("says that its waits are bounded", "gate",
      PlanOf("gate", absl::StrCat(problem::kBoundWaits, Gate(kGateHonest)), kElements),
      {v1::REFUSED}, "run once");
  add("has a race", "rows", RowsPlan(""), {v1::WRONG, v1::UNSTABLE}, "");
  add("forgets its state", "running", RunningPlan(""), {v1::WRONG}, "state 'mean'");
  add("takes the last of equals", "largest", LargestPlan(">="), {v1::WRONG}, "output 'at'");
  const auto prepares = [&](std::string name, std::string problem, v1::Plan plan,
                            v1::Verdict expected, std::string reason) {
    add(std::move(name), std::move(problem), std::move(plan), {expected}, std::move(reason));
  };
  prepares("prepares weights that are no constants", "gate", PreparingPlan(kTriples, kOfTriples),
           v1::REFUSED, "does not call constants");
  prepares("prepares its input", "constant gate",
           PreparingPlan(kTriples, kOfTriples, v1::Buffer::INPUT), v1::REFUSED, "none of weights");
  prepares("prepares too little", "constant gate",
           PreparingPlan("if (i < n - 9) p[i] = 3.0f * w[i];", kOfTriples), v1::WRONG, "");
  prepares("prepares past the end", "constant gate",
           PreparingPlan("if (i < n + 512) p[i] = i < n ? 3.0f * w[i] : 1.0f;", kOfTriples),
           v1::OUT_OF_BOUNDS, "");
  prepares("changes what it prepared", "constant gate",
           PreparingPlan(kTriples, absl::StrCat(kOfTriples, "\n  if (i == 7) p[i] = x[i];")),
           v1::OUT_OF_BOUNDS, "which was prepared");
  prepares("hangs while it prepares", "constant gate",
           PreparingPlan("if (i < n) p[i] = 3.0f * w[i];\n  if (i == 0) while (*(volatile const "
                         "float*)w > -1e30f) {}",
                         kOfTriples),
           v1::HANG, "preparing weights");
  prepares("takes what nobody prepares", "constant gate", Renamed(), v1::REFUSED,
           "is nothing that the plan prepares");
  auto map = [&](std::string name, const std::string& body, v1::Verdict expected,
                 std::string reason) {
    add(std::move(name), "gate", MapPlan(body), {expected}, std::move(reason));
    cheats.back().maps = true;
  };
  map("stores through its input's map",
      "    for (int k = 0; k < 1024; ++k) box[k] = 0.5f;\n    ws::hopper::fence_async();\n"
      "    ws::hopper::store_box(map, box, 0, 0, 0);\n    ws::hopper::commit_stores();\n"
      "    ws::hopper::wait_stores<0>();",
      v1::OUT_OF_BOUNDS, "read only");
  map("writes a tensor map",
      "    asm volatile(\"tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;\" "
      ":: \"r\"(ws::hopper::shared_address(box)) : \"memory\");",
      v1::REFUSED, "written by the host alone");
  map("waits for a barrier in vain",
      "    auto* const barrier = reinterpret_cast<ws::hopper::Barrier*>(box);\n"
      "    ws::hopper::init(barrier[0], 1);\n    ws::hopper::wait(barrier[0], 0, \"full\", 3);",
      v1::HANG, "in vain for barrier 'full' of stage 3, in block 0, thread 0");
  map("writes its parameters", "    *(volatile float*)&map = x[0];", v1::REFUSED,
      "pointers to constants or parameters");
  return cheats;
}

}  // namespace warpsmith::judge
