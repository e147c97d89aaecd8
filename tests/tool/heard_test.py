#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a SLUB_ variable that is not understood says so in one line, whatever else is set; each
program that finds it says so once, and a set-user-ID program nothing.

usage: heard_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import os
import shutil
import subprocess
import sys
import unittest

from target import HEAP, LIBRARY, NOBODY, Target, environment

REFUSED = ("LIMIT=512Mx", "LIMT=64M", "DEBUG=ZQ", "RETIAN=1M", "PRESSURE=sometimes",
           "OPTIONS=limt=64M", "RESERVE=1G")
UNDERSTOOD = ("LIMIT=512Mi", "LIMIT=64MB", "LIMIT=64MiB", "RETAIN=1Gi", "RETAIN=1kb",
              "LIBRARY=/nowhere", "TEST_SCALE=10")


class Heard(Target):
    def said(self, variable, *command, **more):
        name, value = variable.split("=", 1)
        done = subprocess.run(command or ["true"], capture_output=True, text=True, timeout=60,
                              check=False, env=environment(LD_PRELOAD=LIBRARY,
                                                           **{"SLUB_" + name: value}, **more))
        self.assertEqual(done.returncode, 0, done)
        return done.stderr.splitlines()

    def test_one_line(self):
        for variable in REFUSED:
            lines = self.said(variable)
            self.assertEqual(len(lines), 1, (variable, lines))
            self.assertRegex(lines[0], r"^slub\[\d+\]: ")

    def test_nothing_of_what_is_understood(self):
        for variable in UNDERSTOOD:
            self.assertEqual(self.said(variable), [], variable)

    def test_who_wants_no_line(self):
        for variable in REFUSED:
            self.assertEqual(self.said(variable, SLUB_VERBOSE="0"), [], variable)

    def test_once_for_each_program_and_not_for_a_fork(self):
        self.assertEqual(len(self.said("LIMT=1M", "sh", "-c", "(true); (:); :")), 1)
        self.assertEqual(len(self.said("LIMT=1M", "sh", "-c", "/bin/true; :")), 2)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make set-user-ID programs")
    def test_more_rights_than_its_user(self):
        path = self.path("privileged")
        shutil.copy(os.path.join(os.path.dirname(HEAP), "own_sleeper"), path)
        os.chmod(path, 0o4755)
        os.chmod(self.folder, 0o755)
        done = subprocess.run([path], input="\n", capture_output=True, text=True, timeout=60,
                              user=NOBODY, env=environment(SLUB_LIMT="1"), check=False)
        self.assertNotIn("slub[", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
