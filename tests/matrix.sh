#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the library in every variant and runs the tests on each: under each backend where that
# makes sense, and in the modes of restartable sequences.  Ends with a table, and with what tests of
# these cells have skipped, by reason.
#
#	tests/matrix.sh [-lr] [-k PATTERN] [-j JOBS] [-t TESTS] [-L LABELS]
#
#	-l  names the cells and does nothing     -L  labels to run (contract|unit|fire)
#	-k  only cells whose name matches        -j  build jobs (2)
#	-r  goes on with an earlier run          -t  tests at once (1)
#
# With -r a cell that passed in an earlier run with the same labels and scale is not run again: its
# row comes from build/matrix-logs/results, which gets a line after each cell.  The last column is
# the commit that was tested, with a + if files differed from it.
#
# The cells `mode-A` to `mode-G` run all tests under tests/fire/modes/with_mode, but those that
# make a mode of their own or need what the mode takes away.
#
# In the cell `clang` the library and all C of the tests are clang's; where there is none, it is
# skipped.  The listings of the fast paths (label golden) are gcc's.
#
# The cells `some-assert`, `inner56-assert`, `lock56-assert` and `up-some` have the unit tests of
# the folders from arch to slab (and malloc), but for those of calls and messages, and leave out
# what chooses another backend itself: they are for CI, where the plain build runs all.
#
# The cell `hardened-some` has the unit tests that CI runs of a hardened build.
#
# In the cells `inject` threads are held up at the injection points (src/core/base/inject.h), as
# SLUB_INJECT says (rate=100).
#
# SLUB_TEST_SCALE (default 0.1 here) is the share of each fire program's usual work.  Exit status:
# 0 all passed, 1 something failed, 2 bad use.

set -u
cd "$(dirname "$0")/.." || exit 2

jobs=2
at_once=1
labels='contract|unit|fire'
pattern=.
list_only=no
resume=no
export SLUB_TEST_SCALE=${SLUB_TEST_SCALE:-0.1}
unset SLUB_FASTPATH SLUB_OPTIONS LD_PRELOAD

usage()
{
	sed -n 's/^#\t//p' "$0" >&2
	exit 2
}

while getopts lrk:j:t:L: option; do
	case $option in
	l) list_only=yes ;;
	r) resume=yes ;;
	k) pattern=$OPTARG ;;
	j) jobs=$OPTARG ;;
	t) at_once=$OPTARG ;;
	L) labels=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || usage
# With the highest number, or by its own name.
clang=$(compgen -c clang | grep -xE 'clang(-[0-9]+)?' | sort -uV | tail -n 1)

# The unit tests of what a layout, or one processor, changes.
core=-DSLUB_UNIT_FOLDERS=arch,percpu,page,slab

# variant | cmake options | backends (- : the tests choose) or modes | tests to leave out | labels
variants="
layout-aligned64||rseq thread tid lock|
layout-inner56|-DSLUB_LAYOUT=inner56|rseq thread tid lock|
layout-lock56|-DSLUB_LAYOUT=lock56|rseq thread tid lock|
mode||A B C D E F G|
up|-DSLUB_SMP=OFF|rseq thread tid lock|fire.limits_cpuset
assert|-DSLUB_ASSERT=1|rseq thread tid lock|fire.limits
some-assert|-DSLUB_ASSERT=1 $core|rseq|.*[.][tl][^.]*$
inner56-assert|-DSLUB_LAYOUT=inner56 -DSLUB_ASSERT=1 $core|rseq|.*[.][tl][^.]*$
lock56-assert|-DSLUB_LAYOUT=lock56 -DSLUB_ASSERT=1 $core|rseq|.*[.][tl][^.]*$
up-some|-DSLUB_SMP=OFF $core,malloc|rseq|.*[.][tl][^.]*$
tsan|-DSLUB_TSAN=ON|-|contract|fire
asan|-DSLUB_ASAN=ON|-|contract|fire
ubsan|-DSLUB_UBSAN=ON|-||unit|fire
inject|-DSLUB_INJECT=ON|rseq thread tid lock|fire.[ls]i|unit|fire
hardened|-DSLUB_HARDENED=ON|rseq thread tid lock||unit
hardened-some|-DSLUB_HARDENED=ON|rseq||hardened
clang|-DCMAKE_C_COMPILER=$clang|-||unit|contract|abi|api|fire
"

