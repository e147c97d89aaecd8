# SPDX-License-Identifier: MIT
"""SQLite before and after: a database of four times a memory cgroup's limit, under its own page
cache and that of libslub; then SQLite's own speedtest1 without a limit.  Prints two tables."""
import argparse
import glob
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from measuring import median, preloads

MIB = 1 << 20
ALL = -10000000		# PRAGMA cache_size: more than there is
PAGE = 4096 + 272	# what SQLite needs for one of 4 KiB


def environment(preload):
    return {**os.environ, **({"LD_PRELOAD": preload} if preload else {})}


class Bench:
    def __init__(self, args):
        self.args = args
        self.limit = args.limit * MIB
        self.file = os.path.join(args.programs, f"t-{args.limit}.db")
        self.requests = args.requests // (10 if args.quick else 1)
        sys.path.insert(0, os.path.join(args.source, "bench", "reclaim"))
        import memory_cgroup  # pylint: disable=import-outside-toplevel,import-error
        self.groups = memory_cgroup

    def program(self, name):
        return os.path.join(self.args.programs, name)

    def make(self):
        if not os.path.exists(self.file):
            rows = self.limit * 4 // 1030
            subprocess.run([self.program("load-stock"), "make", self.file, str(rows)], check=True)

    def clear(self):
        for left in glob.glob(glob.escape(self.file) + ".run*"):
            os.unlink(left)

    def run(self, program, preload, cache_size):
        """The program's line; None: killed."""
        self.clear()
        shutil.copyfile(self.file, self.file + ".run")
        group = self.groups.make(f"slub-programs-{os.getpid()}", self.limit)
        if not group:
            sys.exit("measure: no memory cgroup can be made here (root, /sys/fs/cgroup writable)")
        try:
            done = subprocess.run(
                [self.program(program), "run", self.file + ".run", str(self.requests),
                 str(cache_size), "1", "50"], capture_output=True, text=True, check=False,
                env=environment(preload),
                preexec_fn=group.enter)
        finally:
            group.remove()
            self.clear()
        if done.returncode == -signal.SIGKILL:
            return None
        if done.returncode:
            sys.exit(f"measure: {program}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def tuned(self, preload):
        """The largest cache_size, in 32nds of the limit, that lives; as by hand."""
        for part in range(31, 0, -1):
            pages = self.limit * part // 32 // PAGE
            if self.run("load-stock", preload, pages):
                return pages
        return 10


def check(name, lines):
    for line in lines:
        if line["integrity"] != "ok":
            sys.exit(f"measure: {name}: integrity_check says {line['integrity']}")
    return {(line["sum"], line["counts"]) for line in lines}


def limited(bench, rounds):
    """The table of the load below a limit, interleaved rounds."""
    rows = []
    for name, preload in preloads(bench.args.library):
        rows.append((f"its own, all, {name}", name, "load-stock", preload, ALL))
        pages = bench.tuned(preload)
        rows.append((f"its own, {pages}, {name}", name, "load-stock", preload, pages))
    rows.append(("**libslub's**, all", "libslub", "load-slub", None, ALL))
    results = {row[0]: [] for row in rows}
    for _ in range(rounds):
        for label, name, program, preload, pages in rows:
            line = bench.run(program, preload, pages)
            if line and line["malloc"] != name:
                sys.exit(f"measure: {label}: {line['malloc']} is mapped")
            results[label].append(line)
    answers = set()
    print(f"\n{os.path.getsize(bench.file) // MIB} MiB in a cgroup of {bench.args.limit} MiB, "
          f"{bench.requests} requests, medians of {rounds}\n")
    print("| page cache, cache_size, malloc | outcome | a second | CPU s | p50 us | p99 us "
          "| hits % | peak RSS MiB |\n|---|---|---|---|---|---|---|---|")
    for label, lines in results.items():
        lived = [line for line in lines if line]
        if not lived:
            print(f"| {label} | killed, {len(lines)} of {len(lines)} | | | | | | |")
            continue
        answers |= check(label, lived)
        print(f"| {label} | lived, {len(lived)} of {len(lines)} "
              f"| {median(lived, 'per_second'):.0f} | {median(lived, 'cpu_seconds'):.2f} "
              f"| {median(lived, 'p50_us'):.1f} | {median(lived, 'p99_us'):.1f} "
              f"| {median(lived, 'hits'):.1f} | {median(lived, 'rss_mib'):.0f} |")
    if len(answers) != 1:
        sys.exit("measure: the answers differ")
    print("\nall that lived gave the same answers, integrity_check: ok")


def speedtest(bench, rounds):
    """SQLite's own benchmark, CPU seconds without a limit."""
    rows = [(name, "speedtest1-stock", preload) for name, preload in preloads(bench.args.library)]
    rows.append(("libslub, its page cache", "speedtest1-slub", None))
    results = {row[0]: [] for row in rows}
    hashes = {}
    size = "5" if bench.args.quick else "30"
    for _ in range(rounds):
        for label, program, preload in rows:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [bench.program(program), "--size", size, "--verify", bench.file + ".speed"],
                capture_output=True, text=True, check=True, env=environment(preload))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            results[label].append(after.ru_utime + after.ru_stime -
                                  before.ru_utime - before.ru_stime)
            hashes[label] = re.findall(r"Verification Hash: .*", done.stdout)
            for left in glob.glob(bench.file + ".speed*"):
                os.unlink(left)
    print(f"\nspeedtest1 --size {size}, CPU seconds, medians of {rounds}\n\n"
          "| malloc | seconds | of glibc |\n|---|---|---|")
    for label, seconds in results.items():
        ratio = statistics.median(mine / base for mine, base in zip(seconds, results["glibc"]))
        print(f"| {label} | {statistics.median(seconds):.2f} | {ratio:.2f} |")
    if len({tuple(h) for h in hashes.values()}) != 1 or not hashes["glibc"]:
        sys.exit(f"measure: the results differ: {hashes}")
    print("\nthe same verification hash in all")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--limit", type=int, default=128, help="MiB")
    parser.add_argument("--requests", type=int, default=300000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("limited", "speedtest"))
    bench = Bench(parser.parse_args())
    rounds = 1 if bench.args.quick else bench.args.rounds
    bench.make()
    if bench.args.only != "speedtest":
        limited(bench, rounds)
    if bench.args.only != "limited":
        speedtest(bench, rounds)


if __name__ == "__main__":
    main()
