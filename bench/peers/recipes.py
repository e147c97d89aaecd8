# SPDX-License-Identifier: MIT
"""How each peer is built: the release options its own build uses, as one preloadable library.

A recipe takes the allocator's own tree: that inside of a crate, or a checkout by path.
"""
import glob
import inspect
import os
import re
import shutil
import subprocess

JOBS = str(os.cpu_count() or 1)


class Unbuildable(Exception):
    """Why there is no recipe for that, in one line."""


def _grep(path, pattern):
    with open(path, encoding="utf-8", errors="replace") as file:
        found = re.search(pattern, file.read(), re.M)
    return found.group(1) if found else "unknown"


def _of_path(path, pattern):
    found = re.search(pattern, path or "")
    return found.group(1) if found else "unknown"


def revision(checkout):
    """What git calls a checkout: the nearest tag, commits since, commit, `-dirty`; or None."""
    command = ["git", "-c", "safe.directory=*", "-C", checkout, "describe", "--tags", "--always",
               "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    # Tags such as v3.4.3 and gperftools-2.18.1.
    return None if done.returncode else re.sub(r"^[a-z]+-?(?=\d+\.)", "", done.stdout.strip())


def compilers(work):
    """CMake's words for clang, where it is installed, and for a build in the folder `work`."""
    words = ["-B", work, "-DCMAKE_BUILD_TYPE=Release"]
    if shutil.which("clang") and shutil.which("clang++"):
        words += ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++"]
    return words


class Peer:
    """One allocator: the crate that carries its source, and how that is built."""
    name = title = crate = version = ""
    inside = ""		# where the allocator's own tree is in the crate
    env = {}		# what a program needs in its environment besides LD_PRELOAD

    def recipe_text(self):
        """The recipe itself, so that a changed one builds again."""
        return inspect.getsource(type(self))

    def says(self, source):
        """The allocator's own version, of the crate."""
        raise NotImplementedError

    def says_of(self, checkout):
        """The same of a checkout: the tag and the commit, where git knows them."""
        return revision(checkout) or "without a revision"

    def build(self, tree, work, library, run):
        """Leave the preloadable library at the path `library`."""
        raise NotImplementedError


class Packaged(Peer):
    """One that no crate carries: the library of a package, unless there is a checkout."""
    package = pattern = ""

    def found(self):
        return max(glob.glob(self.pattern), default=None)

    def build(self, tree, work, library, run):
        raise Unbuildable(f"{self.name} is taken from its package, not from a checkout")

    def says(self, source):
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", self.package],
                              capture_output=True, text=True, check=False) \
            if shutil.which("dpkg-query") else None
        said = done.stdout.strip() if done and not done.returncode else ""
        return f"{said or 'of the system'} (package)"


class Mimalloc(Peer):
    name, title = "mimalloc", "mimalloc 3"
    crate, version, inside = "libmimalloc-sys", "0.1.49", "c_src/mimalloc/v3"
    options, cmake_options = [], []

    def says(self, source):
        header = os.path.join(source, self.inside, "include/mimalloc.h")
        number = int(_grep(header, r"define MI_MALLOC_VERSION\s+(\d+)"))
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def build(self, tree, work, library, run):
        if os.path.isdir(os.path.join(tree, "cmake")):
            made = os.path.join(work, "build")
            run(["cmake", "-S", tree, "-B", made, "-DCMAKE_BUILD_TYPE=Release",
                 "-DMI_BUILD_TESTS=OFF", *self.cmake_options])
            run(["cmake", "--build", made, "--target", "mimalloc", "-j", JOBS])
            shutil.copy(max(glob.glob(os.path.join(made, "libmimalloc*.so"))), library)
            return
        # The crate leaves out the cmake folder that mimalloc's own CMake file needs: these are
        # that file's options for a release build of the shared library, on its one-file source.
        run(["cc", "-std=gnu11", "-O3", "-DNDEBUG", "-DMI_BUILD_RELEASE", "-DMI_SHARED_LIB",
             "-DMI_SHARED_LIB_EXPORT", "-DMI_MALLOC_OVERRIDE", "-fPIC", "-fvisibility=hidden",
             "-fno-builtin-malloc", "-ftls-model=initial-exec", *self.options,
             f"-I{tree}/include", f"-I{tree}/src", "-shared", f"{tree}/src/static.c",
             "-o", library, "-pthread", "-lrt"])


class MimallocSecure(Mimalloc):
    """With MI_SECURE=4: encoded links, padding, double frees, random addresses."""
    name, title = "mimalloc-secure", "mimalloc 3 (secure)"
    options, cmake_options = ["-DMI_SECURE=4"], ["-DMI_SECURE=ON"]


