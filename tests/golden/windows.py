#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What src/libslub.ld puts together stays so: windows.py LIBRARY SOURCE_FOLDER

A fault maps the 64 KiB around it, so what every program runs has to lie in few of them.
"""
import glob
import os
import re
import subprocess
import sys

WINDOW = 64 << 10
# In the first lie the symbols, the constants and the beginning of the code.
WINDOWS_MAX = 2
RUNS = 7
# One for each way that a function comes there: hot, a file's name, `usual`, an archive's name.
TOGETHER = ("malloc", "free", "slub_start", "cache_create", "superblock_alloc", "abi_publish",
            "reclaim_fork_prepare", "slow_alloc", "pthread_atfork", "_fini", "list_domain",
            "frame_dummy", "sizeclass_guard_by_option", "guard_finish", "abi_update",
            "slab_features_fork_finish", "slab_empty_left", "realloc.cold", "front_copy",
            "options_publish", "page_limit_init")
BUSY = ("percpu_collect", "purge", "slot_flush")
APART = ("slabinfo_write", "cache_shut", "report_bug", "account_large")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# What reads its own smaps, and the windows that it may need: a shell's child is busy.
PROGRAMS = {"cat": (WINDOWS_MAX, ("cat", "/proc/self/smaps")),
            "a child of sh": (WINDOWS_MAX + 1,
                              ("sh", "-c", "(while read -r line; do echo \"$line\"; done) "
                                           "</proc/self/smaps; :"))}


def resident_code(library, command):
    """KiB of the library's code that a program has resident, and how many there are.

    The least of a few runs: a program that changes its CPU in the middle runs more of it.
    """
    return min((resident_once(library, command) for _ in range(RUNS)), default=(0, 0))


def resident_once(library, command):
    smaps = subprocess.run(command, check=True, capture_output=True, text=True,
                           env={**os.environ, "LD_PRELOAD": library}).stdout
    found = re.search(rf" r-xp .* {re.escape(os.path.realpath(library))}\n"
                      r"Size: +(\d+) kB\n(?:.*\n)*?Rss: +(\d+) kB", smaps)
    return (int(found[2]), int(found[1])) if found else (0, 0)


def look_at_programs(library):
    for name, (windows_max, command) in PROGRAMS.items():
        resident, size_kib = resident_code(library, command)
        if not resident:
            yield f"{name} has no code of the library resident: it was not loaded"
        # A kernel with larger windows maps all of it.
        elif windows_max * WINDOW >> 10 < resident < size_kib:
            yield (f"{name} has {resident} KiB of code resident: what is not in .text.slub, "
                   "and every program runs, wants `usual`")


def main():
    library, folder = sys.argv[1:]
    failures = []
    with open(f"{folder}/src/libslub.ld", encoding="utf-8") as script:
        for name in re.findall(r"\*/(src/\S+)\.o\(", script.read()):
            if not glob.glob(f"{folder}/{name}"):
                failures.append(f"libslub.ld names {name}, which does not exist")

    sections = {}
    for line in output("readelf", "-SW", library).splitlines():
        found = re.match(r"\s*\[\s*\d+\] (\S+)\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", line)
        if found:
            sections[found[1]] = (int(found[2], 16), int(found[3], 16))
    begin, size = sections.get(".text.slub", (0, 0))
    if not size:
        failures.append("no section .text.slub: the linker has not read libslub.ld")
    if begin + size > WINDOWS_MAX * WINDOW:
        failures.append(f".text.slub ends at {begin + size:#x}, behind {WINDOWS_MAX} windows")
    if sections.get(".rodata.slub", (WINDOW, 0))[0] > begin:
        failures.append("the constants do not lie before the code")

    busy_begin, busy_size = sections.get(".text.slub_busy", (0, 0))
    if not 0 < busy_begin + busy_size <= (WINDOWS_MAX + 1) * WINDOW:
        failures.append(".text.slub_busy is not in one window behind .text.slub")
    where, busy = {}, set()
    for line in output("nm", library).splitlines():
        found = re.match(r"([0-9a-f]+) [tT] (\S+)$", line)
        if found:
            where[found[2]] = begin <= int(found[1], 16) < begin + size
            if busy_begin <= int(found[1], 16) < busy_begin + busy_size:
                busy.add(found[2])
    for name in TOGETHER:
        if not where.get(name, False):
            failures.append(f"{name} does not lie in .text.slub")
    failures += [f"{name} does not lie in .text.slub_busy" for name in BUSY if name not in busy]
    for name in APART:
        if where.get(name, True):
            failures.append(f"{name} lies in .text.slub, or does not exist")
    failures += look_at_programs(library)
    print("\n".join(failures) or f".text.slub: {size} bytes at {begin:#x}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
