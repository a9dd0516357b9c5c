// libwarpsmith_clock.so: the clock for a process that is not ours, PyTorch's. What is launched from
// C++ in the judge and from Python there is not the same call; what is timed has to be.
//
// Every function gives 0 or a CUresult; -1: no driver. The caller's context is current. The
// interface for Python is in python/warpsmith_torch/clock.py.
#include <dlfcn.h>

#include "worker/device/cuda_clock.h"

namespace {

using namespace warpsmith::device;

constexpr int kNoDriver = -1;
constexpr double kWaitSeconds = 600;  // the parent's limit ends it sooner

const cuda::Driver* Driver() {
  static cuda::Driver driver = {};
  static const bool found = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    bool all = true;
    const auto find = [&](const char* symbol, auto* function) {
      *reinterpret_cast<void**>(function) = dlsym(library, symbol);
      all = all && *function != nullptr;
    };
#define WARPSMITH_FIND(member, symbol, parameters) find(symbol, &driver.member);
    WARPSMITH_CUDA_FUNCTIONS(WARPSMITH_FIND)
#undef WARPSMITH_FIND
    return all;
  }();
  return found ? &driver : nullptr;
}

struct Watch {
  cuda::Stream stream = nullptr;
  bool own_stream = false;
  cuda::Clock* clock = nullptr;
};

}  // namespace

extern "C" {

// shared: the legacy default stream, into which PyTorch's plain calls go; else a stream of its own,
// such as the judge has.
__attribute__((visibility("default"))) int warpsmith_clock_open(int shared, void** watch) {
  const cuda::Driver* const driver = Driver();
  if (driver == nullptr) return kNoDriver;
  auto* const made = new Watch();
  if (shared == 0) {
    const cuda::Result result = driver->StreamCreate(&made->stream, cuda::kStreamNonBlocking);
    if (result != cuda::kSuccess) {
      delete made;
      return result;
    }
    made->own_stream = true;
  }
  made->clock = new cuda::Clock(*driver, made->stream);
  *watch = made;
  return cuda::kSuccess;
}

__attribute__((visibility("default"))) void warpsmith_clock_close(void* watch) {
  auto* const made = static_cast<Watch*>(watch);
  made->clock->Close();
  if (made->own_stream) Driver()->StreamDestroy(made->stream);
  delete made->clock;
  delete made;
}

// Instantiates a CUgraph as the judge does and uploads it.
__attribute__((visibility("default"))) int warpsmith_clock_instantiate(void* watch, void* graph,
                                                                       void** exec) {
  auto* const made = static_cast<Watch*>(watch);
  cuda::GraphExec ready = nullptr;
  cuda::Result result = Driver()->GraphInstantiate(&ready, static_cast<cuda::Graph>(graph), 0);
  if (result != cuda::kSuccess) return result;
  result = Driver()->GraphUpload(ready, made->stream);
  if (result == cuda::kSuccess) result = Driver()->StreamSynchronize(made->stream);
  if (result == cuda::kSuccess) {
    *exec = ready;
  } else {
    Driver()->GraphExecDestroy(ready);
  }
  return result;
}

__attribute__((visibility("default"))) void warpsmith_clock_drop(void* exec) {
  Driver()->GraphExecDestroy(static_cast<cuda::GraphExec>(exec));
}

__attribute__((visibility("default"))) int warpsmith_clock_begin(void* watch, int counted) {
  return static_cast<Watch*>(watch)->clock->Begin(counted != 0 ? Launching::kCounted
                                                               : Launching::kHidden);
}

__attribute__((visibility("default"))) int warpsmith_clock_end(void* watch, double* seconds) {
  cuda::Clock& clock = *static_cast<Watch*>(watch)->clock;
  cuda::Result result = clock.End();
  if (result == cuda::kSuccess) result = clock.Wait(kWaitSeconds);
  return result == cuda::kSuccess ? clock.Seconds(seconds) : result;
}

// Waits for quiet memory.
__attribute__((visibility("default"))) int warpsmith_clock_settle(void* watch,
                                                                  double limit_seconds) {
  return static_cast<Watch*>(watch)->clock->Settle(limit_seconds);
}

// What launching a graph on an idle device takes just now.
__attribute__((visibility("default"))) int warpsmith_clock_launch(void* watch, double* seconds) {
  return static_cast<Watch*>(watch)->clock->TimeLaunch(seconds);
}

// One replay of the graph.
__attribute__((visibility("default"))) int warpsmith_clock_replay(void* watch, void* exec,
                                                                  int counted, double* seconds) {
  auto* const made = static_cast<Watch*>(watch);
  cuda::Result result = static_cast<cuda::Result>(warpsmith_clock_begin(watch, counted));
  if (result != cuda::kSuccess) return result;
  result = Driver()->GraphLaunch(static_cast<cuda::GraphExec>(exec), made->stream);
  if (result != cuda::kSuccess) return result;
  return warpsmith_clock_end(watch, seconds);
}

}  // extern "C"
