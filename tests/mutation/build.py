# SPDX-License-Identifier: MIT
"""The build that mutants are made from: its objects, commands and tests."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import time
from collections import Counter

import coverage
import trial

OPTIONS = ["-DSLUB_BUILD_TESTS=ON", "-DSLUB_BUILD_BENCH=OFF", "-DSLUB_ASSERT=1"]
TARGETS = ["slub", "unit_tests", "fire_tests", "api_percpu_list_test",
           "api_percpu_word_test", "api_percpu_alloc_test", "api_bulk_test"]
# By the folder of the mutant, the longest that fits.  What tests limits, other modes or whole
# programs is left out.
PERCPU = r"unit\.(percpu|slab_(alloc|bulk|barn|shrink|deferred\.))|api_(percpu|bulk)"
SLAB = r"unit\.(slab_(?!race|fork)|regression_chain|regression_prefill)|api_bulk"
FIRE = r"fire\.(churn|churn_one_thread|threads|fork_storm|api_storm|mode_A|mode_C)$"
# Of a feature: its own unit tests and its promises from outside, by one backend.
OWN = r"(?!.*\.(thread|tid|lock|hardened)$)"
RECLAIM = r"unit\.(reclaim|malloc_slow)|reclaim_|api_deferred|api_reader|fire\.api_storm"
SHADOW = (r"unit\.(slab_(alloc|sample|shadow|owned|numa|stats|grace)|inspect_trail|malloc_slow)"
          r"|profile_(totals|file|live|of)|reclaim_account|debug[._]guard|api_reserve"
          r"|reclaim_group")
RCU = (r"unit\.(slab_(grace|deferred)|reclaim_grace)|api_(deferred|reader)"
       r"|api_cache_object|fire\.api_storm|bucket_test|mempool_test")
IDLE = r"unit\.slab_(holes|left|burst|shrink)|reclaim_defrag|fire\.(api_storm|churn)$"
INSPECT = (r"unit\.inspect|usable_size|surface|api_control|tool_(stats|inspect|json|groups)"
           r"|profile_(totals|file|live|of)|settings_test")
MALLOC = (r"unit\.malloc|api_(malloc|jemalloc|control)|aligned|calloc|errno|overflow"
          r"|realloc|size_test|sized_free|usable_size|zero_size|operators|startup"
          r"|thread_test|fork_test|limit_test|foreign|replaced|surface|bucket_test"
          r"|reclaim_account|debug[._](switch|guard|kunit)|fire\.churn$|misuse\.operators"
          r"|plugin_operators|deepbind|signal_test|walled|left_on_block_test$|profile_live"
          r"|sanitizer_gcc_(address|thread)_slub$")
STEPS = r"unit\.reclaim_group_(delete|handlers|steps)\.thread$"


def own(*patterns):
    return OWN + "(" + "|".join(patterns) + ")"


CONCERNED = {
    "src/core/percpu": PERCPU + "|" + FIRE,
    "src/core/slab": SLAB + "|" + FIRE,
    "src/core/arch": f"{PERCPU}|{SLAB}|unit\\.(sequence_pretended|arch_|malloc_)|{FIRE}",
    "src/core/malloc": own(MALLOC),
    "src/features/reclaim": own(RECLAIM) + "|" + STEPS,
    "src/features/shrinkers": own(RECLAIM) + "|" + STEPS,
    "src/features/pressure": own(RECLAIM) + "|" + STEPS,
    "src/features/groups": own(RECLAIM, SHADOW, r"unit\.malloc_(account|owned)") + "|" + STEPS,
    "src/features/guard": own(r"unit\.(slab_guard|regression_prefill)"
                              r"|debug[._](guard|nowhere|kunit)|profile_of_guarded"
                              r"|tool_explain|mempool_test"
                              r"|api_free_errno_test.guard"),
    "src/features/hardened": SLAB + "|" + FIRE,
    "src/features/shadow": own(SHADOW),
    "src/features/reserve": own(SHADOW, r"unit\.page_reserve"),
    "src/features/profile": own(SHADOW, INSPECT),
    "src/features/watch": own(r"unit\.(debug|slab_(suspect|slow|visit)|malloc_(slow|class))"
                              r"|debug[._](?!contract|hardened)"
                              r"|tool_(mailbox|wake|live_switch|traces)|api_cache_misuse"
                              r"|sanitizer_gcc_(address|thread)_slub$"),
    "src/features/rcu": own(RCU, RECLAIM),
    "src/features/idle": own(IDLE),
    "src/features/movable": own(IDLE),
    "src/features/typed": own(r"unit\.slab_(create|bulk|visit|cache|numa)|api_(cache|bulk|large)"
                              r"|bucket_test|kernel_test|mempool_test"),
    "src/features/mempool": own(r"unit\.mempool|q?mempool|queued"),
    "src/features/inspect": own(INSPECT),
    "src/features/leaks": own(INSPECT),
    **{"src/features/" + name: own(MALLOC)
       for name in ("api", "buckets", "cxx", "libc", "misuse", "outside")},
    "tools": own(r"(unit\.tool|tool|profile_(totals|file|pprof|google|live|unwind))_"),
}
# Built for folders beside the core.
MORE_TARGETS = ["all"]
# Of a folder without unit tests: the layer whose tests are its own, and those that each file is
# tried with first.
OF_LAYER = {"arch": "percpu", "shrinkers": "reclaim", "pressure": "reclaim", "groups": "reclaim",
            "api": "malloc", "buckets": "malloc", "cxx": "malloc", "outside": "malloc",
            "leaks": "inspect", "misuse": "debug",
            **dict.fromkeys(("typed", "rcu", "idle", "movable", "shadow", "reserve", "watch",
                             "guard", "hardened", "profile"), "slab")}
FIRST = {"arch": "sequence|list|bulk"}
SCALE = "0.02"
SECONDS_MAX = 20	# a test that takes longer is left out


def folder_of(path):
    """The entry of CONCERNED for a file."""
    return max((folder for folder in CONCERNED if path.startswith(folder + "/")), key=len)


def wanted(root, path):
    """The names of the tests that a file meets; one that tells backends apart meets the unit tests
    on each of them."""
    pattern = CONCERNED[folder_of(path)]
    try:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            tells = "BACKEND_" in file.read()
    except FileNotFoundError:
        tells = False
    return f"{pattern}|(?=unit)(?:{pattern.replace(OWN, '')})" if tells else pattern


class Tests:
    """What there is to link and to run; as data, for trials in processes of their own."""

    def __init__(self, folder, data):
        self.folder = folder
        self.root = data["root"]
        self.commands = data["commands"]	# object: how it is compiled
        self.users = data["users"]		# source or header: objects
        self.tests = data["tests"]
        self.tool = data["tool"]		# how the command is linked
        self.caught = Counter()			# by file and test: how many mutants
        self.covered = data.get("covered", {})	# by test: coverage.py

    @classmethod
    def load(cls, folder):
        with open(os.path.join(folder, "mutation.json"), encoding="utf-8") as file:
            return cls(folder, json.load(file))

    def note(self, path, name):
        """A test caught a mutant of @path."""
        self.caught[path, name] += 1

    def concerning(self, path):
        """Those that caught most of its mutants so far first, its own tests, those of its layer,
        then the quick ones."""
        stem = os.path.splitext(os.path.basename(path))[0]
        folder = path.split("/")[2 if path.startswith("src/") else 1]
        layer = OF_LAYER.get(folder, folder)
        first = FIRST.get(folder, stem)
        own = re.compile(rf"unit\.{layer}_({stem}|{first})\b|(api|tool|profile|reclaim|debug)_"
                         rf"({folder}_)?{stem.removeprefix('cmd_')}_")
        names = re.compile(wanted(self.root, path))
        found = [test for test in self.tests if names.match(test["name"])]
        return sorted(found, key=lambda test: (-self.caught[path, test["name"]],
                                               not own.match(test["name"]),
                                               test["name"].startswith("fire"),
                                               not test["name"].startswith(f"unit.{layer}_"),
                                               test["seconds"]))


def compile_commands(folder):
    with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            words = shlex.split(entry["command"])
            output = words[words.index("-o") + 1]
            yield entry["directory"], os.path.join(entry["directory"], output), words, entry["file"]


def read_commands(root, folder):
    """The objects of the library and of the tests, and what each is made from."""
    commands, users = {}, {}
    for where, output, words, source in compile_commands(folder):
        if "slub_hardened.dir" in output or not os.path.exists(output):
            continue
        # Nothing calls these in a build that is not hardened.
        if "/hardened/hardened" in output and "-DSLUB_CONFIG_HARDENED=0" in words:
            continue
        commands[output] = {"words": words, "source": source}
        with open(output + ".d", encoding="utf-8") as file:
            for name in file.read().replace("\\\n", " ").split()[1:]:
                # ccache may have made it relative to where the compiler ran.
                path = os.path.relpath(os.path.join(where, name), root)
                if path.startswith(("src/", "include/", "tools/")):
                    users.setdefault(path, []).append(output)
    return commands, users


def link_of(program, folder=None):
    """The command that links a program or a library of the build, and where it is run: in the
    program's folder, or in @folder."""
    folder = folder or os.path.dirname(program)
    for where, _, names in os.walk(os.path.join(folder, "CMakeFiles")):
        if "link.txt" not in names:
            continue
        with open(os.path.join(where, "link.txt"), encoding="utf-8") as file:
            words = shlex.split(file.readline())
        if "-o" in words and \
                os.path.normpath(os.path.join(folder, words[words.index("-o") + 1])) == program:
            return {"words": words, "folder": folder, "program": program}
    return None


