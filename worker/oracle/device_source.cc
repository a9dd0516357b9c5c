#include "worker/oracle/device_source.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/graph/numeric.h"
#include "worker/oracle/device_text.h"
#include "worker/oracle/named_places.h"

namespace warpsmith::oracle {
namespace {

using graph::Axis;
using graph::Combiner;
using graph::DType;
using graph::Expr;
using graph::ExprPtr;
using graph::Graph;
using graph::IsFloat;
using graph::Node;
using graph::Op;
using graph::Tensor;

// Threads below which a reduction is cut in parts, and what a joining kernel leaves to the last.
constexpr int64_t kWantedThreads = int64_t{1} << 19;
constexpr int64_t kFewestToSplit = 64;  // elements of a reduction
constexpr int64_t kLastJoin = 512;
constexpr int64_t kSumBlock = 64;  // elements added up before they are added to the rest
// What one thread of a scan goes over; and at once, where that makes no further kernels.
constexpr int64_t kScanPart = 64;
constexpr int64_t kMostAtOnce = 256;

bool Mentions(const ExprPtr& e, int var) {
  if (e->op == Op::kIndex) return e->var == var;
  for (const ExprPtr& a : e->args) {
    if (Mentions(a, var)) return true;
  }
  return false;
}

// Whether neighbours along the last reduce axis are neighbours in memory.
bool ReducesContiguous(const Node& node) {
  int last = static_cast<int>(node.axes.size() + node.reduce_axes.size()) - 1;
  bool found = false;
  std::set<const Expr*> seen;
  std::function<void(const ExprPtr&)> walk = [&](const ExprPtr& e) {
    if (!seen.insert(e.get()).second) return;
    if (e->op == Op::kLoad && !e->args.empty() && Mentions(e->args.back(), last)) found = true;
    for (const ExprPtr& a : e->args) walk(a);
  };
  walk(node.value);
  return found;
}

// Generates the kernels of one node for one destination.
class NodeWriter {
 public:
  NodeWriter(const Graph& graph, int node, Pass pass, std::string name)
      : graph_(graph), node_(graph.nodes[node]), pass_(pass), name_(std::move(name)) {
    std::set<const Expr*> seen;
    Collect(node_.value, seen, loads_);
    count_ = Extent(node_.axes);
  }

  Code Whole(const std::vector<Target>& targets) {
    targets_ = targets;
    return Generate();
  }
  Code Sampled(int output, int answer, int64_t count) {
    sampled_output_ = output;
    answer_ = answer;
    count_ = count;
    return Generate();
  }

 private:
  bool sampled() const { return answer_ >= 0; }
  bool WithIndex() const {
    return !node_.map() &&
           (node_.combiner == Combiner::kArgMax || node_.combiner == Combiner::kArgMin);
  }

  Code Generate() {
    if (node_.reduce) {
      WriteReduce();
    } else if (node_.scan) {
      WriteScan();
    } else {
      WriteMap();
    }
    return std::move(code_);
  }

  // ---- parameters ----

