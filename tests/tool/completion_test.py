#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: bash, zsh and fish complete the commands of `slub`, their options and the values of
those, processes, and behind `slub run` the arguments of the program.

usage: completion_test.py SLUB SOURCE"""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SLUB, SOURCE = map(os.path.abspath, sys.argv[1:3])
FOLDER = os.path.join(SOURCE, "completions")
HERE = str(os.getpid())
# Ends with the first line that it reads after the last completion.
ZSH = r"""
PS1= PS2= RPS1= PROMPT_EOL_MARK=
unsetopt zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste
setopt no_beep; LISTMAX=0
fpath=("$FOLDER" $fpath)
autoload -Uz compinit && compinit -u -D
_arguer() { compadd alpha beta }
compdef _arguer true
compadd() {
	local -a found
	[[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || {
		builtin compadd -A found "$@"
		print -rl -- $found >>"$FOLDER/found"
	}
	builtin compadd "$@"
}
list() { _main_complete; compstate[insert]= compstate[list]=; : >"$FOLDER/end" }
zle -C list complete-word list
bindkey -e
bindkey '^I' list
: >"$FOLDER/end"
"""


def with_slub(**more):
    """Completion asks the command itself."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    return {**env, "PATH": os.path.dirname(SLUB) + ":" + env["PATH"], **more}


def bash(*words):
    code = ('source "$1"; shift; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));'
            '_slub slub "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[@]}"')
    # bash takes an equals sign for a word of its own.
    words = [part for word in words for part in re.split("(=)", word)
             if part or word == words[-1] and word[-1:] != "="]
    done = subprocess.run(["bash", "-c", code, "bash", os.path.join(FOLDER, "slub.bash"), "slub",
                           *words], text=True, capture_output=True, timeout=60, check=False,
                          env=with_slub())
    if done.stderr:
        raise AssertionError(done.stderr)
    return done.stdout.split()


def fish(*words):
    code = ("complete -c true -f -a 'alpha beta'; source $argv[1];"
            "complete -C \"slub $argv[2]\"")
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(["fish", "--no-config", "-c", code,
                               os.path.join(FOLDER, "slub.fish"), " ".join(words)],
                              text=True, capture_output=True, timeout=60, check=False,
                              env=with_slub(HOME=home))
    if done.stderr:
        raise AssertionError(done.stderr)
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    option = re.match("--[^=]*=", words[-1])
    return [word.removeprefix(option.group() if option else "") for word in found]


class Zsh:
    """A zsh that writes what it would list into a file."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        shutil.copy(os.path.join(FOLDER, "slub.zsh"), os.path.join(self.folder, "_slub"))
        with open(os.path.join(self.folder, "start"), "w", encoding="utf-8") as file:
            file.write(ZSH)
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            os.execvpe("zsh", ["zsh", "-f", "-i"],
                       with_slub(FOLDER=self.folder, TERM="dumb", HOME=self.folder))
        self.send('. "$FOLDER/start"\n')

    def send(self, text):
        """Until there is a file `end`; what the terminal shows is read and of no interest."""
        end = os.path.join(self.folder, "end")
        deadline = time.monotonic() + 60
        os.write(self.terminal, text.encode())
        shown = ""
        while not os.path.exists(end):
            if select.select([self.terminal], [], [], 0.05)[0]:
                shown += os.read(self.terminal, 4096).decode(errors="replace")
            if time.monotonic() > deadline:
                raise AssertionError(shown)
        os.unlink(end)

    def complete(self, *words):
        path = os.path.join(self.folder, "found")
        open(path, "w", encoding="utf-8").close()
        self.send("\x15slub " + " ".join(words) + "\t")
        with open(path, encoding="utf-8") as file:
            return file.read().split()

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)
        shutil.rmtree(self.folder)


def told(*arguments):
    return subprocess.run([SLUB, *arguments], env=with_slub(), capture_output=True, text=True,
                          check=True, timeout=60).stdout


class Shell:
    """What is completed alike."""

    def only(self, expected, *words):
        self.assertEqual(sorted(set(self.complete(*words))), sorted(expected), words)

    def has(self, expected, *words):
        self.assertIn(expected, self.complete(*words), words)

    def test_commands(self):
        self.only(["stats"], "st")
        self.only(["info"], "help", "i")
        self.only(["validate"], "va")
        listed = re.findall(r"(?m)^  ([a-z]+) ", told("--help"))
        self.assertIn("doctor", listed)
        self.assertEqual(set(listed) - set(self.complete("")), set())

    def test_options(self):
        self.only(["--json"], "validate", "--js")
        self.only(["--slabs", "--sort-loss", "--size", "--shrink"], "info", "--s")
        self.only(["--svg"], "map", "--sv")
        self.only(["--all"], "options", "--al")
        self.assertEqual([word.strip("=") for word in self.complete("run", "--add")],
                         ["--address_space"])

    def test_values(self):
        self.only(["never"], "stats", "--color=n")
        self.only(["block"], "run", "--huge=b")
        self.has("always", "run", "--huge", "")
        self.has("stderr", "run", "--debug_report=")
        self.has("w", "top", "--sort", "")
        self.has("w", "top", "--sort", "")

    def test_processes(self):
        self.has(HERE, "top", "-p", "")
        self.has(HERE, "stats", "")
        self.has(HERE, "debug", "")
        self.has(HERE, "top", HERE[0])

    def test_each_command_has_the_options_of_its_help(self):
        listed = told("--help")
        names = set(re.findall(r"(?m)^  (\w+) ", listed)) - {"help"}
        names |= {word for _, word in re.findall(r"(?m)^    (\w+) -*(\S+) ", listed)}
        self.assertGreater(len(names), 15)
        for name in sorted(names):
            wanted = set(re.findall(r"(?<=  )(?:-\w, )?--([a-z0-9][\w-]*)", told(name, "--help")))
            if name == "run":
                wanted |= {row.split()[0].removeprefix("SLUB_").lower()
                           for row in told("options", "--all").splitlines()[1:]}
            found = {word.strip("-=") for word in self.complete(name, "--")} - {""}
            with self.subTest(command=name):
                self.assertEqual(found, wanted)


class Bash(Shell, unittest.TestCase):
    complete = staticmethod(bash)


@unittest.skipUnless(shutil.which("fish"), "needs fish")
class Fish(Shell, unittest.TestCase):
    complete = staticmethod(fish)

    def test_what_the_program_takes(self):
        self.only(["beta"], "run", "--huge=auto", "true", "b")
        self.only(["alpha"], "run", "--", "true", "al")
        self.has("true", "run", "--verbose=1", "--", "tru")


@unittest.skipUnless(shutil.which("zsh"), "needs zsh")
class ZshCompletes(Shell, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.zsh = Zsh()
        cls.addClassCleanup(cls.zsh.close)

    def complete(self, *words):
        return self.zsh.complete(*words)

    def test_what_the_program_takes(self):
        self.only(["beta"], "run", "--huge=auto", "true", "b")
        self.only(["alpha"], "run", "--", "true", "al")
        self.has("true", "run", "--verbose=1", "--", "tru")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
