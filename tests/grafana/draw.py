"""Pictures of dashboards for the guide: where panels lie, and what their queries gave. Not what Grafana draws, and they say so.

    drawn(board, series, caption)       # an SVG; series: of each panel's id, those of each of its queries
"""

import html
import math
import re
from typing import Iterator

import boards
from boards import Json

COLUMN, LINE, GAP = 50, 30, 4  # pixels of the grid
TEXT, FAINT, PAPER, CARD = "#d8d9da", "#8e9097", "#111217", "#181b1f"
PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#37872d", "#fade2a", "#ca95e5")
COLOURS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "blue": "#8ab8ff", "text": TEXT}
SCALED = {
    "s": ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "hertz": ((1e9, "GHz"), (1e6, "MHz"), (1, "Hz")),
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
}
SUFFIX = {"cps": " /s", "cpm": " /min", "h": " h", "watt": " W", "celsius": " °C"}
MOST_NAMES, MOST_ROWS = 6, 6


def said(value: float, unit: str, digits: int = 3) -> str:
    """With its unit."""
    if unit == "percentunit":
        return f"{100 * value:.{digits}f}".rstrip("0").rstrip(".") + " %"
    for factor, name in SCALED.get(unit, ()):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {name}"
    suffix = unit.removeprefix("suffix:") if unit.startswith("suffix:") else SUFFIX.get(unit, "")
    return (f"{value:.{digits}g}" if abs(value) < 100 else f"{value:,.0f}") + suffix


def text(x: float, y: float, words: str, size: int = 11, colour: str = TEXT, anchor: str = "start") -> str:
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">'
            f"{html.escape(words)}</text>")


def named(target: Json, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), target["legendFormat"])


def colour_at(value: float, steps: list[Json]) -> str:
    colour = steps[0]["color"]
    for step in steps[1:]:
        if value >= step["value"]:
            colour = step["color"]
    return COLOURS[colour]


def number(panel: Json, series: list[list[Json]], x: float, y: float, w: float, h: float) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    ones = [(target, one) for target, some in zip(panel["targets"], series) for one in some]
    words = defaults.get("mappings", [])
    for i, (target, one) in enumerate(ones):
        value = one["points"][-1][1]
        shown, colour = said(value, defaults["unit"]), colour_at(value, defaults["thresholds"]["steps"])
        name = named(target, one["labels"])
        if panel["options"]["textMode"] == "name":
            shown, name = name, ""
        for mapping in words:
            if found := mapping["options"].get(f"{value:g}"):
                shown, colour = found["text"], COLOURS[found["color"]]
        middle = x + w * (i + 0.5) / len(ones)
        yield text(middle, y + h * 0.62, shown, min(24, int(1.6 * w / len(ones) / max(6, len(shown)))), colour, "middle")
        yield text(middle, y + h * 0.85, name, 10, FAINT, "middle")


def stacked(lines: list[Json], share: bool) -> list[list[tuple[float, float, float]]]:
    """Of each line (when, from, to)."""
    moments = sorted({at for line in lines for at, _ in line["points"]})
    values = [dict(line["points"]) for line in lines]
    below = dict.fromkeys(moments, 0.0)
    whole = {at: sum(line.get(at, 0.0) for line in values) or 1.0 for at in moments}
    areas = []
    for line in values:
        area = []
        for at in moments:
            top = below[at] + line.get(at, 0.0) / (whole[at] if share else 1.0)
            area.append((at, below[at], top))
            below[at] = top
        areas.append(area)
    return areas


