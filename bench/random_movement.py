#!/usr/bin/env python3
"""Draws problems that nobody tuned for: permuted copies and sums over subsets of axes.

  python3 bench/random_movement.py permute --count 40 --seed 1 --bytes 1073741824 > permute.json
  python3 bench/random_movement.py sum --count 40 --seed 1 --bytes 1073741824 > sum.json
  warpsmith-bench-codegen permute.json --device cuda:0

Ranks 2 to 6, any order of axes; extents from 2 on, mostly not powers of two; about --bytes of input each. Permuted
copies are of 1, 2, 4 and 8 bytes in turn, sums of fp32 and bf16. A sum keeps any subset of the axes but all.
"""
import argparse
import json
import math
import random

TYPES = {1: "i8", 2: "bf16", 4: "f32", 8: "f64"}


def extents(draw, rank, elements):
    """Factors of about `elements`: some as small as 2, one takes what is left."""
    shape = [1] * rank
    order = draw.sample(range(rank), rank)
    left = elements
    for place, axis in enumerate(order[:-1]):
        share = left ** (1 / (rank - place))
        shape[axis] = max(2, min(left // 2, round(math.exp(draw.uniform(math.log(2), 2 * math.log(max(2, share)))))))
        left = max(2, left // shape[axis])
    shape[order[-1]] = max(2, left)
    return shape


def permuted(draw, number, total):
    size = (4, 8, 2, 1)[number % 4]
    rank = draw.randint(2, 6)
    shape = extents(draw, rank, total // 2 // size)
    order = list(range(rank))
    while order == sorted(order):
        draw.shuffle(order)
    names = [f"a{i}" for i in range(rank)]
    out = ", ".join(f"{names[i]}: {shape[i]}" for i in order)
    dtype = TYPES[size]
    kind = "integers(-100, 100)" if size == 1 else "normal"
    return {"name": f"permute_{number}_{size}b_{'x'.join(map(str, shape))}_to_{''.join(map(str, order))}",
            "graph": [f"input x: {dtype}[{', '.join(map(str, shape))}] ~ {kind}",
                      f"y: {dtype}[{out}] = x[{', '.join(names)}]", "output y"]}


def summed(draw, number, total):
    size = (4, 2)[number % 2]
    rank = draw.randint(2, 6)
    shape = extents(draw, rank, total // size)
    kept = [draw.random() < 0.5 for _ in range(rank)]
    if all(kept):
        kept[draw.randrange(rank)] = False
    names = [f"a{i}" for i in range(rank)]
    axes = lambda which: ", ".join(f"{names[i]}: {shape[i]}" for i in range(rank) if kept[i] == which)
    result = f"f32[{axes(True)}]" if any(kept) else "f32"
    value = f"x[{', '.join(names)}]"
    return {"name": f"sum_{number}_{size}b_{'x'.join(f'{e}k' if k else f'{e}s' for e, k in zip(shape, kept))}",
            "graph": [f"input x: {TYPES[size]}[{', '.join(map(str, shape))}] ~ normal",
                      f"y: {result} = sum[{axes(False)}]({value if size == 4 else f'f32({value})'})", "output y"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("permute", "sum"))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    make = permuted if options.kind == "permute" else summed
    problems = []
    for number in range(options.count):
        problem = make(draw, number, options.bytes)
        problem["description"] = "drawn at random"
        problem["workloads"] = [{"name": "default"}]
        problems.append(problem)
    print(json.dumps({"name": f"random_{options.kind}", "version": str(options.seed), "problems": problems}, indent=1))


if __name__ == "__main__":
    main()
