# SPDX-License-Identifier: MIT
"""The programs of bench/core: what the library promises of itself."""
from job import Job

# Speed: many rounds, as the machine's noise is in them. Memory: figures hardly vary.
JOBS = [
    Job("pair", "malloc+free of one size, ns per pair: the same object (reuse); "
        "256 allocations, then 256 frees (npattern)",
        "pair", "--repeats=15", "--repeats=25", (3, 9), (0.8, 1.3)),
    Job("slab_test", "10,000 allocations, then 10,000 frees: cycles (TSC) per operation",
        "slab_test", "--repeats=5", "--repeats=11", (3, 7), (2.0, 2.4),
        hidden=("cold-", "touch-alloc", "touch-free")),
    Job("startup", "start of an empty program: us, and KiB resident",
        "startup", "--starts=40", "--starts=200", (3, 7), (0.3, 1.0), startup=True),
    Job("overhead", "1 GiB of 64-byte objects, all written: resident beyond the payload",
        "overhead", "", "", (1, 3), (1.5, 1.5), mib=1600),
    Job("burst", "1 GiB (quick: 512 MiB) of 16 to 512 bytes, freed in order, then idle: MiB",
        "burst", "--mib=512", "", (1, 3), (2.2, 3.3), mib=1600),
    Job("burst_random", "the same, freed in random order",
        "burst", "--order=random", "--order=random", (0, 1), (4.2, 4.2), mib=1600),
]
