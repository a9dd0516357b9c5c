#!/usr/bin/env python3
"""Runs every query of Grafana's dashboards on a Prometheus that scrapes a fleet at work.

    tests/grafana/live.py PROGRAMS NVML [--seconds S] [--runs N] [--draw FOLDER]

A planner and two workers, with certificates, do a short run on the processor, beside a card that a script of NVML tells of;
Prometheus scrapes them by deploy/prometheus. Variables have the values that their queries give, as in Grafana. Every query has to give data that can be drawn: finite, shares between
0 and 1, nothing below 0, each series with the labels of its legend and no two alike. Exit status 0: all of it holds. --draw: also a picture of each dashboard with what its queries gave.
"""

import argparse
import math
import pathlib
import re
import sys
import time

import boards
from boards import Json
from draw import drawn
from scraped import LIMIT_SECONDS, SCRAPE_SECONDS, Failed, Scraped, until

# As Grafana reckons it: four scrapes.
RATE_INTERVAL = f"{4 * SCRAPE_SECONDS}s"
# Rounding, of floating point and of who is scraped when.
SHARE_TOP = 1.0 + 1e-6
POINTS_DRAWN = 80  # of a line


def filled(text: str, values: dict[str, str]) -> str:
    """With variables in place of their names."""
    for name, value in {"__rate_interval": RATE_INTERVAL, **values}.items():
        text = re.sub(rf"\$\{{?{name}\b\}}?", lambda _: value, text)
    return text


def values_of(fleet: Scraped, board: Json) -> dict[str, str]:
    """Of the variables: the first that a query gives, or all."""
    values: dict[str, str] = {}
    for variable in boards.variables(board):
        if variable["type"] != "query":
            continue
        asked = boards.LABEL_VALUES.fullmatch(filled(variable["query"], values))
        assert asked, variable["query"]
        series, label = asked.groups()
        found = until(f"{board['title']}: values of '{variable['name']}'",
                      lambda: fleet.ask(f"label/{label}/values", **{"match[]": series}) or None)
        values[variable["name"]] = variable["allValue"] if variable["multi"] else sorted(found)[0]
    return values


def asked(fleet: Scraped, target: Json, values: dict[str, str], step: float = SCRAPE_SECONDS) -> list[Json]:
    """The series that a query gives, each with its points that can be drawn; those without any are left out."""
    # What stands for nothing would hide that there never is anything; here an alert fires.
    expression = filled(target["expr"], values).removesuffix(" or vector(0)")
    if target["instant"]:
        result = fleet.ask("query", query=expression)["result"]
    else:
        result = fleet.ask("query_range", query=expression, start=fleet.started, end=time.time(), step=step)["result"]
    series = []
    for one in result:
        points = [(at, float(value)) for at, value in one.get("values") or [one["value"]]]
        drawn = [(at, value) for at, value in points if math.isfinite(value)]
        if drawn:
            series.append({"labels": one["metric"], "points": drawn})
    return series


def faults(panel: Json, target: Json, series: list[Json]) -> list[str]:
    """What is wrong with what a query gave."""
    found = []
    unit = boards.units_of(panel)[target["refId"]]
    values = [value for one in series for _, value in one["points"]]
    if min(values) < 0:
        found.append(f"a value below 0: {min(values)}")
    if unit == "percentunit" and max(values) > SHARE_TOP and "stacking" not in panel["fieldConfig"]["defaults"].get("custom", {}):
        found.append(f"a share above 1: {max(values)}")
    if panel["type"] == "table":
        return found
    legends = []
    for one in series:
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            if label not in one["labels"]:
                found.append(f"the legend has '{label}', and a series has {one['labels']}")
        legends.append(re.sub(r"\{\{(\w+)\}\}", lambda match: one["labels"].get(match[1], ""), target["legendFormat"]))
    if len(set(legends)) < len(legends):
        found.append(f"two series are called alike: {legends}")
    return found


def run_queries(fleet: Scraped, all_boards: dict[str, Json]) -> tuple[int, list[str]]:
    """How many queries had data, and what was wrong."""
    waiting, errors, count = [], [], 0
    for name, board in all_boards.items():
        values = values_of(fleet, board)
        print(f"{name}: {values}")
        waiting += [(f"{name}: {panel['title']}: {filled(target['expr'], values)}", panel, target, values)
                    for panel in boards.panels(board) for target in panel["targets"]]
    end = time.monotonic() + LIMIT_SECONDS
    while waiting and time.monotonic() < end:
        still = []
        for where, panel, target, values in waiting:
            try:
                series = asked(fleet, target, values)
            except Failed as error:
                errors.append(f"{where}: {error}")
                continue
            if series:
                count += 1
                errors += [f"{where}: {fault}" for fault in faults(panel, target, series)]
            else:
                still.append((where, panel, target, values))
        waiting = still
        time.sleep(SCRAPE_SECONDS if waiting else 0)
    return count, errors + [f"{where}: no data within {LIMIT_SECONDS:g} s" for where, *_ in waiting]


def check_score(fleet: Scraped, board: Json, run: str) -> list[str]:
    """The score is that of the planner's clients."""
    panel = next(panel for panel in boards.panels(board) if panel["title"] == "Score")
    values, expected = values_of(fleet, board), fleet.score(run)

    def agrees() -> bool | None:
        shown = asked(fleet, panel["targets"][0], values)
        return math.isclose(shown[0]["points"][-1][1], expected, rel_tol=1e-6) or None

    try:
        until(f"a score of {expected}", agrees)
    except Failed as error:
        return [str(error)]
    print(f"score {expected:.4f}")
    return []


def draw(fleet: Scraped, all_boards: dict[str, Json], folder: pathlib.Path) -> None:
    caption = ("Not by Grafana: drawn by tests/grafana/draw.py from what Prometheus answered of a planner and two workers on a "
               "processor. An alert and what is told of a card are the test's own.")
    step = max(SCRAPE_SECONDS, (time.time() - fleet.started) / POINTS_DRAWN)
    for name, board in all_boards.items():
        values = values_of(fleet, board)
        series = {panel["id"]: [asked(fleet, target, values, step) for target in panel["targets"]]
                  for panel in boards.panels(board)}
        (folder / name.replace(".json", ".svg")).write_text(drawn(board, series, caption))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path, help="folder of warpsmith-planner and the others")
    parser.add_argument("nvml", type=pathlib.Path, help="the library of tests/support that stands for a card's")
    parser.add_argument("--seconds", type=int, default=2, help="a task's budget (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1, help="that are submitted (default: %(default)s)")
    parser.add_argument("--draw", type=pathlib.Path, help="a folder that is there, for pictures")
    options = parser.parse_args()
    all_boards = boards.read()
    try:
        with Scraped(options.programs.resolve(), options.nvml.resolve()) as fleet:
            run = fleet.work(options.seconds, options.runs)
            print(f"run {run}: {time.time() - fleet.started:.1f} s")
            count, errors = run_queries(fleet, all_boards)
            errors += check_score(fleet, all_boards["run.json"], run)
            if options.draw and not errors:
                draw(fleet, all_boards, options.draw)
            print(f"queries: {time.time() - fleet.started:.1f} s")
    except Failed as failed:
        count, errors = 0, [str(failed)]
    for error in errors:
        print(error, file=sys.stderr)
    print(f"{count} queries have data; {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
