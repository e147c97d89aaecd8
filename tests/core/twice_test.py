#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the core alone cannot say what is wrong, but a block that is freed twice ends the
program: twice_test.py CORE WHOLE PROGRAM.  The whole library says it and ends by SIGABRT."""
import os
import signal
import subprocess
import sys


def run(library, program):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    done = subprocess.run([program], env={**env, "LD_PRELOAD": library}, check=False,
                          capture_output=True, text=True)
    return -done.returncode, done.stdout, done.stderr


def main():
    core, whole, program = sys.argv[1:]
    wrong = []
    code, out, err = run(core, program)
    if code not in (signal.SIGILL, signal.SIGTRAP) or (out, err) != ("begun\n", ""):
        wrong.append(f"the core: signal {code}, {out!r}, {err!r}")
    code, out, err = run(whole, program)
    if code != signal.SIGABRT or out != "begun\n" or ": double free: free(" not in err:
        wrong.append(f"the library: signal {code}, {out!r}, {err!r}")
    print("\n".join(wrong) or "both ended")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