  void AddLoads(Kernel& kernel, std::vector<std::string>& parameters) const {
    for (int t : loads_) {
      kernel.operands.push_back({Operand::kTensor, t});
      parameters.push_back(absl::StrCat("const ", HeldType(graph_.tensors[t], pass_), "* t", t));
    }
  }
  void AddPositions(Kernel& kernel, std::vector<std::string>& parameters) const {
    if (!sampled()) return;
    kernel.operands.push_back({Operand::kPositions, answer_});
    parameters.push_back("const i64* positions");
  }
  void AddDestinations(Kernel& kernel, std::vector<std::string>& parameters) const {
    if (sampled()) {
      kernel.operands.push_back({Operand::kSamples, answer_});
      parameters.push_back("double* samples");
      return;
    }
    for (size_t i = 0; i < targets_.size(); ++i) {
      const Tensor& tensor = graph_.tensors[node_.outputs[i]];
      if (targets_[i].hold) {
        kernel.operands.push_back({Operand::kTensor, node_.outputs[i]});
        parameters.push_back(absl::StrCat(HeldType(tensor, pass_), "* held", i));
      }
      if (targets_[i].answer >= 0) {
        kernel.operands.push_back({Operand::kAnswer, targets_[i].answer});
        parameters.push_back(absl::StrCat(StorageType(tensor.type), "* answer", i));
      }
      if (targets_[i].samples >= 0) {
        kernel.operands.push_back({Operand::kSamples, targets_[i].samples});
        parameters.push_back(absl::StrCat("double* samples", i));
      }
      if (targets_[i].sampled > 0) {
        kernel.operands.push_back({Operand::kPositions, targets_[i].samples});
        parameters.push_back(absl::StrCat("const i64* positions", i));
      }
    }
  }
  // Stores result `value` (and `at`, the index) of the element `position`.
  std::string Store(const std::string& value, const std::string& at,
                    const std::string& position) const {
    const std::string results[] = {value, at};
    if (sampled()) {
      return absl::StrCat("    samples[", position, "] = (double)",
                          Rounded(results[sampled_output_], sampled_output_), ";\n");
    }
    std::string text;
    for (size_t i = 0; i < targets_.size(); ++i) {
      const Tensor& tensor = graph_.tensors[node_.outputs[i]];
      std::string stored = StoreText(tensor.type, results[i]);
      if (targets_[i].hold) {
        absl::StrAppend(&text, "    held", i, "[", position,
                        "] = ", HeldWide(tensor, pass_) ? results[i] : stored, ";\n");
      }
      if (targets_[i].answer >= 0) {
        absl::StrAppend(&text, "    answer", i, "[", position, "] = ", stored, ";\n");
      }
      if (targets_[i].samples >= 0) {
        const std::string sample =
            absl::StrCat("] = (double)", Rounded(results[i], static_cast<int>(i)), ";\n");
        if (targets_[i].sampled == 0) {
          absl::StrAppend(&text, "    samples", i, "[", position, sample);
        } else {
          // The part that an element is in begins at its share rounded down, so it is this or the
          // next.
          const int64_t count = targets_[i].sampled;
          absl::StrAppend(&text, "    { const i64 q = (i64)((u64)(", position, ") * ", count,
                          "ull / ", tensor.elements(), "ull);\n      if (positions", i,
                          "[q] == ", position, ") samples", i, "[q", sample,
                          "      else if (q + 1 < ", count, " && positions", i,
                          "[q + 1] == ", position, ") samples", i, "[q + 1", sample, "    }\n");
        }
      }
    }
    return text;
  }
  // In a plain evaluation a sampled value is what would have been stored.
  std::string Rounded(const std::string& value, int output) const {
    DType type = graph_.tensors[node_.outputs[output]].type;
    if (pass_ == Pass::kExact) return value;
    if (type == DType::kF16) return absl::StrCat("from_f16(to_f16(", value, "))");
    if (type == DType::kBF16) return absl::StrCat("from_bf16(to_bf16(", value, "))");
    return value;
  }
  std::string Element(const std::string& o) const {
    return sampled() ? absl::StrCat("positions[", o, "]") : o;
  }

  // ---- maps ----

  void WriteMap() {
    Kernel kernel{name_, {}, count_};
    std::vector<std::string> parameters;
    AddLoads(kernel, parameters);
    AddPositions(kernel, parameters);
    AddDestinations(kernel, parameters);
    std::string text = Begin(name_, parameters, count_);
    absl::StrAppend(&text, "    const i64 e = ", Element("n"), ";\n");
    text += Decode(node_.axes, 0, "e", 4);
    if (node_.axes.empty()) text += "    (void)e;\n";
    std::string value = ExprWriter(graph_, pass_, &text, 4).Write(node_.value);
    text += Store(value, "0", "n");
    Finish(std::move(kernel), text + kEnd);
  }

  // ---- reduces ----

  void WriteReduce() {
    const int64_t elements = Extent(node_.reduce_axes);
    // Lists take a row's steps for each row.
    const auto named = NamedPlacesOf(node_, count_);
    if (named && named->batch_count * named->rows <= count_) return WriteNamed(*named);
    contiguous_ = ReducesContiguous(node_);
    int64_t parts = 1;
    if (elements >= kFewestToSplit && count_ < kWantedThreads) {
      int64_t wanted = std::max<int64_t>(kWantedThreads / count_, contiguous_ ? 32 : 1);
      while (parts * 2 <= std::min(wanted, elements / 2)) parts *= 2;
    }
    WriteParts(elements, parts);
    for (int stage = 0; parts > 1; ++stage) {
      int64_t next = parts > 2 * kLastJoin ? kLastJoin : 1;
      WriteJoin(stage, parts, next);
      parts = next;
    }
  }

