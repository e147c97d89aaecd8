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
import signal
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
            return process, *addresses.read().splitlines()[-1].split()

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

    def assertDied(self, told, how, *functions):
        """The stack of the thread that died, from its instruction on."""
        lines = "".join(rf"\t0x[0-9a-f]+ {function} \(\S*guarded\.c:\d+\)\n"
                        for function in functions)
        self.assertRegex(told, rf"(?m)^{how} thread \d+\n{lines}\t0x[0-9a-f]+ ")
        self.assertNotIn("callers are not known", told)

    BOTH = ("allocated", "allocate_it"), ("freed", "free_it")

    def test_use_after_free_from_the_core(self):
        process, block, at = self.guarded("use")
        told = self.explained(self.crash(process))
        self.assertIn(f"it died of signal 11 (Segmentation fault) at {at}\n", told)
        self.assertIn(f"{at}: use after free: byte 8 of object {block} of 96 bytes (malloc-96)",
                      told)
        self.assertTracks(told, *self.BOTH)
        self.assertDied(told, "accessed by", "use_it", "main")

    def test_without_frame_pointers(self):
        process, _, at = self.guarded("use", GUARDED + "_bare")
        told = self.explained(self.crash(process))
        self.assertIn(f"{at}: use after free: byte 8 of object ", told)
        self.assertTracks(told, *self.BOTH)
        self.assertDied(told, "accessed by", "use_it", "main")

    def test_a_call_to_where_no_code_is(self):
        process, _, _ = self.guarded("astray")
        told = self.explained(self.crash(process))
        self.assertIn("it died of signal 11 (Segmentation fault) at 0x40\n", told)
        self.assertRegex(told, r"(?m)^accessed by thread \d+\n\t0x40\n"
                               r"\t0x[0-9a-f]+ go_astray \(\S*guarded\.c:\d+\)\n"
                               r"\t0x[0-9a-f]+ main \(")

    @unittest.skipUnless(os.uname().machine == "x86_64", "other kernels say which address")
    def test_an_address_that_no_memory_has(self):
        """... and nothing is guarded: the next step is told."""
        process, _, _ = self.guarded("wild", SLUB_ON_ERROR="ignore")
        told = self.explained(self.crash(process))
        self.assertIn("it died of signal 11 (Segmentation fault) at an address that no memory can "
                      "have: a pointer was overwritten, or read from freed memory\n", told)
        self.assertDied(told, "died in", "use_it", "main")
        self.assertNotIn("0x0:", told)
        self.assertRegex(told, r"(?m)^to find the cause: `slub run --guard=1 -- PROGRAM` dies ")

    def test_a_signal_that_was_sent_has_no_address(self):
        process, _, _ = self.guarded("use")
        process.send_signal(signal.SIGSEGV)
        process.wait()
        told = self.explained(self.core_of(process))
        self.assertIn("it died of signal 11 (Segmentation fault)\n", told)
        self.assertRegex(told, r"(?m)^died in thread \d+\n\t0x")

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
        self.assertEqual([frame["function"] for frame in told["died"]["stack"][:2]],
                         ["use_it", "main"])
        self.assertEqual((told["died"]["thread"], told["died"]["whole"]), (process.pid, True))

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
        told = self.explained(self.path(next(name for name in os.listdir(self.folder)
                                             if name.startswith("core"))))
        self.assertRegex(told, r"(?m)^accessed by thread \d+\n"
                               r"\t0x[0-9a-f]+ \(\S*/program\+0x[0-9a-f]+\)\n")
        self.assertNotIn("guarded.c", told)

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
        self.assertRegex(told, r"(?m)^died in thread \d+\n(\t0x.*\n)*\t0x[0-9a-f]+ main \(")
        self.assertIn("guards one object in 1: ", told)

    def test_what_the_library_ended_it_for(self):
        shutil.copy(GUARDED, self.path("program"))
        process, block, _ = self.guarded("again", self.path("program"), SLUB_GUARD="0")
        core = self.crash(process)
        told = self.explained(core)
        self.assertRegex(told, rf"(?m)^libslub ended it: double free: free\({block}\), malloc-96, "
                               rf"thread {process.pid}, called by\n"
                               r"\t0x[0-9a-f]+ free_it \(\S*guarded\.c:\d+\)\n"
                               rf"{block}: byte 0 of object {block} of malloc-96, ")
        self.assertRegex(told, r"(?m)^to find the cause: `slub run --guard=1 -- PROGRAM`, or "
                               r"SLUB_DEBUG=")
        self.assertNotIn("is here", told)
        told = json.loads(self.explained("--json", core))["misuse"]
        self.assertEqual((told["what"], told["call"], told["address"], told["where"],
                          told["thread"], told["found"], told["ended"]),
                         ("double free", "free", block, "malloc-96", process.pid, 1, True))
        self.assertTrue(told["line"].startswith(f"slub[{process.pid}]: double free: "))
        self.assertEqual(told["stack"][0]["function"], "free_it")
        os.remove(self.path("program"))
        told = self.explained(core)
        self.assertIn(f"\nno file {self.path('program')} is here: ", told)
        self.assertIn("\nlibslub ended it: double free: ", told)

    def test_what_the_guard_ended_it_for(self):
        process, block, _ = self.guarded("again", SLUB_GUARD="1")
        told = self.explained(self.crash(process))
        self.assertIn(f"\nlibslub ended it: double free: free({block}), ", told)
        self.assertIn(f"{block} of 96 bytes (malloc-96): freed twice\n", told)
        self.assertTracks(told, *self.BOTH)
        self.assertNotIn("use after free", told)

    def test_what_a_watched_cache_ended_it_for(self):
        process, block, _ = self.guarded("again", SLUB_DEBUG="FZPU,malloc-96",
                                         SLUB_DEBUG_REPORT=self.path("report"),
                                         SLUB_ON_ERROR="abort")
        told = self.explained(self.crash(process))
        self.assertIn(f"\nlibslub ended it: a bug in a watched cache: {block}, malloc-96, ", told)
        self.assertIn(f"\n{block}: byte 0 of the free object {block} of 96 bytes ", told)
        self.assertRegex(told, r"(?m)^freed by .*\n\t0x[0-9a-f]+ free_it \(")

    def test_what_was_found_and_left_alone(self):
        process, block, _ = self.guarded("twice", SLUB_GUARD="0", SLUB_ON_ERROR="report")
        told = self.explained(process.pid)
        self.assertIn(f"libslub found before: double free: free({block}), malloc-96, ", told)
        self.assertFalse(json.loads(self.explained("--json", process.pid))["misuse"]["ended"])
        process, _, _ = self.guarded("use", SLUB_GUARD="0")
        self.assertNotIn("libslub", self.explained(process.pid).split("\n", 1)[1])

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

    WATCHED = {"SLUB_DEBUG": "FZPU,malloc-96", "SLUB_ON_ERROR": "ignore"}

    def assertWatched(self, target, block, state):
        """What letter U recorded of the object is told, wherever in its place the address is."""
        of = rf"the {state} object {block} of 96 bytes \(malloc-96, watched by FZPU\)\n"
        for distance, words in ((0, "byte 0 of "), (95, "byte 95 of "),
                                (97, "1 bytes behind the end of "), (-3, "3 bytes before ")):
            at = hex(int(block, 16) + distance)
            told = self.explained(target, at)
            self.assertRegex(told, f"^{at}: {words}{of}")
        return told

    def test_a_watched_object(self):
        process, block, at = self.guarded("use", **self.WATCHED)
        told = self.assertWatched(process.pid, block, "free")
        self.assertTracks(told, ("allocated", "allocate_it"))
        self.assertRegex(told, r"(?m)^freed 20\d\d-.* by thread \d+ on CPU \d+, \d+ ms after that\n"
                               r"\t0x[0-9a-f]+ free_it \(\S*guarded\.c:\d+\)\n")
        told = json.loads(self.explained("--json", process.pid, at))
        self.assertEqual((told["is"], told["cache"], told["letters"], told["object"],
                          told["bytes"], told["state"], told["where"], told["distance"]),
                         ("in a watched slab", "malloc-96:FZPU", "FZPU", block, 96, "free",
                          "inside", 8))
        for word, function in self.BOTH:
            self.assertEqual(told[word]["stack"][0]["function"], function)
            self.assertEqual(told[word]["thread"], process.pid)
        self.assertIsNone(process.poll())

    def test_a_watched_object_of_a_core(self):
        process, block, _ = self.guarded("abort", **self.WATCHED)
        core = self.crash(process)
        told = self.assertWatched(core, block, "free")
        self.assertRegex(told, r"(?m)^allocated by thread \d+ on CPU \d+\n"
                               r"\t0x[0-9a-f]+ allocate_it \(\S*guarded\.c:\d+\)\n"
                               r"\t0x[0-9a-f]+ main \(")
        self.assertRegex(told, r"(?m)^freed by .*, \d+ ms after that\n\t0x[0-9a-f]+ free_it \(")
        told = json.loads(self.explained("--json", core, block))
        self.assertEqual(told["freed"]["stack"][0]["function"], "free_it")

    def test_a_watched_object_that_is_allocated(self):
        process, block, _ = self.guarded("kept", **self.WATCHED)
        told = self.assertWatched(process.pid, block, "allocated")
        self.assertTracks(told, ("allocated", "allocate_it"))
        self.assertNotIn("freed", told)

    def test_without_letter_u(self):
        process, block, _ = self.guarded("use", SLUB_DEBUG="FZ,malloc-96", SLUB_ON_ERROR="ignore")
        self.assertRegex(self.explained(process.pid, block),
                         r": byte 0 of the free object .* watched by FZ\)\n"
                         r"what allocated it was not recorded: letter U")

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
        self.assertRefused(slub("explain", "0x4a00", "1234"), 2,
                           "the process comes before the address; usage: slub explain 1234 0x4a00")
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
