#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: whatever `slub top`, `info`, `stats`, `map`, `options` and `doctor` are given, wrong
arguments, somebody else's process, files cut short or filled with noise, they answer with one clear
line and the documented exit status.

usage: refusal_test.py SLUB LIBRARY HEAP GDB_SCRIPT [FUZZ_SECONDS]"""

import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))

from mappings import library_start
from target import FUZZ_SECONDS, HEAP, LIBRARY, NOBODY, READERS, SLUB, Target, environment, slub


class Refusals(Target):
    def test_arguments(self):
        for command in READERS:
            if command != "options":
                self.assertRefused(slub(command), 2, "a PID")
            self.assertRefused(slub(command, "-p"), 2, "-p")
            self.assertRefused(slub(command, "-p", "99999999999"), 2, "PID")
            self.assertRefused(slub(command, "-p", "1", "--jsno"), 2, "--json")
            self.assertRefused(slub(command, "-p", "1", "--watch", "x"), 2, "--watch")
            self.assertRefused(slub(command, "-p", "1", "--color=blue"), 2, "always")
        self.assertRefused(slub("top", "-p", "1", "--sort", "Q"), 2, "--sort")
        order = slub("top", "--help").stdout.split("the order (default c):")[1].split("-p, ")[0]
        keys = re.findall(r"(?m)(?:^|  )(\w)  \S", order)
        self.assertIn("f", keys)
        self.assertRefused(slub("top", "-p", "1", "--sort", "Q"), 2, "not one of " + " ".join(keys))
        self.assertRefused(slub("map", "-p", "1", "--columns=3"), 2, "--columns")
        self.assertRefused(slub("map", "-p", "1", "--openmetrics"), 2, "metric")
        self.assertRefused(slub("doctor"), 2, "PROGRAM|PID")

    def test_help_names_the_exit_statuses(self):
        for command in (*READERS, "doctor"):
            done = slub(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Exit status", done.stdout)

    def test_no_process(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        for command in READERS:
            self.assertRefused(slub(command, "-p", str(gone.pid)), 4, str(gone.pid))
            self.assertRefused(slub(command, "-p", "/nonexistent"), 4, "/nonexistent")
        self.assertRefused(slub("doctor", str(gone.pid)), 4)
        self.assertRefused(slub("doctor", "/nonexistent"), 4)

    def test_process_without_libslub(self):
        process = subprocess.Popen([HEAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=environment(), text=True)
        self.addCleanup(process.communicate)
        process.stdout.readline()
        for command in READERS:
            self.assertRefused(slub(command, "-p", str(process.pid)), 1, "does not use libslub")
        self.assertEqual(slub("doctor", str(process.pid)).returncode, 1)

    def test_a_name(self):
        """Not a file's, but that of processes, which the kernel cuts short."""
        program = self.path("orders-of-the-day")
        shutil.copy(HEAP, program)
        first = self.start(program, "wait")
        for command in (*READERS, "leaks"):
            self.assertRefused(slub(command, "orders-of-the-day"), 4,
                               f"'orders-of-the-day'; process of that name: {first.pid}")
        pids = sorted([first.pid] + [self.start(program, "wait").pid for _ in range(5)])
        self.assertRefused(slub("leaks", "orders-of-the-day"), 4, "; processes of that name: " +
                           ", ".join(str(pid) for pid in pids[:5]) + ", ...")
        self.assertRefused(slub("leaks", "./orders-of-the-day"), 4, "no file")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_no_permission(self):
        pid = str(self.heap().pid)
        for command in READERS:
            self.assertRefused(slub(command, "-p", pid, user=NOBODY), 3)
        with open(self.path("secret"), "w"):
            os.chmod(self.path("secret"), 0o600)
        self.assertRefused(slub("top", "-p", self.path("secret"), user=NOBODY), 3, "secret")

    def test_unknown_version_of_the_library(self):
        with open(LIBRARY, "rb") as file:
            image = file.read()
        at = image.index(b"SLUBABI\0\6\0\0\0")
        other = self.path("libslub.so.1")
        # One to come, and the one before.
        for version, advice in ((99, "newer than this command.*update slub"),
                                (3, "older than this command.*on libslub ")):
            with open(other + ".new", "wb") as file:
                file.write(image[:at + 8] + bytes([version]) + image[at + 9:])
            os.rename(other + ".new", other)
            process = self.heap(library=other)
            said = f"itself in version {version}; slub "
            for command in READERS:
                self.assertRefused(slub(command, "-p", str(process.pid)), 5, said)
            run = slub("check", str(process.pid))
            self.assertRefused(run, 5, said)
            release = slub("--version").stdout.split()[1]
            self.assertRegex(run.stderr, f"its libslub {release} describes.*{advice}")
            self.assertRefused(slub("stats", "-p", self.core_of(process)), 5, "libslub")

    def test_another_release_that_can_be_read(self):
        """After an upgrade a program still runs the library that it was started with."""
        release = slub("--version").stdout.split()[1].encode()
        with open(LIBRARY, "rb") as file:
            image = bytearray(file.read())
        at = image.index(release + b"\0", image.index(b"SLUBABI\0\6\0\0\0"))
        image[at:at + len(release)] = b"9" + release[1:]
        with open(self.path("libslub.so.1"), "wb") as file:
            file.write(image)
        process = self.heap(library=self.path("libslub.so.1"))
        said = slub("doctor", str(process.pid)).stdout
        other = "9" + release.decode()[1:]
        self.assertRegex(said, f"(?m)^note +version +the process runs libslub {other}, "
                               f"this command came with libslub {release.decode()}; restart ")
        self.assertRegex(slub("check", str(process.pid)).stdout, f"(?m)^version +{other}$")
        self.assertNotRegex(slub("doctor", str(self.heap().pid)).stdout, "(?m)^note +version ")

    def poke(self, process, symbol, data):
        """Overwrites what a hidden symbol of the library is in the process."""
        names = subprocess.run(["nm", LIBRARY], capture_output=True, text=True, check=True).stdout
        at = int(re.search(rf"(?m)^(\w+) [dD] {symbol}$", names)[1], 16)
        at += library_start(process.pid)
        with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(at)
            memory.write(data)

    def test_unknown_version_of_a_part(self):
        """Both versions, and what to do; what is of a known version can be read."""
        release = slub("--version").stdout.split()[1]
        process = self.heap()
        pid = str(process.pid)
        self.poke(process, "guard_pools", struct.pack("<I", 77))
        refused = slub("explain", pid, "0x1234")
        self.assertRefused(refused, 5)
        self.assertRegex(refused.stderr, f"its libslub {release} describes its guarded objects in "
                                         f"version 77; slub {release} reads version 1. "
                                         "It is newer than this command.*or update slub")
        self.poke(process, "slub_debug_mailbox", b"SLUBMBOX" + struct.pack("<I", 1))
        refused = slub("shrink", pid)
        self.assertRefused(refused, 5)
        self.assertRegex(refused.stderr, f"its libslub {release} describes its mailbox in version "
                                         f"1; slub {release} reads version .* older than this "
                                         f"command.*on libslub {release}")
        self.poke(process, "slub_debug_mailbox", b"something")
        self.assertRefused(slub("shrink", pid), 5, "makes no sense")
        self.assertEqual(slub("check", pid).returncode, 0)

    def test_files_that_are_something_else(self):
        with open(self.path("text"), "w") as file:
            file.write("hello\n")
        open(self.path("empty"), "w").close()
        for name in ("text", "empty"):
            self.assertRefused(slub("top", "-p", self.path(name)), 5, name)
        self.assertRefused(slub("top", "-p", SLUB), 5, "neither")
        self.assertRefused(slub("top", "-p", self.folder), 5)
        self.assertRefused(slub("top", "-p", "/dev/zero"), 5)


