#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "worker/kernels/kernel_testing.h"
#include "worker/kernels/shared_banks.h"
#include "worker/kernels/tile_rule.h"
#include "worker/kernels/tile_sample.h"
#include "worker/kernels/tile_sides.h"
#include "worker/kernels/tile_traffic.h"

namespace warpsmith::kernels {
namespace {

int64_t Product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

// y = x.permute(axes) of a dense x: output axis d is input axis axes[d].
TileInput Permuted(const std::vector<int64_t>& output, const std::vector<int>& axes, int bytes) {
  std::vector<int64_t> input(output.size()), strides(output.size(), 1);
  for (size_t d = 0; d < axes.size(); ++d) input[axes[d]] = output[d];
  TileInput result;
  result.bytes = bytes;
  for (int axis : axes) {
    result.strides.push_back(Product({input.begin() + axis + 1, input.end()}));
  }
  return result;
}

struct Case {
  std::string what;
  TileProblem problem;
  TileKnobs knobs;
};

TileKnobs Small(int threads, int line_bytes, int box_bytes) {
  TileKnobs knobs;
  knobs.threads = threads;
  knobs.line_bytes = line_bytes;
  knobs.box_bytes = box_bytes;
  return knobs;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& what, std::vector<int64_t> extents,
                       std::vector<TileInput> inputs, TileKnobs knobs) {
    const int bytes = inputs[0].bytes;
    cases.push_back({what, {std::move(extents), std::move(inputs), bytes}, knobs});
  };
  add("matrix", {64, 96}, {Permuted({64, 96}, {1, 0}, 4)}, Small(64, 128, 4096));
  add("odd matrix", {67, 45}, {Permuted({67, 45}, {1, 0}, 4)}, Small(64, 64, 4096));
  add("bytes", {128, 96}, {Permuted({128, 96}, {1, 0}, 1)}, Small(64, 64, 4096));
  add("odd bytes in several boxes", {261, 199}, {Permuted({261, 199}, {1, 0}, 1)},
      Small(64, 64, 4096));
  add("odd halves in several boxes", {131, 99}, {Permuted({131, 99}, {1, 0}, 2)},
      Small(64, 64, 2048));
  add("odd lines of two axes", {9, 5, 77}, {Permuted({9, 5, 77}, {2, 0, 1}, 1)},
      Small(32, 64, 2048));
  add("odd words", {131, 99}, {Permuted({131, 99}, {1, 0}, 4)}, Small(64, 128, 8192));
  add("odd doubles", {131, 99}, {Permuted({131, 99}, {1, 0}, 8)}, Small(64, 256, 8192));
  add("odd lines of two axes, words", {9, 5, 77}, {Permuted({9, 5, 77}, {2, 0, 1}, 4)},
      Small(32, 256, 8192));
  add("odd bytes", {61, 99}, {Permuted({61, 99}, {1, 0}, 1)}, Small(32, 64, 4096));
  add("halves with a rest", {80, 72}, {Permuted({80, 72}, {1, 0}, 2)}, Small(64, 64, 2048));
  add("innermost 2 goes out", {2, 5, 60}, {Permuted({2, 5, 60}, {2, 0, 1}, 4)},
      Small(32, 64, 1024));
  add("innermost 3 stays", {7, 24, 3}, {Permuted({7, 24, 3}, {1, 0, 2}, 2)}, Small(32, 64, 1024));
  add("innermost 3 stays, doubles", {7, 24, 3}, {Permuted({7, 24, 3}, {1, 0, 2}, 8)},
      Small(32, 64, 2048));
  add("all of 2", {2, 2, 2, 2, 2, 2}, {Permuted({2, 2, 2, 2, 2, 2}, {5, 3, 1, 0, 2, 4}, 1)},
      Small(32, 64, 2048));
  {
    TileInput flipped = Permuted({30, 40}, {1, 0}, 4);
    flipped.offset = 29;
    flipped.strides[0] = -1;
    add("flipped", {30, 40}, {flipped}, Small(32, 64, 2048));
    TileInput slice = Permuted({32, 64}, {1, 0}, 2);  // columns 8.. of a wider input
    slice.strides = {1, 48};
    slice.offset = 8;
    add("a slice", {32, 64}, {slice}, Small(32, 64, 2048));
    TileInput repeated = Permuted({32, 64}, {1, 0}, 4);
    repeated.strides = {1, 0};
    add("a column for all", {32, 64}, {repeated, Permuted({32, 64}, {1, 0}, 4)},
        Small(32, 64, 4096));
  }
  add("three orders", {12, 20, 28},
      {Permuted({12, 20, 28}, {2, 1, 0}, 4), Permuted({12, 20, 28}, {1, 2, 0}, 4)},
      Small(64, 64, 16384));
  add("bytes of an odd line, in lines of an even one", {264, 199},
      {Permuted({264, 199}, {1, 0}, 1)}, Small(64, 64, 8192));
  add("bytes whose boxes overlap by words", {150, 1023}, {Permuted({150, 1023}, {1, 0}, 1)},
      Small(64, 128, 8192));
  add("bytes that end in a word of two boxes", {70, 257}, {Permuted({70, 257}, {1, 0}, 1)},
      Small(64, 128, 8192));
  add("planes of halves", {513, 25}, {Permuted({513, 25}, {1, 0}, 2)}, Small(64, 256, 8192));
  add("a run of odd bytes", {5, 7, 1001}, {Permuted({5, 7, 1001}, {1, 0, 2}, 1)},
      Small(64, 256, 2048));
  std::mt19937 random(20261121);
  for (int i = 0; i < 24; ++i) {
    const int rank = 2 + static_cast<int>(random() % 5);
    std::vector<int64_t> extents;
    std::vector<int> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    for (int d = 0; d < rank; ++d) {
      const int most = rank == 2 ? 150 : rank == 3 ? 30 : rank == 4 ? 12 : 7;
      int64_t n = 2 + static_cast<int64_t>(random() % most);
      if (random() % 2 == 0 && n > 4) n = n / 4 * 4;
      extents.push_back(n);
    }
    const int bytes = 1 << random() % 4;
    add(absl::StrCat("random ", i), extents, {Permuted(extents, axes, bytes)},
        Small(32 << random() % 3, 32 << random() % 3, 1 << (10 + random() % 3)));
  }
  return cases;
}

int64_t At(const TileInput& input, const std::vector<int64_t>& extents, int64_t i) {
  int64_t address = input.offset;
  for (int d = static_cast<int>(extents.size()) - 1; d >= 0; --d) {
    address += i % extents[d] * input.strides[d];
    i /= extents[d];
  }
  return address;
}

int64_t InputElements(const TileInput& input, const std::vector<int64_t>& extents) {
  int64_t last = input.offset;
  for (size_t d = 0; d < extents.size(); ++d)
    last += std::max<int64_t>(0, input.strides[d]) * (extents[d] - 1);
  return last + 1;
}

// Each case as the rule has it, with lines copied as they lie in memory and without, and with boxes
// that share no sector.
std::vector<Case> Everything() {
  std::vector<Case> all;
  for (const Case& one : Cases()) {
    for (const auto lines : {TileKnobs::Lines::kAlways, TileKnobs::Lines::kNever}) {
      all.push_back(one);
      all.back().knobs.lines = lines;
      all.back().knobs.align_bytes = lines == TileKnobs::Lines::kAlways ? 32 : 4;
      all.back().knobs.walks = TileKnobs::Walks::kNever;
      if (one.problem.write_bytes >= 4) continue;
      all.push_back(all.back());
      all.back().knobs.walks = TileKnobs::Walks::kAlways;
    }
  }
  return all;
}

TEST_CASE("a tile writes every element where it belongs") {
  // One translation unit for all: compiling is what takes the time.
  const std::vector<Case> cases = Everything();
  std::string source;
  std::vector<TileProblem> problems;
  std::vector<TileChoice> choices;
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].what);
    problems.push_back(MergeAxes(cases[i].problem));
    const auto choice = ChooseTile(problems[i], cases[i].knobs);
    INFO(choice.status());
    REQUIRE(choice.ok());
    choices.push_back(*choice);
    source += TileCopySource(problems[i], *choice, absl::StrCat("k", i));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const TileProblem& problem = problems[i];
    const int bytes = problem.write_bytes;
    INFO(cases[i].what << ": " << TileArguments(choices[i]));
    const int64_t count = Product(problem.extents);
    device::PlanBuilder builder(source);
    std::vector<v1::Argument> arguments;
    for (size_t s = 0; s < problem.inputs.size(); ++s) {
      builder.Buffer(absl::StrCat("x", s),
                     InputElements(problem.inputs[s], problem.extents) * bytes);
      arguments.push_back(device::Arg(static_cast<int>(s)));
    }
    const int y = static_cast<int>(problem.inputs.size());
    builder.Buffer("y", count * bytes);
    arguments.push_back(device::Arg(y));
    TestRun run(builder
                    .Launch(absl::StrCat("k", i), static_cast<uint32_t>(choices[i].boxes),
                            static_cast<uint32_t>(choices[i].threads), arguments)
                    .Shared(static_cast<uint32_t>(choices[i].shared_bytes))
                    .Build());
    std::mt19937 random(7);
    std::vector<std::vector<uint8_t>> x;
    for (int s = 0; s < y; ++s) {
      x.emplace_back(InputElements(problem.inputs[s], problem.extents) * bytes);
      for (uint8_t& byte : x[s]) byte = static_cast<uint8_t>(random());
      run.Write(s, x[s]);
    }
    run.Run();
    const std::vector<uint8_t> got = run.Read<uint8_t>(y);
    for (int64_t e = 0; e < count; ++e) {
      uint64_t wanted = 0, value = 0;
      for (int s = 0; s < y; ++s) {
        uint64_t one = 0;
        memcpy(&one, x[s].data() + At(problem.inputs[s], problem.extents, e) * bytes, bytes);
        wanted += one;
      }
      memcpy(&value, got.data() + e * bytes, bytes);
      if (bytes < 8) wanted &= (uint64_t{1} << (8 * bytes)) - 1;
      INFO("element " << e);
      REQUIRE(value == wanted);
    }
  }
}

