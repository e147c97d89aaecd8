#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub profile PID` has a running process sample for some seconds, tells what it
allocated and what of it is still in use, and leaves it as it was.

usage: live_test.py SLUB LIBRARY LIVE"""

import json
import os
import subprocess
import unittest

from profile import KNOWN, LIBRARY, SLUB, run


def start(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    process = subprocess.Popen([KNOWN], stdout=subprocess.PIPE, text=True,
                               env={**env, "LD_PRELOAD": LIBRARY, **more})
    assert process.stdout.readline() == "ready\n"
    return process


class Live(unittest.TestCase):
    def start(self, **more):
        process = start(**more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def sites(self, pid, *arguments):
        """By the innermost function of the program."""
        done = run(SLUB, "profile", "--json", "--seconds=0.5", "--bytes=1", "--timeout=60",
                   *arguments, str(pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        told = json.loads(done.stdout)
        self.assertEqual((told["kind"], told["pid"]), ("profile", pid))
        return {site["stack"][0].get("function"): site for site in told["sites"] if site["stack"]}

    def descriptors(self, process):
        return len(os.listdir(f"/proc/{process.pid}/fd"))

    def test_allocated_and_in_use(self):
        process = self.start()
        before = self.descriptors(process)
        for _ in range(2):                      # ended, and begun anew
            sites = self.sites(process.pid)
            self.assertGreater(sites["keep"]["inuse_bytes"], 0)
            self.assertEqual(sites["keep"]["inuse_bytes"], sites["keep"]["alloc_bytes"])
            self.assertGreater(sites["pass"]["alloc_objects"], 1)
            self.assertLessEqual(sites["pass"]["inuse_objects"], 1)
        self.assertEqual(self.descriptors(process), before)
        done = run(SLUB, "profile", "--seconds=0.3", "--bytes=1", "--timeout=60", str(process.pid))
        self.assertRegex(done.stdout, r"(?s)^in use: about \d+ bytes.* keep  ")

    def test_leaks(self):
        sites = self.sites(self.start().pid, "--leaks")
        self.assertGreater(sites["keep"]["inuse_bytes"], 0)
        self.assertEqual(sites["pass"]["inuse_objects"], 0, "time enough to free the last one")

    def test_a_profile_that_is_on_stays_on(self):
        process = self.start(SLUB_PROFILE="1")
        first, second = self.sites(process.pid), self.sites(process.pid)
        for sites in (first, second):           # of half a second each, and not from the start
            self.assertGreater(sites["keep"]["alloc_objects"], 1)
        self.assertIsNone(process.poll())

    def test_refused(self):
        process = self.start(SLUB_ATTACH="0")
        done = run(SLUB, "profile", "--seconds=0.1", str(process.pid))
        self.assertEqual((done.returncode, done.stdout), (3, ""), done)
        self.assertIn("SLUB_ATTACH=0", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=["live_test.py"], verbosity=2)
