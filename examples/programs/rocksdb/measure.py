# SPDX-License-Identifier: MIT
"""RocksDB before and after: its own db_bench under each malloc, and with its block cache on
libslub; the same below a limit of a memory cgroup; and two tenants of one database, of which one is
hostile.  Prints three tables."""
import argparse
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
ALL = 1 << 40		# a capacity of the cache: more than there is
TENANTS_MIB = 32
ROWS = 200000		# of each tenant: 200 MB
HOSTILES = ("none", "scan", "pin", "write")


class Bench:
    def __init__(self, args):
        self.args = args
        self.tenth = 10 if args.quick else 1
        self.folder = os.path.join(args.programs, "data")
        self.limit = args.limit * MIB
        os.makedirs(self.folder, exist_ok=True)
        sys.path.insert(0, os.path.join(args.source, "bench", "reclaim"))
        import memory_cgroup  # pylint: disable=import-outside-toplevel,import-error
        self.groups = memory_cgroup

    def data(self, name):
        return os.path.join(self.folder, name)

    def rows(self):
        """(label, malloc, files) of each contestant."""
        adapter = os.path.join(self.args.programs, "librocksdb_slub.so")
        for name, file in preloads(self.args.library):
            files = [file] if file else []
            yield name, name, files
        yield "**libslub, its cache**", "libslub", [*files, adapter]

    def db_bench(self, files, benchmarks, folder, **options):
        """What db_bench said of its last benchmark; None: killed."""
        group = options.pop("group", None)
        words = {"value_size": 1000, "compression_type": "none", "histogram": 1,
                 "statistics": 1, "db": folder, "benchmarks": benchmarks, **options}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            ["db_bench", *(f"--{key}={value}" for key, value in words.items())],
            capture_output=True, text=True, check=False,
            env={**os.environ, **({"LD_PRELOAD": ":".join(files)} if files else {})},
            preexec_fn=group.enter if group else None)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode == -signal.SIGKILL:
            return None
        last = benchmarks.split(",")[-1]
        line = re.search(rf"{last} *: *([\d.]+) micros/op (\d+) ops/sec", done.stdout)
        tail = re.findall(r"P99: ([\d.]+)", done.stdout)
        if done.returncode or not line or not tail:
            sys.exit(f"measure: db_bench: {done.stderr.strip()[-500:] or done.stdout[-500:]}")
        hits, misses = (int(re.search(rf"rocksdb.block.cache.{what} COUNT : (\d+)",
                                      done.stdout)[1]) for what in ("hit", "miss"))
        return {"per_second": int(line[2]), "p99_us": float(tail[-1]),
                "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                "hits": 100 * hits / max(1, hits + misses)}

    def fill(self, name, rows):
        folder = self.data(name)
        if not os.path.exists(os.path.join(folder, "CURRENT")):
            self.db_bench([], "fillseq,compact,levelstats,readrandom", folder, num=rows,
                          reads=1000, disable_wal=1)
        return folder


def speed(bench, rounds):
    """db_bench without a limit: a fill, and reads with a cache of a fifth of the data."""
    count = 400000 // bench.tenth
    folder = bench.fill(f"speed-{count}", count)
    results = {row[0]: [] for row in bench.rows()}
    for _ in range(rounds):
        for label, _, files in bench.rows():
            line = bench.db_bench(files, "readrandom", folder, num=count, reads=count,
                                  use_existing_db=1, threads=2, cache_size=count * 200,
                                  read_random_exp_range=10)
            filled = bench.db_bench(files, "fillrandom", bench.data("fill"), num=count // 2,
                                    threads=1, disable_wal=1)
            shutil.rmtree(bench.data("fill"))
            results[label].append((line, filled))
    print(f"\ndb_bench, {count} rows of 1,000 bytes, medians of {rounds}\n\n"
          "| malloc | readrandom CPU s | of glibc | p99 us | hits % "
          "| fillrandom CPU s | of glibc |\n|---|---|---|---|---|---|---|")
    for label, pairs in results.items():
        reads, fills = ([pair[i] for pair in pairs] for i in (0, 1))
        ratios = [statistics.median(mine[i]["cpu"] / base[i]["cpu"]
                                    for mine, base in zip(pairs, results["glibc"]))
                  for i in (0, 1)]
        print(f"| {label} | {median(reads, 'cpu'):.2f} | {ratios[0]:.2f} "
              f"| {median(reads, 'p99_us'):.1f} | {median(reads, 'hits'):.1f} "
              f"| {median(fills, 'cpu'):.2f} | {ratios[1]:.2f} |")


def under_limit(bench, files, folder, rows, capacity):
    group = bench.groups.make(f"slub-programs-{os.getpid()}", bench.limit)
    if not group:
        sys.exit("measure: no memory cgroup can be made here (root, /sys/fs/cgroup writable)")
    try:
        return bench.db_bench(files, "readrandomwriterandom", folder, num=rows,
                              reads=bench.args.requests // bench.tenth, use_existing_db=1,
                              threads=2, cache_size=capacity, readwritepercent=95,
                              disable_wal=1, write_buffer_size=4 * MIB,
                              max_write_buffer_number=2, read_random_exp_range=5, group=group)
    finally:
        group.remove()


def fresh(bench, folder):
    """Writes change the database: each run has its own."""
    copy = bench.data("run")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, copy_function=os.link)
    return copy


