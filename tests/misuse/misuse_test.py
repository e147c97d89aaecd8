#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: of the crimes of the corpus each mode catches at least as many as is written here, by
kind; letters F, Z, P and U say of each what the corpus expects, and the program lives on; and no
mode says a word of the same programs without the wrong step.

usage: misuse_test.py BUILD"""
import functools
import importlib.machinery
import importlib.util
import os
import re
import sys
import unittest

loader = importlib.machinery.SourceFileLoader(
    "run", os.path.join(os.path.dirname(os.path.abspath(__file__)), "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)

BUILD = os.path.abspath(sys.argv[1])
PROGRAMS = os.path.join(BUILD, "tests", "misuse")
MODES = {mode.title: mode for mode in run.modes_of(BUILD)}

# Blocks of more than 32 KiB.
LARGE = ("-40000", "-200000", "-1048576", "-4194304", "-65536", "-1M", "-large")

# The least that must be caught of a kind.  It only ever grows.
LEAST = {
    "default": {"double free": 53, "invalid free": 47, "size asked of no block": 24,
                "wrong size": 1, "typed caches": 6},
    "hardened": {"double free": 53, "invalid free": 47, "write freed": 53, "overflow": 63,
                 "wrong size": 10, "no size": 5, "size asked of no block": 24,
                 "kinds mixed": 12},
    "FZPU": {"double free": 53, "invalid free": 52, "write freed": 68, "overflow": 76,
             "underflow": 28, "link": 17, "wrong size": 10, "kinds mixed": 12, "no size": 5,
             "size asked of no block": 24, "not written": 20, "typed caches": 33},
    "FZPU + guard": {"double free": 53, "invalid free": 52, "write freed": 68, "read freed": 27,
                     "overflow": 76, "underflow": 28, "wrong size": 10, "kinds mixed": 12,
                     "no size": 5, "not written": 20, "typed caches": 33},
    "guard": {"double free": 53, "invalid free": 49, "size asked of no block": 24,
              "write freed": 64, "overflow": 65, "no size": 5},
    "hardened + guard": {"double free": 53, "invalid free": 49, "size asked of no block": 24,
                         "write freed": 64, "overflow": 65, "no size": 5, "wrong size": 10,
                         "kinds mixed": 12},
}


@functools.lru_cache(maxsize=None)
def column_of(title):
    """What the mode of this title makes of the kinds that are counted."""
    mode, kinds = MODES[title], LEAST[title]
    return run.Column(mode, [crime for crime in run.crimes_of(PROGRAMS, mode)
                             if crime.kind in kinds], [], False)


class Misuse(unittest.TestCase):
    def test_at_least(self):
        for title, least in LEAST.items():
            column = column_of(title)
            for kind, number in least.items():
                caught = sum(column.is_caught(outcome) for crime, outcome in
                             zip(column.crimes, column.outcomes) if crime.kind == kind)
                with self.subTest(mode=title, kind=kind):
                    missed = [text for text in column.missed() if text.startswith(kind + ":")]
                    self.assertGreaterEqual(caught, number, "\n".join(missed))

    def test_letters_say_what_it_was(self):
        column = column_of("FZPU")
        for crime, outcome in zip(column.crimes, column.outcomes):
            if not crime.report:
                continue
            if crime.name.endswith(LARGE):
                # Reported in the guard's words, or stopped at freed pages.
                with self.subTest(crime=crime.name):
                    self.assertIn((outcome.what, outcome.status), (("said", 0), ("stopped", 77)))
                continue
            bugs = re.findall(r"^BUG \S+ \(\d+\): (.*)", outcome.errors, re.MULTILINE)
            with self.subTest(crime=crime.name):
                self.assertTrue(any(re.search(crime.report, bug) for bug in bugs), outcome)
                self.assertIn("\nFIX ", outcome.errors)
                self.assertEqual(outcome.status, 0, outcome)

    def test_twins_raise_no_alarm(self):
        for mode in MODES.values():
            for program in ("crime", "crime_typed"):
                with self.subTest(mode=mode.title, program=program):
                    outcome = mode.run([os.path.join(PROGRAMS, program), "--twins"])
                    self.assertEqual((outcome.status, outcome.errors), (0, ""), outcome)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
