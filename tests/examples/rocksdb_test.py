# SPDX-License-Identifier: MIT
"""RocksDB with the tenants of examples/programs/rocksdb: right answers beside a hostile tenant, an
account that is exact, refusals in RocksDB's words; and Debian's db_bench, unchanged, lives in a
control group where its own cache is killed."""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ARGS = None
ALL = 1 << 40		# a capacity of the cache: more than there is


class Rocksdb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.database = os.path.join(cls.folder.name, "tenants")
        subprocess.run([ARGS.load, "make", cls.database, "10000"], check=True, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def load(self, caches, hostile, mib):
        copy = os.path.join(self.folder.name, "run")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.database, copy, copy_function=os.link)
        return subprocess.run([ARGS.load, "run", copy, caches, hostile, "0.7", str(mib)],
                              capture_output=True, text=True, check=False, timeout=60)

    def runs(self, *words):
        done = self.load(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_methods(self):
        done = subprocess.run([ARGS.methods], capture_output=True, text=True, check=False,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)

    def test_a_hostile_tenant(self):
        """The load compares each value that it reads, and ends with 4 if one is wrong."""
        for hostile in ("none", "scan", "write", "shrink"):
            with self.subTest(hostile=hostile):
                line = self.runs("slub", hostile, 8)
                measured, other = line["tenants"]
                self.assertGreater(measured["requests"], 0)
                self.assertEqual(measured["refused"], 0)
                self.assertEqual(line["left_blocks"], [0, 0])
                for tenant in (measured, other):
                    self.assertLessEqual(tenant["charged"], tenant["limit"])
                    self.assertGreaterEqual(tenant["charged"], tenant["blocks"])

    def test_a_tenant_that_never_frees(self):
        line = self.runs("slub", "pin", 6)
        measured, other = line["tenants"]
        self.assertEqual(measured["refused"], 0)
        self.assertGreater(other["refused"], 0)
        self.assertIn("Memory limit reached: tenant hostile", other["words"])
        self.assertLessEqual(other["charged"], other["limit"] + (1 << 20))
        self.assertEqual(line["left_blocks"], [0, 0])

    def test_a_limit_below_the_least(self):
        done = self.load("slub", "none", 3)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, "^load: Invalid argument: tenant measured: a limit of "
                                      "3145728 bytes is below the least, 5242880")

    def db_bench(self, folder, *words, preload="", enter=None):
        done = subprocess.run(
            ["db_bench", "--db=" + folder, "--num=100000", "--value_size=1000",
             "--compression_type=none", "--disable_wal=1", *words],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, **({"LD_PRELOAD": preload} if preload else {})}, preexec_fn=enter)
        return done.returncode, done.stdout + done.stderr

    def test_db_bench_lives_where_its_own_cache_is_killed(self):
        sys.path.insert(0, os.path.join(ARGS.source, "bench", "reclaim"))
        import memory_cgroup  # pylint: disable=import-outside-toplevel,import-error

        if not shutil.which("db_bench"):
            self.skipTest("no db_bench (scripts/setup test)")
        group = memory_cgroup.make(f"slub-rocksdb-{os.getpid()}", 48 << 20)
        if not group:
            self.skipTest("no memory cgroup can be made here")
        folder = os.path.join(self.folder.name, "bench")
        code, said = self.db_bench(folder, "--benchmarks=fillseq,compact")
        self.assertEqual(code, 0, said)
        words = ("--benchmarks=readrandom", "--use_existing_db=1", "--reads=40000",
                 f"--cache_size={ALL}")
        try:
            code, said = self.db_bench(folder, *words, enter=group.enter)
            self.assertEqual(code, -signal.SIGKILL, "the limit is too high for the test")
            code, said = self.db_bench(folder, *words, enter=group.enter,
                                       preload=f"{ARGS.library}:{ARGS.preload}")
            self.assertEqual(code, 0, said)
            self.assertIn("(40000 of 40000 found)", said)
            self.assertNotIn("RocksDB's own cache instead", said)
        finally:
            group.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("load", "methods", "preload", "library", "source"):
        parser.add_argument("--" + name, required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
