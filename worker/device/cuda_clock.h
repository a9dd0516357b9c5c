// How a run on a card is timed: by this, whoever's run it is. Candidates are timed through
// CudaDevice, PyTorch's graphs and calls through clock_library.cc, which the Python child loads.
//
//   Clock clock(driver, stream);
//   clock.Begin(Launching::kCounted);   // L2 flushed, the device idle, the start event
//   cuGraphLaunch(graph, stream);       // or whatever is timed: only into this stream
//   clock.End();                        // the end event
//   clock.Wait(limit_seconds);  clock.Seconds(&seconds);
//
// With Launching::kHidden the work is put into the stream while the flush still runs (some 57 us on
// an H200), so that launching costs nothing that is seen: the time is the device's. With kCounted
// the device has nothing to do when the work is launched, as when a user calls: the time is from
// the moment that the card sees the start event to the end of the work, the host's part of
// launching included.
//
// One thread, the context current. Header only and free of other libraries, since it is also loaded
// into Python beside PyTorch.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstddef>

#include "worker/device/cuda_driver.h"
#include "worker/device/launching.h"

namespace warpsmith::device::cuda {

class Clock {
 public:
  // What is written to empty L2: more than twice the largest there is (126 MB on a B200).
  static constexpr size_t kFlushBytes = size_t{256} << 20;

  // `stream` is not taken over.
  // kNotReady of Begin and Settle: what is before it in the stream, or a flush, takes longer than
  // this.
  static constexpr double kLimitSeconds = 60;
  Clock(const Driver& driver, Stream stream, double limit_seconds = kLimitSeconds)
      : driver_(driver), stream_(stream), limit_seconds_(limit_seconds) {}
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  // Not where the context is lost: Close then never comes back.
  void Close() {
    if (flush_ != 0) driver_.MemFree(flush_);
    if (start_ != nullptr) driver_.EventDestroy(start_);
    if (end_ != nullptr) driver_.EventDestroy(end_);
    if (nothing_ != nullptr) driver_.GraphExecDestroy(nothing_);
    flush_ = 0, start_ = end_ = nullptr, nothing_ = nullptr;
  }

  Result Begin(Launching how) {
    // What a kernel asked the cache to keep would outlive the writes.
    Result result = driver_.CtxResetPersistingL2Cache();
    if (result == kSuccess) result = Flush();
    if (result == kSuccess && how == Launching::kCounted) {
      result = End();
      if (result == kSuccess) result = Wait(limit_seconds_);
    }
    if (result == kSuccess) result = Start();
    if (how == Launching::kHidden || result != kSuccess) return result;
    // Only once the card has seen it: a driver may hold it back until the launch comes, and then
    // launching would not count.
    return WaitFor(start_, limit_seconds_);
  }

  // Seconds of a graph that does next to nothing, launched on an idle device: of what is timed so,
  // the part that depends on how busy the host is just now. Not in the legacy default stream, which
  // cannot be captured.
  Result TimeLaunch(double* seconds) {
    Result result = nothing_ == nullptr ? MakeNothing() : kSuccess;
    if (result == kSuccess) result = Begin(Launching::kCounted);
    if (result == kSuccess) result = driver_.GraphLaunch(nothing_, stream_);
    if (result == kSuccess) result = End();
    if (result == kSuccess) result = Wait(limit_seconds_);
    return result == kSuccess ? Seconds(seconds) : result;
  }

  Result Flush() {
    Result result = Allocate();
    if (result == kSuccess) result = driver_.MemsetD32Async(flush_, 0, kFlushBytes / 4, stream_);
    return result;
  }
  Result Start() { return Record(start_); }
  Result End() { return Record(end_); }
  // Waits for what was in the stream at End, with an eye always open while it may be short.
  // kNotReady: it took longer than the limit.
  Result Wait(double limit_seconds) { return WaitFor(end_, limit_seconds); }
  // Waits until nothing else uses the memory's bandwidth, at most so long: until several probes in
  // a row are as quick as the quickest that this clock has seen.
  Result Settle(double limit_seconds) {
    const double end = Now() + limit_seconds;
    for (int quiet = 0; quiet < kQuietProbes && Now() < end;) {
      double seconds = 0;
      const Result result = Probe(&seconds);
      if (result != kSuccess) return result;
      if (quickest_probe_ == 0 || seconds < quickest_probe_) quickest_probe_ = seconds;
      quiet = seconds < kQuietSlack * quickest_probe_ ? quiet + 1 : 0;
    }
    return kSuccess;
  }
  // From the start event to the end event, once both have happened.
  Result Seconds(double* seconds) {
    float milliseconds = 0;
    const Result result = driver_.EventElapsedTime(&milliseconds, start_, end_);
    *seconds = milliseconds / 1e3;
    return result;
  }

 private:
  static constexpr int kProbeWrites = 4, kQuietProbes = 3;
  static constexpr double kQuietSlack = 1.03;
  static constexpr double kSpinSeconds = 5e-3;  // longer waits need not be seen to the microsecond
  static constexpr useconds_t kPollUs = 100;

  static double Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  Result Allocate() {
    return flush_ == 0 ? driver_.MemAlloc(&flush_, kFlushBytes) : static_cast<Result>(kSuccess);
  }
  Result MakeNothing() {
    Result result = Allocate();
    if (result == kSuccess) result = driver_.StreamBeginCapture(stream_, kCaptureThreadLocal);
    if (result != kSuccess) return result;
    const Result wrote = driver_.MemsetD32Async(flush_, 0, 1, stream_);
    // Whatever happened, the stream has to leave capture.
    Graph graph = nullptr;
    result = driver_.StreamEndCapture(stream_, &graph);
    if (wrote != kSuccess) result = wrote;
    if (result == kSuccess) result = driver_.GraphInstantiate(&nothing_, graph, 0);
    if (graph != nullptr) driver_.GraphDestroy(graph);
    return result == kSuccess ? driver_.GraphUpload(nothing_, stream_) : result;
  }
  Result WaitFor(Event event, double limit_seconds) {
    const double begun = Now();
    for (;;) {
      const Result result = driver_.EventQuery(event);
      if (result != kNotReady) return result;
      const double waited = Now() - begun;
      if (waited > limit_seconds) return kNotReady;
      if (waited > kSpinSeconds) usleep(kPollUs);
    }
  }
  // Seconds of some writes past the L2 cache.
  Result Probe(double* seconds) {
    Result result = Flush();
    if (result == kSuccess) result = Start();
    for (int i = 0; i < kProbeWrites && result == kSuccess; ++i) result = Flush();
    if (result == kSuccess) result = End();
    if (result == kSuccess) result = Wait(limit_seconds_);
    return result == kSuccess ? Seconds(seconds) : result;
  }
  Result Record(Event& event) {
    Result result = kSuccess;
    if (event == nullptr) result = driver_.EventCreate(&event, 0);
    return result == kSuccess ? driver_.EventRecord(event, stream_) : result;
  }

  const Driver& driver_;
  const Stream stream_;
  const double limit_seconds_;
  Event start_ = nullptr, end_ = nullptr;
  Address flush_ = 0;
  GraphExec nothing_ = nullptr;
  double quickest_probe_ = 0;
};

}  // namespace warpsmith::device::cuda
