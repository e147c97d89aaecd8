# SPDX-License-Identifier: MIT
"""The servers of bench/outside/run.  Clients talk to them over loopback or a socket file, run
without any library, and check what comes back; only the server's time and memory count."""

import glob
import gzip
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **more)
    if done.returncode:
        raise Failed(f"{words[0]} ended with {done.returncode}: {done.stdout[-300:]}")
    return done.stdout


class Service:
    """A server in a folder of its own.  `load` raises Failed where an answer is wrong."""
    needs = ()
    end_by = signal.SIGTERM
    wrapper = ()                        # what comes before everything else of the command
    brings_malloc = False               # linked to one: the C library's has to be preloaded

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()

    def missing(self):
        return [name for name in self.needs if not shutil.which(name)]

    def prepare(self):
        """Once, before all rounds."""

    def begin(self):
        """Before each start."""

    def answers(self):
        with socket.create_connection(("127.0.0.1", self.port), 1):
            return True


class Redis(Service):
    needs = ("redis-server", "redis-cli", "redis-benchmark")
    brings_malloc = True                # Debian's: jemalloc

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--dir", self.folder]

    def ask(self, *words):
        return run("redis-cli", "-p", str(self.port), *words).strip()

    def load(self):
        run("redis-benchmark", "-p", str(self.port), "-r", "200000", "-n", "150000", "-q", "-P",
            "16", "-t", "set,lpush,sadd,hset,zadd")
        if self.ask("llen", "mylist") != "150000":
            raise Failed("redis: the list has not the length that was pushed")


class Memcached(Service):
    needs = ("memcached",)
    CONNECTIONS, BATCHES, BATCH = 50, 100, 50

    def command(self):
        return ["memcached", "-u", pwd.getpwuid(os.getuid()).pw_name, "-l", "127.0.0.1", "-p",
                str(self.port), "-m", "128", "-t", "2"]

    @staticmethod
    def value(key):
        return b"%d " % key * (1 + key * 7919 % 300)

    def load(self):
        """Many connections that stay, each with batches of its own keys: written, then read."""
        peers = [socket.create_connection(("127.0.0.1", self.port))
                 for _ in range(self.CONNECTIONS)]
        for batch in range(self.BATCHES):
            for number, peer in enumerate(peers):
                first = (batch * self.CONNECTIONS + number) * self.BATCH
                self.exchange(peer, range(first, first + self.BATCH))
        for peer in peers:
            peer.close()

    def exchange(self, peer, keys):
        ask = b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (k, len(self.value(k)), self.value(k))
                       for k in keys)
        ask += b"get " + b" ".join(b"k%d" % k for k in keys) + b"\r\n"
        expected = b"STORED\r\n" * len(keys) + b"".join(
            b"VALUE k%d 0 %d\r\n%s\r\n" % (k, len(self.value(k)), self.value(k))
            for k in keys) + b"END\r\n"
        peer.sendall(ask)
        got = b""
        while len(got) < len(expected):
            part = peer.recv(1 << 16)
            if not part:
                break
            got += part
        if got != expected:
            raise Failed("memcached: a value came back changed, or not at all")


class Nginx(Service):
    """Compressed files, and the same ones through a proxy: memory of pools, comes and goes."""
    needs = ("nginx", "ab")
    end_by = signal.SIGQUIT
    CONFIGURATION = """
        daemon off; worker_processes 2; error_log {f}/error.log; pid {f}/pid;
        {user}
        events {{ worker_connections 256; }}
        http {{
            access_log off; client_body_temp_path {f}/body; proxy_temp_path {f}/proxy;
            fastcgi_temp_path {f}/fastcgi; uwsgi_temp_path {f}/uwsgi; scgi_temp_path {f}/scgi;
            # ab speaks HTTP/1.0
            gzip on; gzip_http_version 1.0; gzip_types *; gzip_min_length 100;
            keepalive_requests 1000000;
            server {{
                listen 127.0.0.1:{port}; root {f};
                location /proxy/ {{ proxy_pass http://127.0.0.1:{port}/; }}
            }}
        }}
        """

    def prepare(self):
        user = "user root;" if os.getuid() == 0 else ""
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="ascii") as file:
            file.write(self.CONFIGURATION.format(f=self.folder, port=self.port, user=user))
        self.page = "".join(f"line {i} of a page, {i * 7919 % 1000}\n" for i in range(400)).encode()
        with open(os.path.join(self.folder, "page.txt"), "wb") as file:
            file.write(self.page)

    def command(self):
        return ["nginx", "-e", os.path.join(self.folder, "error.log"), "-c",
                os.path.join(self.folder, "nginx.conf")]

    def load(self):
        for path, requests in (("page.txt", 10000), ("proxy/page.txt", 5000)):
            url = f"http://127.0.0.1:{self.port}/{path}"
            ask = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
            with urllib.request.urlopen(ask, timeout=10) as answer:
                if gzip.decompress(answer.read()) != self.page:
                    raise Failed("nginx: the page is not what the file is")
            said = run("ab", "-q", "-k", "-n", str(requests), "-c", "32", "-H",
                       "Accept-Encoding: gzip", url)
            if not re.search(r"Failed requests: +0\n", said) or "Non-2xx" in said:
                raise Failed(f"nginx: requests failed: {said[-400:]}")
            if int(re.search(r"Document Length: +(\d+)", said).group(1)) > len(self.page) / 2:
                raise Failed("nginx: ab's answers were not compressed")


