#!/usr/bin/env bash
# A fleet on four hosts as docs/guide/four-hosts.md makes it, each a machine of the test's own on a
# network of theirs (machine.sh), and a fifth that the commands are said on: they are taken from the
# guide. Then two hosts lose power at once, one of them with the planner that leads, and come back;
# another version is put on a host, leads, and is taken back; all get other certificates. Nothing that
# anybody was told is lost.
#
#   WARPSMITH_TEST_THOROUGH=1 tests/deploy/hosts_test.sh BUILD    some three minutes
#
# WARPSMITH_TEST_BEFORE=FOLDER has the packages of the version before, which the fleet begins with. Without
# it those are BUILD's: what the guide says is tried, and not whether two versions understand each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/deploy/machine.sh
source tests/deploy/machine.sh
# shellcheck source=tests/deploy/testing.sh
source tests/deploy/testing.sh

GUIDE=docs/guide/four-hosts.md
# What is said when its time has come, and what this machine's kernel cannot do.
LATER=("Another version" "The version before")
ELSEWHERE=NFS
PLANNERS=(base gpu-1 gpu-2) WORKERS=(gpu-1 gpu-2 gpu-3)
declare -A ADDRESSES=([base]=10.74.0.1 [gpu-1]=10.74.0.2 [gpu-2]=10.74.0.3 [gpu-3]=10.74.0.4 [desk]=10.74.0.9)

fail() {
  local host
  say "FAILED: $*"
  for host in "${!ADDRESSES[@]}"; do
    [ -e "$work/$host.init" ] || continue
    echo "---- $host"
    on "$host" journalctl --no-pager -o short-precise -n 30 -u 'warpsmith-*' -u redis-server -u 'stunnel@*' || true
  done
  cat "$work"/desk/witness/{log,seen} 2>/dev/null || true
  exit 1
}

on() {
  local root=$work/$1
  shift
  machine "$@"
}
# In the folder of who has the fleet, as that person.
at_desk() { on desk env -C /root/fleet HOME=/root bash -euo pipefail "$@" </dev/null; }

# ---- the machines --------------------------------------------------------------------------------

make_root() {
  local root=$work/$1 host
  root_of_this "$root"
  # Of what this machine has nothing is started; what the guide enables is.
  rm -rf "$root"/etc/systemd/system/*.wants
  mkdir -p "$root/var/log/journal" "$root/root/.ssh" "$root/root/fleet"
  echo "$1" >"$root/etc/hostname"
  {
    echo 127.0.0.1 localhost
    for host in "${!ADDRESSES[@]}"; do echo "${ADDRESSES[$host]} $host"; done
  } >"$root/etc/hosts"
  echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/90test"
  # Whoever is at the desk is let in as root.
  printf 'UsePAM no\nPermitRootLogin prohibit-password\n' >"$root/etc/ssh/sshd_config.d/test.conf"
  printf 'StrictHostKeyChecking accept-new\n' >"$root/etc/ssh/ssh_config.d/test.conf"
  cp "$work/key.pub" "$root/root/.ssh/authorized_keys"
  mkdir "$root/etc/systemd/system/multi-user.target.wants"
  ln -s /lib/systemd/system/ssh.service "$root/etc/systemd/system/multi-user.target.wants/"
}

# In place of NFS: a folder that is one for the three, with the numbers of their users as they are.
share_folder() {
  local host
  mkdir "$work/shared"
  mount -t tmpfs tmpfs "$work/shared"
  for host in "${PLANNERS[@]}"; do
    mkdir "$work/$host/srv/warpsmith"
    mount --bind "$work/shared" "$work/$host/srv/warpsmith"
  done
}

power_on() {
  local root=$work/$1 address=${ADDRESSES[$1]}/24 target=multi-user.target
  start_machine
}

make_desk() {
  cp "$work/key" "$work/desk/root/.ssh/id_ed25519"
  cp -r "$work/before" "$work/desk/root/fleet/packages"
  cp -r "$work/packages" "$work/desk/root/fleet/new"
  mkdir -p "$work/desk/witness" "$work/desk/guide"
  cp tests/deploy/witness.py "$work/desk/witness/"
  take_commands "$GUIDE"
}

# With a lower number, also where both were built as the same.
number_down() {
  local package
  mkdir "$work/before"
  for package in "$1"/*.deb; do
    dpkg-deb -R "$package" "$work/content"
    sed -i -E '/^Version:/ s/$/~before/; s/(warpsmith \(= [^)]*)\)/\1~before)/' "$work/content/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/content" "$work/before/$(basename "$package")"
    rm -r "$work/content"
  done
}

# ---- the guide -----------------------------------------------------------------------------------

# Of a page its blocks of commands, each in a file that is called as page and section.
take_commands() {
  awk -v to="$work/desk/guide/$(basename "$1" .md), " '
    /^## / {title = substr($0, 4); n = 0}
    /^```/ {inside = !inside; n += inside; next}
    inside {print >(to (title == "" ? "Start" : title) "." n)}' "$1"
}

read_guide() {
  mapfile -t sections < <(echo Start; sed -n 's/^## //p' "$GUIDE")
  [ "${#sections[@]}" -gt 8 ] || fail "the guide has but ${#sections[@]} sections"
}

follow() {
  local block
  for block in "$work/desk/guide/${2:-four-hosts}, $1".*; do
    check "$1: $(sed -n 's/^ *//; 1p' "$block" | cut -c 1-60)" at_desk "/guide/$(basename "$block")"
  done
}

