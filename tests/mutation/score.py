# SPDX-License-Identifier: MIT
"""What became of the mutants: a book that outlives a run, and the score."""
import hashlib
import json
import os
from collections import Counter, namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
EXPLAINED = os.path.join(HERE, "survivors.txt")

# @id changes with the line's text, not with what is added above it.
Named = namedtuple("Named", "id path line start length text kind old shown")

OUTCOMES = ["caught", "survived", "same code", "does not compile"]


def named(mutant, source):
    lines = source.split("\n")
    shown = lines[mutant.line - 1].strip()
    old = source[mutant.start:mutant.start + mutant.length]
    column = mutant.start - source.rfind("\n", 0, mutant.start)
    around = "\n".join(lines[max(0, mutant.line - 3):mutant.line + 2])
    key = f"{mutant.path}:{column}:{old}:{mutant.text}:{around}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Named(digest, *mutant, old, shown)


def change(entry):
    old = " ".join(entry["old"].split())
    if not entry["text"]:
        return f"without {old}"
    return f"{old} -> {' '.join(entry['text'].split())}"


def described(entry):
    return (f"{entry['path']}:{entry['line']}: {entry['kind']}: {change(entry)}"
            f"   | {entry['shown']}")


class Book(dict):
    """By mutant's id; each outcome is one line of a file, written as it comes."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                self[entry["id"]] = entry

    def add(self, named_mutant, result):
        entry = {**named_mutant._asdict(), **result}
        self[entry["id"]] = entry
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def line(self, key):
        entry = self[key]
        by = f" by {entry['by']}" if entry.get("by") else ""
        return f"{entry['outcome']}{by}: {described(entry)}"


def explanations():
    """{path, the line's text, the change: why no test can catch it}."""
    found = {}
    if not os.path.exists(EXPLAINED):
        return found
    why = ""
    with open(EXPLAINED, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("## "):
                why = line[3:]
            elif line and not line.startswith("#"):
                found[tuple(part.strip() for part in line.split(" | ", 2))] = why
    return found


def key_of(entry):
    return (entry["path"], change(entry).strip(), entry["shown"])


def table(entries, column):
    groups = sorted({entry[column] for entry in entries})
    lines = [f"{column:34}" + "".join(f"{name:>18}" for name in OUTCOMES) + f"{'score':>8}"]
    for group in groups + ["all"]:
        count = Counter(entry["outcome"] for entry in entries
                        if group in ("all", entry[column]))
        told = count["caught"] + count["survived"]
        rate = f"{100 * count['caught'] / told:.1f} %" if told else "-"
        lines.append(f"{group:34}" + "".join(f"{count[name]:>18}" for name in OUTCOMES)
                     + f"{rate:>8}")
    return lines


def report(book, ids):
    entries = [book[key] for key in ids if key in book]
    known = explanations()
    survived = [entry for entry in entries if entry["outcome"] == "survived"]
    open_ones = [entry for entry in survived if key_of(entry) not in known]
    caught = sum(entry["outcome"] == "caught" for entry in entries)
    told = caught + len(survived)
    lines = [f"{len(entries)} of {len(ids)} mutants were tried", ""]
    lines += table(entries, "path") + [""] + table(entries, "kind") + [""]
    lines += [described(entry) for entry in open_ones]
    lines.append(f"caught {caught} of {told}; {len(survived) - len(open_ones)} of the others "
                 f"are explained, {len(open_ones)} are not")
    return "\n".join(lines)
