# SPDX-License-Identifier: MIT
# MariaDB: a thread per client, InnoDB and Aria, a stored procedure run by ten clients at once,
# JSON, sorts, temporary tables, checks, a checksum that survives a restart.
# needs: mariadbd mariadb-install-db mysql mysqladmin setpriv
# owner: mariadbd
# server: mariadbd
as=()
mkdir data
if [ "$(id -u)" = 0 ]; then
	as=(setpriv --reuid=mysql --regid=mysql --clear-groups)
	chmod 755 . && chown mysql data
fi
export TMPDIR=$PWD/data # the server may not write elsewhere
sock=$PWD/data/s
sql() { mysql --no-defaults -S "$sock" -u root "$@"; }
start() {
	"${as[@]}" mariadbd --no-defaults --datadir="$PWD/data" --socket="$sock" \
		--skip-networking --skip-grant-tables --innodb-buffer-pool-size=64M \
		--innodb-flush-log-at-trx-commit=0 \
		> data.log 2>&1 &
	server=$!
	trap 'kill -9 $server 2>/dev/null || true' EXIT
	for _ in $(seq 400); do
		mysqladmin --no-defaults -S "$sock" ping > /dev/null 2>&1 && return
		sleep 0.05
	done
	cat data.log >&2
	return 1
}
stop() {
	sql -e shutdown
	wait $server
	echo "server ended with $?"
}
"${as[@]}" mariadb-install-db --no-defaults --datadir="$PWD/data" --skip-test-db > install.log 2>&1
start
sql -Ne "create database d"
sql d < "$PROGRAMS/mariadb.sql"
clients=()
for seed in $(seq 10); do sql d -e "call move($seed)" & clients+=($!); done
wait "${clients[@]}"
sql d -N < "$PROGRAMS/mariadb_ask.sql"
stop
start
sql d -Ne "checksum table doc; check table account, log, doc extended"
stop
trap - EXIT
grep -ciE 'got signal|corrupt' data.log || true
