#!/usr/bin/env bash
# docker/: what can be told from reading, and, with WARPSMITH_TEST_CONTAINERS=1, its images built and its
# compose file's services run, by buildah and podman, which need no engine (two to four minutes). Not by
# --thorough: in namespaces of namespaces podman's network does not always come about.
#
#   tests/deploy/containers_test.sh BUILD     BUILD: a build folder of everything, as build/release
#
# The images are made of that build's packages, on a Debian of debootstrap's. What cannot be fetched here
# has stand-ins: Debian's Redis and Prometheus for those of docker.io. Grafana has none, nor has a card.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/deploy/machine.sh
source tests/deploy/machine.sh
# shellcheck source=tests/deploy/testing.sh
source tests/deploy/testing.sh

TOOLS=(buildah podman runc netavark aardvark-dns debootstrap)
# What the images add to Debian.
PLANNER_MIB=100 ALL_IN_ONE_MIB=600
SKIPPED=77

fail() {
  say "FAILED: $*"
  if [ "${WARPSMITH_TEST_INSIDE:-}" = run ]; then show_logs; fi
  exit 1
}

# What it takes to build and run images, and is not here.
lacking() {
  local tool
  [ "$(id -u)" = 0 ] || echo "root's rights"
  for tool in "${TOOLS[@]}"; do
    PATH=$PATH:/usr/sbin:/usr/lib/podman command -v "$tool" >/dev/null || echo "Debian's $tool"
  done
}

# ---- read ----------------------------------------------------------------------------------------

# promtool looks for the files that a configuration names.
prometheus_is_understood() {
  mkdir -p "$work/prometheus/certs"
  cp deploy/prometheus/{rules,alerts}.yml "$work/prometheus/"
  sed "s|/certs/|$work/prometheus/certs/|" docker/prometheus.yml >"$work/prometheus/prometheus.yml"
  touch "$work"/prometheus/certs/{ca.crt,own.pem}
  promtool check config --syntax-only "$work/prometheus/prometheus.yml"
}

# ---- built ---------------------------------------------------------------------------------------

set_up_podman() {
  cat >"$work/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$work/graph"
runroot = "$work/run"
CONF
  # No more than this process may give; crun wants other control groups than some machines have.
  cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
CONF
  export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
}

