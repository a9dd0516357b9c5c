#include "worker/codegen/skeleton/topk/topk.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/ir/combine.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/skeleton/topk/form.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int64_t kMostEach = 32;    // elements of a thread, as the kernel has them
constexpr int64_t kDefaultEach = 4;  // that a round goes through quickly
constexpr int kDefaultThreads = 128;
// Simple operations of a round: of each element of a thread, and of each step in which threads of a
// row agree.
constexpr double kStepsOfElement = 3, kStepsOfMeeting = 8;
// What a step of that takes a round that waits for it.
constexpr double kMeetingSeconds = 4e-8;

const TopkForm& FormOf(const Analysis& group) {
  return *group.Derived<std::unique_ptr<TopkForm>>(
      "topk", std::function<std::unique_ptr<TopkForm>()>(
                  [&] { return std::make_unique<TopkForm>(FormTopk(group)); }));
}

int64_t EachOf(const TopkForm& form, const v1::TopkKnobs& knobs) {
  return CeilDiv(form.elements, int64_t{knobs.threads_per_row()});
}

int64_t BlocksOf(const TopkForm& form, const v1::TopkKnobs& knobs) {
  return CeilDiv(form.rows * knobs.threads_per_row(), int64_t{knobs.block_threads()});
}

// A key is compared as a float at the least.
int64_t RegistersOf(const TopkForm& form, const v1::TopkKnobs& knobs) {
  return kWorkRegisters + EachOf(form, knobs) * std::max<int64_t>(4, graph::SizeOf(form.type)) / 4;
}

int MeetingsOf(const v1::TopkKnobs& knobs) {
  int meetings = 0;
  while (1 << meetings < knobs.threads_per_row()) ++meetings;
  return meetings;
}

