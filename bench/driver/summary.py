# SPDX-License-Identifier: MIT
"""The arithmetic of the report: ratios to the best peer, their geometric means, the goals."""
import math

from allocators import FEW, OURS, PEERS, UNIPROCESSOR
from results import median, spread

SIZES = [str(1 << power) for power in range(3, 15)]
# slab_test's concurrent rows stand in the kernel's part of the report.
GOALS = {"time": 0.95, "peak": 1.00, "worst": 1.10, "resting": 0.5, "cells": 20}
LARGE_MIB = 16			# below, most of a process is not the heap
KEEPERS = ("mimalloc", "jemalloc")	# whose resting memory ours is set against
# Without the C library, whose heap has no size classes, and what is slow by design.
RIVALS = tuple(name for name in PEERS if name not in FEW)


def geometric_mean(values):
    """None of no values; a value that is not above nought has no geometric mean."""
    values = list(values)
    if not values or min(values) <= 0:
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))


def ratio(value, base):
    """None where either is missing or the base is nought."""
    return value / base if value is not None and base else None


def peers(allocators):
    return [name for name in allocators if not name.startswith(OURS)]


def compared(jobs, results):
    """The jobs of the geometric means: workloads and real programs that have figures."""
    return [job for job in jobs if job.kind in ("workload", "program") and results.rows(job.name)]


class Cell:
    """One workload, one measure: libslub's ratio to the best peer of it."""

    def __init__(self, results, job, row, against):
        self.job = job.name
        self.ours = results.value(job.name, row, OURS)
        self.best, self.against = results.best(job.name, row, against)
        self.ratio = ratio(self.ours, self.best)
        self.spread = (spread(results.values(job.name, row, OURS))
                       + (spread(results.values(job.name, row, self.against))
                          if self.against else 0.0))


def cells(results, jobs, row, allocators):
    """One per workload where both sides have a figure."""
    against = peers(allocators)
    made = [Cell(results, job, row, against) for job in compared(jobs, results)]
    return [cell for cell in made if cell.ratio]


def league(results, jobs, row, allocators):
    """Allocator -> (geometric mean of its ratio to the best allocator of each row, rows).

    Only rows where all of them have a figure, so that nobody gains by failing.
    """
    ranked = [name for name in allocators if name == OURS or not name.startswith(OURS)]
    kept, products = 0, {name: [] for name in ranked}
    for job in compared(jobs, results):
        values = {name: results.value(job.name, row, name) for name in ranked}
        if None in values.values() or min(values.values()) <= 0:
            continue
        kept, best = kept + 1, min(values.values())
        for name in ranked:
            products[name].append(values[name] / best)
    return {name: geometric_mean(products[name]) for name in ranked}, kept


def resting(results, jobs, allocators):
    """Peer -> [(workload, ratio of our resting memory to its, its MiB)]."""
    found = {}
    for name in KEEPERS:
        if name not in allocators:
            continue
        found[name] = []
        for job in compared(jobs, results):
            theirs = results.value(job.name, "resting", name)
            share = ratio(results.value(job.name, "resting", OURS), theirs)
            if share:
                found[name].append((job.name, share, theirs))
    return found


def slab_cells(results, allocators, prefix=""):
    """(won, judged, missed rows): cells of slab_test where ours is below every peer."""
    won, judged, missed = 0, 0, []
    for call in ("alloc", "free"):
        for size in SIZES:
            row = f"{prefix}{call}/{size}"
            ours = results.value("slab_test", row, OURS)
            best, against = results.best("slab_test", row, peers(allocators))
            if ours is None or best is None:
                continue
            judged += 1
            if ours < best:
                won += 1
            else:
                missed.append((row, ours, best, against))
    return won, judged, missed


def latency(results, allocators):
    """[(job, row, ours, best, peer)] for p99.9 of malloc and free."""
    found = []
    for job in ("latency_2", "latency_500"):
        for row in ("malloc-p99.9", "free-p99.9"):
            ours = results.value(job, row, OURS)
            best, against = results.best(job, row, peers(allocators))
            if ours is not None and best is not None:
                found.append((job, row, ours, best, against))
    return found


def _verdict(text, value, met, doubtful=False):
    return {"goal": text, "value": value, "met": met, "doubtful": doubtful}


def _ratio_goals(results, jobs, allocators):
    rivals = [name for name in RIVALS if name in allocators]
    for row, name in (("time", "time"), ("peak", "peak RSS")):
        found = cells(results, jobs, row, allocators)
        if not found:
            continue
        mean, limit = geometric_mean(cell.ratio for cell in found), GOALS[row]
        noise = (median([cell.spread for cell in found]) or 0) / math.sqrt(len(found))
        yield _verdict(f"geometric mean of {name} against the best peer on each of "
                       f"{len(found)} workloads: at most {limit:.2f}", f"{mean:.3f}",
                       mean <= limit, abs(mean - limit) < noise)
        if row == "peak" and cells(results, jobs, row, rivals):
            found = cells(results, jobs, row, rivals)
            mean = geometric_mean(cell.ratio for cell in found)
            yield _verdict(f"the same of peak RSS against {', '.join(rivals)} alone",
                           f"{mean:.3f}", mean <= limit, abs(mean - limit) < noise)
        if row == "time":
            worst = max(found, key=lambda cell: cell.ratio)
            over = [cell for cell in found if cell.ratio > GOALS["worst"]]
            yield _verdict(f"no workload above {GOALS['worst']:.2f} of the best peer's time",
                           f"{len(over)} above; worst {worst.ratio:.2f} ({worst.job}, "
                           f"{worst.against})", not over)


def goals(results, jobs, allocators):
    """What the report is to show, each with a verdict; only what was measured."""
    made = list(_ratio_goals(results, jobs, allocators))
    for name, found in resting(results, jobs, allocators).items():
        if not found:
            continue
        under = [one for one in found if one[1] <= GOALS["resting"]]
        mean = geometric_mean(share for _, share, _ in found)
        text = f"{len(under)} of {len(found)}; geometric mean {mean:.2f}"
        large = geometric_mean(share for _, share, mib in found if mib >= LARGE_MIB)
        if large:
            text += f", {large:.2f} where {name} keeps {LARGE_MIB} MiB or more"
        made.append(_verdict(f"resting RSS of each workload at most {GOALS['resting']:.1f} of "
                             f"{name}'s", text, len(under) == len(found)))
    for job, row, ours, best, against in latency(results, allocators):
        made.append(_verdict(f"{job} {row} below every peer", f"{ours:.0f} ns, best peer "
                             f"{best:.0f} ({against})", ours < best))
    for prefix, title in (("", "objects untouched"), ("touch-", "first word written")):
        won, judged, _ = slab_cells(results, allocators, prefix)
        if judged:
            made.append(_verdict(f"slab_test, {title}: fewer cycles than every peer in "
                                 f"{GOALS['cells']} of 24 cells", f"{won} of {judged}",
                                 won >= GOALS["cells"]))
    return made


def ranked(allocators):
    """The columns of the report: peers, then ours; not the uniprocessor build."""
    return peers(allocators) + [name for name in allocators
                                if name.startswith(OURS) and name != UNIPROCESSOR]
