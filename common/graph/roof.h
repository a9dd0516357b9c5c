// The speed of light: what a run must move and compute at the least, and how long a card takes for
// it.
#pragma once

#include <cstdint>

namespace warpsmith::graph {

// Multiplications and additions of sums of products, two for each pair of factors, by what the
// factors are in memory. Those of fp64 are no products here: other units do them.
struct Products {
  double eight = 0;      // both numbers of float8_e4m3fn
  double narrow = 0;     // both of 16 bits or fewer
  double mixed = 0;      // one of them
  double wide = 0;       // neither: fp32
  bool windows = false;  // some are convolutions: read at places that move with what is summed

  double all() const { return eight + narrow + mixed + wide; }
};

// What a run must do at the least. Gathers and strided windows count what they touch, at most the
// tensor.
struct Cost {
  int64_t read_bytes = 0;     // each needed input element once
  int64_t written_bytes = 0;  // each element of outputs and updated states once
  double operations = 0;      // floating-point operations, the fewest known (work.h)
  double transcendental = 0;  // of them exp, log, tanh, erf, pow, sin, cos, sqrt, division
  Products products;          // of them

  int64_t bytes() const { return read_bytes + written_bytes; }
};

// Peak rates, a second; 0: unknown, which limits nothing. A copy counts what it reads and what it
// writes.
struct Roof {
  double read_bytes = 0, write_bytes = 0, copy_bytes = 0;
  double operations = 0;  // fp32, outside of tensor cores
  // Tensor cores, 16-bit factors and fp32 sums, operations (of eight-bit floats twice as many); 0:
  // there are none. Power decides, and data decide the power: of random factors, and of those that
  // take the least.
  double products = 0, most_products = 0;

  // Where one rate of memory is all that is known.
  static Roof Of(double bytes, double operations) {
    return {
        .read_bytes = bytes, .write_bytes = bytes, .copy_bytes = bytes, .operations = operations};
  }

  // The least time in which so many bytes are read and written. Memory that turns from reading to
  // writing and back is slower than in either alone, and how often it has to turn grows with the
  // smaller of the two: so much of both goes at a copy's rate, what is left at its own. Kernels
  // that do one after the other come to the same.
  double MemorySeconds(double read, double written) const;
};

// How near fp32's results an answer has to be, which decides what its products may be made of on
// tensor cores.
enum class Fp32 {
  kKept,    // as near: three products of parts of 16 bits (two, where one factor has 16)
  kCoarse,  // eleven bits of a factor are enough: one
};

// The least time that each kind of work takes alone.
struct Light {
  double memory = 0, operations = 0, products = 0;  // operations: outside of tensor cores

  // All of them may go on at once.
  double seconds() const;
};

// By the fastest of the units that may do the products. The latter: with the data that takes the
// least power, which no run is faster than.
Light LightOf(const Cost& cost, const Roof& roof, Fp32 fp32 = Fp32::kKept);
Light LeastOf(const Cost& cost, const Roof& roof, Fp32 fp32 = Fp32::kKept);

double LightSeconds(const Cost& cost, const Roof& roof, Fp32 fp32 = Fp32::kKept);

}  // namespace warpsmith::graph
