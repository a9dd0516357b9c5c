// The choice as template arguments, and whole kernels of it.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/kernels/tile_rule.h"
#include "worker/kernels/tile_sides.h"

namespace warpsmith::kernels {
namespace {

using absl::StrCat;

// Positions up to this fit an int, with room for what lies behind the last box.
constexpr int64_t kMaxInt = (int64_t{1} << 31) - (int64_t{1} << 27);

template <class T>
std::string AxesText(const std::vector<T>& numbers) {
  return StrCat("ws::Axes<", absl::StrJoin(numbers, ", "), ">");
}

std::string PositionText(const TileInput& input) {
  std::string at = StrCat("Index(", input.offset, ")");
  for (size_t d = 0; d < input.strides.size(); ++d)
    absl::StrAppend(&at, " + c[", d, "] * Index(", input.strides[d], ")");
  return at;
}
}  // namespace

std::string TileArguments(const TileChoice& choice) {
  std::string text = StrCat(
      "ws::TileConfig<", choice.threads, ", ", choice.write, ", ", AxesText(choice.extents), ", ",
      AxesText(choice.tile), ", ", AxesText(choice.raster),
      choice.run > 0
          ? StrCat(", ", choice.run, ", ", choice.overlap, ", ", choice.align, ", ", choice.beside)
          : "",
      choice.stride > 0 ? StrCat(", ", choice.repeat, ", ", choice.stride, ", ", choice.chunks)
                        : "",
      ">");
  for (const TileStreamChoice& stream : choice.streams) {
    absl::StrAppend(&text, ", ws::TileStream<", stream.vector, ", ", stream.pack, ", ",
                    stream.offset, ", ", AxesText(stream.order), ", ", AxesText(stream.place),
                    stream.line > 0 ? StrCat(", ", stream.line, ", ", stream.unit) : "", ">");
  }
  return text;
}

std::string TileCopySource(const TileProblem& problem, const TileChoice& choice,
                           const std::string& name) {
  const char* const types[] = {"", "unsigned char",     "unsigned short", "", "unsigned", "", "",
                               "", "unsigned long long"};
  const std::string type = types[problem.write_bytes];
  const bool wide = Product(problem.extents) >= kMaxInt;
  std::string text = StrCat("#include <warpsmith/tile.cuh>\nstruct G_", name, " {\n");
  absl::StrAppend(&text, "  using Index = ", wide ? "long long" : "int",
                  ";\n  static constexpr int kStreams = ", problem.inputs.size(),
                  ";\n  template <int S> using Element = ", type,
                  ";\n  template <int V> struct Staged { ", type, " s[", problem.inputs.size(),
                  "][V]; };\n  template <int S, int V> static WS_DEVICE ", type,
                  "(&of(Staged<V>& staged))[V] { return staged.s[S]; }\n");
  std::string parameters, members;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    absl::StrAppend(&text, "  const ", type, "* x", i, ";\n");
    absl::StrAppend(&parameters, "const ", type, "* x", i, ", ");
    absl::StrAppend(&members, "x", i, ", ");
  }
  absl::StrAppend(&text, "  template <int S> WS_DEVICE const ", type, "* at(const Index (&c)[",
                  problem.extents.size(), "]) const {\n");
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    absl::StrAppend(&text, "    if constexpr (S == ", i, ") return x", i, " + (",
                    PositionText(problem.inputs[i]), ");\n");
  }
  absl::StrAppend(&text, "  }\n");
  absl::StrAppend(&text, "  ", type,
                  "* y;\n  template <int S, int V> WS_DEVICE void load(const Index (&c)[",
                  problem.extents.size(), "], ", type, " (&out)[V]) const {\n");
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TileInput& input = problem.inputs[i];
    const std::string at = PositionText(input);
    int64_t end = input.offset + 1;
    for (size_t d = 0; d < problem.extents.size(); ++d) {
      end += std::max<int64_t>(0, input.strides[d]) * (problem.extents[d] - 1);
    }
    absl::StrAppend(&text, "    if constexpr (S == ", i, ") ws::",
                    choice.streams[i].anywhere
                        ? StrCat("load_anywhere<V, ", type, ">(x", i, " + (", at, "), x", i,
                                 " + Index(", end, ")")
                        : StrCat("load<V, ", type, ", 0>(x", i, " + (", at, ")"),
                    ", out);\n");
  }
  absl::StrAppend(&text, "  }\n  template <int V> WS_DEVICE void emit(const Index (&)[",
                  problem.extents.size(), "], Index i, const Staged<V>& staged) const {\n    ",
                  type,
                  " sum[V];\n#pragma unroll\n    for (int v = 0; v < V; ++v) {\n      sum[v] = "
                  "staged.s[0][v];\n");
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    absl::StrAppend(&text, "      sum[v] += staged.s[", i, "][v];\n");
  absl::StrAppend(&text, "    }\n    ws::store<V, ", type, ", 0>(y + i, sum);\n  }\n};\n");
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", choice.threads, ") ",
                  name, "(", parameters, type, "* y) {\n  ws::tile<G_", name, ", ",
                  TileArguments(choice), ">(G_", name, "{", members, "y});\n}\n");
  return text;
}

}  // namespace warpsmith::kernels
