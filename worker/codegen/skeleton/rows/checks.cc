// Checks of the rows skeleton's knobs, and how blocks share the sums over rows.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/rows/rows.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Rows that a thread adds up one after another in fp32: as many as a thread of the columns skeleton
// does without chains.
constexpr int64_t kMostRowsOfSum = 64;

void CheckMeeting(const RowsForm& form, const v1::RowsKnobs& rows, const Target& target,
                  Checker& check) {
  const bool passes = form.passes() > 1;
  const int blocks = rows.blocks_per_row(), threads = rows.block_threads();
  check.That(rows.threads_per_row() == threads,
             StrCat("rows.threads_per_row is ", rows.threads_per_row(),
                    "; a row of several blocks has all their threads: ", threads));
  switch (rows.meeting()) {
    case v1::MEETING_CLUSTER:
      check.Range("rows.blocks_per_row of a cluster", blocks, 2, target.max_cluster);
      check.That(IsPowerOfTwo(blocks), StrCat("rows.blocks_per_row is ", blocks,
                                              "; a cluster has a power of two of blocks"));
      break;
    case v1::MEETING_COUNTER:
      check.Range("rows.blocks_per_sm with a counter", rows.blocks_per_sm(), 1,
                  target.max_blocks_per_sm);
      check.Range("rows.blocks_per_row with a counter", blocks, 2,
                  int64_t{rows.blocks_per_sm()} * target.sm_count);
      check.That(blocks < 32 ? IsPowerOfTwo(blocks) : blocks % 32 == 0,
                 StrCat("rows.blocks_per_row is ", blocks,
                        "; with a counter it must be a power of two or a multiple of 32"));
      break;
    case v1::MEETING_SECOND_PASS:
      check.That(!passes,
                 StrCat("rows.meeting SECOND_PASS is for one meeting without outputs of the "
                        "full space; this group has ",
                        form.acc_bytes.size(), " meetings", form.emits ? " and such outputs" : ""));
      check.That(rows.blocks_per_sm() == 0, "rows.blocks_per_sm must be 0 with a second pass");
      break;
    default:
      break;
  }
}

// Groups of blocks and the rows that each of their threads adds up.
struct TotalShares {
  int64_t groups = 1;  // of a segment
  int64_t rows = 1;
};

TotalShares SharesOfTotals(const Domain& domain, const RowsForm& form, const v1::RowsKnobs& rows,
                           bool rounds, const Target& target) {
  const int64_t segments = domain.segment_count(), together = std::max(1, rows.rows_at_once());
  const int64_t in_block =
      rows.blocks_per_row() > 1 ? 1 : rows.block_threads() / rows.threads_per_row();
  const int64_t jobs = CeilDiv(CeilDiv(domain.kept() / segments, together), in_block);
  const int64_t at_once =
      int64_t{rows.blocks_per_sm()} * target.sm_count / rows.blocks_per_row() / segments;
  const int64_t groups = std::clamp<int64_t>(at_once, 1, jobs);
  // Rounds of a block take time, and so does what blocks leave: least where both are the same.
  const double left = 2.0 * static_cast<double>(jobs * segments) * form.total_bytes *
                      static_cast<double>(form.row_elements) / target.bytes_per_second;
  int64_t steps = std::clamp<int64_t>(std::llround(std::sqrt(left / kRoundSeconds)),
                                      CeilDiv(jobs, groups), jobs);
  if (rounds && rows.meeting() != v1::MEETING_COUNTER && steps * together > kMostRowsOfSum) {
    // Whole waves of blocks.
    const int64_t waves = CeilDiv(CeilDiv(jobs, groups) * together, kMostRowsOfSum);
    steps = CeilDiv(jobs, groups * waves);
  }
  return {CeilDiv(jobs, steps), steps * together};
}

bool RoundsTotals(const RowsForm& form, const v1::Group& resolved) {
  return form.totals_round && TotalAccumulator(resolved) == v1::ACCUMULATOR_F32;
}

