"""A KernelBench-style file: class Model, get_inputs() and get_init_inputs().

A file for several workloads also has WORKLOADS = {name: {dimension: int}}, and both functions take the
dimensions by name; with defaults for them it is a KernelBench file too, for one of them.
"""
import importlib.util
import inspect
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


def check_dimensions(where, dims, first):
    """Raises ValueError where a workload's dimensions are not what WORKLOADS may say."""
    if not isinstance(dims, dict):
        raise ValueError(f"{where} is {dims!r:.60}: it must be {{dimension: size}}, such as {{'R': 4096}}")
    for dimension, size in dims.items():
        if not isinstance(dimension, str) or not dimension.isidentifier():
            raise ValueError(f"{where}: {dimension!r:.60} is no name for an argument, as a dimension's must be")
        if type(size) is not int or not 0 < size < 1 << 63:
            raise ValueError(f"{where}: dimension '{dimension}' is {size!r:.60}: it must be a whole number above 0")
    if set(dims) != set(first):
        raise ValueError(f"{where} has the dimensions {', '.join(dims) or 'none'}, and the first workload "
                         f"{', '.join(first) or 'none'}: all must have the same")


def check_takes(module, function, where, dims):
    """Raises ValueError where a function of the file cannot be called with the dimensions by name."""
    signature = inspect.signature(getattr(module, function))
    try:
        signature.bind(**dims)
    except TypeError as error:
        todo = ("it must take all dimensions of WORKLOADS by name, and nothing else without a default"
                if dims else "give its parameters defaults, or the file WORKLOADS")
        raise ValueError(f"{where}{function}{signature}: {error}; {todo}") from None


def workloads_of(module):
    """{name: dimensions}; one without dimensions where the file says nothing of workloads.

    ValueError: WORKLOADS is no such thing, or get_inputs or get_init_inputs do not take the dimensions."""
    said = hasattr(module, "WORKLOADS")
    workloads = module.WORKLOADS if said else {"default": {}}
    if not isinstance(workloads, dict) or not workloads:
        raise ValueError(f"WORKLOADS is {workloads!r:.60}: it must be {{name: {{dimension: size}}}} with a workload at "
                         "least, such as {'short': {'R': 4096, 'C': 256}}")
    functions = [name for name in ("get_inputs", "get_init_inputs") if hasattr(module, name)]
    for name, dims in workloads.items():
        if not isinstance(name, str):
            raise ValueError(f"WORKLOADS: {name!r:.60} is no name of a workload: it must be a text")
        if said:
            check_dimensions(f"WORKLOADS: '{name}'", dims, next(iter(workloads.values())))
        for function in functions:
            check_takes(module, function, f"workload '{name}': " if said else "", dims)
    return workloads


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
