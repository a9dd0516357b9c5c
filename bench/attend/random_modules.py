#!/usr/bin/env python3
"""Draws modules of attention that nobody tuned for, as `warpsmith import kernelbench` takes them.

    python3 bench/attend/random_modules.py OUT --count 200 --seed 1

writes OUT/KernelBench/level1/N_name.py: a quarter call scaled_dot_product_attention, the others have it written out.
Drawn are sizes, types, how operands lie, scales, masks, biases, the softmax and what becomes of the result. PyTorch
takes about 0.05 to 1 ms for most on an H200, with less than 2 GB. The same seed draws the same modules.
"""
import argparse
import os
import random
from dataclasses import dataclass, field

SCORES = (1 << 21, 40_000_000)         # that there are at least, about, and at most, where they are written out
SCORES_OF_ONE_CALL = 120_000_000       # at most
KEYS_AND_VALUES = (1 << 22, 1 << 26)   # elements of both, of few queries, likewise
OPERAND = 1 << 27                      # elements of one at most
PROJECTED = 4096                       # elements of a row that is projected, at most

LENGTHS = (64, 100, 128, 197, 256, 257, 333, 384, 500, 512, 577, 777, 1000, 1024, 1500, 2048, 3001, 4096)
FEW = (1, 1, 1, 2, 3, 4)
MANY_KEYS = (1000, 1024, 2047, 4096, 5001, 8192, 16384)
HEADS = (1, 2, 3, 4, 5, 6, 8, 8, 12, 14, 16, 16, 20, 25, 32, 32)
SIZES = (16, 24, 32, 32, 40, 48, 56, 64, 64, 64, 64, 72, 80, 80, 88, 96, 112, 120, 128, 128, 128, 128, 160, 192, 256)
ODD_SIZES = (20, 36, 50, 60, 100)

HEAD = '''import math
import torch
import torch.nn as nn
import torch.nn.functional as F

B, H, G, S, T, D, V = {batch}, {heads}, {groups}, {queries}, {keys}, {size}, {size_v}
TYPE = torch.{type}


class Model(nn.Module):
'''


@dataclass
class Module:
    """A module's text, part by part; its symbols are those of HEAD: S queries, T keys, H heads, G of keys."""
    name: list[str]
    sizes: dict[str, object]
    init: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)  # argument: expression
    mask: str = ""
    viewed: bool = False  # queries are (B, G, H // G, S, D)

    def say(self, *words: str) -> None:
        self.name += [word for word in words if word]

    def lines(self, *lines: str) -> None:
        self.forward += lines

    def given(self, name: str, expression: str) -> str:
        self.inputs[name] = expression
        return name

    def text(self) -> str:
        out = [HEAD.format(**self.sizes)]
        if self.init:
            out += ["    def __init__(self):\n        super().__init__()\n"]
            out += [f"        {x}\n" for x in self.init] + ["\n"]
        out += [f"    def forward(self, {', '.join(self.inputs)}):\n"] + [f"        {x}\n" for x in self.forward]
        given = ",\n            ".join(self.inputs.values())
        out += [f"\n\ndef get_inputs():\n    return [{given}]\n\n\ndef get_init_inputs():\n    return []\n"]
        return "".join(out)


def near(draw: random.Random, least: int, most: int) -> float:
    return least * (most / least) ** draw.random()


def sizes_of(draw: random.Random, one_call: bool) -> dict[str, object]:
    kind = draw.choice(("square",) * 5 + ("cross",) * 2 + ("few",) * 3)
    if kind == "square":
        queries = keys = draw.choice(LENGTHS)
    elif kind == "cross":
        queries, keys = draw.choice((7,) + LENGTHS), draw.choice(LENGTHS)
    else:
        queries, keys = draw.choice(FEW), draw.choice(MANY_KEYS)
    size = draw.choice(ODD_SIZES if draw.random() < 0.04 else SIZES)
    size_v = draw.choice(SIZES) if draw.random() < 0.12 else size
    heads = draw.choice(HEADS)
    groups = draw.choice([g for g in range(1, heads + 1) if heads % g == 0]) if draw.random() < 0.4 else heads
    if kind == "few":
        wanted = near(draw, *KEYS_AND_VALUES)
        of_one = groups * keys * (size + size_v)
    else:
        wanted = near(draw, SCORES[0], SCORES_OF_ONE_CALL if one_call else SCORES[1])
        while heads * queries * keys > wanted and heads > 1:
            heads = heads // 2 if heads % 2 == 0 else 1
            groups = min(groups, heads) if heads % min(groups, heads) == 0 else 1
        of_one = heads * queries * keys
    room = OPERAND // (max(heads * queries, heads * keys) * max(size, size_v))
    batch = max(1, min(round(wanted / of_one), room, 64))
    return {"batch": batch, "heads": heads, "groups": groups, "queries": queries, "keys": keys, "size": size,
            "size_v": size_v, "type": draw.choice(("bfloat16", "bfloat16", "float16"))}


