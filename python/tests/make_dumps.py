"""Writes cli/import/testdata/*.jsonl: dumps of small modules with inputs and PyTorch's answers.

  python python/tests/make_dumps.py [FOLDER]

Together they use every operator that the import knows. Numbers are multiples of 1/16 so that the
files stay small and every floating-point type holds them exactly. A line is {name, dump, values,
answers, tolerance}: values of the graph's inputs, parameters and buffers in the dump's order
(inputs first), answers in the order of outputs, then of updates.
"""
import copy
import json
import math
import os
import sys
import types

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from warpsmith_torch import dump, places, seeded  # noqa: E402

A = torch.ops.aten
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
f8 = torch.float8_e4m3fn
i8, u8, i32, i64 = torch.int8, torch.uint8, torch.int32, torch.int64


def normal(*shape, dtype=f32):
    return lambda: torch.randn(shape).to(dtype)


def positive(*shape):
    return lambda: torch.rand(shape) + 0.125


def integers(low, high, *shape, dtype=i64):
    return lambda: torch.randint(low, high, shape).to(dtype)


def flags(*shape):
    return lambda: torch.randint(0, 2, shape).bool()


def special(*shape, dtype=f32):
    """Normal numbers with infinities, NaN and zeros among them."""
    return lambda: torch.randn(shape).to(dtype)


def gradient(fn):
    """A backward pass: the gradient of fn(x) in the direction of as many numbers as it has."""
    def backward(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            y = fn(x)
            weights = (torch.arange(y.numel()) % 7 - 3).to(y.dtype).reshape(y.shape)
            return torch.autograd.grad(y, x, weights)[0]
    return backward


def binary(ops, *inputs):
    return {name: (fn, inputs) for name, fn in ops.items()}


X = (normal(3, 5),)
XY = (normal(3, 5), normal(3, 5))
BROADCAST = (normal(2, 3, 4), normal(3, 1))
INTS = (integers(-9, 10, 4, 5), integers(1, 7, 4, 5))
BOOLS = (flags(3, 4), flags(4))

POINTWISE = {
    **{name: (getattr(torch, name), X) for name in (
        "neg abs sign exp exp2 expm1 tanh sinh cosh sin cos tan atan erf sigmoid relu floor ceil round trunc "
        "reciprocal isnan isinf logical_not").split()},
    **{name: (getattr(torch, name), (positive(3, 5),)) for name in "sqrt rsqrt log log2 log10 log1p".split()},
    **{name: (lambda x, f=getattr(torch, name): f(x * 0.125), X) for name in "asin acos atanh".split()},
    **{name + "_special": (getattr(torch, name), (special(24),)) for name in (
        "abs sign relu isnan isinf floor sigmoid tanh logical_not").split()},
    **{name + "_f16": (getattr(F, name), (normal(4, 6, dtype=f16),)) for name in
       "gelu silu elu selu softplus leaky_relu hardswish mish".split()},
    **{name + "_bf16": (getattr(torch, name), (normal(4, 6, dtype=bf16),)) for name in "exp tanh sigmoid".split()},
    **{name: (getattr(F, name), X) for name in (
        "gelu silu elu selu celu softplus leaky_relu hardswish hardsigmoid hardtanh mish softsign "
        "logsigmoid relu6 tanhshrink softshrink hardshrink").split()},
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "elu_alpha": (lambda x: F.elu(x, alpha=0.5), X),
    "leaky_slope": (lambda x: F.leaky_relu(x, 0.25), X),
    "softplus_threshold": (lambda x: F.softplus(x * 8, beta=2, threshold=4), X),
    "hardtanh_bounds": (lambda x: F.hardtanh(x, -0.5, 0.25), X),
    "clamp_special": (lambda x: x.clamp(-1, 1), (special(24),)),
    "clamp_min": (lambda x: x.clamp(min=0.5), X),
    "clamp_tensor": (lambda x, lo, hi: torch.clamp(x, lo, hi), (normal(3, 5), normal(5), normal(3, 1))),
    **binary({
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
        "minimum": torch.minimum, "atan2": torch.atan2, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt,
        "le": torch.le, "gt": torch.gt, "ge": torch.ge, "logical_and": torch.logical_and,
        "logical_or": torch.logical_or, "logical_xor": torch.logical_xor}, *XY),
    "add_broadcast": (torch.add, BROADCAST), "div_broadcast": (torch.div, BROADCAST),
    "add_alpha": (lambda a, b: torch.add(a, b, alpha=3), XY), "sub_alpha": (lambda a, b: torch.sub(a, b, alpha=0.5), XY),
    "scalars": (lambda x: (2 - x) * 3 / 4 + 1, X), "rsub_int": (lambda x: 3 - x, (integers(-5, 6, 7),)),
    "maximum_special": (torch.maximum, (special(24), normal(24))),
    "minimum_special": (torch.minimum, (special(24), normal(24))),
    "int_add_float": (lambda a, b: a + b, (integers(-4, 5, 6), normal(6))),
    "int_add_int32": (lambda a, b: a + b, (integers(-4, 5, 6), integers(-4, 5, 6, dtype=i32))),
    "int_div": (lambda a, b: a / b, INTS), "int_floor_div": (lambda a, b: a // b, INTS),
    "int_trunc_div": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), INTS),
    "float_trunc_div": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (normal(20), positive(20))),
    "int_remainder": (lambda a, b: a % b, INTS), "int_mul_scalar": (lambda a: a * 2 + 1, INTS[:1]),
    **{f"{name}_rounded_{kind}": (lambda x, f=getattr(torch, name): f(torch.full_like(x, 0.1), 0.1), (normal(2, dtype=dtype),))
       for name in "eq lt ge".split() for kind, dtype in (("f16", f16), ("bf16", bf16), ("f32", f32))},
    "eq_scalar_tensor_f16": (lambda x, s: torch.full_like(x, 0.3) == s + 0.3, (normal(2, dtype=f16), lambda: torch.zeros(()))),
    "sinh_wide": (lambda x: torch.sinh(x * 8), (normal(40, dtype=f64),)),
    "cosh_wide": (lambda x: torch.cosh(x * 99), (normal(40, dtype=f64),)),
    "int_compare_float": (lambda a: a > 1.5, INTS[:1]), "int_sqrt": (lambda a: torch.sqrt(a.abs()), INTS[:1]),
    "int_abs_neg": (lambda a: -a.abs(), INTS[:1]), "int_floor": (torch.floor, INTS[:1]),
    "bool_ops": (lambda a, b: ((a & b) | ~a) ^ b, BOOLS), "bool_add": (lambda a, b: a + b, BOOLS),
    "bool_mul_float": (lambda a, b: a * b, (flags(3, 4), normal(3, 4))),
    **binary({name: getattr(torch, name) for name in "hypot copysign fmax fmin remainder fmod floor_divide".split()},
             normal(5, 6), normal(5, 6)),
    **{name + "_f16": (getattr(torch, name), (normal(5, 6, dtype=f16), normal(5, 6, dtype=f16))) for name in ("remainder", "fmod")},
    **{name + "_special": (getattr(torch, name), (special(24), normal(24))) for name in ("copysign", "fmax", "fmin")},
    "remainder_number": (lambda x: torch.remainder(x, 0.75), X), "floor_divide_number": (lambda x: x // 0.75, X),
    "asinh": (torch.asinh, X), "acosh": (lambda x: torch.acosh(1 + x), (positive(3, 5),)), "erfc": (torch.erfc, X),
    "signbit": (torch.signbit, (special(24),)), "silu_gradient": (gradient(F.silu), X),
    **{f"{name}_{dtype}".replace("torch.", ""): (getattr(torch, name), (integers(0 if dtype == u8 else -120, 120, 4, 5, dtype=dtype),
                                                                      integers(0 if dtype == u8 else -120, 120, 4, 5, dtype=dtype)))
       for name in ("bitwise_and", "bitwise_or", "bitwise_xor") for dtype in (u8, i8, i32, i64)},
    **{f"bitwise_not_{dtype}".replace("torch.", ""): (torch.bitwise_not, (integers(0, 120, 4, 5, dtype=dtype),)) for dtype in (u8, i8, i32, i64)},
    "bitwise_number": (lambda x: (x & 0x55) | (x ^ -3), (integers(-99999, 99999, 4, 5),)),
    "half_mix": (lambda a, b: a * b + 1, (normal(8, dtype=f16), normal(8))),
    "scalar_tensor_mix": (lambda a, b: a * b, (normal(8, dtype=f16), normal())),
    **{f"pow_{str(e).replace('.', '_').replace('-', 'm')}": (lambda x, e=e: x ** e, (positive(3, 5),))
       for e in (0, 0.5, 1, 1.5, 2, 3, 4, -0.5, -1, -2, 2.25)},
    "pow_negative_base": (lambda x: x ** 3 + x ** 4, X), "pow_int": (lambda a: a ** 3, INTS[:1]),
    "pow_tensor": (torch.pow, (positive(3, 5), normal(3, 5))), "pow_scalar_base": (lambda x: 2 ** x, X),
    "where": (torch.where, (flags(3, 5), normal(3, 5), normal(5))),
    "where_scalar": (lambda x: torch.where(x > 0, x, -2.0), X),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), (normal(3, 4), flags(3, 4))),
    "to_e4m3": (lambda x: ((x * 24).to(f8).view(-1, 2).t().float() * 0.5, (x * 0.01).half().to(f8).bfloat16()), (normal(8, 64),)),
    "to_e4m3_and_beyond": (lambda x: (x * 400).to(f8).float(), (special(8, 16),)),
    "to_half": (lambda x: x.half(), X), "to_int": (lambda x: (x * 4).int(), X), "to_bool": (lambda x: x.bool(), X),
    "to_long_from_bool": (lambda x: x.long(), (flags(6),)),
    "full": (lambda x: x + torch.full((5,), 2.5), X), "full_like": (lambda x: torch.full_like(x, 3) * x, X),
    "zeros_ones": (lambda x: x * torch.ones(3, 5) + torch.zeros_like(x), X),
    "eye": (lambda x: x + torch.eye(300)[1:4, :5], X),
    "arange": (lambda x: x + torch.arange(1, 11, 2), X), "arange_float": (lambda x: x + torch.arange(0.5, 3, 0.5), X),
    "scalar_input": (lambda x, s: x * s, (normal(4), lambda: 3.25)),
    "constant_tensor": (lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), X),
    "fill": (lambda x: torch.fill(x, 2.0) + x, X), "copy": (lambda x, y: torch.add(x, y).copy_(y), (normal(3, 5), normal(5))),
    "new_gelu": (lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))), X),
}

