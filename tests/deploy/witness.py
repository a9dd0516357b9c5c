#!/usr/bin/env python3
"""Looks at a fleet by the command line again and again, and knows what must not be lost.

    witness.py FOLDER watch        # until FOLDER/end is there; FOLDER/seen is what was seen last
    witness.py FOLDER check FILE   # once more, against all that was seen, and FILE: the workers' logs

Nothing of a task may be less than it was, and no trial that was there may be gone or there twice. In the
end all have converged, the trials that a task counts are those that it has, and of each lease that a
worker has brought to its end it has as many as the worker says. Ends with status 1 and what is wrong
otherwise. The planner is whom WARPSMITH_PLANNER means.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn, Optional

# "... lease r1/swish@host#1.6c93a9a3: budget spent after 7.3 s, 6 trials, 5 judged, ..."
ENDED = re.compile(r"lease (\S+): \S.* after [0-9.]+ s, ([0-9]+) trials")


def fail(what: str) -> NoReturn:
    sys.exit(f"witness: {what}")


def ask(*words: str) -> Optional[Any]:
    """What the command answers; None: no planner does."""
    ended = subprocess.run(["warpsmith", *words, "-o", "json"], capture_output=True, text=True, check=False)
    if ended.returncode in (1, 3):
        return None
    if ended.returncode != 0:
        fail(f"`warpsmith {' '.join(words)}` ends with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)


class Witness:
    def __init__(self, folder: Path):
        self.folder = folder
        self.tasks: dict[str, dict[str, Any]] = {}
        self.trials: dict[str, list[str]] = {}
        self.longest = 0.0
        self.looks = 0
        self.answered = time.monotonic()
        if (folder / "known").exists():
            self.tasks, self.trials = json.loads((folder / "known").read_text())

    def look(self) -> bool:
        answer = ask("runs")
        if answer is None:
            return False
        now = {task["id"]: task for task in answer["tasks"]}
        for name, had in self.tasks.items():
            has = now.get(name)
            if has is None:
                fail(f"task {name} is gone")
            for field in ("fence", "trials"):
                if int(has[field]) < int(had[field]):
                    fail(f"task {name} had {field} {had[field]} and has {has[field]}")
            if had["incumbent_blob"] and not has["incumbent_blob"]:
                fail(f"task {name} had a kernel and has none")
        self.tasks = now
        return True

    def look_closely(self, name: str) -> bool:
        answer = ask("show", name, "--trials")
        if answer is None:
            return False
        ids = [trial["id"] for trial in answer["trials"]["trials"]]
        if len(set(ids)) != len(ids):
            fail(f"task {name} has a trial twice: {sorted(ids)}")
        gone = set(self.trials.get(name, [])) - set(ids)
        if gone:
            fail(f"task {name} has lost {sorted(gone)}")
        self.trials[name] = ids
        return True

    def watch(self) -> None:
        while not (self.folder / "end").exists():
            if self.look():
                now = time.monotonic()
                if self.looks:
                    self.longest = max(self.longest, now - self.answered)
                self.answered = now
                self.looks += 1
                # One of those at work, or that were since, in turn.
                names = sorted(n for n, t in self.tasks.items() if int(t["trials"]) > len(self.trials.get(n, [])))
                if names:
                    self.look_closely(names[self.looks % len(names)])
            self.tell()
            time.sleep(0.3)

    def tell(self) -> None:
        states = [task["state"] for task in self.tasks.values()]
        text = " ".join(
            [f"looks={self.looks} silent={time.monotonic() - self.answered:.1f} longest={self.longest:.1f}"]
            + [f"trials={sum(int(task['trials']) for task in self.tasks.values())} tasks={len(states)}"]
            + [f"{state}={states.count(state)}" for state in sorted(set(states))]
        )
        for name, body in (("seen", text + "\n"), ("known", json.dumps([self.tasks, self.trials]))):
            (self.folder / f"{name}.new").write_text(body)
            (self.folder / f"{name}.new").rename(self.folder / name)

    def check(self, logs: str) -> None:
        if not self.tasks:
            fail("nothing was seen")
        if not self.look():
            fail("no planner answers")
        known = {name: len(ids) for name, ids in self.trials.items()}
        per_lease: dict[str, int] = {}
        for name, task in self.tasks.items():
            if task["state"] != "CONVERGED":
                fail(f"task {name} is {task['state']}: {task['reason']}")
            if not self.look_closely(name):
                fail("no planner answers")
            if int(task["trials"]) != len(self.trials[name]):
                fail(f"task {name} counts {task['trials']} trials and has {len(self.trials[name])}")
            for trial in self.trials[name]:
                lease = trial.rpartition("/")[0]
                per_lease[lease] = per_lease.get(lease, 0) + 1
        ended = {lease: int(count) for lease, count in ENDED.findall(logs)}
        for lease, count in ended.items():
            if per_lease.get(lease, 0) != count:
                fail(f"of lease {lease} a worker has told {count} trials, and {per_lease.get(lease, 0)} are there")
        if not ended:
            fail("the logs tell of no lease")
        print(
            f"{len(self.tasks)} tasks have converged; {sum(map(len, self.trials.values()))} trials, of which "
            f"{sum(known.values())} were seen before; {len(ended)} leases were brought to their end by a worker, "
            f"with {sum(ended.values())} trials"
        )


def main() -> None:
    witness = Witness(Path(sys.argv[1]))
    if sys.argv[2] == "watch":
        witness.watch()
    else:
        witness.check(Path(sys.argv[3]).read_text())


if __name__ == "__main__":
    main()
