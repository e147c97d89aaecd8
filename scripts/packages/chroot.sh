# SPDX-License-Identifier: MIT
#
# Clean chroots of Debian, for try and try-debian, which read this file.  They set $name, $work,
# $suite and $mirror first.  $work has the base system, a chroot for each name, and log/.
# shellcheck shell=bash disable=SC2154,SC2034

die() {
	echo "$name: $*" >&2
	exit "${status:-1}"
}

# Starts the script again, as root and where nobody else sees what it mounts.
go_inside() {
	[ "$(id -u)" = 0 ] || die "a chroot needs root: sudo $0"
	command -v debootstrap >/dev/null ||
		die "debootstrap is missing: apt-get install debootstrap"
	if [ -z "${SLUB_TRY_INSIDE:-}" ]; then
		SLUB_TRY_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
	fi
	unset SLUB_TRY_INSIDE
	mkdir -p "$work/log"
	work=$(cd "$work" && pwd)
	version=$(sed -n 's/^#define SLUB_VERSION_STRING "\(.*\)"/\1/p' include/slub/version.h)
	trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
}

# step NAME COMMAND...: one line here, what it prints in log/NAME.
step() {
	local name_of_step=$1 start=$SECONDS status
	shift
	# Not as a condition: there bash goes on after a command that failed.
	set +e
	(
		trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
		set -e
		"$@"
	) >"$work/log/$name_of_step" 2>&1 </dev/null
	status=$?
	set -e
	if [ "$status" != 0 ]; then
		tail -25 "$work/log/$name_of_step" >&2
		status=1 die "$name_of_step failed; all of it is in $work/log/$name_of_step"
	fi
	echo "$name_of_step: passed, $((SECONDS - start)) s"
}

# With --ccache the chroots share what they compiled: in each, /ccache.
cached=()
share_cache() {
	mkdir -p -m 777 "$work/ccache"
	cached=(CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DIR=/ccache CCACHE_BASEDIR=/
		CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content CCACHE_UMASK=000)
}

# within CHROOT COMMAND...
within() {
	local chroot=$work/$1
	shift
	chroot "$chroot" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		${http_proxy:+http_proxy="$http_proxy"} "${cached[@]}" "$@"
}

apt() {
	local chroot=$1
	shift
	within "$chroot" apt-get --yes --quiet --no-install-recommends "$@"
}

make_base() {
	[ ! -e "$work/base-$suite/done" ] || return 0
	rm -rf "${work:?}/base-$suite"
	debootstrap --variant=minbase "$suite" "$work/base-$suite" "$mirror"
	rm -f "$work/base-$suite/var/cache/apt/archives"/*.deb
	echo "deb ${mirror/%debian/debian-security} $suite-security main" \
		>"$work/base-$suite/etc/apt/sources.list.d/security.list"
	touch "$work/base-$suite/done"
}

# fresh NAME [PACKAGE...]: a chroot as debootstrap left it, with these packages.
fresh() {
	local chroot=$work/$1

	! mountpoint -q "$chroot/proc" || umount "$chroot/proc"
	! mountpoint -q "$chroot/ccache" || umount "$chroot/ccache"
	rm -rf "${chroot:?}"
	cp -a "$work/base-$suite" "$chroot"
	cp -L /etc/resolv.conf "$chroot/etc/resolv.conf"
	# A chroot that lives for minutes need not reach the disk.
	echo force-unsafe-io >"$chroot/etc/dpkg/dpkg.cfg.d/unsafe-io"
	mount -t proc proc "$chroot/proc"
	if [ ${#cached[@]} != 0 ]; then
		mkdir "$chroot/ccache"
		mount --bind "$work/ccache" "$chroot/ccache"
		set -- "$@" ccache
	fi
	[ $# -gt 1 ] || return 0
	apt "$1" update
	apt "$1" install "${@:2}"
}

# start_program CHROOT COMMAND...: python3 in /program.py goes on allocating under the command,
# and says in /beat how often.
start_program() {
	local chroot=$work/$1
	shift
	cat >"$chroot/program.py" <<-'PROGRAM'
		import os, time
		kept, beat = [], 0
		while True:
		    kept = (kept + [bytes(1000 + i) for i in range(2000)])[-8000:]
		    beat += 1
		    with open("/beat.new", "w") as file:
		        file.write(f"{beat}\n")
		    os.rename("/beat.new", "/beat")
		    time.sleep(0.05)
	PROGRAM
	beat=$chroot/beat
	chroot "$chroot" "$@" python3 /program.py >"$work/log/program" 2>&1 &
	program=$!
}

# It has allocated since this was asked.
still_runs() {
	local before
	before=$(cat "$beat" 2>/dev/null || echo 0)
	for _ in $(seq 600); do
		kill -0 "$program" || return 1
		[ "$(cat "$beat" 2>/dev/null || echo 0)" -le $((before + 1)) ] || return 0
		sleep 0.1
	done
	return 1
}
