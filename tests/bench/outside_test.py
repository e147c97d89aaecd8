# SPDX-License-Identifier: MIT
"""Promise: bench/outside/run notices a wrong answer, names what is not there, and never averages
real programs with loops."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "outside",
                   "run")
LIBRARY = os.path.join(os.environ.get("SLUB_BUILD", "build"), "libslub.so")


def run(*words, first="/usr/bin"):
    return subprocess.run([sys.executable, RUN, "--rounds", "1", "--least", "0", *words],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": first + ":" + os.environ["PATH"]})


class Table(unittest.TestCase):
    """The table of bench/report/write, of figures made up here."""
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = os.path.join(self.folder.name, "page.md")
        self.write(self.page, "a\n<!-- OUTSIDE-BEGIN: old -->\nold\n<!-- OUTSIDE-END -->\nb\n")

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def table(self, samples):
        names = dict.fromkeys(name for row in samples.values() for name in row)
        data = {"started": "2026-01-02", "rounds": 1, "allocators": names, "samples": samples,
                "machine": {"tree": "abc", "processor": "P", "cpus": 2, "virtual": True,
                            "kernel": "6", "libc": "glibc 2.36", "load": 0.5}}
        path = os.path.join(self.folder.name, "samples.json")
        self.write(path, json.dumps(data))
        done = subprocess.run([sys.executable, os.path.join(os.path.dirname(RUN), "..", "report",
                                                            "write"), path, self.page],
                              capture_output=True, text=True, check=False)
        with open(self.page, encoding="utf-8") as file:
            return done, file.read()

    def test_ratios_and_means(self):
        row = {"glibc": [[2.0, 100]], "peer": [[1.0, 200]], "libslub": [[1.5, 150]]}
        late = {"glibc": [[2.0, 100]], "peer": [], "libslub": [[1.0, 100]]}
        done, text = self.table({"lua": row, "perl": late, "cfrac": row})
        self.assertEqual(done.stderr, "")
        self.assertNotIn("old", text)
        for line in ("| `lua` | 1.50 | 0.75 | – | 1.50 | 1.50 | – |",
                     "| `perl` | 0.50 | 0.50 | – | 1.00 | 1.00 | – |",
                     "| real programs | 0.87 | 0.61 | – | 1.22 | 1.22 | – |",
                     "| mimalloc-bench | 1.50 | 0.75 | – | 1.50 | 1.50 | – |",
                     "| time, real programs, 1 rows | 2.00 | 1.00 | 1.50 |",
                     "| `lua` | time | 1.50 | peer |", "| `lua` | peak | 1.50 | glibc |"):
            self.assertIn(line, text)
        self.assertNotIn("| `perl` | time", text)

    def test_intervals(self):
        """First is said where the intervals say so, and nothing where rounds are too few."""
        rounds = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.03, 0.97]
        row = {name: [[scale * one, 100] for one in rounds[at:] + rounds[:at]]
               for at, (name, scale) in enumerate((("slow", 2.0), ("close", 1.0),
                                                   ("libslub", 1.0), ("libslub-copy", 1.0)))}
        _, text = self.table({"lua": row, "perl": row})
        self.assertIn("| libslub by | slow | close | libslub-copy |", text)
        self.assertRegex(text, r"\| time, real programs \| 0\.\d+ \(0\.4\d+ to 0\.5\d+\) \| "
                               r"[01]\.\d+ \(0\.9\d+ to 1\.0\d+\) \|")
        self.assertIn("- time, real programs: before slow; level with close", text)
        del row["close"]
        self.assertIn("- time, real programs: first", self.table({"lua": row})[1])
        few = {name: one[:4] for name, one in row.items()}
        self.assertIn("fewer than 5 rounds, no order", self.table({"lua": few})[1])
        row["slow"].pop()
        self.assertNotIn("first", self.table({"lua": row})[1])

    def test_nothing_to_compare_with(self):
        done, text = self.table({"lua": {"libslub": [[1.0, 1]]}})
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing beside it", done.stderr)
        self.assertIn("old", text)


class Arguments(unittest.TestCase):
    def test_a_library_that_is_not_there(self):
        done = run("--allocator", "x=/none/x.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/none/x.so: no such library", done.stderr)

    def test_an_unknown_row(self):
        done = run("--allocator", "glibc=", "--only", "nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no row nothing; rows: redis", done.stderr)

    def test_loops_need_their_folder(self):
        done = run("--allocator", "glibc=", "--only", "cfrac")
        self.assertIn("need --bench DIR", done.stderr)


@unittest.skipUnless(os.path.exists("/usr/bin/time"), "no /usr/bin/time")
class Answers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program("lua", "echo ${ANSWER:-right}")

    def program(self, name, line):
        """One that comes before the real one."""
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)

    def samples(self, *words):
        path = os.path.join(self.folder.name, "samples.json")
        done = run("--json", path, *words, first=self.folder.name)
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)["samples"]

    def test_another_answer_is_a_failure(self):
        done, samples = self.samples("--only", "lua", "--allocator", "glibc=",
                                     "--allocator", "libslub-wrong=,ANSWER=wrong")
        self.assertEqual(done.returncode, 1)
        self.assertIn("libslub-wrong: lua: another answer", done.stderr)
        self.assertEqual([len(samples["lua"][name]) for name in ("glibc", "libslub-wrong")],
                         [1, 0])

    def test_a_peer_that_fails_is_no_failure_of_the_run(self):
        done, _ = self.samples("--only", "lua", "--allocator", "glibc=",
                               "--allocator", "peer=,ANSWER=wrong")
        self.assertEqual(done.returncode, 0)

    def test_a_short_program_runs_several_times(self):
        """Not for ever either, where the clock's hundredths are all 0."""
        ran = os.path.join(self.folder.name, "ran")
        self.program("lua", f"echo >>{ran}; echo right")
        self.samples("--only", "lua", "--allocator", "glibc=", "--least", "10")
        with open(ran, encoding="ascii") as file:
            self.assertIn(len(file.readlines()), range(3, 103))

    def test_a_program_that_does_not_end(self):
        """It is ended, with its children, and the next allocator's turn comes."""
        self.program("lua", "[ $STUCK ] && { sleep 1000; echo; }; echo right")
        os.environ["TIMEOUT"] = "1"
        self.addCleanup(os.environ.pop, "TIMEOUT")
        done, samples = self.samples("--only", "lua", "--allocator", "peer=,STUCK=1",
                                     "--allocator", "glibc=")
        self.assertEqual(done.returncode, 0)
        self.assertIn("peer: lua: timeout after 1 s", done.stderr)
        self.assertEqual([len(one) for one in samples["lua"].values()], [0, 1])

    @unittest.skipUnless(os.path.exists(LIBRARY), "no library")
    def test_each_group_has_its_own_mean(self):
        """A loop that is no real one stands in for mimalloc-bench's."""
        self.program("malloc-large", "exec true")
        done, samples = self.samples(
            "--only", "memcached,lua,malloc-large", "--bench", self.folder.name,
            "--allocator", "glibc=", "--allocator", f"libslub={LIBRARY}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(all(len(one) == 1 for row in samples.values() for one in row.values()))
        for title in ("Real programs: CPU time, by", "Real programs: peak memory, by",
                      "Programs of mimalloc-bench: CPU time, by"):
            self.assertEqual(done.stdout.count(title), 1, done.stdout)
        self.assertEqual(done.stdout.count("geometric mean"), 4)

    @unittest.skipUnless(shutil.which("memcached"), "no memcached")
    def test_a_server_without_the_library_is_noticed(self):
        """A library that the loader cannot take: a file that is none."""
        path = os.path.join(self.folder.name, "none.so")
        with open(path, "w", encoding="ascii"):
            pass
        done, samples = self.samples("--only", "memcached,lua", "--allocator", f"libslub={path}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not have the library", done.stderr)
        self.assertIn("cannot be preloaded", done.stderr)
        self.assertEqual(samples, {"memcached": {"libslub": []}, "lua": {"libslub": []}})


if __name__ == "__main__":
    unittest.main()
