# SPDX-License-Identifier: MIT
"""mimalloc-bench, unmodified: built from a checkout, run by bench/outside/run."""
import json
import os
import subprocess
import sys
import tempfile

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(BENCH, "outside")]

import outer_programs as programs		# noqa: E402  (after the path is set)

ROUNDS = {"quick": 1, "full": 3}


def build(checkout, folder):
    """Its programs, by its own CMake file; what does not build is left out by bench/outside/run."""
    source = os.path.join(checkout, "bench")
    if not os.path.exists(os.path.join(source, "CMakeLists.txt")):
        sys.exit(f"bench/run: --suite {checkout}: no bench/CMakeLists.txt, as mimalloc-bench has")
    for command in (["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"],
                    ["cmake", "--build", folder, "--", "-k"]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "rror" in line]
        print("bench/run: not all of the suite builds: " + (errors or ["?"])[0].strip(),
              file=sys.stderr)


def asked(one):
    """An allocator as bench/outside/run takes it."""
    words = [one.library or ""] + [f"{name}={value}" for name, value in one.env.items()]
    return ["--allocator", f"{one.name}={','.join(words)}"]


def revision(checkout):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", checkout, "describe", "--tags",
                           "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run(checkout, folder, mode, chosen, rows=None):
    """(what it measured, whether all rows worked under libslub)."""
    build(checkout, folder)
    # A library for one CPU has no business with threads; slow allocators would take hours.
    columns = [one for one in chosen if not one.uniprocessor and not one.few]
    with tempfile.TemporaryDirectory() as place:
        samples = os.path.join(place, "samples.json")
        command = [sys.executable, os.path.join(BENCH, "outside", "run"), "--bench", folder,
                   "--source", os.path.join(checkout, "bench"), "--rounds", str(ROUNDS[mode]),
                   "--only", ",".join(rows or programs.LOOPS), "--json", samples]
        done = subprocess.run(command + [word for one in columns for word in asked(one)],
                              stdout=2, check=False)		# progress, as of all that is run
        if not os.path.exists(samples):
            return None, False
        with open(samples, encoding="utf-8") as file:
            data = json.load(file)
    data["revision"] = revision(checkout)
    return data, not done.returncode
