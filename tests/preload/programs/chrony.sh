# SPDX-License-Identifier: MIT
# chronyd with its seccomp filter as Debian starts it (-F 1), which kills; it changes no clock, and
# answers questions by its socket.
# needs: chronyd chronyc unshare
# owner: chronyd
# server: chronyd
[ "$(id -u)" = 0 ] || exec unshare -r bash -euo pipefail "$PROGRAMS/chrony.sh"
mkdir -m 700 run
cat > c.conf <<-END
	local stratum 10
	port 0
	cmdport 0
	bindcmdaddress $PWD/run/c.sock
	pidfile $PWD/run/c.pid
	driftfile $PWD/run/drift
	dumpdir $PWD/run
	maxclockerror 1
END
chronyd -x -d -F 1 -u root -f c.conf > server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 200); do
	[ ! -S run/c.sock ] || break
	sleep 0.05
done
ask() { timeout 20 chronyc -n -h "$PWD/run/c.sock" "$@" 2>&1; }
for _ in $(seq 40); do
	ask tracking | grep -E 'Stratum|Leap' || break
	ask sources > /dev/null
	ask clients > /dev/null
done
for i in $(seq 200); do echo "add server 127.1.0.$i port 9 iburst"; done > commands
ask < commands | sort | uniq -c
sleep 1
for i in $(seq 200); do echo "delete 127.1.0.$i"; done > commands
ask < commands | sort | uniq -c
ask tracking | grep -E 'Stratum|Leap'
grep -o 'Loaded seccomp filter.*' server.log
kill $server 2> /dev/null || echo "it is no more"
trap - EXIT
status=0
wait $server || status=$?
echo "chronyd ended with $status"
