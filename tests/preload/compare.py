#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program script without and with libslub preloaded and compares them.

usage: compare.py LIBRARY SCRIPT

SCRIPT is a shell script whose head may say "# needs: COMMAND...", "# owner: COMMAND", the command
whose process has to have libslub as its malloc, and "# server: NAME...", programs that it starts,
maybe under another user: each is looked for while the script runs, and must have mapped the
library.  It runs in an empty folder, the same for
both runs, with a fixed environment.  What it writes on stdout, its exit status, and the absence of
complaints by the loader must be equal.  Exit status 77: something it needs is missing, and named.
"""

import contextlib
import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SKIPPED = 77
SECONDS = 600


def header(script, key):
    found = re.search(rf"^# {key}: *(.*)$", script.read_text(), re.MULTILINE)
    return found.group(1).split() if found else []


def environment(folder, library):
    keep = ("PATH", "HOME", "PYENV_VERSION", "JAVA_HOME", "CARGO_HOME", "RUSTUP_HOME", "GOROOT")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    # The allocator's own settings pass through, so that every backend can be tried.
    env.update((k, v) for k, v in os.environ.items() if k.startswith("SLUB_"))
    programs = os.path.dirname(os.path.abspath(sys.argv[2]))
    env.update(LC_ALL="C.UTF-8", TZ="UTC", PYTHONHASHSEED="0", TMPDIR=folder,
               SOURCE_DATE_EPOCH="1700000000", PROGRAMS=programs)
    if library:
        env["LD_PRELOAD"] = library
    return env


class Servers(threading.Thread):
    """Which of the programs `names` have mapped `library`, as far as they are met.  The path of the
    library tells this run's programs from others: it is a copy for this run alone.  A mark in the
    environment does not, for a server that sets its title writes over it."""

    def __init__(self, names, library):
        super().__init__(daemon=True)
        self.names, self.library = set(names), library
        self.with_it = set()
        self.over = threading.Event()

    def run(self):
        while self.names - self.with_it and not self.over.wait(0.02):
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                # It may end at any moment, or be another user's.
                with contextlib.suppress(OSError):
                    self.look(process)

    def look(self, process):
        # Its own name for itself: the file may be the target of a link of that name.
        name = (process / "comm").read_text().strip()
        if name not in self.names:
            return
        if self.library in (process / "maps").read_text():
            self.with_it.add(name)

    def missing(self):
        self.over.set()
        self.join()
        return sorted(self.names - self.with_it)


def run(script, library):
    """One run in a fresh folder, of one name for both runs; gives status, stdout, stderr."""
    servers = Servers(header(script, "server") if library else [], library)
    servers.start()
    status, out, err = run_script(script, library)
    missing = servers.missing()
    if missing:
        return status or 1, out, f"{err}\nno {' or '.join(missing)} has loaded {library}\n"
    return status, out, err


def run_script(script, library):
    folder = os.path.join(tempfile.gettempdir(), f"slub-compare-{os.getpid()}-{script.stem}")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", str(script.resolve())], cwd=folder,
        env=environment(folder, library), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err += f"\ncompare.py: killed after {SECONDS} seconds\n"
    shutil.rmtree(folder, ignore_errors=True)
    return process.returncode, out, err


def library_is_used(library, owner):
    """Does a process of `owner` map the library, and no complaint come from the loader?"""
    env = dict(os.environ, LD_PRELOAD=library)
    done = subprocess.run(["cat", "/proc/self/maps"], env=env, capture_output=True, text=True)
    if os.path.basename(library) not in done.stdout:
        print(f"the loader does not preload {library}:\n{done.stderr}")
        return False
    path = os.path.realpath(shutil.which(owner) or "") if owner else ""
    if path and open(path, "rb").read(4) == b"\x7fELF":
        symbols = subprocess.run(["ldd", path], env=env, capture_output=True, text=True)
        if os.path.basename(library) not in symbols.stdout:
            print(f"{path} does not load {library}:\n{symbols.stdout}{symbols.stderr}")
            return False
    return True


@contextlib.contextmanager
def copied(library):
    """A copy of the library for this run alone, which a server that gave up root's rights can read
    too."""
    with tempfile.TemporaryDirectory(prefix="slub-compare-") as folder:
        os.chmod(folder, 0o755)
        yield shutil.copy(library, folder)


def show_difference(plain, preloaded):
    diff = difflib.unified_diff(plain[1].splitlines(), preloaded[1].splitlines(),
                                "stdout without libslub", "stdout with libslub", lineterm="", n=2)
    print("\n".join(list(diff)[:60]) or "--- stdout is equal")
    print(f"--- exit status: {plain[0]} without, {preloaded[0]} with libslub")
    print(f"--- stderr with libslub:\n{preloaded[2][-4000:]}")


def main(library, script):
    with copied(os.path.realpath(library)) as copy:
        return compare(copy, pathlib.Path(script))


def compare(library, script):
    missing = [name for name in header(script, "needs") if not shutil.which(name)]
    if missing:
        print(f"skipped: missing {', '.join(missing)}")
        return SKIPPED
    owner = header(script, "owner")
    if not library_is_used(library, owner[0] if owner else None):
        return 1
    plain = run(script, None)
    if plain[0] == SKIPPED:
        print(plain[1] + plain[2])
        return SKIPPED
    if plain[0] != 0:
        print(f"fails without libslub already: status {plain[0]}\n{plain[1]}{plain[2]}")
        return 1
    if not plain[1].strip():
        print("prints nothing: the comparison would prove nothing")
        return 1
    preloaded = run(script, library)
    complaints = re.findall(r".*(?:cannot be preloaded|ld\.so:).*", preloaded[2])
    if preloaded[:2] == plain[:2] and not complaints:
        print(f"equal: {len(plain[1].splitlines())} lines of output, status {plain[0]}")
        return 0
    show_difference(plain, preloaded)
    return 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
