#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: misuse is noticed in a program, or in a plugin opened for its host alone, with operators
new and delete of its own over malloc; where these make new and malloc the same, no mixture of them
is called misuse, and nothing is where nothing is wrong.

usage: operators_test.py PLAIN HARDENED FOLDER"""

import os
import re
import subprocess
import sys
import unittest

PLAIN, HARDENED, FOLDER = map(os.path.abspath, sys.argv[1:4])

DOUBLE, NONE = "double free", "pointer to no block"
# What is in front of the first block of a slab is anything.
INSIDE, BEFORE = "pointer inside a block", "pointer inside a block|pointer to no block"
# crime: what is said of it
ALWAYS = {
    "delete-twice": DOUBLE, "delete-array-twice": DOUBLE, "free-twice": DOUBLE,
    "delete-of-variable": NONE, "delete-of-stack": NONE, "delete-inside": INSIDE,
    "delete-of-array": None,
}
# Where new and malloc are the same, and where a block of new begins behind 16 bytes.
SAME = {**ALWAYS, "free-of-new": None, "delete-of-malloc": None, "sound": None}
APART = {**ALWAYS, "free-of-new": INSIDE, "delete-of-malloc": BEFORE}
# who: its command, and what is said of it.  The names of a preloaded library come before a
# plugin's, unless it is linked with -Bsymbolic.
WHO = {
    "program": (["operators_program"], SAME),
    "program, apart": (["operators_program_front"], {**APART, "sound": None}),
    "bound plugin": (["operators_host", "liboperators_bound.so"], SAME),
    "bound plugin of C++": (["operators_host_cxx", "liboperators_bound.so"], SAME),
    # Its operators and the C++ library's are mixed, so it is never sound.
    "bound plugin, apart": (["operators_host", "liboperators_bound_front.so"], APART),
    "bound plugin of C++, apart": (["operators_host_cxx", "liboperators_bound_front.so"], APART),
    "plugin": (["operators_host", "liboperators_plain.so"], SAME),
    "plugin, with a front it does not use": (["operators_host", "liboperators_plain_front.so"],
                                             SAME),
    "plugin of C++": (["operators_host_cxx", "liboperators_plain.so"], SAME),
}


class Operators(unittest.TestCase):
    def commit(self, library, command, crime):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
        parts = [os.path.join(FOLDER, part) for part in command]
        return subprocess.run([*parts, crime], env=dict(env, LD_PRELOAD=library), text=True,
                              capture_output=True, timeout=60, check=False)

    def look(self, library):
        for who, (command, crimes) in WHO.items():
            for crime, words in crimes.items():
                with self.subTest(who=who, crime=crime):
                    done = self.commit(library, command, crime)
                    said = re.findall(r"^slub\[\d+\]: ([^:]+): ", done.stderr, re.MULTILINE)
                    self.assertEqual((done.returncode, len(said)), (-6, 1) if words else (0, 0),
                                     done)
                    if words:
                        self.assertRegex(said[0], words)

    def test_default(self):
        self.look(PLAIN)

    def test_hardened(self):
        self.look(HARDENED)


if __name__ == "__main__":
    del sys.argv[1:4]
    unittest.main()
