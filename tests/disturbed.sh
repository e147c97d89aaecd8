#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs tests of a build while each of their processes is disturbed: by a signal that its
# handler ignores, which aborts restartable sequences, or by a move to another CPU.
#
#	tests/disturbed.sh [-m] [-u MICROSECONDS] [-n REPEATS] BUILD [CTEST-OPTION...]
#
#	-m  moves the thread, and does not only interrupt it     -u  between two of these (40)
#	-n  each test so often, or until it fails (1)
#
# For example: tests/disturbed.sh -m -u 5000 -n 20 build -L unit
#
# On a busy machine both happen to a test now and then; here they happen all the time.  A
# test that bounds the time of something may fail by it, and one that waits for a sleep to
# end by itself does.  Exit status: that of ctest; 2 bad use.

set -u
usage()
{
	sed -n 's/^#\t//p' "$0" >&2
	exit 2
}

moves=0
microseconds=40
repeats=1
while getopts mu:n: option; do
	case $option in
	m) moves=1 ;;
	u) microseconds=$OPTARG ;;
	n) repeats=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
for number in "$microseconds" "$repeats"; do
	[[ $number =~ ^[1-9][0-9]{0,5}$ ]] || {
		echo "$0: '$number' is no number from 1 to 999999" >&2
		exit 2
	}
done
build=$(cd "$1" && pwd) || exit 2
shift
[ -f "$build/CTestTestfile.cmake" ] || {
	echo "$0: $build has no tests; build there with -DSLUB_BUILD_TESTS=ON" >&2
	exit 2
}
library=$build/disturb-$moves-$microseconds.so
"${CC:-cc}" -O2 -shared -fPIC -Wall -Wextra -DMOVES="$moves" -DMICROSECONDS="$microseconds" \
	-o "$library" "$(dirname "$0")/harness/disturb.c" || exit 2
LD_PRELOAD=$library ctest --test-dir "$build" --output-on-failure \
	--repeat until-fail:"$repeats" "$@"
