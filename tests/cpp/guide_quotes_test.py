#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each ```cpp block of a document must stand in a source file, but for the indentation.

usage: guide_quotes_test.py DOCUMENT SOURCE
"""
import re
import sys


def flat(text):
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def main():
    document, source = (open(path).read() for path in sys.argv[1:3])
    blocks = re.findall(r"(?ms)^```cpp\n(.*?)^```", document)
    missing = [block for block in blocks if flat(block) not in flat(source)]
    for block in missing:
        print(f"{sys.argv[1]}: not in {sys.argv[2]}:\n{block}")
    if not blocks:
        print(f"{sys.argv[1]}: no code at all")
    sys.exit(1 if missing or not blocks else 0)


if __name__ == "__main__":
    main()
