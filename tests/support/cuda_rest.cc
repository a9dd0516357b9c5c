// The functions of a CUDA driver that cuda_library.cc does not have: not supported.
#include "worker/device/cuda_driver.h"

namespace warpsmith::device::cuda {

#define WARPSMITH_NOT_SUPPORTED(member, symbol, parameters)          \
  extern "C" Result NotSupported##member parameters __asm__(symbol); \
  extern "C" __attribute__((weak)) Result NotSupported##member parameters { return kNotSupported; }
WARPSMITH_CUDA_FUNCTIONS(WARPSMITH_NOT_SUPPORTED)
#undef WARPSMITH_NOT_SUPPORTED

}  // namespace warpsmith::device::cuda
