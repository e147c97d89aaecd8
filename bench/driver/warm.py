# SPDX-License-Identifier: MIT
"""Memory that the machine beneath took back, made present again before a program starts.

A guest with a balloon that reports free pages loses the memory behind them within seconds. Who
touches such a page next waits for the host, up to 2 ms for one of 2 MiB, and chance says which
program meets them. `blocks` took 43 to 1,160 us a block on libslub and 35 to 980 on mimalloc; with
this before each program 39 to 72, and 35 to 41. What it hides: the first touch of memory that the
host has to supply, a price that a program pays on such a machine after every growth.
"""
import contextlib
import glob
import mmap

import machine

BALLOON = "0x0005"	# a virtio device's number
REPORTING = 5		# the bit VIRTIO_BALLOON_F_REPORTING of its features
AT_LEAST_MIB = 192	# few programs here take more
AT_MOST_MIB = 512	# of what takes gigabytes the first part
PAGE = 4096


def is_taken_back(devices="/sys/bus/virtio/devices"):
    """Does the machine beneath get what this one leaves free?"""
    return any(machine.read(folder + "/device").strip() == BALLOON
               and machine.read(folder + "/features")[REPORTING:REPORTING + 1] == "1"
               for folder in glob.glob(devices + "/*"))


def wanted_mib(needs_mib, available_mib):
    """How much for a program that takes up to @needs_mib (0: it does not say)."""
    return min(max(needs_mib, AT_LEAST_MIB), AT_MOST_MIB, available_mib // 2)


def make_present(mib):
    """What is freed last is taken first: the next program gets these pages."""
    if mib <= 0:
        return
    with mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with contextlib.suppress(OSError):	# a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, len(memory), PAGE):
            memory[at] = 1
