#include "worker/codegen/skeleton/staged/staged.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

// Whether `name` stands in C++ text as a word that is no member.
bool UsesName(const std::string& text, const std::string& name) {
  auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const bool before = at > 0 && word(text[at - 1]);
    const bool after = at + name.size() < text.size() && word(text[at + name.size()]) &&
                       text[at + name.size()] != '.';
    if (!before && !after) return true;
  }
  return false;
}

// StrCat writes six digits of a number: too few to tell two apart.
uint64_t BitsOf(double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

}  // namespace

StagedGlue::StagedGlue(const GroupContext& context, const Kernel& kernel,
                       const std::vector<Parameter>& parameters, const std::string& row,
                       int64_t parts, RowMembers& members)
    : context_(context),
      kernel_(kernel),
      parameters_(parameters),
      row_(row),
      parts_(parts),
      shared_(members) {
  element_ = MakeDialect(context, kernel, parameters, "int");
  row_level_ = MakeDialect(context, kernel, parameters, RowFitsInt() ? "int" : "long long");
  element_.locate = [this](int tensor, const Index& position) -> std::pair<std::string, Index> {
    const auto [base, rest] = Split(position);
    const std::string& name = PointerOf(parameters_, tensor);
    if (base.is_constant()) return {name, position};
    const std::string key = StrCat(
        tensor, "@", base.has_opaque() ? StrCat("w", kernel_.frame.width, ":") : "", base.key());
    for (const RowMembers::Pointer& pointer : shared_.pointers) {
      if (pointer.key == key) return {StrCat(row_, ".", pointer.name), rest};
    }
    RowMembers::Pointer pointer{key,  "",     StrCat("p", shared_.pointers.size(), "_", name),
                                this, tensor, base};
    for (const Parameter& p : parameters_) {
      if (p.name == name) pointer.type = p.type;
    }
    shared_.pointers.push_back(pointer);
    return {StrCat(row_, ".", pointer.name), rest};
  };
}

void StagedGlue::ForgetPosition(Emitter& emitter) const {
  if (divides_position_ && !context_.style.carries) emitter.Line("ws::opaque(k);");
}

void StagedGlue::SetIndexType(const std::string& type) { element_.index_type = type; }

// The part of a position that is fixed for the row, and the rest.
std::pair<Index, Index> StagedGlue::Split(const Index& position) const {
  const Frame& frame = kernel_.frame;
  uint64_t fixed = frame.row_variables;
  if (frame.width > 1) fixed &= ~BitOf(frame.lane);
  Index base(0), rest(0);
  for (const Index::Term& term : position.terms()) {
    bool early = (term.atom->variables & ~fixed) == 0;
    if (early) {
      bool staged = false;
      auto look = [&](int id) { staged = staged || kernel_.values->Get(id)->stage >= 0; };
      if (term.atom->kind == Atom::Kind::kOpaque) look(term.atom->value);
      if (term.atom->inner) ForEachOpaque(*term.atom->inner, look);
      early = !staged;
    }
    (early ? base : rest) = (early ? base : rest) + Index::Of(term.atom) * term.coefficient;
  }
  if (base.is_constant()) return {Index(0), position};
  return {base + Index(position.constant()), rest};
}

bool StagedGlue::IsFixed(ValuePtr value) const {
  return (value->variables & ~kernel_.frame.row_variables) == 0;
}

bool StagedGlue::FitsInt() const {
  const Domain& domain = *context_.domain;
  for (ValuePtr value : IndexValuesOf(kernel_)) {
    if (!IsFixed(value) && !codegen::FitsInt(value->index)) return false;
  }
  for (ValuePtr load : LoadsOf(kernel_)) {
    if (!AddressFitsInt(*context_.graph, load->tensor, Split(load->index).second)) return false;
  }
  for (const Kernel::Root& root : kernel_.roots) {
    if (!AddressFitsInt(*context_.graph, root.tensor, Split(root.address).second)) return false;
  }
  return domain.kept() <= kMaxIntPosition / parts_ && domain.reduced() <= kMaxIntPosition &&
         domain.carried() <= kMaxIntPosition;
}

