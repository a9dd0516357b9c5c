// Lists of rows by the places that they name, and sums along them, bit for bit.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

#include "absl/strings/str_replace.h"
#include "worker/kernels/kernel_testing.h"

namespace warpsmith::kernels {
namespace {

struct Case {
  std::string what;
  int batches, places, rows, elements, part, warps, warp_places, tile;
  std::function<int(int batch, int row)> key;
};

int Random(int batch, int row, int low, int high) {
  std::mt19937 random(batch * 7919 + row);
  return low + static_cast<int>(random() % (high - low));
}

std::vector<Case> Cases() {
  return {
      {"one batch, a tile and a bit", 1, 50, 150, 4, 16, 2, 16, 128,
       [](int b, int r) { return Random(b, r, 0, 50); }},
      {"keys outside", 1, 20, 100, 2, 8, 1, 32, 128,
       [](int b, int r) { return Random(b, r, -20, 40); }},
      {"all of one place", 1, 9, 500, 2, 16, 2, 4, 128, [](int, int) { return 6; }},
      {"nowhere", 2, 9, 40, 2, 8, 2, 8, 128, [](int, int) { return -1; }},
      {"batches, some of whose rows count nowhere", 3, 70, 130, 2, 8, 2, 16, 256,
       [](int b, int r) { return r % 5 == b ? -1 : Random(b, r, 0, 3) * 20; }},
      {"in order, no parts", 1, 64, 64, 6, 0, 2, 32, 128, [](int, int r) { return r; }},
      {"more places of a warp than lanes", 1, 200, 300, 2, 32, 1, 64, 256,
       [](int b, int r) { return Random(b, r, 0, 200); }},
  };
}

constexpr char kSource[] = R"(
struct G@N {
  using Index = int;
  static constexpr int kRank = 2, kBatches = @B, kPlaces = @P, kRows = @R, kElements = @E, kPart = @T;
  struct Acc { float v; };
  const int* keys;
  const float* values;
  float* sums;
  static WS_DEVICE Acc identity() { return {0}; }
  static WS_DEVICE void combine(Acc& a, const Acc& b) { a.v += b.v; }
  WS_DEVICE int place(int batch, int row) const { return keys[batch * kRows + row]; }
  static WS_DEVICE void element(int i, int (&c)[2]) { c[0] = i / kElements; c[1] = i % kElements; }
  static WS_DEVICE void element_of(int place, int e, int (&c)[2]) { c[0] = place; c[1] = e; }
  static WS_DEVICE int place_of(const int (&c)[2]) { return c[0]; }
  static WS_DEVICE int within(const int (&c)[2]) { return c[1]; }
  template <int V> WS_DEVICE void add(const int (&c)[2], int row, Acc (&acc)[V]) const {
    for (int v = 0; v < V; ++v) acc[v].v += values[(c[0] / kPlaces * kRows + row) * kElements + c[1] + v];
  }
  template <int V> WS_DEVICE void emit(const int (&c)[2], const Acc (&acc)[V]) const {
    for (int v = 0; v < V; ++v) sums[c[0] * kElements + c[1] + v] = acc[v].v;
  }
};
extern "C" __global__ void lists@N(const int* keys, int* spans, int* rows, int* parts) {
  ws::scatter_lists<G@N, @W, @Q, @L>(G@N{keys, nullptr, nullptr}, spans, rows, parts);
}
extern "C" __global__ void parts@N(const float* values, const int* rows, const int* parts, G@N::Acc* partial) {
  if constexpr (G@N::kPart > 0) ws::scatter_parts<G@N, 2>(G@N{nullptr, values, nullptr}, rows, parts, partial);
}
extern "C" __global__ void sums@N(const float* values, float* sums, const int* spans, const int* rows, const G@N::Acc* partial) {
  ws::scatter_sum<G@N, 2, @U>(G@N{nullptr, values, sums}, spans, rows, partial, @B * @P * @E);
}
)";

int UnrollOf(size_t number) { return number % 2 == 0 ? 1 : 4; }

std::string SourceOf(const Case& c, size_t number) {
  const auto text = [](int n) { return absl::StrCat(n); };
  return absl::StrReplaceAll(kSource, {{"@N", absl::StrCat(number)},
                                       {"@B", text(c.batches)},
                                       {"@P", text(c.places)},
                                       {"@R", text(c.rows)},
                                       {"@E", text(c.elements)},
                                       {"@T", text(c.part)},
                                       {"@W", text(c.warps)},
                                       {"@Q", text(c.warp_places)},
                                       {"@U", text(UnrollOf(number))},
                                       {"@L", text(c.tile)}});
}

// A place's rows up to its first whole part, then its parts, then the others, each in their order.
float SumOf(const Case& c, const std::vector<float>& values, const std::vector<int>& rows,
            int batch, int from, int to, int element) {
  const auto added = [&](float sum, int begin, int end) {
    for (int at = begin; at < end; ++at)
      sum += values[(batch * c.rows + rows[at]) * c.elements + element];
    return sum;
  };
  if (c.part == 0) return added(0, from, to);
  const int first = (from + c.part - 1) / c.part, last = to / c.part;
  if (first >= last) return added(0, from, to);
  float sum = added(0, from, first * c.part);
  for (int part = first; part < last; ++part) sum += added(0, part * c.part, (part + 1) * c.part);
  return added(sum, last * c.part, to);
}

TEST_CASE("lists are in the order of the rows, and so are sums along them") {
  const std::vector<Case> cases = Cases();
  std::string source = "#include <warpsmith/scatter.cuh>\n";
  for (size_t n = 0; n < cases.size(); ++n) source += SourceOf(cases[n], n);
  for (size_t n = 0; n < cases.size(); ++n) {
    const Case& c = cases[n];
    INFO(c.what);
    const int all = c.batches * c.rows, places = c.batches * c.places;
    const int parts = c.part > 0 ? (all + c.part - 1) / c.part : 1;
    std::vector<int> keys;
    std::vector<float> values;
    std::mt19937 random(3);
    for (int i = 0; i < all; ++i) keys.push_back(c.key(i / c.rows, i % c.rows));
    // Sums that depend on who comes first.
    for (int i = 0; i < all * c.elements; ++i)
      values.push_back(std::ldexp(static_cast<float>(random() % 1000) - 500, random() % 24));

    device::PlanBuilder builder(source);
    builder.Buffer("keys", all * 4)
        .Buffer("values", all * c.elements * 4)
        .Buffer("sums", places * c.elements * 4)
        .Buffer("spans", places * 8)
        .Buffer("rows", all * 4)
        .Buffer("parts", parts * 4)
        .Buffer("partial", parts * c.elements * 4);
    using device::Arg;
    const auto lists = static_cast<uint32_t>(
        c.batches * ((c.places + c.warps * c.warp_places - 1) / (c.warps * c.warp_places)));
    builder.Launch(absl::StrCat("lists", n), lists, c.warps * 32, {Arg(0), Arg(3), Arg(4), Arg(5)})
        .Shared((c.tile + c.warps * c.warp_places) * 4)
        .Launch(absl::StrCat("parts", n), (parts * c.elements / 2 + 31) / 32, 32,
                {Arg(1), Arg(4), Arg(5), Arg(6)})
        .Launch(absl::StrCat("sums", n), (places * c.elements / (2 * UnrollOf(n)) + 32) / 32, 32,
                {Arg(1), Arg(2), Arg(3), Arg(4), Arg(6)});
    TestRun run(builder.Build());
    run.Write(0, keys);
    run.Write(1, values);
    run.Run();

    std::vector<int> expected;
    std::vector<int> spans;
    for (int b = 0; b < c.batches; ++b) {
      expected.resize(b * c.rows, -1);  // behind those that count is nothing
      for (int p = 0; p < c.places; ++p) {
        spans.push_back(static_cast<int>(expected.size()));
        for (int r = 0; r < c.rows; ++r) {
          if (keys[b * c.rows + r] == p) expected.push_back(r);
        }
        spans.push_back(static_cast<int>(expected.size()));
      }
    }
    CHECK(run.Read<int>(3) == spans);
    const std::vector<int> rows = run.Read<int>(4), whole = run.Read<int>(5);
    int wrong = 0;
    for (size_t at = 0; at < expected.size(); ++at)
      wrong += expected[at] >= 0 && rows[at] != expected[at];
    CHECK(wrong == 0);
    for (int part = 0; part < parts && c.part > 0; ++part) {
      int of = -1;
      for (int p = 0; p < places; ++p) {
        if (spans[2 * p] <= part * c.part && spans[2 * p + 1] >= (part + 1) * c.part) of = p;
      }
      wrong += whole[part] != of;
    }
    CHECK(wrong == 0);
    const std::vector<float> sums = run.Read<float>(2);
    for (int p = 0; p < places; ++p) {
      for (int e = 0; e < c.elements; ++e) {
        wrong += sums[p * c.elements + e] !=
                 SumOf(c, values, expected, p / c.places, spans[2 * p], spans[2 * p + 1], e);
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace warpsmith::kernels
