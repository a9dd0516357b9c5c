// The functions of a staged kernel's struct, each as text: what is loaded, accumulated, emitted and
// finished of a row.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

using absl::StrCat;

std::string StagedGlue::BringText(Emitter& emitter, ValuePtr stream,
                                  const std::function<std::string(ValuePtr load)>& bring,
                                  const std::function<std::string(int lane)>& place) {
  if (stream->kind == Value::Kind::kLoad) return bring(stream);
  if (stream->kind == Value::Kind::kConst) {
    const std::string value =
        ToMemory(stream->type, Literal(stream->type, stream->number, stream->integer));
    std::string text;
    for (int lane = 0; lane < kernel_.frame.width; ++lane)
      absl::StrAppend(&text, place(lane), " = ", value, ";\n");
    return text;
  }
  // What the branches spell is made before either is opened.
  const std::string condition = emitter.Use(stream->args[0]);
  const std::string where = BringText(emitter, stream->args[1], bring, place),
                    otherwise = BringText(emitter, stream->args[2], bring, place);
  return StrCat("if (", condition, ") {\n", where, "} else {\n", otherwise, "}\n");
}

std::string StagedGlue::LoadBody(const std::vector<ValuePtr>& streams, const std::string& hint) {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i] == nullptr) continue;
    emitter.Append(BringText(
        emitter, streams[i],
        [&](ValuePtr load) {
          return emitter.VectorText(load, LaneBase(load->index, kernel_.frame), kernel_.frame.width,
                                    StrCat("values.s", i), hint);
        },
        [&](int lane) { return StrCat("values.s", i, "[", lane, "]"); }));
  }
  return WithLocals(emitter.Finish(), element_.index_type);
}

std::string StagedGlue::LoadSharedBody(const std::vector<ValuePtr>& streams,
                                       const std::vector<int>& offsets) {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i] == nullptr) continue;
    const char* const hint = context_.style.passes_by ? ", 1" : "";
    const std::string at = offsets[i] > 0 ? StrCat(" + ", offsets[i] * frame.width) : "";
    const std::string type = StorageType(streams[i]->type);
    emitter.Append(BringText(
        emitter, streams[i],
        [&](ValuePtr load) {
          const Index base = frame.width > 1 ? load->index.Without(frame.lane) : load->index;
          return StrCat(load->args.empty() ? "" : StrCat("if (", emitter.Use(load->args[0]), ") "),
                        "ws::copy_async<", frame.width, hint, ">(slot", at, ", ",
                        emitter.Address(load->tensor, base), ");\n");
        },
        [&](int lane) {
          return StrCat("reinterpret_cast<", type, "*>(slot", at, ")[", lane, "]");
        }));
  }
  return WithLocals(emitter.Finish(), element_.index_type);
}

// Of what a part of a joined stage has, from its first element on: that is near enough to the mean
// of a few that the squares keep their digits, whatever the elements. Not where it is no number,
// which would be lost in the sum.
std::vector<std::string> StagedGlue::Deviate(const std::string& acc,
                                             const std::vector<std::string>& values) const {
  const std::string p = StrCat(acc, "p"), from = values[0];
  std::vector<std::string> lines = {
      StrCat("if (first) ", p, " = ", from, " - ", from, " == 0 ? ", from, " : 0.0f;"), "{"};
  std::vector<std::string> apart, squares;
  for (size_t j = 0; j < values.size(); ++j) {
    apart.push_back(StrCat("d", j));
    squares.push_back(StrCat("d", j, " * d", j));
    lines.push_back(StrCat("const float d", j, " = ", values[j], " - ", p, ";"));
  }
  const Reduction plain;
  for (const std::string& line : Accumulate(plain, StrCat(acc, "r_"), apart, {}))
    lines.push_back(line);
  for (const std::string& line : Accumulate(plain, StrCat(acc, "q_"), squares, {}))
    lines.push_back(line);
  lines.push_back("}");
  return lines;
}

