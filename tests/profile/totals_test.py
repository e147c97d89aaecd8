# SPDX-License-Identifier: MIT
"""What the profile says has been allocated, and is in use, is what a program knows of itself.

A bound is five standard deviations (profile.deviation): one false alarm in some million checks,
and where the seed is fixed and there is one thread, none from one run to the next."""

import math
import unittest

from profile import (ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, ProfileTest,
                     class_bytes, deviation, header_of)

MEAN = 4096
# A function: 4,000 means, so 1.6 % a deviation.  All eight: 0.6 %, five of them 2.8 %.
BYTES = 4000 * MEAN
SIGMAS = 5
# Requests of one size: then the number of samples is binomial, and its deviation known.
SIZES = {"site_small": 24, "site_churn": 200, "site_aligned": 768, "site_zeroed": 100}


class Totals(ProfileTest):
    def check(self, seed, threads, *without, **more):
        path = self.path("heap")
        true = self.known("call", path, MEAN, BYTES, threads,
                          SLUB_TEST_PROFILE_SEED=str(seed), **more)
        told = self.convert(path).by_function()
        true = {name: true[name] for name in true if name not in without}
        for name, values in true.items():
            for kind in (ALLOC_SPACE, INUSE_SPACE):
                self.assertLessEqual(abs(told[name][kind] - values[kind]),
                                     SIGMAS * deviation(values[kind], MEAN) + 1,
                                     (name, told[name], values))
        self.check_counts(true, told)
        if not without:
            self.check_sums(true, header_of(path))

    def check_counts(self, true, told):
        for name, size in SIZES.items():
            p = -math.expm1(-class_bytes(size) / MEAN)
            for kind in (ALLOC_OBJECTS, INUSE_OBJECTS):
                n = true[name][kind]
                self.assertLessEqual(abs(told[name][kind] - n),
                                     SIGMAS * math.sqrt(n * (1 - p) / p) + 1, (name, kind))

    def check_sums(self, true, told):
        for kind in (ALLOC_SPACE, INUSE_SPACE):
            whole = sum(values[kind] for values in true.values())
            self.assertLess(SIGMAS * deviation(whole, MEAN), 0.05 * whole, "the test is too small")
            self.assertLess(abs(told[kind] - whole), 0.05 * whole)

    def test_one_thread(self):
        for seed in (1, 2, 3):
            self.check(seed, 1)

    def test_threads_that_take_turns_on_the_cpus(self):
        self.check(4, 8)

    def test_every_backend(self):
        for backend in ("rseq", "thread", "tid", "lock"):
            with self.subTest(backend):
                self.check(5, 3, SLUB_FASTPATH=backend)

    def test_with_guarded_objects_beside_it(self):
        # Bulk calls are not sampled then.
        self.check(6, 3, "site_typed", SLUB_GUARD="16")

    def test_seed_decides(self):
        def heads(seed):
            self.known("call", self.path("heap"), MEAN, 1 << 20, SLUB_TEST_PROFILE_SEED=str(seed))
            return header_of(self.path("heap"))

        self.assertEqual(heads(9), heads(9))
        self.assertNotEqual(heads(9), heads(10))

    def test_mean_of_one_byte_samples_everything(self):
        path = self.path("heap")
        true = self.known("call", path, 1, 1 << 20, 2, SLUB_TEST_PROFILE_SEED="1")
        told = self.convert(path).by_function()
        for name, values in true.items():
            # A block of 16 bytes is missed once in nine million.
            self.assertEqual(told[name], values, name)

    def test_watched_classes_are_sampled_too(self):
        path = self.path("heap")
        true = self.known("call", path, 1, 1 << 18, SLUB_DEBUG="FZPU", SLUB_TEST_PROFILE_SEED="1")
        told = self.convert(path).by_function()
        self.assertEqual(told["site_small"], true["site_small"])


if __name__ == "__main__":
    unittest.main(argv=["totals_test.py"])