class Jemalloc(Peer):
    name, title = "jemalloc", "jemalloc"
    crate, version, inside = "tikv-jemalloc-sys", "0.7.1", "jemalloc"

    def says(self, source):
        return _grep(os.path.join(source, "Cargo.toml"), r'^version = "[^+"]*\+([0-9.]+)')

    def build(self, tree, work, library, run):
        copy = os.path.join(work, "jemalloc")
        shutil.copytree(tree, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        crate = os.path.dirname(tree)
        made, words = os.path.join(crate, "configure", "configure"), ["--disable-doc"]
        if os.path.exists(made):
            shutil.copy(made, copy)
            full = _grep(os.path.join(crate, "Cargo.toml"), r'^version = "[^+"]*\+([^"]+)"')
            words.append(f"--with-version={full}")
        elif not os.path.exists(os.path.join(copy, "configure")):
            run(["autoconf"], cwd=copy)
        run(["sh", "./configure", *words, "--disable-static"], cwd=copy)
        run(["make", f"-j{JOBS}", "build_lib_shared"], cwd=copy)
        shutil.copy(os.path.join(copy, "lib/libjemalloc.so.2"), library)


class Snmalloc(Peer):
    name, title = "snmalloc", "snmalloc"
    crate, version, inside = "snmalloc-sys", "0.7.6", "upstream"

    def says(self, source):
        return self.version		# the crate counts with the allocator

    def build(self, tree, work, library, run):
        # By clang, as docs/BUILDING.md has it: gcc before 14 makes slower code of it.
        made = os.path.join(work, "build")
        run(["cmake", "-S", tree, *compilers(made), "-DSNMALLOC_BUILD_TESTING=OFF"])
        run(["cmake", "--build", made, "--target", "snmallocshim", "-j", JOBS])
        shutil.copy(os.path.join(made, "libsnmallocshim.so"), library)


class Rpmalloc(Peer):
    name, title = "rpmalloc", "rpmalloc"
    crate, version, inside = "rpmalloc-sys", "0.2.3", "rpmalloc"

    def says(self, source):
        release = _grep(os.path.join(source, "rpmalloc/CHANGELOG"), r"^(\d+\.\d+\.\d+)")
        commit = _grep(os.path.join(source, "Cargo.toml"), r'^version = "[^+"]*\+([0-9a-f]+)')
        return f"{release}+{commit}"

    def build(self, tree, work, library, run):
        # Its own generator takes clang first.
        compiler = "clang" if shutil.which("clang") else "cc"
        run([compiler, "-std=gnu11", "-O3", "-DNDEBUG", "-D_GNU_SOURCE=1", "-DENABLE_PRELOAD=1",
             "-DENABLE_OVERRIDE=1", "-fPIC", "-fno-builtin-malloc", "-ftls-model=initial-exec",
             "-shared", os.path.join(tree, "rpmalloc/rpmalloc.c"), "-o", library, "-pthread"])


class Tcmalloc(Peer):
    name, title = "tcmalloc", "TCMalloc (Google)"
    crate, version, inside = "libtcmalloc-sys", "0.1.14", "c_src/tcmalloc"
    # Its per-CPU mode writes to the rseq area, so the C library must not have registered one.
    env = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}

    def says(self, source):
        # The crate names no revision of the sources that it carries.
        return f"crate {self.version}"

    @staticmethod
    def abseil(tree):
        """Beside the tree, as in the crate, or inside."""
        for folder in (os.path.join(tree, "..", "abseil-cpp"), os.path.join(tree, "abseil-cpp")):
            if os.path.isdir(os.path.join(folder, "absl")):
                return os.path.abspath(folder)
        raise Unbuildable(f"no abseil-cpp beside {tree}: TCMalloc is built with its sources")

    @staticmethod
    def sources(tree, abseil):
        """What both projects' own libraries have: not their tests, measurements and tools."""
        other = re.compile(r"test|benchmark|mock|fuzz|_main\.|matchers|print_hash|marshaler"
                           r"|/(testing|testdata|random|selsan/shadow)/|want_|_default_on"
                           r"|^/tcmalloc/internal/profile_builder|allocation_profile"
                           r"|compressibility|simulated_clock|check_op|/internal/fake"
                           r"|percpu_rseq_(x86_64|aarch64)|_win\b|win32")
        found = [path for root, folder in ((tree, "tcmalloc"), (abseil, "absl"))
                 for end in ("cc", "S")
                 for path in glob.glob(os.path.join(root, folder, "**", "*." + end),
                                       recursive=True)
                 if not other.search(path[len(root):])]
        return sorted(found)

    def listed(self, tree):
        """The crate's build script names the files; a checkout has no list of that kind."""
        script = os.path.join(tree, "..", "..", "build.rs")
        if not os.path.exists(script):
            return self.sources(tree, self.abseil(tree))
        with open(script, encoding="utf-8") as file:
            names = re.findall(r'"(c_src/(?:abseil-cpp|tcmalloc)/[^"]+\.(?:cc|S))"', file.read())
        # The file of malloc itself in place of the bridges to Rust.
        names.append("c_src/tcmalloc/tcmalloc/tcmalloc.cc")
        return [os.path.join(os.path.dirname(script), name) for name in names]

    def build(self, tree, work, library, run):
        # Its own builds, by Bazel and CMake, fetch the newest of five projects. -O2 as they do.
        flags = ["-O2", "-DNDEBUG", "-DNOMINMAX", "-fPIC", "-w", "-fno-omit-frame-pointer",
                 "-DTCMALLOC_INTERNAL_8K_PAGES", "-ftls-model=initial-exec",
                 f"-I{self.abseil(tree)}", f"-I{tree}"]
        rules, objects = ["all: lib.so", ""], []
        for number, name in enumerate(self.listed(tree)):
            objects.append(f"{number}.o")
            language = "cc" if name.endswith(".S") else "c++ -std=c++17"
            rules += [f"{number}.o:",
                      f"\t{language} {' '.join(flags)} -c {os.path.abspath(name)} -o {number}.o"]
        rules += [f"lib.so: {' '.join(objects)}",
                  "\tc++ -shared -Wl,--gc-sections -o lib.so $^ -pthread -lrt"]
        made = os.path.join(work, "build")
        os.makedirs(made)
        with open(os.path.join(made, "Makefile"), "w", encoding="utf-8") as file:
            file.write("\n".join(rules) + "\n")
        run(["make", f"-j{JOBS}"], cwd=made)
        shutil.copy(os.path.join(made, "lib.so"), library)


