#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub top`, `info`, `stats`, `map` and `options` tell the same of a living process, of
its core file and of the statistics file that it leaves behind when it is killed; they neither stop
nor disturb it.  The gdb commands tell what an address is.

usage: inspect_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

from target import (CORE_BYTES_MAX, GDB_SCRIPT, HEAP, LIBRARY, READERS, SLUB, Target, cache_named,
                    environment, slub)


class Known(Target):
    """The numbers of a heap whose population is known."""

    def check(self, told):
        small, middle = cache_named(told, "malloc-112"), cache_named(told, "malloc-20480")
        used = small["objects"] - small["objects_cached"]
        # How many are in lists is known to within a list.
        self.assertLessEqual(abs(used - 2000), 2 * small["sheaf_capacity"])
        self.assertGreaterEqual(small["objects"], 2000)
        self.assertLessEqual(small["objects"], small["total_objects"])
        self.assertGreaterEqual(small["total_objects"], 3000)
        self.assertEqual(small["slabs"] * small["objs_per_slab"], small["total_objects"])
        self.assertGreaterEqual(middle["objects"], 2)
        self.assertEqual(told["heap"]["large_bytes"], 3 << 20)
        self.assertGreaterEqual(told["heap"]["slab_bytes"], 3000 * 112)
        self.assertGreaterEqual(told["heap"]["committed_bytes"], told["heap"]["slab_bytes"])

    def test_a_living_process(self):
        process = self.heap()
        told = self.told("stats", process.pid)
        self.check(told)
        self.assertEqual((told["pid"], told["name"], told["schema"]), (process.pid, "heap", 1))

    def test_a_pid_needs_no_letter(self):
        pid = str(self.heap().pid)
        for command in READERS:
            done = slub(command, pid, "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertEqual(json.loads(done.stdout)["pid"], int(pid), command)
        self.assertIn("malloc-112", slub("info", pid, "malloc-112").stdout)
        self.assertRefused(slub("top", pid, "7"), 2, "'7'")

    def test_each_backend(self):
        for backend in ("rseq", "thread", "tid", "lock"):
            with self.subTest(backend=backend):
                told = self.told("stats", self.heap(SLUB_FASTPATH=backend).pid)
                self.assertEqual(told["backend"], backend)
                self.check(told)

    def test_a_core_file(self):
        process = self.heap()
        living = self.told("stats", process.pid)
        told = self.told("stats", self.core_of(process))
        self.check(told)
        self.assertEqual(told["caches"], living["caches"])
        self.assertEqual(told["heap"], living["heap"])
        self.assertEqual((told["pid"], told["name"]), (process.pid, "heap"))

    def test_library_under_another_name(self):
        """Its core file has the data of the library, but not its symbols."""
        shutil.copy(LIBRARY, self.path("libfoo.so"))
        process = self.heap(library=self.path("libfoo.so"))
        living = self.told("stats", process.pid)
        dead = self.told("stats", self.core_of(process))
        self.assertEqual(dead["heap"], living["heap"])

    def test_what_a_killed_process_leaves_behind(self):
        process = self.heap(SLUB_STATS_FILE=self.path("stats.%p"))
        living = self.told("stats", process.pid)
        process.kill()
        process.wait()
        told = self.told("stats", self.path(f"stats.{process.pid}"))
        self.check(told)
        self.assertEqual(told["exited"], False)
        self.assertEqual(told["command"], f"{HEAP} wait")
        # As of the last count of slabs, which a program that has just begun has not made yet.
        self.assertLessEqual(told["heap"].pop("active_bytes"), living["heap"].pop("active_bytes"))
        self.assertEqual(told["heap"], living["heap"])
        for mine, its in zip(told["caches"], living["caches"]):
            for name in ("name", "slabs", "objects", "total_objects", "object_size", "order"):
                self.assertEqual(mine[name], its[name], mine["name"])

    def test_what_an_ended_process_leaves_behind(self):
        process = self.heap(SLUB_STATS_FILE=self.path("stats"))
        process.communicate()
        told = self.told("stats", self.path("stats"))
        self.assertEqual(told["exited"], True)
        self.check(told)

    def test_malloc_info_agrees(self):
        code = ("import ctypes, sys; c = ctypes.CDLL(None); c.fdopen.restype = ctypes.c_void_p;"
                "keep = [ctypes.create_string_buffer(100) for i in range(3000)];"
                "out = c.fdopen(1, b'w'); c.malloc_info(0, ctypes.c_void_p(out));"
                "c.fflush(ctypes.c_void_p(out))")
        done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True,
                              env=environment(LD_PRELOAD=LIBRARY), timeout=60, check=True)
        tree = ElementTree.fromstring(done.stdout)
        caches = {cache.get("name"): cache.attrib for cache in tree.findall("cache")}
        self.assertGreater(len(caches), 20)
        totals = {total.get("type"): int(total.get("size", 0)) for total in tree.findall("total")}
        self.assertEqual(totals["objects.used_bytes"] + totals["objects.cached_bytes"],
                         sum(int(c["active"]) * int(c["size"]) for c in caches.values()))
        self.assertGreater(totals["heap.slab_bytes"], totals["objects.used_bytes"])


