// Skeleton `scan`: cumulative combinations along one axis, in one pass, with maps before and after.
//
// The axis is gone through in chunks, each in the registers of its threads; what stands before a chunk
// is carried along. Loads of the next STAGES chunks are in flight in the threads' own slots of shared
// memory all the while, also while threads meet. A chunk is combined within threads, then among the
// lanes of a warp, the warps of a block and the blocks of a row, in order at each level, so that errors
// of floating-point sums grow with the depth of that tree and the number of chunks, not of elements.
//
// Where rows (or columns) are too few to keep the card busy, BLOCKS of them share each chunk: every
// block posts what its part combines to and reads what all others posted, in one meeting a chunk. All
// blocks must be resident then (cooperative launch), and `exchange` has kExchangeBytes of zeros for each
// group of BLOCKS blocks in the grid. Nobody waits for what another block made of its predecessors, so
// there is no chain of waits and the result is the same in each run. Along rows a block posts a chunk
// some chunks before it needs the others' posts for it, so that the way there and back costs nothing;
// the chunk stays in shared memory until then.
//
// `scan_rows` goes along the contiguous axis: vectors of V elements, V divides the row, THREADS_PER_ROW
// threads (or all of BLOCKS blocks) a row; a chunk of a thread is VECTORS vectors, a warp's stand
// together. `scan_columns` goes along an outer axis: a thread has V neighbouring columns and VECTORS
// consecutive places of the axis, and THREAD_ROWS threads of a block share the axis.
//
// G gives the kernels meaning: kReverse (the axis is gone through from its end), kExclusive, Acc with
// identity() and combine(acc, next) (acc becomes acc, then next), loads, elements (the values that are
// combined: Element, no_element() where there is none) and emit (what is stored). Element is Acc, but
// for products of floats (kProduct): a float there, and Acc is Gain. Loads go to slots of shared memory: of the N vectors of a chunk
// each stream has its own array. With kEnds rows are of one chunk and one block, and emit is told
// what the row comes to at its end.
//
// Dynamic shared memory: kScratchBytes + STAGES * VECTORS * THREADS * V * G::kStreamBytes.
#pragma once
#include <warpsmith/scan_columns.cuh>
#include <warpsmith/scan_rows.cuh>
