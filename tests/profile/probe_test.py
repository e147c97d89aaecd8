# SPDX-License-Identifier: MIT
"""The probes otel_memory:alloc and otel_memory:free: in the file, and seen by a tracer."""

import os
import re
import shutil
import subprocess
import sys
import time
import unittest

from profile import LIBRARY, run

PROGRAM = """
import sys, time
print("ready", flush=True)
end = time.time() + 60
while time.time() < end:
    x = [bytearray(3000) for _ in range(2000)]
    time.sleep(0.005)
"""
SCRIPT = """
usdt:%s:otel_memory:alloc { @n = count(); @weighted = sum(arg2); @size = max(arg1); }
usdt:%s:otel_memory:free { @freed = count(); }
interval:s:2 { exit(); }
"""


class Notes(unittest.TestCase):
    def test_notes(self):
        text = subprocess.run(["readelf", "-n", LIBRARY], text=True, capture_output=True,
                              check=True).stdout
        probes = dict(re.findall(r"Provider: otel_memory\s+Name: (\w+)\s+Location: .*"
                                 r"Semaphore: (0x\w+)", text))
        self.assertEqual(set(probes), {"alloc", "free"})
        alloc, free = int(probes["alloc"], 16), int(probes["free"], 16)
        self.assertEqual(free, alloc + 2)
        self.assertIn(alloc, range(*self.section(".probes")))
        arguments = re.findall(r"Arguments: (.*)", text)
        self.assertEqual(sorted(len(a.split()) for a in arguments), [1, 3])

    def section(self, name):
        text = subprocess.run(["readelf", "-SW", LIBRARY], text=True, capture_output=True,
                              check=True).stdout
        found = re.search(rf"{re.escape(name)}\s+PROGBITS\s+(\w+)\s+\w+\s+(\w+).*WA", text)
        start, size = int(found[1], 16), int(found[2], 16)
        return start, start + size


class Tracer(unittest.TestCase):
    """A tracer that attaches turns sampling on, in a process that was started without it."""

    def setUp(self):
        if not shutil.which("bpftrace") or os.geteuid():
            self.skipTest("needs bpftrace, and root")
        self.process = subprocess.Popen(["python3", "-c", PROGRAM], stdout=subprocess.PIPE,
                                        env=dict(os.environ, LD_PRELOAD=LIBRARY))
        self.addCleanup(self.process.communicate)
        self.addCleanup(self.process.kill)
        self.process.stdout.readline()

    def trace(self):
        done = run("bpftrace", "-p", str(self.process.pid), "-e", SCRIPT % (LIBRARY, LIBRARY))
        found = dict(re.findall(r"@(\w+): (\d+)", done.stdout))
        if not found and "Attaching" not in done.stdout:
            self.skipTest(f"bpftrace: {done.stderr.strip()[-200:]}")
        if not found and re.search("ERROR|denied|not permitted", done.stderr):
            self.skipTest(f"bpftrace: {done.stderr.strip()[-200:]}")
        return {name: int(value) for name, value in found.items()}, done

    def test_attach(self):
        found, done = self.trace()
        self.assertGreater(found.get("n", 0), 0, done)
        self.assertGreater(found.get("freed", 0), 0, done)
        self.assertGreaterEqual(found["size"], 3000)
        # A sample of 3,000 bytes stands for about 512 KiB.
        self.assertGreater(found["weighted"], found["n"] * 400000)
        time.sleep(0.1)
        self.assertIsNone(self.process.poll(), "it goes on")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