// The same of what is computed once for a row: where it begins, and values of its own.
bool StagedGlue::RowFitsInt() const {
  for (const Parameter& p : parameters_) {
    if (context_.graph->tensors[p.tensor].elements() > kMaxIntPosition) return false;
  }
  for (ValuePtr value : IndexValuesOf(kernel_)) {
    if (IsFixed(value) && !codegen::FitsInt(value->index)) return false;
  }
  for (ValuePtr load : LoadsOf(kernel_)) {
    if (!codegen::FitsInt(Split(load->index).first)) return false;
  }
  for (const Kernel::Root& root : kernel_.roots) {
    if (!codegen::FitsInt(Split(root.address).first)) return false;
  }
  return true;
}

StageReduce StagedGlue::Reduced(const Kernel::Reduce& reduce, int64_t elements,
                                size_t number) const {
  StageReduce s;
  s.reduce = &reduce;
  s.reduction.combiner = context_.graph->nodes[reduce.node].combiner;
  s.reduction.type = reduce.value->type;
  s.reduction.accumulator = context_.style.accumulator;
  s.reduction.elements = elements;
  s.reduction.fast_math = context_.style.fast_math;
  s.prefix = StrCat("a", number, "_");
  return s;
}

absl::Status StagedGlue::Prepare() {
  const Domain& domain = *context_.domain;
  auto divides = [&](const Index& position) {
    for (const Index::Term& term : position.terms()) {
      if (term.atom->inner && (term.atom->variables & BitOf(kernel_.frame.k)) != 0)
        divides_position_ = true;
    }
  };
  for (ValuePtr load : LoadsOf(kernel_)) divides(load->index);
  for (const Kernel::Root& root : kernel_.roots) divides(root.address);
  stages_.assign(domain.stages, {});
  if (domain.stages == 0) return absl::OkStatus();  // a scan's accumulators are its skeleton's
  for (const Kernel::Reduce& reduce : kernel_.reduces) {
    if (domain.online_used && domain.online.count(reduce.node) > 0) continue;
    StageReduce s = Reduced(reduce, domain.reduced(), stages_[reduce.stage].size());
    if (domain.online_used) {
      for (const auto& [sum, maximum] : domain.online) {
        if (maximum == reduce.node) {
          s.online_node = sum;
          s.reduction.online = true;
        }
      }
    }
    stages_[reduce.stage].push_back(s);
  }
  for (const Kernel::Reduce& total : kernel_.totals)
    totals_.push_back(Reduced(total, domain.kept() / domain.segment_count(), totals_.size()));
  centred_.assign(domain.stages, {});
  if (context_.style.one_meeting) {
    for (int stage : JoinedStages(*context_.graph, domain, kernel_))
      centred_[stage] = CentredSquaresOf(*context_.graph, domain, kernel_, stage + 1);
  }
  if (TotalBytes() > kMaxTotalBytes) {
    return absl::InvalidArgumentError(StrCat(
        "group of '", context_.graph->tensors[domain.roots[0].tensor].name,
        "': its sums over rows take ", TotalBytes(), " bytes for each place of a row, at most ",
        kMaxTotalBytes, "; give some of them a group of their own"));
  }
  for (int stage = 0; stage < domain.stages; ++stage) {
    if (AccBytes(stage) > kMaxAccBytes) {
      return absl::InvalidArgumentError(
          StrCat("group of '", context_.graph->tensors[domain.roots[0].tensor].name, "': stage ",
                 stage, " has accumulators of ", AccBytes(stage), " bytes, at most ", kMaxAccBytes,
                 "; give some of its reduces a group of their own"));
    }
  }
  return absl::OkStatus();
}

int StagedGlue::AccBytes(int stage) const { return BytesOf(stages_[stage]); }

int StagedGlue::BytesOf(const std::vector<StageReduce>& reduces) {
  int bytes = 0;
  bool wide = false;
  for (const StageReduce& s : reduces) {
    for (const Field& field : FieldsOf(s.reduction)) {
      bytes += IsWide(field) ? 8 : 4;
      wide = wide || IsWide(field);
    }
  }
  return wide ? (bytes + 7) / 8 * 8 : bytes;
}

