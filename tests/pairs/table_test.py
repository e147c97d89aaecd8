#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: each two features have a cell in the table of pairs; each cell is tested under its name
or says why the two cannot meet; and the page draws the table as it is.

usage: table_test.py PAIRS SOURCE BUILD
       table_test.py --draw PAIRS SOURCE BUILD     writes the table into the page"""
import itertools
import os
import re
import subprocess
import sys
import unittest

PAIRS = SOURCE = BUILD = ""
BEGIN, END = "<!-- table_test.py --draw: begin -->\n", "<!-- table_test.py --draw: end -->\n"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def rows():
    """Name and what it does, in the order of the table."""
    return re.findall(r'(?m)^FEATURE\((\w+), "(.*)"\)$', read(SOURCE, "tests/pairs/table.def"))


def cells():
    """What the program itself says: name, (kind, text)."""
    text = subprocess.run([PAIRS], capture_output=True, text=True, check=True).stdout
    return {name: (kind, what) for name, kind, what in
            (line.split("\t") for line in text.splitlines())}


def tests():
    return re.findall(r'add_test\(\[?=*\[?"?pairs\.(\w+)',
                      read(BUILD, "tests", "pairs", "CTestTestfile.cmake"))


def page_path():
    return os.path.join(SOURCE, "tests", "pairs", "README.md")


def drawn():
    """Rows and columns are in one order: of a cell the earlier feature is the column."""
    found, names = cells(), [name for name, _ in rows()]
    mark = {"composed": "+", "meeting": "M", "empty": "-"}
    lines = ["| | feature | " + " | ".join(str(n) for n in range(1, len(names))) + " |",
             "|--:|---|" + ":-:|" * (len(names) - 1)]
    for nr, (name, _) in enumerate(rows()):
        line = [mark[found[f"{other}_x_{name}"][0]] for other in names[:nr]]
        line += [" "] * (len(names) - 1 - nr)
        lines.append(f"| {nr + 1} | {name} | " + " | ".join(line) + " |")
    kinds = [kind for kind, _ in found.values()]
    lines += ["", f"{len(kinds)} cells: {kinds.count('composed')} composed (+), "
              f"{kinds.count('meeting')} composed and with a meeting of their own (M), "
              f"{kinds.count('empty')} empty (-).",
              "", "| feature | what it does to the other |", "|---|---|"]
    lines += [f"| {name} | {does} |" for name, does in rows()]
    for kind, head in (("meeting", "what meets there"), ("empty", "why they cannot meet")):
        some = [(name, text) for name, (this, text) in found.items() if this == kind]
        if some:
            lines += ["", f"| cell | {head} |", "|---|---|"]
            lines += [f"| `{name}` | {text} |" for name, text in some]
    return "\n".join(lines) + "\n"


def draw():
    page = read(page_path())
    head, _, rest = page.partition(BEGIN)
    with open(page_path(), "w", encoding="utf-8") as file:
        file.write(head + BEGIN + drawn() + END + rest.partition(END)[2])


class Table(unittest.TestCase):
    def test_each_two_features_have_a_cell(self):
        names = [name for name, _ in rows()]
        self.assertGreater(len(names), 20)
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sorted(cells()), sorted(f"{one}_x_{other}" for one, other in
                                                 itertools.combinations(names, 2)))

    def test_each_cell_is_tested_or_says_why_not(self):
        found, named = cells(), tests()
        self.assertEqual(len(named), len(set(named)))
        tested = set(named) - {"table"}
        self.assertGreater(len(tested), 200)
        for name, (kind, text) in found.items():
            if kind == "empty":
                self.assertNotIn(name, tested)
                self.assertGreater(len(text), 20, name)
            else:
                self.assertIn(name, tested)
        self.assertEqual(tested - set(found), set())

    def test_each_line_of_the_table_is_a_cell(self):
        """A meeting or a reason of features in the wrong order would be none."""
        lines = re.findall(r'(?m)^(MEETING|EMPTY)\((\w+), (\w+), "(.+)"\)$',
                           read(SOURCE, "tests/pairs/table.def"))
        kinds = {"MEETING": "meeting", "EMPTY": "empty"}
        self.assertGreater(len(lines), 10)
        self.assertEqual({f"{one}_x_{other}": (kinds[kind], text)
                          for kind, one, other, text in lines},
                         {name: what for name, what in cells().items() if what[0] != "composed"})

    def test_the_page_draws_it(self):
        page = read(page_path())
        self.assertEqual(page.partition(BEGIN)[2].partition(END)[0], drawn(),
                         "tests/pairs/table_test.py --draw draws it")

    def test_an_unknown_cell_is_none(self):
        ran = subprocess.run([PAIRS, "bucket_x_nothing"], capture_output=True, text=True,
                             check=False)
        self.assertEqual((ran.returncode, ran.stdout),
                         (2, "pairs: there is no cell bucket_x_nothing\n"))


if __name__ == "__main__":
    is_drawing = sys.argv[1:2] == ["--draw"]
    if len(sys.argv) != 4 + is_drawing:
        sys.exit(__doc__)
    PAIRS, SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[-3:])
    if is_drawing:
        draw()
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
