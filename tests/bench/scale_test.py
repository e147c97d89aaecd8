# SPDX-License-Identifier: MIT
"""bench/scale: one seed gives one outcome, what grows is told, and a recording is played again.
scale_known.c looks at the counts themselves."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = os.path.join(HERE, "..", "..", "bench", "scale")
BUILD = os.environ["SLUB_BUILD"]
sys.path[:0] = [SCALE]

import sites                    # noqa: E402  (after the path is set)


def module(name):
    """A script without a suffix, not run."""
    loader = importlib.machinery.SourceFileLoader(f"scale_{name}", os.path.join(SCALE, name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    found = importlib.util.module_from_spec(spec)
    loader.exec_module(found)
    return found


def scale(*options):
    return subprocess.run([os.path.join(BUILD, "bench", "scale", "scale"), *options],
                          capture_output=True, text=True, check=True).stdout


def loop(name, cpus=4, seed=1):
    return scale("--work", name, "--cpus", str(cpus), "--steps", "1500", "--warm", "1500",
                 "--seed", str(seed), "--sites")


class Scale(unittest.TestCase):
    def test_one_seed_gives_one_outcome(self):
        for name in module("run").WORKS:
            self.assertEqual(loop(name), loop(name), name)
        self.assertNotEqual(loop("mixed"), loop("mixed", seed=2))

    def test_each_thread_does_its_share(self):
        for cpus in (2, 8):
            counts, _ = sites.parse(loop("mixed", cpus))
            self.assertEqual(counts["operations"], 1500 * cpus)
            self.assertEqual(counts["threads"], cpus)

    def test_own_lists_share_nothing(self):
        counts, _ = sites.parse(loop("pair", 8))
        for name in ("rmw_shared", "store_shared", "lock", "barrier", "madvise", "transfer_object"):
            self.assertEqual(counts[name], 0, name)

    def test_places_add_up(self):
        counts, places = sites.parse(loop("buffers"))
        for name in ("rmw_shared", "store_shared", "transfer", "lock"):
            self.assertEqual(sum(row[name] for row in places.values()), counts[name], name)
        self.assertGreater(counts["lock"], 0)

    def test_places_have_names(self):
        program = os.path.join(BUILD, "bench", "scale", "scale")
        runs = {cpus: sites.parse(loop("buffers", cpus)) for cpus in (2, 4)}
        worst = sites.worst(program, {"buffers": {n: run[0] for n, run in runs.items()}},
                            {"buffers": {n: run[1] for n, run in runs.items()}})
        self.assertRegex(worst[0]["line"], r"^\w+\.[ch]:\d+$")
        self.assertIn("free", "".join(worst[0]["calls"]) + "malloc free")

    def test_runs_of_several_seeds_add_up(self):
        (few, one), (more, two) = (sites.parse(loop("mixed", seed=seed)) for seed in (1, 2))
        both = sites.add(one, two)
        self.assertEqual(sum(row["transfer"] for row in both.values()),
                         few["transfer"] + more["transfer"])
        self.assertEqual(sites.add({}, one), one)

    def test_more_than_a_twentieth_is_growth(self):
        grows = module("run").grows
        self.assertTrue(grows(1, 1.06))
        self.assertFalse(grows(1, 1.04))
        self.assertFalse(grows(0, 0.01))    # one more or less
        self.assertTrue(grows(0, 0.1))

    def test_a_recording_is_played(self):
        with tempfile.TemporaryDirectory() as where:
            trace = os.path.join(where, "trace")
            folder = os.path.join(BUILD, "bench", "scale")
            subprocess.run([os.path.join(folder, "scale-recorded")], check=True,
                           env=dict(os.environ, SCALE_TRACE=trace, SCALE_THREADS="2",
                                    LD_PRELOAD=os.path.join(folder, "libscale-record.so")))
            text = scale("--trace", trace, "--cpus", "2")
            self.assertEqual(text, scale("--trace", trace, "--cpus", "2"))
        counts, _ = sites.parse(text)
        # The main thread's own besides, and the half of all that warms up.
        self.assertEqual(counts["threads"], 3)
        self.assertGreaterEqual(counts["operations"], 250)
        self.assertLess(counts["operations"], 300)


if __name__ == "__main__":
    unittest.main()
