#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a redis-server under load has one size class watched by FZPU and unwatched ten times,
and answers every request, and every one right; so it does while its options are changed.

usage: live_switch_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest

from target import LIBRARY, Target, environment, slub

CACHE, LETTERS, SWITCHES = "malloc-64", "FZPU", 10
CLIENTS, KEYS, PIPELINE = 3, 2000, 32


def encoded(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client(threading.Thread):
    """Sets, reads, overwrites and deletes keys of its own, knows each answer beforehand, and notes
    every one that is another."""

    def __init__(self, number, path):
        super().__init__()
        self.number, self.stop = number, threading.Event()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.buffer = b""
        self.known = {}
        self.sent = self.answered = 0
        self.wrong = []

    def value(self, n):
        # Strings that redis keeps in 64 bytes, most of them.
        return (b"%d:%d:" % (self.number, n)).ljust(40 + n % 30, b"v")

    def request(self, n):
        key = b"k%d:%d" % (self.number, n * 7919 % KEYS)
        if n % 4 == 0:
            gone = self.known.pop(key, None)
            return encoded(b"DEL", key), b":%d\r\n" % (gone is not None)
        if n % 4 == 2:
            value = self.known.get(key)
            return encoded(b"GET", key), (b"$-1\r\n" if value is None else
                                          b"$%d\r\n%s\r\n" % (len(value), value))
        self.known[key] = self.value(n)
        return encoded(b"SET", key, self.known[key]), b"+OK\r\n"

    def answer(self, size):
        while len(self.buffer) < size:
            got = self.socket.recv(1 << 16)
            if not got:
                raise ConnectionError("redis closed the connection")
            self.buffer += got
        answer, self.buffer = self.buffer[:size], self.buffer[size:]
        return answer

    def batch(self, requests):
        self.socket.sendall(b"".join(r for r, _ in requests))
        self.sent += len(requests)
        for request, right in requests:
            answer = self.answer(len(right))
            if answer != right:
                self.wrong.append((request, right, answer))
                return False
            self.answered += 1
        return True

    def run(self):
        n, good = 0, True
        try:
            while good and not self.stop.is_set():
                good = self.batch([self.request(n + i) for i in range(PIPELINE)])
                n += PIPELINE
            # What is there in the end is what was put there last.
            for key, value in self.known.items():
                good = good and self.batch([(encoded(b"GET", key),
                                             b"$%d\r\n%s\r\n" % (len(value), value))])
        except (OSError, ConnectionError) as error:
            self.wrong.append(("connection", repr(error), ""))
        self.socket.close()


@unittest.skipUnless(shutil.which("redis-server") and shutil.which("redis-benchmark"),
                     "needs redis-server and redis-benchmark")
class LiveSwitch(Target):
    def redis(self):
        self.socket = self.path("redis.sock")
        process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", self.folder,
             "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL,
            env=environment(LD_PRELOAD=LIBRARY, SLUB_VERBOSE="1",
                            SLUB_DEBUG_REPORT=self.path("reports")), stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(400):
            if os.path.exists(self.socket):
                return process
            time.sleep(0.05)
        return self.fail("redis-server does not listen")

    def benchmark(self):
        process = subprocess.Popen(["redis-benchmark", "-s", self.socket, "-q", "-P", "16", "-c",
                                    "8", "-n", "100000000", "-d", "50", "-r", "200000", "-t",
                                    "set"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def switch(self, pid, letters):
        began = time.monotonic()
        done = slub("debug", pid, CACHE, letters)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return 1000 * (time.monotonic() - began)

    def active(self, pid, name):
        told = self.told("info", pid, "-z")["caches"]
        return sum(cache["objects"] for cache in told if cache["name"] == name)

    def test_ten_times(self):
        server = self.redis()
        pid = str(server.pid)
        benchmark = self.benchmark()
        clients = [Client(n, self.socket) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        print(f"\nredis-server under redis-benchmark and {CLIENTS} clients that check each answer")
        try:
            for n in range(1, SWITCHES + 1):
                on = self.switch(pid, LETTERS)
                time.sleep(0.3)
                watched = self.active(pid, f"{CACHE}:{LETTERS}")
                self.assertGreater(watched, 0)
                checked = slub("validate", "-p", pid, CACHE)
                self.assertEqual(checked.stdout, "0 bugs in 1 watched cache\n", checked)
                off = self.switch(pid, "-")
                time.sleep(0.1)
                print(f"{n:2}  on {on:4.1f} ms  off {off:4.1f} ms  {watched:6} objects watched, "
                      f"0 bugs, {sum(c.answered for c in clients):8} answers")
        finally:
            for client in clients:
                client.stop.set()
            for client in clients:
                client.join()
        self.assertIsNone(benchmark.poll(), "redis-benchmark was let down")
        self.assertIsNone(server.poll())
        for client in clients:
            self.assertEqual(client.wrong, [])
            self.assertEqual(client.sent, client.answered)
            self.assertGreater(client.sent, 1000)
        self.assertFalse(os.path.exists(self.path("reports")), "a bug was reported")
        print(f"{sum(c.sent for c in clients)} requests sent, "
              f"{sum(c.answered for c in clients)} answered, 0 wrong")

    def idle(self, pid):
        return self.told("stats", pid)["heap"]["idle_bytes"]

    def test_control(self):
        """Options are set, and what is free on a node goes back, while clients are served."""
        pid = str(self.redis().pid)
        client = Client(0, self.socket)
        subprocess.run(["redis-benchmark", "-s", self.socket, "-q", "-P", "16", "-d", "300", "-n",
                        "80000", "-r", "40000", "-t", "set"], stdout=subprocess.DEVNULL,
                       check=True, timeout=120)
        client.start()
        # One client alone may be served from lists for long, and lists answer no request.
        self.benchmark()
        try:
            for name, value in (("retain", "64M"), ("reclaim_rate", "20"), ("limit", "1G")):
                self.assertEqual(slub("set", "--timeout=60", pid, name, value).stdout,
                                 f"process {pid}: {name} is {value}\n")
            subprocess.run(["redis-cli", "-s", self.socket, "eval", "for _, key in ipairs("
                            "redis.call('keys', 'key:*')) do redis.call('del', key) end", "0"],
                           stdout=subprocess.DEVNULL, check=True, timeout=120)
            before = self.idle(pid)
            self.assertGreater(before, 4 << 20, "retain is large")
            done = self.told("shrink", pid, "--node=0", "--timeout=60")
            self.assertGreater(done["node_bytes"], before // 2)
            self.assertLess(self.idle(pid), before // 4)
            refused = slub("set", pid, "fastpath", "lock")
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn("counts at the start", refused.stderr)
        finally:
            client.stop.set()
            client.join()
        self.assertEqual(client.wrong, [])
        self.assertGreater(client.answered, 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
