#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub exporter` gives Prometheus the numbers of `slub stats`, on standard output, as a
file and over HTTP, and the dashboard asks for what there is.

usage: exporter_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import json
import os
import re
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from target import SLUB, Target, environment, slub

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Each line of the text format, with the one type that this exporter has no use for left out.
LINE = re.compile(r"# (?:HELP [a-z_]+ .+|TYPE [a-z_]+ (?:gauge|counter))|"
                  r'[a-z_]+(?:\{(?:[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*)?\})? \d+(?:\.\d+)?')


def samples(text):
    return {line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"}


class Exporter(Target):
    def setUp(self):
        super().setUp()
        self.process = self.heap()
        self.pid = str(self.process.pid)

    def serve(self, *options, **more):
        exporter = subprocess.Popen([SLUB, "exporter", self.pid, *options], env=environment(),
                                    stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(exporter.communicate)
        self.addCleanup(exporter.terminate)
        return exporter

    def get(self, port, path="/metrics", **more):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **more)
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertIn("version=0.0.4", answer.headers["Content-Type"])
            return answer.read().decode()

    def test_text(self):
        done = slub("exporter", self.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for line in done.stdout.splitlines():
            self.assertIsNotNone(LINE.fullmatch(line), line)
        typed = dict(re.findall(r"# TYPE (\w+) (\w+)", done.stdout))
        self.assertEqual({re.match(r"\w+", name).group() for name in samples(done.stdout)},
                         set(typed), "a sample has the name of its family")
        self.assertEqual(typed["slub_cache_events_total"], "counter")
        openmetrics = slub("stats", "--openmetrics", "-p", self.pid).stdout
        self.assertEqual(samples(done.stdout), samples(openmetrics))
        self.assertTrue(openmetrics.endswith("# EOF\n"))

    def test_textfile(self):
        path = self.path("slub.prom")
        done = slub("exporter", "-p", self.pid, f"--textfile={path}")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(samples(file.read()), samples(slub("exporter", self.pid).stdout))
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])
        self.assertRefused(slub("exporter", self.pid, "--textfile=/nonexistent/x"), 6, "No such")

    def test_listen(self):
        port = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n",
                            self.serve("--listen=0").stdout.readline()).group(1)
        with socket.create_connection(("127.0.0.1", int(port))) as nothing:
            nothing.shutdown(socket.SHUT_WR)        # who asks for nothing is in nobody's way
            for _ in range(3):
                self.assertEqual(samples(self.get(port)),
                                 samples(slub("exporter", self.pid).stdout))
        for path, method, code in (("/", "GET", 404), ("/metricsx", "GET", 404),
                                   ("/metrics", "POST", 405)):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.get(port, path, method=method, data=b"" if method == "POST" else None)
            self.assertEqual(refused.exception.code, code)
            refused.exception.close()
        taken = slub("exporter", self.pid, f"--listen={port}")
        self.assertRefused(taken, 2, "in use")
        self.process.kill()
        self.process.wait()
        with self.assertRaises(urllib.error.HTTPError) as gone:
            self.get(port)
        self.assertEqual(gone.exception.code, 503)
        gone.exception.close()

    def test_socket_that_is_handed_over(self):
        with socket.create_server(("127.0.0.1", 0)) as given:
            port = given.getsockname()[1]
            command = f'exec env LISTEN_FDS=1 LISTEN_PID=$$ "$0" exporter {self.pid} --listen ' \
                      f"3<&{given.fileno()}"
            exporter = subprocess.Popen(["sh", "-c", command, SLUB], env=environment(),
                                        pass_fds=[given.fileno()])
            self.addCleanup(exporter.wait)
            self.addCleanup(exporter.terminate)
            self.assertIn("slub_info", self.get(port))

    def test_refusals(self):
        for arguments, says in (
                ((), "needs a process"), (("--listen", self.pid), "LISTEN_FDS"),
                ((self.pid, "--listen=many"), "not a port"),
                ((self.pid, "--listen=70000"), "not a port"),
                ((self.pid, "--listen=0", "--textfile=x"), "not both"),
                ((self.pid, "--watch=1", "--listen=0"), "who asks says when"),
                ((self.pid, "more"), "too many")):
            self.assertRefused(slub("exporter", *arguments), 2, says)
        self.assertRefused(slub("exporter", "4194303", "--listen=0"), 4, "4194303")

    def test_dashboard(self):
        path = os.path.join(SOURCE, "packaging", "grafana", "libslub.json")
        with open(path, encoding="utf-8") as file:
            board = json.load(file)
        text = slub("exporter", self.pid).stdout
        asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        asked += [entry["query"] for entry in board["templating"]["list"]]
        self.assertGreater(len(asked), 6)
        names = set(re.findall(r"\bslub_\w+", " ".join(asked)))
        self.assertEqual(names - {re.match(r"\w+", name).group() for name in samples(text)}, set())
        for label, values in re.findall(r'(state|event)=~?"([^"]+)"', " ".join(asked)):
            for value in values.split("|"):
                self.assertIn(f'{label}="{value}"', text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
