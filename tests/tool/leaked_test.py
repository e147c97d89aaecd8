#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub leaks` finds of a living process, of a stopped one and of a core what nothing
leads to any more, and nothing else: the cases of helpers/leaked.c, by size class and stack, as text
and as JSON.  LeakSanitizer and memcheck find the same where they can.  What cannot be searched is
one line.

usage: leaked_test.py SLUB LIBRARY LEAKED HARDENED SANITIZED"""

import errno
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

SANITIZED = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 5 else ""

from target import (GDB_SCRIPT as HARDENED, HEAP as LEAKED, LIBRARY, NOBODY, SLUB, Target,
                    environment, slub)

FOUND = 7
# How many are lost by themselves, and how many beneath them.
RIGHT = {
    "single": (1, 0), "list": (1, 9), "kept": (0, 0), "ring": (1, 9), "tree": (1, 14),
    "doubly": (1, 9), "cut": (1, 6), "freed": (0, 0), "reused": (1, 9), "inner": (0, 0),
    "mapped": (0, 0), "tls": (0, 0), "large": (1, 10), "large_kept": (0, 0), "stale": (1, 9),
    "sleeper": (0, 0), "thread_tls": (0, 0), "lowest": (1, 0),
    "ended": (1, 9), "unjoined": (0, 0),
    # Hidden: nobody can know, but by the options below.
    "xor": (9, 0), "tagged": (1, 9), "shifted": (1, 9),
}
# Lists of 400,000 objects in random order, more edges than the command has room for; and rings.
LONG = {"long": (2, 149998), "rings": (2500, 2500 * 39)}
THREADS = ("sleeper", "thread_tls", "register", "ended", "unjoined")
# LeakSanitizer looks into no mapping of the program; memcheck thinks an inner pointer possible.
OTHERS_DIFFER = {"lsan": ("mapped",), "memcheck": ("inner",)}
INTEL = os.uname().machine == "x86_64"


class Case(Target):
    def leaked(self, case, **more):
        return self.start(LEAKED, case, **more)

    def search(self, target, *arguments):
        done = slub("leaks", "--interval=20", "--json", *arguments, str(target))
        self.assertEqual(done.stderr, "", done)
        told = json.loads(done.stdout)
        self.assertEqual(done.returncode, FOUND if told["leaks"] else 0)
        self.assertEqual((told["kind"], told["schema"]), ("unreachable", 1))
        self.assertEqual(told["leaks"], sum(group["count"] for group in told["groups"]))
        return told

    def found(self, target, *arguments):
        told = self.search(target, *arguments)
        return told["leaks"], told["beneath"]


class Corpus(Case):
    def check_all(self, cases, *arguments):
        for case, right in cases.items():
            with self.subTest(case=case, arguments=arguments):
                self.assertEqual(self.found(self.leaked(case).pid, *arguments), right)

    def test_living(self):
        self.check_all(RIGHT)

    def test_stopped(self):
        self.check_all({**RIGHT, "register": (0, 0)} if INTEL else RIGHT, "--stop")

    def test_long_lists(self):
        for case, right in LONG.items():
            target = self.leaked(case)
            self.assertEqual(self.found(target.pid), right)
            core = self.core_of(target)
            self.assertEqual(self.found(core), right)
            os.unlink(core)

    def test_hidden_pointers(self):
        self.check_all({"tagged": (0, 0), "kept": (0, 0), "list": (1, 9)}, "--tagged")
        self.check_all({"shifted": (0, 0), "kept": (0, 0), "list": (1, 9)}, "--shifted=4")

    def test_cores(self):
        for case in ("list", "kept", "ring", "reused", "mapped", "stale", "sleeper", "thread_tls",
                     "large", "lowest", "ended", "unjoined", "register" if INTEL else "tls"):
            with self.subTest(case=case):
                core = self.core_of(self.leaked(case))
                self.assertEqual(self.found(core), RIGHT.get(case, (0, 0)))
                os.unlink(core)


class Others(Case):
    """LeakSanitizer and memcheck, on the same programs."""

    def check_all(self, name, count):
        for case, right in RIGHT.items():
            if case in THREADS or case in OTHERS_DIFFER[name]:
                continue
            with self.subTest(case=case, by=name):
                self.assertEqual(count(case), sum(right))

    @unittest.skipUnless(SANITIZED, "this compiler has no LeakSanitizer")
    def test_leak_sanitizer(self):
        def count(case):
            done = subprocess.run([SANITIZED, case, "end"], text=True, capture_output=True,
                                  env=environment(LSAN_OPTIONS="detect_leaks=1"), timeout=60,
                                  check=False)
            if "does not work under ptrace" in done.stderr:
                self.skipTest("LeakSanitizer may not trace here")
            return sum(map(int, re.findall(r"leak of \d+ byte\(s\) in (\d+)", done.stderr)))

        self.check_all("lsan", count)

    @unittest.skipUnless(shutil.which("valgrind"), "there is no valgrind")
    def test_memcheck(self):
        def count(case):
            done = subprocess.run(["valgrind", "--leak-check=full", LEAKED, case, "end"],
                                  text=True, capture_output=True, env=environment(), timeout=120,
                                  check=False)
            return sum(map(int, re.findall(r"(?:definitely|indirectly) lost: [\d,]+ bytes in (\d+)",
                                           done.stderr)))

        self.check_all("memcheck", count)


class Inside(Case):
    """slub_leaks_find(), by the same programs: it is asked where they would wait."""

    def asked(self, case, **settings):
        done = subprocess.run([LEAKED, case, "find"], text=True, capture_output=True, check=False,
                              env=environment(LD_PRELOAD=LIBRARY, **settings), timeout=60)
        self.assertEqual(done.stderr, "", done)
        leaks, direct, beneath = map(int, done.stdout.split())
        self.assertEqual(leaks, direct + beneath)
        return direct, beneath

    def test_all(self):
        for backend in ("rseq", "thread", "tid", "lock"):
            for case, right in RIGHT.items():
                with self.subTest(case=case, backend=backend):
                    self.assertEqual(self.asked(case, SLUB_FASTPATH=backend), right)

    def test_long_lists(self):
        for case, right in LONG.items():
            self.assertEqual(self.asked(case), right)

    def test_with_features(self):
        for settings in ({"SLUB_DEBUG": "FZPU"}, {"SLUB_GUARD": "1"}, {"SLUB_PROFILE": "1"},
                         {"SLUB_DEBUG": "FZPU", "SLUB_GUARD": "2", "SLUB_PROFILE": "64"}):
            for case in ("list", "kept", "ring", "reused", "large", "large_kept", "tls"):
                with self.subTest(case=case, **settings):
                    self.assertEqual(self.asked(case, **settings), RIGHT[case])

    def test_hardened_library_says_so(self):
        done = subprocess.run([LEAKED, "list", "find"], text=True, capture_output=True, check=False,
                              env=environment(LD_PRELOAD=HARDENED), timeout=60)
        self.assertEqual(done.stdout, f"{-errno.ENOTSUP} 0 0\n", done)

    def test_python_loses_nothing(self):
        done = subprocess.run(["python3", "-c",
                               "import ctypes, json, re\n"
                               "kept = {i: [str(i)] * 3 for i in range(20000)}\n"
                               "print(ctypes.CDLL(None).slub_leaks_find(None, None))"],
                              text=True, capture_output=True, check=False, timeout=60,
                              env=environment(LD_PRELOAD=LIBRARY, PYTHONMALLOC="malloc"))
        self.assertEqual(done.stdout, "0\n", done)


class Told(Case):
    def test_text(self):
        pid = self.leaked("list").pid
        done = slub("leaks", "--interval=20", str(pid))
        self.assertEqual((done.returncode, done.stderr), (FOUND, ""), done)
        self.assertRegex(done.stdout, rf"^process {pid} \(leaked\): 1 leak \(48\), and beneath "
                                      r"them 9 objects \(432\), of \d+ allocated \(")
        self.assertRegex(done.stdout, r"(?m)^read twice, 20 ms apart")
        self.assertRegex(done.stdout, r"(?m)^ +1 +48 +9 +432 +malloc-48$")
        self.assertRegex(done.stdout, r"(?m)^\t0x[0-9a-f]+, and 9 beneath it$")
        self.assertRegex(done.stdout, r"(?m)^\t    6c 65 61 6b 65 64 21 00 .*\|leaked!\.")
        self.assertTrue(done.stdout.endswith(f"`slub debug {pid} malloc-48 U`, and search again "
                                             "when more has leaked\n"), done.stdout)
        done = slub("leaks", "--stop", str(pid))
        self.assertRegex(done.stdout, r"(?m)^1 thread was stopped for \d+ ms$")
        done = slub("leaks", "--interval=20", str(self.leaked("kept").pid))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^process \d+ \(leaked\): no leaks among \d+ objects of ")

    def check_stack(self, **settings):
        told = self.search(self.leaked("list", **settings).pid, "--examples=2")
        group = told["groups"][0]
        self.assertEqual((group["count"], group["beneath_count"]), (1, 9))
        functions = [frame.get("function") for frame in group["stack"]]
        self.assertIn("make_list", functions)
        self.assertEqual(group["examples"][0]["hex"][32:48], b"leaked!\0".hex())

    def test_stack_by_letter(self):
        self.check_stack(SLUB_DEBUG="U,malloc-48")

    def test_stack_by_guard(self):
        self.check_stack(SLUB_GUARD="1", SLUB_GUARD_PLACES="64")

    def test_stack_by_profile(self):
        self.check_stack(SLUB_PROFILE="1", SLUB_PROFILE_FILE=self.path("profile"))

    def test_lines_and_examples(self):
        pid = self.leaked("xor").pid
        told = self.search(pid, "--examples=3", "-N", "1")
        self.assertEqual(len(told["groups"][0]["examples"]), 3)
        self.assertEqual(self.search(pid, "--examples=0")["groups"][0]["examples"], [])


class Busy(Case):
    def test_stopping_disturbs_nothing(self):
        """A sleeping thread sleeps on, and a signal that came meanwhile arrives."""
        process = self.start("python3", "-c",
                             "import os, signal, time\n"
                             "told = lambda *_: os.write(1, b'signal\\n')\n"
                             "signal.signal(signal.SIGUSR1, told)\n"
                             "print('ready', flush=True)\n"
                             "for _ in range(3): time.sleep(0.5)\n"
                             "print('end', flush=True)")
        for _ in range(3):
            process.send_signal(signal.SIGUSR1)
            self.assertIn(slub("leaks", "--stop", str(process.pid)).returncode, (0, FOUND))
            self.assertEqual(process.stdout.readline(), "signal\n")
        self.assertEqual(process.stdout.readline(), "end\n")
        self.assertEqual(process.wait(), 0)

    def test_busy_process_loses_nothing(self):
        """Its objects come and go, and pointers to them are on their way from list to list."""
        process = self.start("python3", "-c",
                             "import random\n"
                             "kept = {}\n"
                             "print('ready', flush=True)\n"
                             "while True:\n"
                             "    kept[random.randrange(50000)] = [str(random.random())]\n",
                             PYTHONMALLOC="malloc")
        told = self.search(process.pid)
        self.assertEqual(told["groups"], [])

    def test_python_loses_nothing(self):
        process = self.start("python3", "-c",
                             "import json, re, time\n"
                             "kept = {i: [str(i)] * 3 for i in range(20000)}\n"
                             "print('ready', flush=True)\n"
                             "time.sleep(600)", PYTHONMALLOC="malloc")
        self.assertEqual(self.found(process.pid, "--stop"), (0, 0))
        self.assertEqual(self.found(process.pid), (0, 0))


class Refused(Case):
    def test_hardened(self):
        if not os.path.exists(HARDENED):
            self.skipTest("there is no hardened library")
        process = self.start(LEAKED, "list", library=HARDENED)
        self.assertRefused(slub("leaks", str(process.pid)), 6, "hardened", "slub watched")

    def test_options(self):
        pid = str(self.leaked("kept").pid)
        for arguments in (("--openmetrics",), ("--watch=1",), ("--shifted=0",), ("--examples=9",),
                          ("--interval=x",), (pid, "malloc-48")):
            self.assertRefused(slub("leaks", *arguments, "-p", pid), 2)

    def test_target(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assertRefused(slub("leaks", str(gone.pid)), 4, "no process")
        plain = self.start("sh", "-c", "echo ready; read x", library=" ")
        self.assertRefused(slub("leaks", str(plain.pid)), 1, "does not use libslub")
        process = self.leaked("kept", SLUB_STATS_FILE=self.path("stats"))
        self.assertRefused(slub("leaks", self.path("stats")), 2, "statistics file")
        process.kill()

    def test_cores(self):
        core = self.core_of(self.leaked("list"))
        with open(core, "rb") as file:
            image = bytearray(file.read())
        with open(self.path("short"), "wb") as file:
            file.write(image[:len(image) // 2])
        self.assertRefused(slub("leaks", self.path("short")), 5, "cut short")
        struct.pack_into("<H", image, 18, 21)		# e_machine: of a PowerPC
        with open(self.path("other"), "wb") as file:
            file.write(image)
        self.assertRefused(slub("leaks", self.path("other")), 5, "another kind of machine")

    def test_traced(self):
        if not shutil.which("gdb"):
            self.skipTest("there is no gdb")
        process = self.leaked("kept")
        tracer = subprocess.Popen(["gdb", "-q", "-nx", "-p", str(process.pid)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(tracer.communicate, "detach\nquit\n")
        for _ in range(200):
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                if re.search(r"TracerPid:\t[1-9]", file.read()):
                    break
            time.sleep(0.05)
        self.assertRefused(slub("leaks", "--stop", str(process.pid)), 6,
                           f"traced already, by process {tracer.pid}")
        self.assertEqual(slub("leaks", "--interval=20", str(process.pid)).returncode, 0)

    def test_end_and_exec_amid(self):
        for then, status, words in (("exit 0", 4, "ended amid"), ("exec sleep 60", None, "")):
            with self.subTest(then=then):
                process = self.start("sh", "-c", f"x=$(seq 9); echo ready; read x; {then}")
                search = subprocess.Popen([SLUB, "leaks", "--interval=1500", str(process.pid)],
                                          text=True, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, env=environment())
                time.sleep(0.5)
                process.stdin.write("\n")
                process.stdin.flush()
                told, error = search.communicate(timeout=60)
                # A shell that loses nothing is not read a second time.
                if search.returncode == 0:
                    continue
                self.assertEqual(told, "")
                self.assertEqual(len(error.splitlines()), 1, error)
                self.assertIn(search.returncode, (status,) if status else (1, 4, 5, 6), error)
                self.assertIn(words, error)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_permission(self):
        pid = str(self.leaked("kept").pid)
        for arguments in ((pid,), ("--stop", pid)):
            self.assertRefused(slub("leaks", *arguments, user=NOBODY), 3, "ptrace_scope")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
