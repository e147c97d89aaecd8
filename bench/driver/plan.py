# SPDX-License-Identifier: MIT
"""What is run: programs with their options, in the quick and the full size."""
import os


class Job:
    """One program with one set of options; its rows make one table."""

    def __init__(self, name, title, program, quick, full, rounds, seconds, **more):
        self.name = name
        self.title = title
        self.program = program
        self.options = {"quick": quick, "full": full}
        self.rounds_of = {"quick": rounds[0], "full": rounds[1]}
        self.seconds_of = {"quick": seconds[0], "full": seconds[1]}	# one run, about
        self.hidden = more.get("hidden", ())	# rows that stand in the JSON alone
        self.startup = more.get("startup", False)	# the program itself preloads
        self.baseline = more.get("baseline")	# options of a run whose "rss" is the floor
        self.threads = more.get("threads", False)	# not for the uniprocessor build
        self.ours_only = more.get("ours_only", False)
        self.mib = more.get("mib", 0)		# memory the hungriest allocator takes

    def arguments(self, mode):
        return self.options[mode].split()


# Speed: many rounds, as the machine's noise is in them. Memory: figures hardly vary.
JOBS = [
    Job("pair", "malloc+free of one size, ns per pair: the same object (reuse); "
        "256 allocations, then 256 frees (npattern)",
        "pair", "", "--repeats=25", (7, 11), (0.65, 1.0)),
    Job("cache_pair", "slub_cache_alloc+slub_cache_free, inlined, ns per pair",
        "cache_pair", "", "", (5, 11), (0.3, 0.3), ours_only=True),
    Job("slab_test", "10,000 allocations, then 10,000 frees: cycles (TSC) per operation",
        "slab_test", "--repeats=7", "--repeats=15", (7, 9), (0.8, 1.6),
        hidden=("cold-", "touch-alloc", "touch-free")),
    Job("prodcons", "one thread allocates, another frees: ns per object",
        "prodcons", "--repeats=3", "--repeats=5", (5, 11), (0.5, 0.8), threads=True),
    Job("churn_1", "random replacement of 16 to 1,024 bytes, one thread: ns per step",
        "churn", "--steps=2000000", "", (7, 9), (0.3, 0.7)),
    Job("churn_2", "the same, two threads that pass their objects on",
        "churn", "--threads=2 --steps=2000000", "--threads=2", (7, 9), (0.4, 0.7), threads=True),
    Job("churn_16", "the same, sixteen threads",
        "churn", "--threads=16 --steps=2000000", "--threads=16", (7, 9), (0.5, 0.9), threads=True),
    Job("latency_2", "single calls in a churn of 16 to 4,095 bytes, 2 threads: ns in steps of 16",
        "latency", "--steps=1000000", "", (3, 5), (0.2, 0.6), threads=True),
    Job("latency_500", "the same, 500 threads",
        "latency", "--threads=500", "--threads=500", (0, 5), (0.8, 0.8), threads=True),
    Job("growth", "vectors grown by realloc: ns per element (double, half), per realloc (line)",
        "growth", "--repeats=7", "", (5, 9), (0.3, 0.5)),
    Job("large", "blocks of 5 to 25 MiB, each page written: us per step",
        "large", "--steps=60", "--steps=200", (5, 7), (0.7, 2.0), mib=1200),
    Job("startup", "start of an empty program: us, and KiB resident",
        "startup", "--starts=60", "--starts=200", (5, 7), (0.4, 1.0), startup=True),
    Job("overhead", "1 GiB of 64-byte objects, all written: resident beyond the payload",
        "overhead", "", "", (1, 3), (1.5, 1.5), mib=1600),
    Job("burst", "1 GiB of 16 to 512 bytes, freed in order, then idle: MiB resident",
        "burst", "", "", (1, 3), (3.3, 3.3), mib=1600),
    Job("burst_reverse", "the same, freed in reverse order",
        "burst", "--order=reverse", "--order=reverse", (0, 3), (3.3, 3.3), mib=1600),
    Job("burst_random", "the same, freed in random order",
        "burst", "--order=random", "--order=random", (0, 3), (4.2, 4.2), mib=1600),
    Job("idle_threads", "threads that idle after 4 x 1 MiB allocated and freed: MiB resident",
        "idle_threads", "--threads=1000", "--threads=8000", (1, 2), (3.5, 25.0),
        baseline="--no-allocation", hidden=("anonymous",), mib=15500, threads=True),
    Job("idle_at_once", "the same, all threads started at once: MiB resident",
        "idle_threads", "--threads=1000 --at-once", "--threads=8000 --at-once", (0, 1),
        (3.5, 30.0), baseline="--no-allocation", hidden=("anonymous",), mib=15500, threads=True),
]


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
        if not os.path.exists(os.path.join(programs, job.program)):
            left_out[job.name] = ("include/slub/cache.h is not there yet" if job.ours_only
                                  else f"the program {job.program} is not built")
        elif job.rounds_of[mode] or names is not None:
            chosen.append(job)
    return chosen, left_out
