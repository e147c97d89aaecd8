# SPDX-License-Identifier: MIT
"""The workloads of bench/workloads, and what goes beside them: latency, micro, growth."""
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
    _workload("server", "a server whose threads end and leave their objects to successors",
              "server", "--generations=40", "", (0.1, 0.15), threads=True),
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
    _workload("sharing_active", "two threads writing small objects of their own", "sharing",
              "--objects=50000", "", (0.1, 0.15), threads=True),
    _workload("sharing_passive", "the same, the first objects given out by one thread",
              "sharing", "--kind=passive --objects=50000", "--kind=passive", (0.1, 0.15),
              threads=True),
    _workload("table", "a hash-table server, real TCP clients", "table", "--ops=100000", "",
              (0.25, 0.9), threads=True),
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
    one.hidden += ("curve-", "time", "peak", "faults", "instructions", "clock")

MICRO = [
    Job("micro", "single calls by Google Benchmark: ns", "workloads/micro",
        "--benchmark_format=json --benchmark_min_time=0.01",
        "--benchmark_format=json --benchmark_min_time=0.04", (3, 5), (0.5, 1.5),
        kind="micro", threads=True),
]


def _threads(*counts):
    return [(str(count), f"--threads={count} --ops={1000000 if count < 5000 else 500000} --rest=0")
            for count in counts]


def _cpus(*counts):
    return [(str(count), f"--cpus={count}") for count in counts]


CURVES = [
    Job("curve_threads", "threads on the machine's CPUs: processor ns per operation, peak MiB",
        "workloads/threads", "", "", (1, 5), (0.8, 4.0), kind="curve", threads=True, mib=8000,
        steps={"quick": _threads(1, 10, 100, 1000),
               "full": _threads(1, 3, 10, 30, 100, 300, 1000, 3000, 10000)},
        keep=("cpu", "peak")),
    Job("curve_heap", "MiB held: ns per replacement (cost), resident by held (held)",
        "workloads/heap", "--to=64 --ops=300000", "--to=1024", (1, 5), (0.4, 2.0), kind="curve",
        mib=1700),
    Job("curve_heap_large", "the same, beyond 1 GiB", "workloads/heap",
        "--from=4096 --to=16384", "--from=4096 --to=16384", (0, 1), (14.0, 14.0), kind="curve",
        mib=21500),
    Job("curve_cpus", "CPUs that libslub is told of, all with an area: ns and MiB",
        "workloads/cpus", "", "", (1, 5), (0.3, 0.6), kind="curve", ours_only=True,
        steps={"quick": _cpus(1, 64, 4096), "full": _cpus(1, 4, 16, 64, 256, 1024, 4096)},
        keep=("pair", "alloc", "sum", "rss"), mib=2000),
    Job("curve_sizes", "bytes: ns per allocation and free, the first byte written",
        "workloads/sizes", "--slice=0.01", "--slice=0.02", (1, 5), (0.3, 0.5), kind="curve"),
]
