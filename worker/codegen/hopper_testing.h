// What tests of code for sm_90a share, which need no card: a compiler, and what a card can do.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>

#include "worker/device/device.h"

namespace warpsmith::codegen {

// nullptr, with a warning: there is no NVRTC.
inline device::Compiler* Hopper() {
  static const auto* made = new absl::StatusOr<std::unique_ptr<device::Compiler>>(
      device::MakeCompiler("sm_90a", std::filesystem::temp_directory_path().string()));
  if (made->ok()) return (*made)->get();
  WARN("not run: " << made->status());
  return nullptr;
}

inline device::DeviceInfo Card() {
  device::DeviceInfo info;
  info.kind = "cuda";
  info.arch = "sm_90a";
  info.sm_count = 132;
  info.shared_per_block = 227 << 10;
  info.tensor_maps = true;
  return info;
}

}  // namespace warpsmith::codegen
