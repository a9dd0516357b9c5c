"""A KernelBench-style file: class Model, get_inputs() and get_init_inputs().

A file for several workloads also has WORKLOADS = {name: {dimension: int}}, and both functions take the
dimensions by name; with defaults for them it is a KernelBench file too, for one of them.
"""
import importlib.util
import os
import re
import sys
import tempfile

SEED = 42  # of the constructor, as KernelBench draws its weights


def load_file(path):
    """The file as a module. It has a real file name, so that torch.compile and inspect find its source."""
    name = "warpsmith_module_" + re.sub(r"\W", "_", os.path.abspath(path))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    for wanted in ("Model", "get_inputs"):
        if not hasattr(module, wanted):
            raise ValueError(f"{path} has no {wanted}")
    return module


def load_source(source, directory=None):
    """The same from text. The file stays until the caller removes it: returns (module, its path)."""
    handle, path = tempfile.mkstemp(suffix=".py", prefix="warpsmith_module_", dir=directory)
    with os.fdopen(handle, "w") as file:
        file.write(source)
    try:
        return load_file(path), path
    except BaseException:
        os.unlink(path)
        raise


def workloads_of(module):
    """{name: dimensions}; one without dimensions where the file says nothing of workloads."""
    return getattr(module, "WORKLOADS", None) or {"default": {}}


def init_arguments(module, dims=None):
    """(args, kwargs) of the constructor: a list, or a list and a dictionary."""
    init = module.get_init_inputs(**(dims or {})) if hasattr(module, "get_init_inputs") else []
    if len(init) == 2 and isinstance(init[0], (list, tuple)) and isinstance(init[1], dict):
        return list(init[0]), dict(init[1])
    return list(init), {}


def tensors_of(model):
    """{name: parameter or buffer}; a shared one is there under each of its names."""
    return {**dict(model.named_parameters(remove_duplicate=False)),
            **dict(model.named_buffers(remove_duplicate=False))}


def make_model(module, dims=None):
    """The model with the weights KernelBench gives it, in train() mode, on the default device.

    dims: of a workload; its inputs are get_inputs(**dims)."""
    import torch

    torch.manual_seed(SEED)
    args, kwargs = init_arguments(module, dims)
    torch.manual_seed(SEED)
    return module.Model(*args, **kwargs)
