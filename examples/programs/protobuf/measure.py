# SPDX-License-Identifier: MIT
"""Requests of protobuf on the heap, on protobuf's arenas and on arenas of a bucket, with each
malloc; then a tenant with a limit.  Prints two tables."""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from measuring import median, preloads


def load(args, program, preload, *words):
    env = {**os.environ, **({"LD_PRELOAD": preload} if preload else {})}
    done = subprocess.run([os.path.join(args.programs, f"load-{program}"), words[0],
                           os.path.join(args.programs, "source", "request"), *words[1:]],
                          capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        sys.exit(f"measure: {words[0]}: {done.returncode} {done.stderr.strip()}")
    return json.loads(done.stdout)


def modes(args, rounds, requests):
    rows = [(f"{mode}, {name}", "stock", file, mode) for mode in ("heap", "arena")
            for name, file in preloads()]
    rows += [(f"{mode}, libslub", "slub", None, mode) for mode in ("heap", "arena")]
    rows.append(("**arena on a bucket**, libslub", "slub", None, "slub"))
    results = {row[0]: [] for row in rows}
    for _ in range(rounds):
        for label, program, preload, mode in rows:
            results[label].append(load(args, program, preload, mode, requests, "2"))
    sizes = {tenant["bytes"] for lines in results.values() for line in lines
             for tenant in line["tenants"]}
    if len(sizes) != 1:
        sys.exit(f"measure: the answers differ: {sizes}")
    print(f"two threads, {requests} requests each, medians of {rounds}\n\n"
          "| messages, malloc | CPU s | of the first | p50 us | peak RSS, MiB |\n"
          "|---|---|---|---|---|")
    base = [line["cpu_seconds"] for line in results[rows[0][0]]]
    for label, lines in results.items():
        ratio = statistics.median(line["cpu_seconds"] / one for line, one in zip(lines, base))
        p50 = statistics.median(line["tenants"][1]["p50_us"] for line in lines)
        print(f"| {label} | {median(lines, 'cpu_seconds'):.2f} | {ratio:.2f} | {p50:.0f} "
              f"| {median(lines, 'peak_mib'):.1f} |")


def limited(args, requests):
    need = load(args, "slub", None, "slub", "10", "1", "4096")["tenants"][0]["peak"]
    print(f"\na request needs {need >> 10} KiB; the first of two tenants may have less\n\n"
          "| limit, KiB | its requests done | refused | it had at most, KiB | charged in the end "
          "| the other's done |\n|---|---|---|---|---|---|")
    for limit in (2 * need >> 10, need >> 11, 64, 1):
        first, other = load(args, "slub", None, "slub", requests, "2", str(limit))["tenants"]
        print(f"| {limit} | {first['done']} | {first['refused']} | {first['peak'] >> 10} "
              f"| {first['charged']} | {other['done']} |")
        if first["charged"] or first["peak"] > limit << 10:
            sys.exit(f"measure: limit {limit}: {first}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    requests = "200" if args.quick else "2000"
    modes(args, 1 if args.quick else args.rounds, requests)
    limited(args, requests)


if __name__ == "__main__":
    main()
