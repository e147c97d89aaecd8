# SPDX-License-Identifier: MIT
"""Promise: bench/reclaim/server_under_pressure and idle_return run, and tell who lived."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "driver"))
import allocators		# noqa: E402  (after the path is set)

BUILD = os.environ.get("SLUB_BUILD", os.path.join(ROOT, "build"))


class Pressure(unittest.TestCase):
    def run_script(self, name, out, *options):
        command = [os.path.join(ROOT, "bench", "reclaim", name), "--build", BUILD, "--out", out,
                   "--allocators", "libslub", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_a_cache_lives_in_less_than_it_wants(self):
        with tempfile.TemporaryDirectory() as out:
            text = self.run_script("server_under_pressure", out, "--servers", "lru", "--seconds",
                                   "6", "--limit", "32")
            with open(os.path.join(out, "server_under_pressure.json"), encoding="utf-8") as file:
                result, = json.load(file)["results"]
        self.assertIn("lived", text)
        self.assertEqual(result["outcome"], "lived")
        self.assertGreater(result["samples"][-1]["shrunk"], 0)
        self.assertGreater(result["samples"][-1]["entries"], 1000)

    def test_a_server_has_the_malloc_of_its_row(self):
        """A program that is linked with jemalloc, or any other library that has malloc."""
        with tempfile.TemporaryDirectory() as out:
            library, program = os.path.join(out, "libother.so"), os.path.join(out, "program")
            self.compile("void *malloc(unsigned long n) { (void)n; return 0; }", library,
                         "-shared", "-fPIC", "-fno-builtin")
            self.compile("#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }",
                         program, library, f"-Wl,-rpath,{out}", "-Wl,--no-as-needed")
            own = allocators.Allocator("own", None, "")
            self.assertEqual(allocators.malloc_of(program, own.environment()),
                             os.path.realpath(library))
            glibc = allocators.Allocator("glibc", None, "").preloaded(program)
            self.assertEqual(os.path.basename(allocators.malloc_of(program, glibc)), "libc.so.6")
            missing = allocators.Allocator("peer", os.path.join(out, "libpeer.so"), "")
            with self.assertRaisesRegex(allocators.WrongMalloc, "peer: malloc of .* is "):
                missing.preloaded(program)

    @staticmethod
    def compile(source, target, *more):
        subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-", "-x", "none", "-o", target,
                        *more], input=source, text=True, check=True)

    def test_a_burst_goes_back(self):
        with tempfile.TemporaryDirectory() as out:
            self.run_script("idle_return", out, "--mib", "64", "--wait", "1500", "--shapes",
                            "freed-random,freed-mixed,tenth-in-runs")
            with open(os.path.join(out, "idle_return.json"), encoding="utf-8") as file:
                results = json.load(file)
        thread = {one["shape"]: one for one in results if one["allocator"] == "libslub thread"}
        self.assertEqual(len(thread), 3)
        for one in thread.values():
            self.assertLessEqual(one["live"], one["pinned"] + (1 << 20))
        # Not a time, but what is kept: the wait is longer than the thread's.
        for shape in ("freed-random", "freed-mixed"):
            self.assertLess(thread[shape]["rest"], thread[shape]["peak"] / 4, shape)

    def test_several_waits_with_a_trickle(self):
        with tempfile.TemporaryDirectory() as out:
            text = self.run_script("idle_return", out, "--mib", "16", "--wait", "100,300",
                                   "--trickle", "50", "--shapes", "freed-random")
            with open(os.path.join(out, "idle_return.json"), encoding="utf-8") as file:
                results = json.load(file)
        self.assertIn("0.1 s    0.3 s", text)
        self.assertGreater(len(results), 1)
        for one in results:
            self.assertEqual((len(one["rests"]), one["rests"][-1]), (2, one["rest"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
