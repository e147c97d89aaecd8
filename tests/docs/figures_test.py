#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: a measured figure in the prose of README.md, of docs/results/benchmarks.md and of
docs/start/limits.md is that of the run in bench/results, or of a table that the sentence
links; means are those of their rows, and rows that miss a limit are named.  Other pages have
figures of runs that they name, which nothing here checks.

usage: figures_test.py SOURCE

A figure that is measured and stands in no sentence of SENTENCES is an error, so a new one needs
a source.  FIXED lists what is no measurement: sizes of the design, and work that is described."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = ""
RESULTS = os.path.join("bench", "results", "results.json")
PAGES = ("README.md", "docs/results/benchmarks.md", "docs/start/limits.md")
SIX = ("glibc", "mimalloc", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc")
FIGURE = r"(?<![\w.,])\d[\d,.]*\d?\s(?:MiB|GiB|KiB|MB|requests|ns|µs|ms|s|%|times)(?!\w)"
COMMITS = 50		# of src and include: figures of a commit further behind are old
N = r"([\d,.]+\d|\d)"


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def number(text):
    return float(text.replace(",", ""))


def git(*command):
    """What it prints; nothing where it fails, as in a tree without a history."""
    return subprocess.run(["git", "-C", SOURCE, *command], capture_output=True, text=True,
                          check=False).stdout.strip()


class Run:
    """The run that is on file."""
    def __init__(self):
        sys.path.insert(0, os.path.join(SOURCE, "bench", "driver"))
        import plan             # pylint: disable=import-outside-toplevel
        import results
        import summary
        self.data = json.loads(read(RESULTS))
        self.results = results.Results(self.data["results"])
        self.jobs = summary.compared(plan.JOBS, self.results)
        self.spread = results.spread

    def of(self, job, row, name="libslub"):
        return self.results.value(job, row, name)

    def six(self, job, row):
        """The least and the most of the peers that finished."""
        values = [self.of(job, row, name) for name in SIX]
        return [pick([v for v in values if v is not None]) for pick in (min, max)]

    def median_spread(self):
        shown = [name for name in self.data["allocators"] if name != "hardened" and
                 (name == "libslub" or not name.startswith("libslub"))]
        widest = sorted(max(self.spread(self.results.values(job.name, "time", name))
                            for name in shown) for job in self.jobs)
        return 100 * widest[len(widest) // 2]


def pressure(_):
    """Seconds until each was killed: the rows of the table of docs/results/benchmarks.md whose
    program is Redis with maxmemory at 60 %."""
    text = read("docs/results/benchmarks.md").partition("`maxmemory` at 60 %")[2]
    killed = [number(one) for pair in re.findall(
        rf"killed after {N}(?: to {N})? s", text.partition("\n\n")[0])
        for one in pair if one]
    return [min(killed), max(killed)]


def outside(mean, column):
    """A mean of the table of programs that nobody here wrote, in docs/results/benchmarks.md."""
    row = re.search(rf"(?m)^\| {mean} \|(.*)\|$", read("docs/results/benchmarks.md")).group(1)
    return float(row.split("|")[column])


def mean_of(kind, column):
    """A mean of the first table of means in docs/results/benchmarks.md."""
    row = re.search(rf"(?m)^\| time, {kind}, \d+ rows \|(.*)\|$",
                    read("docs/results/benchmarks.md")).group(1)
    return float(row.split("|")[column - 1])


def detection(_):
    """What checks cost, in docs/results/detection.md: the default build's in percent on AMD and
    on Intel, then the factors of the hardened build, for real programs and for loops, and of one
    run those of snmalloc with checks, mimalloc secure, and scudo."""
    text = read("docs/results/detection.md")
    words = re.sub(r"\s+", " ", text)
    amd = re.search(rf"the geometric mean of 21 programs is {N}\. ", words).group(1)
    intel = re.search(rf"over 20 programs, by a library without checks: default {N}, ", words)
    programs = re.search(rf"(?m)^\| geometric mean \| \| {N} \|", text)
    loops = re.search(rf"hardened {N}, mimalloc secure {N}, snmalloc with checks {N}, scudo {N}\.",
                      words).groups()
    return [100 * (float(amd) - 1), 100 * (float(intel.group(1)) - 1),
            float(programs.group(1)), float(loops[0]), float(loops[2]), float(loops[1]),
            float(loops[3])]


def switched(_):
    """Requests and wrong answers of the run in docs/results/detection.md."""
    return [number(one) for one in re.search(
        r"\b(\d+) requests sent, \1 answered, (\d+) wrong",
        read("docs/results/detection.md")).groups()]


def rest(name, *places):
    """MiB at rest, of the row @name of the table of docs/results/benchmarks.md: (column, wait)."""
    row = re.search(rf"(?m)^\| {re.escape(name)} \|(.*)\|$", read("docs/results/benchmarks.md"))
    cells = [cell.split("/") for cell in row.group(1).split("|")]
    return [float(cells[column][wait]) for column, wait in places]


def statistics_file(_):
    """Megabytes, as docs/operate/inspection.md says."""
    return [number(re.search(r"\*\*Room\.\*\* About ([\d.]+) MB",
                             read("docs/operate/inspection.md")).group(1))]


# A page, a sentence with each figure as N, and what the figures are.
SENTENCES = [
    ("README.md", rf"One second after 1 GiB of small objects was freed, {N} MiB were resident; "
     rf"{N} to {N} MiB with six other allocators",
     lambda run: [run.of("burst", "after-1s/in")] + run.six("burst", "after-1s/in")),
    ("README.md", rf"six other allocators were killed after {N} to {N} s", pressure),
    ("README.md", rf"such a `free` took {N} ns \(mimalloc {N}\), in random order {N} ns \({N}\)",
     lambda run: [run.of(job, row, name)
                  for job, row in (("burst", "free/in"), ("burst_random", "free/random"))
                  for name in ("libslub", "mimalloc")]),
    ("README.md", rf"1,000 busy threads peak at {N} MiB; at {N} to {N} MiB with five others",
     lambda run: [run.of("threads_1000", "peak")] + run.six("threads_1000", "peak")),
    ("README.md", rf"switched ten times under load, gave {N} answers, all of them right",
     lambda _: switched(_)[:1]),
    ("README.md", rf"in a file of {N} MB", statistics_file),
    ("README.md", rf"the default ones cost {N} % on AMD, {N} % on Intel in two noisy rounds. The "
     rf"hardened build takes {N} times as long in real programs, {N} in loops; snmalloc with "
     rf"checks {N} there, "
     rf"mimalloc secure {N}, Scudo {N}\.", detection),
    ("README.md", rf"19 real programs {N} \(snmalloc {N}, mimalloc {N}, glibc {N}\), "
     rf"mimalloc-bench {N} \({N}, {N}, {N}\)",
     lambda run: [mean_of(kind, column) for kind in ("real programs", "mimalloc-bench")
                  for column in (4, 3, 2, 1)]),
    ("docs/results/benchmarks.md", rf"The median spread of the {N} loops is {N} %",
     lambda run: [len(run.jobs), run.median_spread()]),
    ("docs/results/benchmarks.md", rf"libslub by itself keeps {N} MiB like the others; jemalloc "
     rf"goes down to {N} after some calls. `SLUB_PRESSURE=thread` has {N} within the first",
     lambda run: rest("libslub", (2, 2)) + rest("jemalloc 5.3.1", (3, 2)) +
     rest("libslub, `SLUB_PRESSURE=thread`", (2, 0))),
    ("docs/start/limits.md", rf"real programs take {N} of the C library's CPU time and peak at {N} "
     "of its memory",
     lambda run: [outside("real programs", 1), outside("real programs", 4)]),
    ("docs/start/limits.md", rf"An empty program starts in {N} µs instead of {N}",
     lambda run: [run.of("startup", "time", name) for name in ("libslub", "glibc")]),
    ("docs/start/limits.md", rf"an empty program has {N} KiB resident instead of {N}",
     lambda run: [run.of("startup", "rss", name) for name in ("libslub", "glibc")]),
    ("docs/start/limits.md", rf"one `malloc` in 10,000 takes {N} ns or more \({N} to {N} with six "
     r"others\)",
     lambda run: [run.of("latency_2", "malloc-p99.99")] + run.six("latency_2", "malloc-p99.99")),
]

# What is no measurement of this run, by page.
FIXED = {
    "README.md": ["1 GiB of small objects", "at 60 % of", "a budget of 1 to 16 MiB", "At 50 %"],
    "docs/results/benchmarks.md": [
        "128 MiB in blocks of 16 bytes to 32 KiB", "1, 10 and 60 s", "26 MiB are pages",
        "a control group of 128 MiB with a working set of 256 MiB",
        # Of a run that the same sentence names.
        "by the default of 100 MB nothing is moved here, and at 60 % it was killed after 205 s"],
    "docs/start/limits.md": [
        "64 MiB at least", "at most 1.5 times", "by 6 % on average",
        # Bounds of the library.
        "block of 1 MiB or more", "8 to 64 MiB at a time"],
}


def prose(page):
    """Its sentences, each on one line; without code, and without what a program wrote."""
    text = re.sub(r"(?ms)^```.*?^```|<!-- (BENCH|RUN|OUTSIDE)-BEGIN.*?END -->", "", read(page))
    # Its tables say themselves what printed them.
    text = re.sub(r"(?m)^\| .*\|$", "", text) if page.endswith("benchmarks.md") else text
    return re.sub(r"\s+", " ", text)


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_on_file = Run()

    def assertRounded(self, said, value, where):
        """As exact as it is written."""
        digits = len(said.partition(".")[2])
        self.assertLessEqual(abs(number(said) - value), 0.5001 * 10 ** -digits,
                             f"{where}: says {said}, the run says {value:.4g}")

    def test_sentences(self):
        for page, pattern, values in SENTENCES:
            found = re.search(pattern, prose(page))
            self.assertTrue(found, f"{page} has no sentence {pattern}")
            expected = values(self.run_on_file)
            self.assertEqual(len(found.groups()), len(expected), pattern)
            for said, value in zip(found.groups(), expected):
                self.assertRounded(said, value, f"{page}: {found.group()}")

    def test_every_figure_has_a_source(self):
        nr, without = 0, []
        for page in PAGES:
            text = prose(page)
            known = [found.span() for other, pattern, _ in SENTENCES if other == page
                     for found in re.finditer(pattern, text)]
            for words in FIXED[page]:
                self.assertIn(words, text, page)
                known += [found.span() for found in re.finditer(re.escape(words), text)]
            for found in re.finditer(FIGURE, text):
                nr += 1
                if not any(a <= found.start() and found.end() <= b for a, b in known):
                    without.append((page, text[max(0, found.start() - 40):found.end() + 20]))
        self.assertGreater(nr, 15)
        self.assertEqual(without, [])

    def test_the_table_is_the_runs(self):
        """As bench/report/write writes it."""
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write(read("docs/results/benchmarks.md"))
            subprocess.run([os.path.join(SOURCE, "bench", "report", "write"),
                            os.path.join(SOURCE, RESULTS), page], check=True)
            with open(page, encoding="utf-8") as file:
                self.assertEqual(file.read(), read("docs/results/benchmarks.md"))

    def test_the_rows_that_miss_are_named(self):
        text = read("docs/results/benchmarks.md")
        limit, said = re.search(rf"Rows above the goal of {N} in time: (.*?)\.",
                                re.sub(r"\s+", " ", text)).groups()
        rows = re.findall(r"(?m)^\| `([\w+-]+)` \| ([\d.]+) \|", text)
        self.assertGreater(len(rows), 30)
        self.assertEqual(re.findall(r"`([^`]+)`", said),
                         [name for name, value in rows if float(value) > float(limit)])

    def test_a_page_says_that_its_figures_are_old(self):
        """A commit that it names is of the history; and where the library has changed since by more
        than COMMITS, a sentence with that commit in it says "older library"."""
        if git("rev-parse", "--is-shallow-repository") != "false":
            self.skipTest("no whole history is here")
        for page in PAGES:
            text = re.sub(r"\s+", " ", read(page))
            commits = set(re.findall(r"\bcommit ([0-9a-f]{7})\b", text))
            for commit in commits:
                since = git("rev-list", "--count", f"{commit}..HEAD", "--", "src", "include")
                self.assertTrue(since, f"{page}: commit {commit} is none of the history")
                if int(since) > COMMITS:
                    self.assertRegex(text, rf"[^.]*\b{commit}\b[^.]*\bolder library\b", page)

    def test_means_are_those_of_the_rows(self):
        """In docs/results/benchmarks.md: real programs and loops, each with a mean of its own."""
        text = read("docs/results/benchmarks.md")
        nr = 0
        for table in re.findall(r"(?m)(?:^\|.*\|\n)+", text):
            rows = []
            for line in table.splitlines():
                head, *cells = [cell.strip() for cell in line.strip("|").split("|")]
                if re.match(r"`.*`$", head):
                    rows.append(cells)
                elif head in ("mimalloc-bench", "real programs"):
                    for column, said in enumerate(cells):
                        found = [row[column] for row in rows]
                        nr += 1
                        # Not in that run: then in none of its rows.
                        if said == "–":
                            self.assertEqual(set(found), {said})
                            continue
                        mean = math.exp(sum(math.log(number(one)) for one in found) / len(found))
                        self.assertRounded(said, mean, f"{head}, column {column + 1}")
                    rows = []
        self.assertGreater(nr, 10)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.dont_write_bytecode = True
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
