#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples as a reader would, and compares docs/api/examples.md with them.

Each example checks itself and exits with 0 only if all was right; here it is
run small, on every way that per-CPU lists can work, and with options that are
wrong.  Code that the document quotes must stand in the example, line by line.
"""
import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

SMALL = {
    "epoll_server": ["--clients", "8", "--connections", "10"],
    "counters": ["--threads", "3", "--requests", "20000"],
    "lru_cache": ["--requests", "20000", "--keys", "500"],
    "packet_pool": ["--packets", "50000"],
    "values": ["--lines", "5"],
    "tenants": ["--requests", "800"],
    "watched": ["--records", "100"],
}
SAYS = {
    "epoll_server": r"80 connections accepted, 0 open, 12000 bytes",
    "counters": r"sum +60000 requests",
    "lru_cache": r"(?m)^ +1000 +\d+\.\d%$",
    "packet_pool": r"50000 packets: 49950 good, 50 damaged",
    "tenants": r"(?m)^tenant-3 .* 2 refusals\nshrinker .*\n800 requests, 0 of them",
    "watched": r"^1 bug found, .*\n55 records in use; .*\nall as it should be",
    "values": r"^heap\.committed_bytes +bytes +\d+\n(?:.*\n){4}\d{3,} values, 0 of them",
}
SOURCES = {
    "epoll_server": "epoll_server.c",
    "counters": "counters.c",
    "lru_cache": "lru_cache.cpp",
    "packet_pool": "packet_pool.c",
    "values": "values.c",
    "tenants": "tenants.c",
    "watched": "watched.c",
}
arguments = None


def run(name, *options, **environment):
    return subprocess.run(
        [os.path.join(arguments.programs, name), *options],
        env={**os.environ, **environment}, text=True, timeout=100,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


class Examples(unittest.TestCase):
    def assert_works(self, name, *options, **environment):
        result = run(name, *options, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertRegex(result.stdout, SAYS[name])

    def test_small_runs(self):
        for name, options in SMALL.items():
            for fastpath in ("auto", "thread", "tid", "lock"):
                with self.subTest(name=name, fastpath=fastpath):
                    self.assert_works(name, *options, SLUB_FASTPATH=fastpath)

    def test_queued_pool(self):
        self.assert_works("packet_pool", "--queue", "--packets", "50000")

    def test_as_it_comes(self):
        for name in SMALL:
            with self.subTest(name=name):
                self.assertEqual(run(name).returncode, 0)

    def test_help(self):
        for name in SMALL:
            with self.subTest(name=name):
                result = run(name, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertRegex(result.stdout, rf"^usage: {name} ")

    def test_wrong_options(self):
        for name, options in SMALL.items():
            for wrong in (["--no-such-option"], [options[0], "many"],
                          [options[0], "0"], [options[0]]):
                with self.subTest(name=name, options=wrong):
                    result = run(name, *wrong)
                    self.assertEqual(result.returncode, 2, result.stdout)
                    self.assertNotEqual(result.stderr, "")

    def test_epoll_server_serves_others(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        program = os.path.join(arguments.programs, "epoll_server")
        with subprocess.Popen([program, "--port", str(port)], text=True,
                              stdout=subprocess.PIPE) as server:
            try:
                self.assertIn(str(port), server.stdout.readline())
                with socket.create_connection(("127.0.0.1", port), 10) as client:
                    client.sendall(b"hello, slab\n")
                    self.assertEqual(client.recv(100), b"HELLO, SLAB\n")
            finally:
                server.send_signal(signal.SIGINT)
            self.assertIn("1 connections accepted", server.stdout.read())
            self.assertEqual(server.wait(10), 0)


def shape(line):
    """A line of output without its numbers and the width of its columns."""
    return re.sub(r"\d+(\.\d+)*", "N", " ".join(line.split()))


class Document(unittest.TestCase):
    """What docs/api/examples.md shows is what the examples contain and print."""

    def setUp(self):
        with open(os.path.join(arguments.source, "docs/api/examples.md")) as file:
            self.text = file.read()

    def test_quotes(self):
        quoted = set()
        for section in re.split(r"(?m)^## ", self.text)[1:]:
            name = re.match(r"`(\w+)`", section)[1]
            with open(os.path.join(arguments.source, "examples", SOURCES[name])) as file:
                source = file.read()
            for block in re.findall(r"(?ms)^```c(?:pp)?\n(.*?)^```", section):
                with self.subTest(example=name, begins=block.split("\n")[0]):
                    self.assertIn(block, source)
                quoted.add(name)
        self.assertEqual(quoted, set(SOURCES))

    def test_outputs(self):
        shown = re.findall(r"(?ms)^```\n\$ ([^\n]+)\n(.*?)^```", self.text)
        self.assertEqual({command.split()[0] for command, _ in shown}, set(SOURCES))
        for command, output in shown:
            printed = {shape(line) for line in run(*command.split()).stdout.split("\n")}
            for line in output.split("\n"):
                with self.subTest(command=command, line=line):
                    self.assertIn(shape(line), printed)


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True, help="the folder of the programs")
    parser.add_argument("--source", required=True, help="the root of the sources")
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)


if __name__ == "__main__":
    main()