# As small as debian:bookworm-slim, and with the authorities that this machine believes.
make_base() {
  local root=$work/base
  debootstrap --variant=minbase bookworm "$root"
  cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<CONF
path-exclude /usr/share/doc/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
CONF
  rm -rf "$root"/usr/share/{doc,info,locale,man}/* "$root"/var/{cache/apt,lib/apt/lists,log}/*
  if [ -d /usr/local/share/ca-certificates ]; then
    cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
  fi
  tar -C "$root" --numeric-owner -cf "$work/base.tar" .
  podman import "$work/base.tar" localhost/base
  rm -rf "$root" "$work/base.tar"
}

make_packages() {
  (umask 022 && cd "$build" && cpack -G DEB -B "$work/packages")
  rm -r "$work/packages/_CPack_Packages"
}

image() {
  local name=$1
  shift
  nice buildah bud --isolation chroot --layers --format docker --build-arg BASE=localhost/base \
    --tag "localhost/$name" "$@"
}

of_dockerfile() {
  image "$1" --build-context "packages=$work/packages" --target "$2" --file docker/Dockerfile \
    --ignorefile docker/Dockerfile.dockerignore .
}

# Each with the folder, the user and the command of what it stands for.
make_stand_ins() {
  mkdir -p "$work/nothing"
  cat >"$work/Stand-ins" <<'DOCKERFILE'
ARG BASE
FROM ${BASE} AS redis
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && install -d -o 999 -g 999 /data
WORKDIR /data
FROM ${BASE} AS prometheus
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && install -d -o 65534 -g 65534 /prometheus
USER 65534:65534
ENTRYPOINT ["prometheus"]
DOCKERFILE
  image redis --target redis --file "$work/Stand-ins" "$work/nothing"
  image prometheus --target prometheus --file "$work/Stand-ins" "$work/nothing"
}

mib() { echo $(($(podman image inspect --format '{{.Size}}' "localhost/$1") >> 20)); }

is_small() {
  local more=$(($(mib "$1") - $(mib base)))
  echo "$1: $more MiB over its base"
  [ "$more" -le "$2" ]
}

# ---- run -----------------------------------------------------------------------------------------

export COMPOSE_PROJECT=warpsmith-test

compose() { python3 tests/deploy/compose.py "$@"; }
cli() { compose run cli "" "$@" 2>"$work/cli.err" || { cat "$work/cli.err" >&2; return 1; }; }
inside() { podman exec "$COMPOSE_PROJECT-$1" "${@:2}"; }
healthy() { podman healthcheck run "$COMPOSE_PROJECT-$1"; }
wrote() { podman logs "$COMPOSE_PROJECT-$1" 2>&1 | grep >/dev/null "$2"; }
leads() { inside "$1" warpsmith health --http 127.0.0.1:7480 | grep -x >/dev/null leads; }
show_logs() {
  local container
  for container in $(podman ps -a --format '{{.Names}}'); do
    say "the end of $container's log:"
    podman logs --tail 15 "$container" 2>&1 || true
  done
}

can_run() {
  ip link set lo up
  podman network create "$COMPOSE_PROJECT"
  podman run --rm --network "$COMPOSE_PROJECT" --entrypoint true localhost/warpsmith-planner
}

# As compose would: each when those that it depends on are as it wants them.
start_all() {
  compose run prepare </dev/null
  compose run redis localhost/redis
  eventually healthy redis
  compose run planner-1
  compose run planner-2
  compose run worker-host
  compose run prometheus localhost/prometheus
}
all_are_well() {
  local service
  for service in planner-1 planner-2 worker-host prometheus; do eventually healthy "$service"; done
}

confined() {
  inside "$1" cat /proc/1/status >"$work/status"
  grep -x "Uid:	$2	$2	$2	$2" "$work/status"
  grep -x 'CapBnd:	0000000000000000' "$work/status"
  grep -x 'NoNewPrivs:	1' "$work/status"
  grep -x 'Seccomp:	2' "$work/status"
  not inside "$1" touch /usr/x
}
all_are_confined() {
  local service
  for service in planner-1 planner-2 worker-host; do confined "$service" 7400; done
  confined redis 999
}

keys_are_apart() {
  not inside worker-host openssl version  # nothing there that would read them otherwise
  [ "$(inside worker-host stat -c '%a %u' /certs/own.pem)" = "600 7400" ]
  [ "$(inside worker-host sha256sum /certs/own.pem)" != "$(inside planner-1 sha256sum /certs/own.pem)" ]
  [ "$(inside planner-1 sha256sum /certs/own.pem)" != "$(inside planner-2 sha256sum /certs/own.pem)" ]
  not inside worker-host ls /authority
}

# Whose parent has ended, and who then ends.
reaps() {
  inside worker-host sh -c 'sleep 0.1 & exec true'
  eventually not inside worker-host sh -c 'grep -l "(sleep)" /proc/[0-9]*/stat'
}

submit() {
  cat >"$work/small.json" <<'JSON'
{"name": "small", "version": "1", "problems": [{"name": "swish", "description": "x times its logistic function.",
 "graph": ["input x: f32[R, C] ~ normal", "y: f32[r: R, c: C] = x[r, c] / (1 + exp(-x[r, c]))", "output y"],
 "workloads": [{"name": "default", "dims": {"R": 64, "C": 1000}}]}]}
JSON
  cli submit --seconds "$1" /dev/stdin <"$work/small.json"
}
is_over() { cli runs -o json "$1" | grep >/dev/null '"done": *true'; }
is_queued() { cli runs -o json "$1" | grep >/dev/null '"state": *"QUEUED"'; }
makes_kernel() {
  [ "$(submit 2)" = r1 ]
  eventually is_over r1
  cli show swish --source | grep >/dev/null __global__
}

# Both planners, and the worker by what they say of it.
is_watched() { [ "$(inside prometheus promtool query instant http://127.0.0.1:9090 'up == 1' | wc -l)" = 3 ]; }

renews() {
  local before
  before=$(inside planner-1 sha256sum /certs/own.pem)
  compose run prepare </dev/null
  [ "$before" != "$(inside planner-1 sha256sum /certs/own.pem)" ]
  for service in planner-1 planner-2 worker-host; do eventually healthy "$service"; done
  is_over r1
}

