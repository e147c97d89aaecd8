# SPDX-License-Identifier: MIT
"""The report written from a canned run: what it says, what it shows, what it names as missing."""
import json
import os
import re
import tempfile
import unittest
from unittest import mock

import canned
import pictures
import plan
import sections
import write


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.data = canned.data()

    def written(self):
        with open(write.report(self.data, self.folder.name, plan.JOBS), encoding="utf-8") as file:
            return file.read()

    def test_it_says_what_was_measured(self):
        text = self.written()
        for part in ("a full run of 10 minutes", "| 1.000 | **missed** |",
                     "| churn_fixed (ns) | 40.0 (4.00) | 10.0 (1.00) | 100 (10.00) | 5.00 (0.50)",
                     "12 of 24", "rises 4.0 times from 1 to 1,000 threads",
                     "Single calls, 2 threads", "about 20 ns", "Made up, 2 CPUs",
                     "| 64 bytes, the same object | 110 | 41.0 |", "| json | 20.0 | 31.0 |"):
            self.assertIn(part, text)

    def test_it_says_no_places_of_the_machine(self):
        for known in self.data["allocators"].values():
            known["library"] = "/home/somebody/build/libx.so"
            known["check"] = "libslub in use; file /home/somebody/build/libslub.so.1; version 0"
        self.assertNotIn("somebody", self.written())
        with open(os.path.join(self.folder.name, "results.json"), encoding="utf-8") as file:
            self.assertNotIn("somebody", file.read())

    def test_it_names_what_is_missing(self):
        text = self.written()
        self.assertIn("* rpmalloc: cargo is not installed", text)
        self.assertIn("* mix: 2 of 5 rounds", text)

    def test_a_failure_is_shown_as_one(self):
        job = self.data["results"]["json"]
        del job["rows"]["time"]["values"]["jemalloc"]
        job["failures"]["jemalloc"] = "ended by signal 11"
        self.assertRegex(self.written(), r"json \(ns\) .* fails ")

    def test_the_figures_are_kept_beside_it(self):
        self.written()
        with open(os.path.join(self.folder.name, "results.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), json.loads(json.dumps(self.data)))

    def test_without_matplotlib_it_is_written_and_says_so(self):
        with mock.patch.object(write, "PYTHONS", ("/nonexistent/python",)):
            text = self.written()
        self.assertIn("There are no pictures: no Python here has matplotlib", text)
        self.assertNotIn(".svg", text)

    def test_each_picture_shown_is_there(self):
        text = self.written()
        if "There are no pictures" in text:
            self.skipTest("matplotlib is not installed")
        for name in ("time", "memory", "latency_2", "rss_mix", "curve_threads"):
            self.assertIn(f"({name}.svg)", text)
            with open(os.path.join(self.folder.name, name + ".svg"), encoding="utf-8") as file:
                self.assertIn("<svg", file.read())

    def test_a_summary_shows_two_pictures_and_says_where_the_others_are(self):
        write.report(self.data, self.folder.name, plan.JOBS, summary=True)
        with open(os.path.join(self.folder.name, "README.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Each release has them", text)
        self.assertLessEqual(set(re.findall(r"\((\w+\.svg)\)", text)), {"time.svg", "memory.svg"})
        self.assertLessEqual({name for name in os.listdir(self.folder.name) if ".svg" in name},
                             {"time.svg", "memory.svg"})

    def test_real_programs_and_loops_are_never_in_one_mean(self):
        self.data["results"]["git"] = self.data["results"]["json"]
        text = self.written()
        self.assertRegex(text, r"(?m)^\| time, 1 real programs \|")
        self.assertRegex(text, r"(?m)^\| time, 2 loops \|")

    def test_an_empty_run_gives_a_report(self):
        self.data["results"] = {}
        self.data.update(over_time={}, callgrind={}, system_calls={})
        self.assertIn("# libslub beside the other allocators", self.written())

    def test_only_a_whole_run_replaces_the_projects_report(self):
        options = mock.Mock(mode="full", names=None, allocators=None)
        self.assertEqual(write.folder("r", options), os.path.join("r", "report"))
        options.names = ["pair"]
        self.assertNotEqual(write.folder("r", options), os.path.join("r", "report"))
        options = mock.Mock(mode="quick", names=None, allocators=None)
        self.assertEqual(write.folder("r", options), os.path.join("r", "quick"))


class Pictures(unittest.TestCase):
    def test_bars_are_ratios_to_the_best_peer(self):
        plots = {plot["name"]: plot for plot in
                 pictures.every(canned.data(), canned.results(), plan.JOBS, canned.NAMES)}
        self.assertEqual(plots["time"]["bars"]["time"], {"churn_fixed": 0.5, "json": 2.0})
        self.assertEqual(set(plots["memory"]["bars"]), {"peak", "resting"})
        self.assertNotIn("curve_sizes", plots)


class Markdown(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([sections.number(value) for value in (None, 0.123, 12.34, 1234.5)],
                         ["–", "0.12", "12.3", "1,234"])

    def test_a_table_has_as_many_cells_in_each_line(self):
        lines = sections.table(["", "a", "b"], [["x", "1", "2"]])
        self.assertEqual({line.count("|") for line in lines if line}, {4})


if __name__ == "__main__":
    unittest.main()
