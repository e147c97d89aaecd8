# SPDX-License-Identifier: MIT
"""Medians, spreads, ratios and geometric means; the verdicts drawn from them."""
import unittest

import canned
import curves
import plan
import process
import results as store
import summary
import targets


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


class Target(unittest.TestCase):
    """Of 16 bytes handed over, 0.7 of the best of three peers is asked."""

    def words(self, ours, **floors):
        rows = {"16": canned.row("ns", mimalloc=[10.0] * 3, snmalloc=[12.0] * 3,
                                 jemalloc=[20.0] * 3, libslub=[ours] * 3)}
        for name, value in floors.items():
            rows[name] = canned.row("ns", mimalloc=[value + 1] * 3, libslub=[value] * 3)
        results = store.Results({"prodcons": {"rows": rows, "failures": {}}})
        names = ["mimalloc", "snmalloc", "jemalloc", "libslub"]
        return targets.words(targets.verdict(results, "prodcons", "16", names))

    def test_ratio_to_the_best(self):
        self.assertEqual(self.words(9.0), "0.9 of 0.7 MISSED (mimalloc)")
        self.assertEqual(self.words(5.0), "0.5 of 0.7 met (mimalloc)")

    def test_a_miss_says_what_doing_nothing_takes(self):
        self.assertEqual(self.words(9.0, floor=8.0), "0.9 of 0.7 MISSED (mimalloc, floor 0.8)")
        self.assertEqual(self.words(5.0, floor=4.0), "0.5 of 0.7 met (mimalloc)")

    def test_each_loop_has_its_own_floor(self):
        rows = {name: canned.row("ns", mimalloc=[10.0] * 3, libslub=[value] * 3) for name, value in
                (("reuse/16", 20.0), ("npattern/16", 20.0), ("floor", 8.0),
                 ("floor-npattern", 6.0))}
        results = store.Results({"pair": {"rows": rows, "failures": {}}})
        for row, floor in (("reuse/16", 0.8), ("npattern/16", 0.6)):
            found = targets.verdict(results, "pair", row, ["mimalloc", "libslub"])
            self.assertAlmostEqual(found["floor"], floor)

    def test_the_least_floor_of_all_allocators_counts(self):
        self.assertEqual(self.words(9.0, floor=6.0), "0.9 of 0.7 MISSED (mimalloc, floor 0.6)")


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

    def test_cells_of_slab_test(self):
        won, judged, missed = summary.slab_cells(self.results, canned.NAMES)
        self.assertEqual((won, judged), (12, 24))
        self.assertTrue(all(row.startswith("free/") for row, *_ in missed))
        self.assertEqual(summary.slab_cells(self.results, canned.NAMES, "touch-")[1], 0)

    def goal(self, start):
        found = [goal for goal in summary.goals(self.results, plan.JOBS, canned.NAMES)
                 if goal["goal"].startswith(start)]
        self.assertEqual(len(found), 1, start)
        return found[0]

    def test_goals(self):
        time = self.goal("geometric mean of time")
        self.assertEqual((time["value"], time["met"]), ("1.000", False))
        self.assertTrue(self.goal("geometric mean of peak RSS")["met"])
        # The C library took 10 MiB as ours did, mimalloc 20.
        rivals = self.goal("the same of peak RSS against mimalloc, jemalloc alone")
        self.assertEqual(rivals["value"], "0.500")
        worst = self.goal("no workload above")
        self.assertFalse(worst["met"])
        self.assertIn("worst 2.00 (json, glibc)", worst["value"])
        self.assertFalse(self.goal("slab_test, objects untouched")["met"])
        self.assertTrue(self.goal("latency_2 malloc-p99.9")["met"])
        self.assertFalse(self.goal("latency_2 free-p99.9")["met"])

    def test_resting_goal_counts_workloads(self):
        resting = [goal for goal in summary.goals(self.results, plan.JOBS, canned.NAMES)
                   if goal["goal"].startswith("resting")]
        self.assertEqual(["1 of 2" in goal["value"] for goal in resting], [True, True])
        self.assertIn("geometric mean 0.71", resting[0]["value"])

    def test_nothing_measured_is_no_goal(self):
        self.assertEqual(summary.goals(store.Results(), plan.JOBS, canned.NAMES), [])


class Curves(unittest.TestCase):
    def test_flat(self):
        self.assertIn("is flat from 1 to 100 threads (within 10 %)",
                      curves.shape([(1, 10.0), (10, 11.0), (100, 10.5)], "threads"))

    def test_rising_names_the_steepest_step(self):
        text = curves.shape([(1, 10.0), (10, 10.0), (100, 11.0), (1000, 40.0)], "threads")
        self.assertTrue(text.startswith("rises 4.0 times from 1 to 1,000 threads"), text)
        self.assertTrue(text.endswith("(3.6 times) from 100 to 1,000"), text)

    def test_falling(self):
        self.assertTrue(curves.shape([(1, 10.0), (2, 2.0)], "MiB").startswith("falls to 0.20"))

    def test_sentence_names_the_lowest_peer_at_the_far_end(self):
        text = curves.sentence(canned.results(), ("curve_threads",), "cpu", "threads",
                               canned.NAMES)
        self.assertIn("that of mimalloc, the lowest peer at the far end (20.0 against 40.0)", text)

    def test_points_are_sorted_by_number(self):
        self.assertEqual([x for x, _ in curves.points(canned.results(), "curve_threads", "cpu",
                                                      "libslub")], [1, 10, 100, 1000])


class Answers(unittest.TestCase):
    def test_the_resting_line_is_no_part_of_the_answer(self):
        answer = process.parsed('{"resting":true}\n{"malloc":"x","rows":[]}\n')
        self.assertEqual(answer["rows"], [])

    def test_what_is_not_json_is_a_failure(self):
        with self.assertRaises(process.Failure):
            process.parsed("Segmentation fault\n")

    def test_google_benchmark_counts_items(self):
        answer = process.parsed('{"context":{"malloc":"/a.so"},"benchmarks":['
                                '{"name":"a/64/real_time/threads:2","real_time":7.5},'
                                '{"name":"b","real_time":1.0,"items_per_second":5e8},'
                                '{"name":"b_mean","run_type":"aggregate","real_time":1.0}]}')
        self.assertEqual([(row["name"], row["value"]) for row in answer["rows"]],
                         [("a/64 threads:2", 7.5), ("b", 2.0)])
        self.assertEqual(answer["malloc"], "/a.so")


if __name__ == "__main__":
    unittest.main()
