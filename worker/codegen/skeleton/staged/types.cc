// Accumulators and rows as types: their structs, where accumulators start and how they merge.
#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

using absl::StrCat;

bool IsWide(const Field& field) { return field.type == "double" || field.type == "long long"; }

std::string ResultName(int node, int output) {
  return StrCat("result", node, output == 0 ? "" : "_index");
}

std::string StagedGlue::AccStructs() const {
  Text text;
  text.Line("template <int S, class = void> struct Acc;");
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    std::string members;
    for (bool wide : {true, false}) {  // no holes
      for (const StageReduce& s : stages_[stage]) {
        for (const Field& field : FieldsOf(s.reduction)) {
          if (IsWide(field) == wide)
            absl::StrAppend(&members, " ", field.type, " ", s.prefix, field.name, ";");
        }
      }
    }
    text.Line(StrCat("template <class Unused> struct Acc<", stage, ", Unused> {", members, " };"));
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
