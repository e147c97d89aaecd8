# SPDX-License-Identifier: MIT
"""What is measured: a program, in which columns it runs, and its sizes by mode."""

MODES = ("smoke", "quick", "full")
ROUNDS = {"smoke": 1, "quick": 3, "full": 5}	# processes per column, interleaved


class Measurement:
    """One table: `program` run in each of the columns of `kind`.

    kind  allocators  on malloc; a column for the C library, each peer and libslub
          backends    a column for each way to guard a CPU's lists (SLUB_FASTPATH)
          layouts     a column for each build with another slab descriptor
          processors  a column for the default build, and one for the build for a single CPU
          library     one column: libslub as built
    """

    def __init__(self, name, title, program, kind, sizes, **more):
        self.name, self.title, self.program, self.kind = name, title, program, kind
        self.sizes = dict(zip(MODES, sizes))
        self.seconds = dict(zip(MODES, more.get("seconds", (0.5, 1, 3))))	# a process, about
        self.environment = more.get("environment", {})
        self.rounds = dict(zip(MODES, more.get("rounds", ROUNDS.values())))
        self.preload = more.get("preload", False)	# on malloc, not linked with libslub
        self.header = more.get("header")		# the public header it is built for
        self.hidden = ("machine/*", "library/*", "left-out/*", "classic/*") + more.get("hidden", ())
        # Counted under a cache simulator: the arguments of the run that is taken off, and the
        # program's row that says how many operations are between the two.
        self.without = more.get("without")
        self.operations = more.get("operations")
        # Run under callgrind: the arguments of each case, and the function that is counted.
        self.profiled = more.get("profiled", ())
        self.toggle = more.get("toggle")
        self.sized = more.get("sized", False)	# bytes of code stand there too

    def arguments(self, mode):
        return self.sizes[mode].split()


HIDDEN_LOOP = ("loop", "loop/*")
FASTPATH = ("--loops=300000 --patterns=1000 --rounds=3", "--loops=20000000 --patterns=20000",
            "--loops=100000000 --patterns=100000")
ONE_CPU = " --cpus=1"
SLAB_TEST = ("--rounds=2", "--rounds=9", "--rounds=25")
PACKET = ("--intervals=2", "--intervals=5", "--intervals=20")
COLD = ("--objects=100000", "--objects=2097152", "")
# The descriptors are under test, not the pages going back to the system meanwhile.
KEEP = {"SLUB_RETAIN": "64G"}
COUNTED = "--objects=131072 --size=64 --mib=1000"

