#!/usr/bin/env python3
"""Holds Prometheus' rules and alerts against their cases, their runbooks and what the programs count.

    tests/prometheus/check.py [--promtool PATH] [--no-promtool]

promtool checks the configuration and the rules and runs the cases. Beside that: every alert has a case that fires and one
that does not, every recording rule a case; every alert has a runbook, and every runbook an alert; every metric that a rule
names is in a table of the programs (a metrics.cc), is recorded, or is `up`; every label that a metric is asked for by is
one that the table gives it. Exit status 0: all of it holds.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = ROOT / "deploy" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"
TABLES = ["planner/service/metrics.cc", "worker/daemon/metrics.cc", "common/telemetry/metrics.cc"]
SEVERITIES = {"page", "ticket", "info"}

# What Prometheus adds to what is scraped, and what the example's configuration does.
TARGET_LABELS = {"job", "instance", "worker", "arch", "device", "cluster"}

ROW = re.compile(r'\{"(\w+)",\s*(kCounter|kGauge|kHistogram),\s*"([^"]*)"')
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# A selector: a name, and perhaps matchers. Strings are taken out before, so braces are braces.
SELECTOR = re.compile(r"(?<![\w:$.])((?:warpsmith|process)_[\w:]+|\w+(?::\w+)+|up)\b(?!\s*\()\s*(\{[^}]*\})?")
GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
MATCHER = re.compile(r"([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)")


class Checker:
    def __init__(self):
        self.errors = []
        self.counts = []

    def error(self, where, what):
        self.errors.append(f"{where}: {what}")

    def counted(self, number, what):
        self.counts.append(f"{number} {what}")


def read_yaml(path):
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        sys.exit(f"cannot read {path}: {error}")


def read_tables():
    """Labels by the names under which a metric is scraped."""
    metrics = {"up": set()}
    for path in TABLES:
        try:
            rows = ROW.findall((ROOT / path).read_text())
        except OSError as error:
            sys.exit(f"cannot read {ROOT / path}: {error}")
        if not rows:
            sys.exit(f"{path}: no table of metrics was found; does it look different now?")
        for name, kind, labels in rows:
            own = {label.strip() for label in labels.split(",") if label.strip()}
            if kind == "kHistogram":
                metrics[name + "_bucket"] = own | {"le"}
                metrics[name + "_sum"] = metrics[name + "_count"] = own
            else:
                metrics[name] = own
    return metrics


def read_rules(file):
    groups = (read_yaml(DEPLOY / file) or {}).get("groups", [])
    return [rule for group in groups for rule in group.get("rules", [])]


def selectors_of(expression):
    """The metrics that an expression names, each with the labels that it is matched by."""
    bare = STRING.sub('""', expression)
    bare = GROUPING.sub(lambda match: match[1], bare)
    for name, matchers in SELECTOR.findall(bare):
        yield name, set(MATCHER.findall(matchers))


def grouped_by(expression):
    for kind, labels in GROUPING.findall(STRING.sub('""', expression)):
        if kind in ("by", "on"):
            yield from (label.strip() for label in labels.split(",") if label.strip())


def check_expressions(check, metrics, recording, alerts):
    recorded = {}
    for rule in recording:
        level = rule["record"].split(":")[0]
        # The level's name has the labels that are left, with underscores between them.
        recorded[rule["record"]] = set(level.split("_"))
    used = set()
    for rule in recording + alerts:
        where = rule.get("alert") or rule["record"]
        known = set(TARGET_LABELS) | {"le"}
        for name, labels in selectors_of(rule["expr"]):
            if name not in metrics and name not in recorded:
                check.error(where, f"'{name}' is in no table of {', '.join(TABLES)}, and is not recorded")
                continue
            used.add(name)
            own = metrics.get(name, recorded.get(name))
            known |= own
            for label in sorted(labels - own - TARGET_LABELS):
                check.error(where, f"'{name}' has no label '{label}'; it has {', '.join(sorted(own)) or 'none'}")
        for label in grouped_by(rule["expr"]):
            if label not in known:
                check.error(where, f"groups by '{label}', which nothing that it names has")
    for rule in recording:
        name = rule["record"]
        if not re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9_]+", name):
            check.error(name, "the name is not LEVEL:METRIC:OPERATION")
    check.counted(len(used & set(metrics)), "metrics of the tables are used")


def read_cases():
    """Of each alert how often it fires and does not, in cases with data; the expressions that are asked for."""
    fires, silent, asked, files = {}, {}, [], sorted(HERE.glob("*.yml"))
    for path in files:
        for test in read_yaml(path).get("tests", []):
            for case in test.get("alert_rule_test") or []:
                into = fires if case.get("exp_alerts") else silent
                if into is fires or test.get("input_series"):
                    into[case["alertname"]] = into.get(case["alertname"], 0) + 1
            asked += [case["expr"] for case in test.get("promql_expr_test") or [] if case.get("exp_samples")]
    return files, fires, silent, asked


def check_cases(check, recording, alerts):
    files, fires, silent, asked = read_cases()
    names = {alert["alert"] for alert in alerts}
    for name in sorted(names):
        if name not in fires:
            check.error(name, "no case in which it fires")
        if name not in silent:
            check.error(name, "no case with series in which it does not fire")
    for name in sorted((set(fires) | set(silent)) - names):
        check.error(name, "cases name it, and there is no such alert")
    named = {name for expression in asked for name, _ in selectors_of(expression)}
    for rule in recording:
        if rule["record"] not in named:
            check.error(rule["record"], "no case asks for its value")
    check.counted(len(alerts), "alerts")
    check.counted(sum(fires.values()), "cases in which one fires")
    check.counted(sum(silent.values()), "in which it does not")
    check.counted(len(recording), "recording rules")
    check.counted(len(asked), "cases of their values")
    return files


def check_runbooks(check, alerts):
    pages = {path.name for path in RUNBOOKS.glob("*.md")} - {"README.md"}
    index = (RUNBOOKS / "README.md").read_text() if (RUNBOOKS / "README.md").exists() else ""
    named = set()
    for alert in alerts:
        name, notes, severity = alert["alert"], alert.get("annotations", {}), alert.get("labels", {}).get("severity")
        if severity not in SEVERITIES:
            check.error(name, f"severity '{severity}' is none of {', '.join(sorted(SEVERITIES))}")
        for key in ("summary", "description", "runbook_url"):
            if not notes.get(key):
                check.error(name, f"no annotation '{key}'")
        page = notes.get("runbook_url", "").rsplit("/", 1)[-1]
        named.add(page)
        if page not in pages:
            check.error(name, f"no page docs/runbooks/{page}")
            continue
        lines = (RUNBOOKS / page).read_text().splitlines()
        if lines[:1] != [f"# {name}"]:
            check.error(f"docs/runbooks/{page}", f"its heading is not '# {name}'")
        if f"[{name}]({page}) | {severity} |" not in index:
            check.error("docs/runbooks/README.md", f"no row of {name} with severity {severity}")
    for page in sorted(pages - named):
        check.error(f"docs/runbooks/{page}", "no alert has this page")
    check.counted(len(pages), "runbooks")


def run_promtool(check, promtool, files):
    commands = [
        ["check", "config", DEPLOY / "prometheus.yml"],
        ["check", "rules", DEPLOY / "rules.yml", DEPLOY / "alerts.yml"],
        ["test", "rules", *files],
    ]
    for arguments in commands:
        try:
            done = subprocess.run([promtool, *map(str, arguments)], capture_output=True, text=True)
        except OSError as error:
            sys.exit(f"cannot run {promtool}: {error}; Debian has it in the package prometheus")
        if done.returncode != 0:
            check.error(" ".join(["promtool", *arguments[:2]]), (done.stdout + done.stderr).strip())
    check.counted(len(commands), "runs of promtool")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--promtool", default="promtool", help="the program (default: the one in PATH)")
    parser.add_argument("--no-promtool", action="store_true", help="only what needs no promtool")
    options = parser.parse_args()

    check = Checker()
    rules = read_rules("rules.yml")
    strays = [rule for rule in rules if "record" not in rule]
    alerts = read_rules("alerts.yml")
    strays += [rule for rule in alerts if "alert" not in rule]
    for rule in strays:
        check.error(rule.get("alert") or rule.get("record"), "recording rules belong in rules.yml, alerts in alerts.yml")
    recording = [rule for rule in rules if "record" in rule]
    alerts = [rule for rule in alerts if "alert" in rule]
    if not recording or not alerts:
        sys.exit(f"no rules in {DEPLOY}")
    metrics = read_tables()
    check.counted(len(metrics), "series in the tables")
    check_expressions(check, metrics, recording, alerts)
    files = check_cases(check, recording, alerts)
    check_runbooks(check, alerts)
    if not options.no_promtool:
        run_promtool(check, options.promtool, files)

    for error in check.errors:
        print(error, file=sys.stderr)
    print("; ".join(check.counts))
    print(f"{len(check.errors)} errors")
    return 1 if check.errors else 0


if __name__ == "__main__":
    sys.exit(main())
