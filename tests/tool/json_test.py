#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: slub_stats_json() says in the process what `slub stats --json` says from outside.

usage: json_test.py SLUB LIBRARY TOLD GDB_SCRIPT"""

import json
import sys
import unittest

from target import HEAP, Target

# What no two looks have alike, and what takes a look into a file.
OTHER = {"time", "ctor_name"}


def difference(one, other, where=""):
    """Where they differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(set(one) | set(other)):
            if name not in one or name not in other:
                yield f"{where}.{name} is in one of them only"
            elif name not in OTHER:
                yield from difference(one[name], other[name], f"{where}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other)):
            yield from difference(*pair, f"{where}[{i}]")
    elif one != other:
        yield f"{where}: {one} and {other}"


class Json(Target):
    def test_it_is_the_same(self):
        for more in ({}, {"SLUB_FASTPATH": "thread"}, {"SLUB_DEBUG": "FZ,told"}):
            process = self.start(HEAP, **more)
            process.stdin.write("\n")
            process.stdin.flush()
            inside = json.loads(process.stdout.readline())
            outside = self.told("stats", process.pid)
            # That much the process knows, and the command does not print.
            inside["heap"].pop("large_blocks")
            self.assertGreater(inside["heap"]["active_bytes"], 0)
            # And that the kernel knows.
            self.assertGreater(outside.pop("memory")["rss_bytes"], 0)
            self.assertGreater(outside.pop("mappings"), 0)
            self.assertEqual(list(difference(inside, outside)), [])
            self.assertIn("told", [cache["name"] for cache in inside["caches"]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
