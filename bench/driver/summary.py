# SPDX-License-Identifier: MIT
"""The arithmetic of the page: ratios to the best peer, and their geometric means."""
import math

from allocators import OURS
from results import spread


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
    """The jobs of the geometric means: workloads that have figures."""
    return [job for job in jobs if job.kind == "workload" and results.rows(job.name)]


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