def properties(test):
    return {each["name"]: each["value"] for each in test.get("properties", [])}


def read_tests(folder, names):
    """Those whose name @names matches, a pattern."""
    names = re.compile(names)
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=folder, check=True,
                           capture_output=True, text=True).stdout
    library = link_of(os.path.realpath(os.path.join(folder, "libslub.so")))
    for test in json.loads(shown)["tests"]:
        command = test.get("command", [])
        if not command or not names.match(test["name"]) or not os.path.exists(command[0]):
            continue
        told = properties(test)
        environment = dict(each.split("=", 1) for each in told.get("ENVIRONMENT", []))
        is_unit = test["name"].startswith("unit.")
        if not is_unit:
            if test["name"].startswith("fire."):
                environment.setdefault("SLUB_TEST_SCALE", SCALE)
            # What is told where the library lies loads it itself.
            if not any(os.path.basename(word).startswith("libslub") for word in command):
                environment.setdefault("LD_PRELOAD", os.path.join(folder, "libslub.so"))
        yield {"name": test["name"], "command": command, "environment": environment,
               "folder": told.get("WORKING_DIRECTORY", folder),
               "link": link_of(command[0]) if is_unit else library, "seconds": 0}


def timed(tests, known, jobs):
    """Those that pass, and how long they take; @known: by name, from runs before."""
    def run(test):
        start = time.monotonic()
        passed, _ = trial.passes(test, {}, SECONDS_MAX)
        return passed, round(time.monotonic() - start, 2)

    new = [test for test in tests if test["name"] not in known]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for test, (passed, seconds) in zip(new, pool.map(run, new)):
            if passed:
                known[test["name"]] = seconds
            else:
                print(f"left out: {test['name']} did not pass within {SECONDS_MAX} s")
    for test in tests:
        if test["name"] in known:
            yield {**test, "seconds": known[test["name"]]}


