# SPDX-License-Identifier: MIT
"""What is run, in which order: the workloads first, as the summary is made of them."""
import os

import machine
import programs as real
import promises
import workloads

JOBS = (workloads.WORKLOADS + real.JOBS + workloads.LATENCY + promises.JOBS + workloads.MICRO
        + workloads.CURVES)
MINUTES = {"quick": 5, "full": 60}


def choose(names, mode, programs, library):
    """The jobs of a mode, or those named; with the reason for each that is left out."""
    left_out = {}
    unknown = [name for name in names or () if name not in {job.name for job in JOBS}]
    if unknown:
        raise SystemExit(f"bench/run: no benchmark named {', '.join(unknown)}; there are "
                         + ", ".join(job.name for job in JOBS))
    chosen = []
    for job in JOBS:
        if names is not None and job.name not in names:
            continue
        why = job.absent(programs)
        if not why and not job.rounds_of[mode] and names is None:
            continue
        if not why and job.name == "curve_cpus" and not _simulates_cpus(library):
            why = "CPUs 1 to 4,096: this libslub offers no simulated CPU slots"
        if not why and job.name == "curve_heap_large":
            why = _bound(job, machine.available_mib())
        if why:
            left_out[job.name] = why
        else:
            chosen.append(job)
    return chosen, left_out


def _simulates_cpus(library):
    """Whether a build of libslub has the per-CPU interface, which takes SLUB_CPUS."""
    if not os.path.exists(library):
        return False
    with open(library, "rb") as file:
        return b"slub_percpu_cpus" in file.read()


def _bound(job, available):
    """The largest heap of the curve that this machine's memory allows; a reason where none."""
    for top in (16384, 4096):
        if available > top * 1.32:
            for mode in job.options:
                job.options[mode] = f"--from=4096 --to={top}"
            job.mib = int(top * 1.3)
            if top < 16384:
                job.title += " (16 GiB left out: too little memory)"
            return None
    return f"needs 5,400 MiB free at least, there are {available}"
