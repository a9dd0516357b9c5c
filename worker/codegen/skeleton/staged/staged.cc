// What the functions of a staged kernel are made of: where positions and values are known, which
// names they have, which stage a reduce belongs to. The functions themselves are in bodies.cc.
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
  for (const Kernel::Reduce& total : kernel_.totals) {
    totals_.push_back(Reduced(total, domain.kept() / domain.segment_count(), totals_.size()));
    totals_.back().reduction.accumulator = context_.style.total_accumulator;
  }
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
      emitter.Bind(value, value->output == kScanEnd
                              ? ResultOf(*scan_, "end.", 0)
                              : ResultOf(*scan_, StrCat("result", Lane(true), "."), value->output));
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

bool StagedGlue::EmitReads() const {
  if (WritesAtOnce()) return false;
  std::vector<ValuePtr> targets = TotalValues();
  for (const Kernel::Root& root : kernel_.roots) {
    if (root.level == Level::kPoints) targets.push_back(root.value);
  }
  const auto bound = [&](ValuePtr value) {
    return std::any_of(streams_.begin(), streams_.end(),
                       [&](const auto& stream) { return stream.first == value; });
  };
  const std::vector<ValuePtr> needed = kernel_.values->Closure(targets, bound);
  return std::any_of(needed.begin(), needed.end(), [&](ValuePtr value) {
    return value->kind == Value::Kind::kLoad && (value->variables & ElementVariables()) != 0 &&
           !bound(value);
  });
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