// Words are stored by vectors, which lines that are copied as they lie do not hinder.
TEST_CASE("a tile of words stores 8 bytes and more at once") {
  const std::vector<TileProblem> problems = {
      {{192, 4, 4, 144, 141}, {Permuted({192, 4, 4, 144, 141}, {0, 2, 4, 1, 3}, 4)}, 4},
      {{16, 10240, 256}, {Permuted({16, 10240, 256}, {0, 2, 1}, 4)}, 4},
      {{454, 6, 6, 4, 21, 85}, {Permuted({454, 6, 6, 4, 21, 85}, {0, 3, 4, 5, 2, 1}, 4)}, 4}};
  for (const TileProblem& problem : problems) {
    const auto choice = ChooseTile(MergeAxes(problem), Small(256, 256, 32 << 10));
    REQUIRE(choice.ok());
    INFO(TileArguments(*choice));
    CHECK(choice->write * problem.write_bytes >= 8);
  }
}

// What is chosen for a copy by default.
TileChoice ChoiceOf(const std::vector<int64_t>& extents, const std::vector<int>& order, int bytes) {
  const TileProblem problem{extents, {Permuted(extents, order, bytes)}, bytes};
  TileKnobs knobs;
  knobs.threads = 512;
  knobs.line_bytes = 256;
  knobs.box_bytes = bytes == 1 ? 64 << 10 : 32 << 10;
  const auto choice = ChooseTile(MergeAxes(problem), knobs);
  REQUIRE(choice.ok());
  INFO(TileArguments(*choice));
  return *choice;
}

