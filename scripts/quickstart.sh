#!/usr/bin/env bash
# From a fresh Debian 12 to faster kernels: installs, builds, starts a planner and two workers with
# an embedded store, makes the starter problems faster, and shows what came of it.
#
#   scripts/quickstart.sh [--dir DIR] [--device auto|host|cuda] [--seconds N] [--problems FILE] [--python PATH]
#
#   --dir       where the state goes (default: ~/.local/share/warpsmith); what is there is kept
#   --device    default: host, the processor, so that it is the same everywhere
#   --seconds   device time for each workload of each problem (default: 3)
#   --python    a Python with PyTorch, for problems that came from it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=${XDG_DATA_HOME:-$HOME/.local/share}/warpsmith
device=host
seconds=3
problems=problems/starter.json
python=
while [ $# -gt 0 ]; do
  case $1 in
    --dir | --device | --seconds | --problems | --python)
      [ $# -ge 2 ] || { echo "quickstart: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "quickstart: unknown argument '$1'; --help lists them" >&2; exit 2 ;;
  esac
done

scripts/install-deps.sh
mkdir -p build
cmake --preset release >build/release.configure.log 2>&1 || { cat build/release.configure.log >&2; exit 1; }
cmake --build build/release --target warpsmith warpsmith-planner warpsmith-worker

warpsmith() { build/release/bin/warpsmith --dir "$dir" "$@"; }
flags=(--device "$device")
[ "$device" != host ] || flags+=(--workers 2)
[ -z "$python" ] || flags+=(--python "$python")
warpsmith up --detach "${flags[@]}"
trap 'warpsmith down' EXIT
run=$(warpsmith submit --seconds "$seconds" "$problems")
warpsmith watch "$run" || [ $? -eq 5 ]  # 5: a problem had to be given up; the table says which

out=$dir/export/$run
echo
echo "board:   $(warpsmith board --path)"
echo "kernels: $out"
warpsmith export "$run" --format plain --out "$out" | sed 's/^/  /'

where=
[ "$dir" = "${XDG_DATA_HOME:-$HOME/.local/share}/warpsmith" ] || where=" --dir $dir"
cat <<EOF

All of it is kept. To look closer:
  export PATH=$PWD/build/release/bin:\$PATH
  warpsmith$where up --detach --workers 0
  warpsmith$where show batch_norm:large
  warpsmith$where down
EOF