# ---- operands

def operands(draw: random.Random, m: Module) -> None:
    """q, k and v as (B, H, S, D), (B, G, T, D) and (B, G, T, V), however they are given."""
    s = m.sizes
    ways = ["heads", "heads", "heads", "rows", "rows", "flat", "keys", "first"]
    if s["queries"] == s["keys"]:
        ways += ["one", "one"] + (["three"] * 2 if s["heads"] == s["groups"] and s["size"] == s["size_v"] else [])
    way = draw.choice(ways)
    m.say({"heads": "", "keys": "keys_turned", "one": "cut", "three": "cut3", "first": "rows_first"}.get(way, way))
    if way == "one":
        m.given("x", "torch.randn(B, S, H * D + G * D + G * V, dtype=TYPE)")
        m.lines("q, k, v = x.split([H * D, G * D, G * V], dim=-1)",
                "q = q.view(B, S, H, D).transpose(1, 2)",
                "k = k.view(B, T, G, D).transpose(1, 2)",
                "v = v.view(B, T, G, V).transpose(1, 2)")
        return
    if way == "three":
        order = draw.choice(("3, H, D", "H, 3, D"))
        m.given("x", "torch.randn(B, S, 3 * H * D, dtype=TYPE)")
        axes = "2, 0, 3, 1, 4" if order[0] == "3" else "3, 0, 2, 1, 4"
        m.lines(f"q, k, v = x.view(B, S, {order}).permute({axes}).unbind(0)")
        return
    for name, heads, rows, size in (("q", "H", "S", "D"), ("k", "G", "T", "D"), ("v", "G", "T", "V")):
        if way == "keys" and name == "k":
            m.given("k", "torch.randn(B, G, D, T, dtype=TYPE)")
            m.lines("k = k.transpose(2, 3)")
        elif way in ("heads", "keys"):
            m.given(name, f"torch.randn(B, {heads}, {rows}, {size}, dtype=TYPE)")
        elif way == "rows":
            m.given(name, f"torch.randn(B, {rows}, {heads}, {size}, dtype=TYPE)")
            m.lines(f"{name} = {name}.transpose(1, 2)")
        elif way == "flat":
            m.given(name, f"torch.randn(B, {rows}, {heads} * {size}, dtype=TYPE)")
            m.lines(f"{name} = {name}.view(B, {rows}, {heads}, {size}).transpose(1, 2)")
        else:
            m.given(name, f"torch.randn({rows}, B, {heads}, {size}, dtype=TYPE)")
            m.lines(f"{name} = {name}.permute(1, 2, 0, 3)")


def grouped(draw: random.Random, m: Module) -> None:
    """Keys' heads as often as queries have them."""
    if m.sizes["heads"] == m.sizes["groups"]:
        return
    way = draw.choice(("expand", "repeat"))
    m.say(way)
    for name, size in (("k", "D"), ("v", "V")):
        m.lines(f"{name} = {name}.repeat_interleave(H // G, dim=1)" if way == "repeat" else
                f"{name} = {name}[:, :, None].expand(B, G, H // G, T, {size}).reshape(B, H, T, {size})")


# ---- masks

def places(m: Module, device: str) -> None:
    m.lines(f"at_q = torch.arange(S, device={device})[:, None]", f"at_k = torch.arange(T, device={device})[None, :]")


