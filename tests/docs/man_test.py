#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: everything public has a manual page that says what it does, returns, fails with and
where it may be called; the pages are free of mistakes that a machine finds.

usage: man_test.py SOURCE LIBRARY"""
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = LIBRARY = ""
# Read from another process by the tools, never called: abi.h in src/features/inspect, mailbox.h in
# src/features/debug.
OF_THE_TOOLS = {"slub_abi_state", "slub_debug_mailbox"}
FUNCTION_SECTIONS = ["NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS",
                     "CONTEXT"]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def headers():
    """The text of each public C header, comments taken out."""
    folder = os.path.join(SOURCE, "include", "slub")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h") and name not in ("slub.h", "version.h", "kernel.h"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield name, re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.DOTALL)


def names_of(page):
    """What stands in its NAME, before the dash."""
    line = re.search(r"^\.SH NAME\n(.*?) \\- ", page, re.MULTILINE | re.DOTALL).group(1)
    return line.replace("\\-", "-").split(", ")


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="slub-man-")
        made = subprocess.run([os.path.join(SOURCE, "scripts", "man"), "--strict", cls.folder],
                              capture_output=True, text=True, check=False)
        cls.complaints = made.stderr
        cls.pages = {}                          # "name.section": text
        for section in ("man3", "man7"):
            where = os.path.join(cls.folder, section)
            for name in os.listdir(where):
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    cls.pages[name] = file.read()
        cls.names = {name for text in cls.pages.values() for name in names_of(text)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def functions(self):
        """The pages of section 3, each once."""
        for name, text in sorted(self.pages.items()):
            if name.endswith(".3") and \
                    not os.path.islink(os.path.join(self.folder, "man3", name)):
                yield name, text

    def test_no_comment_lacks_anything(self):
        self.assertEqual(self.complaints, "")

    def test_every_exported_symbol_has_a_page(self):
        symbols = {line.split()[-1].split("@")[0]
                   for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()}
        ours = {name for name in symbols if name.startswith("slub_")}
        self.assertGreater(len(ours), 50)
        self.assertEqual(sorted(ours - self.names - OF_THE_TOOLS), [])

    def test_every_inline_function_has_a_page(self):
        found = set()
        for _, text in headers():
            found.update(re.findall(r"^SLUB_INLINE [^(;]*?(\w+)\(", text, re.MULTILINE))
            found.update(re.findall(r"^static inline [^(;]*?(\w+)\(", text, re.MULTILINE))
        self.assertIn("slub_read_lock", found)
        self.assertIn("slub_cache_alloc_fast", found)
        # The inline form of a function is described with it.
        found = {re.sub("_fast$", "", name) for name in found}
        self.assertEqual(sorted(found - self.names), [])

    def test_every_declared_function_has_a_page(self):
        found = set()
        for _, text in headers():
            for declaration in re.findall(r"^SLUB_API\s[^;]*;", text, re.MULTILINE):
                found.add(re.search(r"(\w+)\s*\(", declaration).group(1))
        self.assertGreater(len(found), 80)
        self.assertEqual(sorted(found - self.names), [])

    def test_every_macro_and_type_has_a_page(self):
        found = set()
        for _, text in headers():
            found.update(name for name in re.findall(r"^#define (\w+)", text, re.MULTILINE)
                         if not name.startswith("SLUB_INCLUDE_"))
            found.update(re.findall(r"^(?:struct|enum) (\w+) \{", text, re.MULTILINE))
        self.assertIn("SLUB_CACHE_DEFINE", found)
        self.assertIn("slub_cache_args", found)
        self.assertEqual(sorted(found - self.names), [])

    def test_every_header_has_a_page(self):
        for name, _ in headers():
            stem = "slub-" + name[:-2]
            self.assertTrue({stem, stem + ".h"} & self.names, name)
        self.assertIn("slub-kernel", self.names)

    def test_every_page_says_what_it_must(self):
        for name, text in self.functions():
            titles = [title.strip('"') for title in re.findall(r"^\.SH (.*)$", text,
                                                               re.MULTILINE)]
            missing = [title for title in FUNCTION_SECTIONS if title not in titles]
            self.assertEqual(missing, [], name)
            for title in titles:
                body = re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH |\Z)", text,
                                 re.MULTILINE | re.DOTALL).group(1)
                self.assertTrue(re.search(r"\w", body), f"{name}: {title} is empty")

    def test_every_error_exists(self):
        nr = 0
        for name, text in self.functions():
            errors = re.search(r"^\.SH ERRORS\n(.*?)^\.SH", text, re.MULTILINE | re.DOTALL)
            body = errors.group(1).replace("\\-", "-")
            for word in re.findall(r"(?<![\w])-?(E[A-Z0-9]{2,})\b", body):
                if word != "ERRORS":
                    self.assertTrue(hasattr(errno, word), f"{name}: {word}")
                    nr += 1
        self.assertGreater(nr, 50)

    def test_every_reference_leads_somewhere(self):
        """To a page that is generated, or to one that is written by hand."""
        written = set(os.listdir(os.path.join(SOURCE, "docs", "man")))
        for name, text in self.pages.items():
            text = text.replace("\\-", "-")
            for called, section in re.findall(
                    r"(?:\\fB|^\.BR )(slub[\w.-]*)(?:\\fR| )\((\d)\)", text, re.MULTILINE):
                page = f"{called}.{section}"
                self.assertTrue(page in self.pages or page in written or called in self.names,
                                f"{name}: {page}")

    def test_every_option_is_explained(self):
        """In libslub(7), with each word that it takes."""
        with open(os.path.join(SOURCE, "src", "core", "base", "option.def"),
                  encoding="utf-8") as file:
            table = file.read()
        rows = re.findall(r'(?m)^OPTION_(?!GONE)\w+\((?!test_)(\w+),(?: \d+, "([a-z|]*)")?', table)
        with open(os.path.join(SOURCE, "docs", "man", "libslub.7"), encoding="utf-8") as file:
            entries = re.split(r"^\.TP\n(?=\.BR? SLUB_)", file.read(), flags=re.MULTILINE)
        self.assertGreater(len(rows), 20)
        for name, words in rows:
            entry = [entry for entry in entries if re.search(
                rf"\bSLUB_{name.upper()}\b", entry.replace("\\\n", "").split("\n")[0])]
            self.assertEqual(len(entry), 1, name)
            for word in filter(None, words.split("|")):
                self.assertRegex(entry[0], rf"\b{word}\b", name)
        with open(os.path.join(SOURCE, "docs", "migrate", "from-0.1.md"),
                  encoding="utf-8") as file:
            changed = file.read()
        gone = re.findall(r"(?m)^OPTION_GONE\((\w+),", table)
        self.assertGreater(len(gone), 4)
        for name in gone:
            self.assertRegex(changed, rf"(?m)^\| [^|]*`SLUB_{name.upper()}\b", name)

    def files(self, folder):
        where = os.path.join(self.folder, folder)
        return [os.path.join(where, name) for name in sorted(os.listdir(where))
                if not os.path.islink(os.path.join(where, name))]

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_finds_no_mistake(self):
        written = os.path.join(SOURCE, "docs", "man")
        files = self.files("man3") + self.files("man7") + \
            [os.path.join(written, name) for name in sorted(os.listdir(written))]
        found = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *files],
                               capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout + found.stderr, "")

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_finds_no_mistake(self):
        for path in self.files("man3") + self.files("man7"):
            found = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path],
                                   capture_output=True, text=True, check=False)
            self.assertEqual(found.stderr, "", path)

    def test_links_lead_to_pages(self):
        where, links = os.path.join(self.folder, "man3"), 0
        for name in os.listdir(where):
            path = os.path.join(where, name)
            if os.path.islink(path):
                links += 1
                self.assertIn(name.rsplit(".", 1)[0], names_of(self.pages[name]))
                self.assertNotIn("/", os.readlink(path))
        self.assertGreater(links, 10)

    def test_a_page_for_a_family(self):
        """A page for each function is what nobody reads: with those written by hand at most 110
        files, links counted."""
        written = os.listdir(os.path.join(SOURCE, "docs", "man"))
        self.assertLessEqual(len(self.pages) + len(written), 110)
        for text in self.pages.values():
            self.assertEqual(len(names_of(text)), len(set(names_of(text))))

    @unittest.skipUnless(shutil.which("mandb"), "man-db is not installed")
    def test_man_finds_every_name(self):
        """By its index: most names have no file."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
            os.chmod(folder, 0o755)     # as root mandb becomes another user
            subprocess.run(["mandb", "-c", "-q", "-u", folder], check=True, capture_output=True)
            lost = [name for name in sorted(self.names) if subprocess.run(
                ["man", "-M", folder, "-w", name], capture_output=True, check=False).returncode]
        self.assertEqual(lost, [])


