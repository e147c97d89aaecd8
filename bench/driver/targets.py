# SPDX-License-Identifier: MIT
"""What libslub is to reach, and whether a run shows it."""
import re

from allocators import OURS, REFERENCE
from results import spread

SMALL = ("8", "16", "32", "64")
MIDDLE = ("128", "256", "512", "1024")
FLOOR = "floor"		# "floor-KIND" for rows KIND/..., or "floor": without an allocator's work


class Target:
    """A limit on one row: of a ratio to others' best, to a row of its own, or of the value."""

    def __init__(self, job, row, limit, **more):
        self.job, self.row, self.limit = job, re.compile(row), limit
        self.base = more.get("base")		# names, or "every"; None: not a ratio to others
        self.base_job = more.get("base_job", job)
        self.own = more.get("own")		# a row of our own to divide by
        self.strict = more.get("strict", False)

    def judge(self, results, row, allocators):
        """A verdict on one row, or None where there is nothing to judge."""
        ours = results.value(self.job, row, OURS)
        if ours is None:
            return None
        noise, against = spread(results.values(self.job, row, OURS)), None
        value = ours
        if self.own:
            divisor, against = results.value(self.job, self.own_row(row), OURS), self.own_row(row)
        elif self.base:
            names = self.names(allocators)
            divisor, against = results.best(self.base_job, row, names)
            if against:
                noise += spread(results.values(self.base_job, row, against))
        else:
            divisor = 1
        if not divisor or (self.base == REFERENCE and
                           not results.value(self.base_job, row, against)):
            return None
        value = ours / divisor
        met = value < self.limit if self.strict else value <= self.limit
        doubtful = abs(value - self.limit) < noise / 2 * abs(value)
        return {"job": self.job, "row": row, "value": value, "limit": self.limit,
                "against": against, "met": met, "doubtful": doubtful,
                "floor": self.floor(results, row, divisor, allocators),
                "missing_peers": self.missing(allocators)}

    def floor(self, results, row, divisor, allocators):
        """What the same loop reaches by doing nothing; None where the job does not measure that."""
        rows = results.rows(self.job)
        own = f"{FLOOR}-{row.split('/')[0]}"
        measured = results.best(self.job, own if own in rows else FLOOR, allocators)[0]
        return measured / divisor if measured else None

    def own_row(self, row):
        return row.split("/")[0] + "/" + self.own

    def names(self, allocators):
        others = [name for name in allocators if not name.startswith(OURS)]
        return others if self.base == "every" else [n for n in others if n in self.base]

    def missing(self, allocators):
        return [n for n in REFERENCE if n not in allocators] if self.base else []


def _sizes(names):
    return "/(" + "|".join(names) + ")$"


TARGETS = [
    Target("pair", "^reuse" + _sizes(SMALL + MIDDLE), 0.9, base=REFERENCE),
    Target("pair", "^npattern" + _sizes(SMALL), 1.0, base=REFERENCE),
    Target("pair", "^npattern" + _sizes(MIDDLE), 0.9, base=REFERENCE),
    Target("pair", "^(reuse|npattern)/(4096|16384)$", 2.0, own="1024"),
    Target("cache_pair", "^(reuse|npattern)/", 0.5, base=REFERENCE, base_job="pair"),
    Target("api_object", "^bulk16/64/bulk:single$", 0.5),
    Target("api_counter", "^1(/64 words)?/percpu:thread-local$", 2.0),
    Target("api_counter", "^2/percpu:atomic$", 0.2),
    Target("prodcons", "^(\\d+|mix)$", 0.7, base=REFERENCE),
    Target("slab_test", "^both/", 1.0, base="every", strict=True),
    Target("startup", "^rss-over-libc$", 1024),
    Target("startup", "^time-over-libc$", 300),
    Target("overhead", "^overhead/64$", 2.0),
    Target("burst", "^after-1s/in$", 48),
    Target("idle_threads", "^rss/8000$", 120),
]


def verdict(results, job, row, allocators):
    """The verdict on a row of a job; None where no target is set or it was not measured."""
    for target in TARGETS:
        if target.job == job and target.row.search(row):
            return target.judge(results, row, allocators)
    return None


def every(results, allocators):
    found = []
    for job in results.data:
        for row in results.rows(job):
            judged = verdict(results, job, row, allocators)
            if judged:
                found.append(judged)
    return found


def unjudged(results):
    """Jobs with targets that gave no figures for libslub, with the reason."""
    return {target.job: results.failures(target.job)[OURS] for target in TARGETS
            if OURS in results.failures(target.job)}


def words(judged):
    """'0.65 <= 0.90 met', as it stands in the last column."""
    if not judged:
        return ""
    mark = ("met" if judged["met"] else "MISSED") + ("?" if judged["doubtful"] else "")
    value = judged["value"]
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    text = f"{shown} of {judged['limit']:g} {mark}"
    beside = [judged["against"]] if judged["against"] else []
    if judged["floor"] and not judged["met"]:
        beside.append(f"floor {judged['floor']:.3g}")
    return text + (f" ({', '.join(beside)})" if beside else "")
