"""What an exported call costs, beside its own CUDA graph and beside PyTorch.

  python bench/export/call.py KERNELBENCH EXPORTS [--rounds 100] [--json FILE]

KERNELBENCH has KernelBench/level1/*.py, EXPORTS the exported level1/*.py. CUDA events around one call on an idle
device, L2 flushed before, the calls interleaved, median; a default device is set, as KernelBench sets it, and then
again without. `host` is how long the call takes to return, by the processor's clock.
"""
import argparse
import glob
import importlib.util
import json
import os
import re
import statistics
import time

import torch

FLUSH_BYTES = 256 << 20


def load(path):
    spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", path), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tuple_of(value):
    return value if isinstance(value, tuple) else (value,)


def as_graph(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()

    def replay():
        graph.replay()
        return outputs

    return replay


def measure(calls, flush, rounds):
    """({name: median device microseconds}, {name: median microseconds until the call returns})"""
    on_device, on_host = {name: [] for name in calls}, {name: [] for name in calls}
    for call in calls.values():
        for _ in range(5):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.fill_(42)
            torch.cuda.synchronize()
            begin.record()
            start = time.perf_counter()
            call()
            on_host[name].append((time.perf_counter() - start) * 1e6)
            end.record()
            torch.cuda.synchronize()
            on_device[name].append(begin.elapsed_time(end) * 1e3)
    median = lambda samples: {name: round(statistics.median(s), 2) for name, s in samples.items()}
    return median(on_device), median(on_host)


def row_of(reference_path, exported_path, flush, rounds):
    torch.set_default_device("cuda")
    reference = load(reference_path)
    start = time.perf_counter()
    exported = load(exported_path)
    import_ms = (time.perf_counter() - start) * 1e3
    models = []
    for made in (reference.Model, exported.ModelNew):
        torch.manual_seed(42)
        models.append(made(*reference.get_init_inputs()))
    want, model = models
    torch.manual_seed(7)
    inputs = reference.get_inputs()
    start = time.perf_counter()
    got = tuple_of(model(*inputs))
    torch.cuda.synchronize()
    first_ms = (time.perf_counter() - start) * 1e3
    for mine, theirs in zip(got, tuple_of(want(*inputs))):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
    calls = {"eager": lambda: want(*inputs), "call": lambda: model(*inputs)}
    calls.update(eager_graph=as_graph(calls["eager"]), graph=as_graph(calls["call"]))
    device, host = measure(calls, flush, rounds)
    torch.set_default_device(None)
    plain, plain_host = measure({name: calls[name] for name in ("eager", "call", "graph")}, flush, rounds)
    steps = exported._PLANS[0]["steps"]
    return {"name": os.path.basename(exported_path)[:-3], "steps": len(steps), "import_ms": round(import_ms, 1),
            "first_ms": round(first_ms, 1), "us": device, "host_us": host, "us_without_default_device": plain,
            "host_us_without_default_device": plain_host}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernelbench")
    parser.add_argument("exports")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    rows = []
    with torch.no_grad():
        for path in sorted(glob.glob(os.path.join(arguments.exports, "level1", "*.py"))):
            reference = os.path.join(arguments.kernelbench, "KernelBench", "level1", os.path.basename(path))
            rows.append(row_of(reference, path, flush, arguments.rounds))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, file, indent=1)
    print(f"{'':22s} steps  call graph over  host | eager graph over | without default device: call graph over  host "
          "| import first ms")
    for row in rows:
        us, plain = row["us"], row["us_without_default_device"]
        print(f"{row['name'][:22]:22s} {row['steps']:5d} {us['call']:5.1f} {us['graph']:5.1f} "
              f"{us['call'] - us['graph']:4.1f} {row['host_us']['call']:5.1f} | {us['eager']:5.1f} "
              f"{us['eager_graph']:5.1f} {us['eager'] - us['eager_graph']:4.1f} | {plain['call']:27.1f} "
              f"{plain['graph']:5.1f} {plain['call'] - plain['graph']:4.1f} "
              f"{row['host_us_without_default_device']['call']:5.1f} | {row['import_ms']:6.1f} {row['first_ms']:5.1f}")
    over = lambda key, mine, own: statistics.median(row[key][mine] - row[key][own] for row in rows)
    print(f"median over its own graph: call {over('us', 'call', 'graph'):.1f} us "
          f"(without a default device {over('us_without_default_device', 'call', 'graph'):.1f}), "
          f"eager {over('us', 'eager', 'eager_graph'):.1f} us")


if __name__ == "__main__":
    main()
