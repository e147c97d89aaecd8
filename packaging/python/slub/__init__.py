# SPDX-License-Identifier: MIT
"""libslub, a memory allocator for whole programs: python -m slub run -- PROGRAM."""
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))


def library():
    """The file for LD_PRELOAD."""
    return os.path.join(FOLDER, "libslub.so.1")


def command():
    """The command slub, which finds the library beside itself."""
    return os.path.join(FOLDER, "slub")
