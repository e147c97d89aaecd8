#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: settings are obeyed; a wrong one is named with the right ones near it, once, where
messages are asked for, and the default is used; without that nothing is written; a set-user-ID
program ignores them all."""

import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

PROBE = ""
STATIC_PROBE = ""
LIBRARY = ""
CORE = ""
BACKENDS = {"rseq": 1, "thread": 2, "tid": 3, "lock": 4}
HUGE = {"never": 0, "block": 1, "always": 2, "auto": 3}
MIB = 1 << 20


def run(program=None, **settings):
    """Runs the probe with these SLUB_* alone; gives its values and what it wrote on stderr."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
    env.update(settings)
    done = subprocess.run([program or PROBE], env=env, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"probe with {settings}: status {done.returncode}, {done.stderr}")
    values = {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}
    return values, done.stderr.splitlines()


class GoodSettings(unittest.TestCase):
    def test_silent_by_default(self):
        values, lines = run()
        self.assertEqual(lines, [])
        self.assertEqual(values["ready"], 1)
        self.assertIn(values["backend"], BACKENDS.values())

    def test_each_backend(self):
        for name, number in BACKENDS.items():
            values, lines = run(SLUB_FASTPATH=name)
            self.assertEqual(values["backend"], number, name)
            self.assertEqual(lines, [])

    def test_auto_is_the_default(self):
        self.assertEqual(run(SLUB_FASTPATH="auto")[0]["backend"], run()[0]["backend"])

    def test_huge(self):
        for name, number in HUGE.items():
            self.assertEqual(run(SLUB_HUGE=name)[0]["huge"], number, name)

    def test_retain_with_suffixes(self):
        for text, number in (("0", 0), ("1048576", MIB), ("512K", MIB // 2), ("64M", 64 * MIB),
                             ("1G", 1024 * MIB), ("3m", 3 * MIB)):
            self.assertEqual(run(SLUB_RETAIN=text)[0]["retain_bytes"], number, text)

    def test_mode_is_a_word_for_retain_and_huge(self):
        with open("/proc/meminfo", encoding="ascii") as file:
            memory = int(file.readline().split()[1]) << 10
        for given, retain, huge in (
                ({}, 16 * MIB, "auto"), ({"SLUB_MODE": "balanced"}, 16 * MIB, "auto"),
                ({"SLUB_MODE": "compact"}, MIB // 8, "never"),
                ({"SLUB_MODE": "fast"}, None, "auto"),
                ({"SLUB_MODE": "compact", "SLUB_RETAIN": "5M"}, 5 * MIB, "never"),
                ({"SLUB_OPTIONS": "huge=block,mode=compact"}, MIB // 8, "block")):
            values = run(**given)[0]
            self.assertEqual(values["huge"], HUGE[huge], given)
            if retain is None:
                self.assertAlmostEqual(values["retain_bytes"] / memory, 1 / 16, delta=0.001)
            else:
                self.assertEqual(values["retain_bytes"], retain, given)

    def test_reserve(self):
        for text, number in (("256M", 256 * MIB), ("1G", 1024 * MIB)):
            values, _ = run(SLUB_ADDRESS_SPACE=text)
            self.assertGreaterEqual(values["range_bytes"], number)
            self.assertLessEqual(values["range_bytes"], 2 * number)

    def test_all_in_one_string(self):
        values, lines = run(SLUB_OPTIONS="fastpath=tid,retain=5M,huge=never")
        self.assertEqual((values["backend"], values["retain_bytes"], values["huge"]),
                         (BACKENDS["tid"], 5 * MIB, HUGE["never"]))
        self.assertEqual(lines, [])

    def test_verbose_lines_carry_the_prefix(self):
        _, lines = run(SLUB_VERBOSE="1", SLUB_FASTPATH="bogus")
        for line in lines:
            self.assertRegex(line, r"^slub\[\d+\]: ")


class WrongSettings(unittest.TestCase):
    # what is set, what the line must name
    CASES = (
        (("SLUB_FASTPATH", "bogus"), r"bogus.*(rseq|thread|tid|lock|auto)"),
        (("SLUB_FASTPATH", "rsq"), r"rsq.*rseq"),
        (("SLUB_FASTPATH", "lokc"), r"lokc.*lock"),
        (("SLUB_FASTPTH", "rseq"), r"(?i)fastpth.*fastpath"),
        (("SLUB_RETAIN", "12Q"), r"12Q.*K.*M.*G"),
        (("SLUB_RETAIN", "-1"), r"-1"),
        (("SLUB_RETAIN", "M"), r"'?M'?"),
        (("SLUB_RETAIN", "99999999999999999999"), r"9999"),
        (("SLUB_RETIAN", "12M"), r"(?i)retian.*retain"),
        (("SLUB_HUGE", "alwys"), r"alwys.*always"),
        (("SLUB_MODE", "small"), r"small.*balanced\|compact\|fast"),
        (("SLUB_ADDRESS_SPACE", "lots"), r"lots"),
        (("SLUB_OPTIONS", "fastpath=tdi"), r"tdi.*tid"),
        (("SLUB_OPTIONS", "fastpaht=tid"), r"(?i)fastpaht.*fastpath"),
        (("SLUB_OPTIONS", "nonsense"), r"nonsense"),
        (("SLUB_PRESSURE", "thred"), r"thred.*nearest is 'thread'"),
        (("SLUB_PRESSURE", "thread,sme=5"), r"sme=5.*nearest is 'some'"),
        (("SLUB_PRESSURE", "some=0"), r"some=0.*from 1 to 10000000"),
        (("SLUB_PRESSURE", "some=18446744073709551617"), r"some=184467.*from 1 to 10000000"),
        (("SLUB_PRESSURE", "thread,"), r"valid: off, thread"),
        (("SLUB_DEBUG", "Q"), r"'Q'.*F Z P U T A O"),
        (("SLUB_TEST_CPUS", "9000"), r"9000.*not a number from 0 to 8192"),
        (("SLUB_LIMIT", "atuo"), r"atuo.*'auto'"),
        (("SLUB_ON_ERROR", "abrot"), r"abrot.*nearest is 'abort'"),
        (("SLUB_GUARD", "few"), r"few.*number from 0"),
        (("SLUB_FASTPATH", "rs\neq\x1b"), r"'rs\?eq\?'.*nearest is 'rseq'"),
        (("SLUB_" + 300 * "X", "1"), r"unknown option 'X+' ignored; .*none of verbose\|mode\|.*"),
        (("SLUB_", "1"), r"unknown option '' ignored; .*none of verbose\|mode\|.*"),
        (("SLUB_PRESSURE", "hello"), r"hello.*10000000; using"),
    )

    def test_one_line_that_names_the_nearest(self):
        ordinary = run(SLUB_VERBOSE="1")[1]
        for (name, value), pattern in self.CASES:
            with self.subTest(setting=f"{name}={value}"):
                _, lines = run(SLUB_VERBOSE="1", **{name: value})
                told = [line for line in lines if re.search(pattern, line)]
                self.assertEqual(len(told), 1, lines)
                self.assertEqual(len(lines), len(ordinary) + 1, lines)

    def test_the_default_is_used(self):
        keep = ("backend", "huge", "retain_bytes", "range_bytes")
        default = {name: run()[0][name] for name in keep}
        for (name, value), _ in self.CASES:
            with self.subTest(setting=f"{name}={value}"):
                values, _ = run(**{name: value})
                self.assertEqual({name: values[name] for name in keep}, default)

    def test_heard_without_verbose(self):
        for (name, value), pattern in self.CASES:
            with self.subTest(setting=f"{name}={value}"):
                _, lines = run(**{name: value})
                self.assertEqual(len(lines), 1, lines)
                self.assertRegex(lines[0], pattern)
                self.assertEqual(run(SLUB_VERBOSE="0", **{name: value})[1], [])

    def test_an_empty_one_is_none(self):
        for name in ("SLUB_FASTPATH", "SLUB_DEBUG", "SLUB_LIMIT", "SLUB_OPTIONS"):
            with self.subTest(name):
                self.assertEqual(run(**{name: ""})[1], [])

    def test_verbose_within_the_string(self):
        _, lines = run(SLUB_OPTIONS="fastpath=rsq,verbose=1")
        self.assertTrue(any("rsq" in line for line in lines), lines)


class DataLimit(unittest.TestCase):
    """Little that may be written (RLIMIT_DATA): the start makes less ready."""

    def start_under(self, mib):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
        done = subprocess.run(
            [PROBE], env={**env, "SLUB_VERBOSE": "1"}, capture_output=True, text=True, timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, 2 * (mib * MIB,)))
        self.assertEqual((done.returncode, done.stderr), (0, ""), mib)
        return dict(map(str.split, done.stdout.splitlines()))

    def test_starts_under_12_mib(self):
        for mib in (12, 16, 24):
            values = self.start_under(mib)
            self.assertLess(int(values["heap_bytes"]), mib * MIB)

    def test_a_generous_one_changes_nothing(self):
        self.assertEqual(self.start_under(1024)["range_bytes"], str(run()[0]["range_bytes"]))


class NoLimitOfACgroup(unittest.TestCase):
    """SLUB_LIMIT=auto where no cgroup has a limit: that is said once, also by the core."""

    PLAIN = ["sh", "-c", "LD_PRELOAD=$TESTED exec true"]
    HIDDEN = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              "mount -t tmpfs none /sys/fs/cgroup && LD_PRELOAD=$TESTED exec true"]

    def setUp(self):
        if not CORE:
            self.skipTest("a sanitizer's library cannot be preloaded")

    def ended(self, command, library, **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
        return subprocess.run(command, env={**env, "LD_PRELOAD": "", "TESTED": library, **settings},
                              capture_output=True, text=True, timeout=60, check=False)

    def check_library(self, command, library):
        line = r"(?m)^slub\[\d+\]: option limit: no memory limit of a cgroup found; using none$"
        for settings, times in (({"SLUB_LIMIT": "auto", "SLUB_VERBOSE": "1"}, 1),
                                ({"SLUB_LIMIT": "0", "SLUB_VERBOSE": "1"}, 0),
                                ({"SLUB_LIMIT": "auto"}, 0)):
            done = self.ended(command, library, **settings)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(len(re.findall(line, done.stderr)), times, done)

    def test_the_library(self):
        if not shutil.which("unshare") or self.ended(self.HIDDEN, "").returncode:
            self.skipTest("the cgroups cannot be hidden here")
        self.check_library(self.HIDDEN, LIBRARY)

    def test_the_core_which_follows_none(self):
        self.check_library(self.PLAIN, CORE)


class NoRoom(unittest.TestCase):
    """Too little address space: the library's start fails, and again at each request."""

    def wrapped(self, kib):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUB_")}
        return subprocess.run(
            ["sh", "-c", f"ulimit -v {kib}; LD_PRELOAD=$TESTED exec timeout 50 echo ran"],
            env={**env, "LD_PRELOAD": "", "TESTED": LIBRARY, "SLUB_VERBOSE": "1"},
            capture_output=True, text=True, timeout=60, check=False)

    def test_a_wrapper_runs(self):
        failed = 0
        for kib in range(5000, 12000, 200):
            done = self.wrapped(kib)
            if "error while loading" in done.stderr or "cannot be preloaded" in done.stderr:
                continue                # the loader found no room itself
            lines = re.findall(r"(?m)^slub\[(\d+)\]: .*; allocations fail$", done.stderr)
            failed += bool(lines)
            self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done)
            self.assertEqual(len(lines), len(set(lines)), "said once in each process")
        if not failed:
            self.skipTest("the loader needs more than the library")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_file_with_the_process_number(self):
        _, lines = run(SLUB_PROFILE="1", SLUB_PROFILE_FILE=os.path.join(self.folder, "heap.%p"))
        self.assertEqual(lines, [])
        name, = os.listdir(self.folder)
        self.assertRegex(name, r"^heap\.\d+$")

    def test_within_the_string(self):
        path = os.path.join(self.folder, "heap")
        run(SLUB_OPTIONS=f"profile_file={path},retain=1M")
        self.assertEqual(os.listdir(self.folder), ["heap"])

    def test_a_file_that_cannot_be_written(self):
        self.assertEqual(run(SLUB_PROFILE_FILE="/nonexistent/heap")[1], [])
        lines = run(SLUB_VERBOSE="1", SLUB_PROFILE_FILE="/nonexistent/heap")[1]
        self.assertTrue(any("/nonexistent/heap" in line for line in lines), lines)

    def test_a_fifo_that_nobody_reads(self):
        path = os.path.join(self.folder, "fifo")
        os.mkfifo(path)
        self.assertEqual(run(SLUB_PROFILE="1M", SLUB_PROFILE_FILE=path)[1], [])
        lines = run(SLUB_VERBOSE="1", SLUB_PROFILE="1M", SLUB_PROFILE_FILE=path)[1]
        self.assertTrue(any(path in line for line in lines), lines)


@unittest.skipUnless(os.geteuid() == 0, "needs root to make a set-user-ID program")
class SetUserId(unittest.TestCase):
    def setUp(self):
        if not STATIC_PROBE:
            self.skipTest("no libslub.a in this build")
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o777)
        self.program = os.path.join(self.folder, "probe")
        shutil.copy(STATIC_PROBE, self.program)
        os.chmod(self.program, 0o755 | stat.S_ISUID)
        if os.statvfs(self.program).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")

    def test_ignores_them_all(self):
        table = os.path.join(self.folder, "table")
        env = {"SLUB_FASTPATH": "lock", "SLUB_VERBOSE": "1", "SLUB_RETAIN": "12Q",
               "SLUB_OPTIONS": "huge=never",
               "SLUB_STATS_FILE": table, "SLUB_PROFILE": "1", "SLUB_PROFILE_FILE": table,
               "SLUB_DEBUG": "UT", "SLUB_DEBUG_LEAKS": table, "SLUB_DEBUG_REPORT": table}
        done = subprocess.run([self.program], env=env, capture_output=True, text=True,
                              user=65534, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "")
        values = dict(map(str.split, done.stdout.splitlines()))
        default = run(STATIC_PROBE)[0]
        for name in ("backend", "retain_bytes", "huge"):
            self.assertEqual(int(values[name]), default[name], name)
        self.assertFalse(os.path.exists(table))


if __name__ == "__main__":
    PROBE, STATIC_PROBE, LIBRARY, *cores = sys.argv[1:]
    CORE = cores[0] if cores else ""
    unittest.main(argv=sys.argv[:1], verbosity=2)