def mask_of(draw: random.Random, m: Module, device: str) -> str:
    """Adds lines that make `seen`, bools that go with (B, H, S, T); what kind of mask it is."""
    s = m.sizes
    at_end = " + (T - S)" if s["keys"] >= s["queries"] and draw.random() < 0.7 else ""
    window = draw.choice((1, 16, 63, 64, 100, 128, 256, 500, 1024))
    part = draw.choice((16, 50, 64, 128, 200))
    by_place = {
        "causal": f"seen = at_k <= at_q{at_end}",
        "causal_above": f"seen = ~(at_k > at_q{at_end})",
        "causal_strict": f"seen = at_k < at_q{at_end}",
        "later": "seen = at_k >= at_q",
        "window": f"seen = (at_k <= at_q{at_end}) & (at_q{at_end} - at_k < {window})",
        "near": f"seen = (at_q - at_k).abs() <= {window}",
        "both_sides": f"seen = (at_k >= at_q - {window}) & (at_k <= at_q + {window // 2})",
        "blocks": f"seen = at_q // {part} == at_k // {part}",
        "blocks_causal": f"seen = at_k // {part} <= at_q // {part}",
        "prefix": f"seen = (at_k <= at_q) | (at_k < {part})",
        "sinks": f"seen = (at_k <= at_q{at_end}) & ((at_q{at_end} - at_k < {window}) | (at_k < 4))",
        "dilated": f"seen = (at_k <= at_q{at_end}) & ((at_q{at_end} - at_k) % 4 == 0)",
        "all_but_self": "seen = at_q != at_k",
    }
    by_batch = {
        "lengths": (("length", "torch.randint(1, T + 1, (B,))"), "seen = at_k < length[:, None, None, None]"),
        "lengths_causal": (("length", "torch.randint(1, T + 1, (B,))"),
                           "seen = (at_k < length[:, None, None, None]) & (at_k <= at_q)"),
        "lengths_or_none": (("length", "torch.randint(0, T + 1, (B,))"), "seen = at_k < length[:, None, None, None]"),
        "position": (("position", "torch.randint(0, max(T - S, 0) + 1, (B,))"),
                     "seen = at_k <= at_q + position[:, None, None, None]"),
        "starts": (("start", "torch.randint(0, T, (B,))"), "seen = at_k >= start[:, None, None, None]"),
        "both_padded": (("length", "torch.randint(1, min(S, T) + 1, (B,))"),
                        "seen = (at_k < length[:, None, None, None]) & (at_q < length[:, None, None, None])"),
    }
    given = {
        "bools": ("mask", "torch.rand(S, T) < 0.7"),
        "bools_of_batch": ("mask", "torch.rand(B, 1, S, T) < 0.7"),
        "bools_of_keys": ("mask", "torch.rand(B, 1, 1, T) < 0.8"),
        "bools_seldom": ("mask", "torch.rand(B, 1, S, T) < 0.02"),
    }
    if s["queries"] == s["keys"]:
        given["documents"] = ("document", "torch.randint(0, 5, (B, S)).sort(dim=1).values")
    tables = {
        "tril": "seen = torch.ones(S, T, dtype=torch.bool, device={}).tril()",
        "tril_end": "seen = torch.tril(torch.ones(S, T, dtype=torch.bool, device={}), diagonal=T - S)",
        "triu": "seen = torch.triu(torch.ones(S, T, device={}), diagonal=1) == 0",
    }
    kinds = list(by_place) + ["causal"] * 3 + ["window"] * 2 + list(by_batch) + ["lengths"] * 2 + list(given)
    kinds += list(tables) + ["tril", "triu"]
    kind = draw.choice(kinds)
    m.say(kind)
    if kind in by_place or kind in by_batch:
        places(m, device)
    if kind in by_place:
        m.lines(by_place[kind])
    elif kind in by_batch:
        m.given(*by_batch[kind][0])
        m.lines(by_batch[kind][1])
    elif kind in tables:
        m.lines(tables[kind].format(device))
    else:
        m.given(*given[kind])
        m.lines("seen = mask" if kind != "documents" else
                "seen = (document[:, :, None] == document[:, None, :])[:, None]")
    return kind


def bias_of(draw: random.Random, m: Module, device: str) -> str:
    """Adds lines that make `bias`, which goes with (B, H, S, T) and is added to scores; what kind it is."""
    given = {
        "bias": "torch.randn(S, T, dtype=TYPE)",
        "bias_of_heads": "torch.randn(1, H, S, T, dtype=TYPE)",
        "bias_of_batch": "torch.randn(B, 1, S, T, dtype=TYPE)",
        "bias_of_keys": "torch.randn(B, 1, 1, T, dtype=TYPE)",
        "infinite": "torch.zeros(S, T, dtype=TYPE).masked_fill(torch.rand(S, T) < 0.3, float('-inf'))",
        "infinite_keys": "torch.zeros(B, 1, 1, T, dtype=TYPE).masked_fill(torch.rand(B, 1, 1, T) < 0.3, float('-inf'))",
    }
    kind = draw.choice(list(given) + ["alibi", "alibi", "table", "learnt"])
    m.say(kind)
    if kind in given:
        m.given("bias", given[kind])
    elif kind == "alibi":
        places(m, device)
        m.lines(f"slope = 2.0 ** (-8.0 / H * torch.arange(1, H + 1, device={device}))",
                "bias = (slope[:, None, None] * (at_k - at_q)).to(TYPE)")
    elif kind == "table":
        m.init.append("self.table = nn.Parameter(torch.randn(H, S + T - 1, dtype=TYPE))")
        places(m, device)
        m.lines("bias = self.table[:, at_k - at_q + (S - 1)]")
    else:
        m.init.append("self.bias = nn.Parameter(torch.randn(H, S, T, dtype=TYPE))")
        m.lines("bias = self.bias")
    return kind


