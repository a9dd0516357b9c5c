// Skeleton contract: products of matrices. worker/kernels/contract_plain.cuh runs them, or
// contract.cuh (tensor.cc).
#include "worker/codegen/skeleton/contract/contract.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/estimate.h"
#include "worker/codegen/skeleton/contract/glue.h"
#include "worker/codegen/skeleton/contract/sums.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Rows on either side from which on tiles have something to share; and where there are fewer, but
// more than one, what the other side and K have at least for it to be worth reading once.
constexpr int64_t kFewRows = 4, kReadOnce = 64;
// Of two products together: with no more rows each of them is better made by PRODUCT_FEW, or both
// by threads that have a row.
constexpr int64_t kFewOfPair = 16;
// K and sums of a product, many of which are a batch, from which on it is worth a tile.
constexpr int64_t kLeastDepth = 16, kLeastSums = 256;
constexpr int kWidestAccess = 16;  // bytes
// What is summed where tiles are finished takes as long as to read it, in fp32, at so many times
// the memory's rate: believed, of 5 us for 16.8 million elements of an H200 with the kernel behind
// it.
constexpr double kSummedFromMemory = 5;

const ContractForm& FormOf(const Analysis& group, const Domain& domain, bool unrounded = false,
                           OfB of_b = OfB::kRows) {
  const char* const what[] = {"", " windows", " direct", " shifts"};
  return group.Derived<ContractForm>(
      StrCat("contract", unrounded ? " unrounded" : "", what[static_cast<int>(of_b)]),
      std::function<ContractForm()>([&] { return FormContract(group, domain, unrounded, of_b); }));
}
// As a group's knobs want it.
ContractForms FormsOf(const Analysis& group, const Domain& domain, const v1::Group& knobs) {
  const bool unrounded = knobs.precision().unrounded();
  static const ContractForm* const none = [] {
    auto* const form = new ContractForm;
    form->status = absl::InvalidArgumentError(
        "windows that are read as they are have no totals in fp64; with contract.windows of 1 "
        "there are");
    return form;
  }();
  const bool wide = knobs.precision().accumulator() == v1::ACCUMULATOR_F64;
  return {FormOf(group, domain, unrounded), FormOf(group, domain, unrounded, OfB::kWindows),
          wide ? *none : FormOf(group, domain, unrounded, OfB::kDirect),
          FormOf(group, domain, unrounded, OfB::kShifts)};
}
const ContractForm& FormOf(const Analysis& group, const Domain& domain, const v1::Group& knobs) {
  return FormsOf(group, domain, knobs).Of(knobs.contract());
}

