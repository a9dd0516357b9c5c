// Accumulators and rows as types: their structs, where accumulators start and how they merge.
#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

using absl::StrCat;

std::string ResultName(int node, int output) {
  return StrCat("result", node, output == 0 ? "" : "_index");
}

namespace {

// Fields of all their accumulators, wide ones first so that there are no holes.
std::string MembersOf(const std::vector<StageReduce>& reduces) {
  std::string members;
  for (bool wide : {true, false}) {
    for (const StageReduce& s : reduces) {
      for (const Field& field : FieldsOf(s.reduction)) {
        if (IsWide(field) == wide)
          absl::StrAppend(&members, " ", field.type, " ", s.prefix, field.name, ";");
      }
    }
  }
  return members;
}

}  // namespace

std::string StagedGlue::AccStructs() const {
  Text text;
  text.Line("template <int S, class = void> struct Acc;");
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    const std::string members = MembersOf(stages_[stage]);
    text.Line(StrCat("template <class Unused> struct Acc<", stage, ", Unused> {", members, " };"));
  }
  bool declared = false;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    if (!IsJoined(stage)) continue;
    std::string part, members, narrow;
    for (const StageReduce& s : stages_[stage]) {
      if (SquaresOf(stage, s) != nullptr) {
        absl::StrAppend(&part, " float ", s.prefix, "p, ", s.prefix, "r_v, ", s.prefix, "q_v;");
        absl::StrAppend(&members, " double ", s.prefix, "s, ", s.prefix, "q;");
        continue;
      }
      for (const Field& field : FieldsOf(s.reduction)) {
        const std::string member = StrCat(" ", field.type, " ", s.prefix, field.name, ";");
        part += member;
        (IsWide(field) ? members : narrow) += member;
      }
    }
    if (!declared) {
      text.Line("template <int S, class = void> struct Part;");
      text.Line("template <int S, class = void> struct Joined;");
    }
    declared = true;
    text.Line(StrCat("template <class Unused> struct Part<", stage, ", Unused> {", part, " };"));
    text.Line(StrCat("template <class Unused> struct Joined<", stage, ", Unused> {", members,
                     narrow, " };"));
  }
  return text.str();
}

std::string StagedGlue::StaticFunctions() const {
  Text text;
  unsigned chained = 0;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    for (const StageReduce& s : stages_[stage]) {
      if (IsRunningSum(s.reduction) || s.reduction.online) chained |= 1u << stage;
    }
  }
  text.Line(StrCat("template <int S> static WS_DEVICE constexpr bool chained() { return ", chained,
                   "u >> S & 1; }"));
  text.Line("template <int S>");
  text.Open("static WS_DEVICE Acc<S> identity() {");
  text.Line("Acc<S> acc;");
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    text.Open(StrCat("if constexpr (S == ", stage, ") {"));
    for (const StageReduce& s : stages_[stage]) {
      for (const std::string& line : Identity(s.reduction, StrCat("acc.", s.prefix)))
        text.Line(line);
    }
    text.Close();
  }
  text.Line("return acc;");
  text.Close();
  text.Line("template <int S>");
  text.Open("static WS_DEVICE void combine(Acc<S>& a, const Acc<S>& b) {");
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    text.Open(StrCat("if constexpr (S == ", stage, ") {"));
    for (const StageReduce& s : stages_[stage]) {
      for (const std::string& line :
           Merge(s.reduction, StrCat("a.", s.prefix), StrCat("b.", s.prefix)))
        text.Line(line);
    }
    text.Close();
  }
  text.Close();
  unsigned joined = 0;
  for (size_t stage = 0; stage < centred_.size(); ++stage) {
    if (IsJoined(stage)) joined |= 1u << stage;
  }
  text.Line(StrCat("template <int S> static WS_DEVICE constexpr bool joined() { return ", joined,
                   "u >> S & 1; }"));
  if (joined != 0) text.Append(JoinedFunctions());
  return text.str();
}

bool StagedGlue::TotalsRound() const {
  for (const StageReduce& s : totals_) {
    if (IsRunningSum(s.reduction)) return true;
  }
  return false;
}

std::string StagedGlue::TotalFunctions() const {
  Text text;
  text.Line(StrCat("struct Total {", MembersOf(totals_), " };"));
  text.Open("static WS_DEVICE Total identity_total() {");
  text.Line("Total total;");
  for (const StageReduce& s : totals_) {
    for (const std::string& line : Identity(s.reduction, StrCat("total.", s.prefix)))
      text.Line(line);
  }
  text.Line("return total;");
  text.Close();
  text.Open("static WS_DEVICE void combine_total(Total& a, const Total& b) {");
  for (const StageReduce& s : totals_) {
    for (const std::string& line :
         Merge(s.reduction, StrCat("a.", s.prefix), StrCat("b.", s.prefix)))
      text.Line(line);
  }
  text.Close();
  return text.str();
}