// What `targets` take of an element: streams and row values by their names, other loads by vectors
// where they are contiguous.
void StagedGlue::ReadElement(Emitter& emitter, const std::vector<ValuePtr>& targets) {
  for (const auto& [load, element] : streams_) emitter.Bind(load, element);
  BindRowValues(emitter, targets);
  emitter.Expect(targets);
  LoadContiguous(emitter, kernel_, targets, [&](ValuePtr load, const Index& base, int width) {
    const bool all = width == kernel_.frame.width;
    return (all ? aligned_(load->index) : base.multiple() % width == 0) &&
           (load->variables & ~(ElementVariables() | BitOf(kernel_.frame.lane))) == 0;
  });
}

// Where the element that an indexed reduction takes is.
std::string StagedGlue::PositionOf(Emitter& emitter, const Kernel::Reduce& reduce,
                                   const Reduction& reduction) const {
  return StrCat("static_cast<", FieldsOf(reduction)[1].type, ">(",
                emitter.Use(kernel_.values->AsIndex(reduce.position)), ")");
}

std::string StagedGlue::AccumulateBody(int stage, bool joined) {
  const std::string reduce = ReduceBody(stage, joined);
  if (stage > 0 || !WritesAtOnce()) return reduce;
  return StrCat("{\n", reduce, "}\n{\n", StoreBody(), "}\n");
}

std::string StagedGlue::EmitBody() { return WritesAtOnce() ? "" : StoreBody(); }

ValuePtr StagedGlue::HeldOf(int stage) const {
  if (!holds_ || streams_.empty() || stages_[stage].size() != 1) return nullptr;
  const StageReduce& s = stages_[stage][0];
  const ValuePtr value = s.reduce->value;
  if (IsIndexed(s.reduction) || s.reduction.online || value->kind == Value::Kind::kLoad ||
      value->type != graph::DType::kF32 || streams_[0].first->type != graph::DType::kF32)
    return nullptr;
  std::vector<ValuePtr> later = TotalValues();
  for (size_t next = stage + 1; next < stages_.size(); ++next) {
    const std::vector<ValuePtr> values = StageValues(static_cast<int>(next));
    later.insert(later.end(), values.begin(), values.end());
  }
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level != Level::kPoints) continue;
    later.push_back(root.value);
    if (root.condition != nullptr) later.push_back(root.condition);
  }
  const std::vector<ValuePtr> needed =
      kernel_.values->Closure(later, [&](ValuePtr known) { return known == value; });
  bool needs = false;
  for (ValuePtr one : needed) {
    needs = needs || one == value;
    for (const auto& [stream, element] : streams_) {
      if (one == stream) return nullptr;
    }
  }
  return needs ? value : nullptr;
}

std::string StagedGlue::ReduceBody(int stage, bool joined) {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  const std::vector<ValuePtr> targets = StageValues(stage);
  ReadElement(emitter, targets);
  const std::vector<StageReduce>& reduces = stages_[stage];
  const ValuePtr held = HeldOf(stage);
  if (columns() || frame.width == 1) {
    OpenLanes(emitter, frame);
    for (const StageReduce& s : reduces) {
      const std::string acc = StrCat(Acc(), s.prefix);
      const bool indexed = IsIndexed(s.reduction);
      const std::string value = indexed || s.reduction.online || held != nullptr
                                    ? emitter.Name(s.reduce->value)
                                    : emitter.Use(s.reduce->value);
      std::vector<std::string> positions;
      if (indexed) {
        positions.push_back(PositionOf(emitter, *s.reduce, s.reduction));
      }
      const bool deviates = joined && SquaresOf(stage, s) != nullptr;
      for (const std::string& line : deviates ? Deviate(acc, {emitter.Name(s.reduce->value)})
                                              : Accumulate(s.reduction, acc, {value}, positions))
        emitter.Line(line);
      if (held != nullptr) emitter.Line(StrCat(streams_[0].second, " = ", value, ";"));
    }
    CloseLanes(emitter, frame);
    if (held != nullptr) streams_ = {{held, streams_[0].second}};
    return WithLocals(emitter.Finish(), element_.index_type);
  }
  // Lanes run along the row: all values first, then each reduce takes them together.
  for (size_t i = 0; i < reduces.size(); ++i) {
    emitter.Line(
        StrCat(ComputeType(reduces[i].reduce->value->type), " e", i, "_[", frame.width, "];"));
    if (IsIndexed(reduces[i].reduction)) {
      emitter.Line(
          StrCat(FieldsOf(reduces[i].reduction)[1].type, " q", i, "_[", frame.width, "];"));
    }
  }
  OpenLanes(emitter, frame);
  for (size_t i = 0; i < reduces.size(); ++i) {
    emitter.Line(StrCat("e", i, "_[j] = ", emitter.Use(reduces[i].reduce->value), ";"));
    if (IsIndexed(reduces[i].reduction)) {
      emitter.Line(StrCat("q", i, "_[j] = ",
                          emitter.Use(kernel_.values->AsIndex(reduces[i].reduce->position)), ";"));
    }
  }
  CloseLanes(emitter, frame);
  for (size_t i = 0; i < reduces.size(); ++i) {
    std::vector<std::string> values, positions;
    for (int j = 0; j < frame.width; ++j) {
      values.push_back(StrCat("e", i, "_[", j, "]"));
      positions.push_back(StrCat("q", i, "_[", j, "]"));
    }
    const std::string acc = StrCat(Acc(), reduces[i].prefix);
    const bool deviates = joined && SquaresOf(stage, reduces[i]) != nullptr;
    for (const std::string& line :
         deviates ? Deviate(acc, values) : Accumulate(reduces[i].reduction, acc, values, positions))
      emitter.Line(line);
  }
  return WithLocals(emitter.Finish(), element_.index_type);
}

