#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs tests of a build on a machine that has no ctest: what "arm64" starts there.

    inside.py TESTS PATTERN [JOBS]

TESTS is what "ctest --show-only=json-v1" printed.  A line for each test whose name PATTERN finds,
and one with the counts at the end; ends with 1 if any failed.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

SLOWER = 4      # than the machine that the tests' times are meant for, at the least


def properties(test):
    return {p["name"]: p["value"] for p in test.get("properties", [])}


def command_of(test):
    """The command without the emulator of the machine that built it."""
    command = test["command"]
    if "qemu-" in command[0]:
        command = command[3 if command[1] == "-L" else 1:]
    return command


def status_of(test, code, output):
    if code == 77:
        return "skipped"
    expected = properties(test).get("PASS_REGULAR_EXPRESSION")
    if expected:
        return "passed" if any(re.search(e, output) for e in expected) else "failed"
    return "passed" if code == 0 else "failed"


def run(test):
    known = properties(test)
    environment = dict(os.environ)
    environment.update(e.split("=", 1) for e in known.get("ENVIRONMENT", []))
    try:
        ended = subprocess.run(command_of(test), env=environment, text=True, errors="replace",
                               cwd=known.get("WORKING_DIRECTORY"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=SLOWER * known.get("TIMEOUT", 300))
    except FileNotFoundError as missing:
        return "failed", str(missing)
    except subprocess.TimeoutExpired as late:
        return "timeout", (late.stdout or b"").decode(errors="replace")
    return status_of(test, ended.returncode, ended.stdout), ended.stdout


def cases(output):
    """How many of GoogleTest's cases passed, and were skipped."""
    return [sum(int(n) for n in re.findall(rf"\[ +{word} +\] (\d+) tests?[.,]", output))
            for word in ("PASSED", "SKIPPED")]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tests = json.load(file)["tests"]
    tests = [t for t in tests if re.search(sys.argv[2], t["name"]) and "command" in t]
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() // 2 or 1
    counts = {}
    passed_cases = skipped_cases = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for test, (status, output) in zip(tests, pool.map(run, tests)):
            counts[status] = counts.get(status, 0) + 1
            passed, skipped = cases(output)
            passed_cases += passed
            skipped_cases += skipped
            print(f"{status:8} {test['name']}" + (f"  {passed} cases" if passed else ""),
                  flush=True)
            if status in ("failed", "timeout"):
                print("\n".join("    " + line for line in output.splitlines()[-25:]), flush=True)
    print(f"{len(tests)} tests: " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())) +
          f"; {passed_cases} cases passed, {skipped_cases} skipped")
    return 1 if counts.get("failed") or counts.get("timeout") or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
