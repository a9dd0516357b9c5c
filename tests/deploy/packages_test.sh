#!/usr/bin/env bash
# The Debian packages and units, on a machine of the test's own with a systemd of its own
# (machine.sh): made, installed by the guide's commands, used, watched, installed again, removed.
#
#   tests/deploy/packages_test.sh BUILD           BUILD: a build folder of everything, as build/release
#   tests/deploy/packages_test.sh BUILD machine   what takes a machine; 77: none can be made, nothing was tried
#
# The machine is made of this one's files, so that nothing is fetched. WARPSMITH_TEST_THOROUGH=1: and
# another of a fresh Debian, with what the packages depend on fetched by apt; some two minutes more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/deploy/machine.sh
source tests/deploy/machine.sh
# shellcheck source=tests/deploy/testing.sh
source tests/deploy/testing.sh

# Of 100, by `systemd-analyze security`; what is missing and why stands in the units.
PLANNER_EXPOSURE=20 WORKER_EXPOSURE=30
UNITS=(warpsmith-planner.service warpsmith-worker@host.service)

fail() {
  say "FAILED: $*"
  if [ -e "${root:-}.init" ]; then machine journalctl --no-pager -n 40 -u 'warpsmith-*' || true; fi
  exit 1
}

property() { machine systemctl show --value --property "$2" "$1"; }
has() { [ "$(property "$1" "$2")" = "$3" ]; }
planner_says() { machine warpsmith --planner 127.0.0.1:7400 "$@"; }
is_over() { planner_says runs -o json r1 | grep >/dev/null '"done": *true'; }
# What a unit has written since it was started last.
journal() { machine journalctl --no-pager -o cat -u "$1" "_SYSTEMD_INVOCATION_ID=$(property "$1" InvocationID)"; }
ever_wrote() { machine journalctl --no-pager -u "$1" | grep >/dev/null "$2"; }
wrote() { journal "$1" | grep >/dev/null "$2"; }

# ---- what needs no machine -----------------------------------------------------------------------

