# SPDX-License-Identifier: MIT
"""The places of the code that scale.c counts at: read, named, and put in order."""
import bisect
import collections
import subprocess

FRAMES = 4
# Of the inner functions that say what was done, and not what for.
EVENTS = ["rmw_shared", "store_shared", "transfer", "transfer_object", "lock_moved", "lock_wait",
          "barrier", "madvise", "map", "stop"]


def parse(text):
    """The counts by name, and by addresses: the place, and what it returns to."""
    counts, places = {}, {}
    names = []
    for line in text.splitlines():
        words = line.split()
        if words[0] != "site":
            counts[words[0]] = float(words[1])
            names.append(words[0])
            continue
        frames = tuple(int(word, 16) for word in words[1:1 + FRAMES])
        places[frames] = words[1 + FRAMES], [float(word) for word in words[2 + FRAMES:]]
    # Behind "cpus" and "threads", before "lists_bytes".
    names = names[2:-1]
    return counts, {frames: dict(zip(names, row), memory=memory)
                    for frames, (memory, row) in places.items()}


def add(places, more):
    """Both together."""
    both = dict(places)
    for frames, row in more.items():
        before = both.get(frames, {})
        both[frames] = {name: value if name == "memory" else value + before.get(name, 0)
                        for name, value in row.items()}
    return both


def resolve(program, addresses):
    """Each address: its functions and lines, the innermost first."""
    addresses = sorted(addresses)
    run = subprocess.run(["addr2line", "-a", "-f", "-i", "-s", "-e", program],
                         input="".join(f"{address - 1:#x}\n" for address in addresses),
                         capture_output=True, text=True, check=True)
    names, lines = {}, run.stdout.splitlines()
    at = 0
    for address in addresses:
        at += 1
        names[address] = []
        while at < len(lines) and not lines[at].startswith("0x"):
            where = lines[at + 1].split(" ")[0]
            names[address].append((lines[at], where))
            at += 2
    return names


def variables(program):
    """A function that names the variable at an address."""
    run = subprocess.run(["nm", "-n", program], capture_output=True, text=True, check=True)
    table = [line.split() for line in run.stdout.splitlines()]
    table = [(int(words[0], 16), words[2]) for words in table
             if len(words) == 3 and words[1] in "bBdD"]
    starts = [start for start, _ in table]

    def name(memory):
        if not memory.startswith("0x"):
            return memory
        at = bisect.bisect_right(starts, int(memory, 16)) - 1
        if at < 0:
            return "a mapping"
        start, symbol = table[at]
        offset = int(memory, 16) - start
        return f"{symbol}+{offset}" if offset else symbol
    return name


# Whose lines only say that a lock was taken or bytes were copied.
HELPERS = {"lock_acquire", "lock_release", "lock_wait", "lock_try", "memset", "memcpy", "fill",
           "copy", "sys_call4", "sys_call6", "os_purge", "os_map_at", "os_barrier_rseq"}


def chain(names, frames):
    """All functions of a call, the innermost first."""
    calls = []
    for frame in frames:
        if frame:
            calls += names[frame]
    return calls


def place_of(calls):
    for name, where in calls:
        if name not in HELPERS:
            return name, where
    return calls[0]


def per_operation(places, counts, names, by):
    total = max(counts["operations"], 1)
    for frames, row in places.items():
        calls = chain(names, frames)
        entry = by[place_of(calls)]
        for event, value in row.items():
            if event != "memory":
                entry["counts"][event] += value * 1000 / total
        if row["remote_ns"] > entry["most"]:
            entry.update(most=row["remote_ns"], calls=calls, memory=row["memory"])


def worst(program, counts, places):
    """The places where time is lost to other CPUs on many and not on few, over all works."""
    addresses = {frame for work in places.values() for run in work.values()
                 for frames in run for frame in frames if frame}
    names = resolve(program, addresses) if addresses else {}
    variable = variables(program)
    rows = []
    for work, runs in places.items():
        few, many = min(runs), max(runs)
        tables = []
        for number in (few, many):
            by = collections.defaultdict(lambda: {"counts": collections.Counter(), "most": -1,
                                                  "calls": [], "memory": "-"})
            per_operation(runs[number], counts[work][number], names, by)
            tables.append(by)
        for place, entry in tables[1].items():
            before = tables[0][place]["counts"]
            rows.append({
                "work": work, "function": place[0], "line": place[1],
                "memory": variable(entry["memory"]),
                "ns": (entry["counts"]["remote_ns"] - before["remote_ns"]) / 1000,
                "few": dict(before), "many": dict(entry["counts"]),
                "calls": [name for name, _ in entry["calls"]]})
    return sorted(rows, key=lambda row: -row["ns"])


def show(rows, few, many):
    print(f"\nwhere time is lost on {many} CPUs and not on {few}: ns an operation more, "
          "and counts per 1,000 of them")
    for row in rows:
        changes = [f"{event} {row['few'].get(event, 0):.1f} -> {row['many'].get(event, 0):.1f}"
                   for event in EVENTS if row["many"].get(event, 0) >= 0.05]
        calls = " < ".join(dict.fromkeys(row["calls"][:8]))
        print(f"{row['ns']:9.1f}  {row['work']:10} {row['function']} {row['line']}"
              f"  [{row['memory']}]")
        print(f"           {'; '.join(changes)}")
        print(f"           {calls}")
