# SPDX-License-Identifier: MIT
"""What stands for the kernel's headers in examples/programs/kernel compiles without a warning.
Where files of the kernel lie in build/programs/kernel/source (examples/programs/run kernel), they
compile unchanged, their own tests pass, and what they do wrong when allocations fail is found."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

ARGS = None
SEED = "10"		# what the kernel's tests take for chance


def adapter(name):
    return os.path.join(ARGS.source, "examples", "programs", "kernel", name)


def failing(nr, letters):
    """Each @nr-th allocation of the kernel's cache fails."""
    return {**os.environ, "SLUB_DEBUG_FAIL": str(nr), "SLUB_DEBUG": letters}


class StandIns(unittest.TestCase):
    def test_they_compile(self):
        include = "-I" + os.path.join(ARGS.source, "include")
        for flags in ([include], ["-DKERNEL_ON_MALLOC"]):
            done = subprocess.run(
                ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-O2",
                 "-fsyntax-only", "-DKBUILD_MODNAME=\"x\"", *flags, adapter("program.c")],
                capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Kernel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        source = os.path.join(ARGS.build, "programs", "kernel", "source")
        if not os.path.isdir(source):
            raise unittest.SkipTest(
                "no files of the kernel here: examples/programs/run kernel fetches them")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        library = os.path.dirname(ARGS.library)
        for name, flags in (("malloc", ["-DKERNEL_ON_MALLOC"]),
                            ("slub", ["-I" + os.path.join(ARGS.source, "include"), "-L" + library,
                                      "-lslub", "-Wl,-rpath," + library])):
            subprocess.run(["sh", adapter("build.sh"), source,
                            os.path.join(cls.folder.name, name), *flags], check=True)

    def run_tests(self, name, env=None):
        done = subprocess.run([os.path.join(self.folder.name, name, "program"), "1", SEED],
                              capture_output=True, text=True, check=False, env=env, timeout=100)
        return done.returncode, done.stdout, done.stderr

    def test_its_own_tests_pass(self):
        for name in ("malloc", "slub"):
            code, text, errors = self.run_tests(name)
            self.assertEqual((code, errors), (0, ""))
            line = json.loads(text)
            self.assertEqual((line["tests"], line["failed"], line["warnings"]), (7, 0, 0))

    def test_letters_alone_change_nothing(self):
        code, _, errors = self.run_tests("slub", {**os.environ, "SLUB_DEBUG": "FZPU"})
        self.assertEqual((code, errors), (0, ""))

    def test_a_use_after_free_is_found(self):
        """drm_buddy frees a block that is still on its free list, if it cannot split another."""
        code, _, errors = self.run_tests("slub", failing(75, "FZPUA,drm_buddy_block"))
        self.assertNotEqual(code, 0)
        self.assertRegex(errors, "BUG drm_buddy_block .*: Poison overwritten")
        self.assertRegex(errors, r"Freed in .*__drm_buddy_free\+")

    def test_a_leak_is_found(self):
        """An assertion of the kernel's tests ends one, which keeps what it has."""
        with subprocess.Popen(
                [os.path.join(self.folder.name, "slub", "program"), "1", SEED, "wait"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, env=failing(997, "AU,drm_buddy_block;U,malloc-*")) as program:
            try:
                line = json.loads(program.stdout.readline())
                done = subprocess.run([ARGS.command, "leaks", str(program.pid)],
                                      capture_output=True, text=True, check=False, timeout=100)
            finally:
                program.kill()
        self.assertGreater(line["failed"], 0)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("drm_buddy_init", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("source", "build", "library", "command"):
        parser.add_argument("--" + option, required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest, verbosity=2)
