// The CUDA driver's functions, found in libcuda.so.1 at run time, so that one binary starts with
// and without a card and builds without the toolkit. Types and numbers are the driver's C interface
// (stable since CUDA 12); the ones with a version in their symbol are declared for that version.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace warpsmith::device::cuda {

using Result = int;   // 0: success
using Ordinal = int;  // a device
using Address = unsigned long long;
struct alignas(64) TensorMap {  // what the driver makes of one
  uint64_t words[16];
};
using MemoryHandle = unsigned long long;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

// ---- numbers
// --------------------------------------------------------------------------------------

enum ResultCode : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kUncorrectableEcc = 214,
  kInvalidPtx = 218,
  kUncorrectableLink = 220,
  kContained = 226,  // an error of the card that did not spread
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
  kInvalidClusterSize = 912,
};

enum DeviceAttribute {
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptIn = 97,
  kVirtualMemoryManagement = 102,
  kBlocksPerMultiprocessor = 106,
  kClusterLaunch = 120,
  kMpsEnabled = 133,
};

enum FunctionAttribute {
  kFunctionStaticShared = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
  kFunctionNonPortableCluster = 14,
};

enum TensorMapType : int {  // by bytes and kind: the copy engine adds nothing up
  kMapU8 = 0,
  kMapU16 = 1,
  kMapU32 = 2,
  kMapU64 = 4,
};
enum TensorMapSwizzle : int { kSwizzleNone = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3 };
// CU_TENSOR_MAP_L2_PROMOTION_L2_128B: with 256 bytes boxes of 128 come as slowly as memory is read
// then, 4.0 TB/s of an H200 where 4.2 do; decoding 1.1 GB 268 us and 257, 4.3 GB 1,020 and 965.
inline constexpr int kMapPromotion = 2;

enum LaunchAttributeId : int {
  kLaunchCooperative = 2,
  kLaunchClusterDimension = 4,
  kLaunchProgrammaticSerialization = 6,
};

inline constexpr int kMemoryPinned = 1;        // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kLocationDevice = 1;      // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kAccessReadWrite = 3;     // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kGranularityMinimum = 0;  // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;  // other threads may call the driver meanwhile
inline constexpr int kCaptureRelaxed = 2;      // this one may, too: a library loads its kernels
inline constexpr unsigned kIpcLazyPeerAccess = 1;

// ---- structures
// -----------------------------------------------------------------------------------

struct MemoryLocation {
  int type = kLocationDevice;
  int id = 0;
};

