// Skeleton scan.
#include "worker/codegen/skeleton/scan/scan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// An access of a scan has 16 bytes, or one word where that would be more lanes than this: halves go
// by twos, bytes by fours. Lanes are a chain in each thread that others wait for.
constexpr int kMostLanes = 4;

class Scan : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kScan; }
  const char* header(const v1::Group&, const Target&) const override { return "scan"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (!group.scan().ok()) return group.scan().status();
    return &*group.scan();
  }

  double Suits(const Analysis&, const Target&) const override { return 1; }  // nothing else does

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    if (!group.scan().ok()) return group.scan().status();
    v1::Group wide = knobs;
    const bool open = wide.scan().vector_bytes() == 0;
    if (open) wide.mutable_scan()->set_vector_bytes(16);
    if (wide.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
      wide.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
    }
    if (open && FormOf(group, wide).width > kMostLanes) wide.mutable_scan()->set_vector_bytes(4);
    const ScanForm& form = FormOf(group, wide);
    if (!form.status.ok()) return form.status;
    return ResolveScan(group, form, wide, target);
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    if (!group.scan().ok()) return group.scan().status();
    const ScanForm& form = FormOf(group, resolved);
    if (!form.status.ok()) return form.status;
    const v1::ScanKnobs& scan = resolved.scan();
    Usage use;
    use.threads = scan.block_threads();
    use.shared_bytes = ScanSharedBytes(scan, form);
    use.registers = kWorkRegisters + int64_t{scan.vectors()} * form.width * form.acc_bytes / 4;
    use.blocks_per_sm = scan.blocks_per_sm();
    use.blocks = GridOf(scan, form, target);
    use.workspace_bytes = ScanExchangeBytes(scan, form, use.blocks);
    use.streams = static_cast<int>(form.streams.size());
    use.stream_bytes = form.stream_bytes;
    use.width = form.width;
    use.aligned = form.width * form.stream_bytes >= 16;
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target& target) const override {
    if (!group.scan().ok()) return {};
    const ScanForm& form = FormOf(group, resolved);
    return form.status.ok() ? ScanLayouts(form, resolved, target) : std::vector<Layout>();
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    if (!group.scan().ok()) return group.scan().status();
    const Domain& domain = *group.scan();
    const ScanForm& form = FormOf(group, resolved);
    if (!form.status.ok()) return form.status;
    if (absl::Status s = WriteScan(group, domain, resolved, form, writer); !s.ok()) return s;
    const v1::ScanKnobs& scan = resolved.scan();
    const int64_t grid = GridOf(scan, form, target), bytes = ScanExchangeBytes(scan, form, grid);
    std::vector<KernelArgument> extra;
    if (bytes > 0) {
      // Zeros, by which blocks tell this run's words from none.
      const int exchange = writer.Workspace("_exchange", bytes);
      writer.Zero(exchange, bytes);
      extra = {{"void* exchange", exchange}};
    }
    const std::string common =
        StrCat(form.width, ", ", scan.block_threads(), ", ", scan.threads_per_row(), ", ",
               scan.blocks(), ", ", scan.vectors(), ", ", scan.chunks());
    const std::string call =
        form.sizes.rows() ? StrCat("ws::scan_rows<", writer.glue(), ", ws::ScanRowsConfig<", common,
                                   ">>(g, ", domain.kept(), ", ", domain.carried())
                          : StrCat("ws::scan_columns<", writer.glue(), ", ws::ScanColumnsConfig<",
                                   common, ", ", form.acc_bytes, ">>(g, ", form.sizes.outer, ", ",
                                   domain.carried(), ", ", form.sizes.columns);
    auto launch = writer.Kernel(
        "", {scan.block_threads(), scan.blocks_per_sm(), grid, ScanSharedBytes(scan, form)}, extra,
        StrCat(call, ", ", bytes > 0 ? "exchange" : "nullptr", ")"));
    if (!launch.ok()) return launch.status();
    if (bytes > 0) {
      (*launch)->set_cooperative(true);
      (*launch)->set_programmatic(false);
    }
    return absl::OkStatus();
  }

 private:
  static const ScanForm& FormOf(const Analysis& group, const v1::Group& knobs) {
    const int bytes = knobs.scan().vector_bytes();
    const v1::Accumulator accumulator = knobs.precision().accumulator();
    return group.Derived<ScanForm>(StrCat("scan ", bytes, " ", accumulator),
                                   std::function<ScanForm()>([&] {
                                     return FormScan(group, *group.scan(), bytes, accumulator);
                                   }));
  }

  static int64_t GridOf(const v1::ScanKnobs& scan, const ScanForm& form, const Target& target) {
    const int64_t groups = int64_t{scan.blocks_per_sm()} * target.sm_count / scan.blocks();
    return std::min(ScanSets(scan, form), std::max<int64_t>(1, groups)) * scan.blocks();
  }
};

}  // namespace

const Skeleton* ScanSkeleton() {
  static const Scan skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
