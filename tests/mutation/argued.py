# SPDX-License-Identifier: MIT
"""Mutants that change nothing a test could see, and why: survivors.txt.

An argument counts only for a mutant that it names: its file, its lines as they are, its lines
as they become, and a reason.  Where these words fit several mutants of the file the argument
has to stand there as often, or to name the function: "path function(): lines => ...".
"""
import os
from collections import Counter

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "survivors.txt")


def keys_of(mutant):
    """The mutant by its words alone, and with its function."""
    return ((mutant.path, mutant.was, mutant.becomes),
            (f"{mutant.path} {mutant.function}()", mutant.was, mutant.becomes))


class Arguments:
    def __init__(self, mutants_of, file=FILE):
        """@mutants_of: the mutants of a path."""
        self.told, self.count = {}, Counter()
        self.complained = []
        self.read(file)
        self.fits = Counter()
        for path in sorted({key[0].partition(" ")[0] for key in self.told}):
            try:
                self.fits.update(key for mutant in mutants_of(path) for key in keys_of(mutant))
            except FileNotFoundError:
                pass

    def read(self, file):
        with open(file, encoding="utf-8") as lines:
            reason = ""
            for number, line in enumerate(lines, 1):
                line = line.rstrip("\n")
                parts = tuple(" ".join(part.split()) for part in line.split(" => "))
                if line.startswith("## "):
                    reason = line[3:].strip()
                elif line and not line.startswith("#"):
                    path, _, was = parts[0].partition(": ")
                    if len(parts) != 2 or not was or not parts[1] or not reason:
                        self.complained.append(
                            f"line {number} of survivors.txt does not count: it wants a reason "
                            f"(## above it) and 'path: lines => lines as they become'")
                        continue
                    key = path, was, parts[1]
                    self.told[key] = reason
                    self.count[key] += 1

    def reason(self, mutant):
        for key in keys_of(mutant):
            if key in self.told and self.count[key] == self.fits[key]:
                return self.told[key]
        return None

    def complaints(self):
        """What does not count, for it names no mutant, or not as many as there are."""
        wrong = [f"does not count, {self.count[key]} times in survivors.txt and of "
                 f"{self.fits[key]} mutants: {key[0]}: {key[1]}"
                 for key in self.told if self.count[key] != self.fits[key]]
        return self.complained + wrong
