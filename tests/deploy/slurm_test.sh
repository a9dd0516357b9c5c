#!/usr/bin/env bash
# deploy/slurm/worker.sbatch on a Slurm of the test's own: munged, slurmctld and slurmd on this machine,
# one node, no cards. An array of workers comes, is preempted and cancelled while it works; nothing
# that it found is lost, and who comes back has the name it had.
#
#   tests/deploy/slurm_test.sh BUILD     BUILD: a build folder of everything, as build/release
#
# WARPSMITH_TEST_THOROUGH=1: and it is requeued, one of it is told to go, and its time comes to an end,
# which takes two minutes more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PATH:/usr/sbin:/sbin

say() { echo "slurm_test: $*"; }

fail() {
  say "FAILED: $*"
  tail -n 25 "$work"/*.log "$work"/jobs/*.log 2>/dev/null || true
  [ ! -e "$work/slurm.conf" ] || squeue --all --long || true
  exit 1
}

# Until the command succeeds; after two minutes it has failed.
eventually() {
  local deadline=$((SECONDS + 120))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.2
  done
}
await() {  # WHAT COMMAND...
  local what=$1
  shift
  eventually "$@" || fail "$what"
  say "ok: $what"
}

# ---- a Slurm --------------------------------------------------------------------------------------

need_tools() {
  local tool package
  while read -r tool package; do
    command -v "$tool" >/dev/null ||
      fail "no $tool here: install Debian's $package (scripts/install-deps.sh --tests does)"
  done <<'TOOLS'
munged munge
slurmctld slurmctld
slurmd slurmd
sbatch slurm-client
python3 python3
shellcheck shellcheck
TOOLS
}

free_ports() {
  python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))' "$1"
}

# What a program of this test writes goes to NAME.log.
start() {  # NAME COMMAND...
  local name=$1
  shift
  "$@" >>"$work/$name.log" 2>&1 &
  pids+=($!)
}

start_slurm() {
  local controller node host
  read -r controller node <<<"$(free_ports 2)"
  host=$(hostname -s)
  mkdir "$work/munge" "$work/state" "$work/spool" "$work/jobs"
  head -c 1024 /dev/urandom >"$work/munge/key"
  chmod 600 "$work/munge/key"
  start munged munged --foreground --force --socket "$work/munge/socket" --key-file "$work/munge/key" \
    --pid-file "$work/munge/pid" --seed-file "$work/munge/seed" --num-threads 2
  await "munged answers" munge --no-input --socket "$work/munge/socket"
  cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
# A job that is requeued waits for as long as its old credential may be used.
AuthInfo=socket=$work/munge/socket,cred_expire=5
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 Port=$node CPUs=2
PartitionName=scavenge Nodes=$host Default=YES PriorityTier=1 MaxTime=INFINITE
PartitionName=urgent Nodes=$host PriorityTier=10 PreemptMode=OFF
CONF
  : >"$work/cgroup.conf"
  export SLURM_CONF=$work/slurm.conf
  start slurmctld slurmctld -D
  start slurmd slurmd -D
  await "the node is idle" node_is idle
}

node_is() { [ "$(sinfo --noheader --partition scavenge --format %t)" = "$1" ]; }
state_of() { squeue --noheader --all --array --jobs "$1" --format %T; }
job_is() { [ "$(state_of "$1")" = "$2" ]; }
queue_is_empty() { [ -z "$(squeue --noheader --all)" ]; }
is_over() { [ -z "$(squeue --noheader --all --states PENDING,RUNNING,COMPLETING,SUSPENDED --jobs "$1")" ]; }

# ---- a planner, and what it knows -----------------------------------------------------------------

planner_says() { "$bin/warpsmith" --dir "$work/planner" "$@"; }

start_planner() {
  start planner "$bin/warpsmith-planner" --dir "$work/planner"
  await "the planner answers" planner_says workers
  cat >"$work/set.json" <<'JSON'
{"name": "small", "version": "1", "problems": [{"name": "swish", "description": "x times its logistic function.",
 "graph": ["input x: f32[R, C] ~ normal", "y: f32[r: R, c: C] = x[r, c] / (1 + exp(-x[r, c]))", "output y"],
 "workloads": [{"name": "narrow", "dims": {"R": 256, "C": 64}}, {"name": "wide", "dims": {"R": 16, "C": 3000}},
  {"name": "tall", "dims": {"R": 3000, "C": 16}}]}]}
JSON
  planner_says submit --seconds 3600 --policy random --arch host "$work/set.json" >/dev/null
}

# `look KEY`: of the planner's state: `workers` that are there, `trials`, `leased`, `lost`.
look() {
  planner_says runs -o json r1 >"$work/tasks.json"
  planner_says workers -o json >"$work/workers.json"
  python3 - "$work" "$1" <<'PY'
import json, sys
folder, key = sys.argv[1:]
tasks = json.load(open(f"{folder}/tasks.json")).get("tasks", [])
workers = json.load(open(f"{folder}/workers.json")).get("workers", [])
print({"trials": sum(int(t.get("trials", 0)) for t in tasks),
       "leased": sum(t["state"] == "LEASED" for t in tasks),
       "lost": sum(int(t.get("losses", 0)) + int(t.get("trials_missing", 0)) for t in tasks),
       "workers": " ".join(sorted(w["id"] for w in workers if not w.get("lost")))}[key])
PY
}
looks() { [ "$(look "$1")" = "$2" ]; }
more_trials_than() { [ "$(look trials)" -gt "$1" ]; }

# By the workers' own count, lease by lease.
trials_told() {
  cat "$work"/jobs/*.log | sed -nE 's/.*lease .* after [0-9.]+ s, ([0-9]+) trials.*/\1/p' | awk '{n += $1} END {print n + 0}'
}
# So often in the log of a task.
said() { [ "$(grep -c "$2" "$work/jobs/$1")" = "$3" ]; }

