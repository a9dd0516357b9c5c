"""Fits what products of 16 bits take (worker/codegen/skeleton/contract/estimate.cc, kAlonePace) to kernels.txt.

    python fit.py            (numpy and scipy; us, bytes a us)

`seconds` is that estimate for operands that lie as they are multiplied; what it rests on beside the constants (waves,
clusters, what memory takes) is as it is there. Prints the constants, the error over all kernels and, of the tile that the
fitted estimate chooses for each product, cuBLASLt's time over its own.
"""
import math
import pathlib

import numpy as np
from scipy.optimize import least_squares

MULTIPROCESSORS, TENSOR, MEMORY = 132, 3.95e8, 4.0e6  # products and bytes a us, as Target has them
START = dict(part=1.1, one=0.9, box=120, alone=2, two_lines=1.7, together=0.05, hides=6, end=55, turns=1, turn=0.5, first=6.7,
             meeting=2, meeting_bytes=30, box_us=1.65, memory=1.25, combine=2.5, combine_part=1.5)


def read():
    products = []
    for line in (pathlib.Path(__file__).parent / "kernels.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "product":
            m, n, k, along_m, along_n = map(int, words[1:6])
            products.append((m, n, k, along_m, along_n, float(words[6]), []))
        elif words[0] != "#":
            products[-1][6].append((*map(int, words[:7]), float(words[7])))
    return products


def seconds(product, kernel, p):
    m, n, k, along_m, along_n = product[:5]
    tile_m, tile_n, split, stages, cluster, turns, tail = kernel[:7]
    meets = cluster == 1 and turns != 2 and 1 < split <= 8
    together = split if meets else max(cluster, tail)
    places = MULTIPROCESSORS if together <= 2 else 120 if together <= 8 else 112
    at_once = max(together, places // together * together)
    blocks = -(-(-(-m // tile_m)) // cluster) * cluster * -(-n // tile_n) * split
    waves, steps = blocks / at_once, math.ceil(math.ceil(k / split) / 64)
    begins = lambda length: 1 if length % 64 == 0 else p["two_lines"]
    lines = min(tile_m, m) * begins(m if along_m else k) + min(tile_n, n) * begins(n if along_n else k) / cluster
    boxes = lines * 128 / (p["box"] * 1e3 * min(p["alone"], MULTIPROCESSORS / min(blocks, at_once)))
    cores = tile_m * tile_n * 64 / (p["part"] * TENSOR / MULTIPROCESSORS * (p["one"] if tile_m == 64 else 1))
    both = (cores ** p["hides"] + boxes ** p["hides"]) ** (1 / p["hides"])
    main = steps * max(both, p["box_us"] / stages) * (1 + p["together"] * (cluster == 2))
    sums = tile_m * tile_n * 4
    end = sums / (p["end"] * 1e3)
    meeting = lambda of: p["meeting"] + sums * (of - 1) / of / (p["meeting_bytes"] * 1e3)
    of_wave = max(main / p["turns"] + p["turn"], (main + end) / 2) if turns == 2 else main + end
    memory = (m + n) * k * 2 / waves / (p["memory"] * MEMORY)
    whole = math.floor(waves)
    rest = waves - whole
    last = math.ceil(rest * tail) * (of_wave / tail + meeting(tail)) if tail > 1 else of_wave
    total = p["first"] + (math.ceil(waves) * meeting(split) if meets else 0) + (end if turns == 2 else 0)
    total += whole * max(of_wave, memory) + (max(last, rest * memory) if rest > 0 else 0)
    if split > 1 and not meets:
        total += p["combine"] + 8 * split * m * n / (p["combine_part"] * MEMORY)
    return total


def main():
    products = read()
    rows = []
    for product in products:
        least = min(kernel[7] for kernel in product[6])
        rows += [(product, kernel, 1 if kernel[7] < 1.3 * least else 0.4) for kernel in product[6]]
    names = list(START)
    constants = lambda x: {name: math.exp(min(10, max(-10, value))) for name, value in zip(names, x)}

    def errors(x):
        p = constants(x)
        return np.array([weight * math.log(seconds(product, kernel, p) / kernel[7]) for product, kernel, weight in rows])

    fitted = least_squares(errors, [math.log(START[name]) for name in names], loss="soft_l1", f_scale=0.1)
    p = constants(fitted.x)
    print({name: float(f"{value:.3g}") for name, value in p.items()})
    logs = [math.log(seconds(product, kernel, p) / kernel[7]) for product, kernel, _ in rows]
    print(f"{len(rows)} kernels, {len(products)} products; rms of the error {math.sqrt(np.mean(np.square(logs))):.3f}")
    chosen = [math.log(product[5] / min(product[6], key=lambda kernel: seconds(product, kernel, p))[7]) for product in products]
    print(f"cuBLASLt over what is chosen {math.exp(np.mean(chosen)):.4f}")


if __name__ == "__main__":
    main()
