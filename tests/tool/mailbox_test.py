#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub debug`, `validate` and `shrink` have a running process do what they say,
leave its mailbox free whatever happens, and refuse what cannot be with one clear line.

usage: mailbox_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from target import LIBRARY, NOBODY, SLUB, Target, environment, slub

HARDENED = os.path.join(os.path.dirname(LIBRARY), "libslub-hardened.so")

BUSY = """
print("ready", flush=True)
keep = []
while True:
    keep.append([bytes(n) for n in range(40, 60)])
    if len(keep) > 300:
        keep = keep[200:]
"""
# Sleeps until it is asked, and told to run itself anew: where addresses are not drawn, at the same
# ones.
RUNS_ANEW = """
import ctypes, os, signal, sys, time
box = (ctypes.c_uint32 * 8).in_dll(ctypes.CDLL(None), "slub_debug_mailbox")
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("ready" if len(sys.argv) == 1 else ctypes.addressof(box) == int(sys.argv[1]), flush=True)
signal.sigwait({signal.SIGUSR1})
if len(sys.argv) == 1:
    while not box[5]:
        time.sleep(0.01)
    os.execv(sys.executable, [sys.executable, "-c", os.environ["TEXT"],
                              str(ctypes.addressof(box))])
print(*box[4:], flush=True)
"""
IDLE = "print('ready', flush=True)\nwhile True: pass"
BLOCKS = "import signal; signal.signal(signal.SIGUSR1, print)\n" \
         "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])" + BUSY
# Has 60 MiB to validate, and comes by twice in 0.3 s.
LARGE = """
import time
keep = [bytes(990) for n in range(50000)]
print("ready", flush=True)
while True:
    time.sleep(0.3)
    bytes(990)
"""
# Writes one byte behind a block, at each line, and prints a line when the block was freed.
OVERRUNS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
print("ready", flush=True)
for line in sys.stdin:
    for i in range(300):
        libc.free(libc.malloc(32))
    block = libc.malloc(32)
    ctypes.memset(block + 32, 0x41, 1)
    libc.free(block)
    print("freed", flush=True)
