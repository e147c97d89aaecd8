# SPDX-License-Identifier: MIT
"""The allocators of a run: what is preloaded, with which environment."""
import glob
import json
import os
import re
import subprocess

OURS = "libslub"
PEERS = ("mimalloc", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc", "gperftools", "scudo",
         "hardened")
FEW = ("scudo", "hardened")	# slow by design: two rounds of each workload, no more
LIBC = "libc.so.6"		# preloaded for a program that is linked with another malloc
RETAINS = OURS + ":retain"		# with all the memory that it ever had, in huge pages
BACKENDS = ("auto", "rseq", "thread", "tid", "lock")


class WrongMalloc(Exception):
    """A program would be measured with another malloc than the row says."""


def malloc_of(program, env):
    """The file that `program` has malloc from: the first that the loader binds its name to.  It is
    loaded as ldd -r does, and not run."""
    env = dict(env, LD_DEBUG="bindings", LD_BIND_NOW="1", LD_WARN="1", LD_TRACE_LOADED_OBJECTS="1")
    done = subprocess.run([program], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          errors="replace", text=True, check=False)
    found = re.search(rf"binding file {re.escape(program)} \[\d+\] to (\S+) \[\d+\]: "
                      r"normal symbol `malloc'", done.stdout + done.stderr)
    return os.path.realpath(found.group(1)) if found else ""


class Allocator:
    """One column of the tables."""

    def __init__(self, name, library, version, env=None):
        self.name = name
        self.library = library		# None: the C library's own malloc
        self.version = version
        self.env = env or {}

    @property
    def ours(self):
        return self.name.startswith(OURS)

    @property
    def few(self):
        return self.name in FEW

    def preloaded(self, program):
        """The environment in which `program` has this malloc, whatever it is linked with; it is the
        loader that says so."""
        env = self.environment()
        if not self.library:
            env["LD_PRELOAD"] = LIBC
        found = malloc_of(program, env)
        if os.path.basename(found) != os.path.basename(self.library or LIBC):
            raise WrongMalloc(f"{self.name}: malloc of {program} is {found or 'nowhere'}'s")
        return env

    def environment(self):
        env = {key: value for key, value in os.environ.items()
               if key not in ("LD_PRELOAD", "GLIBC_TUNABLES") and not key.startswith("SLUB_")}
        if self.library:
            env["LD_PRELOAD"] = self.library
        # Its settings of malloc would be glibc's alone; whether there is rseq is the machine's.
        rseq = [one for one in os.environ.get("GLIBC_TUNABLES", "").split(":")
                if one.startswith("glibc.pthread.rseq=")]
        if rseq:
            env["GLIBC_TUNABLES"] = rseq[-1]
        env.update(self.env)
        return env

    def record(self):
        return {"version": self.version, "library": self.library, "env": self.env,
                "bytes": os.path.getsize(self.library) if self.library else None}


def _ours(build, name, env):
    library = os.path.join(build, "libslub.so")
    if not os.path.exists(library):
        return None
    return Allocator(name, os.path.realpath(library), "this tree", env)


def _peers(build):
    found = {}
    for stamp in sorted(glob.glob(os.path.join(build, "peers", "lib*.so.json"))):
        with open(stamp, encoding="utf-8") as file:
            record = json.load(file)
        library = stamp[:-len(".json")]
        if os.path.exists(library):
            found[record["name"]] = Allocator(record["name"], os.path.realpath(library),
                                              record["version"], record["env"])
    return found


def _left_out(build):
    reasons = {}
    for path in glob.glob(os.path.join(build, "peers", "*.left-out")):
        with open(path, encoding="utf-8") as file:
            reasons[os.path.basename(path)[:-len(".left-out")]] = file.read().strip()
    return reasons


def find(build, wanted, mode="full"):
    """The allocators asked for (None: all there are) and what is left out, with the reason."""
    peers, left_out = _peers(build), _left_out(build)
    every = {"glibc": Allocator("glibc", None, os.confstr("CS_GNU_LIBC_VERSION").split()[-1])}
    for name in PEERS:
        if name in peers:
            every[name] = peers[name]
            left_out.pop(name, None)
        else:
            left_out.setdefault(name, "not built (`bench/peers/get` builds it)")
    ours = {OURS: _ours(build, OURS, {})}
    for backend in BACKENDS:
        name = f"{OURS}:{backend}"
        ours[name] = _ours(build, name, {"SLUB_FASTPATH": backend})
    ours[RETAINS] = _ours(build, RETAINS, {"SLUB_RETAIN": "1G", "SLUB_HUGE": "always"})
    if wanted is None and mode == "quick":
        for name in FEW:
            if every.pop(name, None):
                left_out[name] = "slow by design; measured in a full run (make bench)"
    if wanted is None:
        wanted = list(every) + ([OURS] if ours[OURS] else [])
        if not ours[OURS]:
            left_out[OURS] = "build/libslub.so is not there (`make` builds it)"
    every.update({name: allocator for name, allocator in ours.items() if allocator})
    chosen = [every[name] for name in wanted if name in every]
    for name in wanted:
        if name not in every:
            known = name in ours or name in left_out
            left_out.setdefault(name, "not built" if known else
                                "unknown; there are " + ", ".join(list(every) + list(ours)))
    return chosen, left_out