  std::string Where(int64_t parts, const std::string& o, const std::string& s) const {
    return contiguous_ ? absl::StrCat(o, " * ", parts, "ll + ", s)
                       : absl::StrCat(s, " * ", count_, "ll + ", o);
  }
  std::string Split(int64_t parts) const {
    if (parts == 1) return "    const i64 o = n, s = 0;\n";
    if (contiguous_) {
      return absl::StrCat("    const i64 o = n / ", parts, "ll, s = n % ", parts, "ll;\n");
    }
    return absl::StrCat("    const i64 o = n % ", count_, "ll, s = n / ", count_, "ll;\n");
  }
  std::string ValueType() const { return ComputeType(node_.value->type, pass_); }

  // Room for one value (and index) for each part; gives the number of the first.
  int AddPartials(int64_t parts) {
    int first = static_cast<int>(code_.partial_bytes.size());
    code_.partial_bytes.push_back(count_ * parts * 8);
    if (WithIndex()) code_.partial_bytes.push_back(count_ * parts * 8);
    return first;
  }
  void AddPartialOperands(Kernel& kernel, std::vector<std::string>& parameters, int first,
                          const std::string& name, bool constant) const {
    const char* prefix = constant ? "const " : "";
    kernel.operands.push_back({Operand::kPartial, first});
    parameters.push_back(absl::StrCat(prefix, ValueType(), "* ", name));
    if (WithIndex()) {
      kernel.operands.push_back({Operand::kPartial, first + 1});
      parameters.push_back(absl::StrCat(prefix, "i64* ", name, "_at"));
    }
  }

  // How `value` (at index `at`) enters the accumulator. `first`: nothing has.
  std::string Combine(const std::string& value, const std::string& at, bool ordered) const {
    const bool floats = IsFloat(node_.value->type);
    switch (node_.combiner) {
      case Combiner::kSum:
        return floats ? absl::StrCat("acc += ", value, ";")
                      : absl::StrCat("acc = wrap_add(acc, ", value, ");");
      case Combiner::kProd:
        return floats ? absl::StrCat("acc *= ", value, ";")
                      : absl::StrCat("acc = wrap_mul(acc, ", value, ");");
      case Combiner::kMax:
        return absl::StrCat("if (first || above(", value, ", acc)) acc = ", value, ";");
      case Combiner::kMin:
        return absl::StrCat("if (first || below(", value, ", acc)) acc = ", value, ";");
      case Combiner::kLogSumExp:
        return "";  // of scans only
      case Combiner::kArgMax:
      case Combiner::kArgMin: {
        const char* better = node_.combiner == Combiner::kArgMax ? "above" : "below";
        std::string tie =
            ordered ? "" : absl::StrCat(" || (!", better, "(acc, ", value, ") && ", at, " < best)");
        return absl::StrCat("if (first || ", better, "(", value, ", acc)", tie, ") { acc = ", value,
                            "; best = ", at, "; }");
      }
    }
    return "";
  }
  std::string Identity() const {
    std::string zero = node_.combiner == Combiner::kProd ? "1" : "0";
    return absl::StrCat("    ", ValueType(), " acc = ", zero,
                        "; i64 best = 0; bool first = true; (void)best; (void)first;\n");
  }
  bool BlockedSum() const { return node_.combiner == Combiner::kSum && IsFloat(node_.value->type); }

  // What a loop over elements k of a reduction does, to its end.
  void AddElement(std::string& text) const {
    text += Decode(node_.reduce_axes, static_cast<int>(node_.axes.size()), "k", 6);
    std::string value = ExprWriter(graph_, pass_, &text, 6).Write(node_.value);
    absl::StrAppend(&text, "      ", Combine(value, "k", true), "\n      first = false;\n");
    if (BlockedSum()) {
      absl::StrAppend(&text, "      if (++held == ", kSumBlock,
                      ") { total += acc; acc = 0; held = 0; }\n");
    }
    text += "    }\n";
    if (BlockedSum()) text += "    acc += total;\n";
  }

