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
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow",
            "-Werror", "-fsyntax-only"]
OF_CXX = ["-Wold-style-cast", "-Wnon-virtual-dtor", "-Woverloaded-virtual"]
COMPILERS = {
    "c": [["gcc", "-std=c99"], ["gcc", "-std=c11"], ["clang", "-std=c11"]],
    "cc": [["g++", "-std=c++11"], ["g++", "-std=c++17"], ["clang++", "-std=c++17"]],
}
# slub/slub.hpp and what it includes.
CPP = [["g++", "-std=c++17"], ["g++", "-std=c++20"], ["g++", "-std=c++23"],
       ["clang++", "-std=c++17"], ["clang++", "-std=c++2b"]]
# Not in slub/slub.h: they take short names.
APART = {"slub/jemalloc.h", "slub/kernel.h", "slub/slub.h"}
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
            warnings = WARNINGS + (OF_CXX if language == "cc" else [])
            done = subprocess.run([*compiler, "-I", INCLUDE, *warnings, *flags, unit],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "", f"{' '.join(compiler + flags)} {header}")

    def compile_all(self, headers, language, compilers=None):
        compilers = [c for c in compilers or COMPILERS[language] if shutil.which(c[0])]
        self.assertTrue(compilers and headers)
        for header in headers:
            for compiler in compilers:
                for flags in VARIANTS:
                    self.compile(language, header, compiler, flags)

    def test_structures_have_members_in_reserve(self):
        """Of those of the library's own: slub/kernel/ has the kernel's.

        That of struct slub_percpu_self is in use: inline code counts a reader's sections there.
        """
        found = []
        for header in names(".h"):
            with open(os.path.join(INCLUDE, header), encoding="utf-8") as file:
                found += re.findall(r"(?ms)^struct (\w+) \{(.*?)^\}", file.read())
        self.assertGreater(len(found), 15)
        self.assertEqual([name for name, body in found if "reserved" not in body],
                         ["slub_percpu_self"])

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

    def accepted(self, language, compiler, statement):
        text = "#include <slub/slub.h>\nvoid f(struct slub_cache *c, struct slub_mempool *p);\n" \
            f"void f(struct slub_cache *c, struct slub_mempool *p)\n{{\n\t{statement};\n" \
            "\t(void)c, (void)p;\n}\n"
        done = subprocess.run([*compiler, "-I", INCLUDE, "-fsyntax-only", "-Wall", "-Werror",
                               "-x", {"c": "c", "cc": "c++"}[language], "-"],
                              input=text, capture_output=True, text=True, check=False)
        return done.returncode == 0

    def test_flags_of_another_kind_do_not_compile(self):
        right = ["slub_cache_alloc_flags(c, SLUB_ALLOC_ZERO | SLUB_ALLOC_RESERVE)",
                 "slub_cache_alloc_flags(c, 0)", "unsigned v = 4; slub_cache_alloc_flags(c, v)",
                 "slub_cache_create(0, 8, 0, SLUB_CACHE_PANIC | SLUB_CACHE_ACCOUNT, 0)",
                 "slub_mempool_alloc(p, SLUB_POOL_WAIT)", "slub_bucket_create(0, 0)"]
        wrong = ["slub_cache_alloc_flags(c, SLUB_CACHE_PANIC)",
                 "slub_cache_alloc_node(c, SLUB_POOL_WAIT, 0)",
                 "slub_cache_alloc_bulk(c, SLUB_ALLOC_ZERO | SLUB_CACHE_TRACE, 0, 0)",
                 "slub_cache_create(0, 8, 0, SLUB_ALLOC_ZERO, 0)",
                 "slub_cache_debug(c, SLUB_ALLOC_ZERO)", "slub_bucket_create(0, SLUB_POOL_WAIT)",
                 "slub_mempool_alloc(p, SLUB_ALLOC_RESERVE)",
                 "slub_mempool_alloc_bulk(p, SLUB_CACHE_PANIC, 1, 0)",
                 "slub_qmempool_create(16, 32, 0, c, SLUB_CACHE_PANIC)"]
        for language, compilers in COMPILERS.items():
            for compiler in compilers:
                if not shutil.which(compiler[0]):
                    continue
                for statement in right:
                    self.assertTrue(self.accepted(language, compiler, statement), statement)
                for statement in wrong:
                    self.assertFalse(self.accepted(language, compiler, statement), statement)

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
