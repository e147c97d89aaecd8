# SPDX-License-Identifier: MIT
"""The programs of bench/core: what the library promises of itself."""
from job import Job

# Speed: many rounds, as the machine's noise is in them. Memory: figures hardly vary.
JOBS = [
    Job("pair", "malloc+free of one size, ns per pair: the same object (reuse); "
        "256 allocations, then 256 frees (npattern)",
        "pair", "--repeats=15", "--repeats=25", (3, 9), (0.8, 1.3)),
    Job("cache_pair", "slub_cache_alloc+slub_cache_free, inlined, ns per pair",
        "cache_pair", "", "", (3, 9), (0.6, 0.6), ours_only=True),
    Job("api_object", "a cache that is a variable, inline, beside malloc; 16 in bulk beside 16 "
        "single calls: ns per object allocated and freed",
        "api_object", "--repeats=11", "", (1, 5), (0.3, 0.6), ours_only=True),
    Job("api_counter", "slub_percpu_add beside a thread-local and an atomic add, by one thread and "
        "by two on two CPUs: ns per add",
        "api_counter", "--repeats=5 --adds=1000000", "", (1, 5), (0.5, 3.0), ours_only=True,
        threads=True),
    Job("api_percpu_table", "per-CPU objects of 8 bytes: time of an allocation, and memory when "
        "every CPU has written every object",
        "api_percpu_table", "--mib=128", "", (1, 1), (1.5, 12.0), kind="grid", ours_only=True,
        mib=4000),
    Job("api_letters", "malloc(64) and free with the class watched by each debugging letter: ns",
        "api_letters", "--repeats=5", "", (1, 3), (1.0, 3.0), ours_only=True),
    Job("slab_test", "10,000 allocations, then 10,000 frees: cycles (TSC) per operation",
        "slab_test", "--repeats=5", "--repeats=11", (3, 7), (2.0, 2.4),
        hidden=("cold-", "touch-alloc", "touch-free")),
    Job("prodcons", "one thread allocates, another frees: ns per object",
        "prodcons", "--repeats=3", "--repeats=5", (3, 7), (0.5, 0.8), threads=True),
    Job("churn_2", "random replacement of 16 to 1,024 bytes by two threads that pass their "
        "objects on: ns per step",
        "churn", "--threads=2 --steps=2000000", "--threads=2", (0, 7), (0.4, 0.7), threads=True),
    Job("churn_16", "the same, sixteen threads",
        "churn", "--threads=16 --steps=2000000", "--threads=16", (0, 7), (0.5, 0.9), threads=True),
    Job("growth", "vectors grown by realloc: ns per element (double, half), per realloc (line)",
        "growth", "--repeats=5", "", (3, 7), (0.2, 0.5)),
    Job("large", "blocks of 5 to 25 MiB, each page written: us per step",
        "large", "--steps=60", "--steps=100", (0, 5), (0.7, 1.0), mib=1200),
    Job("startup", "start of an empty program: us, and KiB resident",
        "startup", "--starts=40", "--starts=200", (3, 7), (0.3, 1.0), startup=True),
    Job("overhead", "1 GiB of 64-byte objects, all written: resident beyond the payload",
        "overhead", "", "", (1, 3), (1.5, 1.5), mib=1600),
    Job("burst", "1 GiB (quick: 512 MiB) of 16 to 512 bytes, freed in order, then idle: MiB",
        "burst", "--mib=512", "", (1, 3), (2.2, 3.3), mib=1600),
    Job("burst_reverse", "the same, freed in reverse order",
        "burst", "--order=reverse", "--order=reverse", (0, 1), (3.3, 3.3), mib=1600),
    Job("burst_random", "the same, freed in random order",
        "burst", "--order=random", "--order=random", (0, 1), (4.2, 4.2), mib=1600),
    Job("idle_threads", "threads that idle after 4 x 1 MiB allocated and freed: MiB resident",
        "idle_threads", "--threads=500", "--threads=8000", (1, 1), (2.0, 25.0),
        baseline="--no-allocation", hidden=("anonymous",), mib=15500, threads=True),
    Job("idle_at_once", "the same, all threads started at once: MiB resident",
        "idle_threads", "--threads=1000 --at-once", "--threads=8000 --at-once", (0, 0),
        (3.5, 30.0), baseline="--no-allocation", hidden=("anonymous",), mib=15500, threads=True),
]
