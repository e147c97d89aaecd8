# SPDX-License-Identifier: MIT
"""The profile's file: when it is written, what is in it, and what the tool says to a bad one."""

import os
import random
import re
import shutil
import subprocess
import unittest

from profile import KNOWN, LIBRARY, SLUB, ProfileTest, header_of, read_known, run


class Options(ProfileTest):
    def test_nothing_is_written_unless_asked_for(self):
        self.known("exit", "-", 0, 1 << 16, SLUB_PROFILE="1")
        done = run(KNOWN, "write", self.path("heap"), "0", "65536")
        self.assertEqual(done.returncode, 104, "there was no profile to write")
        self.assertEqual(self.files(), [])

    def test_file_at_exit(self):
        self.known("exit", "-", 0, 1 << 20, SLUB_PROFILE="1",
                   SLUB_PROFILE_FILE=self.path("heap.%p"))
        name, = self.files()
        self.assertRegex(name, r"^heap\.\d+$")
        self.assertGreater(header_of(self.path(name))[1], 1 << 20)

    def test_file_alone_means_the_default_mean(self):
        self.known("exit", "-", 0, 1 << 16, SLUB_PROFILE_FILE=self.path("heap"))
        with open(self.path("heap")) as file:
            self.assertIn("# mean_bytes 524288\n", file.read())

    @unittest.skipUnless(shutil.which("readelf"), "there is no readelf")
    def test_modules_have_the_build_ids_that_they_have(self):
        """All that readelf finds in the mapped files, and no other."""
        self.known("exit", "-", 0, 1 << 16, SLUB_PROFILE="1", SLUB_PROFILE_FILE=self.path("heap"))
        with open(self.path("heap")) as file:
            text = file.read()
        told = set(re.findall(r"(?m)^# build-id 0x[0-9a-f]+ ([0-9a-f]+)$", text))
        paths = {path for path in re.findall(r"(?m) (/\S+)$", text) if os.path.isfile(path)}
        found = set()
        for path in paths:
            shown = subprocess.run(["readelf", "-n", path], text=True, capture_output=True,
                                   check=False).stdout
            found.update(re.findall(r"Build ID: ([0-9a-f]+)", shown))
        self.assertTrue(paths)
        self.assertLessEqual(found, told)

    def test_options_list(self):
        self.known("exit", "-", 0, 1 << 16,
                   SLUB_OPTIONS=f"profile=64K,profile_file={self.path('heap')}")
        with open(self.path("heap")) as file:
            self.assertIn("# mean_bytes 65536\n", file.read())

    def test_written_on_demand(self):
        true = self.known("write", self.path("heap"), 0, 1 << 20, SLUB_PROFILE="1")
        self.assertGreaterEqual(header_of(self.path("heap"))[3],
                                sum(values[3] for values in true.values()))

    def test_a_long_name(self):
        """Beyond what an option may have; the beginning of it would be another file's."""
        folder = os.path.join(self.path("f" * 200), "g" * 200)
        os.makedirs(folder)
        path = os.path.join(folder, "h" * 200)
        self.known("write", path, 0, 1 << 20, SLUB_PROFILE="1")
        self.assertEqual(os.listdir(folder), ["h" * 200])
        self.assertGreater(header_of(path)[1], 1 << 20)
        done = run(KNOWN, "write", path + "%p", "0", "65536", SLUB_PROFILE="1")
        self.assertEqual(done.returncode, 104)
        self.assertEqual(os.listdir(folder), ["h" * 200])

    def test_calls_in_any_order(self):
        self.known("calls", self.path("heap"))
        self.assertEqual(self.files(), ["heap"])

    def test_preloaded(self):
        done = run("python3", "-c", "x = [str(i) * 10 for i in range(100000)]", LD_PRELOAD=LIBRARY,
                   SLUB_PROFILE="1K", SLUB_PROFILE_FILE=self.path("heap"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(header_of(self.path("heap"))[1], 5 << 20)
        self.assertRegex(self.slub("--text", "--alloc", self.path("heap")),
                         r"^allocated: about \d+ bytes \(\+- [0-9.]+%\), from \d+ samples")


class Fork(ProfileTest):
    def once(self, done):
        """The child tells its own and the parent's together."""
        return sum(values[1] for values in read_known(done.stdout).values()) // 3

    def test_child_writes_a_file_of_its_own(self):
        done = run(KNOWN, "fork", "-", "0", "262144", SLUB_PROFILE="1",
                   SLUB_PROFILE_FILE=self.path("heap.%p"))
        self.assertEqual(done.returncode, 0, done)
        few, many = sorted(header_of(self.path(name))[1] for name in self.files())
        # Both have what was allocated before the fork, the child as much again.
        once = self.once(done)
        self.assertGreaterEqual(few, once)
        self.assertGreaterEqual(many - few, once)

    def test_child_leaves_the_parents_file_alone(self):
        done = run(KNOWN, "fork", "-", "0", "262144", SLUB_PROFILE="1",
                   SLUB_PROFILE_FILE=self.path("heap"))
        self.assertLess(header_of(self.path("heap"))[1], self.once(done) + (1 << 16))


class BadInput(ProfileTest):
    def setUp(self):
        super().setUp()
        self.known("call", self.path("good"), 1, 1 << 16)
        with open(self.path("good"), "rb") as file:
            self.good = file.read()

    def refused(self, content, *words):
        with open(self.path("bad"), "wb") as file:
            file.write(content)
        self.assertRefused(run(SLUB, "profile", self.path("bad")), 5, *words)

    def test_arguments(self):
        self.assertRefused(run(SLUB, "profile"), 2, "one file")
        self.assertRefused(run(SLUB, "profile", "a", "b"), 2, "one file")
        self.assertRefused(run(SLUB, "profile", "--lines=x", "a"), 2, "lines=x")
        self.assertRefused(run(SLUB, "profile", "--outptu=x", "a"), 2, "--outptu")
        self.assertRefused(run(SLUB, "profile", "--text", "--output=x", "a"), 2, "--text")
        self.assertRefused(run(SLUB, "profile", "--seconds=1", "a"), 2, "for a process")
        self.assertRefused(run(SLUB, "profile", "--seconds=x", "1"), 2, "seconds=x")
        self.assertRefused(run(SLUB, "profile", "4194303"), 4, "4194303")

    def test_no_file(self):
        self.assertRefused(run(SLUB, "profile", self.path("none")), 4, "none")
        self.assertRefused(run(SLUB, "profile", "--output", self.path("no/where"),
                                self.path("good")),
                           4, "no/where")

    def test_not_a_profile(self):
        self.refused(b"", "no heap profile")
        self.refused(b"\x7fELF" + os.urandom(1000), "no heap profile")
        self.refused(b"heap profile: 1: 1 [1: 1] @ heapprofile\n", "not one of libslub")

    def test_other_version(self):
        self.refused(self.good.replace(b"# slub-profile 1", b"# slub-profile 9"), "version 9",
                     "version 1", "slub of the libslub that wrote it")

    def test_cut_short(self):
        maps = self.good.index(b"MAPPED_LIBRARIES:")
        for at in range(self.good.index(b"# mean"), maps, 37):
            done = run(SLUB, "profile", self.write_bad(self.good[:at]))
            self.assertRefused(done, 5, "bad")

    def write_bad(self, content):
        with open(self.path("bad"), "wb") as file:
            file.write(content)
        return self.path("bad")

    def test_noise_never_crashes_it(self):
        rng = random.Random(1)
        for _ in range(60):
            bad = bytearray(self.good)
            for _ in range(rng.choice((1, 5, 50))):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            done = run(SLUB, "profile", self.write_bad(bytes(bad)))
            self.assertIn(done.returncode, (0, 5), done)
            self.assertEqual(len(done.stderr.splitlines()), done.returncode == 5, done)


if __name__ == "__main__":
    unittest.main(argv=["file_test.py"])
