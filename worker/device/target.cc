#include "worker/device/target.h"

namespace warpsmith::device {

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
  target.library = info.library;
  return target;
}

}  // namespace warpsmith::device