class Contract : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kContract; }
  const char* header(const v1::Group& resolved, const Target& target) const override {
    const v1::ProductMath math = resolved.contract().math();
    if (math == v1::PRODUCT_FEW) return "contract_few";
    if (math == v1::PRODUCT_PLAIN && resolved.contract().windows() == 2) return "contract_direct";
    return math != v1::PRODUCT_LIBRARY && OnTensorCores(math, target) ? "contract"
                                                                      : "contract_plain";
  }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    const auto& domain = ProductDomainOf(group);
    if (!domain.ok()) return domain.status();
    const ContractForm& form = FormOf(group, *domain);
    if (!form.status.ok()) return form.status;
    return &*domain;
  }

  double Suits(const Analysis& group, const Target&) const override {
    const ContractForm& form = FormOf(group, *ProductDomainOf(group));
    const int64_t few = std::min(form.m, form.n), many = std::max(form.m, form.n);
    if (form.pair) return few > kFewOfPair ? 0.95 : 0.05;
    // Threads of a tile would be many more than its sums, each of which one makes as quickly.
    if (form.k < kLeastDepth && form.m * form.n < kLeastSums) return 0.05;
    const bool once = few > 1 && many >= kReadOnce && form.k >= kReadOnce;
    return few >= kFewRows || once ? 0.95 : 0.05;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    // Choosing among hundreds of tiles takes longer than describing a state may.
    return group.Derived<absl::StatusOr<v1::Group>>(
        StrCat("contract of ", target.arch, " ", target.sm_count, " ",
               knobs.contract().SerializeAsString(), "/", knobs.precision().SerializeAsString()),
        std::function<absl::StatusOr<v1::Group>()>([&] {
          return ResolveContract(group, FormsOf(group, **domain, knobs), knobs, target);
        }));
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    const ContractForm& form = FormOf(group, *ProductDomainOf(group), resolved);
    Usage use = UseOfKernels(group, form, resolved, target);
    const double launches =
        use.launches - static_cast<double>(form.end_sums.size());  // of the product itself
    use.product_seconds = std::max(
        0.0, SecondsOf(form, resolved.contract(), target) - launches * target.launch_seconds);
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target& target) const override {
    return ContractLayouts(FormsOf(group, *ProductDomainOf(group), resolved), resolved, target);
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    const Domain& domain = *ProductDomainOf(group);
    const ContractForm& form = FormOf(group, domain, resolved);
    const v1::ContractKnobs& contract = resolved.contract();
    if (contract.math() != v1::PRODUCT_PLAIN) {
      const auto emit = contract.math() == v1::PRODUCT_FEW       ? EmitFew
                        : contract.math() == v1::PRODUCT_LIBRARY ? EmitLibrary
                                                                 : EmitTensor;
      return emit(group, domain, form, resolved, target, writer);
    }
    if (IsDirect(form)) return EmitDirect(group, domain, form, resolved, writer);
    absl::Status written = WriteContractGlue(group, domain, form, resolved, writer);
    if (!written.ok()) return written;
    const int split = contract.split();
    const std::string total = TotalOf(form, resolved);
    std::vector<KernelArgument> extra;
    int partial = -1;
    if (split > 1) {
      partial = writer.Workspace("_partial", PartialBytes(form, resolved));
      extra = {{StrCat(total, "* partial"), partial}};
    }
    const LeftSums left(form, contract, target, writer);
    for (const KernelArgument& argument : left.arguments()) extra.push_back(argument);
    const std::string config = PlainConfigOf(form, contract, total);
    auto launch = writer.Kernel(split > 1 ? "_partial" : "",
                                {kPlainThreads, 0, ContractBlocks(form, contract),
                                 ContractSharedBytes(form, contract, target)},
                                extra,
                                StrCat("ws::contract_plain<", writer.glue(), ", ", config, ">(g, ",
                                       split > 1 ? "partial" : "nullptr", left.text(), ")"));
    if (!launch.ok()) return launch.status();
    if (split == 1) return left.AddUp();
    const int64_t width = WidthsOf(group, domain, form, contract).finish;
    return writer
        .Kernel("_combine",
                {kPlainThreads, 0, CeilDiv(form.batch * form.m * form.n, kPlainThreads * width), 0},
                {{StrCat("const ", total, "* partial"), partial}},
                StrCat("ws::contract_combine<", writer.glue(), ", ", total, ">(g, ", split,
                       ", partial)"))
        .status();
  }

 private:
  static Usage UseOfKernels(const Analysis& group, const ContractForm& form,
                            const v1::Group& resolved, const Target& target) {
    const Domain& domain = *ProductDomainOf(group);
    const v1::ContractKnobs& contract = resolved.contract();
    Usage use;
    for (const EndSum& sum : form.end_sums) {
      ++use.launches;
      use.left_bytes += LeftBytes(form, contract, sum, target);
      use.summing_seconds += 4 * static_cast<double>(form.batch * form.m) *
                             static_cast<double>(form.n) /
                             (kSummedFromMemory * target.bytes_per_second);
    }
    use.shared_bytes = ContractSharedBytes(form, contract, target);
    use.blocks = ContractBlocks(form, contract);
    use.streams = 2;
    use.width = WidthsOf(group, domain, form, contract).a.width;
    use.products = form.products();
    use.scattered_bytes =
        form.scattered * static_cast<double>(form.batch * form.m) * static_cast<double>(form.n);
    if (contract.split() > 1 && !MeetsInCluster(contract, target)) {
      ++use.launches;
      use.workspace_bytes += PartialBytes(form, resolved);
    }
    if (contract.math() == v1::PRODUCT_LIBRARY) {
      AddLibraryUse(group, domain, form, contract, use);
      return use;
    }
    if (contract.math() == v1::PRODUCT_FEW) {
      const FewShape shape = FewShapeOf(form, contract);
      use.threads = kPlainThreads;
      use.registers = target.registers_per_sm / (shape.blocks_per_sm * kPlainThreads);
      use.blocks_per_sm = shape.blocks_per_sm;
      use.tensor_products = use.products * (shape.parts == 2 ? 3 : shape.parts);
      use.width = shape.many == 0 ? WidthsOf(group, domain, form, contract).a.width
                                  : WidthsOf(group, domain, form, contract).b.width;
      return use;
    }
    if (contract.math() != v1::PRODUCT_PLAIN) {
      AddTensorUse(form, contract, target, use);
      return use;
    }
    if (IsDirect(form)) {
      const DirectShape shape = DirectShapeOf(form, contract);
      use.threads = kDirectThreads;
      use.blocks_per_sm = shape.blocks_per_sm;
      use.registers = target.registers_per_sm / (shape.blocks_per_sm * kDirectThreads);
      use.operations = shape.brought * form.steps[1];
      return use;
    }
    use.threads = kPlainThreads;
    use.workspace_bytes += use.left_bytes;
    const int64_t sums = int64_t{contract.tile_m()} * contract.tile_n() / kPlainThreads;
    use.registers = kWorkRegisters + sums * (RunOf(form, contract) > 0 ? 2 : 1);
    // Operands are computed for each tile that they are read for.
    use.operations = static_cast<double>(form.batch) * static_cast<double>(form.k) *
                     (form.steps[0] * static_cast<double>(form.m) *
                          static_cast<double>(SidesOf(form, contract).tiles_across()) +
                      form.steps[1] * static_cast<double>(form.n) *
                          static_cast<double>(CeilDiv(form.m, contract.tile_m())));
    return use;
  }
  // The type of totals.
  static std::string TotalOf(const ContractForm& form, const v1::Group& resolved) {
    const bool wide = resolved.precision().accumulator() == v1::ACCUMULATOR_F64;
    return wide && graph::IsFloat(form.sums) ? "double" : ComputeType(form.sums);
  }
  static void AddTensorUse(const ContractForm& form, const v1::ContractKnobs& contract,
                           const Target& target, Usage& use) {
    const int64_t groups = GroupsOf(form, contract);
    const bool tensor = OnTensorCores(contract.math(), target);
    use.threads = static_cast<int>(tensor ? 128 * (groups + 1) : kPlainThreads);
    use.registers = target.registers_per_sm / use.threads / contract.blocks_per_sm();
    use.blocks_per_sm = tensor ? contract.blocks_per_sm() : 0;
    // Of two parts three products of four are taken.
    const double each = PartsOf(contract.math()) == 2 ? 3 : BytesOf(contract.math()) / 2.0;
    if (tensor) use.tensor_products = use.products * each;
    use.launches += AddPacking(form, contract, use);
    if (ScalesRows(contract.math())) {
      ++use.launches;         // for rows that are too wide
      use.recomputes = true;  // which that one writes
    }
    use.workspace_bytes += use.left_bytes;
  }
  static void AddLibraryUse(const Analysis& group, const Domain& domain, const ContractForm& form,
                            const v1::ContractKnobs& contract, Usage& use) {
    use.threads = kPlainThreads;
    if (form.halves()) use.tensor_products = use.products;
    use.workspace_bytes = kLibraryBytes;
    if (!RootMatrixOf(group, domain, form)) {
      ++use.launches;
      use.left_bytes += 4 * form.batch * form.m * form.n;
    }
    use.launches += AddPacking(form, contract, use);
    use.workspace_bytes += use.left_bytes;
  }
  // Operands that are written out first; whether there are any.
  static bool AddPacking(const ContractForm& form, const v1::ContractKnobs& contract, Usage& use) {
    bool packs = false;
    for (int operand : {0, 1}) {
      if (!IsPacked(form, operand, contract.math()) || form.constant[operand]) continue;
      packs = true;
      use.left_bytes += PackedBytes(form, operand, contract.math());
    }
    return packs;
  }
  static int64_t PartialBytes(const ContractForm& form, const v1::Group& resolved) {
    const int64_t bytes = TotalOf(form, resolved) == "double" ? 8 : graph::SizeOf(form.sums);
    return resolved.contract().split() * form.batch * form.m * form.n * bytes;
  }
};

}  // namespace

