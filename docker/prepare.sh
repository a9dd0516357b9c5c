#!/usr/bin/env bash
# Makes what docker/compose.yml's services need in their volumes: an authority, a certificate for each,
# and folders that belong to them. Run again it issues new certificates, which take the place of the
# last without a restart:
#
#   docker compose -f docker/compose.yml run --rm prepare
set -euo pipefail
umask 022

WARPSMITH_USER=7400 REDIS_USER=999 PROMETHEUS_USER=65534
authority=/authority/certs

certs() { warpsmith certs --certs "$authority" "$@" >/dev/null; }

# identity NAME FOLDER USER ROLE [HOST...]
identity() {
  local name=$1 folder=/certs/$2 user=$3 role=$4 hosts=()
  shift 4
  while [ $# -gt 0 ]; do hosts+=(--host "$1"); shift; done
  if [ -e "$authority/$name.pem" ]; then
    certs rotate "$name" "${hosts[@]}"
  else
    certs issue "$name" --role "$role" "${hosts[@]}"
  fi
  place ca.crt "$folder/ca.crt" 644 0
  place crl.pem "$folder/crl.pem" 644 0
  place "$name.pem" "$folder/own.pem" 600 "$user"
}

# At once, so that nobody reads half of it.
place() {
  install -m "$3" -o "$4" -g "$4" "$authority/$1" "$2.new"
  mv "$2.new" "$2"
}

if [ ! -e "$authority/ca.crt" ]; then certs init; fi
for planner in planner-1 planner-2; do
  identity "$planner" "$planner" $WARPSMITH_USER planner "$planner"
done
identity fleet worker $WARPSMITH_USER worker worker-cuda0 worker-host
identity prometheus prometheus $PROMETHEUS_USER reader
identity operator operator $WARPSMITH_USER operator
# Redis makes its socket there, planners open it.
install -d -m 750 -o $REDIS_USER -g $WARPSMITH_USER /volumes/redis-socket
install -d -m 750 -o $WARPSMITH_USER -g $WARPSMITH_USER /volumes/shared
echo "prepare: certificates are in place until $(date -d '+90 days' +%F)"
