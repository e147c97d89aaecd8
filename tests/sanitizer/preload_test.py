#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""preload_test.py SLUB LIBRARY: programs with sanitizers that the library is preloaded into.

They run as without it.  Where the runtime does not let them (AddressSanitizer's, if it is a
shared library) `slub run` and `slub doctor` say so in a line.
"""
import os
import subprocess
import sys
import tempfile

from cell_test import HERE, SKIPPED, build, runtime_works

SOURCE = os.path.join(HERE, "preloaded.c")


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **more})
    return done.returncode, done.stdout, done.stderr


def main():
    slub, library = sys.argv[1:]
    failures, nr = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for compiler in "gcc", "clang":
            for sanitizer in "address", "thread", "memory", "undefined":
                program = os.path.join(folder, f"{compiler}-{sanitizer}")
                if not runtime_works(compiler, sanitizer, folder) or \
                   build(compiler, sanitizer, SOURCE, program, "-pthread"):
                    continue
                nr += 1
                code, out, err = run(slub, "run", program, SLUB_LIBRARY=library)
                doctor = run(slub, "doctor", program, SLUB_LIBRARY=library)[1]
                dynamic = subprocess.run(["readelf", "-d", program], capture_output=True,
                                         text=True, check=True).stdout
                if "libasan" in dynamic or "libclang_rt.asan" in dynamic:
                    right = code == 126 and err.count("\n") == 1 and "unless it is first" in err
                    if "unless it is first" not in doctor:
                        failures.append(f"slub doctor {program} does not say why:\n{doctor}")
                else:
                    right = (code, out) == (0, "done\n")
                    if sanitizer != "undefined" and "anitizer, whose malloc" not in doctor:
                        failures.append(f"slub doctor {program} names no sanitizer:\n{doctor}")
                    code, out, err = run(program, LD_PRELOAD=library)
                    right = right and (code, out, err) == (0, "done\n", "")
                if not right:
                    failures.append(f"{compiler} {sanitizer}: {code}\n{out}{err}")
    print("\n".join(failures) or f"{nr} programs")
    return 1 if failures else 0 if nr else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
