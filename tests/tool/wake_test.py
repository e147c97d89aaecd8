#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a process that waits in a system call does what it is asked, by one of its threads, and
nothing of that thread differs afterwards: no call ends early, no signal and no byte is lost.

usage: wake_test.py SLUB LIBRARY WAITS GDB_SCRIPT"""

import contextlib
import errno
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from target import HEAP as WAITS, SLUB, Target, refuse_call, slub

PART = "WAKE_TEST_CLASS"
WAKES = 12
KINDS = ("read", "poll", "select", "epoll", "epoll-timed", "nanosleep", "futex", "sigwait",
         "sigsuspend", "ppoll", "epoll-pwait", "epoll-signal", "poll-signal", "pause", "busy",
         "registers")
SYS_PTRACE = {"x86_64": 101, "aarch64": 117}
SLEEPS = "import time; print('ready', flush=True); time.sleep(1000)"
POLLS = "import select; print('ready', flush=True); select.poll().poll(1000000)"
# Threads in calls that would be cut short, with a signal handler that one of them is in.
IN_HANDLER = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: (print("ready", flush=True),
                                                               libc.pause()))
libc.signal(signal.SIGUSR1, handler)
os.kill(os.getpid(), signal.SIGUSR1)
"""
# Had much, and waits.
BURST = """
import time
keep = [bytes(n % 900 + 40) for n in range(60000)]
del keep
print("ready", flush=True)
time.sleep(1000)
"""
FORKS = """
import os, time
print("ready", flush=True)
while True:
    child = os.fork()
    if not child:
        time.sleep(0.001)
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.003)
"""
# A program of another kind in the same process, and the first one again.
EXECS = """
echo ready
i=0
while :; do
    i=$((i + 1))
    [ $i -lt 20 ] || exec sh -c "$TEXT"
    read x <"$PIPE"
done
"""
WRITES = "import os; print('ready', flush=True); os.write(os.pipe()[1], bytes(1 << 20))"


class Woken(Target):
    def waits(self, kind, **more):
        return self.start(WAITS, kind, **more)

    def wake(self, process, *arguments, command="shrink", seconds="0.001"):
        return slub(command, "--json", "--wake-after=" + seconds, *arguments, str(process.pid))

    def over(self, process):
        """What the program says of its calls at its end."""
        said = process.communicate("\n", timeout=60)[0]
        self.assertRegex(said, r"^\d+ calls, \d+ signals, 0 errors, late by \d+ us at the most\n$")
        self.assertEqual(process.returncode, 0)
        return [int(number) for number in re.findall(r"\d+", said)]


class Calls(Woken):
    def of(self, kind):
        process = self.waits(kind)
        woken = 0
        for _ in range(WAKES):
            done = self.wake(process, "--blocked")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            woken += json.loads(done.stdout).get("woken", {}).get("times", 0)
        self.over(process)
        if kind != "busy":
            self.assertGreater(woken, 0, kind)


class Times(Woken):
    """Calls of half a second, woken more often than that, for ten times as long: they would never
    return if each wake began their time anew."""

    def of(self, kind):
        process = self.waits(kind)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            done = self.wake(process)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            time.sleep(0.1)
        self.assertGreaterEqual(self.over(process)[0], 2)

    def again_and_again(self, program):
        """One call, which from the second wake on is the kernel's restart of itself."""
        process = self.start(sys.executable, "-c", program, PYTHONMALLOC="malloc")
        calls = []
        for _ in range(4):
            done = self.wake(process, "--timeout=2")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            calls.append(json.loads(done.stdout)["woken"])
        self.assertEqual([woken["times"] > 0 for woken in calls], [True] * 4, calls)
        self.assertIsNone(process.poll())

    def test_one_sleep(self):
        self.again_and_again(SLEEPS)

    def test_one_poll(self):
        self.again_and_again(POLLS)

    def test_epoll(self):
        self.of("epoll-long")

    def test_poll(self):
        self.of("poll-long")

    def test_nanosleep(self):
        self.of("sleep-long")


def add_kinds():
    for kind in KINDS:
        setattr(Calls, "test_" + kind.replace("-", "_"), lambda self, kind=kind: self.of(kind))