Z = (normal(2, 3, 4),)
VIEWS = {
    "diagonal": (lambda x: torch.diagonal(x), (normal(3, 5),)), "diagonal_below": (lambda x: x.diagonal(-1, 0, 2), (normal(4, 2, 5),)),
    "diagonal_above": (lambda x: x.diagonal(2, 2, 1), (normal(2, 5, 4),)),
    "view_merge": (lambda x: x.view(6, 4), Z), "view_split": (lambda x: x.view(2, 3, 2, 2), Z),
    "view_flat": (lambda x: x.view(-1), Z), "view_mixed": (lambda x: x.view(4, 6), Z),
    "view_ones": (lambda x: x.view(1, 2, 1, 12, 1), Z), "view_scalar": (lambda x: x.view(()), (normal(1, 1),)),
    "view_uneven": (lambda x: x.view(3, 4, 2), Z), "view_from_scalar": (lambda x: x.view(1, 1), (normal(),)),
    "reshape_after_permute": (lambda x: x.permute(2, 0, 1).reshape(8, 3), Z),
    "permute": (lambda x: x.permute(2, 0, 1), Z), "permute_negative": (lambda x: x.permute(-1, 0, -2), Z),
    "transpose": (lambda x: x.transpose(0, 2).contiguous(), Z), "t": (lambda x: x.t(), (normal(3, 5),)),
    "unsqueeze": (lambda x: x.unsqueeze(1), Z), "squeeze": (lambda x: x.squeeze(1), (normal(3, 1, 2),)),
    "squeeze_all": (lambda x: x.squeeze(), (normal(1, 3, 1),)),
    "expand": (lambda x: x.expand(4, 3, 5), (normal(3, 1),)), "repeat": (lambda x: x.repeat(2, 3), (normal(2, 3),)),
    "select": (lambda x: x.select(1, -2), Z), "slice": (lambda x: x[:, 1:3], Z),
    "slice_step": (lambda x: x[..., 1::2], Z), "slice_negative": (lambda x: x[:, -2:], Z),
    "slice_beyond": (lambda x: x[:, 1:100], Z), "slice_all": (lambda x: x[:], Z),
    "split": (lambda x: torch.split(x, [1, 2], dim=1), Z), "split_unused": (lambda x: torch.split(x, [1, 2], dim=1)[1], Z),
    "chunk": (lambda x: x.chunk(2, dim=-1), Z), "unbind": (lambda x: x.unbind(0)[1], Z),
    "flip": (lambda x: x.flip(0, 2), Z), "roll": (lambda x: x.roll((1, -1), (0, 2)), Z),
    "unfold": (lambda x: x.unfold(1, 3, 2), (normal(2, 7),)), "cat": (lambda a, b: torch.cat([a, b, a], dim=1), (normal(2, 3), normal(2, 2))),
    "cat_mixed": (lambda a, b: torch.cat([a, b]), (normal(3), normal(2, dtype=f16))),
    "cat_single": (lambda x: torch.cat([x]), Z), "stack": (lambda a, b: torch.stack([a, b], 1), XY),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1)), Z), "pad_value": (lambda x: F.pad(x, (0, 1), value=2.5), Z),
    "pad_negative": (lambda x: F.pad(x, (-1, 1)), Z), "pad_cut": (lambda x: F.pad(x, (-1, -1)), Z),
    "reflect1": (lambda x: F.pad(x, (2, 1), mode="reflect"), Z),
    "reflect2": (lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), (normal(1, 2, 3, 4),)),
    "replicate1": (lambda x: F.pad(x, (2, 3), mode="replicate"), Z),
    "replicate2": (lambda x: F.pad(x, (1, 0, 2, 1), mode="replicate"), (normal(1, 2, 3, 4),)),
    "identity": (lambda x: x.clone(), X), "input_is_output": (lambda x: (x, x + 1), X),
    "diagonal_scale": (lambda a, b: a.unsqueeze(1) * b, (normal(3), normal(3, 4))),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (normal(1, 4, 2, 3),)),
    "channel_shuffle": (lambda x: x.view(1, 2, 3, 4).transpose(1, 2).reshape(1, 6, 4), (normal(1, 6, 4),)),
}


def put(x, index, value):
    """x with some places written, in place on a copy."""
    x = x.clone()
    x[index] = value
    return x


def write_window(x, part):
    x = x.clone()
    x[:, 1:5:2] = part
    x[:, -1] += 1
    return x


def routed(x, bias):
    """A router's: of which, and their shares."""
    index = torch.topk(x + bias, 4, sorted=False)[1]
    shares = x.exp().gather(1, index)
    return index, shares / shares.sum(-1, keepdim=True)


def routed_back(x, bias, combine=torch.scatter):
    index, shares = routed(x, bias)
    return combine(torch.zeros_like(x), 1, index, shares * x.sum(1, keepdim=True))


