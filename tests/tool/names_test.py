#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub leaks`, `traces`, `explain` and `profile` print C++ names as the source has them;
pprof's file has the linker's names beside them.

usage: names_test.py SLUB LIBRARY NAMES GDB_SCRIPT"""

import gzip
import json
import sys
import unittest

from target import HEAP as NAMES, Target, slub

TAKE = "shop::Store<std::vector<int, std::allocator<int> > >::take(" \
       "std::vector<int, std::allocator<int> > const&, std::pair<int, char>)"
DROP = "shop::Store<std::vector<int, std::allocator<int> > >::drop()"


class Names(Target):
    def done(self, *arguments):
        done = slub(*map(str, arguments))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def functions(self, frames):
        return [frame.get("function") for frame in frames]

    def test_leaks_and_traces(self):
        process = self.start(NAMES, SLUB_DEBUG="U,malloc-96")
        core = self.core_of(self.start(NAMES, SLUB_DEBUG="U,malloc-96"))
        for target in (process.pid, core):
            text = self.done("watched", "-p", target)
            self.assertRegex(text, r"(?m)^50 malloc-96 shop::Store<")
            self.assertIn(f"\n\t{TAKE} (", text)
            self.assertNotIn("_ZN", text)
            self.assertIn(f"\n\t{TAKE} (", self.done("traces", "--alloc", "-p", target))
            told = json.loads(self.done("watched", "--json", "-p", target))
            self.assertEqual((told["kind"], told["schema"]), ("watched", 1))
            first = told["watched"][0]
            self.assertEqual((first["cache"], first["count"], first["bytes"]),
                             ("malloc-96", 50, 4800))
            self.assertEqual(self.functions(first["stack"])[0], TAKE)
        lines = self.done("watched", "-N", "1", "-p", process.pid).strip().split("\n\n")
        self.assertEqual(len(lines), 1)

    def test_explain(self):
        process = self.start(NAMES, SLUB_GUARD="1", SLUB_ON_ERROR="report")
        text = self.done("explain", process.pid)
        self.assertIn(f" {TAKE} (", text)
        self.assertIn(f" {DROP} (", text)
        told = json.loads(self.done("explain", "--json", process.pid))
        self.assertEqual((told["kind"], told["schema"]), ("explain", 1))
        self.assertEqual(told["guard"]["errors"], 1)
        found, = told["objects"]
        self.assertEqual((found["errors"], found["bytes"]), (["freed twice"], 96))
        self.assertEqual(self.functions(found["allocated"]["stack"])[0], TAKE)
        self.assertEqual(self.functions(found["freed"]["stack"])[0], DROP)

    def test_profile(self):
        process = self.start(NAMES, SLUB_PROFILE="1", SLUB_PROFILE_FILE=self.path("heap"))
        process.communicate()
        self.assertIn(f"        {TAKE}  ", self.done("profile", "--text", self.path("heap")))
        self.done("profile", self.path("heap"))
        with gzip.open(self.path("heap.pb.gz")) as file:
            strings = file.read()
        self.assertIn(TAKE.encode(), strings)
        self.assertIn(b"_ZN4shop5StoreI", strings)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
