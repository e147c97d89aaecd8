#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: whatever a core file, a profile, a name or a path says, `slub` neither dies of it, nor
goes on for ever, nor hands it to the terminal as it is.

usage: hostile_test.py SLUB LIBRARY HEAP GDB_SCRIPT PROFILED OFFSETS CUT"""

import os
import shutil
import struct
import subprocess
import sys
import unittest

PROFILED, OFFSETS, CUT = map(os.path.abspath, sys.argv[5:8])
del sys.argv[5:]

from target import HEAP, LIBRARY, READERS, SLUB, Target, environment, slub

MAGIC = b"SLUBABI\0"
ESCAPES = "\033]0;x\007\033[31m\x9b1m"
RENAMED = "import ctypes; ctypes.CDLL(None).prctl(15, {name!r}.encode('latin-1')); " \
          "print('ready', flush=True); input()"


class Hostile(Target):
    def assertHarmless(self, done):
        self.assertIn(done.returncode, (0, 1, 5), done)
        for control in "\033\007\x9b":
            self.assertNotIn(control, done.stdout + done.stderr)


class Core(Hostile):
    def setUp(self):
        super().setUp()
        told = subprocess.run([OFFSETS], capture_output=True, text=True, check=True).stdout
        self.offsets = {name: int(at) for name, at in map(str.split, told.splitlines())}
        self.core = self.core_of(self.heap())
        with open(self.core, "rb") as file:
            self.image = file.read()
        at = self.image.find(MAGIC)
        while at >= 0 and self.number("ready", "<I", at) != 1:
            at = self.image.find(MAGIC, at + 8)
        self.assertGreater(at, 0)
        self.at = at

    def number(self, name, form, at=None):
        return struct.unpack_from(form, self.image, (at or self.at) + self.offsets[name])[0]

    def patch(self, offset, form, *values):
        with open(self.core, "r+b") as file:
            file.seek(offset)
            file.write(struct.pack(form, *values))

    def test_nodes_that_wrap_around(self):
        self.patch(self.at + self.offsets["cache_nodes"], "<I", 0xfffffff8)
        for command in READERS:
            self.assertRefused(slub(command, "-p", self.core), 5, "makes no sense")

    def test_cut_short_while_it_is_read(self):
        done = subprocess.run([CUT, self.core], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (5, "slub: a file was cut short while it was read\n"))


class Names(Hostile):
    def test_process(self):
        process = self.start(sys.executable, "-c", RENAMED.format(name=ESCAPES))
        for command in READERS + ("check", "doctor"):
            done = slub(command, "-p", str(process.pid))
            self.assertHarmless(done)
            self.assertNotEqual(done.stdout, "")

    def test_a_line_s_end_in_a_name(self):
        process = self.start(sys.executable, "-c", RENAMED.format(name="a\nb\n"))
        self.assertRegex(slub("check", str(process.pid)).stdout,
                         rf"(?m)^process +{process.pid} \(a\?b\?\)$")

    def test_files(self):
        library, program = self.path(f"libslub{ESCAPES}.so"), self.path(f"heap{ESCAPES}")
        shutil.copy(LIBRARY, library)
        shutil.copy(HEAP, program)
        process = self.start(program, "wait", library=library)
        for command in READERS + ("check", "doctor"):
            done = slub(command, "-p", str(process.pid))
            self.assertHarmless(done)
            self.assertNotEqual(done.stdout, "")
        self.assertHarmless(slub("doctor", program))
        for command in READERS:
            self.assertHarmless(slub(command, "-p", library))
            self.assertRefused(slub(command, "-p", self.path(f"none{ESCAPES}")), 4, "none?")

    def test_letters_stay(self):
        library = self.path("libslub-ÄΩ文😀.so")
        shutil.copy(LIBRARY, library)
        process = self.start(HEAP, "wait", library=library)
        self.assertIn("libslub-ÄΩ文😀.so", slub("check", str(process.pid)).stdout)


class Profile(Hostile):
    def profile(self):
        path = self.path("heap")
        subprocess.run([PROFILED, "write", path, "0", "65536"], check=True, capture_output=True,
                       env=environment(SLUB_PROFILE="1"))
        with open(path, "rb") as file:
            return path, file.read()

    def test_paths(self):
        path, good = self.profile()
        with open(path, "wb") as file:
            file.write(good.replace(os.path.basename(PROFILED).encode(),
                                    ESCAPES.encode("latin-1")))
        done = slub("profile", "--text", path)
        self.assertHarmless(done)
        self.assertIn("?]0;x??[31m?1m", done.stdout)

    def test_addresses_made_for_one_place(self):
        """Half a million, which a table by their lower bits would compare with each other."""
        path, good = self.profile()
        head, maps = good.index(b"# samples"), good.index(b"MAPPED_LIBRARIES:")
        sites = b"".join(b"1: 1 [1: 1] @ %s\n" %
                         b" ".join(b"0x%x" % (((first + n) << 44) + 1) for n in range(250))
                         for first in range(1, 500000, 250))
        with open(path, "wb") as file:
            file.write(good[:head] + sites + good[maps:])
        self.assertEqual(slub("profile", "--output", self.path("out"), path).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