void CheckTotals(const Domain& domain, const RowsForm& form, const v1::RowsKnobs& rows,
                 const Target& target, Checker& check) {
  const int64_t kept = int64_t{rows.register_vectors() + rows.shared_vectors()} *
                       rows.threads_per_row() * rows.blocks_per_row();
  check.That(!form.streams.empty(),
             "nothing is streamed along the rows that are summed; give the sums over rows another "
             "group");
  check.That(
      form.streams.empty() || kept >= form.vectors(),
      StrCat("rows.register_vectors and rows.shared_vectors keep ", kept, " of the ",
             form.vectors(),
             " vectors of a row; beside sums over rows all of it must be kept: raise them, "
             "rows.threads_per_row or rows.blocks_per_row, or give those sums another group"));
  check.Range("rows.blocks_per_sm beside sums over rows", rows.blocks_per_sm(), 1,
              target.max_blocks_per_sm);
  if (!check.status().ok()) return;
  const int64_t segment_rows = domain.kept() / domain.segment_count();
  check.That(domain.segment_count() == 1 || segment_rows % rows.rows_at_once() == 0,
             StrCat("rows.rows_at_once is ", rows.rows_at_once(), "; ", segment_rows,
                    " rows that are summed must be a multiple of it"));
}

// All blocks are there at once, so each has its share of all rows.
void CheckCounterOfTotals(const Domain& domain, const RowsForm& form, const v1::Group& resolved,
                          const Target& target, Checker& check) {
  const v1::RowsKnobs& rows = resolved.rows();
  const bool rounds = RoundsTotals(form, resolved);
  const TotalShares shares = SharesOfTotals(domain, form, rows, rounds, target);
  const int64_t blocks = shares.groups * domain.segment_count() * rows.blocks_per_row();
  const int64_t resident = int64_t{rows.blocks_per_sm()} * target.sm_count;
  check.That(blocks <= resident, StrCat("rows.meeting is COUNTER; ", blocks, " blocks for ",
                                        domain.segment_count(), " sums over rows, ", resident,
                                        " of them are there at once; take rows.meeting CLUSTER"));
  check.That(!rounds || shares.rows <= kMostRowsOfSum,
             StrCat("rows.meeting is COUNTER and a thread adds up ", shares.rows,
                    " rows in fp32, at most ", kMostRowsOfSum,
                    "; take rows.meeting CLUSTER or precision.accumulator F64 beside sums over "
                    "rows"));
}

void Check(const Domain& domain, const RowsForm& form, const v1::RowsKnobs& rows,
           const Target& target, Checker& check) {
  const int threads = rows.block_threads(), row = rows.threads_per_row();
  check.That(!form.streams.empty() || rows.shared_vectors() == 0,
             "rows.shared_vectors must be 0: nothing is streamed along the rows");
  check.Range("rows.threads_per_row", row, 1, threads);
  check.That(threads % row == 0,
             StrCat("rows.threads_per_row is ", row, "; it must divide block_threads, ", threads));
  check.That(!form.edges() || row >= 2 * form.width,
             StrCat("rows.threads_per_row is ", row,
                    "; rows that are no whole number of vectors need at least ", 2 * form.width));
  check.Range("rows.blocks_per_row", rows.blocks_per_row(), 1, kMaxBlocksPerRow);
  check.That(!form.writes_at_once || rows.results() != v1::RESULTS_CARRIED,
             "rows.results is CARRIED; this group writes its elements once, in the first stage");
  if (const int together = rows.rows_at_once(); together > 1) {
    check.That(!form.writes_at_once,
               StrCat("rows.rows_at_once is ", together,
                      "; this group writes its elements while it reduces, a row at a time"));
    check.That(!form.ragged, StrCat("rows.rows_at_once is ", together,
                                    "; rows that begin anywhere are worked on one at a time"));
    check.That(rows.meeting() != v1::MEETING_SECOND_PASS,
               StrCat("rows.rows_at_once is ", together, "; it must be 1 with a second pass"));
    check.That(together * form.max_acc_bytes <= kMaxAccBytes,
               StrCat("rows.rows_at_once is ", together, "; accumulators of ", form.max_acc_bytes,
                      " bytes leave room for ", kMaxAccBytes / form.max_acc_bytes));
    check.That(together <= domain.kept(),
               StrCat("rows.rows_at_once is ", together, "; there are ", domain.kept(), " rows"));
  }
  if (form.total_bytes > 0) CheckTotals(domain, form, rows, target, check);
  check.That(!rows.meet_twice() || form.could_join,
             "rows.meet_twice is set; no stage sums squares around means of the one before");
  check.That(rows.results() != v1::RESULTS_CARRIED || form.row_elements >= form.width,
             StrCat("rows.results is CARRIED; rows of ", form.row_elements,
                    " elements have no whole vector of ", form.width));
  // A block without a vector of its own has nothing to do.
  check.That(rows.blocks_per_row() <= std::max<int64_t>(1, form.vectors()),
             StrCat("rows.blocks_per_row is ", rows.blocks_per_row(), "; a row has ",
                    form.vectors(), " vectors"));
  if (rows.blocks_per_row() > 1) {
    CheckMeeting(form, rows, target, check);
  } else {
    check.That(rows.meeting() == v1::MEETING_AUTO,
               "rows.meeting must be AUTO where a row has one block");
  }
  CheckResidency("rows", threads, rows.blocks_per_sm(), RowsSharedBytes(rows, form),
                 "rows.shared_vectors or rows.block_threads", target, check);
}

}  // namespace

