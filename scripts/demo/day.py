# SPDX-License-Identifier: MIT
"""A day of a server (day.c) under several allocators: memory over time, and what it came to."""
import os
import subprocess
import time

SAMPLE_S = 0.02
HOURS = {			# what day.c prints, and what it is called here
    "threads": "1,000 threads that wait",
    "load": "the load at its highest",
    "falls": "3 s after it has fallen",
    "burst": "a burst at its highest",
    "over": "3 s after it has ended",
}
AT_THE_END = {"threads", "falls", "over"}	# of the hour; of the others the most is told
PLOT_COLUMNS, PLOT_ROWS = 72, 14


class Day:
    """One run: samples of (seconds, bytes), where hours begin, and the CPU seconds."""

    def __init__(self, process, started):
        self.process, self.started = process, started
        self.samples, self.hours = [], []

    def hour_bytes(self, hour):
        """What the program held in that hour: at its end, or at the most."""
        starts = dict(self.hours)
        names = [name for name, _ in self.hours]
        begin, end = starts[hour], starts[names[names.index(hour) + 1]]
        within = [held for at, held in self.samples if begin <= at < end]
        return within[-1] if hour in AT_THE_END else max(within)


def rss_bytes(pid):
    """Resident memory of its own: the program's files do not count."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        words = file.read().split()
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGESIZE")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def live(program, prefix, environment):
    """Lives through the day up to the evening, when the program waits to be let go."""
    process = subprocess.Popen(prefix + [program], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=environment)
    os.set_blocking(process.stdout.fileno(), False)
    day = Day(process, time.monotonic())
    text = b""
    while b"evening\n" not in text:
        now = time.monotonic() - day.started
        said = process.stdout.read() or b""
        text += said
        day.hours += [(word, now) for word in said.decode().split()]
        if process.poll() is not None:
            raise RuntimeError(f"the program ended with status {process.returncode}")
        day.samples.append((now, rss_bytes(process.pid)))
        time.sleep(SAMPLE_S)
    day.cpu_seconds = cpu_seconds(process.pid)
    return day


def end(day):
    """Lets the program go."""
    day.process.stdin.close()
    if day.process.wait(30):
        raise RuntimeError(f"the program ended with status {day.process.returncode}")


def table(days):
    """Lines of a table: an allocator a column."""
    yield f"{'MiB resident':28}" + "".join(f"{name:>13}" for name in days)
    for hour, text in HOURS.items():
        yield f"{text:28}" + "".join(
            f"{day.hour_bytes(hour) / 2**20:13.1f}" for day in days.values())
    yield f"{'CPU seconds':28}" + "".join(
        f"{day.cpu_seconds:13.2f}" for day in days.values())


def plot(first, second):
    """Lines of a plot of two named days: `-` for the first, `#` for the second."""
    (_, one), (_, two) = first, second
    most = max(held for day in (one, two) for _, held in day.samples)
    length = max(day.samples[-1][0] for day in (one, two))
    rows = [[" "] * PLOT_COLUMNS for _ in range(PLOT_ROWS)]
    for day, mark in ((one, "-"), (two, "#")):
        for at, held in day.samples:
            column = min(int(at / length * PLOT_COLUMNS), PLOT_COLUMNS - 1)
            row = min(int(held / most * PLOT_ROWS), PLOT_ROWS - 1)
            rows[row][column] = mark
    for number in reversed(range(PLOT_ROWS)):
        label = f"{most / 2**20 * (number + 1) / PLOT_ROWS:4.0f} MiB" if number % 4 == 1 else ""
        yield f"{label:>9} |" + "".join(rows[number]).rstrip()
    yield " " * 10 + "+" + "-" * PLOT_COLUMNS
    yield " " * 11 + f"{first[0]} -    {second[0]} #    {length:.0f} seconds"
