# SPDX-License-Identifier: MIT
"""bench/report/write: the table of peers written from a canned run, and what it refuses."""
import json
import os
import subprocess
import tempfile
import unittest

import canned

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "bench", "report", "write")
FRAME = "before\n<!-- BENCH-BEGIN: old -->\nold figures\n<!-- BENCH-END -->\nafter\n"


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = os.path.join(self.folder.name, "results.json")
        self.readme = os.path.join(self.folder.name, "README.md")
        self.write(self.results, json.dumps(canned.data()))
        self.write(self.readme, FRAME)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run_it(self):
        return subprocess.run([PROGRAM, self.results, self.readme], capture_output=True,
                              text=True, check=False)

    def text(self):
        with open(self.readme, encoding="utf-8") as file:
            return file.read()

    def test_it_replaces_what_is_between_the_marks(self):
        self.assertEqual(self.run_it().stderr, "")
        text = self.text()
        self.assertTrue(text.startswith("before\n<!-- BENCH-BEGIN: written by"))
        self.assertTrue(text.endswith("<!-- BENCH-END -->\nafter\n"))
        self.assertNotIn("old figures", text)
        self.assertIn("| 2 loops of this project: time, ", text)
        self.assertIn("Printed by `make bench`", text)

    def test_twice_is_the_same(self):
        self.run_it()
        first = self.text()
        self.run_it()
        self.assertEqual(self.text(), first)

    def test_the_best_is_bold_and_a_failure_is_named(self):
        data = canned.data()
        rows = data["results"].setdefault("threads_1000", {"rows": {}, "failures": {}})
        names = list(data["allocators"])
        rows["rows"]["time"] = {"unit": "ns", "values": {names[0]: [20.0], names[1]: [10.0]}}
        rows["failures"] = {names[2]: "no end"}
        self.write(self.results, json.dumps(data))
        self.assertEqual(self.run_it().returncode, 0)
        self.assertRegex(self.text(), r"1,000 threads.* \| ns \| 20\.0 \| \*\*10\.0\*\* \| fails ")
        # Slow is not wrong.
        rows["failures"] = {names[2]: "no end within 44 s"}
        self.write(self.results, json.dumps(data))
        self.assertEqual(self.run_it().returncode, 0)
        self.assertRegex(self.text(), r"1,000 threads.* \| timeout after 44 s ")

    def test_no_marks_no_change(self):
        self.write(self.readme, "a text of another shape\n")
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no marks BENCH-BEGIN and BENCH-END", done.stderr)
        self.assertEqual(self.text(), "a text of another shape\n")

    def test_what_is_no_result_is_refused(self):
        self.write(self.results, "{}")
        self.assertEqual(self.run_it().returncode, 1)
        self.assertEqual(self.text(), FRAME)


if __name__ == "__main__":
    unittest.main()