struct AllocationProperties {
  int type = kMemoryPinned;
  int requested_handle_types = 0;
  MemoryLocation location;
  void* win32_metadata = nullptr;
  struct {
    unsigned char compression = 0, gpu_direct_rdma = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};
static_assert(sizeof(AllocationProperties) == 32);

struct AccessDescription {
  MemoryLocation location;
  int flags = kAccessReadWrite;
};
static_assert(sizeof(AccessDescription) == 12);

struct LaunchAttribute {
  int id = 0;
  char padding[4] = {};
  union {
    char bytes[64] = {};
    int cooperative;
    int programmatic;
    struct {
      unsigned x, y, z;
    } cluster;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

struct IpcHandle {
  char bytes[64];
};

struct Uuid {
  unsigned char bytes[16];
};

// ---- functions
// ------------------------------------------------------------------------------------

// member, symbol, parameters
#define WARPSMITH_CUDA_FUNCTIONS(X)                                                                \
  X(Init, "cuInit", (unsigned flags))                                                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int* version))                                        \
  X(GetErrorName, "cuGetErrorName", (Result error, const char** name))                             \
  X(GetErrorString, "cuGetErrorString", (Result error, const char** text))                         \
  X(DeviceGet, "cuDeviceGet", (Ordinal * device, int ordinal))                                     \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                              \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int length, Ordinal device))                    \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", (Uuid * uuid, Ordinal device))                            \
  X(DeviceGetPciBusId, "cuDeviceGetPCIBusId", (char* id, int length, Ordinal device))              \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, Ordinal device))       \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, Ordinal device))                       \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context * context, Ordinal device))             \
  X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (Ordinal device))                           \
  X(CtxSetCurrent, "cuCtxSetCurrent", (Context context))                                           \
  X(CtxResetPersistingL2Cache, "cuCtxResetPersistingL2Cache", ())                                  \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                \
  X(MemAlloc, "cuMemAlloc_v2", (Address * address, size_t bytes))                                  \
  X(MemFree, "cuMemFree_v2", (Address address))                                                    \
  X(MemGetAddressRange, "cuMemGetAddressRange_v2",                                                 \
    (Address * base, size_t * bytes, Address inside))                                              \
  X(MemAddressReserve, "cuMemAddressReserve",                                                      \
    (Address * address, size_t bytes, size_t alignment, Address wish, unsigned long long flags))   \
  X(MemAddressFree, "cuMemAddressFree", (Address address, size_t bytes))                           \
  X(MemCreate, "cuMemCreate",                                                                      \
    (MemoryHandle * handle, size_t bytes, const AllocationProperties* properties,                  \
     unsigned long long flags))                                                                    \
  X(MemRelease, "cuMemRelease", (MemoryHandle handle))                                             \
  X(MemMap, "cuMemMap",                                                                            \
    (Address address, size_t bytes, size_t offset, MemoryHandle handle, unsigned long long flags)) \
  X(MemUnmap, "cuMemUnmap", (Address address, size_t bytes))                                       \
  X(MemSetAccess, "cuMemSetAccess",                                                                \
    (Address address, size_t bytes, const AccessDescription* access, size_t count))                \
  X(MemGetGranularity, "cuMemGetAllocationGranularity",                                            \
    (size_t * bytes, const AllocationProperties* properties, int option))                          \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                       \
    (Address to, const void* from, size_t bytes, Stream stream))                                   \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                       \
    (void* to, Address from, size_t bytes, Stream stream))                                         \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                       \
    (Address to, Address from, size_t bytes, Stream stream))                                       \
  X(MemsetD8Async, "cuMemsetD8Async",                                                              \
    (Address to, unsigned char value, size_t count, Stream stream))                                \
  X(MemsetD32Async, "cuMemsetD32Async", (Address to, unsigned value, size_t count, Stream stream)) \
  X(IpcGetMemHandle, "cuIpcGetMemHandle", (IpcHandle * handle, Address address))                   \
  X(IpcOpenMemHandle, "cuIpcOpenMemHandle_v2",                                                     \
    (Address * address, IpcHandle handle, unsigned flags))                                         \
  X(IpcCloseMemHandle, "cuIpcCloseMemHandle", (Address address))                                   \
  X(StreamCreate, "cuStreamCreate", (Stream * stream, unsigned flags))                             \
  X(StreamDestroy, "cuStreamDestroy_v2", (Stream stream))                                          \
  X(StreamSynchronize, "cuStreamSynchronize", (Stream stream))                                     \
  X(StreamWaitEvent, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))            \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                      \
  X(StreamEndCapture, "cuStreamEndCapture", (Stream stream, Graph * graph))                        \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                               \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                     \
  X(GraphUpload, "cuGraphUpload", (GraphExec exec, Stream stream))                                 \
  X(GraphLaunch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                 \
  X(GraphDestroy, "cuGraphDestroy", (Graph graph))                                                 \
  X(GraphExecDestroy, "cuGraphExecDestroy", (GraphExec exec))                                      \
  X(EventCreate, "cuEventCreate", (Event * event, unsigned flags))                                 \
  X(EventDestroy, "cuEventDestroy_v2", (Event event))                                              \
  X(EventRecord, "cuEventRecord", (Event event, Stream stream))                                    \
  X(EventQuery, "cuEventQuery", (Event event))                                                     \
  X(EventElapsedTime, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))         \
  X(ModuleLoadData, "cuModuleLoadData", (Module * module, const void* image))                      \
  X(ModuleGetGlobal, "cuModuleGetGlobal_v2",                                                       \
    (Address * address, size_t * bytes, Module module, const char* name))                          \
  X(MemHostAlloc, "cuMemHostAlloc", (void** address, size_t bytes, unsigned flags))                \
  X(MemFreeHost, "cuMemFreeHost", (void* address))                                                 \
  X(ModuleUnload, "cuModuleUnload", (Module module))                                               \
  X(ModuleGetFunction, "cuModuleGetFunction",                                                      \
    (Function * function, Module module, const char* name))                                        \
  X(FuncGetAttribute, "cuFuncGetAttribute", (int* value, int attribute, Function function))        \
  X(FuncSetAttribute, "cuFuncSetAttribute", (Function function, int attribute, int value))         \
  X(LaunchKernelEx, "cuLaunchKernelEx",                                                            \
    (const LaunchConfig* config, Function function, void** arguments, void** extra))               \
  X(OccupancyBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                \
    (int* blocks, Function function, int block_threads, size_t shared_bytes))                      \
  X(OccupancyClusters, "cuOccupancyMaxActiveClusters",                                             \
    (int* clusters, Function function, const LaunchConfig* config))

struct Driver {
#define WARPSMITH_DECLARE(member, symbol, parameters) Result(*member) parameters;
  WARPSMITH_CUDA_FUNCTIONS(WARPSMITH_DECLARE)
#undef WARPSMITH_DECLARE
  // Since CUDA 12.4; null before. InvalidValue: there is no such parameter.
  Result (*FuncGetParamInfo)(Function function, size_t index, size_t* offset, size_t* bytes);
  // Since CUDA 12.0; null before.
  Result (*TensorMapEncodeTiled)(TensorMap* map, int type, unsigned rank, void* address,
                                 const uint64_t* sizes, const uint64_t* strides,
                                 const uint32_t* box, const uint32_t* element_strides,
                                 int interleave, int swizzle, int promotion, int outside);
  Result (*TensorMapEncodeIm2col)(TensorMap* map, int type, unsigned rank, void* address,
                                  const uint64_t* sizes, const uint64_t* strides, const int* lower,
                                  const int* upper, unsigned channels, unsigned places,
                                  const uint32_t* element_strides, int interleave, int swizzle,
                                  int promotion, int outside);
};

// The driver, loaded and initialised once. NotFound: no libcuda.so.1, or it has no device.
// Unavailable: there is one, and it does not load, is too old, or does not start (a driver that does
// not match its kernel module).
absl::StatusOr<const Driver*> LoadDriver();

// OK, or the driver's name for what happened behind `what`. ResourceExhausted: out of memory.
// OutOfRange: a kernel touched memory that is not its own. Aborted: the context is dead for another
// reason. InvalidArgument: the card cannot do what was asked (launch, image). NotFound,
// Unimplemented.
absl::Status ToStatus(const Driver& driver, Result result, absl::string_view what);

}  // namespace warpsmith::device::cuda
