#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub doctor` tells what the system keeps from a process: filters of seccomp, limits,
rseq switched off, membarrier refused, libraries that are preloaded already.

usage: doctor_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import unittest

from target import LIBRARY, PR_SET_SECCOMP, SLUB, Target, environment, prctl, refuse_call

STRICT = 1
SYS_MEMBARRIER = {"x86_64": 324, "aarch64": 283}
MANY = 1 << 40		# bytes; no limit for a program of this size


class Doctor(Target):
    def sleeper(self, before=lambda: None, **more):
        """A process that waits; @before runs in it."""
        process = subprocess.Popen(["/bin/sh", "-c", "echo ready; read line"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   preexec_fn=before,
                                   env=environment(LD_PRELOAD=LIBRARY, **more))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def said(self, target, *names, before=lambda: None, **more):
        """The lines with these names."""
        done = subprocess.run([SLUB, "doctor", str(target)], env=environment(**more), text=True,
                              capture_output=True, preexec_fn=before, timeout=60, check=False)
        self.assertEqual(done.stderr, "")
        parted = [(line[:8].strip(), line[9:23].strip(), line[24:])
                  for line in done.stdout.splitlines()]
        return [(finding, *rest) for finding, *rest in parted if rest[0] in names]

    def seccomp(self, process, *more):
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
            told = dict(line.split(":", 1) for line in file)
        return told.get("Seccomp", "none").strip(), told.get("Seccomp_filters", "some").strip()

    def check_forms(self, target, status):
        """JSON and colors say what the text says."""
        def run(*more):
            return subprocess.run([SLUB, "doctor", *more, target], env=environment(), text=True,
                                  capture_output=True, timeout=60, check=False)

        text = run()
        self.assertEqual((text.returncode, text.stderr), (status, ""))
        lines = [(line[:8].strip(), line[9:23].strip(), line[24:])
                 for line in text.stdout.splitlines()]
        told = run("--json")
        self.assertEqual((told.returncode, told.stderr), (status, ""))
        self.assertEqual(json.loads(told.stdout), {
            "kind": "doctor", "schema": 1, "target": target, "works": status == 0,
            "findings": [{"what": what, "finding": finding, "text": said}
                         for finding, what, said in lines]})
        colors = {"ok": 32, "note": 33, "problem": 31}
        self.assertEqual(run("--color=always").stdout.splitlines(),
                         [f"\x1b[{colors[finding]}m{finding:8}\x1b[0m {what:14} {said}"
                          for finding, what, said in lines])
        return {finding for finding, _, _ in lines}

    def test_forms(self):
        found = self.check_forms(SLUB, 0)
        found |= self.check_forms(str(self.sleeper(SLUB_NONSENSE="1").pid), 0)
        found |= self.check_forms(str(os.getpid()), 1)
        self.assertEqual(found, {"ok", "note", "problem"})
        # What cannot be examined prints no half of an object.
        done = subprocess.run([SLUB, "doctor", "--json", self.path("none")], env=environment(),
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (4, b""))

    def test_seccomp(self):
        plain = self.sleeper()
        mode, before = self.seccomp(plain)
        if mode == "0":
            self.assertEqual(self.said(plain.pid, "seccomp"), [("ok", "seccomp", "no filter")])
        process = self.sleeper(lambda: refuse_call(-1))
        mode, filters = self.seccomp(process)
        self.assertEqual(mode, "2")
        if filters != "some" and before != "some":
            self.assertEqual(int(filters), int(before) + 1)
        self.assertEqual(self.said(process.pid, "seccomp"), [
            ("note", "seccomp", f"filters in force: {filters}; the library's start asks for no "
             "more than the C library's, NUMA nodes are not bound, and the lists of other CPUs are "
             "emptied only if membarrier is let through")])

    def test_strict_seccomp(self):
        if self.seccomp(self.sleeper())[0] != "0":
            self.skipTest("there are filters in force")
        code = (f"import ctypes, os; c = ctypes.CDLL(None); p = c.prctl; os.write(1, b'ready\\n');"
                f"p({PR_SET_SECCOMP}, {STRICT}, 0, 0, 0); c.write(1, b'strict\\n', 7);"
                "c.read(0, ctypes.create_string_buffer(1), 1)")
        process = self.start(sys.executable, "-c", code)
        self.assertEqual(process.stdout.readline(), "strict\n")
        self.assertEqual(self.said(process.pid, "seccomp"), [
            ("note", "seccomp", "strict mode: no call but read and write")])

    @staticmethod
    def of_limit(limit, name):
        bytes_max = resource.getrlimit(limit)[0]
        if bytes_max == resource.RLIM_INFINITY:
            return ("ok", name, "unlimited")
        return ("note", name, f"{bytes_max} bytes; the heap leaves some of it to the rest of the "
                "program")

    def test_limits(self):
        names = {"address space": resource.RLIMIT_AS, "data": resource.RLIMIT_DATA}
        plain = [self.of_limit(limit, name) for name, limit in names.items()]
        self.assertEqual(self.said(self.sleeper().pid, *names), plain)
        for name, limit in names.items():
            most = resource.getrlimit(limit)[1]
            less = MANY if most == resource.RLIM_INFINITY else most - 4096
            process = self.sleeper(lambda: resource.setrlimit(limit, (less, most)))
            self.assertEqual(self.said(process.pid, *names), [
                ("note", name, f"{less} bytes; the heap leaves some of it to the rest of the "
                 "program") if each == name else one for each, one in zip(names, plain)])

    def test_rseq(self):
        process = self.sleeper()
        plain = self.said(process.pid, "rseq")
        major, minor = map(int, platform.release().split(".")[:2])
        if (major, minor) >= (4, 18) and plain[0][0] == "ok":
            numbers = "numbers of running threads (mm_cid)" if (major, minor) >= (6, 3) else \
                      "numbers of CPUs"
            self.assertEqual(plain, [("ok", "rseq", f"Linux {platform.release()}, {numbers}")])
        off = ("note", "rseq", "GLIBC_TUNABLES switches it off: the lists will be the threads'")
        for value, found in (("glibc.pthread.rseq=0", [off]), ("glibc.pthread.rseq=1", plain),
                             ("glibc.malloc.check=0:glibc.pthread.rseq=0", [off])):
            process = self.sleeper(GLIBC_TUNABLES=value)
            self.assertEqual(self.said(process.pid, "rseq"), found, value)
        process = self.sleeper(OTHER="GLIBC_TUNABLES=glibc.pthread.rseq=0")
        self.assertEqual(self.said(process.pid, "rseq"), plain)

    def test_membarrier(self):
        process = self.sleeper()
        there = ("ok", "membarrier", "another CPU's lists can be emptied")
        gone = ("note", "membarrier", "not for rseq: what lies in an idle CPU's lists stays there")
        self.assertIn(self.said(process.pid, "membarrier")[-1], (there, gone))
        number = SYS_MEMBARRIER.get(os.uname().machine)
        if number is None:
            self.skipTest("knows no number of the call")
        for target in (process.pid, SLUB):
            said = self.said(target, "membarrier", before=lambda: refuse_call(number))
            self.assertEqual(said[-1], gone)

    def test_preloads(self):
        is_there = os.access("/etc/ld.so.preload", os.R_OK)
        note = ("note", "ld.so.preload", "the system preloads libraries into every program")
        for more, said in (({}, []), ({"LD_PRELOAD": ""}, []),
                           ({"LD_PRELOAD": "libm.so.6"}, [("note", "LD_PRELOAD",
                                                           "is set already: libm.so.6")])):
            self.assertEqual(self.said(SLUB, "LD_PRELOAD", "ld.so.preload", **more),
                             said + [note] * is_there)
        self.assertEqual(self.said(self.sleeper().pid, "LD_PRELOAD", "ld.so.preload",
                                   LD_PRELOAD="libm.so.6"), [])

    def test_kernel(self):
        process = self.sleeper()
        for path, name, text, finding in (
                ("/proc/sys/vm/overcommit_memory", "overcommit", "vm.overcommit_memory is {}",
                 lambda value: "note" if value == "2" else "ok"),
                ("/proc/sys/vm/max_map_count", "mappings", "vm.max_map_count is {}",
                 lambda value: "note" if int(value) < 1000 else "ok"),
                ("/sys/kernel/mm/transparent_hugepage/enabled", "huge pages", "{}",
                 lambda value: "ok")):
            expected = []
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                value = file.read().strip()
                more = ": what is committed counts in full, though it is not touched" \
                    if name == "overcommit" and value == "2" else ""
                expected = [(finding(value), name, text.format(value) + more)]
            self.assertEqual(self.said(process.pid, name), expected)

    def test_cpus(self):
        first = min(os.sched_getaffinity(0))
        process = self.sleeper(lambda: os.sched_setaffinity(0, [first]))
        self.assertEqual(self.said(process.pid, "CPUs"),
                         [("ok", "CPUs", f"{first} allowed of "
                           f"{os.sysconf('SC_NPROCESSORS_CONF')}")])

    def test_group(self):
        process = self.sleeper()
        with open(f"/proc/{process.pid}/cgroup", encoding="utf-8") as file:
            paths = [line[3:].strip() for line in file if line.startswith("0::")]
        expected = []
        for name in ("memory.max", "memory.high", "cpu.max", "cpuset.cpus.effective"):
            with contextlib.suppress(OSError), \
                    open(f"/sys/fs/cgroup{(paths or ['/none'])[0]}/{name}",
                         encoding="utf-8") as file:
                expected.append(("ok", "cgroup", f"{name} is {file.readline().strip()}"))
        self.assertEqual(self.said(process.pid, "cgroup"), expected or [
            ("ok", "cgroup", "no limit of version 2; those of version 1 only the library reads")])

    def test_no_library(self):
        process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(self.said(process.pid, "libslub"), [
            ("problem", "libslub", "not in this process; `slub doctor PROGRAM` says whether it "
             "could be")])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
