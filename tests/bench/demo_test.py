# SPDX-License-Identifier: MIT
"""What `make run` compiles as its example still compiles; it names each row that libslub loses."""
import importlib.machinery
import importlib.util
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_demo():
    loader = importlib.machinery.SourceFileLoader("run_demo",
                                                  os.path.join(ROOT, "scripts", "run-demo"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_demo", loader))
    loader.exec_module(module)
    return module


class Demo(unittest.TestCase):
    def test_the_files_that_gcc_gets_compile(self):
        here = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, here)
        programs = run_demo().programs("build")
        command = next(one.argv for one in programs if one.name.startswith("gcc"))
        script = command[2].replace("-O2 -S -o -", "-fsyntax-only")
        self.assertIn("-fsyntax-only", script)
        self.assertGreater(len(command), 40)
        done = subprocess.run(["sh", "-c", script] + command[3:], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_it_says_what_it_loses(self):
        rows = [("python3: JSON", ((1.0, 100), (1.02, 114))), ("perl", ((1.0, 100), (0.8, 99))),
                ("redis-server, own: jemalloc", ((1.0, 100), (1.004, 104)))]
        losses = run_demo().losses
        self.assertEqual(losses(rows), "libslub loses in time: python3 1.02; "
                         "in peak memory: python3 1.14, redis-server 1.04")
        self.assertEqual(losses(rows[1:2]), "libslub loses no row here")


if __name__ == "__main__":
    unittest.main()
