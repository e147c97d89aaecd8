# SPDX-License-Identifier: MIT
"""The report: README.md with its pictures, and the JSON that it was made of."""
import json
import os
import re
import shutil
import subprocess
import sys

import curves
import machine
import pictures
import results as store
import sections
import tables

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHONS = (sys.executable, "/usr/bin/python3")


def folder(results, options):
    """Where a run's report goes: a full one is the project's own, others do not replace it."""
    whole = options.mode == "full" and options.names is None and not options.allocators
    return os.path.join(results, "report" if whole else "partial" if options.names else
                        options.mode)


def without_places(data):
    """The same with libraries by name: where they lay on this machine says nothing elsewhere."""
    def named(allocator):
        known = dict(allocator)
        if known.get("library"):
            known["library"] = os.path.basename(known["library"])
        if known.get("check"):
            known["check"] = re.sub(r"; file \S*/", "; file ", known["check"])
        return known
    return dict(data, allocators={name: named(one) for name, one in data["allocators"].items()})


SUMMARY = ("time", "memory")		# the pictures of the tree's own report


def report(data, path, jobs, summary=False):
    """Write all of it into the folder `path`; the path of its README.md."""
    data = without_places(data)
    os.makedirs(path, exist_ok=True)
    results = store.Results(data["results"])
    names = list(data["allocators"])
    plots = [plot for plot in pictures.every(data, results, jobs, names)
             if not summary or plot["name"] in SUMMARY]
    drawn, trouble = draw(plots, path)
    lines = compose(data, results, jobs, names, drawn, trouble)
    if summary:
        lines += ["## Other pictures", "", "Each release has them, and `bench/report/make "
                  "results.json FOLDER` draws them.", ""]
    with open(os.path.join(path, "results.json"), "w", encoding="utf-8") as file:
        json.dump(data, file, separators=(",", ":"))
    readme = os.path.join(path, "README.md")
    with open(readme, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return readme


def draw(plots, path):
    """Names of the pictures drawn, and why none were; matplotlib may be another Python's."""
    for old in os.listdir(path):
        if old.endswith(".svg"):
            os.remove(os.path.join(path, old))
    why = "no Python here has matplotlib (python3-matplotlib)"
    for python in dict.fromkeys(PYTHONS):
        if not shutil.which(python) or subprocess.run(
                [python, "-c", "import matplotlib"], capture_output=True, check=False).returncode:
            continue
        done = subprocess.run([python, os.path.join(HERE, "draw.py"), path],
                              input=json.dumps(plots), capture_output=True, text=True, check=False)
        if not done.returncode:
            return done.stdout.split(), None
        why = "they could not be drawn: " + (done.stderr.strip() or "?").splitlines()[-1]
    return [], why


def compose(data, results, jobs, names, drawn, trouble):
    show = lambda name, text: ([f"![{text}]({name}.svg)", ""]		# noqa: E731
                               if name + ".svg" in drawn else [])
    lines = ["# libslub beside the other allocators", ""]
    lines += sections.head(data)
    if trouble:
        lines += [f"There are no pictures: {trouble}.", ""]
    lines += sections.goals(results, jobs, names)
    lines += sections.league(results, jobs, names)
    lines += sections.suite(data)
    lines += show("time", "time of libslub by that of the best peer")
    lines += show("memory", "peak and resting memory by that of the best peer")
    for row, title in (("time", "Time"), ("peak", "Peak RSS, MiB"),
                       ("resting", "Resting RSS, MiB"), ("faults", "Page faults"),
                       ("instructions", "Instructions in user mode per operation")):
        lines += sections.workloads(results, jobs, names, row, title)
    lines += sections.counted(data.get("system_calls"), names, "System calls of one run",
                              "By strace, in the quick size, clients of the table left out.")
    lines += sections.latency(results, names)
    for name in ("latency_2", "latency_500"):
        lines += show(name, "share of calls above a time")
    lines += sections.counted(data.get("callgrind"), names, "Instructions per malloc and free",
                              "By callgrind: the difference of two runs. valgrind offers no "
                              "restartable sequences, so libslub and TCMalloc run here on what "
                              "they fall back to; the next table has what they really take.")
    lines += sections.counted(data.get("instructions"), names,
                              "The same by the processor's counter",
                              "In user mode, with the few instructions of the loop around the "
                              "calls.")
    for name in data.get("over_time") or ():
        lines += show("rss_" + name, f"resident memory over time, {name}")
    lines += curves.section(results, jobs, names, data, show)
    lines += sections.slab_test(results, names)
    lines += sections.rest(results, jobs, names, tables)
    lines += sections.kernel(data)
    lines += ["## The machine", "", "```"] + machine.lines(data["machine"]) + ["```", ""]
    lines += sections.versions(data)
    return lines
