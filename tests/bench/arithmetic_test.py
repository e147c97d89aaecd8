# SPDX-License-Identifier: MIT
"""Medians, spreads, ratios and geometric means."""
import unittest

import canned
import plan
import process
import results as store
import summary


class Values(unittest.TestCase):
    def test_median_of_odd_even_and_none(self):
        self.assertEqual(store.median([3, 1, 2]), 2)
        self.assertEqual(store.median([4, 1, 3, 2]), 2.5)
        self.assertIsNone(store.median([]))

    def test_spread_is_the_middle_half(self):
        self.assertAlmostEqual(store.spread([1, 10, 10, 11, 100]), 0.1)

    def test_spread_of_few_rounds_is_all_of_them(self):
        self.assertAlmostEqual(store.spread([9, 10, 12]), 0.3)
        self.assertEqual(store.spread([10]), 0.0)
        self.assertEqual(store.spread([0, 0, 0]), 0.0)

    def test_geometric_mean(self):
        self.assertAlmostEqual(summary.geometric_mean([0.5, 2.0]), 1.0)
        self.assertAlmostEqual(summary.geometric_mean([1, 10, 100]), 10.0)
        self.assertIsNone(summary.geometric_mean([]))
        self.assertIsNone(summary.geometric_mean([1.0, 0.0]))

    def test_ratio_of_what_is_missing(self):
        self.assertEqual(summary.ratio(3, 2), 1.5)
        self.assertIsNone(summary.ratio(None, 2))
        self.assertIsNone(summary.ratio(3, 0))


class Summary(unittest.TestCase):
    def setUp(self):
        self.results = canned.results()

    def test_each_workload_is_set_against_its_own_best_peer(self):
        cells = {cell.job: cell for cell in
                 summary.cells(self.results, plan.JOBS, "time", canned.NAMES)}
        self.assertEqual(set(cells), {"churn_fixed", "json"})
        self.assertEqual(cells["churn_fixed"].against, "mimalloc")
        self.assertAlmostEqual(cells["churn_fixed"].ratio, 0.5)
        self.assertEqual(cells["json"].against, "glibc")
        self.assertAlmostEqual(cells["json"].ratio, 2.0)

    def test_our_own_variants_are_no_peers(self):
        self.assertEqual(summary.peers(["glibc", "libslub", "libslub:tid", "libslub-up"]),
                         ["glibc"])

    def test_league_takes_the_best_of_each_row(self):
        means, rows = summary.league(self.results, plan.JOBS, "time", canned.NAMES)
        self.assertEqual(rows, 2)
        self.assertAlmostEqual(means["libslub"], 2 ** 0.5)
        self.assertAlmostEqual(means["glibc"], 8 ** 0.5)

    def test_league_leaves_out_rows_that_somebody_lacks(self):
        del self.results.data["json"]["rows"]["time"]["values"]["jemalloc"]
        _, rows = summary.league(self.results, plan.JOBS, "time", canned.NAMES)
        self.assertEqual(rows, 1)


class Answers(unittest.TestCase):
    def test_the_resting_line_is_no_part_of_the_answer(self):
        answer = process.parsed('{"resting":true}\n{"malloc":"x","rows":[]}\n')
        self.assertEqual(answer["rows"], [])

    def test_what_is_not_json_is_a_failure(self):
        with self.assertRaises(process.Failure):
            process.parsed("Segmentation fault\n")


if __name__ == "__main__":
    unittest.main()
