"""Baselines that are timed twice: what is done again, what is kept, and until when. Compilers are dynamo and nothing
behind it.

  python python/tests/check_baselines.py
"""
import gc
import math
import pathlib
import sys
import weakref

import torch
import torch._dynamo

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from warpsmith_torch import baselines, exact, oracle

SOURCE = """
import torch, weakref

ALL = torch.ones(8)
DRAWN = []

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)
        self.factor = 2

    def forward(self, x):
        return self.norm(x) * self.factor + ALL

def get_inputs():
    x = torch.rand(4, 8)
    DRAWN.append(weakref.ref(x))
    return [x]
"""
EXACT = {"sample": 1024, "whole_bytes": 0, "budget_bytes": 1 << 20}

torch_compile, exact_values = torch.compile, exact.values
compiled, in_fp64 = [], []  # graphs made by each compiler's name; times that fp64 was run


def compile_to_nothing(model, mode="compile"):
    def backend(graph, inputs):
        compiled.append(mode)
        return graph.forward

    return torch_compile(model, backend=backend)


def count_exact(*arguments):
    in_fp64.append(1)
    return exact_values(*arguments)


torch.compile, exact.values = compile_to_nothing, count_exact


def ask(served, command, **arguments):
    reply = oracle.reply_to(served, {"command": command, **arguments})
    assert "ok" in reply, reply
    return reply["ok"]


def time(served, *names):
    compiled.clear()
    in_fp64.clear()
    return ask(served, "baselines", names=names, graph=True, clock="", seconds=0.01, seed=7, **EXACT)


# Of blocks that each are two graphs of their own.
BLOCKS = """
import torch

class Block(torch.nn.Module):
    def __init__(self, i):
        super().__init__()
        self.i = i

    def forward(self, x):
        x = x * self.i
        torch._dynamo.graph_break()
        return x + self.i

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(i) for i in range(6))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def get_inputs():
    return [torch.rand(4, 8)]
"""


def load(served, states=(), source=SOURCE):
    ask(served, "load", source=source, device="cpu", outputs=[{"name": "y", "dtype": "f32", "shape": [4, 8]}],
        tensors=[{"name": "x", "role": "input", "dtype": "f32", "shape": [4, 8]},
                 *({"name": name, "role": "state", "dtype": "i64", "shape": []} for name in states)],
        updates=list(states))


def loaded():
    served = oracle.Oracle()
    load(served)
    return served


def draw(served, variation):
    ask(served, "draw", seed=3, variation=variation)
    ask(served, "answer", **EXACT)
    ask(served, "exact")
    ask(served, "release", keep=True)


def test_nothing_is_compiled_again():
    served = loaded()
    first = time(served, "eager", "compile", "max")
    assert compiled == ["compile", "max-autotune-no-cudagraphs"] and in_fp64 and not first["errors"]
    for variation in oracle.VARIATIONS:
        draw(served, variation)
    for names in (["compile", "eager"], ["max"], ["eager", "compile", "max"]):
        again = time(served, *names)
        assert compiled == [] and in_fp64 == []
        assert sorted(again["times"]) == sorted(names) and not again["errors"]
        assert all(again["times"][name]["call_us"] > 0 for name in names)
        assert again["accurate"] == {name: first["accurate"][name] for name in names}


def test_each_has_as_many_graphs_as_it_has_alone():
    served = oracle.Oracle()
    load(served, source=BLOCKS)
    time(served, "eager", "compile", "max")
    first, second = (compiled.count(mode) for mode in ("compile", "max-autotune-no-cudagraphs"))
    assert first == second > 8, (first, second)


def test_nothing_that_was_drawn_is_kept():
    served = loaded()
    time(served, "eager", "compile")
    time(served, "compile", "eager")
    drawn = served.module.DRAWN
    assert len(drawn) >= 2 and not any(x() is not None for x in drawn)


def test_a_module_that_has_changed_is_compiled_anew():
    served = loaded()
    time(served, "eager", "compile")
    kept = served.timed._made["compile"]
    served.model.factor = 3
    assert "compile" in time(served, "compile")["times"]
    assert compiled and served.timed._made["compile"] is not kept
    assert in_fp64  # whether it is accurate is another question now
    # What was compiled before is not beside it: of many the compiler makes none.
    assert len(torch._C._dynamo.eval_frame._debug_get_cache_entry_list(served.module.Model.forward.__code__)) == 1
    time(served, "compile")
    assert compiled == []


def test_states_are_put_back_before_each_is_timed():
    served = oracle.Oracle()
    load(served, states=["norm.num_batches_tracked"])
    seen, measure = [], baselines.measure

    def look(*arguments):
        seen.append(int(served.model.norm.num_batches_tracked))
        return measure(*arguments)

    baselines.measure = look
    try:
        time(served, "eager", "compile")
        time(served, "compile", "eager")
    finally:
        baselines.measure = measure
    assert seen == [0, 0, 0, 0], seen


def test_what_failed_is_tried_again():
    served = loaded()

    def refuse(*arguments, **options):
        raise RuntimeError("no compiler here")

    try:
        for torch.compile in (refuse, lambda model: refuse):  # at once, and when it is called
            assert time(served, "eager", "compile")["errors"] == {"compile": "no compiler here"}
    finally:
        torch.compile = compile_to_nothing
    again = time(served, "compile")
    assert in_fp64 and again["accurate"] == {"compile": True} and again["errors"] == {}


def test_all_goes_with_the_module():
    served = loaded()
    time(served, "eager", "compile")
    there = [weakref.ref(x) for x in (served.timed, served.model, served.module.Model, served.module.ALL)]
    load(served)
    assert not any(x() is not None for x in there)
    assert served.timed is None
    time(served, "compile")
    assert compiled == ["compile"]
    ask(served, "idle")
    assert served.timed is None


def test_collections_look_at_the_problem_alone():
    served = loaded()
    time(served, "compile")
    load(served)
    assert len(gc.get_objects()) < 20000 < gc.get_freeze_count()


def test_the_interval_of_a_median():
    for count, low, high in ((6, 1, 6), (9, 2, 8), (11, 2, 10), (100, 40, 61)):
        values = [float(i) for i in range(count, 0, -1)]
        assert baselines.width(values) == high - low, count
    assert baselines.width([1.0] * 5) == math.inf


def rounds(*timers, least_seconds=0):
    """How many are taken of timers, each a function of the round's number that gives microseconds."""
    baselines.LEAST_SECONDS = least_seconds
    inputs, taken = [torch.arange(32.0)], [0] * len(timers)

    def timer(i):
        taken[i] += 1
        return timers[i](taken[i])

    names = ("graph_us", "launch_us")[:len(timers)]
    baselines.measure({name: lambda i=i: timer(i) for i, name in enumerate(names)}, inputs, "cpu", 60)
    assert torch.equal(inputs[0], torch.arange(32.0)) and len(set(taken)) == 1
    return taken[0]


def test_rounds_end_when_the_medians_are_known():
    steady, noisy = lambda n: 1000 + n % 5, lambda n: 1000 + 100 * (n % 5)
    assert rounds(steady) == baselines.LEAST_ROUNDS
    assert rounds(noisy) == baselines.MOST_ROUNDS
    assert rounds(steady, least_seconds=60) == baselines.MOST_ROUNDS
    # Launching takes a part of a graph's time: it need not be known better than that.
    launch = lambda n: 5 + n % 5
    assert rounds(steady, launch) == baselines.LEAST_ROUNDS
    assert rounds(lambda n: 10, launch) == baselines.MOST_ROUNDS


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("passed", name)


if __name__ == "__main__":
    main()
