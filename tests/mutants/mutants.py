#!/usr/bin/env python3
"""Plants faults in the planner and the worker's session, one at a time, and says which tests find them.

    tests/mutants/mutants.py [--all] [--only NAME ...] [--list]

Each mutant is one change of one file (tests/mutants/*.txt). It is built in a worktree of its own under
build/mutants, from the commit that is checked out, and planner_simulation_test is run on it; with --all the other
tests of planner, store and session too, until one fails. A mutant that no longer applies, or does not build, is an
error. Exit status 0: all were found.

A file of mutants holds blocks parted by lines of dashes: a line `name: file`, the lines as they are, a line `=>`, the
lines as they become. The lines as they are occur in the file once.
"""

import argparse
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "mutants"
SIMULATION = "planner_simulation_test"
OTHERS = ["planner_core_test", "planner_service_test", "daemon_test", "store_test", "planner_kill_test"]
LIMIT_S = 300  # five times what the longest takes on a busy core


def read_mutants():
    for path in sorted(pathlib.Path(__file__).parent.glob("*.txt")):
        for block in path.read_text().split("\n----\n"):
            head, _, body = block.strip("\n").partition("\n")
            name, _, file = head.partition(": ")
            before, arrow, after = body.partition("\n=>\n")
            if not arrow and body.endswith("\n=>"):
                before, after, arrow = body[:-3], "", "=>"
            if not (name and file and arrow):
                sys.exit(f"{path}: a block that begins with '{head}' is not `name: file`, lines, `=>`, lines")
            yield name, file, before, after


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", **options)


def prepare():
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip()
    if not TREE.exists():
        run("git", "-C", ROOT, "worktree", "prune")
        run("git", "-C", ROOT, "worktree", "add", "--detach", TREE, commit, check=True)
    run("git", "-C", TREE, "checkout", "--force", "--detach", commit, check=True)
    built = run("cmake", "--preset", "release", "-DCMAKE_CXX_FLAGS=-w", cwd=TREE)  # a mutant may leave a name unused
    if built.returncode != 0:
        sys.exit(built.stderr)


def build(targets):
    return run("cmake", "--build", TREE / "build" / "release", "--target", *targets)


def found_by(tests):
    """The first of `tests` that fails, and how; None: none does."""
    for test in tests:
        try:
            ended = run(TREE / "build" / "release" / "bin" / test, timeout=LIMIT_S, cwd=TREE)
        except subprocess.TimeoutExpired:
            return test, f"hangs ({LIMIT_S} s)"
        if ended.returncode != 0:
            lines = [line.strip() for line in ended.stdout.splitlines() if line.strip().startswith("seed ")]
            return test, lines[0] if lines else f"exit status {ended.returncode}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="other tests too, where the simulation finds nothing")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    mutants = [m for m in read_mutants() if arguments.only is None or m[0] in arguments.only]
    if arguments.list:
        print("\n".join(f"{name:40} {file}" for name, file, _, _ in mutants))
        return 0
    prepare()
    tests = [SIMULATION] + (OTHERS if arguments.all else [])
    if build(tests).returncode != 0:
        sys.exit("it does not build with no mutant planted")
    if found := found_by(tests):
        sys.exit(f"{found[0]} fails with no mutant planted: {found[1]}")
    missed = 0
    for name, file, before, after in mutants:
        path = TREE / file
        text = path.read_text()
        if text.count(before) != 1:
            sys.exit(f"{name}: its lines occur {text.count(before)} times in {file}; bring it up to date")
        path.write_text(text.replace(before, after))
        start = time.monotonic()
        built = build(tests)
        if built.returncode != 0:
            sys.exit(f"{name} does not build:\n{built.stdout[-3000:]}")
        found = found_by(tests)
        path.write_text(text)
        missed += found is None
        says = "MISSED" if found is None else f"{found[0]}: {found[1][:90]}"
        print(f"{name:40} {time.monotonic() - start:5.0f} s  {says}", flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} found")
    return 0 if missed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
