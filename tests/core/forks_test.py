#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a fork of a small process writes to few pages, for each costs a page fault in the parent
and one in the child: forks_test.py LIBRARY PROGRAM"""
import os
import subprocess
import sys

# Of the library, beyond those of the program without it.
PARENT_MOST = 4
CHILD_MOST = 9


def run(program, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    done = subprocess.run([program], env={**env, **more}, check=True, capture_output=True,
                          text=True)
    return [int(number) for number in done.stdout.split()]


def main():
    library, program = sys.argv[1:]
    alone, on_it = run(program), run(program, LD_PRELOAD=library)
    parent, child = (more - less for more, less in zip(on_it, alone))
    print(f"page faults of a fork: parent {alone[0]} and {parent} more, "
          f"child {alone[1]} and {child} more")
    return int(parent > PARENT_MOST or child > CHILD_MOST)


if __name__ == "__main__":
    sys.exit(main())