INDEXING = {
    "gather": (lambda x, i: x.gather(1, i), (normal(3, 5), integers(0, 5, 3, 2))),
    "index_select": (lambda x, i: x.index_select(1, i), (normal(3, 5), integers(0, 5, 4))),
    "index_select_i32": (lambda x, i: x.index_select(0, i), (normal(3, 5), integers(0, 3, 4, dtype=i32))),
    "embedding": (lambda w, i: F.embedding(i, w), (normal(7, 3), integers(0, 7, 2, 4))),
    "index": (lambda x, i: x[i], (normal(5, 3), integers(-5, 5, 4))),
    "index_two": (lambda x, i, j: x[i, j], (normal(5, 3, 2), integers(0, 5, 4), integers(0, 3, 4))),
    "index_middle": (lambda x, i: x[:, i], (normal(2, 5, 3), integers(0, 5, 2, 2))),
    "index_apart": (lambda x, i, j: x[i, :, j], (normal(4, 3, 5), integers(0, 4, 2), integers(0, 5, 2))),
    "index_broadcast": (lambda x, i, j: x[i, j], (normal(5, 3), integers(0, 5, 4, 1), integers(0, 3, 2))),
    "slice_scatter": (lambda x, y: torch.slice_scatter(x, y, 1, 1, 4), (normal(3, 5), normal(3, 3))),
    "slice_scatter_step": (lambda x, y: torch.slice_scatter(x, y, 1, 0, 5, 2), (normal(3, 5), normal(3, 3))),
    "slice_scatter_before": (lambda x, y: A.slice_scatter(x, y, 1, -9, 3), (normal(3, 5), normal(3, 3))),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, 2), (normal(3, 5), normal(3))),
    "index_put": (lambda x, i, v: put(x, (i,), v), (normal(7, 3), integers(-7, 7, 4), normal(4, 3))),
    "index_put_middle": (lambda x, i, v: put(x, (slice(None), i), v), (normal(2, 7, 3), integers(0, 7, 2, 2), normal(2, 2, 2, 3))),
    "index_put_two": (lambda x, i, j, v: put(x, (i, j), v), (normal(5, 3, 2), integers(0, 5, 9, 1), integers(0, 3, 2), normal(2))),
    "index_put_apart": (lambda x, i, j, v: put(x, (i, slice(None), j), v), (normal(4, 3, 5), integers(0, 4, 3), integers(0, 5, 3), normal(3, 3))),
    "index_put_one": (lambda x, v: put(x, (torch.tensor(2),), v), (normal(5, 2), normal())),
    "slots": (lambda x, v, i: put(x.view(-1, 2), (i,), v).view(3, 4, 2), (normal(3, 4, 2), normal(5, 2), integers(0, 12, 5))),
    "mask_put": (lambda x, m: put(x, (m,), torch.tensor(0.5)), (normal(5, 4), flags(5, 4))),
    "mask_put_rows": (lambda x, m, v: put(x, (m,), v), (normal(5, 4), flags(5), normal(4))),
    "mask_put_middle": (lambda x, m, v: put(x, (slice(None), m), v), (normal(2, 5, 3), flags(5), normal(1, 3))),
    "mask_put_computed": (lambda x: put(x, (x > 0.5,), torch.tensor(2)), (normal(5, 4, dtype=f16),)),
    "one_hot_checked": (lambda i: F.one_hot(i, 6) * 2, (integers(0, 6, 4),)),
    "scatter": (lambda x, i, v: x.scatter(1, i, v), (normal(3, 5), integers(0, 5, 2, 4), normal(3, 4))),
    "scatter_first": (lambda x, i, v: x.scatter(0, i, v), (normal(6, 4, dtype=f16), integers(0, 6, 1, 3), normal(2, 3, dtype=f16))),
    "one_hot": (lambda x, i: torch.zeros_like(x).scatter(-1, i.unsqueeze(-1), 1.0) - x, (normal(4, 6), integers(0, 6, 4))),
    "index_put_added": (lambda x, i, v: x.index_put((i,), v, accumulate=True), (normal(4, 3), integers(-4, 4, 7), normal(7, 3))),
    "index_put_added_half": (lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), (normal(3, 2, 2, dtype=f16), integers(0, 3, 6, 1), integers(0, 2, 2), normal(2, dtype=f16))),
    "index_add": (lambda x, i, v: x.index_add(1, i, v, alpha=2), (normal(2, 3, 2), integers(0, 3, 5), normal(2, 5, 2))),
    "mask_put_added": (lambda x, m, v: x.index_put((m,), v, accumulate=True), (normal(5, 4), flags(5), normal(4))),
    "embedding_gradient": (lambda g, i: A.embedding_dense_backward(g, i, 5, 1, False), (normal(2, 6, 3), integers(0, 5, 2, 6))),
    "scatter_added": (lambda x, i, v: x.scatter_add(1, i, v), (normal(3, 4), integers(0, 4, 2, 6), normal(3, 7))),
    "scatter_sum": (lambda x, i, v: x.scatter_reduce(0, i, v, "sum"), (normal(4, 3), integers(0, 4, 6, 3), normal(6, 3))),
    "scatter_most": (lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), (normal(4, 3), integers(0, 4, 6, 3), normal(6, 3))),
    "scatter_least": (lambda x, i, v: x.scatter_reduce(1, i, v, "amin"), (normal(4, 3), integers(0, 3, 4, 5), normal(4, 5))),
    "topk": (lambda x: (torch.topk(x, 2)[0], x.gather(1, torch.topk(x, 2)[1])), (normal(3, 5),)),
    "sort": (lambda x: (x.sort(1)[0], x.sort(0, descending=True)[0] * 2, x.gather(1, x.argsort(1, descending=True))), (normal(3, 5),)),
    "sort_stable": (lambda x: x.sort(dim=-1, stable=True), (integers(0, 3, 2, 9),)), "median": (lambda x: (x.median(1)[0], x.median(0, keepdim=True)[0] + x), (normal(3, 6),)),
    "bucketize": (lambda x, b: (torch.bucketize(x, b.sort()[0]), torch.bucketize(x, b.sort()[0], right=True, out_int32=True)), (normal(3, 5), normal(4))),
    "searchsorted": (lambda b, x: (torch.searchsorted(b.sort(1)[0], x), torch.searchsorted(b.sort(1)[0], x, side="right")), (normal(3, 5), normal(3, 2))),
    "topk_least": (lambda x: torch.topk(x, 3, dim=0, largest=False)[0] * 2, (normal(4, 3, dtype=f16),)),
    "topk_index": (lambda x: torch.zeros_like(x).scatter(1, torch.topk(x, 2, sorted=False)[1], 1.0) * x, (normal(1, 6),)),
    "topk_unsorted": (lambda x: torch.topk(x, 4, sorted=False), (integers(0, 9, 5, 12),)),
    "topk_unsorted_least": (lambda x: torch.topk(x, 3, dim=0, largest=False, sorted=False), (normal(7, 2, 3),)),
    "topk_unsorted_router": (routed, (normal(3, 10), normal(10))),
    "topk_unsorted_halves": (lambda x: torch.zeros_like(x).scatter(1, torch.topk(x, 3, sorted=False)[1] // 2, torch.topk(x, 3)[0]), (normal(3, 8),)),
    "topk_unsorted_turned": (lambda x, w: (torch.topk(x, 3, sorted=False)[0].t().contiguous() * w).sum(0), (normal(3, 8), normal(3, 1))),
    "topk_unsorted_weighed": (lambda x, w: (torch.topk(x, 3, sorted=False)[0] * w).sum(-1), (normal(4, 8), normal(3))),
    "topk_unsorted_over_rows": (lambda x: torch.topk(x, 3, sorted=False)[0].sum(0), (normal(4, 8),)),
    "topk_free_sum": (lambda x: torch.topk(x, 3, sorted=False)[0].exp().sum(-1), (normal(4, 9),)),
    "topk_free_rows": (lambda x: (torch.topk(x, 2, 0, sorted=False)[0] * x.sum(0)).amax((0, 1)), (normal(5, 4),)),
    "topk_free_back": (routed_back, (normal(3, 10), normal(10))),
    "topk_free_add": (lambda x, b: routed_back(x, b, torch.scatter_add), (normal(3, 10), normal(10))),
    "made_empty": (lambda x: torch.empty(3, 2).copy_(x) + torch.empty_like(x).fill_(2), (normal(3, 2),)),
    "window_write": (write_window, (normal(2, 6, 3), normal(2, 2, 3))),
    "cache_grows": (lambda old, new: torch.cat([old, new * 2], dim=1), (lambda: torch.zeros(2, 0, 3), normal(2, 4, 3))),
    "cache_part": (lambda old, new: torch.cat([old[:, :0], new.half()], dim=1).float(), (normal(2, 3, 3), normal(2, 4, 3))),
}

ROWS8 = (integers(-128, 128, 4, 6, dtype=i8),)
IMAGE8 = (integers(0, 256, 2, 3, 4, dtype=u8),)
BYTES = {
    "quantise": (lambda x: (x / (x.abs().amax(-1, keepdim=True) / 127)).round().clamp(-128, 127).to(i8), (normal(4, 6),)),
    "dequantise": (lambda q, s: q.to(f16) * s, (*ROWS8, normal(4, 1, dtype=f16))),
    "image": (lambda x: x.float() / 255, IMAGE8), "to_image": (lambda x: (x * 64 + 128).clamp(0, 255).to(u8), (normal(3, 5),)),
    "wraps_i8": (lambda a: a * 3 + 100, ROWS8), "wraps_u8": (lambda a: a - 200, IMAGE8), "neg_i8": (lambda a: -a.abs(), ROWS8),
    "sum_i8": (lambda a: a.sum(-1), ROWS8), "mean_i8": (lambda a: a.float().mean(), ROWS8), "amax_u8": (lambda a: a.amax(1), IMAGE8),
    "argmax_i8": (lambda a: a.max(1), ROWS8), "i8_to_u8": (lambda a: a.to(u8), ROWS8), "i8_to_i32": (lambda a: a.int() * 1000, ROWS8),
    "i32_to_i8": (lambda a: (a.int() * 1000).to(i8), ROWS8), "compare_u8_i8": (lambda a, b: a > b, (integers(0, 256, 9, dtype=u8), integers(-128, 128, 9, dtype=i8))),
    "add_i8_i32": (lambda a, b: a + b, (integers(-128, 128, 9, dtype=i8), integers(-500, 500, 9, dtype=i32))),
    "add_i8_float": (lambda a, b: a + b, (integers(-128, 128, 9, dtype=i8), normal(9, dtype=bf16))),
    "nibbles": (lambda p: torch.stack([p & 15, p >> 4], dim=-1).view(4, 12), (integers(0, 256, 4, 6, dtype=u8),)),
    "nibbles_i8": (lambda p: torch.stack([(p << 4) >> 4, p >> 4], dim=-1).float(), ROWS8),
    "shifts_i32": (lambda p: ((p >> 3) & 7, p << 5, (p >> 31) & 1), (integers(-(1 << 30), 1 << 30, 8, dtype=i32),)),
    "mask_inside": (lambda p: (p & 0x70, p & 0x7fffff00), (integers(-(1 << 30), 1 << 30, 8, dtype=i32),)),
    "shift_left_by": (lambda p, n: p << n, (integers(0, 256, 8, dtype=u8), integers(0, 8, 8, dtype=u8))),
    "unpack_i32": (lambda p: (p.unsqueeze(-1) >> torch.arange(0, 32, 4)) & 15, (integers(-(1 << 30), 1 << 30, 3, dtype=i32),)),
    "mask_u8": (lambda m, x: torch.where(m.bool(), x, 0.0), (integers(0, 2, 3, 5, dtype=u8), normal(3, 5))),
    "gather_u8": (lambda t, i: t[i.long()], (normal(256, 3), integers(0, 256, 7, dtype=u8))),
}

W = (normal(2, 3, 4),)
REDUCTIONS = {
    "sum": (lambda x: x.sum(), W), "sum_dim": (lambda x: x.sum(1), W), "sum_keep": (lambda x: x.sum(1, keepdim=True), W),
    "sum_dims": (lambda x: x.sum((0, -1)), W), "sum_f16": (lambda x: x.sum(-1), (normal(3, 50, dtype=f16),)),
    "sum_bf16": (lambda x: x.sum(-1), (normal(3, 50, dtype=bf16),)),
    "sum_int": (lambda x: x.sum(0), (integers(-9, 9, 4, 3, dtype=i32),)), "sum_bool": (lambda x: x.sum(), (flags(9),)),
    "sum_scalar": (lambda x: x.sum(), (normal(),)), "sum_of_one": (lambda x: x.sum(1), (normal(3, 1, 2),)),
    "prod": (lambda x: x.prod(), W), "prod_dim": (lambda x: x.prod(1, keepdim=True), W),
    "mean": (lambda x: x.mean(), W), "mean_dim": (lambda x: x.mean(1), W),
    "mean_keep_f16": (lambda x: x.mean(-1, keepdim=True), (normal(3, 50, dtype=f16),)),
    "amax": (lambda x: x.amax((0, 2)), W), "amin": (lambda x: x.amin(-1, keepdim=True), W),
    "amax_int": (lambda x: x.amax(0), (integers(-9, 9, 4, 3),)), "max_all": (lambda x: x.max(), W), "min_all": (lambda x: x.min(), W),
    "amax_special": (lambda x: x.amax(1), (special(4, 6),)),
    "max_value": (lambda x: x.max(1)[0], W), "max_both": (lambda x: x.max(1), W), "min_both": (lambda x: x.min(-1, keepdim=True), W),
    "max_index": (lambda x: x.max(0)[1], W), "min_value": (lambda x: x.min(0)[0], W),
    "argmax": (lambda x: x.argmax(1), W), "argmin": (lambda x: x.argmin(-1, keepdim=True), W),
    "argmax_all": (lambda x: x.argmax(), W), "argmax_ties": (lambda x: x.argmax(1), (integers(0, 3, 4, 9),)),
    "argmin_ties": (lambda x: x.argmin(0), (integers(0, 3, 9, 4),)), "argmax_special": (lambda x: x.argmax(1), (special(4, 6),)),
    "any": (lambda x: x.any(), (flags(3, 4),)), "any_dim": (lambda x: x.any(1), (flags(3, 4),)),
    "all_dim": (lambda x: x.all(0), (flags(3, 4),)),
    "any_no_dims": (lambda x: A.any.dims(x, []), (flags(3, 4),)), "all_no_dims": (lambda x: A.all.dims(x, [], True), (special(8),)),
    "sum_no_dims": (lambda x: x.sum(()), W), "any_float": (lambda x: (x * 0).any(-1), X),
    "var": (lambda x: x.var(1), W), "var_biased": (lambda x: x.var((0, 2), unbiased=False), W),
    "var_keep": (lambda x: x.var(-1, keepdim=True, correction=2), W), "std": (lambda x: x.std(1), W),
    "var_mean": (lambda x: torch.var_mean(x, 1), W),
    **{f"norm_{name}": (lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1), W) for name, p in (
        ("1", 1), ("2", 2), ("3", 3), ("inf", math.inf), ("minf", -math.inf), ("0", 0), ("half", 0.5))},
    "norm_fro": (lambda x: torch.norm(x, p="fro"), W), "norm_keep": (lambda x: torch.norm(x, p=2, dim=1, keepdim=True), W),
    "norm_f16": (lambda x: torch.linalg.vector_norm(x, 2, dim=1), (normal(3, 20, dtype=f16),)),
    "logsumexp": (lambda x: x.logsumexp(1), W), "logsumexp_keep": (lambda x: x.logsumexp((0, 2), keepdim=True), W),
}

