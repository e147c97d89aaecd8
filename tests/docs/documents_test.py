#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: what README.md, CONTRIBUTING.md and docs/*.md name is there: other documents, commands
of slub and gdb, environment variables.

usage: documents_test.py SOURCE"""
import glob
import os
import re
import sys
import unittest

SOURCE = ""
# Variables that are no options of the library.
OF_OTHERS = {"SLUB_OPTIONS", "SLUB_LIBRARY", "SLUB_LIB_DIR", "SLUB_LINK", "SLUB_INJECT"}


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


class Names(unittest.TestCase):
    def setUp(self):
        paths = [os.path.join(SOURCE, name) for name in ("README.md", "CONTRIBUTING.md")]
        paths += glob.glob(os.path.join(SOURCE, "docs", "*.md"))
        self.documents = {os.path.relpath(path, SOURCE): read(path) for path in paths}
        self.assertGreater(len(self.documents), 10)

    def assertAllThere(self, pattern, is_there):
        found = [(document, name) for document, text in self.documents.items()
                 for name in re.findall(pattern, text, re.MULTILINE)]
        self.assertGreater(len(found), 10)
        self.assertEqual(sorted({item for item in found if not is_there(item[1])}), [])

    def test_documents(self):
        self.assertAllThere(r"\b((?:docs|bench|bindings)/[\w/-]+\.md)\b",
                            lambda name: os.path.exists(os.path.join(SOURCE, name)))

    def test_commands(self):
        """The shell's, or gdb's."""
        known = set(re.findall(r'"slub ([a-z]+)"', read("tools", "gdb", "slub.py")))
        known.update(name[len("slub-"):-len(".1")] for name in
                     os.listdir(os.path.join(SOURCE, "docs", "man")) if name.endswith(".1"))
        self.assertAllThere(r"(?:`|^    |^\$ )(?:build/)?slub ([a-z]+)\b",
                            lambda name: name in known)

    def test_variables(self):
        options = {"SLUB_" + name.upper() for name in re.findall(
            r"^OPTION_\w+\((\w+),", read("src", "base", "option.def"), re.MULTILINE)}
        self.assertAllThere(r"(?<!-D)\b(SLUB_[A-Z_]+)=",
                            lambda name: name in options | OF_OTHERS)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
