# SPDX-License-Identifier: MIT
"""Which functions of the command each of its tests runs: only these can catch a mutant there."""
import concurrent.futures
import glob
import hashlib
import json
import os
import shutil
import subprocess

import trial

SLOW = 3	# how much longer a test may take than it did
# Whoever serves for ever is ended by a signal, and has counted until then.
ENDED = """#include <signal.h>
#include <unistd.h>
void __gcov_dump(void);
static void on_signal(int number) { __gcov_dump(); signal(number, SIG_DFL); raise(number); }
__attribute__((constructor)) static void begin(void) { signal(SIGTERM, on_signal); }
"""


def built(tests, folder):
    """The command with counters, in @folder, and the library beside it."""
    place = os.path.join(folder, "slub")
    link = tests.tool
    words = list(link["words"])

    def compiled(at):
        output = os.path.normpath(os.path.join(link["folder"], words[at]))
        if output not in tests.commands:
            return
        made = os.path.join(folder, os.path.basename(output))
        command = list(tests.commands[output]["words"])
        command[command.index("-o") + 1] = made
        # A small function that is inlined before the counters come has none.
        subprocess.run(command + ["--coverage", "-fprofile-update=atomic", "-w", "-O0"],
                       cwd=folder, check=True)
        words[at] = made

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(compiled, range(len(words))))
    words[words.index("-o") + 1] = place
    ended = os.path.join(folder, "ended.c")
    with open(ended, "w", encoding="utf-8") as file:
        file.write(ENDED)
    subprocess.run(words + ["--coverage", ended], cwd=link["folder"], check=True)
    for name in os.listdir(tests.folder):
        if name.startswith("libslub") and ".so" in name:
            os.symlink(os.path.join(tests.folder, name), os.path.join(folder, name))
    return place


def functions(folder, counts, root):
    """By source: the lines of the functions that were run, as pairs."""
    found = {}
    for name in sorted(os.listdir(counts)):
        if not name.endswith(".gcda"):
            continue
        notes = name.removesuffix(".gcda") + ".gcno"
        shutil.copy(os.path.join(folder, notes), counts)
        shown = subprocess.run(["gcov", "--json-format", "--stdout", name], cwd=counts,
                               check=False, capture_output=True, text=True).stdout
        for line in shown.splitlines():
            for file in json.loads(line)["files"]:
                path = os.path.relpath(os.path.join(root, file["file"]), root)
                ranges = found.setdefault(path, [])
                ranges += [[each["start_line"], each["end_line"]] for each in file["functions"]
                           if each["execution_count"]]
    return found


def digest(tests, test):
    """Of what a test runs: the command's sources and its own script; and how this measures."""
    words = [word for word in test["command"] if word.endswith(".py")] + [__file__]
    told = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(tests.root, "tools/slub/*.[ch]"))) + words:
        with open(path, "rb") as file:
            told.update(file.read())
    return told.hexdigest()


def measured(tests):
    """By test of the command; of one that writes no counts, or fails with them, nothing is said.
    What was measured before stays as long as its sources do."""
    known = os.path.join(tests.folder, "covered.json")
    before = {}
    if os.path.exists(known):
        with open(known, encoding="utf-8") as file:
            before = json.load(file)
    own = [test for test in tests.tests if tests.tool["program"] in test["command"]]
    now = {test["name"]: digest(tests, test) for test in own}
    kept = {name: each for name, each in before.items() if each["digest"] == now.get(name)}
    new = [test for test in own if test["name"] not in kept]
    for name, found in measured_anew(tests, new) if new else ():
        kept[name] = {"digest": now[name], "functions": found}
    with open(known, "w", encoding="utf-8") as file:
        json.dump(kept, file)
    return {name: each["functions"] for name, each in kept.items() if each["functions"]}


def measured_anew(tests, new):
    folder = os.path.join(tests.folder, "covered")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    place = built(tests, folder)

    def of_test(test):
        counts = os.path.join(folder, test["name"])
        os.makedirs(counts)
        # Whatever the depth of the path that the compiler was given.
        told = {"GCOV_PREFIX": counts, "GCOV_PREFIX_STRIP": "99"}
        run = {**test, "environment": {**test["environment"], **told}}
        passed, _ = trial.passes(run, {tests.tool["program"]: place}, SLOW * test["seconds"] + 8)
        found = functions(folder, counts, tests.root)
        shutil.rmtree(counts)
        return test["name"], found if passed else None

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(of_test, new))


def may_run(covered, path, line):
    """Can this test run the line?  @covered: of the test, or None: nobody knows."""
    if covered is None:
        return True
    if path not in covered:
        return path.endswith(".h")
    return any(first <= line <= last for first, last in covered[path])
