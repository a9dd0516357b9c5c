"""Exported modules on a card: threads, streams, capture, other cards' way of compiling, what is refused.

  python python/tests/check_on_card.py KERNELBENCH EXPORTS
"""
import glob
import importlib.util
import os
import re
import sys
import threading

import torch

THREADS, CALLS = 4, 200


def load(path):
    spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", path), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tuple_of(value):
    return value if isinstance(value, tuple) else (value,)


def close(got, want):
    for mine, theirs in zip(tuple_of(got), tuple_of(want)):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)


class Case:
    """A fresh copy of an export beside its reference."""

    def __init__(self, reference_path, exported_path):
        self.name = os.path.basename(exported_path)[:-3]
        self.reference, self.exported = load(reference_path), load(exported_path)
        self.want, self.model = self.make(self.reference.Model), self.make(self.exported.ModelNew)

    def make(self, made):
        torch.manual_seed(42)
        return made(*self.reference.get_init_inputs()).cuda()

    def inputs(self, seed):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        return [torch.randn(x.shape, generator=generator, device="cuda", dtype=x.dtype)
                for x in self.reference.get_inputs()]


def check_capture_without_warm_up(case):
    inputs = case.inputs(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = case.model(*inputs)
    for seed in (2, 3):
        for mine, other in zip(inputs, case.inputs(seed)):
            mine.copy_(other)
        graph.replay()
        close(outputs, case.want(*inputs))


def check_new_thread(case):
    """A thread's first use of the card is the call."""
    inputs, failures = case.inputs(4), []
    expected = case.want(*inputs)
    kept = [torch.empty_like(t) for t in tuple_of(expected)]  # for the allocator, so that it asks the driver nothing
    torch.cuda.synchronize()
    del kept

    def work():
        with torch.no_grad():
            try:
                close(case.model(*inputs), expected)
            except BaseException as error:
                failures.append(error)

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not failures, failures


def check_threads(case):
    """Each on a stream of its own, with inputs of its own; states are one module's, so each has its own module."""
    failures = []
    shared = not list(case.model.buffers())
    prepared = []
    for seed in range(THREADS):
        inputs = case.inputs(10 + seed)
        model = case.model if shared else case.make(case.exported.ModelNew)
        prepared.append((inputs, model, case.want(*inputs)))
    torch.cuda.synchronize()

    def work(inputs, model, expected):
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for i in range(CALLS):
                    outputs = model(*inputs)
                    if i % 10 == 0:
                        close(outputs, expected)
                torch.cuda.current_stream().synchronize()
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=one) for one in prepared]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    assert not failures, failures


def check_compiles(case):
    """As for a card that there is no binary for."""
    exported = case.exported
    other = exported._launcher()("ModelNew", "sm_80", exported._PLANS, exported._SOURCES, exported._BINARIES)
    exported._solution = other
    inputs = case.inputs(20)
    close(case.model(*inputs), case.want(*inputs))


def check_forms(case):
    inputs = case.inputs(30)
    expected = case.want(*inputs)
    shifted = [torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:].view(x.shape).copy_(x) for x in inputs]
    close(case.model(*shifted), expected)
    scattered = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in inputs]
    close(case.model(*scattered), expected)
    with torch.inference_mode():
        close(case.model(*inputs), expected)
    with torch.enable_grad():
        assert not any(o.requires_grad for o in tuple_of(case.model(*inputs)))
    for wrong in ([x.cpu() for x in inputs], [x[:-1] for x in inputs], [x.double() for x in inputs]):
        try:
            case.model(*wrong)
        except ValueError as error:
            assert "was made for" in str(error)
            continue
        raise AssertionError("it took what it was not made for")


CHECKS = (check_capture_without_warm_up, check_new_thread, check_threads, check_compiles, check_forms)


def main(kernelbench, exports):
    failed = 0
    with torch.no_grad():
        for path in sorted(glob.glob(os.path.join(exports, "level1", "*.py"))):
            reference = os.path.join(kernelbench, "KernelBench", "level1", os.path.basename(path))
            for check in CHECKS:
                case = Case(reference, path)
                try:
                    check(case)
                except BaseException as error:
                    failed += 1
                    print(f"FAILED {case.name} {check.__name__}: {type(error).__name__}: {str(error)[:300]}")
            print("tried", os.path.basename(path))
    print(f"{failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
