# SPDX-License-Identifier: MIT
"""The tables: a row each, a column per allocator with its ratio to the best peer."""
from allocators import OURS
from results import number, spread

NO_RATIO = ("%",)


def _cell(results, job, row, name, best):
    value = results.value(job, row, name)
    if value is None:
        return results.word(job, name) or number(value)
    if not best or best <= 0 or row.endswith("over-libc"):
        return number(value)
    return f"{number(value)} ({value / best:.2f})"


def _noise(results, job, row, names):
    if row.endswith("over-libc"):		# a difference near nought has no share
        return ""
    widest = max((spread(results.values(job, row, name)) for name in names), default=0)
    return f"{widest * 100:.0f}%" if widest else ""


def _line(cells, widths):
    return "  ".join(cell.ljust(width) if i in (0, len(cells) - 1) else cell.rjust(width)
                     for i, (cell, width) in enumerate(zip(cells, widths))).rstrip()


def table(results, job, title, hidden, allocators):
    """The lines of one job's table."""
    peers = [name for name in allocators if not name.startswith(OURS)]
    shown = {row: kept for row, kept in results.rows(job).items()
             if not row.startswith(tuple(hidden))}
    units = {kept["unit"] for kept in shown.values()}
    unit = len(units) > 1		# otherwise the title names it
    rows = [["", "unit"][:1 + unit] + allocators + ["spread"]]
    for row, kept in shown.items():
        best = None if kept["unit"] in NO_RATIO else results.best(job, row, peers)[0]
        rows.append([row, kept["unit"]][:1 + unit]
                    + [_cell(results, job, row, name, best) for name in allocators]
                    + [_noise(results, job, row, allocators)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["", f"{job}: {title}", ""] + [_line(row, widths) for row in rows]
    for name, why in results.failures(job).items():
        lines.append(f"  {name} failed: {why}")
    return lines


LEGEND = """\
Lower is better everywhere. In parentheses: the ratio to the best peer of the row, the C library
included. Medians over the rounds; spread: the widest middle half of the rounds' values (of two
or three rounds: all of them), as a share of the median."""
