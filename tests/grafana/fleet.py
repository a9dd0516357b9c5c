"""A small fleet with certificates, and the Prometheus of deploy/prometheus that scrapes it each second.

    with Fleet(programs, nvml, folder) as fleet:
        fleet.work(seconds=2)                    # a short run, to its end
        fleet.ask("query", query="up")           # what Prometheus' HTTP interface answers

Everything is in `folder`, on ports that the system picks, and ends with the block.
"""

import json
import math
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, TypeVar

import yaml

from boards import PROMETHEUS

T = TypeVar("T")

WORKERS = ("lab-host0", "lab-host1")
SCRAPE_SECONDS = 1
LIMIT_SECONDS = 240.0  # of each thing that is waited for

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


class Failed(Exception):
    """Something did not come to be; the message says what."""


def until(what: str, get: Callable[[], T | None], more: Callable[[], str] = lambda: "") -> T:
    """What `get` gives as soon as it is something."""
    end = time.monotonic() + LIMIT_SECONDS
    while (value := get()) is None:
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {LIMIT_SECONDS:g} s\n{more()}")
        time.sleep(0.2)
    return value


class Fleet:
    def __init__(self, programs: pathlib.Path, nvml: pathlib.Path, folder: pathlib.Path) -> None:
        self.programs, self.nvml, self.folder = programs, nvml, folder
        self.dir, self.certs = folder / "lab", folder / "certs"
        self.started = time.time()
        self.prometheus = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Fleet":
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def work(self, seconds: int, runs: int = 1) -> str:
        """Submits runs of so long a budget a task and waits for their ends; the first one's id."""
        problems = self.folder / "problems.json"
        problems.write_text(json.dumps(PROBLEMS))
        ids = [self.warpsmith("submit", str(problems), "--arch", "host", "--seconds", str(seconds)).strip()
               for _ in range(runs)]
        for run in ids:
            self.warpsmith("watch", run, limit=LIMIT_SECONDS + 10 * seconds)
        return ids[0]

    def score(self, run: str) -> float:
        """As the planner's clients reckon it."""
        tasks = json.loads(self.warpsmith("--output", "json", "runs", run))["tasks"]
        return math.exp(sum(math.log(max(1.0, task.get("speedup", 1.0))) for task in tasks) / len(tasks))

    def warpsmith(self, *arguments: str, limit: float = LIMIT_SECONDS) -> str:
        command = [str(self.programs / "warpsmith"), "--dir", str(self.dir), *self._tls("ada"), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(command)}: not within {limit:g} s\n{self.logs()}") from error
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.returncode}\n{done.stderr}\n{self.logs()}")
        return done.stdout

    def ask(self, path: str, **parameters: Any) -> Any:
        """The `data` of the answer; a query that is wrong is Failed."""
        url = f"http://{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failed(f"{parameters}: {error.read().decode(errors='replace')}") from error

    def logs(self) -> str:
        tails = (path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log")))
        return "\n".join(tails)

    def _tls(self, name: str) -> list[str]:
        own = str(self.certs / f"{name}.pem")
        return ["--tls-ca", str(self.certs / "ca.crt"), "--tls-cert", own, "--tls-key", own,
                "--tls-crl", str(self.certs / "crl.pem")]

    def _spawn(self, name: str, *command: object) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log))

    def _start(self) -> None:
        self.dir.mkdir()
        certs = [str(self.programs / "warpsmith"), "--dir", str(self.dir), "certs", "--certs", str(self.certs)]
        subprocess.run([*certs, "init"], check=True, capture_output=True)
        for name, role, *more in (("planner", "planner"), ("lab", "worker", "--host", "127.0.0.1"),
                                  ("ada", "operator"), ("prometheus", "reader")):
            subprocess.run([*certs, "issue", name, "--role", role, *more], check=True, capture_output=True)
        self._spawn("planner", self.programs / "warpsmith-planner", "--dir", self.dir, "--listen", "127.0.0.1:0",
                    "--listen-http", "127.0.0.1:0", *self._tls("planner"))
        http = until("a planner that listens", lambda: self._line(self.dir / "planner.http"), self.logs)
        card = self.folder / "card"
        card.write_text("".join(f"{what} {value}\n" for what, value in CARD.items()))
        for name in WORKERS:
            self._spawn(name, "env", f"WARPSMITH_NVML_SCRIPT={card}", self.programs / "warpsmith-worker", "--nvml", self.nvml, "--dir", self.dir, "--device", "host", "--name", name,
                        "--compile-jobs", "1", "--listen-http", "127.0.0.1:0", *self._tls("lab"))
        self._start_prometheus(http)
        up = 'up{job="warpsmith-workers"} == 1'
        until("workers that are scraped",
              lambda: len(self.ask("query", query=up)["result"]) == len(WORKERS) or None, self.logs)

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
        self._spawn("prometheus", "prometheus", "--config.file", self.folder / "prometheus.yml",
                    "--storage.tsdb.path", self.folder / "tsdb", "--web.listen-address", "127.0.0.1:0")
        self.prometheus = until("a Prometheus that listens", self._listens, self.logs)
        until("a Prometheus that answers", self._answers, self.logs)

    def _listens(self) -> str | None:
        found = re.search(r'msg="Listening on" address=(\S+)', (self.folder / "prometheus.log").read_text())
        return found[1] if found else None

    def _answers(self) -> bool | None:
        try:
            return self.ask("query", query="1") is not None
        except (Failed, OSError):
            return None

    @staticmethod
    def _line(path: pathlib.Path) -> str | None:
        try:
            return path.read_text().strip() or None
        except OSError:
            return None
