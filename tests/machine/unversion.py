#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes programs ask for GLIBC_2.2.5 in the place of GLIBC_2.29, in place.

usage: unversion.py FILE...

In 2.29 exp, log, log2 and pow got versions of their own, which differ in errno alone; of what
Debian 11 has, most programs need nothing else that glibc 2.28 lacks.
"""
import struct
import sys

NEW, OLD = b"GLIBC_2.29", b"GLIBC_2.2.5"
SHT_GNU_VERNEED = 0x6ffffffe


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value & 0xf0000000) >> 24) & 0x0fffffff
    return value


def sections(file):
    start, = struct.unpack_from("<Q", file, 0x28)
    size, number = struct.unpack_from("<HH", file, 0x3a)
    for i in range(number):
        yield struct.unpack_from("<IIQQQQIIQQ", file, start + i * size)


def change(file):
    """How many versions were changed."""
    table = list(sections(file))
    changed = 0
    for section in table:
        if section[1] != SHT_GNU_VERNEED:
            continue
        strings, length = table[section[6]][4:6]
        old = file.find(b"\0" + OLD + b"\0", strings, strings + length) + 1 - strings
        at = section[4]
        while True:
            _, number, _, first, following = struct.unpack_from("<HHIII", file, at)
            entry = at + first
            for _ in range(number):
                name, step = struct.unpack_from("<II", file, entry + 8)
                if file[strings + name:].startswith(NEW + b"\0") and old > 0:
                    struct.pack_into("<I", file, entry, elf_hash(OLD))
                    struct.pack_into("<I", file, entry + 8, old)
                    changed += 1
                entry += step
            if not following:
                break
            at += following
    return changed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            contents = bytearray(file.read())
        if change(contents):
            with open(path, "wb") as file:
                file.write(contents)


if __name__ == "__main__":
    main()
