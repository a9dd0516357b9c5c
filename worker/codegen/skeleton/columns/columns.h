// Reductions over outer axes while the contiguous ones stay: neighbouring threads own neighbouring
// columns.
#pragma once

#include "worker/codegen/skeleton/skeleton.h"
#include "worker/codegen/skeleton/staged/staged.h"

namespace warpsmith::codegen {

// The domain as (o, k, c): kept axes outside, reduced ones, kept contiguous ones.
struct ColumnsSizes {
  std::vector<bool> inner;  // of the domain's axes: which are columns
  int64_t outer = 1, columns = 1;
};

// What vectors of columns are, before any text.
struct ColumnsForm {
  absl::Status status;
  ColumnsSizes sizes;
  int width = 1;  // V
  int streams = 0, stream_bytes = 0;
  int max_acc_bytes = 4;
  std::vector<int> acc_bytes;  // of each stage
  bool emits = false, row_outputs = false;
  bool writes_at_once = false;  // elements of the full space in the first stage, not behind all
};

// The widest vectors of up to `bytes` that fit.
ColumnsForm FormColumns(const Analysis& group, const Domain& domain, int bytes,
                        v1::Accumulator accumulator);
// Defaults, checks and places to try (knobs.cc).
absl::StatusOr<v1::Group> ResolveColumns(const Analysis& group, const Domain& domain,
                                         const ColumnsForm& form, const v1::Group& knobs,
                                         const Target& target);
std::vector<Layout> ColumnsLayouts(const Domain& domain, const ColumnsForm& form,
                                   const v1::Group& resolved, const Target& target);
// Dynamic shared memory of a block, as columns.cuh states it.
int64_t ColumnsSharedBytes(const v1::ColumnsKnobs& knobs, const ColumnsForm& form);

const Skeleton* ColumnsSkeleton();

}  // namespace warpsmith::codegen