// Vectors that every row reads alike where it is written, and that nobody writes meanwhile.
std::vector<ValuePtr> StagedGlue::CommonLoads() const {
  const Frame& frame = kernel_.frame;
  std::vector<ValuePtr> targets, common;
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level == Level::kPoints) targets.push_back(root.value);
  }
  uint64_t along = BitOf(frame.k);
  if (frame.width > 1) along |= BitOf(frame.lane);
  for (ValuePtr load : kernel_.values->Closure(targets)) {
    if (load->kind != Value::Kind::kLoad || !load->args.empty() || load->index.has_opaque())
      continue;
    const graph::Role role = context_.graph->tensors[load->tensor].role;
    if ((role != graph::Role::kInput && role != graph::Role::kParam) ||
        (load->variables & ~along) != 0 || (load->variables & BitOf(frame.k)) == 0)
      continue;
    if (IsContiguous(load->index, frame) && aligned_(load->index) &&
        FitsVector(load->type, frame.width))
      common.push_back(load);
  }
  return common;
}

std::string StagedGlue::CommonMembers() const {
  Text text;
  const std::vector<ValuePtr> loads = CommonLoads();
  for (size_t i = 0; i < loads.size(); ++i)
    text.Line(StrCat(StorageType(loads[i]->type), " w", i, "[", kernel_.frame.width, "];"));
  return text.str();
}

std::string StagedGlue::CommonBody() {
  Dialect dialect = MakeDialect(context_, kernel_, parameters_, element_.index_type);
  Emitter emitter(dialect, BitOf(kernel_.frame.k));
  const std::vector<ValuePtr> loads = CommonLoads();
  for (size_t i = 0; i < loads.size(); ++i)
    emitter.LoadVector(loads[i], LaneBase(loads[i]->index, kernel_.frame), kernel_.frame.width,
                       StrCat("common.w", i), context_.style.passes_by ? "2" : "");
  return emitter.Finish();
}

int StagedGlue::CommonBytes() const {
  int bytes = 0;
  for (ValuePtr load : CommonLoads()) bytes += static_cast<int>(graph::SizeOf(load->type));
  return bytes;
}

std::string StagedGlue::ScanElementsBody() {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  const Kernel::Reduce& scan = kernel_.reduces[0];
  std::vector<ValuePtr> targets = {scan.value};
  if (IsIndexed(*scan_)) targets.push_back(scan.position);
  ReadElement(emitter, targets);
  OpenLanes(emitter, frame);
  const std::string element = StrCat("element", Lane(true), ".");
  emitter.Line(StrCat(element, "v = ", emitter.Use(scan.value), ";"));
  if (IsIndexed(*scan_)) {
    emitter.Line(StrCat(element, "i = ", PositionOf(emitter, scan, *scan_), ";"));
  }
  CloseLanes(emitter, frame);
  return WithLocals(emitter.Finish(), element_.index_type);
}

