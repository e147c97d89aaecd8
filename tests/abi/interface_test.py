#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a program that was compiled against the interface in libslub.abi runs on this library.
Functions may be added; what is there keeps its parameters, its structures and its name.

usage: interface_test.py LIBRARY INCLUDE DESCRIPTION
       interface_test.py --write LIBRARY INCLUDE DESCRIPTION    at a release: describe this one

Structures that no public header defines are no part of it.  slub_abi_state, which the command
reads, has a version of its own (docs/policy/support.md)."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
LIBRARY = INCLUDE = DESCRIPTION = ""

# abidiff tells headers apart by their last name, and src/ has a group.h too: so by structures.
NOT_THE_INTERFACE = """
[suppress_variable]
  name = slub_abi_state
[suppress_type]
  type_kind = struct
  name_not_regexp = ^({public})$
[suppress_type]
  type_kind = union
  name_not_regexp = ^({public})$
"""
# Its head is in a header, and the rest is the library's.
OPENS_WITH = {"slub_cache"}
ADVICE = """
This breaks programs that are compiled already (docs/policy/support.md).  Where it does not, as a
member called reserved has got a name, or where the soname changes with it, describe the interface
anew:
tests/abi/interface_test.py --write LIBRARY INCLUDE DESCRIPTION"""


def public_structures(include):
    """Those that a header defines: a program may hold one, and knows its size and its members."""
    for header in glob.glob(os.path.join(include, "**", "*.h"), recursive=True):
        with open(header, encoding="utf-8") as file:
            yield from re.findall(r"^(?:typedef )?(?:struct|union) (\w+) {", file.read(), re.M)


@contextlib.contextmanager
def suppressions(include):
    with tempfile.NamedTemporaryFile("w", suffix=".suppr") as file:
        file.write(NOT_THE_INTERFACE.format(public="|".join(
            sorted(set(public_structures(include)) - OPENS_WITH))))
        file.flush()
        yield file.name


def describe(library, include, file):
    subprocess.run(["abidw", "--headers-dir", include, "--drop-private-types",
                    "--exported-interfaces-only", "--no-show-locs", "--no-corpus-path",
                    "--no-comp-dir-path", "--type-id-style", "hash", "--out-file", file, library],
                   check=True)
    with open(file, encoding="utf-8") as described:
        text = described.read()
    # Where it was built is no part of the interface.
    text = re.sub(r" path='[^']*/((?:src|include)/[^']*)'", r" path='\1'", text)
    with open(file, "w", encoding="utf-8") as described:
        described.write(text)


def changes(description):
    """What the library changes of a description but for additions; empty if nothing."""
    with suppressions(INCLUDE) as suppressed:
        run = subprocess.run(["abidiff", "--no-added-syms", "--suppressions", suppressed,
                              description, LIBRARY], capture_output=True, text=True, check=False)
    if run.returncode & 3:
        raise RuntimeError(f"abidiff failed: {run.stdout}{run.stderr}")
    return run.stdout if run.returncode else ""


class Interface(unittest.TestCase):
    def test_nothing_is_taken_away_or_changed(self):
        found = changes(DESCRIPTION)
        self.assertFalse(found, found + ADVICE)

    def altered(self, old, new):
        """Changes against a description of which one place reads otherwise."""
        with open(DESCRIPTION, encoding="utf-8") as described:
            text = described.read()
        self.assertIn(old, text)
        with tempfile.NamedTemporaryFile("w", suffix=".abi") as other:
            other.write(text.replace(old, new))
            other.flush()
            return changes(other.name)

    def test_a_lost_function_would_be_found(self):
        self.assertIn("slub_cache_lost", self.altered("slub_cache_shrink", "slub_cache_lost"))

    def test_another_size_of_a_structure_would_be_found(self):
        with open(DESCRIPTION, encoding="utf-8") as described:
            size = re.search("name='slub_cache_stats' size-in-bits='([0-9]+)'", described.read())
        larger = size.group().replace(size.group(1), str(int(size.group(1)) + 64))
        self.assertIn("slub_cache_stats", self.altered(size.group(), larger))

    def test_another_soname_would_be_found(self):
        self.assertIn("SONAME", self.altered("soname='libslub.so.1'", "soname='libslub.so.2'"))


def main():
    global LIBRARY, INCLUDE, DESCRIPTION
    arguments = sys.argv[1:]
    write = arguments[:1] == ["--write"]
    if len(arguments) - write != 3:
        sys.exit(__doc__)
    LIBRARY, INCLUDE, DESCRIPTION = (os.path.abspath(a) for a in arguments[write:])
    if not shutil.which("abidiff") or not shutil.which("abidw"):
        print("abidiff not found (scripts/setup test, or the package abigail-tools)")
        sys.exit(SKIPPED)
    if write:
        describe(LIBRARY, INCLUDE, DESCRIPTION)
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
