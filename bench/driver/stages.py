# SPDX-License-Identifier: MIT
"""What a run does besides its jobs: counts, memory over time, the kernel's measurements."""
import os
import signal
import subprocess
import sys
import time

import counts
import plan

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNEL = os.path.join(BENCH, "kernel", "run")
OVER_TIME = {"quick": {"mix": ["--ops=12000000"]},
             "full": {"mix": ["--ops=40000000"], "batch_random": ["--order=random", "--rounds=60"],
                      "json": ["--rounds=120"]}}
SEEDS_SECONDS = 660


def estimate(names, mode, columns):
    """Seconds of all that is done besides the jobs; nothing of it where jobs were named."""
    if names is not None:
        return 0.0
    seconds = len(OVER_TIME[mode]) * columns * (2.0 if mode == "quick" else 3.0)
    if mode == "full":
        seconds += len(counts.PAIRS) * 2 * columns * 1.2 + 22 * columns * 1.0
        seconds += SEEDS_SECONDS if os.path.exists(KERNEL) else 0
    return seconds


def run(runner, options, progress, until):
    """Everything of it, as a part of what is written; notes say what was left out."""
    made, mode = {}, options.mode
    before = progress.done
    made["over_time"] = _over_time(runner, mode, until)
    progress.step("memory over time", 0)
    made["instructions"] = counts.processor(runner)
    if not made["instructions"]:
        runner.notes.append("no instructions by the processor's counter: the kernel gives none "
                            "(perf_event_open)")
    if mode == "quick":
        runner.notes.append("callgrind's instructions, system calls and the kernel's measurements "
                            "are part of a full run (make bench); the kernel's alone: "
                            "bench/kernel/run --quick")
    else:
        made["callgrind"] = _callgrind(runner, until)
        progress.step("instructions", 0)
        made["system_calls"] = _system_calls(runner, until)
        progress.step("system calls", 0)
        made["kernel"] = _kernel(runner, options, until)
    progress.done = before + estimate(None, mode, len(runner.allocators))
    return made


def _over_time(runner, mode, until):
    made = {}
    for job in plan.JOBS:
        if job.name in OVER_TIME[mode] and time.time() < until:
            made[job.name] = counts.over_time(runner, job, OVER_TIME[mode][job.name])
    return made


def _callgrind(runner, until):
    if time.time() > until:
        runner.notes.append("callgrind's instructions are left out for lack of time")
        return {}
    if not counts.available("valgrind"):
        runner.notes.append("no instruction counts: valgrind is not installed")
        return {}
    return counts.callgrind(runner)


def _system_calls(runner, until):
    if not counts.available("strace"):
        runner.notes.append("no counts of system calls: strace is not installed")
        return {}
    # The table's clients are a process that strace would follow as well.
    jobs = [job for job in plan.JOBS if job.kind == "workload"
            and job.name not in ("table", "threads_10000")]
    return counts.system_calls(runner, jobs, min(until, time.time() + 300))


def _kernel(runner, options, until):
    """The text that bench/kernel/run prints; its JSON is written by itself."""
    if not os.path.exists(KERNEL):
        runner.notes.append("the kernel's measurements are left out: bench/kernel/run is not there")
        return ""
    left = until - time.time()
    if left < 60:
        runner.notes.append("the kernel's measurements are left out for lack of time; "
                            "alone: bench/kernel/run")
        return ""
    out = os.path.join(BENCH, "results", "kernel.json")
    with subprocess.Popen([KERNEL, "--quick", "--build", options.build, "--out", out],
                          stdout=subprocess.PIPE, stderr=sys.stderr, text=True,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            text, _ = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)		# its programs too
            text, _ = process.communicate()
            runner.notes.append(f"the kernel's measurements were cut after {left:.0f} s")
    if process.returncode:
        runner.notes.append(f"bench/kernel/run ended with status {process.returncode}")
    return text
