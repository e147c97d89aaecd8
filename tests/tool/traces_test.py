#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub traces` tells of a living process and of its core file who allocated and who freed
what, with counts, bytes, waste and names, the most first; `slub watched`
tells the same of a core.

usage: traces_test.py SLUB LIBRARY HEAP GDB_SCRIPT SITES"""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

SITES = os.path.abspath(sys.argv.pop(5)) if len(sys.argv) == 6 else None

from target import HEAP, NOBODY, SLUB, Target, cache_named, slub    # it looks at the arguments

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "helpers", "sites.c")
BUSY = """
import threading
print("ready", flush=True)
def work():
    keep = []
    while True:
        keep.append([bytes(n) for n in range(40, 60)])
        if len(keep) > 300:
            keep = keep[200:]
for _ in range(3):
    threading.Thread(target=work).start()
"""


class Sites(Target):
    def sites(self, letters="U", **more):
        return self.start(SITES, SLUB_DEBUG=f"{letters},malloc-1024", **more)

    def rows(self, told, kind="alloc_traces"):
        """[(count, bytes, waste, function)] of malloc-1024, without main's buffer for stdout."""
        cache = next(c for c in told[kind] if c["cache"] == "malloc-1024")
        rows = [(t["count"], t["bytes"], t["waste"], t["stack"][0].get("function"))
                for t in cache["traces"] if t["stack"]]
        return [row for row in rows
                if row[3] in ("site_a", "site_b", "site_deferred", "free_all", "main")]

    def check(self, told):
        self.assertEqual(told["kind"], "traces")
        self.assertEqual(self.rows(told), [(20, 20000, 20 * 24, "site_a"),
                                           (9, 9 * 1020, 9 * 4, "site_b")])
        freed = self.rows(told, "free_traces")
        self.assertEqual({row[3] for row in freed}, {"free_all"})
        self.assertGreaterEqual(sum(row[0] for row in freed), 20)
        first = told["alloc_traces"][0]["traces"][0]
        self.assertEqual([f.get("function") for f in first["stack"]][:2], ["site_a", "main"])
        self.assertTrue(first["stack"][0]["file"].endswith("sites.c"))
        self.assertEqual(first["threads"], {"min": told["pid"], "max": told["pid"]})
        ages = first["age_ms"]
        self.assertLessEqual(ages["min"], ages["average"])
        self.assertLessEqual(ages["average"], ages["max"])
        self.assertTrue(first["cpus"] and first["nodes"])

    def test_a_process_that_sleeps(self):
        for letters in ("U", "FZPU"):
            with self.subTest(letters=letters):
                told = self.told("traces", self.sites(letters).pid)
                self.check(told)
                self.assertEqual(told["alloc_traces"][0]["letters"], letters)

    def test_a_core_file(self):
        core = self.core_of(self.sites("FZPU"))
        self.check(self.told("traces", core))
        text = slub("watched", "-p", core).stdout
        self.assertRegex(text, r"(?m)^20 malloc-1024 site_a \(\S+:\d+\) bytes=20000 waste=480/24 "
                               r"age=\d+/\d+/\d+ms pid=\d+-\d+ cpus=[\d,-]+\n\tsite_a ")
        self.assertRefused(slub("watched", "-p", core, "malloc-96"), 6, "letter U")
        self.assertRefused(slub("traces", "-p", core, "malloc-96"), 6, "letter U")

    def test_text(self):
        pid = str(self.sites().pid)
        text = slub("traces", "-p", pid, "malloc-1*").stdout
        self.assertRegex(text, r"^malloc-1024/alloc_traces: \d+ objects, \d+ bytes asked for, \d+ ")
        self.assertRegex(text, r"(?m)^ +20 site_a \(\S+sites\.c:\d+\) waste=480/24 "
                               r"age=\d+/\d+/\d+ pid=\d+ cpus=[\d,-]+\n\tsite_a .*\n\tmain ")
        self.assertIn("\nmalloc-1024/free_traces: ", text)
        counts = [int(n) for n in re.findall(r"(?m)^ +(\d+) ", text.split("free_traces")[0])]
        self.assertEqual(counts, sorted(counts, reverse=True))
        alloc = slub("traces", "-p", pid, "--alloc", "-N1", "--once").stdout
        self.assertNotIn("free_traces", alloc)
        self.assertEqual(len(re.findall(r"(?m)^ +\d+ ", alloc)), 1)
        self.assertNotIn("alloc_traces", slub("traces", "-p", pid, "--free").stdout)
        self.assertIn("\033[", slub("traces", "-p", pid, "--color").stdout)

    def test_inlined_functions(self):
        lines = [number for number, line in enumerate(open(SOURCE), 1)
                 if re.search(r"return (innermost|between)\(|= malloc", line)][-3:]
        process = self.sites()
        stack = next(trace["stack"] for cache in self.told("traces", process.pid)["alloc_traces"]
                     for trace in cache["traces"]
                     if trace["stack"] and trace["stack"][0].get("function") == "innermost")
        self.assertEqual(stack[0]["line"], lines[0])
        self.assertEqual([(f["function"], f["line"]) for f in stack[0]["inlined_in"]],
                         [("between", lines[1]), ("site_inlined", lines[2])])
        self.assertEqual({f["file"] for f in stack[0]["inlined_in"]}, {stack[0]["file"]})
        self.assertNotIn("inlined_in", stack[1])
        self.assertRegex(slub("traces", str(process.pid)).stdout,
                         rf"\n\tinnermost \(\S+sites\.c:{lines[0]}\)"
                         rf"\n\t    inlined in between \(\S+sites\.c:{lines[1]}\)"
                         rf"\n\t    inlined in site_inlined \(\S+sites\.c:{lines[2]}\)"
                         r"\n\tmain ")

    def test_letters_are_told(self):
        process = self.sites("FZU")
        caches = self.told("info", process.pid, "-z")["caches"]
        self.assertEqual(cache_named({"caches": caches}, "malloc-1024:FZU")["debug"], 0b1011)
        self.assertEqual(cache_named({"caches": caches}, "malloc-1024")["debug"], 0)
        line = slub("info", "-p", str(process.pid), "malloc-1024:*").stdout.splitlines()[-1]
        self.assertTrue(line.endswith(" FZU"), line)

    def test_another_file_gives_no_names(self):
        """A program that was replaced since must not lend its names."""
        mine = self.path("mine")
        shutil.copy(SITES, mine)
        process = self.start(mine, SLUB_DEBUG="U,malloc-1024")
        os.remove(mine)
        shutil.copy(HEAP, mine)
        self.assertNotIn("site_a", slub("traces", "-p", str(process.pid)).stdout)

    def test_a_busy_process(self):
        process = self.start(sys.executable, "-c", BUSY, PYTHONMALLOC="malloc",
                             SLUB_DEBUG="FZPU,malloc-96,malloc-80")
        for _ in range(25):
            told = self.told("traces", process.pid, "-N", "3")
            for cache in told["alloc_traces"]:
                for trace in cache["traces"]:
                    self.assertGreater(trace["count"], 0)
                    self.assertLessEqual(trace["bytes"], trace["count"] * 96)
        self.assertIsNone(process.poll())

    def test_layouts_of_all_letters_and_sizes(self):
        process = self.start(HEAP, "wait", SLUB_DEBUG="FZPU")
        told = self.told("traces", process.pid, "--alloc")
        self.assertEqual(cache_named({"caches": [dict(c, name=c["cache"])
                                                 for c in told["alloc_traces"]]},
                                     "malloc-112")["traces"][0]["count"], 2000)
        large = next(c for c in told["alloc_traces"] if c["cache"] == "malloc-20480")
        self.assertEqual(sum(t["count"] for t in large["traces"] if t["bytes"] // t["count"] ==
                             20000), 2)


