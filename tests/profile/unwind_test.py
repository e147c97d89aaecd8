#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub profile PID` shows whole call stacks of a program without frame pointers, and
says of how many samples; what cannot be unwound keeps the stack as the process walked it.

How many trails are overwritten depends on when the command runs, so at least half of them must come
through.  The order of a chain and the sums are exact.

usage: unwind_test.py SLUB LIBRARY CHAIN"""

import ctypes
import json
import os
import platform
import re
import subprocess
import unittest

from profile import KNOWN, LIBRARY, SLUB, Pprof, ProfileTest, run

CHAIN = [f"link_{n:02}" for n in range(20)] + ["main"]
OTHER = ["other_0", "other_1", "other"]
LIVE = ("--bytes=1", "--timeout=60")


def can_unwind():
    """Is elfutils there, and a CPU whose registers the library knows?"""
    linked = subprocess.run(["ldd", SLUB], capture_output=True, text=True, check=False).stdout
    return "libdw" in linked and platform.machine() in ("x86_64", "aarch64")


def functions(site):
    return [frame.get("function") for frame in site["stack"]]


def begins(site, names):
    return functions(site)[:len(names)] == names


class Unwind(ProfileTest):
    def start(self, *arguments, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
        process = subprocess.Popen([KNOWN, *arguments], stdout=subprocess.PIPE, text=True,
                                   env={**env, "LD_PRELOAD": LIBRARY, **more})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ready(self, *arguments, **more):
        process = self.start(*arguments, **more)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def told(self, pid, *arguments, seconds=0.5):
        done = run(SLUB, "profile", "--json", "--lines=0", f"--seconds={seconds}", *LIVE,
                   *arguments, str(pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return json.loads(done.stdout)

    def sums(self, told, name):
        return sum(site[name] for site in told["sites"])

    def check_sums(self, told):
        self.assertEqual(told["stacks_unwound"] + told["stacks_walked"],
                         self.sums(told, "samples"))

    def check_share(self, told):
        self.check_sums(told)
        self.assertGreater(told["stacks_unwound"], 0)
        self.assertGreaterEqual(told["stacks_unwound"], told["stacks_walked"], told["trails_lost"])

    def check_chains(self, told):
        """What was unwound has all of its chain, and each chain is there."""
        self.check_share(told)
        broken = [site for site in told["sites"]
                  if not begins(site, CHAIN) and not begins(site, OTHER)]
        for site in broken:
            self.assertIn(functions(site)[0], ("link_00", "other_0"))
        self.assertLessEqual(sum(site["samples"] for site in broken), told["stacks_walked"])
        for names in CHAIN, OTHER:
            self.assertTrue(any(begins(site, names) for site in told["sites"]), names)

    def check_table(self, text, pattern):
        unwound, walked = map(int, re.search(pattern, text).groups())
        self.assertGreater(unwound, 0)
        self.assertGreaterEqual(unwound, walked)

    def check_kept(self, told):
        """One of the two calls in link_00 keeps its blocks."""
        kept = [site for site in told["sites"] if begins(site, CHAIN) and
                site["inuse_objects"] > 1]
        self.assertEqual(len(kept), 1)
        self.assertEqual(kept[0]["inuse_samples"], kept[0]["samples"])
        self.assertEqual(kept[0]["inuse_objects"], kept[0]["alloc_objects"])
        self.assertEqual(kept[0]["inuse_bytes"], kept[0]["alloc_bytes"])
        return kept[0]

    def test_the_chain_is_there(self):
        process = self.ready()
        told = self.told(process.pid)
        self.check_chains(told)
        self.check_kept(told)

    def test_as_the_process_walks_it(self):
        """It reads the same tables where the C library finds them, else it follows frame pointers,
        which the program has none of."""
        has_tables = platform.machine() == "x86_64" and \
            hasattr(ctypes.CDLL(None), "_dl_find_object")
        told = self.told(self.ready().pid, "--frame-pointers")
        self.assertNotIn("stacks_unwound", told)
        for site in told["sites"]:
            if has_tables:
                self.assertTrue(begins(site, CHAIN) or begins(site, OTHER), site)
            else:
                self.assertNotIn("link_05", functions(site))

    def test_both_ways_count_the_same(self):
        """A profile that is on already, looked at by both at once."""
        process = self.ready(SLUB_PROFILE="1")
        told = self.told(process.pid)
        self.check_chains(told)
        # Each round: 1,000 and 2,000 bytes by the one chain, 3,000 by the other.
        for site in told["sites"]:
            self.assertEqual(site["alloc_bytes"] % 1000, 0)
            self.assertEqual(site["alloc_bytes"] // site["alloc_objects"] % 1000, 0)
            self.assertEqual(site["alloc_objects"], site["samples"])

    def test_leaks(self):
        told = self.told(self.ready().pid, "--leaks")
        kept = self.check_kept(told)
        alive = [site for site in told["sites"] if site["inuse_objects"]]
        for site in alive:
            self.assertEqual(functions(site)[0], "link_00")
            self.assertEqual(site["inuse_bytes"], 1000 * site["inuse_objects"])
        self.assertGreaterEqual(2 * kept["inuse_objects"], self.sums(told, "inuse_objects"))

    def test_pprof(self):
        path = self.path("out.pb.gz")
        done = run(SLUB, "profile", f"--output={path}", "--seconds=0.5", *LIVE,
                   str(self.ready().pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        profile = Pprof(path)
        stacks = [names for names, _ in profile.stacks()]
        self.assertTrue(any(names[:len(CHAIN)] == CHAIN for names in stacks), stacks)
        self.assertTrue(any(names[:len(OTHER)] == OTHER for names in stacks), stacks)
        self.check_table(profile.text(profile.top[13]),
                         r"^call stacks: (\d+) samples unwound, (\d+) walked by the process$")

    def test_the_table_says_so(self):
        done = run(SLUB, "profile", "--alloc", "--seconds=0.5", *LIVE, str(self.ready().pid))
        self.check_table(done.stdout, r"\ncall stacks: (\d+) samples unwound, "
                                      r"(\d+) walked by the process, \d+ trails lost\n")
        self.assertRegex(done.stdout, "(?s)" + ".*\n +".join(CHAIN))

    def test_overwritten_trails_are_counted(self):
        told = self.told(self.ready("burst").pid)
        self.assertGreater(told["trails_lost"], 0)
        self.assertGreater(told["stacks_walked"], 0)
        self.assertGreater(told["stacks_unwound"], 0)
        self.check_sums(told)
        for site in told["sites"]:
            self.assertIn(functions(site)[0], ("link_00", "other_0"))

    def test_a_process_that_ends(self):
        for way in (), ("--leaks",):
            process = self.ready("short")
            done = run(SLUB, "profile", "--seconds=50", *LIVE, *way, str(process.pid))
            self.assertRefused(done, 4, "has ended")
            self.assertEqual(process.wait(), 0)

    @unittest.skipIf(platform.machine() != "x86_64", "the file has code of x86-64")
    def test_a_fifo_by_the_name_of_a_mapped_file(self):
        """The maps of the process have this name; an open for reading waits for a writer."""
        path = self.path("code")
        with open(path, "wb") as file:
            # mov %rdi,%rax; mov %rsi,%rdi; sub $8,%rsp; call *%rax; add $8,%rsp; ret
            file.write(bytes.fromhex("4889f8 4889f7 4883ec08 ffd0 4883c408 c3").ljust(4096))
        os.mkfifo(path + " (deleted)")
        told = self.told(self.ready("map", path).pid)
        self.check_sums(told)
        self.assertTrue(any(begins(site, CHAIN) for site in told["sites"]))
        self.assertTrue(any(begins(site, OTHER[:2]) and not begins(site, OTHER)
                            for site in told["sites"]))

    def test_a_forked_child(self):
        """It leaves no trails for its parent's reader, and is itself unwound when it is asked."""
        process = self.start("fork")
        lines = {process.stdout.readline().strip() for _ in range(4)}
        child = int(next(line for line in lines if line not in ("0", "ready")))
        self.addCleanup(os.kill, child, 9)
        for pid in process.pid, child, process.pid:
            told = self.told(pid)
            self.assertTrue(any(begins(site, CHAIN) for site in told["sites"]))
            self.check_share(told)

    def test_it_ends(self):
        """And may be begun anew; the process has no descriptor more than before."""
        process = self.ready()

        def descriptors():
            return len(os.listdir(f"/proc/{process.pid}/fd"))

        before = descriptors()
        for _ in range(2):
            self.check_chains(self.told(process.pid, seconds=0.3))
            self.assertEqual(descriptors(), before)


if __name__ == "__main__":
    if not can_unwind():
        print("skipped: nothing can be unwound here")
    else:
        unittest.main(argv=["unwind_test.py"], verbosity=2)
