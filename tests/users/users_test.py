#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: programs that use the library as the documents show it work as compilers build programs:
with what these know of malloc (no -fno-builtin), at any level of optimization.

Builds and runs what docs/api quotes (tests/docs/snippets), the examples, and the two programs of
this folder, in C and in C++.

usage: users_test.py --source SOURCE --library FOLDER --cc CC --cxx CXX --level=-O2"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
arguments = None
folder = None

WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def run(command, **environment):
    """The process's output, if it failed; else nothing."""
    result = subprocess.run(command, env={**os.environ, **environment}, text=True, timeout=100,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            stdin=subprocess.DEVNULL, check=False)
    return f"{' '.join(command)}: {result.returncode}\n{result.stdout}" if result.returncode else ""


class AsUsersBuild(unittest.TestCase):
    def build(self, source, name, *options):
        is_cxx = source.endswith(".cpp") or "c++" in options
        compiler = [arguments.cxx, "-std=c++17"] if is_cxx else [arguments.cc, "-std=gnu11"]
        program = os.path.join(folder, name)
        library = arguments.library
        self.assertEqual("", run(
            [*compiler, arguments.level, *WARNINGS, *options,
             "-I" + os.path.join(arguments.source, "include"), source, "-o", program, "-pthread",
             "-L" + library, "-Wl,-rpath," + library, "-lslub"]))
        return program

    def path(self, *names):
        return os.path.join(arguments.source, *names)

    def test_what_the_documents_quote(self):
        sources = sorted(glob.glob(self.path("tests", "docs", "snippets", "*.c")))
        self.assertGreater(len(sources), 15)
        for source in sources:
            with self.subTest(source=source):
                name = os.path.basename(source)[:-len(".c")]
                self.assertEqual("", run([self.build(source, name)]))

    def test_examples(self):
        sys.path.insert(0, self.path("tests", "examples"))
        import examples_test    # how each of them runs small
        for name, options in examples_test.SMALL.items():
            with self.subTest(name=name):
                program = self.build(self.path("examples", examples_test.SOURCES[name]), name)
                self.assertEqual("", run([program, *options]))

    def test_callbacks_in_the_middle_of_malloc(self):
        source = self.path("tests", "users", "callbacks.c")
        self.assertEqual("", run([self.build(source, "callbacks", "-D_GNU_SOURCE")]))

    def test_callbacks_in_the_middle_of_new(self):
        source = self.path("tests", "users", "callbacks.c")
        self.assertEqual("", run([self.build(source, "callbacks_cxx", "-x", "c++")]))

    def test_callbacks_and_link_time_optimization(self):
        empty = os.path.join(folder, "empty.c")
        with open(empty, "w", encoding="utf-8") as file:
            file.write("int main(void) { return 0; }\n")
        if run([arguments.cc, "-flto", empty, "-o", empty + ".out"]):
            self.skipTest("this compiler cannot link with -flto")
        source = self.path("tests", "users", "callbacks.c")
        self.assertEqual("", run([self.build(source, "lto", "-D_GNU_SOURCE", "-flto")]))

    def test_contract(self):
        source = self.path("tests", "users", "contract.c")
        self.assertEqual("", run([self.build(source, "contract", "-D_GNU_SOURCE")]))

    def test_contract_of_the_operators(self):
        source = self.path("tests", "users", "contract.c")
        self.assertEqual("", run([self.build(source, "contract_cxx", "-x", "c++")]))


def main():
    global arguments, folder
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("source", "library", "cc", "cxx", "level"):
        parser.add_argument("--" + name, required=True)
    arguments, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="slub-users-") as folder:
        unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