class Forms(Target):
    """Each command in each of its forms."""

    def setUp(self):
        super().setUp()
        code = ("import sys; x = [bytes(i % 3000) for i in range(20000)];"
                "print('ready', flush=True); sys.stdin.read()")
        self.process = self.start(sys.executable, "-c", code, SLUB_RETAIN="8M",
                                  SLUB_STATS_FILE=self.path("stats"))
        self.pid = str(self.process.pid)

    def text(self, *arguments):
        done = slub(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def test_top(self):
        for target in (self.pid, self.path("stats")):
            text = self.text("top", "-p", target, "--once")
            self.assertRegex(text, r"Active / Total Objects \(% used\) +: \d+ / \d+ \(\d+\.\d%\)")
            self.assertRegex(text, r"(?m)^ *OBJS +ACTIVE +USE +OBJ SIZE +SLABS +OBJ/SLAB")
            self.assertRegex(text, r"(?m) malloc-1024$")
        rows = self.text("top", "-p", self.pid, "--once", "--sort=s").split("\n", 8)[8].splitlines()
        sizes = [int(row.split("-")[-1]) for row in rows]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        caches = self.told("top", self.pid, "--sort=f")["caches"]
        shares = [share for share in (c["fast_percent_min"] for c in caches) if share > 0]
        self.assertGreater(len(shares), 3)
        self.assertEqual(shares, sorted(shares))
        self.assertTrue(all(c["fast_percent_min"] > 0 for c in caches[:len(shares)]))

    def test_info(self):
        text = self.text("info", "-p", self.pid)
        self.assertIn("Slabs/Part/Cpu  O/S O %Fr %Ef   Slack Flg", text)
        names = [line.split()[0] for line in text.splitlines()[1:]]
        self.assertEqual(names, sorted(names, key=lambda name: int(name.split("-")[1])))
        self.assertEqual(len(self.text("info", "-p", self.pid, "-N", "5").splitlines()), 6)
        self.assertEqual(self.text("info", "-p", self.pid, "malloc-64").count("malloc-"), 1)
        self.assertIn("Slabcache Totals", self.text("info", "-p", self.pid, "-T"))
        self.assertIn("by loss", self.text("info", "-p", self.pid, "-X"))
        report = self.text("info", "-p", self.pid, "-r", "malloc-576")
        for name in ("object_size", "objs_per_slab", "order", "slabs", "partial", "sheaf_capacity",
                     "alloc_slab", "barn_get"):
            self.assertRegex(report, rf"(?m)^{name} +\d+$")
        for letters in ("-S", "-L", "-P", "-A", "-D", "-n", "-B", "-a", "-e", "-i", "-o", "-z",
                        "-1", "-l", "-SBi"):
            self.text("info", "-p", self.pid, letters)

    def test_more_objects_in_a_slab_than_16_bits_count(self):
        process = self.start("sh", "-c", "echo ready; read line", SLUB_TEST_MIN_ORDER="8")
        self.assertRegex(self.text("info", "-p", str(process.pid), "malloc-16"),
                         r"malloc-16 .* 65536 8 ")
        cache = cache_named(self.told("info", process.pid), "malloc-16")
        self.assertEqual((cache["objs_per_slab"], cache["order"]), (65536, 8))

    def test_slack_of_a_size_class(self):
        # A bytes object has 33 bytes more: 900, of the class of 960.
        code = ("import sys; x = [bytes(867) for i in range(20000)];"
                "print('ready', flush=True); sys.stdin.read()")
        process = self.start(sys.executable, "-c", code, SLUB_STATS_FILE=self.path("slack"))
        for target in (process.pid, self.path("slack")):
            cache = cache_named(self.told("info", target), "malloc-960")
            each = cache["slack_bytes"] / (cache["objects"] - cache["objects_cached"])
            self.assertTrue(55 <= each <= 61, each)
            self.assertTrue(80 < cache["fast_percent_min"] < 100, cache)
            self.assertRegex(self.text("top", "-p", str(target), "--sort=k"),
                             r"NAME\n.* 1\.[12]M .* malloc-960\n")
        self.assertRegex(self.text("info", "-r", "-p", str(process.pid), "malloc-960"),
                         r"(?s)\nhwcache_align +0\n.*\nred_zone +0\n.*\nobjects_partial +\d+\n")

    def test_map(self):
        text = self.text("map", "-p", self.pid)
        self.assertRegex(text, r"(?m)^ +\d.*\|.*[A-Z].*\|$")
        self.assertRegex(text, r"(?m)^A malloc-\d+ ")
        svg = ElementTree.fromstring(self.text("map", "-p", self.pid, "--svg"))
        self.assertTrue(svg.tag.endswith("svg"))
        self.assertGreater(len(svg), 20)
        told = self.told("map", self.pid)
        slabs = [piece for piece in told["pieces"] if piece["kind"] == "slab"]
        stats = self.told("stats", self.pid)
        self.assertEqual(len(slabs), sum(cache["slabs"] for cache in stats["caches"]))
        ends = [int(p["address"], 16) + p["pages"] * told["page_bytes"] for p in told["pieces"]]
        starts = [int(p["address"], 16) for p in told["pieces"]]
        self.assertTrue(all(e <= s for e, s in zip(ends, starts[1:])), "pieces overlap")
        self.assertRefused(slub("map", "-p", self.path("stats")), 2, "statistics file")

    def test_options(self):
        text = self.text("options", "-p", self.pid)
        self.assertRegex(text, r"(?m)^retain +8\.0M +SLUB_RETAIN +")
        self.assertRegex(text, r"(?m)^huge +auto(=\S+)? +default +never\|block\|always\|auto ")
        text = self.text("options", "-p", self.path("stats"))
        self.assertRegex(text, r"(?m)^retain +8\.0M +environment +")
        self.assertRegex(self.text("options"), r"(?m)^SLUB_RETAIN +16M ")
        told = {o["name"]: o for o in self.told("options", self.pid)["options"]}
        self.assertEqual(told["retain"]["value"], 8 << 20)
        self.assertEqual(told["debug_leaks"]["value"], None)

    def test_openmetrics(self):
        for command in ("stats", "top", "info"):
            text = self.text(command, "-p", self.pid, "--openmetrics")
            lines = text.splitlines()
            self.assertEqual(lines[-1], "# EOF")
            families = {line.split()[2]: line.split()[3] for line in lines
                        if line.startswith("# TYPE ")}
            self.assertEqual(families["slub_cache_events"], "counter")
            for line in lines:
                if line.startswith("#"):
                    continue
                found = re.fullmatch(r'(\w+)(\{(\w+="[^"]*",?)+\})? -?[\d.]+', line)
                self.assertTrue(found, line)
                name = re.sub(r"_(total|info)$", "", found.group(1))
                self.assertIn(name, families)

    def test_color(self):
        self.assertIn("\033[", self.text("map", "-p", self.pid, "--color"))
        self.assertNotIn("\033[", self.text("map", "-p", self.pid))
        done = slub("info", "-p", self.pid, "--color=always", NO_COLOR="1")
        self.assertIn("\033[", done.stdout, "what was asked for by name wins")

    def test_watch_ends_with_the_process(self):
        watcher = subprocess.Popen([SLUB, "stats", "-p", self.pid, "--watch", "0.1"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment())
        lines = [watcher.stdout.readline() for _ in range(30)]
        self.process.kill()
        self.process.wait()
        _, errors = watcher.communicate(timeout=30)
        self.assertEqual(watcher.returncode, 4)
        self.assertEqual(errors, f"slub: stats: no process {self.pid}\n")
        self.assertTrue(any("in use" in line for line in lines))

    def test_doctor(self):
        self.assertRegex(self.text("doctor", self.pid), r"(?m)^ok +libslub +version .* in use")
        self.assertRegex(self.text("doctor", sys.executable), r"(?m)^ok +loader ")
        told = json.loads(slub("doctor", "--json", HEAP).stdout)
        self.assertEqual((told["works"], told["schema"]), (True, 1))

    def test_screen(self):
        child, screen = pty.fork()
        if not child:
            os.environ.update(TERM="xterm-256color", LINES="30", COLUMNS="100")
            os.execv(SLUB, [SLUB, "top", "-p", self.pid, "--delay=0.3"])
        seen, keys = b"", [b"s", b"m", b"h", b"x", b" ", b"g", b"q"]
        end = time.time() + 30
        while time.time() < end:
            if not select.select([screen], [], [], 0.5)[0]:
                if keys:
                    os.write(screen, keys.pop(0))
                continue
            try:
                seen += os.read(screen, 65536)
            except OSError:
                break
            if keys:
                os.write(screen, keys.pop(0))
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0, seen[-300:])
        for word in (b"OBJS", b"malloc-", b"Sort by"):
            self.assertIn(word, seen)

    def test_screen_ended_by_a_signal(self):
        # Status 1 would say that libslub is not in use there.
        for number, ended in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)):
            child, screen = pty.fork()
            if not child:
                os.environ["TERM"] = "xterm"
                os.execv(SLUB, [SLUB, "top", self.pid])
            seen = b""
            while b"sort:" not in seen:
                seen += os.read(screen, 65536)
            os.kill(child, number)
            with contextlib.suppress(OSError):
                while os.read(screen, 65536):
                    pass
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ended)


