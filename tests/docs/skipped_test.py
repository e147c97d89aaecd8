#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: scripts/skipped counts what was skipped by reason, in logs of ctest, whatever failed.

usage: skipped_test.py SOURCE_FOLDER"""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.abspath(sys.argv.pop()) if len(sys.argv) == 2 else sys.exit(__doc__)
LOG = """1/4 Testing: one
Output:
----------
[ RUN      ] a.b
../t.cc:24: Skipped
no such thing

[  SKIPPED ] a.b (0 ms)
[ RUN      ] a.c
../t.cc:30: Skipped
no such thing

[  SKIPPED ] a.c (0 ms)
[  FAILED  ] 1 test
<end of output>
2/4 Testing: two
test_x (__main__.X.test_x) ... skipped 'no strace'
test_y (__main__.X.test_y) ... ok
FAILED (failures=1)
3/4 Testing: three
[77] skipped: missing php
<end of output>
4/4 Testing: four
PASSED
"""


class Skipped(unittest.TestCase):
    def said(self, *paths):
        return subprocess.run([os.path.join(SOURCE, "scripts", "skipped"), *paths], text=True,
                              capture_output=True, check=True).stdout.splitlines()

    def test_by_reason(self):
        with tempfile.NamedTemporaryFile("w") as log:
            log.write(LOG)
            log.flush()
            lines = self.said(log.name)
        self.assertEqual(lines[0], "skipped: 4 tests, for these reasons:")
        self.assertEqual([line.split(None, 1) for line in lines[1:]],
                         [["2", "no such thing  (one)"], ["1", "no strace  (two)"],
                          ["1", "missing php  (three)"]])

    def test_no_log(self):
        self.assertEqual(self.said("/nonexistent"), ["skipped: 0 tests"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
