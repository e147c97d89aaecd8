#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The heap finds a place under valgrind, which maps from the bottom up: valgrind_test.py PROBE

PROBE prints what the library says of itself, and allocates."""
import subprocess
import sys
import unittest


class Valgrind(unittest.TestCase):
    def test_the_heap_has_a_place(self):
        done = subprocess.run(["valgrind", "-q", "--tool=none", probe], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        values = dict(line.split() for line in done.stdout.splitlines())
        self.assertEqual(values["ready"], "1")
        self.assertGreater(int(values["heap_bytes"]), 0)


if __name__ == "__main__":
    probe = sys.argv.pop(1)
    unittest.main()