class Generator(unittest.TestCase):
    """A comment that lacks something is found: without this the test above proves nothing."""

    def complaints(self, header):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "slub"))
            shutil.copy(os.path.join(SOURCE, "include", "slub", "version.h"),
                        os.path.join(folder, "slub"))
            with open(os.path.join(folder, "slub", "x.h"), "w", encoding="utf-8") as file:
                # REUSE-IgnoreStart
                file.write("/* SPDX-License-Identifier: MIT */\n/*\n * A header.\n */\n"
                # REUSE-IgnoreEnd
                           + header)
            made = subprocess.run(
                [os.path.join(SOURCE, "scripts", "man"), "--strict", "--headers",
                 os.path.join(folder, "slub"), os.path.join(folder, "out")],
                capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 1 if made.stderr else 0)
            return [line.split(": ", 1)[1] for line in made.stderr.splitlines()]

    def test_a_good_comment(self):
        self.assertEqual(self.complaints(
            "/*\n * f - do it.\n *\n * Returns 0, or\n *   -EINVAL  no.\n"
            " * Context: anywhere.\n */\nSLUB_API int f(int x);\n"), [])

    def test_nothing_returned_needs_no_word(self):
        self.assertEqual(self.complaints(
            "/* f - do it.  Context: anywhere. */\nSLUB_API void f(int x);\n"), [])

    def test_no_comment(self):
        self.assertEqual(self.complaints("SLUB_API int f(int x);\n"),
                         ["f is in no comment 'name - what it does'"])

    def test_nothing_said(self):
        self.assertEqual(self.complaints("/* f - do it. */\nSLUB_API int f(int x);\n"),
                         ["the comment of f has no 'Returns'",
                          "the comment of f has no 'Errors:'",
                          "the comment of f has no 'Context:'"])

    def test_a_name_that_is_none(self):
        self.assertEqual(self.complaints("/* g - do it.  Context: anywhere. */\n"),
                         ["there is no g"])

    def test_a_constant_without_a_comment(self):
        self.assertEqual(self.complaints("#define SLUB_X 1\n"),
                         ["SLUB_X has no comment right above it"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    SOURCE, LIBRARY = map(os.path.abspath, sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
