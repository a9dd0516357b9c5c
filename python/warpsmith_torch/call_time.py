"""Times exported calls, in a process of its own that has neither a reference nor answers.

  python -m warpsmith_torch.call_time

One JSON object on standard input: {"device", "architecture", "plans", "sources", "binaries", "clock", "seconds"},
plans as the launcher takes them, clock the path of libwarpsmith_clock.so. One on standard output: {"call_us": [...],
"graph_us": [...]}, a median for each plan, of plain calls and of replays of the call as a CUDA graph, both on an idle
device with L2 flushed; or {"error": text}.

What is timed is what a user runs: a module that has the plan's parameters and buffers, and the launcher. Inputs are
random numbers between 0 and 1; integers are 0, so that indexes stay inside.
"""
import json
import os
import sys
import warnings

import torch

from warpsmith_torch import baselines, clock, launcher

ERROR_CHARACTERS = 300


def drawn(shape, dtype):
    made = launcher.TYPES[dtype]
    return torch.rand(shape).to(made) if made.is_floating_point else torch.zeros(shape, dtype=made)


class Module(torch.nn.Module):
    """As an export's: parameters and buffers where the plan's names say."""

    def __init__(self, plan, solution):
        super().__init__()
        self._solution = solution
        for kind, name, dtype, *shape in plan["buffers"]:
            if kind in ("param", "state"):
                *path, leaf = name.split(".")
                owner = self
                for part in path:
                    if part not in owner._modules:
                        owner.add_module(part, torch.nn.Module())
                    owner = owner._modules[part]
                owner.register_buffer(leaf, drawn(shape[0], dtype))

    def forward(self, *inputs):
        return self._solution.call(self, *inputs)


def time_plan(solution, plan, library, seconds):
    """(microseconds of a call, of a replay)"""
    module = Module(plan, solution)
    inputs = [drawn(shape[0], dtype) for kind, _, dtype, *shape in plan["buffers"] if kind in launcher.GIVEN]
    call = lambda: module(*inputs)
    for _ in range(baselines.WARM_UPS):
        call()
    watch, graphs = clock.Clock(library, shared=True), clock.Clock(library, shared=False)
    captured = baselines.Captured(call, graphs)
    watch.settle(baselines.SETTLE_SECONDS)
    timers = {"call": lambda: watch.call(call), "graph": lambda: captured.replay(counted=True)}
    times = baselines.measure(timers, inputs, "cuda", seconds)
    captured.close()
    watch.close()
    graphs.close()
    return times["call"], times["graph"]


def answer(request):
    device = torch.device(request["device"])
    torch.cuda.set_device(device)
    torch.set_default_device(device)
    given = [request[key] for key in ("plans", "sources", "binaries")]
    reply = {"call_us": [], "graph_us": []}
    with torch.no_grad():
        for plan, *rest in zip(*given):
            solution = launcher.Solution("the export", request["architecture"], [plan], *([one] for one in rest))
            call_us, graph_us = time_plan(solution, plan, request["clock"], request["seconds"])
            reply["call_us"].append(call_us)
            reply["graph_us"].append(graph_us)
            torch.cuda.empty_cache()
    return reply


def main():
    warnings.filterwarnings("ignore")
    request = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anybody prints must not get between the answer
    try:
        reply = answer(request)
    except Exception as error:  # the worker says it, and goes on without
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reply = {"error": (lines[0] if lines else type(error).__name__)[:ERROR_CHARACTERS]}
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