def limited(bench, rounds):
    """The table of the load below a limit of a cgroup."""
    rows = bench.limit * 4 // 1024
    folder = bench.fill(f"limited-{bench.args.limit}", rows)

    def run(files, capacity):
        return under_limit(bench, files, fresh(bench, folder), rows, capacity)

    contestants = []
    for label, _, files in bench.rows():
        contestants.append((f"{label}, all", files, ALL))
        if "*" not in label:
            tuned = next((bench.limit * part // 16 for part in range(15, 0, -1)
                          if run(files, bench.limit * part // 16)), MIB)
            contestants.append((f"{label}, tuned: {tuned // MIB} MiB", files, tuned))
    results = {label: [] for label, _, _ in contestants}
    for _ in range(rounds):
        for label, files, capacity in contestants:
            results[label].append(run(files, capacity))
    shutil.rmtree(bench.data("run"))
    print(f"\ndb_bench readrandomwriterandom, {rows // 1024} MiB in a cgroup of "
          f"{bench.args.limit} MiB, medians of {rounds}\n\n"
          "| malloc, block cache | outcome | a second | CPU s | p99 us | hits % |\n"
          "|---|---|---|---|---|---|")
    for label, lines in results.items():
        lived = [line for line in lines if line]
        outcome = f"lived, {len(lived)} of {len(lines)}" if lived else "killed, each time"
        print(f"| {label} | {outcome} |" + (
            f" {median(lived, 'per_second'):.0f} | {median(lived, 'cpu'):.1f} "
            f"| {median(lived, 'p99_us'):.0f} | {median(lived, 'hits'):.1f} |"
            if lived else " | | | |"))


def tenants(bench, rounds):
    """Two tenants, of which one is hostile."""
    load = os.path.join(bench.args.programs, "load")
    rows = ROWS // bench.tenth
    mib = max(6, TENANTS_MIB // bench.tenth)
    folder = bench.data(f"tenants-{rows}")
    if not os.path.exists(os.path.join(folder, "CURRENT")):
        subprocess.run([load, "make", folder, str(rows)], check=True)
    kinds = ("shared", "own", "slub")
    results = {(kind, hostile): [] for kind in kinds for hostile in HOSTILES}
    for _ in range(rounds):
        for kind, hostile in results:
            # The hostile tenant writes: each run has its own database, as above.
            done = subprocess.run(
                [load, "run", fresh(bench, folder), kind, hostile,
                 str(max(1, 10 / bench.tenth)), str(mib)],
                capture_output=True, text=True, check=False,
                env={**os.environ,
                     "LD_PRELOAD": os.path.join(bench.args.library, "libslub.so")})
            if done.returncode:
                sys.exit(f"measure: load: {done.stderr.strip()}")
            results[kind, hostile].append(json.loads(done.stdout))
    shutil.rmtree(bench.data("run"))
    print(f"\ntwo tenants of {rows} rows, {mib} MiB each, medians of {rounds}; MB of the hostile "
          "tenant\n\n| block caches | hostile | p50 us | p99 us | peak RSS MiB | RocksDB says "
          "| charged | refused % |\n|---|---|---|---|---|---|---|---|")
    for (kind, hostile), lines in results.items():
        theirs = [line["tenants"][1] for line in lines]
        says = statistics.median(t["cache"] + t["memtables"] for t in theirs) / 1e6
        charged = statistics.median(t.get("charged", 0) for t in theirs) / 1e6
        refused = statistics.median(100 * t["refused"] / max(1, t["requests"]) for t in theirs)
        print(f"| {kind} | {hostile} | {median(lines, 'p50_us'):.1f} "
              f"| {median(lines, 'p99_us'):.1f} | {median(lines, 'rss_mib'):.0f} | {says:.1f} "
              f"| {f'{charged:.1f}' if charged else ''} | {refused:.1f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--limit", type=int, default=128, help="MiB")
    parser.add_argument("--requests", type=int, default=200000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("speed", "limited", "tenants"))
    bench = Bench(parser.parse_args())
    rounds = 1 if bench.args.quick else bench.args.rounds
    for name, part in (("tenants", tenants), ("limited", limited), ("speed", speed)):
        if bench.args.only in (None, name):
            part(bench, rounds)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
