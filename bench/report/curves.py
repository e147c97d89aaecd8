# SPDX-License-Identifier: MIT
"""Growth: what a curve's shape is, in one sentence made from its points."""
import summary
from allocators import OURS

WHY = {
    "threads": "All threads share the same few CPUs, so what can grow is what an allocator "
               "keeps per thread: state that is set up on a thread's first call, and caches "
               "that push each other out of the processor's when threads take turns.",
    "heap": "The calls do the same work at any size; what grows is the cost of reaching an "
            "object and its page table entry, once they fit neither the processor's caches nor "
            "its TLB.",
    "cpus": "A call looks at its own CPU's area only, whose address it computes; how many others "
            "there are plays no part.",
    "sum": "A sum reads one cache line of each area that has been made.",
    "areas": "Each CPU that has run has an area of its own; those that never run cost address "
             "space alone.",
    "sizes": "Up to some KiB objects come from lists, at one price; beyond, each is a run of "
             "pages, and its first byte may cost a page fault if it was given back meanwhile.",
}


def points(results, job, row, name):
    """[(x, y)] of the rows ROW/x, by rising x."""
    found = []
    for key in results.rows(job):
        head, _, tail = key.rpartition("/")
        value = results.value(job, key, name) if head == row else None
        if value is not None:
            found.append((float(tail), value))
    return sorted(found)


def joined(results, jobs, row, name):
    """One curve of several jobs: the large heaps are a job of their own."""
    return sorted(point for job in jobs for point in points(results, job, row, name))


def steepest(curve):
    """(x0, x1, factor) of the step between neighbours with the largest factor."""
    best = (curve[0][0], curve[0][0], 1.0)
    for (x0, y0), (x1, y1) in zip(curve, curve[1:]):
        if y0 > 0 and y1 / y0 > best[2]:
            best = (x0, x1, y1 / y0)
    return best


def shape(curve, unit):
    """'rises 3.1 times from 1 to 1,000 threads, most of it (2.4 times) from 100 to 1,000'."""
    if len(curve) < 2 or curve[0][1] <= 0:
        return "has too few points for a shape"
    low, high = curve[0], curve[-1]
    factor = high[1] / low[1]
    span = f"from {low[0]:,.0f} to {high[0]:,.0f} {unit}"
    values = [value for _, value in curve]
    if max(values) <= 1.25 * min(values):
        return f"is flat {span} (within {100 * (max(values) / min(values) - 1):.0f} %)"
    x0, x1, step = steepest(curve)
    most = f", the steepest step ({step:.1f} times) from {x0:,.0f} to {x1:,.0f}"
    if factor >= 1:
        return f"rises {factor:.1f} times {span}{most}"
    return f"falls to {factor:.2f} {span}" + (most if step > 1.25 else "")


CURVES = [
    ("curve_threads", ("curve_threads",), "cpu", "threads", "threads",
     "Threads: processor time per operation"),
    ("curve_threads_memory", ("curve_threads",), "peak", "threads", None,
     "Threads: peak memory"),
    ("curve_heap", ("curve_heap", "curve_heap_large"), "cost", "MiB", "heap",
     "Heap: time per replacement"),
    ("curve_heap_memory", ("curve_heap", "curve_heap_large"), "held", "MiB", None,
     "Heap: resident bytes by bytes held"),
    ("curve_cpus", ("curve_cpus",), "pair", "CPUs", "cpus", "CPUs: malloc and free"),
    ("curve_cpus_sum", ("curve_cpus",), "sum", "CPUs", "sum", "CPUs: a sum over all"),
    ("curve_cpus_memory", ("curve_cpus",), "rss", "CPUs", "areas", "CPUs: resident memory"),
    ("curve_sizes", ("curve_sizes",), "cost", "bytes", "sizes",
     "Size: time per allocation and free"),
]


def sentence(results, jobs, row, unit, names):
    """Ours, and the best peer at the far end beside it."""
    ours = joined(results, jobs, row, OURS)
    if not ours:
        return None
    text = f"libslub's curve {shape(ours, unit)}"
    ends = []
    for name in summary.peers(names):
        curve = joined(results, jobs, row, name)
        if curve and curve[-1][0] == ours[-1][0]:
            ends.append((curve[-1][1], name, curve))
    if not ends:
        return text + "."
    value, name, curve = min(ends)
    return (f"{text}; that of {name}, the lowest peer at the far end ({value:,.1f} against "
            f"{ours[-1][1]:,.1f}), {shape(curve, unit)}.")


def section(results, jobs, names, data, show):
    lines = []
    for picture, of, row, unit, why, title in CURVES:
        said = sentence(results, of, row, unit, names)
        if not said:
            continue
        lines += [f"### {title}", "", said + (" " + WHY[why] if why else ""), ""]
        lines += show(picture, title)
    missing = {name: reason for name, reason in data["left_out"].items()
               if name.startswith("curve_")}
    lines += [f"Not measured: {name}: {reason}" for name, reason in missing.items()]
    return ["## Growth", ""] + lines + [""] if lines else []
