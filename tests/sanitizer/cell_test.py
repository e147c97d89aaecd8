#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that is built with a sanitizer and linked with the library.

    cell_test.py COMPILER SANITIZER LIBRARY INCLUDE

good.c has to end with 0 and without a word of the runtime's; each fault of bad.c that the
sanitizer is for has to be reported, as what it is.
"""

import os
import subprocess
import sys
import tempfile

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
# Of which more is there than was asked for.
BLOCKS = "small", "large", "moved", "aligned", "bucket", "element", "again"
# For each sanitizer its faults, and what the report must say.
FAULTS = {
    "address": [
        ("use-after-free", "AddressSanitizer: use-after-poison"),
        ("use-block-after-free", "AddressSanitizer: use-after-poison"),
        ("use-scattered-after-free", "AddressSanitizer: use-after-poison"),
        ("use-unwatched-after-free", "AddressSanitizer: use-after-poison"),
        ("use-after-destroy", "AddressSanitizer: use-after-poison"),
        ("use-element-after-free", "AddressSanitizer: use-after-poison"),
        ("use-object-after-free", "AddressSanitizer: use-after-poison"),
        ("use-aside-after-free", "AddressSanitizer: use-after-poison"),
        # The runtime takes the name from what lies behind the last eight bytes.
        *((f"write-behind-{block}", "WRITE of size 1 at") for block in BLOCKS),
        ("use-malloc-after-free", "AddressSanitizer: heap-use-after-free"),
        ("leak", "LeakSanitizer: detected memory leaks"),
    ],
    "thread": [
        ("race", "ThreadSanitizer: data race"),
        ("race-with-free", "ThreadSanitizer: data race"),
    ],
    "memory": [
        ("uninitialised", "MemorySanitizer: use-of-uninitialized-value"),
        ("malloc-uninitialised", "MemorySanitizer: use-of-uninitialized-value"),
        ("use-after-free", "MemorySanitizer: use-of-uninitialized-value"),
    ],
    "undefined": [
        ("overflow", "runtime error: signed integer overflow"),
    ],
}


def build(compiler, sanitizer, source, program, *rest):
    """Returns what is wrong, or None."""
    command = [compiler, "-g", "-O1", f"-fsanitize={sanitizer}", "-o", program, source, *rest]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return f"there is no {compiler}"
    return done.stderr if done.returncode else None


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def runtime_works(compiler, sanitizer, folder):
    """Does the sanitizer run here at all, with a program that has nothing else?"""
    source, program = os.path.join(folder, "empty.c"), os.path.join(folder, "empty")
    with open(source, "w") as file:
        file.write("int main(void) { return 0; }\n")
    return not build(compiler, sanitizer, source, program) and run(program) == (0, "")


def main():
    compiler, sanitizer, library, include = sys.argv[1:]
    link = [f"-I{include}", library, "-pthread", f"-Wl,-rpath,{os.path.dirname(library)}"]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        if not runtime_works(compiler, sanitizer, folder):
            print(f"skipped: {compiler} -fsanitize={sanitizer} does not work here by itself")
            return SKIPPED
        for name in "good", "bad":
            wrong = build(compiler, sanitizer, os.path.join(HERE, f"{name}.c"),
                          os.path.join(folder, name), *link)
            if wrong:
                print(f"{name}.c does not compile:\n{wrong}")
                return 1
        code, said = run(os.path.join(folder, "good"))
        if (code, said) != (0, "good\n"):
            print(f"good.c: {code}\n{said}")
            failures += 1
        for fault, report in FAULTS[sanitizer]:
            code, said = run(os.path.join(folder, "bad"), fault)
            if report not in said:
                print(f"bad.c {fault}: no '{report}', but {code}\n{said}")
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
