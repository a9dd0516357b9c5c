#!/bin/bash
# Two versions of Warpsmith beside each other, on the host device: each planner with workers of both,
# the same store handed to and fro with leases and outboxes as they are when a process is killed.
#
#   tests/versions/versions.sh OLD/bin NEW/bin
#
# OLD and NEW are build folders of two neighbouring commits. Ends with status 0 if nothing that a
# planner was seen to have was gone later, every task has converged, and the old version refuses the
# store by name once the upgrade is finished.
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2")
work=$(mktemp -d /tmp/warpsmith_versions_XXXXXX)
dir=$work/planner
declare -A pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*"
  tail -n 5 "$work"/*.log
  exit 1
}
start() {  # NAME PROGRAM WORDS...
  local name=$1
  shift
  "$@" >>"$work/$name.log" 2>&1 &
  pids[$name]=$!
}
planner() { start planner "$1/warpsmith-planner" --dir "$dir" --listen "unix:$work/socket"; }
worker() {  # NAME BIN
  start "$1" "$2/warpsmith-worker" --dir "$work/workers" --planner "unix:$work/socket" \
    --device host --name "$1" --compile-jobs 1
}
end() {  # SIGNAL NAME
  kill "-$1" "${pids[$2]}"
  wait "${pids[$2]}" 2>/dev/null || true
  unset "pids[$2]"
}
priority=0  # of the run, from when it was said on
# Of each task: state, fence, trials, whether it has a kernel. Nothing may be less than before.
: >"$work/before"
look() {  # BIN
  "$1/warpsmith" --planner "unix:$work/socket" runs r1 -o json >"$work/now.json"
  python3 - "$work/now.json" "$work/before" "$2" "$priority" <<'PY'
import json, sys
answer = json.load(open(sys.argv[1]))
if answer["runs"][0].get("priority", 0) != int(sys.argv[4]):
    sys.exit(f"the run's priority is {answer['runs'][0].get('priority', 0)}, not {sys.argv[4]}")
tasks = answer["tasks"]
now = {t["id"]: (int(t.get("fence", 0)), int(t.get("trials", 0)), int("incumbent_blob" in t)) for t in tasks}
before = json.loads(open(sys.argv[2]).read() or "{}")
for task, had in before.items():
    if task not in now or any(a < b for a, b in zip(now[task], had)):
        sys.exit(f"{task} had {had} and has {now.get(task)}")
json.dump(now, open(sys.argv[2], "w"))
done = sum(t["state"] == "CONVERGED" for t in tasks)
bad = [t["id"] + ": " + t.get("reason", "") for t in tasks if t["state"] in ("FAILED", "PARKED")]
print(f"{sys.argv[3]}: {done} of {len(tasks)} converged, {sum(n[1] for n in now.values())} trials, "
      f"{sum(t['state'] == 'LEASED' for t in tasks)} leased")
sys.exit("\n".join(bad) or (0 if sys.argv[3] != "the end" or done == len(tasks) else "not all have converged"))
PY
}
await() {  # until the planner answers
  for _ in $(seq 100); do
    "$1/warpsmith" --planner "unix:$work/socket" runs >/dev/null 2>&1 && return
    sleep 0.2
  done
  fail "no planner answers"
}
phase() {  # WHAT SECONDS
  sleep "$2"
  look "$new" "$1" || fail "$1"
}

# Before anything of the new version: a store of the old one, with work under way.
planner "$old"
await "$old"
worker a "$old"
worker b "$old"
python3 - "$(dirname "$0")/../../problems/starter.json" "$work/set.json" <<'PY'
import json, sys
problems = json.load(open(sys.argv[1]))
problems["problems"] = problems["problems"][:6]
json.dump(problems, open(sys.argv[2], "w"))
PY
"$old/warpsmith" --planner "unix:$work/socket" submit "$work/set.json" --seconds 12 >/dev/null
phase "old planner, old workers" 15
end KILL planner
sleep 3  # what the workers find goes to their outboxes
planner "$new"
await "$new"
phase "new planner, old workers" 10
end KILL a
worker a "$new"
phase "new planner, a worker of each" 12
"$new/warpsmith" --planner "unix:$work/socket" priority r1 5 || fail "priority"
priority=5
end KILL planner  # the old one has that from the checkpoint, and does not meet it in the log
sleep 3
planner "$old"
await "$new"
phase "gone back: old planner, a worker of each" 12
end KILL b
worker b "$new"
phase "old planner, new workers" 12
end TERM planner
planner "$new"
await "$new"
phase "new planner, new workers" 8
end TERM planner
"$new/warpsmith" --dir "$dir" upgrade finish || fail "upgrade finish"
planner "$new"
await "$new"
for _ in $(seq 120); do
  look "$new" "the end" >/dev/null 2>&1 && break
  sleep 2
done
phase "the end" 0
end TERM planner
status=0
"$old/warpsmith-planner" --dir "$dir" >"$work/refused" 2>&1 || status=$?
[ "$status" = 2 ] && grep -q "it has schema [0-9]*, this program knows" "$work/refused" || fail "the old planner ends with $status: $(cat "$work/refused")"
"$new/warpsmith" --dir "$dir" store check
echo "passed"
