#!/usr/bin/env python3
"""modules_as_kernelbench.py MODULES OUT [--solutions EXPORTS] [--only a,b] [--workloads small,large]

Makes a folder in KernelBench's form of module files that have several workloads (docs/guide/import.md): each workload
becomes a problem of its own, OUT/kernelbench/KernelBench/level1/N_NAME_WORKLOAD.py, so that a judge that knows only
KernelBench's form takes it. Inputs are drawn on the card where there is one. N counts files in the order of their
names, then workloads, over the whole of MODULES: --only and --workloads do not change it.

--solutions: what `warpsmith export --format kernelbench` wrote of the set. One module is for all workloads of a
problem; it is copied to OUT/solutions/level1 once for each.
"""
import argparse
import os
import re
import runpy
import shutil

TAIL = '''

# ---- workload {workload!r} ----
_dims = WORKLOADS[{workload!r}]
del WORKLOADS


def get_inputs():
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return _inputs_of(**_dims)


def get_init_inputs():
    return _init_inputs_of(**_dims)
'''
HEAD = '''

def _init_inputs_of(**_):
    return []
'''


def as_kernelbench(text, workload):
    """The module's text as one of KernelBench's, for one workload."""
    head = "" if re.search(r"^import torch$", text, re.M) else "import torch\n"
    text = re.sub(r"^def get_inputs\(", "def _inputs_of(", text, flags=re.M)
    text, renamed = re.subn(r"^def get_init_inputs\(", "def _init_inputs_of(", text, flags=re.M)
    return head + text + ("" if renamed else HEAD) + TAIL.format(workload=workload)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules")
    parser.add_argument("out")
    parser.add_argument("--solutions")
    parser.add_argument("--only", default="")
    parser.add_argument("--workloads", default="")
    args = parser.parse_args()
    only, workloads = set(filter(None, args.only.split(","))), set(filter(None, args.workloads.split(",")))
    problems = os.path.join(args.out, "kernelbench", "KernelBench", "level1")
    solutions = os.path.join(args.out, "solutions", "level1")
    os.makedirs(problems, exist_ok=True)
    os.makedirs(solutions, exist_ok=True)
    number = 0
    for file in sorted(f for f in os.listdir(args.modules) if f.endswith(".py")):
        with open(os.path.join(args.modules, file)) as source:
            text = source.read()
        name = file[:-3]
        for workload in runpy.run_path(os.path.join(args.modules, file))["WORKLOADS"]:
            number += 1
            if (only and name not in only) or (workloads and workload not in workloads):
                continue
            as_problem = f"{number}_{name}_{workload}.py"
            with open(os.path.join(problems, as_problem), "w") as out:
                out.write(as_kernelbench(text, workload))
            if args.solutions:
                exported = [os.path.join(folder, file) for folder, _, files in os.walk(args.solutions) if file in files]
                if exported:
                    shutil.copyfile(exported[0], os.path.join(solutions, as_problem))
                else:
                    print(f"no solution of {name} in {args.solutions}")
    print(f"{len(os.listdir(problems))} problems in {problems}, {len(os.listdir(solutions))} solutions")


if __name__ == "__main__":
    main()
