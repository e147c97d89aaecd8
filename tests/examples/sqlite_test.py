# SPDX-License-Identifier: MIT
"""SQLite with the page cache of examples/programs/sqlite answers as it does with its own, lives in
a control group where that is killed, and says so in its own words where there is no memory."""
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
ALL = "-10000000"	# PRAGMA cache_size: more than there is


def load(program, file, *words, env=None, enter=None):
    """What the program printed, as it ended: (return code, text, errors)."""
    shutil.copyfile(file, file + ".run")
    for suffix in ("-wal", "-shm"):
        if os.path.exists(file + ".run" + suffix):
            os.unlink(file + ".run" + suffix)
    done = subprocess.run([program, "run", file + ".run", *words], capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, preexec_fn=enter, check=False,
                          timeout=120)
    return done.returncode, done.stdout, done.stderr


def answers(text):
    line = json.loads(text)
    return line["sum"], line["counts"], line["integrity"]


class Sqlite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "small")
        subprocess.run([ARGS.stock, "make", cls.file, "8000"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def lives(self, program, *words, **more):
        code, text, errors = load(program, self.file, *words, **more)
        self.assertEqual(code, 0, errors)
        return json.loads(text)

    def both(self, *words):
        stock, slub = (self.lives(program, *words) for program in (ARGS.stock, ARGS.slub))
        for key in ("sum", "counts"):
            self.assertEqual(slub[key], stock[key])
        self.assertEqual(slub["integrity"], "ok")
        return stock, slub

    def test_the_methods(self):
        done = subprocess.run([ARGS.methods], capture_output=True, text=True, check=False,
                              timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_answers_and_hits_are_those_of_stock(self):
        for size in ("10", "500"):
            stock, slub = self.both("10000", size, "1", "100")
            self.assertAlmostEqual(slub["hits"], stock["hits"], delta=1, msg=size)

    def test_several_connections(self):
        self.both("3000", "300", "4", "100")
        self.both("3000", "300", "4", "20", "shared")

    def test_no_memory(self):
        """Below what the program needs at the least, it ends with its own words or gets by."""
        for limit in ("1M", "4M"):
            code, text, errors = load(ARGS.slub, self.file, "3000", ALL, "1", "100",
                                      env={"SLUB_LIMIT": limit})
            if code:
                self.assertEqual(code, 3, errors)
                self.assertRegex(errors, "load: .*: out of memory")
            else:
                self.assertEqual(json.loads(text)["integrity"], "ok")

    def test_a_limit_makes_a_small_cache_of_a_large_one(self):
        small, large = (self.lives(ARGS.slub, "10000", ALL, "1", "100", env=env)
                        for env in ({"SLUB_LIMIT": "5M"}, {}))
        self.assertLess(small["hits"], large["hits"])
        self.assertLess(small["rss_mib"], large["rss_mib"])
        self.assertEqual((small["sum"], small["integrity"]), (large["sum"], "ok"))

    def test_lives_where_stock_is_killed(self):
        sys.path.insert(0, os.path.join(ARGS.source, "bench", "reclaim"))
        import memory_cgroup  # pylint: disable=import-outside-toplevel,import-error

        group = memory_cgroup.make(f"slub-sqlite-{os.getpid()}", 32 << 20)
        if not group:
            self.skipTest("no memory cgroup can be made here")
        large = os.path.join(self.folder.name, "large")
        subprocess.run([ARGS.stock, "make", large, "50000"], check=True)
        try:
            words = ("40000", ALL, "1", "20")
            code, _, _ = load(ARGS.stock, large, *words, enter=group.enter)
            self.assertEqual(code, -signal.SIGKILL, "the limit is too high for the test")
            code, text, errors = load(ARGS.slub, large, *words, enter=group.enter)
            self.assertEqual(code, 0, errors)
            tuned = load(ARGS.stock, large, "40000", "2000", "1", "20")
            self.assertEqual(answers(text), answers(tuned[1]))
            self.assertGreater(json.loads(text)["hits"], json.loads(tuned[1])["hits"])
        finally:
            group.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("stock", "slub", "methods", "source"):
        parser.add_argument("--" + name, required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