int StagedGlue::JoinedBytes(int stage) const {
  int bytes = 0;
  for (const StageReduce& s : stages_[stage]) {
    if (SquaresOf(stage, s) != nullptr) {
      bytes += 16;
      continue;
    }
    for (const Field& field : FieldsOf(s.reduction)) bytes += IsWide(field) ? 8 : 4;
  }
  return (bytes + 7) / 8 * 8;
}

const StageReduce* StagedGlue::SquaresOf(int stage, const StageReduce& sum) const {
  for (const CentredSquares& pair : centred_[stage]) {
    if (&kernel_.reduces[pair.sum] == sum.reduce) return &StageOf(pair.squares);
  }
  return nullptr;
}

const StageReduce& StagedGlue::StageOf(int reduce) const {
  for (const auto& stage : stages_) {
    for (const StageReduce& s : stage) {
      if (s.reduce == &kernel_.reduces[reduce]) return s;
    }
  }
  WS_CHECK(false, "a reduce has no stage");
  return stages_[0][0];
}

std::string StagedGlue::Acc() const {
  return columns() ? StrCat("acc[", LaneName(kernel_.frame), "].") : "acc.";
}

std::string StagedGlue::Lane(bool lanes) const {
  return lanes ? StrCat("[", LaneName(kernel_.frame), "]") : "";
}

uint64_t StagedGlue::ElementVariables() const {
  const Frame& frame = kernel_.frame;
  uint64_t known = frame.row_variables | BitOf(frame.k);
  if (frame.width > 1) known &= ~BitOf(frame.lane);
  return known;
}

int StagedGlue::FormOf(ValuePtr value) {
  auto known = forms_.find(value->id);
  if (known != forms_.end()) return known->second;
  std::string form =
      StrCat(static_cast<int>(value->kind), ".", static_cast<int>(value->type), ".",
             static_cast<int>(value->op), ".", BitsOf(value->number), ".", value->integer, ".",
             value->tensor, ".", value->node, ".", value->output, ".", value->index.key());
  // Values inside an index are numbered by kernel.
  if (value->index.has_opaque() || value->kind == Value::Kind::kReduce) {
    absl::StrAppend(&form, "#", value->id, "w", kernel_.frame.width);
  }
  for (ValuePtr arg : value->args) absl::StrAppend(&form, "(", FormOf(arg), ")");
  const int number = static_cast<int>(shared_.forms.size());
  return forms_[value->id] = shared_.forms.emplace(form, number).first->second;
}

const RowMembers::Member& StagedGlue::MemberOf(ValuePtr value) {
  const int form = FormOf(value);
  for (const RowMembers::Member& member : shared_.members) {
    if (member.form == form) return member;
  }
  const Frame& frame = kernel_.frame;
  RowMembers::Member member;
  member.form = form;
  member.type = ComputeType(value->type);
  member.name = StrCat("c", shared_.members.size());
  member.lanes = columns() && (frame.width == 1 || (value->variables & BitOf(frame.lane)) != 0);
  member.stage = value->stage;
  member.owner = this;
  member.value = value;
  shared_.members.push_back(member);
  return shared_.members.back();
}

void StagedGlue::BindResults(Emitter& emitter) const {
  for (ValuePtr value : kernel_.values->Closure(TargetsOf(kernel_))) {
    if (value->kind != Value::Kind::kResult) continue;
    if (scan_) {
      emitter.Bind(value, ResultOf(*scan_, StrCat("result", Lane(true), "."), value->output));
      continue;
    }
    emitter.Bind(value, StrCat(row_, ".", ResultName(value->node, value->output), Lane(columns())));
  }
}

