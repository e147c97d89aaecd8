#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub explain` says of a core file, or of a living process, what was done wrong to a
guarded object: use after free, overrun, double free, who allocated it and who freed it, with
functions and lines.

usage: explain_test.py SLUB LIBRARY GUARDED GDB_SCRIPT"""

import json
import os
import re
import shutil
import sys
import unittest

from target import HEAP, Target, slub

GUARDED = HEAP


class Explain(Target):
    def guarded(self, mode, program=GUARDED, **more):
        """The process, its object and the address that it will touch."""
        with open(self.path("addresses"), "w+", encoding="ascii") as addresses:
            if not more:
                more = {"SLUB_GUARD": "1", "SLUB_ON_ERROR": "ignore"}
            process = self.start("sh", "-c", f"exec {program} {mode} 2>addresses", **more)
            addresses.seek(0)
            return process, *addresses.read().split()

    def crash(self, process):
        """Lets it commit its crime, and returns the core file."""
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
            pattern = file.read().strip()
        if "/" in pattern or pattern.startswith("|"):
            self.skipTest("core files go elsewhere here")
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertLess(process.wait(), 0)
        cores = [name for name in os.listdir(self.folder) if name.startswith("core")]
        if not cores:
            self.skipTest("this system writes no core files")
        return self.path(cores[0])

    def explained(self, *arguments):
        done = slub("explain", *map(str, arguments))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def assertTracks(self, told, *expected):
        """'allocated' and 'freed' are followed by the stack that did it."""
        for what, function in expected:
            self.assertRegex(told, rf"(?m)^{what} 20\d\d-.* by thread \d+ on CPU \d+\n"
                                   rf"\t0x[0-9a-f]+ {function} \(\S*guarded\.c:\d+\)\n"
                                   r"\t0x[0-9a-f]+ main \(")

    BOTH = ("allocated", "allocate_it"), ("freed", "free_it")

    def test_use_after_free_from_the_core(self):
        process, block, at = self.guarded("use")
        told = self.explained(self.crash(process))
        self.assertIn(f"it died of signal 11 (Segmentation fault) at {at}\n", told)
        self.assertIn(f"{at}: use after free: byte 8 of object {block} of 96 bytes (malloc-96)",
                      told)
        self.assertTracks(told, *self.BOTH)

    def test_overrun_from_the_core(self):
        process, block, at = self.guarded("overrun")
        told = self.explained(self.crash(process))
        self.assertIn(f"{at}: overrun: 0 bytes behind the end of object {block} of 96 bytes",
                      told)
        self.assertTracks(told, ("allocated", "allocate_it"))
        self.assertNotIn("freed 20", told)

    def test_large_block(self):
        process, block, at = self.guarded("large")
        core = self.crash(process)
        told = self.explained(core)
        self.assertIn(f"{at}: use after free: byte 8 of object {block} of 200000 bytes "
                      "(large block)", told)
        self.assertTracks(told, *self.BOTH)
        told = json.loads(self.explained("--json", core))
        self.assertEqual((told["kind"], told["schema"], told["signal"]), ("explain", 1, 11))
        self.assertEqual((told["address"], told["is"], told["distance"], told["object"]),
                         (at, "use after free", 8, block))

    def test_json(self):
        process, block, at = self.guarded("use", SLUB_GUARD="0")
        told = json.loads(self.explained("--json", process.pid))
        self.assertEqual((told["guard"]["every"], told["objects"]), (0, []))
        told = json.loads(self.explained(process.pid, at, "-j"))
        self.assertEqual((told["is"], told["cache"], told["object"], told["offset"]),
                         ("object", "malloc-96", block, 8))
        told = json.loads(self.explained("--json", process.pid, "0x10"))
        self.assertEqual((told["address"], told["is"]), ("0x10", "not of the heap"))

    def replaced(self, process):
        """Another build of the program has its name by now: nothing that it says is right."""
        with open(f"/proc/{process.pid}/exe", "rb") as file:
            image = file.read()
        build_id = image.index(b"\x14\0\0\0\x03\0\0\0GNU\0") + 12
        other = image[:build_id] + bytes(20) + image[build_id + 20:]
        with open(self.path("other"), "wb") as file:
            file.write(other.replace(b"allocate_it", b"wrong_names"))
        os.replace(self.path("other"), self.path("program"))

    def test_a_program_that_was_replaced(self):
        shutil.copy(GUARDED, self.path("program"))
        process, block, _ = self.guarded("use", self.path("program"))
        self.assertTracks(self.explained(process.pid, block), *self.BOTH)
        self.replaced(process)
        for target in (lambda: process.pid, lambda: self.crash(process)):
            told = self.explained(target(), block)
            self.assertNotIn("wrong_names", told)
            self.assertNotIn("guarded.c", told)
            self.assertRegex(told, r"\t0x[0-9a-f]+ \(\S*/program\+0x[0-9a-f]+\)\n")

    def test_another_address_of_the_core(self):
        process, block, _ = self.guarded("use")
        core = self.crash(process)
        before = hex(int(block, 16) - 3)
        self.assertIn(f"underrun after free: 3 bytes before object {block}",
                      self.explained(core, before))
        self.assertIn("not of libslub's heap", self.explained(core, "0x10"))

    def test_another_signal(self):
        process, _, _ = self.guarded("abort")
        told = self.explained(self.crash(process))
        self.assertIn("it died of signal 6 (Aborted)\n", told)
        self.assertIn("guards one object in 1: ", told)

    def test_the_core_of_a_process_that_lives(self):
        process, _, _ = self.guarded("use")
        told = self.explained(self.core_by_gdb(process))
        self.assertNotIn("died", told)
        self.assertIn("guards one object in 1: ", told)

    def test_a_living_process(self):
        process, block, at = self.guarded("use")
        told = self.explained(process.pid, at)
        self.assertIn(f"{at}: use after free: byte 8 of object {block} of 96 bytes", told)
        self.assertTracks(told, *self.BOTH)
        self.assertIsNone(process.poll())

    def test_wrong_frees_are_listed(self):
        process, block, _ = self.guarded("twice")
        told = self.explained(process.pid)
        self.assertRegex(told, r"; 1 errors at frees\n")
        self.assertIn(f"{block} of 96 bytes (malloc-96): freed twice\n", told)
        self.assertTracks(told, *self.BOTH)

    def test_the_report_names_both_too(self):
        process, block, _ = self.guarded("twice", SLUB_GUARD="1", SLUB_ON_ERROR="ignore",
                                         SLUB_DEBUG_REPORT=self.path("report"))
        self.assertIsNone(process.poll())
        with open(self.path("report"), encoding="utf-8") as file:
            said = file.read()
        self.assertIn(f"Object already free: {block}, guarded object {block} of 96 bytes\n", said)
        for word in ("Call Trace:\n", "Allocated in", "Freed in"):
            self.assertRegex(said, f"(?m)^{word}")

    def test_questions_about_what_is_free_are_listed(self):
        process, block, _ = self.guarded("asked")
        self.assertIn(f"{block} of 96 bytes (malloc-96): asked about where it is none\n",
                      self.explained(process.pid))

    def test_objects_that_are_not_guarded(self):
        process, block, at = self.guarded("use", SLUB_GUARD="0")
        told = self.explained(process.pid)
        self.assertIn(f"process {process.pid} guards no objects; SLUB_GUARD=N", told)
        told = self.explained(process.pid, at)
        self.assertIn(f"{at}: byte 8 of object {block} of malloc-96, which is not guarded", told)

    def test_by_the_string_of_options(self):
        process, _, _ = self.guarded("use", SLUB_OPTIONS="guard=3")
        self.assertIn("guards one object in 3: ", self.explained(process.pid))

    def test_refusals(self):
        process, _, _ = self.guarded("use")
        self.assertRefused(slub("explain"), 2, "usage: slub explain PID|CORE [ADDRESS]")
        for wrong in ("here", "0x12z", "-1", "", "1" + 16 * "0"):
            self.assertRefused(slub("explain", str(process.pid), "--", wrong), 2, f"'{wrong}'",
                               "hexadecimal")
        self.assertRefused(slub("explain", "4194304"), 4, "no process 4194304")
        self.assertRefused(slub("explain", self.path("nothing")), 4, "no file")
        self.assertRefused(slub("explain", str(os.getpid())), 1, "does not use libslub")
        self.assertRefused(slub("explain", "--jsno", "1"), 2, "--json")


class Damage(Target):
    def test_a_damaged_core(self):
        """The description of the guarded objects, overwritten at random: a line, no crash."""
        seed = int.from_bytes(os.urandom(4), "little")
        process, _, _ = Explain.guarded(self, "use")
        core = Explain.crash(self, process)
        with open(core, "rb") as file:
            whole = bytearray(file.read())
        base = next(m.start() for m in re.finditer(re.escape(b"SLUBABI\0"), bytes(whole)))
        state = seed
        for _ in range(25):
            noise = bytearray(whole)
            for _ in range(20):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                place = base + (state >> 33) % 8192
                noise[place % len(noise)] = state >> 56
            with open(self.path("noise"), "wb") as file:
                file.write(noise)
            done = slub("explain", self.path("noise"))
            self.assertIn(done.returncode, (0, 1, 5), (seed, done))
            self.assertLessEqual(len(done.stderr.splitlines()), 1, (seed, done))


if __name__ == "__main__":
    if not os.access(GUARDED, os.X_OK):
        sys.exit(f"no program {GUARDED}")
    unittest.main(argv=sys.argv[:1])
