#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the help of each command of `slub` and its manual page name the options that it takes,
and no others.  Each command has a page.

usage: help_test.py SLUB SOURCE"""

import os
import re
import string
import subprocess
import sys
import tempfile
import unittest

SLUB, SOURCE = map(os.path.abspath, sys.argv[1:3])
NOBODYS_PID = "4194303"
# What makes each command end with another status than that of a wrong argument.
OPERANDS = {"run": ("true",),
            "debug": ("-p", NOBODYS_PID, "*", "F"), "guard": ("-p", NOBODYS_PID, "1"),
            "set": ("-p", NOBODYS_PID, "retain", "1M")}
USAGE = 2
# Of the options with a value; those of `slub run` by what `slub options` says of them.
VALUES = {"process": NOBODYS_PID, "timeout": "1", "watch": "1", "lines": "5", "columns": "64",
          "delay": "1", "sort": "c", "seconds": "1", "bytes": "4096", "output": "/nonexistent",
          "comm": "no-such", "cache": "malloc-*", "metrics": "slub_*", "series": "100",
          "textfile": "/nonexistent/file", "listen": "0", "node": "0", "files": "/nonexistent",
          "interval": "1", "examples": "1", "shifted": "3", "wake-after": "1"}
LETTER_VALUES = {"p": NOBODYS_PID, "t": "1", "d": "1", "s": "c", "n": "5", "N": "5",
                 "o": "/nonexistent"}
RANGES = {"FILE": "stderr", "LETTERS,CACHE...": "F", "thread,TRIGGER...": "thread"}


def slub(*arguments):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    return subprocess.run([SLUB, *arguments], env=env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=60)


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def options_of_help(text):
    """Long names with a = where they need a value, and letters."""
    found = {}
    for letter, name, needs in re.findall(r"(?m)(?<=  )(?:-(\w), )?--([a-z0-9][\w-]*)(=?)", text):
        for each in filter(None, (letter, name)):
            found[each] = bool(needs)
    return found


class Help(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = slub("--help").stdout
        names = re.findall(r"(?m)^  (\w+) ", listed)
        cls.helps = {name: options_of_help(slub(name, "--help").stdout)
                     for name in names}
        cls.values = dict(VALUES)
        cls.experts = {}
        for row in slub("options", "--all").stdout.splitlines()[1:]:
            name, _, is_range = row.split(None, 2)
            is_range = re.split(r"\s{2,}| to ", is_range)[0]
            name = name.removeprefix("SLUB_").lower()
            if name not in cls.helps["run"]:
                cls.experts[name] = is_range != "0|1"
            cls.values.setdefault(name, RANGES.get(is_range) or re.split(r"[|,]", is_range)[0])
        cls.helps["run"].update(cls.experts)

    def takes(self, command, name, needs_value):
        """Whether it goes on behind that option."""
        if len(name) == 1:
            given = [f"-{name}"] + ([LETTER_VALUES[name]] if needs_value else [])
        else:
            given = [f"--{name}" + ("=" + self.values[name] if needs_value else "")]
        operands = OPERANDS.get(command, ("-p", NOBODYS_PID))
        if command == "exporter" and name in ("files", "comm"):   # of all processes
            operands = ()
        done = slub(command, *given, *operands)
        return done.returncode != USAGE, (given, done)

    def letters_with_value(self, command):
        text = slub(command, "--help").stdout
        return set(re.findall(r"(?<=  )-(\w), --[\w-]+=", text))

    def test_there_are_commands(self):
        self.assertGreater(len(self.helps), 14)
        for command, options in self.helps.items():
            self.assertIn("help", options, command)
            self.assertEqual(slub(command, "--help").returncode, 0)

    def test_each_has_one_name(self):
        for command in self.helps:
            text = slub(command, "--help").stdout
            self.assertTrue(text.startswith(f"usage: slub {command} "), text)
            self.assertEqual(slub("help", command).stdout, text)

    def test_each_help_fits_a_screen_and_has_an_example(self):
        for command in ("", *self.helps):
            text = slub(*command.split(), "--help").stdout
            with self.subTest(command=command):
                self.assertLessEqual(len(text.splitlines()), 24)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                self.assertRegex(text, r"(?m)^(  |usage: )slub \w")

    def test_the_target_stands_first_in_each(self):
        for command in self.helps:
            usage = slub(command, "--help").stdout.splitlines()[0]
            with self.subTest(command=command):
                if command != "run":
                    self.assertRegex(usage, r"\[OPTION\.\.\.\] \[?[A-Z]")

    def test_an_exit_status_means_the_same_in_each(self):
        told = {command: slub(command, "--help").stdout.split("Exit status: ")[1]
                for command in self.helps if command != "run"}
        self.assertEqual(len(set(told.values())), 1, told)
        self.assertEqual(re.findall(r"\b\d\b", told["info"]), list("01234567"))
        for command in told:
            page = read("docs", "man", f"slub-{command}.1").split(".SH EXIT STATUS")[1]
            found = re.findall(r"(?m)^\.TP\n(\d)\n(.*)", page.split(".SH")[0])
            self.assertEqual([number for number, _ in found], list("01234567"), command)
            self.assertEqual({n: text.split(",")[0] for n, text in found if n in "0124567"},
                             {"0": "Done", "1": "No: libslub is not in use there.",
                              "2": "The arguments make no sense.",
                              "4": "There is no such target: process",
                              "5": "What was read is damaged", "6": "It could not be done",
                              "7": "It found bugs of the program"},
                             command)

    def test_the_usual_options_are_the_table_s(self):
        """Those for experts stand in `slub options --all` alone."""
        usual = slub("options").stdout.splitlines()
        every = slub("options", "--all").stdout.splitlines()
        self.assertEqual(every[:len(usual)], usual)
        self.assertEqual(len(usual) - 1 + len(self.experts), len(every) - 1)
        self.assertGreater(len(self.experts), 15)
        self.assertLess(len(usual), 20)

    def test_a_letter_means_the_same_in_each_command(self):
        meanings = {}
        for command in self.helps:
            for letter, name in re.findall(r"(?<=  )-(\w), --([\w-]+)",
                                           slub(command, "--help").stdout):
                meanings.setdefault(letter, set()).add(name)
        self.assertGreater(len(meanings), 20)
        self.assertEqual({letter: names for letter, names in meanings.items()
                          if len(names) > 1}, {})

    def test_each_option_of_the_help_is_taken(self):
        for command, options in self.helps.items():
            letters = self.letters_with_value(command)
            for name, needs in options.items():
                with self.subTest(command=command, option=name):
                    taken, why = self.takes(command, name, needs or name in letters)
                    self.assertTrue(taken, why)

    def test_no_other_is_taken(self):
        """None that another command has, and no letter."""
        every = {name: needs for options in self.helps.values() for name, needs in options.items()
                 if len(name) > 1}
        every["openmetrics"] = False
        every.update((letter, False) for letter in string.ascii_letters + string.digits)
        for command, options in self.helps.items():
            for name, needs in every.items():
                # getopt_long() takes beginnings too.
                if name in options or len(name) > 1 and any(
                        other.startswith(name) for other in options):
                    continue
                with self.subTest(command=command, option=name):
                    self.assertFalse(*self.takes(command, name, needs))

    def test_the_manual_has_the_same(self):
        for command, options in self.helps.items():
            page = read("docs", "man", f"slub-{command}.1").replace("\\-", "-")
            page = re.search(r"(?ms)^\.SH OPTIONS\n(.*?)^\.SH ", page).group(1)
            tags = "\n".join(re.findall(r"(?m)^\.B.*$", page))
            found = {name.lstrip("-") for name in re.findall(r"(?<![\w-])--?\w[\w-]*", tags)}
            with self.subTest(command=command):
                if command == "run":            # the usual ones; the others are in libslub(7)
                    self.assertEqual(found - set(options), set())
                else:
                    self.assertEqual(found, set(options))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:       # a profile is a file
        os.chdir(folder)
        result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    sys.exit(not result.wasSuccessful())
