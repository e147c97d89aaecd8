# SPDX-License-Identifier: MIT
"""The loops of bench/workloads, and the latency of single calls."""
from job import Job


def _workload(name, title, program, quick, full, seconds, **more):
    more.setdefault("kind", "workload")
    more.setdefault("rests", True)
    return Job(name, title, "workloads/" + program, quick, full, more.pop("rounds", (3, 5)),
               seconds, hidden=("ops", "seconds"), **more)


WORKLOADS = [
    _workload("churn_fixed", "objects of 64 bytes replaced at random", "churn",
              "--ops=3000000", "", (0.1, 0.15)),
    _workload("churn_random", "objects of 8 to 2,048 bytes replaced at random, two threads",
              "churn", "--sizes=random --threads=2 --ops=3000000",
              "--sizes=random --threads=2", (0.12, 0.2), threads=True),
    _workload("queue_1_1", "one producer, one consumer", "queue", "--ops=1500000", "",
              (0.15, 0.25), threads=True),
    _workload("queue_1_3", "one producer, three consumers", "queue",
              "--consumers=3 --ops=1500000", "--consumers=3", (0.15, 0.25), threads=True),
    _workload("queue_3_1", "three producers, one consumer", "queue",
              "--producers=3 --ops=1500000", "--producers=3", (0.15, 0.25), threads=True),
    _workload("batch_order", "100,000 objects, freed in the order of allocation", "batch",
              "--rounds=15", "", (0.1, 0.2)),
    _workload("batch_reverse", "the same, freed in reverse order", "batch",
              "--order=reverse --rounds=15", "--order=reverse", (0.1, 0.2)),
    _workload("batch_random", "the same, freed in random order", "batch",
              "--order=random --rounds=15", "--order=random", (0.15, 0.25)),
    _workload("batch_kept", "objects of 64 bytes, freed in order, but for one in fifty", "batch",
              "--size=64 --keep=50", "--size=64 --keep=50", (0.1, 0.2), rounds=(0, 5)),
    _workload("mix", "long-lived and short-lived objects whose sizes change by the hour", "mix",
              "--ops=3000000", "", (0.2, 0.35)),
    _workload("vectors", "arrays that double by realloc", "grow", "--rounds=5", "", (0.2, 0.4)),
    _workload("strings", "texts that grow a line at a time by realloc", "grow",
              "--kind=strings --rounds=20", "--kind=strings --rounds=40", (0.1, 0.15)),
    _workload("blocks", "blocks of 256 KiB to 16 MiB, each page written", "blocks",
              "--ops=200", "", (0.15, 0.3), mib=400),
    _workload("zeroed", "calloc of 32 bytes to 1 MiB, all used", "zeroed", "--ops=200000", "",
              (0.15, 0.3)),
    _workload("threads_10", "10 threads on the machine's CPUs", "threads",
              "--threads=10 --ops=2000000", "--threads=10", (0.1, 0.15), threads=True),
    _workload("threads_100", "100 threads", "threads",
              "--threads=100 --ops=2000000", "--threads=100", (0.1, 0.15), threads=True),
    _workload("threads_1000", "1,000 threads", "threads",
              "--threads=1000 --ops=2000000", "--threads=1000", (0.3, 0.4), threads=True,
              alone=True, mib=1500),
    _workload("threads_10000", "10,000 threads", "threads",
              "--threads=10000", "--threads=10000", (4.0, 4.0), threads=True, alone=True,
              rounds=(0, 3), mib=8000),
    _workload("json", "JSON of 1 MiB parsed into trees, trees dropped", "json", "--rounds=15", "",
              (0.12, 0.25)),
]

LATENCY = [
    _workload("latency_2", "single calls, 16 to 4,095 bytes, 2 threads: ns", "call_latency",
              "--ops=1000000", "--ops=4000000", (0.3, 0.8), threads=True, kind="latency",
              rests=False),
    _workload("latency_500", "the same, 500 threads", "call_latency",
              "--threads=500 --ops=1000000", "--threads=500 --ops=4000000", (0.4, 0.9),
              threads=True, kind="latency", rests=False),
]
for one in LATENCY:
    one.hidden += ("time", "peak", "faults", "instructions", "clock")
