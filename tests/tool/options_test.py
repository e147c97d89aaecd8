#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the command tells, of a process and of the environment that it would run a program in,
which SLUB_ variables are not in force and why, what came of an `auto`, and it takes sizes as the
library does.

usage: options_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from target import HEAP, LIBRARY, NOBODY, Target, environment, slub

# What the library complains about, and a word of the reason.
REFUSED = {
    "SLUB_LIMIT": ("512Mx", "number of bytes"),
    "SLUB_LIMT": ("64M", "'limit'"),
    "SLUB_DEBUG": ("ZQ", "'Q'"),
    "SLUB_HUGE": ("sometimes", "never, block, always, auto"),
    "SLUB_PRESSURE": ("thread,never", "'never'"),
    "SLUB_RESERVE": ("1G", "address_space"),
    "SLUB_RETAIN": ("1Xi", "number of bytes"),
    "SLUB_GUARD": ("5KB", "number"),
}
UNDERSTOOD = {
    "SLUB_RETAIN": "64Mi", "SLUB_MODE": "COMPACT", "SLUB_LIBRARY": "/nowhere",
    "SLUB_TEST_SCALE": "10", "SLUB_BUILD": "x", "SLUB_GUARD": "5K", "SLUB_DEBUG": "",
    "SLUB_OPTIONS": "limit=1Gi,huge=never", "SLUB_pressure": "off",
}
SIZES = ("64Ki", "64Mi", "1Gi", "1Ti", "65536K", "64M", "1G", "65536KB", "64MB", "1GB", "64KiB",
         "64MiB", "1GiB", "64mb", "65536")
NO_SIZES = ("64Q", "64Mx", "1.5G", "-1", "64 M", "M", "")


class Options(Target):
    def told_of(self, **variables):
        process = self.heap(**variables)
        return process, self.told("options", process.pid)

    def options_of(self, **variables):
        return {one["name"]: one for one in self.told_of(**variables)[1]["options"]}

    def test_refused_as_the_library_does(self):
        for name, (value, word) in REFUSED.items():
            said = subprocess.run(["true"], capture_output=True, text=True, timeout=60, check=True,
                                  env=environment(LD_PRELOAD=LIBRARY, **{name: value})).stderr
            self.assertIn("slub[", said, name)
            process, told = self.told_of(**{name: value})
            self.assertEqual([one["setting"] for one in told["refused"]], [f"{name}={value}"])
            self.assertIn(word, told["refused"][0]["why"])
            self.assertEqual(self.told("check", process.pid)["refused"], told["refused"])
            for run in (slub("options", str(process.pid)), slub("check", str(process.pid)),
                        slub("doctor", str(process.pid)),
                        slub("doctor", "true", **{name: value})):
                self.assertRegex(run.stdout, re.escape(f"{name}={value}") + ".*: .*" +
                                 re.escape(word), run)

    def test_nothing_of_what_is_understood(self):
        for name, value in UNDERSTOOD.items():
            self.assertEqual(self.told_of(**{name: value})[1]["refused"], [], name)
            self.assertNotIn("not in force", slub("doctor", "true", **{name: value}).stdout)

    def test_parts_of_a_list(self):
        refused = self.told_of(SLUB_OPTIONS="limt=1M,retain=1M,huge,mode=quick",
                               SLUB_TEST_CPUS="many")[1]["refused"]
        self.assertEqual([one["setting"] for one in refused],
                         ["SLUB_OPTIONS: limt=1M", "SLUB_OPTIONS: huge",
                          "SLUB_OPTIONS: mode=quick", "SLUB_TEST_CPUS=many"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make set-user-ID programs")
    def test_more_rights_than_its_user(self):
        path = self.path("privileged")
        shutil.copy(os.path.join(os.path.dirname(HEAP), "own_sleeper"), path)
        os.chmod(path, 0o4755)
        process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   user=NOBODY, text=True, env=environment(SLUB_LIMIT="64M"))
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), "ready\n")
        refused = self.told("options", process.pid)["refused"]
        self.assertEqual([one["setting"] for one in refused], ["SLUB_LIMIT=64M"])
        self.assertIn("more rights", refused[0]["why"])
        self.assertIsNone(self.told("check", process.pid)["limit_bytes"])

    def test_text_of_somebody_else(self):
        process, told = self.told_of(SLUB_LIMIT="1\n\033[2Jproblem", SLUB_A="b" * 9999)
        self.assertEqual(len(told["refused"]), 2)
        for command in ("options", "check", "doctor"):
            run = slub(command, str(process.pid))
            self.assertNotIn("\033", run.stdout)
            self.assertNotRegex(run.stdout, "(?m)^problem")
            self.assertLess(max(map(len, run.stdout.splitlines())), 1024)

    def test_what_came_of_auto(self):
        rows = self.options_of(SLUB_LIMIT="auto", SLUB_HUGE="auto", SLUB_FASTPATH="auto")
        self.assertEqual(rows["limit"]["value"], "auto")
        self.assertIsInstance(rows["limit"]["in_force"], int)
        self.assertIn(rows["fastpath"]["in_force"], ("rseq", "thread"))
        self.assertNotIn("in_force", rows["retain"])

    def in_a_group_of(self, limit, **variables):
        """A process that finds the limit of a control group, in a folder of ours."""
        group = tempfile.mkdtemp(dir=self.folder)
        with open(os.path.join(group, "memory.max"), "w") as file:
            file.write(f"{limit}\n")
        hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                  'mount --bind "$0" /sys/fs/cgroup && exec "$@"', group]
        if not shutil.which("unshare") or subprocess.run(
                [*hidden, "true"], capture_output=True, timeout=60, check=False).returncode:
            self.skipTest("no mount namespaces here")
        return self.start(*hidden, HEAP, "wait", **variables), os.path.join(group, "memory.max")

    def test_the_number_behind_auto(self):
        process, _ = self.in_a_group_of(512 << 20, SLUB_LIMIT="auto")
        row = next(one for one in self.told("options", process.pid)["options"]
                   if one["name"] == "limit")
        # A 16th and 8 MiB are not for the heap.
        self.assertEqual((row["value"], row["in_force"]), ("auto", 472 << 20))
        self.assertEqual(self.told("check", process.pid)["limit_bytes"], 472 << 20)
        self.assertRegex(slub("options", str(process.pid)).stdout,
                         "(?m)^limit +auto=472.0M +SLUB_LIMIT ")
        self.assertRegex(slub("doctor", str(process.pid)).stdout, "(?m)^ok +limit .*472.0M$")

    def test_the_limit_in_force(self):
        process = self.heap(SLUB_LIMIT="512MiB")
        self.assertEqual(self.told("check", process.pid)["limit_bytes"], 512 << 20)
        self.assertRegex(slub("check", str(process.pid)).stdout, "(?m)^limit +512.0 MiB$")
        self.assertIsNone(self.told("check", self.heap().pid)["limit_bytes"])

    def test_sizes_as_the_library(self):
        pid = "4194304"			# the kernel gives none this high: refused after the size
        for text in SIZES:
            self.assertEqual(slub("set", pid, "retain", text).returncode, 4, text)
            if not text.endswith("Ti"):		# more than it takes
                self.assertEqual(slub("profile", f"--bytes={text}", pid).returncode, 4, text)
        for text in NO_SIZES:
            for run in (slub("profile", f"--bytes={text}", pid),
                        slub("set", "--", pid, "retain", text)):
                self.assertEqual(run.returncode, 2, run)
        self.assertEqual(slub("guard", pid, "5K").returncode, 4)
        self.assertEqual(slub("guard", pid, "5Kx").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
