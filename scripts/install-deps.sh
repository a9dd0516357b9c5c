#!/usr/bin/env bash
# Installs what Warpsmith is built with, from Debian 12. Idempotent, and quick when
# nothing is missing.
#
#   scripts/install-deps.sh           the packages to build and run
#   scripts/install-deps.sh --tests   also what moves the clock in tests, a Redis server, stunnel, haproxy and
#                                     a Slurm (each test starts its own), what packages are tried with,
#                                     and Pythons of their own: under .cache/venv PyTorch and NVRTC, which
#                                     the tests of import and of device code use, under .cache/tools
#                                     what Grafana's dashboards are made with, and Kubernetes' schemas
#
# WARPSMITH_PYTHON=/path/to/python names an interpreter that has them already. The one in use is
# written to .cache/python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(
  ca-certificates cmake ninja-build g++ ccache pkg-config patchelf dpkg-dev clang-format
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libsqlite3-dev libspdlog-dev libfmt-dev libcli11-dev libboost-context-dev
  libssl-dev libhiredis-dev libcpp-httplib-dev prometheus-cpp-dev libzstd-dev zlib1g-dev libxxhash-dev libgoogle-perftools-dev nlohmann-json3-dev catch2 python3 python3-venv
)
TEST_PACKAGES=(adduser chromium curl debootstrap haproxy iproute2 munge openssh-server procps shellcheck slurm-wlm systemd libfaketime redis-server
  stunnel4 openssl prometheus python3-yaml)
PYTHON_PACKAGES=(torch==2.13.0 nvidia-cuda-nvrtc==13.0.88 numpy)
# Typed builders of Grafana's dashboards (what stands before ! is when they were published), and Kubernetes'
# schemas. They have a Python of their own: that of PyTorch may be somebody's, who lets nothing be added to it.
TOOLS_PACKAGES=('grafana-foundation-sdk==1769699998!10.1.0' 'kubernetes-validate==1.37.0')
# The processor's build of PyTorch; the default one brings gigabytes of CUDA.
TORCH_INDEX=https://download.pytorch.org/whl/cpu

say() { echo "install-deps: $*" >&2; }

missing() {
  local package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      echo "$package"
  done
}

install_packages() {
  local wanted
  mapfile -t wanted < <(missing)
  if [ ${#wanted[@]} -eq 0 ]; then
    say "all ${#PACKAGES[@]} packages are present"
    return
  fi
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here; install by hand: ${wanted[*]}"
    exit 1
  fi
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "not root and no sudo; as root: apt-get install ${wanted[*]}"; exit 1; }
    root=(sudo)
  fi
  say "installing ${wanted[*]}"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
}

# Does this interpreter have what the tests need?
python_serves() {
  "$1" - >/dev/null 2>&1 <<'PY'
import glob, os, sys
import numpy, torch, nvidia
version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
nvrtc = [f for root in nvidia.__path__
         for f in glob.glob(os.path.join(root, "**", "libnvrtc.so*"), recursive=True)]
sys.exit(0 if version >= (2, 8) and nvrtc else 1)
PY
}

install_python() {
  mkdir -p .cache
  local python
  for python in "${WARPSMITH_PYTHON:-}" .cache/venv/bin/python python3; do
    [ -n "$python" ] || continue
    if command -v "$python" >/dev/null && python_serves "$python"; then
      command -v "$python" | xargs realpath --no-symlinks >.cache/python
      say "PyTorch and NVRTC: $(cat .cache/python)"
      return
    fi
    if [ "$python" = "${WARPSMITH_PYTHON:-}" ]; then
      say "WARPSMITH_PYTHON=$python lacks one of: ${PYTHON_PACKAGES[*]} (PyTorch 2.8 or newer will do)"
      exit 1
    fi
  done
  say "making .cache/venv with ${PYTHON_PACKAGES[*]} (some minutes, once)"
  [ -x .cache/venv/bin/python ] || python3 -m venv .cache/venv
  local index=()
  if python3 -c "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=10)" \
    "$TORCH_INDEX/torch/" 2>/dev/null; then
    index=(--extra-index-url "$TORCH_INDEX")
  fi
  .cache/venv/bin/python -m pip install --quiet --disable-pip-version-check \
    "${index[@]}" "${PYTHON_PACKAGES[@]}"
  python_serves .cache/venv/bin/python || { say "the new .cache/venv does not work; remove it and try again"; exit 1; }
  realpath --no-symlinks .cache/venv/bin/python >.cache/python
}

install_tools() {
  local python=.cache/tools/bin/python missing=() package there
  there=$("$python" -m pip freeze --disable-pip-version-check 2>/dev/null | tr _ -) || there=
  for package in "${TOOLS_PACKAGES[@]}"; do
    grep -Fx "$package" <<<"$there" >/dev/null || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "tools for tests: $python"
    return
  fi
  say "making .cache/tools with ${missing[*]}"
  [ -x "$python" ] || python3 -m venv .cache/tools
  "$python" -m pip install --quiet --disable-pip-version-check "${missing[@]}"
}

case "${1:-}" in
  "") install_packages ;;
  --tests) PACKAGES+=("${TEST_PACKAGES[@]}"); install_packages; install_python; install_tools ;;
  *) say "unknown argument '$1'; see the top of this file"; exit 2 ;;
esac
