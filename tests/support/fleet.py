"""A planner and workers on the processor, in a folder that goes away with them; for tests in Python.

    with Fleet(programs) as fleet:
        fleet.start_planner("--listen-page", "127.0.0.1:0")
        fleet.start_worker("w0")
        run = fleet.submit({"name": "set", "problems": [...]}, seconds=2)
        fleet.warpsmith("watch", run)
        fleet.told("page")                     # HOST:PORT, from the planner's folder

Ports are those that the system picks. What goes wrong is Failed; a block that is left by an exception shows the logs.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, TypeVar

T = TypeVar("T")

LIMIT_SECONDS = 240.0  # of each thing that is waited for


class Failed(Exception):
    """Something did not come to be; the message says what."""


def until(what: str, get: Callable[[], T | None]) -> T:
    """What `get` gives as soon as it is something."""
    end = time.monotonic() + LIMIT_SECONDS
    while (value := get()) is None:
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {LIMIT_SECONDS:g} s")
        time.sleep(0.1)
    return value


class Fleet:
    def __init__(self, programs: pathlib.Path) -> None:
        self.programs = programs
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpsmith-fleet-"))
        self.dir = self.folder / "lab"  # --dir of all of them
        self.certs = self.dir / "certs"
        self.dir.mkdir(mode=0o700)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            for path in sorted(self.folder.glob("*.log")):
                print(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}", file=sys.stderr)
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name: str, *command: object) -> subprocess.Popen[bytes]:
        """Of which NAME.log in the folder has the output."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def start_planner(self, *flags: object) -> subprocess.Popen[bytes]:
        """And waits until it listens."""
        planner = self.start("planner", self.programs / "warpsmith-planner", "--dir", self.dir, "--listen", "127.0.0.1:0", *flags)
        self.told("address")
        return planner

    def start_worker(self, name: str, *flags: object, env: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """`env`: NAME=VALUE of its environment."""
        return self.start(name, "env", *env, self.programs / "warpsmith-worker", "--dir", self.dir, "--device", "host",
                          "--name", name, "--compile-jobs", "1", *flags)

    def told(self, what: str) -> str:
        """The address that the planner has written to its folder: of `address`, `http` or `page`."""

        def line() -> str | None:
            try:
                return (self.dir / f"planner.{what}").read_text().strip() or None
            except FileNotFoundError:
                return None

        return until(f"a planner that listens ({what})", line)

    def warpsmith(self, *arguments: object, limit: float = LIMIT_SECONDS) -> str:
        """What the command says."""
        command = [str(word) for word in (self.programs / "warpsmith", "--dir", self.dir, *arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(command)}: not within {limit:g} s") from error
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def submit(self, problems: dict[str, Any], seconds: float, *flags: str) -> str:
        """A problem set with so long a budget a task; the run's id."""
        path = self.folder / "problems.json"
        path.write_text(json.dumps(problems))
        return self.warpsmith("submit", path, "--arch", "host", "--seconds", seconds, *flags)

    def tls(self, name: str) -> list[str]:
        """The flags of a process with that certificate, which `warpsmith certs` has made."""
        own = str(self.certs / f"{name}.pem")
        return ["--tls-ca", str(self.certs / "ca.crt"), "--tls-cert", own, "--tls-key", own]
