#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: what README.md, CONTRIBUTING.md and docs/**/*.md name is there: other documents, files,
commands of slub and gdb and their options, environment variables; and the links of all documents
lead somewhere.

usage: documents_test.py SOURCE"""
import glob
import os
import re
import sys
import unittest

SOURCE = ""
# Variables that are no options of the library.
OF_OTHERS = {"SLUB_OPTIONS", "SLUB_LIBRARY", "SLUB_LIB_DIR", "SLUB_LINK", "SLUB_INJECT"}


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


class Names(unittest.TestCase):
    def setUp(self):
        paths = [os.path.join(SOURCE, name) for name in ("README.md", "CONTRIBUTING.md")]
        paths += glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"), recursive=True)
        self.documents = {os.path.relpath(path, SOURCE): read(path) for path in paths}
        self.assertGreater(len(self.documents), 10)

    def assertAllThere(self, pattern, is_there):
        found = [(document, name) for document, text in self.documents.items()
                 for name in re.findall(pattern, text, re.MULTILINE)]
        self.assertGreater(len(found), 10)
        self.assertEqual(sorted({item for item in found if not is_there(item[1])}), [])

    def test_documents(self):
        self.assertAllThere(r"\b((?:docs|bench|bindings)/[\w/-]+\.md)\b",
                            lambda name: os.path.exists(os.path.join(SOURCE, name)))

    def test_commands(self):
        """The shell's, or gdb's."""
        known = set(re.findall(r'"slub ([a-z]+)"', read("tools", "gdb", "slub.py")))
        known.update(name[len("slub-"):-len(".1")] for name in
                     os.listdir(os.path.join(SOURCE, "docs", "man")) if name.endswith(".1"))
        self.assertAllThere(r"(?:`|^    |^\$ )(?:build/)?slub ([a-z]+)\b",
                            lambda name: name in known)

    def test_a_target_needs_no_option(self):
        """`slub stats PID`: the same in each document, help text and manual page."""
        folder = os.path.join(SOURCE, "tools", "slub")
        texts = {**self.documents, "bindings/README.md": read("bindings", "README.md"),
                 **{name: read("tools", "slub", name) for name in os.listdir(folder)
                    if name.startswith("cmd_")},
                 **{name: read("docs", "man", name) for name in
                    os.listdir(os.path.join(SOURCE, "docs", "man"))}}
        old = r"\bslub [a-z][^`|#]*? \\?-p ([A-Z]{3}|core|[\d/])|\[\\?-p\]|\[ \\-p \]"
        found = [(name, line) for name, text in texts.items() for line in text.splitlines()
                 if re.search(old, line) and "bpftrace" not in line]
        self.assertEqual(found, [])

    def test_the_surface_is_as_large_as_it_says(self):
        page = read("docs", "migrate", "from-0.1.md")
        main = read("tools", "slub", "main.c")
        groups = re.search(r"(?s) groups\[\] = \{(.*?)\n\};", main).group(1)
        rows = {
            "names `slub_*` that `src/libslub.map` exports":
                len(set(re.findall(r"\bslub_\w+(?=;)", read("src", "libslub.map")))),
            "options in `src/core/base/option.def`":
                len(re.findall(r"^OPTION_(?!GONE|EXPERTS)\w+\(\w",
                               read("src", "core", "base", "option.def").partition(
                                   "\nOPTION_FOR_TESTS")[0], re.MULTILINE)),
            "commands of `slub`": groups.count("&cmd_"),
        }
        for name, now in rows.items():
            self.assertRegex(page, rf"\| {re.escape(name)} \| \d+ \| {now} \|\n")

    def test_variables(self):
        options = {"SLUB_" + name.upper() for name in re.findall(
            r"^OPTION_\w+\((\w+),", read("src", "core", "base", "option.def"), re.MULTILINE)}
        self.assertAllThere(r"(?<!-D)\b(SLUB_[A-Z_]+)=",
                            lambda name: name in options | OF_OTHERS)

    def test_files(self):
        """Paths from the top of the tree, `src/core/page/pagemap.c`; a folder, a pattern or a
        program is one too."""
        folders = "|".join(name for name in os.listdir(SOURCE)
                           if os.path.isdir(os.path.join(SOURCE, name)) and name[0] != "."
                           and not name.startswith("build"))
        self.assertAllThere(rf"`((?:{folders})/[\w./*-]+)`",
                            lambda name: glob.glob(os.path.join(SOURCE, name)) +
                            glob.glob(os.path.join(SOURCE, name + ".*")))

    def test_the_map_of_files(self):
        """The table at the end of docs/ARCHITECTURE.md: what it names is there, and every C file of
        a layer is named."""
        table = self.documents["docs/ARCHITECTURE.md"].partition("## The map of files")[2]
        folder, named = "", []
        for head, files in re.findall(r"(?m)^\| (?:`([\w/]+)` )?\| ([^|]*) \|", table):
            folder = head or folder
            named += [f"src/{folder}/{name}" for name in re.findall(r"`([^`]+)`", files)]
        there = [path for name in named
                 for path in glob.glob(os.path.join(SOURCE, name)) +
                 glob.glob(os.path.join(SOURCE, name + ".[ch]")) or [None]]
        self.assertGreater(len(named), 100)
        self.assertNotIn(None, there, named)
        every = glob.glob(os.path.join(SOURCE, "src", "**", "*.c"), recursive=True)
        folders = tuple(path for path in there if path.endswith("/"))
        self.assertEqual([path for path in sorted(set(every) - set(there))
                          if not path.startswith(folders)], [])

    def test_features_name_their_tests_and_pages(self):
        """In the first comment of one file of each folder of src/features; all of it is there."""
        for folder in sorted(glob.glob(os.path.join(SOURCE, "src", "features", "*", ""))):
            heads = [re.findall(r"(?s)/\*.*?\*/", read(path))[1]
                     for path in glob.glob(os.path.join(folder, "*.[ch]"))]
            heads = [head for head in heads if " * Tests: " in head]
            self.assertEqual(len(heads), 1, folder)
            named = re.findall(r"\b((?:tests|docs)/[\w./*-]*[\w*])", heads[0])
            for kind in ("tests/", "docs/"):
                self.assertTrue([path for path in named if path.startswith(kind)], folder)
            for path in named:
                self.assertTrue(glob.glob(os.path.join(SOURCE, path)), f"{folder}: {path}")

    def options_of(self, command):
        page = read("docs", "man", f"slub-{command}.1").replace("\\-", "-")
        page = re.search(r"(?ms)^\.SH OPTIONS\n(.*?)^\.SH ", page).group(1)
        known = set(re.findall(r"(?<![\w-])--?\w[\w-]*", "\n".join(
            re.findall(r"(?m)^\.B.*$", page))))
        if command == "run":
            known.update("--" + name for name in re.findall(
                r"^OPTION_\w+\((\w+),", read("src", "core", "base", "option.def"), re.MULTILINE))
        return known

    def test_options(self):
        """Of command lines, in a block or between backticks; tests/tool/help_test.py compares the
        manual, which is asked here, with the command."""
        lines, wrong = 0, []
        for document, text in self.documents.items():
            for command, rest in re.findall(
                    r"(?m)(?:`|^    |^\$ )(?:build/)?slub ([a-z]+)\b([^`\n]*)", text):
                if not os.path.exists(os.path.join(SOURCE, "docs", "man", f"slub-{command}.1")):
                    continue                    # gdb's
                known = self.options_of(command)
                for word in re.split(r"[#|;&]", rest)[0].split():
                    if word == "--" or command == "run" and word[0] != "-":
                        break
                    name = re.match(r"--[\w-]+|-\w", word)
                    lines += bool(name)
                    if name and name.group() not in known:
                        wrong.append((document, command, word))
        self.assertGreater(lines, 10)
        self.assertEqual(wrong, [])


class Links(unittest.TestCase):
    @staticmethod
    def anchors(path):
        """As GitHub makes them of headings."""
        found = set()
        for title in re.findall(r"(?m)^#+ (.*)$", read(path)):
            found.add(re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-"))
        return found

    def test_links(self):
        paths = [path for pattern in ("*.md", "docs/**/*.md", "src/**/*.md", "bench/**/*.md",
                                      "bindings/**/*.md", "examples/**/*.md")
                 for path in glob.glob(os.path.join(SOURCE, pattern), recursive=True)]
        nr, broken = 0, []
        for path in paths:
            text = re.sub(r"(?ms)^```.*?^```", "", read(path))
            for target in re.findall(r"(?<!`)\]\(<?([^)\s>]+)>?\)", text):
                if re.match(r"\w+:", target):
                    continue
                nr += 1
                name, _, anchor = target.partition("#")
                there = os.path.join(os.path.dirname(path), name) if name else path
                if not os.path.exists(there) or anchor and anchor not in self.anchors(there):
                    broken.append((os.path.relpath(path, SOURCE), target))
        self.assertGreater(nr, 30)
        self.assertEqual(broken, [])

    def test_the_site_has_every_page(self):
        """mkdocs.yml lists each page of docs/, once, and nothing that is gone."""
        listed = re.findall(r"(?m)^ +- (?:[^:\n]+: )?(\S+\.md)$", read("mkdocs.yml"))
        pages = [os.path.relpath(path, SOURCE) for path in
                 glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"), recursive=True)]
        self.assertEqual(sorted(set(pages) - set(listed)), [])
        self.assertEqual(len(listed), len(set(listed)))
        front = re.findall(r'href="([^"]+)\.html"', read("docs", "theme", "main.html"))
        self.assertEqual([name for name in front if name + ".md" not in listed], [])
        self.assertGreater(len(front), 3)
        # scripts/reference and scripts/site make these for the site.
        self.assertEqual([name for name in listed
                          if not os.path.exists(os.path.join(SOURCE, name))],
                         ["docs/api/reference/index.md", "docs/man/index.md"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