"""
ASKERS = ("validate", "shrink")
NOWHERE = "what it finds is counted (`slub validate {0}`) and written nowhere; " \
          "`slub set {0} verbose 1` writes reports to its standard error"


class Mailbox(Target):
    def busy(self):
        return self.start(sys.executable, "-c", BUSY, PYTHONMALLOC="malloc")

    def done(self, *arguments):
        done = slub(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def letters(self, pid):
        return {cache["name"] for cache in self.told("info", pid, "-z")["caches"]
                if ":" in cache["name"]}


class Another(Mailbox):
    def test_program_is_not_asked(self):
        process = self.start("setarch", "-R", sys.executable, "-c", RUNS_ANEW, TEXT=RUNS_ANEW)
        asker = subprocess.Popen([SLUB, "shrink", "--timeout=60", "-p", str(process.pid)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asker.kill)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline(), "True\n", "its mailbox lies where it lay")
        out, complaint = asker.communicate(timeout=60)
        self.assertEqual((asker.returncode, out), (4, ""), complaint)
        self.assertRegex(complaint, "has ended; whether it did that before is not known")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline(), "0 0 0 0\n")


class Answers(Mailbox):
    def test_debug_validate_leaks_and_off(self):
        process = self.busy()
        pid = str(process.pid)
        self.assertEqual(self.letters(pid), set())
        self.assertEqual(self.done("debug", pid, "malloc-96", "FZPU"),
                         f"1 cache: FZPU\n{NOWHERE.format(pid)}\n")
        self.assertEqual(self.letters(pid), {"malloc-96:FZPU"})
        self.assertEqual(self.done("validate", "-p", pid), "0 bugs in 1 watched cache\n")
        traces = self.done("watched", "-p", pid)
        self.assertRegex(traces, r"(?m)^\d+ malloc-96 .* bytes=\d+ waste=\d+/\d+ age=\d+/")
        self.assertEqual(self.done("debug", pid, "malloc-96", "-"), "1 cache: no longer watched\n")
        self.assertIsNone(process.poll())

    def overruns(self, process, nr):
        for _ in range(nr):
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "freed\n")

    def ends(self, status, *arguments):
        """It sleeps between its lines, so it may be woken, which standard error tells."""
        done = slub(*arguments)
        self.assertEqual(done.returncode, status, done)
        return done.stdout

    def test_what_calls_found_is_counted(self):
        process = self.start(sys.executable, "-c", OVERRUNS, PYTHONMALLOC="malloc")
        pid = str(process.pid)
        self.ends(0, "debug", pid, "malloc-32", "FZPU")
        self.assertEqual(self.ends(0, "validate", pid), "0 bugs in 1 watched cache\n")
        self.overruns(process, 3)
        first, second = self.ends(7, "validate", pid).splitlines()
        self.assertRegex(first, r"^0 bugs in 1 watched cache now; 3 found before, .*: malloc-32 3$")
        self.assertIn(f"`slub set {pid} verbose 1`", second)
        self.overruns(process, 1)
        told = json.loads(self.ends(7, "validate", "--json", pid, "malloc-32"))
        self.assertEqual((told["bugs"], told["earlier"]), (0, 4))
        self.ends(0, "debug", pid, "malloc-48", "FZPU")
        self.assertEqual(self.ends(0, "validate", pid, "malloc-48"), "0 bugs in 1 watched cache\n")

    def test_where_reports_go(self):
        for more, place in (({"SLUB_DEBUG": "F,no-such"}, "stderr"),
                            ({"SLUB_VERBOSE": "1"}, "stderr"),
                            ({"SLUB_ON_ERROR": "abort"}, "stderr"), ({}, "nowhere"),
                            ({"SLUB_ON_ERROR": "report"}, "nowhere"),
                            ({"SLUB_DEBUG_REPORT": self.path("file")}, self.path("file"))):
            pid = str(self.start(sys.executable, "-c", BUSY, PYTHONMALLOC="malloc", **more).pid)
            told = json.loads(self.done("debug", "-j", pid, "malloc-96", "F"))
            self.assertEqual(told["reports"], place, more)
            line = self.done("debug", pid, "malloc-96", "F").splitlines()[1]
            self.assertEqual(line, NOWHERE.format(pid) if place == "nowhere" else "reports go to " +
                             ("its standard error" if place == "stderr" else place))
            self.assertNotIn("reports", self.done("debug", "-j", pid, "malloc-96", "-"))

    def test_where_the_pid_stands(self):
        pid = str(self.busy().pid)
        self.assertEqual(self.done("debug", "-p", pid, "malloc-96", "FZ"),
                         f"1 cache: FZ\n{NOWHERE.format(pid)}\n")
        for arguments in ((pid,), (pid, "malloc-96"), ("malloc-96", "-p", pid)):
            self.assertEqual(self.done("validate", *arguments), "0 bugs in 1 watched cache\n")
        self.assertRegex(self.done("shrink", pid), "caches shrunk")
        self.assertIn("one object in 900", self.done("guard", pid, "900"))
        self.assertIn("no longer", self.done("guard", "0", "-p", pid))
        self.assertIn("not of", self.done("explain", "-p", pid, "0x10"))

    def test_json(self):
        pid = str(self.busy().pid)
        for arguments, member, value in (
                (("debug", "--json", pid, "malloc-96", "FZPU"), "letters", "FZPU"),
                (("validate", "--json", "-p", pid), "bugs", 0),
                (("shrink", "-j", "-p", pid, "malloc-96"), "caches", 1),
                (("guard", "--json", "-p", pid, "70"), "every", 70),
                (("set", "--json", pid, "limit", "4G"), "value", "4G")):
            told = json.loads(self.done(*arguments))
            self.assertEqual((told["kind"], told["schema"], told["pid"], told[member]),
                             (arguments[0], 1, int(pid), value))

    def test_actions_of_slabinfo(self):
        pid = str(self.busy().pid)
        self.assertEqual(self.done("info", "-dFZPU", "-p", pid, "malloc-96"),
                         f"1 cache: FZPU\n{NOWHERE.format(pid)}\n")
        self.assertEqual(self.done("info", "-v", "-p", pid), "0 bugs in 1 watched cache\n")
        self.assertIn("malloc-96/alloc_traces: ", self.done("info", "-t", "-p", pid))
        self.assertRegex(self.done("info", "-s", "-p", pid, "malloc-96"), "^1 cache shrunk; ")
        self.assertEqual(self.done("info", "-d-", "-p", pid, "malloc-96"),
                         "1 cache: no longer watched\n")

    def test_a_cache_that_was_watched_twice_is_one(self):
        pid = str(self.busy().pid)
        for letters in ("FZ", "FZPU", "U"):
            self.done("debug", pid, "malloc-96", letters)
        self.assertEqual(self.letters(pid), {"malloc-96:FZ", "malloc-96:FZPU", "malloc-96:U"})
        self.assertEqual(self.done("validate", pid), "0 bugs in 1 watched cache\n")

    def test_a_pattern_means_the_same_in_each_command(self):
        pid = str(self.busy().pid)
        for command in ("info", "stats", "shrink"):
            self.assertRefused(slub(command, pid, "m*c-1[6]"), 4, "has no cache 'm*c-1[6]'")
        for pattern in ("malloc-1?", "*-1?", "malloc-1*6", "*loc*-96", "malloc-96"):
            shown = {row["name"] for row in self.told("info", pid, "-z", pattern)["caches"]}
            self.assertEqual(shown, {row["name"] for row in
                                     self.told("stats", pid, pattern)["caches"]}, pattern)
            done = slub("shrink", pid, pattern)
            nr = re.match(r"\d+", done.stdout)
            self.assertEqual(int(nr[0]) if nr else 0, len(shown), (pattern, shown, done))
        self.assertEqual({row["name"] for row in self.told("info", pid, "-z", "*-1?2")["caches"]},
                         {"malloc-112", "malloc-192"})

    def test_beginning_of_a_name(self):
        pid = str(self.busy().pid)
        nr = int(re.match(r"(\d+) caches: U\n", self.done("debug", pid, "malloc-*", "U"))[1])
        self.assertGreater(nr, 20)
        self.assertEqual(self.done("validate", "-p", pid, "malloc-*"),
                         f"0 bugs in {nr} watched caches\n")
        heads = re.findall(r"(?m)^\d+ (\S+)", self.done("watched", "-p", pid, "malloc-96"))
        self.assertEqual(set(heads), {"malloc-96"})

    def test_guard(self):
        process = self.busy()
        pid = str(process.pid)
        self.assertIn("guards no objects", self.done("explain", pid))
        self.assertEqual(self.done("guard", "-p", pid, "50"),
                         f"process {pid} guards one object in 50\n")
        told = ""
        for _ in range(100):
            told = self.done("explain", pid)
            if re.search(r"one object in 50: \d+ are allocated, [1-9]\d* freed", told):
                break
            time.sleep(0.02)
        self.assertRegex(told, r"one object in 50: \d+ are allocated, [1-9]\d* freed and kept")
        self.assertIn("no longer guards", self.done("guard", "-p", pid, "0"))
        self.assertIsNone(process.poll())
        self.assertRefused(slub("guard", "-p", pid, "many"), 2, "'many' is not a number")
        self.assertRefused(slub("guard", "-p", pid), 2, "usage: slub guard PID N")

    def test_set(self):
        process = self.busy()
        pid = str(process.pid)
        self.assertEqual(self.done("set", pid, "retain", "3M"), f"process {pid}: retain is 3M\n")
        told = {row["name"]: row for row in self.told("options", pid)["options"]}
        self.assertEqual((told["retain"]["value"], told["retain"]["origin"]),
                         (3 << 20, "set later"))
        self.assertEqual(told["limit"]["origin"], "default")
        self.done("set", "-p", pid, "ON_ERROR", "report")
        self.assertRegex(self.done("options", pid), r"(?m)^on_error +report +set later")
        for name, value, says in (
                ("retian", "3M", "did you mean 'retain'"), ("fastpath", "tid", "may change: verb"),
                ("retain", "much", "a number of bytes from 0 to 64T"),
                ("on_error", "panic", "abort, report, ignore")):
            self.assertRefused(slub("set", pid, name, value), 2, says)
        self.assertRefused(slub("set", pid, "retain"), 2, "slub set PID NAME VALUE")
        self.done("set", pid, "attach", "0")
        self.assertRefused(slub("set", pid, "attach", "1"), 3, "does not answer")
        self.assertIsNone(process.poll())

    def test_the_manual_lists_what_may_change(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        with open(os.path.join(path, "src/features/inspect/change.def"), encoding="utf-8") as file:
            names = re.findall(r"(?m)^OPTION_CHANGE\((\w+)", file.read())
        with open(os.path.join(path, "docs/man/slub-set.1"), encoding="utf-8") as file:
            listed = re.search(r"(?s)These may change:\n(.*?)\nThe others", file.read()).group(1)
        self.assertEqual(re.findall(r"\.BR (\w+)", listed), names)
        with open(os.path.join(path, "include/slub/control.h"), encoding="utf-8") as file:
            header = file.read()
        for name in names:
            self.assertRegex(header, rf"\b{name}\b")

    def test_shrink(self):
        pid = str(self.busy().pid)
        self.assertRegex(self.done("shrink", "-p", pid), r"^\d\d+ caches shrunk; all slabs: \d+ ")
        self.assertRegex(self.done("shrink", "-p", pid, "malloc-64"), "^1 cache shrunk; ")

    def test_shrink_of_a_node(self):
        pid = str(self.busy().pid)
        self.assertRegex(self.done("shrink", pid, "--node=0"), r"(?s)^\d\d+ caches shrunk; .*"
                         r"\nnode 0: \d+ KiB of free pages given back\n$")
        done = json.loads(self.done("shrink", "-j", "--node", "0", "-p", pid, "malloc-64"))
        self.assertEqual((done["caches"], done["node"]), (1, 0))
        self.assertGreaterEqual(done["node_bytes"], 0)
        for bad in ("64", "-1", "", "0x", "all", "99999999999999999999"):
            self.assertRefused(slub("shrink", pid, "--node=" + bad), 2, f"no node '{bad}'",
                               "node 0")
        self.assertRefused(slub("validate", pid, "--node=0"), 2, "--node")

    def test_many_askers_at_once(self):
        pid = str(self.busy().pid)
        command = [SLUB, "shrink", "--timeout=50", "-p", pid, "malloc-64"]
        askers = [subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
                  for _ in range(12)]
        for asker in askers:
            self.assertRegex(asker.communicate(timeout=60)[0], "^1 cache shrunk")
            self.assertEqual(asker.returncode, 0)


class Silence(Mailbox):
    def test_no_answer_and_then_one(self):
        """The request of whoever gave up is not done later, and the next asker is answered."""
        process = self.busy()
        pid = str(process.pid)
        process.send_signal(signal.SIGSTOP)
        self.assertRefused(slub("debug", "--timeout=0.2", pid, "malloc-64", "F"), 6, "not answer")
        process.send_signal(signal.SIGCONT)
        self.done("shrink", "-p", pid, "malloc-64")
        self.assertEqual(self.letters(pid), set())

    def test_killed_asker(self):
        process = self.busy()
        pid = str(process.pid)
        process.send_signal(signal.SIGSTOP)
        asker = subprocess.Popen([SLUB, "shrink", "-p", pid, "--timeout=60"], env=environment())
        with self.assertRaises(subprocess.TimeoutExpired):
            asker.wait(0.5)
        asker.kill()
        asker.wait()
        process.send_signal(signal.SIGCONT)
        self.done("shrink", "-p", pid)

    def test_process_that_waits(self):
        self.assertRefused(slub("shrink", "--timeout=0.2", "-p", str(self.heap().pid)), 6,
                           "it waits, and does not allocate")

    def test_process_that_is_stopped(self):
        process = self.busy()
        process.send_signal(signal.SIGSTOP)
        self.assertRefused(slub("shrink", "--timeout=0.2", "-p", str(process.pid)), 6,
                           "it is stopped", "SIGCONT")

    def test_process_that_its_lists_suffice(self):
        pid = str(self.start(sys.executable, "-c", IDLE).pid)
        self.assertRefused(slub("debug", "--timeout=0.5", pid, "malloc-64", "F"), 6,
                           "its lists serve all that it allocates", "SLUB_DEBUG at its start")
        self.assertRefused(slub("guard", "--timeout=0.5", pid, "9"), 6, "SLUB_GUARD at its start")

    def test_threads_that_may_be_in_a_handler(self):
        pid = str(self.start(sys.executable, "-c", BLOCKS, PYTHONMALLOC="malloc").pid)
        self.assertRefused(slub("shrink", "--timeout=0.5", pid), 6, "in a signal handler",
                "--blocked")
        self.assertRegex(self.done("shrink", "--blocked", pid), "caches shrunk")

    def test_answer_that_takes_long(self):
        """It is given in pieces; who does not wait for all of them is told how far it came."""
        pid = str(self.start(sys.executable, "-c", LARGE, PYTHONMALLOC="malloc",
                             SLUB_DEBUG="FZPU,malloc-1024").pid)
        refused = slub("validate", "--timeout=0.35", pid)
        self.assertRefused(refused, 6, "the rest is not done")
        self.assertRegex(refused.stderr, r"did \d+ % of it in 0.35 s")
        self.assertEqual(self.done("validate", "--timeout=100", pid), "0 bugs in 1 watched cache\n")


class Off(Mailbox):
    def test_option(self):
        pid = str(self.heap(SLUB_ATTACH="0").pid)
        for arguments in (("debug", pid, "malloc-64", "F"), ("guard", pid, "9"),
                          ("set", pid, "retain", "0"),
                          *((command, "-p", pid) for command in ("validate", "shrink"))):
            self.assertRefused(slub(*arguments), 3, "does not answer", "SLUB_ATTACH=1")
        self.assertIn("malloc-112", slub("info", "-p", pid).stdout, "it can be read")

    @unittest.skipUnless(os.path.exists(HARDENED), "the hardened library is not built")
    def test_hardened(self):
        for attach, status in ((None, 3), ("0", 3), ("1", 0)):
            settings = {"SLUB_ATTACH": attach} if attach else {}
            process = self.start(sys.executable, "-c", BUSY, library=HARDENED,
                                 PYTHONMALLOC="malloc", **settings)
            self.assertEqual(slub("shrink", str(process.pid)).returncode, status, attach)


class Namespaces(Mailbox):
    """Askers that see the process under different PIDs, and not each other."""

    def setUp(self):
        super().setUp()
        for tool in ("unshare", "nsenter"):
            if not shutil.which(tool):
                self.skipTest(f"there is no {tool}")
        outer = ["unshare", "--pid", "--fork", "--mount-proc"]
        done = subprocess.run([*outer, "true"], text=True, capture_output=True, check=False)
        if done.returncode:
            self.skipTest(f"no PID namespace here: {done.stderr.strip()}")
        outer = self.start(*outer, "--kill-child", sys.executable, "-c", BUSY,
                           PYTHONMALLOC="malloc")
        with open(f"/proc/{outer.pid}/task/{outer.pid}/children") as file:
            self.pid = file.read().split()[0]
        self.inside = ["nsenter", "--target", self.pid, "--pid", "--mount"]

    def ask(self, inside, *options):
        command = [SLUB, "shrink", *options, "-p", "1" if inside else self.pid, "malloc-64"]
        asker = subprocess.Popen((self.inside if inside else []) + command, env=environment(),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asker.communicate)
        self.addCleanup(asker.kill)
        return asker

    def test_many_at_once(self):
        askers = [self.ask(n % 2, "--timeout=50") for n in range(8)]
        for asker in askers:
            out, complaint = asker.communicate(timeout=60)
            self.assertEqual((asker.returncode, complaint), (0, ""))
            self.assertRegex(out, "^1 cache shrunk")

    def test_killed_asker(self):
        """Its PID means nothing to the next asker, where another process may have it."""
        for inside in (True, False):
            os.kill(int(self.pid), signal.SIGSTOP)
            asker = self.ask(inside, "--timeout=60")
            with self.assertRaises(subprocess.TimeoutExpired):
                asker.wait(0.7)
            with open(f"/proc/{asker.pid}/task/{asker.pid}/children") as file:
                for child in file.read().split():
                    os.kill(int(child), signal.SIGKILL)
            asker.kill()
            asker.wait()
            os.kill(int(self.pid), signal.SIGCONT)
            out, complaint = self.ask(not inside, "--timeout=20").communicate(timeout=60)
            self.assertRegex(out, "^1 cache shrunk", complaint)


class Refusals(Mailbox):
    def test_arguments(self):
        for arguments, word in ((["1"], "three"), (["1", "a", "FX"], "'X'"), (["1", "a", ""], "no"),
                                (["1", "a", "F-"], "'-'"), (["1", "a", "FO"], "start"),
                                (["1", "", "F"], "no cache"), (["x", "a", "F"], "not a PID"),
                                (["--timeout=0", "1", "a", "F"], "timeout")):
            self.assertRefused(slub("debug", *arguments), 2, word)
        for command in ASKERS:
            self.assertRefused(slub(command), 2, "its PID")
            self.assertRefused(slub(command, "-p", SLUB), 2, "not a PID")
            self.assertRefused(slub(command, "-p", "1", "a", "b"), 2, "'b'")
            self.assertRefused(slub(command, "-p", "1", "--timeot", "3"), 2, "--timeout")

    def test_cache(self):
        pid = str(self.heap().pid)
        self.assertRefused(slub("debug", pid, "maloc-112", "F"), 4, "'malloc-112'")
        self.assertRefused(slub("shrink", "-p", pid, "a,b"), 2, "a,b")
        for command in ASKERS:
            self.assertRefused(slub(command, "-p", pid, "zzzzzz*"), 4, "zzzzzz*")
        for command in ("validate", "watched"):
            self.assertRefused(slub(command, "-p", pid), 6, "slub debug")

    def test_process(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        plain = self.start("sh", "-c", "echo ready; read x", library=" ")
        for command in ASKERS:
            self.assertRefused(slub(command, "-p", str(gone.pid)), 4)
            self.assertRefused(slub(command, "-p", str(plain.pid)), 1, "does not use libslub")
        self.assertRefused(slub("debug", str(plain.pid), "malloc-64", "F"), 1)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_permission(self):
        pid = str(self.heap().pid)
        for command in ASKERS:
            self.assertRefused(slub(command, "-p", pid, user=NOBODY), 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