scripts_are_clean() {
  local package
  for package in "$work"/packages/*.deb; do
    dpkg-deb --control "$package" "$work/control"
    find "$work/control" -name 'p*' -exec shellcheck {} +
    rm -r "$work/control"
  done
  shellcheck -x tests/deploy/*.sh scripts/deb.sh
}

exposure() { systemd-analyze security --offline=true --threshold="$2" "deploy/systemd/$1"; }

# The commands of the guide that bring up a planner and a worker: the first block that it has.
read_guide() {
  mapfile -t commands < <(awk '/^```/ {n++; next} n == 1' docs/guide/install.md)
  [ ${#commands[@]} = 3 ] || fail "the guide has other than three commands: ${commands[*]}"
}

# ---- on a machine --------------------------------------------------------------------------------

verify_units() {
  local said
  said=$(machine systemd-analyze verify --man=no /usr/lib/systemd/system/warpsmith-{planner,worker@}.service 2>&1 || true)
  not grep warpsmith <<<"$said"
}

users_and_folders() {
  local name
  for name in warpsmith-planner warpsmith-worker; do
    [ "$(machine stat -c '%U %G %a' "/var/lib/$name")" = "$name $name 750" ]
    machine getent passwd "$name" | grep >/dev/null ':/var/lib/.*:/usr/sbin/nologin$'
    machine cat "/var/lib/dpkg/info/$name.conffiles" | grep -x >/dev/null "/etc/default/$name"
  done
}

# As the user and with the restrictions of its unit.
confined() {
  local pid
  pid=$(property "$1" MainPID)
  [ "$(machine ps -o user:20= -p "$pid" | tr -d ' ')" = "$2" ]
  machine grep -qx $'NoNewPrivs:\t1' "/proc/$pid/status"
  machine grep -qx $'Seccomp:\t2' "/proc/$pid/status"
  machine grep -qx $'CapBnd:\t0000000000000000' "/proc/$pid/status"
}

names_its_card() { property warpsmith-worker@cuda:0 ExecStart | grep >/dev/null -- '--device cuda:0 --planner'; }

# A driver with a card of the tests' own, and those who come after its worker: root, a user, and a
# service with another user and another /tmp each time.
CARD=(LD_LIBRARY_PATH=/opt/cuda WARPSMITH_CUDA_CARDS=17)
a_card_is_one_workers() {
  local service='warpsmith-worker@cuda:0.service'
  mkdir -p "$root/opt/cuda" "$root/etc/systemd/system/$service.d"
  cp "$build/tests/support/cuda/libcuda.so.1" "$root/opt/cuda/"
  printf '[Service]\nEnvironment=%s\n' "${CARD[*]}" >"$root/etc/systemd/system/$service.d/test.conf"
  machine systemctl daemon-reload
  machine systemctl start "$service"
  is_refused machine env "${CARD[@]}" warpsmith-worker --dir /tmp/second
  is_refused machine runuser -u nobody -- env "${CARD[@]}" warpsmith-worker --dir /tmp/third
  is_refused machine systemd-run --quiet --wait --pipe -p DynamicUser=yes -p PrivateTmp=yes -p ProtectSystem=strict \
    -E "${CARD[0]}" -E "${CARD[1]}" warpsmith-worker --dir /tmp/fourth
  machine systemctl stop "$service"
}
is_refused() {
  local said
  if said=$("$@" 2>&1); then return 1; fi
  echo "$said"
  grep >/dev/null 'cuda:0: the card has a worker: .*-cuda0 (process' <<<"$said"
}

submit() {
  cat >"$root/small.json" <<'JSON'
{"name": "small", "version": "1", "problems": [{"name": "swish", "description": "x times its logistic function.",
 "graph": ["input x: f32[R, C] ~ normal", "y: f32[r: R, c: C] = x[r, c] / (1 + exp(-x[r, c]))", "output y"],
 "workloads": [{"name": "default", "dims": {"R": 64, "C": 1000}}]}]}
JSON
  planner_says submit --seconds "$1" /small.json
}

watch_closely() {
  local unit
  for unit in "${UNITS[@]}"; do
    mkdir -p "$root/etc/systemd/system/$unit.d"
    printf '[Service]\nWatchdogSec=4s\n' >"$root/etc/systemd/system/$unit.d/test.conf"
  done
  machine systemctl daemon-reload
  machine systemctl restart "${UNITS[@]}"
  sleep 10
  for unit in "${UNITS[@]}"; do has "$unit" NRestarts 0; done
}

# Stopped in the midst of all, it is killed and started again.
is_rescued() {
  local pid
  pid=$(property "$1" MainPID)
  has "$1" NRestarts 0
  machine kill -STOP "$pid"
  eventually has "$1" NRestarts 1
  eventually has "$1" ActiveState active
  eventually ever_wrote "$1" 'Watchdog timeout'
}

wrong_usage_is_not_repeated() {
  echo 'WARPSMITH_OPTIONS=--nonsense' >"$root/etc/default/warpsmith-planner"
  not machine systemctl restart warpsmith-planner
  sleep 3
  has warpsmith-planner ActiveState failed
  has warpsmith-planner NRestarts 0
  echo 'WARPSMITH_OPTIONS=--keep-over-tasks 10' >"$root/etc/default/warpsmith-planner"
  machine systemctl restart warpsmith-planner
}

install_again() {
  local unit before=() i=0
  for unit in "${UNITS[@]}"; do before+=("$(property "$unit" MainPID)"); done
  machine sh -c 'dpkg -i /packages/*.deb'
  for unit in "${UNITS[@]}"; do
    has "$unit" ActiveState active
    [ "$(property "$unit" MainPID)" != "${before[i]}" ]
    i=$((i + 1))
  done
  eventually ever_wrote warpsmith-worker@host 'ended in good order'
  machine grep -q 'keep-over-tasks 10' /etc/default/warpsmith-planner
}

# With a lease in hand.
drains() {
  local run
  run=$(submit 300)
  eventually wrote warpsmith-worker@host "lease $run/"
  machine systemctl stop warpsmith-worker@host
  eventually wrote warpsmith-worker@host 'ended in good order'
  has warpsmith-worker@host Result success
  eventually not_leased "$run"
}
not_leased() { planner_says runs -o json "$1" | grep >/dev/null '"state": *"QUEUED"'; }

store_is_whole() {
  machine runuser -u warpsmith-planner -- \
    warpsmith --dir /var/lib/warpsmith-planner store check | grep >/dev/null 'whole'
}

purge() {
  machine systemctl start warpsmith-worker@host
  machine dpkg --purge warpsmith-worker warpsmith-planner warpsmith
  not machine pgrep warpsmith
  # Containers that this machine has are none of its packages.
  machine find /etc /usr /var/lib -xdev -path /var/lib/containers -prune -o -name '*warpsmith*' -print >"$root/left"
  # But for what this test has put there.
  not grep -vE '^/var/lib/warpsmith-planner(/warpsmith.db)?$|\.service\.d$' "$root/left"
  machine test -f /var/lib/warpsmith-planner/warpsmith.db
}

# As the guide says. `fetch`: with what they depend on from the network.
follow_guide() {
  cp -r "$work/packages" "$root/packages"
  echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/90test"
  if [ "$1" = fetch ]; then check "${commands[0]}" in_root sh -c "${commands[0]}"; fi
  check "${commands[1]}" in_root sh -c "cd /packages && ${commands[1]}"
  start_machine
  check "${commands[2]}" machine sh -c "${commands[2]}"
  check "a problem is submitted" submit 2
  check "its kernel is made" eventually is_over
}

SKIPPED=77  # nothing was tried
enter "$@"
trap stop_machine EXIT

need_tools <<'TOOLS'
cpack cmake
dpkg-shlibdeps dpkg-dev
shellcheck shellcheck
ps procps
systemd systemd
systemd-analyze systemd
adduser adduser
debootstrap debootstrap
unshare util-linux
TOOLS
read_guide
if [ "${2:-}" != machine ]; then
  check "packages are made" make_packages
  check "their scripts are clean" scripts_are_clean
  check "the planner's unit is exposed by at most $PLANNER_EXPOSURE of 100" \
    exposure warpsmith-planner.service $PLANNER_EXPOSURE
  check "the worker's unit is exposed by at most $WORKER_EXPOSURE of 100" \
    exposure warpsmith-worker@.service $WORKER_EXPOSURE
  exit 0
fi
[ "$WARPSMITH_TEST_INSIDE" = machine ] || exit $SKIPPED
can_have_machines || exit $SKIPPED
check "packages are made" make_packages

root_of_this "$work/root"
follow_guide offline
check "units are as systemd wants them" verify_units
check "users and folders are there" users_and_folders
check "the planner is confined" confined warpsmith-planner warpsmith-planner
check "a card's unit names its card" names_its_card
check "a card is one worker's, whoever comes" a_card_is_one_workers
check "the worker is confined" confined warpsmith-worker@host warpsmith-worker
check "both go on with a short watchdog" watch_closely
check "a planner that stands still is started again" is_rescued warpsmith-planner
check "a worker that stands still is started again" is_rescued warpsmith-worker@host
check "wrong usage is not tried again" wrong_usage_is_not_repeated
check "other packages let them end and start them again, and settings stay" install_again
check "a worker that is told to end hands back its lease" drains
check "the store is whole" store_is_whole
check "a purge leaves what the planner knows, and nothing else" purge
stop_machine

if [ -n "${WARPSMITH_TEST_THOROUGH:-}" ]; then
  if ! root_of_debian "$work/fresh"; then
    say "no fresh Debian can be fetched here: passed but for that"
    exit 0
  fi
  began=$SECONDS
  follow_guide fetch
  say "from a fresh Debian to a kernel: $((SECONDS - began)) s"
fi
say "passed"
