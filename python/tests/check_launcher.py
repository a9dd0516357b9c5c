"""The launcher without a card: plans that are run on the processor, and what is refused.

  python python/tests/check_launcher.py
"""
import ctypes
import sys
import threading
import time

import torch

from host_card import HostCard, Launched, launcher

ROWS, WIDTH = 4, 16


def plan(rows=ROWS, **changes):
    """y = x * w + sums of x, mean = x's, through a workspace that is filled and a copy."""
    size = rows * WIDTH
    made = {
        "workload": f"of {rows}",
        "buffers": [["output", "y", "f32", [rows, WIDTH]], ["input", "x", "f32", [rows, WIDTH]],
                    ["workspace", "sums", 4 * WIDTH], ["state", "norm.mean", "f32", [WIDTH]],
                    ["param", "w", "f32", [WIDTH]], ["workspace", "other", 4 * WIDTH],
                    ["output", "copied", "f32", [rows, WIDTH]]],
        "steps": [
            {"fill": 2, "pattern": 0, "bytes": 4 * WIDTH},
            {"fill": 5, "pattern": 0, "bytes": 0},
            launch("sum", [["buffer", 1], ["buffer", 2], ["i64", size]], programmatic=1),
            launch("scale", [["buffer", 1], ["buffer", 4], ["buffer", 2], ["buffer", 0], ["buffer", 3], ["i32", -size],
                             ["f32", 0x3f000000]], programmatic=1),
            {"copy": 0, "to": 6, "bytes": 4 * size}]}
    made.update(changes)
    return made


def launch(entry, arguments, **changes):
    return {"launch": entry, "grid": [3, 2, 1], "block": [32, 1, 1], "cluster": [], "shared": 0, "cooperative": 0,
            "programmatic": 0, "arguments": arguments, **changes}


def floats(address, count):
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def sum_kernel(x, sums, size):
    time.sleep(0)  # lets another thread in
    floats(sums, WIDTH).add_(floats(x, size).view(-1, WIDTH).sum(0))


def scale_kernel(x, w, sums, y, mean, negative, half):
    size = -negative
    assert half == 0.5
    time.sleep(0)
    floats(mean, WIDTH).copy_(floats(sums, WIDTH) / (size // WIDTH))
    floats(y, size).copy_((floats(x, size).view(-1, WIDTH) * floats(w, WIDTH) + floats(sums, WIDTH)).view(-1))


KERNELS = {"sum": sum_kernel, "scale": scale_kernel}


class Module(torch.nn.Module):
    def __init__(self, solution):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(WIDTH))
        self.norm = torch.nn.Module()
        self.norm.register_buffer("mean", torch.zeros(WIDTH))
        self.solution = solution

    def forward(self, x):
        return self.solution.call(self, x)


def solution_of(*plans, card=None):
    card = card or HostCard(KERNELS)
    return launcher.Solution("It", "sm_90a", list(plans), [""] * len(plans), [""] * len(plans), card), card


def check_answer(module, x, outputs):
    want = x * module.w + x.sum(0)
    for output in outputs:
        assert torch.allclose(output, want, atol=1e-5), (output - want).abs().max()
    assert torch.allclose(module.norm.mean, x.mean(0), atol=1e-5)


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), f"'{error}' and not '{text}'"
        return
    raise AssertionError(f"no '{text}'")


def test_runs_in_order():
    solution, card = solution_of(plan())
    module, x = Module(solution), torch.randn(ROWS, WIDTH)
    outputs = module(x)
    check_answer(module, x, outputs)
    assert [call.entry if isinstance(call, Launched) else call[0] for call in card.driver.calls] == [
        "fill", "sum", "scale", "copy"]
    first, second = (call for call in card.driver.calls if isinstance(call, Launched))
    assert (first.grid, first.block, first.stream) == ([3, 2, 1], [32, 1, 1], 77)
    # Behind a fill there is nothing to overlap with.
    assert first.attributes == {} and second.attributes == {launcher.PROGRAMMATIC: [1, 0, 0]}
    again = module(x)
    assert again[0].data_ptr() != outputs[0].data_ptr()
    check_answer(module, x, again)


def test_attributes():
    steps = [launch("sum", [["buffer", 1]], cluster=[4, 1, 1], shared=100, cooperative=1),
             launch("sum", [["buffer", 1]], cooperative=1, programmatic=1)]
    solution, card = solution_of(plan(steps=steps), card=HostCard())
    Module(solution)(torch.randn(ROWS, WIDTH))
    first, second = card.driver.calls
    assert first.attributes == {launcher.CLUSTER: [4, 1, 1], launcher.COOPERATIVE: [1, 0, 0]} and first.shared == 100
    assert second.attributes == {launcher.COOPERATIVE: [1, 0, 0]}


