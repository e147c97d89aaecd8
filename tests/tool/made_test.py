#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: what the command prints of a heap that is made by hand (helpers/made.c), of its core and
of its statistics file is, line for line, what stands in made/*.txt.

Each `$ ARGUMENTS` there is a call, with what it prints behind it (`! ` before what goes to standard
error) and its exit status behind `=`.  MADE_WRITE=1 writes them anew: look at what changed.

usage: made_test.py SLUB LIBRARY MADE FOLDER"""

import os
import re
import shlex
import subprocess
import sys
import unittest

from target import GDB_SCRIPT as TEXTS, HEAP as MADE, SLUB, Target, environment, limit_core

# What depends on the machine, or on the moment.
VARIES = [
    (re.compile(r"age=\d+/\d+/\d+"), "age=AGES"),
    (re.compile(r'("time": |"(?:min|average|max)": )\d{6,}(\.\d+)?'), r"\1NUMBER"),
    (re.compile(r"\b0x[4-9a-f][0-9a-f]{5}\b"), "CODE"),
    (re.compile(r"\+0x[0-9a-f]+\)"), "+OFFSET)"),
    (re.compile(r'"offset": "0x[0-9a-f]+"'), '"offset": "OFFSET"'),
    (re.compile(r'"ctor": [1-9]\d{6}\b'), '"ctor": CODE'),
    (re.compile(r"(CPUs +)\d+ possible"), r"\1N possible"),
    (re.compile(r'("cpus_possible": )\d+'), r"\1N"),
    (re.compile(r"made_[a-z]+\.c:\d+"), "made.c:LINE"),
]


def calls_of(path):
    """Arguments of each call, and what stands behind it."""
    with open(path, encoding="utf-8") as file:
        for part in re.split(r"(?m)^\$ ", file.read())[1:]:
            call, _, told = part.partition("\n")
            yield call, told


class Made(Target):
    maxDiff = None

    def start_made(self):
        process = subprocess.Popen([MADE, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   cwd=self.folder, preexec_fn=limit_core, text=True,
                                   env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def said(self, call, target, pid):
        words = [word.replace("TARGET", target) for word in shlex.split(call)]
        done = subprocess.run([SLUB, *words], env=environment(TZ="UTC"), text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=100,
                              check=False)
        told = done.stdout
        if told and not told.endswith("\n"):
            told += "(no end)\n"
        told += "".join(f"! {line}\n" for line in done.stderr.splitlines())
        told += f"= {done.returncode}\n"
        told = told.replace(MADE, "MADE").replace(self.folder, "FOLDER")
        told = re.sub(rf'((?:process +|PID |"pid": |pid=")){pid}\b', r"\1PID", told)
        for pattern, text in VARIES:
            told = pattern.sub(text, told)
        return told

    def check(self, name, target, pid):
        path = os.path.join(TEXTS, name)
        calls = list(calls_of(path))
        if os.environ.get("MADE_WRITE"):
            with open(path, "w", encoding="utf-8") as file:
                for call, _ in calls:
                    file.write(f"$ {call}\n{self.said(call, target, pid)}")
            return
        for call, told in calls:
            self.assertEqual(f"$ {call}\n{self.said(call, target, pid)}", f"$ {call}\n{told}")

    def test_process(self):
        pid = str(self.start_made().pid)
        self.check("process.txt", pid, pid)
        self.check("explain.txt", pid, pid)

    def test_core(self):
        process = self.start_made()
        core = self.core_of(process)
        os.rename(core, self.path("core"))
        self.check("core.txt", self.path("core"), str(process.pid))

    def test_statistics_file(self):
        subprocess.run([MADE, "stats", self.path("stats")], check=True, env=environment())
        self.check("stats.txt", self.path("stats"), "no pid")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
