# What the tests of this folder have in common, to be sourced beside machine.sh. Who sources it defines
# `fail`, which says what went wrong and ends the test.
# shellcheck shell=bash

namespaces=(--mount)  # of the test's own

say() { echo "$(basename "$0" .sh): $*"; }

# `check WHAT COMMAND...` fails where a line of the command does, and shows what that wrote. It is
# called by itself and in a shell of its own: in a condition `set -e` says nothing.
check() {
  local what=$1 status began=$SECONDS
  shift
  set +e
  (
    exec 9>"$work/trace"
    BASH_XTRACEFD=9
    set -ex
    "$@"
  ) >"$work/out" 2>&1
  status=$?
  set -e
  [ $status = 0 ] || { tail -n 5 "$work/trace"; cat "$work/out"; fail "$what"; }
  say "ok: $what ($((SECONDS - began)) s)"
}
not() { if "$@"; then return 1; fi; }

# Lines of a tool and the package that has it.
need_tools() {
  local tool package
  while read -r tool package; do
    PATH=$PATH:/usr/sbin:/lib/systemd command -v "$tool" >/dev/null ||
      fail "no $tool here: install Debian's $package (scripts/install-deps.sh --tests does)"
  done
}

# Runs the test once more, as root in namespaces of its own, which go with it; `$work` is a folder that
# does, too. WARPSMITH_TEST_INSIDE is `machine` there, or `static` where there are no namespaces.
enter() {
  build=$(realpath "$1")
  if [ -z "${WARPSMITH_TEST_INSIDE:-}" ]; then
    WARPSMITH_TEST_WORK=$(mktemp -d "/var/tmp/warpsmith_$(basename "$0" .sh)_XXXXXX")
    export WARPSMITH_TEST_WORK
    trap 'rm -rf --one-file-system "$WARPSMITH_TEST_WORK"' EXIT
    if [ "$(id -u)" = 0 ] && unshare --mount --pid --fork --net true 2>/dev/null; then
      WARPSMITH_TEST_INSIDE=machine setpriv --pdeathsig KILL \
        unshare "${namespaces[@]}" --propagation private "$0" "$@"
    else
      say "not root, or without namespaces: nothing is installed or started"
      WARPSMITH_TEST_INSIDE=static "$0" "$@"
    fi
    exit
  fi
  work=$WARPSMITH_TEST_WORK
}

# A container may have namespaces and yet no overlay, no control groups or no systemd as process 1.
can_have_machines() {
  if ! (root_of_this "$work/probe" && start_machine && stop_machine) >"$work/probe.out" 2>&1; then
    tail -n 20 "$work/probe.out"
    say "no machine can be made here: nothing is installed or started"
    return 1
  fi
}

make_packages() {
  (umask 022 && cd "$build" && cpack -G DEB -B "$work/packages")
  rm -r "$work/packages/_CPack_Packages"
}
