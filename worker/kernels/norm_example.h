// Norms over rows as code generation would write them for the skeleton `rows`, several rows at
// once: for tests and benchmarks of RowsAtOnce.
#pragma once

#include <cstdint>
#include <string>

namespace warpsmith::kernels {

// y[r, k] = (x[r, k] - mean) * rstd * weight[k] + bias[k]; without `centred` an RMS norm, without
// bias. Row r begins at (r / heads) * pitch + (r % heads) * elements of x, and is dense in y.
struct NormProblem {
  int64_t rows = 1, elements = 1;
  int64_t heads = 1, pitch = 0;  // pitch 0: dense
  int bytes = 4;                 // fp32, or 2: bf16; weights are fp32
  bool centred = true;
  bool one_stage = false;  // mean and variance from one meeting
};

struct NormKnobs {
  int vector = 4, threads = 256, threads_per_row = 256, blocks_per_row = 1;
  int meeting = 0;  // ws::Meeting
  int registers = 1, shared = 0, unroll = 1;
  bool persistent = false;
  int rows_at_once = 1;
  int weight_hint = 2;  // of ws::load
  int stream_hint = 0;  // of what passes by once
  bool keep = false;    // the weights of a thread's one vector stay in registers
};

// The kernel name(const T* x, const float* weight, const float* bias, T* y, void* exchange).
std::string NormSource(const NormProblem& problem, const NormKnobs& knobs, const std::string& name);

struct NormLaunch {
  int64_t blocks_per_wave = 1;  // a grid is a multiple of this
  int64_t groups = 1;  // of rows, each for threads_per_row threads or blocks_per_row blocks
  int rows_per_block = 1, shared_bytes = 0,
      exchange_bytes = 0;  // exchange: of each group in the grid
};
NormLaunch LaunchOf(const NormProblem& problem, const NormKnobs& knobs);

}  // namespace warpsmith::kernels
