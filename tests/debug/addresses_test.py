#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a report names the function and the file that is mapped where a call came from when it
is written, and the address as that file has it: `addr2line -e FILE ADDRESS` tells the line.

usage: addresses_test.py LIBRARY PLUGS PLUGIN PLUGIN"""

import os
import re
import subprocess
import sys
import unittest

LIBRARY, PLUGS, ONE, OTHER = map(os.path.abspath, sys.argv[1:5])


class Addresses(unittest.TestCase):
    def test_in_a_program_and_in_plugins_at_one_place(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
        env.update(LD_PRELOAD=LIBRARY, SLUB_DEBUG="FZPU", SLUB_DEBUG_REPORT="stderr")
        done = subprocess.run([PLUGS, ONE, OTHER], env=env, text=True, capture_output=True,
                              timeout=60, check=True)
        allocated = re.findall(r"(?m)^Allocated in \[<0x(\w+)>\] (\w+)\+0x\w+ "
                               r"\((\S+)\+0x(\w+)\) ", done.stderr)
        self.assertEqual([path for _, _, path, _ in allocated], [PLUGS, ONE, OTHER], done.stderr)
        self.assertEqual([name for _, name, _, _ in allocated], ["main", "overrun", "overrun"])
        found = [(place, path, at) for place, _, path, at in allocated]
        self.assertEqual(found[0][0], found[0][2], "the program is not relocated")
        self.assertEqual(found[1][2], found[2][2], "the plugins are the same")
        self.assertLess(int(found[1][2], 16), 1 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
