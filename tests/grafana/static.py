#!/usr/bin/env python3
"""Holds Grafana's dashboards and provisioning against rules of ours: there is no Grafana in tests.

    tests/grafana/static.py [--python PATH]

The JSON is what deploy/grafana/dashboards.py writes, by the interpreter that install-deps.sh made for it. Every panel has
a title, a description, a unit that fits what it asks for and limits where it has colours; ids and uids are as they should
be, and nothing lies on anything else; queries name series and labels that the programs and recording rules have, and no
source, cluster, run or instance but by a variable; every alert is linked from a panel that shows what it is about, with the
alert's limit where it has one. Exit status 0: all of it holds. tests/grafana/live.py runs the queries.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import boards
from boards import Json, rules

UIDS = {"fleet.json": "warpsmith-fleet", "planner.json": "warpsmith-planner", "run.json": "warpsmith-run",
        "worker.json": "warpsmith-worker"}
TYPES = {"stat", "table", "timeseries"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {"short", "none", "percentunit", "s", "h", "bytes", "cps", "cpm", "watt", "celsius", "hertz"}
BASE_UNITS = {"bytes": "bytes", "watts": "watt", "celsius": "celsius", "hertz": "hertz"}
OWN_UNIT = re.compile(r"suffix: \S.*")
COLUMNS = 24

RATE = re.compile(r"\b(?:rate|irate|increase|delta|idelta|deriv)\s*\(.*?\[([^\]]*)\]", re.S)
OF_LEADER = re.compile(r" and on \(cluster, instance\) \(warpsmith_planner_leads\{[^}]*\} == 1\)")
VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)[^}]*\}")
MATCHED = re.compile(r'(\w+)\s*(?:=~|=)\s*"([^"]*)"')
SECONDS_A_SECOND = re.compile(r"rate\(\w+_seconds_total\b")
# Labels whose values are an installation's own.
OWN_LABELS = {"cluster", "run", "instance", "worker", "arch", "device", "version"}
# What an alert's expression is held against, as a number or a product of such.
LIMIT = re.compile(r"(?:==|[<>]=?)\s*(?:bool\s+)?([\d.]+(?:\s*\*\s*[\d.]+)*)")


def check_generated(check: rules.Checker, python: pathlib.Path) -> None:
    if not python.exists():
        check.error(str(python), "is not there; scripts/install-deps.sh --tests makes it")
        return
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([python, "-B", boards.GRAFANA / "dashboards.py", "--out", folder],
                              capture_output=True, text=True)
        if made.returncode != 0:
            check.error("dashboards.py", made.stderr.strip())
            return
        written = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
    there = {path.name: path.read_bytes() for path in boards.DASHBOARDS.iterdir()}
    for name in sorted(written.keys() | there.keys()):
        if written.get(name) != there.get(name):
            check.error(f"dashboards/{name}", f"is not what dashboards.py writes: run {python} deploy/grafana/dashboards.py")
    check.counted(len(written), "dashboards are what their source writes")


def check_ids(check: rules.Checker, name: str, board: Json) -> None:
    if board["uid"] != UIDS.get(name):
        check.error(name, f"its uid is '{board['uid']}'; links and people's bookmarks know '{UIDS.get(name)}'")
    ids = [panel["id"] for panel in board["panels"]]
    titles = [panel["title"] for panel in boards.panels(board)]
    for seen in (ids, titles):
        for value in sorted({str(value) for value in seen if seen.count(value) > 1}):
            check.error(name, f"two panels are '{value}'")
    if board.get("id") is not None:
        check.error(name, "has an id, which is an installation's own")
    if board["editable"]:
        check.error(name, "can be edited, and the next provisioning would undo it")


def check_grid(check: rules.Checker, name: str, board: Json) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        at = panel["gridPos"]
        if at["x"] + at["w"] > COLUMNS:
            check.error(name, f"'{panel['title']}' is out of the grid")
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            other = taken.setdefault(cell, panel["title"])
            if other != panel["title"]:
                check.error(name, f"'{panel['title']}' lies on '{other}'")
                break


def fits(unit: str, expression: str) -> bool:
    """As far as names say it."""
    series = [metric for metric, _ in rules.selectors_of(OF_LEADER.sub("", expression))]
    divided = "/" in expression
    if "histogram_quantile" in expression:
        return unit == "s"
    named = {BASE_UNITS.get(metric.rsplit("_", 1)[-1]) for metric in series}
    if unit in BASE_UNITS.values() or named and named <= set(BASE_UNITS.values()) and not divided:
        return named == {unit}
    if "timestamp_seconds" in expression or "start_time_seconds" in expression:
        return unit in ("s", "percentunit")
    if unit == "cpm":
        return "60 *" in expression and "rate(" in expression
    if unit == "cps":
        return "60 *" not in expression and "rate(" in expression
    if unit == "percentunit":
        return divided or "avg(" in expression or "share" in expression or bool(SECONDS_A_SECOND.search(expression))
    return True


def check_look(check: rules.Checker, where: str, panel: Json) -> None:
    if panel["type"] not in TYPES:
        check.error(where, f"is a '{panel['type']}', for which there are no rules here")
    if not panel.get("title", "").strip():
        check.error(where, "no title")
    if not panel.get("description", "").endswith("."):
        check.error(where, "no description, or it is not a sentence")
    for reference, unit in boards.units_of(panel).items():
        if unit is None or unit not in UNITS and not OWN_UNIT.fullmatch(unit):
            check.error(where, f"unit '{unit}' is none that Grafana knows")
            continue
        expression = next(target["expr"] for target in panel["targets"] if target["refId"] == reference)
        if not fits(unit, expression):
            check.error(where, f"unit '{unit}' does not fit {expression}")
    defaults = panel["fieldConfig"]["defaults"]
    steps = defaults.get("thresholds", {}).get("steps", [])
    values = [step["value"] for step in steps]
    # Grafana's own limits, which it takes where there are none, are red from 80 on.
    if not steps or values[0] is not None or values[1:] != sorted(set(values[1:])):
        check.error(where, f"limits {values} do not begin at the bottom and rise")
    if defaults.get("custom", {}).get("scaleDistribution", {}).get("type") == "log" and defaults["min"] <= 0:
        check.error(where, "a logarithmic axis does not begin at 0")
    coloured = len(steps) > 1 or any(step["color"] in ("red", "orange", "green") for step in steps)
    shown = defaults["color"]["mode"] == "thresholds" or "thresholdsStyle" in defaults.get("custom", {})
    if coloured and not (shown and len(steps) > 1):
        check.error(where, "its limits are not to be seen, or it is of one colour that says good or bad")


def variables_in(text: str) -> set[str]:
    return {one or other for one, other in VARIABLE.findall(text) if not (one or other).startswith("__")}


def check_query(check: rules.Checker, where: str, expression: str, names: set[str], metrics: dict[str, set[str]]) -> None:
    for unknown in sorted(variables_in(expression) - names):
        check.error(where, f"there is no variable '{unknown}'")
    for interval in RATE.findall(expression):
        if interval != "$__rate_interval":
            check.error(where, f"a rate over '{interval}' instead of $__rate_interval")
    for label, value in MATCHED.findall(expression):
        if label in OWN_LABELS and not value.startswith("$"):
            check.error(where, f"{label}='{value}' is of one installation")
    for metric, labels in rules.selectors_of(expression):
        if metric not in metrics:
            check.error(where, f"'{metric}' is counted by no program, and is not recorded")
            continue
        if "cluster" not in labels:
            check.error(where, f"'{metric}' is asked for of every cluster")
        for label in sorted(labels - metrics[metric] - rules.TARGET_LABELS):
            check.error(where, f"'{metric}' has no label '{label}'")


def check_queries(check: rules.Checker, name: str, board: Json, metrics: dict[str, set[str]]) -> None:
    names = {variable["name"] for variable in boards.variables(board)}
    used: set[str] = set()
    for panel in boards.panels(board):
        where = f"{name}: {panel['title']}"
        if panel["datasource"] != SOURCE or any(target["datasource"] != SOURCE for target in panel["targets"]):
            check.error(where, "does not ask the data source that was chosen")
        if not panel["targets"]:
            check.error(where, "asks for nothing")
        for target in panel["targets"]:
            used |= variables_in(target["expr"])
            check_query(check, where, target["expr"], names, metrics)
            if target["instant"] == target["range"] or target["range"] != (panel["type"] == "timeseries"):
                check.error(where, "lines are of a range, all else is of now")
        if len(panel["targets"]) > 1 and panel["type"] != "table":
            legends = [target["legendFormat"] for target in panel["targets"]]
            if len(set(legends)) < len(legends) or "" in legends:
                check.error(where, f"legends {legends} do not tell its queries apart")
    for variable in boards.variables(board):
        where = f"{name}: variable '{variable['name']}'"
        if variable["type"] != "query":
            continue
        asked = boards.LABEL_VALUES.fullmatch(variable["query"])
        if not asked or variable["datasource"] != SOURCE:
            check.error(where, "is not label_values(SERIES, LABEL) of the data source that was chosen")
            continue
        if variable["name"] not in used:
            check.error(where, "nothing asks for it")
        expression = asked[1] if variable["name"] != "cluster" else f'{asked[1]}{{cluster="$cluster"}}'
        check_query(check, where, expression, names, metrics)
        if variable["refresh"] != 2:
            check.error(where, "keeps the values of when the dashboard was loaded")


def check_board(check: rules.Checker, name: str, board: Json, metrics: dict[str, set[str]]) -> None:
    check_ids(check, name, board)
    check_grid(check, name, board)
    for panel in boards.panels(board):
        check_look(check, f"{name}: {panel['title']}", panel)
    check_queries(check, name, board, metrics)
    by_name = {variable["name"]: variable for variable in boards.variables(board)}
    source = by_name.get("datasource", {})
    if source.get("type") != "datasource" or source.get("query") != "prometheus":
        check.error(name, "no variable 'datasource' of type prometheus")


def series_behind(expression: str, recorded: dict[str, str]) -> set[str]:
    """Metrics that an expression is about, also by way of what is recorded."""
    found: set[str] = set()
    for metric, _ in rules.selectors_of(OF_LEADER.sub("", expression)):
        of_histogram = re.sub("_(bucket|sum|count)$", "", metric)
        found |= series_behind(recorded[metric], recorded) if metric in recorded else {of_histogram}
    return found


def product(text: str) -> float:
    value = 1.0
    for factor in text.split("*"):
        value *= float(factor)
    return value


def check_links(check: rules.Checker, all_boards: dict[str, Json], recorded: dict[str, str]) -> None:
    """Alerts and panels lead to each other."""
    alerts = {alert["alert"]: alert for alert in rules.read_rules("alerts.yml")}
    linked: set[str] = set()
    for name, board in all_boards.items():
        docs = next((v["query"] for v in boards.variables(board) if v["name"] == "docs"), None)
        for panel in boards.panels(board):
            where = f"{name}: {panel['title']}"
            defaults = panel["fieldConfig"]["defaults"]
            about = set().union(*(series_behind(target["expr"], recorded) for target in panel["targets"]))
            limits = [step["value"] for step in defaults.get("thresholds", {}).get("steps", [])[1:]]
            known: set[float] = set()
            for link in panel.get("links") or []:
                alert = alerts.get(link["title"].removeprefix("Runbook: "))
                if alert is None:
                    check.error(where, f"links to '{link['title']}', which is no alert")
                    continue
                linked.add(alert["alert"])
                if link["url"].replace("${docs}", str(docs)) != alert["annotations"]["runbook_url"]:
                    check.error(where, f"the link of {alert['alert']} leads to {link['url']}")
                if not about & series_behind(alert["expr"], recorded):
                    check.error(where, f"shows nothing that {alert['alert']} is about")
                known |= {product(limit) for limit in LIMIT.findall(alert["expr"])}
            if defaults.get("unit") == "short":
                known |= {limit + 1 for limit in known}  # of a count, more than 0 is 1
            if known and limits and not known & set(limits):
                check.error(where, f"its limits {limits} are none of its alerts' {sorted(known)}")
    for name in sorted(set(alerts) - linked):
        check.error(name, "no panel leads to this alert's runbook")
    check.counted(len(linked), "alerts are linked")


def check_provisioning(check: rules.Checker) -> None:
    sources = rules.read_yaml(boards.GRAFANA / "provisioning" / "datasources" / "warpsmith.yml")["datasources"]
    interval = rules.read_yaml(boards.PROMETHEUS / "prometheus.yml")["global"]["scrape_interval"]
    chosen = {variable["current"]["value"] for board in boards.read().values() for variable in boards.variables(board)
              if variable["type"] == "datasource"}
    for source in sources:
        if {source["uid"]} != chosen or source["type"] != "prometheus":
            check.error("datasources/warpsmith.yml", f"its uid is '{source['uid']}'; dashboards choose {sorted(chosen)}")
        if source["jsonData"]["timeInterval"] != interval:
            check.error("datasources/warpsmith.yml", f"timeInterval is not prometheus.yml's scrape_interval, {interval}")
    for provider in rules.read_yaml(boards.GRAFANA / "provisioning" / "dashboards" / "warpsmith.yml")["providers"]:
        if provider["allowUiUpdates"] is not False or provider["type"] != "file":
            check.error("dashboards/warpsmith.yml", "what is edited in Grafana would be lost without a word")
        installed = (boards.ROOT / "deploy" / "CMakeLists.txt").read_text()
        folder = pathlib.PurePosixPath(provider["options"]["path"])
        if f"DESTINATION {folder.parent.relative_to('/')} " not in installed or folder.name != "dashboards":
            check.error("dashboards/warpsmith.yml", f"no package puts dashboards into {folder}")
    check.counted(len(sources), "data source")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=pathlib.Path, default=boards.ROOT / ".cache" / "tools" / "bin" / "python",
                        help="interpreter with grafana-foundation-sdk (default: %(default)s)")
    options = parser.parse_args()

    check = rules.Checker()
    all_boards = boards.read()
    recorded = {rule["record"]: rule["expr"] for rule in rules.read_rules("rules.yml")}
    metrics = rules.read_tables() | {name: set(name.split(":")[0].split("_")) for name in recorded}
    check_generated(check, options.python)
    for name, board in all_boards.items():
        check_board(check, name, board, metrics)
    check.counted(sum(len(list(boards.panels(board))) for board in all_boards.values()), "panels")
    check_links(check, all_boards, recorded)
    check_provisioning(check)

    for error in check.errors:
        print(error, file=sys.stderr)
    print("; ".join(check.counts))
    print(f"{len(check.errors)} errors")
    return 1 if check.errors else 0


if __name__ == "__main__":
    sys.exit(main())
