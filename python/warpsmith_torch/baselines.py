"""Times what a user could have had for nothing: eager, torch.compile, torch.compile with max-autotune,
each as it is called and as a CUDA graph.

One is timed, and its memory freed, before the next one: first plain calls on an idle device, then
replays of the graph, in turns launched on an idle device and while the flush still runs (the device's
time), and what launching alone takes. Part of the inputs is changed before each round, L2 is flushed
before each sample; medians, of as many rounds as it takes to know them. The clock is the judge's
(clock.py). On the processor there are plain calls alone, by its own clock.
"""
import functools
import gc
import math
import sys
import time

import torch

from warpsmith_torch import clock, exact

WARM_UPS = 3
MOST_ROUNDS, LEAST_ROUNDS = 100, 9
# Of rounds, before they may end early: a card that was idle, as while something was compiled, speeds up.
LEAST_SECONDS = 0.05
# Of a median: an interval this wide, with this confidence, is narrow enough, as it is of a candidate's (judge.cc).
NARROW, CONFIDENCE = 0.01, 0.95
LAUNCH = "launch_us"
GRAPHS = None  # that dynamo allows of a model, once it is known
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


def make(name, model):
    """What is called; compiles at its first use."""
    if name == "eager":
        return model
    return torch.compile(model) if name == "compile" else torch.compile(model, mode="max-autotune-no-cudagraphs")


def allow(compiled):
    """Each of so many compiled models the graphs that dynamo allows of one: it counts those of all together, and what it
    makes no graph of it runs as eager does."""
    if compiled == 0:
        return
    config = torch._dynamo.config
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    global GRAPHS
    GRAPHS = GRAPHS or getattr(config, name)
    setattr(config, name, GRAPHS * compiled)


