#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub info --groups` and `slub top --groups` tell what each memory group uses, of a
living process to the byte, and of its core and statistics file; `slub info -a` names the aliases.
Nobody is stopped for it, and what is damaged is refused.

usage: groups_test.py SLUB LIBRARY GROUPS GDB_SCRIPT"""

import json
import os
import random
import re
import struct
import sys
import time
import unittest

from target import HEAP as GROUPS
from target import Target, slub

INNER = 500 * 1024 + (1 << 20) + 100 * 200
TENANT = INNER + 3000 * 112
FILE_TOLERANCE = 256 << 10
ROUNDS = int(os.environ.get("ROUNDS", 60))
# src/features/inspect/abi.h: struct slub_stats_head.
HEAD_SIZE, HEAD_GROUPS, HEAD_SIZE_FIRST = 12, 332, 952


class GroupsTarget(Target):
    def process(self, mode="wait", **more):
        return self.start(GROUPS, mode, SLUB_MERGE="1", SLUB_STATS_FILE=self.path("stats"), **more)

    def counted(self):
        """A process whose statistics file knows all of it."""
        process = self.process()
        # The objects are counted now and then, when a slab or a large block comes or goes.
        for _ in range(600):
            groups = self.groups(self.path("stats"))
            inner = groups.get("root/tenant-7/inner")
            if inner and groups["root/tenant-7"]["failures"] == 2 and \
                    (inner["objects"], inner["large_bytes"]) == (600, 1 << 20):
                break
            time.sleep(0.05)
            process.stdin.write("x")
            process.stdin.flush()
        return process

    def killed(self):
        """The statistics file of one that was killed."""
        process = self.counted()
        process.kill()
        process.wait()
        return self.path("stats")

    def groups(self, target, command="info"):
        told = self.told(command, target, "--groups")
        self.assertEqual((told["kind"], told["schema"]), ("groups", 1))
        return {group["path"]: group for group in told["groups"]}

    def check(self, groups, tolerance):
        self.assertEqual(sorted(groups), ["root", "root/idle", "root/tenant-7",
                                          "root/tenant-7/inner"])
        for path, live in (("root/tenant-7/inner", INNER), ("root/tenant-7", TENANT),
                           ("root/idle", 1120), ("root", TENANT + 1120)):
            group = groups[path]
            self.assertLessEqual(abs(group["live_bytes"] - live), tolerance, group)
            self.assertGreaterEqual(group["peak_bytes"], live)
            self.assertEqual(group["parent"] is None, path == "root")
        tenant, inner = groups["root/tenant-7"], groups["root/tenant-7/inner"]
        self.assertEqual((tenant["low_bytes"], tenant["high_bytes"], tenant["max_bytes"]),
                         (1 << 20, None, 40 << 20))
        self.assertEqual((tenant["failures"], inner["failures"]), (2, 0))
        self.assertEqual((inner["large_bytes"], inner["objects"]), (1 << 20, 600))
        self.assertEqual(inner["object_bytes"], INNER - (1 << 20))
        self.assertTrue(inner["object_bytes"] <= inner["slab_bytes"] <= 1 << 20, inner)
        # Slabs that two groups are on are both's, but once their parent's.
        self.assertGreaterEqual(tenant["slab_bytes"], inner["slab_bytes"] + 3000 * 112)
        self.assertEqual(groups["root/idle"]["slab_bytes"], 32768)


class Groups(GroupsTarget):
    def test_a_living_process(self):
        process = self.process()
        groups = self.groups(process.pid)
        self.check(groups, 0)
        self.assertEqual([groups[path]["threads"] for path in sorted(groups)], [0, 0, 1, 0])
        self.assertEqual(groups, self.groups(process.pid, "top"))

    def test_each_backend(self):
        for backend in ("thread", "tid", "lock"):
            with self.subTest(backend=backend):
                self.check(self.groups(self.process(SLUB_FASTPATH=backend).pid), 0)

    def test_watched_objects(self):
        process = self.process(SLUB_DEBUG="FZPU")
        groups = self.groups(process.pid)
        self.assertEqual(groups["root/tenant-7/inner"]["live_bytes"], INNER)
        self.assertEqual(groups["root/tenant-7/inner"]["objects"], 600)

    def test_a_core_file(self):
        process = self.process()
        living = self.groups(process.pid)
        self.assertEqual(self.groups(self.core_of(process)), living)

    def test_what_a_killed_process_leaves_behind(self):
        # What lies free in lists of CPUs counts as used there, and stocks are of a moment before.
        self.check(self.groups(self.killed()), FILE_TOLERANCE)

    def test_text(self):
        process = self.counted()
        for target in (str(process.pid), self.path("stats")):
            done = slub("info", "-GB", "-p", target)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = done.stdout.splitlines()
            self.assertRegex(lines[0], "^ +LIVE +SLABS +LARGE +PEAK +LOW +HIGH +MAX +FAILURES")
            self.assertEqual([line.split()[-1] for line in lines[1:]],
                             ["root", "root/idle", "root/tenant-7", "root/tenant-7/inner"])
            self.assertRegex(lines[3], r" 1048576 +- +41943040 +2 +[01] root/tenant-7$")
            done = slub("top", "--groups", "--once", "-p", target)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            names = [line.split()[-1] for line in done.stdout.splitlines()[8:]]
            self.assertEqual(names[-1], "root/idle", "the largest comes first")
        done = slub("info", "-GS", "-N", "1", "-p", str(process.pid))
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_openmetrics(self):
        done = slub("info", "-G", "--openmetrics", "-p", str(self.process().pid))
        self.assertIn(f'slub_group_bytes{{group="root/tenant-7/inner",state="live"}} {INNER}\n',
                      done.stdout)
        self.assertIn('slub_group_failures_total{group="root/tenant-7"} 2\n', done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "# EOF")

    def test_a_process_without_groups(self):
        process = self.start(sys.executable, "-c", "import sys; print('ready', flush=True);"
                             "sys.stdin.read()", SLUB_STATS_FILE=self.path("stats"))
        for target in (process.pid, self.path("stats")):
            self.assertEqual(self.groups(target), {})

    def test_a_busy_process(self):
        process = self.process("busy")
        # The file may still have a group that has died since the slabs were counted.
        for n in range(100):
            for path, group in self.groups(process.pid if n % 2 else self.path("stats")).items():
                self.assertRegex(path, r"^root(/(idle|dead|tenant-7|inner|fleeting))*$")
                self.assertLess(group["threads"], 4)
        self.assertIsNone(process.poll())
        process.communicate()
        self.assertEqual(process.returncode, 0)

    def test_aliases(self):
        process = self.process()
        for target in (str(process.pid), self.path("stats")):
            done = slub("info", "-a", "-p", target)
            self.assertRegex(done.stdout, r"^first +<- third second\n$")
            done = slub("info", "-ai", "-p", target)
            self.assertRegex(done.stdout, r"^third +-> first\nsecond +-> first\n$")
            told = {cache["name"]: cache for cache in self.told("info", target)["caches"]}
            self.assertEqual(told["first"]["alias_names"], ["third", "second"])
            self.assertEqual(told["malloc-112"]["alias_names"], [])
            self.assertEqual(slub("info", "-f", "-p", target).stdout,
                             slub("info", "-p", target).stdout)


class Damage(GroupsTarget):
    def patched(self, path, at, data):
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(data)

    def groups_at(self, path):
        with open(path, "rb") as file:
            return struct.unpack_from("<I", file.read(HEAD_GROUPS + 4), HEAD_GROUPS)[0]

    def test_unknown_version(self):
        path = self.killed()
        self.patched(path, self.groups_at(path), b"\x09")
        self.assertRefused(slub("info", "-G", "-p", path), 5, "version 9", "version 1",
                           "update slub")
        self.assertEqual(slub("info", "-p", path).returncode, 0, "the caches can be read")

    def test_a_file_without_groups(self):
        path = self.killed()
        self.patched(path, HEAD_GROUPS, bytes(4))
        self.assertRefused(slub("top", "--groups", "-p", path), 5, "nothing about groups")

    def test_an_older_head(self):
        """What was appended to the description since is not there."""
        path = self.killed()
        self.patched(path, HEAD_SIZE, struct.pack("<I", HEAD_SIZE_FIRST))
        self.check(self.groups(path), FILE_TOLERANCE)
        self.patched(path, HEAD_SIZE, struct.pack("<I", HEAD_SIZE_FIRST - 1))
        self.assertRefused(slub("info", "-G", "-p", path), 5, "no sense")

    def test_a_file_cut_short(self):
        path = self.killed()
        for keep in (self.groups_at(path) - 1, self.groups_at(path) + 8):
            os.truncate(path, keep)
            self.assertRefused(slub("info", "-G", "-p", path), 5, "cut short")

    def fuzz(self, path, hot):
        rng = random.Random(1)
        with open(path, "r+b", buffering=0) as file:
            for _ in range(ROUNDS):
                saved = []
                for _ in range(rng.randrange(1, 6)):
                    start, stop = rng.choice(hot)
                    at = rng.randrange(start, stop)
                    noise = rng.choice((rng.randbytes(rng.choice((1, 4, 8, 64))), b"\xff" * 8,
                                        b"\0" * 8))
                    file.seek(at)
                    saved.append((at, file.read(len(noise))))
                    file.seek(at)
                    file.write(noise)
                done = slub("info", "-G", "--json", "-p", path)
                if done.returncode:
                    self.assertRefused(done, done.returncode)
                    self.assertIn(done.returncode, (1, 5), done)
                else:
                    json.loads(done.stdout)
                for at, old in reversed(saved):
                    file.seek(at)
                    file.write(old)

    def test_noise_in_a_statistics_file(self):
        path = self.killed()
        at = self.groups_at(path)
        self.fuzz(path, [(at, at + 32), (at, at + 2000), (HEAD_GROUPS, HEAD_GROUPS + 4)])
        self.check(self.groups(path), FILE_TOLERANCE)

    def test_noise_in_a_core_file(self):
        path = self.core_of(self.process())
        before = self.groups(path)
        with open(path, "rb") as file:
            image = file.read()
        hot = [(found.start() - 64, found.start() + 640)
               for found in re.finditer(rb"tenant-7\0|inner\0{40}|SLUBABI\0", image)]
        # The pages that are neither empty nor full: tables, pools, descriptors.
        hot += [(at, at + 4096) for at in range(0, len(image) - 4096, 4096)
                if 500 < image.count(0, at, at + 4096) < 4000]
        self.fuzz(path, hot)
        self.assertEqual(self.groups(path), before, "the file is as it was")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
