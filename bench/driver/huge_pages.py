# SPDX-License-Identifier: MIT
"""The system's mode of transparent huge pages, for the length of a run."""
import contextlib
import re

MODES = ("never", "madvise", "always")
FILE = "/sys/kernel/mm/transparent_hugepage/enabled"


def current(path=FILE):
    with open(path, encoding="ascii") as file:
        return re.search(r"\[(\w+)\]", file.read()).group(1)


def _write(mode, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(mode)


@contextlib.contextmanager
def system_mode(mode, path=FILE):
    """Sets @mode, if there is one, and puts back what was; OSError where that is not allowed."""
    if not mode:
        yield
        return
    before = current(path)
    _write(mode, path)
    try:
        yield
    finally:
        _write(before, path)
