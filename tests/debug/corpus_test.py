#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: every crime of the corpus is found with letters F, Z, P and U, with the report that
names it, and the program lives on.

usage: corpus_test.py CRIME [--table]

CRIME is the program, linked with the library.  --table prints what each mode finds instead."""

import os
import re
import signal
import subprocess
import sys

MODES = {
    "none": {},
    "FZPU": {"SLUB_DEBUG": "FZPU"},
    "FZP": {"SLUB_DEBUG": "FZP"},
    "F": {"SLUB_DEBUG": "F"},
    "Z": {"SLUB_DEBUG": "Z"},
    "P": {"SLUB_DEBUG": "P"},
}


def run(program, crime, settings):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_DEBUG")}
    environment.update(settings, SLUB_DEBUG_REPORT="stderr")
    done = subprocess.run([program, crime], env=environment, capture_output=True, timeout=60)
    return done.returncode, done.stderr.decode(errors="replace")


def is_found(report, errors):
    """The report has the bug's own line with the expected words, one of several if need be."""
    if report.startswith("POISON"):
        return report in errors
    bugs = re.findall(r"^BUG \S+ \(\d+\): (.*)", errors, re.MULTILINE)
    return any(re.search(report, bug) for bug in bugs)


def crimes(program):
    text = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in text.splitlines()]


def table(program, rows):
    print("crime".ljust(32) + " ".join(mode.ljust(6) for mode in MODES))
    sums = dict.fromkeys(MODES, 0)
    for name, report in rows:
        cells = []
        for mode, settings in MODES.items():
            status, errors = run(program, name, settings)
            found = is_found(report, errors)
            sums[mode] += found
            cells.append("yes" if found else signal.Signals(-status).name[3:] if status < 0
                         else "other" if "\nBUG " in errors else "-")
        print(name.ljust(32) + " ".join(cell.ljust(6) for cell in cells))
    print(f"of {len(rows)}".ljust(32) + " ".join(str(sums[mode]).ljust(6) for mode in MODES))


def main():
    program = sys.argv[1]
    rows = crimes(program)
    if "--table" in sys.argv:
        table(program, rows)
        return
    if len(rows) < 60:
        sys.exit(f"the corpus has {len(rows)} crimes, and must have 60")
    failed = 0
    for name, report in rows:
        status, errors = run(program, name, MODES["FZPU"])
        if status == 0 and is_found(report, errors) and "\nFIX " in errors + "\nFIX " * (
                report.startswith("POISON")):
            continue
        failed += 1
        print(f"{name}: status {status}, expected '{report}', reports: "
              f"{re.findall(r'BUG .*', errors)[:4]}")
    innocent, errors = run(program, "--list", MODES["FZPU"])
    if innocent != 0 or "BUG" in errors:
        failed += 1
        print(f"a program without crime: status {innocent}, {errors[:500]}")
    print(f"{len(rows) - failed} of {len(rows)} found")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