  // Each thread takes every parts-th element of a reduction.
  void WriteParts(int64_t elements, int64_t parts) {
    Kernel kernel{name_ + (parts > 1 ? "_parts" : ""), {}, count_ * parts};
    std::vector<std::string> parameters;
    AddLoads(kernel, parameters);
    AddPositions(kernel, parameters);
    if (parts > 1) {
      partial_ = AddPartials(parts);
      AddPartialOperands(kernel, parameters, partial_, "partial", false);
    } else {
      AddDestinations(kernel, parameters);
    }
    std::string text = Begin(kernel.name, parameters, count_ * parts);
    text += Split(parts);
    absl::StrAppend(&text, "    const i64 e = ", Element("o"), "; (void)e;\n");
    text += Decode(node_.axes, 0, "e", 4);
    text += Identity();
    if (BlockedSum()) absl::StrAppend(&text, "    ", ValueType(), " total = 0; int held = 0;\n");
    absl::StrAppend(&text, "    for (i64 k = s; k < ", elements, "ll; k += ", parts, "ll) {\n");
    AddElement(text);
    text += parts > 1 ? StorePartial("partial", parts) : Store("acc", "best", "o");
    Finish(std::move(kernel), text + kEnd);
  }

  // ---- sums of rows that name a place ----
  //
  // at[b, k]: the place that row k of batch b names, -1: none. next[b, k]: the row behind it that
  // names the same, -1: none. first[b, p]: the first that names p. A sum goes from row to row.

  // Index variables of the batches, from `b`.
  std::string DecodeBatches(const NamedPlaces& named, const std::string& b) const {
    std::string text = absl::StrCat("    i64 rb = ", b, "; (void)rb;\n");
    for (size_t i = named.batches.size(); i-- > 0;) {
      const int axis = named.batches[i];
      const int64_t extent = node_.axes[axis].extent;
      absl::StrAppend(&text, "    const i64 v", axis, " = rb % ", extent, "ll; rb /= ", extent,
                      "ll;\n");
    }
    return text;
  }
  std::string Batch(const NamedPlaces& named) const {
    std::string number = "(i64)0";
    for (int axis : named.batches)
      number = absl::StrCat("(", number, " * ", node_.axes[axis].extent, "ll + v", axis, ")");
    return number;
  }
  void AddList(Kernel& kernel, std::vector<std::string>& parameters, int partial,
               const std::string& name, bool constant) const {
    kernel.operands.push_back({Operand::kPartial, partial});
    parameters.push_back(absl::StrCat(constant ? "const " : "", "i64* ", name));
  }

  void WriteNamed(const NamedPlaces& named) {
    constexpr int kAt = 0, kNext = 1, kFirst = 2;
    const int64_t rows = named.batch_count * named.rows, places = named.batch_count * named.places;
    code_.partial_bytes = {rows * 8, rows * 8, places * 8};
    WriteKeys(named, kAt, rows);

    Kernel none{name_ + "_none", {}, places};
    std::vector<std::string> parameters;
    AddList(none, parameters, kFirst, "first", false);
    std::string text = Begin(none.name, parameters, places) + "    first[n] = -1;\n";
    Finish(std::move(none), text + kEnd);

    Kernel lists{name_ + "_lists", {}, rows};
    parameters.clear();
    AddList(lists, parameters, kAt, "at", true);
    AddList(lists, parameters, kNext, "next", false);
    AddList(lists, parameters, kFirst, "first", false);
    text = Begin(lists.name, parameters, rows);
    absl::StrAppend(&text, "    const i64 b = n / ", named.rows, "ll, k = n % ", named.rows,
                    "ll, p = at[n]; const i64* const own = at + b * ", named.rows, "ll;\n",
                    "    i64 later = k + 1, earlier = k - 1;\n    while (p >= 0 && later < ",
                    named.rows, "ll && own[later] != p) ++later;\n",
                    "    while (p >= 0 && earlier >= 0 && own[earlier] != p) --earlier;\n",
                    "    next[n] = p >= 0 && later < ", named.rows, "ll ? later : -1;\n",
                    "    if (p >= 0 && earlier < 0) first[b * ", named.places, "ll + p] = k;\n");
    Finish(std::move(lists), text + kEnd);

    Kernel sums{name_, {}, count_};
    parameters.clear();
    AddLoads(sums, parameters);
    AddPositions(sums, parameters);
    AddDestinations(sums, parameters);
    AddList(sums, parameters, kNext, "next", true);
    AddList(sums, parameters, kFirst, "first_of", true);
    text = Begin(name_, parameters, count_) + "    const i64 o = n;\n";
    absl::StrAppend(&text, "    const i64 e = ", Element("o"), ";\n", Decode(node_.axes, 0, "e", 4),
                    Identity());
    if (BlockedSum()) absl::StrAppend(&text, "    ", ValueType(), " total = 0; int held = 0;\n");
    absl::StrAppend(&text, "    const i64 b = ", Batch(named), ";\n    for (i64 k = first_of[b * ",
                    named.places, "ll + v", named.axis, "]; k >= 0; k = next[b * ", named.rows,
                    "ll + k]) {\n");
    AddElement(text);
    text += Store("acc", "best", "o");
    Finish(std::move(sums), text + kEnd);
  }

