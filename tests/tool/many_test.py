#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the command tells of each of thousands of caches what it tells of a few: of a living
process and of its core.  A statistics file has as many as it has places.

usage: many_test.py SLUB LIBRARY MANY GDB_SCRIPT"""

import shutil
import subprocess
import unittest

from target import GDB_SCRIPT
from target import HEAP as MANY
from target import Target, cache_named, slub

NR = 5000
# What does not depend on where a cache's slot is.
ALIKE = ("slab_size", "order", "slabs", "objects", "objects_cached", "objects_carved",
         "total_objects", "statistics")


class Many(Target):
    def tenants(self, target, *arguments):
        told = self.told("info", target, *arguments)
        found = {cache["name"]: cache for cache in told["caches"]
                 if cache["name"].startswith("tenant-")}
        self.assertEqual(len(found), sum(cache["name"] in found for cache in told["caches"]))
        return found

    def check(self, target):
        tenants = self.tenants(target)
        self.assertEqual(sorted(tenants), sorted(f"tenant-{i}" for i in range(NR)))
        # On one CPU all have the same: the first has a near slot, the last a far one.
        kinds = {repr([cache[name] for name in ALIKE]) for cache in tenants.values()}
        self.assertLess(len(kinds), 20, kinds)
        for name in ("tenant-0", f"tenant-{NR - 1}"):
            cache = tenants[name]
            self.assertEqual((cache["object_size"], cache["slabs"]), (500, 1))
            self.assertGreater(cache["objects_cached"], 0, name)
            self.assertGreaterEqual(cache["objects"], cache["objects_cached"] + 1, name)
            self.assertGreater(cache["statistics"]["alloc_slowpath"], 0, name)

    def test_process_and_core(self):
        process = self.start(MANY, str(NR))
        self.check(process.pid)
        told = self.told("stats", process.pid, f"tenant-{NR - 1}")
        self.assertEqual(cache_named(told, f"tenant-{NR - 1}")["statistics"]["alloc_slab"], 1)
        core = self.core_of(process)
        self.check(core)
        if not shutil.which("gdb"):
            self.skipTest("there is no gdb")
        done = subprocess.run(["gdb", "--batch", "-nx", "-x", GDB_SCRIPT, "-ex", "slub caches",
                               MANY, core], text=True, capture_output=True, timeout=100,
                              check=False)
        for name in ("tenant-0", f"tenant-{NR - 1}"):
            self.assertRegex(done.stdout, rf"(?m)^{name} +[1-9]", done.stderr)

    def test_from_look_to_look(self):
        """Each is found in the look before, sorted as that was."""
        process = self.start(MANY, str(NR))
        done = slub("info", str(process.pid), "--watch=1", "-S", "-N", "5", "--once")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), 6, done.stdout)
        done = slub("map", str(process.pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_statistics_file(self):
        path = self.path("stats")
        process = self.start(MANY, "900", SLUB_STATS_FILE=path)
        self.assertEqual(len(self.tenants(path)), 900)
        process.kill()
        process.wait()
        process = self.start(MANY, str(NR), SLUB_STATS_FILE=path)
        nr = len(self.tenants(path))
        self.assertGreater(nr, 1500)
        self.assertLess(nr, 2048)


if __name__ == "__main__":
    unittest.main(argv=["many_test.py"])
