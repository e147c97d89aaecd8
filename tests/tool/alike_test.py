#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a watched cache is known by its whole name, and a cache that several share by each of
the names that it is shared under.

usage: alike_test.py SLUB LIBRARY ALIKE GDB_SCRIPT"""

import sys
import unittest

from target import HEAP, Target, cache_named, slub

LONG = "connections-of-the-server-that-wait-for-"


class LongNames(Target):
    def test_traces_and_leaks(self):
        pid = str(self.start(HEAP, SLUB_DEBUG=f"FZPU,{LONG}*").pid)
        told = self.told("traces", pid, "--alloc")["alloc_traces"]
        self.assertEqual([(c["cache"], sum(t["count"] for t in c["traces"])) for c in told],
                         [(LONG + "replies", 3), (LONG + "timeout", 5)])
        for name, count in ((LONG + "replies", 3), (LONG + "timeout", 5)):
            told = self.told("traces", pid, "--alloc", name)["alloc_traces"]
            self.assertEqual([(c["cache"], sum(t["count"] for t in c["traces"])) for c in told],
                             [(name, count)])
            done = slub("watched", "-p", pid, name)
            self.assertEqual(done.returncode, 0, done)
            self.assertIn(f"{count} {name} ", done.stdout)
        for cut in (LONG[:39], LONG + "nobody"):
            self.assertRefused(slub("traces", "-p", pid, cut), 6, "letter U")

    def test_validate(self):
        pid = str(self.start(HEAP, SLUB_DEBUG=f"FZPU,{LONG}*").pid)
        for end, nr in (("timeout", "1 watched cache"), ("*", "2 watched caches")):
            self.assertEqual(slub("validate", "-p", pid, LONG + end).stdout, f"0 bugs in {nr}\n")


class Aliases(Target):
    def letters(self, pid):
        return {c["name"] for c in self.told("info", pid, "-z")["caches"] if c["debug"]}

    def test_a_cache_by_its_other_name(self):
        pid = str(self.start(HEAP, SLUB_MERGE="1").pid)
        caches = self.told("info", pid, "-z")
        self.assertEqual(cache_named(caches, "shared-one")["aliases"], 1)
        done = slub("debug", pid, "shared-other", "FU")
        self.assertEqual((done.stdout.splitlines()[0], done.returncode), ("1 cache: FU", 0), done)
        self.assertEqual(self.letters(pid), {"shared-one:FU"})
        done = slub("validate", pid, "shared-other")
        self.assertEqual(done.stdout, "0 bugs in 1 watched cache\n")
        self.assertRegex(slub("shrink", pid, "shared-other").stdout, "^1 cache shrunk; ")
        self.assertEqual(slub("traces", pid, "shared-other").returncode, 0)
        self.assertEqual(slub("debug", pid, "shared-ot*", "-").stdout,
                         "1 cache: no longer watched\n")

    def test_the_option_keeps_it_apart(self):
        """From the start it is not shared, so it alone is watched."""
        pid = str(self.start(HEAP, SLUB_MERGE="1", SLUB_DEBUG="F,shared-other").pid)
        self.assertEqual(self.letters(pid), {"shared-other:F"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
