# SPDX-License-Identifier: MIT
"""The columns: builds of libslub, its backends, and the allocators it stands beside."""
import os
import subprocess

import allocators

BACKENDS = ("rseq", "thread", "tid", "lock")
LAYOUTS = ("aligned64", "inner56", "lock56")
# For the tables of code size: what the default build is compared with.
VARIANTS = {"up": ["-DSLUB_SMP=OFF"], "assert": ["-DSLUB_ASSERT=1"]}


class Configuration:
    """One column: how a program of one build is started."""

    def __init__(self, name, build, preload=None, environment=None, expected=None):
        self.name, self.build = name, build
        self.preload = preload			# a library; None: the C library's malloc
        self.extra = environment or {}
        self.expected = expected		# the row that shows the choice was honoured

    def environment(self, measurement):
        return allocators.Allocator(
            self.name, self.preload if measurement.preload else None, "",
            {**self.extra, **measurement.environment}).environment()

    def program(self, measurement):
        return os.path.join(self.build, "kernel", measurement.program)


def compile_tree(root, tree, options, targets):
    """Configures and builds; None, or why it failed."""
    for command in (["cmake", "-S", root, "-B", tree, "-DSLUB_BUILD_BENCH=ON"] + options,
                    ["cmake", "--build", tree, "-j", "2", "--target"] + targets):
        try:
            # k: make goes on behind a program that does not build.
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False, env=dict(os.environ, MAKEFLAGS="k"))
        except OSError as why:
            return str(why)
        if done.returncode:
            lines = done.stdout.strip().split("\n")
            return next((line for line in lines if "rror" in line), lines[-1]).strip()
    return None


def library(build):
    return os.path.realpath(os.path.join(build, "libslub.so"))


class Columns:
    """All configurations there are, by kind; what could not be had stands in left_out."""

    def __init__(self, root, build, left_out):
        self.root, self.build, self.left_out = root, build, left_out
        why = compile_tree(root, build, [], ["slub", "bench_kernel"])
        if why and not os.path.exists(library(build)):
            raise SystemExit(f"bench/kernel/run: {build} does not build: {why}")
        if why:
            left_out["what does not build"] = why
        self._layouts = None

    def of(self, kind):
        return {"allocators": self.allocators, "backends": self.backends,
                "layouts": self.layouts, "library": self.one,
                "processors": self.processors}[kind]()

    def one(self):
        return [Configuration("libslub", self.build, library(self.build))]

    def allocators(self):
        chosen, missing = allocators.find(self.build, None)
        self.left_out.update({name: why for name, why in missing.items()
                              if not name.startswith("libslub")})
        for one in chosen:
            if one.few:
                self.left_out[one.name] = "slow by design; `bench/run` has it"
        peers = [Configuration(one.name, self.build, one.library, one.env) for one in chosen
                 if not one.ours and not one.few]
        return self.one() + peers

    def backends(self):
        return [Configuration(name, self.build, library(self.build), {"SLUB_FASTPATH": name},
                              f"library/backend/{name}") for name in BACKENDS]

    def layouts(self):
        if self._layouts is None:
            self._layouts = [one for one in map(self._layout, LAYOUTS) if one]
        return self._layouts

    def _layout(self, name):
        tree = self.build
        if name != LAYOUTS[0]:
            tree = self._tree(name, [f"-DSLUB_LAYOUT={name}"], f"layout {name}")
        return tree and Configuration(name, tree, library(tree), {}, f"library/layout/{name}")

    def processors(self):
        """The default build, and the one for a single CPU."""
        tree = self._tree("up", VARIANTS["up"], "the build for one CPU")
        return [Configuration(name, where, library(where), {}, f"library/processors/{name}")
                for name, where in (("SMP", self.build), ("uniprocessor", tree)) if where]

    def _tree(self, name, options, what):
        """Another build with the programs in it; None where it does not build."""
        tree = os.path.join(self.build, "kernel-" + name)
        why = compile_tree(self.root, tree, options, ["slub", "bench_kernel"])
        if why and not os.path.exists(library(tree)):
            self.left_out[what] = f"does not build: {why}"
            return None
        return tree

    def variant(self, name):
        """The library built with one option changed; None where it does not build."""
        tree = os.path.join(self.build, "kernel-" + name)
        why = compile_tree(self.root, tree, VARIANTS[name], ["slub"])
        if why:
            self.left_out[f"build {' '.join(VARIANTS[name])}"] = f"does not build: {why}"
            return None
        return library(tree)
