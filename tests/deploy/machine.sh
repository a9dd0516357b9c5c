# Throw-away machines for tests, to be sourced: each has a root of its own, and a systemd of its own as
# its process 1, in namespaces of this machine. Root alone makes one; who calls has a mount namespace of
# its own (unshare --mount), with which all of it goes.
#
#   root_of_this /tmp/x/root     # this machine's files; what is written goes to memory
#   root_of_debian /tmp/x/root   # a fresh Debian, from the network: a minute
#   in_root COMMAND...           # before it has started, with this machine's network
#   start_machine
#   machine systemctl status     # a command in it
#   stop_machine
#
# `root` says which machine is meant. It has no network but its loopback, unless there is a switch in the
# network namespace of who calls (which has one of its own then, too):
#
#   make_switch
#   address=10.7.4.2/24 start_machine
#   cut_power                    # at once, and nobody is told; start_machine brings it back
#
# `target` is what its systemd starts; basic.target, which has no services, if not given.
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
  local folder cgroups=$root.cgroups
  # What it had in memory before is gone with the power.
  for folder in run tmp dev/shm; do
    umount "$root/$folder"
    mount -t tmpfs tmpfs "$root/$folder"
  done
  mkdir -p "$cgroups"
  mountpoint -q "$cgroups" || mount -t cgroup2 cgroup2 "$cgroups"
  group=$cgroups/warpsmith-test-$$-$(basename "$root")
  mkdir -p "$group"
  : >"$root.net"
  unshare --net="$root.net" true
  if [ -n "${address:-}" ]; then plug_in; fi
  # Its own proc and sys are those of its namespaces, and its root that of its mounts, or services with
  # users of their own would not start. It dies with who started it.
  # shellcheck disable=SC2016
  bash -c 'echo $$ >"$1/cgroup.procs" && exec setpriv --pdeathsig KILL nsenter --net="$2.net" \
    unshare --pid --fork --kill-child --mount --uts --ipc --cgroup --propagation private \
    bash -ec "
      cd \"$2\"
      mount -t proc proc proc
      mount -t sysfs -o ro sysfs sys
      mount -t cgroup2 cgroup2 sys/fs/cgroup
      pivot_root . .
      umount --lazy .
      exec env -i container=test /lib/systemd/systemd --system --unit=$3"' \
    - "$group" "$root" "${target:-basic.target}" >"$root.console" 2>&1 &
  echo $! >"$root.keeper"
  disown  # nobody is told that it was killed
  eventually has_started || { cat "$root.console"; return 1; }
}

has_started() {
  local keeper init
  keeper=$(cat "$root.keeper") && init=$(cat "/proc/$keeper/task/$keeper/children") && init=${init%% *} &&
    [ -n "$init" ] && echo "$init" >"$root.init" && machine systemctl is-active basic.target
}

machine() {
  nsenter --target "$(cat "$root.init")" --mount --pid --uts --ipc --net --cgroup --root --wd=/ \
    "${CLEAN_ENVIRONMENT[@]}" "$@"
}

stop_machine() {
  [ -e "${root:-}.keeper" ] || return 0
  local keeper group
  keeper=$(cat "$root.keeper")
  group=$root.cgroups/warpsmith-test-$$-$(basename "$root")
  kill -KILL "$(cat "$root.init")" "$keeper" 2>/dev/null || true
  rm -f "$root.keeper" "$root.init"
  umount "$root.net"
  # When all of it has ended.
  eventually find "$group" -depth -type d -exec rmdir {} + || true
}

make_switch() {
  ip link add name switch type bridge
  ip link set switch up
}

# Of the machine that is about to start. Its end is called eth0, ours as its root.
plug_in() {
  local port
  port=$(basename "$root")
  nsenter --net="$root.net" ip link add name eth0 type veth peer name "$port" netns $$
  ip link set "$port" master switch up
  nsenter --net="$root.net" ip address add "$address" dev eth0
  nsenter --net="$root.net" ip link set eth0 up
}

# Nothing leaves it any more that would say that it is gone.
cut_power() {
  ip link delete "$(basename "$root")"
  stop_machine
}

# Until the command succeeds; after so many seconds it has failed.
patience=30
eventually() {
  local deadline=$((SECONDS + patience))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.2
  done
}
