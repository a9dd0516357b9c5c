#include "worker/codegen/skeleton/rows/rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kCombineThreads = 256;
// Of vectors beside totals, of which each lane has its own (measured on an H200: gradients of a
// layer norm of rows of 2,048 fp32 in 131 us, in 140 with 16; of an RMS norm of 8,192 bf16 133 and
// 172).
constexpr int kBytesBesideTotals = 8;
// Bytes that a thread reads of all streams for a vector of narrow elements. Of more the lanes, each
// of them widened, leave half of the threads (a gated norm of three streams on an H200: 130 us,
// 190).
constexpr int64_t kMostOfVectors = 32;
constexpr int kFewElements = 4;  // of a vector
// Of the kernel that puts totals together: bytes of neighbouring places of a block, threads of a
// place.
constexpr int kMostTotalRun = 128, kLeastTotalRun = 32, kMostTotalLines = 32;
// What a line adds up at least.
constexpr int64_t kLeastOfLine = 4;

const char* Bool(bool b) { return b ? "true" : "false"; }

// How far apart in memory a row's first two elements are, in elements; 1 where memory says.
int64_t StrideAlong(const Index& index, const Variable& variable) {
  std::vector<Index> numbers(kMaxVariables, Index(0));
  const Index first = Substitute(index, numbers);
  numbers[variable.id] = Index(1);
  const Index second = Substitute(index, numbers);
  return first.is_constant() && second.is_constant()
             ? std::abs(second.constant() - first.constant())
             : 1;
}

// Bytes of whole sectors beyond those of the elements, where a row's neighbours lie apart; rows
// that a warp has at once may lie beside each other there.
double ScatteredBytes(const Analysis& group, const Domain& domain, const RowsForm& form,
                      int threads_per_row) {
  const graph::Graph& graph = group.graph();
  const Variable& along = form.narrow.frame.k;
  const auto at_once = static_cast<double>(std::max(1, 32 / threads_per_row));
  const double points = static_cast<double>(domain.kept() * domain.reduced());
  double bytes = 0;
  const auto add = [&](int tensor, const Index& index) {
    const auto size = static_cast<double>(graph::SizeOf(graph.tensors[tensor].type));
    const int64_t stride = StrideAlong(index, along);
    if (stride < 2) return;
    const double beside = std::min(at_once, kSectorBytes / size);
    const double touched = std::min<double>(kSectorBytes, size * static_cast<double>(stride));
    bytes += std::min(points, static_cast<double>(graph.tensors[tensor].elements())) *
             std::max(0.0, touched / beside - size);
  };
  for (ValuePtr stream : form.single) {  // which may choose among several
    if (stream == nullptr) continue;
    for (ValuePtr load : form.narrow.values->Closure({stream})) {
      if (load->kind == Value::Kind::kLoad) add(load->tensor, load->index);
    }
  }
  for (const Kernel::Root& root : form.narrow.roots) {
    if (root.level == Level::kPoints) add(root.tensor, root.address);
  }
  return bytes;
}

