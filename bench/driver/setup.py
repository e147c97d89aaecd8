# SPDX-License-Identifier: MIT
"""What has to be built before anything is measured."""
import os
import subprocess
import sys

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _quietly(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False)


def programs(build):
    """The folder of the programs: from the project's build, or one of their own.

    Also what went wrong, as parts of left_out: one program that does not build takes no other
    with it.
    """
    cache = os.path.join(build, "CMakeCache.txt")
    whole = False
    if os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            whole = "SLUB_BUILD_BENCH:BOOL=ON" in file.read()
    tree = build if whole else os.path.join(build, "bench", "standalone")
    folder = os.path.join(tree, "bench" if whole else "", "programs")
    if not whole:
        done = _quietly(["cmake", "-S", BENCH, "-B", tree, "-G", "Unix Makefiles"])
        if done.returncode:
            sys.exit(f"bench/run: the benchmark programs cannot be configured:\n{done.stdout}")
    done = _quietly(["cmake", "--build", tree, "--target", "bench_programs", "-j", "2"]
                    + ([] if whole else ["--", "-k"]))
    if not done.returncode:
        return folder, {}
    errors = [line for line in done.stdout.splitlines() if "rror" in line]
    if not os.path.isdir(folder):
        sys.exit(f"bench/run: the benchmark programs do not build:\n{done.stdout}")
    return folder, {"a benchmark program": "it does not build: " + (errors or ["?"])[0].strip()}


def compiled(name, folder):
    """The program bench/@name.c, in @folder: it needs no build of the project."""
    program = os.path.join(folder, os.path.basename(name))
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-fno-builtin-malloc", "-fno-builtin-free",
                    "-I", os.path.join(BENCH, "core"), "-I",
                    os.path.join(os.path.dirname(BENCH), "include"),
                    os.path.join(BENCH, name + ".c"), os.path.join(BENCH, "core", "bench.c"),
                    "-o", program, "-pthread", "-ldl"], check=True)
    return program


def peers(build, mode, wanted, checkouts=()):
    """Get and build them. TCMalloc takes minutes to build: only in a full run, or if named."""
    command = [os.path.join(BENCH, "peers", "get"), "--dir", os.path.join(build, "peers")]
    if mode == "full" or "tcmalloc" in (wanted or ()):
        command.append("--tcmalloc")
    command += [word for one in checkouts for word in ("--from", one)]
    subprocess.run(command, stdout=sys.stderr, check=False)
