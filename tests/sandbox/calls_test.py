#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""calls_test.py PROGRAM LIBRARY BUILD PAGE: what the library asks the kernel for after its start.

PROGRAM (sandboxed.c) works the heap hard behind a seccomp filter of its own, once for each mode:
traced; killed for any call of the library's that the C library's malloc does not make; killed for
any such call of the whole process; and from its exec on under filters that refuse, or kill for,
what the C library's start does not ask for.  PAGE (docs/operate/syscalls.md) has a table of the
same modes, with the calls beyond; it and MODES below say the same.
"""
import os
import re
import subprocess
import sys
import tempfile

MEMORY = {"mmap", "munmap", "mremap", "mprotect", "madvise", "futex"}
FORK = {"rt_sigprocmask"}
SKIPPED = 77
SECONDS = 250
# name: (environment, calls beyond MEMORY, the work is a part of the whole)
MODES = {
    "no option": ({}, set(), 1),
    "SLUB_MODE=compact": ({"SLUB_MODE": "compact"}, set(), 2),
    "SLUB_MODE=fast": ({"SLUB_MODE": "fast"}, set(), 4),
    "SLUB_RETAIN=0": ({"SLUB_RETAIN": "0"}, set(), 4),
    "SLUB_FASTPATH=thread": ({"SLUB_FASTPATH": "thread"}, set(), 2),
    "SLUB_FASTPATH=tid": ({"SLUB_FASTPATH": "tid"}, set(), 4),
    "SLUB_FASTPATH=lock": ({"SLUB_FASTPATH": "lock"}, set(), 4),
    "SLUB_HUGE=always": ({"SLUB_HUGE": "always"}, set(), 4),
    "SLUB_LIMIT": ({"SLUB_LIMIT": "512M"}, set(), 4),
    "SLUB_GUARD": ({"SLUB_GUARD": "100"}, set(), 4),
    "SLUB_DEBUG": ({"SLUB_DEBUG": "FZPU"}, set(), 16),
    "SLUB_PROFILE": ({"SLUB_PROFILE": "512K"}, set(), 4),
    "SLUB_STATS_FILE": ({"SLUB_STATS_FILE": "%s/stats"}, set(), 4),
    "SLUB_PRESSURE": ({"SLUB_PRESSURE": "thread"}, {"close", "fcntl", "ppoll", "read"}, 4),
}
# What only a library without features lacks.
OF_FEATURES = ("SLUB_GUARD", "SLUB_DEBUG", "SLUB_PROFILE", "SLUB_STATS_FILE", "SLUB_PRESSURE")
REFUSALS = ("1", "38", "kill")	# EPERM, ENOSYS
# What these options ask for at the start is no part of the C library's start.
MORE_AT_START = ("SLUB_STATS_FILE",)


def names():
    """The numbers of the calls that one might see, as this machine's headers have them."""
    source = "#include <sys/syscall.h>\n"
    done = subprocess.run(["cc", "-E", "-dM", "-"], input=source, capture_output=True, text=True,
                          check=True)
    found = re.findall(r"#define __NR_(\w+) (\d+)$", done.stdout, re.MULTILINE)
    return {int(number): name for name, number in found}


def run(program, arguments, library, env, part, launcher=()):
    # The filter comes before the library: the launcher runs without it.
    command = [program, "exec", *launcher, "/usr/bin/env"] if launcher else ["/usr/bin/env"]
    settings = [f"{name}={value}" for name, value in env.items()]
    return subprocess.run(
        [*command, f"LD_PRELOAD={library}", f"SANDBOXED_PART={part}", *settings, program,
         *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)


def traced(program, library, env, part, numbers):
    done = run(program, ("trace", "all"), library, env, part)
    if done.returncode == SKIPPED:
        print(done.stdout)
        sys.exit(SKIPPED)
    if done.returncode:
        return None, f"status {done.returncode}: {done.stdout.strip()}"
    made = {int(a): int(b) for a, b in re.findall(r"^(\d+) (\d+)$", done.stdout, re.MULTILINE)}
    return {numbers.get(number, str(number)): count for number, count in made.items()}, None


def killed(program, library, env, part, refusals):
    """How each filter that kills, or refuses, ended the program; nothing where it lived."""
    trials = [("kill all", ("kill", "all"), ()), ("strict alone", ("strict", "alone"), ())]
    trials += [(f"exec {how}", ("kill", "alone"), (how,)) for how in refusals]
    for name, arguments, launcher in trials:
        done = run(program, arguments, library, env, part, launcher)
        if done.returncode or "lived" not in done.stdout:
            yield f"{name}: status {done.returncode} {done.stdout.strip()}"


def written(page):
    """The rows of the page's table: mode, and the calls beyond."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    table = text.split("\n## After the start\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    return {re.sub("`", "", name): set(re.findall(r"`(\w+)`", calls)) for name, calls in rows
            if name.replace("`", "") in MODES}


def main():
    program, library, build, page = sys.argv[1:5]
    numbers, wrong, rows = names(), [], written(page)
    wrong += [f"{page} has no row for {name}" for name in MODES if name not in rows]
    wrong += [f"{page} says {sorted(rows[name])} of {name}" for name in rows
              if rows[name] != MODES[name][1]]
    with tempfile.TemporaryDirectory() as folder:
        for name, (env, beyond, part) in MODES.items():
            if build == "core" and name in OF_FEATURES:
                continue
            env = {key: value.replace("%s", folder) for key, value in env.items()}
            made, failure = traced(program, library, env, part, numbers)
            if failure:
                wrong.append(f"{name}: {failure}")
                continue
            print(f"{name}: " + ", ".join(f"{call} {made[call]}" for call in sorted(made)))
            more = set(made) - MEMORY - FORK - beyond
            if more:
                calls = ", ".join(f"{call} {made[call]}" for call in sorted(more))
                wrong.append(f"{name}: {calls}")
            if not beyond:
                refusals = REFUSALS[:-1] if name in MORE_AT_START else REFUSALS
                wrong += [f"{name}: {how}"
                          for how in killed(program, library, env, part, refusals)]
    for line in wrong:
        print("FAIL:", line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