def test_tensor_maps():
    # Rows of x from the second on, as boxes of 8 x 2; the other is all of the workspace.
    rows = [1, 4 * WIDTH, 4, [WIDTH, ROWS - 1], [4 * WIDTH], [8, 2], 32]
    steps = [launch("boxes", [["i32", 7], ["map", rows], ["buffer", 0], ["map", [2, 0, 2, [2 * WIDTH], [], [8], 0]]])]
    solution, card = solution_of(plan(steps=steps), card=HostCard())
    module, kept = Module(solution), []
    inputs = [torch.randn(ROWS, WIDTH) for _ in range(3)]
    for x in inputs + inputs + inputs[:1]:
        kept.append(module(x))  # so that no output's address comes again
        number, first, _, second = card.driver.calls[-1].parameters
        assert number == 7
        assert (first.address, first.type, first.rank) == (x.data_ptr() + 4 * WIDTH, launcher.MAP_TYPES[4], 2)
        assert list(first.sizes)[:2] == [WIDTH, ROWS - 1] and list(first.strides)[:1] == [4 * WIDTH]
        assert list(first.box)[:2] == [8, 2] and (first.swizzle, first.promotion) == (1, 2)
        assert (second.type, second.rank, second.swizzle) == (launcher.MAP_TYPES[2], 1, 0)
    # One for each address of x; the workspace may come to lie anywhere.
    assert 3 + 1 <= card.driver.encoded <= 3 + 7, card.driver.encoded
    for i in range(3 * launcher.MOST_MAPS):
        x = torch.randn(ROWS, WIDTH)
        kept.append((x, module(x)))
        assert card.driver.calls[-1].parameters[1].address == x.data_ptr() + 4 * WIDTH
    card.driver.errors = [1]
    raises(RuntimeError, "a tensor map: unknown (CUDA error 1)", lambda: module(torch.randn(ROWS, WIDTH)))
    x = torch.randn(ROWS, WIDTH)
    module(x)
    assert card.driver.calls[-1].parameters[1].address == x.data_ptr() + 4 * WIDTH


def test_tensor_maps_of_windows():
    # x as 2 images of 2 x 4 places of 4 channels, and windows of 3 x 1 that are 2 apart in a line.
    windows = [1, 0, 4, [4, 4, 2, 2], [16, 64, 128], [4, 256], 0, [[-1, 0], [-2, 0], [2, 1]]]
    steps = [launch("windows", [["map", windows], ["map", [1, 0, 4, [WIDTH], [], [8], 0]]])]
    solution, card = solution_of(plan(steps=steps), card=HostCard())
    x = torch.randn(ROWS, WIDTH)
    Module(solution)(x)
    first, second = card.driver.calls[-1].parameters
    assert (first.address, first.type, first.rank) == (x.data_ptr(), launcher.MAP_TYPES[4], 4)
    assert list(first.sizes)[:4] == [4, 4, 2, 2] and list(first.strides)[:3] == [16, 64, 128]
    assert (list(first.lower)[:2], list(first.upper)[:2], list(first.each)[:4]) == ([-1, 0], [-2, 0], [1, 2, 1, 1])
    assert (first.channels, first.places, first.swizzle, first.promotion) == (4, 256, 0, 2)
    assert (second.places, second.box[0]) == (0, 8)  # one without


def product_plan(version="13.1.0", algorithm=2):
    """y[b] = x[b] w[b]^T for x [2, 5, 8], of whose rows 3 are taken from the second on, and w [2, 8, 16] as it lies."""
    return {
        "workload": "product",
        "buffers": [["input", "x", "bf16", [2, 5, 8]], ["input", "w", "bf16", [2, 8, 16]],
                    ["output", "y", "f32", [2, 3, 16]], ["workspace", "library", 512]],
        "steps": [{"product": "cuBLASLt " + version, "algorithm": algorithm, "sizes": [2, 3, 16, 8],
                   "a": [0, 16, "bf16", 8, 40, 0], "b": [1, 0, "bf16", 16, 128, 1], "d": [2, 0, "f32", 16, 48, 0],
                   "workspace": 3}]}


