// Indexes of the first elements of rows that are not the reference's, and right all the same. Pure.
//
// Which of equal elements are taken is open, so is which comes first of those that rounding makes
// equal, and, where no order was asked for, in which order they are. Where a row is right so, what
// follows from it (weights read at the indexes, say) is another one than the reference's.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/judge/accuracy.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::judge {

// Of so many rows one may have indexes whose values are as far off as the tolerance goes, and not
// only as rounding does; and one may have other elements than the reference.
inline constexpr int64_t kRowsPerLoose = 1000, kRowsPerOther = 100;

// A row whose indexes are not the reference's, and right.
struct RightRow {
  int64_t row = 0;
  // At which place of the row the reference's p-th index is; empty: the row has another element,
  // as large as the last that the reference has, but for rounding.
  std::vector<int> from;
};

// got, want: indexes, in rows of `places`. Rows that are not right, or are more than may be so, are
// left out.
std::vector<RightRow> RightRows(const oracle::Ranking& ranking, const Tolerance& tolerance,
                                int64_t places, absl::Span<const double> got,
                                absl::Span<const double> want);

}  // namespace warpsmith::judge
