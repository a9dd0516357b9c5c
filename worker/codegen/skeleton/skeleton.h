// A skeleton: one way of running a group's domain on a card. Each has a folder of its own, a header
// of device code in worker/kernels, and a message of knobs in schedule.proto; none knows another.
// registry.cc alone lists them.
//
//   for (const Skeleton* skeleton : Skeletons()) if (skeleton->Matches(group).ok()) ...
//   auto resolved = skeleton->Resolve(group, knobs, target);     // no text yet
//   auto use = skeleton->Use(group, *resolved, target);
//   skeleton->Emit(group, *resolved, target, writer);            // text and launches
//
// Stateless, and so thread-safe; an Analysis is not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/group/analysis.h"
#include "worker/codegen/knob/knob.h"
#include "worker/codegen/plan/writer.h"

namespace warpsmith::codegen {

// Bytes that memory moves at once.
inline constexpr int kSectorBytes = 32;

// What resolved knobs make of a group: what it takes of the card, and what is seen of it in states.
struct Usage {
  // per block
  int threads = 0;
  int64_t shared_bytes = 0;  // dynamic
  int64_t registers = 0;     // a thread, estimated
  // of the card
  int64_t blocks = 0;           // of the first kernel's grid
  int blocks_per_sm = 0;        // asked for; 0: as many as come
  int64_t workspace_bytes = 0;  // beside tensors between groups
  int launches = 1;
  int64_t left_bytes = 0;      // of its workspace, that a kernel leaves for the next
  double scattered_bytes = 0;  // moved beyond those that are written, of sectors
  int64_t rounds = 0;  // that each block works on one after another, where that holds it; 0: not
  // of the work
  double points = 0;           // that are computed, in place of all of the domain's; 0: those
  double operations = 0;       // beside those of its points
  double summing_seconds = 0;  // beside all else: of a product's end, of rounds, of lists
  double products = 0;  // multiplications with their additions, in place of its points' operations
  // That they take with all their kernels but what adds up their ends, without launches.
  double product_seconds = 0;
  double tensor_products = 0;  // of 16 bits, on tensor cores: what those products are made of
  int passes = 1;              // over what is streamed
  double kept = 1;             // part of it that stays on chip from one pass to the next
  int streams = 0;             // tensors read along the whole domain
  int64_t stream_bytes = 0;    // of a point of all of them
  int width = 1;               // elements of an access
  bool aligned = true;         // rows begin where accesses may
  bool cached = false;         // what is read again comes from L2
  bool recomputes = false;     // two threads may compute, and write, the same element
  bool reads_first = false;    // a thread reads all that a place is made of before it writes there
};

class Skeleton {
 public:
  virtual ~Skeleton() = default;
  virtual SkeletonCase id() const = 0;
  // Of worker/kernels, without ending: "rows". Of resolved knobs.
  virtual const char* header(const v1::Group& resolved, const Target& target) const = 0;
  // The domain that it would run. InvalidArgument says why it cannot.
  virtual absl::StatusOr<const Domain*> Matches(const Analysis& group) const = 0;
  // Of one that matches: how well it suits, 0 to 1. Where a schedule leaves the skeleton open, the
  // best is taken, the first of equals.
  virtual double Suits(const Analysis& group, const Target& target) const = 0;
  // Every knob set, and checked. `knobs` are within their rows' ranges and of this skeleton (or
  // open). InvalidArgument names the group and the knob.
  virtual absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                            const Target& target) const = 0;
  // Of resolved knobs.
  virtual absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                                    const Target& target) const = 0;
  virtual std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                                      const Target& target) const = 0;
  // Writes kernels and launches. What can be refused was refused before, but for limits of text
  // (loops of a kernel, bytes of accumulators).
  virtual absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                            KernelWriter& writer) const = 0;
};

// All of them, in the order in which equals are preferred.
const std::vector<const Skeleton*>& Skeletons();
const Skeleton* FindSkeleton(SkeletonCase id);  // nullptr: not set
// The one that a group with these knobs runs on: its own, or the one that suits best.
absl::StatusOr<const Skeleton*> ChooseSkeleton(const Analysis& group, const v1::Group& knobs,
                                               const Target& target);
// Ranges, skeleton, defaults, checks: a group of which every knob is set.
absl::StatusOr<v1::Group> ResolveGroup(const Analysis& group, const v1::Group& knobs,
                                       const Target& target);

// ---- what several skeletons use -----------------------------------------------------------------

// What the largest reduce asks for by how it reads memory.
enum class Walk {
  kAlone,   // a thread for each result
  kAlong,   // lanes along contiguous reduced axes
  kAcross,  // lanes across contiguous kept axes, each along reduced ones
};
Walk WalkOf(const Domain& stages);

// F64 where a thread adds up `elements` values one after another and loses digits by that, else
// F32.
v1::Accumulator AccumulatorFor(const Analysis& group, const Domain& domain, int64_t elements);

// Blocks of these sizes, persistent or not: for skeletons whose threads meet nobody.
std::vector<Layout> ThreadLayouts(const Target& target);

// Limits that the card sets, with a message that names the knobs; `cure`: those that make
// shared_bytes less, "scan.vectors or scan.chunks".
void CheckResidency(const char* skeleton, int64_t threads, int64_t blocks_per_sm,
                    int64_t shared_bytes, const char* cure, const Target& target, Checker& check);

// Registers that a thread of a skeleton needs beside the vectors it keeps.
inline constexpr int kWorkRegisters = 34;
// What a round of a block takes that waits for its loads and for its threads to meet, others beside
// it (measured on an H200).
inline constexpr double kRoundSeconds = 1.25e-6;
// Bytes of shared memory that a block uses beside what it asks for.
inline constexpr int64_t kReservedShared = 1 << 10;

}  // namespace warpsmith::codegen
