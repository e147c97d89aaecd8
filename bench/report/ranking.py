# SPDX-License-Identifier: MIT
"""Is one allocator faster than another, or smaller?  Intervals from the samples of
bench/outside/run --json.

Allocators took turns in each round, so a round's figures are a pair, and their ratio knows little
of a noisy minute.  A row's figure is the median of its rounds' ratios, the mean is geometric over
the rows, and the interval holds 95 % of the means that rounds drawn anew give (a bootstrap within
each row; Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).  The rows are
these rows: nothing is said of other programs.
"""
import math
import random
import statistics

LEAST_ROUNDS = 5		# fewer say nothing of how much a figure varies
DRAWS = 2000
COPY = "libslub-copy"		# a second copy of the library: what the intervals are worth


def pairs(samples, row, ours, peer, part):
    """Of each round; nothing of a row in which one of them failed, for its rounds are no pairs."""
    both = samples[row].get(ours, []), samples[row].get(peer, [])
    if len(both[0]) != len(both[1]):
        return []
    return [math.log(one[part] / other[part]) for one, other in zip(*both)
            if one[part] and other[part]]


def interval(samples, rows, ours, peer, part):
    """(mean, low, high) of @ours by @peer; None: too few rounds, or no row that both ended."""
    logs = [pairs(samples, row, ours, peer, part) for row in rows]
    logs = [row for row in logs if row]
    if not logs or min(map(len, logs)) < LEAST_ROUNDS:
        return None
    # The same samples give the same interval.
    draw = random.Random(0)
    means = sorted(statistics.fmean(statistics.median(draw.choices(row, k=len(row)))
                                    for row in logs) for _ in range(DRAWS))
    mean = statistics.fmean(map(statistics.median, logs))
    return tuple(map(math.exp, (mean, means[DRAWS // 40], means[-DRAWS // 40])))


def cell(found):
    return "{:.3f} ({:.3f} to {:.3f})".format(*found) if found else "–"


def verdict(found, what):
    """@found: an interval for each peer.  "First" is said where each of them says so."""
    known = {name: one for name, one in found.items() if one}
    if not known:
        return f"{what}: fewer than {LEAST_ROUNDS} rounds, no order"
    better = [name for name, one in known.items() if one[2] < 1]
    worse = [name for name, one in known.items() if one[1] > 1]
    level = [name for name in known if name not in better + worse]
    if len(better) == len(found):
        return f"{what}: first"
    words = [f"{word} {', '.join(names)}" for word, names in
             (("before", better), ("level with", level), ("behind", worse)) if names]
    return f"{what}: " + "; ".join(words)


def tables(samples, groups, ours, peers):
    """@groups: (rows, title).  Lines of a table, and a sentence for each of them below it."""
    copies = [COPY] if any(COPY in row for row in samples.values()) else []
    lines = [f"| {ours} by | " + " | ".join(peers + copies) + " |",
             "|---" * (len(peers + copies) + 1) + "|"]
    said = []
    for rows, title in groups:
        for part, words in ((0, "time"), (1, "peak")):
            found = {peer: interval(samples, rows, ours, peer, part) for peer in peers + copies}
            lines.append(f"| {words}, {title} | " + " | ".join(map(cell, found.values())) + " |")
            said.append("- " + verdict({peer: found[peer] for peer in peers},
                                       f"{words}, {title}"))
    return lines + [""] + said
