#include "worker/codegen/fuse/products.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "worker/codegen/group/analysis.h"
#include "worker/codegen/skeleton/contract/contract.h"
#include "worker/codegen/skeleton/contract/sums.h"

namespace warpsmith::codegen {
namespace {

using graph::ExprPtr;

// Simple operations that are made of a sum, from which on a product's kernel makes them where it
// leaves places out and several read what is made.
constexpr double kStepsOfCropped = 16;

// The tensor that a factor is an element of, perhaps cast; -1: it is something else.
int TensorOf(ExprPtr factor) {
  if (factor->op == graph::Op::kCast) factor = factor->args[0];
  return factor->op == graph::Op::kLoad ? factor->tensor : -1;
}

// The product of matrices whose kernel can write these, where inputs and `stored` are in memory;
// nullopt: there is none. `together`: neighbours that it finishes and writes at once, if asked for.
std::optional<ContractForm> FormOf(const graph::Graph& graph, const std::vector<int>& roots,
                                   const std::set<int>& stored, int* together = nullptr) {
  std::set<int> memory = stored;
  for (int t : roots) memory.erase(t);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].node < 0) memory.insert(static_cast<int>(t));
  }
  const Analysis group(graph, roots, memory);
  const auto& domain = ProductDomainOf(group);
  if (!domain.ok()) return std::nullopt;
  ContractForm form = FormContract(group, *domain, false);
  if (form.status.ok() && together != nullptr)
    *together = FinishWidth(group, *domain, form, kMostTogether);
  return form.status.ok() ? std::optional<ContractForm>(std::move(form)) : std::nullopt;
}

bool IsMap(const graph::Graph& graph, int tensor) {
  const int producer = graph.tensors[tensor].node;
  return producer >= 0 && graph.nodes[producer].map();
}

// Whether something that it is made of, through maps that nobody stores, is no map: then a kernel
// that has to be there in any case writes it.
bool EndsAnotherKernel(const graph::Graph& graph, int tensor, const std::set<int>& stored) {
  std::set<int> seen = {tensor};
  for (std::vector<int> work = {tensor}; !work.empty();) {
    const int t = work.back();
    work.pop_back();
    const int producer = graph.tensors[t].node;
    if (producer < 0) continue;
    if (!graph.nodes[producer].map()) return true;
    if (stored.count(t) > 0) continue;
    for (int load : graph::LoadedTensors(graph.nodes[producer].value)) {
      if (seen.insert(load).second) work.push_back(load);
    }
  }
  return false;
}

// What to store for the copy engine to bring a concatenation along K from where its two parts lie;
// nullopt: it is none, or as many kernels would have to write its parts as write all of it.
std::optional<std::vector<int>> PartsToStore(const graph::Graph& graph, int reduce, int tensor,
                                             const std::set<int>& stored) {
  const ExprPtr& value = graph.nodes[graph.tensors[tensor].node].value;
  if (value->op != graph::Op::kSelect) return std::nullopt;
  std::vector<int> parts;
  int kernels = 0;  // that do nothing else
  for (const ExprPtr& branch : {value->args[1], value->args[2]}) {
    if (branch->op != graph::Op::kLoad) return std::nullopt;
    const int part = ViewedBy(graph, branch->tensor);
    if (!IsHalf(graph.tensors[part].type)) return std::nullopt;
    if (!IsMap(graph, part) || stored.count(part) > 0) continue;
    parts.push_back(part);
    kernels += !EndsAnotherKernel(graph, part, stored);
  }
  if (kernels > 1) return std::nullopt;
  std::set<int> memory = stored;
  memory.insert(parts.begin(), parts.end());
  const auto form = FormOf(graph, graph.nodes[reduce].outputs, memory);
  const bool joined = form && (form->apart.joined[0] || form->apart.joined[1]) &&
                      std::min(form->m, form->n) > kMostFew;
  return joined ? std::optional<std::vector<int>>(parts) : std::nullopt;
}

// Whether a kernel that writes out the map that a product loads is worth its time: the product
// would find its elements scattered where `stored` and inputs lie.
bool IsBetterWrittenOut(const graph::Graph& graph, const graph::Node& product, int map,
                        const ContractForm& form, const std::set<int>& stored,
                        const Target& target) {
  std::set<int> memory = stored;
  memory.insert(map);
  const auto then = FormOf(graph, product.outputs, memory);
  if (!then) return false;
  const auto read = [](const ContractForm& of) {
    return of.operand_bytes(0) + of.operand_bytes(1);
  };
  const double saved = read(form) - read(*then),
               moved = 2.0 * static_cast<double>(graph.tensors[map].bytes());
  return saved > moved + target.launch_seconds * target.bytes_per_second;
}

// The tensor whose elements a map only moves; -1: it does more, or is no map.
int MovedBy(const graph::Graph& graph, int tensor) {
  if (!IsMap(graph, tensor)) return -1;
  const ExprPtr& value = graph.nodes[graph.tensors[tensor].node].value;
  return value->op == graph::Op::kLoad ? value->tensor : -1;
}

// Whether a view, what it views or one on the way to that is stored.
bool IsStored(const graph::Graph& graph, int view, const std::set<int>& stored) {
  for (int t = view; t >= 0; t = MovedBy(graph, t)) {
    if (stored.count(t) > 0) return true;
  }
  return false;
}

}  // namespace

int ViewedBy(const graph::Graph& graph, int tensor) {
  for (int next = MovedBy(graph, tensor); next >= 0; next = MovedBy(graph, tensor)) tensor = next;
  return tensor;
}

