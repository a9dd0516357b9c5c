"""What dashboards are made of, on top of the typed builders of grafana-foundation-sdk.

    number("Queued", "Tasks that wait.", Unit.COUNT, Query("sum(warpsmith_tasks)"), limits=rising(orange=100))

A panel is one call: title, description, unit, queries. It asks the data source that the dashboard's variable names, and
stands to the right of the one before, or below where 24 columns are full. A limit is where a colour means something;
what has none is drawn in one colour. `alerts` are those that the panel is looked at for: it links to their runbooks.
"""

import enum
import re
import zlib
from dataclasses import dataclass, field
from typing import Any, Sequence

from grafana_foundation_sdk.builders import common as looks
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat, table, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

# The uid that provisioning gives the data source; another one can be chosen on the dashboard.
DATA_SOURCE = "warpsmith-prometheus"
# Beside it on disk and in alerts' annotations; a dashboard's hidden variable, so that it is changed in one place.
DOCS = "docs"
TAG = "warpsmith"

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")


class Unit(enum.StrEnum):
    """As Grafana calls them."""

    COUNT = "short"
    PLAIN = "none"
    TIMES = "suffix: ×"
    SHARE = "percentunit"
    SECONDS = "s"
    HOURS = "h"
    BYTES = "bytes"
    WATTS = "watt"
    CELSIUS = "celsius"
    HERTZ = "hertz"
    PER_SECOND = "cps"
    PER_MINUTE = "cpm"
    CORES = "suffix: cores"
    GAIN_PER_HOUR = "suffix: ln/h"


class Stacked(enum.StrEnum):
    SUM = "normal"
    SHARE = "percent"


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str = ""  # with {{label}}


@dataclass(frozen=True)
class Limits:
    """A colour, and those from a value on."""

    base: str
    steps: tuple[tuple[float, str], ...] = ()


NO_LIMITS = Limits("blue")


def rising(orange: float | None = None, red: float | None = None) -> Limits:
    """Bad from there on."""
    steps = [(value, colour) for value, colour in ((orange, "orange"), (red, "red")) if value is not None]
    return Limits("green", tuple(steps))


def falling(red: float | None = None, orange: float | None = None) -> Limits:
    """Bad below."""
    steps = [(value, colour) for value, colour in ((red, "orange" if orange else "green"), (orange, "green")) if value]
    return Limits("red" if red else "orange", tuple(steps))


@dataclass(frozen=True)
class Column:
    """One of a table."""

    title: str
    unit: Unit
    query: Query


@dataclass(frozen=True)
class Row:
    title: str
    panels: Sequence[Builder[dashboard.Panel]]


@dataclass(frozen=True)
class Page:
    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Builder[dashboard.VariableModel]] = field(default_factory=tuple)


def runbook(alert: str) -> str:
    """Its page: WarpsmithQueueOld is runbooks/queue-old.md."""
    words = re.findall(r"[A-Z][a-z]*", alert.removeprefix("Warpsmith"))
    return f"runbooks/{'-'.join(words).lower()}.md"


def _id(title: str) -> int:
    """By its title: a link to a panel outlives those that are put before it."""
    return zlib.crc32(title.encode()) % 1_000_000 + 1


def _link(alert: str) -> build.DashboardLink:
    link = build.DashboardLink(f"Runbook: {alert}").type(dashboard.DashboardLinkType.LINK)
    return link.url(f"${{docs}}/{runbook(alert)}").target_blank(True)


def _thresholds(limits: Limits) -> build.ThresholdsConfig:
    steps = [dashboard.Threshold(value=None, color=limits.base)]
    steps += [dashboard.Threshold(value=value, color=colour) for value, colour in limits.steps]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _panel(panel: Any, title: str, description: str, unit: Unit, width: int, height: int, limits: Limits,
           alerts: Sequence[str]) -> Any:
    panel.title(title).description(description).unit(unit).span(width).height(height)
    panel.datasource(SOURCE).thresholds(_thresholds(limits))
    panel.id(_id(title))
    if alerts:
        panel.links([_link(alert) for alert in alerts])
    return panel


def _target(query: Query, index: int) -> Dataquery:
    target = Dataquery().datasource(SOURCE).ref_id(chr(ord("A") + index))
    return target.expr(query.expr).legend_format(query.legend)


def _colour(mode: dashboard.FieldColorModeId) -> build.FieldColor:
    return build.FieldColor().mode(mode)


