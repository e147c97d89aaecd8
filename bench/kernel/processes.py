# SPDX-License-Identifier: MIT
"""One process: a program in one configuration, its rows; bare, or counted by a simulator."""
import json
import os
import re
import shutil
import subprocess
import tempfile

TIMEOUT = 900

# A last-level cache that the objects do not fit in, though there are few of them.
CACHEGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--LL=1048576,16,64",
              "--cachegrind-out-file=/dev/null"]
CALLGRIND = ["valgrind", "--tool=callgrind"]
HOT_SPOTS = 5
COUNTS = {"I   refs": "instructions", "D   refs": "data references",
          "LL refs": "last-level references", "LL misses": "last-level misses"}


class Failure(Exception):
    """Why a process gave no figures."""


class Missing(Failure):
    """What was asked for cannot be had on this machine; nothing is broken."""


def execute(command, environment):
    """Standard output and standard error of a process that ended well."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"no end within {TIMEOUT} s") from None
    except OSError as why:
        raise Failure(str(why)) from None
    if done.returncode < 0:
        raise Failure(f"ended by signal {-done.returncode}")
    if done.returncode:
        said = (done.stderr.strip() or "no message").split("\n")[-1]
        raise Failure(f"ended with status {done.returncode}: {said}")
    return done.stdout, done.stderr


def answer_of(output):
    """The last line's JSON and the lines before it."""
    lines = output.rstrip("\n").split("\n")
    try:
        return json.loads(lines[-1]), lines[:-1]
    except ValueError:
        raise Failure(f"no JSON at its end, but {lines[-1][:80]!r}") from None


def check(configuration, measurement, answer):
    """Figures count only from the library, the backend and the layout that were asked for."""
    if measurement.preload and configuration.preload and \
            os.path.realpath(answer["malloc"]) != os.path.realpath(configuration.preload):
        raise Failure(f"the preload did not take effect: malloc is {answer['malloc']}'s")
    names = [row["name"] for row in answer["rows"]]
    if configuration.expected and configuration.expected not in names:
        kind, wanted = configuration.expected.rsplit("/", 1)
        got = next((name[len(kind) + 1:] for name in names if name.startswith(kind + "/")), "none")
        raise Missing(f"asked for {wanted}, got {got}: it cannot be had here")


def once(configuration, measurement, arguments):
    """Rows and classic lines of one process."""
    program = configuration.program(measurement)
    output, _ = execute([program] + arguments + ["--json"],
                        configuration.environment(measurement))
    answer, lines = answer_of(output)
    check(configuration, measurement, answer)
    return answer["rows"], lines


def _counts(configuration, measurement, arguments):
    output, said = execute(CACHEGRIND + [configuration.program(measurement)] + arguments
                           + ["--json"], configuration.environment(measurement))
    answer, _ = answer_of(output)
    counts = {}
    for key, name in COUNTS.items():
        found = re.search(rf"^==\d+== {key}:\s+([\d,]+)", said, re.M)
        if not found:
            raise Failure(f"cachegrind's summary has no '{key.strip()}'")
        counts[name] = int(found.group(1).replace(",", ""))
    return counts, answer["rows"]


def counted(configuration, measurement, arguments):
    """Per operation: the counts of one run, less those of a run without the operations."""
    if not shutil.which("valgrind"):
        raise Missing("valgrind is not installed")
    full, rows = _counts(configuration, measurement, arguments)
    base, _ = _counts(configuration, measurement, measurement.without.split())
    operations = next((row["value"] for row in rows if row["name"] == measurement.operations), 0)
    if not operations:
        raise Failure("it made no operation to count")
    library = [row for row in rows if row["name"].startswith("library/")]
    return library + [{"name": name, "unit": "", "value": (full[name] - base[name]) / operations}
                      for name in full], []


def _hot_spots(file):
    """All instructions, and {function: instructions}, by callgrind_annotate."""
    output, _ = execute(["callgrind_annotate", "--threshold=100", "--auto=no", file],
                        dict(os.environ))
    found = re.search(r"^ *([\d,]+) .*PROGRAM TOTALS", output, re.M)
    if not found:
        raise Failure("callgrind_annotate's answer has no 'PROGRAM TOTALS'")
    spots = {}
    # A function whose body comes from several files has a line for each.
    for count, name in re.findall(r"^ *([\d,]+) \([\d. ]+%\)  \S+?:([\w.]+)", output, re.M):
        spots[name] = spots.get(name, 0) + int(count.replace(",", ""))
    return int(found.group(1).replace(",", "")), spots


def _profile(configuration, measurement, arguments, one):
    """The rows of one case: instructions of a pass, and where most of them are."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "callgrind")
        output, _ = execute(CALLGRIND + [f"--toggle-collect={measurement.toggle}",
                                         f"--callgrind-out-file={file}",
                                         configuration.program(measurement), *arguments,
                                         *one.split(), "--json"],
                            configuration.environment(measurement))
        total, spots = _hot_spots(file)
    answer, lines = answer_of(output)
    name, passes = (word.split("=")[1] for word in one.split())
    rows = [{"name": f"{name}/instructions a pass", "unit": "", "value": total / int(passes)}]
    hottest = sorted(spots.items(), key=lambda spot: -spot[1])[:HOT_SPOTS]
    rows += [{"name": f"{name}/{function}", "unit": "%", "value": 100 * count / total}
             for function, count in hottest]
    return [row for row in answer["rows"] if row["name"].startswith("library/")] + rows, lines


def profiled(configuration, measurement, arguments):
    """Instructions by function, by callgrind."""
    for tool in ("valgrind", "callgrind_annotate"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not installed")
    rows, lines = [], []
    for one in measurement.profiled:
        more, said = _profile(configuration, measurement, arguments, one)
        rows += [row for row in more if row["name"] not in {old["name"] for old in rows}]
        lines += said
    return rows, lines
