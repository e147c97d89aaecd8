#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: an exit status means one thing, whichever command of `slub` ends with it.  Each is
brought about here, by all the commands that can end with it, and stands in the list of slub(1).

usage: status_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import os
import re
import signal
import subprocess
import sys
import unittest

from target import NOBODY, SLUB, Target, environment, slub

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# What each command has besides a target.
READERS = {"top": (), "info": (), "stats": (), "map": (), "options": (), "exporter": (),
           "leaks": (), "traces": ()}
ASKERS = {"debug": ("*", "F"), "validate": (), "shrink": (), "guard": ("1",),
          "set": ("retain", "1M")}
EVERY = {**READERS, **ASKERS}
# Writes behind an object of a watched cache, and goes on allocating.
BROKEN = """
import ctypes
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
ctypes.memset(c.malloc(64) + 64, 1, 1)
print("ready", flush=True)
while True:
    [bytearray(600 + i % 2000) for i in range(3000)]
"""


class Status(Target):
    def ends(self, status, command, *arguments, **more):
        done = slub(command, *arguments, **more)
        with self.subTest(command=command, arguments=arguments):
            self.assertEqual(done.returncode, status, done)
            if status not in (0, 7):
                self.assertEqual(len(done.stderr.splitlines()), 1, done)
        return done

    def test_0(self):
        pid = str(self.heap().pid)
        for command in ("top", "info", "stats", "map", "options", "exporter", "check"):
            self.ends(0, command, pid)

    def test_1(self):
        sleeper = subprocess.Popen(["sleep", "60"], env=environment())
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        pid = str(sleeper.pid)
        for command, more in EVERY.items():
            self.ends(1, command, pid, *more)
        self.assertEqual(slub("check", pid).returncode, 1)
        self.assertEqual(slub("doctor", pid).returncode, 1)

    def test_2(self):
        for command in (*EVERY, "check", "doctor", "profile", "explain"):
            self.ends(2, command, "--frobnicate")

    def test_3(self):
        if os.getuid():
            self.skipTest("needs root")
        pid = str(self.heap().pid)
        for command, more in EVERY.items():
            self.ends(3, command, pid, *more, user=NOBODY)

    def test_4(self):
        pid = str(self.heap().pid)
        for command, more in EVERY.items():
            self.ends(4, command, "4194303", *more)
        for command in ("info", "stats", "validate", "shrink"):
            done = self.ends(4, command, pid, "malloc-46")
            self.assertIn("has no cache 'malloc-46'; did you mean 'malloc-", done.stderr)
            self.assertEqual(done.stdout, "")
            done = self.ends(4, command, pid, "there-is-no-such-cache")
            self.assertIn(f"`slub info -z {pid}` lists them", done.stderr)
        self.ends(4, "info", "--json", pid, "none*")
        self.ends(4, "stats", "--watch=0.1", pid, "none*")
        self.ends(0, "info", pid, "malloc-*")
        self.ends(0, "stats", "--openmetrics", pid, "malloc-*")

    def test_5(self):
        path = self.path("damaged")
        with open(path, "wb") as file:
            file.write(b"nothing of the kind" * 100)
        for command in ("top", "info", "stats", "exporter"):
            self.ends(5, command, path)

    def test_6(self):
        process = self.heap()
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        for command, more in (("shrink", ()), ("debug", ("*", "F")),
                              ("set", ("retain", "1M"))):
            self.ends(6, command, "--timeout=0.2", str(process.pid), *more)
        self.ends(6, "exporter", str(process.pid), "--textfile=/nonexistent/file")

    def test_7(self):
        process = self.start(sys.executable, "-c", BROKEN, SLUB_DEBUG="FZPU,malloc-64",
                             SLUB_DEBUG_REPORT=self.path("report"), SLUB_ON_ERROR="report")
        done = self.ends(7, "validate", "--timeout=60", str(process.pid), "malloc-64")
        self.assertEqual((done.stdout, done.stderr), ("1 bug in 1 watched cache\n", ""))

    def test_125(self):
        pid = str(self.heap().pid)
        for command in ("stats", "info"):
            with open("/dev/full", "w") as full:
                done = subprocess.run([SLUB, command, pid], env=environment(), stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 125, done)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_the_table(self):
        with open(os.path.join(ROOT, "docs", "man", "slub.1"), encoding="utf-8") as file:
            part = file.read().split(".SH EXIT STATUS")[1].split("\n.SH ")[0]
        numbers = re.findall(r"(?m)^\.TP\n(\d+)$", part)
        tests = [name[5:] for name in dir(self) if re.fullmatch(r"test_\d+", name)]
        self.assertEqual(sorted(numbers), sorted(tests))
        with open(os.path.join(ROOT, "tools", "slub", "slub.h"), encoding="utf-8") as file:
            known = re.findall(r"(?m)^\tSTATUS_\w+ = (\d+),", file.read())
        self.assertEqual(numbers, known)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