const ContractWidths& WidthsOf(const Analysis& group, const Domain& domain,
                               const ContractForm& form, const v1::ContractKnobs& knobs) {
  const bool is_few = knobs.math() == v1::PRODUCT_FEW;
  int columns = is_few ? kMostTogether : std::min(kMostTogether, knobs.tile_n() / 16 / form.of());
  while (columns > 1 && !IsPowerOfTwo(columns)) --columns;
  const int step = is_few ? knobs.run() : 0;
  const bool along_k = knobs.math() == v1::PRODUCT_FP8;
  // Bytes of an element as operands are written out.
  const bool halves = knobs.math() == v1::PRODUCT_TENSOR || knobs.math() == v1::PRODUCT_LIBRARY;
  const int written = halves ? BytesOf(knobs.math()) : 0;
  return group.Derived<ContractWidths>(
      StrCat("contract ", knobs.vector_bytes(), " ", columns, " ", step, along_k ? " k" : "",
             form.unrounded ? " unrounded" : "", halves ? " halves" : "",
             IsDirect(form)   ? " direct"
             : IsShifts(form) ? " shifts"
             : form.windows   ? " windows"
                              : ""),
      std::function<ContractWidths()>([&] {
        // Neighbours that are written out by more than one access leave gaps in what each touches.
        const auto reading = [&](int operand) {
          const bool packed = written > 0 && IsPacked(form, operand, knobs.math());
          int bytes = knobs.vector_bytes();
          Reading reading = ReadingOf(group, domain, form, operand, bytes, along_k);
          while (packed && reading.width * written > kWidestAccess && bytes > 1) {
            bytes /= 2;
            reading = ReadingOf(group, domain, form, operand, bytes, along_k);
          }
          return reading;
        };
        ContractWidths widths;
        widths.a = form.windows ? Reading() : reading(0);  // as ws::pack_weights takes it
        widths.b = reading(1);
        if (IsDirect(form)) columns = std::min(columns, DirectShapeOf(form, knobs).places);
        widths.finish = FinishWidth(group, domain, form, columns, /*apart=*/true);
        // Those of a line of places.
        while ((IsDirect(form) || IsShifts(form)) &&
               form.windows->axes.back().places % widths.finish != 0)
          widths.finish /= 2;
        if (is_few) {
          // A thread has so many rows of `many`, and a quarter of a step.
          const FewShape shape = FewShapeOf(form, knobs);
          Reading& many = shape.many == 0 ? widths.a : widths.b;
          for (int bytes = knobs.vector_bytes() / 2;
               many.width > (many.along_rows ? 2 * shape.blocks : step / 4) && bytes > 0;
               bytes /= 2)
            many = ReadingOf(group, domain, form, shape.many, bytes);
        }
        return widths;
      }));
}

std::string PlainConfigOf(const ContractForm& form, const v1::ContractKnobs& knobs,
                          const std::string& total) {
  return StrCat("ws::PlainConfig<", knobs.tile_m(), ", ", knobs.tile_n(), ", ",
                PlainStepOf(form, knobs), ", ", RunOf(form, knobs), ", ", knobs.split(), ", ",
                knobs.raster(), ", ", total, ScalesRuns(form, knobs.math()) ? ", true>" : ">");
}

Style StyleOf(const v1::Group& resolved) {
  Style style;
  style.fast_math = resolved.precision().fast_math();
  style.separate = resolved.precision().separate();
  style.unrounded = resolved.precision().unrounded();
  style.accumulator = resolved.precision().accumulator();
  return style;
}

const Skeleton* ContractSkeleton() {
  static const Contract skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
