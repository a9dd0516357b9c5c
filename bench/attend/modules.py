#!/usr/bin/env python3
"""Attention and layers round it, as modules that `warpsmith import kernelbench` takes.

    python3 bench/attend/modules.py OUT        writes OUT/KernelBench/level1/N_name.py

The first are attention alone, at training and decoding shapes. The others are layers of ten model
families, of the sizes that their published configurations have; weights and inputs are drawn. All
are bf16. How to search and judge them: docs/results, "attention".
"""
import argparse
import os

HEAD = '''import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BF16 = torch.bfloat16


def get_init_inputs():
    return []

'''

ALONE = '''
class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v{extra})


def get_inputs():
    q, k = {q}, {k}
    return [torch.randn(q, dtype=BF16), torch.randn(k, dtype=BF16), torch.randn(k, dtype=BF16)]
'''

# name: queries, keys, further arguments
SHAPES = {
    "full_128": ((4, 16, 4096, 128), (4, 16, 4096, 128), ""),
    "causal_128": ((4, 16, 4096, 128), (4, 16, 4096, 128), ", is_causal=True"),
    "full_64": ((4, 32, 4096, 64), (4, 32, 4096, 64), ""),
    "causal_256": ((2, 8, 4096, 256), (2, 8, 4096, 256), ", is_causal=True"),
    "grouped_causal_128": ((1, 32, 8192, 128), (1, 8, 8192, 128), ", is_causal=True, enable_gqa=True"),
    "decode_1_of_8": ((1, 32, 1, 128), (1, 8, 8192, 128), ", enable_gqa=True"),
    "decode_1_of_32": ((1, 32, 1, 128), (1, 32, 8192, 128), ""),
    "decode_32_of_8": ((32, 32, 1, 128), (32, 8, 8192, 128), ", enable_gqa=True"),
    "decode_32_of_32": ((32, 32, 1, 128), (32, 32, 8192, 128), ""),
}

LAYER = '''
WIDTH, HEADS, KEYS, SIZE, INNER = {width}, {heads}, {keys}, {size}, {inner}
BATCH, LENGTH = {batch}, {length}
BIAS, NORM, ACT, GATED = {bias}, "{norm}", "{act}", {gated}
CAUSAL, WINDOW, CAP, ROTARY, QK_NORM = {causal}, {window}, {cap}, {rotary}, {qk_norm}


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=BF16))
        self.bias = nn.Parameter(torch.zeros(width, dtype=BF16)) if NORM == "layer" else None

    def forward(self, x):
        if NORM == "layer":
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias)
        f = x.float()
        f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * f.to(x.dtype)


def linear(a, b):
    return nn.Linear(a, b, bias=BIAS, dtype=BF16)


def rotate(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.behind = Norm(WIDTH), Norm(WIDTH)
        self.q, self.o = linear(WIDTH, HEADS * SIZE), linear(HEADS * SIZE, WIDTH)
        self.k, self.v = linear(WIDTH, KEYS * SIZE), linear(WIDTH, KEYS * SIZE)
        self.up, self.down = linear(WIDTH, INNER), linear(INNER, WIDTH)
        if GATED:
            self.gate = linear(WIDTH, INNER)
        if QK_NORM:
            self.q_norm, self.k_norm = Norm(SIZE), Norm(SIZE)

    def attend(self, x, cos, sin):
        q = self.q(x).view(BATCH, LENGTH, HEADS, SIZE)
        k = self.k(x).view(BATCH, LENGTH, KEYS, SIZE)
        v = self.v(x).view(BATCH, LENGTH, KEYS, SIZE).transpose(1, 2)
        if QK_NORM:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if ROTARY:
            q, k = q * cos + rotate(q) * sin, k * cos + rotate(k) * sin
        if KEYS < HEADS:
            k = k.repeat_interleave(HEADS // KEYS, dim=1)
            v = v.repeat_interleave(HEADS // KEYS, dim=1)
        if not (CAP or WINDOW):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL)
        else:
            s = torch.matmul(q, k.transpose(2, 3)) * SIZE ** -0.5
            if CAP:
                s = torch.tanh(s / CAP) * CAP
            at = torch.arange(LENGTH, device=x.device)
            apart = at[:, None] - at[None, :]
            seen = (apart >= 0) & (apart < WINDOW)
            s = s.masked_fill(~seen, float("-inf"))
            y = torch.matmul(F.softmax(s, dim=-1, dtype=torch.float32).to(x.dtype), v)
        return self.o(y.transpose(1, 2).reshape(BATCH, LENGTH, HEADS * SIZE))

    def forward(self, x, cos, sin):
        x = x + self.attend(self.before(x), cos, sin)
        y = self.behind(x)
        act = F.silu if ACT == "silu" else F.gelu
        y = act(self.gate(y)) * self.up(y) if GATED else act(self.up(y))
        return x + self.down(y)


def get_inputs():
    angle = torch.arange(LENGTH)[:, None] / 10000 ** (torch.arange(SIZE // 2)[None, :] * 2 / SIZE)
    angle = torch.cat((angle, angle), dim=-1)
    return [torch.randn(BATCH, LENGTH, WIDTH, dtype=BF16), angle.cos().to(BF16), angle.sin().to(BF16)]
'''

DECODER = dict(bias=False, norm="rms", act="silu", gated=True, causal=True, window=0, cap=0,
               rotary=True, qk_norm=False)
ENCODER = dict(bias=True, norm="layer", act="gelu", gated=False, causal=False, window=0, cap=0,
               rotary=False, qk_norm=False)


def layer(base, width, heads, keys, size, inner, batch, length, **other):
    return {**base, **other, "width": width, "heads": heads, "keys": keys, "size": size,
            "inner": inner, "batch": batch, "length": length}


LAYERS = {
    "llama_3_8b": layer(DECODER, 4096, 32, 8, 128, 14336, 1, 2048),
    "mistral_7b": layer(DECODER, 4096, 32, 8, 128, 14336, 1, 4096, window=4096),
    "qwen_2_5_0_5b": layer(DECODER, 896, 14, 2, 64, 4864, 4, 1024, bias=True),
    "qwen_3_1_7b": layer(DECODER, 2048, 16, 8, 128, 6144, 1, 2048, qk_norm=True),
    "gemma_2_2b": layer(DECODER, 2304, 8, 4, 256, 9216, 1, 2048, act="gelu", cap=50.0, window=4096),
    "phi_3_mini": layer(DECODER, 3072, 32, 32, 96, 8192, 1, 2048),
    "gpt_2_medium": layer(ENCODER, 1024, 16, 16, 64, 4096, 4, 1024, causal=True),
    "bert_base": layer(ENCODER, 768, 12, 12, 64, 3072, 16, 512),
    "vit_l_16": layer(ENCODER, 1024, 16, 16, 64, 4096, 16, 197),
    "whisper_small": layer(ENCODER, 768, 12, 12, 64, 3072, 4, 1500),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    folder = os.path.join(parser.parse_args().out, "KernelBench", "level1")
    os.makedirs(folder, exist_ok=True)
    texts = {n: ALONE.format(q=q, k=k, extra=e) for n, (q, k, e) in SHAPES.items()}
    texts.update({n: LAYER.format(**sizes) for n, sizes in LAYERS.items()})
    for number, (name, text) in enumerate(texts.items(), 1):
        with open(os.path.join(folder, f"{number}_{name}.py"), "w") as file:
            file.write(HEAD + text)
    print(f"{len(texts)} modules in {folder}")


if __name__ == "__main__":
    main()
