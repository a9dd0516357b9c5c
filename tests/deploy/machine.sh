# A throw-away machine for tests, to be sourced: a root of its own, and a systemd of its own as its
# process 1, in namespaces of this machine. It has no network but its loopback. Root alone makes one;
# who calls has a mount namespace of its own (unshare --mount), with which all of it goes.
#
#   root_of_this /tmp/x/root     # this machine's files; what is written goes to memory
#   root_of_debian /tmp/x/root   # a fresh Debian, from the network: a minute
#   in_root COMMAND...           # before it has started, with this machine's network
#   start_machine
#   machine systemctl status     # a command in it
#   stop_machine
# shellcheck shell=bash

CLEAN_ENVIRONMENT=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER=cat)

root_of_this() {
  root=$1
  mkdir -p "$root"
  local layers
  layers=$(mktemp -d "$(dirname "$root")/layers_XXXXXX")
  mount -t tmpfs tmpfs "$layers"
  mkdir "$layers/upper" "$layers/work"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" "$root"
  : >"$root/etc/fstab"
  prepare_root
}

root_of_debian() {
  root=$1
  mkdir -p "$root"
  debootstrap --variant=minbase --include=systemd,systemd-sysv bookworm "$root" >"$root.log" 2>&1 ||
    { tail "$root.log"; return 1; }
  mount --bind "$root" "$root"
  prepare_root
}

# What a kernel shows, as far as services look at it.
prepare_root() {
  local device
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/run"
  mount -t tmpfs tmpfs "$root/tmp"
  mount -t tmpfs tmpfs "$root/dev"
  for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root/dev/shm" "$root/dev/pts"
  mount -t tmpfs tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  cp --remove-destination "$(realpath /etc/resolv.conf)" "$root/etc/resolv.conf"
}

in_root() { chroot "$root" "${CLEAN_ENVIRONMENT[@]}" "$@"; }

start_machine() {
  cgroups=$root.cgroups
  mkdir -p "$cgroups"
  mount -t cgroup2 cgroup2 "$cgroups"
  group=$cgroups/warpsmith-test-$$
  mkdir "$group"
  # Its own proc and sys are those of its namespaces. `basic`: none of the services that the root it
  # was made of may have. It dies with who started it.
  # shellcheck disable=SC2016
  bash -c 'echo $$ >"$1/cgroup.procs" && exec setpriv --pdeathsig KILL \
    unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup --propagation private \
    bash -ec "
      cd \"$2\"
      mount -t proc proc proc
      mount -t sysfs -o ro sysfs sys
      mount -t cgroup2 cgroup2 sys/fs/cgroup
      exec chroot . env -i container=test /lib/systemd/systemd --system --unit=basic.target"' \
    - "$group" "$root" >"$root.console" 2>&1 &
  keeper=$!
  eventually has_started || { cat "$root.console"; return 1; }
}

has_started() {
  init=$(cat "/proc/$keeper/task/$keeper/children") && init=${init%% *} &&
    [ -n "$init" ] && machine systemctl is-system-running 2>&1 | grep -xE >/dev/null 'running|degraded'
}

machine() {
  nsenter --target "$init" --mount --pid --uts --ipc --net --cgroup --root --wd=/ \
    "${CLEAN_ENVIRONMENT[@]}" "$@"
}

stop_machine() {
  [ -n "${keeper:-}" ] || return 0
  kill -KILL "$init" "$keeper" 2>/dev/null || true
  wait "$keeper" 2>/dev/null || true
  eventually find "$group" -depth -type d -exec rmdir {} + || true
}

# Until the command succeeds; after half a minute it has failed.
eventually() {
  local deadline=$((SECONDS + 30))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.2
  done
}
