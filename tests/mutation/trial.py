#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One mutant: compiled, linked with its tests, which run until one fails."""
import filecmp
import functools
import hashlib
import json
import os
import re
import resource
import signal
import shutil
import subprocess
import sys

import coverage
import operators

DATA_MAX = 4 << 30	# a mutant may allocate for ever
SKIPPED = 77


@functools.lru_cache(None)
def fence():
    """A PID namespace, so that nothing outlives a trial; nothing where there is none."""
    words = ["unshare", "-pf", "--kill-child", "--mount-proc"]
    try:
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    except FileNotFoundError:
        pass
    return []


def limits(seconds):
    def apply():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
        resource.setrlimit(resource.RLIMIT_DATA, (DATA_MAX, DATA_MAX))
        # A test of core files raises it again.
        resource.setrlimit(resource.RLIMIT_CORE,
                           (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    return apply


def passes(test, replaced, seconds):
    """(has it passed, why not); @replaced: paths of the build to paths of the mutant."""
    def path(text):
        # A whole path: the command's is the beginning of the library's.
        for old, new in replaced.items():
            text = re.sub(re.escape(old) + r"(?![\w.-])", lambda _, new=new: new, text)
        return text

    command = [path(word) for word in test["command"]]
    environment = {**os.environ,
                   **{name: path(value) for name, value in test["environment"].items()}}
    # Of the test alone: unshare, too, would be preloaded.
    words = [f"{name}={value}" for name, value in environment.items()
             if os.environ.get(name) != value]
    with subprocess.Popen([*fence(), "env", *words, *command], cwd=test["folder"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True,
                          preexec_fn=limits(seconds)) as child:
        try:
            status = child.wait(timeout=2 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return False, "timeout"
    return status in (0, SKIPPED), f"status {status}"


class Trial:
    def __init__(self, tests, folder, named, source, text):
        self.tests, self.folder, self.named = tests, folder, named
        self.source, self.text = source, text
        self.objects = {}	# of the build: the mutant's

    def source_write(self, text):
        path = os.path.join(self.folder, self.named.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def beside(self, own):
        """Does the source @own find the mutant, a header, beside itself?  Then it is copied there,
        with all that lies in its folder."""
        if not self.named.path.endswith(".h") or \
                os.path.dirname(own) != os.path.dirname(self.named.path):
            return False
        folder = os.path.dirname(own)
        for name in os.listdir(os.path.join(self.tests.root, folder)):
            copy = os.path.join(self.folder, folder, name)
            if name.endswith((".c", ".h")) and not os.path.exists(copy):
                shutil.copyfile(os.path.join(self.tests.root, folder, name), copy)
        return True

    def ran(self, output, *more):
        """The compiler on what @output is made from, with the text that is written now."""
        command = self.tests.commands[output]
        words = list(command["words"])
        own = os.path.relpath(command["source"], self.tests.root)
        at = words.index("-o")
        del words[at:at + 2]
        # In the worker's folder, so that a mutant's path is that of the original.
        if own == self.named.path or self.beside(own):
            words[words.index(command["source"])] = own
        # Before the tree's own folder of headers.
        # The command's have no such folder but their own.
        place = words.index("-iquote") if "-iquote" in words else 1
        folder = os.path.dirname(command["source"])
        words[place:place] = ["-iquote", "src"] if place > 1 else ["-iquote", folder]
        words += ["-g0", "-w", *more]
        return subprocess.run(words, cwd=self.folder, capture_output=True, check=False)

    def compiled(self, output, made):
        return made if self.ran(output, "-o", made).returncode == 0 else None

    def seen(self, output):
        """What the preprocessor leaves for the compiler; of a macro nobody uses, nothing."""
        text = self.ran(output, "-E", "-P", "-fpch-preprocess").stdout
        return hashlib.sha256(text).hexdigest()

    def name(self, output):
        return os.path.relpath(output, self.tests.folder).replace("/", "_")

    def original(self, output, make, what=""):
        """The file that @make makes of the source as it is; once for all mutants of it."""
        # Of this file, for what __FILE__ says depends on which is the copy; and of
        # this text, for it may be edited while a run goes on.
        of = self.named.path.replace("/", "_")
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:16]
        path = os.path.join(self.folder, f"original_{of}_{digest}_{self.name(output)}{what}")
        if not os.path.exists(path):
            self.source_write(self.source)
            make(output, path)
            self.source_write(self.text)
        return path

    def seen_write(self, output, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.seen(output))

    def is_seen_changed(self, output):
        with open(self.original(output, self.seen_write, ".seen"), encoding="utf-8") as file:
            return file.read() != self.seen(output)

    def object(self, output):
        """The mutant's; @output itself where the compiler gets the same text; None: no object."""
        if output not in self.objects:
            self.objects[output] = output
            if self.is_seen_changed(output):
                made = os.path.join(self.folder, self.name(output))
                self.objects[output] = self.compiled(output, made)
        return self.objects[output]

    def is_of_tool(self):
        return self.named.path.startswith("tools/")

    def link(self, test):
        """What is linked anew for a test: the command, its own program, or the library."""
        if self.is_of_tool() and not test["name"].startswith("unit."):
            return self.tests.tool
        return test["link"]

    def library(self):
        """Its objects that the mutant may change, those that the first test needs first."""
        of = "slub_tool.dir" if self.is_of_tool() else "slub_objects.dir"
        users = [output for output in self.tests.users.get(self.named.path, [])
                 if of in output]
        needed = set()
        for test in self.tests.concerning(self.named.path)[:1]:
            link = self.link(test)
            needed = {os.path.normpath(os.path.join(link["folder"], word))
                      for word in link["words"]}
        return sorted(users, key=lambda output: output not in needed)

    def is_changed(self):
        """None: it does not compile.  Else: is any object of the library another?"""
        self.source_write(self.text)
        for output in self.library():
            made = self.object(output)
            if not made:
                return None
            if made != output and \
                    not filecmp.cmp(made, self.original(output, self.compiled), shallow=False):
                return True
        return False

    def place(self, program, what):
        """Where the mutant of @program, or its original, lies for a test.  The command finds the
        library beside itself."""
        folder = os.path.join(self.folder, what)
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(self.tests.folder) if self.is_of_tool() else ():
            beside = os.path.join(folder, name)
            if re.match(r"libslub.*\.so", name) and not os.path.lexists(beside):
                os.symlink(os.path.join(self.tests.folder, name), beside)
        return os.path.join(folder, os.path.basename(program))

    def replaced(self, program, made):
        paths = {program: made}
        if not self.is_of_tool():
            paths[os.path.join(self.tests.folder, "libslub.so")] = made
        return paths

    def control(self, program):
        """What @program is replaced by to see whether a test can pass with another one at all: by
        a copy of itself that lies as the mutant does."""
        made = self.place(program, "control")
        if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(program):
            shutil.copy(program, made)
        return made

    def passes(self, test, program, made, seconds):
        """With @made in the place of @program.  What is linked with the library has it, too."""
        name = os.path.basename(program)
        if name.startswith("libslub"):
            folder = os.path.dirname(made)
            for other in ("libslub.so", "libslub.so.1"):
                beside = os.path.join(folder, other)
                if other != name and not os.path.lexists(beside):
                    os.symlink(name, beside)
            test = {**test, "environment": {"LD_LIBRARY_PATH": folder, **test["environment"]}}
        return passes(test, self.replaced(program, made), seconds)

    def linked(self, link):
        """Where the program with the mutant lies; the build's own if nothing in it is another."""
        made = self.place(link["program"], "mutant")
        words = list(link["words"])
        users = self.tests.users.get(self.named.path, [])
        for place, word in enumerate(words):
            path = os.path.normpath(os.path.join(link["folder"], word))
            if path in users:
                other = self.object(path)
                if not other:
                    return None
                if other != path:
                    words[place] = other
        if words == link["words"]:
            return link["program"]
        words[words.index("-o") + 1] = made
        words.append("-Wl,-S")
        done = subprocess.run(words, cwd=link["folder"], capture_output=True, check=False)
        return made if done.returncode == 0 else None

    def run(self):
        changed = self.is_changed()
        if changed is None:
            return {"outcome": "does not compile"}
        if not changed:
            return {"outcome": "same code"}
        made = {}
        for test in self.tests.concerning(self.named.path):
            covered = self.tests.covered.get(test["name"])
            if not coverage.may_run(covered, self.named.path, self.named.line):
                continue
            link = self.link(test)
            program = link["program"]
            if program not in made:
                made[program] = self.linked(link)
            if not made[program]:
                return {"outcome": "does not compile"}
            if made[program] == program:
                continue
            seconds = max(8, 5 * test["seconds"])
            passed, why = self.passes(test, program, made[program], seconds)
            # Not by chance, or for a machine that is busy: it fails again, and the original passes.
            if not passed and \
                    (why == "timeout" or
                     not self.passes(test, program, made[program], seconds)[0]) and \
                    all(self.passes(test, program, self.control(program), seconds)[0]
                        for _ in range(2)):
                return {"outcome": "caught", "by": test["name"], "why": why}
        return {"outcome": "survived"}

    def over(self):
        """Nothing of it is to be found by the next."""
        for top in ("src", "tools"):
            shutil.rmtree(os.path.join(self.folder, top), ignore_errors=True)


def run(tests, folder, named):
    with open(os.path.join(tests.root, named.path), encoding="utf-8") as file:
        source = file.read()
    if source[named.start:named.start + named.length] != named.old:
        raise RuntimeError(f"{named.path} was edited during the run; start it again")
    one = Trial(tests, folder, named, source, operators.apply(source, named))
    try:
        return one.run()
    finally:
        one.over()


def main():
    import build
    import score
    folder, where, named = json.load(sys.stdin)
    print(json.dumps(run(build.Tests.load(folder), where, score.Named(**named))))


if __name__ == "__main__":
    main()
