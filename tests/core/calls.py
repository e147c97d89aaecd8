#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""calls.py ROOT OBJECT NM: what src/core knows of src/features.

The calls that core/base/features.h declares and the functions that src/core/without.c's OBJECT
defines weakly are the same.  No file of the core includes a header of a feature, but for those of
MADE_OF; these lead to no header of another feature, and each is included.  That the core calls
nothing else the linker has seen: libslub-core.so is linked with -z defs.
"""
import glob
import os
import re
import subprocess
import sys

# What the core cannot do without, and why.
MADE_OF = {
    "features/hardened/hardened.h":
        "the fast paths of the hardened build make these checks, inline; other builds compile none",
}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def declared(root):
    text = re.sub(r"/\*.*?\*/", "", read(root, "src/core/base/features.h"), flags=re.DOTALL)
    return set(re.findall(r"(\w+)\([^()]*\);", text)) | set(
        re.findall(r"(?m)^extern .*\b(\w+);", text))


def defined(nm, path):
    lines = subprocess.run([nm, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines() if line.split()[-2] in "WV"}


def named(path):
    return re.findall(r'#\s*include\s+"([^"]+)"', read(path))


def included(root):
    """What is wrong with the includes of the core."""
    met = set()
    for path in glob.glob(os.path.join(root, "src/core/**/*.[ch]"), recursive=True):
        for name in named(path):
            if name.startswith("features/"):
                met.add(name)
                if name not in MADE_OF:
                    yield f"{os.path.relpath(path, root)} includes {name}"
    yield from (f"no file of the core includes {name}" for name in MADE_OF if name not in met)
    ways = list(MADE_OF)
    for name in ways:
        for other in named(os.path.join(root, "src", name)):
            if not other.startswith("features/") or other in ways:
                continue
            if os.path.dirname(other) != os.path.dirname(name):
                yield f"{name}, which the core includes, includes {other}"
            ways.append(other)


def main():
    root, obj, nm = sys.argv[1:]
    calls, wrong = declared(root), list(included(root))
    found = defined(nm, obj)
    wrong += [f"src/core/without.c has no {call}()" for call in sorted(calls - found)]
    wrong += [f"core/base/features.h has no {call}()" for call in sorted(found - calls)]
    for line in wrong:
        print("FAIL:", line)
    print(f"{len(calls)} calls from the core to features")
    return bool(wrong) or not calls


if __name__ == "__main__":
    sys.exit(main())
