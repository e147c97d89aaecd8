# SPDX-License-Identifier: MIT
"""Tables of programs that nobody here wrote, from the samples of bench/outside/run --json.

Ratios of the least time, and of the median of peaks; each group of rows has means of its own.
What the means are worth stands below them: ranking.py.
"""
import math
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "outside")]

import outer_programs as programs			# noqa: E402  (after the path is set)
import ranking						# noqa: E402

HEAD = ["| | time by the best | by glibc | compact by glibc | peak by the least | by glibc | "
        "compact by glibc |", "|---|---|---|---|---|---|---|"]
OURS, COMPACT, LIBC = "libslub", "libslub-compact", "glibc"
LOSS = 1.05


def figures(samples, row, part):
    return {name: programs.figure(got, part) for name, got in samples[row].items() if got}


def ratios(found, peers):
    """By the best peer, by glibc, and compact mode by glibc; None where one is missing."""
    best = min((found[name] for name in peers if name in found), default=None)
    ours, libc = found.get(OURS), found.get(LIBC)
    return [a / b if a and b else None
            for a, b in ((ours, best), (ours, libc), (found.get(COMPACT), libc))]


def line(head, values):
    return f"| {head} | " + " | ".join("–" if v is None else f"{v:.2f}" for v in values) + " |"


def geomean(values):
    values = [value for value in values if value]
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def group(samples, rows, peers, title):
    # The mean is that of the figures as they are printed.
    made = {row: [value and round(value, 2) for part in (0, 1)
                  for value in ratios(figures(samples, row, part), peers)] for row in rows}
    return [line(f"`{row}`", values) for row, values in made.items()] \
        + [line(title, map(geomean, zip(*made.values())))]


def league(samples, names, peers, rows, title):
    """Each allocator by the best peer of each row, over the rows that all of them ended."""
    whole = [row for row in rows if all(samples[row][name] for name in names)]
    lines = []
    for part, words in ((0, "time"), (1, "peak")):
        found = [figures(samples, row, part) for row in whole]
        lines.append(line(f"{words}, {title}, {len(whole)} rows", [
            geomean([one[name] / min(one[peer] for peer in peers) for one in found])
            for name in names]))
    return lines


def losses(samples, rows, peers):
    """Each row in which a peer needs less by a twentieth or more: the best, and how much more ours
    is.  The most first."""
    found = []
    for row in rows:
        for part, what in ((0, "time"), (1, "peak")):
            by = figures(samples, row, part)
            best = min((name for name in peers if name in by), key=by.get, default=None)
            if OURS in by and best and by[OURS] >= LOSS * by[best]:
                found.append((by[OURS] / by[best], row, what, best))
    return [f"| `{row}` | {what} | {ratio:.2f} | {best} |"
            for ratio, row, what, best in sorted(found, reverse=True)]


def peers_of(data):
    """The columns, and those of them that are not libslub's; ValueError: nothing to compare."""
    names = list(data["allocators"])
    peers = [name for name in names if not name.startswith(OURS)]
    if OURS not in names or not peers:
        raise ValueError("there is no libslub, or nothing beside it")
    return names, peers


def tables(data):
    """Rows of mimalloc-bench, then real programs; and the means of all allocators."""
    names, peers = peers_of(data)
    samples = data["samples"]
    groups = [([row for row in samples if row in programs.LOOPS], "mimalloc-bench"),
              ([row for row in samples if row not in programs.LOOPS], "real programs")]
    groups = [(rows, title) for rows, title in groups if rows]
    lines = list(HEAD)
    for rows, title in groups:
        lines += group(samples, rows, peers, title)
    lines += ["", "| geometric mean of | " + " | ".join(names) + " |",
              "|---" * (len(names) + 1) + "|"]
    for rows, title in groups:
        lines += league(samples, names, peers, rows, title)
    lines += [""] + ranking.tables(samples, groups, OURS, peers)
    lost = [one for rows, _ in groups for one in losses(samples, rows, peers)]
    return lines + ["", f"Where {OURS} loses by {LOSS:.2f} or more:", "",
                    "| row | figure | by the best | best |", "|---|---|---|---|"] + lost
