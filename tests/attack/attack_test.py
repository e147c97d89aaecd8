#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: in no cell (a kind of attack, its variant, a size of blocks) does an attacker win in
more layouts under this library, by any backend, or where it only reports, or samples, or its
hardened build, than under the C library; but for the cells of open.txt, in which he still does.

usage: attack_test.py BUILD"""
import fnmatch
import importlib.machinery
import importlib.util
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("run", os.path.join(HERE, "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)

BUILD = os.path.abspath(sys.argv[1])
FOLDER = os.path.join(BUILD, "tests", "attack")
# Here an attacker of the C library must win, or the programs show nothing.
SURE = ("overflow link", "twice reused", "forge whole", "leak fresh", "class known")
# Here he wins in none, whatever he gets of the C library.
NEVER = {
    "default": ("overflow *", "header *", "written *", "class *", "library *", "forge 8",
                "forge new", "behind 16-8", "interior [!r]*", "twice [!r]*", "typed *",
                "leak fresh", "far jump", "far run"),
    "hardened": ("overflow *", "header *", "written *", "class *", "library *", "forge new",
                 "behind 16-16", "behind 32-32", "interior [!r]*", "twice [!r]*", "typed *",
                 "leak fresh", "far jump", "far run"),
}


def open_cells():
    """{(build, cell): True; None if it depends on what is drawn}"""
    cells = {}
    with open(os.path.join(HERE, "open.txt"), encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            for size in words[3:]:
                cell = run.Cell(words[1], words[2], int(size.rstrip("?")))
                cells[words[0], cell] = None if size.endswith("?") else True
    return cells


class Attack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.columns = run.columns_of(BUILD)
        plain = cls.columns[1]
        seen = [plain.backend(FOLDER)]
        cls.builds = {"default": {"default", f"default.{seen[0]}"}, "hardened": {"hardened"}}
        for backend in ("rseq", "thread", "tid", "lock"):
            column = run.Column(backend, plain.env["LD_PRELOAD"], SLUB_FASTPATH=backend)
            if column.backend(FOLDER) not in seen:
                seen.append(column.backend(FOLDER))
                cls.columns.append(column)
                cls.builds[backend] = {"default", f"default.{seen[-1]}"}
        # Where lists are drawn for before they are handed out, and reports go on.
        sampled = {"SLUB_ON_ERROR": "report", "SLUB_GUARD": "1000000000000"}
        for title, settings in (("report", {"SLUB_ON_ERROR": "report"}), ("sampled", sampled)):
            cls.columns.append(run.Column(title, plain.env["LD_PRELOAD"], **settings))
            cls.builds[title] = cls.builds["default"]
        cls.table = run.table_of(FOLDER, cls.columns, list(run.cells_of(FOLDER)))

    def test_no_cell_is_worse(self):
        expected = open_cells()
        for cell, row in self.table.items():
            for column, outcomes in zip(self.columns[1:], row[1:]):
                what = f"{column.title} {cell.program} {cell.variant} {cell.size}"
                text = f"{what}: {run.text_of(outcomes)}; glibc: {run.text_of(row[0])}"
                is_open = outcomes["goal"] > row[0]["goal"]
                listed = [expected[build, cell] for build in self.builds[column.title]
                          if (build, cell) in expected]
                with self.subTest(what):
                    if is_open:
                        self.assertTrue(listed, text)
                    elif column.title != "sampled":  # what is open by its lists varies
                        self.assertNotIn(True, listed, f"no longer open: {text}")

    def test_some_cells_are_never_won(self):
        for cell, row in self.table.items():
            name = f"{cell.program} {cell.variant}"
            for column, outcomes in zip(self.columns[1:], row[1:]):
                build = "hardened" if column.title == "hardened" else "default"
                if any(fnmatch.fnmatch(name, pattern) for pattern in NEVER[build]):
                    self.assertEqual(outcomes["goal"], 0, (column.title, cell))

    def test_open_cells_exist(self):
        every = set(run.cells_of(FOLDER, every=True))
        for build, cell in open_cells():
            self.assertRegex(build, r"^(hardened|default(\.(rseq|thread|tid|lock))?)$")
            self.assertIn(cell, every)

    def test_the_attacks_are_some(self):
        for cell, (glibc, *_) in self.table.items():
            if f"{cell.program} {cell.variant}" in SURE:
                self.assertGreater(glibc["goal"], 0, cell)

    def test_each_variant_is_of_one_group(self):
        grouped = [(words.split(" ", 1)[0], variant) for _, words in run.GROUPS
                   for variant in words.split(" ", 1)[1].split(", ")]
        self.assertEqual(sorted(grouped),
                         sorted({(cell.program, cell.variant) for cell in self.table}))

    def test_none_hangs(self):
        for cell, row in self.table.items():
            for column, outcomes in zip(self.columns, row):
                self.assertEqual(outcomes["hang"], 0, (column.title, cell))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
