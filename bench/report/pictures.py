# SPDX-License-Identifier: MIT
"""What is drawn, as plain data: the drawing itself needs matplotlib, this does not."""
import curves
import summary
from allocators import FEW


def every(data, results, jobs, names):
    shown = [name for name in summary.ranked(names) if name not in FEW]
    plots = [_bars("time", "libslub's time by that of the best peer (1: level; left: faster)",
                   results, jobs, names, ("time",)),
             _bars("memory", "libslub's memory by that of the best peer (1: level; left: less)",
                   results, jobs, names, ("peak", "resting"))]
    for job in ("latency_2", "latency_500"):
        plots.append(_latency(results, job, shown))
    for job, found in (data.get("over_time") or {}).items():
        plots.append({"name": "rss_" + job, "kind": "lines", "title": f"{job}: resident memory",
                      "x": "seconds", "y": "MiB", "log": "",
                      "lines": {name: found[name] for name in shown if found.get(name)}})
    for name, of, row, unit, _, title in curves.CURVES:
        lines = {one: curves.joined(results, of, row, one) for one in shown}
        plots.append({"name": name, "kind": "lines", "title": title, "x": unit,
                      "y": _unit(results, of, row), "log": "x" if row == "held" else "xy",
                      "lines": {one: line for one, line in lines.items() if line}})
    return [plot for plot in plots if plot.get("lines") or plot.get("bars")]


def _unit(results, of, row):
    for job in of:
        for key, kept in results.rows(job).items():
            if key.startswith(row + "/"):
                return kept["unit"]
    return ""


def _bars(name, title, results, jobs, names, rows):
    """Workload -> ratio for each measure: real programs first, in each group the worst first."""
    real = [job.name for job in jobs if job.kind == "program"]
    bars = {}
    for row in rows:
        cells = sorted(summary.cells(results, jobs, row, names),
                       key=lambda cell: (cell.job not in real, -cell.ratio))
        bars[row] = {cell.job: cell.ratio for cell in cells}
    return {"name": name, "kind": "bars", "title": title, "real": real,
            "bars": {row: found for row, found in bars.items() if found}}


def _latency(results, job, shown):
    lines = {}
    for call in ("malloc", "free"):
        for name in shown:
            curve = [(x, y) for x, y in curves.points(results, job, "curve-" + call, name) if y > 0]
            if curve:
                lines[f"{name} {call}"] = curve
    return {"name": job, "kind": "latency", "lines": lines, "x": "ns", "y": "calls above, of 1e6",
            "title": f"Single calls, {job[8:]} threads"}