# ---- what is to be seen --------------------------------------------------------------------------

# What has ended keeps its last status.
leads() {
  active "$1" warpsmith-planner &&
    [[ $(on "$1" systemctl show --value -p StatusText warpsmith-planner) == leads* ]]
}
leader() {
  local host
  for host in "${PLANNERS[@]}"; do
    if [ -e "$work/$host.init" ] && leads "$host" >/dev/null; then echo "$host" && return; fi
  done
  return 1
}
other_leader() { leader && [ "$(leader)" != "$1" ]; }
active() { on "$1" systemctl is-active "${@:2}"; }
# shellcheck disable=SC2016
installed() { on "$1" dpkg-query -W -f '${Version}\n' warpsmith warpsmith-planner warpsmith-worker | sort -u; }
seen() { grep -E "(^| )$1( |\$)" "$work/desk/witness/seen"; }
value() { grep -oE "(^| )$1=[0-9.]+" "$work/desk/witness/seen" | cut -d = -f 2; }
more_than() { [ "$(value "$1")" -gt "$2" ]; }
has_had() { on "$1" journalctl --no-pager -u 'warpsmith-worker@*' | grep "lease $2/"; }
are_up() {
  [ "$(on base curl -s http://127.0.0.1:9090/api/v1/query --data-urlencode "query=sum(up)" |
    grep -oE '"[0-9]+"' | tr -d '"')" = 6 ]
}
fleet() { at_desk -c '. ./fleet.sh; warpsmith "$@"' - "$@"; }

submit() {
  cat >"$work/desk/root/fleet/set.json" <<'JSON'
{"name": "set", "version": "1", "problems": [
 {"name": "swish", "description": "x times its logistic function.",
  "graph": ["input x: f32[R, C] ~ normal", "y: f32[r: R, c: C] = x[r, c] / (1 + exp(-x[r, c]))", "output y"],
  "workloads": [{"name": "few", "dims": {"R": 64, "C": 1000}}, {"name": "more", "dims": {"R": 128, "C": 1000}},
                {"name": "many", "dims": {"R": 256, "C": 1000}}]},
 {"name": "column_sum", "description": "The sum of each column.",
  "graph": ["input x: f32[R, C] ~ normal", "y: f32[c: C] = sum[r: R](x[r, c])", "output y"],
  "workloads": [{"name": "few", "dims": {"R": 64, "C": 1000}}, {"name": "more", "dims": {"R": 128, "C": 1000}},
                {"name": "many", "dims": {"R": 256, "C": 1000}}]}]}
JSON
  fleet submit --seconds "$1" set.json
}
# As soon as each of the workers has been given a part.
begin() {
  local run host
  run=$(submit "$1")
  for host in "${WORKERS[@]}"; do eventually has_had "$host" "$run"; done
}

# ---- what happens --------------------------------------------------------------------------------

watch() {
  at_desk -c '. ./fleet.sh; exec python3 /witness/witness.py /witness watch' >"$work/desk/witness/log" 2>&1 &
  witness=$!
}

# The planner that leads is on the first. Whoever asks is answered by the next one.
lose_power() {
  local host looks
  for host in "$@"; do root=$work/$host cut_power; done
  looks=$(value looks)
  eventually other_leader "$1"
  eventually more_than looks "$looks"
}

# As `apt-get` has it, and of the host's services all run that ran.
has_version() {
  installed "$1" | grep -x "$2"
  active "$1" warpsmith-planner warpsmith-worker@host
}
version_of() { dpkg-deb -f "$work/desk/root/fleet/$1"/warpsmith_*.deb Version; }

# While the others' planners are away it has to.
lead() {
  local host
  for host in "${PLANNERS[@]}"; do [ "$host" = "$1" ] || on "$host" systemctl stop warpsmith-planner; done
  eventually leads "$1"
  for host in "${PLANNERS[@]}"; do on "$host" systemctl start warpsmith-planner; done
}

