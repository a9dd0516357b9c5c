#include "cli/import/dump.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/graph/operators.h"

namespace warpsmith::import {
namespace {

using nlohmann::json;

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the dump has no valid '", what, "'"));
}

std::string StringOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

double NumberOf(const json& object, const char* key, double fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : fallback;
}

// The list under `key`, empty where there is none.
const json& ListOf(const json& object, const char* key) {
  static const json* const kNone = new json(json::array());
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : *kNone;
}

absl::StatusOr<graph::DType> TypeOf(const std::string& name) {
  if (const auto type = graph::FindType(name)) return *type;
  return absl::InvalidArgumentError(absl::StrCat("tensors of type ", name, " are not supported"));
}

// The list of whole numbers, none below 0, under `key`.
absl::StatusOr<std::vector<int64_t>> SizesOf(const json& object, const char* key) {
  std::vector<int64_t> sizes;
  for (const json& size : ListOf(object, key)) {
    if (!size.is_number_integer() || size.get<int64_t>() < 0) return Malformed(key);
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

absl::StatusOr<Meta> MetaOf(const json& value) {
  Meta meta;
  if (value.is_null()) return meta;
  if (!value.is_object()) return Malformed("outputs");
  absl::StatusOr<graph::DType> type = TypeOf(StringOf(value, "dtype"));
  if (!type.ok()) return type.status();
  meta.present = true;
  meta.type = *type;
  auto shape = SizesOf(value, "shape");
  if (!shape.ok()) return shape.status();
  meta.shape = *std::move(shape);
  meta.empty = std::count(meta.shape.begin(), meta.shape.end(), 0) > 0;
  if (meta.empty) {
    meta.present = false;
    meta.refusal = "tensors without elements are not supported";
  }
  return meta;
}

graph::Distribution DistributionOf(const json& value) {
  using Kind = graph::Distribution::Kind;
  graph::Distribution distribution;
  if (!value.is_object()) return distribution;
  const std::string kind = StringOf(value, "kind");
  distribution.kind = kind == "uniform"    ? Kind::kUniform
                      : kind == "integers" ? Kind::kIntegers
                      : kind == "constant" ? Kind::kConstant
                                           : Kind::kNormal;
  distribution.low = NumberOf(value, "low", 0);
  distribution.high = NumberOf(value, "high", 1);
  return distribution;
}

// How PyTorch names the type, and bits of its numbers from 0 on: what is drawn where it draws
// nothing.
constexpr char kE4m3Name[] = "float8_e4m3fn";
const graph::Distribution kFiniteE4m3 = {graph::Distribution::Kind::kIntegers, 0, 127};

absl::StatusOr<Placeholder> PlaceholderOf(const json& value) {
  if (!value.is_object()) return Malformed("placeholders");
  Placeholder placeholder;
  placeholder.name = StringOf(value, "name");
  placeholder.state = StringOf(value, "state");
  placeholder.position = static_cast<int>(NumberOf(value, "position", 0));
  if (const auto found = value.find("value"); found != value.end()) placeholder.value = *found;
  if (const auto found = value.find("distribution"); found != value.end()) {
    placeholder.distribution = DistributionOf(*found);
  }
  using Kind = Placeholder::Kind;
  const std::map<std::string, Kind> kinds = {{"input", Kind::kInput},
                                             {"scalar", Kind::kScalar},
                                             {"param", Kind::kParam},
                                             {"buffer", Kind::kBuffer},
                                             {"constant", Kind::kConstant}};
  const auto kind = kinds.find(StringOf(value, "kind"));
  if (placeholder.name.empty() || kind == kinds.end()) return Malformed("placeholders");
  placeholder.kind = kind->second;
  if (placeholder.kind == Kind::kScalar) return placeholder;
  // Eight-bit floats of forward's own and of weights come as their bits.
  const bool e4m3 = placeholder.kind != Kind::kConstant && StringOf(value, "dtype") == kE4m3Name;
  json as_bits = value;
  if (e4m3) as_bits["dtype"] = graph::NameOf(graph::DType::kU8);
  absl::StatusOr<Meta> meta = MetaOf(as_bits);
  if (!meta.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", placeholder.name, "': ", meta.status().message()));
  }
  placeholder.meta = *std::move(meta);
  placeholder.meta.e4m3_bits = e4m3;
  if (e4m3) placeholder.distribution = kFiniteE4m3;
  if (placeholder.meta.empty && placeholder.kind != Kind::kInput) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", placeholder.name, "': ", placeholder.meta.refusal));
  }
  if (placeholder.meta.empty) placeholder.kind = Kind::kEmpty;
  return placeholder;
}

// Positions that PyTorch counts in the narrowest type (torch.eye): what makes or moves them gives
// the same numbers in a wider one.
json Widened(const std::string& op, json output) {
  static const auto* const kMoves = new std::set<std::string>{
      "aten.arange.default",    "aten.arange.start", "aten.arange.start_step",
      "aten.unsqueeze.default", "aten.view.default", "aten.expand.default",
      "aten.permute.default"};
  if (!output.is_object() || kMoves->count(op) == 0) return output;
  const std::string type = StringOf(output, "dtype");
  if (type == "uint16") output["dtype"] = graph::NameOf(graph::DType::kI32);
  if (type == "uint32") output["dtype"] = graph::NameOf(graph::DType::kI64);
  return output;
}

absl::StatusOr<AtenNode> NodeOf(const json& value) {
  if (!value.is_object()) return Malformed("nodes");
  AtenNode node;
  node.name = StringOf(value, "name");
  node.op = StringOf(value, "op");
  const auto args = value.find("args");
  if (node.name.empty() || node.op.empty() || args == value.end() || !args->is_object()) {
    return Malformed("nodes");
  }
  for (const auto& [name, argument] : args->items()) node.args[name] = argument;
  for (const json& output : ListOf(value, "outputs")) {
    absl::StatusOr<Meta> meta = MetaOf(Widened(node.op, output));
    // It matters only if somebody uses it.
    if (!meta.ok()) meta = Meta{.refusal = std::string(meta.status().message())};
    node.outputs.push_back(*std::move(meta));
  }
  return node;
}

absl::StatusOr<Dump> DumpOf(const json& value) {
  if (!value.is_object()) return absl::InvalidArgumentError("the dump is not a JSON object");
  Dump dump;
  dump.path = StringOf(value, "path");
  dump.source = StringOf(value, "source");
  dump.torch = StringOf(value, "torch");
  dump.description = StringOf(value, "description");
  dump.error = StringOf(value, "error");
  if (!dump.error.empty()) return dump;
  for (const json& entry : ListOf(value, "placeholders")) {
    absl::StatusOr<Placeholder> placeholder = PlaceholderOf(entry);
    if (!placeholder.ok()) return placeholder.status();
    dump.placeholders.push_back(*std::move(placeholder));
  }
  for (const json& entry : ListOf(value, "nodes")) {
    absl::StatusOr<AtenNode> node = NodeOf(entry);
    if (!node.ok()) return node.status();
    dump.nodes.push_back(*std::move(node));
  }
  for (const json& entry : ListOf(value, "outputs")) {
    auto shape = SizesOf(entry, "shape"), strides = SizesOf(entry, "strides");
    if (!shape.ok()) return shape.status();
    if (!strides.ok()) return strides.status();
    if (shape->size() != strides->size()) return Malformed("strides");
    dump.outputs.push_back({StringOf(entry, "node"),
                            *std::move(shape),
                            *std::move(strides),
                            {},
                            StringOf(entry, "given")});
    const auto view = entry.find("view");
    if (view == entry.end()) continue;
    const auto sizes = SizesOf(*view, "sizes"), steps = SizesOf(*view, "strides");
    const auto offset = view->find("offset");
    if (!sizes.ok() || !steps.ok() || sizes->empty() || sizes->size() != steps->size() ||
        offset == view->end() || !offset->is_number_unsigned())
      return Malformed("view");
    v1::View& part = dump.outputs.back().view;
    part.mutable_sizes()->Add(sizes->begin(), sizes->end());
    part.mutable_strides()->Add(steps->begin(), steps->end());
    part.set_offset(offset->get<int64_t>());
  }
  for (const json& entry : ListOf(value, "updates")) {
    const std::string inout = StringOf(entry, "inout");
    dump.updates.push_back({inout.empty() ? StringOf(entry, "state") : inout,
                            StringOf(entry, "node"), !inout.empty()});
  }
  if (dump.outputs.empty() && dump.updates.empty())
    return absl::InvalidArgumentError("forward gives no tensor and changes none");
  return dump;
}

}  // namespace

absl::StatusOr<Dump> ParseDump(std::string_view line) {
  return DumpOf(json::parse(line, nullptr, /*allow_exceptions=*/false));
}

absl::StatusOr<std::vector<Dump>> ParseDumps(std::string_view line) {
  const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto listed = value.find("workloads");
  if (!value.is_object() || listed == value.end()) {
    absl::StatusOr<Dump> dump = DumpOf(value);
    if (!dump.ok()) return dump.status();
    return std::vector<Dump>{*std::move(dump)};
  }
  if (!listed->is_array() || listed->empty()) return Malformed("workloads");
  std::vector<Dump> dumps;
  for (json part : *listed) {
    if (!part.is_object()) return Malformed("workloads");
    const std::string name = StringOf(part, "name");
    for (const char* shared : {"path", "source", "torch", "description"}) {
      part[shared] = StringOf(value, shared);
    }
    absl::StatusOr<Dump> dump = DumpOf(part);
    if (!dump.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("workload '", name, "': ", dump.status().message()));
    }
    dump->workload = name;
    const auto dims = part.find("dims");
    if (dims == part.end() || !dims->is_object()) return Malformed("dims");
    for (const auto& [dim, extent] : dims->items()) {
      if (!extent.is_number_integer()) return Malformed("dims");
      dump->dims[dim] = extent.get<int64_t>();
    }
    dumps.push_back(*std::move(dump));
  }
  return dumps;
}

}  // namespace warpsmith::import
