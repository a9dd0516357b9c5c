"""How a file draws its inputs, found by watching get_inputs() instead of by looking at data.

A Distribution is {"kind": normal | uniform | integers | constant, "low", "high"}, with the meaning
of common/graph/graph.h. What has no exact counterpart gets one with about the same range.
"""
import math

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

# A uniform draw's exponential over its sum lies within [1/(e-1), e/(e-1)] / n.
SOFTMAX_LOW, SOFTMAX_HIGH = 0.5, 1.5


def distribution(kind, low, high):
    """ValueError: there is none, of numbers that are not finite."""
    if not math.isfinite(low) or not math.isfinite(high):
        raise ValueError("not finite")
    return {"kind": kind, "low": float(low), "high": float(high)}


NORMAL = distribution("normal", 0, 1)


def _randint_bounds(args, kwargs):
    args = list(args)
    numbers = [a for a in args if isinstance(a, int)]
    if "high" in kwargs:
        numbers.append(kwargs["high"])
    if "low" in kwargs:
        numbers.insert(0, kwargs["low"])
    return (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _affine(d, scale, shift):
    low, high = d["low"], d["high"]
    if d["kind"] == "normal":
        return distribution("normal", low * scale + shift, high * abs(scale))
    if d["kind"] == "integers":
        last = high - 1
        first, last = sorted((low * scale + shift, last * scale + shift))
        whole = float(first).is_integer() and float(last).is_integer()
        return distribution("integers", first, last + 1) if whole else distribution("uniform", first, last)
    if d["kind"] == "constant":
        return distribution("constant", low * scale + shift, 0)
    first, last = sorted((low * scale + shift, high * scale + shift))
    return distribution("uniform", first, last)


def _mean(d):
    if d["kind"] in ("normal", "constant"):
        return d["low"]
    return (d["low"] + d["high"] - (d["kind"] == "integers")) / 2


class Watch(TorchFunctionMode):
    """Remembers for each tensor made under it how it was drawn."""

    def __init__(self):
        super().__init__()
        self._known = WeakIdKeyDictionary()

    def of(self, tensor):
        return self._known.get(tensor, NORMAL)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            try:
                found = self._infer(func, args, kwargs, result)
            except (TypeError, ValueError, IndexError, KeyError):
                found = None
            if found is not None:
                self._known[result] = found
        return result

    def _scalar(self, value):
        """A number, or what stands for it: a random 0-d tensor counts as its mean."""
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, torch.Tensor) and value.dim() == 0 and value in self._known:
            return _mean(self._known[value])
        return None

    def _infer(self, func, args, kwargs, result):
        name = getattr(func, "__name__", "")
        if name in ("rand", "rand_like"):
            return distribution("uniform", 0, 1)
        if name in ("randn", "randn_like"):
            return NORMAL
        if name == "normal":
            mean, std = kwargs.get("mean", args[0] if args else 0), kwargs.get("std", args[1] if len(args) > 1 else 1)
            return distribution("normal", mean, std)
        if name in ("randint", "randint_like"):
            low, high = _randint_bounds(args if name == "randint" else args[1:], kwargs)
            return distribution("integers", low, high)
        if name in ("uniform_", "normal_"):
            low, high = kwargs.get("from", args[1] if len(args) > 1 else 0), args[2] if len(args) > 2 else 1
            return distribution("uniform" if name == "uniform_" else "normal", low, high)
        if name in ("zeros", "zeros_like"):
            return distribution("constant", 0, 0)
        if name in ("ones", "ones_like"):
            return distribution("constant", 1, 0)
        if name in ("full", "full_like"):
            return distribution("constant", kwargs.get("fill_value", args[1] if len(args) > 1 else 0), 0)
        if name in ("arange", "randperm"):
            return distribution("integers", 0, max(1, result.numel()))
        if name in ("softmax", "_softmax"):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            n = result.shape[dim]
            return distribution("uniform", SOFTMAX_LOW / n, SOFTMAX_HIGH / n)
        if name in ("sigmoid",):
            return distribution("uniform", 0, 1)
        if name in ("sign",):
            return distribution("integers", -1, 2)
        if not args or not isinstance(args[0], torch.Tensor):
            return None
        # what has no distribution of its own passes on, changes or joins those of its operands
        first, second = args[0], args[1] if len(args) > 1 else None
        if first not in self._known and not isinstance(second, torch.Tensor):
            return None
        other = self._scalar(second)
        if name in ("mul", "__mul__", "__rmul__", "mul_") and other is None:
            if isinstance(second, torch.Tensor) and self._scalar(first) is not None:
                return _affine(self._known[second], self._scalar(first), 0)
            return None
        d = self._known.get(first)
        if d is None:
            return None
        if name in ("mul", "__mul__", "__rmul__", "mul_"):
            return _affine(d, other, 0)
        if name in ("div", "__truediv__", "true_divide") and other:
            return _affine(d, 1 / other, 0)
        if name in ("add", "__add__", "__radd__", "add_") and other is not None:
            return _affine(d, 1, other)
        if name in ("sub", "__sub__", "sub_") and other is not None:
            return _affine(d, 1, -other)
        if name in ("rsub", "__rsub__") and other is not None:
            return _affine(d, -1, other)
        if name in ("neg", "__neg__"):
            return _affine(d, -1, 0)
        if name in ("abs", "__abs__"):
            return distribution("uniform", 0, 2) if d["kind"] == "normal" else distribution(
                d["kind"], 0, max(abs(d["low"]), abs(d["high"])))
        if result.numel() == first.numel() or name in (
                "float", "to", "half", "double", "long", "int", "bool", "contiguous", "clone", "expand", "view",
                "reshape", "permute", "transpose", "t", "triu", "tril", "unsqueeze", "squeeze", "cuda", "detach"):
            return d
        return None


def of_values(tensor):
    """A distribution for real data: constant, or about the same range or spread."""
    if tensor.numel() == 0:
        return NORMAL
    data = tensor.detach().double()
    data = data[data.isfinite()]
    if data.numel() == 0:
        return NORMAL
    low, high = data.min().item(), data.max().item()
    if low == high:
        return distribution("constant", low, 0)
    if not tensor.is_floating_point():
        return distribution("integers", low, high + 1)
    mean, std = data.mean().item(), data.std().item()
    # a uniform draw of width w has a standard deviation of w / sqrt(12); a normal one is far wider
    if high - low < 4 * std:
        return distribution("uniform", low, high)
    return distribution("normal", mean, std)
