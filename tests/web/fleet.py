"""A planner with its page, and workers on the host device, in a folder that goes away with them."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

LIMIT_S = 120.0


class Fleet:
    def __init__(self, bin: pathlib.Path, *flags: str) -> None:
        """`flags`: further ones of the planner."""
        self.bin = bin
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpsmith-page-"))
        self.dir = self.folder / "lab"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._flags = flags

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            for path in sorted(self.folder.glob("*.log")):
                print(f"--- {path.name}\n{self.log(path.stem)}", file=sys.stderr)
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen([str(self.bin / arguments[0]), *arguments[1:]], stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def start_planner(self, page: str = "127.0.0.1:0") -> str:
        """Where its page is, HOST:PORT."""
        self.planner = self._start("planner", "warpsmith-planner", "--dir", str(self.dir), "--listen-page", page, *self._flags)
        told = self.dir / "planner.page"
        deadline = time.monotonic() + LIMIT_S
        while not told.exists() or not (self.dir / "planner.address").exists():
            if self.planner.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no planner: {self.log('planner')}")
            time.sleep(0.05)
        return told.read_text().strip()

    def start_worker(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        return self._start(name, "warpsmith-worker", "--dir", str(self.dir), "--device", "host", "--name", name, "--compile-jobs", "1", *flags)

    def warpsmith(self, *arguments: str) -> str:
        done = subprocess.run([str(self.bin / "warpsmith"), "--dir", str(self.dir), *arguments],
                              capture_output=True, text=True, timeout=LIMIT_S)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"warpsmith {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def submit(self, name: str, problems: list[str], seconds: float, *flags: str) -> str:
        """A set of doubling problems of those names; the run's id."""
        path = self.folder / "set.json"
        path.write_text(json.dumps({
            "name": name,
            "problems": [{
                "name": problem,
                "graph": ["input x: f32[N] ~ normal", "y: f32[n: N] = x[n] * 2 + 1", "output y"],
                "workloads": [{"name": "default", "dims": {"N": 4096}}],
            } for problem in problems],
        }))  # fmt: skip
        return self.warpsmith("submit", str(path), "--seconds", str(seconds), "--arch", "host", *flags)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""
