#include "cli/import/aten.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/import/lowering.h"
#include "cli/import/scans.h"
#include "common/problem/axis_order.h"

namespace warpsmith::import {
namespace {

using graph::Role;

const OperatorTable& AllOperators() {
  static const auto* const kTable = [] {
    auto* table = new OperatorTable;
    for (const OperatorTable* part :
         {&PointwiseOperators(), &CreationOperators(), &ViewOperators(), &IndexingOperators(),
          &ReductionOperators(), &ScanOperators(), &NormOperators(), &PoolingOperators(),
          &PoolingGradients(), &ResizeOperators(), &ProductOperators(), &ConvolutionOperators(),
          &RandomOperators()}) {
      table->insert(part->begin(), part->end());
    }
    return table;
  }();
  return *kTable;
}

absl::Status Refused(const std::string& why) { return absl::InvalidArgumentError(why); }

// Elements of a constant of the module's code, as a chain of selects over the linear position.
absl::Status AddConstant(Lowering& l, const Placeholder& placeholder) {
  constexpr size_t kMaxElements = 64;
  const nlohmann::json& values = placeholder.value;
  if (!values.is_array() || values.empty() || values.size() > kMaxElements) {
    return Refused(absl::StrCat("the constant tensor '", placeholder.name,
                                "' is too large to be written out, or unknown"));
  }
  std::vector<double> numbers;
  for (const nlohmann::json& value : values) {
    if (!value.is_number() && !value.is_boolean()) {
      return Refused(absl::StrCat("the constant tensor '", placeholder.name, "' is not finite"));
    }
    numbers.push_back(value.is_boolean() ? value.get<bool>() : value.get<double>());
  }
  const Meta& meta = placeholder.meta;
  const int tensor = l.AddMap(l.FreeName(placeholder.name), meta.shape, [&](const Exprs& at) {
    graph::ExprPtr linear = I(0);
    for (size_t dim = 0; dim < at.size(); ++dim) {
      linear = Add(Mul(linear, I(meta.shape[dim])), at[dim]);
    }
    graph::ExprPtr value = Literal(meta.type, numbers.back());
    for (size_t k = numbers.size() - 1; k-- > 0;) {
      value = graph::Select(Less(linear, I(k + 1)), Literal(meta.type, numbers[k]), value);
    }
    return value;
  });
  l.BindPlaceholder(placeholder.name, tensor);
  return absl::OkStatus();
}

// What forward's code sees of an input or a weight: numbers, where the tensor has their bits.
void Bind(const Placeholder& placeholder, int tensor, Lowering& l) {
  if (placeholder.meta.e4m3_bits) {
    const int bits = tensor;
    const std::string name = l.FreeName(absl::StrCat(placeholder.name, ".numbers"));
    tensor = l.AddMap(name, placeholder.meta.shape, [&](const Exprs& at) {
      const graph::ExprPtr byte = graph::Cast(graph::DType::kF32, graph::Load(l.graph, bits, at));
      return graph::Cast(graph::DType::kF16, graph::Unary(graph::Op::kE4m3OfBits, byte));
    });
  }
  l.BindPlaceholder(placeholder.name, tensor);
}

// The input that holds a seed for each draw of forward's, where it draws.
void AddSeeds(const Dump& dump, const std::set<std::string>& state_names, Lowering& l) {
  constexpr double kSeedEnd = 0x1p53;
  const auto draws = std::count_if(dump.nodes.begin(), dump.nodes.end(), Draws);
  if (draws == 0) return;
  std::string name = l.FreeName("random_seeds");
  while (state_names.count(name) > 0) name = l.FreeName(name + "_");
  l.seeds = l.graph.AddInput(Role::kInput, name, graph::DType::kI64, {draws},
                             {graph::Distribution::Kind::kIntegers, 0, kSeedEnd});
}

absl::Status AddPlaceholders(const Dump& dump, Lowering& l) {
  std::set<std::string> mutated, inouts;
  for (const Dump::Update& update : dump.updates) {
    (update.inout ? inouts : mutated).insert(update.state);
  }
  // Weights keep the names of the state dictionary, so they are named first; inputs come first.
  std::set<std::string> state_names;
  for (const Placeholder& p : dump.placeholders) {
    if (!p.state.empty()) state_names.insert(StateName(p.state));
  }
  for (const Placeholder& p : dump.placeholders) {
    if (p.kind != Placeholder::Kind::kInput) continue;
    std::string name = p.name;
    do {
      name = l.FreeName(name);
    } while (state_names.count(name) > 0 && !(name += "_").empty());
    const bool inout = inouts.count(p.name) > 0;
    if (inout && p.meta.e4m3_bits)
      return Refused(absl::StrCat("'", p.name, "' is of eight-bit floats, and is changed"));
    const int tensor = l.graph.AddInput(inout ? Role::kState : Role::kInput, name, p.meta.type,
                                        p.meta.shape, p.distribution);
    l.graph.tensors[tensor].inout = inout;
    Bind(p, tensor, l);
  }
  AddSeeds(dump, state_names, l);
  for (const Placeholder& p : dump.placeholders) {
    if (p.kind == Placeholder::Kind::kEmpty) l.BindPlaceholder(p.name, kEmpty);
  }
  for (const Placeholder& p : dump.placeholders) {
    const bool param = p.kind == Placeholder::Kind::kParam;
    if (!param && p.kind != Placeholder::Kind::kBuffer) continue;
    if (l.graph.Find(StateName(p.state)) >= 0) {
      return Refused(absl::StrCat("'", p.state, "' is there twice"));
    }
    const Role role = mutated.count(p.state) > 0 ? Role::kState : Role::kParam;
    if (role == Role::kState && p.meta.e4m3_bits)
      return Refused(absl::StrCat("'", p.state, "' is of eight-bit floats, and is changed"));
    Bind(p, l.graph.AddInput(role, StateName(p.state), p.meta.type, p.meta.shape, p.distribution),
         l);
  }
  for (const Placeholder& p : dump.placeholders) {
    if (p.kind != Placeholder::Kind::kConstant) continue;
    const absl::Status status = AddConstant(l, p);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LowerNode(const AtenNode& node, Lowering& l) {
  l.Begin(node);
  if (node.op == "getitem") {
    const absl::Status form = l.CheckArguments("index:i");
    if (!form.ok()) return form;
    const auto self = node.args.find("self");
    if (self == node.args.end() || !self->second.contains("node")) {
      return l.Unsupported("of something that is no operator's result");
    }
    l.Bind(l.Bound(self->second["node"].get<std::string>(), static_cast<int>(l.Int("index"))));
    return absl::OkStatus();
  }
  bool any = node.outputs.empty();
  for (int output = 0; output < node.outputs.size(); ++output) {
    if (node.outputs[output].empty) l.Bind(kEmpty, output);
    any = any || !node.outputs[output].empty;
  }
  if (!any) return absl::OkStatus();
  const auto found = AllOperators().find(node.op);
  if (found == AllOperators().end()) return Refused(node.op + " is not supported");
  for (int output = 0; output < node.outputs.size(); ++output) {
    const Meta& meta = node.outputs[output];
    if (!meta.refusal.empty() && !meta.empty && (output == 0 || l.Used(output))) {
      return l.Unsupported(meta.refusal);
    }
  }
  const absl::Status form = l.CheckArguments(found->second.arguments);
  if (!form.ok()) return form;
  return found->second.lower(l);
}

// A tensor with the axes of `tensor` in another order.
int Permuted(Lowering& l, const std::string& name, int tensor, const AxisOrder& order) {
  const Shape shape = l.ShapeOf(tensor);
  Shape permuted;
  for (const int axis : order) permuted.push_back(shape[axis]);
  return l.AddMap(l.FreeName(name), permuted, [&](const Exprs& at) {
    Exprs from(at.size());
    for (size_t i = 0; i < at.size(); ++i) from[order[i]] = at[i];
    return graph::Load(l.graph, tensor, from);
  });
}

absl::Status AddOutputs(const Dump& dump, const std::vector<AxisOrder>& orders, Lowering& l) {
  std::vector<int> tensors;  // that forward gives
  for (const Dump::Output& output : dump.outputs) {
    if (!output.given.empty()) {  // nobody makes it
      tensors.push_back(kEmpty);
      continue;
    }
    const int tensor = l.Bound(output.node);
    if (tensor == kEmpty) {
      return Refused(absl::StrCat("the output '", output.node, "' has no elements"));
    }
    if (tensor < 0) return Refused(absl::StrCat("the output '", output.node, "' is no tensor"));
    tensors.push_back(tensor);
  }
  const std::vector<int> places = OutputsOf(dump);
  std::vector<int>& outputs = l.graph.outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!dump.outputs[i].given.empty()) continue;
    if (places[i] < static_cast<int>(outputs.size())) continue;  // given before
    const size_t rank = l.ShapeOf(tensors[i]).size();
    AxisOrder own(rank);
    std::iota(own.begin(), own.end(), 0);
    const AxisOrder order = orders.empty() ? own : orders[outputs.size()];
    if (!problem::IsOrder(order, rank)) {
      return Refused(absl::StrCat("the output '", dump.outputs[i].node, "' has ", rank,
                                  " axes, and PyTorch's ", order.size()));
    }
    int tensor = tensors[i];
    if (order != own) {
      tensor = Permuted(l, dump.outputs[i].node + ".stored", tensor, order);
    } else if (std::find(outputs.begin(), outputs.end(), tensor) != outputs.end()) {
      // Another tensor to PyTorch, though of the same elements.
      tensor = Permuted(l, dump.outputs[i].node + ".copy", tensor, own);
    }
    outputs.push_back(tensor);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<int> OutputsOf(const Dump& dump) {
  std::map<std::pair<std::string, std::vector<int64_t>>, int> known;
  std::vector<int> places;
  for (const Dump::Output& output : dump.outputs) {
    const int next = static_cast<int>(known.size());
    if (!output.given.empty()) {
      int place = 0;  // among the tensors that forward is given
      for (const Placeholder& placeholder : dump.placeholders) {
        if (placeholder.name == output.given) break;
        place += placeholder.kind == Placeholder::Kind::kInput;
      }
      places.push_back(~place);
      continue;
    }
    places.push_back(known.emplace(std::pair(output.node, output.strides), next).first->second);
  }
  // Inputs stand after the outputs.
  for (int& place : places) place = place < 0 ? static_cast<int>(known.size()) + ~place : place;
  return places;
}

std::string StateName(const std::string& state) {
  const bool letter =
      !state.empty() && (isalpha(static_cast<unsigned char>(state[0])) != 0 || state[0] == '_');
  return letter ? state : "_" + state;
}

std::vector<std::string> SupportedOperators() {
  std::vector<std::string> names;
  for (const auto& [name, op] : AllOperators()) names.push_back(name);
  return names;
}

absl::StatusOr<graph::Graph> LowerAten(const Dump& dump, const std::vector<AxisOrder>& orders) {
  Lowering l(dump);
  absl::Status status = AddPlaceholders(dump, l);
  for (const AtenNode& node : dump.nodes) {
    if (!status.ok()) return status;
    status = LowerNode(node, l);
  }
  if (!status.ok()) return status;
  status = AddOutputs(dump, orders, l);
  if (!status.ok()) return status;
  for (const Dump::Update& update : dump.updates) {
    const int state = update.inout ? l.Bound(update.state) : l.graph.Find(StateName(update.state));
    const int value = l.Bound(update.node);
    if (state < 0 || value < 0) {
      return Refused(
          absl::StrCat("forward changes '", update.state, "' in a way that is not seen"));
    }
    l.graph.updates.push_back({state, value});
  }
  FoldScans(l.graph);
  graph::Graph pruned = graph::Prune(l.graph);
  status = graph::Validate(pruned);
  if (!status.ok()) return status;
  return pruned;
}

}  // namespace warpsmith::import