// How many blocks after a box its neighbour on `axis` is.
int64_t BlocksApart(const TileChoice& choice, int axis) {
  int64_t apart = 1;
  for (int d : choice.raster) {
    if (d == axis) break;
    const bool cut = d == static_cast<int>(choice.tile.size()) - choice.run;
    apart *= CeilDiv(choice.extents[d], choice.tile[d] - (cut ? choice.overlap : 0));
  }
  return apart;
}

// What a box reads beyond its lines is wanted by its neighbour, while it is in a cache.
TEST_CASE("boxes that cut lines of both sides follow each other soon on both", "[kernels]") {
  struct Case {
    std::vector<int64_t> extents;  // of the output
    std::vector<int> order;
    int in, out;  // axes that lines go along, merged
  };
  for (const Case& c :
       {Case{{577, 232255}, {1, 0}, 0, 1}, Case{{4, 39, 2463, 343}, {3, 2, 1, 0}, 1, 3}}) {
    const TileChoice choice = ChoiceOf(c.extents, c.order, 4);
    INFO(TileArguments(choice));
    REQUIRE(choice.tile[c.in] < choice.extents[c.in]);
    CHECK(BlocksApart(choice, c.in) * choice.shared_bytes < 32 << 20);
    CHECK(BlocksApart(choice, c.out) * choice.shared_bytes < 2 << 20);
  }
  // Whole sectors are left in the output's order.
  const TileChoice aligned = ChoiceOf({4096, 8192}, {1, 0}, 4);
  CHECK(aligned.raster == std::vector<int>{1, 0});
}

