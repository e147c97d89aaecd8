#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: `slub run` preloads the library or says why it cannot, with the shell's exit statuses;
`slub check` tells by its exit status whether a process uses it, and `slub doctor` whether a program
can; all refuse wrong arguments with what would be right.

usage: tool_test.py SLUB LIBRARY SLEEPER STATIC_SLEEPER OWN_SLEEPER PROBE OLD_SLEEPER OLD_LOADER"""

import ctypes
import json
import os
import re
import resource
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

NOBODY = 65534
SLUB = LIBRARY = SLEEPER = STATIC_SLEEPER = OWN_SLEEPER = PROBE = OLD_SLEEPER = OLD_LOADER = ""
LIBC_MATH = "libm.so.6"
BACKENDS = {"rseq": "1", "thread": "2", "tid": "3", "lock": "4"}


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLUB_", "LD_PRELOAD"))}
    env.update(LC_ALL="C.UTF-8", **more)
    return env


def slub(*arguments, program=None, user=None, **more):
    """Runs the command, as another user and group if asked to."""
    who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    return subprocess.run([program or SLUB, *arguments], env=environment(**more), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60, **who)


class Folder(unittest.TestCase):
    """A folder that anybody may read, with a copy of the command and the library in it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        self.slub = self.copy(SLUB, "slub")
        self.copy(LIBRARY, "libslub.so.1")

    def copy(self, source, name, mode=0o755):
        path = os.path.join(self.folder, name)
        shutil.copy(source, path)
        os.chmod(path, mode)
        return path

    def write(self, name, text, mode=0o755):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def assertRefused(self, done, status, *words):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, "", done)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("slub: "), lines)
        for word in words:
            self.assertIn(word, lines[0])


