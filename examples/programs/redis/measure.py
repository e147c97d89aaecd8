# SPDX-License-Identifier: MIT
"""Redis with its own jemalloc and with libslub: what active defragmentation brings and costs, and
a control group whose limit is lower than the data, and one with a neighbour that grows and shrinks.
Prints three tables."""
import argparse
import concurrent.futures
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
KINDS = ("stock", "slub")


class Redis:
    def __init__(self, program, folder, *options, enter=None):
        self.socket_path = os.path.join(folder, "socket")
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.socket_path, "--save", "",
             "--enable-debug-command", "yes", "--hz", "100", *options],
            cwd=folder, preexec_fn=enter, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.socket_path)
                break
            except OSError:
                time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    @staticmethod
    def packed(words):
        parts = [b"*%d\r\n" % len(words)]
        for word in (str(word).encode() for word in words):
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        return b"".join(parts)

    def answer(self):
        line = self.file.readline()
        if not line:
            raise EOFError
        if line[:1] == b"$" and line[1:2] != b"-":
            return self.file.read(int(line[1:]) + 2)[:-2].decode()
        return None if line[:1] == b"$" else line.decode().strip()

    def __call__(self, *words):
        return self.many([words])[0]

    def many(self, commands):
        self.socket.sendall(b"".join(map(self.packed, commands)))
        return [self.answer() for _ in commands]

    def info(self, section):
        lines = self("info", section).split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.kill()
        self.process.wait()
        os.unlink(self.socket_path)


def fill(redis, name, nr, size):
    for start in range(0, nr, 500):
        redis.many([("set", f"{name}:{i}", "A" * size)
                    for i in range(start, min(start + 500, nr))])


