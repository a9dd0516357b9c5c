// What rows and columns have in common: stages with accumulators, results that belong to a row (or
// to V columns), and values of a row that are computed once and kept with it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/group/centred.h"
#include "worker/codegen/ir/combine.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {

// Bytes that the accumulators of a stage may have (ws::kMaxAcc).
inline constexpr int kMaxAccBytes = 32;
// Bytes that totals may have for each place of a row.
inline constexpr int kMaxTotalBytes = 32;

// One member of a stage's accumulator.
struct StageReduce {
  const Kernel::Reduce* reduce = nullptr;
  Reduction reduction;
  std::string prefix;    // "a0_"
  int online_node = -1;  // node of the sum that is joined to this maximum
};

// What a row keeps beside its number: values of its own and pointers to where it begins. Two vector
// widths of one kernel share them.
struct RowMembers {
  struct Member {
    int form = -1;
    std::string type, name;
    bool lanes = false;  // one for each lane
    int stage = -1;      // after which it is known
    const void* owner = nullptr;
    ValuePtr value = nullptr;
  };
  struct Pointer {
    std::string key, type, name;
    const void* owner = nullptr;
    int tensor = -1;
    Index base;
  };
  std::vector<Member> members;
  std::vector<Pointer> pointers;
  std::map<std::string, int> forms;  // numbers of how values are made: the same in both kernels
};

// The row's member that holds a stage's result.
std::string ResultName(int node, int output);

class StagedGlue {
 public:
  // `row`: how functions call the row ("row", or "column" where lanes run across rows, V of them to
  // a thread). `parts`: partial results that a row is split into.
  StagedGlue(const GroupContext& context, const Kernel& kernel,
             const std::vector<Parameter>& parameters, const std::string& row, int64_t parts,
             RowMembers& members);

  absl::Status Prepare();  // accumulators; InvalidArgument: too many in a stage
  int AccBytes(int stage) const;
  // Whether the stage and the next, of squares around its means, meet as one; bytes of both.
  bool IsJoined(int stage) const { return !centred_[stage].empty(); }
  int JoinedBytes(int stage) const;
  int TotalBytes() const { return BytesOf(totals_); }  // of all totals, for a place of a row
  // Whether indexes of a row's elements fit an int.
  bool FitsInt() const;
  void SetIndexType(const std::string& type);

  // A vector that was loaded before, as the element of a lane: of a load, or of a select of loads
  // one of which all lanes take (what was concatenated).
  void BindStream(ValuePtr stream, const std::string& element) {
    streams_.push_back({stream, element});
  }
  // Streams' elements stay from one pass to the next, and may be written: of a stage whose value is
  // all that later passes need of them (what is exponentiated, then its exponential) AccumulateBody
  // leaves it in the first stream's place, and bodies asked for behind it read it there.
  void HoldValues() { holds_ = true; }
  // Results of the scan are those of the array `result`, an element a lane.
  void BindScan(const Reduction& reduction) { scan_ = reduction; }
  // Whether a position whose lanes are neighbours allows one access.
  void SetAligned(std::function<bool(const Index&)> aligned) { aligned_ = std::move(aligned); }

  // Bodies of the functions. `hint`: of ws::load, in place of the style's.
  std::string LoadBody(const std::vector<ValuePtr>& streams, const std::string& hint = "");
  std::string LoadSharedBody(const std::vector<ValuePtr>& streams, const std::vector<int>& offsets);
  // joined: of a stage that meets with the next, into a Part; `first` says that it is its first.
  std::string AccumulateBody(int stage, bool joined = false);
  std::string EmitBody();  // roots of the full space, unless they are written at once
  // What rows that are worked on together share, with Style.rows_share: members of their struct,
  // and the loads.
  std::string CommonMembers() const;
  std::string CommonBody();
  int CommonBytes() const;  // of a position
  // `totals[lane]`: what an element adds to them. And behind all rows, in lanes of one: roots that
  // are made of `total`.
  std::string TotalBody();
  std::string EmitTotalBody();
  std::string ScanElementsBody();  // `element[lane]`: what is scanned
  // What follows ask for no more members. stage -1: what the row begins with.
  std::string FinishBody(int stage, bool results);
  std::string EmitRowBody();