class Undisturbed(Target):
    def test_a_thousand_readings_of_a_busy_process(self):
        process = self.heap("busy", SLUB_STATS_FILE=self.path("stats"))
        for n in range(1000):
            target = str(process.pid) if n % 3 else self.path("stats")
            done = slub("stats", "-p", target, "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            if n % 50 == 0:
                for cache in json.loads(done.stdout)["caches"]:
                    self.assertLessEqual(cache["objects"], cache["total_objects"], cache)
        self.assertIsNone(process.poll())
        process.communicate()
        self.assertEqual(process.returncode, 0)

    @unittest.skipUnless(shutil.which("strace") and shutil.which("taskset"), "needs strace")
    def test_the_process_does_nothing_for_a_thousand_readings(self):
        """Two threads of it allocate and free all the time, and make no system call for that."""
        # On one CPU: the first step on another commits memory for it.
        cpu = min(os.sched_getaffinity(0))
        process = self.start("taskset", "-c", str(cpu), HEAP, "spin")
        log = self.path("calls")
        tracer = subprocess.Popen(["strace", "-f", "-o", log, "-p", str(process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        line = tracer.stderr.readline()
        if "attached" not in line:
            tracer.communicate()
            self.skipTest(line.strip())
        for n in range(1000):
            command = READERS[n % len(READERS)]
            done = slub(command, "-p", str(process.pid), "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIsNone(process.poll())
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
        with open(log) as file:
            self.assertEqual([line for line in file if "read(0" not in line], [])

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_the_process_does_nothing_for_it(self):
        process = self.heap()
        log = self.path("calls")
        tracer = subprocess.Popen(["strace", "-f", "-o", log, "-p", str(process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        line = tracer.stderr.readline()
        if "attached" not in line:
            tracer.communicate()
            self.skipTest(line.strip())
        for command in READERS:
            self.assertEqual(slub(command, "-p", str(process.pid), "--once").returncode, 0)
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
        with open(log) as file:
            calls = [line for line in file if "read(0" not in line]
        self.assertEqual(calls, [])

    def test_a_child_leaves_the_file_alone(self):
        code = ("import os, sys\nx = [bytes(1000) for i in range(3000)]\n"
                "if os.fork() == 0:\n"
                "    y = [bytes(1000) for i in range(30000)]\n    os._exit(0)\n"
                "os.wait()\nprint('ready', flush=True)\nos.read(0, 1)")
        process = self.start(sys.executable, "-c", code, SLUB_STATS_FILE=self.path("stats"))
        told = self.told("stats", self.path("stats"))
        self.assertEqual(told["pid"], process.pid)
        self.assertEqual(sum(c["objects"] for c in told["caches"]),
                         sum(c["objects"] for c in self.told("stats", process.pid)["caches"]))

    def test_each_process_has_its_own_file(self):
        code = ("import os, sys\nchild = os.fork()\nx = [bytes(1000) for i in range(3000)]\n"
                "if child == 0: os._exit(0)\n"
                "os.wait()\nprint(child, flush=True)\nprint('ready', flush=True)")
        done = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE,
                              env=environment(LD_PRELOAD=LIBRARY,
                                              SLUB_STATS_FILE=self.path("stats.%p")), timeout=60)
        child = int(done.stdout.split()[0])
        self.assertEqual(self.told("stats", self.path(f"stats.{child}"))["pid"], child)

    def test_another_file_is_not_overwritten(self):
        with open(self.path("mine"), "w") as file:
            file.write("precious\n")
        done = subprocess.run([HEAP], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment(LD_PRELOAD=LIBRARY, SLUB_VERBOSE="1",
                                              SLUB_STATS_FILE=self.path("mine")), timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("no statistics file", done.stderr)
        with open(self.path("mine")) as file:
            self.assertEqual(file.read(), "precious\n")


@unittest.skipUnless(shutil.which("gdb"), "needs gdb")
class Gdb(Target):
    def gdb(self, *arguments):
        done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-ex", f"source {GDB_SCRIPT}",
                               *arguments], text=True, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL, env=environment(), check=False)
        return done.stdout + done.stderr

    def commands(self):
        for command in ("caches", "object used_object", "object freed_object",
                        "object large_block", "slab used_object", "object 0x10", "object"):
            yield from ("-ex", f"slub {command}")

    def check(self, text):
        self.assertRegex(text, r"(?m)^malloc-112 +\d+ +\d+ +112 ")
        self.assertRegex(text, r"is of cache malloc-112: object 0x\w+, 112 bytes")
        self.assertRegex(text, r"(?m)^in use$")
        self.assertRegex(text, r"(?m)^free, in the list of CPU number \d+$")
        self.assertIn("first page of a large block", text)
        self.assertRegex(text, r"292 objects of 112 bytes, \d+ carved, \d+ in use")
        self.assertIn("0x10 is not in the heap", text)
        self.assertIn("usage: slub object ADDR", text)

    def test_living(self):
        process = self.heap()
        text = self.gdb("-p", str(process.pid), *self.commands())
        if "not permitted" in text:
            self.skipTest("gdb may not attach here")
        self.check(text)

    def test_core(self):
        self.check(self.gdb(HEAP, self.core_of(self.heap()), *self.commands()))

    def test_another_version(self):
        with open(LIBRARY, "rb") as file:
            image = file.read()
        at = image.index(b"SLUBABI\0\6\0\0\0") + 8
        with open(self.path("libslub.so.1"), "wb") as file:
            file.write(image[:at] + b"\3" + image[at + 1:])
        core = self.core_of(self.heap(library=self.path("libslub.so.1")))
        text = self.gdb(HEAP, core, "-ex", "slub caches")
        self.assertIn("itself in version 3; these commands read version 6", text)

    def test_watched_objects(self):
        process = self.heap(SLUB_DEBUG="FZPU,malloc-112")
        arguments = ("-ex", "slub object used_object", "-ex", "slub object freed_object",
                     "-ex", "slub slab used_object", "-ex", "slub object (long)used_object - 1")
        text = self.gdb(HEAP, self.core_of(process), *arguments)
        self.assertRegex(text, r"(0x\w+) is of cache malloc-112:FZPU: object \1, 112 bytes\n")
        self.assertRegex(text, r"\nin use\nallocated by thread \d+ on CPU \d+, .*\n"
                               r"  0x\w+ (populate|main) ")
        self.assertRegex(text, r"\nfree, in the slab's freelist\nallocated .*\n(  .*\n)+freed by ")
        self.assertRegex(text, r"(?m)^ +0 [X.]{5,}$")

    def test_a_slab_with_holes(self):
        """Objects whose page went back to the system, between others that are in use."""
        core = self.core_of(self.heap("holes"))
        text = self.gdb(HEAP, core, "-ex", "slub object used_object", "-ex",
                        "slub object freed_object", "-ex", "slub slab used_object", "-ex",
                        "slub slab freed_object")
        self.assertEqual(len(re.findall(r"(?m)^in use$", text)), 1, text)
        self.assertEqual(len(re.findall(r"(?m)^free, and without memory$", text)), 1, text)
        slabs = re.findall(r"(\d+) objects of 512 bytes, (\d+) carved, (\d+) in use\n"
                           r"((?: +\d+ [X._o]+\n)+)", text)
        self.assertEqual(len(slabs), 2, text)
        for objects, carved, used, rows in slabs:
            marks = "".join(row.split()[1] for row in rows.splitlines())
            self.assertEqual(len(marks), int(objects))
            self.assertEqual(marks.count("_"), int(objects) - int(carved))
            self.assertEqual(marks.count("X"), int(used))
            # A hole is followed by objects in use: it is not the end that was never carved.
            self.assertRegex(marks, "_+[.o]*X")
        used, freed = re.findall(r"is of cache malloc-512: object (0x\w+),", text)
        self.assertEqual(slub("explain", core, used).stdout,
                         f"{used}: byte 0 of object {used} of malloc-512, which is not guarded: "
                         "what allocated it was not recorded\n")
        self.assertEqual(slub("explain", core, freed).stdout,
                         f"{freed}: free, and without memory, in a slab of malloc-512\n")
        self.assertEqual(json.loads(slub("explain", "-j", core, freed).stdout)["is"],
                         "without memory")

    def test_gcore(self):
        """What is only reserved is not written out: it would fill a disk."""
        process = self.heap()
        living = self.told("stats", process.pid)
        path = self.core_by_gdb(process)
        self.assertLess(os.path.getsize(path), CORE_BYTES_MAX)
        self.assertEqual(self.told("stats", path)["caches"], living["caches"])

    def test_without_libslub(self):
        self.assertIn("does not use libslub", self.gdb(shutil.which("true"), "-ex", "slub caches"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
