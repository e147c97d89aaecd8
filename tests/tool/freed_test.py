#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the command frees all that it allocates itself, whatever it is asked of a process, of a
core or statistics file, or of a profile: it runs on the library, whose report of leaks at exit
(SLUB_DEBUG_LEAKS) names no place of the command.  The calls are those of made/*.txt.

usage: freed_test.py SLUB LIBRARY MADE FOLDER"""

import os
import re
import shlex
import subprocess
import sys
import unittest

from target import GDB_SCRIPT as TEXTS, HEAP as MADE, LIBRARY, SLUB, Target, environment, limit_core

# `run` becomes another program, and `top -h` does nothing.
LEFT_OUT = re.compile(r"run |help |--help|-h\b")
# Its own calls of malloc: the innermost frame stands in the first line of an entry, the whole stack
# behind tabs.
ITSELF = re.compile(r"(?m)^[^\t\n].*\[<0x[0-9a-f]+>\] (?:.*/)?slub(?: \(deleted\))?[+ ].*")


def calls(name, kind=None):
    """Of a text, each once: those behind `% kind` alone."""
    with open(os.path.join(TEXTS, name), encoding="utf-8") as file:
        is_kind, found = kind is None, {}
        for line in file:
            if line.startswith("% "):
                is_kind = kind is None or line[2:].split() == [kind]
            elif is_kind and line.startswith("$ ") and not LEFT_OUT.search(line):
                found[line[2:].partition(" ~ ")[0].strip()] = None
    return list(found)


class Freed(Target):
    def report(self, call, target):
        """What the command has not freed; None: no report was written."""
        path = self.path("leaks")
        words = [word.replace("TARGET", target) for word in shlex.split(call)]
        subprocess.run([SLUB, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100,
                       env=environment(LD_PRELOAD=LIBRARY, SLUB_DEBUG="U", SLUB_DEBUG_LEAKS=path),
                       check=False)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        os.remove(path)
        return ITSELF.findall(text)

    def check(self, asked, target):
        nr = 0
        for call in asked:
            with self.subTest(call=call):
                left = self.report(call, target)
                nr += left is not None
                self.assertIn(left, ([], None))
        self.assertGreater(nr, len(asked) / 2, "there are no reports")

    def made(self):
        process = subprocess.Popen([MADE, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   cwd=self.folder, preexec_fn=limit_core, text=True,
                                   env=environment(SLUB_NONSENSE="1", SLUB_RETAIN="x"))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_process(self):
        self.check(calls("process.txt") + calls("explain.txt")[:12], str(self.made().pid))

    def test_core(self):
        core = self.core_of(self.made())
        self.check(calls("core.txt"), core)

    def test_stats(self):
        subprocess.run([MADE, "stats", self.path("stats")], check=True, env=environment())
        self.check(calls("stats.txt"), self.path("stats"))

    def test_file(self):
        with open(os.path.join(TEXTS, "profile.txt"), encoding="utf-8") as file:
            text = file.read()
        lines = text.split("% file\n", 2)[1].splitlines()
        with open(self.path("profile"), "w", encoding="utf-8") as file:
            file.writelines(line[2:] + "\n" for line in lines if line.startswith("| "))
        self.check(["profile --text TARGET", "profile -j TARGET", "profile --output=- TARGET",
                    "doctor TARGET"], self.path("profile"))
        self.check(["doctor TARGET", "doctor --json TARGET", "options"], SLUB)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
