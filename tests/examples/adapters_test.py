# SPDX-License-Identifier: MIT
"""examples/programs/arrow or protobuf: the program answers the same on its own memory and on the
library's; a tenant at its limit is refused, in its own words, and the other is not."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ARGS = None


def load(program, *words, code=0):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False,
                          timeout=100)
    if done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}, not {code}: {done.stderr}")
    return done.stderr if code else json.loads(done.stdout)["tenants"]


class Both:
    """What is asked of each program; subclasses say in which words."""

    def with_limit(self, limit):
        first, other = load(ARGS.slub, *self.words("slub"), str(limit))
        self.assertEqual(first["charged"], 0)
        self.assertEqual((other["charged"], other["refused"]), (0, 0))
        self.assertEqual(other["done"], self.rounds)
        self.assertEqual(first["done"] + first["refused"], self.rounds)
        self.assertLessEqual(first[self.peak], limit * self.unit)
        return first

    def test_the_answers_are_the_same(self):
        stock = load(ARGS.stock, *self.words(self.own))
        slub = load(ARGS.slub, *self.words("slub"))
        answers = {tenant[self.answer] for tenant in stock + slub}
        self.assertEqual(len(answers), 1, answers)
        self.assertEqual({tenant["done"] for tenant in stock + slub}, {self.rounds})

    def test_a_limit_that_is_enough(self):
        self.assertEqual(self.with_limit(self.enough)["refused"], 0)

    def test_a_limit_that_is_too_low(self):
        self.assertEqual(self.with_limit(self.too_low)["done"], 0)

    def test_a_limit_below_the_least(self):
        self.assertEqual(self.with_limit(1)["done"], 0)

    def test_no_such_memory(self):
        self.assertIn("there is no", load(ARGS.stock, *self.words("slub"), code=2))
        self.assertIn("usage", load(ARGS.slub, code=2))


class Arrow(Both, unittest.TestCase):
    own, answer, peak, unit = "system", "sum", "charged_peak", 1 << 20
    rounds, enough, too_low = 2, 64, 3

    def words(self, pool):
        return pool, "30000", str(self.rounds), "2"

    def test_the_words_of_a_refusal(self):
        self.assertIn("slub::arrow_pool: ", self.with_limit(1)["error"])


class Protobuf(Both, unittest.TestCase):
    own, answer, peak, unit = "heap", "bytes", "peak", 1 << 10
    rounds, enough, too_low = 20, 16384, 300

    @classmethod
    def setUpClass(cls):
        proto = os.path.join(ARGS.include, "google", "protobuf", "descriptor.proto")
        if not shutil.which("protoc"):
            raise unittest.SkipTest("no protoc here (scripts/setup test)")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.request = os.path.join(cls.folder.name, "request")
        subprocess.run(["protoc", "-I" + ARGS.include, "--include_source_info",
                        "--descriptor_set_out=" + cls.request, proto], check=True)

    def words(self, mode):
        return mode, self.request, str(self.rounds), "2"

    def test_protobufs_own_arena_on_the_library(self):
        for program in (ARGS.stock, ARGS.slub):
            self.assertEqual({tenant["done"] for tenant in load(program, *self.words("arena"))},
                             {self.rounds})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("Arrow", "Protobuf"), required=True)
    for option in ("stock", "slub"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--include")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest + [ARGS.kind], verbosity=2)