std::string StagedGlue::StoreBody() {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  std::vector<const Kernel::Root*> roots;
  std::vector<ValuePtr> targets;
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level != Level::kPoints) continue;
    roots.push_back(&root);
    targets.push_back(root.value);
  }
  if (roots.empty()) return "";
  if (context_.style.rows_share) {
    const std::vector<ValuePtr> common = CommonLoads();
    for (size_t i = 0; i < common.size(); ++i)
      emitter.Bind(common[i],
                   ToRegister(common[i]->type, StrCat("common.w", i, "[", LaneName(frame), "]")));
  }
  ReadElement(emitter, targets);
  StoreRoots(emitter, element_, context_, kernel_, roots, aligned_);
  return WithLocals(emitter.Finish(), element_.index_type);
}

std::vector<ValuePtr> StagedGlue::TotalValues() const {
  std::vector<ValuePtr> values;
  for (const StageReduce& s : totals_) {
    values.push_back(s.reduce->value);
    if (IsIndexed(s.reduction)) values.push_back(s.reduce->position);
  }
  return values;
}

std::string StagedGlue::TotalBody() {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  const std::vector<ValuePtr> targets = TotalValues();
  ReadElement(emitter, targets);
  OpenLanes(emitter, frame);
  for (const StageReduce& s : totals_) {
    std::vector<std::string> positions;
    const std::string value = emitter.Name(s.reduce->value);
    if (IsIndexed(s.reduction)) {
      positions.push_back(PositionOf(emitter, *s.reduce, s.reduction));
    }
    const std::string acc = StrCat("totals[", LaneName(frame), "].", s.prefix);
    for (const std::string& line : Accumulate(s.reduction, acc, {value}, positions))
      emitter.Line(line);
  }
  CloseLanes(emitter, frame);
  return WithLocals(emitter.Finish(), element_.index_type);
}

std::string StagedGlue::EmitTotalBody() {
  const Dialect dialect = MakeDialect(context_, kernel_, parameters_, "long long");
  Emitter emitter(dialect, ElementVariables());
  std::vector<const Kernel::Root*> roots;
  std::vector<ValuePtr> targets;
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level != Level::kTotals) continue;
    roots.push_back(&root);
    targets.push_back(root.value);
  }
  for (ValuePtr value : kernel_.values->Closure(targets)) {
    if (value->kind != Value::Kind::kResult) continue;
    for (const StageReduce& s : totals_) {
      if (s.reduce->node == value->node)
        emitter.Bind(value, ResultOf(s.reduction, StrCat("total.", s.prefix), value->output));
    }
  }
  emitter.Expect(targets);
  StoreRoots(emitter, dialect, context_, kernel_, roots, aligned_);
  return emitter.Finish();
}

