# SPDX-License-Identifier: MIT
"""The HTTP server on the system's malloc, with libslub as its global allocator alone, and with
groups, scratch memory and a typed cache.  Then a tenant that takes and never gives back, in a
control group.  Prints three tables; wrk asks, over loopback."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"plain": "the system's malloc", "global": "libslub, global allocator alone",
         "groups": "libslub, all of it"}
TENANTS = ("a", "b", "c", "d")


class Server:
    def __init__(self, program, *options, enter=None):
        self.process = subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True,
                                        preexec_fn=enter)
        line = self.process.stdout.readline().split()
        if len(line) != 3:
            sys.exit(f"measure: {program} does not start")
        self.url = f"http://{line[2]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def report(self):
        with urllib.request.urlopen(self.url + "/", timeout=30) as answer:
            return json.load(answer)

    def cpu(self):
        """Seconds of all its threads, by nanoseconds: ticks of a hundredth are too coarse."""
        ran, tasks = 0, f"/proc/{self.process.pid}/task"
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/schedstat", encoding="ascii") as file:
                ran += int(file.read().split()[0])
        return ran / 1e9

    def resident(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) / 1024 for line in file if "VmRSS" in line)

    def start(self, seconds, connections, *words, delay=None):
        environment = {**os.environ, **({"HTTP_DELAY": str(delay)} if delay else {})}
        return subprocess.Popen(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s",
             os.path.join(HERE, "load.lua"), self.url, "--", *map(str, words)],
            stdout=subprocess.PIPE, text=True, env=environment)

    def fill(self):
        for run in [self.start(1, 1, tenant, "fill") for tenant in TENANTS]:
            result(run)


def result(wrk):
    text = wrk.communicate()[0]
    if wrk.returncode:
        sys.exit("measure: wrk failed")
    return json.loads(text.splitlines()[-1])


def whole(found):
    if found["refused"] or found["broken"]:
        sys.exit(f"measure: requests failed: {found}")
    return found


def one_round(program, seconds):
    """Four tenants at once, eight connections each."""
    with Server(program) as server:
        server.fill()
        cpu = server.cpu()
        runs = [server.start(seconds, 8, tenant, "serve") for tenant in TENANTS]
        found = [whole(result(run)) for run in runs]
        cpu = server.cpu() - cpu
        requests = sum(each["requests"] for each in found)
        return {"a second": sum(each["requests"] / each["microseconds"] * 1e6 for each in found),
                "CPU us": cpu / requests * 1e6,
                "p50 ms": statistics.median(each["p50"] for each in found) / 1000,
                "p99 ms": statistics.median(each["p99"] for each in found) / 1000,
                "RSS MiB": server.resident()}


def speed(programs, rounds, seconds):
    found = {kind: [] for kind in programs}
    for number in range(rounds):
        order = list(programs.items())
        for kind, program in order if number % 2 else reversed(order):
            found[kind].append(one_round(program, seconds))
    columns = list(found["plain"][0])
    print(f"{len(TENANTS)} tenants, 32 connections, medians of {rounds} alternating rounds\n\n"
          f"| memory | {' | '.join(columns)} | CPU of the first |\n"
          f"|---{'|---' * len(columns)}|---|")
    for kind, lines in found.items():
        numbers = [statistics.median(line[column] for line in lines) for column in columns]
        ratio = statistics.median(line["CPU us"] / base["CPU us"]
                                  for line, base in zip(lines, found["plain"]))
        print(f"| {KINDS[kind]} | {' | '.join(f'{number:.1f}' for number in numbers)} "
              f"| {ratio:.2f} |", flush=True)


def beside(server, seconds, neighbour):
    """(the served tenant, its neighbour), None: the server was killed."""
    other = neighbour and server.start(seconds, 4, "hoarder", neighbour, 20, 256 << 10,
                                       delay=4)
    served = server.start(seconds, 8, "a", "serve", delay=1)
    found = result(served), result(other) if other else None
    return found if server.process.poll() is None else None


def neighbours(programs, groups, rounds, seconds):
    """The same tenant alone, beside one that overwrites, and beside one that keeps."""
    print("\nTenant a, 8 connections, beside another one that writes values of 256 KiB; a control "
          f"group of 192 MiB, medians of {rounds}\n\n"
          "| memory | neighbour | outcome | a second | p50 ms | p99 ms | neighbour's 503 |\n"
          "|---|---|---|---|---|---|---|")
    rows = [(kind, neighbour) for neighbour in (None, "over", "hoard") for kind in programs]
    found = {row: [] for row in rows}
    reports = []
    for _ in range(rounds):
        for kind, neighbour in rows:
            group = groups.make(f"slub-programs-{os.getpid()}", 192 * MIB)
            if not group:
                sys.exit("measure: no memory cgroup can be made here (root, /sys/fs/cgroup)")
            with Server(programs[kind], enter=group.enter) as server:
                server.fill()
                begin = time.time()
                found[kind, neighbour].append(beside(server, seconds, neighbour))
                if not found[kind, neighbour][-1]:
                    found[kind, neighbour][-1] = time.time() - begin
                elif (kind, neighbour) == ("groups", "hoard"):
                    reports.append((server.report(), server.resident()))
            group.remove()
    names = {None: "none", "over": "overwrites", "hoard": "keeps all"}
    for (kind, neighbour), lines in found.items():
        lived = [line for line in lines if isinstance(line, tuple)]
        print(f"| {KINDS[kind]} | {names[neighbour]} ", end="")
        if len(lived) < len(lines):
            print(f"| killed, {len(lines) - len(lived)} of {len(lines)} | | | | |")
            continue
        middle = [statistics.median(served[key] for served, _ in lived)
                  for key in ("requests", "microseconds", "p50", "p99")]
        refused = [f"{100 * other['refused'] // other['requests']} %"
                   for _, other in lived if other]
        for served, _ in lived:
            whole(served)
        print(f"| lived | {middle[0] / middle[1] * 1e6:.0f} | {middle[2] / 1000:.1f} "
              f"| {middle[3] / 1000:.1f} | {refused[-1] if refused else ''} |", flush=True)
    return reports


def memory(report, resident):
    print(f"\nAfter the last of these, {resident:.0f} MiB resident:\n\n"
          "| | bytes | maximum | refused |\n|---|---|---|---|")
    rows = {**report["tenants"], "connections": report["server"],
            "overdraft": report["overdraft"]}
    for name, row in sorted(rows.items()):
        print(f"| {name} | {row['bytes']:,} | {row['max']:,} | {row['refused']:,} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("measure: no wrk here")
    sys.path.insert(0, os.path.join(args.source, "bench", "reclaim"))
    import memory_cgroup  # pylint: disable=import-outside-toplevel,import-error
    programs = {kind: os.path.join(args.programs, kind) for kind in KINDS}
    speed(programs, 1 if args.quick else args.rounds, 1 if args.quick else 3)
    reports = neighbours(programs, memory_cgroup, 1 if args.quick else 3, 5)
    if reports:
        memory(*reports[-1])


if __name__ == "__main__":
    main()
