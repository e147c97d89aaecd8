#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: allocator_test.sh CARGO ARGUMENT...
# The tests of the feature allocator-api2, where cargo has that package.
cargo=$1
shift
if ! "$cargo" fetch --offline --locked >/dev/null 2>&1; then
	echo "no allocator-api2 here (cargo fetch in bindings/rust)"
	exit 77
fi
exec "$cargo" test -p slub --features allocator-api2 --no-fail-fast "$@"
