"""Counts test cases: `N passed, N failed`. Exit status 1 if any failed or there were none.

tally.py DIR, where DIR/junit.xml is ctest's report and DIR/cases/BINARY.PID what each Catch2 binary
wrote of its own cases (tests/support/main.cc). A ctest entry without such a file counts as one case.
"""

import pathlib
import sys
import xml.etree.ElementTree


def cases_of(path):
    """(passed, names of the failed) of one Catch2 run; a case that never ended has crashed."""
    passed, failed, open_case = 0, [], None
    for line in path.read_text(errors="replace").splitlines():
        what, _, name = line.partition(" ")
        if what == "start":
            open_case = name
        elif what == "pass":
            passed, open_case = passed + 1, None
        elif what == "fail":
            failed.append(name)
            open_case = None
    if open_case is not None:
        failed.append(f"{open_case} (crashed or stopped)")
    return passed, failed


def main(folder):
    files = {}
    for path in sorted((folder / "cases").iterdir()):
        files.setdefault(path.name.rpartition(".")[0], []).append(path)

    passed, failed = 0, []
    junit = folder / "junit.xml"
    entries = xml.etree.ElementTree.parse(junit).getroot().iter("testcase") if junit.exists() else []
    for entry in entries:
        name, status = entry.get("name"), entry.get("status")
        skipped = entry.find("skipped")
        if skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE"):
            print(f"SKIPPED {name}: it says why")
            continue
        if status in ("notrun", "disabled"):
            if status == "notrun":
                failed.append(f"{name}: not run")
            continue
        good, bad = 0, []
        for path in files.get(name, []):
            some_good, some_bad = cases_of(path)
            good += some_good
            bad += some_bad
        if status == "run" and good + len(bad) == 0:
            good = 1
        if status != "run" and not bad:
            bad = ["the binary failed outside its test cases"]
        passed += good
        failed += [f"{name}: {case}" for case in bad]

    for case in failed:
        print(f"FAILED {case}")
    print(f"{passed} passed, {len(failed)} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