declare -a rows=() left_out=() tested=()
failed=0
logs=build/matrix-logs
results=$logs/results
started=$SECONDS
commit=$(git rev-parse --short HEAD 2>/dev/null || echo -)
git diff --quiet HEAD 2>/dev/null || commit+=+

# row CELL STATUS PASSED FAILED SKIPPED SECONDS COMMIT
row()
{
	rows+=("$(printf '%-24s %-7s %6s %6s %7s %7s  %s' "$@")")
	echo "${rows[-1]}"
}

# The table, also of a run that was broken off.
table()
{
	printf '\n%-24s %-7s %6s %6s %7s %7s  %s\n' \
		variant-backend result passed failed skipped seconds commit
	[ ${#rows[@]} -eq 0 ] || printf '%s\n' "${rows[@]}"
	[ ${#left_out[@]} -eq 0 ] || echo "not run, by -k: ${left_out[*]}"
	echo "labels: $labels; scale: $SLUB_TEST_SCALE"
	echo "logs: $logs; $((SECONDS - started)) seconds in all"
	[ ${#tested[@]} -eq 0 ] || scripts/skipped "${tested[@]}"
}

# earlier CELL KEY: the row of a cell that passed in an earlier run, if that is wanted.
earlier()
{
	local found

	[ $resume = yes ] && [ -f $results ] || return
	found=$(awk -F'\t' -v key="$1 $2" '$1 == key { last = $2 } END { print last }' $results)
	[[ $found == pass* ]] || return
	tested+=("$logs/$1.tests")
	# shellcheck disable=SC2086 # the columns are words
	row "$1" $found
}

# build_variant NAME OPTIONS LABELS: builds it; the log stays in build/matrix-logs.
build_variant()
{
	local name=$1 options=$2 log=$logs/$1-build.log targets=

	# Under a sanitizer only programs that call the library by other names make sense.
	[[ $options =~ TSAN|ASAN ]] &&
		targets='--target fire_churn fire_threads fire_groups fire_api_storm'
	[[ $options =~ ASAN ]] && targets+=' reclaim_storm_asan'
	# What nothing wanted needs is not built.
	case $3 in
	unit) targets=${targets:-"--target unit_tests fire_with_mode"} ;;
	'unit|fire' | 'fire|unit') targets=${targets:-"--target unit_tests fire_tests"} ;;
	fire) targets=${targets:-"--target fire_tests"} ;;
	hardened) targets='--target unit_hardened' ;;
	esac
	# shellcheck disable=SC2086 # options and targets are words
	cmake -S . -B "$(folder "$name")" -DSLUB_BUILD_TESTS=ON $options >"$log" 2>&1 &&
		cmake --build "$(folder "$name")" -j "$jobs" $targets >>"$log" 2>&1 </dev/null
}

# missing VARIANT: what it would need that is not here.
missing()
{
	[ "$1" != clang ] || [ -n "$clang" ] || echo 'there is no clang'
}

# folder VARIANT: where it is built.
folder()
{
	realpath -m "build/matrix-${1/#mode/layout-aligned64}"
}

# run_cell CELL KEY DIRECTORY LABELS EXCLUDE [WRAPPER...]: one ctest run, counted from its output.
run_cell()
{
	local cell=$1 key=$2 directory=$3 wanted=$4 exclude=$5
	local log=$logs/$cell.log before=$SECONDS passed bad skipped status=pass

	"${@:6}" ctest --test-dir "$directory" -L "^($wanted)\$" -j "$at_once" \
		-E "^(tidy|${exclude:-none})" --output-on-failure >"$log" 2>&1 </dev/null
	# What each test printed, those that were skipped too.
	cp "$directory/Testing/Temporary/LastTest.log" "$logs/$cell.tests"
	tested+=("$logs/$cell.tests")
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
	row "$cell" "$status" "$passed" "$bad" "$skipped" $((SECONDS - before)) "$commit"
	printf '%s %s\t%s\n' "$cell" "$key" \
		"$status $passed $bad $skipped $((SECONDS - before)) $commit" >>$results
	[ "$bad" -eq 0 ] || failures "$log"
}

# failures LOG: what failed in it, each with the first of what it printed.
failures()
{
	grep -E 'Test +#.*\*\*\*(Failed|Timeout|Exception|Not Run)' "$1" |
		sed -E 's/.*: ([^ ]+) .*\*\*\*([A-Za-z ]+[a-z]).*/    \1: \2/'
	grep -E -A 6 'Failure$|^BUG|[Aa]ssert|^ERROR|^WARNING' "$1" | head -n 40 | sed 's/^/    | /'
}

# mode_cell MODE KEY DIRECTORY LABELS EXCLUDE: the tests in one of the modes of with_mode.
mode_cell()
{
	local mode=$1 directory=$3 exclude=fire.mode_ companion=

	case $mode in
	A)	;;
	# The single steps take minutes and ask for no barrier.
	B)	exclude+='|fire.single_step' ;;
	# Without registration nothing has a sequence to interrupt.
	C | D)	exclude+='|fire.single_step|.*[.]rseq$' ;;
	# These choose the preloaded libraries themselves.
	E | F | G) exclude+="[^$mode]|fire.single_step|fire.sweep"
		# That new threads have lists is what these are about.
		[ "$mode" != F ] || exclude+='|unit.percpu_(collect|thread|word).rseq'
		companion=--companion=$directory/tests/fire/libfire_companion.so ;;
	esac
	run_cell "mode-$mode" "$2" "$directory" "$4" "$exclude" \
		"$directory/tests/fire/with_mode" "$mode" ${companion:+"$companion"} --
}

