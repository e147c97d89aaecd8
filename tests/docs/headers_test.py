#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: every public header compiles alone, twice in a row, as C99, C11, C++11 and C++17,
without a warning, with every compiler that is there; and slub/slub.h includes all of them.

usage: headers_test.py INCLUDE"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

INCLUDE = ""
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Werror",
            "-fsyntax-only"]
COMPILERS = {
    "c": [["gcc", "-std=c99"], ["gcc", "-std=c11"], ["clang", "-std=c11"]],
    "cc": [["g++", "-std=c++11"], ["g++", "-std=c++17"], ["clang++", "-std=c++17"]],
}
# slub/slub.hpp and what it includes.
CPP = [["g++", "-std=c++17"], ["g++", "-std=c++20"], ["clang++", "-std=c++17"]]
# Not in slub/slub.h: it takes short names.
APART = {"slub/kernel.h", "slub/slub.h"}
VARIANTS = [["-DSLUB_NO_INLINE"], []]


def names(suffix):
    folder = os.path.join(INCLUDE, "slub")
    return [f"slub/{name}" for name in sorted(os.listdir(folder)) if name.endswith(suffix)]


class Headers(unittest.TestCase):
    def compile(self, language, header, compiler, flags):
        with tempfile.TemporaryDirectory() as folder:
            unit = os.path.join(folder, f"unit.{language}")
            with open(unit, "w", encoding="utf-8") as file:
                file.write(f"#include <{header}>\n#include <{header}>\nextern int unit;\n")
            done = subprocess.run([*compiler, "-I", INCLUDE, *WARNINGS, *flags, unit],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "", f"{' '.join(compiler + flags)} {header}")

    def compile_all(self, headers, language, compilers=None):
        compilers = [c for c in compilers or COMPILERS[language] if shutil.which(c[0])]
        self.assertTrue(compilers and headers)
        for header in headers:
            for compiler in compilers:
                for flags in VARIANTS:
                    self.compile(language, header, compiler, flags)

    def test_c(self):
        self.compile_all(names(".h"), "c")

    def test_cpp(self):
        self.compile_all(names(".h"), "cc")

    def test_the_header_for_cpp(self):
        self.compile_all(names(".hpp"), "cc", CPP)

    def test_the_header_for_cpp_says_what_it_needs(self):
        done = subprocess.run(["g++", "-std=c++14", "-I", INCLUDE, "-fsyntax-only", "-x", "c++",
                               "-include", "slub/slub.hpp", "/dev/null"],
                              capture_output=True, text=True, check=False)
        errors = re.findall(r"error: .*", done.stderr)
        self.assertIn("C++17", errors[0])

    def test_all_are_in_the_umbrella(self):
        with open(os.path.join(INCLUDE, "slub", "slub.h"), encoding="utf-8") as file:
            included = set(re.findall(r"^#include <(.*)>", file.read(), re.MULTILINE))
        self.assertEqual(sorted(set(names(".h")) - APART - included), [])
        self.assertEqual(sorted(included - set(names(".h"))), [])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    INCLUDE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
