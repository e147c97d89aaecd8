#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: libslub.so exports the listed symbols and nothing else, needs the C library alone, can
be neither unloaded nor written to in its text, and libslub.a defines no other global name.  Built
so, the library and the command ask for no symbol that glibc has got since 2.28.

usage: abi_test.py LIBRARY ARCHIVE SYMBOLS COMMAND IS_FOR_OLD_GLIBC"""

import os
import platform
import re
import subprocess
import sys
import unittest

LIBRARY = ARCHIVE = SYMBOLS = COMMAND = ""
IS_FOR_OLD_GLIBC = False
# What the C library of every supported system comes with.
ALLOWED_LIBRARIES = re.compile(r"^(libc\.so\.6|ld-linux.*\.so\.\d+)$")
OLDEST_GLIBC = (2, 28)
# The names that the loader and the compiler's start-up code bring along.
BROUGHT_ALONG = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def listed():
    with open(SYMBOLS) as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


def names(text):
    """The symbol of each line of nm's output, without its version, that has an address."""
    lines = (line.split() for line in text.splitlines())
    return {line[2].split("@")[0] for line in lines if len(line) == 3}


class Shared(unittest.TestCase):
    def setUp(self):
        self.dynamic = output("readelf", "--wide", "--dynamic", LIBRARY)

    def test_exports_what_is_listed(self):
        exported = names(output("nm", "--dynamic", "--defined-only", LIBRARY))
        exported = {name for name in exported if not name.startswith("SLUB_")}
        self.assertEqual(sorted(exported - listed()), [], "exported but not listed")
        self.assertEqual(sorted(listed() - exported), [], "listed but not exported")

    def test_debian_lists_the_same(self):
        path = os.path.join(os.path.dirname(SYMBOLS), "..", "..", "debian", "libslub1.symbols")
        with open(path) as file:
            packaged = re.findall(r"(?m)^ (\S+)@Base ", file.read())
        self.assertEqual(sorted(packaged), sorted(listed()))

    def test_needs_the_c_library_alone(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", self.dynamic)
        self.assertTrue(needed)
        self.assertEqual([name for name in needed if not ALLOWED_LIBRARIES.match(name)], [])

    def test_undefined_symbols_are_the_c_librarys_or_weak(self):
        lines = output("nm", "--dynamic", "--undefined-only", LIBRARY).splitlines()
        strong = [line.split()[1] for line in lines if line.split()[0] == "U"]
        self.assertEqual([name for name in strong if "@GLIBC_" not in name], [])

    def test_no_private_symbols_of_the_c_library(self):
        lines = output("nm", "--dynamic", "--undefined-only", LIBRARY)
        private = re.findall(r"U (\S+@GLIBC_PRIVATE)", lines)
        self.assertEqual(private, [])

    def test_soname(self):
        self.assertIn("[libslub.so.1]", re.search(r"SONAME.*", self.dynamic).group())

    def test_text_is_never_written(self):
        self.assertNotIn("TEXTREL", self.dynamic)
        headers = output("readelf", "--wide", "--program-headers", LIBRARY)
        self.assertEqual(re.findall(r"LOAD .* RWE ", headers), [])
        self.assertNotRegex(headers, r"GNU_STACK.* RWE ")

    def test_flags(self):
        flags = " ".join(re.findall(r"\((?:FLAGS|FLAGS_1|BIND_NOW)\).*", self.dynamic))
        self.assertIn("NODELETE", flags)
        self.assertIn("NOW", flags)

    def test_little_static_tls(self):
        """A library opened late has to fit into what the loader keeps in reserve."""
        headers = output("readelf", "--wide", "--program-headers", LIBRARY)
        tls = re.search(r"^ *TLS +\S+ +\S+ +\S+ +\S+ +(\S+)", headers, re.MULTILINE)
        self.assertLessEqual(int(tls.group(1), 16) if tls else 0, 256)

    @unittest.skipUnless(platform.machine() == "x86_64", "other landing pads")
    def test_assembly_may_be_called_by_way_of_a_table(self):
        """Where indirect branches are tracked, a function without endbr64 is SIGSEGV.  The
        compiler writes it where it is asked to; functions in assembly have to have it."""
        for name in ("dlopen", "vfork"):
            code = output("objdump", "--disassemble=" + name, "--no-show-raw-insn", LIBRARY)
            lines = [line for line in code.splitlines() if re.match(r" +[0-9a-f]+:\t", line)]
            self.assertTrue(lines, name)
            self.assertRegex(lines[0], r"\tendbr64\b", name)


class OldGlibc(unittest.TestCase):
    """The loader refuses a file that asks for a version that its C library does not have."""

    def setUp(self):
        if not IS_FOR_OLD_GLIBC:
            self.skipTest("built for the C library of this system alone")

    def asked_for(self, path):
        """The names that @path takes from glibc, with the version of each."""
        for line in output("objdump", "--dynamic-syms", path).splitlines():
            found = re.search(r"\*UND\*.*\bGLIBC_(\d+(?:\.\d+)+)\)? +(\S+)$", line)
            if found:
                yield found.group(2), tuple(int(part) for part in found.group(1).split("."))

    def test_no_symbol_is_newer(self):
        for path in (LIBRARY, COMMAND):
            names = dict(self.asked_for(path))
            self.assertIn("fwrite", names, path)
            newer = {name: version for name, version in names.items() if version > OLDEST_GLIBC}
            self.assertEqual(newer, {}, path)

    def test_no_version_is_newer(self):
        """A weak reference asks for its version too, and so does a form of relocations."""
        for path in (LIBRARY, COMMAND):
            needs = output("readelf", "--wide", "--version-info", path).partition("needs section")
            versions = set(re.findall(r"Name: (GLIBC_\S+)", needs[2]))
            self.assertTrue(versions, path)
            numbers = {name: tuple(int(part) for part in re.findall(r"\d+", name))
                       for name in versions}
            self.assertEqual([name for name, number in numbers.items()
                              if not number or number > OLDEST_GLIBC], [], path)

    def test_the_libraries_that_were_joined_are_not_needed(self):
        """Each start would load them, which are empty from 2.34 on."""
        for path in (LIBRARY, COMMAND):
            dynamic = output("readelf", "--wide", "--dynamic", path)
            needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
            self.assertIn("libc.so.6", needed, path)
            self.assertEqual(needed & {"libpthread.so.0", "libdl.so.2"}, set(), path)
            self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")


class Archive(unittest.TestCase):
    def test_defines_no_other_global(self):
        """operator new is the program's C++ library's: see src/features/cxx/cxx_new.c."""
        wanted = {name for name in listed() if not name.startswith("_Zn")}
        defined = names(output("nm", "--extern-only", "--defined-only", ARCHIVE))
        self.assertEqual(sorted(defined - wanted - BROUGHT_ALONG), [])
        self.assertEqual(sorted(wanted - defined), [])


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    LIBRARY, ARCHIVE, SYMBOLS, COMMAND = sys.argv[1:5]
    IS_FOR_OLD_GLIBC = sys.argv[5] == "ON"
    unittest.main(argv=sys.argv[:1], verbosity=2)
