#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What src/libslub.ld puts together stays so: windows.py LIBRARY SOURCE_FOLDER

A fault maps the 64 KiB around it, so what every program runs has to lie in few of them.
`bench/run --only startup` says how much an empty program has resident.
"""
import glob
import os
import re
import subprocess
import sys

WINDOW = 64 << 10
# In the first lie the symbols, the constants and the beginning of the code.
WINDOWS_MAX = 2
# One for each way that a function comes there: hot, a file's name, `usual`, an archive's name.
TOGETHER = ("malloc", "free", "slub_start", "cache_create", "superblock_alloc", "abi_publish",
            "reclaim_fork_prepare", "slow_alloc", "pthread_atfork", "_fini", "list_domain",
            "frame_dummy", "sizeclass_guard_by_option", "guard_finish", "abi_update",
            "slab_features_fork_finish", "slab_empty_left", "realloc.cold", "front_copy",
            "options_publish", "page_limit_init", "pressure_fork_child", "walkers_fork_child",
            "srcu_fork_child", "thread_stock_fork_child", "class_switch_fork_child",
            "cxx_replaced", "suspect_aborted", "slab_left_look", "ptr_is_block_after_all",
            "outside_ask", "own_delete_many", "slot_flush")
OPERATORS = ("slub_text_new", "slub_text_new_many")
BUSY = ("thread_register", "purge_some", "run_grow", "cache_flush_shut", "percpu_collect")
APART = ("cache_shut", "report_bug", "account_large")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


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
    for name in OPERATORS:
        if not 0 < sum(sections.get(name, (0, 0))) <= WINDOWS_MAX * WINDOW:
            failures.append(f"{name} does not lie in the first {WINDOWS_MAX} windows")
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
    print("\n".join(failures) or f".text.slub: {size} bytes at {begin:#x}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
