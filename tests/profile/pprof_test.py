# SPDX-License-Identifier: MIT
"""What `slub profile` writes is a perftools.profiles.Profile, decoded here field by field."""

import os
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))

from mappings import is_library
from profile import KNOWN, LIBRARY, ProfileTest, Pprof, header_of


class Converted(ProfileTest):
    @classmethod
    def setUpClass(cls):
        cls.build_ids = subprocess.run(["readelf", "-n", KNOWN, LIBRARY], text=True, check=True,
                                       capture_output=True).stdout

    def setUp(self):
        super().setUp()
        self.known("call", self.path("heap"), 1, 1 << 18, SLUB_TEST_PROFILE_SEED="1")
        self.pprof = self.convert(self.path("heap"))

    def test_types(self):
        self.assertEqual(self.pprof.types, [("alloc_objects", "count"), ("alloc_space", "bytes"),
                                            ("inuse_objects", "count"), ("inuse_space", "bytes")])
        self.assertEqual(self.pprof.strings[0], "")
        self.assertEqual(self.pprof.text(self.pprof.top[14]), "inuse_space")
        self.assertEqual(self.pprof.top[12], [1])

    def test_sums_are_the_files(self):
        sums = [sum(column) for column in zip(*(values for _, values in self.pprof.samples))]
        for sum_of_all, head in zip(sums, header_of(self.path("heap"))):
            # Counts are rounded stack by stack.
            self.assertLessEqual(abs(sum_of_all - head), len(self.pprof.samples))

    def test_every_reference_leads_somewhere(self):
        self.assertEqual(len(set(self.pprof.strings)), len(self.pprof.strings))
        for locations, values in self.pprof.samples:
            self.assertEqual(len(values), 4)
            for location in locations:
                self.pprof.function(location)
                mapping = self.pprof.locations[location].get(2)
                if mapping:
                    start, = self.pprof.mappings[mapping[0]][2]
                    end, = self.pprof.mappings[mapping[0]][3]
                    self.assertTrue(start <= self.pprof.locations[location][3][0] < end)

    def test_callers_stand_behind_the_called(self):
        stacks = {tuple(names[:3]) for names, _ in self.pprof.stacks()}
        for name in ("site_small", "site_zeroed", "site_grown", "site_aligned", "site_large"):
            self.assertIn((name, "allocate", "main"), stacks)

    def test_no_frame_of_the_library(self):
        mine = [number for number, mapping in self.pprof.mappings.items()
                if is_library(self.pprof.text(mapping[5]))]
        self.assertEqual(len(mine), 1)
        for locations, _ in self.pprof.samples:
            for location in locations:
                self.assertNotIn(self.pprof.locations[location].get(2, [0])[0], mine)

    def test_build_ids(self):
        program = next(m for m in self.pprof.mappings.values()
                       if self.pprof.text(m[5]).endswith("/known"))
        self.assertIn(f"Build ID: {self.pprof.text(program[6])}", self.build_ids)

    def test_output(self):
        self.slub("--output", self.path("other"), self.path("heap"))
        self.assertEqual(Pprof(self.path("other")).top, self.pprof.top)

    def test_another_build_gets_no_names(self):
        with open(self.path("heap")) as file:
            lines = [line[:-8] + "0123456\n" if line.startswith("# build-id") else line
                     for line in file]
        with open(self.path("old"), "w") as file:
            file.writelines(lines)
        self.assertEqual(set(self.convert(self.path("old")).by_function()), {None})

    def test_table(self):
        text = self.slub("--text", "--alloc", self.path("heap"))
        self.assertIn("site_small  ", text)
        self.assertIn("known.c:", text)
        first = self.slub("--text", "--alloc", "--lines=1", self.path("heap"))
        self.assertEqual(first.count("%\n"), 1)


if __name__ == "__main__":
    unittest.main(argv=["pprof_test.py"])
