#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: what the kernel would not take back is shown, and apart from what is idle; so are the
mappings of the heap, and the large blocks that were moved: of a process, of its core and of its
statistics file, as text, as JSON and as metrics.

usage: refused_test.py SLUB LIBRARY REFUSED GDB_SCRIPT"""

import re
import sys
import unittest

from target import HEAP, Target, slub

REFUSED = 20 * (64 << 10)


class Refused(Target):
    def refused(self, **more):
        return self.start(HEAP, SLUB_RETAIN="0", **more)

    def check(self, told):
        heap = told["heap"]
        self.assertEqual(heap["refused_bytes"], REFUSED)
        self.assertEqual(heap["moved_runs"], 1)
        self.assertEqual(heap["idle_bytes"], 0)

    def check_mappings(self, told):
        self.assertGreater(told["mappings"], 1, "a block that was moved is one of its own")
        self.assertLess(told["mappings"], 100)

    def test_process(self):
        told = self.told("stats", self.refused().pid)
        self.check(told)
        self.check_mappings(told)

    def test_core(self):
        told = self.told("stats", self.core_of(self.refused()))
        self.check(told)
        self.assertNotIn("mappings", told)

    def test_file(self):
        path = self.path("stats")
        self.refused(SLUB_STATS_FILE=path).communicate()
        told = self.told("stats", path)
        self.assertEqual(told["heap"]["moved_runs"], 0, "it was freed")
        self.assertIn("refused_bytes", told["heap"])
        self.assertNotIn("mappings", told, "the file knows no mappings")

    def test_a_heap_without_troubles(self):
        told = self.told("stats", self.start("sh", "-c", "echo ready; read x").pid)
        self.assertEqual((told["heap"]["refused_bytes"], told["heap"]["moved_runs"]), (0, 0))
        self.assertGreater(told["mappings"], 0)

    def test_text(self):
        told = slub("stats", "-p", str(self.refused().pid)).stdout
        self.assertRegex(told, r"(?m)^refused +[\d.]+M +\d{7}$")
        self.assertRegex(told, r"(?m)^mappings +\d+ of the heap, 1 large blocks moved$")

    def test_metrics(self):
        told = slub("stats", "--openmetrics", "-p", str(self.refused().pid)).stdout
        refused = re.search(r'(?m)^slub_heap_bytes\{state="refused"\} (\d+)$', told)
        self.assertEqual(int(refused[1]), REFUSED)
        self.assertRegex(told, r"(?m)^slub_heap_moved_runs 1$")
        self.assertRegex(told, r"(?m)^slub_heap_mappings \d+$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
