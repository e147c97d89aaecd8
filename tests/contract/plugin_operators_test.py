#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: without memory operator new calls the handler and throws what the C++ library throws,
wherever that one is: in a plugin of a C program, in Python's, or linked statically."""

import os
import subprocess
import sys
import unittest

LIBRARY, FOLDER = "", ""
PYTHON = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).try_operators(1))"


def built(name):
    return os.path.join(FOLDER, name)


class Operators(unittest.TestCase):
    """Each program runs helpers/operators.cc, which says what was wrong."""

    def good(self, *command, preload=False):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
        env.pop("LD_PRELOAD", None)
        if preload:
            env["LD_PRELOAD"] = LIBRARY
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0 wrong\n", ""))

    def test_preloaded_under_a_c_program_with_a_plugin(self):
        self.good(built("operators_host"), built("liboperators.so"), preload=True)

    def test_preloaded_under_a_c_program_with_a_plugin_of_a_static_library(self):
        self.good(built("operators_host"), built("liboperators_static.so"), preload=True)

    def test_linked_into_a_c_program_with_a_plugin(self):
        self.good(built("operators_linked_host"), built("liboperators.so"))

    def test_linked_into_a_c_program_with_a_plugin_of_a_static_library(self):
        self.good(built("operators_linked_host"), built("liboperators_static.so"))

    def test_preloaded_under_python(self):
        for plugin in ("liboperators.so", "liboperators_static.so"):
            self.good(sys.executable, "-c", PYTHON, built(plugin), preload=True)

    def test_preloaded_under_a_program_with_a_static_library(self):
        self.good(built("operators_program_static"), preload=True)

    def test_linked_with_a_static_library(self):
        # Nobody could catch for the nothrow forms, so they ask nobody.
        self.good(built("operators_linked_static"), "nothrow asks nobody")

    def test_archive(self):
        self.good(built("operators_archive"))
        self.good(built("operators_archive_static"))


if __name__ == "__main__":
    LIBRARY, FOLDER = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
