#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: scripts/skipped counts what was skipped by reason, in logs of ctest, whatever failed.

usage: skipped_test.py SOURCE_FOLDER"""

import os
import shutil
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

# In place of ctest, in a folder of no build: one test passes, and the log has LOG.
CTEST = """#!/bin/sh
mkdir -p "$2/Testing/Temporary" && cp log "$2/Testing/Temporary/LastTest.log"
echo "1/1 Test #1: one ......   Passed    0.01 sec"
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

    def test_cells_of_the_matrix(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "tests/matrix.sh", "scripts/skipped":
                os.makedirs(os.path.join(folder, os.path.dirname(name)))
                shutil.copy(os.path.join(SOURCE, name), os.path.join(folder, name))
            os.mkdir(os.path.join(folder, "bin"))
            for name, text in ("log", LOG), ("bin/ctest", CTEST), ("bin/cmake", "#!/bin/sh"):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text + "\n")
                os.chmod(os.path.join(folder, name), 0o755)
            path = os.path.join(folder, "bin") + ":" + os.environ["PATH"]
            printed = subprocess.run(["tests/matrix.sh", "-k", "^up-(rseq|tid)", "-L", "unit"],
                                     cwd=folder, env={**os.environ, "PATH": path}, text=True,
                                     capture_output=True, check=True).stdout
        self.assertIn("skipped: 8 tests, for these reasons:\n", printed)
        self.assertRegex(printed, r"\n +2  no strace  \(two\)\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
