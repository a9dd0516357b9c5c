#!/usr/bin/env bash
# Makes Debian packages in dist/: warpsmith (the command), warpsmith-planner, warpsmith-worker.
#
#   scripts/deb.sh [PRESET]        PRESET: release (default)
#
# They fit the Debian release that they are made on, and are numbered by the commit, so that apt knows
# which is later. docs/guide/install.md says what to do with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
umask 022  # folders of a package are made with it

PROGRAMS=(warpsmith warpsmith-planner warpsmith-worker warpsmith-judge warpsmith-compile warpsmith_clock)

preset=${1:-release}
build=build/$preset

scripts/install-deps.sh
mkdir -p build
suffix=
if commit=$(git rev-parse --short HEAD 2>/dev/null); then suffix=+$(git rev-list --count HEAD).$commit; fi
cmake --preset "$preset" -D WARPSMITH_PACKAGE_SUFFIX="$suffix" >"$build.configure.log" 2>&1 ||
  { cat "$build.configure.log" >&2; exit 1; }
cmake --build "$build" --target "${PROGRAMS[@]}"
rm -f dist/warpsmith*.deb  # of other commits
(cd "$build" && cpack -G DEB -B "$OLDPWD/dist")
rm -rf dist/_CPack_Packages
