#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the library in every variant and runs the tests on each, under each backend where that
# makes sense; ends with a table.
#
#	tests/matrix.sh [-l] [-k PATTERN] [-j JOBS] [-L LABELS]
#
#	-l  names the cells and does nothing     -L  labels to run (contract|unit|fire)
#	-k  only cells whose name matches        -j  build jobs (2)
#
# In the cells `inject` threads are held up at the injection points (src/base/inject.h), as
# SLUB_INJECT says (rate=100).
#
# SLUB_TEST_SCALE (default 0.1 here) is the share of each fire program's usual work.  Exit status:
# 0 all passed, 1 something failed, 2 bad use.

set -u
cd "$(dirname "$0")/.." || exit 2

jobs=2
labels='contract|unit|fire'
pattern=.
list_only=no
export SLUB_TEST_SCALE=${SLUB_TEST_SCALE:-0.1}
unset SLUB_FASTPATH SLUB_OPTIONS LD_PRELOAD

usage()
{
	sed -n 's/^#\t//p' "$0" >&2
	exit 2
}

while getopts lk:j:L: option; do
	case $option in
	l) list_only=yes ;;
	k) pattern=$OPTARG ;;
	j) jobs=$OPTARG ;;
	L) labels=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || usage

# variant | cmake options | backends (- : the tests choose) | tests to leave out
variants='
layout-aligned64||rseq thread tid lock|
layout-inner56|-DSLUB_LAYOUT=inner56|rseq thread tid lock|fire.limits
layout-lock56|-DSLUB_LAYOUT=lock56|rseq thread tid lock|fire.limits
up|-DSLUB_SMP=OFF|rseq thread tid lock|fire.limits_cpuset
assert|-DSLUB_ASSERT=2|rseq thread tid lock|fire.limits
tsan|-DSLUB_TSAN=ON|-|contract|fire
asan|-DSLUB_ASAN=ON|-|contract|fire
inject|-DSLUB_INJECT=ON|rseq thread tid lock|fire.[ls]i|unit|fire
'

declare -a rows=()
failed=0
logs=build/matrix-logs
started=$SECONDS

# row CELL STATUS PASSED FAILED SKIPPED SECONDS
row()
{
	rows+=("$(printf '%-28s %-7s %6s %6s %7s %6s' "$@")")
	echo "${rows[-1]}"
}

# Builds a variant; its log stays in build/matrix-logs.
build_variant()
{
	local name=$1 options=$2 log=$logs/$1-build.log targets=

	# Under a sanitizer only programs that call the library by other names make sense.
	[[ $options =~ TSAN|ASAN ]] && targets='--target fire_churn fire_threads'
	[[ $options =~ ASAN ]] && targets+=' reclaim_storm_asan'
	[ "$labels" = unit ] && targets='--target unit_tests'
	# shellcheck disable=SC2086 # options and targets are words
	cmake -S . -B "build/matrix-$name" -DSLUB_BUILD_TESTS=ON $options >"$log" 2>&1 &&
		cmake --build "build/matrix-$name" -j "$jobs" $targets >>"$log" 2>&1
}

# run_cell CELL DIRECTORY LABELS EXCLUDE: one ctest run, counted from its output.
run_cell()
{
	local cell=$1 directory=$2 wanted=$3 exclude=$4
	local log=$logs/$cell.log before=$SECONDS passed bad skipped status=pass

	ctest --test-dir "$directory" -L "^($wanted)\$" -E "^(tidy|${exclude:-none})" \
		--output-on-failure >"$log" 2>&1
	passed=$(grep -cE 'Test +#.* Passed ' "$log")
	skipped=$(grep -cE 'Test +#.*\*\*\*Skipped' "$log")
	bad=$(grep -cE 'Test +#.*\*\*\*(Failed|Timeout|Exception|Not Run)' "$log")
	if [ "$bad" -gt 0 ]; then
		status=FAIL
		failed=1
	elif [ "$passed" -eq 0 ]; then
		status=EMPTY
		failed=1
	fi
	row "$cell" "$status" "$passed" "$bad" "$skipped" $((SECONDS - before))
	[ "$bad" -eq 0 ] || failures "$log"
}

# failures LOG: what failed in it, each with the first of what it printed.
failures()
{
	grep -E 'Test +#.*\*\*\*(Failed|Timeout|Exception|Not Run)' "$1" |
		sed -E 's/.*: ([^ ]+) .*\*\*\*([A-Za-z ]+[a-z]).*/    \1: \2/'
	grep -E -A 6 'Failure$|^BUG|[Aa]ssert|^ERROR|^WARNING' "$1" | head -n 40 | sed 's/^/    | /'
}

# run_variant NAME OPTIONS BACKENDS EXCLUDE LABELS
run_variant()
{
	local name=$1 options=$2 backends=$3 exclude=$4 wanted=$5 cell backend built=no

	for backend in $backends; do
		cell=$name
		[ "$backend" = - ] || cell=$name-$backend
		[[ $cell =~ $pattern ]] || continue
		[ "$name" != inject ] || export SLUB_INJECT=${SLUB_INJECT:-rate=100}
		if [ $list_only = yes ]; then
			echo "$cell"
			continue
		fi
		if [ $built = no ]; then
			built=yes
			if ! build_variant "$name" "$options"; then
				failed=1
				row "$name" BUILD - - - -
				tail -n 5 "$logs/$name-build.log"
				return
			fi
		fi
		if [ "$backend" = - ]; then
			run_cell "$cell" "build/matrix-$name" "$wanted" "$exclude"
		else
			SLUB_FASTPATH=$backend run_cell "$cell" "build/matrix-$name" \
				"$wanted" "$exclude"
		fi
	done
}

mkdir -p $logs
while IFS='|' read -r name options backends exclude only; do
	[ -n "$name" ] && run_variant "$name" "$options" "$backends" "$exclude" "${only:-$labels}"
done <<<"$variants"
[ $list_only = yes ] && exit 0

printf '\n%-28s %-7s %6s %6s %7s %6s\n' variant-backend result passed failed skipped seconds
printf '%s\n' "${rows[@]}"
echo "logs: $logs; $((SECONDS - started)) seconds in all"
exit $failed
