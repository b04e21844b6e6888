#!/usr/bin/env bash
# Installs what tollgate-bench measures Tollgate beside, from Debian's packages. Their services are
# not started: the harness runs servers of its own.
set -euo pipefail
if [ "${1:-}" != install ]; then
	echo "usage: bench/peers.sh install    (as root)" >&2
	exit 2
fi
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update -qq
apt-get install -y -qq --no-install-recommends \
	redis-server redis-tools postgresql postgresql-contrib etcd-server etcd-client