have_taken_certificates() {
  local host
  for host in "${PLANNERS[@]}"; do
    on "$host" journalctl --no-pager -u warpsmith-planner | grep 'files of TLS have changed'
  done
}

# Revisions without a gap, and no leader's after those of a later one.
# shellcheck disable=SC2016
log_is_whole() {
  on base sh -c 'cd / && redis-cli -p 6380 --no-auth-warning -a "$(cat /etc/warpsmith/redis.password)" EVAL "
      local ids = {}
      for i, entry in ipairs(redis.call(\"XRANGE\", KEYS[1], \"-\", \"+\")) do ids[i] = entry[1] end
      return ids" 1 "warpsmith:{default}:log"' >"$work/log"
  awk -F - '
    (NR > 1 && $1 != last + 1) || $2 < epoch {print "after " last "-" epoch " comes " $0; bad = 1}
    $2 != epoch {leaders++}
    {last = $1; epoch = $2}
    END {print NR " events of " leaders " leaders"; exit bad || leaders < 4}' "$work/log"
}

nothing_is_lost() {
  local host
  for host in "${WORKERS[@]}"; do on "$host" journalctl --no-pager -o cat -u 'warpsmith-worker@*'; done >"$work/desk/witness/logs"
  at_desk -c '. ./fleet.sh; python3 /witness/witness.py /witness check /witness/logs'
}

SKIPPED=77  # nothing was tried
namespaces=(--mount --net)
patience=180  # a lease that is lost takes a minute, and there may be little of a processor
enter "$@"
if [ -z "${WARPSMITH_TEST_THOROUGH:-}" ]; then
  say "takes minutes: only with WARPSMITH_TEST_THOROUGH=1"
  exit $SKIPPED
fi
need_tools <<'TOOLS'
cpack cmake
curl curl
dpkg-deb dpkg
ip iproute2
prometheus prometheus
python3 python3
redis-server redis-server
scp openssh-client
sshd openssh-server
stunnel stunnel4
systemd systemd
unshare util-linux
TOOLS
[ "$WARPSMITH_TEST_INSIDE" = machine ] || exit $SKIPPED
can_have_machines || exit $SKIPPED
if ! make_switch 2>"$work/out"; then
  cat "$work/out"
  say "no network between machines can be made here: nothing is tried"
  exit $SKIPPED
fi
trap 'for host in "${!ADDRESSES[@]}"; do root=$work/$host stop_machine; done' EXIT

check "packages are made" make_packages
check "so are those of a version before" number_down "${WARPSMITH_TEST_BEFORE:-$work/packages}"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
for host in "${!ADDRESSES[@]}"; do make_root "$host"; done
share_folder
make_desk
for host in "${!ADDRESSES[@]}"; do power_on "$host"; done
say "five machines have started"

read_guide
for section in "${sections[@]}"; do
  [[ " ${LATER[*]} $ELSEWHERE " == *" $section "* ]] || follow "$section"
done
for host in "${WORKERS[@]}"; do check "$host works" active "$host" warpsmith-worker@host; done
check "Prometheus reaches all six" eventually are_up

watch
# So that it leads who is on a host with a worker. A restart would be too quick: who starts and finds
# no leader leads at once.
check "the planner on base ends in good order" on base systemctl stop warpsmith-planner
check "another one leads" eventually other_leader base
check "the planner on base is back" on base systemctl start warpsmith-planner
first=$(leader)
check "all are at work" begin 10
check "$first, with the planner that leads, and gpu-3 lose power; another one leads" lose_power "$first" gpu-3
power_on "$first"
check "$first is back by itself" eventually active "$first" warpsmith-planner warpsmith-worker@host
check "all tasks converge, with what gpu-3 had given to others" eventually seen CONVERGED=8
fleet workers
power_on gpu-3
check "gpu-3 is back by itself" eventually active gpu-3 warpsmith-worker@host

check "all are at work" begin 4
follow "Another version"
check "gpu-1 has it" has_version gpu-1 "$(version_of new)"
check "it leads the others" lead gpu-1
check "all are at work for it" begin 4
follow "The version before"
check "gpu-1 has that" has_version gpu-1 "$(version_of packages)"
check "all are at work" begin 4
take_commands docs/guide/day-two.md
follow Certificates day-two
check "planners take them" eventually have_taken_certificates
check "so does the tunnel" on gpu-2 systemctl restart warpsmith-planner
check "all tasks converge" eventually seen CONVERGED=26
touch "$work/desk/witness/end"
wait "$witness" || fail "the witness: $(cat "$work/desk/witness/log")"
check "nothing is lost and nothing there twice" nothing_is_lost
cat "$work/out" "$work/desk/witness/seen"
check "the log is whole" log_is_whole
cat "$work/out"
check "Prometheus reaches all six" eventually are_up
say "passed in $SECONDS s"
