# SPDX-License-Identifier: MIT
"""What the tests of the heap profile share.  Their arguments are

    SLUB LIBRARY KNOWN"""

import gzip
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

if len(sys.argv) != 4:
    sys.exit(f"usage: {sys.argv[0]} SLUB LIBRARY KNOWN")
SLUB, LIBRARY, KNOWN = map(os.path.abspath, sys.argv[1:])

# alloc_objects, alloc_space, inuse_objects, inuse_space: as in the converted file
ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE = range(4)


def run(*command, seconds=100, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    env.update(LC_ALL="C.UTF-8", **more)
    return subprocess.run(command, env=env, text=True, capture_output=True, timeout=seconds,
                          stdin=subprocess.DEVNULL, check=False)


def class_bytes(size):
    """The size class that a request of that size gets; see src/core/malloc/sizeclass.c."""
    if size <= 128:
        return max(16, (size + 15) // 16 * 16)
    if size > 32768:
        return size
    step = 1 << ((size - 1).bit_length() - 4)
    return (size + step - 1) // step * step


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message of Protocol Buffers: {number: [value, ...]}."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            if len(value) != length:
                raise ValueError("a field is longer than its message")
        else:
            raise ValueError(f"wire type {key & 7}")
        found.setdefault(key >> 3, []).append(value)
    return found


def packed(data):
    at, numbers = 0, []
    while at < len(data):
        number, at = varint(data, at)
        numbers.append(number)
    return numbers


class Pprof:
    """perftools.profiles.Profile, with its references followed."""

    def __init__(self, path):
        with gzip.open(path) as file:
            top = fields(file.read())
        self.top = top
        self.strings = [text.decode() for text in top[6]]
        self.types = [(self.text(fields(t)[1]), self.text(fields(t)[2])) for t in top[1]]
        self.functions = {f[1][0]: f for f in map(fields, top.get(5, []))}
        self.mappings = {m[1][0]: m for m in map(fields, top.get(3, []))}
        self.locations = {loc[1][0]: loc for loc in map(fields, top.get(4, []))}
        self.samples = [(packed(s[1][0]) if 1 in s else [], packed(s[2][0]))
                        for s in map(fields, top.get(2, []))]

    def text(self, numbers):
        return self.strings[numbers[0]]

    def function(self, location):
        """The one that was compiled, whatever was inlined in it."""
        lines = self.locations[location].get(4)
        if not lines:
            return None
        return self.text(self.functions[fields(lines[-1])[1][0]][2])

    def stacks(self):
        for locations, values in self.samples:
            yield [self.function(location) for location in locations], values

    def by_function(self):
        """What the innermost known function of each stack has."""
        sums = {}
        for names, values in self.stacks():
            name = next((n for n in names if n), None)
            sums[name] = [a + b for a, b in zip(sums.get(name, [0] * 4), values)]
        return sums


def read_known(text):
    """What the program says it has allocated, in the order of the converted file."""
    sums = {}
    for line in text.splitlines():
        name, *numbers = line.split()
        sums[name] = [a + int(b) for a, b in zip(sums.get(name, [0] * 4), numbers)]
    return sums


class ProfileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def files(self):
        return sorted(os.listdir(self.folder))

    def known(self, *arguments, **more):
        done = run(KNOWN, *map(str, arguments), **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return read_known(done.stdout)

    def slub(self, *arguments):
        done = run(SLUB, "profile", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def convert(self, path):
        self.slub(path)
        return Pprof(path + ".pb.gz")

    def assertRefused(self, done, status, *words):
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("slub: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


def header_of(path):
    """The sums in the first line of the library's file, in the same order."""
    with open(path) as file:
        numbers = list(map(int, re.findall(r"\d+", file.readline())))
    return [numbers[2], numbers[3], numbers[0], numbers[1]]


def deviation(total, mean):
    """
    At most one standard deviation of an estimate of `total` bytes.  A sampled block of r bytes in
    a class of S counts r / p, p = 1 - exp(-S / mean): its variance is r^2 (1 - p) / p, and
    (1 - p) / p = 1 / (exp(S / mean) - 1) <= mean / S <= mean / r.  So the sum's is at most
    mean * total.
    """
    return math.sqrt(mean * total)
