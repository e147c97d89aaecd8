#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: what a process or a user names, `slub` opens only where it is a file, reads up to a
bound, and writes so that nobody else can read it or have it written elsewhere.

usage: opener_test.py SLUB LIBRARY HEAP GDB_SCRIPT HOSTILE PROFILED"""

import os
import re
import resource
import stat
import subprocess
import sys
import unittest

HOSTILE, PROFILED = map(os.path.abspath, sys.argv[5:7])
del sys.argv[5:]

from target import HEAP, SLUB, Target, environment, slub

# Each command that takes a file, with what it needs beside.
OF_FILES = (("info",), ("stats",), ("map",), ("options",), ("explain",), ("exporter",),
            ("profile", "--text"), ("groups",))
MEMORY_MAX = 2 << 30


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))


class Opener(Target):
    def bounded(self, *command):
        """What a command says of it, which ends in a minute and with 2 GiB."""
        return subprocess.run([SLUB, *command], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, preexec_fn=limit_memory, check=False,
                              cwd=self.folder, env=environment())

    def profile_in(self, name, mode=0o600):
        subprocess.run([PROFILED, "write", self.path(name), "0", "65536"], check=True,
                       capture_output=True, env=environment(SLUB_PROFILE="1"))
        os.chmod(self.path(name), mode)
        return self.path(name)

    def assertEnds(self, done, *words):
        self.assertIn(done.returncode, (1, 2, 4, 5, 6), done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done)
        self.assertRegex(done.stderr, "^slub: ")
        for word in words:
            self.assertIn(word, done.stderr)


class Answers(Opener):
    """A living process that answers with a descriptor of its choice."""

    def profile(self, kind):
        process = self.start(HOSTILE, kind)
        return self.bounded("profile", "--seconds=0.1", "--timeout=20", str(process.pid))

    def test_what_is_no_file(self):
        for kind in ("fifo", "zero", "socket"):
            self.assertEnds(self.profile(kind), "it is no file")
        self.assertEnds(self.profile("folder"), "Is a directory")

    def test_files_without_an_end(self):
        for kind in ("long", "many", "huge"):
            self.assertEnds(self.profile(kind), "longer than any profile")

    def test_a_file_that_shrinks_and_grows(self):
        process = self.start(HOSTILE, "moving")
        for _ in range(10):
            done = self.bounded("profile", "--seconds=0.1", "--timeout=20", str(process.pid))
            self.assertIn(done.returncode, (0, 5), done)


class Maps(Opener):
    """A living process that maps files whose names mean something else by now."""

    def start_with(self, name):
        code = (f"import mmap, os; f = open({name!r}, 'w+b'); f.write(b'x' * 65536); f.flush(); "
                "m = mmap.mmap(f.fileno(), 65536, prot=5); print('ready', flush=True); input()")
        return self.start(sys.executable, "-c", code)

    def replace(self, path, kind):
        os.unlink(path)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            os.mkdir(path)
        else:
            os.symlink({"zero": "/dev/zero", "loop": path, "terminal": "/dev/tty"}[kind], path)

    def test_every_command_that_reads_a_process(self):
        for kind in ("fifo", "folder", "zero", "loop", "terminal"):
            path = self.path(f"{kind}.so")
            process = self.start_with(path)
            self.replace(path, kind)
            pid = str(process.pid)
            for command in (("check", pid), ("doctor", pid), ("info", pid), ("stats", pid),
                            ("map", pid), ("options", pid), ("leaks", pid), ("traces", pid),
                            ("watched", pid),
                            ("explain", pid, "0x10"), ("exporter", pid),
                            ("top", "--once", pid),
                            ("profile", "--seconds=0.1", "--timeout=0.5", pid)):
                done = self.bounded(*command)
                self.assertIn(done.returncode, range(8), (kind, done))

    def test_debugging_information_that_is_a_fifo(self):
        """Beside the program, and where its section .gnu_debuglink points."""
        profile = self.path("heap.prof")
        for link in ("trap.debug", ".debug/trap.debug"):
            program = self.path("linked")
            subprocess.run(["cp", PROFILED, program], check=True)
            trap = os.path.normpath(self.path(link))
            os.makedirs(os.path.dirname(trap), exist_ok=True)
            with open(trap, "wb") as file:
                file.write(b"x")
            done = subprocess.run(["objcopy", "--strip-debug",
                                   f"--add-gnu-debuglink={trap}", program],
                                  capture_output=True, check=False)
            if done.returncode:
                self.skipTest("no objcopy that adds .gnu_debuglink")
            os.unlink(trap)
            os.mkfifo(trap)
            self.addCleanup(os.unlink, trap)
            subprocess.run([program, "write", profile, "0", "65536"], check=True,
                           capture_output=True, env=environment(SLUB_PROFILE="1"))
            self.assertEqual(self.bounded("profile", "--text", profile).returncode, 0)


class Named(Opener):
    """What a user names."""

    def setUp(self):
        super().setUp()
        os.mkfifo(self.path("fifo"))
        os.mkdir(self.path("folder"))
        os.symlink("fifo", self.path("link"))
        os.symlink("loop", self.path("loop"))
        with open(self.path("huge"), "wb") as file:
            file.truncate(1 << 40)
        with open(self.path("line"), "wb") as file:
            file.write(b"heap profile: 0: 0 [0: 0] @ heapprofile\n# slub-profile 1\n")
            file.write(b"#" * (80 << 20))

    def test_every_command_that_reads_a_file(self):
        for name in ("fifo", "folder", "link", "loop", "huge", "line", "/dev/zero", "/dev/null",
                     "/proc/self/mem"):
            path = os.path.join(self.folder, name)
            for command, *options in OF_FILES:
                more = ["0x10"] if command == "explain" else []
                if command == "groups":
                    command, options = "info", ["--groups"]
                self.assertEnds(self.bounded(command, *options, path, *more))

    def test_programs(self):
        for name in ("fifo", "folder", "link", "loop"):
            for command in ("doctor", "run"):
                done = self.bounded(command, os.path.join(self.folder, name))
                self.assertIn(done.returncode, (3, 4, 5, 126, 127), (name, done))

    def test_a_pipe_of_the_user(self):
        self.profile_in("prof")
        done = subprocess.run(["bash", "-c", f"{SLUB} profile --text <(sleep 0.2; cat prof)"],
                              cwd=self.folder, capture_output=True, text=True, check=False,
                              env=environment(), timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)


class Written(Opener):
    def setUp(self):
        super().setUp()
        os.mkfifo(self.path("fifo"))
        os.mkdir(self.path("folder"))

    def mode(self, name):
        return stat.S_IMODE(os.lstat(self.path(name)).st_mode)

    def test_no_wider_than_its_source(self):
        old = os.umask(0o022)
        self.addCleanup(os.umask, old)
        for mode, becomes in ((0o600, 0o600), (0o640, 0o640), (0o666, 0o644)):
            path = self.profile_in("prof", mode)
            self.assertEqual(self.bounded("profile", path).returncode, 0)
            self.assertEqual(self.mode("prof.pb.gz"), becomes)

    def test_no_symbolic_link_is_followed(self):
        path = self.profile_in("prof")
        with open(self.path("precious"), "w") as file:
            file.write("precious")
        os.symlink("precious", self.path("prof.pb.gz"))
        self.assertEnds(self.bounded("profile", path), "symbolic link")
        pid = str(self.heap().pid)
        done = self.bounded("exporter", pid, f"--textfile={self.path('prof.pb.gz')}")
        self.assertEnds(done, "symbolic link")
        with open(self.path("precious")) as file:
            self.assertEqual(file.read(), "precious")
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["fifo", "folder", "precious", "prof", "prof.pb.gz"])

    def test_pipes_and_devices(self):
        path = self.profile_in("prof")
        self.assertEnds(self.bounded("profile", path, f"--output={self.path('fifo')}"))
        self.assertEnds(self.bounded("profile", path, f"--output={self.path('folder')}"))
        self.assertEqual(self.bounded("profile", path, "--output=/dev/null").returncode, 0)
        done = subprocess.run(["sh", "-c", f"{SLUB} profile prof --output=/dev/stdout | wc -c"],
                              cwd=self.folder, capture_output=True, text=True, check=False,
                              env=environment(), timeout=60)
        self.assertGreater(int(done.stdout), 100, done)

    def trace(self, *command):
        log = self.path("log")
        done = subprocess.run(["strace", "-f", "-o", log, "-e",
                               "trace=openat,write,fsync,rename,renameat,renameat2",
                               SLUB, *command], capture_output=True, check=False,
                              cwd=self.folder, env=environment())
        self.assertEqual(done.returncode, 0, done)
        with open(log) as file:
            return file.read()

    def test_a_new_name_then_the_disk_then_the_name(self):
        try:
            subprocess.run(["strace", "-V"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no strace")
        path, pid = self.profile_in("prof"), str(self.heap().pid)
        for command in (("profile", path, "--output=out"),
                        ("exporter", pid, "--textfile=out")):
            names = set()
            for _ in range(2):
                text = self.trace(*command)
                opened = re.search(r'openat\(AT_FDCWD, "out\.(\w{6})", [^)]*O_EXCL[^)]*, 0600\)',
                                   text)
                self.assertIsNotNone(opened, text)
                names.add(opened.group(1))
                fd = re.search(re.escape(opened.group()) + r" = (\d+)", text).group(1)
                order = [text.rindex(f"write({fd}, "), text.index(f"fsync({fd})"),
                         text.index('"out")')]
                self.assertEqual(order, sorted(order), text)
            self.assertEqual(len(names), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