class Rows : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kRows; }
  const char* header(const v1::Group&, const Target&) const override { return "rows"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (!group.stages().ok()) return group.stages().status();
    return &*group.stages();
  }

  double Suits(const Analysis& group, const Target&) const override {
    return WalkOf(*group.stages()) == Walk::kAlong ? 0.6 : 0.2;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = DomainOf(group, knobs.rows());
    if (!domain.ok()) return domain.status();
    v1::Group wide = knobs;
    if (wide.rows().vector_bytes() == 0)
      wide.mutable_rows()->set_vector_bytes((*domain)->totals.empty() ? 16 : kBytesBesideTotals);
    const RowsForm* form = &FormOf(group, **domain, wide);
    if (form->status.ok() && knobs.rows().vector_bytes() == 0 && form->passes() > 1 &&
        form->width > kFewElements && form->stream_bytes * form->width > kMostOfVectors) {
      wide.mutable_rows()->set_vector_bytes(wide.rows().vector_bytes() / 2);
      form = &FormOf(group, **domain, wide);
    }
    if (!form->status.ok()) return form->status;
    auto resolved = ResolveRows(group, **domain, *form, wide, target);
    if (!resolved.ok()) return resolved;
    // With the accumulators that were chosen.
    const RowsForm& chosen = FormOf(group, **domain, *resolved);
    if (!chosen.status.ok()) return chosen.status;
    if (chosen.total_bytes == form->total_bytes) return resolved;
    return ResolveRows(group, **domain, chosen, *resolved, target);
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    const v1::RowsKnobs& rows = resolved.rows();
    auto domain = DomainOf(group, rows);
    if (!domain.ok()) return domain.status();
    const RowsForm& form = FormOf(group, **domain, resolved);
    if (!form.status.ok()) return form.status;
    Usage use;
    use.threads = rows.block_threads();
    use.shared_bytes = RowsSharedBytes(rows, form);
    use.registers = static_cast<int>(form.Registers(rows));
    use.blocks_per_sm = rows.blocks_per_sm();
    use.blocks = GridOf(**domain, form, resolved, target);
    use.width = form.width;
    use.streams = static_cast<int>(form.streams.size());
    use.stream_bytes = form.stream_bytes;
    use.scattered_bytes = ScatteredBytes(group, **domain, form, rows.threads_per_row());
    use.aligned = !form.ragged && form.width * 4 >= 16;
    use.passes = form.passes();
    // Threads beside the last row repeat it.
    use.reads_first = form.writes_at_once && (*domain)->stages == 1 && form.total_bytes == 0 &&
                      rows.threads_per_row() == rows.block_threads();
    const double kept = static_cast<double>(rows.register_vectors() + rows.shared_vectors()) *
                        rows.threads_per_row() * rows.blocks_per_row() * form.width;
    use.kept = std::min(1.0, kept / static_cast<double>(form.row_elements));
    if (rows.meeting() == v1::MEETING_SECOND_PASS) {
      use.launches = 2;
      use.workspace_bytes = (*domain)->kept() * rows.blocks_per_row() * form.acc_bytes[0];
    } else if (rows.meeting() == v1::MEETING_COUNTER) {
      use.workspace_bytes = use.blocks * kExchangeBytes;
    }
    if (form.total_bytes > 0) {
      const int64_t groups = use.blocks / rows.blocks_per_row();
      const int64_t in_block = rows.blocks_per_row() > 1 ? 1 : use.threads / rows.threads_per_row();
      const int64_t waves =
          CeilDiv(use.blocks, std::min(use.blocks, int64_t{use.blocks_per_sm} * target.sm_count));
      use.launches = 2;
      use.left_bytes = groups * form.row_elements * form.total_bytes;
      use.workspace_bytes += use.left_bytes;
      // To begin and to end takes about as long as another.
      use.rounds =
          waves * (CeilDiv((*domain)->kept(), groups * in_block * rows.rows_at_once()) + 1);
    }
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target& target) const override {
    auto domain = DomainOf(group, resolved.rows());
    if (!domain.ok()) return {};
    const RowsForm& form = FormOf(group, **domain, resolved);
    return form.status.ok() ? RowsLayouts(**domain, form, resolved, target) : std::vector<Layout>();
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    const v1::RowsKnobs& rows = resolved.rows();
    auto domain = DomainOf(group, rows);
    if (!domain.ok()) return domain.status();
    const RowsForm& form = FormOf(group, **domain, resolved);
    if (!form.status.ok()) return form.status;
    const int64_t groups = GridOf(**domain, form, resolved, target) / rows.blocks_per_row();
    const bool cached = KeepsInCache(form, rows, groups, target);
    if (absl::Status s = WriteRows(group, **domain, resolved, form, cached, writer); !s.ok())
      return s;
    return rows.meeting() == v1::MEETING_SECOND_PASS
               ? EmitTwoKernels(**domain, rows, form, writer)
               : EmitOneKernel(**domain, resolved, form, target, writer);
  }

 private:
  // What a block of a row with several exchanges with the others (RowsConfig::kExchangeBytes /
  // blocks).
  static constexpr int64_t kExchangeBytes = 2 * (kMaxAccBytes / 4) * 8;

  static absl::StatusOr<const Domain*> DomainOf(const Analysis& group, const v1::RowsKnobs& rows) {
    const auto& domain = rows.online() ? group.online() : group.stages();
    if (!domain.ok()) return domain.status();
    return &*domain;
  }

  static const RowsForm& FormOf(const Analysis& group, const Domain& domain,
                                const v1::Group& knobs) {
    const int bytes = knobs.rows().vector_bytes();
    const v1::Accumulator accumulator = knobs.precision().accumulator();
    // Compensated sums have no mean until the end.
    const bool one_meeting =
        !knobs.rows().meet_twice() && accumulator != v1::ACCUMULATOR_COMPENSATED;
    const v1::Accumulator totals = TotalAccumulator(knobs);
    return group.Derived<RowsForm>(
        StrCat("rows ", bytes, " ", accumulator, " ", totals,
               knobs.rows().online() ? " online" : "", one_meeting ? " joined" : ""),
        std::function<RowsForm()>(
            [&] { return FormRows(group, domain, bytes, accumulator, totals, one_meeting); }));
  }

  static int64_t GridOf(const Domain& domain, const RowsForm& form, const v1::Group& resolved,
                        const Target& target) {
    const v1::RowsKnobs& rows = resolved.rows();
    if (form.total_bytes > 0) {
      return TotalGroups(domain, form, resolved, target) * domain.segment_count() *
             rows.blocks_per_row();
    }
    const int64_t blocks = rows.blocks_per_row(), resident = rows.blocks_per_sm();
    const int64_t together = CeilDiv(domain.kept(), rows.rows_at_once());
    const int64_t jobs =
        blocks > 1 ? together : CeilDiv(together, rows.block_threads() / rows.threads_per_row());
    if (resident == 0) return jobs * blocks;
    return std::min(jobs, std::max<int64_t>(1, resident * target.sm_count / blocks)) * blocks;
  }

  static std::string ConfigOf(const v1::RowsKnobs& rows, const RowsForm& form,
                              bool cached = false) {
    const bool several = rows.blocks_per_row() > 1;
    const char* meeting = several && rows.meeting() == v1::MEETING_COUNTER   ? "ws::kCounter"
                          : several && rows.meeting() == v1::MEETING_CLUSTER ? "ws::kCluster"
                                                                             : "ws::kAlone";
    const int ahead = form.Ahead(rows);
    return StrCat("ws::RowsConfig<", form.width, ", ", rows.block_threads(), ", ",
                  rows.threads_per_row(), ", ", rows.blocks_per_row(), ", ", meeting, ", ",
                  ahead > 0 ? 0 : rows.register_vectors(), ", ",
                  ahead > 0 ? form.Each(rows) : rows.shared_vectors(), ", ", rows.unroll(), ", ",
                  Bool(rows.blocks_per_sm() > 0), ", ", Bool(rows.results() == v1::RESULTS_CARRIED),
                  ", ", ahead, ", ", form.Common(rows), ", ", Bool(cached), ">");
  }

  static absl::Status EmitTwoKernels(const Domain& domain, const v1::RowsKnobs& rows,
                                     const RowsForm& form, KernelWriter& writer) {
    const int blocks = rows.blocks_per_row();
    const int partial = writer.Workspace("_partial", domain.kept() * blocks * form.acc_bytes[0]);
    const std::string type = form.joined.empty() ? StrCat(writer.glue(), "::Acc<0>")
                                                 : StrCat(writer.glue(), "::Joined<0>");
    auto first = writer.Kernel(
        "_partial", {rows.block_threads(), 0, domain.kept() * blocks, RowsSharedBytes(rows, form)},
        {{StrCat(type, "* partial"), partial}},
        StrCat("ws::rows_partial<", writer.glue(), ", ", ConfigOf(rows, form), ">(g, ",
               form.row_elements, ", partial)"));
    if (!first.ok()) return first.status();
    v1::RowsKnobs ends;
    ends.set_block_threads(32);
    while (ends.block_threads() < kCombineThreads && ends.block_threads() < blocks)
      ends.set_block_threads(ends.block_threads() * 2);
    return writer
        .Kernel("_combine", {ends.block_threads(), 0, domain.kept(), RowsSharedBytes(ends, form)},
                {{StrCat("const ", type, "* partial"), partial}},
                StrCat("ws::rows_combine<", writer.glue(), ", ", ends.block_threads(), ">(g, ",
                       blocks, ", partial)"))
        .status();
  }

  // Puts together what `groups` groups of blocks left of each segment's totals.
  static absl::Status EmitTotals(const Domain& domain, const RowsForm& form, int64_t groups,
                                 const Target& target, int partial, KernelWriter& writer) {
    const int64_t segments = domain.segment_count();
    int lines = 1;
    while (lines < kMostTotalLines && lines * 2 * kLeastOfLine <= groups) lines *= 2;
    int places = 1;
    while (places * 2 * form.total_bytes <= kMostTotalRun) places *= 2;
    while (places > 1 && places * form.total_bytes > kLeastTotalRun &&
           segments * form.row_elements / places < 2 * target.sm_count)
      places /= 2;
    const int threads = std::max(32, places * lines);
    lines = threads / places;
    return writer
        .Kernel(
            "_totals",
            {threads, 0, segments * CeilDiv(form.row_elements, places),
             int64_t{threads} * form.total_bytes},
            {{StrCat("const ", writer.glue(), "::Total* partial"), partial}},
            StrCat("ws::rows_total<", writer.glue(), ", ", threads, ", ", lines, ">(g, ",
                   domain.kept() / segments, ", ", groups, ", ", form.row_elements, ", partial)"))
        .status();
  }

  static absl::Status EmitOneKernel(const Domain& domain, const v1::Group& resolved,
                                    const RowsForm& form, const Target& target,
                                    KernelWriter& writer) {
    const v1::RowsKnobs& rows = resolved.rows();
    const int64_t grid = GridOf(domain, form, resolved, target);
    const bool counter = rows.blocks_per_row() > 1 && rows.meeting() == v1::MEETING_COUNTER;
    std::vector<KernelArgument> extra;
    if (counter) {
      // Zeros, by which blocks tell this run's partial results from none.
      const int exchange = writer.Workspace("_exchange", grid * kExchangeBytes);
      writer.Zero(exchange, grid * kExchangeBytes);
      extra = {{"void* exchange", exchange}};
    }
    const int64_t segments = domain.segment_count(), groups = grid / rows.blocks_per_row();
    const bool cached = KeepsInCache(form, rows, groups, target);
    int partial = -1;
    std::string totals;
    if (form.total_bytes > 0) {
      partial = writer.Workspace("_partial", groups * form.row_elements * form.total_bytes);
      extra.push_back({StrCat(writer.glue(), "::Total* partial"), partial});
      totals = StrCat(", ", segments, ", partial");
    }
    const int together = rows.rows_at_once();
    const bool shares = form.Shares(rows);
    const std::string glue = !shares ? writer.glue()
                                     : StrCat("ws::RowsAtOnce<", writer.glue(), ", ", together,
                                              ", ", domain.kept(), ">");
    auto launch = writer.Kernel(
        "",
        {rows.block_threads(), BlocksToFit(domain, form, rows, target), grid,
         RowsSharedBytes(rows, form)},
        extra,
        StrCat("ws::rows<", glue, ", ", ConfigOf(rows, form, cached), ">(", shares ? "{g}" : "g",
               ", ", CeilDiv(domain.kept() / segments, together), ", ", form.row_elements, ", ",
               counter ? "exchange" : "nullptr", totals, ")"));
    if (!launch.ok()) return launch.status();
    if (counter) {
      (*launch)->set_cooperative(true);
      (*launch)->set_programmatic(false);
    }
    if (rows.blocks_per_row() > 1 && rows.meeting() == v1::MEETING_CLUSTER) {
      for (int n : {rows.blocks_per_row(), 1, 1}) (*launch)->add_cluster(n);
    }
    if (partial >= 0) return EmitTotals(domain, form, groups / segments, target, partial, writer);
    return absl::OkStatus();
  }
};

}  // namespace

const Skeleton* RowsSkeleton() {
  static const Rows skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
