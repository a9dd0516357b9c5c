// What a plan takes of the device's memory beside the problem's own tensors, with what it prepares.
#pragma once

#include <cstdint>

#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::problem {

inline int64_t WorkspaceBytes(const v1::Plan& plan) {
  int64_t bytes = 0;
  for (const v1::Buffer& buffer : plan.buffers()) {
    const v1::Buffer::Kind kind = buffer.kind();
    if (kind == v1::Buffer::WORKSPACE || kind == v1::Buffer::PREPARED) bytes += buffer.bytes();
  }
  for (const v1::Buffer& buffer : plan.prepare().buffers()) {
    if (buffer.kind() == v1::Buffer::WORKSPACE) bytes += buffer.bytes();
  }
  return bytes;
}

}  // namespace warpsmith::problem
