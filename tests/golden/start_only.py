#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: functions that one part of the library has been given by another lie on pages that are
read-only once the library has started (src/core/os/start_only.h): start_only.py LIBRARY
"""
import os
import re
import subprocess
import sys

# Words that say where the library goes on; static ones have no other of the name in it.
WORDS = ("sparse_hook", "growth_hook", "tight_hook", "cache_make_others", "guard_switch",
         "debug_mailbox_set", "debug_mailbox_profile", "sample_keeper", "known_vdso", "reclaimer",
         "kept")


def output(*command, **env):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env=dict(os.environ, **env)).stdout


def mapped_from(library, address):
    """The permissions that a program has at @address of the library."""
    maps = re.findall(r"^(\w+)-(\w+) (\S+) \w+ \S+ \S+ +(\S+)$",
                      output("cat", "/proc/self/maps", LD_PRELOAD=library), re.M)
    maps = [(int(start, 16), int(end, 16), rights) for start, end, rights, path in maps
            if path == os.path.realpath(library)]
    for start, end, rights in maps:
        if start <= maps[0][0] + address < end:
            return rights
    return "nothing"


def main():
    library = sys.argv[1]
    where = {}
    for line in output("nm", library).splitlines():
        found = re.match(r"([0-9a-f]+) \w ([a-z_]+)(\.\w+)*$", line)
        if found:
            where.setdefault(found[2], []).append(int(found[1], 16))
    begin, end = where["slub_start_only"][0], where["slub_start_only_end"][0]
    failures = [f"{name} does not lie between {begin:#x} and {end:#x}" for name in WORDS
                if not any(begin <= at < end for at in where.get(name, []))]
    if os.sysconf("SC_PAGE_SIZE") == 4096:
        failures += [f"{address:#x} is {rights}" for address in (begin, end - 1)
                     if (rights := mapped_from(library, address)) != "r--p"]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
