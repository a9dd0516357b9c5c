"""Writes files for several workloads (module.py) as plain KernelBench files, for harnesses that know no
workloads. Needs no PyTorch.

  python -m warpsmith_torch.plain FOLDER WORKLOAD OUT

Each NAME.py of FOLDER becomes OUT/KernelBench/level1/N_NAME.py, numbered in the order of names, whose
functions take no arguments and give the workload's inputs.
"""
import pathlib
import sys

END = """

# ---- for the workload '{workload}' ----
import functools

get_inputs = functools.partial(get_inputs, **WORKLOADS["{workload}"])
if "get_init_inputs" in globals():
    get_init_inputs = functools.partial(get_init_inputs, **WORKLOADS["{workload}"])
del WORKLOADS
"""


def main(folder, workload, out):
    level = pathlib.Path(out) / "KernelBench" / "level1"
    level.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(sorted(pathlib.Path(folder).glob("*.py")), 1):
        (level / f"{number}_{path.name}").write_text(path.read_text() + END.format(workload=workload))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