  void WriteKeys(const NamedPlaces& named, int at, int64_t rows) {
    Kernel keys{name_ + "_keys", {}, rows};
    std::vector<std::string> parameters;
    AddLoads(keys, parameters);
    AddList(keys, parameters, at, "at", false);
    std::string text = Begin(keys.name, parameters, rows);
    absl::StrAppend(&text, "    const i64 b = n / ", named.rows, "ll, k = n % ", named.rows,
                    "ll;\n", DecodeBatches(named, "b"),
                    Decode(node_.reduce_axes, static_cast<int>(node_.axes.size()), "k", 4));
    const std::string key = ExprWriter(graph_, pass_, &text, 4).Write(named.key);
    absl::StrAppend(&text, "    const i64 p = ", key, ";\n    at[n] = p >= 0 && p < ", named.places,
                    "ll ? p : -1;\n");
    Finish(std::move(keys), text + kEnd);
  }

  std::string StorePartial(const std::string& pointer, int64_t parts) const {
    std::string where = Where(parts, "o", "s");
    std::string text = absl::StrCat("    ", pointer, "[", where, "] = acc;\n");
    if (WithIndex()) absl::StrAppend(&text, "    ", pointer, "_at[", where, "] = best;\n");
    return text;
  }

  // From `parts` partial results of each output to `next`.
  void WriteJoin(int stage, int64_t parts, int64_t next) {
    Kernel kernel{absl::StrCat(name_, "_join", stage), {}, count_ * next};
    std::vector<std::string> parameters;
    AddPartialOperands(kernel, parameters, partial_, "from", true);
    if (next > 1) {
      partial_ = AddPartials(next);
      AddPartialOperands(kernel, parameters, partial_, "to", false);
    } else {
      AddDestinations(kernel, parameters);
    }
    std::string text = Begin(kernel.name, parameters, count_ * next);
    text += Split(next);
    text += Identity();
    absl::StrAppend(&text, "    for (i64 k = s; k < ", parts, "ll; k += ", next, "ll) {\n");
    std::string where = Where(parts, "o", "k");
    absl::StrAppend(&text, "      const ", ValueType(), " x = from[", where, "];\n");
    if (WithIndex()) absl::StrAppend(&text, "      const i64 at = from_at[", where, "];\n");
    absl::StrAppend(&text, "      ", Combine("x", "at", false), "\n      first = false;\n    }\n");
    text += next > 1 ? StorePartial("to", next) : Store("acc", "best", "o");
    Finish(std::move(kernel), text + kEnd);
  }

  // ---- scans ----
  //
  // A scan of K elements for each of `outer` * `inner` sequences. Where that is long, each thread
  // combines kScanPart of them, what they give is scanned in turn, and each goes over its part
  // again from what stands before it. Parts are counted in the scan's own direction.

  struct Sequences {
    int64_t outer = 1, elements = 1, inner = 1;
    int64_t count() const { return outer * inner; }
  };

  void WriteScan() {
    Sequences all;
    all.elements = node_.axes[node_.scan->axis].extent;
    for (int a = 0; a < static_cast<int>(node_.axes.size()); ++a) {
      if (a < node_.scan->axis) all.outer *= node_.axes[a].extent;
      if (a > node_.scan->axis) all.inner *= node_.axes[a].extent;
    }
    if (all.elements <= kMostAtOnce || (all.inner > 1 && all.count() >= kWantedThreads)) {
      return WriteScanned(all, all.elements, -1);
    }
    Sequences parts = all;
    parts.elements = (all.elements + kScanPart - 1) / kScanPart;
    count_ = parts.count();
    const int totals = AddPartials(parts.elements);
    WriteTotals(all, parts, totals);
    ScanTotals(parts, totals, 0);
    WriteScanned(all, kScanPart, totals);
  }

