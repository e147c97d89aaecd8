# SPDX-License-Identifier: MIT
"""The HTTP server of examples/programs/http: tenants are charged to the byte, one at its limit
gets 503 and no other tenant notices, and a request that ends in the middle leaves nothing.

Builds it by cargo, where its crates are or can be had."""
import argparse
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = None
SKIPPED = 77
MAX = 1 << 20


def build():
    """The program; ends the test where there is no cargo, or no crates."""
    cargo = shutil.which("cargo")
    if not cargo:
        print("cargo not found (scripts/setup test)")
        sys.exit(SKIPPED)
    said = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    if not version or tuple(map(int, version.groups())) < (1, 85):
        print(f"a cargo of 1.85 or later is wanted (Debian: cargo-web); here: {said.strip()}")
        sys.exit(SKIPPED)
    folder = os.path.join(ARGS.source, "examples", "programs", "http")
    environment = {**os.environ, "CARGO_TARGET_DIR": ARGS.target, "SLUB_LIB_DIR": ARGS.library,
                   "SLUB_LINK": "static", "CARGO_NET_RETRY": "0"}

    def run(*words, seconds):
        try:
            return subprocess.run([cargo, *words, "--locked"], cwd=folder, env=environment,
                                  capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    for words in (("--offline",), ()):
        fetched = run("fetch", *words, seconds=60)
        if fetched and not fetched.returncode:
            break
    else:
        reason = fetched.stderr.strip().splitlines()[-1] if fetched else "no answer in 60 s"
        print(f"no crates here (cargo fetch in examples/programs/http): {reason}")
        sys.exit(SKIPPED)
    built = run("build", "--offline", "--features", "groups", "-j2", seconds=800)
    if not built or built.returncode:
        sys.exit(built.stderr if built else "cargo build took more than 800 s")
    return os.path.join(ARGS.target, "debug", "http-tenants")


class Server:
    def __init__(self, *options, **environment):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [ARGS.program, *options], stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, **environment})
        line = self.process.stdout.readline()
        self.address = ("127.0.0.1", int(line.rsplit(":", 1)[1]))
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPConnection(*self.address, timeout=30)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, body)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def report(self):
        return json.loads(self.ask("GET", "/")[1])

    def bytes(self, tenant):
        return self.report()["tenants"][tenant]["bytes"]

    def end(self):
        self.connection.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class Http(unittest.TestCase):
    def server(self, *options, **environment):
        server = Server(*options, **environment)
        self.addCleanup(server.end)
        return server

    def settles(self, look, wanted):
        """What an answer had is given back when it was sent, which may be after it was read."""
        end = time.monotonic() + 20
        while look() != wanted and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(look(), wanted)

    def test_answers(self):
        server = self.server()
        self.assertEqual(server.ask("GET", "/a/x"), (404, "no such key\n"))
        self.assertEqual(server.ask("PUT", "/a/x", "1 < 2 & so on\n")[0], 201)
        self.assertEqual(server.ask("PUT", "/a/w", "new")[0], 201)
        self.assertEqual(server.ask("PUT", "/a/w", "newer")[0], 201)
        self.assertEqual(server.ask("GET", "/a/x"), (200, "1 < 2 & so on\n"))
        self.assertEqual(server.ask("GET", "/a"), (200, (
            "<h1>a</h1>\n<table>\n<tr><td>w<td>5<td>newer\n"
            "<tr><td>x<td>14<td>1 &lt; 2 &amp; so on.\n</table>\n")))
        status, text = server.ask("GET", "/a?export")
        self.assertEqual((status, json.loads(text)), (200, {"x": "1 < 2 & so on\n", "w": "newer"}))
        self.assertEqual(server.ask("PUT", "/a", "no key")[0], 405)
        self.assertEqual(server.ask("PUT", "/a/x", "y" * (MAX + 1))[0], 413)
        server.connection.close()
        self.assertEqual(server.ask("DELETE", "/a/x")[0], 204)
        self.assertEqual(server.ask("DELETE", "/a/x")[0], 404)
        self.assertEqual(server.ask("DELETE", "/a")[0], 204)
        self.assertEqual(server.report()["tenants"], {})

    def test_tenants_are_charged_to_the_byte(self):
        server = self.server()
        for tenant in ("a", "b"):
            server.ask("PUT", f"/{tenant}/k", "x" * 1000)
        base = server.bytes("a")
        self.settles(lambda: server.bytes("b"), base)
        for _ in range(2):
            for i in range(20):
                server.ask("PUT", "/a/k", "y" * (1000 + i % 20))
                server.ask("GET", "/a")
                server.ask("GET", "/a/k")
                server.ask("GET", "/a?export")
            server.ask("PUT", "/a/k", "x" * 1000)
            self.settles(lambda: server.bytes("a"), base)
        # A block of 256 KiB has as many pages; its key and its count lie elsewhere.
        server.ask("PUT", "/a/k", "x" * (256 << 10))
        self.assertIn(server.bytes("a") - base, range((256 << 10) - 1024, (256 << 10) + 256))
        self.assertEqual(server.bytes("b"), base)

    def test_a_tenant_that_keeps_all_gets_503(self):
        server = self.server(f"tenant={MAX}")
        self.assertEqual(server.ask("PUT", "/good/k", "x" * 1000)[0], 201)
        statuses = [server.ask("PUT", f"/bad/k{i}", "x" * 100000)[0] for i in range(20)]
        self.assertEqual(statuses, [201] * statuses.count(201) + [503] * statuses.count(503))
        self.assertIn(statuses.count(201), range(8, 11))
        self.assertLessEqual(server.bytes("bad"), MAX)
        for _ in range(20):
            self.assertEqual(server.ask("PUT", "/good/k", "x" * 100000)[0], 201)
        self.assertEqual(server.ask("GET", "/bad/k0"), (200, "x" * 100000))
        server.connection.request("PUT", "/bad/more", "x" * 500000)
        answer = server.connection.getresponse()
        self.assertEqual((answer.status, answer.getheader("retry-after")), (503, "1"))
        answer.read()
        # What it lets go it may have again.
        self.assertEqual(server.ask("DELETE", "/bad/k0")[0], 204)
        self.assertEqual(server.ask("PUT", "/bad/k0", "x" * 100000)[0], 201)
        self.assertEqual(server.ask("DELETE", "/bad")[0], 204)
        self.assertNotIn("bad", server.report()["tenants"])
        self.assertEqual(server.ask("PUT", "/bad/k", "x" * 500000)[0], 201)

    def test_code_that_knows_no_limits_ends_with_503(self):
        server = self.server(f"tenant={MAX}")
        for i in range(8):
            self.assertEqual(server.ask("PUT", f"/a/k{i}", "x" * 100000)[0], 201)
        self.settles(lambda: server.ask("GET", "/")[0], 200)
        before = server.bytes("a")
        for _ in range(5):
            self.assertEqual(server.ask("GET", "/a?export")[0], 503)
        report = server.report()
        self.assertEqual((report["tenants"]["a"]["bytes"], report["overdraft"]["bytes"]),
                         (before, 0))
        self.assertGreater(report["overdraft"]["peak"], 0)
        self.assertEqual(server.ask("GET", "/a/k7"), (200, "x" * 100000))
        for i in range(7):
            server.ask("DELETE", f"/a/k{i}")
        self.assertEqual(server.ask("GET", "/a?export")[0], 200)

    def test_a_request_that_ends_in_the_middle(self):
        server = self.server()
        server.ask("PUT", "/a/k", "x" * 1000)
        base = server.bytes("a")
        broken = [socket.create_connection(server.address, timeout=30) for _ in range(3)]
        for connection in broken:
            connection.sendall(b"PUT /a/k HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
                               + b"y" * 50000)
        end = time.monotonic() + 20
        while server.bytes("a") < base + 3 * 200000 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertGreaterEqual(server.bytes("a"), base + 3 * 200000)
        for connection in broken:
            connection.close()
        self.settles(lambda: server.bytes("a"), base)
        self.assertEqual(server.ask("GET", "/a/k"), (200, "x" * 1000))

    def test_a_panic_leaves_the_group(self):
        server = self.server("faults=1", RUST_BACKTRACE="1")
        server.ask("PUT", "/a/k", "x" * 1000)
        server.ask("PUT", "/b/k", "x" * 1000)
        base = server.bytes("a")
        for _ in range(3):
            self.assertEqual(server.ask("GET", "/a?panic"), (500, "the handler panicked\n"))
        self.assertEqual(server.ask("PUT", "/b/k", "x" * 5000)[0], 201)
        self.settles(lambda: server.bytes("a"), base)
        server.errors.seek(0)
        self.assertIn("asked for by a", server.errors.read())

    def test_too_many_connections(self):
        """Beyond the limit one is closed behind its first answer, or gets 503; those before go
        on."""
        server = self.server("connections=262144")
        server.ask("PUT", "/a/k", "x" * 1000)

        def two_answers(connection):
            connection.auto_open = connection.sock is None
            try:
                for _ in range(2):
                    connection.request("GET", "/a/k")
                    connection.auto_open = 0
                    answer = connection.getresponse()
                    if (answer.status, answer.read()) != (200, b"x" * 1000):
                        return False
            except (OSError, http.client.HTTPException):
                return False
            return True

        several = []
        while len(several) < 300 and (not several or several[-1][1]):
            connection = server.connect()
            self.addCleanup(connection.close)
            several.append((connection, two_answers(connection)))
        self.assertIn(len(several), range(10, 300))
        self.assertTrue(two_answers(several[0][0]))
        report = server.report()["server"]
        self.assertLessEqual(report["bytes"], report["max"])
        self.assertGreater(report["refused"], 0)
        for connection, _ in several:
            connection.close()
        self.settles(lambda: two_answers(server.connect()), True)

    def test_limits_that_are_wrong(self):
        for option, code, words in (
                ("tenant=100", 1, "tenant=100: 65536 is the least"),
                ("connections=1", 1, "connections=1: 262144 is the least"),
                ("overdraft=4096", 1, "overdraft=4096: 4194304 is the least"),
                ("tenant=0", 2, "tenant=0: a number from 1 on"),
                ("tenant=-1", 2, "tenant=-1: a number from 1 on"),
                ("tenant", 2, "usage:"), ("tenants=5", 2, "usage:"),
                ("listen=here", 2, "an address is wanted")):
            done = subprocess.run([ARGS.program, option], capture_output=True, text=True,
                                  check=False, timeout=30)
            self.assertEqual(done.returncode, code, option)
            self.assertRegex(done.stderr, re.escape(words))

    def test_the_least_limits(self):
        server = self.server("tenant=65536", "connections=262144", "overdraft=4194304")
        self.assertEqual(server.ask("PUT", "/a/k", "x" * 20000)[0], 201)
        self.assertEqual(server.ask("PUT", "/a/l", "x" * 100000)[0], 503)
        self.assertEqual(server.ask("GET", "/a/k"), (200, "x" * 20000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", help="built already, with the feature groups")
    for name in ("source", "target", "library"):
        parser.add_argument("--" + name)
    ARGS, rest = parser.parse_known_args()
    if not ARGS.program:
        ARGS.program = build()
    unittest.main(argv=sys.argv[:1] + rest)
