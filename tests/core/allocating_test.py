#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""allocating_test.py LIBRARY WRAPPERS: under libraries that allocate in functions they replace.

WRAPPERS (allocating.c) replaces functions of the C library by ones that allocate.  A program with
threads, and a shell, run with both, in either order and under each backend: they end with 0, say
nothing, and no replaced function was called by the allocator.
"""
import os
import subprocess
import sys
import tempfile

THREADS = """
import threading
def work():
    for i in range(300):
        bytearray(i * 7 % 90000)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def main():
    library, wrappers = sys.argv[1:]
    failures = []
    programs = [[os.path.realpath(sys.executable), "-S", "-c", THREADS],
                ["/bin/sh", "-c", "for i in 1 2 3; do x=$(echo $i); done"]]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        for order in f"{wrappers} {library}", f"{library} {wrappers}":
            for backend in "auto", "thread", "tid", "lock":
                for program in programs:
                    done = subprocess.run(
                        program, capture_output=True, text=True, timeout=120,
                        env={**os.environ, "LD_PRELOAD": order, "SLUB_FASTPATH": backend,
                             "ALLOCATING_LOG": log})
                    if done.returncode or done.stderr:
                        failures.append(f"{program[0]}, {backend}, {order}: {done.returncode}, "
                                        f"{done.stderr[:300]}")
        if os.path.exists(log):
            with open(log, encoding="utf-8") as file:
                failures += [f"called by the allocator: {line}" for line in sorted(set(file))]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