def exclusive(scan, start, x, dim):
    head = start(x.select(dim, 0).unsqueeze(dim))
    return torch.cat((head, scan(x.narrow(dim, 0, x.size(dim) - 1), dim)), dim)


SCANS = {
    "sum": (lambda x: x.cumsum(1), W), "sum_last": (lambda x: torch.cumsum(x, -1), W),
    "sum_one": (lambda x: x.cumsum(0), (normal(1, 4),)), "sum_scalar": (lambda x: x.cumsum(0), (normal(),)),
    "sum_f16": (lambda x: x.cumsum(-1), (normal(3, 50, dtype=f16),)), "sum_bf16": (lambda x: x.cumsum(0), (normal(50, 3, dtype=bf16),)),
    "sum_i32": (lambda x: x.cumsum(0), (integers(-9, 9, 7, 3, dtype=i32),)), "sum_bool": (lambda x: x.cumsum(1), (flags(3, 9),)),
    "sum_as_f64": (lambda x: x.cumsum(1, dtype=f64), W), "sum_as_i64": (lambda x: x.cumsum(1, dtype=i64), W),
    "sum_special": (lambda x: x.cumsum(1), (special(4, 9),)),
    "prod": (lambda x: x.cumprod(2), W), "prod_int": (lambda x: x.cumprod(0), (integers(-3, 4, 8, 2),)),
    "max": (lambda x: x.cummax(1), W), "max_value": (lambda x: x.cummax(2)[0], W), "max_index": (lambda x: x.cummax(0)[1], W),
    "max_ties": (lambda x: x.cummax(1), (integers(0, 3, 4, 9),)), "max_special": (lambda x: x.cummax(1), (special(4, 9),)),
    "max_bool": (lambda x: x.cummax(0), (flags(5, 3),)), "min": (lambda x: x.cummin(-1), W),
    "min_ties": (lambda x: x.cummin(0), (integers(0, 3, 9, 4),)), "min_special": (lambda x: x.cummin(0), (special(9, 4),)),
    "max_scalar": (lambda x: x.cummax(0)[0], (normal(),)),
    "logsumexp": (lambda x: x.logcumsumexp(1), W), "logsumexp_large": (lambda x: (x * 100).logcumsumexp(0), X),
    "logsumexp_special": (lambda x: x.logcumsumexp(1), (special(4, 9),)),
    "logsumexp_bf16": (lambda x: x.logcumsumexp(-1), (normal(3, 20, dtype=bf16),)),
    "reverse": (lambda x: x.flip(1).cumsum(1).flip(1), W), "reverse_prod": (lambda x: torch.cumprod(x.flip(0), 0).flip(0), X),
    "reverse_max": (lambda x: [y.flip(1) for y in x.flip(1).cummax(1)], W),
    "exclusive": (lambda x: exclusive(torch.cumsum, torch.zeros_like, x, 1), W),
    "exclusive_prod": (lambda x: exclusive(torch.cumprod, torch.ones_like, x, 0), X),
    "exclusive_reverse": (lambda x: exclusive(torch.cumsum, torch.zeros_like, x.flip(-1), -1).flip(-1), (normal(3, 7),)),
    "exclusive_no_identity": (lambda x: exclusive(torch.cumsum, torch.ones_like, x, 1), X),
    "masked": (lambda x, m: torch.cumsum(x * m, 1), (normal(3, 9), flags(3, 9))),
    "shifted": (lambda x: torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), x), 1)[:-1].cumsum(1), X),
}

