#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: each statistic and each attribute that the kernel has in /sys/kernel/slab is in the
output of `slub info -r` and `slub stats`, by the kernel's name, with what it means here; the same
of a process, of its core and of its statistics file.

usage: stats_test.py SLUB LIBRARY COUNTED GDB_SCRIPT"""

import json
import mmap
import re
import struct
import subprocess
import sys
import time
import unittest

from target import HEAP, SLUB, Target, cache_named, environment, slub

# Of CONFIG_SLUB_STATS.
KERNEL = """alloc_slowpath free_slowpath free_rcu_sheaf
    free_rcu_sheaf_fail free_add_partial free_remove_partial alloc_slab free_slab
    alloc_node_mismatch cmpxchg_double_fail sheaf_alloc sheaf_free sheaf_flush
    sheaf_refill barn_get barn_get_fail barn_put barn_put_fail sheaf_prefill_fast
    sheaf_prefill_slow sheaf_prefill_oversize sheaf_return_fast sheaf_return_slow""".split()
ATTRIBUTES = """slab_size object_size objs_per_slab order sheaf_capacity min_partial
    objects_partial partial cpu_slabs ctor aliases align hwcache_align
    reclaim_account destroy_by_rcu usersize failslab skip_kfence slabs
    total_objects objects sanity_checks red_zone poison store_user trace""".split()


# enum slub_abi_stat, by the names that the tool has for them.
ABI_STATS = """alloc_spare alloc_barn alloc_refill free_spare free_barn free_flush slab_alloc
    slab_free wrong_cache double_free objects_out objects_back wrong_size objects_moved
    objects_stayed alloc_direct free_direct free_add_partial free_remove_partial
    alloc_node_mismatch cmpxchg_double_fail alloc_refill_fail lists_emptied sheaf_prefill_fast
    sheaf_prefill_slow sheaf_prefill_oversize sheaf_return_fast sheaf_return_slow
    free_rcu_sheaf""".split()


def next_counts(watching):
    """Of the cache, in the next object that `slub stats --watch --json` prints."""
    lines = []
    while not lines or lines[-1] != "}\n":
        lines.append(next(watching.stdout))
    return cache_named(json.loads("".join(lines)), "counted")["statistics"]


class Statistics(Target):
    def counted(self, **more):
        return self.start(HEAP, **more)

    def check(self, told):
        cache = cache_named(told, "counted")
        counts = cache["statistics"]
        for name in KERNEL:
            self.assertIn(name, counts)
            self.assertGreaterEqual(counts[name], 0, name)
        self.assertEqual(counts["free_rcu_sheaf"], 150)
        self.assertEqual(counts["free_rcu_sheaf_fail"], 0)
        self.assertEqual(counts["sheaf_prefill_oversize"], 1)
        self.assertEqual(counts["sheaf_prefill_fast"] + counts["sheaf_prefill_slow"], 2)
        self.assertEqual(counts["sheaf_return_fast"] + counts["sheaf_return_slow"], 3)
        self.assertGreater(counts["free_add_partial"], 0)
        self.assertGreater(counts["free_remove_partial"], 0)
        self.assertLessEqual(counts["free_remove_partial"], counts["free_slab"])
        self.assertGreater(counts["sheaf_free"], counts["barn_put_fail"])
        self.assertGreater(counts["sheaf_alloc"], 0)
        self.assertEqual(counts["barn_get_fail"], counts["alloc_refill"])
        self.assertEqual(counts["barn_put_fail"], counts["free_flush"])
        self.assertEqual(counts["sheaf_refill"], counts["objects_out"])
        self.assertEqual(counts["sheaf_flush"], counts["objects_back"])
        self.assertEqual(counts["alloc_slowpath"], counts["alloc_refill"])
        for name in ATTRIBUTES:
            self.assertIn(name, cache)
        self.assertEqual(cache["skip_kfence"], 0)
        self.assertEqual(cache_named(told, "counted-large")["skip_kfence"], 1)
        self.assertIsNone(cache_named(told, "counted-large")["ctor_name"])
        return cache

    def test_a_process_and_its_core(self):
        process = self.counted()
        living = self.check(self.told("stats", process.pid))
        self.assertEqual(living["ctor_name"], "counted_init")
        self.assertEqual(self.check(self.told("stats", self.core_of(process))), living)

    def test_a_statistics_file(self):
        process = self.counted(SLUB_STATS_FILE=self.path("stats"))
        living = self.check(self.told("stats", process.pid))
        process.communicate()
        ended = self.check(self.told("stats", self.path("stats")))
        self.assertIsNone(ended["ctor_name"])
        self.assertEqual(ended["ctor"], living["ctor"])
        self.assertEqual(ended["statistics"], living["statistics"])

    def test_watched_objects_go_past_the_lists(self):
        process = self.counted(SLUB_DEBUG="F,counted")
        for cache in self.told("stats", process.pid)["caches"]:
            if cache["sanity_checks"]:
                counts = cache["statistics"]
                self.assertGreaterEqual(counts["alloc_slowpath"], 4000)
                self.assertEqual(counts["alloc_slowpath"], counts["objects_out"])
                self.assertEqual(counts["free_slowpath"], counts["objects_back"])
                self.assertEqual((counts["sheaf_refill"], counts["sheaf_flush"]), (0, 0))
                break
        else:
            self.fail("no cache is watched")

    def test_a_name_like_that_of_a_watched_cache(self):
        """It sleeps, and does not answer; but there is such a cache, and it is not watched."""
        pid = str(self.counted().pid)
        self.assertRefused(slub("shrink", "--timeout=0.2", pid, "counted:A"), 6, "has not answered")
        self.assertRefused(slub("validate", pid, "counted*"), 6, "watches no such cache")

    def test_totals(self):
        """Of all caches, in bytes: what is used and what is lost are all there is."""
        done = slub("info", "-T", "-B", "-p", str(self.counted().pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = re.findall(r"(?m)^(\S+) +(\d+) +(\d+) +(\d+) +(\d+)$", done.stdout)
        self.assertEqual([row[0] for row in rows], ["#Objects", "#Slabs", "#PartSlab", "Memory",
                                                    "Used", "Loss", "Objsize"])
        values = {row[0]: [int(value) for value in row[1:]] for row in rows}
        nr = int(re.search(r"Slabcaches : +(\d+)", done.stdout)[1])
        for average, least, most, total in values.values():
            self.assertTrue(least <= average <= most <= total, done.stdout)
            self.assertEqual(average, total // nr, done.stdout)
        self.assertEqual(values["Memory"][3], values["Used"][3] + values["Loss"][3])
        self.assertGreater(values["Used"][3], 0)

    def test_as_text(self):
        done = slub("info", "-r", "-p", str(self.counted().pid), "counted")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = dict(line.split(None, 1) for line in done.stdout.splitlines()[1:])
        for name in (*KERNEL, *ATTRIBUTES):
            self.assertIn(name, lines)
        self.assertEqual(lines["ctor"], "counted_init")

    def test_counters_that_wrap(self):
        """Words of 32 bits: what is printed again and again goes on behind 2^32."""
        path = self.path("stats")
        process = self.counted(SLUB_STATS_FILE=path)
        process.kill()
        process.wait()
        numbers = {name: n for n, name in enumerate(ABI_STATS)}
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as image:
            records = struct.unpack_from("<I", image, 316)[0]
            at = image.find(b"counted\0", records) + 48 + 5 * 8 + 32 * 8

            def put(name, value):
                struct.pack_into("<Q", image, at + 8 * numbers[name], value)
            self.assertEqual(struct.unpack_from("<Q", image, at + 8 * numbers["free_rcu_sheaf"])[0],
                             150)
            for name in ("objects_out", "objects_back", "alloc_refill", "free_flush"):
                put(name, 2**32 - 10)
            put("alloc_direct", 2**32 - 30)
            put("free_direct", 40)
            watching = subprocess.Popen([SLUB, "stats", "--watch=0.3", "--json", "-p", path],
                                        stdout=subprocess.PIPE, env=environment(), text=True)
            self.addCleanup(watching.communicate)
            self.addCleanup(watching.kill)
            first = next_counts(watching)
            for name in ("objects_out", "objects_back", "alloc_refill"):
                put(name, 90)
            while (then := next_counts(watching))["alloc_refill"] == first["alloc_refill"]:
                pass
        self.assertEqual(first["objects_out"], 2**32 - 10)
        self.assertEqual((first["sheaf_refill"], first["sheaf_flush"]), (20, 2**32 - 50))
        self.assertEqual(then["objects_out"], 2**32 + 90)
        self.assertEqual(then["alloc_slowpath"], first["alloc_slowpath"] + 100)
        self.assertEqual((then["sheaf_refill"], then["sheaf_flush"]), (120, 2**32 + 50))
        done = slub("stats", "--openmetrics", "-p", path)
        for event, value in (("alloc_slowpath", 60), ("sheaf_refill", 120)):
            self.assertIn(f'events_total{{cache="counted",event="{event}"}} {value}\n', done.stdout)

    def file_of(self, pid, written=True, **more):
        """A file that a killed process left, as if it had been that of @pid; who writes it then?"""
        path = self.path(f"stats-{pid}")
        self.counted(SLUB_STATS_FILE=path).kill()
        with open(path, "r+b") as file:
            self.assertEqual(struct.unpack("<8sIII", file.read(20))[3], 1)
            file.write(struct.pack("<I", pid))
            for offset, value in more.items():
                file.seek(int(offset[1:]))
                file.write(struct.pack("<Q", value))
        process = self.counted(SLUB_STATS_FILE=path)
        self.assertEqual(self.told("stats", path)["pid"], pid if written else process.pid)

    def test_a_file_whose_process_is_gone_and_its_pid_is_not(self):
        """It is told by when the process began; where that is not known the PID alone counts."""
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        time.sleep(0.1)     # ticks are of 10 ms
        self.file_of(other.pid, written=False)
        self.file_of(other.pid, o360=0)
        with open(f"/proc/{other.pid}/stat") as file:
            began = int(file.read().rpartition(")")[2].split()[19])
        self.file_of(other.pid, o360=began)

    def test_a_file_that_is_being_written(self):
        path = self.path("stats")
        pid = self.counted(SLUB_STATS_FILE=path).pid
        self.counted(SLUB_STATS_FILE=path)
        self.assertEqual(self.told("stats", path)["pid"], pid)

    def test_as_metrics(self):
        done = slub("stats", "--openmetrics", "-p", str(self.counted().pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        events = set(re.findall(r'^slub_cache_events_total\{cache="counted",event="(\w+)"\} \d+$',
                                done.stdout, re.MULTILINE))
        self.assertEqual(set(KERNEL) - events, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