class Product(torch.nn.Module):
    def __init__(self, **changes):
        super().__init__()
        self.solution, self.card = solution_of(product_plan(**changes), card=HostCard())

    def forward(self, x, w):
        return self.solution.call(self, x, w)


def test_products_by_a_library():
    module, kept = Product(), []
    for _ in range(3):  # addresses move
        x, w = torch.randn(2, 5, 8).bfloat16(), torch.randn(2, 8, 16).bfloat16()
        y, = module(x, w)
        assert torch.equal(y, x[:, 1:4].float() @ w.float())
        kept += [x, w, y]
    assert module.card.lt.calls == [(2, 512, 77)] * 3
    # Sums are never rounded before they are added up, and storage begins at multiples of 16 bytes.
    assert module.card.lt.preference == {1: 512, 3: 2, 5: 16, 6: 16, 7: 16, 8: 16}
    module.card.lt.status = 14
    raises(RuntimeError, "cuBLASLt 13.1.0: a product failed with status 14", lambda: module(x, w))
    raises(RuntimeError, "made for cuBLASLt 12.9.1, and here is cuBLASLt 13.1.0", lambda: Product(version="12.9.1")(x, w))
    raises(RuntimeError, "names 3 algorithms for a product, and number 4 was chosen", lambda: Product(algorithm=4)(x, w))


