# SPDX-License-Identifier: MIT
"""The allocators of a run: what is preloaded, with which environment."""
import glob
import json
import os

# The peers that the project's targets are set against.
REFERENCE = ("mimalloc", "snmalloc", "jemalloc")
OURS = "libslub"
UNIPROCESSOR = "libslub-up"		# built with -DSLUB_SMP=OFF: one CPU, one thread
PEERS = ("mimalloc", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc", "gperftools", "scudo",
         "hardened")
FEW = ("scudo", "hardened")	# slow by design: two rounds of each workload, no more
RETAINS = OURS + ":retain"		# with all the memory that it ever had, in huge pages
BACKENDS = ("auto", "rseq", "thread", "tid", "lock")


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

    @property
    def uniprocessor(self):
        return self.name == UNIPROCESSOR

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


def _ours(build, name, folder, env):
    library = os.path.join(build, folder, "libslub.so")
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
    ours = {OURS: _ours(build, OURS, "", {}), UNIPROCESSOR: _ours(build, UNIPROCESSOR, "up", {})}
    for backend in BACKENDS:
        name = f"{OURS}:{backend}"
        ours[name] = _ours(build, name, "", {"SLUB_FASTPATH": backend})
    ours[RETAINS] = _ours(build, RETAINS, "", {"SLUB_RETAIN": "1G", "SLUB_HUGE": "always"})
    if wanted is None and mode == "quick":
        for name in FEW:
            if every.pop(name, None):
                left_out[name] = "slow by design; measured in a full run (make bench)"
    if wanted is None:
        wanted = list(every) + [name for name in (OURS, UNIPROCESSOR)
                                if ours[name] and (name == OURS or mode == "full")]
        if not ours[OURS]:
            left_out[OURS] = "build/libslub.so is not there (`make` builds it)"
        elif mode == "full" and not ours[UNIPROCESSOR]:
            left_out[UNIPROCESSOR] = "build/up/libslub.so is not there, or does not build"
    every.update({name: allocator for name, allocator in ours.items() if allocator})
    chosen = [every[name] for name in wanted if name in every]
    for name in wanted:
        if name not in every:
            known = name in ours or name in left_out
            left_out.setdefault(name, "not built" if known else
                                "unknown; there are " + ", ".join(list(every) + list(ours)))
    return chosen, left_out
