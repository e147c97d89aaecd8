# SPDX-License-Identifier: MIT
"""The patch of examples/programs/redis is whole: each part counts the lines that it says, and all
that it calls of the files beside it and of the library is there.  Where Redis's source lies in
build/programs/redis/source (examples/programs/run redis), the patch applies."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import unittest

ARGS = None


def read(*path):
    with open(os.path.join(ARGS.source, *path), encoding="utf-8") as file:
        return file.read()


class Redis(unittest.TestCase):
    def test_parts_have_their_lines(self):
        parts = re.split(r"(?m)^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*\n",
                         read("examples", "programs", "redis", "libslub.patch"))
        self.assertGreater(len(parts), 3)
        for old, new, text in zip(parts[1::3], parts[2::3], parts[3::3]):
            lines = text.split("\ndiff --git")[0].splitlines()
            self.assertEqual(sum(not line.startswith("+") for line in lines), int(old or 1))
            self.assertEqual(sum(not line.startswith("-") for line in lines), int(new or 1))

    def test_what_is_called_is_there(self):
        patch = read("examples", "programs", "redis", "libslub.patch")
        files = "".join(read("examples", "programs", "redis", name)
                        for name in ("pressure.c", "lua_heap.c"))
        called = set(re.findall(r"(?m)^\+.*\b((?:pressure|luaHeap)[A-Z]\w+)\(", patch))
        self.assertGreater(len(called), 3)
        for name in called:
            self.assertRegex(files, rf"(?m)^[a-z].*[ *]{name}\(")
        exported = read("src", "libslub.map")
        for name in re.findall(r"\b(slub_\w+)\(", patch + files):
            self.assertRegex(exported, rf"\b{name};")

    def test_the_patch_applies(self):
        source = os.path.join(ARGS.build, "programs", "redis", "source")
        if not os.path.isdir(source) or not shutil.which("patch"):
            self.skipTest("no source of Redis here: examples/programs/run redis fetches it")
        done = subprocess.run(
            ["patch", "-p1", "--dry-run", "-d", source, "-i",
             os.path.join(ARGS.source, "examples", "programs", "redis", "libslub.patch")],
            capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
