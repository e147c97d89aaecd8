#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: its owner alone may read a file that an option names; another user's file is never
written, nor one behind a link; and a wrapper or a forked child takes no file from others."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
LIBRARY = ""
NOBODY = 65534
# What writes each, where it writes nothing without more.
OUTPUTS = {
    "SLUB_STATS_FILE": {},
    "SLUB_PROFILE_FILE": {"SLUB_PROFILE": "1"},
    "SLUB_DEBUG_LEAKS": {"SLUB_DEBUG": "U"},
    "SLUB_DEBUG_REPORT": {"SLUB_DEBUG": "T,malloc-112"},
}


class Outputs(unittest.TestCase):
    """A folder, and programs that leave files in it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = os.path.join(self.folder, "file")

    def run_with(self, option, *command, name=None, **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
        env.update(OUTPUTS[option], LD_PRELOAD=LIBRARY, **settings)
        env[option] = name or self.file
        done = subprocess.run(command or [PROGRAM], env=env, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done)
        return done.stderr

    def each(self, names=OUTPUTS):
        for option in names:
            for name in os.listdir(self.folder):
                os.remove(os.path.join(self.folder, name))
            yield option

    def read(self, name="file"):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def write(self, path, content):
        with open(path, "w") as file:
            file.write(content)


class Owner(Outputs):
    def test_its_owner_alone_reads_it(self):
        os.umask(0)
        for option in self.each():
            self.run_with(option)
            self.assertGreater(len(self.read()), 100, option)
            self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600, option)

    def test_one_that_others_could_read(self):
        for option in self.each(set(OUTPUTS) - {"SLUB_STATS_FILE"}):
            self.write(self.file, "old\n")
            os.chmod(self.file, 0o644)
            self.run_with(option)
            self.assertGreater(len(self.read()), 100, option)
            self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600, option)

    def refused(self, option, content, *words):
        said = self.run_with(option, SLUB_VERBOSE="1")
        self.assertEqual(self.read("precious"), content)
        self.assertIn(self.file, said)
        for word in words:
            self.assertIn(word, said)
        self.assertEqual(self.run_with(option), "")

    def test_symbolic_link(self):
        for option in self.each(set(OUTPUTS) - {"SLUB_STATS_FILE"}):
            precious = os.path.join(self.folder, "precious")
            self.write(precious, "mine\n")
            os.symlink(precious, self.file)
            self.refused(option, b"mine\n", "symbolic link")

    def test_symbolic_link_to_nothing(self):
        for option in self.each():
            os.symlink(os.path.join(self.folder, "new"), self.file)
            self.run_with(option)
            self.assertEqual(os.listdir(self.folder), ["file"])

    def test_hard_link(self):
        for option in self.each(set(OUTPUTS) - {"SLUB_STATS_FILE"}):
            precious = os.path.join(self.folder, "precious")
            self.write(precious, "mine\n")
            os.link(precious, self.file)
            self.refused(option, b"mine\n", "hard link")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make another user's file")
    def test_another_users(self):
        for option in self.each(set(OUTPUTS) - {"SLUB_STATS_FILE"}):
            self.write(self.file, "theirs\n")
            os.chown(self.file, NOBODY, NOBODY)
            said = self.run_with(option, SLUB_VERBOSE="1")
            self.assertIn("another user", said)
            self.assertEqual(self.read(), b"theirs\n")

    def test_devices(self):
        for option in self.each(set(OUTPUTS) - {"SLUB_STATS_FILE"}):
            self.assertNotIn("option", self.run_with(option, name="/dev/null", SLUB_VERBOSE="1"))


class Processes(Outputs):
    def blocks(self, name):
        """How many blocks of 100 bytes a process had in its profile, each of which is sampled."""
        found = re.findall(r"(?m)^ *(\d+): (\d+) \[", self.read(name).decode())
        return sum(int(nr) for nr, size in found if int(size) == 100 * int(nr))

    def test_wrapper(self):
        """The program's own file keeps the name, its wrapper's has another."""
        self.run_with("SLUB_PROFILE_FILE", "timeout", "50", PROGRAM)
        first, second = sorted(os.listdir(self.folder))
        self.assertEqual(first, "file")
        self.assertRegex(second, r"^file\.\d+$")
        self.assertGreaterEqual(self.blocks(first), 1000)
        self.assertLess(self.blocks(second), 1000)

    def test_wrapper_over_an_old_file(self):
        self.run_with("SLUB_PROFILE_FILE")
        self.run_with("SLUB_PROFILE_FILE")
        self.assertEqual(os.listdir(self.folder), ["file"])
        self.run_with("SLUB_PROFILE_FILE", "timeout", "50", PROGRAM)
        self.assertEqual(len(os.listdir(self.folder)), 2)

    def test_program_that_execs(self):
        self.run_with("SLUB_PROFILE_FILE", "env", PROGRAM)
        self.assertEqual(os.listdir(self.folder), ["file"])

    def test_forked_child_leaves_its_parents_file_alone(self):
        self.run_with("SLUB_PROFILE_FILE", PROGRAM, "orphan")
        self.assertEqual(os.listdir(self.folder), ["file"])
        self.assertLess(self.blocks("file"), 1500)

    def test_forked_child_has_one_of_its_own(self):
        self.run_with("SLUB_PROFILE_FILE", PROGRAM, "wait", name=self.file + ".%p")
        few, many = sorted(map(self.blocks, os.listdir(self.folder)))
        self.assertLess(few, 1500)
        self.assertGreaterEqual(many, 2000)

    def test_leaks_of_a_parent_are_no_leaks_of_its_child(self):
        self.run_with("SLUB_DEBUG_LEAKS", PROGRAM, "wait", SLUB_DEBUG="U,malloc-112")
        once = [line for line in self.read().decode().splitlines()
                if " malloc-112 " in line and int(line.split()[0]) >= 1000]
        self.assertEqual(len(once), 1, once)


if __name__ == "__main__":
    PROGRAM, LIBRARY = map(os.path.abspath, sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
