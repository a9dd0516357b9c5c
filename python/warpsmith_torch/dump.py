"""Writes the core-ATen graph of KernelBench-style files as JSON lines, one a file.

  python -m warpsmith_torch.dump FILE...          (or a list of files on standard input)

No data is made: inputs and large models are fake tensors. The first line is empty and says that PyTorch is
there. A line has either "error" or

  path, source, torch           the file, its text, the PyTorch version
  placeholders                  [{name, kind: input | scalar | param | buffer | constant, state: state-dict
                                name, shape, dtype, value, distribution}] in the graph's order
  nodes                         [{name, op, args: {parameter: value}, outputs: [{shape, dtype} | null]}]
  outputs                       [{node, shape, strides}], tensors only, in forward's order; of one that is a part of
                                node's tensor also view: {sizes, strides, offset}, in elements. One that is an input,
                                or a part of it, has given, that input's name, for node
  updates                       [{state, node}]: buffers that forward changes; [{inout, node}]: inputs, by name
  init                          the constructor's arguments, for people
  description                   the first line of the file's docstring, or ""

A file for several workloads (module.py) has `workloads` in place of placeholders to init: a list of what
these say for each, with its name and its dims.

A value is null, a bool, a number, a string, a list, {"node": name}, {"dtype": name} or
{"number": "inf" | "-inf" | "nan"}. Arguments are complete: defaults are filled in.
"""
import contextlib
import json
import math
import os
import re
import signal
import sys
import warnings
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode

from warpsmith_torch import distributions, module as modules

SECONDS_PER_FILE = 60
# Larger models are not built for real: their weights count as normal draws.
REAL_MODEL_ELEMENTS = 64 << 20
# Constant tensors of a module's code of up to so many elements are written out.
CONSTANT_ELEMENTS = 1024

DTYPES = {
    torch.bool: "bool", torch.int8: "i8", torch.uint8: "u8", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}


# Types that stand between operators alone, where another has all their numbers.
CARRIED = {torch.float8_e4m3fn: torch.float16}


def saturates(dtype):
    """Whether what is beyond the type's numbers becomes the last of them, as PyTorch has it of late, or NaN."""
    return not torch.tensor(math.inf).to(dtype).float().isnan().item()


def dtype_name(dtype):
    return DTYPES.get(dtype, str(dtype).replace("torch.", ""))


def number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    return value


def encode(value):
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        raise ValueError("a symbolic size is left in the graph")
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    return str(value)  # layout, device, memory format: for people


def describe(value):
    if isinstance(value, torch.Tensor):
        return {"shape": [int(n) for n in value.shape], "dtype": dtype_name(value.dtype)}
    return None


def carried(value):
    """What an operator gives, as it is handed on."""
    row = describe(value)
    if row and value.dtype in CARRIED:
        row["dtype"] = dtype_name(CARRIED[value.dtype])
    return row


def encode_node(node):
    target, args = node.target, {}
    if getattr(target, "__name__", "") == "getitem":
        op, args = "getitem", {"self": encode(node.args[0]), "index": encode(node.args[1])}
    elif isinstance(target, torch._ops.OpOverload):
        op = str(target)
        if target == torch.ops.aten._to_copy.default and node.meta["val"].dtype in CARRIED:
            op = f"aten._to_copy.{dtype_name(node.meta['val'].dtype)}"
            args["saturates"] = saturates(node.meta["val"].dtype)
        for position, parameter in enumerate(target._schema.arguments):
            if position < len(node.args):
                value = node.args[position]
            else:
                value = node.kwargs.get(parameter.name, parameter.default_value)
            args[parameter.name] = encode(value)
    else:
        raise ValueError(f"'{target}' is not an operator of PyTorch")
    meta = node.meta.get("val")
    outputs = [carried(v) for v in (meta if isinstance(meta, (list, tuple)) else [meta])]
    return {"name": node.name, "op": op, "args": args, "outputs": outputs}


