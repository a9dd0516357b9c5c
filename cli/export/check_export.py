"""Tries an exported KernelBench file without a card.

    python check_export.py REFERENCE.py EXPORTED.py [NVCC]

The file must read as Python, pass the patterns that KernelBench's static check refuses, and define a
ModelNew with the constructor, parameters, buffers and state dict of the reference's Model. Its
forward is run on the CPU with what needs a card replaced (the extension, the device test), to see
which pointers it hands over and in which order. With NVCC the extension's sources are also compiled.
"""
import inspect
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import types

import torch
import torch.utils.cpp_extension

REFUSED = [r"\btry\s*:", r"\bexcept\s*:", r"\bexcept\s+\w+", r"\bpass\b", r"torch\.cuda\.Stream\s*\(",
           r"import\s+threading", r"_make_subclass"]


def without_comments(text):
    return "\n".join(line.split("#")[0].split("//")[0] for line in text.splitlines())


def load(path, name, change=lambda text: text):
    module = types.ModuleType(name)
    with open(path) as file:
        text = change(file.read())
    exec(compile(text, path, "exec"), module.__dict__)
    return module


def check_build(built, nvcc):
    """Compiles both sources the way load_inline does, with the headers it would have."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {"main.cpp": built["cpp_sources"], "cuda.cu": built["cuda_sources"]}
        for name, parts in sources.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write("\n".join(parts))
        define = "-DTORCH_EXTENSION_NAME=" + built["name"]
        include = "-I" + sysconfig.get_path("include")
        subprocess.run(["c++", "-std=c++17", "-fPIC", define, include, "-c", "main.cpp", "-o", "main.o"],
                       cwd=folder, check=True)
        subprocess.run([nvcc, define, "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", "-std=c++17",
                        *built["extra_cuda_cflags"], "-c", "cuda.cu", "-o", "cuda.o"],
                       cwd=folder, check=True)
        subprocess.run([nvcc, "--shared", "main.o", "cuda.o", "-o", built["name"] + ".so"],
                       cwd=folder, check=True)
        # The module loads, and counts its arguments before it touches a card.
        subprocess.run([sys.executable, "-c", f"""
import sys
sys.path.insert(0, {folder!r})
import {built["name"]} as solution
for arguments in [(), ("x",) * {len(built["pointers"])}]:
    try:
        solution.run(*arguments)
    except TypeError:
        continue
    sys.exit("run took anything")
"""], check=True)


def main(reference_path, exported_path, nvcc=None):
    with open(exported_path) as file:
        text = without_comments(file.read())
    for pattern in REFUSED:
        assert not re.search(pattern, text), f"KernelBench refuses {pattern}"
    assert "__global__" in text and "load_inline" in text

    built, calls = {}, []

    def load_inline(**arguments):
        built.update(arguments)
        return types.SimpleNamespace(run=lambda *pointers: calls.append(pointers))

    torch.utils.cpp_extension.load_inline = load_inline
    reference = load(reference_path, "reference")
    strict = load(exported_path, "strict")
    lenient = load(exported_path, "lenient", lambda text: re.sub(
        r'if device_?.type != "cuda" or device_?.index != torch.cuda.current_device\(\)', "if False", text))
    torch._C._cuda_getCurrentRawStream = lambda index: 77

    initial = reference.get_init_inputs()
    assert (str(inspect.signature(strict.ModelNew.__init__)) ==
            str(inspect.signature(reference.Model.__init__)))
    assert (list(inspect.signature(strict.ModelNew.forward).parameters) ==
            list(inspect.signature(reference.Model.forward).parameters))
    models = []
    for made in (reference.Model, strict.ModelNew, lenient.ModelNew):
        torch.manual_seed(42)
        models.append(made(*initial))
    want, refusing, model = models
    assert not isinstance(model, reference.Model)
    assert list(model.state_dict()) == list(want.state_dict())
    for name, value in want.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    model.load_state_dict(want.state_dict())

    inputs = reference.get_inputs()

    def refuses(module, *arguments):
        count = len(calls)
        try:
            module(*arguments)
        except ValueError as error:
            print("refuses:", error)
            assert len(calls) == count
            return
        raise AssertionError("it took what it was not made for")

    refuses(refusing, *inputs)   # they are on the CPU
    outputs = model(*inputs)
    pointers = calls[-1]
    built["pointers"] = pointers
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    known = {tensor.data_ptr(): name for name, tensor in tensors.items()}
    known.update({tensor.data_ptr(): f"input {i}" for i, tensor in enumerate(inputs)
                  if isinstance(tensor, torch.Tensor)})
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    known.update({tensor.data_ptr(): f"output {i}" for i, tensor in enumerate(outputs)})
    print("pointers:", [known.get(pointer, "?") for pointer in pointers])
    expected = want(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert ([(o.shape, o.dtype, o.stride()) for o in outputs] ==
            [(o.shape, o.dtype, o.stride()) for o in expected])
    assert pointers[-1] == 77
    given = [tensor.data_ptr() for tensor in inputs if isinstance(tensor, torch.Tensor)]
    assert list(pointers[:len(given)]) == given

    for i, value in enumerate(inputs):
        others = [value[:-1], value.double()] if isinstance(value, torch.Tensor) else [value + 1]
        if isinstance(value, torch.Tensor) and len(known) > 1 + len(outputs):
            others.append(value.to("meta"))   # with other tensors elsewhere
        for other in others:
            refuses(model, *inputs[:i], other, *inputs[i + 1:])
    # A scattered input is made dense, an unaligned one is moved.
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.dim() > 1:
            model(*inputs[:i], value.transpose(0, 1).contiguous().transpose(0, 1), *inputs[i + 1:])
            shifted = torch.empty(value.numel() + 1, dtype=value.dtype)[1:].view(value.shape)
            model(*inputs[:i], shifted, *inputs[i + 1:])
            assert all(pointer % 16 == 0 for pointer in calls[-1][:-1])
    if nvcc:
        check_build(built, nvcc)


if __name__ == "__main__":
    main(*sys.argv[1:])