LOSSES = {
    "softmax": (lambda x: x.softmax(1), W), "softmax_last": (lambda x: x.softmax(-1), (normal(3, 9),)),
    "softmax_f16": (lambda x: x.softmax(-1), (normal(3, 9, dtype=f16),)), "softmax_large": (lambda x: (x * 40).softmax(-1), X),
    "log_softmax": (lambda x: x.log_softmax(1), W), "log_softmax_bf16": (lambda x: x.log_softmax(-1), (normal(3, 9, dtype=bf16),)),
    "softmin": (lambda x: F.softmin(x, dim=1), X), "mse": (F.mse_loss, XY), "l1": (F.l1_loss, XY),
    "smooth_l1": (F.smooth_l1_loss, XY), "huber": (F.huber_loss, XY),
    "kl": (lambda p, q: F.kl_div(torch.log(p), q, reduction="batchmean"), (positive(3, 5), positive(3, 5))),
    "cross_entropy": (F.cross_entropy, (normal(6, 5), integers(0, 5, 6))),
    "cross_entropy_ignore": (lambda x, t: F.cross_entropy(x, t, ignore_index=2), (normal(6, 5), integers(0, 5, 6))),
    "cross_entropy_smooth": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.25), (normal(6, 5), integers(0, 5, 6))),
    "cross_entropy_image": (F.cross_entropy, (normal(2, 5, 3), integers(0, 5, 2, 3))),
    "triplet": (lambda a, p, n: F.triplet_margin_loss(a, p, n), (normal(4, 6), normal(4, 6), normal(4, 6))),
    "hinge": (lambda p, t: torch.mean(torch.clamp(1 - p * t, min=0)), (normal(4, 6), normal(6))),
    "bce_logits": (F.binary_cross_entropy_with_logits, (normal(3, 5), positive(3, 5))),
    "cosine": (lambda a, b: 1 - F.cosine_similarity(a, b, dim=1), XY),
}


class Layer:
    """A layer with buffers that it changes: made anew each time, on the device at hand."""

    def __init__(self, make):
        self.make = make


I4 = (normal(2, 4, 3, 5),)
NORMS = {
    "layer": (nn.LayerNorm([3, 5]), I4), "layer_plain": (nn.LayerNorm(5, elementwise_affine=False), (normal(3, 5),)),
    "layer_f16": (nn.LayerNorm(16).half(), (normal(3, 16, dtype=f16),)),
    "layer_outputs": (lambda x: A.native_layer_norm(x, [5], None, None, 1e-5), (normal(2, 3, 5),)),
    "layer_no_bias": (nn.LayerNorm(5, bias=False), (normal(3, 5),)),
    "group": (nn.GroupNorm(2, 4), I4), "group_plain": (nn.GroupNorm(4, 4, affine=False), I4),
    "group_outputs": (lambda x: A.native_group_norm(x, None, None, 2, 4, 15, 2, 1e-5), I4),
    "instance": (nn.InstanceNorm2d(4), I4), "instance_affine": (nn.InstanceNorm2d(4, affine=True), I4),
    "batch": (Layer(lambda: nn.BatchNorm2d(4)), I4), "batch_1d": (Layer(lambda: nn.BatchNorm1d(4)), (normal(5, 4),)),
    "batch_plain": (Layer(lambda: nn.BatchNorm2d(4, affine=False, momentum=0.25)), I4),
    "batch_untracked": (nn.BatchNorm2d(4, track_running_stats=False), I4),
    "batch_eval": (Layer(lambda: nn.BatchNorm2d(4).eval()), I4),
    "rms": (lambda x: x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5), I4),
    "rms_module": (nn.RMSNorm(5), (normal(3, 5),)),
    "l1": (lambda x: x / torch.mean(torch.abs(x), dim=1, keepdim=True), X),
    "l2": (lambda x: x / torch.norm(x, p=2, dim=1, keepdim=True), X),
    "normalize": (lambda x: F.normalize(x, dim=1), X), "running": (Layer(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.ReLU(), nn.BatchNorm1d(4))), (normal(5, 4),)),
}

