"""Imports KernelBench problems at small shapes and compares the graphs with PyTorch.

  python python/tests/check_kernelbench.py KERNELBENCH IMPORT_TEST [NUMBERS] [--level 1]

KERNELBENCH is a checkout; IMPORT_TEST the built test binary, which evaluates the graphs on the
processor (case "cases of WARPSMITH_IMPORT_CASES"). NUMBERS: "19,25-30"; without them the problems of
level 1 that need neither a matrix product nor a convolution. Sizes are numbers that the
files define at module level; they are made small before anything is made from them.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
import make_dumps  # noqa: E402
from warpsmith_torch import dump, module as modules  # noqa: E402

DEFAULT = "5,12,19-49,51-53,88-96,98-100"
LARGEST, BATCH, CHANNELS, SIZE = 16, 2, 16, 26
TOLERANCE = 2e-5


def numbers_of(text):
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def smaller(name, value, batch):
    if isinstance(value, tuple):
        return tuple(smaller(name, v, batch) for v in value)
    if not isinstance(value, int) or isinstance(value, bool) or value <= LARGEST:
        return value
    if "batch" in name:
        return batch
    return CHANNELS if "channel" in name or "feature" in name else SIZE


def shrink(module, batch):
    for name, value in list(vars(module).items()):
        if not name.startswith("__") and isinstance(value, (int, tuple)):
            setattr(module, name, smaller(name, value, batch))


def case_of(path):
    try:
        module = modules.load_file(path)
        shrink(module, BATCH)
        row = dump.dump_module(module)
    except RuntimeError:  # some broadcast a batch against another size, and want the two to agree
        module = modules.load_file(path)
        shrink(module, SIZE)
        row = dump.dump_module(module)
    torch.manual_seed(7)
    return make_dumps.answered(os.path.basename(path)[:-3], row, modules.make_model(module), module.get_inputs())


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernelbench")
    parser.add_argument("import_test")
    parser.add_argument("numbers", nargs="?", default=DEFAULT)
    parser.add_argument("--level", type=int, default=1)
    arguments = parser.parse_args()
    wanted, failed, done = numbers_of(arguments.numbers), [], 0
    for path in glob.glob(os.path.join(arguments.kernelbench, "KernelBench", f"level{arguments.level}", "*.py")):
        name = os.path.basename(path)
        if int(name.split("_")[0]) not in wanted:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            case = case_of(path)
            case["tolerance"] = max(case["tolerance"], TOLERANCE)
            file.write(json.dumps(case) + "\n")
            file.flush()
            run = subprocess.run([arguments.import_test, "cases of WARPSMITH_IMPORT_CASES"],
                                 env={**os.environ, "WARPSMITH_IMPORT_CASES": file.name},
                                 stdout=subprocess.PIPE, text=True)
        done += 1
        if run.returncode:
            failed.append(name)
            print(name, run.stdout[-1500:], sep="\n")
    print(f"{done - len(failed)} of {done} problems give PyTorch's answers")
    sys.exit(1 if failed or not done else 0)


if __name__ == "__main__":
    main()
