#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub` without arguments is a tour: it fits a screen, each command in it is one that
works, and the process that it names is on libslub.

usage: tour_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import os
import re
import sys
import unittest

from target import NOBODY, Target, slub


class Tour(Target):
    def test_tour(self):
        process = self.heap()
        done = slub()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual(len([line for line in lines if re.match(r"  \w.*[:?]$", line)]), 5)
        named = re.findall(r"\n      slub (?:stats|top|leaks) (\d+)", done.stdout)
        self.assertEqual(len(named), 3, done.stdout)
        self.assertEqual(slub("check", named[0]).returncode, 0)
        listed = re.findall(r"(?m)^ +(\d+) .* [\d.]+[KMG]?$", done.stdout)
        self.assertEqual(listed[0], named[0])
        self.assertTrue(str(process.pid) in listed or "more" in done.stdout)

    def test_its_commands(self):
        for command in re.findall(r"\n      slub (\w+)", slub().stdout):
            self.assertEqual(slub(command, "--help").returncode, 0, command)

    def test_nothing_to_read(self):
        if os.getuid():
            self.skipTest("needs root")
        self.heap()
        text = slub(user=NOBODY).stdout
        self.assertIn("\n      slub stats PID\n", text)
        self.assertIn("\nNo process here is on libslub", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
