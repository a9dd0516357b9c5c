"""Builds a kustomization as far as ours go: resources, components, patches by JSON 6902.

Where a real `kubectl kustomize` is at hand kubernetes_test.py holds what comes out here against what comes out there.
"""

import copy
import json
import pathlib
import sys
from typing import Any

import yaml

Object = dict[str, Any]
KNOWN = {"apiVersion", "kind", "resources", "components", "patches"}


def load_all(path: pathlib.Path) -> list[Any]:
    """What an anchor names and its uses share no part: each may be changed."""
    return [json.loads(json.dumps(one)) for one in yaml.safe_load_all(path.read_text()) if one is not None]


def build(folder: pathlib.Path, objects: list[Object] | None = None) -> list[Object]:
    """The objects of `folder`; of a component, `objects` with what it adds and changes."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = set(kustomization) - KNOWN
    if unknown:
        sys.exit(f"{folder}/kustomization.yaml: kustomize.py knows nothing of {', '.join(sorted(unknown))}")
    built = list(objects or [])
    for name in kustomization.get("resources", []):
        path = folder / name
        built += build(path) if path.is_dir() else load_all(path)
    for name in kustomization.get("components", []):
        built = build(folder / name, built)
    for patch in kustomization.get("patches", []):
        text = patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text()
        target = [one for one in built if is_target(one, patch["target"])]
        if not target:
            sys.exit(f"{folder}: a patch of {patch['target']}, which there is not")
        for one in target:
            for operation in yaml.safe_load(text):
                apply(one, copy.deepcopy(operation))
    return built


def is_target(one: Object, target: dict[str, str]) -> bool:
    group, _, version = one["apiVersion"].rpartition("/")
    is_of = {"group": group, "version": version, "kind": one["kind"], "name": one["metadata"]["name"]}
    return all(is_of[key] == value for key, value in target.items())


def apply(one: Object, operation: dict[str, Any]) -> None:
    """RFC 6902: add, replace, remove."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    at: Any = one
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
    key: Any = last
    if isinstance(at, list):
        key = len(at) if last == "-" else int(last)
    match operation["op"]:
        case "add" if isinstance(at, list):
            at.insert(key, operation["value"])
        case "add":
            at[key] = operation["value"]
        case "replace":
            at[key]  # it is there
            at[key] = operation["value"]
        case "remove":
            del at[key]
        case other:
            sys.exit(f"kustomize.py knows no '{other}'")


def find(objects: list[Object], kind: str, name: str) -> Object:
    for one in objects:
        if one["kind"] == kind and one["metadata"]["name"] == name:
            return one
    sys.exit(f"no {kind} {name} among {len(objects)} objects")