class Postgres(Service):
    """pgbench: its own transactions and its own selects, eight clients."""
    needs = ("psql",)
    end_by = signal.SIGINT              # a fast shutdown
    CLIENTS, TRANSACTIONS = 8, 1500

    def __init__(self, folder):
        super().__init__(folder)
        self.bin = max(glob.glob("/usr/lib/postgresql/*/bin"), default="",
                       key=lambda path: int(re.search(r"/(\d+)/", path).group(1)))
        self.data = os.path.join(folder, "data")
        self.client = ["-h", folder, "-p", str(self.port), "-U", "postgres"]
        if os.getuid() == 0:            # it refuses to run as root
            self.wrapper = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")

    def missing(self):
        there = os.path.exists(os.path.join(self.bin, "pgbench"))
        return super().missing() + ([] if there else ["pgbench"])

    def tool(self, name, *words, data=None):
        return run(*self.wrapper, os.path.join(self.bin, name), *(["-D", data] if data else []),
                   *words, cwd=self.folder)

    def prepare(self):
        base = os.path.join(self.folder, "base")
        if self.wrapper:
            shutil.chown(self.folder, "postgres")
        self.tool("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", data=base)
        with open(os.path.join(base, "postgresql.conf"), "a", encoding="ascii") as file:
            file.write(f"fsync=off\nautovacuum=off\nlisten_addresses=''\nport={self.port}\n"
                       f"unix_socket_directories='{self.folder}'\n")
        self.tool("pg_ctl", "-l", os.path.join(self.folder, "log"), "-w", "start", data=base)
        try:
            self.tool("pgbench", *self.client, "-i", "-s", "4", "-q", "postgres")
        finally:
            self.tool("pg_ctl", "-m", "fast", "-w", "stop", data=base)

    def begin(self):
        run(*self.wrapper, "rm", "-rf", self.data)
        run(*self.wrapper, "cp", "-a", os.path.join(self.folder, "base"), self.data)

    def command(self):
        return [os.path.join(self.bin, "postgres"), "-D", self.data]

    def answers(self):
        return not subprocess.run([os.path.join(self.bin, "pg_isready"), *self.client],
                                  stdout=subprocess.DEVNULL, check=False).returncode

    def load(self):
        said = self.tool("pgbench", *self.client, "-n", "-c", str(self.CLIENTS), "-j", "2", "-t",
                         str(self.TRANSACTIONS), "-b", "tpcb-like@1", "-b", "select-only@3",
                         "--random-seed=7", "postgres")
        nr = self.CLIENTS * self.TRANSACTIONS
        if f"actually processed: {nr}/{nr}" not in said or "failed transactions: 0 " not in said:
            raise Failed(f"pgbench: {said[-400:]}")
        # What TPC-B promises: each of the three sums is that of all deltas.
        sums = run("psql", *self.client, "-qAtc", "select (select sum(abalance) from "
                   "pgbench_accounts), (select sum(bbalance) from pgbench_branches), "
                   "(select sum(delta) from pgbench_history)", "postgres").strip().split("|")
        if len(set(sums)) != 1:
            raise Failed(f"pgbench: the sums differ: {sums}")


SERVICES = {"redis": Redis, "memcached": Memcached, "nginx": Nginx, "pgbench": Postgres}


def tree(pid):
    """The processes below this one."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as file:
                for child in file.read().split():
                    found += [int(child)] + tree(int(child))
        except OSError:
            pass
    return found


def pss_kib(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return int(re.search(r"(?m)^Pss: +(\d+)", file.read()).group(1))
    except (OSError, AttributeError):
        return 0


class Watch(threading.Thread):
    """Samples the memory of a server of several processes: what they share counts once."""
    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.several, self.over = pid, 0, False, threading.Event()

    def run(self):
        while not self.over.wait(0.2):
            self.look()

    def look(self):
        pids = tree(self.pid)
        self.several |= len(pids) > 1
        self.peak = max(self.peak, sum(map(pss_kib, pids)))

    def end(self):
        self.look()
        self.over.set()
        self.join()


def lacks_library(pid, library):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            maps = file.read()
    except OSError:
        return False                    # it has ended
    return bool(maps) and os.path.realpath(library) not in maps


def wait_for(service, process):
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        try:
            if service.answers():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise Failed("the server does not answer")


def stop(service, process):
    for pid in tree(process.pid)[:1]:
        os.kill(pid, service.end_by)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        for pid in tree(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        raise Failed("the server does not end when asked to") from None


def measure(service, timed, library):
    """Starts the server, loads it, ends it.  Its peak in KiB if it has several processes, or None:
    then what `timed`, which makes a timed command of a command, wrote down is exact."""
    service.begin()
    process = subprocess.Popen([*service.wrapper, *timed(service.command())], cwd=service.folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(service, process)
        if library and any(lacks_library(pid, library) for pid in tree(process.pid)):
            raise Failed("a process of the server does not have the library")
        watch = Watch(process.pid)
        watch.start()
        service.load()
        watch.end()
    finally:
        stop(service, process)
    if process.returncode:
        raise Failed(f"the server ended with {process.returncode}")
    return watch.peak if watch.several else None
