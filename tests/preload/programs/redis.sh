# SPDX-License-Identifier: MIT
# redis-server under redis-benchmark with pipelines, then a digest of all keys, also after a save
# by a forked child and a restart.  Debian links redis to libjemalloc, whose malloc is a plain one:
# the preloaded malloc comes first for every call, so jemalloc only answers for its statistics.
# needs: redis-server redis-benchmark redis-cli
# owner: redis-server
# server: redis-server
socket=$PWD/redis.sock
cli() { redis-cli -s "$socket" "$@"; }
start() {
	redis-server --port 0 --unixsocket "$socket" --dir "$PWD" --save '' --appendonly no \
		--enable-debug-command yes --io-threads 2 --daemonize no > server.log 2>&1 &
	server=$!
	trap 'kill $server 2>/dev/null || true' EXIT
	for _ in $(seq 200); do
		[ "$(cli ping 2>/dev/null)" = PONG ] && return
		sleep 0.05
	done
	cat server.log >&2
	return 1
}
stop() {
	cli shutdown nosave || true
	wait $server
	echo "server ended with $?"
}
start
redis-benchmark -s "$socket" -q -P 16 -c 20 -n 40000 -d 100 -t set,get,incr,lpush,sadd,hset,mset \
	> benchmark.log 2>&1
cli dbsize
cli llen mylist
cli get counter:__rand_int__
seq 1 20000 | awk '{
	printf "SET key:%d %0*d\nRPUSH list:%d %d\n", $1, $1 % 500 + 1, $1, $1 % 50, $1
	printf "HSET hash:%d f%d %d\nZADD set:%d %d m%d\n", $1 % 200, $1, $1 * 3, $1 % 30, $1, $1
}' | cli > /dev/null
cli debug digest
cli eval "for i = 1, 5000 do redis.call('APPEND', 'grown', string.rep('x', i % 90)) end
	return redis.call('STRLEN', 'grown')" 0
cli bgsave > /dev/null
for _ in $(seq 200); do
	cli info persistence | grep -q rdb_bgsave_in_progress:0 && break
	sleep 0.05
done
cli info persistence | grep -o 'rdb_last_bgsave_status:[a-z]*'
digest=$(cli debug digest)
cli flushall > /dev/null
cli debug digest
stop
start
[ "$(cli debug digest)" = "$digest" ] && echo "the same after a restart"
cli get key:19999 | sha256sum
stop
