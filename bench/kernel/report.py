# SPDX-License-Identifier: MIT
"""The tables of a run, and what was left out."""
import fnmatch

from results import median, number, spread


def _rows(kept):
    """All row names, in the order in which they first came, and their units."""
    units = {}
    for column in kept["columns"].values():
        for name, row in column["rows"].items():
            if not any(fnmatch.fnmatchcase(name, hidden) for hidden in kept["hidden"]):
                units.setdefault(name, row["unit"])
    return units


def _median(column, row):
    return median(column["rows"].get(row, {}).get("values", []))


def _ratio(cells, unit):
    """The first column against the best of the others; where less is better."""
    others = [cell for cell in cells[1:] if cell]
    if unit in ("pps", "", "x", "/s", "MiB/s") or cells[0] is None or not others:
        return ""
    return f"{cells[0] / min(others):.2f}"


def _layout(table):
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in table]


def table(name, kept):
    """The lines of one measurement's table."""
    columns = kept["columns"]
    several = len(columns) > 1
    lines = [["", "unit"] + list(columns) + (["1st/best"] if several else []) + ["spread"]]
    for row, unit in _rows(kept).items():
        cells = [_median(column, row) for column in columns.values()]
        widest = max((spread(column["rows"][row]["values"]) for column in columns.values()
                      if row in column["rows"]), default=0)
        lines.append([row, unit] + [number(cell) for cell in cells]
                     + ([_ratio(cells, unit)] if several else [])
                     + [f"{100 * widest:.0f}%" if widest else ""])
    text = ["", f"{name}: {kept['title']}", ""]
    text += _layout(lines) if len(lines) > 1 else ["  no figures"]
    text += [f"  {column} failed: {why}" for column, why in kept["failures"].items()]
    text += [f"  {column} is left out: {why}" for column, why in kept["missing"].items()]
    text += _backends(columns)
    seen = {row.split("/", 2)[2]: column for column, one in columns.items()
            for row in one["rows"] if row.startswith("left-out/")}
    return text + [f"  left out: {why}" for why in seen]


def _backends(columns):
    """Which way the library guarded a CPU's lists: one line, where it is known."""
    found = {}
    for name, column in columns.items():
        for row in column["rows"]:
            if row.startswith("library/backend/"):
                found[name] = row.rsplit("/", 1)[1]
    if all(name == backend for name, backend in found.items()):
        return []
    if len(set(found.values())) == 1:
        return [f"  backend {next(iter(found.values()))}"]
    return ["  backends: " + ", ".join(" ".join(one) for one in found.items())]


LEGEND = """\
Figures are medians over the processes of a column, which ran in turns; each process reports the
median of its own rounds. 1st/best: the first column against the best of the others. Spread: the
widest middle half of the processes (of two or three: all), as a share of the median."""
