#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build.sh SOURCE FOLDER [FLAGS...]: the program of this folder, from files of the kernel's SOURCE,
# compiled as they are, into FOLDER/program.  FLAGS go to the compiler; those from -L on link.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$1" && pwd)
mkdir -p "$2"
cd "$2"
shift 2
compile= link=
for flag; do
	case $flag in
	-L* | -l* | -Wl,*) link="$link $flag" ;;
	*) compile="$compile $flag" ;;
	esac
done

# The files of the kernel find one header of ours under each name that they include.
mkdir -p include/linux/sched include/drm include/kunit include/lib
for name in kmemleak module sizes bitops list slab sched prime_numbers sched/signal kernel \
	export err random; do
	echo '#include <stand_in.h>' >"include/linux/$name.h"
done
for name in drm/drm_print lib/drm_random; do
	echo '#include <stand_in.h>' >"include/$name.h"
done
echo '#include <kunit.h>' >include/kunit/test.h
cp "$source/include/drm/drm_buddy.h" include/drm/
cp "$source/include/linux/parman.h" include/linux/

# Copied away from headers of other licences, which are not used.  The kernel's own flags are
# among these: it compares int with unsigned int, and takes int * for unsigned int *.
for file in drivers/gpu/drm/drm_buddy drivers/gpu/drm/tests/drm_buddy_test lib/parman \
	lib/test_parman; do
	name=${file##*/}
	cp "$source/$file.c" .
	gcc -std=gnu11 -O2 -g -Wall -Wno-pointer-sign -fno-strict-aliasing \
		-DKBUILD_MODNAME="\"$name\"" -I"$here" -Iinclude -Iinclude/drm $compile \
		-c "$name.c" -o "$name.o"
done
gcc -std=gnu11 -O2 -g -Wall -Wextra -I"$here" $compile -c "$here/program.c" -o program.o
gcc program.o drm_buddy.o parman.o drm_buddy_test.o test_parman.o $link -o program