class Topk : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kTopk; }
  const char* header(const v1::Group&, const Target&) const override { return "topk"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    const TopkForm& form = FormOf(group);
    if (!form.status.ok()) return form.status;
    return &form.domain;
  }

  double Suits(const Analysis&, const Target&) const override { return 1; }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    const TopkForm& form = FormOf(group);
    if (!form.status.ok()) return form.status;
    v1::Group resolved = knobs;
    v1::TopkKnobs& topk = *resolved.mutable_topk();
    if (topk.threads_per_row() == 0) {
      const int64_t wanted = PowerOfTwoAtLeast(CeilDiv(form.elements, kDefaultEach));
      topk.set_threads_per_row(static_cast<int>(std::min<int64_t>(32, wanted)));
    }
    if (topk.block_threads() == 0) {
      topk.set_block_threads(kDefaultThreads);
      while (topk.block_threads() > 32 && BlocksOf(form, topk) < target.sm_count)
        topk.set_block_threads(topk.block_threads() / 2);
    }
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO)
      resolved.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
    if (EachOf(form, topk) > kMostEach) {
      return absl::InvalidArgumentError(StrCat("topk.threads_per_row is ", topk.threads_per_row(),
                                               " for rows of ", form.elements,
                                               " elements; a thread has at most ", kMostEach));
    }
    if (RegistersOf(form, topk) * topk.block_threads() > target.registers_per_sm) {
      return absl::InvalidArgumentError(
          StrCat("topk.block_threads is ", topk.block_threads(), " with ", RegistersOf(form, topk),
                 " registers each; a multiprocessor has ", target.registers_per_sm));
    }
    if (resolved.precision().accumulator() != v1::ACCUMULATOR_F32)
      return absl::InvalidArgumentError(
          "precision.accumulator: nothing is added up; it is ACCUMULATOR_F32");
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target&) const override {
    const TopkForm& form = FormOf(group);
    const v1::TopkKnobs& topk = resolved.topk();
    const auto each = static_cast<double>(EachOf(form, topk));
    Usage use;
    use.threads = topk.block_threads();
    use.registers = RegistersOf(form, topk);
    use.blocks = BlocksOf(form, topk);
    use.streams = 1;
    use.stream_bytes = graph::SizeOf(form.type);
    const double round = each * kStepsOfElement + MeetingsOf(topk) * kStepsOfMeeting;
    use.operations = static_cast<double>(form.rows) * topk.threads_per_row() *
                     (each * form.steps + static_cast<double>(form.places) * round);
    use.summing_seconds =
        static_cast<double>(form.places) * (1 + MeetingsOf(topk)) * kMeetingSeconds;
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target&) const override {
    const TopkForm& form = FormOf(group);
    std::vector<Layout> layouts;
    for (int lanes = 1; lanes <= 32; lanes *= 2) {
      for (int threads : {64, 128, 256}) {
        v1::TopkKnobs knobs = resolved.topk();
        knobs.set_threads_per_row(lanes);
        knobs.set_block_threads(threads);
        if (EachOf(form, knobs) > kMostEach || (lanes > 1 && lanes > form.elements)) continue;
        Layout layout;
        layout.owner = v1::OCCUPANCY;
        layout.kind = "layout";
        layout.name = StrCat(lanes, " threads a row, ", threads, " a block");
        layout.knobs = {{"threads_per_row", lanes}, {"block_threads", threads}};
        layout.prior = 0.03;
        layouts.push_back(layout);
      }
    }
    return layouts;
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target&,
                    KernelWriter& writer) const override {
    const TopkForm& form = FormOf(group);
    const v1::TopkKnobs& topk = resolved.topk();
    WriteGlue(group, form, resolved, writer);
    return writer
        .Kernel("", {topk.block_threads(), 0, BlocksOf(form, topk)}, {},
                StrCat("ws::topk<", writer.glue(), ", ws::TopkConfig<", form.elements, ", ",
                       form.places, ", ", topk.block_threads(), ", ", topk.threads_per_row(),
                       ">>(g, ", form.rows, ")"))
        .status();
  }

 private:
  static void WriteGlue(const Analysis& group, const TopkForm& form, const v1::Group& resolved,
                        KernelWriter& writer) {
    const Kernel& kernel = form.kernel;
    const Kernel::Root& root = kernel.roots[0];
    // What is compared is rounded as the graph has it: equal ones are in order.
    Style style;
    style.fast_math = resolved.precision().fast_math();
    style.separate = resolved.precision().separate();
    const GroupContext context = ContextOf(group, form.written, style, writer.glue());
    const std::vector<Parameter> parameters = ParametersOf(context, {&kernel});
    const std::string index_type =
        FitsInt(group.graph(), kernel) && form.rows <= kMaxIntPosition ? "int" : "long long";
    const Dialect dialect = MakeDialect(context, kernel, parameters, index_type);
    Text text;
    text.Open(StrCat("struct ", context.name, " {"));
    text.Line(StrCat("using Index = ", index_type, ";"));
    text.Line(StrCat("using Key = ", ComputeType(form.type), ";"));
    for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
    text.Line(StrCat("static WS_DEVICE bool before(Key a, Key b) { return ",
                     form.descending ? "b < a" : "a < b", "; }"));
    const Frame& frame = kernel.frame;
    Emitter key(dialect, BitOf(frame.row) | BitOf(frame.column));
    key.Expect({root.value});
    key.Line(StrCat("return ", key.Use(root.value), ";"));
    text.Open(StrCat("WS_DEVICE Key key(Index ", frame.row.name, ", Index ", frame.column.name,
                     ") const {"));
    text.Append(key.Finish());
    text.Close();
    Emitter put(dialect, BitOf(frame.row) | BitOf(form.place));
    put.Line(StrCat(put.Element(root.tensor, root.address), " = found;"));
    text.Open(StrCat("WS_DEVICE void put(Index ", frame.row.name, ", Index ", form.place.name,
                     ", int found) const {"));
    text.Append(put.Finish());
    text.Close();
    text.Close("};");
    writer.Struct(text.str(), parameters);
  }
};

}  // namespace

const Skeleton* TopkSkeleton() {
  static const Topk skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