def constant_values(tensor):
    """The numbers of a small constant tensor, also of one made under a fake mode; None if unknown."""
    tensor = getattr(tensor, "constant", None) if type(tensor).__name__ == "FakeTensor" else tensor
    if tensor is None or tensor.numel() > CONSTANT_ELEMENTS:
        return None
    return [number(v) for v in tensor.detach().reshape(-1).tolist()]


def real_distributions(module, fake_model, dims):
    """{state-dict name: distribution} from a real model, where that is small enough to build."""
    tensors = modules.tensors_of(fake_model)
    if not tensors or sum(t.numel() for t in tensors.values()) > REAL_MODEL_ELEMENTS:
        return {}
    with torch.device("cpu"):
        real = modules.make_model(module, dims)
    return {name: distributions.of_values(t) for name, t in modules.tensors_of(real).items()}


def beside_buffers(model):
    """{attribute: what tells whether it changed} of what the model's modules keep beside parameters and
    buffers."""
    found = {}
    for name, part in model.named_modules():
        for key, value in {**vars(type(part)), **vars(part)}.items():
            where = f"{name}.{key}" if name else key
            if isinstance(value, (bool, int, float, str, type(None))):
                found[where] = repr(value)
            elif isinstance(value, torch.Tensor):
                found[where] = id(value)
            elif isinstance(value, (list, dict, set)):
                found[where] = len(value)
    return found


def converted(module, function, recurse=True):
    """What nn.Module._apply does, half() and to() with it, of fake tensors: PyTorch exchanges their contents,
    and refuses to, since its fake mode keeps references to them."""
    done = {}
    for part in module.modules() if recurse else [module]:
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in done:  # a shared one stays shared
                    made = function(tensor)
                    if isinstance(tensor, torch.nn.Parameter):
                        made = torch.nn.Parameter(made, tensor.requires_grad)
                    done[id(tensor)] = tensor, made
                table[name] = done[id(tensor)][1]
    return module


class _WithoutCard(TorchFunctionMode):
    """Inside, what asks for a card is given the CPU: of fake tensors on a card a PyTorch that was built
    without CUDA refuses most operators."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def here(value):
            if isinstance(value, torch.device):
                return torch.device("cpu") if value.type == "cuda" else value
            return "cpu" if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) else value

        if func is torch.Tensor.cuda:
            return args[0]
        return func(*[here(a) for a in args], **{name: here(a) for name, a in (kwargs or {}).items()})


def card_or_none():
    return contextlib.nullcontext() if torch.backends.cuda.is_built() else _WithoutCard()


def watch_state(model):
    """Has forward raise if it changes what is no buffer: export would take the first call for them all,
    and put everything back."""
    def compare(*_):
        for where, value in beside_buffers(model).items():
            if before.get(where, value) != value:
                raise ValueError(f"forward changes '{where}', which is no buffer")

    hook = model.register_forward_hook(compare)
    before = beside_buffers(model)
    return hook


class _LaidAsOnCard(TorchFunctionMode):
    """Inside, what attention gives lies in memory as a card's kernels leave it (those of an H200), where they
    are known to be taken: of fp32 each query's heads beside each other, of 16 bits without a mask as the queries lie.
    Without a card PyTorch says how the products would leave it that nobody takes there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return result
        named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args), **(kwargs or {}))
        query, key, value = (named[name] for name in ("query", "key", "value"))
        if query.dim() != 4 or query.shape[0] != key.shape[0]:
            return result
        if query.dtype == torch.float32:
            if query.shape[1] == key.shape[1] and query.shape[3] % 4 == 0 and value.shape[3] % 4 == 0:
                return result.transpose(1, 2).contiguous().transpose(1, 2)
        elif query.dtype in (torch.float16, torch.bfloat16) and named.get("attn_mask") is None:
            square = not named.get("is_causal") or query.shape[2] == key.shape[2]
            if square and query.shape[3] == value.shape[3] <= 256 and query.shape[3] % 8 == 0:
                order = sorted(range(4), key=lambda axis: -query.stride(axis))
                if query.stride(3) == 1 and order[3] == 3:
                    back = sorted(range(4), key=lambda axis: order[axis])
                    return result.permute(order).contiguous().permute(back)
        return result