def built(files, targets):
    """What a run over @files needs; without any it is over the core."""
    if targets:
        return targets
    core = all(path.startswith(("src/core/arch/", "src/core/percpu/", "src/core/slab/"))
               for path in files)
    return TARGETS if core else MORE_TARGETS


def prepared(root, folder, jobs, targets, paths):
    """Builds what is to be mutated, and times the tests of @paths that were not timed before: a
    test that no longer passes is seen when it fails, for then the original is tried."""
    if targets:
        subprocess.run(["cmake", "-S", root, "-B", folder, *OPTIONS], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder, "-j", str(jobs), "--target", *targets],
                       check=True, stdout=subprocess.DEVNULL)
    known = os.path.join(folder, "mutation.json")
    commands, users = read_commands(root, folder)
    seconds = {}
    if os.path.exists(known):
        with open(known, encoding="utf-8") as file:
            seconds = json.load(file)["seconds"]
    names = {wanted(root, path) for path in paths}
    tests = list(timed(list(read_tests(folder, "|".join(f"(?:{each})" for each in names))),
                       seconds, jobs))
    data = {"root": root, "commands": commands, "users": users, "tests": tests,
            "seconds": seconds,
            "tool": link_of(os.path.join(folder, "slub"), os.path.join(folder, "tools/slub"))}
    if any(folder_of(path) == "tools" for path in paths):
        data["covered"] = coverage.measured(Tests(folder, data))
    with open(known, "w", encoding="utf-8") as file:
        json.dump(data, file)
    print(f"{len(tests)} tests, {sum(test['seconds'] for test in tests):.0f} s in all",
          flush=True)
    return Tests(folder, data)
