# SPDX-License-Identifier: MIT
"""The two tables of docs/results/benchmarks.md, from what runs have kept.  Each figure is the
median of its rounds."""
import re
import textwrap

import plan
import ratios
import results as store
import summary
from allocators import FEW, OURS

SHOWN = {"tcmalloc": "TCMalloc"}
WORST = 1.1		# a workload is named where the best peer is faster by more

# What is shown: words, job, row.
ROWS = (
    ("`malloc`+`free`, the same 16 bytes", "pair", "reuse/16"),
    ("the same, 1,024 bytes", "pair", "reuse/1024"),
    ("the same, 16 KiB", "pair", "reuse/16384"),
    ("256 allocations, then 256 frees, 16 bytes", "pair", "npattern/16"),
    ("the same, 1,024 bytes", "pair", "npattern/1024"),
    ("the same, 16 KiB", "pair", "npattern/16384"),
    ("10,000 allocations, then 10,000 frees, 64 bytes", "slab_test", "both/64"),
    ("the same, 4 KiB", "slab_test", "both/4096"),
    ("the first 10,000 allocations of a process, 64 bytes", "slab_test", "cold-alloc/64"),
    ("objects of 8 to 2,048 bytes replaced at random, 2 threads", "churn_random", "time"),
    ("a vector grown by `realloc` to MiB", "vectors", "time"),
    ("a text grown a line at a time by `realloc`: a line", "strings", "time"),
    ("1,000 threads, each with objects of its own", "threads_1000", "time"),
    ("a malloc in 1,000 is slower than (2 threads)", "latency_2", "malloc-p99.9"),
    ("one in 10,000 (2 threads)", "latency_2", "malloc-p99.99"),
    ("the slowest malloc (2 threads)", "latency_2", "malloc-max"),
    ("a malloc in 1,000 is slower than (500 threads)", "latency_500", "malloc-p99.9"),
    ("one in 10,000 (500 threads)", "latency_500", "malloc-p99.99"),
    ("the slowest malloc (500 threads)", "latency_500", "malloc-max"),
    ("start of an empty program", "startup", "time"),
    ("resident, empty program", "startup", "rss"),
    ("1 GiB in objects of 64 bytes: resident beyond them", "overhead", "overhead/64"),
    ("1 GiB freed in order, one second later: resident", "burst", "after-1s/in"),
    ("a `free` of it", "burst", "free/in"),
    ("1 GiB freed in random order, one second later: resident", "burst_random",
     "after-1s/random"),
    ("a `free` of it", "burst_random", "free/random"),
    ("peak of 1,000 threads, each with objects of its own", "threads_1000", "peak"),
)