  // Thread n's part c of sequence (o, i), its elements p of the scan's direction.
  static std::string PartOf(const Sequences& parts) {
    return absl::StrCat("    const i64 i = n % ", parts.inner, "ll, c = n / ", parts.inner, "ll % ",
                        parts.elements, "ll, o = n / ", parts.inner * parts.elements,
                        "ll; (void)i; (void)c; (void)o;\n");
  }
  static std::string EachElement(const Sequences& all, int64_t length) {
    return absl::StrCat("    for (i64 p = c * ", length, "ll; p < ", all.elements,
                        "ll && p < (c + 1) * ", length, "ll; ++p) {\n");
  }
  // Position `e` of element p, its place k on the axis, and the value there as `x`.
  std::string ElementOf(const Sequences& all) {
    std::string text = absl::StrCat(
        "      const i64 k = ",
        node_.scan->reverse ? absl::StrCat(all.elements - 1, "ll - p") : std::string("p"),
        ", e = (o * ", all.elements, "ll + k) * ", all.inner, "ll + i; (void)k;\n");
    text += Decode(node_.axes, 0, "e", 6);
    const std::string value = ExprWriter(graph_, pass_, &text, 6).Write(node_.value);
    absl::StrAppend(&text, "      const ", ValueType(), " x = ", value, ";\n");
    return text;
  }

  std::string Start() const {
    return absl::StrCat("    ", ValueType(), " acc = ", Nothing(), "; i64 best = 0; (void)best;\n");
  }
  // What a scan of nothing gives.
  std::string Nothing() const {
    const DType type = node_.value->type;
    const bool largest = node_.combiner == Combiner::kMax || node_.combiner == Combiner::kArgMax;
    if (node_.combiner == Combiner::kSum) return "0";
    if (node_.combiner == Combiner::kProd) return "1";
    if (node_.combiner == Combiner::kLogSumExp)
      return absl::StrCat("(", ValueType(), ")-infinity()");
    if (IsFloat(type)) {
      return absl::StrCat("(", ValueType(), ")", largest ? "-infinity()" : "infinity()");
    }
    if (type == DType::kBool) return largest ? "false" : "true";
    const int64_t end = largest ? graph::LowestOf(type) : graph::HighestOf(type);
    // The lowest i64 is no literal.
    return end < 0 ? absl::StrCat("(", end + 1, "ll - 1)") : absl::StrCat(end, "ll");
  }
  // How `x` (from `at`) follows what has been combined: of equals and of NaNs the latest counts.
  std::string Follow(const std::string& at) const {
    switch (node_.combiner) {
      case Combiner::kMax:
        return "if (!above(acc, x)) acc = x;";
      case Combiner::kMin:
        return "if (!below(acc, x)) acc = x;";
      case Combiner::kArgMax:
        return absl::StrCat("if (!above(acc, x)) { acc = x; best = ", at, "; }");
      case Combiner::kArgMin:
        return absl::StrCat("if (!below(acc, x)) { acc = x; best = ", at, "; }");
      case Combiner::kLogSumExp:
        return "acc = log_add(acc, x);";
      default:
        return Combine("x", at, true);
    }
  }

  // The scan itself, `length` elements a thread; those of a part begin with what `before` holds.
  void WriteScanned(const Sequences& all, int64_t length, int before) {
    Sequences parts = all;
    parts.elements = (all.elements + length - 1) / length;
    Kernel kernel{name_, {}, parts.count() * parts.elements};
    std::vector<std::string> parameters;
    AddLoads(kernel, parameters);
    AddDestinations(kernel, parameters);
    if (before >= 0) AddPartialOperands(kernel, parameters, before, "before", true);
    std::string text = Begin(kernel.name, parameters, kernel.threads) + PartOf(parts) + Start();
    if (before >= 0) text += "    acc = before[n];\n";
    if (before >= 0 && WithIndex()) text += "    best = before_at[n];\n";
    absl::StrAppend(&text, EachElement(all, length), ElementOf(all));
    const std::string follow = absl::StrCat("      ", Follow("k"), "\n");
    const std::string store = Store("acc", "best", "e");
    text += node_.scan->exclusive ? store + follow : follow + store;
    Finish(std::move(kernel), text + "    }\n" + kEnd);
  }