  std::string AccStructs() const;       // Part and Joined among them
  std::string StaticFunctions() const;  // chained, identity, combine; of joined stages
  std::string TotalFunctions() const;   // struct Total; identity_total, combine_total
  std::string RowStruct() const;        // its members

  bool HasRoots(Level level) const;
  bool HasTotals() const { return !totals_.empty(); }
  bool TotalsRound() const;  // some are sums that each addition rounds
  // Whether there are roots of the full space and none needs a stage's result: the first stage
  // writes them, behind what it reads of an element.
  bool WritesAtOnce() const;
  // Whether EmitBody reads memory beside the streams for each element (weights, say).
  bool EmitReads() const;
  ValuePtr ReduceValue(size_t i) const { return kernel_.reduces[i].value; }

 private:
  bool columns() const { return row_ == "column"; }
  std::string JoinedFunctions() const;
  std::string Acc() const;  // "acc" or "acc[j]"
  // Brings a stream: `bring` says how one of its loads is, `place` where a lane of it is kept.
  std::string BringText(Emitter& emitter, ValuePtr stream,
                        const std::function<std::string(ValuePtr load)>& bring,
                        const std::function<std::string(int lane)>& place);
  std::string ReduceBody(int stage, bool joined);
  // The value of a stage that is to be held; nullptr.
  ValuePtr HeldOf(int stage) const;
  std::string StoreBody();
  std::string Lane(bool lanes) const;
  std::pair<Index, Index> Split(const Index& position) const;
  int FormOf(ValuePtr value);
  bool IsFixed(ValuePtr value) const;  // the same for the whole row
  bool RowFitsInt() const;
  const RowMembers::Member& MemberOf(ValuePtr value);
  void BindRowValues(Emitter& emitter, const std::vector<ValuePtr>& targets);
  void ReadElement(Emitter& emitter, const std::vector<ValuePtr>& targets);
  std::string PositionOf(Emitter& emitter, const Kernel::Reduce& reduce,
                         const Reduction& reduction) const;
  void BindResults(Emitter& emitter) const;
  // Row variables as locals, where the text uses them.
  std::string WithLocals(const std::string& body, const std::string& type) const;
  uint64_t ElementVariables() const;
  // Positions that are divided are the same for every row: without care the compiler computes those
  // of all kept vectors beforehand and has no registers left for the vectors.
  void ForgetPosition(Emitter& emitter) const;
  std::vector<ValuePtr> StageValues(int stage) const;
  std::vector<ValuePtr> TotalValues() const;
  StageReduce Reduced(const Kernel::Reduce& reduce, int64_t elements, size_t number) const;
  static int BytesOf(const std::vector<StageReduce>& reduces);  // of their accumulators
  std::vector<std::string> Deviate(const std::string& acc,
                                   const std::vector<std::string>& values) const;
  const StageReduce& StageOf(int reduce) const;  // of Kernel::reduces
  // The squares around the mean of a sum of a joined stage; nullptr.
  const StageReduce* SquaresOf(int stage, const StageReduce& sum) const;
  std::vector<ValuePtr> CommonLoads() const;

  const GroupContext& context_;
  const Kernel& kernel_;
  const std::vector<Parameter>& parameters_;
  const std::string row_;
  const int64_t parts_;
  RowMembers& shared_;
  Dialect element_, row_level_;
  std::vector<std::vector<StageReduce>> stages_;
  std::vector<StageReduce> totals_;
  std::vector<std::vector<CentredSquares>> centred_;  // of the stage after; empty: meets alone
  std::vector<std::pair<ValuePtr, std::string>> streams_;
  bool holds_ = false;
  std::optional<Reduction> scan_;
  std::function<bool(const Index&)> aligned_;
  std::map<int, int> forms_;  // by the value's id
  bool divides_position_ = false;
};

}  // namespace warpsmith::codegen