I1, I2, I3 = (normal(2, 2, 11),), (normal(2, 2, 7, 8),), (normal(1, 2, 5, 6, 5),)
POOLING = {
    "max1": (nn.MaxPool1d(3, 2), I1), "max1_dilated": (nn.MaxPool1d(3, 1, 1, 2), I1),
    "max2": (nn.MaxPool2d(2), I2), "max2_padded": (nn.MaxPool2d((3, 2), (2, 1), (1, 1)), I2),
    "max2_ceil": (nn.MaxPool2d(3, 2, ceil_mode=True), I2), "max2_unbatched": (nn.MaxPool2d(2, 1), (normal(2, 5, 4),)),
    "max2_indices": (nn.MaxPool2d(3, 2, 1, return_indices=True), I2),
    "max2_dilated_indices": (nn.MaxPool2d(2, 2, 1, 3, return_indices=True), I2),
    "max2_nothing_indices": (lambda x: F.max_pool2d(x.masked_fill(x < 1, -math.inf), 2, 2, 1, return_indices=True), I2),
    "max2_nothing_dilated": (lambda x: F.max_pool2d(x.masked_fill(x < 2, -math.inf), 3, 2, 1, 2, return_indices=True), I2),
    "max3": (nn.MaxPool3d(3, 2, 1, 2), I3), "max3_indices": (nn.MaxPool3d(2, 2, return_indices=True), I3),
    "max_f16": (nn.MaxPool2d(2), (normal(1, 2, 4, 4, dtype=f16),)), "max_one": (nn.MaxPool2d(1, 2), I2),
    "avg1": (nn.AvgPool1d(4, 1, 2), I1), "avg1_exclusive": (nn.AvgPool1d(4, 2, 2, count_include_pad=False), I1),
    "avg2": (nn.AvgPool2d(3), I2), "avg2_padded": (nn.AvgPool2d(3, 2, 1), I2),
    "avg2_ceil": (nn.AvgPool2d(3, 2, 1, ceil_mode=True), I2),
    "avg2_ceil_exclusive": (nn.AvgPool2d((2, 3), 2, (1, 1), ceil_mode=True, count_include_pad=False), I2),
    "avg2_divisor": (nn.AvgPool2d(2, divisor_override=3), I2), "avg3": (nn.AvgPool3d(3, 2, 1), I3),
    "avg3_ceil": (nn.AvgPool3d(2, 2, ceil_mode=True), I3), "avg_bf16": (nn.AvgPool2d(2), (normal(1, 2, 4, 4, dtype=bf16),)),
    "adaptive1": (nn.AdaptiveAvgPool1d(4), I1), "adaptive2": (nn.AdaptiveAvgPool2d((3, 4)), I2),
    "adaptive_one": (nn.AdaptiveAvgPool2d(1), I2), "adaptive3": (nn.AdaptiveAvgPool3d((2, 3, 4)), I3),
    "adaptive_max1": (nn.AdaptiveMaxPool1d(4), I1), "adaptive_max2": (nn.AdaptiveMaxPool2d((3, 4)), I2),
    "adaptive_max2_indices": (nn.AdaptiveMaxPool2d((3, 4), return_indices=True), I2),
    "adaptive_max3_indices": (nn.AdaptiveMaxPool3d((2, 3, 4), return_indices=True), I3),
    **{"gradient_" + name: (gradient(fn), inputs) for name, fn, inputs in (
        ("avg1", nn.AvgPool1d(4, 1, 2), I1), ("avg2", nn.AvgPool2d(3), I2), ("avg2_padded", nn.AvgPool2d(3, 2, 1), I2),
        ("avg2_ceil", nn.AvgPool2d((2, 3), 2, (1, 1), ceil_mode=True, count_include_pad=False), I2),
        ("avg2_divisor", nn.AvgPool2d(2, divisor_override=3), I2), ("avg3", nn.AvgPool3d(3, 2, 1), I3),
        ("avg_bf16", nn.AvgPool2d(2, 1), (normal(1, 2, 4, 4, dtype=bf16),)),
        ("max1", nn.MaxPool1d(3, 2), I1), ("max2", nn.MaxPool2d(2), I2), ("max2_padded", nn.MaxPool2d((3, 2), (2, 1), (1, 1)), I2),
        ("max2_dilated", nn.MaxPool2d(2, 2, 1, 3), I2), ("max2_ceil", nn.MaxPool2d(3, 2, ceil_mode=True), I2),
        ("max3", nn.MaxPool3d(2, 2), I3), ("adaptive2", nn.AdaptiveAvgPool2d((3, 4)), I2),
        ("adaptive_one", nn.AdaptiveAvgPool2d(1), I2), ("adaptive3", nn.AdaptiveAvgPool3d((2, 3, 4)), I3))},
    **{"nearest" + name: (lambda x, k=keywords: F.interpolate(x, **k), inputs) for name, keywords, inputs in (
        ("1", {"size": 13}, I1), ("2", {"scale_factor": 2}, I2), ("2_by", {"scale_factor": (1.5, 2.7)}, I2),
        ("2_less", {"size": (3, 2)}, I2), ("3", {"scale_factor": 2}, I3),
        ("2_exact", {"scale_factor": (1.5, 3), "mode": "nearest-exact"}, I2),
        ("1_exact", {"size": 4, "mode": "nearest-exact"}, I1))},
    **{name: (lambda x, k=keywords: F.interpolate(x, **k), inputs) for name, keywords, inputs in (
        ("linear", {"scale_factor": 2, "mode": "linear"}, I1), ("bilinear", {"size": (9, 5), "mode": "bilinear"}, I2),
        ("bilinear_corners", {"scale_factor": 2, "mode": "bilinear", "align_corners": True}, I2),
        ("trilinear", {"scale_factor": 2, "mode": "trilinear"}, I3))},
}

# Operators that PyTorch decomposes, as they are before that.
WHOLE = {
    "reflect1": (lambda x: A.reflection_pad1d(x, [2, 1]), Z),
    "reflect2": (lambda x: A.reflection_pad2d(x, [1, 2, 1, 1]), (normal(1, 2, 3, 4),)),
    "reflect3": (lambda x: A.reflection_pad3d(x, [1, 0, 0, 1, 1, 1]), (normal(1, 2, 3, 2, 3),)),
    "replicate1": (lambda x: A.replication_pad1d(x, [2, 3]), Z),
    "replicate2": (lambda x: A.replication_pad2d(x, [1, 0, 2, 1]), (normal(1, 2, 3, 4),)),
    "replicate3": (lambda x: A.replication_pad3d(x, [1, 0, 2, 1, 0, 1]), (normal(1, 2, 2, 3, 2),)),
    "roll": (lambda x: x.roll((1, -1), (0, 2)), Z), "all_dim": (lambda x: x.all(0), (flags(3, 4),)),
    "all": (lambda x: x.all(), (flags(3, 4),)), "any_dims": (lambda x: x.any((0, 1)), (flags(3, 4),)),
    "transpose": (lambda x: x.transpose(0, 2), Z), "reshape": (lambda x: x.reshape(6, 4), Z),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(0)), (normal(1, 3, 1),)),
    "like": (lambda x: torch.zeros_like(x) + torch.ones_like(x), X),
    "made": (lambda x: x * torch.ones(5) + torch.zeros(5), X), "filled": (lambda x: torch.fill(x, 2.0) + x, X),
    "rsub": (lambda x: 3 - x, X), "sgn": (torch.sgn, X), "logsumexp": (lambda x: x.logsumexp(1), W),
    "sum": (lambda x: x.sum(), W), "pool1": (nn.AvgPool1d(4, 1, 2), I1), "adaptive1": (nn.AdaptiveAvgPool1d(4), I1),
    "detach": (lambda x: x.detach() + 1, X), "alias": (A.alias, X), "lift": (A.lift_fresh_copy, X),
    "unsafe_view": (lambda x: A._unsafe_view(x, [6, 4]), Z), "all_dims": (lambda x: x.all((0, 1)), (flags(3, 4),)),
    "bool_scalars": (lambda x: A.bitwise_xor(A.bitwise_or(A.bitwise_and(x, True), False), True), BOOLS[:1]), "compare_scalar": (lambda x: x >= 0.5, X),
    "remainder_scalar": (lambda x: A.remainder(x, 4), INTS[:1]),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, 2), (normal(3, 5), normal(3))),
    "fmod_int": (torch.fmod, INTS), "fmod_scalar": (lambda x: torch.fmod(x, 4), INTS[:1]),
}

def matrices(dtype=f32):
    return normal(3, 5, dtype=dtype), normal(5, 4, dtype=dtype)


