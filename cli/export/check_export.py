"""Tries an exported KernelBench file without a card.

    python check_export.py REFERENCE.py EXPORTED.py

The file must read as Python, stand KernelBench's static check, and define a ModelNew with the constructor,
parameters, buffers and state dict of the reference's Model. Its forward is run on the CPU with the processor in
place of the card, to see which addresses kernels get and in which order.
"""
import inspect
import os
import re
import sys
import types

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))
from host_card import APART, HostCard, Launched  # noqa: E402

REFUSED = [r"\btry\s*:", r"\bexcept\s*:", r"\bexcept\s+\w+", r"\bpass\b", r"cuda\.Stream\s*\(",
           r"with\s+torch\.cuda\.stream", r"\.wait_stream\s*\(", r"\.record_stream\s*\(", r"import\s+threading",
           r"from\s+threading\s+import", r"multiprocessing", r"concurrent\.futures", r"_make_subclass",
           r"class\s+\w+.*\(torch\.Tensor\)", r"class\s+\w+.*\(Tensor\)", r"torch\.Tensor\.__new__",
           r"(torch\.cuda\.Event|synchronize|perf_counter|time\.time)\s*="]


def without_comments(text):
    return "\n".join(line.split("#")[0].split("//")[0] for line in text.splitlines())


def load(path, name):
    module = types.ModuleType(name)
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


def tuple_of(value):
    return value if isinstance(value, tuple) else (value,)


def places(parameters):
    """With tensor maps' addresses."""
    return [getattr(p, "address", p) for p in parameters]


def addresses(card):
    """What each call was given, of one run."""
    found = [places(call.parameters) if isinstance(call, Launched) else call[1:3] for call in card.driver.calls
             if call[0] not in ("record", "wait")]
    card.driver.calls.clear()
    return found


def main(reference_path, exported_path):
    with open(exported_path) as file:
        text = without_comments(file.read())
    for pattern in REFUSED:
        found = re.search(pattern, text)
        assert not found, f"KernelBench refuses {pattern}: {text[found.start() - 80:found.end() + 20]}"
    assert "__global__" in text and "load_inline" in text

    reference, exported = load(reference_path, "reference"), load(exported_path, "exported")
    initial = reference.get_init_inputs()
    assert (str(inspect.signature(exported.ModelNew.__init__)) ==
            str(inspect.signature(reference.Model.__init__)))
    assert (list(inspect.signature(exported.ModelNew.forward).parameters) ==
            list(inspect.signature(reference.Model.forward).parameters))
    models = []
    for made in (reference.Model, exported.ModelNew):
        torch.manual_seed(42)
        models.append(made(*initial))
    want, model = models
    assert not isinstance(model, reference.Model)
    assert list(model.state_dict()) == list(want.state_dict())
    for name, value in want.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    model.load_state_dict(want.state_dict())
    inputs = reference.get_inputs()
    card = HostCard()

    def refuses(*arguments):
        try:
            model(*arguments)
        except ValueError as error:
            print("refuses:", error)
            assert not card.driver.calls
            return
        raise AssertionError("it took what it was not made for")

    refuses(*inputs)  # they are on the CPU
    exported._solution._card = card
    outputs = tuple_of(model(*inputs))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    known = {tensor.data_ptr(): name for name, tensor in tensors.items()}
    known.update({tensor.data_ptr(): f"output {i}" for i, tensor in enumerate(outputs)})
    known.update({tensor.data_ptr(): f"input {i}" for i, tensor in enumerate(inputs)
                  if isinstance(tensor, torch.Tensor)})
    prepare = exported._PLANS[0].get("prepare", {"steps": []})
    prepares = [step["launch"] for step in prepare["steps"] if "launch" in step]
    lanes = {step["launch"]: step.get("lane", 0) for plan in exported._PLANS for step in plan["steps"]
             if "launch" in step}
    for call in card.driver.calls:
        if isinstance(call, Launched):
            assert call.stream == (APART if call.entry in prepares else
                                   77 if lanes[call.entry] == 0 else APART + lanes[call.entry] - 1)
            print(call.entry, call.grid, call.block, call.attributes,
                  [known.get(p, p) for p in places(call.parameters)])
    given = [tensor.data_ptr() for tensor in inputs if isinstance(tensor, torch.Tensor)]
    launches = [call for call in card.driver.calls if isinstance(call, Launched)]
    inputs_of = [[p for p in places(call.parameters) if str(known.get(p)).startswith("input")] for call in launches]
    assert list(dict.fromkeys(next(found for found in inputs_of if found))) == given
    addresses(card)
    expected = tuple_of(want(*inputs))
    assert ([(o.shape, o.dtype, o.stride()) for o in outputs] ==
            [(o.shape, o.dtype, o.stride()) for o in expected])
    same = lambda tensors: [[a is b for b in tensors] for a in tensors]
    assert same(outputs) == same(expected)  # one that is given twice

    for i, value in enumerate(inputs):
        is_tensor = isinstance(value, torch.Tensor)
        for other in ([value[:-1], value.double(), 3.5, None] if is_tensor else [value + 1]):
            refuses(*inputs[:i], other, *inputs[i + 1:])
    # A scattered input is made dense, an unaligned one is moved; neither is changed. What has to be is refused.
    kinds = {buffer[1]: buffer[0] for buffer in exported._PLANS[0]["buffers"]}
    for i, (name, value) in enumerate(zip(inspect.signature(want.forward).parameters, inputs)):
        if isinstance(value, torch.Tensor) and value.dim() > 1:
            scattered = value.transpose(0, 1).contiguous().transpose(0, 1)
            shifted = torch.empty(value.numel() + 1, dtype=value.dtype)[1:].view(value.shape)
            for other in (scattered, shifted):
                if kinds.get(name) == "inout":
                    refuses(*inputs[:i], other, *inputs[i + 1:])
                    continue
                model(*inputs[:i], other, *inputs[i + 1:])
                assert all(other.data_ptr() not in row for row in addresses(card))
    states = [buffer[1] for buffer in exported._PLANS[0]["buffers"] if buffer[0] == "state"]
    for name, buffer in model.named_buffers():
        if name in states and buffer.dim() == 1:
            owner = model.get_submodule(name.rpartition(".")[0])
            setattr(owner, name.rpartition(".")[2], torch.empty(2 * len(buffer))[::2])
            refuses(*inputs)
            setattr(owner, name.rpartition(".")[2], buffer)
    # Weights that were replaced are seen.
    for name, old in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], torch.nn.Parameter(old.detach().clone()))
        model(*inputs)
        assert all(old.data_ptr() not in row for row in addresses(card))
    # A default device, which looks at every call of PyTorch's, changes nothing.
    torch.set_default_device("cpu")
    model(*inputs)
    assert len(addresses(card)) > 0


if __name__ == "__main__":
    main(*sys.argv[1:])
