"""Times what a user could have had for nothing: eager, torch.compile, torch.compile with max-autotune,
each as it is called and as a CUDA graph.

Each is built, timed and freed before the next one is built: first plain calls on an idle device, then
replays of the graph, in turns launched on an idle device and while the flush still runs (the device's
time), and what launching alone takes. Part of the inputs is changed before each round, L2 is flushed
before each sample; medians. The clock is the judge's (clock.py). On the processor there are plain calls
alone, by its own clock.
"""
import gc
import time

import torch

from warpsmith_torch import clock, exact

WARM_UPS = 3
MOST_ROUNDS, LEAST_ROUNDS = 100, 9
PARTS = 16  # of an input; one is changed before each round
SETTLE_SECONDS = 1
HOST_FLUSH_BYTES = 64 << 20
# A baseline is accurate if its error is at most so many times eager's.
AS_ACCURATE = 2.0
# Where fp64 does not fit: it must agree with eager to this.
TOLERANCE = 1e-4


class HostClock:
    def __init__(self):
        self._flush = torch.empty(HOST_FLUSH_BYTES, dtype=torch.int8, device="cpu")

    def settle(self, seconds):
        pass

    def call(self, call):
        self._flush.fill_(42)
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e6

    def close(self):
        self._flush = None


def synchronize(kind):
    if kind == "cuda":
        torch.cuda.synchronize()


def free(kind):
    """After frames that held tensors are gone."""
    gc.collect()
    if kind == "cuda":
        torch.cuda.empty_cache()


def reason(error):
    return str(error).strip()[:200] or type(error).__name__


def make(name, model, inputs):
    """The call of that name; compiles at its first use."""
    if name == "eager":
        return lambda: model(*inputs)
    torch._dynamo.reset()
    function = torch.compile(model) if name == "compile" else torch.compile(model, mode="max-autotune-no-cudagraphs")
    return lambda: function(*inputs)


class Captured:
    """A call as a CUDA graph, whose outputs stay where they are."""

    def __init__(self, call, graphs):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                call()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what the calls took, before the graph takes as much for itself
        self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        usual = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(self._graph):
                self.outputs = call()
        except Exception:
            # a capture that fails at its end leaves its own stream the current one
            torch.cuda.set_stream(usual)
            # the random generator believes that it is still being captured: give it a state of its own
            fresh = torch.Generator(device="cuda").graphsafe_get_state()
            torch.cuda.default_generators[torch.cuda.current_device()].graphsafe_set_state(fresh)
            raise
        self._graph.replay()  # seeds, where the graph draws
        torch.cuda.synchronize()
        self._graphs = graphs
        self._ready = graphs.instantiate(self._graph.raw_cuda_graph())

    def replay(self, counted):
        return self._graphs.replay(self._ready, counted)

    def close(self):
        torch.cuda.synchronize()
        self._graphs.drop(self._ready)
        self.outputs = self._graph = None


def parts_of(inputs):
    return [x.view(-1).chunk(PARTS) for x in inputs if exact.is_float(x) and x.is_contiguous() and x.numel()]


def change(inputs, step):
    """Flips the sign of a sixteenth of every float input, another one each time."""
    for parts in parts_of(inputs):
        parts[step % len(parts)].neg_()


def change_back(inputs, steps):
    """What so many changes, from 0 on, did."""
    for parts in parts_of(inputs):
        for i, part in enumerate(parts):
            if len(range(i, steps, len(parts))) % 2:
                part.neg_()