def defrag(program, folder, share):
    """Redis's own workload for it: small values, evicted by larger ones."""
    redis = Redis(program, folder, "--maxmemory", f"{100 // share}mb",
                  "--maxmemory-policy", "allkeys-lru", "--active-defrag-threshold-lower", "5",
                  "--active-defrag-cycle-min", "65", "--active-defrag-cycle-max", "75",
                  "--active-defrag-ignore-bytes", "1mb")
    try:
        fill(redis, "small", 700000 // share, 150)
        fill(redis, "large", 170000 // share, 300)
        time.sleep(0.3)
        before = redis.info("memory")
        redis("config", "set", "maxmemory", "0")
        digest = redis("debug", "digest")
        start, cpu = time.time(), redis.cpu()
        redis("config", "set", "activedefrag", "yes")
        time.sleep(1.5)
        while time.time() - start < 60 and redis.info("memory")["active_defrag_running"] != "0":
            time.sleep(0.1)
        seconds, cpu = time.time() - start, redis.cpu() - cpu
        time.sleep(0.3)
        after = redis.info("memory")
        if redis("debug", "digest") != digest:
            sys.exit(f"measure: {program}: the data changed")
        return (f"{before['allocator_frag_ratio']} | {after['allocator_frag_ratio']} "
                f"| {seconds:.1f} | {cpu:.2f} | {int(before['used_memory_rss']) // MIB} "
                f"| {int(after['used_memory_rss']) // MIB}")
    finally:
        redis.end()


def ask(redis, chance):
    """200 keys of 400 MB, most of them rarely; those that are not there are set.  How many were."""
    keys = [f"k{int(400000 * chance.random() ** 3)}" for _ in range(200)]
    found = redis.many([("get", key) for key in keys])
    missed = [key for key, value in zip(keys, found) if value is None]
    redis.many([("set", key, "v" * 1000) for key in missed])
    return len(keys) - len(missed)


def limited(program, folder, groups, options, seconds):
    """Keys of 400 MB in rotation, most of them rarely, in a group of 192 MiB; no maxmemory."""
    group = groups.make(f"slub-programs-{os.getpid()}", 192 * MIB)
    if not group:
        return "no memory cgroup can be made here | | "
    redis = Redis(program, folder, "--maxmemory-policy", "allkeys-lru", "--activedefrag", "yes",
                  "--active-defrag-threshold-lower", "5", "--active-defrag-ignore-bytes", "4mb",
                  *options, enter=group.enter)
    chance, start, hits, nr = random.Random(1), time.time(), 0, 0
    try:
        while time.time() - start < seconds:
            nr, hits = nr + 200, hits + ask(redis, chance)
        outcome = "lived"
    except (OSError, EOFError):
        outcome = "killed"
    finally:
        redis.end()
        group.remove()
    return f"{outcome} | {time.time() - start:.0f} | {100 * hits / max(nr, 1):.1f}"


class Beside:
    """A server in a group of 256 MiB with neighbour.py, and what was seen of both."""

    def __init__(self, program, group, options):
        self.group, self.killed = group, 0
        self.folder = tempfile.mkdtemp()
        self.redis = Redis(program, self.folder, "--maxmemory-policy", "allkeys-lru",
                           "--activedefrag", "yes", "--active-defrag-threshold-lower", "5",
                           "--active-defrag-ignore-bytes", "4mb", *options,
                           enter=self.group.enter)
        self.neighbour = self.start_neighbour()

    def start_neighbour(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "neighbour.py")
        return subprocess.Popen([sys.executable, program], preexec_fn=self.group.enter)

    def run(self, seconds):
        chance, start, hits, batches, used = random.Random(1), time.time(), 0, [], []
        try:
            while time.time() - start < seconds:
                asked = time.time()
                hits += ask(self.redis, chance)
                batches.append(time.time() - asked)
                if len(used) < time.time() - start:
                    used.append(int(self.redis.info("memory")["used_memory"]) // MIB)
                if self.neighbour.poll() is not None:
                    self.killed += 1
                    self.neighbour = self.start_neighbour()
            outcome = "lived"
        except (OSError, EOFError):
            outcome = "killed"
        # The first cycle fills it.
        used = used[40:] or used or [0]
        batches.sort()
        return (f"{outcome} | {time.time() - start:.0f} | {len(batches) * 200} "
                f"| {100 * hits / max(len(batches) * 200, 1):.1f} | {min(used)} to {max(used)} "
                f"| {1e3 * batches[len(batches) * 99 // 100] if batches else 0:.0f} "
                f"| {self.killed}")

    def end(self):
        self.redis.end()
        self.neighbour.kill()
        self.neighbour.wait()
        self.group.remove()
        shutil.rmtree(self.folder)


def beside(program, group, options, seconds):
    both = Beside(program, group, options)
    try:
        return both.run(seconds)
    finally:
        both.end()


def beside_all(programs, groups, seconds):
    """All servers at once, so that each has the same load beside it."""
    print("\n| server | outcome | seconds | asked for | hits % | MiB of keys, from the 40th second "
          "on | p99 of 200 ms | neighbours killed |\n|---|---|---|---|---|---|---|---|", flush=True)
    if not groups.find():
        print("| no memory cgroup can be made here | | | | | | | |")
        return
    servers = (("stock", "stock", ()), ("stock, `maxmemory 110mb`", "stock",
                                        ("--maxmemory", "110mb")),
               ("slub, `maxmemory-pressure yes`", "slub", ("--maxmemory-pressure", "yes")))
    with concurrent.futures.ProcessPoolExecutor(len(servers)) as pool:
        rows = [pool.submit(beside, programs[kind],
                            groups.make(f"slub-beside-{nr}-{os.getpid()}", 256 * MIB),
                            options, seconds)
                for nr, (_, kind, options) in enumerate(servers)]
        for (title, _, _), row in zip(servers, rows):
            print(f"| {title} | {row.result()} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, os.path.join(args.source, "bench", "reclaim"))
    import memory_cgroup  # pylint: disable=import-outside-toplevel,import-error
    folder = tempfile.mkdtemp()
    programs = {kind: os.path.join(args.programs, kind, "src", "redis-server") for kind in KINDS}
    print("| malloc | fragmentation before | after | seconds | CPU s | RSS MiB before | after |\n"
          "|---|---|---|---|---|---|---|")
    for kind, program in programs.items():
        print(f"| {kind} | {defrag(program, folder, 10 if args.quick else 1)} |", flush=True)
    print("\n| malloc | outcome | seconds | hits % |\n|---|---|---|---|")
    for kind, program in programs.items():
        options = ("--maxmemory-pressure", "yes") if kind == "slub" else ()
        print(f"| {kind} | "
              f"{limited(program, folder, memory_cgroup, options, 10 if args.quick else 60)} |",
              flush=True)
    shutil.rmtree(folder)
    beside_all(programs, memory_cgroup, 60 if args.quick else 600)


if __name__ == "__main__":
    main()
