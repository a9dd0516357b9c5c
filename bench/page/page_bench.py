#!/usr/bin/env python3
"""How long the page takes with many tasks, in a real Chromium.

    bench/page/page_bench.py --bin build/release/bin [--tasks 10000] [--loads 5] [--updates 10]

A planner without workers is given so many tasks. A load is a new browser context: its first contentful paint, and when the
first rows of the table are there, from the navigation's start. An update is a task that is held or released by the command
line: the browser's time to apply it and to show it, and that until it is painted.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "web"))

from browser import Browser, Page
from fleet import Fleet

TASKS_A_RUN = 1_000

OBSERVE = """
(() => {
  window.updates = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      requestAnimationFrame(() => setTimeout(() => window.updates.push([entry.duration, performance.now() - entry.startTime])));
    }
  }).observe({type: 'measure'});
})()
"""


def load(browser: Browser, origin: str, tasks: int) -> tuple[Page, float, float]:
    page = browser.open("about:blank")
    page.call("Page.addScriptToEvaluateOnNewDocument", source="""
        const look = () => document.querySelector('.body .row') ? requestAnimationFrame(() => setTimeout(() => (window.rowsAt = performance.now())))
          : requestAnimationFrame(look);
        look();""")
    page.go(origin + "/")
    page.wait(f"window.rowsAt && document.querySelector('.grid').getAttribute('aria-rowcount') === '{tasks + 1}'")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return page, paint, page.evaluate("window.rowsAt")


def told(name: str, values: list[float]) -> None:
    print(f"{name}: median {statistics.median(values):.0f} ms, {min(values):.0f} to {max(values):.0f}, of {len(values)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--updates", type=int, default=10)
    options = parser.parse_args()
    with Fleet(options.bin.resolve()) as fleet, Browser() as browser:
        origin = f"http://{fleet.start_planner()}"
        for first in range(0, options.tasks, TASKS_A_RUN):
            names = [f"problem_{i:05}" for i in range(first, min(first + TASKS_A_RUN, options.tasks))]
            fleet.submit(f"many_{first}", names, 60)
        load(browser, origin, options.tasks)[0].close()  # the programs are in memory from here on
        paints, rows = [], []
        for _ in range(options.loads):
            page, paint, at = load(browser, origin, options.tasks)
            paints.append(paint)
            rows.append(at)
            page.close()
        page, _, _ = load(browser, origin, options.tasks)
        page.wait("document.querySelector('#link').className === 'live'")
        page.evaluate(OBSERVE)
        for i in range(options.updates):
            fleet.warpsmith("hold" if i % 2 == 0 else "release", "r1/problem_00007@host")
            page.wait(f"window.updates.length > {i}")
        updates = page.evaluate("window.updates")
        told("first contentful paint", paints)
        told("first rows", rows)
        told("update, the page's own time", [own for own, _ in updates])
        told("update, until it is painted", [all for _, all in updates])
        print(f"nodes in the page: {page.evaluate('document.querySelectorAll(`*`).length')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
