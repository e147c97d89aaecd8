# SPDX-License-Identifier: MIT
"""What the tests of `slub top` and its like share: programs on libslub that wait to be read, and
their core files.  The arguments of the test are

    SLUB LIBRARY HEAP GDB_SCRIPT [FUZZ_SECONDS]"""

import atexit
import ctypes
import errno
import functools
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

if len(sys.argv) not in (5, 6):
    sys.exit(f"usage: {sys.argv[0]} SLUB LIBRARY HEAP GDB_SCRIPT [FUZZ_SECONDS]")

SLUB, LIBRARY, HEAP, GDB_SCRIPT = map(os.path.abspath, sys.argv[1:5])
FUZZ_SECONDS = float(sys.argv[5]) if len(sys.argv) == 6 else 4.0
NOBODY = 65534
READERS = ("top", "info", "stats", "map", "options")
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
FILTER, ALLOW, REFUSE = 2, 0x7fff0000, 0x00050000
CORE_BYTES_MAX = 2 << 30


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    env.update(LC_ALL="C.UTF-8", **more)
    return env


@functools.cache
def slub_for_all():
    """A copy of the command that every user may run, wherever the build lies."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    return shutil.copy(SLUB, folder)


def slub(*arguments, program=None, user=None, before=None, **more):
    """The command, also as @user; @before runs in its process."""
    program = program or (SLUB if user is None else slub_for_all())
    who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    return subprocess.run([program, *arguments], env=environment(**more), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=200,
                          preexec_fn=before, **who)


def prctl(number, *arguments):
    if ctypes.CDLL(None, use_errno=True).prctl(number, *arguments, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def refuse_call(number, error=errno.ENOSYS):
    """From now on there is no such call; with -1 all are let through."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, number & 0xffffffff), (0x06, 0, 0, REFUSE | error),
            (0x06, 0, 0, ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *each) for each in code))
    head = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code),
                                                   ctypes.addressof(program)))
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0)
    prctl(PR_SET_SECCOMP, FILTER, head)


def cache_named(told, name):
    return next(cache for cache in told["caches"] if cache["name"] == name)


def limit_core():
    resource.setrlimit(resource.RLIMIT_CORE, (CORE_BYTES_MAX, CORE_BYTES_MAX))


class Target(unittest.TestCase):
    """Programs on libslub, in a folder of their own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o777)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command, library=LIBRARY, **more):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   cwd=self.folder, preexec_fn=limit_core, text=True,
                                   env=environment(LD_PRELOAD=library or LIBRARY, **more))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def heap(self, mode="wait", **more):
        return self.start(HEAP, mode, **more)

    def told(self, command, target, *arguments):
        done = slub(command, "-p", str(target), "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return json.loads(done.stdout)

    def assertRefused(self, done, status, *words):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, "", done)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("slub: "), lines)
        for word in words:
            self.assertIn(word, lines[0])

    def core_of(self, process):
        """Lets the process die of SIGABRT and returns its core file."""
        with open("/proc/sys/kernel/core_pattern") as file:
            pattern = file.read().strip()
        if "/" in pattern or pattern.startswith("|"):
            return self.core_by_gdb(process)
        process.send_signal(signal.SIGABRT)
        process.wait()
        cores = [name for name in os.listdir(self.folder) if name.startswith("core")]
        if not cores:
            self.skipTest("this system writes no core files")
        return self.path(cores[0])

    def core_by_gdb(self, process):
        if not shutil.which("gcore"):
            self.skipTest("core files go elsewhere here, and there is no gcore")
        done = subprocess.run(["gcore", "-o", self.path("core"), str(process.pid)], text=True,
                              capture_output=True, timeout=100, check=False, preexec_fn=lambda:
                              resource.setrlimit(resource.RLIMIT_FSIZE,
                                                 (CORE_BYTES_MAX, CORE_BYTES_MAX)))
        path = self.path(f"core.{process.pid}")
        if done.returncode or not os.path.exists(path):
            self.skipTest(f"gcore: {done.stderr.strip()[-200:]}")
        process.kill()
        process.wait()
        return path