ALL = [
    Measurement("slab_test", "10,000 x kmalloc, then kfree; pairs; on every CPU; remote: cycles per"
                " operation", "slab_test", "allocators", SLAB_TEST, preload=True,
                seconds=(1, 2, 4)),
    Measurement("fastpath", "kmem fastpath reuse, N-pattern 256 on malloc(256): ns per alloc and"
                " free", "fastpath", "allocators", FASTPATH, preload=True, hidden=HIDDEN_LOOP,
                seconds=(0.3, 2, 9)),
    Measurement("fastpath_cache", "the same on a typed cache, inline, by backend", "fastpath_cache",
                "backends", FASTPATH, header="cache.h", hidden=HIDDEN_LOOP, seconds=(0.3, 2, 9)),
    Measurement("backends", "slab_test by backend: restartable sequence, a list per thread, double-"
                "word exchange with a transaction id, lock: cycles per operation", "slab_test",
                "backends", SLAB_TEST, preload=True, seconds=(1, 2, 4)),
    Measurement("backends_fastpath", "fastpath by backend: ns per alloc and free", "fastpath",
                "backends", FASTPATH, preload=True, hidden=HIDDEN_LOOP, seconds=(0.3, 2, 9)),
    Measurement("uniprocessor", "the default build and one for a single CPU (SLUB_SMP=OFF): bytes"
                " of code; fastpath on one CPU, ns per alloc and free", "fastpath", "processors",
                tuple(one + ONE_CPU for one in FASTPATH), preload=True, hidden=HIDDEN_LOOP,
                sized=True, seconds=(0.3, 1.5, 7)),
    Measurement("uniprocessor_cache", "the same on a typed cache, inline", "fastpath_cache",
                "processors", tuple(one + ONE_CPU for one in FASTPATH), header="cache.h",
                hidden=HIDDEN_LOOP, seconds=(0.3, 1.5, 7)),
    Measurement("uniprocessor_slab_test", "slab_test by both builds, on one CPU: cycles per"
                " operation", "slab_test", "processors",
                tuple(one + ONE_CPU for one in SLAB_TEST), preload=True, seconds=(1, 2, 4)),
    Measurement("qmempool", "qmempool_bench: ns per alloc and free", "qmempool", "library",
                ("--loops=100000 --patterns=500 --rounds=2", "--loops=5000000 --patterns=20000",
                 "--loops=30000000 --patterns=100000"), header="qmempool.h",
                hidden=("*/cycles",), seconds=(0.3, 2, 10)),
    Measurement("packet", "packets of one flow dropped, forwarded, forwarded by two CPUs: ns per"
                " packet", "packet", "allocators", PACKET, preload=True, seconds=(1, 2, 7)),
    Measurement("packet_cache", "the same, sk_buffs from a typed cache", "packet_cache", "library",
                PACKET, header="cache.h", seconds=(1, 2, 7)),
    Measurement("shared_cache", "Norm (one list under a lock) against PCPU (a list per CPU): cycles"
                " per allocation, and per alloc and free", "shared_cache", "library",
                ("--rounds=1", "--rounds=5", "--rounds=15"), seconds=(1, 3, 8)),
    Measurement("descriptor", "the three descriptors: MiB for a heap; cycles per change of the"
                " double word, by exchange or lock bit", "descriptor", "layouts",
                ("--loops=300000 --rounds=2", "", "--loops=30000000"), seconds=(0.5, 2, 4)),
    Measurement("cold_free", "16.8 million objects, each written, then freed in order: ns each",
                "cold_free", "layouts", COLD, preload=True, environment=KEEP, seconds=(2, 10, 40),
                rounds=(1, 2, 2), hidden=("objects/*",)),
    Measurement("cold_free_random", "the same, freed in random order", "cold_free", "layouts",
                tuple(size + " --order=random" for size in COLD), preload=True, environment=KEEP,
                seconds=(2, 10, 45), rounds=(1, 2, 2), hidden=("objects/*",)),
    Measurement("cold_free_references", "what a free refers to, in order, 64 bytes: counted by"
                " cachegrind with a last-level cache of 1 MiB, per object", "cold_free", "layouts",
                (COUNTED,) * 3, without=COUNTED + " --phase=alloc", operations="objects/64",
                preload=True, environment=KEEP, seconds=(2, 2, 2), rounds=(1, 1, 1)),
    Measurement("cold_free_random_references", "the same, freed in random order", "cold_free",
                "layouts", (COUNTED + " --order=random",) * 3,
                without=COUNTED + " --order=random --phase=alloc", operations="objects/64",
                preload=True, environment=KEEP, seconds=(2, 2, 2), rounds=(1, 1, 1)),
    Measurement("ramfs", "dd of a file into pages of the page layer, 2 GiB: MiB a second; ns a page"
                " without the copy", "ramfs", "layouts",
                ("--mib=64 --rounds=2", "--rounds=5", "--rounds=15"), environment=KEEP,
                seconds=(0.3, 9, 25)),
    Measurement("cpu_alloc", "cpu_alloc against arrays of pointers: access ns, alloc cycles,"
                " storage", "cpu_alloc", "library", ("--loops=100000 --rounds=2",
                                                     "--loops=3000000", ""),
                header="percpu.h", hidden=("*/cycles",), seconds=(0.5, 2, 6)),
    Measurement("shrink", "walks over 4,000 groups' shrinkers, lock-free against a read-write lock",
                "shrink", "library", ("--seconds=0.05 --groups=400", "--seconds=0.3", ""),
                header="shrinker.h", seconds=(2, 9, 29), rounds=(1, 2, 3)),
    Measurement("shrink_hot_spots", "what a pass over them runs: instructions, and the functions"
                " with most of them, counted by callgrind", "shrink", "library",
                ("--groups=400", "", ""), profiled=tuple(f"--walk={row} --passes=10" for row in
                                                         ("locked", "lock-free", "slub_shrink")),
                toggle="orig_walk", header="shrinker.h", seconds=(10, 15, 15), rounds=(1, 1, 1)),
]


def choose(names):
    if names is None:
        return ALL
    unknown = [name for name in names if name not in {one.name for one in ALL} | {"bloat"}]
    if unknown:
        raise SystemExit(f"bench/kernel/run: no measurement named {', '.join(unknown)}; there are "
                         + ", ".join([one.name for one in ALL] + ["bloat"]))
    return [one for one in ALL if one.name in names]
