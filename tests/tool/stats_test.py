#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: each statistic and each attribute that the kernel has in /sys/kernel/slab is in the
output of `slub info -r` and `slub stats`, by the kernel's name, with what it means here; the same
of a process, of its core and of its statistics file.

usage: stats_test.py SLUB LIBRARY COUNTED GDB_SCRIPT"""

import re
import sys
import unittest

from target import HEAP, Target, cache_named, slub

# Of CONFIG_SLUB_STATS.
KERNEL = """alloc_fastpath alloc_slowpath free_fastpath free_slowpath free_rcu_sheaf
    free_rcu_sheaf_fail free_add_partial free_remove_partial alloc_slab free_slab
    alloc_node_mismatch order_fallback cmpxchg_double_fail sheaf_alloc sheaf_free sheaf_flush
    sheaf_refill barn_get barn_get_fail barn_put barn_put_fail sheaf_prefill_fast
    sheaf_prefill_slow sheaf_prefill_oversize sheaf_return_fast sheaf_return_slow""".split()
# The fast paths count nothing.
UNKNOWN = {"alloc_fastpath", "free_fastpath"}
ATTRIBUTES = """slab_size object_size objs_per_slab order sheaf_capacity min_partial cpu_partial
    objects_partial partial cpu_slabs slabs_cpu_partial ctor aliases align hwcache_align
    reclaim_account destroy_by_rcu usersize remote_node_defrag_ratio failslab skip_kfence slabs
    total_objects objects sanity_checks red_zone poison store_user trace""".split()


class Statistics(Target):
    def counted(self, **more):
        return self.start(HEAP, **more)

    def check(self, told):
        cache = cache_named(told, "counted")
        counts = cache["statistics"]
        for name in KERNEL:
            self.assertIn(name, counts)
            if name in UNKNOWN:
                self.assertIsNone(counts[name], name)
            else:
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
        self.assertEqual(counts["order_fallback"], 0)
        for name in ATTRIBUTES:
            self.assertIn(name, cache)
        self.assertEqual(cache["slabs_cpu_partial"], "0(0)")
        self.assertEqual((cache["cpu_partial"], cache["remote_node_defrag_ratio"]), (0, 0))
        self.assertEqual(cache["skip_kfence"], 0)
        self.assertEqual(cache_named(told, "counted-large")["skip_kfence"], 1)
        self.assertEqual(cache_named(told, "malloc-112")["skip_kfence"], 0)
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
        self.assertRefused(slub("shrink", "-t", "0.2", pid, "counted:A"), 6, "has not answered")
        self.assertRefused(slub("validate", pid, "counted*"), 6, "watches no such cache")

    def test_as_text(self):
        done = slub("info", "-r", "-p", str(self.counted().pid), "^counted$")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = dict(line.split(None, 1) for line in done.stdout.splitlines()[1:])
        for name in (*KERNEL, *ATTRIBUTES):
            self.assertIn(name, lines)
        self.assertEqual(lines["ctor"], "counted_init")
        self.assertEqual(lines["slabs_cpu_partial"], "0(0)")
        for name in UNKNOWN:
            self.assertEqual(lines[name], "-")

    def test_as_metrics(self):
        done = slub("stats", "--openmetrics", "-p", str(self.counted().pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        events = set(re.findall(r'^slub_cache_events_total\{cache="counted",event="(\w+)"\} \d+$',
                                done.stdout, re.MULTILINE))
        self.assertEqual(set(KERNEL) - events, UNKNOWN)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
