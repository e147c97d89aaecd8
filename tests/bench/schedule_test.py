# SPDX-License-Identifier: MIT
"""Rounds, their order and the time they may take; no benchmark runs."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

import canned		# sets the path
import allocators
import huge_pages
import job
import machine
import plan
import process
import progress
import results as store
import rounds


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Time(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()

    def test_rounds_shrink_when_the_machine_is_slow(self):
        made = progress.Progress(100, self.clock.now + 100, self.clock)
        self.assertEqual(made.rounds(5), 5)
        self.clock.now += 60		# 20 s of the estimate took 60: a third of the speed
        made.done = 20
        self.assertEqual(made.rounds(5), 1)
        self.assertEqual(made.rounds(50), 8)

    def test_no_round_after_the_end(self):
        made = progress.Progress(100, self.clock.now + 10, self.clock)
        self.clock.now += 11
        self.assertEqual(made.rounds(5), 0)

    def test_without_a_limit_all_are_run(self):
        made = progress.Progress(100, None, self.clock)
        self.clock.now += 10000
        self.assertEqual(made.rounds(5), 5)

    def test_time_left(self):
        made = progress.Progress(100, None, self.clock)
        made.done, self.clock.now = 50, self.clock.now + 25
        self.assertAlmostEqual(made.left(), 25)

    def test_durations(self):
        self.assertEqual(progress.duration(89), "89 s")
        self.assertEqual(progress.duration(300), "5 min")


def runner(names, mode="full"):
    made = rounds.Runner("/nowhere", [allocators.Allocator(name, None, "1") for name in names],
                         mode, None, store.Results())
    return made


def a_job(**more):
    return job.Job("it", "a title", "program", "", "", (3, 5), (1.0, 2.0), **more)


class Order(unittest.TestCase):
    def names(self, made, one, number):
        return [allocator.name for allocator in made.order(one, number)]

    def test_rounds_begin_with_another_one_each(self):
        made, one = runner(["a", "b", "c"]), a_job()
        self.assertEqual(self.names(made, one, 0), ["a", "b", "c"])
        self.assertEqual(self.names(made, one, 1), ["b", "c", "a"])
        self.assertEqual(self.names(made, one, 4), ["b", "c", "a"])

    def test_who_failed_once_is_not_run_again(self):
        made = runner(["a", "b"])
        made.results.fail("it", "a", "why")
        self.assertEqual(self.names(made, a_job(), 0), ["b"])

    def test_the_slow_one_has_two_rounds(self):
        made, one = runner(["a", "hardened"]), a_job(kind="workload")
        self.assertIn("hardened", self.names(made, one, 1))
        self.assertNotIn("hardened", self.names(made, one, 2))

    def test_the_plan_fits_its_minutes(self):
        for mode, columns in (("quick", 7), ("full", 8)):
            made = runner(["x"] * columns, mode)
            jobs = [one for one in plan.JOBS if one.rounds_of[mode]]
            self.assertLess(made.expected(jobs), plan.MINUTES[mode] * 60)

    def test_names_are_unique(self):
        names = [one.name for one in plan.JOBS]
        self.assertEqual(len(names), len(set(names)))


class Rounds(unittest.TestCase):
    def test_figures_of_another_malloc_do_not_count(self):
        made = rounds.Runner("/nowhere", [allocators.Allocator("a", "/lib/a.so", "1")], "full",
                             None, store.Results())
        with mock.patch.object(rounds, "execute",
                               lambda *_: {"malloc": "/lib/libc.so.6", "rows": []}):
            made.round(a_job(), 0, [], progress.Progress(1, None))
        self.assertIn("the preload did not take effect", made.results.failures("it")["a"])

    def test_what_needs_more_memory_than_there_is_names_it(self):
        made = runner(["a"])
        with mock.patch.object(rounds.machine, "available_mib", lambda: 100):
            made.round(a_job(mib=200), 0, [], progress.Progress(1, None))
        self.assertEqual(made.results.failures("it"),
                         {"a": "needs up to 200 MiB free, there are 100"})


class Lacks(unittest.TestCase):
    """What a machine does not have stands in the report, with the reason."""

    def of(self, cpus=2, huge="always", free=1 << 40):
        usage = mock.Mock(free=free)
        with mock.patch.object(machine.os, "sched_getaffinity", lambda _: set(range(cpus))), \
                mock.patch.object(machine, "_chosen", lambda _: huge), \
                mock.patch.object(machine.shutil, "disk_usage", lambda _: usage):
            return machine.lacks("/nonexistent")

    def test_nothing(self):
        self.assertEqual(self.of(), {})

    def test_one_cpu_no_huge_pages_little_disk(self):
        self.assertIn("take turns on one", self.of(cpus=1)["a second CPU"])
        self.assertIn("off or not there", self.of(huge="never")["huge pages"])
        self.assertIn("100 MiB free", self.of(free=100 << 20)["disk"])

    def test_no_restartable_sequences(self):
        free, forced = allocators.Allocator("libslub", "/l.so", "1"), allocators.Allocator(
            "libslub:tid", "/l.so", "1", {"SLUB_FASTPATH": "tid"})
        check = "libslub in use; file /x/rseq/l.so; backend %s; CPU number thread"
        self.assertEqual(machine.lacks_rseq(free, check % "rseq"), {})
        self.assertEqual(machine.lacks_rseq(free, ""), {})
        self.assertEqual(machine.lacks_rseq(forced, check % "tid"), {})
        self.assertIn("backend thread", machine.lacks_rseq(free, check % "thread")[
            "restartable sequences"])

    def test_whether_there_is_rseq_is_the_machines(self):
        with mock.patch.dict(os.environ, {
                "GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.pthread.rseq=0"}):
            env = allocators.Allocator("libslub", "/l.so", "1").environment()
        self.assertEqual(env["GLIBC_TUNABLES"], "glibc.pthread.rseq=0")
        with mock.patch.dict(os.environ, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}):
            env = allocators.Allocator("libslub", "/l.so", "1").environment()
        self.assertNotIn("GLIBC_TUNABLES", env)

    def test_peers_that_are_not_there(self):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "peers"))
            with open(os.path.join(build, "peers", "jemalloc.left-out"), "w",
                      encoding="utf-8") as file:
                file.write("cargo is not installed")
            chosen, left_out = allocators.find(build, None)
        self.assertEqual([one.name for one in chosen], ["glibc"])
        self.assertEqual(left_out["jemalloc"], "cargo is not installed")
        self.assertIn("bench/peers/get", left_out["mimalloc"])
        self.assertIn("`make` builds it", left_out["libslub"])

    def test_no_room_for_the_results(self):
        loader = importlib.machinery.SourceFileLoader("bench_run",
                                                      os.path.join(canned.BENCH, "run"))
        bench_run = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("bench_run", loader))
        loader.exec_module(bench_run)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            kept = bench_run.keep(canned.data(), "/dev/full/results.json")
        self.assertFalse(kept)
        self.assertIn("/dev/full/results.json is left out: ", said.getvalue())
        self.assertIn("churn_fixed", said.getvalue())


class Processes(unittest.TestCase):
    def answer(self, code, **more):
        return process.execute([sys.executable, "-c", code], {}, **more)

    def test_its_line_is_read(self):
        self.assertEqual(self.answer("print('{\"rows\": []}')"), {"rows": []})

    def test_a_status_is_a_failure_with_the_last_message(self):
        with self.assertRaisesRegex(process.Failure, "status 3: two"):
            self.answer("import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)")

    def test_a_signal_is_a_failure(self):
        with self.assertRaisesRegex(process.Failure, "signal 9"):
            self.answer("import os; os.kill(os.getpid(), 9)")

    def test_a_process_that_does_not_end_is_ended(self):
        with self.assertRaisesRegex(process.Failure, "no end within 1 s"):
            self.answer("import time; time.sleep(100)", timeout=1)


class HugePages(unittest.TestCase):
    """In a file that stands for the system's."""
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w+", encoding="ascii")
        self.addCleanup(self.file.close)
        self.write("always [madvise] never")

    def write(self, text):
        with open(self.file.name, "w", encoding="ascii") as file:
            file.write(text)

    def text(self):
        with open(self.file.name, encoding="ascii") as file:
            return file.read()

    def test_the_mode_comes_back_also_after_an_error(self):
        self.assertEqual(huge_pages.current(self.file.name), "madvise")
        with self.assertRaises(KeyError):
            with huge_pages.system_mode("never", self.file.name):
                self.assertEqual(self.text(), "never")
                raise KeyError
        self.assertEqual(self.text(), "madvise")

    def test_without_a_mode_nothing_is_written(self):
        with huge_pages.system_mode(None, self.file.name):
            pass
        self.assertEqual(self.text(), "always [madvise] never")


if __name__ == "__main__":
    unittest.main()
