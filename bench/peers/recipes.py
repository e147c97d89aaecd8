# SPDX-License-Identifier: MIT
"""How each peer is built: the release options its own build uses, as one preloadable library."""
import inspect
import os
import re
import shutil

JOBS = str(os.cpu_count() or 1)


def _grep(path, pattern):
    with open(path, encoding="utf-8", errors="replace") as file:
        found = re.search(pattern, file.read(), re.M)
    return found.group(1) if found else "unknown"


class Peer:
    """One allocator: the crate that carries its source, and how that is built."""
    name = title = crate = version = ""
    env = {}		# what a program needs in its environment besides LD_PRELOAD

    def recipe_text(self):
        """The recipe itself, so that a changed one builds again."""
        return inspect.getsource(type(self))

    def says(self, source):
        """The allocator's own version."""
        raise NotImplementedError

    def build(self, source, work, library, run):
        """Leave the preloadable library at the path `library`."""
        raise NotImplementedError


class Mimalloc(Peer):
    name, title = "mimalloc", "mimalloc 3"
    crate, version = "libmimalloc-sys", "0.1.49"
    options = []

    def says(self, source):
        header = os.path.join(source, "c_src/mimalloc/v3/include/mimalloc.h")
        number = int(_grep(header, r"define MI_MALLOC_VERSION\s+(\d+)"))
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def build(self, source, work, library, run):
        # The crate leaves out the cmake folder that mimalloc's own CMake file needs: these are
        # that file's options for a release build of the shared library, on its one-file source.
        tree = os.path.join(source, "c_src/mimalloc/v3")
        run(["cc", "-std=gnu11", "-O3", "-DNDEBUG", "-DMI_BUILD_RELEASE", "-DMI_SHARED_LIB",
             "-DMI_SHARED_LIB_EXPORT", "-DMI_MALLOC_OVERRIDE", "-fPIC", "-fvisibility=hidden",
             "-fno-builtin-malloc", "-ftls-model=initial-exec", *self.options,
             f"-I{tree}/include", f"-I{tree}/src", "-shared", f"{tree}/src/static.c",
             "-o", library, "-pthread", "-lrt"])


class MimallocSecure(Mimalloc):
    """With MI_SECURE=4: encoded links, padding, double frees, random addresses."""
    name, title = "mimalloc-secure", "mimalloc 3 (secure)"
    options = ["-DMI_SECURE=4"]


class Jemalloc(Peer):
    name, title = "jemalloc", "jemalloc"
    crate, version = "tikv-jemalloc-sys", "0.7.1"

    def says(self, source):
        return _grep(os.path.join(source, "Cargo.toml"), r'^version = "[^+"]*\+([0-9.]+)')

    def build(self, source, work, library, run):
        tree = os.path.join(work, "jemalloc")
        shutil.copytree(os.path.join(source, "jemalloc"), tree)
        shutil.copy(os.path.join(source, "configure", "configure"), tree)
        full = _grep(os.path.join(source, "Cargo.toml"), r'^version = "[^+"]*\+([^"]+)"')
        run(["sh", "./configure", f"--with-version={full}", "--disable-doc", "--disable-static"],
            cwd=tree)
        run(["make", f"-j{JOBS}", "build_lib_shared"], cwd=tree)
        shutil.copy(os.path.join(tree, "lib/libjemalloc.so.2"), library)


class Snmalloc(Peer):
    name, title = "snmalloc", "snmalloc"
    crate, version = "snmalloc-sys", "0.7.6"

    def says(self, source):
        return self.version		# the crate counts with the allocator

    def build(self, source, work, library, run):
        tree = os.path.join(work, "build")
        run(["cmake", "-S", os.path.join(source, "upstream"), "-B", tree,
             "-DCMAKE_BUILD_TYPE=Release", "-DSNMALLOC_BUILD_TESTING=OFF"])
        run(["cmake", "--build", tree, "--target", "snmallocshim", "-j", JOBS])
        shutil.copy(os.path.join(tree, "libsnmallocshim.so"), library)


