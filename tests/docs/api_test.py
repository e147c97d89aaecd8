#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: docs/api/c.md names every public function; it and README.md quote only code that is
compiled and run, and every such program is quoted; the site's reference has every function.

usage: api_test.py SOURCE"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = ""


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def flat(text):
    return "\n".join(line.strip() for line in text.strip().split("\n"))


class Api(unittest.TestCase):
    def setUp(self):
        self.document = read("docs", "api", "c.md")
        self.blocks = re.findall(r"(?ms)^```c\n(.*?)^```", self.document)
        # There one block has what stands at the top of a file and what stands in a function.
        self.paragraphs = [text for block in re.findall(r"(?ms)^```c\n(.*?)^```",
                                                        read("README.md"))
                           for text in block.strip().split("\n\n")]
        folder = os.path.join("tests", "docs", "snippets")
        self.snippets = {name: flat(read(folder, name))
                         for name in sorted(os.listdir(os.path.join(SOURCE, folder)))
                         if name.endswith(".c")}

    def test_every_quote_stands_in_a_program(self):
        self.assertTrue(self.blocks)
        self.assertTrue(self.paragraphs)
        for block in self.blocks + self.paragraphs:
            self.assertTrue(any(flat(block) in text for text in self.snippets.values()),
                            f"in no program of tests/docs/snippets:\n{block}")

    def test_every_program_is_quoted(self):
        for name, text in self.snippets.items():
            self.assertTrue(any(flat(block) in text for block in self.blocks + self.paragraphs),
                            name)

    def test_the_reference_has_every_function(self):
        """What scripts/reference makes of the headers: a page each, with their comments."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "scripts", "reference"),
                            folder], check=True)
            pages = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    pages[name] = file.read()
        nr = 0
        for header in sorted(os.listdir(os.path.join(SOURCE, "include", "slub"))):
            if not header.endswith(".h"):
                continue
            page = pages[header[:-2] + ".md"]
            self.assertIn(f"[slub/{header}]", pages["index.md"])
            text = re.sub(r"(?s)/\*.*?\*/", " ", read("include", "slub", header))
            for declaration in re.findall(r"(?ms)^SLUB_(?:API|INLINE)\s[^;{]*", text):
                name = re.search(r"(\w+)\s*\(", declaration).group(1)
                self.assertRegex(page, rf"\b{name}\b", header)
                nr += 1
        self.assertGreater(nr, 100)
        self.assertRegex(pages["cache.md"], r"(?s)## slub_cache_alloc\n.*Allocate an object\..*"
                         r"SLUB_API void \*slub_cache_alloc\(struct slub_cache \*cache\);")

    def test_every_header_and_function_is_named(self):
        folder = os.path.join(SOURCE, "include", "slub")
        for header in sorted(os.listdir(folder)):
            if not header.endswith(".h"):
                continue
            self.assertIn(f"slub/{header}", self.document)
            text = re.sub(r"(?s)/\*.*?\*/", " ", read("include", "slub", header))
            for declaration in re.findall(r"(?ms)^SLUB_(?:API|INLINE)\s[^;{]*", text):
                name = re.search(r"(\w+)\s*\(", declaration).group(1)
                if not name.endswith("_fast"):
                    self.assertRegex(self.document, rf"\b{name}\b", header)

    def test_every_function_is_of_use(self):
        """To somebody: in an example, a program of the document, a binding, a tool, or beneath an
        inline function, each of them code that is compiled and run."""
        exported = set(re.findall(r"\bslub_\w+", read("src", "libslub.map")))
        used = set()
        for folder, inside in (("examples", ""), ("tests/docs/snippets", ""), ("tools/slub", ""),
                               ("bindings/rust/slub", ""), ("include/slub/cpp", ""),
                               ("include/slub/kernel", ""),
                               ("include/slub", r"(?ms)^\{.*?^\}")):
            for where, _, names in os.walk(os.path.join(SOURCE, folder)):
                for name in names:
                    text = re.sub(r"(?s)//[^\n]*|/\*.*?\*/", "", read(where, name))
                    text = "\n".join(re.findall(inside, text)) if inside else text
                    used |= set(re.findall(r"\bslub_\w+", text))
        self.assertGreater(len(exported), 100)
        self.assertEqual(exported - used, {
            "slub_cache_alias",         # slabinfo -a, for a program that merges caches
            "slub_percpu_bytes",        # the counter cpu_bytes of the cpu_alloc proposal
        })

    def test_every_value_is_listed(self):
        """In slub/control.h, and of what `slub stats --json` prints each number."""
        values = re.findall(r"(?m)^VALUE_\w+\(([\w.]+),",
                            read("src", "features", "inspect", "value.def"))
        table = read("src", "core", "slab", "stat.def")
        counted = re.findall(r"(?m)^COUNTED\(\d+, \w+, (\w+),", table)
        made = re.findall(r'(?m)^COUNTER\((\w+), "', table)
        known = set(values + counted + made)
        self.assertGreater(len(known), 70)
        comment = re.search(r"(?s) slub_value_read - .*?\*/", read("include", "slub", "control.h"))
        listed = set(re.findall(r"(?<![\w\"])[a-z][a-z_.]*[a-z](?=,|\n \*\n)", comment.group()))
        self.assertEqual(known - listed, set())
        # The other names come from value.def and cache_bit.def there, too.
        printed = read("tools", "slub", "attribute.c")
        shown = re.findall(r"\bput\(\w+, \"(\w+)\"", printed)
        no_numbers = {"skip_kfence"}
        self.assertLessEqual(no_numbers, set(shown))
        self.assertEqual(set(shown) - known - no_numbers, set())

    def test_every_link_leads_somewhere(self):
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", self.document)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(SOURCE, "docs", "api", link)), link)
        heads = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-")
                 for head in re.findall(r"^#+ (.*)$", self.document, re.MULTILINE)}
        for anchor in re.findall(r"\]\(#([^)]+)\)", self.document):
            self.assertIn(anchor, heads)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
