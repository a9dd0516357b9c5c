#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. The last line is `N passed, N failed`: test
# cases, not binaries. Exit status 0 only if none failed.
#
#   scripts/test.sh [--thorough] [PRESET] [ctest arguments]
#
# PRESET: release (default), dev, asan, tsan. --thorough: 3,000 random graphs instead of some hundred,
# packages on a fresh Debian, and a fleet on four machines of its own, too; a quarter of an hour to half an hour more on two processors.
# WARPSMITH_TEST_THOROUGH=1 (set by it): cases that take a sample otherwise take everything.
# WARPSMITH_TEST_CONTAINERS=1 with tests/deploy/containers_test.sh build/release: images are built and run.
# WARPSMITH_FAULTS=500 with build/release/bin/e2e_faults_test 'planner*': so many kills and stops of
# processes and faults of their network, some eleven a minute; WARPSMITH_SEEDS=1-3000 with
# planner_simulation_test: those seeds; WARPSMITH_FLEET=10000x100000 beside it: of so many workers and
# tasks.
# WARPSMITH_PYTHON names an interpreter with PyTorch and NVRTC (see scripts/install-deps.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=600
if [[ "${1:-}" == --thorough ]]; then
  shift
  limit=1500
  export WARPSMITH_TEST_THOROUGH=1 WARPSMITH_PROPERTY_GRAPHS=3000 WARPSMITH_PROPERTY_PROCESSES=2
fi
preset=release
case "${1:-}" in release | dev | asan | tsan) preset=$1; shift ;; esac
build=build/$preset

# Whatever stops us before the tests is one failure.
trap 'echo "0 passed, 1 failed"' ERR
scripts/install-deps.sh --tests
WARPSMITH_PYTHON=$(cat .cache/python)
export WARPSMITH_PYTHON
mkdir -p build
cmake --preset "$preset" >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; false; }
cmake --build "$build"
trap - ERR

tally=$(mktemp -d)
trap 'rm -rf "$tally"' EXIT
mkdir "$tally/cases"
WARPSMITH_TEST_TALLY=$tally/cases ctest --test-dir "$build" -j2 --timeout "$limit" --output-on-failure \
  --output-junit "$tally/junit.xml" "$@" || true
python3 scripts/tally.py "$tally"