def test_products_with_a_bias():
    plan = product_plan()
    plan["buffers"].append(["param", "c", "f32", [20]])
    plan["steps"][0]["bias"] = [4, 16]

    class Biased(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.solution, self.card = solution_of(plan, card=HostCard())
            self.c = torch.nn.Parameter(torch.randn(20), requires_grad=False)

        def forward(self, x, w):
            return self.solution.call(self, x, w)

    module = Biased()
    kept, wrong = [], []

    def check():
        x, w = torch.randn(2, 5, 8).bfloat16(), torch.randn(2, 8, 16).bfloat16()
        y, = module(x, w)
        kept.append((x, w, y, module.c.data))
        if not torch.equal(y, x[:, 1:4].float() @ w.float() + module.c[4:]):
            wrong.append(len(kept))

    for _ in range(3):
        check()
        module.c.data = torch.randn(20)  # its address moves
    threads = [threading.Thread(target=lambda: [check() for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 83 and not wrong, wrong


def test_dispatches_on_shapes():
    solution, card = solution_of(plan(4), plan(8))
    module = Module(solution)
    for rows in (4, 8, 4):
        x = torch.randn(rows, WIDTH)
        check_answer(module, x, module(x))
    raises(ValueError, "It was made for x with shape (4, 16) or shape (8, 16), not shape (5, 16)",
           lambda: module(torch.randn(5, WIDTH)))
    raises(ValueError, "type torch.float32, not type torch.float64", lambda: module(torch.randn(8, WIDTH).double()))
    raises(ValueError, "a tensor, not a list", lambda: module([1]))
    count = len(card.driver.calls)
    x = torch.randn(WIDTH, 8).t()
    check_answer(module, x, module(x))  # scattered
    assert len(card.driver.calls) > count


def test_outputs_lie_as_the_plan_says():
    buffers = [["input", "x", "f32", [2, 3, 4]], ["output", "y", "f32", [4, 2, 3], [2, 0, 1]],
               ["output", "z", "f32", [2, 3, 4]]]
    steps = [{"copy": 0, "to": 1, "bytes": 96}, {"copy": 0, "to": 2, "bytes": 96}]
    solution, _ = solution_of({"workload": "", "buffers": buffers, "steps": steps}, card=HostCard())
    x = torch.randn(2, 3, 4)
    for _ in range(2):
        y, z = solution.call(None, x)
        assert (y.shape, y.stride()) == ((2, 3, 4), (3, 1, 6)) and (z.shape, z.stride()) == ((2, 3, 4), (12, 4, 1))
        assert torch.equal(y.permute(2, 0, 1).reshape(-1), x.view(-1)) and torch.equal(z, x)


def test_what_was_seen_is_looked_at_again():
    solution, _ = solution_of(plan())
    module, x = Module(solution), torch.randn(ROWS, WIDTH)
    for _ in range(3):
        check_answer(module, x, module(x))
    # A tensor may change in place, and keep its address.
    x.t_()
    raises(ValueError, "not shape (16, 4)", lambda: module(x))
    x.t_()
    x.resize_(ROWS - 1, WIDTH)
    raises(ValueError, "not shape (3, 16)", lambda: module(x))
    x.resize_(ROWS, WIDTH)
    check_answer(module, x, module(x))
    x.data = x.data.view(torch.int32)
    raises(ValueError, "not type torch.int32", lambda: module(x))
    x = torch.randn(WIDTH, ROWS).t()
    check_answer(module, x, module(x))
    module.w.data = torch.randn(WIDTH * 2)[::2]
    check_answer(module, x, module(x))
    module.w.data = torch.randn(WIDTH + 1)
    raises(ValueError, "w with shape (16,)", lambda: module(x))


def test_grad_modes_in_turn():
    solution, _ = solution_of(plan())
    module = Module(solution)
    for i in range(3 * launcher.MOST_SEEN):
        x = torch.randn(ROWS, WIDTH, requires_grad=i % 3 == 0)
        with torch.set_grad_enabled(i % 2 == 0):
            outputs = module(x)
        assert not outputs[0].requires_grad
        check_answer(module, x, outputs)


def test_one_tensor_twice():
    steps = [launch("add", [["buffer", 0], ["buffer", 1], ["buffer", 2]])]
    buffers = [["input", "a", "f32", [8]], ["input", "b", "f32", [8]], ["output", "y", "f32", [8]]]

    def add(a, b, y):
        floats(y, 8).copy_(floats(a, 8) + floats(b, 8))

    solution, _ = solution_of({"workload": "", "buffers": buffers, "steps": steps}, card=HostCard({"add": add}))
    x = torch.arange(8.0)
    for _ in range(3):
        assert torch.equal(solution.call(None, x, x)[0], 2 * x)
        assert torch.equal(solution.call(None, x, x + 1)[0], 2 * x + 1)


def test_eight_bit_floats_are_taken_as_their_bits():
    steps = [launch("widen", [["buffer", 0], ["buffer", 1]])]
    buffers = [["input", "x", "u8", [8]], ["output", "y", "f32", [8]]]

    def widen(x, y):
        floats(y, 8).copy_(torch.frombuffer((ctypes.c_uint8 * 8).from_address(x), dtype=torch.uint8))

    solution, _ = solution_of({"workload": "", "buffers": buffers, "steps": steps}, card=HostCard({"widen": widen}))
    bits = torch.tensor([0, 1, 7, 56, 126, 128, 200, 254], dtype=torch.uint8)
    for _ in range(2):
        assert torch.equal(solution.call(None, bits.view(torch.float8_e4m3fn))[0], bits.float())
    assert torch.equal(solution.call(None, bits)[0], bits.float())
    raises(ValueError, "type torch.float8_e5m2", lambda: solution.call(None, bits.view(torch.float8_e5m2)))


def test_subclasses_are_tensors_too():
    class Mine(torch.Tensor):
        ...

    solution, _ = solution_of(plan())
    module, x = Module(solution), torch.randn(ROWS, WIDTH)
    check_answer(module, x, module(x.as_subclass(Mine)))


def test_streams():
    current = [5]
    solution, card = solution_of(plan())
    card.stream = lambda device: current[0]
    module, x = Module(solution), torch.randn(ROWS, WIDTH)
    for current[0] in (5, 9, 0, 9):
        card.driver.calls.clear()
        module(x)
        assert {call.stream if isinstance(call, Launched) else call[-1] for call in card.driver.calls} == {current[0]}


def lanes_plan():
    """y = 3 x: doubled in the caller's lane, copied in another, and a third one fills; all are added up."""
    return {"workload": "", "buffers": [["input", "x", "f32", [8]], ["output", "y", "f32", [8]],
                                        ["workspace", "double", 32], ["workspace", "copied", 32],
                                        ["workspace", "noughts", 32]],
            "steps": [{**launch("double", [["buffer", 0], ["buffer", 2]]), "lane": 0, "after": []},
                      {"copy": 0, "to": 3, "bytes": 32, "lane": 1, "after": []},
                      {"fill": 4, "pattern": 0, "bytes": 32, "lane": 2, "after": []},
                      {**launch("add", [["buffer", 2], ["buffer", 3], ["buffer", 3]], programmatic=1), "lane": 1,
                       "after": [0]},
                      {**launch("add", [["buffer", 3], ["buffer", 4], ["buffer", 1]], programmatic=1), "lane": 1,
                       "after": [2]}]}


LANE_KERNELS = {"double": lambda x, y: floats(y, 8).copy_(2 * floats(x, 8)),
                "add": lambda x, z, y: floats(y, 8).copy_(floats(x, 8) + floats(z, 8))}


def orders(calls):
    """[{places of calls that have ended when it begins}], by streams and events."""
    before, in_stream, recorded = [], {}, {}
    for i, call in enumerate(calls):
        stream = call.stream if isinstance(call, Launched) else call[-1]
        known = set(in_stream.get(stream, ()))
        if call[0] == "wait":
            known |= recorded[call[1]]
        if call[0] == "record":
            recorded[call[1]] = known | {i}
        before.append(known)
        in_stream[stream] = known | {i}
    return before


def test_lanes():
    solution, card = solution_of(lanes_plan(), card=HostCard(LANE_KERNELS))
    for turn in range(3):
        card.driver.calls.clear()
        x = torch.randn(8)
        y, = solution.call(None, x)
        assert torch.equal(y, 3 * x)
        calls = card.driver.calls
        double, copy, fill, add, last = [i for i, call in enumerate(calls) if call[0] not in ("wait", "record")]
        stream = [call.stream if isinstance(call, Launched) else call[-1] for call in calls]
        assert [stream[i] for i in (double, copy, fill, add, last)] == [77, 78, 79, 78, 78]
        before = orders(calls)
        assert {double, copy} <= before[add] and fill not in before[add] and {add, fill} <= before[last]
        assert not before[copy] & {double, fill} and not before[fill] & {double, copy}
        # No lane begins before the caller's stream is there, nor is that done before they are.
        began, ended = min(i for i, call in enumerate(calls) if call[0] == "record"), len(calls) - 1
        assert all(began in in_lane and stream[began] == 77 for in_lane in (before[copy], before[fill]))
        assert {double, copy, fill, add, last} <= before[ended] and stream[ended] == 77
        # Nothing waits between the two additions but for the fill: no overlap.
        assert [calls[i].attributes for i in (add, last)] == [{}, {}]
    assert (card.streams, card.driver.made) == (2, 3)


def test_kernels_of_a_lane_overlap():
    plan = lanes_plan()
    plan["steps"][4]["after"] = []
    solution, card = solution_of(plan, card=HostCard(LANE_KERNELS))
    solution.call(None, torch.randn(8))
    assert [call.attributes for call in card.driver.calls if isinstance(call, Launched)] == [
        {}, {}, {launcher.PROGRAMMATIC: [1, 0, 0]}]


def test_lanes_are_one_calls_at_a_time():
    solution, card = solution_of(lanes_plan(), card=HostCard(LANE_KERNELS))
    current, x = [77], torch.randn(8)
    card.stream = lambda device: current[0]

    def call():
        card.driver.calls.clear()
        assert torch.equal(solution.call(None, x)[0], 3 * x)
        return {call[-1] for call in card.driver.calls if call[0] == "wait"} - {current[0]}

    first = call()
    card.driver.captures[77] = 5
    assert call() == first == call()  # of one capture, all of it
    current[0] = 90
    other = call()  # and not of another stream's meanwhile
    assert not other & first and other == call()
    current[0], card.driver.captures[91] = 91, 6
    third = call()
    assert not third & (first | other) and third == call()
    del card.driver.captures[91]  # the capture goes on, and its lanes are part of it
    card.driver.captures.update({stream: 6 for stream in third})
    fourth = call()
    assert not fourth & (first | other | third)
    current[0], card.driver.captures[90] = 90, 7
    assert call() == other
    card.driver.captures.clear()
    card.driver.captures.update({stream: -1 for stream in other})  # one that failed, and has not ended
    for current[0] in (90, 91, 77):
        assert not call() & other
    card.driver.captures.clear()
    assert card.streams == 10


def test_lanes_end_when_a_call_fails():
    solution, card = solution_of(lanes_plan(), card=HostCard(LANE_KERNELS))
    x = torch.randn(8)
    for errors in range(14):
        card.driver.calls.clear()
        card.driver.errors = [0] * errors + [719]
        raises(RuntimeError, "CUDA error 719", lambda: solution.call(None, x))
        # What was put into lanes is waited for.
        calls = card.driver.calls
        done = {i for i, call in enumerate(calls) if call[0] not in ("wait", "record")}
        ended = orders(calls + [("fill", 0, 77)])[-1]
        assert done <= ended, (errors, calls)
    card.driver.errors = []
    assert torch.equal(solution.call(None, x)[0], 3 * x)
    assert card.streams == 2


def test_prepares():
    def square(w, squares):
        floats(squares, WIDTH).copy_(floats(w, WIDTH) ** 2)

    def times(x, squares, y):
        floats(y, 4 * WIDTH).copy_((floats(x, 4 * WIDTH).view(4, WIDTH) * floats(squares, WIDTH)).view(-1))

    prepare = {"workload": "of 4", "buffers": [["param", "w", "f32", [WIDTH]], ["output", "squares", "f32", [WIDTH]]],
               "steps": [launch("square", [["buffer", 0], ["buffer", 1]])]}
    buffers = [["input", "x", "f32", [4, WIDTH]], ["param", "w", "f32", [WIDTH]], ["output", "y", "f32", [4, WIDTH]],
               ["prepared", "squares", "f32", [WIDTH]]]
    times_step = launch("times", [["buffer", 0], ["buffer", 3], ["buffer", 2]])
    solution, card = solution_of({"workload": "of 4", "buffers": buffers, "steps": [times_step], "prepare": prepare},
                                 card=HostCard({"square": square, "times": times}))
    module, x = Module(solution), torch.randn(4, WIDTH)

    def call(entries):
        outputs = module(x)
        assert torch.allclose(outputs[0], x * module.w ** 2), entries
        calls, card.driver.calls = card.driver.calls, []
        assert [c.entry if isinstance(c, Launched) else c[0] for c in calls] == entries
        return calls[-1].parameters[1]

    address = call(["square", "times"])
    assert card.waited == ["device", 78]
    assert call(["times"]) == address
    # Other weights, whatever way they came: what graphs were captured with is where the new ones are left.
    with torch.no_grad():
        module.w.add_(1)
    assert call(["square", "copy", "times"]) == address
    module.w = torch.nn.Parameter(torch.randn(WIDTH))
    assert call(["square", "copy", "times"]) == address
    module.w.data = torch.randn(WIDTH)
    assert call(["square", "copy", "times"]) == address
    module.load_state_dict({name: value + 1 for name, value in module.state_dict().items()})
    assert call(["square", "copy", "times"]) == address
    assert call(["times"]) == address
    # One that is not dense is made so by each call, and what was made of it before is another one's.
    module.w = torch.nn.Parameter(torch.randn(2 * WIDTH)[::2])
    assert call(["square", "copy", "times"]) == address
    assert call(["square", "copy", "times"]) == address
    # Nor does one that is, beside an input that is not.
    module.w = torch.nn.Parameter(torch.randn(WIDTH))
    x = torch.randn(WIDTH, 4).t()
    assert call(["square", "copy", "times"]) == address
    assert call(["times"]) == address
    # Another module has its own.
    first, x = module, torch.randn(4, WIDTH)
    module = Module(solution)
    other = call(["square", "times"])
    assert other != address and call(["times"]) == other
    module = first
    assert call(["times"]) == address
    with torch.inference_mode():
        module.w = torch.nn.Parameter(torch.randn(WIDTH), requires_grad=False)
        assert call(["square", "copy", "times"]) == address
        assert call(["times"]) == address


def test_errors():
    solution, card = solution_of(plan())
    module, x = Module(solution), torch.randn(ROWS, WIDTH)
    # A thread without a context gets one, once.
    card.driver.errors = [launcher.INVALID_CONTEXT]
    check_answer(module, x, module(x))
    assert card.entered == 1
    card.driver.errors = [0, 0, 719]
    raises(RuntimeError, "scale: unknown (CUDA error 719)", lambda: module(x))
    card.driver.errors = [launcher.INVALID_CONTEXT, launcher.INVALID_CONTEXT]
    raises(RuntimeError, "filling or copying to sums", lambda: module(x))
    check_answer(module, x, module(x))


def test_threads():
    solution, _ = solution_of(plan(4), plan(8))
    failures = []

    def work(seed):
        try:
            generator = torch.Generator().manual_seed(seed)
            module = Module(solution)
            for i in range(100):
                x = torch.randn(4 + 4 * (i % 2), WIDTH, generator=generator)
                check_answer(module, x, module(x))
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    assert not failures, failures


def test_compiles():
    cubin = launcher.compiled('extern "C" __global__ void k(float* x) { *x = 1; }', "sm_90a")
    assert cubin[:4] == b"\x7fELF" and b"k" in cubin
    raises(RuntimeError, "identifier \"y\" is undefined",
           lambda: launcher.compiled('extern "C" __global__ void k(float* x) { *x = y; }', "sm_90a"))
    raises(RuntimeError, "NVRTC for sm_12: ", lambda: launcher.compiled("", "sm_12"))


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            torch.manual_seed(3)
            test()
            print("passed", name)


if __name__ == "__main__":
    main()
