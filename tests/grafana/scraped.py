"""A small fleet with certificates, and the Prometheus of deploy/prometheus that scrapes it each second.

    with Scraped(programs, nvml) as fleet:
        fleet.work(seconds=2)                    # a short run, to its end
        fleet.ask("query", query="up")           # what Prometheus' HTTP interface answers
"""

import json
import math
import pathlib
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import yaml

from boards import PROMETHEUS, ROOT

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fleet import LIMIT_SECONDS, Failed, Fleet, until  # noqa: E402

WORKERS = ("lab-host0", "lab-host1")
SCRAPE_SECONDS = 1

# Two, so that both workers have something; each is faster as one kernel than operation by operation.
PROBLEMS = {
    "name": "small",
    "version": "1",
    "problems": [
        {
            "name": "softmax_rows",
            "description": "Softmax over the last axis.",
            "graph": ["input x: f32[R, C] ~ normal", "m: f32[r: R] = max[c: C](x[r, c])",
                      "e: f32[r: R, c: C] = exp(x[r, c] - m[r])", "s: f32[r: R] = sum[c: C](e[r, c])",
                      "y: f32[r: R, c: C] = e[r, c] / s[r]", "output y"],
            "workloads": [{"name": "narrow", "dims": {"R": 256, "C": 64}}, {"name": "wide", "dims": {"R": 16, "C": 3000}}],
        }
    ],
}

# What the script of an NVML tells (tests/support/nvml_library.cc).
CARD = {"sm_clock": 1980, "memory_clock": 3201, "power": 82_000, "power_limit": 700_000, "temperature": 36,
        "uncorrectable": 0}

# One that fires at once, for what shows alerts.
ALERT = {"groups": [{"name": "of-the-test", "rules": [
    {"alert": "WarpsmithIsThere", "expr": "warpsmith_planner_leads == 1", "labels": {"severity": "ticket"}}]}]}


class Scraped(Fleet):
    def __init__(self, programs: pathlib.Path, nvml: pathlib.Path) -> None:
        super().__init__(programs)
        self.nvml = nvml
        self.started = time.time()
        self.prometheus = ""

    def __enter__(self) -> "Scraped":
        try:
            self._start_all()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def work(self, seconds: int, runs: int = 1) -> str:
        """Submits runs of so long a budget a task and waits for their ends; the first one's id."""
        ids = [self.submit(PROBLEMS, seconds, *self.tls("ada")) for _ in range(runs)]
        for run in ids:
            self.warpsmith("watch", run, *self.tls("ada"), limit=LIMIT_SECONDS + 10 * seconds)
        return ids[0]

    def score(self, run: str) -> float:
        """As the planner's clients reckon it."""
        tasks = json.loads(self.warpsmith("--output", "json", "runs", run, *self.tls("ada")))["tasks"]
        return math.exp(sum(math.log(max(1.0, task.get("speedup", 1.0))) for task in tasks) / len(tasks))

    def ask(self, path: str, **parameters: Any) -> Any:
        """The `data` of the answer; a query that is wrong is Failed."""
        url = f"http://{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failed(f"{parameters}: {error.read().decode(errors='replace')}") from error

    def tls(self, name: str) -> list[str]:
        return [*super().tls(name), "--tls-crl", str(self.certs / "crl.pem")]

    def _start_all(self) -> None:
        self.warpsmith("certs", "init")
        for name, role, *more in (("planner", "planner"), ("lab", "worker", "--host", "127.0.0.1"),
                                  ("ada", "operator"), ("prometheus", "reader")):
            self.warpsmith("certs", "issue", name, "--role", role, *more)
        self.start_planner("--listen-http", "127.0.0.1:0", *self.tls("planner"))
        card = self.folder / "card"
        card.write_text("".join(f"{what} {value}\n" for what, value in CARD.items()))
        for name in WORKERS:
            self.start_worker(name, "--nvml", self.nvml, "--listen-http", "127.0.0.1:0", *self.tls("lab"),
                              env=(f"WARPSMITH_NVML_SCRIPT={card}",))
        self._start_prometheus(self.told("http"))
        up = 'up{job="warpsmith-workers"} == 1'
        until("workers that are scraped",
              lambda: len(self.ask("query", query=up)["result"]) == len(WORKERS) or None)

    def _start_prometheus(self, planner: str) -> None:
        """The example, with this fleet's addresses and what its comments say of TLS; quicker."""
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"}
        (self.folder / "alert.yml").write_text(yaml.safe_dump(ALERT))
        config["rule_files"] = [str(PROMETHEUS / file) for file in config["rule_files"]] + ["alert.yml"]
        own = str(self.certs / "prometheus.pem")
        tls = {"ca_file": str(self.certs / "ca.crt"), "cert_file": own, "key_file": own}
        for job in config["scrape_configs"]:
            job |= {"scheme": "https", "tls_config": tls}
            for targets in job.get("static_configs", []):
                targets["targets"] = [planner]
            for discovery in job.get("http_sd_configs", []):
                discovery |= {"url": f"https://{planner}/workers", "tls_config": tls, "refresh_interval": "1s"}
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.start("prometheus", "prometheus", "--config.file", self.folder / "prometheus.yml",
                   "--storage.tsdb.path", self.folder / "tsdb", "--web.listen-address", "127.0.0.1:0")
        self.prometheus = until("a Prometheus that listens", self._listens)
        until("a Prometheus that answers", self._answers)

    def _listens(self) -> str | None:
        found = re.search(r'msg="Listening on" address=(\S+)', (self.folder / "prometheus.log").read_text())
        return found[1] if found else None

    def _answers(self) -> bool | None:
        try:
            return self.ask("query", query="1") is not None
        except (Failed, OSError):
            return None
