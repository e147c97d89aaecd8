#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: where libslub cannot be, configuring ends with one line that says what works instead.

usage: unsupported_test.py SOURCE CMAKE CC

Each platform is pretended: by options of the compiler, and by macros that its headers would have.
"""
import os
import platform
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, CMAKE, CC = sys.argv[1:4]


def configure(*options, system="Linux", processor="x86_64"):
    """(exit status, the lines that begin with the library's name)"""
    with tempfile.TemporaryDirectory() as folder:
        toolchain = os.path.join(folder, "toolchain.cmake")
        with open(toolchain, "w", encoding="utf-8") as file:
            file.write(f"set(CMAKE_SYSTEM_NAME {system})\n"
                       f"set(CMAKE_SYSTEM_PROCESSOR {processor})\n"
                       f"set(CMAKE_C_COMPILER {CC})\n"
                       # Nothing is linked: there is no C library of 32 bits here.
                       "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n")
        ended = subprocess.run(
            (CMAKE, "-S", SOURCE, "-B", os.path.join(folder, "build"),
             f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DSLUB_BUILD_TESTS=OFF",
             "-DSLUB_BUILD_BENCH=OFF", *options), text=True, capture_output=True, check=False)
        lines = re.findall(r"^ *(libslub: .*)$", ended.stderr, re.MULTILINE)
        return ended.returncode, lines, ended.stdout + ended.stderr


class Unsupported(unittest.TestCase):
    MAJOR = "__clang_major__" if "clang" in os.path.basename(CC) else "__GNUC__"

    def refused(self, what, instead, *options, **target):
        status, lines, output = configure(*options, **target)
        self.assertNotEqual(status, 0, output)
        self.assertEqual(len(lines), 1, output)
        self.assertIn(what, lines[0])
        self.assertIn(instead, lines[0])

    def test_this_platform_is_not_refused(self):
        status, lines, output = configure()
        self.assertEqual((status, lines), (0, []), output)

    @unittest.skipUnless(platform.machine() == "x86_64", "the option is that processor's")
    def test_addresses_of_32_bits(self):
        self.refused("less than 64 bits", "x86_64 and aarch64 work", "-DCMAKE_C_FLAGS=-mx32")

    def test_another_system(self):
        self.refused("no FreeBSD", "Linux works", system="FreeBSD")

    def test_other_c_libraries(self):
        for macro in ("__UCLIBC__", "__BIONIC__", "__dietlibc__"):
            with self.subTest(macro):
                self.refused("not this C library", "glibc from 2.34 on and musl",
                             f"-DCMAKE_C_FLAGS=-D{macro}=1")

    def test_an_old_glibc(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "features.h"), "w", encoding="utf-8") as file:
                file.write("#include_next <features.h>\n"
                           "#undef __GLIBC_MINOR__\n#define __GLIBC_MINOR__ 31\n")
            self.refused("before 2.34", "later ones work, and musl",
                         f"-DCMAKE_C_FLAGS=-I{folder}")

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "from plain C there")
    def test_an_old_compiler(self):
        self.refused("10.", "from 11 on", f"-DCMAKE_C_FLAGS=-U{self.MAJOR} -D{self.MAJOR}=10")

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "from plain C there")
    def test_programs_of_an_old_compiler_call_the_library(self):
        old = f"-U{self.MAJOR}", f"-D{self.MAJOR}=10"
        for options, has_sequences in (((), True), (old, False)):
            text = subprocess.run(
                (CC, "-E", "-I", os.path.join(SOURCE, "include"), *options, "-x", "c", "-"),
                input="#include <slub/slub.h>", text=True, capture_output=True, check=True).stdout
            self.assertIn("slub_percpu_alloc", text)
            self.assertEqual(bool(re.search(r"asm\w* (\w+ )?goto", text)), has_sequences,
                             options)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