// Of a joined stage: sums and sums of squares around 0 in fp64, where what a part has around an
// element of its own loses no digits; accumulators of other reduces as they are.
std::string StagedGlue::JoinedFunctions() const {
  Text part, identity, combine, gather, split;
  part.Line("Part<S> acc;");
  identity.Line("Joined<S> all;");
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    if (!IsJoined(stage)) continue;
    for (Text* text : {&part, &identity, &combine, &gather, &split})
      text->Open(StrCat("if constexpr (S == ", stage, ") {"));
    for (const StageReduce& s : stages_[stage]) {
      const std::string& p = s.prefix;
      const StageReduce* squares = SquaresOf(stage, s);
      if (squares == nullptr) {
        const auto all = [&](Text& text, const std::vector<std::string>& lines) {
          for (const std::string& line : lines) text.Line(line);
        };
        all(part, Identity(s.reduction, StrCat("acc.", p)));
        all(identity, Identity(s.reduction, StrCat("all.", p)));
        all(combine, Merge(s.reduction, StrCat("a.", p), StrCat("b.", p)));
        all(gather, Merge(s.reduction, StrCat("all.", p), StrCat("acc.", p)));
        for (const Field& field : FieldsOf(s.reduction))
          split.Line(StrCat("sums.", p, field.name, " = all.", p, field.name, ";"));
        continue;
      }
      const std::string count = StrCat(context_.domain->reduced(), ".0");
      part.Line(StrCat("acc.", p, "p = acc.", p, "r_v = acc.", p, "q_v = 0;"));
      identity.Line(StrCat("all.", p, "s = all.", p, "q = 0;"));
      combine.Line(StrCat("a.", p, "s += b.", p, "s;"));
      combine.Line(StrCat("a.", p, "q += b.", p, "q;"));
      gather.Line(StrCat("const double ", p, "p = acc.", p, "p, ", p, "r = acc.", p, "r_v;"));
      gather.Line(StrCat("all.", p, "s += count * ", p, "p + ", p, "r;"));
      gather.Line(
          StrCat("all.", p, "q += (count * ", p, "p + 2 * ", p, "r) * ", p, "p + acc.", p, "q_v;"));
      split.Line(StrCat("sums.", p, "v = all.", p, "s;"));
      split.Line(StrCat("squares.", squares->prefix, "v = ws::maximum(all.", p, "q - all.", p,
                        "s * all.", p, "s / ", count, ", 0.0);"));
    }
    for (Text* text : {&part, &identity, &combine, &gather, &split}) text->Close();
  }
  part.Line("return acc;");
  identity.Line("return all;");
  Text text;
  const auto function = [&](const std::string& header, const Text& body) {
    text.Line("template <int S>");
    text.Open(StrCat("static WS_DEVICE ", header, " {"));
    text.Append(body.str());
    text.Close();
  };
  function("Part<S> part()", part);
  function("Joined<S> identity_joined()", identity);
  function("void combine_joined(Joined<S>& a, const Joined<S>& b)", combine);
  function("void gather(Joined<S>& all, const Part<S>& acc, int count)", gather);
  function("void split(const Joined<S>& all, Acc<S>& sums, Acc<S + 1>& squares)", split);
  return text.str();
}

std::string StagedGlue::RowStruct() const {
  Text text;
  const Frame& frame = kernel_.frame;
  if (columns()) {
    text.Line(StrCat("Index ", frame.outer.name, ", ", frame.column.name, ";"));
  } else {
    text.Line(StrCat("Index ", frame.row.name, ";"));
  }
  const std::string lanes = StrCat("[", frame.width, "]");
  for (const RowMembers::Pointer& pointer : shared_.pointers)
    text.Line(StrCat(pointer.type, " ", pointer.name, ";"));
  for (const auto& stage : stages_) {
    for (const StageReduce& s : stage) {
      auto add = [&](int node, int output, const std::string& type) {
        text.Line(StrCat(type, " ", ResultName(node, output), columns() ? lanes : "", ";"));
      };
      const std::string type = ComputeType(s.reduction.type);
      add(s.reduce->node, 0, type);
      if (IsIndexed(s.reduction)) add(s.reduce->node, 1, "long long");
      if (s.online_node >= 0) add(s.online_node, 0, type);
    }
  }
  for (const RowMembers::Member& member : shared_.members) {
    text.Line(StrCat(member.type, " ", member.name, member.lanes ? lanes : "", ";"));
  }
  return text.str();
}

}  // namespace warpsmith::codegen