std::string StagedGlue::FinishBody(int stage, bool results) {
  const Frame& frame = kernel_.frame;
  uint64_t known = frame.row_variables;
  if (frame.width > 1) known &= ~BitOf(frame.lane);
  Emitter emitter(row_level_, known);
  BindResults(emitter);
  std::vector<const RowMembers::Member*> mine;
  std::vector<ValuePtr> targets;
  for (const RowMembers::Member& member : shared_.members) {
    if (member.owner != this) continue;
    if (member.stage == stage) {
      mine.push_back(&member);
      targets.push_back(member.value);
    } else if (member.stage < stage) {
      emitter.Bind(member.value, StrCat(row_, ".", member.name, Lane(member.lanes)));
    }
  }
  emitter.Expect(targets);
  if (stage < 0) {
    for (const RowMembers::Pointer& pointer : shared_.pointers) {
      if (pointer.owner != this) continue;
      emitter.Line(StrCat(row_, ".", pointer.name, " = ", PointerOf(parameters_, pointer.tensor),
                          " + (", emitter.Use(pointer.base), ");"));
    }
  }
  bool lanes = stage >= 0 && columns();
  for (const RowMembers::Member* member : mine) {
    lanes = lanes || member->lanes;
    if (member->lanes) continue;
    emitter.Line(StrCat(row_, ".", member->name, " = ", emitter.Use(member->value), ";"));
    emitter.Bind(member->value, StrCat(row_, ".", member->name));
  }
  // What earlier passes computed from the row's values is not worth the registers that it takes to
  // keep it until the next.
  if (stage > 0 && !context_.style.carries) {
    auto forget = [&](const std::string& name, bool each) {
      for (int j = 0; j < (each ? frame.width : 1); ++j) {
        emitter.Line(StrCat("ws::opaque(", row_, ".", name, each ? StrCat("[", j, "]") : "", ");"));
      }
    };
    for (int s = 0; results && s < stage; ++s) {
      for (const StageReduce& reduce : stages_[s]) {
        forget(ResultName(reduce.reduce->node, 0), columns());
        if (IsIndexed(reduce.reduction)) forget(ResultName(reduce.reduce->node, 1), columns());
        if (reduce.online_node >= 0) forget(ResultName(reduce.online_node, 0), columns());
      }
    }
    for (const RowMembers::Member& member : shared_.members) {
      if (member.owner == this && member.stage < stage) forget(member.name, member.lanes);
    }
  }
  // Results come before what is made of them: in their own loop over lanes.
  std::string before;
  if (stage >= 0 && results) {
    Text text;
    if (columns() && frame.width > 1) {
      text.Line("#pragma unroll");
      text.Open(StrCat("for (int j = 0; j < ", frame.width, "; ++j) {"));
    }
    for (const StageReduce& s : stages_[stage]) {
      const std::string acc = StrCat(Acc(), s.prefix);
      auto set = [&](int node, int output, int from) {
        text.Line(StrCat(row_, ".", ResultName(node, output), Lane(columns()), " = ",
                         ResultOf(s.reduction, acc, from), ";"));
      };
      set(s.reduce->node, 0, 0);
      if (IsIndexed(s.reduction)) set(s.reduce->node, 1, 1);
      if (s.online_node >= 0) set(s.online_node, 0, 1);
    }
    if (columns() && frame.width > 1) text.Close();
    before = text.str();
  }
  if (lanes && !mine.empty()) {
    OpenLanes(emitter, frame);
    for (const RowMembers::Member* member : mine) {
      if (!member->lanes) continue;
      emitter.Line(
          StrCat(row_, ".", member->name, Lane(true), " = ", emitter.Use(member->value), ";"));
    }
    CloseLanes(emitter, frame);
  }
  return WithLocals(before + emitter.Finish(), row_level_.index_type);
}

std::string StagedGlue::EmitRowBody() {
  const Frame& frame = kernel_.frame;
  uint64_t known = frame.row_variables;
  if (frame.width > 1) known &= ~BitOf(frame.lane);
  Emitter emitter(row_level_, known);
  BindResults(emitter);
  for (const RowMembers::Member& member : shared_.members) {
    if (member.owner == this)
      emitter.Bind(member.value, StrCat(row_, ".", member.name, Lane(member.lanes)));
  }
  std::vector<const Kernel::Root*> roots;
  std::vector<ValuePtr> targets;
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level != Level::kRows) continue;
    roots.push_back(&root);
    targets.push_back(root.value);
  }
  if (roots.empty()) return "";
  emitter.Expect(targets);
  if (columns()) {
    StoreRoots(emitter, row_level_, context_, kernel_, roots, aligned_);
  } else {
    // All before the first is stored: it may overwrite what another is made of.
    std::vector<std::string> stores;
    for (const Kernel::Root* root : roots) {
      const std::string name = emitter.NewName("y");
      const std::string type = StorageType(context_.graph->tensors[root->tensor].type);
      emitter.Line(StrCat("const ", type, " ", name, " = ", emitter.Stored(root->value), ";"));
      stores.push_back(StrCat(emitter.Element(root->tensor, root->address), " = ", name, ";"));
    }
    for (const std::string& store : stores) emitter.Line(store);
  }
  return WithLocals(emitter.Finish(), row_level_.index_type);
}

}  // namespace warpsmith::codegen
