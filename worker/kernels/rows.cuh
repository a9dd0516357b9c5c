// Skeleton `rows`: reductions over the contiguous axis, in as many dependent stages as needed, with
// maps before, between and after (sums, softmax, norms, losses, argmax).
//
// A row of K elements belongs to THREADS_PER_ROW threads of a block, or to BLOCKS_PER_ROW whole
// blocks. It is cut into vectors of V elements; vector j * T + t belongs to thread t of the row's T.
// A thread's first REGISTER_VECTORS vectors stay in registers and the next SHARED_VECTORS in its own
// slots of shared memory from one stage to the next; what is left is read again, UNROLL vectors in
// flight. Persistent blocks refill each slot with the next row's vector as soon as the old one has
// been stored, so that memory stays busy while the blocks meet.
//
// Blocks of a row meet in a cluster (distributed shared memory) or in global memory; for the latter
// all blocks must be resident (cooperative launch), and `exchange` has kExchangeBytes of zeros for each
// group of BLOCKS_PER_ROW blocks in the grid. Partial results alternate between two places, so one
// meeting a stage is enough.
//
// Loops over shared slots are hardly unrolled, unless something else is read for each (G::kEmitReads):
// there is nothing to keep in flight, and the compiler would hold many slots' values at once and spill
// the registers that hold the row.
//
// Dynamic shared memory: RowsConfig::kScratchBytes + (SHARED_VECTORS + AHEAD) * THREADS * V * kStreamBytes, and that of
// totals.
//
// With CARRIES what a stage computes of a vector in registers is at hand in those after it (and takes more
// registers); a row then has a vector at least, and threads beyond its last one compute that again, so that
// no condition stands between. Else each stage computes it anew.
//
// chained<S>() says that a stage adds up floats: a long sum is then cut into chains (kChain).
//
// joined<S>() says that stage S sums and stage S + 1 sums the squares around the means of just that. They
// then meet once: `deviate` adds up how far a few vectors lie from the first element of them, and the squares
// of that (a Part<S>), `gather` adds such a part to a Joined<S>, which holds sums and sums of squares around 0
// in fp64; those merge by addition, and `split` makes of them what each stage would have given.
//
// With totals (G::kTotals, rows_totals.cuh) rows are added up place by place as well. Blocks are persistent then,
// and a group of blocks works on rows of one segment.
//
// With AHEAD (rows_ahead.cuh) blocks that meet at a counter have a row in SHARED_VECTORS whole, and so many slots
// more, in which the next row is on its way and is added up while this one is written. With COMMON, G being
// RowsAtOnce, what rows share of a thread's first COMMON vectors stays in registers.
//
// With CACHED what is read again is kept in the second-level cache till then; for that G has load<V, HINT>, with
// the hint of ws::load.
//
// Rows that start anywhere (G::kRagged): head(row) elements before the first aligned vector and the
// elements behind the last are single elements of the first 2 * V threads of the row.
#pragma once
#include <warpsmith/rows_ahead.cuh>
#include <warpsmith/rows_at_once.cuh>

namespace ws {

// `segments` of `rows` rows each, of which the same number of groups of blocks have a segment each to work on.
// `partial`: [group][K] totals, or nothing.
template <class G, class C>
WS_DEVICE void rows(const G& g, typename G::Index rows, typename G::Index K, void* exchange, typename G::Index segments = 1,
                    typename G::Total* partial = nullptr) {
  using Index = typename G::Index;
  RowGroup<G, C> group;
  group.lane = thread() % C::kThreadsPerRow;
  group.rank = C::kBlocksPerRow > 1 ? block() % C::kBlocksPerRow : 0;
  const Index number = block() / C::kBlocksPerRow;
  const Index groups = blocks() / C::kBlocksPerRow / segments;   // of a segment
  const Index segment = segments > 1 ? number / groups : 0;
  const Index first_group = number - segment * groups, base = segment * rows;
  if constexpr (C::kMeeting == kCounter) {
    group.exchange = static_cast<unsigned long long*>(exchange) + number * Index(2 * C::kBlocksPerRow * (kMaxAcc / 4));
  }
  if constexpr (C::kAhead > 0) {
    rows_ahead<G, C>(g, group, number, blocks() / C::kBlocksPerRow, rows, K);
    return;
  }
  RowTotals<G, C> totals;
  totals.begin();
  RowPart<G, C> part(g, K, group.rank * C::kThreads + group.lane);
  const Index in_block = C::kRowsPerBlock > 1 ? thread() / C::kThreadsPerRow : 0;
  Index r = first_group * C::kRowsPerBlock + in_block;
  // Threads of a row beyond the last one meet like the others but work on no row of their own.
  const Index steps = C::kPersistent ? (rows + C::kRowsPerBlock - 1) / C::kRowsPerBlock : first_group + 1;
  typename G::Row row = g.row(base + (r < rows ? r : rows - 1));
  part.load_all(row);
  for (Index step = first_group; step < steps; step += groups) {
    row_stages<G, C, 0>(g, part, group, row);
    const bool mine = C::kRowsPerBlock == 1 || r < rows;
    const Index next_r = r + groups * C::kRowsPerBlock;
    const bool more = C::kPersistent && step + groups < steps;
    typename G::Row next = g.row(base + (more && next_r < rows ? next_r : rows - 1));
    if constexpr (G::kRowOutputs) {
      if (mine && part.t == 0) g.emit_row(row);
    }
    if (mine) {
      part.template emit<C::kPersistent>(row, next, more, totals);
    }
    row = next;
    r = next_r;
  }
  totals.leave(K, part.t, number, partial);
  if constexpr (C::kMeeting == kCluster) sync_cluster();   // a peer may still read this block's partials
}

// First of two kernels: BLOCKS_PER_ROW blocks each leave a partial result of a row.
template <class G, class C>
WS_DEVICE void rows_partial(const G& g, typename G::Index K, typename MeetingOf<G, 0>::Acc* partial) {
  using Index = typename G::Index;
  const int rank = block() % C::kBlocksPerRow;
  const Index r = block() / C::kBlocksPerRow;
  RowPart<G, C> part(g, K, rank * C::kThreads + thread());
  RowGroup<G, Unmet<C>> group;
  group.lane = thread();
  const typename G::Row row = g.row(r);
  part.load_all(row);
  auto acc = part.template accumulate<0>(row);
  group.template reduce<0>(acc);
  if (thread() == 0) partial[r * Index(C::kBlocksPerRow) + rank] = acc;
}

// Second: a block of THREADS for each row combines them and ends the row.
template <class G, int THREADS>
WS_DEVICE void rows_combine(const G& g, typename G::Index blocks_per_row, const typename MeetingOf<G, 0>::Acc* partial) {
  using Index = typename G::Index;
  using C = RowsConfig<1, THREADS, THREADS, 1, kAlone, 0, 0, 1, false>;
  const Index r = block();
  typename G::Row row = g.row(r);
  auto acc = MeetingOf<G, 0>::nothing();
  for (Index i = thread(); i < blocks_per_row; i += THREADS) MeetingOf<G, 0>::merge(acc, partial[r * blocks_per_row + i]);
  RowGroup<G, C> group;
  group.lane = thread();
  group.template reduce<0>(acc);
  MeetingOf<G, 0>::finish(g, row, acc);
  if constexpr (G::kRowOutputs) {
    if (thread() == 0) g.emit_row(row);
  }
}

}  // namespace ws
