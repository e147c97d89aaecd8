# SPDX-License-Identifier: MIT
"""Promise: bench/run --suite builds the programs of a checkout, runs them under the allocators of
the run, and puts the table into the same report.

The checkout is a stand-in made here, with a program that ends at once; no figure is asserted."""
import contextlib
import io
import os
import shutil
import tempfile
import unittest

import canned
import allocators
import plan
import suite
import write

LIBRARY = os.path.join(os.environ.get("SLUB_BUILD", "build"), "libslub.so")
CMAKE = """cmake_minimum_required(VERSION 3.5)
project(bench C)
add_executable(cfrac cfrac.c)
add_executable(espresso broken.c)
"""


@unittest.skipUnless(shutil.which("cmake") and os.path.exists("/usr/bin/time"),
                     "no cmake, or no time(1)")
class Suite(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        bench = os.path.join(self.folder.name, "checkout", "bench")
        os.makedirs(bench)
        for name, text in (("CMakeLists.txt", CMAKE), ("broken.c", "int main(void) { no }\n"),
                           ("cfrac.c", "#include <stdlib.h>\nint main(void)\n{\n"
                            "\tfor (int i = 0; i < 1000; i++)\n\t\tfree(malloc(i));\n}\n")):
            with open(os.path.join(bench, name), "w", encoding="utf-8") as file:
                file.write(text)

    def test_what_does_not_build_takes_nothing_with_it(self):
        chosen = [allocators.Allocator("glibc", None, "1"),
                  allocators.Allocator("libslub", os.path.abspath(LIBRARY), "2"),
                  allocators.Allocator("libslub-up", "/nonexistent", "2"),
                  allocators.Allocator("hardened", "/nonexistent", "2")]
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            found, works = suite.run(os.path.join(self.folder.name, "checkout"),
                                     os.path.join(self.folder.name, "built"), "quick", chosen,
                                     rows=["cfrac", "espresso"])
        self.assertTrue(works, said.getvalue())
        self.assertIn("not all of the suite builds", said.getvalue())
        self.assertEqual(list(found["samples"]), ["cfrac"])
        self.assertEqual(list(found["allocators"]), ["glibc", "libslub"])
        data = canned.data()
        data["suite"] = found
        with open(write.report(data, self.folder.name, plan.JOBS), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("## mimalloc-bench, unmodified", text)
        self.assertRegex(text, r"(?m)^\| `cfrac` \| [\d.]+ \|")
        self.assertRegex(text, r"(?m)^\| time, mimalloc-bench, 1 rows \|")

    def test_a_folder_of_another_kind(self):
        with self.assertRaisesRegex(SystemExit, "no bench/CMakeLists.txt"):
            suite.run(self.folder.name, self.folder.name, "quick", [])


if __name__ == "__main__":
    unittest.main()
