#include "worker/codegen/skeleton/contract/sums.h"

#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;
using graph::Node;

// The reduces, by what they write, that a tensor is made of through maps that are not in memory.
std::set<int> MadeOf(const Analysis& group, int tensor) {
  const graph::Graph& graph = group.graph();
  std::set<int> reduces, seen;
  std::vector<int> open = {tensor};
  while (!open.empty()) {
    const int t = open.back(), id = graph.tensors[t].node;
    open.pop_back();
    if (id < 0 || group.in_memory()(t) || !seen.insert(t).second) continue;
    if (!graph.nodes[id].map()) {
      reduces.insert(t);
      continue;
    }
    for (int load : graph::LoadedTensors(graph.nodes[id].value)) open.push_back(load);
  }
  return reduces;
}

// The load whose elements a sum of fp32 adds up; nullptr: it is none.
const graph::Expr* LoadOf(const Node& node) {
  if (!node.reduce || node.combiner != graph::Combiner::kSum || node.outputs.size() != 1 ||
      node.value->type != graph::DType::kF32)
    return nullptr;
  const graph::Expr* value = node.value.get();
  if (value->op == graph::Op::kCast && IsHalf(value->args[0]->type)) value = value->args[0].get();
  return value->op == graph::Op::kLoad ? value : nullptr;
}

bool IsSumOfProducts(const Node& node) {
  return node.reduce && node.combiner == graph::Combiner::kSum &&
         node.value->op == graph::Op::kMul && node.value->type == graph::DType::kF32;
}

EndSums Find(const Analysis& group) {
  const graph::Graph& graph = group.graph();
  EndSums all;
  for (int root : group.roots()) {
    const std::set<int> made_of = MadeOf(group, root);
    const int sum = made_of.size() == 1 ? *made_of.begin() : -1;
    const graph::Expr* load = sum < 0 ? nullptr : LoadOf(graph.nodes[graph.tensors[sum].node]);
    bool is = load != nullptr && (all.summed < 0 || all.summed == load->tensor) &&
              graph.tensors[root].elements() == graph.tensors[sum].elements();
    if (is) {
      const std::set<int> products = MadeOf(group, load->tensor);
      is = std::any_of(products.begin(), products.end(),
                       [&](int t) { return IsSumOfProducts(graph.nodes[graph.tensors[t].node]); });
    }
    if (!is) {
      all.core.push_back(root);
      continue;
    }
    all.summed = load->tensor;
    auto same = std::find_if(all.sums.begin(), all.sums.end(),
                             [&](const EndSum& one) { return one.sum == sum; });
    if (same == all.sums.end()) same = all.sums.insert(same, EndSum{sum, {}, false});
    same->roots.push_back(root);
  }
  if (all.summed < 0) return all;
  all.written = std::count(all.core.begin(), all.core.end(), all.summed) > 0;
  if (!all.written) all.core.push_back(all.summed);
  return all;
}

absl::Status No(absl::string_view why) { return absl::InvalidArgumentError(why); }

const RootPlace* PlaceOfSummed(const Domain& domain, int summed) {
  for (const RootPlace& root : domain.roots) {
    if (root.tensor == summed) return &root;
  }
  return nullptr;
}

// Axes of the domain of more than one element.
uint64_t MaskOf(const Domain& domain, const std::vector<int>& axes) {
  uint64_t mask = 0;
  for (int a : axes) {
    if (domain.axes[a].extent() > 1) mask |= BitOf(domain.axes[a].variable);
  }
  return mask;
}