class Hardened(Peer):
    name, title = "hardened", "hardened_malloc (full hardening)"
    crate, version = "hardened-malloc-sys", "16.0.2026071503"
    inside = "vendor/hardened-malloc"

    def says(self, source):
        return self.version		# the crate counts with the allocator

    def build(self, tree, work, library, run):
        settings = os.path.join(tree, "..", "..", "config-default.conf")
        if not os.path.exists(settings):		# a checkout: by its own Makefile
            copy = os.path.join(work, "hardened")
            shutil.copytree(tree, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            run(["make", f"-j{JOBS}", "CONFIG_WERROR=false"], cwd=copy)
            shutil.copy(os.path.join(copy, "out", "libhardened_malloc.so"), library)
            return
        # The options are the crate's default ones, which are the allocator's own. It is written
        # in C23: compilers before that need a few of its words from headers.
        with open(settings, encoding="utf-8") as file:
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


class Gperftools(Packaged):
    """The older TCMalloc, with caches of threads: the library without the profilers."""
    name, title = "gperftools", "gperftools (tcmalloc_minimal)"
    package = "libtcmalloc-minimal4"
    pattern = "/usr/lib/*/libtcmalloc_minimal.so.4"

    def build(self, tree, work, library, run):
        made = os.path.join(work, "build")
        run(["cmake", "-S", tree, "-B", made, "-DCMAKE_BUILD_TYPE=Release",
             "-Dgperftools_build_minimal=ON", "-DBUILD_SHARED_LIBS=ON", "-DBUILD_TESTING=OFF"])
        run(["cmake", "--build", made, "--target", "tcmalloc_minimal", "-j", JOBS])
        shutil.copy(os.path.join(made, "libtcmalloc_minimal.so"), library)


class Scudo(Packaged):
    """LLVM's, which comes with clang; hardened, and slower by design."""
    name, title = "scudo", "Scudo"
    pattern = ("/usr/lib/llvm-*/lib/clang/*/lib/linux/"
               f"libclang_rt.scudo_standalone-{os.uname().machine}.so")

    def says(self, source):
        return "of clang " + _of_path(self.found(), r"/clang/([\d.]+)/")


# Only when asked for by name: bench/detection and tests/misuse measure them.
SECURE = [MimallocSecure()]
PEERS = [Mimalloc(), Snmalloc(), Jemalloc(), Rpmalloc(), Tcmalloc(), Gperftools(), Scudo(),
         Hardened()]
