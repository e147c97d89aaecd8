#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub doctor SCRIPT` judges the program that the script runs, and names it in the first
line, or says that it cannot know; `slub run SCRIPT` refuses what it would run without libslub.

usage: script_test.py SLUB LIBRARY HEAP GDB_SCRIPT"""

import json
import os
import shutil
import subprocess
import sys
import unittest

from target import HEAP, SLUB, Target, environment, slub

ENV = shutil.which("env")
SHELL = "/bin/sh"


class Script(Target):
    def setUp(self):
        super().setUp()
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        shutil.copy(HEAP, os.path.join(self.bin, "program"))
        self.program = os.path.join(self.bin, "program")
        self.path_of_both = f"{self.bin}:{os.environ['PATH']}"

    def script(self, text, name="script"):
        path = self.path(name)
        with open(path, "w", encoding="latin-1") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def doctor(self, script, **more):
        done = slub("doctor", script, **{"PATH": self.path_of_both, **more})
        self.assertLess(done.returncode, 7)
        return done

    def judged(self, script, **more):
        """The program of the first line, and the line."""
        done = self.doctor(script, **more)
        self.assertIn(done.returncode, (0, 1), done)
        words = done.stdout.splitlines()[0].split(maxsplit=2)
        self.assertEqual(words[1], "program")
        return words[2].split(",")[0]

    def assertUnknown(self, script, **more):
        done = self.doctor(script, **more)
        self.assertEqual(done.returncode, 6, done)
        first = done.stdout.splitlines()[0].split()
        self.assertEqual(first[:3], ["note", "program", "unknown:"])
        self.assertIn("its PID", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        for line in done.stdout.splitlines():
            self.assertNotIn(line.split()[1], ("loader", "allocator", "privilege", "TLS"))
        told = json.loads(slub("doctor", "--json", script, PATH=self.path_of_both).stdout)
        self.assertFalse(told["works"])

    def assertRefused(self, done, status, *words):
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        for word in words:
            self.assertIn(word, done.stderr)


class Kernel(Script):
    def test_interpreter(self):
        self.assertEqual(self.judged(self.script(f"#! {self.program} -x \n")), self.program)

    def test_nested_as_deep_as_the_kernel_goes(self):
        name, deepest = shutil.which("true"), 0
        for depth in range(1, 9):
            name = self.script(f"#!{name}\n", f"script{depth}")
            try:
                runs = subprocess.run([name], capture_output=True, check=False).returncode == 0
            except OSError:
                runs = False
            done = self.doctor(name)
            self.assertEqual(done.returncode == 0, runs, (depth, done))
            deepest = depth if runs else deepest
        self.assertGreater(deepest, 2)

    def test_without_its_interpreter(self):
        self.assertRefused(self.doctor(self.script("#!/nonexistent\n")), 4, "/nonexistent")


class Env(Script):
    def test_is_followed(self):
        for line in (f"#!{ENV} program", f"#!{ENV} -S program", f"#!{ENV} -S program -a 'b c'",
                     f"#!{ENV} -S A=1 B=\"x y\" program", f"#!{ENV} -S -u A -- program",
                     f"#!{ENV} -vS program", f"#!{ENV} --split-string=program x",
                     f"#!{ENV} -S \\x20program".replace("\\x20", "\\_"),
                     f"#!{ENV} -S ${{NAMED}}", f"#!{ENV} -S {ENV} program"):
            script = self.script(line + "\nwhatever\n")
            first = self.doctor(script, NAMED="program")
            if "\\_" in line:           # a blank in the word, so that there is no such program
                self.assertRefused(first, 4, "' program'")
                continue
            self.assertEqual(self.judged(script, NAMED="program"), self.program, line)
            self.assertIn(f"by way of {script} -> {ENV}", first.stdout.splitlines()[0])

    def test_path_of_the_script(self):
        other = self.path("other")
        os.mkdir(other)
        shutil.copy(HEAP, os.path.join(other, "program"))
        script = self.script(f"#!{ENV} -S PATH={other} program\n")
        self.assertEqual(self.judged(script), os.path.join(other, "program"))
        script = self.script(f"#!{ENV} -S -C {other} ./program\n")
        self.assertEqual(self.judged(script), os.path.join(other, "./program"))

    def test_what_env_would_not_find(self):
        for line, word in ((f"#!{ENV} nonesuch", "'nonesuch'"),
                           (f"#!{ENV} program -x", "need `env -S`"),
                           (f"#!{ENV} A=1 program", "without end"),
                           (f"#!{ENV}", "without end")):
            self.assertRefused(self.doctor(self.script(line + "\n")), 4, word)

    def test_what_env_drops(self):
        for options in ("-i", "-u LD_PRELOAD", "LD_PRELOAD=", "--ignore-environment"):
            script = self.script(f"#!{ENV} -S {options} {self.program} wait\n")
            done = self.doctor(script)
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stdout, "(?m)^problem +LD_PRELOAD")
            self.assertRefused(slub("run", script), 126, "drops LD_PRELOAD")

    def test_what_is_not_known(self):
        self.assertUnknown(self.script(f"#!{ENV} -S --new-option program\n"))
        self.assertUnknown(self.script(f"#!{ENV} -S {SHELL} -c program\n"))

    def test_run_refuses_what_env_runs(self):
        """A file that no loader has: cut from the program."""
        with open(HEAP, "rb") as file:
            image = bytearray(file.read())
        image[18:20] = (183 if image[18] != 183 else 62).to_bytes(2, "little")
        with open(self.program, "wb") as file:
            file.write(image)
        script = self.script(f"#!{ENV} program\n")
        self.assertRefused(slub("run", script, PATH=self.path_of_both), 126, self.program)
        self.assertEqual(self.doctor(script).returncode, 1)


class Shell(Script):
    def test_last_step(self):
        for text in (f"#!{SHELL}\nexec {self.program} \"$@\"\n",
                     f"#!{SHELL} -e\n# exec nothing\nset -u\n\nexec '{self.program}' \\\n"
                     "  \"$@\" 2>&1\n\n# the end\n",
                     f"#!{ENV} sh\nexport A=1\nexec program\n",
                     f"exec {self.program}\n",
                     f"#!{SHELL}\n{self.program} \"$@\""):
            self.assertEqual(self.judged(self.script(text)), self.program, text)

    def test_one_shim_behind_the_other(self):
        inner = self.script(f"#!{SHELL}\nexec {self.program}\n", "inner")
        outer = self.script(f"#!{ENV} sh\nexec {inner} \"$@\"\n", "outer")
        self.assertEqual(self.judged(outer), self.program)

    def test_what_is_not_known(self):
        program = self.program
        for body in ("exec \"$program\" \"$@\"", "echo done", "exec program || exit 1",
                     f"if true; then exec {program}; fi",
                     f"if true; then exec /bin/true; fi\nexec {program}",
                     f"PATH=/x\nexec program", f"cat <<E\nx\nE\nexec {program}",
                     f"cd /\nexec ./program", f"exec {program} | cat",
                     f"unset LD_PRELOAD\nexec {program}", f"exec sh {program}",
                     f"exec {ENV} {program}", "exec -a name program", "", "exec program &",
                     f"exec {self.path('nonesuch')}"):
            with self.subTest(body):
                self.assertUnknown(self.script(f"#!{SHELL}\n{body}\n"))

    def test_a_shim_as_pyenv_has_them(self):
        inner = self.script(f"#!{ENV} bash\ncommand=\"$1\"\nexec \"$command\"\n", "inner")
        shim = self.script(f"#!{ENV} bash\nset -e\n[ -n \"$X\" ] && set -x\n\n"
                           f"program=\"${{0##*/}}\"\nexport R=\"/r\"\n"
                           f"exec \"{inner}\" exec \"$program\" \"$@\"\n", "python3")
        self.assertUnknown(shim)

    def test_scripts_without_an_end(self):
        script = self.script("")
        self.script(f"#!{SHELL}\nexec {script}\n")
        self.assertRefused(self.doctor(script), 5, "without an end")

    def test_run_leaves_it_to_the_shell(self):
        script = self.script(f"#!{SHELL}\nif true; then exit 7; fi\n")
        self.assertEqual(slub("run", script).returncode, 7)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