// Along which axes of the domain the sum adds up, and which it keeps; of what is summed each
// element once.
absl::Status AxesOf(const graph::Graph& graph, const Domain& domain, const EndSum& sum,
                    const RootPlace& summed, uint64_t& reduced, uint64_t& kept) {
  const Node& node = graph.nodes[graph.tensors[sum.sum].node];
  const graph::Expr& load = *LoadOf(node);
  uint64_t some = 0;  // of more than one element
  for (const DomainAxis& axis : domain.axes) {
    if (axis.extent() > 1) some |= BitOf(axis.variable);
  }
  std::set<int> seen;
  for (size_t p = 0; p < load.args.size(); ++p) {
    const graph::Expr& at = *load.args[p];
    const int64_t extent = graph.tensors[summed.tensor].shape[p];
    if (extent == 1) continue;
    const bool is_axis = at.op == graph::Op::kIndex && seen.insert(at.var).second;
    if (!is_axis) return No("it does not add up each element once");
    const auto axes = static_cast<int>(node.axes.size());
    const bool keeps = at.var < axes;
    const graph::Axis& axis = keeps ? node.axes[at.var] : node.reduce_axes[at.var - axes];
    if (axis.extent != extent) return No("it adds up a part");
    (keeps ? kept : reduced) |= summed.at[p].variables() & some;
  }
  for (size_t v = 0; v < node.axes.size() + node.reduce_axes.size(); ++v) {
    const graph::Axis& axis =
        v < node.axes.size() ? node.axes[v] : node.reduce_axes[v - node.axes.size()];
    if (axis.extent > 1 && seen.count(static_cast<int>(v)) == 0)
      return No("it adds up elements several times");
  }
  return absl::OkStatus();
}

}  // namespace

const EndSums& EndSumsOf(const Analysis& group) {
  return group.Derived<EndSums>("end sums", std::function<EndSums()>([&] { return Find(group); }));
}

const absl::StatusOr<Domain>& ProductDomainOf(const Analysis& group) {
  const EndSums& sums = EndSumsOf(group);
  if (sums.summed < 0) {
    const int reduce = group.largest_reduce();
    const graph::Graph& graph = group.graph();
    const auto is_cropped = [&](int root) {
      return graph.tensors[root].elements() < Product(graph.nodes[reduce].axes);
    };
    if (group.stages().ok() || reduce < 0 || !absl::c_any_of(group.roots(), is_cropped))
      return group.stages();
    // Of a transposed convolution's places the last may be left out.
    const auto& cropped = group.Derived<absl::StatusOr<Domain>>(
        "product cropped", std::function<absl::StatusOr<Domain>()>([&] {
          return StagesOf(graph, group.roots(), group.in_memory(), /*cropped=*/true);
        }));
    return cropped.ok() ? cropped : group.stages();
  }
  return group.Derived<absl::StatusOr<Domain>>(
      "product with sums", std::function<absl::StatusOr<Domain>()>([&] {
        return StagesOf(group.graph(), sums.core, group.in_memory());
      }));
}

absl::Status PlaceSums(const Analysis& group, const Domain& domain, ContractForm& form) {
  const EndSums& sums = EndSumsOf(group);
  if (sums.summed < 0) return absl::OkStatus();
  if (form.pair || form.sums != graph::DType::kF32)
    return No("what a product's end makes is summed of one product, of floats");
  const RootPlace* summed = PlaceOfSummed(domain, sums.summed);
  if (summed == nullptr || summed->base >= 0) return No("what is summed is no matrix");
  form.summed = sums.summed;
  form.writes_summed = sums.written;
  form.end_sums = sums.sums;
  const uint64_t rows = MaskOf(domain, form.m_axes), columns = MaskOf(domain, form.n_axes);
  int over_rows = 0, over_columns = 0;
  for (EndSum& sum : form.end_sums) {
    uint64_t reduced = 0, kept = 0;
    const absl::Status axes = AxesOf(group.graph(), domain, sum, *summed, reduced, kept);
    if (!axes.ok()) return axes;
    sum.over_rows = reduced == rows && (kept & rows) == 0;
    const bool over_n = reduced == columns && (kept & columns) == 0;
    if (sum.over_rows == over_n) return No("it is summed over more or less than M or N");
    ++(sum.over_rows ? over_rows : over_columns);
    if (const auto kernel = KernelOf(group, sum); !kernel.ok()) return kernel.status();
  }
  if (over_rows > 1 || over_columns > 1) return No("it is summed twice over the same");
  return absl::OkStatus();
}

