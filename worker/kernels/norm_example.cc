#include "worker/kernels/norm_example.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace warpsmith::kernels {
namespace {

constexpr int kMaxAcc = 32;  // ws::kMaxAcc

constexpr char kText[] = R"(#include <warpsmith/rows.cuh>
struct G_@name {
  using Index = int;
  static constexpr int kStages = @stages, kStreamBytes = @bytes;
  static constexpr bool kEmits = true, kRowOutputs = false, kRagged = false, kEmitReads = true, kTotals = false;
  struct Total {};
  const @type* x; const float* weight; const float* bias; @type* y;
  struct Row { const @type* x; @type* y; float mean, scale; };
  template <int V> struct Values { @type s[V]; };
  template <int S> struct Acc { float sum, squares; };

  static WS_DEVICE float value(float x) { return x; }
  static WS_DEVICE float value(ws::bf16 x) { return ws::to_float(x); }
  static WS_DEVICE void put(float v, float& to) { to = v; }
  static WS_DEVICE void put(float v, ws::bf16& to) { to = ws::from_float<ws::bf16>(v); }

  WS_DEVICE Row row(Index r) const {
    Row row;
    row.x = x + (long long)(r / @heads) * @pitch + (r % @heads) * @elements;
    row.y = y + (long long)r * @elements;
    row.mean = 0;
    return row;
  }
  WS_DEVICE int head(const Row&) const { return 0; }
  template <int V> WS_DEVICE void load(const Row& row, Index k, Values<V>& values) const {
    ws::load<V, @type, @stream>(row.x + k, values.s);
  }
  template <int V> WS_DEVICE void load_shared(const Row& row, Index k, char* slot) const {
    ws::copy_async<V, @stream>(slot, row.x + k);
  }
  template <int V> static WS_DEVICE void from_shared(const char* slot, Values<V>& values) {
    ws::load<V, @type, 0>(reinterpret_cast<const @type*>(slot), values.s);
  }
  template <int S> static WS_DEVICE constexpr bool chained() { return true; }
  template <int S> static WS_DEVICE Acc<S> identity() { return {0, 0}; }
  template <int S> static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) { a.sum += b.sum; a.squares += b.squares; }
  template <int S> static WS_DEVICE constexpr bool joined() { return false; }
  template <int S, int V> WS_DEVICE void accumulate(const Row& row, Index, const Values<V>& values, Acc<S>& acc) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float d = value(values.s[v]) - row.mean;
      acc.sum += d;
      acc.squares += d * d;
    }
  }
  template <int S> WS_DEVICE void finish(Row& row, const Acc<S>& acc) const {
    constexpr float kOver = 1.0f / @elements;
    if constexpr (@centred && S == 0) row.mean = acc.sum * kOver;
    if constexpr (S == kStages - 1) {
      const float left = @centred && @stages == 1 ? row.mean * row.mean : 0.0f;
      row.scale = ws::rsqrt(acc.squares * kOver - left + 1e-5f);
    }
  }
  template <int V> struct Common { float w[V], b[V]; };
  template <int V> WS_DEVICE void common(Index k, Common<V>& common) const {
    constexpr int P = V * 4 > 16 ? 4 : V;
#pragma unroll
    for (int p = 0; p < V; p += P) {
      float part[P];
      ws::load<P, float, @hint>(weight + k + p, part);
#pragma unroll
      for (int i = 0; i < P; ++i) common.w[p + i] = part[i];
      if constexpr (@centred) ws::load<P, float, @hint>(bias + k + p, part);
#pragma unroll
      for (int i = 0; i < P; ++i) common.b[p + i] = @centred ? part[i] : 0.0f;
    }
  }
  template <int V> WS_DEVICE void emit(const Row& row, Index k, const Values<V>& values, const Common<V>& common) const {
    @type out[V];
#pragma unroll
    for (int v = 0; v < V; ++v) put((value(values.s[v]) - row.mean) * row.scale * common.w[v] + common.b[v], out[v]);
    ws::store<V, @type, @stream>(row.y + k, out);
  }
  WS_DEVICE void emit_row(const Row&) const {}
};
extern "C" __global__ void __launch_bounds__(@threads, @resident)
@name(const @type* x, const float* weight, const float* bias, @type* y, void* exchange) {
  using C = ws::RowsConfig<@config>;
  using R = ws::RowsAtOnce<G_@name, @together, @rows, @keep>;
  R rows{{x, weight, bias, y}, {}};
  if constexpr (@keep > 0) rows.template keep<C>(@elements);
  ws::rows<R, C>(rows, (@rows + @together - 1) / @together, @elements, exchange);
}
)";

}  // namespace

std::string NormSource(const NormProblem& problem, const NormKnobs& knobs,
                       const std::string& name) {
  const int64_t pitch = problem.pitch > 0 ? problem.pitch : problem.heads * problem.elements;
  const std::string config =
      absl::StrCat(knobs.vector, ", ", knobs.threads, ", ", knobs.threads_per_row, ", ",
                   knobs.blocks_per_row, ", ", knobs.meeting, ", ", knobs.registers, ", ",
                   knobs.shared, ", ", knobs.unroll, ", ", knobs.persistent ? "true" : "false");
  return absl::StrReplaceAll(
      kText, {{"@name", name},
              {"@type", problem.bytes == 4 ? "float" : "ws::bf16"},
              {"@bytes", absl::StrCat(problem.bytes)},
              {"@stages", problem.centred && !problem.one_stage ? "2" : "1"},
              {"@centred", problem.centred ? "true" : "false"},
              {"@heads", absl::StrCat(problem.heads)},
              {"@pitch", absl::StrCat(pitch, "ll")},
              {"@elements", absl::StrCat(problem.elements)},
              {"@hint", absl::StrCat(knobs.weight_hint)},
              {"@keep", absl::StrCat(knobs.keep ? knobs.vector : 0)},
              {"@stream", absl::StrCat(knobs.stream_hint)},
              {"@threads", absl::StrCat(knobs.threads)},
              {"@resident", absl::StrCat(knobs.blocks_per_row > 1 ? 1024 / knobs.threads : 1)},
              {"@config", config},
              {"@together", absl::StrCat(knobs.rows_at_once)},
              {"@rows", absl::StrCat(problem.rows)}});
}

NormLaunch LaunchOf(const NormProblem& problem, const NormKnobs& knobs) {
  NormLaunch launch;
  const int64_t together = (problem.rows + knobs.rows_at_once - 1) / knobs.rows_at_once;
  launch.rows_per_block = knobs.blocks_per_row > 1 ? 1 : knobs.threads / knobs.threads_per_row;
  launch.groups = (together + launch.rows_per_block - 1) / launch.rows_per_block;
  launch.blocks_per_wave = knobs.blocks_per_row;
  launch.shared_bytes =
      2 * kMaxAcc * (knobs.threads / 32) + 2 * kMaxAcc +
      knobs.shared * knobs.threads * knobs.vector * problem.bytes * knobs.rows_at_once;
  launch.exchange_bytes = 2 * knobs.blocks_per_row * (kMaxAcc / 4) * 8;
  return launch;
}

}  // namespace warpsmith::kernels
