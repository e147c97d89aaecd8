# SPDX-License-Identifier: MIT
"""A run that nobody made: figures whose ratios are known."""
import os
import sys

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path[:0] = [os.path.join(BENCH, "driver"), os.path.join(BENCH, "report")]

import results as store		# noqa: E402  (after the path is set)

NAMES = ["glibc", "mimalloc", "jemalloc", "libslub"]


def row(unit, **values):
    return {"unit": unit, "values": {name: list(found) for name, found in values.items()}}


def workload(time, resting):
    """Times of (glibc, mimalloc, libslub); resting MiB of (mimalloc, jemalloc, libslub)."""
    return {"failures": {}, "rows": {
        "time": row("ns", glibc=[time[0]] * 3, mimalloc=[time[1]] * 3, jemalloc=[100.0] * 3,
                    libslub=[time[2]] * 3),
        "peak": row("MiB", glibc=[10.0], mimalloc=[20.0], jemalloc=[40.0], libslub=[10.0]),
        "resting": row("MiB", glibc=[50.0], mimalloc=[resting[0]], jemalloc=[resting[1]],
                       libslub=[resting[2]])}}


def slab_test():
    """Ours wins each alloc cell and loses each free cell."""
    rows = {}
    for size in (8 << power for power in range(12)):
        rows[f"alloc/{size}"] = row("cycles", glibc=[30.0], mimalloc=[20.0], libslub=[10.0])
        rows[f"free/{size}"] = row("cycles", glibc=[30.0], mimalloc=[20.0], libslub=[20.0])
    return {"failures": {}, "rows": rows}


def latency():
    rows = {f"malloc-{share}": row("ns", glibc=[200.0], mimalloc=[90.0], libslub=[80.0])
            for share in ("p50", "p99", "p99.9", "p99.99", "max")}
    rows.update({f"free-{share}": row("ns", glibc=[200.0], mimalloc=[70.0], libslub=[80.0])
                 for share in ("p50", "p99", "p99.9", "p99.99", "max")})
    rows["clock/p50"] = row("ns", glibc=[20.0], libslub=[20.0])
    return {"failures": {}, "rows": rows}


def data():
    return {
        "mode": "full", "started": "2020-01-02 03:04:05", "seconds": 600.0,
        "machine": {"processor": "Made up", "cpus": 2, "virtual": False, "memory_mib": 2048,
                    "kernel": "6.0", "system": "None", "libc": "glibc 2.36", "compiler": "cc",
                    "huge_pages": "never", "governor": "unknown", "load": 0.1, "tree": "abc"},
        "allocators": {name: {"version": "1." + str(at)} for at, name in enumerate(NAMES)},
        "left_out": {"rpmalloc": "cargo is not installed"}, "notes": ["mix: 2 of 5 rounds"],
        "programs": {"sqlite": "3.40.1"},
        "results": {"churn_fixed": workload((40.0, 10.0, 5.0), (40.0, 80.0, 20.0)),
                    "json": workload((10.0, 20.0, 20.0), (20.0, 20.0, 20.0)),
                    "slab_test": slab_test(), "latency_2": latency()},
    }


def results():
    return store.Results(data()["results"])
