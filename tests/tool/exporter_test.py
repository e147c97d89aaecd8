#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub exporter` gives Prometheus the numbers of `slub stats`, of one process or of all
that it may read, on standard output, as a file and over HTTP, and the dashboard asks for what there
is.

usage: exporter_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from target import NOBODY, SLUB, Target, environment, slub

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
                (("-p", ""), "needs a process"), (("--listen", self.pid), "LISTEN_FDS"),
                ((self.pid, "--comm=x"), "not both"), (("--series=-1",), "not a number"),
                (("--listen=host:80",), "no address"),
                ((self.pid, "--listen=many"), "not a port"),
                ((self.pid, "--listen=70000"), "not a port"),
                ((self.pid, "--listen=0", "--textfile=x"), "not both"),
                ((self.pid, "--watch=1", "--listen=0"), "the scraper says when"),
                ((self.pid, "more"), "too many")):
            self.assertRefused(slub("exporter", *arguments), 2, says)
        self.assertRefused(slub("exporter", "4194303", "--listen=0"), 4, "4194303")

    def others(self, text):
        """The samples of this test's processes, by PID."""
        found = {}
        for line in text.splitlines():
            pid = re.search(r'\{pid="(\d+)"', line)
            if pid:
                found.setdefault(pid.group(1), []).append(line)
        return found

    def python(self):
        """A process with many caches."""
        return str(self.start(sys.executable, "-c", "print('ready', flush=True); input()").pid)

    def test_all_processes(self):
        """Without a target each one that may be read, with its labels, and 200 series at most."""
        second = self.python()
        text = slub("exporter").stdout
        for line in text.splitlines():
            self.assertIsNotNone(LINE.fullmatch(line), line)
        found = self.others(text)
        self.assertLessEqual({self.pid, second}, set(found))
        self.assertGreaterEqual(int(re.search(r"\nslub_processes (\d+)", text).group(1)), 2)
        self.assertNotIn(str(os.getpid()), found, "it does not use libslub")
        self.assertTrue(190 < len(found[second]) <= 200, len(found[second]))
        for pid, comm in ((self.pid, "heap"), (second, "python")):
            with open(f"/proc/{pid}/cgroup") as file:
                path = file.read()
            told = re.search(r',comm="(\w+)[^"]*",container="([^"]*)",', found[pid][0])
            self.assertTrue(told.group(1).startswith(comm), found[pid][0])
            self.assertIn(told.group(2), path)
        # Families are whole: no other one comes in between.
        families = [re.match(r"\w+", line).group() for line in text.splitlines()
                    if line[0] != "#"]
        self.assertEqual(len([name for i, name in enumerate(families)
                              if not i or families[i - 1] != name]), len(set(families)))

    def test_filters(self):
        bound = self.others(slub("exporter", "--series=30", "--comm=he?p").stdout)[self.pid]
        self.assertTrue(20 < len(bound) <= 30, len(bound))
        self.assertNotIn(self.pid, self.others(slub("exporter", "--comm=x*").stdout))
        lines = self.others(slub("exporter", "--cache=malloc-*", "--series=0",
                                 "--metrics=slub_cache*").stdout)[self.pid]
        self.assertEqual({line.partition("{")[0][:10] for line in lines}, {"slub_cache"})
        self.assertEqual([line for line in lines if 'cache="malloc-' not in line], [])
        self.assertNotIn("slub_cache_events_total", "".join(lines))
        events = self.others(slub("exporter", "--events", "--metrics=slub_cache_events_total",
                                  "--series=0").stdout)[self.pid]
        self.assertIn("slub_cache_events_total", events[0])
        # Of one target too, which is whole otherwise.
        python = self.python()
        self.assertLess(len(samples(slub("exporter", "--series=60", python).stdout)), 61)
        self.assertGreater(len(samples(slub("exporter", python).stdout)), 1000)

    def test_the_largest_come_first(self):
        told = self.told("stats", self.pid)["caches"]
        largest = max(told, key=lambda cache: cache["slab_bytes"] if "slab_bytes" in cache
                      else cache["slabs"] * cache["slab_size"] * cache["objs_per_slab"])
        text = slub("exporter", "--series=30", self.pid).stdout
        self.assertEqual(set(re.findall(r'cache="([^"]+)"', text)), {largest["name"]})

    def test_what_it_may_not_read(self):
        """Another user's process is counted, and the others are shown."""
        if os.getuid():
            self.skipTest("needs root")
        done = slub("exporter", user=NOBODY)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn(self.pid, self.others(done.stdout))
        self.assertGreater(int(re.search(r"_unreadable (\d+)", done.stdout).group(1)), 0)

    def test_files(self):
        """Of a process that has ended its statistics file; of one that is read no file besides."""
        os.mkdir(self.path("files"))
        process = self.heap(SLUB_STATS_FILE=self.path("files/heap.%p"))
        with open(self.path("files/other"), "w") as file:
            file.write("no statistics")
        name = f"heap.{process.pid}"
        found = self.others(slub("exporter", f"--files={self.path('files')}").stdout)
        self.assertNotIn(f'file="{name}"', "".join(found[str(process.pid)]))
        process.kill()
        process.wait()
        found = self.others(slub("exporter", f"--files={self.path('files')}").stdout)
        self.assertIn(f'comm="heap",container="",file="{name}"', found[str(process.pid)][0])
        self.assertEqual([line for line in found[str(process.pid)] if "file=" not in line], [])
        done = slub("exporter", "--files=/nonexistent")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def serve_all(self, address):
        exporter = subprocess.Popen([SLUB, "exporter", f"--listen={address}"], text=True,
                                    env=environment(), stdout=subprocess.PIPE)
        self.addCleanup(exporter.communicate)
        self.addCleanup(exporter.terminate)
        return exporter.stdout.readline().strip().rpartition(" ")[2]

    def test_addresses(self):
        for address in ("0.0.0.0:0", ":0", "127.0.0.2:0", "[::1]:0"):
            try:
                where = self.serve_all(address)
                port = where.rpartition(":")[2]
                host = {"127.0.0.2:0": "127.0.0.2", "[::1]:0": "[::1]"}.get(address, "127.0.0.1")
                with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
                    self.assertIn(f'pid="{self.pid}"', answer.read().decode())
            except OSError:
                if address != "[::1]:0":
                    raise

    def test_prometheus(self):
        """A real one scrapes it, finds no fault with the text, and answers with its numbers."""
        if not shutil.which("prometheus"):
            self.skipTest("no prometheus (the Debian package of that name)")
        where = self.serve_all("127.0.0.1:0")
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = f"127.0.0.1:{free.getsockname()[1]}"
        with open(self.path("prometheus.yml"), "w") as file:
            file.write("global: { scrape_interval: 1s }\nscrape_configs:\n- job_name: slub\n"
                       f"  static_configs: [ {{ targets: [ '{where}' ] }} ]\n")
        server = subprocess.Popen(
            ["prometheus", f"--config.file={self.path('prometheus.yml')}",
             f"--storage.tsdb.path={self.path('data')}", f"--web.listen-address={own}"],
            env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        query = f'slub_memory_bytes{{pid="{self.pid}",part="live"}}'
        answers = self.asked(own, "query?query=" + urllib.parse.quote(query))
        self.assertEqual(answers["result"][0]["metric"]["comm"], "heap")
        self.assertGreater(int(answers["result"][0]["value"][1]), 0)
        target = self.asked(own, "targets")["activeTargets"][0]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        tool = shutil.which("promtool")
        if tool:
            done = subprocess.run([tool, "check", "metrics"], input=slub("exporter").stdout,
                                  text=True, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def asked(self, own, what):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{own}/api/v1/{what}", timeout=10) as answer:
                    data = json.load(answer)["data"]
                if data.get("result") or data.get("activeTargets"):
                    return data
            time.sleep(0.5)
        self.fail(f"prometheus has no answer to {what}")

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
