"""What a module draws at random, of seeds that are given: a reference that answers alike each time, whoever asks.

A draw's element at place i, row major, is made of the upper 24 bits of word i % 4 of Philox4x32-10 at the counter
i / 4, keyed by the draw's seed (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; SC 2011): the graph
language's `random`. PyTorch's own generator is not asked, so its numbers are others, of the same distribution.
"""
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

BITS = 24
SEED_END = 1 << 53  # seeds are below
# Elements that are drawn at a time: each takes some hundred bytes on the way.
PIECE = 1 << 24
_MASK = 0xFFFFFFFF
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)


class TooMany(Exception):
    """There are more draws than seeds."""


def _product(factor, x):
    """(upper, lower) 32 bits of factor * x, for numbers of 32 bits in an i64."""
    low, high = factor * (x & 0xFFFF), factor * (x >> 16)
    return (high + (low >> 16)) >> 16, ((high << 16) + low) & _MASK


def philox(counter, key):
    """Four words of Philox4x32-10. counter: four i64 tensors of one shape, of 32 bits each; key: two integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high_a, low_a = _product(_FACTORS[0], c0)
        high_b, low_b = _product(_FACTORS[1], c2)
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a
        k0, k1 = (k0 + _STEPS[0]) & _MASK, (k1 + _STEPS[1]) & _MASK
    return c0, c1, c2, c3


def random_bits(seed, shape, device):
    """An i64 tensor of `shape`: the draw's numbers, each below 2^24."""
    count = math.prod(shape)
    pieces = []
    for first in range(0, count, PIECE):
        block = torch.arange(first // 4, -(-min(count, first + PIECE) // 4), dtype=torch.int64, device=device)
        zero = torch.zeros_like(block)
        words = philox((block & _MASK, block >> 32, zero, zero), (seed & _MASK, seed >> 32 & _MASK))
        pieces.append(torch.stack(words, 1).reshape(-1) >> (32 - BITS))
    bits = torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64, device=device)
    return bits[:count].reshape(shape)


class Seeded(TorchDispatchMode):
    """Inside, the k-th draw of a forward uses seeds[k]. Raises TooMany for a draw that has none."""

    def __init__(self, seeds):
        super().__init__()
        self._seeds, self._next = list(seeds), 0

    def _bits(self, like):
        if self._next >= len(self._seeds):
            raise TooMany(f"forward draws at random more often than the problem says: {len(self._seeds)}")
        self._next += 1
        return random_bits(self._seeds[self._next - 1], like.shape, like.device)

    def _ones(self, like, probability):
        """Whether each is 1, as it is with that probability, a number or a tensor; of the latter export makes a
        uniform draw and compares."""
        if isinstance(probability, torch.Tensor):
            return self._bits(like) * 2.0 ** -BITS < probability
        return self._bits(like) >= math.ceil((1 - probability) * 2 ** BITS)

    def _native_dropout(self, x, p, train):
        if not train or not 0 < p < 1:
            return torch.ops.aten.native_dropout(x, p, train)
        keep = self._bits(x) >= math.ceil(p * 2 ** BITS)
        wide = x.float() if x.element_size() < 4 else x
        return (wide * keep * (1 / (1 - p))).to(x.dtype), keep

    def _rand(self, made):
        return (self._bits(made) * 2.0 ** -BITS).to(made.dtype)

    def _randn(self, made):
        """Box and Muller's, in the type that PyTorch computes in."""
        pairs = self._above_zero(made, made.shape + (2,))
        return (torch.sqrt(torch.log(pairs[..., 0]) * -2) * torch.cos(pairs[..., 1] * (2 * math.pi))).to(made.dtype)

    def _exponential(self, made, rate=1.0):
        return made.copy_(torch.log(self._above_zero(made, made.shape)) / -rate)

    def _above_zero(self, made, shape):
        bits = self._bits(torch.empty(shape, dtype=torch.uint8, device=made.device))
        return (bits + 1).to(torch.float64 if made.dtype == torch.float64 else torch.float32) * 2.0 ** -BITS

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        aten, kwargs = torch.ops.aten, kwargs or {}
        if func == aten.native_dropout.default:
            return self._native_dropout(*args, **kwargs)
        if func == aten.bernoulli_.float:
            return args[0].copy_(self._ones(args[0], args[1] if len(args) > 1 else kwargs.get("p", 0.5)))
        if func in (aten.bernoulli.p, aten.bernoulli_.Tensor):
            ones = self._ones(args[0], args[1] if len(args) > 1 else kwargs["p"])
            return args[0].copy_(ones) if func == aten.bernoulli_.Tensor else ones.to(args[0].dtype)
        if func == aten.bernoulli.default:
            return self._ones(args[0], args[0]).to(args[0].dtype)
        if func in (aten.rand.default, aten.rand_like.default):
            return self._rand(func(*args, **kwargs))
        if func in (aten.randn.default, aten.randn_like.default):
            return self._randn(func(*args, **kwargs))
        if func == aten.exponential_.default:
            return self._exponential(args[0], args[1] if len(args) > 1 else kwargs.get("lambd", 1.0))
        return func(*args, **kwargs)
