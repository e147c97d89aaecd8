# SPDX-License-Identifier: MIT
"""What the measurements of all programs need: the mallocs to compare with, and a median."""

import glob
import os
import statistics
import sys


def preloads(library=None):
    """(name, file to preload or None) of each malloc that is here; @library: a folder with libslub."""
    yield "glibc", None
    for name, file in (("jemalloc", "libjemalloc.so.2"), ("mimalloc", "libmimalloc.so.2")):
        found = [path for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")
                 for path in glob.glob(os.path.join(folder, file))]
        if found:
            yield name, found[0]
        else:
            print(f"measure: no {file} here: no row for {name}", file=sys.stderr)
    if library:
        yield "libslub", os.path.join(library, "libslub.so")


def median(lines, key):
    return statistics.median(line[key] for line in lines)
