#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the screen of `slub top`, by each of its keys and in terminals of several sizes, is what
stands in made/screen.txt; so is what a command prints that looks again and again.

They look at a statistics file that is made by hand (helpers/made.c), which another one replaces.
`% COLUMNSxLINES ARGUMENTS` there begins a screen, and `$ KEYS; NAME=VALUE...` presses keys once the
file has these changes (helpers/made_change.c).  A line begins with its attributes: C in colour, D
dim, R reversed, up to which column.  The terminal is one of the test's own, by tic(1).
MADE_WRITE=1 writes the text anew: look at what changed.

usage: screen_test.py SLUB LIBRARY MADE FOLDER"""

import contextlib
import fcntl
import os
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from target import GDB_SCRIPT as TEXTS, HEAP as MADE, LIBRARY, SLUB, Target, environment

TERMINAL = r"""slubtest|a terminal of a test,
	am@, cols#80, lines#24, colors#8, pairs#64, bel=^G,
	clear=\E[H\E[2J, cup=\E[%i%p1%d;%p2%dH, rev=\E[7m, dim=\E[2m, sgr0=\E[m,
	setaf=\E[3%p1%dm, setab=\E[4%p1%dm, op=\E[39;49m, civis=\E[?25l, cnorm=\E[?25h,
"""
KEYS = {"SPACE": b" ", "ESC": b"\033", "INTERRUPT": b"\003", "NONE": b""}
SECONDS_MAX = 30	# before a screen that does not come is another one
LOOKS_MAX = 200		# at a file that is another one, ten a second
SECONDS_QUIET = 0.8	# when the text is written


class Screen:
    """What a terminal shows of the bytes that it gets."""
    TOKEN = re.compile(rb"\033\[([?\d;]*)([A-Za-z])|\033[^\[]?|.", re.DOTALL)

    def __init__(self, columns, lines):
        self.columns, self.nr_lines = columns, lines
        self.rest = b""
        self.attribute = " "
        self.has_cursor = True
        self.clear()

    def clear(self):
        self.cells = [[(" ", " ")] * self.columns for _ in range(self.nr_lines)]
        self.x = self.y = 0

    def feed(self, data):
        data = self.rest + data
        self.rest = b""
        half = re.search(rb"\033(\[[?\d;]*)?$", data)
        if half:
            data, self.rest = data[:half.start()], half.group()
        for token in self.TOKEN.finditer(data):
            if token.group(2):
                self.control(token.group(1).decode(), token.group(2).decode())
            else:
                self.put(token.group().decode("latin-1"))

    def control(self, numbers, letter):
        if letter in "hl" and numbers == "?25":
            self.has_cursor = letter == "h"
        numbers = [int(number) if number.isdigit() else 0 for number in numbers.split(";")]
        if letter == "H":
            self.y, self.x = (number - 1 for number in (numbers + [1, 1])[:2]) \
                if len(numbers) == 2 else (0, 0)
        elif letter == "J":
            self.clear()
        elif letter == "m":
            for number in numbers:
                if number in (0, 39):
                    self.attribute = " "
                elif number in (2, 7, 36):
                    self.attribute = {2: "D", 7: "R", 36: "C"}[number]

    def put(self, char):
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self.y += 1
        elif char == "\b":
            self.x -= 1
        elif char >= " " and 0 <= self.y < self.nr_lines and 0 <= self.x < self.columns:
            self.cells[self.y][self.x] = (char, self.attribute)
            self.x += 1

    def text(self):
        lines = []
        for cells in self.cells:
            line = "".join(char for char, _ in cells).rstrip()
            kinds = "".join(kind for _, kind in cells)
            # Blanks have no colour and are not dim.
            end = len(line) if "R" not in kinds else len(kinds)
            runs = [f"{run.group(1)}{run.end()}"
                    for run in re.finditer(r"([CDR])(?:[CDR ]*\1)?", kinds[:end])]
            lines.append(f"{','.join(runs):5}|{line}\n")
        return "".join(lines)


class Screens(Target):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.screen = self.process = None
        self.words = {}
        self.addCleanup(self.end)

    def make(self, *changes):
        subprocess.run([MADE, "stats", self.path("new"), *changes], check=True, env=environment())
        os.rename(self.path("new"), self.path("stats"))

    def terminal(self):
        if not shutil.which("tic"):
            self.skipTest("needs tic")
        with open(self.path("terminal"), "w", encoding="utf-8") as file:
            file.write(TERMINAL)
        done = subprocess.run(["tic", "-o", self.path("terminals"), self.path("terminal")],
                              capture_output=True, check=False)
        if done.returncode:
            self.skipTest("this tic knows no such terminal")
        self.words = {"TERM": "slubtest", "TERMINFO": self.path("terminals"), "TZ": "UTC"}

    def start(self, columns, lines, *arguments, **more):
        self.end()
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen = Screen(columns, lines)
        self.process = subprocess.Popen(
            [SLUB, *arguments], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
            env=environment(**{**self.words, **more}), cwd=self.folder, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)

    def end(self):
        if self.process:
            # As by Ctrl-C, so that its counters are written where there are any (coverage.py).
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()
            os.close(self.ours)
        self.process = None

    def read(self, seconds):
        """False: nothing comes."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.ours, 65536)
        except OSError:
            data = b""
        self.screen.feed(data)
        return bool(data)

    def shown(self, expected):
        """The screen, once it is as @expected; else what it is in the end."""
        if os.environ.get("MADE_WRITE"):
            while self.read(SECONDS_QUIET):
                pass
            return self.screen.text()
        end = time.monotonic() + SECONDS_MAX
        while self.screen.text() != expected and time.monotonic() < end:
            if not self.read(0.2) and self.process.poll() is not None:
                break
        return self.screen.text()

    def press(self, keys):
        for key in shlex.split(keys):
            os.write(self.ours, KEYS.get(key, key.encode()))

    def ended(self):
        """The status, and what is said behind the screen."""
        end = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        self.assertIsNotNone(self.process.poll(), f"it does not end:\n{self.screen.text()}")
        while self.read(0):
            pass
        self.assertTrue(self.screen.has_cursor, "it leaves the terminal without a cursor")
        return self.process.returncode, self.process.stderr.read().decode()

    def texts(self, parts):
        for head, told in parts:
            what, _, changes = head[2:].partition("; ")
            if changes:
                self.make(*changes.split())
            if head[0] == "%":
                size, *arguments = shlex.split(what)
                self.make(*changes.split())
                self.start(*map(int, size.split("x")), *arguments, "stats")
            else:
                self.press(what)
            yield head, self.shown(told)

    def test_screens(self):
        self.terminal()
        path = os.path.join(TEXTS, "screen.txt")
        with open(path, encoding="utf-8") as file:
            parts = [part.partition("\n")[::2]
                     for part in re.split(r"(?m)^(?=[$%] )", file.read()) if part]
        if os.environ.get("MADE_WRITE"):
            written = "".join(f"{head}\n{now}" for head, now in self.texts(parts))
            with open(path, "w", encoding="utf-8") as file:
                file.write(written)
            return
        for (head, now), (_, told) in zip(self.texts(parts), parts):
            self.assertEqual(f"{head}\n{now}", f"{head}\n{told}")

    def begin(self, **more):
        self.make()
        self.start(100, 30, "top", "--delay=3000", "stats", **more)
        while "q quit" not in self.screen.text():
            self.assertTrue(self.read(SECONDS_MAX), self.screen.text())
        self.assertFalse(self.screen.has_cursor)

    def test_ends(self):
        self.terminal()
        for key in ("q", "Q", "ESC", "INTERRUPT"):
            self.begin()
            self.press(key)
            self.assertEqual(self.ended(), (0, ""), key)
        self.begin()
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(), (-signal.SIGTERM, ""))

    def test_frees_each_look(self):
        """As freed_test.py."""
        self.terminal()
        for keys in ("q", "SPACE SPACE q", "t SPACE h x t q"):
            path = self.path("leaks")
            self.begin(LD_PRELOAD=LIBRARY, SLUB_DEBUG="U", SLUB_DEBUG_LEAKS=path)
            self.press(keys)
            self.assertEqual(self.ended(), (0, ""), keys)
            with open(path, encoding="utf-8", errors="replace") as file:
                self.assertNotRegex(file.read(), r"(?m)^[^\t\n].*\] (\S*/)?slub[+ ]", keys)
            os.remove(path)

    def test_what_goes_wrong_is_said_behind_the_screen(self):
        self.terminal()
        self.begin()
        os.truncate(self.path("stats"), 100)
        self.press("SPACE")
        self.assertEqual(self.ended(), (5, "slub: top: file 'stats' is cut short\n"))
        self.begin()
        os.remove(self.path("stats"))
        self.press("SPACE")
        self.assertEqual(self.ended(), (4, "slub: top: no file 'stats'\n"))
        self.begin()
        self.make("groups.version=9", "file.version=9")
        self.press("t")
        status, said = self.ended()
        self.assertEqual((status, said.count("\n")), (5, 1), said)
        self.assertIn("9", said)

    def test_a_map_is_as_wide_as_the_terminal(self):
        """One of less than 40 columns is none."""
        process = subprocess.Popen([MADE, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=environment())
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for columns, cells in ((39, 64), (40, 26), (100, 86)):
            ours, theirs = os.openpty()
            self.addCleanup(os.close, ours)
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            done = subprocess.run([SLUB, "map", "--color=never", str(process.pid)], stdout=theirs,
                                  env=environment(), timeout=60, check=False)
            os.close(theirs)
            self.assertEqual(done.returncode, 0)
            told = b""
            with contextlib.suppress(OSError):	# where its other end is closed
                while True:
                    told += os.read(ours, 4096)
            self.assertEqual({len(line) for line in re.findall(rb"\|(.*)\|", told)}, {cells})

    def test_no_such_terminal(self):
        self.make()
        for more, named in (({"TERM": "no-such-terminal"}, "no-such-terminal"), ({"TERM": ""}, "")):
            self.start(100, 30, "top", "stats", **more)
            self.assertEqual(self.ended(), (2, f"slub: top: cannot use the terminal '{named}'; "
                                               "--once prints text\n"))
        self.start(100, 30, "top", "nothing", TERM="no-such-terminal")
        self.assertEqual(self.ended(), (4, "slub: top: no file 'nothing'\n"))

    def test_a_profile_says_how_far_it_is(self):
        """On a terminal alone, once a second is over; the line goes away at the end."""
        program = Target.start(self, sys.executable, "-c", "print('ready', flush=True)\n"
                               "while True: [bytearray(600 + i % 2000) for i in range(3000)]")
        arguments = [SLUB, "profile", "--seconds=1.6", "--output=profile", str(program.pid)]
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        done = subprocess.run(arguments, env=environment(), cwd=self.folder, stderr=theirs,
                              stdout=subprocess.PIPE, timeout=60, check=False)
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):	# where its other end is closed
            while True:
                said += os.read(ours, 4096)
        self.assertEqual(done.returncode, 0, said)
        self.assertRegex(said, rb"\rslub: sampling: +\d+ %")
        self.assertIn(b"\r\033[K", said)
        done = subprocess.run(arguments, env=environment(), cwd=self.folder, timeout=60,
                              capture_output=True, check=False)
        self.assertNotIn(b"sampling", done.stderr)

    def test_looks_again_by_itself(self):
        self.terminal()
        self.make()
        self.start(100, 30, "top", "--delay=0.1", "stats")
        while "q quit" not in self.screen.text():
            self.assertTrue(self.read(SECONDS_MAX))
        before = self.screen.text()
        self.make("record.0.nr_slabs=900")
        while self.screen.text() == before:
            self.assertTrue(self.read(SECONDS_MAX), "it does not look again")

    def test_watched(self):
        """Without a terminal a blank line stands between two looks; the second knows the first."""
        path = os.path.join(TEXTS, "watched.txt")
        with open(path, encoding="utf-8") as file:
            parts = [part.partition("\n")[::2]
                     for part in re.split(r"(?m)^(?=[$] )", file.read()) if part]
        looks = [(head, self.watched(head[2:].split())) for head, _ in parts]
        if os.environ.get("MADE_WRITE"):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{head}\n{now}" for head, now in looks)
            return
        for (head, now), (_, told) in zip(looks, parts):
            self.assertEqual(f"{head}\n{now}", f"{head}\n{told}")

    def watched(self, arguments):
        """The first look, and that which sees another file."""
        self.make()
        is_json = "--json" in arguments
        with subprocess.Popen([SLUB, *arguments, "--watch=0.1", "stats"], env=environment(TZ="UTC"),
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as watcher, contextlib.ExitStack() as last:
            last.callback(watcher.kill)
            first, before = self.look(watcher, is_json), self.look(watcher, is_json)
            after = self.look(watcher, is_json)
            self.assertEqual(after, before)
            self.make("record.0.nr_slabs=900", "record.1.nr_slabs=1")
            looks = 1
            while after == before and looks < LOOKS_MAX:
                after = self.look(watcher, is_json)
                looks += 1
            os.remove(self.path("stats"))
            watcher.stdout.read()
            self.assertEqual((watcher.wait(), watcher.stderr.read()),
                             (4, f"slub: {arguments[0]}: no file 'stats'\n"))
        return first + (after if after else "(no end)\n")

    @staticmethod
    def look(watcher, is_json):
        """Up to the blank line, or the object's end."""
        text = ""
        for line in watcher.stdout:
            text += line
            if line == ("}\n" if is_json else "\n"):
                break
        return text

    def test_once_is_once(self):
        self.make()
        texts = [subprocess.run([SLUB, "top", *more, "stats"], env=environment(TZ="UTC"),
                                cwd=self.folder, capture_output=True, check=True).stdout
                 for more in ([], ["--watch=3000", "--once"])]
        self.assertEqual(*texts)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=["screen_test.py"])