  void WriteTotals(const Sequences& all, const Sequences& parts, int totals) {
    Kernel kernel{name_ + "_totals", {}, parts.count() * parts.elements};
    std::vector<std::string> parameters;
    AddLoads(kernel, parameters);
    AddPartialOperands(kernel, parameters, totals, "total", false);
    std::string text = Begin(kernel.name, parameters, kernel.threads) + PartOf(parts) + Start();
    absl::StrAppend(&text, EachElement(all, kScanPart), ElementOf(all), "      ", Follow("k"),
                    "\n    }\n    total[n] = acc;\n");
    if (WithIndex()) text += "    total_at[n] = best;\n";
    Finish(std::move(kernel), text + kEnd);
  }

  // Replaces each total by what the ones before it combine to.
  void ScanTotals(const Sequences& totals, int partial, int level) {
    if (totals.elements <= kMostAtOnce) {
      return WriteBefore(totals, totals.elements, partial, -1, level);
    }
    Sequences parts = totals;
    parts.elements = (totals.elements + kScanPart - 1) / kScanPart;
    const int next = AddPartials(parts.elements);
    Kernel kernel{absl::StrCat(name_, "_totals", level), {}, parts.count() * parts.elements};
    std::vector<std::string> parameters;
    AddPartialOperands(kernel, parameters, partial, "from", true);
    AddPartialOperands(kernel, parameters, next, "total", false);
    std::string text = Begin(kernel.name, parameters, kernel.threads) + PartOf(parts) + Start();
    absl::StrAppend(&text, EachElement(totals, kScanPart), TotalOf(totals), "      ", Follow("at"),
                    "\n    }\n    total[n] = acc;\n");
    if (WithIndex()) text += "    total_at[n] = best;\n";
    Finish(std::move(kernel), text + kEnd);
    ScanTotals(parts, next, level + 1);
    WriteBefore(totals, kScanPart, partial, next, level);
  }
  std::string TotalOf(const Sequences& totals) const {
    return absl::StrCat("      const i64 e = (o * ", totals.elements, "ll + p) * ", totals.inner,
                        "ll + i;\n      const ", ValueType(), " x = from[e];\n",
                        WithIndex() ? "      const i64 at = from_at[e];\n" : "");
  }
  void WriteBefore(const Sequences& totals, int64_t length, int partial, int before, int level) {
    Sequences parts = totals;
    parts.elements = (totals.elements + length - 1) / length;
    Kernel kernel{absl::StrCat(name_, "_before", level), {}, parts.count() * parts.elements};
    std::vector<std::string> parameters;
    AddPartialOperands(kernel, parameters, partial, "from", false);
    if (before >= 0) AddPartialOperands(kernel, parameters, before, "before", true);
    std::string text = Begin(kernel.name, parameters, kernel.threads) + PartOf(parts) + Start();
    if (before >= 0) text += "    acc = before[n];\n";
    if (before >= 0 && WithIndex()) text += "    best = before_at[n];\n";
    absl::StrAppend(&text, EachElement(totals, length), TotalOf(totals), "      from[e] = acc;\n");
    if (WithIndex()) text += "      from_at[e] = best;\n";
    absl::StrAppend(&text, "      ", Follow("at"), "\n    }\n");
    Finish(std::move(kernel), text + kEnd);
  }

  void Finish(Kernel kernel, const std::string& text) {
    code_.source += text;
    code_.kernels.push_back(std::move(kernel));
  }

  const Graph& graph_;
  const Node& node_;
  const Pass pass_;
  const std::string name_;
  std::vector<int> loads_;
  std::vector<Target> targets_;
  int sampled_output_ = 0, answer_ = -1;
  int64_t count_ = 0;
  bool contiguous_ = false;
  int partial_ = 0;
  Code code_;
};

}  // namespace

Code NodeCode(const Graph& graph, int node, Pass pass, const std::string& name,
              const std::vector<Target>& targets) {
  return NodeWriter(graph, node, pass, name).Whole(targets);
}

Code SampleCode(const Graph& graph, int node, int output, Pass pass, const std::string& name,
                int answer, int64_t count) {
  return NodeWriter(graph, node, pass, name).Sampled(output, answer, count);
}

}  // namespace warpsmith::oracle
