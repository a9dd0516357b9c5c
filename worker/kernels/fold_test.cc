#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "worker/kernels/fold_rule.h"
#include "worker/kernels/kernel_testing.h"

namespace warpsmith::kernels {
namespace {

struct Case {
  std::string what;
  FoldProblem problem;
  FoldKnobs knobs;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& what, const std::vector<int64_t>& extents,
                       const std::string& roles, int bytes, int threads, int split) {
    std::vector<bool> kept;
    for (char role : roles) kept.push_back(role == 'K');
    FoldKnobs knobs;
    knobs.threads = threads;
    knobs.split = split;
    cases.push_back({what, MergeAxes(DenseFold(extents, kept, bytes)), knobs});
  };
  add("rows", {13, 512}, "KS", 4, 64, 1);
  add("rows that are no whole vectors", {11, 301}, "KS", 4, 32, 1);
  add("short rows", {515, 3}, "KS", 4, 64, 1);
  add("rows of 2 bytes, 31 long", {77, 31}, "KS", 2, 32, 1);
  add("columns", {300, 64}, "SK", 4, 64, 3);
  add("two columns", {5000, 2}, "SK", 4, 64, 7);
  add("five columns", {999, 5}, "SK", 2, 64, 2);
  add("everything", {40000}, "S", 4, 64, 9);
  add("everything, bytes", {9, 17, 23}, "SSS", 1, 32, 2);
  add("nothing", {9, 17}, "KK", 4, 32, 1);
  add("K S K S", {4, 9, 5, 21}, "KSKS", 4, 32, 1);
  add("S K S K", {40, 9, 25, 3}, "SKSK", 4, 32, 4);
  add("variance over two of three", {30, 7, 50}, "SKS", 4, 64, 2);
  add("many small", {400, 3, 2, 2, 2}, "KSKSK", 4, 64, 1);
  {
    FoldProblem slice = DenseFold({20, 48}, {true, false}, 4);  // columns 4 to 36 of 48
    slice.axes[1].extent = 32;
    slice.offset = 4;
    cases.push_back({"a slice", slice, {}});
  }
  std::mt19937 random(20261121);
  for (int i = 0; i < 24; ++i) {
    const int rank = 1 + static_cast<int>(random() % 5);
    std::vector<int64_t> extents;
    std::string roles;
    for (int d = 0; d < rank; ++d) {
      extents.push_back(2 + static_cast<int64_t>(random() % (rank <= 2   ? 200
                                                             : rank == 3 ? 40
                                                                         : 9)));
      roles += random() % 2 == 0 ? 'K' : 'S';
    }
    add(absl::StrCat("random ", i), extents, roles, 1 << random() % 3, 32 << random() % 3,
        static_cast<int>(random() % 4));
  }
  return cases;
}

// Small whole numbers: sums are exact in fp32, whatever their order.
std::vector<uint8_t> Numbers(int64_t count, int bytes, std::vector<float>& values) {
  std::mt19937 random(5);
  std::vector<uint8_t> raw(count * bytes);
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(random() % 9);
    values.push_back(value);
    uint32_t bits = 0;
    memcpy(&bits, &value, 4);
    if (bytes == 4) memcpy(raw.data() + i * 4, &bits, 4);
    if (bytes == 2) memcpy(raw.data() + i * 2, reinterpret_cast<const char*>(&bits) + 2, 2);
    if (bytes == 1) raw[i] = static_cast<uint8_t>(value);
  }
  return raw;
}

TEST_CASE("a fold sums what belongs together, over any axes") {
  std::vector<Case> cases = Cases();
  // Each by vectors and through shared memory.
  for (size_t i = 0, n = cases.size(); i < n; ++i) {
    Case staged = cases[i];
    staged.what += ", staged";
    staged.knobs.staged = FoldKnobs::Staged::kAlways;
    cases[i].knobs.staged = FoldKnobs::Staged::kNever;
    cases.push_back(staged);
  }
  std::string source;
  std::vector<FoldChoice> choices;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto choice = ChooseFold(cases[i].problem, cases[i].knobs, 4);
    INFO(cases[i].what << choice.status());
    REQUIRE(choice.ok());
    choices.push_back(*choice);
    source += FoldSumSource(cases[i].problem, *choice, absl::StrCat("k", i));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const FoldProblem& problem = cases[i].problem;
    const FoldChoice& choice = choices[i];
    INFO(cases[i].what << ": " << FoldConfigText(choice));
    int64_t last = problem.offset;
    for (const FoldAxis& axis : problem.axes) last += (axis.extent - 1) * axis.stride;
    device::PlanBuilder builder(source);
    builder.Buffer("x", (last + 1) * problem.bytes)
        .Buffer("y", choice.outputs * 4)
        .Buffer("partial", std::max<int64_t>(4, choice.partial_bytes));
    const std::string name = absl::StrCat("k", i);
    const auto blocks = static_cast<uint32_t>(choice.jobs * choice.split);
    if (choice.split == 1) {
      builder.Launch(name, blocks, choice.threads, {device::Arg(0), device::Arg(1)})
          .Shared(choice.shared_bytes);
    } else {
      const std::vector<v1::Argument> arguments = {device::Arg(0), device::Arg(1), device::Arg(2)};
      builder.Launch(name, blocks, choice.threads, arguments)
          .Shared(choice.shared_bytes)
          .Launch(name + "_combine", static_cast<uint32_t>(choice.combine_blocks),
                  choice.combine_threads, arguments)
          .Shared(choice.combine_shared_bytes);
    }
    TestRun run(builder.Build());
    std::vector<float> values;
    run.Write(0, Numbers(last + 1, problem.bytes, values));
    std::vector<double> wanted(choice.outputs, 0);
    std::vector<int64_t> c(problem.axes.size(), 0);
    for (bool more = true; more;) {
      int64_t output = 0, address = problem.offset;
      for (size_t d = 0; d < c.size(); ++d) {
        if (problem.axes[d].kept) output = output * problem.axes[d].extent + c[d];
        address += c[d] * problem.axes[d].stride;
      }
      wanted[output] += values[address];
      more = false;
      for (int d = static_cast<int>(c.size()) - 1; d >= 0 && !more; --d) {
        more = ++c[d] < problem.axes[d].extent;
        if (!more) c[d] = 0;
      }
    }
    run.Run();
    const std::vector<float> got = run.Read<float>(1);
    for (int64_t o = 0; o < choice.outputs; ++o) {
      INFO("output " << o);
      REQUIRE(got[o] == static_cast<float>(wanted[o]));
    }
  }
}

