# SPDX-License-Identifier: MIT
"""What became of the mutants: a book that outlives a run, and the score."""
import hashlib
import json
import os
import re
from collections import Counter, namedtuple

import operators

# @id changes with the line's text, not with what is added above it.  @was and @becomes: all
# of the lines that change, before and after.
Named = namedtuple("Named", "id path line start length text kind old shown was becomes function")

OUTCOMES = ["caught", "survived", "argued", "same code", "does not compile"]


def lines_around(text, start, end):
    """The whole lines there, as one, each run of white space a blank."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    return " ".join(text[first:last if last >= 0 else None].split())


def function_around(text, at):
    """The name of the function that has this place; "" outside of all."""
    begin = text.rfind("\n{", 0, at)
    if begin < 0 or text.rfind("\n}", 0, at) > begin:
        return ""
    head = text[text.rfind("\n\n", 0, begin) + 1:begin]
    names = re.findall(r"(?m)^[^\s/*#].*?\b(\w+)\(", head)
    return names[-1] if names else ""


def named(mutant, source):
    lines = source.split("\n")
    shown = lines[mutant.line - 1].strip()
    old = source[mutant.start:mutant.start + mutant.length]
    column = mutant.start - source.rfind("\n", 0, mutant.start)
    around = "\n".join(lines[max(0, mutant.line - 3):mutant.line + 2])
    key = f"{mutant.path}:{column}:{old}:{mutant.text}:{around}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    end = mutant.start + mutant.length
    became = operators.apply(source, mutant)
    return Named(digest, *mutant, old, shown, lines_around(source, mutant.start, end),
                 lines_around(became, mutant.start, end + len(became) - len(source)),
                 function_around(source, mutant.start))


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


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(entries, column):
    groups = sorted({entry[column] for entry in entries})
    lines = [f"{column:34}" + "".join(f"{name:>18}" for name in OUTCOMES) + f"{'score':>8}"]
    for group in groups + ["all"]:
        count = Counter(entry["outcome"] for entry in entries
                        if group in ("all", entry[column]))
        rate = percent(count["caught"], count["caught"] + count["survived"])
        lines.append(f"{group:34}" + "".join(f"{count[name]:>18}" for name in OUTCOMES)
                     + f"{rate:>8}")
    return lines


def report(book, mutants, arguments):
    """The score; argued mutants are named one by one, with the reason, and count apart."""
    entries, notes, survivors = [], [], []
    for mutant in mutants:
        if mutant.id not in book:
            continue
        entry = dict(book[mutant.id])
        reason = arguments.reason(mutant)
        if reason and entry["outcome"] == "survived":
            entry["outcome"] = "argued"
            notes.append(f"argued: {described(entry)}\n    {reason}")
        elif reason and entry["outcome"] == "caught":
            notes.append(f"argued, yet caught: {described(entry)}\n    by {entry['by']}")
        elif entry["outcome"] == "survived":
            survivors.append(f"survived: {described(entry)}")
        entries.append(entry)
    count = Counter(entry["outcome"] for entry in entries)
    told = count["caught"] + count["survived"]
    lines = [f"{len(entries)} of {len(mutants)} mutants were tried", ""]
    lines += table(entries, "path") + [""] + table(entries, "kind") + [""]
    lines += arguments.complaints() + notes + survivors
    lines.append(f"caught {count['caught']} of {told}: {percent(count['caught'], told)}; "
                 f"{count['argued']} more are argued, and with them as survivors it is "
                 f"{percent(count['caught'], told + count['argued'])}")
    return "\n".join(lines)
