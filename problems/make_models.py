#!/usr/bin/env python3
"""Writes problems/models.json from problems/models/*.py. Needs no PyTorch.

  python3 problems/make_models.py            --check: says whether the file is what it would write

Each file there is one problem: its docstring is a sentence and, after an empty line, the graph's text;
WORKLOADS are the values of the graph's dimensions; the rest is the same in PyTorch, in the form that
`warpsmith import modules` takes (python/warpsmith_torch/module.py). Inputs, parameters and buffers have
the graph's names there, and outputs its order.
"""
import ast
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def problem(path):
    tree = ast.parse(path.read_text())
    description, _, graph = ast.get_docstring(tree).partition("\n\n")
    workloads = next(ast.literal_eval(node.value) for node in tree.body
                     if isinstance(node, ast.Assign) and node.targets[0].id == "WORKLOADS")
    return {
        "name": path.stem, "description": description, "graph": graph.splitlines(),
        "workloads": [{"name": name, "dims": {dim: str(value) for dim, value in dims.items()}}
                      for name, dims in workloads.items()],
    }


def main():
    problems = [problem(path) for path in sorted((HERE / "models").glob("*.py"))]
    text = json.dumps({"name": "models", "version": "1", "problems": problems}, indent=2)
    path = HERE / "models.json"
    if sys.argv[1:] == ["--check"]:
        if path.read_text() != text + "\n":
            sys.exit(f"{path} is not what the files of {HERE / 'models'} say: run {__file__}")
        return
    path.write_text(text + "\n")


if __name__ == "__main__":
    main()
