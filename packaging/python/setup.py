# SPDX-License-Identifier: MIT
"""Builds libslub.so and the command slub by cmake, and puts both into the package."""
import os
import re
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
CARRIED = ["libslub.so.1", "slub"]
# A wheel may link the C library alone: no colours, no names of functions, nothing compressed.
OPTIONS = ["-DSLUB_BUILD_TESTS=OFF", "-DSLUB_BUILD_BENCH=OFF", "-DSLUB_LIBDW=OFF",
           "-DCMAKE_DISABLE_FIND_PACKAGE_Curses=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON"]


def version():
    path = os.path.join(SOURCE, "include", "slub", "version.h")
    if not os.path.exists(path):
        raise SystemExit(f"{path} is missing: the wheel is built from packaging/python in the tree "
                         "of libslub")
    with open(path, encoding="utf-8") as file:
        return re.search(r'SLUB_VERSION_STRING "(.*)"', file.read()).group(1)


class Build(build_py):
    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "slub")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cmake", "-G", "Unix Makefiles", "-S", SOURCE, "-B", folder, *OPTIONS],
                           check=True)
            subprocess.run(["cmake", "--build", folder, "-j", str(os.cpu_count()),
                            "--target", "slub_tool", "slub"], check=True)
            for name in CARRIED:
                shutil.copy(os.path.join(folder, name), package)
                subprocess.run(["strip", "--strip-unneeded", os.path.join(package, name)],
                               check=True)


class Wheel(bdist_wheel):
    """For every Python 3, and for a C library as new as what was built asks for (PEP 600)."""

    def get_tag(self):
        package = os.path.join(self.get_finalized_command("build_py").build_lib, "slub")
        newest = 0
        for name in CARRIED:
            with open(os.path.join(package, name), "rb") as file:
                newest = max([newest] + [int(minor) for minor in
                                         re.findall(rb"GLIBC_2\.(\d+)\b", file.read())])
        return "py3", "none", f"manylinux_2_{newest}_{os.uname().machine}"


class WithPrograms(Distribution):
    """Not of Python alone, though it has no extension module."""

    def has_ext_modules(self):
        return True


setup(version=version(), distclass=WithPrograms,
      cmdclass={"build_py": Build, "bdist_wheel": Wheel})