TEST_CASE("boxes share steps of a line where that takes less than half-written sectors",
          "[kernels]") {
  struct Case {
    const char* what;
    std::vector<int64_t> extents, tile;
    int bytes;
    int64_t steps;
  };
  for (const Case& c : {Case{"rows of words", {8, 232255}, {8, 128}, 4, 8},
                        Case{"sectors are whole", {8, 4096}, {8, 128}, 4, 0},
                        Case{"a whole line", {8, 131}, {8, 131}, 4, 0},
                        Case{"too much of the box", {8, 1001}, {8, 32}, 1, 0},
                        Case{"long lines of bytes, a sixth of which would be read twice",
                             {32, 17, 302},
                             {32, 6, 302},
                             1,
                             0}}) {
    INFO(c.what);
    const Side output{DenseStrides(c.extents), OrderOf(DenseStrides(c.extents)), 0, c.bytes, true};
    CHECK(SharedSteps(c.extents, output, c.tile, kSectorBytes / c.bytes) == c.steps);
  }
}

TEST_CASE("shared memory serves lanes that want different words of a bank one after the other",
          "[kernels]") {
  struct Case {
    const char* what;
    int stride, lanes, bytes, passes;  // lane l begins at byte l * stride
  };
  for (const Case& c : {Case{"neighbours", 4, 32, 4, 1},
                        {"one word for all", 0, 32, 4, 1},
                        {"every other bank", 8, 32, 4, 2},
                        {"one bank", 128, 32, 4, 32},
                        {"a padded line", 132, 32, 4, 1},
                        {"few lanes in one bank", 128, 5, 4, 5},
                        {"bytes", 1, 32, 1, 1},
                        {"halves of one bank", 128, 32, 2, 32},
                        {"16 bytes, by quarters", 16, 32, 16, 4},
                        {"16 bytes in the same banks", 128, 32, 16, 32},
                        {"8 bytes, half a warp", 8, 16, 8, 1},
                        {"8 bytes, padded", 136, 32, 8, 2}}) {
    INFO(c.what);
    Lanes addresses{};
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = lane * c.stride;
    CHECK(BankPasses(addresses, c.lanes, c.bytes) == c.passes);
  }
}

TEST_CASE("passes are counted until they are enough", "[kernels]") {
  LaneSample sample(2, 1);
  for (int access = 0; access < 4; ++access) {
    std::array<BoxPlace, kLanes> at{};
    for (int lane = 0; lane < kLanes; ++lane) at[lane] = {lane, access};
    sample.Add(at, kLanes);
  }
  TileStreamChoice stream;
  stream.place = {32, 1};  // all lanes in one bank
  const int64_t all = sample.Passes(stream, 4, 1, 1, INT64_MAX);
  CHECK(all == 4 * kLanes);
  CHECK(sample.Passes(stream, 4, 1, 2, INT64_MAX) == 2 * kLanes);
  for (int64_t enough : {int64_t{1}, int64_t{33}, all}) {
    const int64_t some = sample.Passes(stream, 4, 1, 1, enough);
    CHECK((some >= enough && some <= all));
  }
  stream.place = {33, 1};
  CHECK(sample.Passes(stream, 4, 1, 1, all) == 4);
}

}  // namespace
}  // namespace warpsmith::kernels
