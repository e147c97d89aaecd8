#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# OSS-Fuzz builds the targets with its compiler and its engine.
cmake -S . -B "$WORK/fuzz" -DSLUB_BUILD_FUZZ=ON -DCMAKE_C_COMPILER="$CC" \
	-DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_BUILD_TYPE=Fuzz -DCMAKE_C_FLAGS_FUZZ="-O1 -g" \
	-DCMAKE_CXX_FLAGS_FUZZ="-O1 -g"
cmake --build "$WORK/fuzz" -j "$(nproc)" --target fuzz_targets
for program in "$WORK"/fuzz/fuzz_*[!.o]; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=${program##*/fuzz_}
	cp "$program" "$OUT/$name"
	inputs=$(mktemp -d)
	nr=0
	while read -r line; do
		echo "$line" | base64 -d >"$inputs/$((nr += 1))"
	done <"tests/fuzz/corpus/$name.txt"
	(cd "$inputs" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" .)
	[ ! -e "tests/fuzz/$name.dict" ] || cp "tests/fuzz/$name.dict" "$OUT/"
done
