"""Times what a user could have had for nothing: eager, torch.compile, and both as CUDA graphs.

CUDA events around one call, L2 flushed, part of the inputs changed before every round, the calls
interleaved, median. On the processor: eager and torch.compile, by its clock.
"""
import gc
import time

import torch

from warpsmith_torch import exact

FLUSH_BYTES = {"cuda": 256 << 20, "cpu": 64 << 20}
WARM_UPS = 3
MOST_ROUNDS, LEAST_ROUNDS = 100, 9
NAMES = {"cuda": ("eager", "graph", "compile", "compile_graph"), "cpu": ("eager", "compile")}
# A baseline is accurate if its error is at most so many times eager's.
AS_ACCURATE = 2.0
# Where fp64 does not fit: it must agree with eager to this.
TOLERANCE = 1e-4


class Clock:
    def __init__(self, kind):
        self._cuda = kind == "cuda"
        self._flush = torch.empty(FLUSH_BYTES[kind], dtype=torch.int8, device=kind)

    def synchronize(self):
        if self._cuda:
            torch.cuda.synchronize()

    def microseconds(self, call):
        self._flush.fill_(42)
        self.synchronize()
        if not self._cuda:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3


def as_graph(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()

    def replay():
        graph.replay()
        return outputs

    return replay


def change(inputs, step):
    """Flips the sign of a sixteenth of every float input, another one each time."""
    for x in inputs:
        if exact.is_float(x) and x.is_contiguous():
            parts = x.view(-1).chunk(16)
            parts[step % len(parts)].neg_()


def build(model, inputs, names):
    """({name: call}, {name: why it cannot be})"""
    calls, errors = {"eager": lambda: model(*inputs)}, {}

    def offer(name, make):
        try:
            call = make()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            calls[name] = call
            return
        except Exception as error:  # a baseline that cannot run is not a baseline
            errors[name] = str(error).strip()[:200]
        # only here, where the frames that the error came through hold no tensors any more
        gc.collect()
        torch.cuda.empty_cache()

    def compiled():
        torch._dynamo.reset()
        function = torch.compile(model)
        return lambda: function(*inputs)

    if "graph" in names:
        offer("graph", lambda: as_graph(calls["eager"]))
    if "compile" in names or "compile_graph" in names:
        offer("compile", compiled)
    if "compile_graph" in names and "compile" in calls:
        offer("compile_graph", lambda: as_graph(calls["compile"]))
    return calls, errors


def measure(calls, inputs, kind, seconds):
    """{name: median microseconds}"""
    clock = Clock(kind)
    for call in calls.values():
        for _ in range(WARM_UPS):
            call()
    clock.synchronize()
    samples = {name: [] for name in calls}
    start, step = time.perf_counter(), 0
    while step < LEAST_ROUNDS or (step < MOST_ROUNDS and time.perf_counter() - start < seconds):
        change(inputs, step)
        step += 1
        for name, call in calls.items():
            samples[name].append(clock.microseconds(call))
    return {name: sorted(s)[len(s) // 2] for name, s in samples.items()}


def accuracy(calls, reset, sample, true_values):
    """{name: whether it is as accurate as eager}. reset: puts the module's states back. true_values:
    in fp64 at the sample's positions, or None: then what agrees with eager is."""
    def at_sample(call):
        reset()
        outputs = exact.flat(call())
        floats = [exact.at(o, p) for o, p in zip(outputs, sample.positions) if o.is_floating_point()]
        return floats, [o.cpu() for o in outputs if not o.is_floating_point()]

    eager, eager_others = at_sample(calls["eager"])
    accurate = {"eager": True}
    for name, call in calls.items():
        if name == "eager":
            continue
        mine, others = at_sample(call)
        good = all(torch.equal(a, b) for a, b in zip(others, eager_others))
        exact_floats = None if true_values is None else [v for v in true_values if v.numel()]
        for i, (m, e) in enumerate(zip(mine, eager)):
            if exact_floats is None:
                good = good and torch.allclose(m, e, atol=TOLERANCE, rtol=TOLERANCE, equal_nan=True)
                continue
            allowed = AS_ACCURATE * max(exact.FLOOR, exact.error(e, exact_floats[i])[0])
            good = good and exact.error(m, exact_floats[i])[0] <= allowed
        accurate[name] = bool(good)
    return accurate
