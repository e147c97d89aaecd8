#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""calls.py ROOT OBJECT NM FOLDER_OR_FILE...: what the core (cmake/core.cmake) knows of features.

The calls that base/features.h declares, the functions that src/without.c's OBJECT defines
weakly and the table in docs/ARCHITECTURE.md are the same; no file of the core (FOLDER: a pattern
for folders that its files lie in, not in their subfolders) includes a header
of a feature; of slab/hardened the header alone is looked at, which is inline everywhere.  That
the core calls nothing else the linker has seen: libslub-core.so is linked with -z defs.
"""
import glob
import os
import re
import subprocess
import sys

INLINE = ("slab/hardened/hardened.h",)
FACES = ("slab/slab.h", "slab/slab_internal.h", "malloc/malloc.h", "malloc/front.h",
         "debug/debug.h", "debug/misuse.h", "debug/maps.h", "debug/mailbox.h",
         "debug/track.h", "slab/stat.def")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def declared(root):
    text = re.sub(r"/\*.*?\*/", "", read(root, "src/base/features.h"), flags=re.DOTALL)
    return set(re.findall(r"(\w+)\([^()]*\);", text))


def defined(nm, path):
    lines = subprocess.run([nm, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines() if line.split()[-2] == "W"}


def written(root):
    text = read(root, "docs/ARCHITECTURE.md")
    table = text.split("\n## What the core calls\n")[1].split("\nOther calls ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return set(re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in rows)))


def included(root, core):
    known = re.compile("(" + "|".join(part for part in core if not part.endswith(".c")) + ")$")
    paths = [os.path.join(root, "src", part) for part in core if part.endswith(".c")]
    paths += [path for path in glob.glob(os.path.join(root, "src", "**", "*.[ch]"), recursive=True)
              if known.match(os.path.relpath(os.path.dirname(path), os.path.join(root, "src")))]
    paths = [path for path in paths if "/slab/hardened/" not in path]
    for path in paths + [os.path.join(root, "src", face) for face in FACES]:
        for name in re.findall(r'#\s*include\s+"([^"]+)"', read(path)):
            if not known.match(os.path.dirname(name)) and name not in INLINE + FACES:
                yield f"{os.path.relpath(path, root)} includes {name}"


def main():
    root, obj, nm, core = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    calls, wrong = declared(root), list(included(root, core))
    for name, found in (("src/without.c", defined(nm, obj)),
                        ("docs/ARCHITECTURE.md", written(root))):
        wrong += [f"{name} has no {call}()" for call in sorted(calls - found)]
        wrong += [f"base/features.h has no {call}(), {name} has" for call in sorted(found - calls)]
    for line in wrong:
        print("FAIL:", line)
    print(f"{len(calls)} calls from the core to features")
    return bool(wrong) or not calls


if __name__ == "__main__":
    sys.exit(main())
