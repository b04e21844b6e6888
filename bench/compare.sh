#!/usr/bin/env bash
# Compares the benchmarks of engine and log with those of an earlier commit, by ratio: times that were
# stored another day, or on another machine, say nothing. Both are built first, and run in turns.
#
#	bench/compare.sh [COMMIT]    (default: the commit in bench/baseline)
#	ROUNDS=6 THRESHOLD=0.03 TIME=200ms PACKAGES="engine/wire wal"
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(cat bench/baseline)}
rounds=${ROUNDS:-6} threshold=${THRESHOLD:-0.03} time=${TIME:-200ms}
packages=${PACKAGES:-engine/billing engine/journal engine/wire engine/decimal engine/price wal}
# Not among them: what builds a million customers, and other stores than ours.
pattern='^Benchmark(ApplyUsage|Check|Seal|Append|Decode|Encode|Parse|Arithmetic|Rating|StoreLogs|GetLog)$'
others='^Benchmark(ApplyUsage|Check)$/^1000000|^BenchmarkStoreLogs$/^(boltdb|bare)$'

git rev-parse --verify --quiet "$base^{commit}" > /dev/null || {
	echo "bench-compare: no commit $base here (git fetch --unshallow?)" >&2
	exit 1
}
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/tree" > /dev/null 2>&1 || true; rm -rf "$folder"' EXIT
git worktree add --quiet --detach "$folder/tree" "$base"

for side in old new; do
	mkdir "$folder/$side"
	for package in $packages; do
		tree=.
		[ $side = new ] || tree=$folder/tree
		(cd "$tree" && go test -c -o "$folder/$side/${package//\//-}" "./$package")
	done
done
for round in $(seq "$rounds"); do
	echo "round $round of $rounds" >&2
	sides="old new"
	[ $((round % 2)) = 1 ] || sides="new old"
	for package in $packages; do
		for side in $sides; do
			(cd "$package" && "$folder/$side/${package//\//-}" -test.run '^$' -test.bench "$pattern" \
				-test.skip "$others" -test.benchtime "$time" -test.benchmem -test.cpu 1) >> "$folder/$side.txt"
		done
	done
done
benchstat="go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"
$benchstat "old=$folder/old.txt" "new=$folder/new.txt"
$benchstat -format csv "old=$folder/old.txt" "new=$folder/new.txt" > "$folder/table.csv" 2> /dev/null
go run -C bench/load ./tollgate-bench regressions --threshold "$threshold" "$folder/table.csv"
