"""Where a module's inputs are drawn; "meta" stands for the card.

  python python/tests/check_drawn.py
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from warpsmith_torch.drawn import Inputs, like_a_processor


def devices(get_inputs, device="meta"):
    """Where each input was when it was last made by name, and where it is given."""
    made = []

    def watched():
        inputs = get_inputs()
        made[:] = [x.device.type if isinstance(x, torch.Tensor) else None for x in inputs]
        return inputs

    given = Inputs(watched, device).draw(1)
    return made, [x.device.type if isinstance(x, torch.Tensor) else x for x in given]


def test_the_processor_by_name():
    get_inputs = lambda: [torch.randn([4], device="cpu").abs() + 0.1, torch.zeros(3, device=torch.device("cpu")), 1e-6]
    assert devices(get_inputs) == (["meta", "meta", None], ["meta", "meta", 1e-6])


def test_no_name():
    with torch.device("meta"):  # as the oracle's default is
        assert devices(lambda: [torch.rand(2)]) == (["meta"], ["meta"])


def test_what_needs_the_processor():
    calls = []

    def get_inputs():
        calls.append(1)
        return [torch.from_numpy(torch.randn(3, device="cpu").numpy())]

    inputs = Inputs(get_inputs, "meta")
    assert [x.device.type for x in inputs.draw(1)] == ["meta"]
    assert len(calls) == 2  # it was tried
    inputs.draw(2)
    assert len(calls) == 3  # and is not again


def test_uniform_numbers():
    drawn = torch.rand(1 << 16, device="cpu", dtype=torch.float64).float().requires_grad_()  # with all their digits
    assert not torch.equal(drawn * 2 ** 24, (drawn * 2 ** 24).floor())
    before = drawn.detach().clone()
    like_a_processor(drawn)
    assert torch.equal(drawn * 2 ** 24, (drawn * 2 ** 24).floor()) and (before - drawn).abs().max() <= 2.0 ** -24
    processors = torch.rand(1 << 16, device="cpu")
    assert torch.equal(processors * 2 ** 24, (processors * 2 ** 24).floor())
    get_inputs = lambda: [torch.rand(4, device="cpu", requires_grad=True)]
    assert devices(get_inputs) == (["meta"], ["meta"])  # not by the processor, since it is in place


def test_seeds():
    inputs = Inputs(lambda: [torch.randn(8, device="cpu")], "cpu")
    (a,), (b,), (again,) = inputs.draw(1), inputs.draw(2), inputs.draw(1)
    assert torch.equal(a, again) and not torch.equal(a, b)


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("passed", name)


if __name__ == "__main__":
    main()
