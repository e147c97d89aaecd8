#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: what the command prints of a heap that is made by hand (helpers/made.c), of its core and
of its statistics file is, line for line, what stands in made/*.txt.

Each `$ ARGUMENTS` there is a call, with what it prints behind it (`! ` before what goes to standard
error) and its exit status behind `=`.  `% process NAME=VALUE...`, or `% stats`, makes another heap
(helpers/made_change.c) for the calls behind it; what these print is told by how it differs from
what they print of the first one.  Lines behind `% file` are a file for them, and `% elf` makes one
(made_elf.py); ` ~ NAMES` keeps lines
of `slub doctor` with these names.  What an earlier call has printed is named by that call.
MADE_WRITE=1 writes the texts anew: look at what changed.

usage: made_test.py SLUB LIBRARY MADE FOLDER NAME..."""

import difflib
import gzip
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import unittest

NAMES = sys.argv[5:]
del sys.argv[5:]

import made_elf
from target import (GDB_SCRIPT as TEXTS, HEAP as MADE, LIBRARY, SLUB, Target, environment,
                    limit_core)

# The command itself runs on the library, which shall find nothing that it writes behind the end of
# a block or after its end, and fills what was not written yet.
WATCHED = {"LD_PRELOAD": LIBRARY, "SLUB_DEBUG": "FZP"}

BEFORE_PID = r'process +|PID |"pid": |pid="|`slub info -z |`slub debug '
# What depends on the machine, or on the moment.
VARIES = [
    # The stack goes through the C library, whose version decides how.
    (re.compile(r"((?:accessed by|died in) thread )\d+\n(?:\t.*\n)+"), r"\1PID\n\tSTACK\n"),
    (re.compile(r'(?ms)^  "died": \{.*?^  \},\n'), '  "died": STACK,\n'),
    (re.compile(r"\b((?:lib)?slub) (?!7\.8\.9)\d+\.\d+\.\d+\b"), r"\1 VERSION"),
    (re.compile(r"(rseq +Linux ).*"), r"\1VERSION"),
    (re.compile(r"it (?:waits|runs), .*?; (?=SLUB|--)"), "WHY; "),
    (re.compile(r"age=\d+/\d+/\d+"), "age=AGES"),
    (re.compile(r'("time": |"(?:min|average|max)": )\d{6,}(\.\d+)?'), r"\1NUMBER"),
    (re.compile(r"\b0x[4-9a-f][0-9a-f]{5}\b"), "CODE"),
    (re.compile(r"\+0x[0-9a-f]+\)"), "+OFFSET)"),
    (re.compile(r'"offset": "0x[0-9a-f]+"'), '"offset": "OFFSET"'),
    (re.compile(r'"ctor": [1-9]\d{6}\b'), '"ctor": CODE'),
    (re.compile(r"(CPUs +)\d+ possible"), r"\1N possible"),
    # Of the account: what is no part of the heap.
    (re.compile(r"(?m)^(RSS|  tables|  elsewhere) +\S+ +\d+"), r"\1 NUMBERS"),
    (re.compile(r'(slub_memory_bytes\{part="(?:tables|elsewhere)"\} )\d+'), r"\1NUMBER"),
    # Of the tour: the largest process on libslub.
    (re.compile(r"(?m)^(      slub (?:stats|top|leaks) )(?:\d+|PID)$"), r"\1PID"),
    (re.compile(r"(?m)^(?:On libslub here|No process here).*\n(?:  [ \d]+ .*\n|  and .*\n)*"),
     "PROCESSES\n"),
    (re.compile(r'("(?:rss|tables|elsewhere)_bytes": )\d+'), r"\1NUMBER"),
    (re.compile(r"(?m)^( +RSS +live .*\n) +\S+((?: +\S+){4}) +\S+ +\S+$"), r"\1 RSS\2 REST"),
    (re.compile(r"[\d.]+[KMG]? (are no part of libslub's heap: largest ).*?\)"),
     r"SIZE \1PLACE (SIZE)"),
    (re.compile(r'("(?:cpus_)?possible": )\d+'), r"\1N"),
]


def parts_of(path):
    """Each call, or line that makes a heap, and what stands behind it."""
    with open(path, encoding="utf-8") as file:
        for part in re.split(r"(?m)^(?=[$%] )", file.read()):
            head, _, told = part.partition("\n")
            if head:
                yield head, told


def difference(first, now):
    """Lines that are not in both; all of @now where that is less."""
    lines = [line for line in difflib.unified_diff(first.splitlines(True), now.splitlines(True),
                                                   n=0) if line[:2] != "@@"][2:]
    if not lines:
        return "the same\n"
    return now if len(lines) > now.count("\n") else "".join(lines)


def protobuf(data, depth=0):
    """Its fields, a line each: numbers, text, and messages in messages."""
    lines, at = [], 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            number |= (data[at] & 0x7f) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                return number

    while at < len(data):
        field, wire = divmod(varint(), 8)
        if wire == 0:
            lines.append(f"{'  ' * depth}{field}: {varint()}")
            continue
        size = varint()
        value = data[at:at + size]
        at += size
        # Of a profile the sixth are its strings.
        if depth == 0 and field == 6:
            lines.append(f"{field}: {value!r}")
        elif depth == 1 and field in (1, 2):
            lines.append(f"{'  ' * depth}{field}: {value.hex(' ')}")
        else:
            lines += [f"{'  ' * depth}{field}:", *protobuf(value, depth + 1)]
    return lines


class Core:
    """A core file, and where its parts are: of its head, of the segment of notes, the first one and
    that of the heap, and of notes."""
    HEAD = {"class": (4, "B"), "data": (5, "B"), "type": (16, "<H"), "machine": (18, "<H"),
            "phoff": (32, "<Q"), "shoff": (40, "<Q"), "phentsize": (54, "<H"),
            "phnum": (56, "<H")}
    SEGMENT = {"type": (0, "<I"), "flags": (4, "<I"), "offset": (8, "<Q"), "vaddr": (16, "<Q"),
               "filesz": (32, "<Q"), "memsz": (40, "<Q")}
    NOTE = {"namesz": (0, "<I"), "descsz": (4, "<I"), "type": (8, "<I")}
    NOTES = {"thread": 1, "info": 3, "signal": 0x53494749, "files": 0x46494c45}
    LOAD, PT_NOTE = 1, 4
    PIECE = 1 << 16

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.places = {}
        self.put("head", 0, self.HEAD)
        phoff, = struct.unpack_from("<Q", self.bytes, 32)
        for n in range(struct.unpack_from("<H", self.bytes, 56)[0]):
            self.segment(phoff + 56 * n)

    def put(self, name, at, fields):
        for field, (offset, form) in fields.items():
            self.places.setdefault(f"{name}.{field}", (at + offset, form))

    def segment(self, at):
        kind, _, offset, address, _, size, memory = struct.unpack_from("<IIQQQQQ", self.bytes, at)
        if kind == self.PT_NOTE:
            self.put("notes", at, self.SEGMENT)
            self.notes(offset, offset + size)
        if kind == self.LOAD and memory:
            self.put("first", at, self.SEGMENT)
        if kind == self.LOAD and address <= 0x610000010000 < address + memory:
            self.put("heap", at, self.SEGMENT)

    def notes(self, at, end):
        while at < end:
            name, size, kind = struct.unpack_from("<III", self.bytes, at)
            for what, number in self.NOTES.items():
                if kind == number:
                    self.put(what, at, self.NOTE)
                    self.put(what, at + 12 + (name + 3) // 4 * 4,
                             {"0": (0, "<Q"), "8": (8, "<Q"), "16": (16, "<Q"), "24": (24, "<Q"),
                              "signo": (0, "<I"), "pid": (24, "<I")})
            at += 12 + (name + 3) // 4 * 4 + (size + 3) // 4 * 4

    def write(self):
        """As it was; most of it are holes."""
        with open(self.path, "wb") as file:
            file.truncate(len(self.bytes))
            for at in range(0, len(self.bytes), self.PIECE):
                piece = self.bytes[at:at + self.PIECE]
                if piece.count(0) < len(piece):
                    file.seek(at)
                    file.write(piece)

    def change(self, changes):
        self.write()
        with open(self.path, "r+b") as file:
            for name, value in (change.split("=") for change in changes):
                if name == "size":
                    file.truncate(int(value, 0) % len(self.bytes))
                    continue
                at, form = self.places[name]
                more = struct.unpack_from(form, self.bytes, at)[0] if value[0] == "+" else 0
                file.seek(at)
                file.write(struct.pack(form, more + int(value.removeprefix("+"), 0)))


class Made(Target):
    maxDiff = None
    more = {}		# variables of the calls
    has_input = True	# are they run with a standard input?
    core = None
    runs_empty = False	# does `slub run` get programs without code?

    def setUp(self):
        super().setUp()
        with open(SLUB, "rb") as file:
            image = file.read()
        if b"libdw.so" not in image or b"libz.so" not in image:
            self.skipTest("the texts have names that elfutils finds, and what zlib compresses")
        if os.sysconf("SC_PAGE_SIZE") != 4096:
            self.skipTest("the heap that is made has pages of 4096 bytes")

    def start_made(self, *changes):
        process = subprocess.Popen([MADE, "wait", *changes], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, cwd=self.folder,
                                   preexec_fn=limit_core, text=True, env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def make(self, kind, *changes):
        """The target of calls, and a PID that they may name."""
        if kind == "core":
            if not self.core:
                process = self.start_made()
                os.rename(self.core_of(process), self.path("core"))
                self.core = Core(self.path("core"))
                self.core_pid = str(process.pid)
            self.core.change(changes)
            return self.path("core"), self.core_pid
        if kind == "process":
            pid = str(self.start_made(*changes).pid)
            return pid, pid
        subprocess.run([MADE, "stats", self.path("stats"), *changes], check=True,
                       env=environment())
        return self.path("stats"), "no pid"

    def said(self, call, target, pid):
        call, _, kept = call.partition(" ~ ")
        words = [word.replace("TARGET", target) for word in shlex.split(call)]
        done = subprocess.run([SLUB, *words], env=environment(TZ="UTC", **self.more),
                              cwd=self.folder, capture_output=True, stdin=subprocess.DEVNULL,
                              preexec_fn=None if self.has_input else lambda: os.close(0),
                              timeout=100, check=False)
        told = done.stdout
        if told[:2] == b"\x1f\x8b":
            told = "\n".join(protobuf(gzip.decompress(told))).encode()
        told = told.decode(errors="backslashreplace")
        told = "".join(line for line in told.splitlines(True)
                       if not kept or re.fullmatch(kept, (line.split() + [""])[1]))
        if told and not told.endswith("\n"):
            told += "(no end)\n"
        lines = done.stderr.decode(errors="backslashreplace").splitlines()
        status = done.returncode
        if self.runs_empty and words[0] == "run" and \
                all(re.match("slub: warning: |(?!slub: )", line) for line in lines):
            # What a program with nothing in it comes to is the loader's to say.
            lines = [line for line in lines if line.startswith("slub: ")]
            status = "of the program"
        told += "".join(f"! {line}\n" for line in lines)
        told += f"= {status}\n"
        for path, name in (("/usr/bin/", "/bin/"), (MADE, "MADE"), (self.folder, "FOLDER")):
            told = told.replace(path, name)
        told = re.sub(rf"({BEFORE_PID}){pid}\b", r"\1PID", told)
        told = re.sub(r'("rss_bytes_(?:before|after)": )[1-9]\d*', r"\1SOME", told)
        for pattern, text in VARIES[:4] if pid == "of a file" else VARIES:
            told = pattern.sub(text, told)
        return told

    def texts(self, parts, target, pid):
        """Of each part what it says now."""
        first, earlier, changes = {}, {}, None
        for head, told in parts:
            if head == "% file":
                # Its lines are what stands there; \\xNN is a byte.
                with open(self.path("file"), "wb") as file:
                    text = "".join(line[2:] for line in told.splitlines(True))
                    file.write(text.replace("FOLDER", self.folder).encode()
                               .decode("unicode_escape").encode("latin-1"))
                os.chmod(self.path("file"), 0o755)
                target, pid, changes = self.path("file"), "of a file", None
                yield told
                continue
            if head.startswith("% elf"):
                words = head.replace("FOLDER", self.folder).split()[2:]
                target, pid, changes = self.path("file"), "of a file", None
                if words and words[0] == "loader":
                    target = self.path(words.pop(0))
                with open(target, "wb") as file:
                    file.write(made_elf.made(words))
                os.chmod(target, 0o755)
                yield ""
                continue
            if head[0] == "%":
                kind, *changes = head[2:].split()
                if kind not in first:
                    first[kind] = (*self.make(kind), {})
                    # The file of a process that is made later is another.
                    first[kind][2].update((call, self.said(call, *first[kind][:2]))
                                          for call in self.calls_of(parts, kind))
                target, pid = self.make(kind, *changes)
                yield ""
                continue
            call = head[2:]
            now = self.said(call, target, pid)
            if changes:
                now = difference(first[kind][2][call], now)
            if now.count("\n") > 4 and now in earlier:
                now = f"as {earlier[now]}\n"
            earlier.setdefault(now, head)
            yield now

    @staticmethod
    def calls_of(parts, kind):
        is_kind, found = False, {}
        for head, _ in parts:
            if head[0] == "%":
                is_kind = head[2:].split()[0] == kind
            elif is_kind:
                found[head[2:]] = None
        return list(found)

    def check(self, name, target="none", pid="no pid"):
        path = os.path.join(TEXTS, name)
        parts = list(parts_of(path))
        texts = self.texts(parts, target, pid)
        if os.environ.get("MADE_WRITE"):
            written = [f"{head}\n{now}" for (head, _), now in zip(parts, texts)]
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(written)
            return
        for (head, told), now in zip(parts, texts):
            self.assertEqual(f"{head}\n{now}", f"{head}\n{told}")

    def test_process(self):
        self.more = WATCHED
        pid = str(self.start_made().pid)
        self.check("process.txt", pid, pid)
        self.check("explain.txt", pid, pid)

    def skip_without_cores(self):
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
            if set("/|") & set(file.read().strip()):
                self.skipTest("core files go elsewhere here")

    def test_core(self):
        self.skip_without_cores()
        self.more, self.has_input = WATCHED, False
        self.check("core.txt", *self.make("core"))

    def test_of_core(self):
        self.skip_without_cores()
        self.check("of_core.txt")

    def test_stats(self):
        self.more, self.has_input = WATCHED, False
        self.check("stats.txt", *self.make("stats"))

    def test_of_heap(self):
        self.check("of_heap.txt")

    def test_of_pages(self):
        self.check("of_pages.txt")

    def test_of_tracks(self):
        self.more = WATCHED
        self.check("of_tracks.txt")

    def test_of_groups(self):
        self.check("of_groups.txt")

    def test_of_file(self):
        self.has_input = False
        self.check("of_file.txt")

    def test_asked(self):
        """With helpers/made_mailbox.c."""
        self.check("asked.txt")

    def test_profile(self):
        self.more = WATCHED
        self.check("profile.txt")

    def test_script(self):
        os.mkdir(self.path("bin"))
        shutil.copy(MADE, self.path("bin/program"))
        shutil.copy(MADE, self.path("bin/other"))
        with open(self.path("bin/plain"), "w", encoding="utf-8") as file:
            file.write("text")
        self.more = {"PATH": self.path("bin") + ":/usr/bin:/bin", "NAMED": "program", "NONE": ""}
        self.check("script.txt")

    def test_elf(self):
        if not os.path.exists(made_elf.LOADER) or os.uname().machine != "x86_64":
            self.skipTest("needs x86-64, and glibc's loader")
        self.runs_empty = True
        self.check("elf.txt")

    def test_settings(self):
        self.check("settings.txt")

    def test_usage(self):
        self.check("usage.txt")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [f"Made.test_{name}" for name in NAMES], verbosity=2)