class Damage(Target):
    """Files cut short or filled with noise: an answer or one line, never a crash."""

    def assertSurvived(self, done):
        # 6: the noise hid that a cache is watched.
        statuses = {"traces": (0, 1, 5, 6), "watched": (0, 1, 5, 6),
                    "leaks": (0, 1, 5, 6, 7)}.get(done.args[1], (0, 1, 5))
        self.assertIn(done.returncode, statuses, done)
        if done.returncode not in (0, 7):
            self.assertRefused(done, done.returncode)
        else:
            self.assertEqual(done.stderr, "", done)

    def stats_file(self):
        process = self.heap(SLUB_STATS_FILE=self.path("stats"))
        process.kill()
        process.wait()
        return self.path("stats")

    def test_version_of_the_file(self):
        path = self.stats_file()
        for version, advice in ((7, "update slub"), (1, "older than this command")):
            with open(path, "r+b") as file:
                file.seek(8)
                file.write(bytes([version]))
            self.assertRefused(slub("stats", "-p", path), 5, f"in version {version}; slub ",
                               "reads version 2", advice)

    def test_statistics_file_cut_short(self):
        path = self.stats_file()
        size = os.path.getsize(path)
        # The last that counts is the record of the last cache.
        for keep in (0, 1, 8, 15, 100, 463, 500, 1000, 4096, 8192, 20000):
            shutil.copy(path, self.path("cut"))
            os.truncate(self.path("cut"), min(keep, size))
            self.assertRefused(slub("stats", "-p", self.path("cut")), 5, "cut")

    def test_core_cut_short(self):
        path = self.core_of(self.heap())
        size = os.path.getsize(path)
        for keep in (64, 200, 1000, 5000, size // 2, size - 4096):
            os.truncate(path, size)
            shutil.copy(path, self.path("cut"))
            os.truncate(self.path("cut"), keep)
            self.assertRefused(slub("stats", "-p", self.path("cut")), 5, "cut")

    def fuzz(self, path, hot, commands):
        """Overwrites a few places, most of them in @hot, reads, and puts back what was there."""
        rng = random.Random(1)
        size = os.path.getsize(path)
        end, rounds = time.time() + FUZZ_SECONDS / 2, 0
        with open(path, "r+b", buffering=0) as file:
            while time.time() < end:
                saved = []
                for _ in range(rng.randrange(1, 8)):
                    start, stop = rng.choice(hot) if rng.random() < 0.9 else (0, size)
                    at = rng.randrange(start, stop)
                    noise = rng.choice((rng.randbytes(rng.choice((1, 2, 4, 8, 64))), b"\xff" * 8,
                                        b"\0" * 8, b"\xff\xff\xff\x7f"))
                    file.seek(at)
                    saved.append((at, file.read(len(noise))))
                    file.seek(at)
                    file.write(noise[:size - at])
                command = rng.choice(commands)
                how = ("--once", "-p") if command not in ("explain", "leaks") else ()
                self.assertSurvived(slub(command, *how, path))
                for at, old in reversed(saved):
                    file.seek(at)
                    file.write(old)
                rounds += 1
        self.assertGreater(rounds, 10)
        self.assertEqual(slub("stats", "-p", path).returncode, 0, "the file is as it was")

    def test_noise_in_a_statistics_file(self):
        path = self.stats_file()
        self.fuzz(path, [(0, 1000), (464, 960), (4096, 90000)], ("stats", "top", "info", "options"))

    def test_noise_in_a_core_file(self):
        path = self.core_of(self.heap(SLUB_DEBUG="FZPU,malloc-112,malloc-20480",
                                      SLUB_GUARD="100"))
        with open(path, "rb") as file:
            image = file.read()
        hot = [(0, 64), (64, 4096)]
        at = image.find(b"SLUBABI\0")
        while at >= 0:
            hot.append((at, at + 640))
            at = image.find(b"SLUBABI\0", at + 8)
        # The map, the descriptors and the caches are among what is not zero.
        hot += [(at, at + 4096) for at in range(0, len(image) - 4096, 4096)
                if image.count(0, at, at + 4096) < 4096]
        self.fuzz(path, hot, ("stats", "top", "info", "map", "options", "traces", "leaks",
                              "watched", "explain"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
