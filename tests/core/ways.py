#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ways.py LIBRARY PROGRAM ADDR2LINE [MALLOC_MOST FREE_MOST]: the files that a call passes.

Runs way.c on the library under callgrind, and lists the files of src/ whose code malloc runs
on its way from an empty list to the system, and free on its way back, with the instructions
in each.  More .c files than may be is a failure: then a step went out of the order of the
call.  Headers are counted apart, and base/ and os/, which every layer calls, not at all.

Valgrind knows no rseq(2), so lists are a thread's own (SLUB_FASTPATH=thread); the files are
the same.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

NOT_COUNTED = ("core/base/", "core/os/", "core/without.c")


def run(library, program, function):
    """The library's address in the process, and {address: instructions} below @function."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLUB_")}
    env.update(LD_PRELOAD=library, SLUB_FASTPATH="thread")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        done = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
             "--dump-instr=yes", "--compress-pos=no", f"--toggle-collect={function}", program],
            env=env, capture_output=True, text=True, check=True)
        base = int(done.stdout.split()[0], 16)
        costs, is_call, name, names = collections.Counter(), False, "", {}
        with open(out, encoding="utf-8") as lines:
            for line in lines:
                found = re.match(r"ob=(\(\d+\))? ?(.*)", line)
                if found:
                    name = names.setdefault(found[1], found[2] or names.get(found[1], ""))
                    continue
                if line.startswith("calls="):
                    is_call = True  # the next line has what the callee costs
                    continue
                found = re.match(r"0x([0-9a-f]+) \S+ (\d+)$", line)
                if found and not is_call:
                    costs[(name, int(found[1], 16))] += int(found[2])
                is_call = is_call and not found
    return base, costs


def addresses(library, base, costs):
    """Those of the library, from its start; code in sections of its own has no object's name."""
    end = os.path.getsize(library)
    for (name, address), cost in costs.items():
        if base <= address < base + end:
            yield address - base, cost
        elif os.path.basename(name) == os.path.basename(library):
            yield address, cost


def files(library, addr2line, found):
    """{file: instructions}; a function that is inline counts where it stands."""
    found = dict(found)
    text = subprocess.run([addr2line, "-a", "-i", "-e", library], text=True, check=True,
                          input="\n".join(map(hex, found)), capture_output=True).stdout
    counts, cost = collections.Counter(), 0
    for line in text.splitlines():
        if line.startswith("0x"):
            cost = found[int(line, 16)]
            continue
        place = re.search(r".*/src/(\S+?):", line)     # the last: the tree may lie in a src/
        if place:
            counts[place[1]] += cost
            cost = 0
    return counts


def main():
    library, program, addr2line = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3]
    most = [int(n) for n in sys.argv[4:6]] or [1000, 1000]
    failed = False
    for function, bound in zip(("malloc", "free"), most):
        base, costs = run(library, program, f"call_{function}")
        passed = files(library, addr2line, addresses(library, base, costs))
        passed = {name: n for name, n in passed.items() if not name.startswith(NOT_COUNTED)}
        sources = [name for name in passed if name.endswith(".c")]
        print(f"{function}: {len(sources)} files, {len(passed) - len(sources)} headers, "
              f"{sum(passed.values())} instructions")
        for name in sorted(passed, key=lambda name: -passed[name]):
            print(f"{passed[name]:10} {name}")
        if not sources or len(sources) > bound:
            print(f"FAIL: {function} passes {len(sources)} files, {bound} at the most")
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
