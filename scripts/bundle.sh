#!/usr/bin/env bash
# Makes dist/warpsmith: a folder that can be copied to a machine with nothing installed (Ubuntu 24.04
# or Debian 12, x86-64) and run from anywhere.
#
#   scripts/bundle.sh [PRESET]        PRESET: release (default)
#
#   bin/       the programs, stripped
#   lib/       every shared library they need but the C library's own and the NVIDIA driver's
#   python/    warpsmith_torch, for import and the PyTorch oracle
#   problems/  the problem sets
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PROGRAMS=(warpsmith warpsmith-planner warpsmith-worker warpsmith-judge warpsmith-compile)
# The C library belongs to the machine, as does the driver, which is loaded at run time.
OF_THE_MACHINE='^(ld-linux.*|libc|libm|libpthread|libdl|librt|libresolv|libutil|libcuda|libnvidia.*)\.so'
MAX_MIB=50

preset=${1:-release}
build=build/$preset
out=dist/warpsmith

scripts/install-deps.sh
mkdir -p build
cmake --preset "$preset" >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; exit 1; }
cmake --build "$build" --target "${PROGRAMS[@]}" warpsmith_clock

rm -rf "$out"
mkdir -p "$out"/{bin,lib,python,problems}
for program in "${PROGRAMS[@]}"; do
  install -m 755 "$build/bin/$program" "$out/bin/"
  # name => path, of what it needs directly or through another library
  ldd "$build/bin/$program" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}'
done | sort -u | while read -r name path; do
  [[ $name =~ $OF_THE_MACHINE ]] || install -m 644 "$path" "$out/lib/$name"
done
missing=$(for program in "${PROGRAMS[@]}"; do ldd "$build/bin/$program"; done | grep 'not found' || true)
[ -z "$missing" ] || { echo "bundle: not found: $missing" >&2; exit 1; }

install -m 755 "$build/bin/libwarpsmith_clock.so" "$out/bin/"  # loaded by the PyTorch oracle
strip --strip-unneeded "$out"/bin/* "$out"/lib/*
# RPATH, not RUNPATH, on the programs: it also holds for what their libraries need. What is loaded
# at run time (the driver, NVRTC) finds its own.
for program in "${PROGRAMS[@]}"; do
  # shellcheck disable=SC2016
  patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$out/bin/$program"
done
cp -r python/warpsmith_torch "$out/python/"
find "$out/python" -name __pycache__ -prune -exec rm -rf {} +
cp problems/*.json "$out/problems/"
cp LICENSE README.md "$out/"

"$out/bin/warpsmith" version >/dev/null
mib=$(du -sm --apparent-size "$out" | cut -f1)
echo "bundle: $out, $mib MiB, $(find "$out/lib" -type f | wc -l) libraries" >&2
[ "$mib" -le "$MAX_MIB" ] || { echo "bundle: more than $MAX_MIB MiB" >&2; exit 1; }