# run_variant NAME OPTIONS BACKENDS EXCLUDE LABELS
run_variant()
{
	local name=$1 options=$2 backends=$3 exclude=$4 wanted=$5 cell backend built=no key reason

	key="$wanted $SLUB_TEST_SCALE"
	for backend in $backends; do
		cell=$name
		[ "$backend" = - ] || cell=$name-$backend
		if ! [[ $cell =~ $pattern ]]; then
			left_out+=("$cell")
			continue
		fi
		[ "$name" != inject ] || export SLUB_INJECT=${SLUB_INJECT:-rate=100}
		if [ $list_only = yes ]; then
			echo "$cell"
			continue
		fi
		reason=$(missing "$name")
		if [ -n "$reason" ]; then
			row "$cell" skip - - - - "$reason"
			continue
		fi
		! earlier "$cell" "$key" || continue
		if [ $built = no ]; then
			built=yes
			if ! build_variant "$name" "$options" "$wanted"; then
				failed=1
				row "$name" BUILD - - - - "$commit"
				tail -n 5 "$logs/$name-build.log"
				return
			fi
		fi
		set -- "$key" "$(folder "$name")" "$wanted" "$exclude"
		case $name-$backend in
		mode-?) mode_cell "$backend" "$@" ;;
		*--) run_cell "$cell" "$@" ;;
		*) SLUB_FASTPATH=$backend run_cell "$cell" "$@" ;;
		esac
	done
}

mkdir -p $logs
[ $list_only = yes ] || trap 'trap - INT TERM; table; exit 130' INT TERM
while IFS='|' read -r name options backends exclude only; do
	[ -n "$name" ] && run_variant "$name" "$options" "$backends" "$exclude" "${only:-$labels}"
done <<<"$variants"
[ $list_only = yes ] && exit 0

table
exit $failed