# ---- attention

def one_call(draw: random.Random, m: Module) -> None:
    m.say("sdpa")
    operands(draw, m)
    more = []
    if m.sizes["heads"] != m.sizes["groups"]:
        if draw.random() < 0.6:
            m.say("gqa")
            more.append("enable_gqa=True")
        else:
            grouped(draw, m)
    if draw.random() < 0.3:
        m.say("scale")
        more.append(f"scale={draw.choice(('0.1', '1.0', '1.0 / D', '0.05'))}")
    kind = draw.choice(("", "", "is_causal", "is_causal", "mask", "mask", "bias", "both"))
    if kind == "is_causal":
        m.say("is_causal")
        more.append("is_causal=True")
    elif kind:
        if kind != "bias":
            mask_of(draw, m, "q.device")
        if kind != "mask":
            bias_of(draw, m, "q.device")
        if kind == "both":
            m.lines("bias = torch.where(seen, bias, float('-inf'))")
        more.append("attn_mask=" + ("seen" if kind == "mask" else "bias"))
    m.lines(f"y = F.scaled_dot_product_attention({', '.join(['q', 'k', 'v'] + more)})")


def scores(draw: random.Random, m: Module) -> None:
    """s, as (B, H, S, T)."""
    scale = draw.choice(("/ math.sqrt(D)",) * 3 + ("* D ** -0.5",) * 3 + ("q", "q", "both", "none", "heads"))
    m.say({"q": "scaled_q", "both": "scaled_both", "none": "unscaled", "heads": "learnt_scale"}.get(scale, ""))
    if scale == "q":
        m.lines("q = q * D ** -0.5")
    elif scale == "both":
        m.lines("q, k = q * D ** -0.25, k * D ** -0.25")
    viewed = m.sizes["heads"] != m.sizes["groups"] and draw.random() < 0.3
    if viewed:
        m.say("viewed")
        m.lines("q = q.reshape(B, G, H // G, S, D)",
                draw.choice(("s = torch.einsum('bgrsd,bgtd->bgrst', q, k).reshape(B, H, S, T)",
                             "s = torch.matmul(q, k[:, :, None].transpose(-1, -2)).reshape(B, H, S, T)")))
    else:
        grouped(draw, m)
        m.lines(draw.choice(("s = torch.matmul(q, k.transpose(-2, -1))", "s = q @ k.mT",
                             "s = torch.einsum('bhsd,bhtd->bhst', q, k)",
                             "s = torch.bmm(q.reshape(B * H, S, D), k.reshape(B * H, T, D).mT).view(B, H, S, T)")))
    m.viewed = viewed
    if scale[0] in "/*":
        m.lines(f"s = s {scale}")
    elif scale == "heads":
        m.init.append("self.temperature = nn.Parameter(torch.rand(H, 1, 1, dtype=TYPE) * 0.2)")
        m.lines("s = s * self.temperature")


def masked(draw: random.Random, m: Module) -> None:
    """What becomes of s before the softmax."""
    kinds = draw.choice(("", "mask", "mask", "mask", "mask", "mask", "bias", "both"))
    if draw.random() < 0.15:
        m.say("cap")
        m.lines(f"s = {draw.choice(('30.0', '50.0'))} * torch.tanh(s / {draw.choice(('30.0', '50.0'))})")
    if draw.random() < 0.3:
        m.say("scores32")
        m.lines("s = s.float()")
    if kinds in ("bias", "both"):
        bias_of(draw, m, "q.device")
        m.lines("s = s + bias")
    if kinds in ("mask", "both"):
        m.mask = mask_of(draw, m, "q.device")
        way = draw.choice(("fill", "fill", "fill", "where", "added", "finite", "least"))
        m.say("" if way in ("fill", "where") else way)
        m.lines({"fill": "s = s.masked_fill(~seen, float('-inf'))",
                 "where": "s = torch.where(seen, s, float('-inf'))",
                 "added": "s = s + torch.zeros_like(s[:1, :1]).masked_fill(~seen, float('-inf'))",
                 "finite": f"s = s.masked_fill(~seen, {'-1e9' if m.sizes['type'] == 'bfloat16' else '-1e4'})",
                 "least": "s = s.masked_fill(~seen, torch.finfo(s.dtype).min)"}[way])


