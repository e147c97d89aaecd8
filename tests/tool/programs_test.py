#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub top`, `info`, `map`, `leaks` and `traces` show python3, redis-server and node that
run preloaded, the core of one that crashed, and the statistics file of one killed by SIGKILL.

usage: programs_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

from target import LIBRARY, Target, environment, limit_core, slub

PYTHON = ("import sys; x = [bytes(i % 900) for i in range(20000)]; print('ready', flush=True);"
          "sys.stdin.read()")
NODE = ("globalThis.x = []; for (let i = 0; i < 20000; i++) x.push(Buffer.alloc(i % 900));"
        "console.log('ready'); process.stdin.resume()")
SETTINGS = {"SLUB_DEBUG": "U,malloc-64,malloc-96,malloc-128"}


def in_bytes(size):
    """Of a text such as 16.0K."""
    return float(size.rstrip("KMG")) * 1024 ** " KMG".index(size[-1] if size[-1] in "KMG" else " ")


class Programs(Target):
    def python(self, **more):
        return self.start(sys.executable, "-c", PYTHON, PYTHONMALLOC="malloc", **more)

    def node(self, **more):
        if not shutil.which("node"):
            self.skipTest("no node here")
        return self.start("node", "-e", NODE, **more)

    def redis(self, **more):
        if not shutil.which("redis-server"):
            self.skipTest("no redis-server here")
        path = self.path("redis.sock")
        if os.path.exists(path):        # of one that crashed
            os.remove(path)
        process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--dir", self.folder, "--save",
             "", "--crash-log-enabled", "no"], stdout=subprocess.DEVNULL, cwd=self.folder,
            preexec_fn=limit_core, env=environment(LD_PRELOAD=LIBRARY, **more))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(400):
            if os.path.exists(path):
                break
            time.sleep(0.05)
        subprocess.run(["redis-cli", "-s", path, "debug", "populate", "20000"], check=False,
                       capture_output=True)
        return process

    def text(self, *arguments):
        done = slub(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), (arguments, done.stderr))
        self.assertNotEqual(done.stdout, "")
        return done.stdout

    def look(self, target, has_heap):
        self.assertRegex(self.text("top", "-p", target, "--once"), r"(?m)^ *\d+ .* malloc-\d+\S*$")
        self.assertRegex(self.text("info", "-p", target, "-S"), r"(?m)^malloc-\d+\S* +\d+ +\d+ ")
        if not has_heap:
            for command in (("map",), ("traces",), ("leaks",), ("watched",)):
                self.assertRefused(slub(*command, "-p", target), 2, "statistics file")
            return
        self.assertRegex(self.text("map", "-p", target), r"(?m)^A malloc-\d+\S* ")
        svg = ElementTree.fromstring(self.text("map", "-p", target, "--svg",
                                                "--columns=64"))
        self.assertGreater(len(svg), 20)
        # A row begins where the one before ends; of many each fourth says where.
        cell = re.search(r"a cell is (\S+)", " ".join(svg.itertext())).group(1)
        begins = [each.text for each in svg.iter() if each.get("text-anchor") == "end"]
        self.assertIn(in_bytes(begins[1]), (64 * in_bytes(cell), 256 * in_bytes(cell)))
        self.assertRegex(self.text("traces", "-p", target, "--alloc", "-N3"),
                         r"(?m)^malloc-64/alloc_traces: \d+ objects")

    def check(self, start):
        process = start(**SETTINGS)
        pid = str(process.pid)
        self.look(pid, True)
        living = self.told("stats", pid)
        core = self.core_of(process)
        self.look(core, True)
        text = self.text("watched", "-p", core)
        self.assertRegex(text, r"(?m)^\d+ malloc-\d+ .* bytes=\d+")
        slabs = [sum(cache["slabs"] for cache in told["caches"])
                 for told in (living, self.told("stats", core))]
        # It went on for a moment before it died.
        self.assertLess(abs(slabs[0] - slabs[1]), slabs[0] / 5)
        killed = start(SLUB_STATS_FILE=self.path("stats.%p"), **SETTINGS)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        self.look(self.path(f"stats.{killed.pid}"), False)

    def test_python3(self):
        self.check(self.python)

    def test_redis(self):
        self.check(self.redis)

    def test_node(self):
        self.check(self.node)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
