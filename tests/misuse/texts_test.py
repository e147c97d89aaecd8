#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: each message of a crime says what happened, what is known of who did it, and what to do
next; whoever only found it is not accused.  The crimes times the places where they are found, in
the default build, with letters, with the guard, and in the hardened build.

usage: texts_test.py LIBRARY HARDENED TEXTS"""
import os
import re
import subprocess
import sys
import unittest

LIBRARY, HARDENED, TEXTS = map(os.path.abspath, sys.argv[1:4])
PLACES = ("malloc", "free", "trim", "exit", "handler")

AT = r"\[<0x[0-9a-f]+>\] [A-Za-z_]\w*\+0x[0-9a-f]+ \(\S*/texts\+0x[0-9a-f]+\)"
BY = rf", called from {AT}"
IN = rf", found in a call from {AT}"
EXIT = ", found at exit"
WHO = rf", allocated by thread \d+ from {AT}"
FREED = rf", freed by thread \d+ from {AT}"
ALLOCATED = "; SLUB_DEBUG=FZPU names who allocated the block"
FIRST = "; SLUB_DEBUG=FZPU names who freed it first"
STOPS = "; SLUB_GUARD=1 stops such a write as it is made, SLUB_DEBUG=FZPU names who freed the block"
NONE = "; no block of malloc begins there now"
STACKS = "; SLUB_DEBUG_REPORT=stderr prints whole stacks"


def line(what, where, who, then):
    """A regular expression of the whole line.  A thread is named where it did something then."""
    thread = "" if who.startswith(EXIT) else r", thread \d+"
    return rf"slub\[\d+\]: {what}, {where}{thread}{who}{re.escape(then)}; aborting"


def call(what, name, where, who, then):
    return line(rf"{what}: {name}\(0x[0-9a-f]+\)", where, who, then)


def late(what, where, who, then):
    return line(rf"{what}: 0x[0-9a-f]+", where, who, then)


# What is said at once, wherever one would look later: by crime, then by build.
AT_ONCE = {
    "double-free": {
        "default": call("double free", "free", "malloc-64", BY, FIRST),
        "hardened": call("double free", "free", "malloc-80", BY, FIRST),
        "guard": call("double free", "free", "malloc-64", BY + WHO + FREED, STACKS)},
    "inside": {
        "default": call("pointer inside a block", "free", "malloc-64", BY, ALLOCATED),
        "hardened": call("pointer inside a block", "free", "malloc-80", BY, ALLOCATED),
        "guard": call("pointer inside a block", "free", "malloc-64", BY + WHO, STACKS)},
    "stack": {
        build: call("pointer to no block", "free", "on a stack", BY, NONE)
        for build in ("default", "hardened", "guard")},
    "image": {
        build: call("pointer to no block", "free", "in a program or library", BY, NONE)
        for build in ("default", "hardened", "guard")},
    "wild": {
        build: call("pointer to no block", "free", "where nothing is mapped", BY, NONE)
        for build in ("default", "hardened", "guard")},
    "realloc-freed": {
        "default": call("double free", "realloc", "malloc-64", BY, FIRST),
        "hardened": call("double free", "realloc", "malloc-80", BY, FIRST),
        "guard": call("double free", "realloc", "malloc-64", BY + WHO + FREED, STACKS)},
    "asked-freed": {
        "default": call("double free", "malloc_usable_size", "malloc-64", BY, FIRST),
        "hardened": call("double free", "malloc_usable_size", "malloc-80", BY, FIRST),
        "guard": call("double free", "malloc_usable_size", "malloc-64", BY + WHO + FREED,
                      STACKS)},
    "sized": {
        "hardened": call("wrong size", "free",
                         r"malloc-80, has room for \d+ bytes, and 128 were said", BY, ALLOCATED)},
    "kind": {
        "hardened": call("wrong kind of call", "operator delete", "malloc-80, of malloc", BY,
                         ALLOCATED)},
}

AFTER = "a block was written to after its free"
BEYOND = "a write beyond a block"
# What is found later: by crime, then by build.  {} is who has found it.
LATER = {
    "after-free": {
        "default": (AFTER, "malloc-64", "", STOPS), "hardened": (AFTER, "malloc-80", "", STOPS)},
    "after-free-all": {
        "default": (AFTER, "malloc-64", "", STOPS), "hardened": (AFTER, "malloc-80", "", STOPS)},
    "over-1": {"hardened": (BEYOND, "malloc-80", "", ALLOCATED),
               "guard": (BEYOND, "malloc-64", WHO, STACKS)},
    "under": {"hardened": (BEYOND, "malloc-80", "", ALLOCATED),
              "guard": (BEYOND, "malloc-64", WHO, STACKS)},
}

# Letters: the bug, what it means, and the stacks that a report has.
MEANING = {
    "double-free": ("Object already free", "The call trace frees this block a second time.",
                    ("Allocated in", "Freed in", "Call Trace:")),
    "inside": ("Invalid object pointer 0x[0-9a-f]+",
               "The call trace hands over a pointer that is not where a block begins.",
               ("Allocated in", "Call Trace:")),
    "realloc-freed": ("Object is free", "The call trace hands over a block after its free.",
                      ("Allocated in", "Freed in", "Call Trace:")),
    "over-1": ("Right Redzone overwritten", "The program wrote behind the end of this block.",
               ("Allocated in",)),
    "over-many": ("Right Redzone overwritten", "The program wrote behind the end of this block.",
                  ("Allocated by somebody whose record was overwritten",)),
    "under": ("Left Redzone overwritten", "The program wrote in front of the start of this block, "
              "or behind the end of the one before it.", ("Allocated in",)),
    "after-free": ("Poison overwritten", "The program wrote to this block after its free.",
                   ("Allocated in", "Freed in")),
}


def run(build, crime, place):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    env["LD_PRELOAD"] = HARDENED if build == "hardened" else LIBRARY
    env.update({"letters": {"SLUB_DEBUG": "FZPU"},
                "guard": {"SLUB_GUARD": "1", "SLUB_GUARD_SIDE":
                          "behind" if crime == "under" else "front"}}.get(build, {}))
    return subprocess.run([TEXTS, crime, place], env=env, capture_output=True, text=True,
                          timeout=60, check=False)


class Texts(unittest.TestCase):
    def expect_line(self, build, crime, place, pattern):
        with self.subTest(build=build, crime=crime, place=place):
            done = run(build, crime, place)
            self.assertRegex(done.stderr, rf"\A{pattern}\n\Z")
            self.assertEqual(done.returncode, -6)

    def test_a_wrong_call_is_accused(self):
        for crime, builds in AT_ONCE.items():
            for build, pattern in builds.items():
                for place in PLACES:
                    self.expect_line(build, crime, place, pattern)

    def test_who_finds_a_write_is_not_accused(self):
        for crime, builds in LATER.items():
            for build, (what, where, known, then) in builds.items():
                for place in PLACES:
                    with self.subTest(build=build, crime=crime, place=place):
                        done = run(build, crime, place)
                        at_exit = late(what, where, EXIT + known, then)
                        found = (call(what, "free", where, IN + known, then)
                                 if (what, place) == (BEYOND, "free") else
                                 late(what, where, IN + known, then))
                        # A list that nobody has come to is looked at as the process ends.
                        is_sure = build == "default" and place != "free" or \
                            build == "guard" and place == "free"
                        expected = (at_exit if place == "exit" else
                                    found if is_sure else f"(?:{found}|{at_exit})")
                        self.assertRegex(done.stderr, rf"\A{expected}\n\Z")
                        self.assertEqual(done.returncode, -6)

    def test_letters_say_what_it_means(self):
        for crime, (bug, meaning, stacks) in MEANING.items():
            for place in PLACES:
                with self.subTest(crime=crime, place=place):
                    done = run("letters", crime, place)
                    report = re.search(rf"(?ms)^BUG malloc-64 \(\d+\): {bug}$\n-+\n"
                                       rf"{re.escape(meaning)}\n.*?^FIX ", done.stderr)
                    self.assertTrue(report, done.stderr)
                    for stack in stacks:
                        self.assertRegex(report[0], rf"(?m)^{stack}")
                    if "Call Trace:" not in stacks and place == "exit":
                        self.assertRegex(report[0], r"(?m)^Found at exit$")
                        self.assertNotIn("Call Trace:", report[0])
                    self.assertEqual(done.returncode, 0)

    def test_a_report_names_nobody_of_bytes_that_were_overwritten(self):
        done = run("letters", "over-many", "exit")
        self.assertNotIn("0x7878787878787878>", done.stderr)

    def test_nothing_is_said_of_what_is_not_certain(self):
        for build in ("default", "guard", "hardened"):
            for crime in ("none", "foreign"):
                for place in PLACES:
                    with self.subTest(build=build, crime=crime, place=place):
                        done = run(build, crime, place)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