def measure(timers, inputs, kind, seconds):
    """{name: median microseconds} of timers {name: takes a sample}"""
    samples = {name: [] for name in timers}
    collects = gc.isenabled()
    gc.disable()  # not in the middle of a call
    try:
        start, step = time.perf_counter(), 0
        while step < LEAST_ROUNDS or (step < MOST_ROUNDS and time.perf_counter() - start < seconds):
            change(inputs, step)
            synchronize(kind)
            step += 1
            for name, sample in timers.items():
                samples[name].append(sample())
    finally:
        change_back(inputs, step)
        if collects:
            gc.enable()
    return {name: sorted(s)[len(s) // 2] for name, s in samples.items()}


class Baselines:
    """Of one model on inputs of its own.

    outputs_of: gives what forward gives as a list. library: path of libwarpsmith_clock.so, for a card. reset:
    puts the module's states back. sample, true_values: positions in that list's tensors and fp64 values there,
    or None: then what agrees with eager is accurate. Both are held against eager's outputs, which are taken
    first.
    """

    def __init__(self, model, inputs, outputs_of, kind, library, reset, sample, true_values):
        self._model, self._inputs, self._kind = model, inputs, kind
        self._outputs_of, self._reset, self._sample = outputs_of, reset, sample
        self._true = None if true_values is None else [v for v in true_values if v.numel()]
        self._calls = clock.Clock(library, shared=True) if kind == "cuda" else HostClock()
        self._graphs = clock.Clock(library, shared=False) if kind == "cuda" else None
        self._eager = self._at_sample(make("eager", model, inputs))
        self.times, self.accurate, self.errors = {}, {}, {}

    def close(self):
        self._calls.close()
        if self._graphs is not None:
            self._graphs.close()

    def time(self, name, graph, seconds):
        """Adds one to `times` ({device_us, graph_us, launch_us, call_us}), `accurate` and `errors`."""
        try:
            self._time(name, graph, seconds)
        except Exception as error:  # a baseline that cannot run is not a baseline
            if "CUDA error" in str(error):
                raise
            self.errors[name] = reason(error)
        free(self._kind)

    def _time(self, name, graph, seconds):
        call = make(name, self._model, self._inputs)
        for _ in range(WARM_UPS):
            call()
        synchronize(self._kind)
        accurate = name == "eager" or self._agrees(self._at_sample(call))
        self._calls.settle(SETTLE_SECONDS)
        times = measure({"call_us": lambda: self._calls.call(call)}, self._inputs, self._kind, seconds)
        if graph and self._kind == "cuda":
            self._time_graph(name, call, seconds, times)
        self.times[name], self.accurate[name] = times, accurate

    def _time_graph(self, name, call, seconds, times):
        try:
            captured = Captured(call, self._graphs)
        except Exception as error:
            if "CUDA error" in str(error) and "captur" not in str(error):
                raise
            self.errors["graph" if name == "eager" else name + "_graph"] = reason(error)
            return
        try:
            self._calls.settle(SETTLE_SECONDS)
            timers = {"graph_us": lambda: captured.replay(counted=True),
                      "launch_us": self._graphs.launch,
                      "device_us": lambda: captured.replay(counted=False)}
            for sample in timers.values():
                sample()
            times.update(measure(timers, self._inputs, self._kind, seconds))
        finally:
            captured.close()

    def _at_sample(self, call):
        self._reset()
        outputs = self._outputs_of(call())
        floats = [(o.dtype, exact.at(o, p)) for o, p in zip(outputs, self._sample.positions) if o.is_floating_point()]
        return floats, [o.cpu() for o in outputs if not o.is_floating_point()]

    def _agrees(self, mine):
        """Whether it is as accurate as eager."""
        (floats, others), (eager, eager_others) = mine, self._eager
        good = all(torch.equal(a, b) for a, b in zip(others, eager_others))
        for i, ((dtype, m), (_, e)) in enumerate(zip(floats, eager)):
            if self._true is None:
                good = good and torch.allclose(m, e, atol=TOLERANCE, rtol=TOLERANCE, equal_nan=True)
                continue
            allowed = AS_ACCURATE * max(exact.floor(dtype), exact.error(e, self._true[i], dtype)[0])
            good = good and exact.error(m, self._true[i], dtype)[0] <= allowed
        return bool(good)
