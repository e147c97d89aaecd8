# SPDX-License-Identifier: MIT
# memcached: four threads, clients that store, append, count and delete; more than its memory
# holds, so that it evicts; each answer is checked by the client.
# needs: memcached python3
# owner: memcached
# server: memcached
user=$(id -un)
memcached -u "$user" -s "$PWD/s" -m 64 -t 4 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ ! -S s ] || break; sleep 0.05; done
python3 "$PROGRAMS/memcached.py" "$PWD/s"
kill $server
wait $server || echo "server ended with $?"
trap - EXIT