def filled(text):
    """A paragraph in lines of 120 columns; what stands between backticks is not broken."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    return textwrap.fill(whole, 120, break_long_words=False,
                         break_on_hyphens=False).replace("\0", " ")


def unit_and_scale(unit, values):
    """Nanoseconds that are better read as microseconds."""
    unit = "µs" if unit == "us" else unit
    known = [value for value in values if value is not None]
    if unit == "ns" and known and min(known) >= 10000:
        return "µs", 1000
    return unit, 1


def row(results, names, words, job, name):
    kept = results.rows(job).get(name)
    if not kept:
        return None
    values = [results.value(job, name, allocator) for allocator in names]
    unit, scale = unit_and_scale(kept["unit"], values)
    best = min(value for value in values if value is not None)
    cells = []
    for allocator, value in zip(names, values):
        text = value is None and results.word(job, allocator) or \
            store.number(None if value is None else value / scale)
        cells.append(f"**{text}**" if value == best else text)
    return f"| {words} | {unit} | " + " | ".join(cells) + " |"


def version(allocator):
    """As it was recorded, a commit in seven digits."""
    return re.sub(r"\b([0-9a-f]{7})[0-9a-f]{5,}\b", r"\1", allocator.get("version") or "")


def table(data, results, names):
    heads = [name if name == OURS else
             f"{SHOWN.get(name, name)} {version(data['allocators'][name])}".strip()
             for name in names]
    lines = ["| | unit | " + " | ".join(heads) + " |",
             "|---|---|" + "--:|" * len(heads)]
    return lines + [line for line in (row(results, names, *one) for one in ROWS) if line]


def means(results, names):
    """Each allocator against the best of each row."""
    lines = []
    for measure, words in (("time", "time"), ("peak", "peak resident memory"),
                           ("resting", "memory one second after the work")):
        found, count = summary.league(results, plan.JOBS, measure, names)
        if not count:
            continue
        best = min(found[name] for name in names)
        lines.append(f"| {count} loops of this project: {words}, by the best of each | ratio | "
                     + " | ".join(f"**{found[name]:.2f}**" if found[name] == best
                                  else f"{found[name]:.2f}" for name in names) + " |")
    return lines


def slow(results, names):
    """The workloads on which somebody is more than a tenth faster."""
    cells = [cell for cell in summary.cells(results, plan.JOBS, "time", names)
             if cell.ratio > WORST]
    cells.sort(key=lambda cell: -cell.ratio)
    return ", ".join(f"{cell.job} {cell.ratio:.2f} ({cell.against})" for cell in cells)


def noise(results, names):
    """How many rounds, and how far they lie apart on the allocator with the widest spread."""
    jobs = summary.compared(plan.JOBS, results)
    rounds = [len(results.values(job.name, "time", OURS)) for job in jobs]
    widest = sorted(max(store.spread(results.values(job.name, "time", name)) for name in names)
                    for job in jobs)
    if not widest:
        return "Medians of interleaved rounds."
    number_of = " to ".join(map(str, sorted({min(rounds), max(rounds)})))
    return (f"Medians of {number_of} interleaved rounds. The rounds of a "
            f"workload spread by {100 * widest[len(widest) // 2]:.0f} % in the median of "
            f"{len(widest)} workloads, by {100 * widest[-1]:.0f} % at the most.")


def section(data):
    """Lines of the table of peers, from what bench/run wrote."""
    results = store.Results(data["results"])
    names = [name for name in data["allocators"]
             if name == OURS or not name.startswith(OURS)]
    names = [name for name in names if name not in FEW]
    machine = data["machine"]
    command = "make bench" if data["mode"] == "full" else "make bench-quick"
    lines = [filled(f"Printed by `{command}` on {data['started'][:10]} (commit {machine['tree']}; "
             f"`bench/report/write` made the table): {machine['processor']}, "
             f"{machine['cpus']} CPUs" + (" of a virtual machine" if machine["virtual"] else "")
             + f", {round(machine['memory_mib'] / 1024)} GiB, Linux {machine['kernel']}, "
             f"{machine['libc']}."), "",
             filled(noise(results, names) + " Lower is better everywhere; bold is the best of a "
                    "row."), ""]
    lines += table(data, results, names) + means(results, names) + [""]
    worse = slow(results, names)
    if worse:
        lines += [filled("Workloads on which the best peer *of that workload* is more than a "
                         f"tenth faster, as libslub's ratio to it: {worse}."), ""]
    return lines


def outside(data):
    """The same of programs that nobody here wrote, from what bench/outside/run --json wrote."""
    machine = data["machine"]
    _, peers = ratios.peers_of(data)
    return [filled(f"Printed by `bench/outside/run --rounds {data['rounds']}` on "
                   f"{data['started']} (commit {machine['tree']}; `bench/report/write` made the "
                   f"table): {machine['processor']}, {machine['cpus']} CPUs"
                   + (" of a virtual machine" if machine["virtual"] else "")
                   + f", Linux {machine['kernel']}, {machine['libc']}, load {machine['load']:.1f} "
                   f"at the end. *Best* and *least* are of {', '.join(peers)}, row by row."),
            ""] + ratios.tables(data)