v1::Accumulator TotalAccumulator(const v1::Group& knobs) {
  const bool many = knobs.rows().meeting() == v1::MEETING_COUNTER;
  const bool wide = knobs.precision().accumulator() == v1::ACCUMULATOR_F64;
  return many && wide ? v1::ACCUMULATOR_F64 : v1::ACCUMULATOR_F32;
}

int64_t RowsSharedBytes(const v1::RowsKnobs& rows, const RowsForm& form) {
  const int64_t threads = rows.block_threads();
  const int64_t scratch = 2 * kMaxAccBytes * (threads / 32) + 2 * kMaxAccBytes;
  const bool several = rows.blocks_per_row() <= 1 && rows.threads_per_row() < threads;
  return scratch +
         rows.shared_vectors() * threads * form.width *
             (form.stream_bytes * std::max(1, rows.rows_at_once()) + form.total_bytes) +
         (several ? threads * form.width * form.total_bytes : 0);
}

int64_t TotalGroups(const Domain& domain, const RowsForm& form, const v1::Group& resolved,
                    const Target& target) {
  const bool rounds = RoundsTotals(form, resolved);
  return SharesOfTotals(domain, form, resolved.rows(), rounds, target).groups;
}

absl::StatusOr<v1::Group> ResolveRows(const Analysis& group, const Domain& domain,
                                      const RowsForm& form, const v1::Group& knobs,
                                      const Target& target) {
  v1::Group resolved = knobs;
  v1::RowsKnobs& rows = *resolved.mutable_rows();
  Checker check(group.name());
  check.That(rows.block_threads() == 0 || rows.threads_per_row() <= rows.block_threads(),
             StrCat("rows.threads_per_row is ", rows.threads_per_row(),
                    "; it must be at most block_threads, ", rows.block_threads()));
  if (!check.status().ok()) return check.status();
  FillRows(domain, form, target, rows);
  Check(domain, form, rows, target, check);
  if (!check.status().ok()) return check.status();
  if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO) {
    const int64_t threads = int64_t{rows.threads_per_row()} * rows.blocks_per_row();
    resolved.mutable_precision()->set_accumulator(
        AccumulatorFor(group, domain, domain.reduced() / threads));
  }
  if (form.total_bytes > 0 && rows.meeting() == v1::MEETING_COUNTER)
    CheckCounterOfTotals(domain, form, resolved, target, check);
  if (!check.status().ok()) return check.status();
  return resolved;
}

}  // namespace warpsmith::codegen
