# SPDX-License-Identifier: MIT
"""Arrow's queries on its own memory pools and on slub::arrow_pool: time, memory, and what becomes
of a tenant at its limit and of the one beside it.  Prints two tables."""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from measuring import median

ROWS = (("system", "stock"), ("jemalloc", "stock"), ("mimalloc", "stock"), ("slub", "slub"))
MIB = 1 << 20


def load(args, pool, program, *words):
    done = subprocess.run([os.path.join(args.programs, f"load-{program}"), pool, *words],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"measure: {pool}: {done.returncode} {done.stderr.strip()}")
    return json.loads(done.stdout)


def pools(args, rounds, rows, queries):
    """The same queries on each pool, two tenants at once, interleaved rounds."""
    results = {pool: [] for pool, _ in ROWS}
    for _ in range(rounds):
        for pool, program in ROWS:
            results[pool].append(load(args, pool, program, rows, queries, "2"))
    sums = {tenant["sum"] for lines in results.values() for line in lines
            for tenant in line["tenants"]}
    if len(sums) != 1:
        sys.exit(f"measure: the answers differ: {sums}")
    print(f"two tenants, {queries} queries each on {rows} rows, medians of {rounds}\n\n"
          "| pool | CPU s | of system's | peak RSS, MiB | RSS after ReleaseUnused |\n"
          "|---|---|---|---|---|")
    base = [line["cpu_seconds"] for line in results["system"]]
    for pool, lines in results.items():
        ratio = statistics.median(line["cpu_seconds"] / one for line, one in zip(lines, base))
        print(f"| {pool} | {median(lines, 'cpu_seconds'):.2f} | {ratio:.2f} "
              f"| {median(lines, 'peak_mib'):.0f} | {median(lines, 'after_mib'):.0f} |")
    print("\nthe same answers in all")
    return max(tenant["charged_peak"] for line in results["slub"] for tenant in line["tenants"])


def limited(args, rows, queries, need):
    """The first of two tenants with less than it needs."""
    print(f"\na query needs {need / MIB:.1f} MiB; the first tenant may have less\n\n"
          "| limit, MiB | its queries done | refused | it had at most, MiB | charged in the end "
          "| the other's done |\n|---|---|---|---|---|---|")
    words = set()
    for share in (1.5, 0.75, 0.25, 0.01):
        limit = max(1, int(need * share / MIB))
        first, other = load(args, "slub", "slub", rows, queries, "2", str(limit))["tenants"]
        words |= {first["error"]} - {""}
        print(f"| {limit} | {first['done']} | {first['refused']} "
              f"| {first['charged_peak'] / MIB:.1f} | {first['charged']} | {other['done']} |")
        if first["charged"] or first["bytes"] or first["charged_peak"] > limit * MIB:
            sys.exit(f"measure: limit {limit}: {first}")
    print("\n" + "\n".join(sorted(words)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    rows = "50000" if args.quick else "500000"
    queries = "3" if args.quick else "5"
    need = pools(args, 1 if args.quick else args.rounds, rows, queries)
    limited(args, rows, queries, need)


if __name__ == "__main__":
    main()