class Refusals(Target):
    def test_arguments(self):
        self.assertRefused(slub("traces"), 2, "a PID")
        self.assertRefused(slub("traces", "-p", "1", "a", "b"), 2, "'b'")
        self.assertRefused(slub("traces", "-p", "1", "--alocs"), 2, "--alloc")
        self.assertRefused(slub("traces", "-p", "1", "--lines=0"), 2, "--lines")
        self.assertRefused(slub("traces", "-p", "1", "--openmetrics"), 2, "metric")

    def test_targets(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        plain = self.start("sh", "-c", "echo ready; read x", library=" ")
        pid = str(self.heap(SLUB_STATS_FILE=self.path("stats"), SLUB_DEBUG="F").pid)
        self.assertRefused(slub("traces", "-p", str(gone.pid)), 4)
        self.assertRefused(slub("traces", "-p", "/nonexistent"), 4)
        self.assertRefused(slub("traces", "-p", str(plain.pid)), 1, "does not use libslub")
        self.assertRefused(slub("traces", "-p", pid), 6, "letter U")
        for command in ("traces", "leaks", "watched"):
            self.assertRefused(slub(command, "-p", self.path("stats")), 2, "statistics file")
            self.assertRefused(slub(command, "-p", SLUB), 5, "neither")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_permission(self):
        pid = str(self.heap(SLUB_DEBUG="U").pid)
        self.assertRefused(slub("traces", "-p", pid, user=NOBODY), 3)


class Undisturbed(Target):
    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_the_process_does_nothing_for_it(self):
        process = self.start(SITES, SLUB_DEBUG="FZPU")
        log = self.path("calls")
        tracer = subprocess.Popen(["strace", "-f", "-o", log, "-p", str(process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        line = tracer.stderr.readline()
        if "attached" not in line:
            tracer.communicate()
            self.skipTest(line.strip())
        for _ in range(20):
            self.assertEqual(slub("traces", "-p", str(process.pid)).returncode, 0)
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
        with open(log) as file:
            self.assertEqual([line for line in file if "read(0" not in line], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
