"""Times calls and CUDA graphs on a card with the clock of warpsmith-judge, so that a baseline and a
candidate of the same work are told the same time (worker/device/clock_library.cc)."""
import ctypes

import torch


class Clock:
    """One kind of stream: PyTorch's own for plain calls (`shared`), else one such as the judge's."""

    def __init__(self, library, shared):
        self._library = ctypes.CDLL(library)
        self._watch = ctypes.c_void_p()
        torch.cuda.current_stream().synchronize()  # the context is current
        self._check(self._library.warpsmith_clock_open(ctypes.c_int(shared), ctypes.byref(self._watch)), "open")

    @staticmethod
    def _check(result, what):
        if result == 2:
            raise torch.cuda.OutOfMemoryError(f"no memory for the clock's {what}")
        if result:
            raise RuntimeError(f"the clock's {what} failed with CUDA error {result}")

    def instantiate(self, graph):
        """A CUgraph (a number), ready for `replay`."""
        ready = ctypes.c_void_p()
        self._check(self._library.warpsmith_clock_instantiate(
            self._watch, ctypes.c_void_p(graph), ctypes.byref(ready)), "instantiation")
        return ready

    def drop(self, ready):
        self._library.warpsmith_clock_drop(ready)

    def replay(self, ready, counted):
        """Microseconds of one replay, L2 flushed. counted: launched on an idle device; else while the flush runs."""
        seconds = ctypes.c_double()
        self._check(self._library.warpsmith_clock_replay(
            self._watch, ready, ctypes.c_int(counted), ctypes.byref(seconds)), "replay")
        return seconds.value * 1e6

    def launch(self):
        """Microseconds of a graph that does next to nothing, launched on an idle device: what of a replay that is
        `counted` depends on how busy the host is just now. Not of a `shared` clock."""
        seconds = ctypes.c_double()
        self._check(self._library.warpsmith_clock_launch(self._watch, ctypes.byref(seconds)), "launch")
        return seconds.value * 1e6

    def call(self, call):
        """Microseconds of one plain call on an idle device, L2 flushed."""
        if torch.cuda.current_stream() != torch.cuda.default_stream():
            raise RuntimeError("the current stream is not the one that the clock watches")
        seconds = ctypes.c_double()
        self._check(self._library.warpsmith_clock_begin(self._watch, ctypes.c_int(1)), "start")
        call()
        self._check(self._library.warpsmith_clock_end(self._watch, ctypes.byref(seconds)), "end")
        return seconds.value * 1e6

    def settle(self, seconds):
        """Waits for quiet memory: the driver scrubs what was freed, and whatever runs meanwhile is slower."""
        self._check(self._library.warpsmith_clock_settle(self._watch, ctypes.c_double(seconds)), "settling")

    def close(self):
        self._library.warpsmith_clock_close(self._watch)
