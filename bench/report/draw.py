# SPDX-License-Identifier: MIT
"""draw.py FOLDER <plots.json: SVG pictures of the plots; prints the names of those it drew."""
import json
import os
import re
import sys

import matplotlib
import matplotlib.ticker

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "libslub"		# the same data gives the same file
matplotlib.rcParams["svg.fonttype"] = "none"		# letters as text: a third of the size
import matplotlib.pyplot as plt		# noqa: E402  (after the backend is chosen)

NEAR = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 2)
FAR = (0.06, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16)
COLOURS = {"libslub": "#c0392b", "glibc": "#7f8c8d", "mimalloc": "#2980b9", "snmalloc": "#27ae60",
           "jemalloc": "#8e44ad", "rpmalloc": "#d68910", "tcmalloc": "#16a085"}


def look(name):
    """Ours is the thick one."""
    ours = name.startswith("libslub")
    return {"color": COLOURS.get(name, "#c0392b" if ours else None), "label": name,
            "linewidth": 2.4 if ours else 1.2, "zorder": 3 if ours else 2}


def groups(plot, rows, at):
    """(label, colour, is a job of it): measures, or of one measure real programs and loops."""
    real = plot.get("real", ())
    if len(rows) > 1 or not real:
        return [(rows[at], f"C{at}", lambda job: True)]
    return [("real programs", "#c0392b", lambda job: job in real),
            ("loops of this project", "#2980b9", lambda job: job not in real)]


def bars(plot):
    rows = list(plot["bars"])
    jobs = list(plot["bars"][rows[0]])
    figure, axes = plt.subplots(figsize=(9, 0.26 * len(jobs) * len(rows) ** 0.5 + 1.2))
    height = 0.8 / len(rows)
    for at, row in enumerate(rows):
        values = [plot["bars"][row].get(job, 1) for job in jobs]
        places = [-i - at * height for i in range(len(jobs))]
        # From 1 to either side, on a logarithmic axis: twice and half look alike.
        for label, colour, kept in groups(plot, rows, at):
            axes.barh([place for place, job in zip(places, jobs) if kept(job)],
                      [value - 1 for value, job in zip(values, jobs) if kept(job)], left=1,
                      height=height * 0.95, label=label, color=colour)
        for place, value in zip(places, values):
            axes.text(max(value, 1), place, f" {value:.2f}", va="center", fontsize=7)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    ends = [value for row in rows for value in plot["bars"][row].values()]
    axes.set_xticks([tick for tick in (NEAR if max(ends) < 4 * min(ends) else FAR)
                     if min(ends) * 0.9 < tick < max(ends) * 1.1])
    axes.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.margins(x=0.1, y=0.01)
    axes.set_yticks([-i - 0.4 + height / 2 for i in range(len(jobs))], jobs, fontsize=8)
    if axes.get_legend_handles_labels()[1][1:]:
        axes.legend(fontsize=8)
    axes.set_title(plot["title"], fontsize=10)
    return figure


def lines(plot):
    figure, axes = plt.subplots(figsize=(8, 4.2))
    for name, points in plot["lines"].items():
        axes.plot([x for x, _ in points], [y for _, y in points],
                  marker="." if len(points) < 30 else None, **look(name))
    finish(axes, plot)
    if "x" in plot["log"]:
        axes.set_xscale("log")
    if "y" in plot["log"]:
        axes.set_yscale("log")
    return figure


def finish(axes, plot):
    axes.set_xlabel(plot["x"])
    axes.set_ylabel(plot["y"])
    axes.set_title(plot["title"], fontsize=10)
    axes.grid(True, linewidth=0.3)
    axes.legend(fontsize=8)


def latency(plot):
    """malloc to the left, free to the right."""
    figure, both = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True)
    for axes, call in zip(both, ("malloc", "free")):
        for name, points in plot["lines"].items():
            if name.endswith(" " + call):
                axes.plot([x for x, _ in points], [y for _, y in points],
                          marker="." if len(points) < 30 else None,
                          **look(name.rsplit(" ", 1)[0]))
        finish(axes, dict(plot, title=f"{plot['title']}: {call}"))
        axes.set_xscale("log")
        axes.set_yscale("log")
    return figure


def shorten(path):
    """A tenth of a point is closer than anybody looks."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r'(?<= )d="[^"]*"|(?<= )(?:x|y)="[^"]*"',
                  lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    folder = sys.argv[1]
    for plot in json.load(sys.stdin):
        figure = {"bars": bars, "lines": lines, "latency": latency}[plot["kind"]](plot)
        figure.tight_layout()
        name = plot["name"] + ".svg"
        figure.savefig(os.path.join(folder, name), metadata={"Date": None})
        shorten(os.path.join(folder, name))
        plt.close(figure)
        print(name)


main()
