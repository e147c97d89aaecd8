# SPDX-License-Identifier: MIT
"""pprof's own tool (github.com/google/pprof, or the one that Go comes with) opens what
`slub profile` writes, names the functions, and sums up to within 5 % of what the program has
allocated.

Skipped where neither is installed."""

import os
import re
import shutil
import unittest

from profile import ALLOC_SPACE, INUSE_SPACE, ProfileTest, deviation, run

MEAN = 4096
BYTES = 4000 * MEAN


def find_pprof():
    for path in (shutil.which("pprof"), os.path.expanduser("~/go/bin/pprof")):
        if path and os.access(path, os.X_OK):
            return [path]
    return ["go", "tool", "pprof"] if shutil.which("go") else None


PPROF = find_pprof()


class GooglePprof(ProfileTest):
    def setUp(self):
        super().setUp()
        if not PPROF:
            self.skipTest("no pprof here")
        # Go builds it at its first use.
        told = run(*PPROF, "-help", seconds=280)
        if "usage" not in told.stderr + told.stdout:
            self.skipTest("no pprof here")

    def top(self, index):
        """Bytes by function, and of all, as `pprof -top` prints them."""
        done = run(*PPROF, "-top", "-noinlines", "-unit=B", "-nodefraction=0",
                   f"-sample_index={index}", self.path("heap.pb.gz"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"Type: {index}\n", done.stdout)
        total = re.search(r"of (\d+)B total", done.stdout)
        rows = re.findall(r"(?m)^ *(\d+)B +[\d.]+% +[\d.]+% +\d+B +[\d.]+% +(\S+)$", done.stdout)
        return {name: int(flat) for flat, name in rows}, int(total[1])

    def test_names_and_totals(self):
        true = self.known("call", self.path("heap"), MEAN, BYTES, SLUB_TEST_PROFILE_SEED="1")
        self.slub(self.path("heap"))
        for index, kind in (("alloc_space", ALLOC_SPACE), ("inuse_space", INUSE_SPACE)):
            told, total = self.top(index)
            whole = sum(values[kind] for values in true.values())
            self.assertLess(abs(total - whole), 0.05 * whole, (index, total, whole))
            for name, values in true.items():
                # A function has an eighth of it, so its deviation is larger.
                self.assertLessEqual(abs(told.get(name, 0) - values[kind]),
                                     5 * deviation(values[kind], MEAN) + 1, (index, name, told))


if __name__ == "__main__":
    unittest.main(argv=["google_pprof_test.py"])
