#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Variables that one CPU writes all the time share no cache line with what others read:
lines.py LIBRARY

The linker lays small variables next to each other, whoever uses them: a number that each
registration of a shrinker wrote, in the line of a pool that walks read, made these wait for each
other (docs/notes.md, "The storm").
"""
import re
import subprocess
import sys

LINE = 64
# Written with each run of pages taken or given back, with each registration, each stop of a CPU.
WRITTEN = ("used_pages", "large_pages", "quick_pages", "superblock_lock", "zones",
           "registry", "area_lock")
# Read by malloc and free, in and out of groups, by walks, and where lists are filled.
READ = ("pagemap_base", "pagemap_limit", "descriptor_bias", "page_link_bias", "malloc_slot",
        "malloc_paged_slots", "percpu_hint_offset", "slub_seq_offsets", "slub_free_front",
        "percpu_table", "classes",
        "account_classes", "account_slots", "account_caches", "group_generation", "nr_tight",
        "stock_max", "groups_with_low", "groups_alive", "sample_switch", "shrinker_table",
        "owner_pool", "group_pool", "unit_pool", "shrinkers_end", "map_nodes_end",
        "thread_stock_pool")


def lines_of(begin, size):
    return range(begin // LINE, (begin + max(size, 1) - 1) // LINE + 1)


def main():
    symbols = {}
    found = subprocess.run(("nm", "-S", sys.argv[1]), check=True, capture_output=True, text=True)
    for line in found.stdout.splitlines():
        entry = re.match(r"([0-9a-f]+) ([0-9a-f]+) [bBdD] (\w+)(\.\d+)?$", line)
        if entry:
            symbols[entry[3]] = (int(entry[1], 16), int(entry[2], 16))
    failures = [f"there is no variable {name}" for name in WRITTEN + READ if name not in symbols]
    readers = {}
    for name in READ:
        for line in lines_of(*symbols.get(name, (0, 0))):
            readers[line] = name
    for name in WRITTEN:
        shared = {readers[line] for line in lines_of(*symbols.get(name, (0, 0))) if line in readers}
        failures += [f"{name}, which is written often, shares a line with {other}"
                     for other in sorted(shared)]
    print("\n".join(failures) or f"{len(WRITTEN)} variables are apart from {len(READ)}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
