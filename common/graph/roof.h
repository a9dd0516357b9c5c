// The speed of light: what a run must move and compute at the least, and how long a card takes for
// it.
#pragma once

#include <cstdint>

namespace warpsmith::graph {

// What a run must do at the least. Gathers and strided windows count what they touch, at most the
// tensor.
struct Cost {
  int64_t read_bytes = 0;     // each needed input element once
  int64_t written_bytes = 0;  // each element of outputs and updated states once
  double operations = 0;      // floating-point operations of all nodes as written
  double transcendental = 0;  // of them exp, log, tanh, erf, pow, sin, cos, sqrt, division

  int64_t bytes() const { return read_bytes + written_bytes; }
};

// Peak rates, a second; 0: unknown, which limits nothing. A copy counts what it reads and what it
// writes.
struct Roof {
  double read_bytes = 0, write_bytes = 0, copy_bytes = 0;
  double operations = 0;  // fp32

  // Where one rate of memory is all that is known.
  static Roof Of(double bytes, double operations) { return {bytes, bytes, bytes, operations}; }

  // The least time in which so many bytes are read and written. Memory that turns from reading to
  // writing and back is slower than in either alone, and how often it has to turn grows with the
  // smaller of the two: so much of both goes at a copy's rate, what is left at its own. Kernels
  // that do one after the other come to the same.
  double MemorySeconds(double read, double written) const;
};

// The larger of the times that memory and operations take.
double LightSeconds(const Cost& cost, const Roof& roof);

}  // namespace warpsmith::graph
