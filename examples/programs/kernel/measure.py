# SPDX-License-Identifier: MIT
"""Files of the kernel on slub/kernel.h: the time of their own tests beside malloc, what `slub info`
shows of their caches meanwhile, and what is found when allocations fail."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from measuring import preloads

SEED = "16"		# the kernel's test makes 8 GiB of pages of it, in up to 940,000 blocks
SMALL = "10"		# fewer
LETTERS = {"SLUB_DEBUG_FAIL": "75", "SLUB_DEBUG": "A,drm_buddy_block"}
CHECKED = {"SLUB_DEBUG_FAIL": "75", "SLUB_DEBUG": "FZPUA,drm_buddy_block"}
LEAKING = {"SLUB_DEBUG_FAIL": "997", "SLUB_DEBUG": "AU,drm_buddy_block;U,malloc-*"}


def run(program, *words, **env):
    """As it ended, with its output; what the kernel's lists lead round in a ring is ended."""
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, **env}) as process:
        try:
            out, errors = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
    return subprocess.CompletedProcess(program, process.returncode, out, errors)


def tests(args, rounds, repeats):
    """The kernel's own tests, interleaved rounds."""
    malloc, slub = (os.path.join(args.programs, kind, "program") for kind in ("malloc", "slub"))
    rows = [(f"malloc of {name}", malloc, {"LD_PRELOAD": file} if file else {})
            for name, file in preloads()]
    rows.append(("`slub/kernel.h`", slub, {}))
    results = {row[0]: [] for row in rows}
    for _ in range(rounds):
        for label, program, env in rows:
            done = run(program, repeats, SEED, **env)
            line = json.loads(done.stdout or "{}")
            if done.returncode or line["failed"] or line["warnings"]:
                sys.exit(f"measure: {label}: {done.stderr.strip()} {line}")
            results[label].append(line)
    nr_tests = results[rows[0][0]][0]["tests"]
    print(f"{nr_tests} tests of the kernel's own, all passed; CPU seconds, medians of {rounds}\n\n"
          "| kmem_cache on | drm_buddy | of glibc's | parman | peak RSS, MiB |\n"
          "|---|---|---|---|---|")
    base = [line["suite_seconds"] for line in results[rows[0][0]]]
    for label, lines in results.items():
        seconds = [line["suite_seconds"] for line in lines]
        ratio = statistics.median(mine / glibc for mine, glibc in zip(seconds, base))
        print(f"| {label} | {statistics.median(seconds):.2f} | {ratio:.2f} "
              f"| {statistics.median(line['module_seconds'] for line in lines):.2f} "
              f"| {statistics.median(line['peak_mib'] for line in lines):.0f} |")


def looked_at(args):
    """What another process shows of the caches while the tests run."""
    with subprocess.Popen([os.path.join(args.programs, "slub", "program"), "1000", SEED],
                          stdout=subprocess.DEVNULL) as program:
        best = ""
        for _ in range(20):
            time.sleep(0.1)
            done = subprocess.run([args.command, "info", str(program.pid), "drm*"],
                                  capture_output=True, text=True, check=False)
            best = max(best, done.stdout, key=lambda text: sum(map(int, re.findall(
                r"^drm_buddy_block +(\d+)", text, re.MULTILINE))))
        program.kill()
    print(f"\nslub info PID 'drm*', while they run:\n\n{best}")


def faults(args):
    """What becomes of drm_buddy when one allocation in so many fails."""
    program = os.path.join(args.programs, "slub", "program")
    print("One allocation in 75 fails, no checks:\n")
    done = run(program, "1", SMALL, **LETTERS)
    print(f"{done.stderr.strip()}\nended with {done.returncode}\n\nThe same, letters FZPU:\n")
    report = run(program, "1", SMALL, **CHECKED).stderr
    start = report.find("\nBUG ")
    print("\n".join(report[start:].splitlines()[:40]) if start >= 0 else "nothing was reported")


def leaks(args):
    """What the tests lose when an assertion ends one of them."""
    with subprocess.Popen([os.path.join(args.programs, "slub", "program"), "1", SMALL, "wait"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL,
                          env={**os.environ, **LEAKING}) as program:
        line = program.stdout.readline()
        done = subprocess.run([args.command, "leaks", str(program.pid)], capture_output=True,
                              text=True, check=False)
        program.kill()
    print(f"\nOne in 997 fails: {line.strip()}\n\nslub leaks PID:\n\n{done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.command = os.path.join(args.library, "slub")
    tests(args, 1 if args.quick else args.rounds, "2" if args.quick else "20")
    looked_at(args)
    faults(args)
    leaks(args)


if __name__ == "__main__":
    main()