TEST_CASE("a fold is staged where vectors would be narrow or sums short") {
  struct {
    const char* what;
    std::vector<int64_t> extents;
    std::vector<bool> kept;
    int bytes;
    bool staged;
  } const cases[] = {
      {"aligned rows in turn", {40000, 4, 2048}, {false, true, false}, 4, false},
      {"rows that begin anywhere", {1851, 4, 72511}, {false, true, false}, 2, true},
      {"short rows", {40000000, 12}, {true, false}, 2, true},
      {"few sums of each of many", {900000, 5, 115}, {true, false, true}, 2, true},
      {"columns that begin anywhere", {20000, 24801}, {false, true}, 2, true},
      {"columns that pairs divide", {32568, 6518}, {false, true}, 4, true},
      {"outputs as many as elements", {3, 170000002}, {false, true}, 2, false},
  };
  for (const auto& one : cases) {
    const auto choice = ChooseFold(MergeAxes(DenseFold(one.extents, one.kept, one.bytes)), {}, 132);
    INFO(one.what);
    REQUIRE(choice.ok());
    INFO(FoldConfigText(*choice));
    CHECK((choice->staging.stages > 0) == one.staged);
    // Lanes go to threads that there are, and their elements to different banks.
    CHECK(choice->staging.along * choice->staging.across * choice->staging.slots <=
          choice->threads);
    CHECK(choice->staging.load < 1.2);
  }
}

// In one chain of fp32 additions 0.1 is off by 1e-4 of the sum and more.
TEST_CASE("long sums of a fold are cut into chains") {
  for (const auto form : {FoldKnobs::Staged::kNever, FoldKnobs::Staged::kAlways}) {
    const FoldProblem problem = DenseFold({1 << 16, 8}, {false, true}, 4);
    FoldKnobs knobs;
    knobs.threads = 32;
    knobs.split = 1;
    knobs.staged = form;
    const auto choice = ChooseFold(problem, knobs, 4);
    REQUIRE(choice.ok());
    INFO(FoldConfigText(*choice));
    device::PlanBuilder builder(FoldSumSource(problem, *choice, "k"));
    builder.Buffer("x", int64_t{4} * 8 << 16)
        .Buffer("y", 4 * 8)
        .Launch("k", static_cast<uint32_t>(choice->jobs), choice->threads,
                {device::Arg(0), device::Arg(1)})
        .Shared(choice->shared_bytes);
    TestRun run(builder.Build());
    run.Write(0, std::vector<float>(8 << 16, 0.1f));
    run.Run();
    const double wanted = double{0.1f} * (1 << 16);
    for (float got : run.Read<float>(1)) CHECK(std::abs(got - wanted) < 2e-6 * wanted);
  }
}

TEST_CASE("a fold fills the card where what is left is small") {
  struct {
    std::vector<int64_t> extents;
    std::vector<bool> kept;
  } const cases[] = {
      {{int64_t{1} << 28}, {false}},
      {{int64_t{1} << 26, 4}, {false, true}},
      {{3000, 89478}, {true, false}},
      {{2, 1 << 13, 2, 1 << 13}, {true, false, true, false}},
      // Narrow vectors leave registers to six blocks of a multiprocessor, wide ones to four.
      {{45902, 4, 1462}, {false, true, false}},
      {{12000, 5000, 8}, {false, false, true}}};
  for (const auto& one : cases) {
    const auto choice = ChooseFold(MergeAxes(DenseFold(one.extents, one.kept, 4)), {}, 132);
    REQUIRE(choice.ok());
    INFO(FoldConfigText(*choice));
    const int resident = choice->resident > 0 ? choice->resident : 8;
    const double waves = static_cast<double>(choice->jobs * choice->split) / (132 * resident);
    CHECK(waves / std::ceil(waves) >= 0.9);
    CHECK(choice->partial_bytes < 20 << 20);
    CHECK(choice->vector == (one.extents.back() % 4 == 0 ? 4 : choice->vector));
  }
}

}  // namespace
}  // namespace warpsmith::kernels