stop() {
  podman stop "$COMPOSE_PROJECT-$1"
  [ "$(podman inspect --format '{{.State.ExitCode}}' "$COMPOSE_PROJECT-$1")" = 0 ]
}

# With a lease in hand.
drains() {
  local run
  run=$(submit 300)
  eventually wrote worker-host "lease $run/"
  stop worker-host
  wrote worker-host 'ended in good order'
  eventually is_queued "$run"
}

is_followed() {
  local first=planner-1 second=planner-2
  if leads planner-2; then first=planner-2 second=planner-1; fi
  stop "$first"
  eventually leads "$second"
  is_over r1
}

# By itself: its own command, as it stands in the Dockerfile.
all_in_one() {
  local name=$COMPOSE_PROJECT-alone
  podman run --detach --name "$name" --network none --read-only --read-only-tmpfs=false --tmpfs /tmp \
    --cap-drop ALL --security-opt no-new-privileges localhost/warpsmith
  eventually podman healthcheck run "$name"
  podman exec --interactive "$name" warpsmith submit --seconds 2 /dev/stdin <"$work/small.json"
  eventually alone_is_over
  stop alone
}
alone_is_over() { inside alone warpsmith runs -o json r1 | grep >/dev/null '"done": *true'; }

# ---- -----------------------------------------------------------------------------------------------

build=$(realpath "$1")
WARPSMITH_TEST_INSIDE=${WARPSMITH_TEST_INSIDE:-}
if [ "$WARPSMITH_TEST_INSIDE" = run ]; then
  work=$WARPSMITH_TEST_WORK
  # A container may have namespaces and yet no bridges, no control groups or no overlay.
  if ! can_run >"$work/probe" 2>&1; then
    tail -n 5 "$work/probe"
    say "no container can be run here: the images are built and not run"
    exit $SKIPPED
  fi
  trap 'compose end >/dev/null 2>&1 || true' EXIT
  check "compose.yml's services start" start_all
  check "each is well, by its own health check" all_are_well
  check "each is its user, without rights or a root to write" all_are_confined
  check "keys are apart" keys_are_apart
  check "what a worker's children leave is taken care of" reaps
  check "a kernel is made" makes_kernel
  check "Prometheus sees planners and worker" eventually is_watched
  check "new certificates are taken while all goes on" renews
  check "a worker that is stopped hands back its lease" drains
  check "a planner that is stopped is followed" is_followed
  check "all in one makes a kernel, and ends when it is told" all_in_one
  exit 0
fi

lacks=$(lacking)
# All mounts that building makes end with this.
if [ -n "${WARPSMITH_TEST_CONTAINERS:-}" ] && [ -z "$lacks$WARPSMITH_TEST_INSIDE" ]; then
  WARPSMITH_TEST_INSIDE=build exec unshare --mount --propagation private "$0" "$@"
fi
work=$(mktemp -d /var/tmp/warpsmith_containers_XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
check "compose.yml keeps the rules, and programs know its flags" \
  python3 tests/deploy/compose.py check "$build/bin"
check "scripts are clean" shellcheck -x docker/prepare.sh tests/deploy/containers_test.sh
check "its Prometheus is understood" prometheus_is_understood
[ -n "${WARPSMITH_TEST_CONTAINERS:-}" ] || exit 0
if [ -n "$lacks" ]; then
  say "no image is built here, for want of ${lacks//$'\n'/, }"
  exit $SKIPPED
fi
set_up_podman
check "a base is made" make_base
check "packages are made" make_packages
check "the planner's image is built" of_dockerfile warpsmith-planner planner
check "the worker's image is built" of_dockerfile warpsmith-worker worker
check "the image of all in one is built" of_dockerfile warpsmith all-in-one
check "stand-ins are made" make_stand_ins
say "MiB: planner $(mib warpsmith-planner), worker $(mib warpsmith-worker), all in one $(mib warpsmith), base $(mib base)"
check "the planner's image is small" is_small warpsmith-planner $PLANNER_MIB
check "the image of all in one is not too large" is_small warpsmith $ALL_IN_ONE_MIB
WARPSMITH_TEST_INSIDE=run WARPSMITH_TEST_WORK=$work \
  setpriv --pdeathsig KILL unshare --net --pid --fork --kill-child --mount --mount-proc "$0" "$@"
say "passed"
