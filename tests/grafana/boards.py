"""Grafana's dashboards as they are committed, for the checks beside this."""

import json
import pathlib
import re
import sys
from typing import Any, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = GRAFANA / "dashboards"
PROMETHEUS = ROOT / "deploy" / "prometheus"

# What is known of metrics, rules and runbooks.
sys.path.insert(0, str(ROOT / "tests" / "prometheus"))
import check as rules  # noqa: E402

Json = dict[str, Any]

# A variable's query: series, and the label whose values it has.
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


def read() -> dict[str, Json]:
    """By the name of their file."""
    boards = {}
    for path in sorted(DASHBOARDS.glob("*.json")):
        try:
            boards[path.name] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            sys.exit(f"cannot read {path}: {error}")
    if not boards:
        sys.exit(f"no dashboards in {DASHBOARDS}")
    return boards


def panels(board: Json) -> Iterator[Json]:
    """All but rows."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def variables(board: Json) -> Iterator[Json]:
    return iter(board["templating"]["list"])


def units_of(panel: Json) -> dict[str, str]:
    """By the reference of its queries."""
    units = {target["refId"]: panel["fieldConfig"]["defaults"].get("unit") for target in panel["targets"]}
    for override in panel["fieldConfig"]["overrides"]:
        named = re.fullmatch(r"Value #(\w)", override["matcher"]["options"])
        for setting in override["properties"]:
            if named and setting["id"] == "unit":
                units[named[1]] = setting["value"]
    return units