def read_all(terminal):
    """What was written to the other side, which is closed: one read may have a part of it."""
    said = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            said += part
    return said.decode()


class Answers(Woken):
    def test_each_command(self):
        pid = str(self.start(sys.executable, "-c", SLEEPS, PYTHONMALLOC="malloc").pid)
        told = r"^slub: \w+: process \d+ was idle: its thread \d+ \(.*\) was woken from " \
               r"\w+( more than once)?, worked for [0-9]+\.[0-9] ms and waits again\n$"
        for arguments, said in (
                (("shrink", pid), r"^\d+ caches shrunk; "),
                (("set", pid, "retain", "64M"), r"retain is 64M\n"),
                (("guard", pid, "900"), r"guards one object in 900\n"),
                (("guard", pid, "0"), r"no longer guards objects\n"),
                (("debug", pid, "*", "FZPU"), r"^\d+ caches: FZPU\n"),
                (("validate", pid), r"^0 bugs in \d+ watched caches\n"),
                (("debug", pid, "*", "-"), r"^\d+ caches: no longer watched\n"),
                (("profile", "--seconds=0.1", pid), r"^in use: ")):
            done = slub(*arguments)
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(done.stdout, said)
            self.assertRegex(done.stderr, told)

    def test_no_wake(self):
        process = self.waits("epoll-long")
        done = slub("shrink", "--no-wake", "--timeout=1", str(process.pid))
        self.assertRefused(done, 6, "has not answered in 1 s")
        self.assertNotIn("woken", done.stderr)
        self.over(process)

    def test_progress_on_a_terminal(self):
        process = self.waits("epoll")
        ours, theirs = os.openpty()
        done = subprocess.run([SLUB, "shrink", "--no-wake", "--timeout=5", str(process.pid)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                              timeout=100, check=False)
        os.close(theirs)
        said = read_all(ours)
        os.close(ours)
        self.assertEqual((done.returncode, done.stdout), (6, b""))
        self.assertRegex(said, rf"^(\rslub: process {process.pid}: [1-5] s)+\r\x1b\[Kslub: shrink: "
                               r"[^\r]*\r\n$")
        self.over(process)

    def test_memory_of_a_burst_goes_back(self):
        process = self.start(sys.executable, "-c", BURST, PYTHONMALLOC="malloc")
        told = json.loads(self.wake(process).stdout)
        self.assertGreater(told["woken"]["times"], 0)
        # Most of it, or all, may have gone back before.
        self.assertLessEqual(told["slab_bytes_after"], told["slab_bytes_before"])
        again = json.loads(self.wake(process).stdout)
        self.assertLessEqual(again["slab_bytes_after"], told["slab_bytes_after"])

    def test_two_askers(self):
        process = self.waits("poll")
        askers = [subprocess.Popen([SLUB, "shrink", "--wake-after=0.001", "--timeout=60",
                                    str(process.pid)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE) for _ in range(4)]
        for asker in askers:
            self.addCleanup(asker.kill)
            said = asker.communicate(timeout=120)
            self.assertEqual(asker.returncode, 0, said)
        self.over(process)

    def test_the_pressure_thread_answers_by_itself(self):
        process = self.waits("epoll-long", SLUB_PRESSURE="thread")
        done = slub("shrink", "--no-wake", str(process.pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.over(process)


class Stops(Woken):
    def of(self, kind):
        """The process is stopped and goes on, before, amid and after its wakes."""
        process = self.waits(kind)
        is_over = threading.Event()

        def stop():
            while not is_over.wait(0.004):
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.001)
                process.send_signal(signal.SIGCONT)

        stopper = threading.Thread(target=stop)
        stopper.start()
        self.addCleanup(stopper.join)
        self.addCleanup(is_over.set)
        for _ in range(WAKES):
            done = self.wake(process, "--timeout=0.5")
            # It may have been stopped each time that it was looked at.
            self.assertIn(done.returncode, (0, 6), done)
        is_over.set()
        stopper.join()
        self.over(process)

    def test_poll(self):
        self.of("poll-long")

    def test_nanosleep(self):
        self.of("nanosleep")


class Refused(Woken):
    def refusal(self, process, reason, *arguments, **who):
        done = slub("shrink", "--timeout=1", *arguments, str(process.pid), **who)
        self.assertRefused(done, 6)
        self.assertRegex(done.stderr, "it was not woken: " + reason)

    def test_in_a_handler(self):
        process = self.start(sys.executable, "-c", IN_HANDLER)
        self.refusal(process, "its thread .* blocks signals that it handles")

    def test_a_call_that_has_done_a_part(self):
        process = self.start(sys.executable, "-c", WRITES)
        self.refusal(process, "it waits in a system call, which would be cut short")

    def test_stopped(self):
        process = self.waits("nanosleep")
        process.send_signal(signal.SIGSTOP)
        self.refusal(process, "it is stopped")
        process.send_signal(signal.SIGCONT)
        self.over(process)

    @unittest.skipUnless(platform.machine() in SYS_PTRACE, "needs the number of ptrace()")
    def test_ptrace_refused(self):
        """As in a container whose filter does not let it through, however much root one is."""
        process = self.waits("nanosleep")
        number = SYS_PTRACE[platform.machine()]
        for error, reason in ((errno.EPERM, r"a seccomp filter .* refuses ptrace\(\)"),
                              (errno.ENOSYS, "it cannot be traced: Function not implemented")):
            self.refusal(process, reason, before=lambda: refuse_call(number, error))
        self.over(process)

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_under_a_debugger(self):
        process = self.waits("nanosleep")
        tracer = subprocess.Popen(["strace", "-o", os.devnull, "-p", str(process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(tracer.communicate)
        self.addCleanup(tracer.terminate)
        tracer.stderr.readline()
        self.refusal(process, rf"process {tracer.pid} traces it")


class Ends(Woken):
    def killed(self, process, seconds):
        asker = subprocess.Popen([SLUB, "shrink", "--wake-after=0.001", "--blocked",
                                  str(process.pid)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds)
        try:
            os.killpg(asker.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        asker.wait()

    def test_the_command_is_killed(self):
        """With its child, at any moment: the thread goes on."""
        for kind in ("registers", "read", "futex", "ppoll", "sigwait"):
            process = self.waits(kind)
            for step in range(40):
                self.killed(process, 0.001 + step * 0.0005)
            done = self.wake(process, "--blocked", "--timeout=60")
            self.assertEqual(done.returncode, 0, done)
            self.over(process)

    def test_the_process_forks(self):
        process = self.start(sys.executable, "-c", FORKS, PYTHONMALLOC="malloc")
        for _ in range(30):
            done = self.wake(process, "--timeout=60")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIsNone(process.poll())

    def test_the_process_runs_another_program(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        process = self.start("sh", "-c", EXECS, TEXT=EXECS, PIPE=pipe)
        writer = subprocess.Popen(["sh", "-c", 'while :; do echo x >"$0"; done', pipe],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(writer.wait)
        self.addCleanup(writer.kill)
        for _ in range(30):
            done = self.wake(process, "--timeout=0.4")
            # Gone, or not started, or older than its own start.
            self.assertIn(done.returncode, (0, 1, 4, 5, 6), done)
            self.assertEqual(done.stderr.count("\n"), int(done.returncode != 0), done)
        self.assertIsNone(process.poll())

    def test_the_process_ends(self):
        for _ in range(8):
            process = self.waits("epoll-long")
            asker = subprocess.Popen([SLUB, "shrink", "--wake-after=0.001", str(process.pid)],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(0.004)
            process.kill()
            _, complaint = asker.communicate(timeout=60)
            # One that has just ended has no mappings, so no libslub.
            self.assertIn(asker.returncode, (0, 1, 4), complaint)
            self.assertEqual(complaint.count("\n"), 1, complaint)


def at_once():
    """Each class in a process of its own: nearly all of their time they wait."""
    parts = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, PART: each.__name__},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for each in (Calls, Times, Answers, Stops, Refused, Ends)]
    for part in parts:
        print(part.communicate()[0], flush=True)
    sys.exit(any(part.returncode for part in parts))


if __name__ == "__main__":
    if PART not in os.environ:
        at_once()
    add_kinds()
    unittest.main(argv=[sys.argv[0], os.environ[PART]], verbosity=2)