def number(title: str, description: str, unit: Unit, *queries: Query, width: int = 4, limits: Limits = NO_LIMITS,
           alerts: Sequence[str] = (), names: bool = False, decimals: int | None = None,
           words: dict[int, tuple[str, str]] | None = None) -> stat.Panel:
    """What it is now. Asked for now, and not the last of a range: of what is gone nothing is shown, and not what was.

    names: series are shown by their legends, not their values. words: text and colour for some values.
    """
    panel: stat.Panel = _panel(stat.Panel(), title, description, unit, width, 4, limits, alerts)
    panel.graph_mode(common.BigValueGraphMode.NONE)
    panel.color_mode(common.BigValueColorMode.VALUE)
    panel.color_scheme(_colour(dashboard.FieldColorModeId.THRESHOLDS))
    panel.reduce_options(looks.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.text_mode(common.BigValueTextMode.NAME if names else common.BigValueTextMode.AUTO)
    if decimals is not None:
        panel.decimals(decimals)
    if words:
        results = {str(value): dashboard.ValueMappingResult(text=text, color=colour)
                   for value, (text, colour) in words.items()}
        panel.mappings([dashboard.ValueMap(options=results)])
    for index, query in enumerate(queries):
        panel.with_target(_target(query, index).instant())
    return panel


def lines(title: str, description: str, unit: Unit, *queries: Query, width: int = 8, limits: Limits = NO_LIMITS,
          alerts: Sequence[str] = (), stacked: Stacked | None = None, top: float | None = None,
          ratio: bool = False) -> timeseries.Panel:
    """What it was over time. A limit is a dashed line. ratio: from 1 on, each doubling as high as the one before."""
    panel: timeseries.Panel = _panel(timeseries.Panel(), title, description, unit, width, 8, limits, alerts)
    panel.min(1 if ratio else 0).line_width(1).fill_opacity(60 if stacked else 5).show_points(common.VisibilityMode.NEVER)
    panel.color_scheme(_colour(dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    panel.tooltip(looks.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
    panel.legend(looks.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
                 .placement(common.LegendPlacement.BOTTOM).show_legend(True).calcs([]))
    if top is not None:
        panel.max(top)
    if ratio:
        panel.scale_distribution(looks.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(2))
    if stacked:
        mode = common.StackingMode.PERCENT if stacked is Stacked.SHARE else common.StackingMode.NORMAL
        panel.stacking(looks.StackingConfig().mode(mode).group("A"))
    if limits.steps:
        panel.thresholds_style(looks.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED))
    for index, query in enumerate(queries):
        panel.with_target(_target(query, index).range())
    return panel


def rows_of(title: str, description: str, *columns: Column, key: str, height: int = 8, alerts: Sequence[str] = (),
            leads_to: str = "") -> table.Panel:
    """A row for each value of the label `key`, which leads to an address."""
    panel: table.Panel = _panel(table.Panel(), title, description, Unit.PLAIN, 24, height, NO_LIMITS, alerts)
    panel.color_scheme(_colour(dashboard.FieldColorModeId.FIXED).fixed_color("text"))
    for index, column in enumerate(columns):
        query = Query(column.query.expr)
        panel.with_target(_target(query, index).instant().format(PromQueryFormat.TABLE))
        panel.override_by_name(f"Value #{chr(ord('A') + index)}", [
            dashboard.DynamicConfigValue(id_val="displayName", value=column.title),
            dashboard.DynamicConfigValue(id_val="unit", value=column.unit)])
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(dashboard.DataTransformerConfig(
        id_val="organize", options={"excludeByName": {"Time": True, "cluster": True}}))
    if leads_to:
        link = {"title": "Look at ${__value.text}", "url": leads_to}
        panel.override_by_name(key, [dashboard.DynamicConfigValue(id_val="links", value=[link])])
    return panel


def page_of(uid: str, variable: str) -> str:
    """The address of a dashboard, with the cell that leads there as its variable."""
    return (f"/d/{uid}?var-datasource=${{datasource}}&var-cluster=${{cluster}}&var-{variable}=${{__value.raw}}"
            "&${__url_time_range}")


def chosen(name: str, label: str, query: str, newest_first: bool = False, many: bool = False) -> build.QueryVariable:
    """A variable with a metric's values of a label: `label_values(METRIC, LABEL)`."""
    variable = build.QueryVariable(name).label(label).query(query).datasource(SOURCE)
    variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(dashboard.VariableSort.NUMERICAL_DESC if newest_first else dashboard.VariableSort.ALPHABETICAL_ASC)
    variable.multi(many).include_all(many)
    if many:
        variable.all_value(".+").current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
    return variable


def _source() -> build.DatasourceVariable:
    current = dashboard.VariableOption(selected=True, text="Warpsmith", value=DATA_SOURCE)
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus").current(current)


def made(page: Page, docs: str) -> dashboard.Dashboard:
    """The dashboard; `docs` is where the documentation is to be found, as a link has it."""
    board = build.Dashboard(page.title).uid(page.uid).description(page.description).tags([TAG]).readonly()
    board.time("now-6h", "now").refresh("1m").timezone("browser").tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    board.annotations([])
    board.with_variable(_source())
    board.with_variable(build.ConstantVariable("docs").label("Documentation").value(docs))
    for variable in page.variables:
        board.with_variable(variable)
    board.link(build.DashboardLink("Warpsmith").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
               .include_vars(True).keep_time(True))
    for row in page.rows:
        board.with_row(build.Row(row.title).id(_id(f"row {row.title}")))
        for panel in row.panels:
            board.with_panel(panel)
    return board.build()