def graphs_compiled():
    """How many the compiler has made in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")  # whose import takes seconds
    return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0


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


def median(values):
    return sorted(values)[len(values) // 2]


def width(values):
    """Of the order-statistic interval of the median (worker/judge/stats.h); of too few values infinite."""
    n, k = len(values), 0
    probability = tail = 0.5 ** n
    while 2 * tail <= 1 - CONFIDENCE:  # the interval from the k-th to the k-th last misses the median
        probability *= (n - k) / (k + 1)
        tail += probability
        k += 1
    values = sorted(values)
    return values[n - k] - values[k - 1] if k else math.inf


def known(samples):
    """Whether the medians are; what launching takes, which is but a part of a time, to as much of the longest."""
    medians = {name: median(s) for name, s in samples.items()}
    longest = max(medians.values())
    return all(width(s) < NARROW * (longest if name == LAUNCH else medians[name]) for name, s in samples.items())


def measure(timers, inputs, kind, seconds):
    """{name: median microseconds} of timers {name: takes a sample}. seconds: when to stop at the latest"""
    samples = {name: [] for name in timers}
    collects = gc.isenabled()
    gc.disable()  # not in the middle of a call
    try:
        start, step = time.perf_counter(), 0
        spent = lambda: time.perf_counter() - start
        while step < LEAST_ROUNDS or (step < MOST_ROUNDS and spent() < seconds
                                      and (spent() < LEAST_SECONDS or not known(samples))):
            change(inputs, step)
            synchronize(kind)
            step += 1
            for name, sample in timers.items():
                samples[name].append(sample())
    finally:
        change_back(inputs, step)
        if collects:
            gc.enable()
    return {name: median(s) for name, s in samples.items()}


class Accuracy:
    """Which calls are as accurate as eager.

    outputs_of: gives what forward gives as a list. reset: puts the module's states back. sample, true_values:
    positions in that list's tensors and fp64 values there, or None: then what agrees with eager is accurate. Both
    are held against eager's outputs, which are taken first.
    """

    def __init__(self, model, inputs, outputs_of, reset, sample, true_values):
        self._outputs_of, self._reset, self._sample = outputs_of, reset, sample
        self._true = None if true_values is None else [v for v in true_values if v.numel()]
        self._eager = self._at_sample(lambda: model(*inputs))

    def _at_sample(self, call):
        self._reset()
        outputs = self._outputs_of(call())
        floats = [(o.dtype, exact.at(o, p)) for o, p in zip(outputs, self._sample.positions) if o.is_floating_point()]
        return floats, [o.cpu() for o in outputs if not o.is_floating_point()]

    def of(self, call):
        (floats, others), (eager, eager_others) = self._at_sample(call), self._eager
        good = all(torch.equal(a, b) for a, b in zip(others, eager_others))
        for i, ((dtype, m), (_, e)) in enumerate(zip(floats, eager)):
            if self._true is None:
                good = good and torch.allclose(m, e, atol=TOLERANCE, rtol=TOLERANCE, equal_nan=True)
                continue
            allowed = AS_ACCURATE * max(exact.floor(dtype), exact.error(e, self._true[i], dtype)[0])
            good = good and exact.error(m, self._true[i], dtype)[0] <= allowed
        return bool(good)


class Baselines:
    """Of one model. What is compiled stays until `forget`, and so does whether it is accurate: when timed again nothing
    is compiled again. None of the card's memory does: graphs, which have a run's tensors, are captured anew.

    library: path of libwarpsmith_clock.so, for a card.
    """

    def __init__(self, model, kind, library):
        self._model, self._kind, self._library = model, kind, library
        self._made = {}  # {name: what is called}
        self.accurate = {}  # {name: whether it is}, of what could be timed

    def forget(self):
        self._made.clear()
        self.accurate.clear()
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()

    def time(self, names, inputs, graph, seconds, reset, accuracy):
        """(times, accurate, errors) by name, times as {device_us, graph_us, launch_us, call_us}. reset: puts the module's
        states back. accuracy: gives an Accuracy for the same inputs; called once at most, where it is not known."""
        self._inputs, self._reset = inputs, reset
        self._accuracy = functools.cache(accuracy)
        self._calls = clock.Clock(self._library, shared=True) if self._kind == "cuda" else HostClock()
        self._graphs = clock.Clock(self._library, shared=False) if self._kind == "cuda" else None
        times, accurate, errors = {}, {}, {}
        try:
            for name in names:
                self._try(name, graph, seconds, times, accurate, errors)
                free(self._kind)
        finally:
            self._inputs = self._reset = self._accuracy = None
            self._calls.close()
            if self._graphs is not None:
                self._graphs.close()
        return times, accurate, errors

    def _try(self, name, graph, seconds, times, accurate, errors):
        try:
            times[name] = self._time(name, graph, seconds, errors)
            accurate[name] = self.accurate[name]
        except Exception as error:  # a baseline that cannot run is not a baseline
            if "CUDA error" in str(error):
                raise
            self._made.pop(name, None)
            errors[name] = reason(error)

    def _warm(self, name):
        """The call of that name, when nothing is left to compile."""
        kept = name in self._made
        if not kept:
            self._made[name] = make(name, self._model)
            allow(sum(made is not self._model for made in self._made.values()))
        made, inputs, before = self._made[name], self._inputs, graphs_compiled()
        for _ in range(WARM_UPS):
            made(*inputs)
        if kept and graphs_compiled() != before:
            # The module is not what it was. Where that happens often the compiler gives up, and what it gives are
            # plain calls: so it begins anew.
            self.forget()
            return self._warm(name)
        return lambda: made(*inputs)

    def _time(self, name, graph, seconds, errors):
        call = self._warm(name)
        synchronize(self._kind)
        if name not in self.accurate:
            self.accurate[name] = name == "eager" or self._accuracy().of(call)
        self._reset()  # whatever was called before
        self._calls.settle(SETTLE_SECONDS)
        times = measure({"call_us": lambda: self._calls.call(call)}, self._inputs, self._kind, seconds)
        if graph and self._kind == "cuda":
            self._time_graph(name, call, seconds, times, errors)
        return times

    def _time_graph(self, name, call, seconds, times, errors):
        try:
            captured = Captured(call, self._graphs)
        except Exception as error:
            if "CUDA error" in str(error) and "captur" not in str(error):
                raise
            errors["graph" if name == "eager" else name + "_graph"] = reason(error)
            return
        try:
            self._calls.settle(SETTLE_SECONDS)
            timers = {"graph_us": lambda: captured.replay(counted=True),
                      LAUNCH: self._graphs.launch,
                      "device_us": lambda: captured.replay(counted=False)}
            for sample in timers.values():
                sample()
            times.update(measure(timers, self._inputs, self._kind, seconds))
        finally:
            captured.close()
