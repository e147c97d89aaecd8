#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: documents and comments have none of the turns of phrase that make a reader go back, and
no word that codespell knows as misspelt, nothing that vale finds (where these are); no line of
prose has more than 120 columns, and README.md no more than 150 lines.

usage: style_test.py SOURCE"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = ""

# A pattern, and what to write instead.
PATTERNS = [
    (r"(?:^|[.;:] +)Who (?![^.?]*\?)\w+ ", "give it a noun: 'A thread that ...'"),
    (r"\b(?:for|by|to|than|from|of|as) who (?!\w+ the\b)\w+", "'for a caller that ...'"),
    (r"\b(?:release|acquire|acq_rel|seq_cst|Locks|[A-Z]+-\d+):? +who \w+", "'a thread that ...'"),
    (r"\bso (?:that )?who \w+", "'so a thread that ...'"),
    (r"\b(?:he|himself)\b", "a thread is 'it'"),
    (r"\bwho has it\b", "name it: 'the thread that has it'"),
    (r"\bthat of who(?:m|se)?\b", "name it"),
    (r"\bof which\b", "begin a new sentence, or use 'whose'"),
    (r"\bwhat is left\b", "'the rest', 'the remainder'"),
    (r"\bhad again\b", "'used again'"),
    (r"\bin turns\b|\bby turns\b", "'alternately', 'in rotation'"),
    (r"\bseen from outside\b", "'read by another process'"),
    (r"\bin the mean\b", "'on average'"),
    (r"\bnoticed of\b", "say what was noticed, and where"),
    (r"\b(?:is|are) to be (?:above|below)\b", "'should be above'"),
    (r"\banswers nobody\b", "'does not answer'"),
    (r"\bof (?:no )?use to\b", "'useful to', 'useless for'"),
    (r"\bno more is\b", "'is no longer'"),
    (r"\bas it was wanted\b", "'as asked for'"),
]
ALLOW = os.path.join("tests", "docs", "style.allow")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def files():
    for pattern in ("*.md", "docs/**/*.md", "docs/man/*.[17]", "bench/*.md", "bindings/**/*.md",
                    "tests/**/*.md", "src/**/*.[ch]", "src/**/*.md", "include/**/*.h",
                    "include/**/*.hpp", "tools/**/*.[ch]"):
        for path in glob.glob(os.path.join(SOURCE, pattern), recursive=True):
            name = os.path.relpath(path, SOURCE)
            if "/build" not in name:
                yield name


def prose(name):
    """The text of a page without its code; the comments of a C file.  Lines stay lines."""
    text = read(name)
    if name.startswith("docs/man/"):
        return re.sub(r"(?m)^\.(?:\\\"|[A-Z]{2} ).*$", "", text)
    if name.endswith(".md"):
        blank = re.compile(r"(?ms)^```.*?^```|^    .*?$|`[^`\n]*`")
        return blank.sub(lambda match: "\n" * match.group().count("\n") + "x", text)
    comments, at = [], 0
    for match in re.finditer(r"(?s)/\*.*?\*/|//[^\n]*", text):
        comments.append("\n" * text.count("\n", at, match.start()) + match.group())
        at = match.end()
    return re.sub(r"(?m)^[ \t]*(?:/\*+|\*+/?|//)[ \t]*", "", "".join(comments))


def allowed():
    """How many are still there, file by file: a list that may only shrink."""
    found = {}
    for line in read(ALLOW).splitlines():
        if line and line[0] != "#":
            name, nr = line.split()
            found[name] = int(nr)
    return found


class Style(unittest.TestCase):
    def test_phrases(self):
        allow, nr, wrong = allowed(), 0, []
        for name in files():
            nr += 1
            text = prose(name)
            found = [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: "
                     f"'{' '.join(match.group().split())}': {instead}"
                     for pattern, instead in PATTERNS
                     for match in re.finditer(pattern, text, re.MULTILINE)]
            if len(found) > allow.get(name, 0):
                wrong += found
        self.assertGreater(nr, 300)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_the_list_names_files(self):
        self.assertEqual([name for name in allowed() if name not in set(files())], [])

    def test_the_patterns_find_what_they_are_for(self):
        bad = ["Done. Who frees it has it.", "a stock, of which one is", "room for what is left",
               "a note for who moves it", "frees in turns", "the heap, seen from outside",
               "ran by turns", "5 ns in the mean"]
        good = ["Who holds it?", "It says who allocated it.", "the thread that has it"]
        hits = [any(re.search(pattern, text) for pattern, _ in PATTERNS) for text in bad + good]
        self.assertEqual(hits, [True] * len(bad) + [False] * len(good))

    def test_columns(self):
        """Prose of documents ends at 120 columns; scripts/wrap fills what is longer."""
        wrap = [sys.executable, "-B", os.path.join(SOURCE, "scripts", "wrap"), "--check"]
        found = subprocess.run(wrap, capture_output=True, text=True, check=False)
        self.assertEqual((found.stdout, found.stderr, found.returncode), ("", "", 0))
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            for text, status in (("word " * 30, 1), ("| cell " * 30, 0), ("    " + "code " * 30, 0),
                                 ("- " + "word " * 30, 1), ("`" + "code " * 30 + "`", 0)):
                with open(page, "w", encoding="utf-8") as file:
                    file.write(text.rstrip() + "\n")
                self.assertEqual(subprocess.run([*wrap, page], capture_output=True,
                                                check=False).returncode, status, text)

    def test_the_readme_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), 150)

    @unittest.skipUnless(shutil.which("vale"), "no vale (https://vale.sh)")
    def test_vale(self):
        """The rules of tests/docs/vale/libslub, of .vale.ini; and each finds what it is for."""
        vale = ["vale", "--config", os.path.join(SOURCE, ".vale.ini"), "--output=line"]
        names = [name for name in files() if name.endswith(".md") and name[:6] != "tests/"]
        found = subprocess.run(vale + names, cwd=SOURCE, capture_output=True, text=True,
                               check=False)
        self.assertEqual((found.stdout, found.stderr, found.returncode), ("", "", 0))
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            for text, rule in (("It is made in order to work.", "libslub.Wordy"),
                               ("It is simply there.", "libslub.Promises"),
                               ("It runs on Jemalloc.", "libslub.Names"),
                               ("It is the the same.", "Vale.Repetition"),
                               ("It is " + "so and " * 25 + "so.", "libslub.Sentences")):
                with open(page, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                found = subprocess.run(vale + [page], capture_output=True, text=True, check=False)
                self.assertIn(rule, found.stdout)

    @unittest.skipUnless(shutil.which("codespell"), "no codespell")
    def test_spelling(self):
        names = list(files())
        found = subprocess.run(["codespell", "--quiet-level=3", "--ignore-words-list=crate,nown"] +
                               names, cwd=SOURCE, capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