def graph(panel: Json, series: list[list[Json]], x: float, y: float, w: float, h: float,
          window: tuple[float, float]) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    custom, unit = defaults.get("custom", {}), defaults["unit"]
    lines = [{"name": named(target, one["labels"]), "points": one["points"]}
             for target, some in zip(panel["targets"], series) for one in some]
    percent = custom.get("stacking", {}).get("mode") == "percent"
    areas = stacked(lines, percent) if "stacking" in custom else []
    by_doubling = "scaleDistribution" in custom
    start, end = window
    tops = [to for area in areas for *_, to in area] or [value for line in lines for _, value in line["points"]]
    top = 1.0 if percent else defaults.get("max") or max(tops) * 1.05 or 1.0
    left, right, low, high = x + 58, x + w - 8, y + h - 34, y + 26

    def across(at: float) -> float:
        return left + (right - left) * (at - start) / max(end - start, 1e-9)

    def up(value: float) -> float:
        share = math.log(max(value, 1.0)) / math.log(top) if by_doubling else value / top
        return low - (low - high) * min(share, 1.0)

    for part in (0.0, 0.5, 1.0):
        mark = top**part if by_doubling else part * top
        yield f'<path d="M{left:.0f} {up(mark):.0f}H{right:.0f}" stroke="#2c3235"/>'
        yield text(left - 5, up(mark) + 4, said(mark, unit, digits=2), 10, FAINT, "end")
    for part in (0.0, 1.0):
        at = start + part * (end - start)
        yield text(across(at), low + 13, f"{at - start:.0f} s", 10, FAINT, "start" if part == 0 else "end")
    for i, line in enumerate(lines):
        colour = PALETTE[i % len(PALETTE)]
        edge = [(at, to) for at, _, to in areas[i]] if areas else line["points"]
        path = "L".join(f"{across(at):.0f} {up(value):.0f}" for at, value in edge)
        if areas:
            back = "L".join(f"{across(at):.0f} {up(value):.0f}" for at, value, _ in reversed(areas[i]))
            yield f'<path d="M{path}L{back}Z" fill="{colour}" fill-opacity="0.6"/>'
        else:
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for step in defaults["thresholds"]["steps"][1:]:
        if step["value"] <= top:
            yield (f'<path d="M{left:.0f} {up(step["value"]):.0f}H{right:.0f}" stroke="{COLOURS[step["color"]]}" '
                   'stroke-dasharray="6 4"/>')
    yield from legend(lines, x + 10, y + h - 7, right)


def legend(lines: list[Json], x: float, y: float, right: float) -> Iterator[str]:
    """As many names as there is room for, those that are more than 0 first."""
    order = sorted(range(len(lines)), key=lambda i: all(value == 0 for _, value in lines[i]["points"]))
    for shown, i in enumerate(order):
        words = lines[i]["name"]
        if shown == MOST_NAMES or x + 6 * len(words) > right - 30:
            yield text(x, y, f"+{len(lines) - shown}", 10, FAINT)
            return
        yield text(x, y, words, 10, PALETTE[i % len(PALETTE)])
        x += 6 * len(words) + 14


def table(panel: Json, series: list[list[Json]], x: float, y: float, w: float, h: float) -> Iterator[str]:
    titles = {override["matcher"]["options"]: next(p["value"] for p in override["properties"] if p["id"] == "displayName")
              for override in panel["fieldConfig"]["overrides"] if override["matcher"]["options"].startswith("Value #")}
    units = boards.units_of(panel)
    by_key: dict[str, dict[str, str]] = {}
    for target, some in zip(panel["targets"], series):
        column = titles[f"Value #{target['refId']}"]
        for one in some:
            key = next(iter(set(one["labels"].values())))
            by_key.setdefault(key, {})[column] = said(one["points"][-1][1], units[target["refId"]])
    columns = ["", *titles.values()]
    for i, title in enumerate(columns):
        at = x + 12 + i * (w - 20) / len(columns)
        yield text(at, y + 42, title, 11, FAINT)
        for row, (key, cells) in enumerate(sorted(by_key.items())[:MOST_ROWS]):
            yield text(at, y + 66 + 24 * row, cells.get(title, "") if title else key, 12, TEXT if title else PALETTE[2])


def drawn(board: Json, series: dict[int, list[list[Json]]], caption: str) -> str:
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"]) * LINE + 56
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * COLUMN} {height}" font-family="sans-serif">',
             f'<rect width="100%" height="100%" fill="{PAPER}"/>', text(8, 22, board["title"], 16),
             text(8, 42, caption, 12, COLOURS["orange"])]
    moments = [at for of_panel in series.values() for some in of_panel for one in some for at, _ in one["points"]]
    window = min(moments), max(moments)
    for panel in board["panels"]:
        at = panel["gridPos"]
        x, y, w, h = at["x"] * COLUMN, at["y"] * LINE + 52, at["w"] * COLUMN - GAP, at["h"] * LINE - GAP
        if panel["type"] == "row":
            parts.append(text(x + 4, y + 18, panel["title"], 13))
            continue
        parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="2" fill="{CARD}" stroke="#25282d"/>')
        parts.append(text(x + 8, y + 17, panel["title"], 12))
        place = panel, series[panel["id"]], x, y, w, h
        match panel["type"]:
            case "stat":
                parts += number(*place)
            case "table":
                parts += table(*place)
            case "timeseries":
                parts += graph(*place, window)
    return "\n".join([*parts, "</svg>"]) + "\n"
