# SPDX-License-Identifier: MIT
"""The report's sections, each a list of lines of Markdown."""
import re
import textwrap

import ratios
import summary
from allocators import OURS
from results import spread


def number(value):
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def filled(text):
    """A paragraph in lines of 120 columns; what stands between backticks is not broken."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    return textwrap.fill(whole, 120, break_long_words=False,
                         break_on_hyphens=False).replace("\0", " ")


def table(head, rows):
    """A table of Markdown: the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def head(data):
    lines = [f"Written by `bench/run` from what it measured on {data['started']} in a "
             f"{data['mode']} run of {data.get('seconds', 0) / 60:.0f} minutes. Lower is better "
             "everywhere. Processes run interleaved, A B C and then B C A; figures are medians. "
             "The spread is the middle half of the rounds by their median (of two or three "
             "rounds: all of them). Read the ratios; where they differ by less than the spread, "
             "they do not differ.", ""]
    if data["mode"] != "full":
        lines += ["**A quick run: fewer rounds and smaller sizes. It shows where to look; "
                  "`make bench` gives the figures.**", ""]
    if data["left_out"] or data.get("notes"):
        lines += ["Left out, and other remarks:", ""]
        lines += [f"* {name}: {why}" for name, why in data["left_out"].items()]
        lines += [f"* {note}" for note in data.get("notes", ())] + [""]
    return lines


def goals(results, jobs, names):
    found = summary.goals(results, jobs, names)
    if not found:
        return []
    rows = [[goal["goal"], goal["value"],
             ("met" if goal["met"] else "**missed**") + (", within noise" if goal["doubtful"]
                                                         else "")] for goal in found]
    return ["## What it is to show", ""] + table(["goal", "measured", "verdict"], rows)


def league(results, jobs, names):
    """Each allocator against the best one of each workload."""
    rows, shown = [], []
    for kind, group in (("program", "real programs"), ("workload", "loops")):
        of_kind = [job for job in jobs if job.kind == kind]
        for row, words in (("time", "time"), ("peak", "peak RSS"), ("resting", "resting RSS")):
            means, kept = summary.league(results, of_kind, row, names)
            shown = shown or [name for name in means if means[name]]
            if kept:
                rows.append([f"{words}, {kept} {group}"] + [number(means[name]) for name in shown])
    if not shown:
        return []
    return ["## All of them against the best of each workload", "",
            "Geometric means of the ratio to the best allocator of each workload, libslub "
            "included; only workloads for which each of them has a figure. Real programs have "
            "means of their own.", ""] + table([""] + shown, rows)


def suite(data):
    """mimalloc-bench, where the run had a checkout of it."""
    found = data.get("suite")
    if not found:
        return []
    try:
        tables = ratios.tables(found)
    except ValueError as why:
        tables = [f"No table: {why}."]
    return ["## mimalloc-bench, unmodified", "",
            f"Its programs that need nothing else, of revision {found['revision']}, "
            f"{found['rounds']} rounds: the least CPU time and the median of peaks, by the best "
            "peer of each row and by the C library. A row without a figure (–) is one that an "
            "allocator did not end.", ""] + tables + [""]


def workloads(results, jobs, names, row, title):
    shown = summary.ranked(names)
    rows, noisy = [], row in ("time", "peak", "resting")
    for job in summary.compared(jobs, results):
        values = [results.value(job.name, row, name) for name in shown]
        if not any(value is not None for value in values):
            continue
        best = results.best(job.name, row, summary.peers(names))[0]
        cells = []
        for name, value in zip(shown, values):
            text = number(value) if value is not None else (
                results.word(job.name, name) or "–")
            part = summary.ratio(value, best)
            cells.append(f"{text} ({part:.2f})" if part and noisy else text)
        widest = max((spread(results.values(job.name, row, name)) for name in shown), default=0)
        unit = results.rows(job.name)[row]["unit"]
        rows.append([job.name + (f" ({unit})" if row == "time" else "")] + cells
                    + [f"{widest * 100:.0f} %"])
    if not rows:
        return []
    note = ["In parentheses: by the best peer's figure, the C library included.", ""]
    return [f"### {title}", ""] + (note if noisy else []) \
        + table(["workload"] + shown + ["spread"], rows)


def counted(found, names, title, words):
    if not found:
        return []
    shown = [name for name in summary.ranked(names)
             if any(name in values for values in found.values())]
    rows = [[row] + [number(values.get(name)) for name in shown]
            for row, values in found.items()]
    return [f"### {title}", "", words, ""] + table([""] + shown, rows)


def latency(results, names):
    lines = []
    shown = summary.ranked(names)
    for job in ("latency_2", "latency_500"):
        rows = []
        for call in ("malloc", "free"):
            for share in ("p50", "p99", "p99.9", "p99.99", "max"):
                row = f"{call}-{share}"
                if row in results.rows(job):
                    rows.append([f"{call} {share}"]
                                + [number(results.value(job, row, name)) for name in shown])
        if rows:
            clock = [value for name in shown for value in results.values(job, "clock/p50", name)]
            lines += [f"### Single calls, {job[8:]} threads, ns", "",
                      "Each call timed on its own; reading the clock is part of each figure"
                      + (f" (about {min(clock):.0f} ns)." if clock else "."), ""]
            lines += table([""] + shown, rows)
    return ["## Latency", ""] + lines if lines else []


def slab_test(results, names):
    lines = []
    for prefix, title in (("", "objects untouched"), ("touch-", "first word of each written")):
        won, judged, missed = summary.slab_cells(results, names, prefix)
        if judged:
            lines += [f"slab_test, {title}: fewer cycles than every peer in {won} of {judged} "
                      "cells." + (" Not in " + ", ".join(
                          f"{row} ({ours:.0f} against {best:.0f} of {against})"
                          for row, ours, best, against in missed) + "." if missed else ""), ""]
    return ["## Cells of slab_test", ""] + lines if lines else []


def rest(results, jobs, names, tables):
    """The tables of the other jobs, as they stand on the terminal."""
    lines = []
    for job in jobs:
        if job.kind in ("core", "grid", "micro") and job.name in results.data:
            shown = [name for name in names if name.startswith(OURS) or not job.ours_only]
            lines += ["```"] + tables.of(results, job, shown)[1:] + ["```", ""]
    return ["## Single promises", ""] + lines if lines else []


def kernel(data):
    if not data.get("kernel"):
        return []
    return ["## The kernel's measurements", "", "```", data["kernel"].strip(), "```", ""]


def versions(data):
    rows = [[name, one["version"], one.get("check") or ""]
            for name, one in data["allocators"].items()]
    lines = ["| allocator | version | how it runs |", "|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows] + [""]
    programs = data.get("programs") or {}
    said = "; ".join(f"{name}: {version}" for name, version in programs.items())
    return lines + ([f"Programs: {said}.", ""] if said else [])