class Rpmalloc(Peer):
    name, title = "rpmalloc", "rpmalloc"
    crate, version = "rpmalloc-sys", "0.2.3"

    def says(self, source):
        release = _grep(os.path.join(source, "rpmalloc/CHANGELOG"), r"^(\d+\.\d+\.\d+)")
        commit = _grep(os.path.join(source, "Cargo.toml"), r'^version = "[^+"]*\+([0-9a-f]+)')
        return f"{release}+{commit}"

    def build(self, source, work, library, run):
        run(["cc", "-std=gnu11", "-O3", "-DNDEBUG", "-D_GNU_SOURCE=1", "-DENABLE_PRELOAD=1",
             "-DENABLE_OVERRIDE=1", "-fPIC", "-fno-builtin-malloc", "-ftls-model=initial-exec",
             "-shared", os.path.join(source, "rpmalloc/rpmalloc/rpmalloc.c"), "-o", library,
             "-pthread"])


class Tcmalloc(Peer):
    name, title = "tcmalloc", "TCMalloc (Google)"
    crate, version = "libtcmalloc-sys", "0.1.14"
    # Its per-CPU mode writes to the rseq area, so the C library must not have registered one.
    env = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}

    def says(self, source):
        return "of crate " + self.version

    def build(self, source, work, library, run):
        # The list of sources is the one in the crate's own build script, with the file of malloc
        # itself in place of the bridges to Rust. -O2 as the project's own release builds.
        with open(os.path.join(source, "build.rs"), encoding="utf-8") as file:
            names = re.findall(r'"(c_src/(?:abseil-cpp|tcmalloc)/[^"]+\.(?:cc|S))"', file.read())
        names.append("c_src/tcmalloc/tcmalloc/tcmalloc.cc")
        flags = ["-O2", "-DNDEBUG", "-DNOMINMAX", "-fPIC", "-w", "-fno-omit-frame-pointer",
                 "-DTCMALLOC_INTERNAL_8K_PAGES", "-ftls-model=initial-exec",
                 f"-I{source}/c_src/abseil-cpp", f"-I{source}/c_src/tcmalloc"]
        rules, objects = ["all: lib.so", ""], []
        for name in names:
            made = name.replace("/", "_") + ".o"
            objects.append(made)
            language = "cc" if name.endswith(".S") else "c++ -std=c++17"
            rules += [f"{made}:", f"\t{language} {' '.join(flags)} -c {source}/{name} -o {made}"]
        rules += [f"lib.so: {' '.join(objects)}", "\tc++ -shared -o lib.so $^ -pthread -lrt"]
        tree = os.path.join(work, "build")
        os.makedirs(tree)
        with open(os.path.join(tree, "Makefile"), "w", encoding="utf-8") as file:
            file.write("\n".join(rules) + "\n")
        run(["make", f"-j{JOBS}"], cwd=tree)
        shutil.copy(os.path.join(tree, "lib.so"), library)


class Hardened(Peer):
    name, title = "hardened", "hardened_malloc (full hardening)"
    crate, version = "hardened-malloc-sys", "16.0.2026071503"

    def says(self, source):
        return self.version		# the crate counts with the allocator

    def build(self, source, work, library, run):
        # The options are the crate's default ones, which are the allocator's own. It is written
        # in C23: compilers before that need a few of its words from headers.
        tree = os.path.join(source, "vendor", "hardened-malloc")
        with open(os.path.join(source, "config-default.conf"), encoding="utf-8") as file:
            options = ["-D" + line.strip() for line in file if re.match(r"\w+=", line)]
        flags = ["-O3", "-DNDEBUG", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-fno-plt",
                 f"-I{tree}", f"-I{tree}/include"] + options
        words = ["-std=c2x", "-Dthread_local=_Thread_local"]
        for header in ("stdalign.h", "stdbool.h", "assert.h"):
            words += ["-include", header]
        objects = []
        for name in ("chacha.c", "h_malloc.c", "memory.c", "pages.c", "random.c", "util.c"):
            objects.append(os.path.join(work, name + ".o"))
            run(["cc"] + words + flags + ["-c", os.path.join(tree, name), "-o", objects[-1]])
        objects.append(os.path.join(work, "new.o"))
        run(["c++", "-std=c++17"] + flags + ["-c", os.path.join(tree, "new.cc"),
                                             "-o", objects[-1]])
        run(["c++", "-shared", "-Wl,-z,defs,-z,now"] + objects + ["-o", library, "-pthread"])


# Only when asked for by name: bench/detection and tests/misuse measure them.
SECURE = [MimallocSecure()]
PEERS = [Mimalloc(), Snmalloc(), Jemalloc(), Rpmalloc(), Tcmalloc(), Hardened()]
