#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the library and the command in a folder whose path has a blank and a letter that is not
# ASCII, and runs a few tests there: those that preload nothing by the path of the build, for the
# loader parts LD_PRELOAD at blanks.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
there="$folder/with a blank and ü/libslub"
mkdir -p "$there"
tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$there"
cd "$there"
cmake -S . -B build -DSLUB_BUILD_TESTS=ON -DSLUB_BUILD_BENCH=OFF >/dev/null
cmake --build build -j "$(nproc)" >/dev/null \
	--target slub slub_tool tool_heap tool_told profile_known
# Into a file: a reader that leaves at the first match would end the writer with SIGPIPE.
build/slub run -- cat /proc/self/maps > build/maps
grep -q "$there/build/libslub[.]so" build/maps
ctest --test-dir build --output-on-failure --no-tests=error \
	-R '^(tool_help_test|tool_json_test|tool_script_test|profile_pprof_test)$'