int SameInMemory(const graph::Graph& graph, int tensor) {
  const auto any = [](int) { return true; };
  while (IsMap(graph, tensor)) {
    const int source = ReshapeOf(graph, tensor, any);
    if (source < 0 || !IsMap(graph, source)) break;
    tensor = source;
  }
  return tensor;
}

bool IsProduct(const graph::Graph& graph, int node, const std::set<int>& stored,
               const Target& target, std::vector<int>* to_store) {
  const graph::Node& reduce = graph.nodes[node];
  if (!reduce.reduce || reduce.combiner != graph::Combiner::kSum ||
      reduce.value->op != graph::Op::kMul)
    return false;
  const auto form = FormOf(graph, reduce.outputs, stored);
  if (!form) return false;
  if (target.fibers()) return true;
  std::set<int> written_out;
  for (const ExprPtr& factor : reduce.value->args) {
    const int tensor = TensorOf(factor);
    if (tensor < 0 || !IsMap(graph, tensor) || stored.count(tensor) > 0) continue;
    if (!IsBetterWrittenOut(graph, reduce, tensor, *form, stored, target)) continue;
    to_store->push_back(SameInMemory(graph, tensor));
    written_out.insert(tensor);
  }
  if (target.tensor_products_per_second == 0) return true;
  // A, B and the factors may stand in either order.
  for (const ExprPtr& factor : reduce.value->args) {
    const int tensor = TensorOf(factor);
    if (tensor < 0 || written_out.count(tensor) > 0) continue;
    const int source = ViewedBy(graph, tensor);
    if (!IsHalf(graph.tensors[source].type) || !IsMap(graph, source) ||
        IsStored(graph, tensor, stored))
      continue;
    const auto parts = PartsToStore(graph, node, source, stored);
    if (parts) {
      to_store->insert(to_store->end(), parts->begin(), parts->end());
    } else {
      to_store->push_back(source);
    }
  }
  return true;
}

int LastOfEpilogue(const graph::Graph& graph, int sum, const std::vector<int>& needed,
                   const std::set<int>& required, const std::set<int>& taken) {
  const int64_t elements = graph.tensors[sum].elements();
  // Behind the sum: of each map's tensor those that all ways to it lead through, itself among them.
  std::map<int, std::set<int>> through = {{sum, {sum}}};
  std::set<int> all;  // through which every use outside of the maps leads
  bool used = false;
  const auto use = [&](int tensor) {
    const std::set<int>& ways = through[tensor];
    std::set<int> both;
    std::set_intersection(all.begin(), all.end(), ways.begin(), ways.end(),
                          std::inserter(both, both.begin()));
    all = used ? both : ways;
    used = true;
  };
  if (required.count(sum) > 0) return sum;
  // Of each tensor the last node that is no map and that it is made of, through maps.
  std::vector<int> latest(graph.tensors.size(), -1);
  for (int id : needed) {
    const graph::Node& node = graph.nodes[id];
    for (int t : node.outputs) latest[t] = node.map() ? -1 : id;
    if (!node.map()) continue;
    for (int t : graph::LoadedTensors(node.value))
      latest[node.outputs[0]] = std::max(latest[node.outputs[0]], latest[t]);
  }
  for (int id : needed) {
    const graph::Node& node = graph.nodes[id];
    std::vector<int> from;
    for (int t : graph::LoadedTensors(node.value)) {
      if (through.count(t) > 0) from.push_back(t);
    }
    if (from.empty()) continue;
    const int tensor = node.outputs[0];
    const int64_t of = graph.tensors[tensor].elements();
    if (!node.map() || of > elements || 2 * of <= elements ||
        latest[tensor] > graph.tensors[sum].node || taken.count(tensor) > 0) {
      for (int t : from) use(t);
      continue;
    }
    std::set<int> ways = through[from[0]];
    for (int t : from) {
      std::set<int> both;
      std::set_intersection(ways.begin(), ways.end(), through[t].begin(), through[t].end(),
                            std::inserter(both, both.begin()));
      ways = both;
    }
    ways.insert(tensor);
    through[tensor] = ways;
    if (required.count(tensor) > 0) use(tensor);
  }
  std::vector<int> candidates = {sum};  // the best last
  std::set<int> before;                 // what the kernel may read
  for (int id : needed) {
    const graph::Node& node = graph.nodes[id];
    for (int t : node.outputs) {
      if (all.count(t) > 0 && graph.tensors[t].bytes() <= graph.tensors[candidates.back()].bytes())
        candidates.push_back(t);
      if (!node.map() && id < graph.tensors[sum].node) before.insert(t);
    }
  }
  // A view may be cut as no kernel writes it, and the one that it views not; and one that is
  // written in vectors goes before one that is not.
  int best = sum, most = 0;
  for (auto tensor = candidates.rbegin(); tensor != candidates.rend() && most <= 1; ++tensor) {
    int together = 0;
    const auto form = FormOf(graph, {*tensor}, before, &together);
    if (!form || together <= most) continue;
    // Places that are left out of a result cost more than they save, but where much is made of each
    // sum, and several would make it (of an H200, 2/60: 1,493 us for 2,804, and 2/34 1,789 for
    // 1,445).
    if (graph.tensors[*tensor].elements() < elements) {
      const auto reads = [&](int id) {
        return absl::c_linear_search(graph::LoadedTensors(graph.nodes[id].value), *tensor);
      };
      if (form->end_steps >= kStepsOfCropped && absl::c_count_if(needed, reads) > 1) return *tensor;
      continue;
    }
    best = *tensor;
    most = together;
  }
  return best;
}

}  // namespace warpsmith::codegen
