// Scans along any axis, with maps before and after. worker/kernels/scan.cuh runs them: along the
// contiguous axis as rows, (r, k); along another as columns, (o, k, c).
#pragma once

#include <string>
#include <vector>

#include "worker/codegen/ir/combine.h"
#include "worker/codegen/skeleton/skeleton.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

// The domain as (o, k, c): axes outside the carried one, that one, and those inside.
struct ScanSizes {
  std::vector<bool> inner;  // of the domain's axes: which are columns
  int64_t outer = 1, columns = 1;
  bool rows() const { return columns == 1; }
};

// What vectors of it are, before any text.
struct ScanForm {
  absl::Status status;
  ScanSizes sizes;
  Kernel kernel;
  Reduction reduction;
  int width = 1;                  // V, of a row or of columns
  int64_t length = 1;             // of the axis, in vectors (columns: places)
  std::vector<ValuePtr> streams;  // loads of what is scanned, by vectors
  std::vector<int> offsets;       // of each array of a chunk, bytes a position
  int stream_bytes = 0;           // of a position of all of them
  int acc_bytes = 4;
  bool gains = false;  // products of floats: ws::Gain
  bool ends = false;   // what a row comes to at its end is needed all along it
};

// The widest vectors of up to `bytes` that fit.
ScanForm FormScan(const Analysis& group, const Domain& domain, int bytes,
                  v1::Accumulator accumulator);
// The struct that scan.cuh asks for.
absl::Status WriteScan(const Analysis& group, const Domain& domain, const v1::Group& resolved,
                       const ScanForm& form, KernelWriter& writer);

// Defaults and checks of the knobs, and places to try beside them (knobs.cc).
absl::StatusOr<v1::Group> ResolveScan(const Analysis& group, const ScanForm& form,
                                      const v1::Group& knobs, const Target& target);
std::vector<Layout> ScanLayouts(const ScanForm& form, const v1::Group& resolved,
                                const Target& target);
// Dynamic shared memory of a block, as scan.cuh states it.
int64_t ScanSharedBytes(const v1::ScanKnobs& knobs, const ScanForm& form);
// What a grid of this many blocks exchanges words in, as scan.cuh states it; 0: none meet.
int64_t ScanExchangeBytes(const v1::ScanKnobs& knobs, const ScanForm& form, int64_t grid);
// Rows (or tiles of columns) that groups of blocks take one after the other.
int64_t ScanSets(const v1::ScanKnobs& knobs, const ScanForm& form);

const Skeleton* ScanSkeleton();

}  // namespace warpsmith::codegen