M, BATCHES = matrices(), (normal(2, 3, 5), normal(2, 5, 4))
PRODUCTS = {
    "mm": (torch.mm, M), "bmm": (torch.bmm, BATCHES), "mv": (torch.mv, (normal(3, 5), normal(5))), "dot": (torch.dot, (normal(7), normal(7))),
    "addmm": (torch.addmm, (normal(3, 4), *M)), "addmm_scaled": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), (normal(4), *M)),
    "addmm_left_out": (lambda c, a, b: torch.addmm(c, a, b, beta=0), (special(3, 4), *M)), "addmm_column": (torch.addmm, (normal(3, 1), *M)),
    "addmv": (lambda c, a, x: torch.addmv(c, a, x, beta=3, alpha=0.25), (normal(3), normal(3, 5), normal(5))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=3), (normal(1, 3, 4), *BATCHES)),
    "linear": (Layer(lambda: nn.Linear(5, 4)), (normal(2, 3, 5),)), "linear_plain": (Layer(lambda: nn.Linear(5, 4, bias=False)), (normal(3, 5),)),
    "turned": (lambda a, b: a.T @ b.T, (normal(5, 3), normal(4, 5))), "broadcast": (torch.matmul, (normal(2, 1, 3, 5), normal(4, 5, 6))),
    "vector_first": (torch.matmul, (normal(5), normal(5, 4))), "vectors": (lambda a, b: torch.einsum("i,j->ij", a, b), (normal(3), normal(4))),
    "einsum": (lambda a, b: torch.einsum("bijl,lk->bijk", a, b), (normal(2, 3, 2, 5), normal(5, 4))),
    "heads": (lambda q, k: torch.einsum("bihd,bjhd->bhij", q, k), (normal(2, 3, 2, 4), normal(2, 5, 2, 4))),
    "expanded": (lambda q, k: q @ k[:, :, None].expand(-1, -1, 3, -1, -1).reshape(2, 6, 4, 5), (normal(2, 6, 2, 4), normal(2, 2, 4, 5))),
    "f16": (torch.mm, matrices(f16)), "bf16": (torch.mm, matrices(bf16)), "f64": (torch.mm, matrices(f64)),
    "bf16_added": (torch.addmm, (normal(4, dtype=bf16), *matrices(bf16))), "f16_scaled": (lambda a, b: torch.baddbmm(a, a, b, alpha=0.125), (normal(2, 4, 4, dtype=f16), normal(2, 4, 4, dtype=f16))),
    "i64": (torch.mm, (integers(-9, 9, 3, 5), integers(-9, 9, 5, 4))), "i32": (torch.mm, (integers(-9, 9, 3, 5, dtype=i32), integers(-9, 9, 5, 4, dtype=i32))),
    "i8": (torch.mm, (integers(-99, 99, 3, 5, dtype=torch.int8), integers(-99, 99, 5, 4, dtype=torch.int8))),
    "i8_to_i32": (torch._int_mm, (integers(-99, 99, 24, 16, dtype=torch.int8), integers(-99, 99, 16, 8, dtype=torch.int8))),
    "i8_deep": (torch._int_mm, (integers(-128, 128, 2, 1030, dtype=torch.int8), integers(-128, 128, 1030, 2, dtype=torch.int8))),
    "one_deep": (torch.mm, (normal(3, 1), normal(1, 4))), "one_row": (torch.mm, (normal(1, 5), normal(5, 4))), "single": (torch.mm, (normal(1, 5), normal(5, 1))),
    "attention": (F.scaled_dot_product_attention, (normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 4))),
    "attention_turned": (lambda q, k, v: F.scaled_dot_product_attention(q.transpose(1, 2), k, v), (normal(2, 4, 3, 8, dtype=f16), normal(2, 3, 5, 8, dtype=f16), normal(2, 3, 5, 8, dtype=f16))),
}


