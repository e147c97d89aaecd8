# SPDX-License-Identifier: MIT
# PostgreSQL: a process per client, parallel workers, dictionaries, JSON, sorts, hashes, an index of
# words, a vacuum, a dump; eight clients by pgbench with a fixed seed, and a restart.
# needs: psql setpriv
# owner: psql
# server: postgres
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2> /dev/null | sort -V | tail -1)
[ -x "$bin/postgres" ] || { echo "skipped: missing postgres"; exit 77; }
as=()
if [ "$(id -u)" = 0 ]; then # it refuses to run as root
	as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
	chmod 755 . && mkdir data && chown postgres data
fi
export PGHOST=$PWD/data PGPORT=5432 PGDATABASE=postgres PGUSER=postgres
start() {
	"${as[@]}" "$bin/pg_ctl" -D "$PGHOST" -l "$PGHOST/log" -w -o "-c fsync=off \
		-c listen_addresses= -c unix_socket_directories=$PGHOST \
		-c max_parallel_workers_per_gather=2 \
		-c min_parallel_table_scan_size=0 -c parallel_setup_cost=0" start > start.log
	trap '"${as[@]}" "$bin/pg_ctl" -D "$PGHOST" -m immediate stop > /dev/null 2>&1 || true' EXIT
}
sql() { psql -qAtX -v ON_ERROR_STOP=1 "$@"; }
"${as[@]}" "$bin/initdb" -D "$PGHOST" -U postgres -A trust --no-sync --locale=C > init.log
start
"$bin/pgbench" -i -s 2 -q > pgbench.log 2>&1
"$bin/pgbench" -n -c 8 -j 2 -t 100 --random-seed=7 2> /dev/null |
	grep -E 'actually processed|failed transactions'
sql -c "select count(*), sum(abalance) = (select sum(delta) from pgbench_history),
	sum(abalance) = (select sum(bbalance) from pgbench_branches) from pgbench_accounts"
sql -f "$PROGRAMS/postgres.sql"
sql -c "vacuum full analyze doc"
digest() { "$bin/pg_dump" -t doc | grep -v '^\\' | md5sum; }
before=$(digest)
echo "dump $before"
"${as[@]}" "$bin/pg_ctl" -D "$PGHOST" -m fast -w stop > /dev/null
start
[ "$(digest)" = "$before" ] && echo "the same after a restart"
"${as[@]}" "$bin/pg_ctl" -D "$PGHOST" -m fast -w stop > /dev/null
trap - EXIT
grep -cE 'PANIC|terminated by signal' "$PGHOST/log" || true
