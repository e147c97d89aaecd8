# SPDX-License-Identifier: MIT
# sshd, whose child before the login is in a seccomp filter that kills: logins by key, right and
# wrong ones, over a pipe in place of a socket.
# needs: sshd ssh ssh-keygen unshare
# owner: sshd
[ "$(id -u)" = 0 ] || { echo "only root can change to the user of the sandbox"; exit 0; }
[ -n "${IN_OWN_MOUNTS:-}" ] ||
	exec env IN_OWN_MOUNTS=1 unshare -m bash -euo pipefail "$PROGRAMS/sshd.sh"
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd /run/keys
for name in host user other; do ssh-keygen -q -t ed25519 -N '' -f /run/keys/$name; done
mkdir -m 755 /run/allowed
cp /run/keys/user.pub /run/allowed/root
cat > /run/conf <<-END
	HostKey /run/keys/host
	PermitRootLogin yes
	StrictModes no
	AuthorizedKeysFile /run/allowed/%u
	UsePAM no
	PidFile none
	LogLevel VERBOSE
END
sshd=$(command -v sshd)
login() {
	timeout 60 ssh -F none -i "/run/keys/$1" -o BatchMode=yes -o IdentitiesOnly=yes \
		-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
		-o Compression="$2" -o ProxyCommand="$sshd -i -e -f /run/conf 2>> /run/log" \
		root@sandbox "${@:3}" < /dev/null 2> /dev/null
}
for compression in yes no yes; do
	login user $compression seq 20000 | sha256sum
	login other $compression true && echo "a wrong key was let in" || echo "a wrong key: $?"
done
grep -c 'Accepted publickey' /run/log
grep -ciE 'bad system call|signal 31|fatal: privsep' /run/log || true
