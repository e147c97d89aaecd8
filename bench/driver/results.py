# SPDX-License-Identifier: MIT
"""What was measured: job -> row -> allocator -> one value per round."""
import json
import os
import re


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if not ordered:
        return None
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def spread(values):
    """The middle half of the values as a share of the median; of two or three, all of them."""
    if len(values) < 2 or not median(values):
        return 0.0
    if len(values) < 4:
        return (max(values) - min(values)) / abs(median(values))
    ordered, quarter = sorted(values), len(values) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / abs(median(values))


def number(value):
    """Three digits, as tables show them."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def save(data, path):
    """The whole file, or none."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(data, file, separators=(",", ":"))
        os.replace(path + ".part", path)
    except OSError:
        if os.path.exists(path + ".part"):
            os.unlink(path + ".part")
        raise


class Results:
    """All rows of a run, in the shape that is written as JSON."""

    def __init__(self, data=None):
        self.data = data or {}

    def add(self, job, allocator, answer):
        rows = self.data.setdefault(job, {"rows": {}, "failures": {}})["rows"]
        for row in answer["rows"]:
            kept = rows.setdefault(row["name"], {"unit": row["unit"], "values": {}})
            kept["values"].setdefault(allocator, []).append(row["value"])

    def fail(self, job, allocator, why):
        failures = self.data.setdefault(job, {"rows": {}, "failures": {}})["failures"]
        failures.setdefault(allocator, why)

    def rows(self, job):
        return self.data.get(job, {}).get("rows", {})

    def failures(self, job):
        return self.data.get(job, {}).get("failures", {})

    def word(self, job, allocator):
        """What a cell without a figure says, or None: it was not run.  Slow is not wrong."""
        why = self.failures(job).get(allocator)
        late = re.match(r"no end within (\d+) s$", why or "")
        return f"timeout after {late[1]} s" if late else "fails" if why else None

    def values(self, job, row, allocator):
        return self.rows(job).get(row, {}).get("values", {}).get(allocator, [])

    def value(self, job, row, allocator):
        return median(self.values(job, row, allocator))

    def best(self, job, row, allocators):
        """(value, name) of the lowest median among those that have one."""
        found = [(self.value(job, row, name), name) for name in allocators]
        found = [pair for pair in found if pair[0] is not None]
        return min(found) if found else (None, None)