def given_by(module, dims):
    """(tensors, owners): the tensors that forward gives, called as it is: what is exported of it may lie in memory in
    another order; of each the position of the dense input in whose memory it is, or None. ([], []) where PyTorch
    cannot say without data."""
    for device in ("meta", "cpu"):  # the first is as a card, but where PyTorch needs numbers or says "cpu"
        try:
            with torch.device(device), _LaidAsOnCard():
                inputs = module.get_inputs(**dims)
                given = modules.make_model(module, dims)(*inputs)
        except Exception:  # whatever it is, the export meets it too, unless it has a way round it
            continue
        given = [t for t in torch.utils._pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
        places = {x.untyped_storage()._cdata: i for i, x in enumerate(inputs)
                  if isinstance(x, torch.Tensor) and x.is_contiguous() and x.numel()
                  and x.numel() * x.element_size() == x.untyped_storage().nbytes()}
        owners = [places.get(t.untyped_storage()._cdata) for t in given]
        return given, [i if i is None or inputs[i].dtype == t.dtype else None for i, t in zip(owners, given)]
    return [], []


def lying(tensor):
    """{shape, strides}, in elements; those of its copy where it has gaps or overlaps itself."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), device="meta").clone()
    return {"shape": list(copy.shape), "strides": list(copy.stride())}


def parent_of(node, tensor):
    """(node, chain): the node whose tensor, row major, is all of the memory that forward's tensor is a part of, as
    PyTorch has it, and those that lead from it to the output; (None, []): there is none. node: of the output."""
    whole = tensor.untyped_storage().nbytes() // tensor.element_size()
    chain = []  # from the output back
    while isinstance(node, torch.fx.Node) and node.op == "call_function" and node.args:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and chain and value.numel() == whole and value.dtype == tensor.dtype:
            lies = torch.empty(value.shape, dtype=value.dtype, device="meta")
            storage = lies.untyped_storage()._cdata
            try:
                for step in reversed(chain):
                    lies = step.target(lies, *step.args[1:], **step.kwargs)
            except Exception:  # one that takes other tensors
                return None, []
            same = (lies.shape, lies.stride(), lies.storage_offset()) == (
                tensor.shape, tensor.stride(), tensor.storage_offset())
            if same and lies.untyped_storage()._cdata == storage:
                return node, list(chain)
        chain.append(node)
        node = node.args[0]
    return None, []


def repeats(tensor):
    """Whether elements stand for several, as expand() has it."""
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride()))


def take_parts_together(outputs, given, nodes):
    """Outputs that are parts of one tensor, or repeat it, become that tensor, each with its view of it: what PyTorch
    gives shares memory, which nobody has to copy. But not where most of it is for nothing: that need not be
    computed."""
    families = {}
    for output, tensor in zip(outputs, given):
        is_part = tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()
        if tensor.dim() > 0 and (is_part or repeats(tensor)):
            parent, chain = parent_of(nodes[output["node"]], tensor)
            if parent is not None:
                families.setdefault(parent, []).append((output, tensor, chain))
    for parent, parts in families.items():
        views = {(tuple(t.shape), t.stride(), t.storage_offset()): t.numel() for _, t, _ in parts}
        ways = {parent}.union(*(chain for _, _, chain in parts))
        shape = list(parent.meta["val"].shape)
        mostly = 2 * sum(views.values()) >= parent.meta["val"].numel()
        used = any(user.op == "call_function" and user not in ways for node in ways for user in node.users)
        if not shape or not (mostly or used):
            continue
        strides = list(torch.empty(shape, device="meta").stride())
        for output, tensor, _ in parts:
            output.update(node=parent.name, shape=shape, strides=strides, view=view_of(tensor))


def decompositions():
    """How operators are taken apart: to core ATen, and what interpolates further."""
    aten = torch.ops.aten
    further = [aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d]
    return {**torch.export.default_decompositions(), **torch._decomp.get_decompositions(further)}


def has_gradients(program):
    """Whether forward switches gradients on."""
    return any(node.target is torch.ops.higher_order.wrap_with_set_grad_enabled for node in program.graph.nodes)


def export(model, inputs):
    """The exported program of a forward that may take gradients of what it computes.

    What export writes down by itself lies above autograd: what a backward pass keeps from the forward pass
    would become constants. So those are written down again from below it."""
    program = torch.export.export(model, tuple(inputs), strict=False)
    if has_gradients(program):
        program = torch.export._trace._export(model, tuple(inputs), strict=False, pre_dispatch=False)
    return program


class Held(torch.nn.Module):
    """A model inside of another: what export makes of a model has attributes of its own ('code', 'graph'), which a
    parameter or buffer of the outermost module must not be called."""

    def __init__(self, model):
        super().__init__()
        self.held = model

    def forward(self, *inputs):
        return self.held(*inputs)

    @staticmethod
    def wanted(model):
        names = [name for name, _ in [*model.named_parameters(recurse=False), *model.named_buffers(recurse=False)]]
        return any(hasattr(torch.fx.GraphModule, name) for name in names)

    @staticmethod
    def out_of(program):
        """The program, with its parameters and buffers called as the model calls them."""
        for spec in [*program.graph_signature.input_specs, *program.graph_signature.output_specs]:
            if spec.target is not None:
                spec.target = spec.target.removeprefix("held.")
        return program


def trace(module, decompose, dims):
    """(exported program, inputs, {id of input: distribution}, model, what given_by says)"""
    watch = distributions.Watch()
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True), card_or_none():
        torch.manual_seed(modules.SEED)
        with watch:
            inputs = list(module.get_inputs(**dims))
        drawn = [watch.of(x) if isinstance(x, torch.Tensor) else None for x in inputs]
        with torch.no_grad(), mock.patch.object(torch.nn.Module, "_apply", converted):
            model = modules.make_model(module, dims)
            hook = watch_state(model)
            given = given_by(module, dims)
            held = Held.wanted(model)
            program = export(Held(model) if held else model, inputs)
            hook.remove()
            if decompose:
                program = program.run_decompositions(decompositions())
            if held:
                program = Held.out_of(program)
    return program, inputs, drawn, model, given


def placeholders(program, inputs, drawn, weights):
    found, position = [], 0
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        row = {"name": name}
        if spec.kind == InputKind.USER_INPUT:
            value = inputs[position]
            if isinstance(spec.arg, ConstantArgument) or not isinstance(value, torch.Tensor):
                row.update(kind="scalar", value=encode(value), position=position)
            else:
                row.update(kind="input", distribution=drawn[position], position=position, **describe(value))
            position += 1
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            row.update(kind="param" if spec.kind == InputKind.PARAMETER else "buffer", state=spec.target,
                       distribution=weights.get(spec.target, distributions.NORMAL),
                       **describe(nodes[name].meta["val"]))
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            tensor = program.constants[spec.target]
            row.update(kind="constant", value=constant_values(tensor), **describe(tensor))
        else:
            raise ValueError(f"forward takes '{name}', of a kind that is not supported: {spec.kind.name}")
        found.append(row)
    return found


def view_of(tensor):
    return {"sizes": list(tensor.shape), "strides": list(tensor.stride()), "offset": tensor.storage_offset()}


def take_inputs(outputs, given, owners, program, inputs, together):
    """Outputs that are inputs, or parts of them, become those: nobody has to copy them. But not where nothing else
    were left to do."""
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    changes = any(spec.kind in (OutputKind.USER_INPUT_MUTATION, OutputKind.BUFFER_MUTATION)
                  for spec in program.graph_signature.output_specs)
    found = []
    for output, tensor, owner in zip(outputs, given, owners):
        if owner is None:
            continue
        whole = inputs[owner]
        same = (tensor.shape, tensor.stride()) == (whole.shape, whole.stride())
        if same or (together and whole.dim()):
            found.append((output, tensor, names[owner], whole, same))
    if len(found) == len(outputs) and not changes:
        return
    for output, tensor, name, whole, same in found:
        del output["node"]
        output.update(given=name, shape=list(whole.shape), strides=list(whole.stride()))
        if not same:
            output["view"] = view_of(tensor)


def results(program, given, owners, inputs, together):
    """(outputs, updates); given, owners: see given_by; together: see take_parts_together"""
    outputs, updates = [], []
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.BUFFER_MUTATION:
            updates.append({"state": spec.target, "node": spec.arg.name})
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            updates.append({"inout": spec.target, "node": spec.arg.name})
        elif spec.kind == OutputKind.USER_OUTPUT:
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name in values:
                if values[spec.arg.name].dtype in CARRIED:
                    raise ValueError(f"an output is of type {dtype_name(values[spec.arg.name].dtype)}; "
                                     "of that type only what is widened again is supported")
                outputs.append({"node": spec.arg.name})
        else:
            raise ValueError(f"forward has an effect that is not supported: {spec.kind.name} of '{spec.target}'")
    if len(given) != len(outputs):  # not known: row major
        given = [torch.empty(values[output["node"]].shape, device="meta") for output in outputs]
        owners = [None] * len(outputs)
    for output, tensor in zip(outputs, given):
        output.update(lying(tensor))
    take_inputs(outputs, given, owners, program, inputs, together)
    if together:
        own = [(output, tensor) for output, tensor in zip(outputs, given) if "node" in output]
        take_parts_together([o for o, _ in own], [t for _, t in own],
                            {node.name: node for node in program.graph.nodes})
    return outputs, updates


def dump_module(module, decompose=True, dims=None):
    """What a row says of a module that has Model, get_inputs and get_init_inputs, under one workload."""
    together = dims is None  # views depend on the workload, and a problem has them once
    dims = dims or {}
    program, inputs, drawn, model, given = trace(module, decompose, dims)
    weights = real_distributions(module, model, dims)
    if any(isinstance(x, (list, tuple, dict)) for x in inputs):
        raise ValueError("an input is a list or a dictionary of tensors")
    outputs, updates = results(program, *given, inputs, together)
    return {
        "torch": torch.__version__,
        "placeholders": placeholders(program, inputs, drawn, weights),
        "nodes": [encode_node(n) for n in program.graph.nodes if n.op == "call_function"],
        "outputs": outputs, "updates": updates, "init": repr(modules.init_arguments(module, dims)),
    }


def dump_file(path):
    with open(path) as file:
        source = file.read()
    module = modules.load_file(path)
    description = (module.__doc__ or "").strip().partition("\n")[0]
    row = {"path": path, "source": source, "description": description}
    workloads = modules.workloads_of(module)
    if not hasattr(module, "WORKLOADS"):
        return {**row, **dump_module(module)}
    return {**row, "torch": torch.__version__,
            "workloads": [{"name": name, "dims": dims, **dump_module(module, dims=dims)}
                          for name, dims in workloads.items()]}


def dump_or_error(path):
    def too_long(*_):
        raise TimeoutError(f"exporting took longer than {SECONDS_PER_FILE} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS_PER_FILE)
    try:
        return dump_file(path)
    except Exception as error:  # whatever a file of somebody else's raises: the next one is tried
        lines = str(error).strip().splitlines()
        return {"path": path, "error": f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]}
    finally:
        signal.alarm(0)
        torch._dynamo.reset()


def main():
    warnings.filterwarnings("ignore")
    # what files print must not get between the lines
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    paths = sys.argv[1:] or [line.strip() for line in sys.stdin if line.strip()]
    out.write("\n")
    out.flush()
    for path in paths:
        out.write(json.dumps(dump_or_error(path)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
