# SPDX-License-Identifier: MIT
"""What is run, in which order: the workloads first, as the means are made of them."""
import promises
import workloads

JOBS = workloads.WORKLOADS + workloads.LATENCY + promises.JOBS
MINUTES = {"quick": 5, "full": 30}


def choose(names, mode, programs):
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
        if why:
            left_out[job.name] = why
        else:
            chosen.append(job)
    return chosen, left_out