class Run(Folder):
    def test_the_library_is_in_the_process(self):
        done = slub("run", "--", "cat", "/proc/self/maps")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(os.path.realpath(LIBRARY), done.stdout)
        self.assertEqual(done.stderr, "")

    def test_status_and_arguments_are_the_commands(self):
        for status in (0, 1, 3, 77, 255):
            self.assertEqual(slub("run", "--", "sh", "-c", f"exit {status}").returncode, status)
        self.assertEqual(slub("run", "sh", "-c", "kill -TERM $$").returncode, -15)
        done = slub("run", "--", "printf", "%s|", "--verbose", "a b", "-f", "")
        self.assertEqual(done.stdout, "--verbose|a b|-f||")
        self.assertEqual(slub("run", "printf", "%s", "--help").stdout, "--help")

    def test_hardened(self):
        folder = os.path.join(self.folder, "hardened")
        os.mkdir(folder)
        shutil.copy(SLUB, folder)
        program = os.path.join(folder, "slub")
        self.assertRefused(slub("run", "--hardened", "true", program=program), 125,
                           "no libslub-hardened.so", "make hardened")
        # What it is named, not what is in it: tests/debug/hardened_test.py is about that.
        shutil.copy(LIBRARY, os.path.join(folder, "libslub-hardened.so"))
        done = slub("run", "--hardened", "--", "sh", "-c", "echo $LD_PRELOAD", program=program)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(done.stdout.strip(),
                         os.path.realpath(os.path.join(folder, "libslub-hardened.so")))

    def test_hardened_where_it_is_installed(self):
        # Not beside the other library, where ldconfig would take one for the other.
        installed = os.path.join(self.folder, "prefix")
        for folder in ("bin", "lib/slub"):
            os.makedirs(os.path.join(installed, folder))
        program = shutil.copy(SLUB, os.path.join(installed, "bin"))
        hardened = shutil.copy(LIBRARY, os.path.join(installed, "lib/slub/libslub-hardened.so"))
        done = slub("run", "--hardened", "--", "sh", "-c", "echo $LD_PRELOAD", program=program)
        self.assertEqual((done.returncode, done.stdout.strip()),
                         (0, os.path.realpath(hardened)), done)

    def test_settings_reach_the_library(self):
        for name, number in BACKENDS.items():
            done = slub("run", f"--fastpath={name}", "--", PROBE)
            self.assertIn(f"backend {number}\n", done.stdout, done)
        done = slub("run", "--retain", "5M", "--huge=never", PROBE)
        self.assertIn(f"retain_bytes {5 << 20}\n", done.stdout)
        self.assertIn("huge 0\n", done.stdout)

    def test_words_are_no_names_of_files(self):
        for option, variable, value in (("debug", "SLUB_DEBUG", "FZ,malloc-64;-"),
                                        ("debug", "SLUB_DEBUG", "-"),
                                        ("pressure", "SLUB_PRESSURE", "thread,some=150000"),
                                        ("pressure", "SLUB_PRESSURE", "off")):
            done = slub("run", f"--{option}={value}", "sh", "-c", f"echo ${variable}")
            self.assertEqual((done.stdout, done.stderr), (value + "\n", ""))

    def test_a_file_is_written_where_the_command_was_started(self):
        profile = os.path.join(self.folder, "profile")
        done = subprocess.run([SLUB, "run", "--profile_file=profile", sys.executable, "-c",
                               "import os; os.chdir('/')"], cwd=self.folder,
                              env=environment(), timeout=60, check=False)
        self.assertEqual(done.returncode, 0)
        with open(profile) as file:
            self.assertIn("heap profile:", file.readline())

    def test_other_preloads_are_kept_behind(self):
        done = slub("run", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="/nonexistent/other.so")
        first, second = done.stdout.strip().split(":")
        self.assertEqual(os.path.realpath(first), os.path.realpath(LIBRARY))
        self.assertEqual(second, "/nonexistent/other.so")

    def test_in_front_of_another_malloc(self):
        # Further behind it would be preloaded, and not used.
        behind = f"/nonexistent/other.so:{os.path.realpath(LIBRARY)}"
        done = slub("run", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=behind)
        self.assertEqual(done.stdout.strip(), f"{os.path.realpath(LIBRARY)}:{behind}")

    def test_twice_preloads_once(self):
        done = slub("run", SLUB, "run", "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual(len(done.stdout.strip().split(":")), 1)
        # The loader skips what parts names, and so does the command.
        library = os.path.realpath(LIBRARY)
        for listed in (f": :{library}", f"{library}: :", f" {library} /nonexistent/other.so"):
            done = slub("run", "sh", "-c", 'echo "$LD_PRELOAD"', LD_PRELOAD=listed)
            self.assertEqual(done.stdout, listed + "\n")
        for listed in (f"{library}x", f"x{library}", library[:-1], "", ":"):
            done = slub("run", "sh", "-c", 'echo "$LD_PRELOAD"', LD_PRELOAD=listed)
            self.assertEqual(done.stdout, library + (":" if listed else "") + listed + "\n")

    def test_a_folder_with_a_space_in_its_name(self):
        folder = os.path.join(self.folder, "with a space")
        os.mkdir(folder)
        program, library = (shutil.copy(os.path.realpath(path), folder)
                            for path in (SLUB, LIBRARY))
        done = slub("run", "cat", "/proc/self/maps", program=program, SLUB_LIBRARY=library)
        self.assertIn(library, done.stdout, done)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        named = os.path.join(folder, "lib slub.so")
        os.rename(library, named)
        self.assertRefused(slub("run", "true", program=program, SLUB_LIBRARY=named), 125, "space")

    def test_scripts(self):
        path = self.write("script", "#!/bin/sh\nexit 9\n")
        self.assertEqual(slub("run", path).returncode, 9)

    def test_help(self):
        done = slub("run", "--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--mode", "--verbose", "--retain", "126", "127"):
            self.assertIn(word, done.stdout)


class RunRefuses(Folder):
    def test_missing(self):
        self.assertRefused(slub("run", "no-such-program"), 127, "no-such-program")
        self.assertRefused(slub("run", "/nonexistent/program"), 127, "/nonexistent/program")
        self.assertRefused(slub("run", ""), 127)

    def test_not_executable(self):
        path = self.write("text", "text\n", 0o644)
        self.assertRefused(slub("run", path), 126, path)
        self.assertRefused(slub("run", self.folder), 126, self.folder)

    def test_script_without_its_interpreter(self):
        path = self.write("script", "#!/nonexistent/interpreter\n")
        self.assertRefused(slub("run", path), 127, path, "/nonexistent/interpreter")

    def test_static(self):
        self.assertRefused(slub("run", STATIC_SLEEPER), 126, "static", STATIC_SLEEPER)
        self.assertEqual(slub("run", "--force", STATIC_SLEEPER).stdout, "ready\n")

    def test_other_architecture(self):
        with open(SLEEPER, "rb") as file:
            image = bytearray(file.read())
        image[18:20] = (183 if image[18] != 183 else 62).to_bytes(2, "little")
        path = os.path.join(self.folder, "other")
        with open(path, "wb") as file:
            file.write(image)
        os.chmod(path, 0o755)
        self.assertRefused(slub("run", path), 126, path, "cannot be preloaded")

    def test_other_word_size(self):
        with open(SLEEPER, "rb") as file:
            image = bytearray(file.read())
        image[4] = 1
        path = os.path.join(self.folder, "narrow")
        with open(path, "wb") as file:
            file.write(image)
        os.chmod(path, 0o755)
        self.assertRefused(slub("run", path), 126, path)

    def test_other_c_library(self):
        with open(SLEEPER, "rb") as file:
            image = file.read()
        path = os.path.join(self.folder, "musl")
        with open(path, "wb") as file:
            file.write(image.replace(b"/ld-linux-x86-64.so.2\0", b"/ld-musl-x86_64.so.1\0\0"))
        os.chmod(path, 0o755)
        done = slub("run", path)
        self.assertRefused(done, 127, "ld-musl")  # nor does its loader exist

    def test_damaged(self):
        path = os.path.join(self.folder, "damaged")
        with open(path, "wb") as file:
            file.write(b"\x7fELF" + b"\xff" * 30)
        os.chmod(path, 0o755)
        self.assertRefused(slub("run", path), 126, path)

    def test_no_library(self):
        self.assertRefused(slub("run", "true", SLUB_LIBRARY="/nonexistent/libslub.so"), 125,
                           "SLUB_LIBRARY", "/nonexistent/libslub.so")
        alone = os.path.join(self.folder, "alone")
        os.mkdir(alone)
        shutil.copy(SLUB, alone)
        self.assertRefused(slub("run", "true", program=os.path.join(alone, "slub")), 125,
                           "SLUB_LIBRARY")

    def test_no_file_descriptor_left(self):
        """One is enough for the loader, and for the program that is examined."""
        limit = (4, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        for command in ("run", "doctor"):
            done = subprocess.run([SLUB, command, "true"], env=environment(), text=True,
                                  capture_output=True, timeout=60,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                        limit))
            told = done.stdout + done.stderr
            self.assertIn("Too many open files", told)
            self.assertNotIn("ELF", told)
        self.assertRefused(slub("run", "true", SLUB_LIBRARY=self.write("text", "text\n" * 20)), 126,
                           "not an ELF file")

    def test_library_that_is_none(self):
        path = self.write("text.so", "text\n")
        done = slub("run", "true", SLUB_LIBRARY=path)
        self.assertIn(done.returncode, (125, 126), done)
        self.assertIn(path, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make set-user-ID programs")
    def test_privileged(self):
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")
        for bit, word in ((stat.S_ISUID, "setuid"), (stat.S_ISGID, "setgid")):
            path = self.copy(SLEEPER, word, 0o755 | bit)
            done = slub("run", path, program=self.slub, user=NOBODY)
            self.assertRefused(done, 126, word, path)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setcap"), "needs root and setcap")
    def test_capabilities(self):
        path = self.copy(SLEEPER, "capable")
        if subprocess.run(["setcap", "cap_net_raw+ep", path], check=False,
                          capture_output=True).returncode:
            self.skipTest("the file system keeps no capabilities")
        self.assertRefused(slub("run", path, program=self.slub, user=NOBODY), 126, "capabilities")


class WrongArguments(Folder):
    def test_commands(self):
        self.assertRefused(slub("rnu", "true"), 2, "rnu", "run")
        self.assertRefused(slub("chek", "1"), 2, "chek", "check")
        self.assertRefused(slub("frobnicate"), 2, "frobnicate")
        self.assertRefused(slub("--verison"), 2, "verison", "version")
        self.assertRefused(slub("help", "run", "more"), 2, "usage")

    def test_run(self):
        self.assertRefused(slub("run"), 2, "usage")
        self.assertRefused(slub("run", "--"), 2, "usage")
        self.assertRefused(slub("run", "--fastpth=rseq", "true"), 2, "fastpth", "--fastpath")
        self.assertRefused(slub("run", "--fastpath=bogus", "true"), 2, "bogus", "rseq", "thread",
                           "tid", "lock", "auto")
        self.assertRefused(slub("run", "--fastpath"), 2, "fastpath")
        self.assertRefused(slub("run", "--retain=12Q", "true"), 2, "12Q", "K", "M", "G")
        self.assertRefused(slub("run", "--retain=-1", "true"), 2, "-1", "from 0 to 64T")
        self.assertRefused(slub("run", "--address_space=1M", "true"), 2,
                           "not 0, or a number of bytes from 8M to 64T")
        self.assertRefused(slub("run", "--limit=1", "true"), 2,
                           "not 'auto', 0, or a number of bytes from 1M to 64T")
        self.assertRefused(slub("run", "--guard_places=1", "true"), 2,
                           "not 0, or a number from 16 to 16384")
        self.assertRefused(slub("run", "--test_cpus=9000", "true"), 2,
                           "not a number from 0 to 8192")
        self.assertRefused(slub("run", "--address_space=1K", "true"), 2, "1K")
        self.assertRefused(slub("run", "--huge=", "true"), 2, "never", "block", "always")
        self.assertRefused(slub("run", "--force=1", "true"), 2, "force")
        self.assertRefused(slub("run", "-z", "true"), 2, "-z")
        self.assertRefused(slub("run", "--debug_leaks=", "true"), 2, "debug_leaks")
        self.assertRefused(slub("run", "--debug_leaks=/nonexistent/t", "true"), 2, "/nonexistent")
        self.assertRefused(slub("run", "--stats_file=/" + 511 * "x", "true"), 2, "511")
        self.assertRefused(slub("run", "--debug=FX,malloc-64", "true"), 2, "'X'", "F Z P U")
        self.assertRefused(slub("run", "--debug=FZ," + 509 * "x", "true"), 2, "--debug", "511")
        self.assertRefused(slub("run", "--debug", "--", "true"), 2, "--debug=LETTERS")
        self.assertEqual(slub("run", "--debug=FZ," + 508 * "x", "true").returncode, 0)
        self.assertRefused(slub("run", "--pressure=" + 128 * "off," + "off", "true"), 2, "511")
        for value in ("threads", "some=", "thread,window=2s", "thread,", "some=0",
                      "full=10000001", "window=18446744073709551617"):
            self.assertRefused(slub("run", f"--pressure={value}", "true"), 2, value, "some=US")

    def test_check(self):
        for arguments in ([], ["1", "2"], ["x"], ["-1"], ["0"], ["99999999999"], ["1x"], [""],
                          ["--jsno", "1"]):
            with self.subTest(arguments=arguments):
                done = slub("check", *arguments)
                self.assertEqual(done.returncode, 2, done)
                self.assertTrue(done.stderr.startswith("slub: "), done)

    def test_help_and_version(self):
        for arguments in (["--help"], ["help"], ["help", "run"], ["help", "check"],
                          ["check", "--help"], ["-h"]):
            done = slub(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
            self.assertIn("usage", done.stdout)
        self.assertRegex(slub("--version").stdout, r"^slub \d+\.\d+")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([SLUB, "--help"], stdout=full, stderr=subprocess.PIPE,
                                  env=environment(), text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("slub: ", done.stderr)


class Check(Folder):
    def start(self, *command, **more):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=environment(**more))
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return str(process.pid)

    def test_in_use_with_each_backend(self):
        for name in BACKENDS:
            pid = self.start(SLUB, "run", f"--fastpath={name}", SLEEPER)
            done = slub("check", pid)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertRegex(done.stdout, rf"(?m)^backend +{name}$")
            self.assertIn("page size", done.stdout)
            self.assertIn("CPU number", done.stdout)

    def test_json(self):
        pid = self.start(SLUB, "run", SLEEPER)
        told = json.loads(slub("check", "--json", pid).stdout)
        self.assertEqual((told["kind"], told["pid"], told["in_use"]), ("check", int(pid), True))
        self.assertEqual(told["page_size_bytes"], os.sysconf("SC_PAGESIZE"))
        self.assertGreater(told["range"]["bytes"], 0)
        other = self.start(SLEEPER)
        told = json.loads(slub("check", "--json", other).stdout)
        self.assertFalse(told["in_use"])

    def test_linked_and_static_programs(self):
        for program in (OWN_SLEEPER, STATIC_SLEEPER):
            done = slub("check", self.start(program))
            self.assertEqual(done.returncode, 0, done)

    def test_not_in_use(self):
        done = slub("check", self.start(SLEEPER))
        self.assertEqual((done.returncode, done.stderr), (1, ""), done)

    def test_quiet(self):
        for pid, status in ((self.start(SLUB, "run", SLEEPER), 0), (self.start(SLEEPER), 1)):
            done = slub("check", "--quiet", pid)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", ""))

    def test_the_process_is_not_stopped(self):
        pid = self.start(SLUB, "run", SLEEPER)
        slub("check", pid)
        with open(f"/proc/{pid}/status") as file:
            text = file.read()
        self.assertRegex(text, r"TracerPid:\t0\n")
        self.assertRegex(text, r"State:\t[SR]")

    def test_replaced_library_file(self):
        library = self.copy(LIBRARY, "libslub.so.1")
        pid = self.start(self.slub, "run", SLEEPER)
        os.unlink(library)
        self.assertEqual(slub("check", pid).returncode, 0)

    def test_hardened_library_alone_and_beside_the_other(self):
        plain = self.copy(LIBRARY, "libslub.so.1")
        hardened = self.copy(LIBRARY, "libslub-hardened.so")
        for first, preload in ((hardened, hardened), (hardened, f"{hardened}:{plain}"),
                               (plain, f"{plain}:{hardened}")):
            done = slub("check", self.start(SLEEPER, LD_PRELOAD=preload))
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(done.stdout, rf"(?m)^file +{re.escape(first)}$")

    def test_library_under_another_name(self):
        """Found by what is in it; alone, and beside one that has the name and is not used."""
        renamed = self.copy(LIBRARY, "libfoo.so")
        plain = self.copy(LIBRARY, "libslub.so.1")
        for preload in (renamed, f"{renamed}:{plain}", f"{LIBC_MATH}:{renamed}"):
            pid = self.start(SLEEPER, LD_PRELOAD=preload)
            done = slub("check", pid)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertRegex(done.stdout, rf"(?m)^file +{re.escape(renamed)}$")
            for command in ("stats", "options", "map", "doctor"):
                self.assertEqual(slub(command, pid).returncode, 0, (command, preload))
        os.unlink(renamed)
        self.assertEqual(slub("check", pid).returncode, 0)

    def test_process_by_option(self):
        pid = self.start(SLUB, "run", SLEEPER)
        for command in ("check", "doctor"):
            for option in (["-p", pid], [f"--process={pid}"]):
                self.assertEqual(slub(command, *option).returncode, 0, (command, option))
            self.assertRefused(slub(command, "-p", pid, pid), 2, "needs one")

    def test_no_such_process(self):
        process = subprocess.Popen(["true"])
        process.wait()
        self.assertRefused(slub("check", str(process.pid)), 4, str(process.pid))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_no_permission(self):
        pid = self.start(SLUB, "run", SLEEPER)
        self.assertRefused(slub("check", pid, program=self.slub, user=NOBODY), 3, pid)


class Doctor(Folder):
    def findings(self, target, status, **more):
        done = slub("doctor", "--json", target, **more)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done)
        told = json.loads(done.stdout)
        self.assertEqual(told["works"], status == 0)
        return {finding["what"]: finding for finding in told["findings"]}

    def test_what_will_work(self):
        found = self.findings(SLEEPER, 0)
        self.assertEqual(found["loader"]["finding"], "ok")
        self.assertEqual(found["allocator"]["finding"], "ok")
        for what in ("program", "privilege", "page size", "TLS", "rseq", "membarrier", "seccomp",
                     "address space", "overcommit", "mappings", "CPUs", "cgroup"):
            self.assertIn(what, found)
        script = self.write("script", f"#!{SLEEPER}\n")
        self.assertEqual(self.findings(script, 0)["program"]["text"],
                         f"{SLEEPER}, by way of {script}")

    def test_what_has_it_inside(self):
        for program in (STATIC_SLEEPER, OWN_SLEEPER):
            self.assertIn("linked into", self.findings(program, 0)["libslub"]["text"])

    def test_what_will_not_work(self):
        with open(SLEEPER, "rb") as file:
            image = bytearray(file.read())
        image[18:20] = (183 if image[18] != 183 else 62).to_bytes(2, "little")
        path = self.write("other", "")
        with open(path, "wb") as file:
            file.write(image)
        self.assertEqual(self.findings(path, 1)["machine"]["finding"], "problem")
        with open(path, "wb") as file:
            file.write(b"\x7fELF" + b"\xff" * 30)
        self.assertEqual(self.findings(path, 1)["file"]["finding"], "problem")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make set-user-ID programs")
    def test_privileged(self):
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")
        path = self.copy(SLEEPER, "privileged", 0o755 | stat.S_ISUID)
        found = self.findings(path, 1, program=self.slub, user=NOBODY)
        self.assertIn("setuid", found["privilege"]["text"])

    def test_limits(self):
        done = subprocess.run(["sh", "-c", f"ulimit -v 4000000; {SLUB} doctor {SLEEPER}"],
                              text=True, capture_output=True, env=environment(), timeout=60)
        self.assertRegex(done.stdout, r"(?m)^note +address space +4096000000 bytes")

    def test_filter(self):
        """Its own, which the program that it would start inherits."""
        statement = struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)	# allows everything
        text = ctypes.create_string_buffer(statement, len(statement))
        program = ctypes.create_string_buffer(struct.pack("HP", 1, ctypes.addressof(text)))
        prctl = ctypes.CDLL(None).prctl

        def shut():
            if prctl(38, 1, 0, 0, 0) or prctl(22, 2, program, 0, 0):
                os._exit(77)

        done = subprocess.run([SLUB, "doctor", SLEEPER], text=True, capture_output=True,
                              env=environment(), preexec_fn=shut, timeout=60)
        if done.returncode == 77:
            self.skipTest("no seccomp filters here")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"(?m)^note +seccomp +filters in force: \w+; .*membarrier")

    def test_process(self):
        process = subprocess.Popen([SLUB, "run", SLEEPER], stdin=subprocess.PIPE, text=True,
                                   stdout=subprocess.PIPE, env=environment())
        self.addCleanup(process.communicate)
        process.stdout.readline()
        self.assertIn("in use", self.findings(str(process.pid), 0)["libslub"]["text"])

    def test_process_without_rseq(self):
        """The process's own tunables count, not those of who asks."""
        off = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
        found = {}
        for name, its, ours in (("off", off, {}), ("on", {}, off)):
            process = subprocess.Popen([SLUB, "run", SLEEPER], stdin=subprocess.PIPE, text=True,
                                       stdout=subprocess.PIPE, env=environment(**its))
            self.addCleanup(process.communicate)
            process.stdout.readline()
            found[name] = self.findings(str(process.pid), 0, **ours)
        self.assertIn("backend thread", found["off"]["libslub"]["text"])
        self.assertIn("GLIBC_TUNABLES switches it off", found["off"]["rseq"]["text"])
        self.assertNotIn("GLIBC_TUNABLES", found["on"]["rseq"]["text"])

    def test_c_library_that_registers_no_threads(self):
        """This system's loader without the name of what says where they are registered."""
        with open(f"/lib64/{os.path.basename(OLD_LOADER)}", "rb") as file:
            loader = file.read()
        if b"\0__rseq_offset\0" not in loader:
            self.skipTest("this system's registers none either")
        os.makedirs(os.path.dirname(OLD_LOADER), exist_ok=True)
        with open(OLD_LOADER, "wb") as file:
            file.write(loader.replace(b"\0__rseq_offset\0", b"\0__rseq_offseT\0"))
        os.chmod(OLD_LOADER, 0o755)
        self.addCleanup(shutil.rmtree, os.path.dirname(OLD_LOADER))
        process = subprocess.Popen([SLUB, "run", OLD_SLEEPER], stdin=subprocess.PIPE, text=True,
                                   stdout=subprocess.PIPE, env=environment())
        self.addCleanup(process.communicate)
        process.stdout.readline()
        found = self.findings(str(process.pid), 0)
        self.assertIn("backend thread", found["libslub"]["text"])
        for rseq in (found["rseq"], self.findings(OLD_SLEEPER, 0)["rseq"]):
            self.assertEqual(rseq["finding"], "note")
            self.assertIn("2.35", rseq["text"])
        self.assertEqual(self.findings(SLEEPER, 0)["rseq"]["finding"], "ok")


if __name__ == "__main__":
    if len(sys.argv) != 9:
        sys.exit(__doc__)
    (SLUB, LIBRARY, SLEEPER, STATIC_SLEEPER, OWN_SLEEPER, PROBE, OLD_SLEEPER,
     OLD_LOADER) = map(os.path.abspath, sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
