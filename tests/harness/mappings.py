# SPDX-License-Identifier: MIT
"""Which mapping of a process is the library: its file says so, and no folder that it lies in, for a
clone lies in one called libslub."""

import os
import re

NAME = re.compile(r"libslub(-\w+)?\.so(\.\d+)*")


def is_library(path):
    return bool(NAME.fullmatch(os.path.basename(path.removesuffix(" (deleted)"))))


def mappings(pid):
    """(start, offset, path) of each mapping that has a path, in the order of their addresses."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.rstrip("\n").split(maxsplit=5)
            if len(words) == 6:
                yield int(words[0].split("-")[0], 16), int(words[2], 16), words[5]


def library_start(pid):
    """Where the library's file begins in the process."""
    return next(start for start, offset, path in mappings(pid) if not offset and is_library(path))
