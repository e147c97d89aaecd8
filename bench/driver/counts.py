# SPDX-License-Identifier: MIT
"""What time would blur: instructions by callgrind, system calls by strace, memory over time."""
import os
import re
import shutil
import subprocess
import time

from process import Failure, Process, execute

PAIRS = [(64, 1, 2000), (64, 256, 40), (1024, 256, 40)]	# size, batch, rounds
POINTS = 240		# of a curve of memory over time


def callgrind(runner):
    """Row -> allocator -> instructions per malloc+free, by the difference of two runs."""
    found = {}
    for size, batch, rounds in PAIRS:
        for allocator in runner.allocators:
            if allocator.uniprocessor:
                continue
            counts = [_collected(runner, allocator, size, batch, number)
                      for number in (rounds, 2 * rounds)]
            if None not in counts:
                found.setdefault(_row(size, batch), {})[allocator.name] = \
                    (counts[1] - counts[0]) / (rounds * batch)
    return found


def processor(runner):
    """The same by the processor's own counter, in the backend that really runs."""
    found = {}
    for size, batch, rounds in PAIRS:
        for allocator in runner.allocators:
            command = [os.path.join(runner.programs, "workloads", "pairs"), "--rest=0",
                       f"--size={size}", f"--batch={batch}", f"--pairs={rounds * 100}"]
            try:
                rows = execute(command, allocator.environment())["rows"]
            except Failure:
                continue
            for row in rows:
                if row["name"] == "instructions":
                    found.setdefault(_row(size, batch), {})[allocator.name] = row["value"]
    return found


def _row(size, batch):
    return f"{size} bytes, " + ("the same object" if batch == 1 else f"{batch} at a time")


def _collected(runner, allocator, size, batch, rounds):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               os.path.join(runner.programs, "workloads", "pairs"), "--rest=0", f"--size={size}",
               f"--batch={batch}", f"--pairs={rounds}"]
    try:
        done = subprocess.run(command, env=allocator.environment(), capture_output=True, text=True,
                              timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return None
    # Without its line of rows the program did not get to its end.
    if allocator.library and os.path.realpath(allocator.library) not in done.stdout:
        return None
    collected = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    return int(collected.group(1)) if collected and done.returncode == 0 else None


def system_calls(runner, jobs, until):
    """Job -> allocator -> system calls of one run in the quick size."""
    found, output = {}, os.path.join(runner.folder, "strace")
    for job in jobs:
        for allocator in runner.columns(job):
            if time.time() > until:
                return found
            if allocator.few or allocator.name in runner.results.failures(job.name):
                continue
            program = os.path.join(runner.programs, job.program)
            command = ["strace", "-f", "-c", "-o", output]
            for key, value in allocator.environment().items():
                if key in ("LD_PRELOAD", "GLIBC_TUNABLES") or key.startswith("SLUB_"):
                    command += ["-E", f"{key}={value}"]
            plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
            try:
                execute(command + [program, "--rest=0"] + job.arguments("quick"), plain,
                        timeout=40)
            except Failure:
                continue
            count = _total(output)
            if count is not None:
                found.setdefault(job.name, {})[allocator.name] = count
    return found


def _total(path):
    """The calls in the last line of strace -c: '100.00 0.01 3 1234 5 total'."""
    try:
        with open(path, encoding="utf-8") as file:
            line = file.read().rstrip().split("\n")[-1].split()
    except OSError:
        return None
    return int(line[3]) if len(line) >= 5 and line[-1] == "total" else None


def over_time(runner, job, options):
    """Allocator -> [(seconds, MiB)] of one run that is looked at from outside."""
    found = {}
    for allocator in runner.columns(job):
        if allocator.few or allocator.uniprocessor:
            continue
        command = [os.path.join(runner.programs, job.program)] + options
        process = Process(command, allocator.environment())
        points, began = [], time.time()
        while process.process.poll() is None:
            points.append((time.time() - began, _resident(process.process.pid)))
            time.sleep(0.005)
        try:
            process.answer()
        except Failure as why:
            runner.notes.append(f"memory over time, {job.name}, {allocator.name}: {why}")
            continue
        found[allocator.name] = _thinned([(round(t, 3), round(mib, 2)) for t, mib in points if mib])
    return found


def _resident(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20
    except (OSError, ValueError, IndexError):
        return 0.0


def _thinned(points):
    """At most POINTS of them; each the highest of those it stands for."""
    width = -(-len(points) // POINTS)
    return [max(points[i:i + width], key=lambda point: point[1])
            for i in range(0, len(points), width)] if points else []


def available(tool):
    return shutil.which(tool) is not None