// What the targets need of the row's own values is taken from the row.
void StagedGlue::BindRowValues(Emitter& emitter, const std::vector<ValuePtr>& targets) {
  BindResults(emitter);
  std::vector<bool> seen;
  std::function<void(ValuePtr)> visit = [&](ValuePtr value) {
    if (value->id >= static_cast<int>(seen.size())) seen.resize(value->id + 1);
    if (seen[value->id] || emitter.IsBound(value)) return;
    seen[value->id] = true;
    const bool worth = value->kind == Value::Kind::kLoad || value->kind == Value::Kind::kOp ||
                       value->kind == Value::Kind::kReduce;
    if (IsFixed(value) && worth) {
      const RowMembers::Member member = MemberOf(value);
      emitter.Bind(value, StrCat(row_, ".", member.name, Lane(member.lanes)));
      return;
    }
    kernel_.values->ForEachChild(value, visit);
  };
  for (ValuePtr target : targets) visit(target);
}

std::string StagedGlue::WithLocals(const std::string& body, const std::string& type) const {
  Text text;
  const Frame& frame = kernel_.frame;
  std::vector<std::string> names;
  if (columns()) {
    names = {frame.outer.name, frame.column.name};
  } else {
    names = {frame.row.name};
  }
  for (const std::string& name : names) {
    if (UsesName(body, name))
      text.Line(StrCat("const ", type, " ", name, " = ", row_, ".", name, ";"));
  }
  text.Append(body);
  return text.str();
}

std::vector<ValuePtr> StagedGlue::StageValues(int stage) const {
  std::vector<ValuePtr> values;
  for (const StageReduce& s : stages_[stage]) {
    values.push_back(s.reduce->value);
    if (IsIndexed(s.reduction)) values.push_back(s.reduce->position);
  }
  return values;
}

std::string StagedGlue::LoadBody(const std::vector<ValuePtr>& streams) {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i] == nullptr) continue;
    emitter.LoadVector(streams[i], LaneBase(streams[i]->index, kernel_.frame), kernel_.frame.width,
                       StrCat("values.s", i));
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
    const Index base = frame.width > 1 ? streams[i]->index.Without(frame.lane) : streams[i]->index;
    emitter.Line(StrCat("ws::copy_async<", frame.width, ">(slot",
                        offsets[i] > 0 ? StrCat(" + ", offsets[i] * frame.width) : "", ", ",
                        emitter.Address(streams[i]->tensor, base), ");"));
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

std::string StagedGlue::AccumulateBody(int stage, bool joined) {
  const std::string reduce = ReduceBody(stage, joined);
  if (stage > 0 || !WritesAtOnce()) return reduce;
  return StrCat("{\n", reduce, "}\n{\n", StoreBody(), "}\n");
}

std::string StagedGlue::EmitBody() { return WritesAtOnce() ? "" : StoreBody(); }

std::string StagedGlue::ReduceBody(int stage, bool joined) {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  const std::vector<ValuePtr> targets = StageValues(stage);
  for (const auto& [load, element] : streams_) emitter.Bind(load, element);
  BindRowValues(emitter, targets);
  emitter.Expect(targets);
  LoadContiguous(emitter, kernel_, targets, [&](ValuePtr load) {
    return aligned_(load->index) &&
           (load->variables & ~(ElementVariables() | BitOf(frame.lane))) == 0;
  });
  const std::vector<StageReduce>& reduces = stages_[stage];
  if (columns() || frame.width == 1) {
    OpenLanes(emitter, frame);
    for (const StageReduce& s : reduces) {
      const std::string acc = StrCat(Acc(), s.prefix);
      const bool indexed = IsIndexed(s.reduction);
      const std::string value = indexed || s.reduction.online ? emitter.Name(s.reduce->value)
                                                              : emitter.Use(s.reduce->value);
      std::vector<std::string> positions;
      if (indexed) {
        positions.push_back(StrCat("static_cast<", FieldsOf(s.reduction)[1].type, ">(",
                                   emitter.Use(kernel_.values->AsIndex(s.reduce->position)), ")"));
      }
      const bool deviates = joined && SquaresOf(stage, s) != nullptr;
      for (const std::string& line : deviates ? Deviate(acc, {emitter.Name(s.reduce->value)})
                                              : Accumulate(s.reduction, acc, {value}, positions))
        emitter.Line(line);
    }
    CloseLanes(emitter, frame);
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
                       StrCat("common.w", i));
  return emitter.Finish();
}