Index PlaceOf(const Analysis& group, const Domain& domain, const ContractForm& form,
              const EndSum& sum, const Frame& frame) {
  const graph::Graph& graph = group.graph();
  const Node& node = graph.nodes[graph.tensors[sum.sum].node];
  const graph::Expr& load = *LoadOf(node);
  const RootPlace& summed = *PlaceOfSummed(domain, form.summed);
  std::vector<Index> by(kMaxVariables, Index(0));
  for (size_t a = 0; a < domain.axes.size(); ++a) by[domain.axes[a].variable.id] = frame.axes[a];
  std::vector<Index> at(node.axes.size(), Index(0));
  for (size_t p = 0; p < load.args.size(); ++p) {
    const graph::Expr& index = *load.args[p];
    if (index.op == graph::Op::kIndex && index.var < static_cast<int>(at.size()))
      at[index.var] = Substitute(summed.at[p], by);
  }
  Index place(0);
  for (size_t q = 0; q < at.size(); ++q) place = place * node.axes[q].extent + at[q];
  return place;
}

absl::StatusOr<Kernel> KernelOf(const Analysis& group, const EndSum& sum) {
  std::vector<int> roots = sum.roots;
  std::erase(roots, sum.sum);
  if (roots.empty()) return Kernel();
  const InMemory in_memory = [&group, &sum](int t) { return t == sum.sum || group.in_memory()(t); };
  const auto domain = ElementsOf(group.graph(), roots, in_memory);
  if (!domain.ok()) return domain.status();
  auto kernel = BuildKernel(group.graph(), *domain, in_memory, ElementFrame(*domain, 1));
  if (!kernel.ok()) return kernel;
  const Index element = Index::Of(kernel->frame.element);
  for (ValuePtr load : LoadsOf(*kernel)) {
    if (load->tensor == sum.sum && !(load->args.empty() && load->index == element))
      return No("more is made of a sum than of its elements one by one");
  }
  return kernel;
}

int64_t PartsLeft(const ContractForm& form, const v1::ContractKnobs& knobs, const EndSum& sum,
                  const Target& target) {
  // As ws::Contract has it: of a group's rows, and of halves of boxes.
  const bool tensor = OnTensorCores(knobs.math(), target);
  if (sum.over_rows) return CeilDiv(form.m, tensor ? kGroupRows : knobs.tile_m());
  return CeilDiv(form.n, knobs.tile_n()) * (tensor && knobs.tile_n() >= 64 ? 2 : 1);
}

int64_t LeftBytes(const ContractForm& form, const v1::ContractKnobs& knobs, const EndSum& sum,
                  const Target& target) {
  return 4 * form.batch * (sum.over_rows ? form.n : form.m) * PartsLeft(form, knobs, sum, target);
}

namespace {

const char* NameOf(const EndSum& sum) { return sum.over_rows ? "down" : "across"; }

}  // namespace

LeftSums::LeftSums(const ContractForm& form, const v1::ContractKnobs& knobs, const Target& target,
                   KernelWriter& writer)
    : form_(form), writer_(writer) {
  for (const EndSum& sum : form.end_sums) {
    const std::string name = NameOf(sum);
    const int buffer = writer.Workspace(StrCat("_", name), LeftBytes(form, knobs, sum, target));
    arguments_.push_back({StrCat("float* ", name), buffer, {}});
    parts_.push_back(PartsLeft(form, knobs, sum, target));
  }
}

std::string LeftSums::text() const {
  if (form_.end_sums.empty()) return "";
  std::string down = "nullptr", across = "nullptr";
  for (const EndSum& sum : form_.end_sums) (sum.over_rows ? down : across) = NameOf(sum);
  return StrCat(", {", down, ", ", across, "}");
}

absl::Status LeftSums::AddUp() const {
  constexpr int kThreads = 256, kLines = 32;  // of ws::contract_totals
  for (size_t i = 0; i < form_.end_sums.size(); ++i) {
    const EndSum& sum = form_.end_sums[i];
    const std::string name = NameOf(sum);
    KernelShape shape;
    shape.threads = kThreads;
    shape.grid = form_.batch * CeilDiv(sum.over_rows ? form_.n : form_.m, kLines);
    shape.shared_bytes = kThreads * sizeof(float);
    const auto launch = writer_.Kernel(
        StrCat("_", name), shape, {{StrCat("const float* ", name), arguments_[i].buffer, {}}},
        StrCat("ws::contract_totals<", writer_.glue(), sum.over_rows ? ", true>" : ", false>",
               "(g, ", parts_[i], ", ", name, ")"));
    if (!launch.ok()) return launch.status();
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::codegen