def convolution(transposed, rank, groups=1, channels=(4, 6), kernel=3, size=(5, 4, 3), dtype=f32, bias=False, **options):
    """A convolution of each rank, with a weight (and bias) as inputs."""
    call = getattr(F, ("conv_transpose" if transposed else "conv") + f"{rank}d")
    kernels = kernel if isinstance(kernel, tuple) else (kernel,) * rank
    into, out = channels
    weight = (into, out // groups) if transposed else (out, into // groups)
    inputs = [normal(2, into, *size[:rank], dtype=dtype), normal(*weight, *kernels, dtype=dtype)]
    if bias:
        inputs.append(normal(out, dtype=dtype))
    return (lambda *given: call(*given, groups=groups, **options), tuple(inputs))


def convolution_gradients(transposed, rank, groups=1, channels=(4, 6), kernel=3, size=(5, 4, 3), dtype=f32, mask=(True, True, True), **options):
    forward, inputs = convolution(transposed, rank, groups, channels, kernel, size, dtype, **options)
    list_of = lambda name, usual: list(options.get(name, [usual] * rank))
    shape = forward(*(make() for make in inputs)).shape
    given = lambda dy, x, w: tuple(g for g in A.convolution_backward(
        dy, x, w, [channels[1]], list_of("stride", 1), list_of("padding", 0), list_of("dilation", 1), transposed,
        list_of("output_padding", 0), groups, list(mask)) if g is not None)
    return (given, (normal(*shape, dtype=dtype), *inputs))


CONVOLUTIONS = {
    "1": convolution(False, 1), "2": convolution(False, 2, bias=True), "3": convolution(False, 3, kernel=2),
    "pointwise": convolution(False, 2, kernel=1), "pointwise_strided": convolution(False, 2, kernel=1, stride=2, bias=True),
    "padded": convolution(False, 2, padding=1), "far_padded": convolution(False, 1, padding=4), "same": convolution(False, 2, padding="same", kernel=(2, 3)),
    "strided": convolution(False, 2, stride=2, padding=1), "uneven": convolution(False, 2, kernel=(3, 2), stride=(1, 2), padding=(2, 0), dilation=(1, 3)),
    "dilated": convolution(False, 2, dilation=2, padding=2), "groups": convolution(False, 2, groups=2, padding=1, bias=True),
    "depthwise": convolution(False, 2, groups=4, channels=(4, 4), padding=1), "depthwise_twice": convolution(False, 1, groups=4, channels=(4, 8), padding=1),
    "volume": convolution(False, 3, channels=(2, 3), padding=(1, 0, 2), stride=(2, 1, 3), bias=True), "f16": convolution(False, 2, dtype=f16, bias=True, padding=1),
    "bf16": convolution(False, 1, dtype=bf16), "f64": convolution(False, 2, dtype=f64, groups=2), "one_image": (lambda x, w: F.conv2d(x, w), (normal(3, 5, 6), normal(2, 3, 3, 3))),
    "whole_plane": convolution(False, 2, kernel=(5, 4)), "layer": (Layer(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")), (normal(2, 3, 5, 4),)),
    "transposed_1": convolution(True, 1), "transposed_2": convolution(True, 2, bias=True), "transposed_3": convolution(True, 3, kernel=2, size=(3, 2, 3)),
    "transposed_strided": convolution(True, 2, stride=2, size=(3, 4)), "transposed_even": convolution(True, 2, stride=2, kernel=2, size=(3, 4)),
    "transposed_even_padded": convolution(True, 2, stride=2, kernel=4, padding=1, size=(3, 4), bias=True), "transposed_even_1": convolution(True, 1, stride=2, kernel=4, padding=1, bias=True), "transposed_gaps": convolution(True, 2, stride=3, kernel=2, size=(3, 4), bias=True),
    "transposed_longer": convolution(True, 1, stride=3, kernel=5, padding=2, output_padding=2), "transposed_groups": convolution(True, 2, groups=2, stride=2, padding=1, output_padding=1, size=(3, 4)),
    "transposed_depthwise": convolution(True, 2, groups=4, channels=(4, 4), stride=2, size=(3, 4)), "transposed_dilated": convolution(True, 2, dilation=2, padding=1),
    "transposed_uneven": convolution(True, 2, kernel=(3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1), size=(3, 4)),
    "transposed_apart": convolution(True, 1, kernel=4, stride=2, dilation=3), "transposed_far": convolution(True, 1, kernel=3, stride=4, dilation=6, padding=1, output_padding=3),
    "transposed_volume": convolution(True, 3, channels=(3, 2), stride=(1, 2, 2), padding=(0, 1, 0), output_padding=(0, 1, 1), size=(2, 3, 2)), "transposed_f16": convolution(True, 2, stride=2, dtype=f16, bias=True, size=(3, 4)),
    "gradients": convolution_gradients(False, 2, padding=[1, 1], size=(4, 5)), "gradients_strided": convolution_gradients(False, 2, stride=[2, 2], padding=[1, 1]),
    "gradients_groups": convolution_gradients(False, 2, groups=2, dilation=[1, 2], size=(4, 6)), "gradients_1": convolution_gradients(False, 1, stride=[2], dilation=[2], size=(9,)),
    "gradients_of_weights": convolution_gradients(False, 2, mask=(False, True, False)), "gradients_of_inputs": convolution_gradients(False, 2, mask=(True, False, False), dtype=f16),
    "gradients_depthwise": convolution_gradients(False, 2, groups=4, channels=(4, 4)), "gradients_3": convolution_gradients(False, 3, channels=(2, 3), kernel=2, stride=[1, 2, 1]),
    "gradients_transposed": convolution_gradients(True, 2, stride=[2, 2], padding=[1, 1], output_padding=[1, 0], size=(3, 2)),
    "gradients_one": (lambda dy, x, w: A.convolution_backward(dy, x, w, [6], [1], [0], [1], False, [0], 1, [True] * 3)[1], (normal(2, 6, 3), normal(2, 4, 5), normal(6, 4, 3))),
    "gradients_strided_groups": convolution_gradients(False, 2, groups=2, stride=[2, 2], padding=[1, 1]),
    "gradients_strided_f16": convolution_gradients(False, 2, stride=[2, 1], dtype=f16, mask=(True, False, False)),
    "list_of_one": (lambda x, w: A.convolution(x, w, None, [2], [1], [1], False, [0], 1), (normal(2, 4, 5, 4), normal(3, 4, 3, 3))),
    "transposed_far_padded": convolution(True, 2, stride=2, padding=3, size=(4, 4)), "transposed_one_place": convolution(True, 1, stride=3, kernel=4, size=(1,)),
    "transposed_volume_groups": convolution(True, 3, channels=(2, 4), groups=2, kernel=2, stride=(2, 1, 3), size=(2, 2, 2)),
    "gradients_transposed_groups": convolution_gradients(True, 1, groups=2, stride=[3], size=(4,), dtype=bf16),
}

# What is drawn is made of seeds, which stand behind the inputs.
RANDOM = {
    "dropout": (lambda x: F.dropout(x, 0.2), (normal(7, 9),)), "dropout_half": (lambda x: F.dropout(x * 2, 0.5), (normal(6, 7, dtype=f16),)),
    "dropout_twice": (Layer(lambda: nn.Sequential(nn.Dropout(0.3), nn.Linear(9, 5), nn.Dropout(0.6))), (normal(7, 9),)),
    "dropout_of_nothing": (lambda x: F.dropout(x, 0.0) + 1, X), "kept": (lambda x: A.native_dropout(x, 0.4, True), (normal(7, 9),)),
    "channels": (lambda x: F.dropout2d(x, 0.4), (normal(3, 5, 2, 3),)), "ones": (lambda x: torch.bernoulli(x, 0.3) + x, (normal(7, 9),)),
    "own": (lambda x: torch.bernoulli(x), (lambda: torch.rand(7, 9),)), "uniform": (lambda x: x + torch.rand_like(x), (normal(7, 9),)),
    "normal": (lambda x: x + torch.randn_like(x) * 0.5 + torch.randn(9), (normal(7, 9),)), "normal_half": (lambda x: torch.randn_like(x) * x, (normal(7, 9, dtype=bf16),)),
    "gumbel": (lambda x: F.gumbel_softmax(x, tau=0.75), (normal(7, 9),)),
    "made": (lambda x: x * torch.rand(7, 9), (normal(7, 9),)), "double": (lambda x: torch.rand_like(x) - x, (normal(7, 9, dtype=f64),)),
}
DRAWS = ("aten.native_dropout.default", "aten.bernoulli.p", "aten.rand.default", "aten.rand_like.default", "aten.randn.default",
         "aten.randn_like.default", "aten.exponential.default")

GROUPS = {"pointwise": POINTWISE, "views": VIEWS, "indexing": INDEXING, "bytes": BYTES, "reductions": REDUCTIONS, "scans": SCANS, "losses": LOSSES,
          "norms": NORMS, "pooling": POOLING, "products": PRODUCTS, "convolutions": CONVOLUTIONS, "random": RANDOM, "whole": WHOLE}
TOLERANCE = {f64: 1e-12, f16: 2e-3, bf16: 1.6e-2}
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]


def as_module(fn, inputs):
    """What dump_module takes, for a function or a layer."""
    if isinstance(fn, Layer):
        make = fn.make
    elif isinstance(fn, nn.Module):
        make = lambda: copy.deepcopy(fn)
    else:
        class Model(nn.Module):
            def forward(self, *args):
                return fn(*args)
        make = Model
    return types.SimpleNamespace(Model=make, get_inputs=lambda: [i() for i in inputs], get_init_inputs=lambda: [])


def coarse(x):
    """Multiples of 1/16."""
    return (x.float() * 16).round().div(16).to(x.dtype) if x.is_floating_point() else x


def numbers(x, short=False):
    found = []
    for v in x.detach().reshape(-1):
        v = v.item()
        if isinstance(v, float) and x.dtype != torch.float64 and math.isfinite(v):
            v = float(str(numpy.float32(v))) if short else v  # the shortest text that is this f32
        found.append(dump.number(int(v) if isinstance(v, bool) else v))
    return found


def make_case(group, name, fn, inputs):
    module = as_module(fn, inputs)
    row = dump.dump_module(module, decompose=group != "whole")
    torch.manual_seed(sum(map(ord, name)))
    values = [coarse(v) if isinstance(v, torch.Tensor) else v for v in module.get_inputs()]
    for maker, v in zip(inputs, values):
        if getattr(maker, "__qualname__", "").startswith("special."):
            v.view(-1)[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=v.dtype)
    return answered(name, row, module.Model(), values)


def answered(name, row, real, values):
    """The case: a dump with values for what it takes and the model's answers."""
    state = real.state_dict()
    for key, tensor in state.items():
        if tensor.is_floating_point():
            drawn = coarse(torch.randn(tensor.shape).to(tensor.dtype))
            tensor.copy_(drawn.abs() + 0.5 if key.endswith("var") else drawn)
    given = [copy.deepcopy(state[p["state"]]) for p in row["placeholders"] if p["kind"] in ("param", "buffer")]
    seeds = [7919 * k + 2 ** 40 for k in range(sum(node["op"] in DRAWS for node in row["nodes"]))]
    with torch.no_grad(), places.AsOnCard(), seeded.Seeded(seeds):
        result = real(*[v.clone() if isinstance(v, torch.Tensor) else v for v in values])
    outputs = [o for o in torch.utils._pytree.tree_leaves(result) if isinstance(o, torch.Tensor)]
    outputs += [real.state_dict()[u["state"]] for u in row["updates"]]
    drawn = [torch.tensor(seeds)] if seeds else []
    tensors = [v for v in values if isinstance(v, torch.Tensor) and v.numel()] + drawn + given
    tolerance = max(TOLERANCE.get(t.dtype, 2e-6) for t in tensors + outputs)
    return {"name": name, "dump": row, "values": [numbers(t) for t in tensors],
            "answers": [numbers(o, short=True) for o in outputs], "tolerance": tolerance}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../cli/import/testdata")
    os.makedirs(folder, exist_ok=True)
    for group, cases in GROUPS.items():
        with open(os.path.join(folder, group + ".jsonl"), "w") as out:
            for name, (fn, inputs) in cases.items():
                try:
                    row = make_case(group, name, fn, inputs)
                except Exception as error:
                    raise SystemExit(f"{group}/{name}: {type(error).__name__}: {error}")
                out.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