def softmax(draw: random.Random, m: Module) -> None:
    """p, of s."""
    way = draw.choice(("plain",) * 4 + ("32",) * 3 + ("float", "float", "written", "sink"))
    m.say({"32": "softmax32", "float": "softmax_float", "plain": ""}.get(way, way))
    m.lines(*{"plain": ["p = F.softmax(s, dim=-1)"],
              "32": ["p = F.softmax(s, dim=-1, dtype=torch.float32).to(TYPE)"],
              "float": ["p = s.float().softmax(-1).type_as(q)"],
              "written": ["e = torch.exp(s.float() - s.float().amax(-1, keepdim=True))",
                          "p = (e / e.sum(-1, keepdim=True)).to(TYPE)"],
              "sink": ["p = torch.cat((s, self.sink.to(s.dtype).expand(B, H, S, 1)), -1).softmax(-1)[..., :-1]"]}[way])
    if way == "sink":
        m.init.append("self.sink = nn.Parameter(torch.randn(H, 1, 1, dtype=TYPE))")
    m.lines("p = p.to(v.dtype)")
    if m.mask and draw.random() < 0.12:
        how = draw.choice(("nan_to_num", "any"))
        m.say(how)
        m.lines("p = torch.nan_to_num(p)" if how == "nan_to_num" else
                "p = torch.where(seen.any(-1, keepdim=True), p, 0.0)")
    if draw.random() < 0.15:
        m.say("dropout")
        m.lines("p = F.dropout(p, 0.1, training=False)")


def written_out(draw: random.Random, m: Module) -> None:
    m.say("written")
    operands(draw, m)
    scores(draw, m)
    masked(draw, m)
    softmax(draw, m)
    if m.viewed:
        m.lines(draw.choice(("y = torch.einsum('bgrst,bgtv->bgrsv', p.view(B, G, H // G, S, T), v).reshape(B, H, S, V)",
                             "y = torch.matmul(p.view(B, G, H // G, S, T), v[:, :, None]).reshape(B, H, S, V)")))
    else:
        m.lines(draw.choice(("y = torch.matmul(p, v)", "y = p @ v", "y = torch.einsum('bhst,bhtv->bhsv', p, v)",
                             "y = torch.bmm(p.reshape(B * H, S, T), v.reshape(B * H, T, V)).view(B, H, S, V)")))


def result(draw: random.Random, m: Module) -> None:
    """What is returned of y, (B, H, S, V)."""
    way = draw.choice(("", "", "", "turned", "joined", "joined", "joined", "projected", "gated", "float"))
    if way == "projected" and m.sizes["heads"] * m.sizes["size_v"] > PROJECTED:
        way = "joined"
    m.say(way)
    if way == "turned":
        m.lines("return y.transpose(1, 2).contiguous()")
    elif way == "float":
        m.lines("return y.float()")
    elif way == "joined":
        m.lines("return y.transpose(1, 2).reshape(B, S, H * V)")
    elif way == "projected":
        m.init.append("self.out = nn.Linear(H * V, H * V, bias=False, dtype=TYPE)")
        m.lines("return self.out(y.transpose(1, 2).reshape(B, S, H * V))")
    elif way == "gated":
        m.given("gate", "torch.randn(B, H, S, V, dtype=TYPE)")
        m.lines("return y * torch.sigmoid(gate)")
    else:
        m.lines("return y")


def module(draw: random.Random) -> Module:
    call = draw.random() < 0.25
    m = Module([], sizes_of(draw, call))
    (one_call if call else written_out)(draw, m)
    result(draw, m)
    return m


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = os.path.join(options.out, "KernelBench", "level1")
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(options.seed)
    for number in range(1, options.count + 1):
        m = module(draw)
        with open(os.path.join(folder, f"{number}_{'_'.join(m.name)}.py"), "w", encoding="utf-8") as file:
            file.write(m.text())
    print(f"{options.count} modules in {folder}")


if __name__ == "__main__":
    main()
