#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub stats` and `slub top` say why the memory of a process stays where it is: of a
program whose memory stays for one cause, they name that one; the parts add up to the RSS; and
`slub shrink` gives back what they say that it would.

usage: account_test.py SLUB LIBRARY CAUSES GDB_SCRIPT"""

import re
import subprocess
import sys
import time
import unittest

from target import HEAP as CAUSES, SLUB, Target, environment, slub

MIB = 1 << 20
PARTS = ("live", "lists", "holes", "held", "tables", "elsewhere")


class Account(Target):
    def cause(self, name, **more):
        process = self.start(CAUSES, name, **more)
        return process, self.told("stats", process.pid)["memory"]

    def assertAddsUp(self, process, memory):
        self.assertEqual(sum(memory[f"{part}_bytes"] for part in PARTS), memory["rss_bytes"])
        with open(f"/proc/{process.pid}/smaps_rollup") as file:
            kib = int(re.search(r"Rss: +(\d+) kB", file.read()).group(1))
        self.assertAlmostEqual(memory["rss_bytes"], kib * 1024, delta=MIB // 4)

    def test_each_cause(self):
        for name, why, least, most, says, more in (
                ("live", "live", 48, 56, "most in malloc-64", {}),
                ("large", "live", 48, 50, "most in large blocks", {}),
                ("holes", "holes", 44, 50, "that 3 % of their objects keep: largest malloc-64",
                 {}),
                ("spare", "holes", 42, 50, "that 6 % of their objects keep: largest malloc-1024",
                 {}),
                ("held", "held", 46, 50, "retain 0", {"SLUB_RETAIN": "128M"}),
                ("lists", "lists", 2, 30, "freed objects in the lists",
                 {"SLUB_RETAIN": "128M"}),
                ("tables", "tables", 4, 40, "library's own", {}),
                ("elsewhere", "elsewhere", 48, 54, "part of libslub's heap", {})):
            with self.subTest(name):
                process, memory = self.cause(name, **more)
                self.assertEqual(memory["why"], why, memory)
                self.assertIn(says, memory["sentence"])
                self.assertTrue(least * MIB <= memory[f"{why}_bytes"] <= most * MIB, memory)
                self.assertAddsUp(process, memory)
                process.kill()

    def test_text(self):
        process, memory = self.cause("holes")
        text = slub("stats", str(process.pid)).stdout
        self.assertRegex(text, r"\A.*\nRSS .*\n  live .*\n  in lists .*\n  in holes .*\n"
                               r"  held .*\n  tables .*\n  elsewhere .*\nwhy .*\n")
        self.assertIn(memory["sentence"].partition("M ")[2], text)
        self.assertIn(memory["sentence"].partition("M ")[2],
                      slub("top", "--once", str(process.pid)).stdout)

    def test_shrink_gives_what_was_said(self):
        """To a sixth: the program goes on meanwhile, for it has to answer."""
        process, before = self.cause("spare")
        self.assertGreater(before["shrink_bytes"], 30 * MIB)
        self.assertIn(f"`slub shrink {process.pid}` would give about", before["sentence"])
        self.shrink(process)
        after = self.told("stats", process.pid)["memory"]
        self.assertAlmostEqual(before["holes_bytes"] - after["holes_bytes"],
                               before["shrink_bytes"], delta=before["shrink_bytes"] / 6)
        # No more is promised than there is: the program itself has gone on, with its lists.
        self.assertLess(after["shrink_bytes"] - after["lists_bytes"],
                        before["shrink_bytes"] / 20)

    def shrink(self, process):
        with subprocess.Popen([SLUB, "shrink", "--timeout=60", str(process.pid)],
                              env=environment(), stdout=subprocess.DEVNULL) as shrink:
            while shrink.poll() is None:
                process.stdin.write("\n")
                process.stdin.flush()
                time.sleep(0.02)
            self.assertEqual(shrink.returncode, 0)

    def test_a_child_has_what_it_shares(self):
        """Pages that a relative by fork() has too are in its RSS, and in its heap."""
        process = self.start(CAUSES, "fork")
        child = int(process.stdout.readline())
        memory = self.told("stats", child)["memory"]
        self.assertEqual(memory["why"], "live", memory)
        self.assertGreater(memory["live_bytes"], 48 * MIB)

    def test_files(self):
        """A core file and a statistics file know no RSS."""
        path = self.path("stats")
        process = self.heap("live", SLUB_STATS_FILE=path)
        for target in (path, self.core_of(process)):
            memory = self.told("stats", target)["memory"]
            self.assertIsNone(memory["rss_bytes"])
            self.assertIsNone(memory["elsewhere_bytes"])
            self.assertEqual(memory["why"], "live")
            self.assertAlmostEqual(memory["live_bytes"], 54 * MIB, delta=8 * MIB)
            text = slub("top", "--once", target).stdout
            self.assertRegex(text, r"\n +heap +live")
            self.assertNotIn("slub shrink", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
