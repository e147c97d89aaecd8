# SPDX-License-Identifier: MIT
"""What stands in a public header: its comments and its declarations.

A reader of this project's headers, not of C: a comment or a declaration begins in column 0, a
function's body ends with a brace in column 0.
"""
import re

MARKERS = re.compile(r"\bSLUB_(?:API|INLINE)\b|__attribute__\(\(.*?\)\)(?=[\s;])|\bextern\b"
                     r"|\bSLUB_NOEXCEPT\b|\bstatic inline\b", re.DOTALL)
GUARD = re.compile(r"SLUB_INCLUDE_\w+$|SLUB_VERSION_H$")
NAMES = re.compile(r"(\w+(?:,\s\w+)*) - ")


class Comment:
    """A comment's text, without its stars; names: what it says that it documents."""

    def __init__(self, line, text):
        self.line = line
        self.text = text
        paragraph = " ".join(text.split("\n\n")[0].split())
        found = NAMES.match(paragraph)
        self.names = re.split(r",\s", found.group(1)) if found else []
        self.summary = paragraph[found.end():] if found else ""


class Declaration:
    """kind: function, data, macro (with parameters), constant, struct, enum, typedef.

    text: without the body of a function, and without what only the compiler wants to know.
    """

    def __init__(self, line, kind, name, text, comment):
        self.line = line
        self.kind = kind
        self.name = name
        self.text = text
        self.comment = comment


class Header:
    def __init__(self, path, name):
        self.path = path
        self.name = name                # as it is included: slub/cache.h
        self.head = None                # the comment that opens the header
        self.comments = []
        self.declarations = []
        with open(path, encoding="utf-8") as file:
            Scanner(self, file.read().split("\n")).scan()

    def find(self, name):
        """The declaration of @name, a function or data before a type of the same name."""
        found = [d for d in self.declarations if d.name == name]
        found.sort(key=lambda d: d.kind in ("struct", "enum", "typedef"))
        return found[0] if found else None


class Scanner:
    def __init__(self, header, lines):
        self.header = header
        self.lines = lines
        self.at = 0
        self.attached = None            # the comment right above, no blank line between

    def scan(self):
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.attached = None
                self.at += 1
            elif line.startswith("/*"):
                self.take_comment()
            elif re.match(r"#\s*define\b", line):
                self.take_macro()
            elif line.startswith("#"):
                self.take_continued()
            elif line.strip() in ("SLUB_C_BEGIN", 'extern "C" {', "}", "SLUB_C_END"):
                self.at += 1
            else:
                self.take_declaration()

    def take_comment(self):
        start, taken = self.at, []
        while True:
            line = self.lines[self.at]
            self.at += 1
            taken.append(re.sub(r"^( ?\*|/\*) ?", "", line.split("*/")[0]).rstrip())
            if "*/" in line:
                break
        text = "\n".join(taken).strip("\n")
        if "SPDX-License-Identifier" in text or text.lstrip().startswith("----"):
            return
        comment = Comment(start + 1, text)
        self.header.comments.append(comment)
        self.attached = comment
        if not self.header.head:
            self.header.head = comment
            self.attached = None

    def take_continued(self):
        start = self.at
        while self.lines[self.at].endswith("\\"):
            self.at += 1
        self.at += 1
        return "\n".join(self.lines[start:self.at])

    def take_macro(self):
        line = self.at + 1
        text = self.take_continued()
        name, has_parameters = re.match(r"#\s*define\s+(\w+)(\()?", text).groups()
        if GUARD.match(name):
            return
        if has_parameters:
            text = re.match(r"#\s*define\s+(\w+\([^)]*\))", text).group(1)
        self.add(line, "macro" if has_parameters else "constant", name, text)

    def take_declaration(self):
        start, depth = self.at, 0
        while True:
            line = self.lines[self.at]
            self.at += 1
            if not line.startswith("#"):
                bare = re.sub(r"/\*.*?\*/|\"(?:\\.|[^\"])*\"|'.'", "", line)
                depth += bare.count("{") - bare.count("}")
            ends = line.rstrip().endswith((";", "*/")) or line.startswith("}")
            if depth == 0 and ends and (";" in line or line.startswith("}")):
                break
        self.classify(start + 1, "\n".join(self.lines[start:self.at]))

    def classify(self, line, text):
        head = MARKERS.sub("", text.split("{")[0]).strip()
        if re.fullmatch(r"(struct|union|enum) \w+;", head):
            return                                      # opaque here
        kind = re.match(r"(struct|union|enum) (\w+)$", head)
        if kind:
            self.add(line, kind.group(1), kind.group(2), text)
        elif head.startswith("typedef"):
            name = re.search(r"\(\*?(\w+)\)\s*\(", head) or \
                re.search(r"(\w+)\s*[(;]", head)
            self.add(line, "typedef", name.group(1), text)
        elif "(" in head:
            name = re.search(r"(\w+)\s*\(", head).group(1)
            self.add(line, "function", name, head.rstrip(";").strip())
        else:
            name = re.search(r"(\w+)(?:\[[^]]*\])?\s*[;=]", head)
            if not name:
                raise SyntaxError(f"{self.header.path}:{line}: what is this? {head}")
            self.add(line, "data", name.group(1), head.rstrip(";").strip())

    def add(self, line, kind, name, text):
        functions = {d.name for d in self.header.declarations if d.kind == "function"}
        if name.endswith("_fast") or (kind in ("function", "macro") and name in functions):
            return              # the inline form of a function that was declared already
        known = [d for d in self.header.declarations if (d.name, d.kind) == (name, kind)]
        if not known:
            self.header.declarations.append(
                Declaration(line, kind, name, text, self.attached))
