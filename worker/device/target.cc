#include "worker/device/target.h"

namespace warpsmith::device {

// Of eleven multiprocessors those that clusters of four and more are made of, on an H200.
constexpr int kClusteredOf11 = 10;

codegen::Target TargetOf(const DeviceInfo& info) {
  codegen::Target target;
  target.arch = info.arch;
  target.sm_count = info.sm_count;
  target.max_threads_per_sm = info.max_threads_per_sm;
  target.max_blocks_per_sm = info.max_blocks_per_sm;
  target.registers_per_sm = info.registers_per_sm;
  target.shared_per_sm = info.shared_per_sm;
  target.shared_per_block = info.shared_per_block;
  target.l2_bytes = info.l2_bytes;
  target.max_cluster = info.max_cluster;
  for (size_t i = 0; i < target.clustered_blocks.size(); ++i) {
    const int known = info.clustered_blocks[i];
    target.clustered_blocks[i] = known > 0 ? known : info.sm_count * kClusteredOf11 / 11;
  }
  target.library = info.library;
  return target;
}

}  // namespace warpsmith::device
