# SPDX-License-Identifier: MIT
"""Memory that the machine beneath took back is present when a program starts."""
import os
import tempfile
import unittest
from unittest import mock

import canned		# noqa: F401  (sets the path)
import allocators
import job
import progress
import results as store
import rounds
import warm


class Devices(unittest.TestCase):
    def is_taken_back(self, **devices):
        with tempfile.TemporaryDirectory() as folder:
            for name, (number, features) in devices.items():
                os.mkdir(os.path.join(folder, name))
                for file, text in (("device", number), ("features", features)):
                    with open(os.path.join(folder, name, file), "w", encoding="ascii") as made:
                        made.write(text + "\n")
            return warm.is_taken_back(folder)

    def test_a_balloon_that_reports(self):
        self.assertTrue(self.is_taken_back(a=("0x0002", "1"), b=("0x0005", "01100101")))

    def test_a_balloon_that_does_not(self):
        self.assertFalse(self.is_taken_back(a=("0x0005", "11111000")))
        self.assertFalse(self.is_taken_back(a=("0x0005", "")))

    def test_others_with_that_bit(self):
        self.assertFalse(self.is_taken_back(a=("0x0002", "01100101")))

    def test_a_machine_without_any(self):
        self.assertFalse(self.is_taken_back())
        self.assertFalse(warm.is_taken_back("/nowhere"))


class Amount(unittest.TestCase):
    def test_what_the_program_takes_within_bounds(self):
        self.assertEqual(warm.wanted_mib(0, 8000), warm.AT_LEAST_MIB)
        self.assertEqual(warm.wanted_mib(400, 8000), 400)
        self.assertEqual(warm.wanted_mib(15500, 24000), warm.AT_MOST_MIB)

    def test_half_of_a_small_machine_at_most(self):
        self.assertEqual(warm.wanted_mib(400, 300), 150)

    def test_it_is_written_to(self):
        warm.make_present(0)
        warm.make_present(2)


class Rounds(unittest.TestCase):
    def warmed(self, is_taken_back):
        one = job.Job("it", "title", "program", "", "", (1, 1), (1, 1), mib=400)
        asked = []
        with mock.patch.object(rounds.warm, "is_taken_back", lambda: is_taken_back), \
                mock.patch.object(rounds.warm, "make_present", asked.append), \
                mock.patch.object(rounds.machine, "available_mib", lambda: 8000), \
                mock.patch.object(rounds, "execute", lambda *_: {"malloc": "", "rows": []}):
            made = rounds.Runner("/nowhere", [allocators.Allocator("a", "", "1"),
                                              allocators.Allocator("b", "", "1")],
                                 "full", None, store.Results())
            made.round(one, 0, [], progress.Progress(1, None))
        return asked, " ".join(made.notes)

    def test_before_each_process_and_said(self):
        asked, notes = self.warmed(True)
        self.assertEqual(asked, [400, 400])
        self.assertIn("takes back what is free", notes)

    def test_not_where_memory_stays(self):
        self.assertEqual(self.warmed(False), ([], ""))


if __name__ == "__main__":
    unittest.main()