std::string StagedGlue::ScanElementsBody() {
  Emitter emitter(element_, ElementVariables());
  ForgetPosition(emitter);
  const Frame& frame = kernel_.frame;
  const Kernel::Reduce& scan = kernel_.reduces[0];
  std::vector<ValuePtr> targets = {scan.value};
  if (IsIndexed(*scan_)) targets.push_back(scan.position);
  for (const auto& [load, element] : streams_) emitter.Bind(load, element);
  BindRowValues(emitter, targets);
  emitter.Expect(targets);
  LoadContiguous(emitter, kernel_, targets, [&](ValuePtr load) {
    return aligned_(load->index) &&
           (load->variables & ~(ElementVariables() | BitOf(frame.lane))) == 0;
  });
  OpenLanes(emitter, frame);
  const std::string element = StrCat("element", Lane(true), ".");
  emitter.Line(StrCat(element, "v = ", emitter.Use(scan.value), ";"));
  if (IsIndexed(*scan_)) {
    emitter.Line(StrCat(element, "i = static_cast<", FieldsOf(*scan_)[1].type, ">(",
                        emitter.Use(kernel_.values->AsIndex(scan.position)), ");"));
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
  for (const auto& [load, element] : streams_) emitter.Bind(load, element);
  if (context_.style.rows_share) {
    const std::vector<ValuePtr> common = CommonLoads();
    for (size_t i = 0; i < common.size(); ++i) {
      if (emitter.IsBound(common[i])) continue;
      emitter.Bind(common[i],
                   ToRegister(common[i]->type, StrCat("common.w", i, "[", LaneName(frame), "]")));
    }
  }
  BindRowValues(emitter, targets);
  emitter.Expect(targets);
  LoadContiguous(emitter, kernel_, targets, [&](ValuePtr load) {
    return aligned_(load->index) &&
           (load->variables & ~(ElementVariables() | BitOf(frame.lane))) == 0;
  });
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
  for (const auto& [load, element] : streams_) emitter.Bind(load, element);
  BindRowValues(emitter, targets);
  emitter.Expect(targets);
  LoadContiguous(emitter, kernel_, targets, [&](ValuePtr load) {
    return aligned_(load->index) &&
           (load->variables & ~(ElementVariables() | BitOf(frame.lane))) == 0;
  });
  OpenLanes(emitter, frame);
  for (const StageReduce& s : totals_) {
    std::vector<std::string> positions;
    const std::string value = emitter.Name(s.reduce->value);
    if (IsIndexed(s.reduction)) {
      positions.push_back(StrCat("static_cast<", FieldsOf(s.reduction)[1].type, ">(",
                                 emitter.Use(kernel_.values->AsIndex(s.reduce->position)), ")"));
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

bool StagedGlue::EmitReads() const {
  if (WritesAtOnce()) return false;
  std::vector<ValuePtr> targets = TotalValues();
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level == Level::kPoints) targets.push_back(root.value);
  }
  for (ValuePtr value : kernel_.values->Closure(targets)) {
    if (value->kind != Value::Kind::kLoad || (value->variables & ElementVariables()) == 0) continue;
    const bool bound = std::any_of(streams_.begin(), streams_.end(),
                                   [&](const auto& stream) { return stream.first == value; });
    if (!bound) return true;
  }
  return false;
}

bool StagedGlue::WritesAtOnce() const {
  if (scan_ || HasTotals() || !HasRoots(Level::kPoints)) return false;
  std::vector<ValuePtr> targets;
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level == Level::kPoints) targets.push_back(root.value);
  }
  const std::vector<ValuePtr> all = kernel_.values->Closure(targets);
  return std::none_of(all.begin(), all.end(),
                      [](ValuePtr value) { return value->kind == Value::Kind::kResult; });
}

bool StagedGlue::HasRoots(Level level) const {
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level == level) return true;
  }
  return false;
}

}  // namespace warpsmith::codegen