# While nobody holds a lease the planner has what the workers say that they have found.
nothing_is_lost() {
  await "no lease is held" looks leased 0
  [ "$(look trials)" = "$(trials_told)" ] || fail "the planner has $(look trials) trials, the workers told $(trials_told)"
  looks lost 0 || fail "leases or trials were lost"
  say "ok: $(look trials) trials by the planner's count and by the workers'"
}

works() { await "$1" more_trials_than "$(look trials)"; }

# ---- what is tried --------------------------------------------------------------------------------

refuses_what_it_cannot_do() {
  local said
  said=$(env -u SLURM_JOB_ID deploy/slurm/worker.sbatch 2>&1) && fail "it starts outside Slurm"
  grep "it is no job of Slurm" <<<"$said" >/dev/null || fail "outside Slurm it says: $said"
  said=$(env SLURM_JOB_ID=1 deploy/slurm/worker.sbatch 2>&1) && fail "it starts without a planner"
  grep "WARPSMITH_PLANNER is not set" <<<"$said" >/dev/null || fail "without a planner it says: $said"
  shellcheck deploy/slurm/worker.sbatch
  say "ok: it refuses what it cannot do"
}

submit_array() {
  WARPSMITH_PLANNER=$(cat "$work/planner/planner.address") WARPSMITH_DIR=$work/workers \
    WARPSMITH_WORKER=$bin/warpsmith-worker WARPSMITH_POOL=lab \
    sbatch --parsable --array=0-1 --cpus-per-task=1 --chdir "$work/jobs" "$@" deploy/slurm/worker.sbatch
}

is_preempted_and_comes_back() {
  local urgent
  urgent=$(sbatch --parsable --partition urgent --cpus-per-task 2 --output /dev/null --wrap 'sleep 600')
  await "who is more urgent has the node" job_is "$urgent" RUNNING
  for task in 0 1; do
    said "warpsmith-${array}_$task.log" "ended in good order" 1 || fail "task $task did not drain"
  done
  nothing_is_lost
  scancel "$urgent"
  await "both come back under their names" looks workers "$names"
  for task in 0 1; do
    said "warpsmith-${array}_$task.log" "lab-task$array.$task on .*, device host, start 1" 1 || fail "it is not the same log"
  done
  works "and go on"
}

is_requeued() {
  scontrol requeue "${array}_0"
  await "task 0 drains" said "warpsmith-${array}_0.log" "ended in good order" 2
  await "and comes back" said "warpsmith-${array}_0.log" "device host, start 2" 1
  await "under its name" looks workers "$names"
  works "and goes on"
}

is_drained_by_a_person() {
  scancel --signal=TERM --batch "${array}_1"
  await "task 1 ends" is_over "${array}_1"
  said "warpsmith-${array}_1.log" "ended in good order" 2 || fail "task 1 did not drain"
  said "warpsmith-${array}_1.log" requeued 0 || fail "task 1 was requeued before its time was up"
  await "and has left" looks workers "lab-task$array.0"
}

is_cancelled() {
  scancel "$array"
  await "all are over" is_over "$array"
  # Each start has its end.
  for task in 0 1; do
    said "warpsmith-${array}_$task.log" "ended in good order" "$(grep -c "device host, start" "$work/jobs/warpsmith-${array}_$task.log")" ||
      fail "task $task did not drain"
  done
  await "and have left" looks workers ""
  nothing_is_lost
}

ends_with_its_time() {
  local short
  short=$(submit_array --array=5 --time=2 --signal=B:TERM@60)
  await "one with little time works" looks workers "lab-task$short.5"
  works "and finds something"
  await "it was told before its end" said "warpsmith-${short}_5.log" "its time is up: requeued" 1
  await "it has drained" said "warpsmith-${short}_5.log" "ended in good order" 1
  await "and comes back" said "warpsmith-${short}_5.log" "device host, start 1" 1
  await "under its name" looks workers "lab-task$short.5"
  scancel "$short"
  await "it is over" is_over "$short"
  nothing_is_lost
}

[ $# = 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
bin=$(realpath "$1")/bin
work=$(mktemp -d /tmp/warpsmith_slurm_XXXXXX)
pids=()
clean_up() {
  if [ -n "${SLURM_CONF:-}" ]; then  # jobs are no children of this script
    scancel --user "$(id -un)" 2>/dev/null || true
    eventually queue_is_empty || true
  fi
  kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

need_tools
refuses_what_it_cannot_do
start_slurm
start_planner
array=$(submit_array)
names="lab-task$array.0 lab-task$array.1"
await "both tasks of the array are there" looks workers "$names"
works "and find something"
is_preempted_and_comes_back
if [ -n "${WARPSMITH_TEST_THOROUGH:-}" ]; then
  is_requeued
  is_drained_by_a_person
fi
is_cancelled
if [ -n "${WARPSMITH_TEST_THOROUGH:-}" ]; then ends_with_its_time; fi
say "all of it holds, in $SECONDS s"
