#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the command gives no half or wrong answer for want of memory.  Each request for memory
that it makes itself is refused in turn (helpers/refuse.c), and each time it either says all that it
says otherwise, or that it is out of memory, and ends with 125.

usage: want_test.py SLUB LIBRARY MADE FOLDER REFUSE"""

import os
import re
import shlex
import subprocess
import sys
import unittest

REFUSE = os.path.abspath(sys.argv.pop(5))

from target import GDB_SCRIPT as TEXTS, HEAP as MADE, SLUB, Target, environment

REQUESTS_MAX = 1000
# What differs from one call to the next in any case.
MOMENT = re.compile(r"age=\S+|\d\d:\d\d:\d\d|\"(?:time|min|average|max)\": .*")


class Want(Target):
    def said(self, call, nr, told):
        """Its status and its words when request @nr is refused; 0: none."""
        done = subprocess.run([SLUB, *call], cwd=self.folder, stdin=subprocess.DEVNULL, timeout=100,
                              capture_output=True, pass_fds=(told,), check=False,
                              env=environment(TZ="UTC", LD_PRELOAD=REFUSE, REFUSE_AT=str(nr),
                                              REFUSE_TOLD=str(told)))
        return done.returncode, MOMENT.sub("", done.stdout.decode("latin-1")), done.stderr.decode()

    def check(self, call):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        os.set_blocking(read, False)
        expected, refused = self.said(call, 0, write), 0
        for nr in range(1, REQUESTS_MAX):
            said = self.said(call, nr, write)
            if self.is_told(read):
                self.assertEqual(said, expected, "nothing was refused")
                self.assertGreater(refused, 0, "the command asks for no memory")
                return
            if "memory" in said[2]:
                refused += 1
                self.assertRegex(said[2], r"\Aslub: (out of|[^\n]*: Cannot allocate) memory\n\Z")
                self.assertNotEqual(said[0], 0)
            else:
                self.assertEqual(said, expected, f"request {nr}")
        self.fail("it goes on asking")

    @staticmethod
    def is_told(read):
        try:
            return os.read(read, 1) != b""
        except BlockingIOError:
            return False

    def check_all(self, calls, target):
        for call in calls:
            with self.subTest(call=call):
                self.check([word.replace("TARGET", target) for word in shlex.split(call)])

    def test_process(self):
        process = subprocess.Popen([MADE, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   cwd=self.folder, text=True,
                                   env=environment(SLUB_NONSENSE="1", SLUB_RETAIN="x"))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.check_all(["stats TARGET", "info -j TARGET", "info --groups TARGET", "leaks TARGET",
                        "watched TARGET", "traces -p TARGET", "map TARGET", "map --json TARGET",
                        "options TARGET", "explain TARGET 0x650000000000",
                        "check TARGET", "doctor --json TARGET"],
                       str(process.pid))

    def test_file(self):
        subprocess.run([MADE, "stats", self.path("stats")], check=True, env=environment())
        self.check_all(["info TARGET", "info --groups --json TARGET"], self.path("stats"))

    def test_profile(self):
        with open(os.path.join(TEXTS, "profile.txt"), encoding="utf-8") as file:
            text = file.read()
        lines = text.split("% file\n", 2)[1].splitlines()
        with open(self.path("profile"), "w", encoding="utf-8") as file:
            file.writelines(line[2:] + "\n" for line in lines if line.startswith("| "))
        self.check_all(["profile --text TARGET", "profile --output=- TARGET"], self.path("profile"))

    def test_programs(self):
        self.check_all(["doctor TARGET", "run --retain=x TARGET"], SLUB)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
