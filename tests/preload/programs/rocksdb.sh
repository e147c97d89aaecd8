# SPDX-License-Identifier: MIT
# RocksDB: db_bench with four threads that write, read, merge, compact and iterate, its checksums;
# then a database of known content by ldb, and a digest of it after a compaction.
# needs: db_bench ldb
# owner: db_bench
jobs=fillrandom,overwrite,mergerandom,readrandom,readwhilewriting,seekrandom,compact,verifychecksum
db_bench --db="$PWD/bench" --num=5000 --value_size=200 --threads=4 --write_buffer_size=1048576 \
	--compression_type=none --cache_size=4194304 --merge_operator=stringappend \
	--benchmarks=$jobs > bench.log 2>&1 || { cat bench.log >&2; exit 1; }
grep -oE '^[a-z]+ +:' bench.log
grep -ciE 'corrupt|error' bench.log || true
for i in $(seq 60); do
	ldb --db="$PWD/known" --create_if_missing batchput \
		$(seq -f "key%06g $i" $((i * 50)) $((i * 50 + 70))) > /dev/null
	[ $((i % 20)) != 0 ] || ldb --db="$PWD/known" compact > /dev/null
done
ldb --db="$PWD/known" scan | sha256sum
ldb --db="$PWD/known" checkconsistency
