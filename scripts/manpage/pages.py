# SPDX-License-Identifier: MIT
"""Which pages there are, and what stands on each: one page of section 3 for each family of
functions, one of section 7 for each header, with its constants and types.  NAME has every name that
a page documents; whoever looks one up finds the page by man's index."""
import os
import re

from .families import FAMILIES, LINKS
from .header import Header
from .roff import Page, escape, prototype
from .text import Sections, Text, blocks, short

CALLABLE = ("function", "macro", "data")
NOTHING = re.compile(r"^(?:\w+ )?void (?!\*)\w")


class Link(str):
    """The page is a symbolic link to this one."""


class Manual:
    def __init__(self, folder, date, version, written):
        """written: the pages of section 7 that somebody wrote by hand, whose names are taken."""
        self.folder = folder
        self.date = date
        self.version = version
        self.written = written
        names = sorted(name for name in os.listdir(folder)
                       if name.endswith(".h") and name not in ("version.h", "slub.h"))
        self.headers = [Header(os.path.join(folder, name), f"slub/{name}") for name in names]
        self.sections = {}              # of a page's name
        self.problems = []
        self.taken = set()
        self.top = {}                   # page of section 3: of a function's name
        for header in self.headers:
            self.sections[self.header_page(header)] = 7
            for comment in header.comments:
                self.sections.update((name, 3) for name in comment.names)

    def header_page(self, header):
        """slub-cache, or slub-debug.h where there is a page slub-debug already."""
        stem = "slub-" + os.path.basename(header.name)[:-2]
        return stem + ".h" if stem in self.written else stem

    def problem(self, header, line, what):
        self.problems.append(f"{header.path}:{line}: {what}")

    def page(self, name, section):
        return Page(name, section, self.date, self.version, self.sections)

    def build(self):
        """Yields the path of each page, man3/NAME.3 or man7/NAME.7, and its text."""
        families = [(header, family) for header in self.headers for family in self.families(header)]
        for _, family in families:
            first = family[0].names[0]
            self.top.update((name, first) for comment in family for name in comment.names)
        for header in self.headers:
            top = self.header_page(header)
            yield f"man7/{top}.7", HeaderPage(self, header, top).text()
        for header, family in families:
            yield f"man3/{family[0].names[0]}.3", FunctionPage(self, header, family).text()
        for name in LINKS:
            if name in self.top:
                yield f"man3/{name}.3", Link(f"{self.top[name]}.3")

    def families(self, header):
        """The comments of each page of section 3."""
        comments = {comment.names[0]: comment for comment in header.comments if comment.names}
        others = set()
        for page, (_, names) in FAMILIES.items():
            if page in comments:
                others.update(names.split())
                for name in set(names.split()) - comments.keys():
                    self.problem(header, comments[page].line,
                                 f"{name} of the family of {page} begins no comment here")
        for name, comment in comments.items():
            if name not in others:
                names = FAMILIES.get(name, ("", ""))[1].split()
                yield [comment] + [comments[one] for one in names if one in comments]

    def described_with_header(self, header):
        """Constants and types; functions that no comment names are a mistake."""
        for declaration in header.declarations:
            if self.sections.get(declaration.name) == 3 or declaration.name in self.taken:
                continue
            self.taken.add(declaration.name)
            if declaration.kind in CALLABLE:
                self.problem(header, declaration.line,
                             f"{declaration.name} is in no comment 'name - what it does'")
            else:
                if declaration.kind == "constant" and not declaration.comment:
                    self.problem(header, declaration.line,
                                 f"{declaration.name} has no comment right above it")
                yield declaration.name


class Function:
    """A comment that documents functions, and their declarations."""

    def __init__(self, manual, header, comment):
        self.comment = comment
        self.parts = Sections(comment)
        self.declarations = []
        for name in comment.names:
            found = header.find(name)
            if found:
                self.declarations.append(found)
            else:
                manual.problem(header, comment.line, f"there is no {name}")
        self.tag = ", ".join(f"\\fB{escape(name)}\\fR" for name in comment.names)

    def returns_nothing(self):
        """Functions without a value, data, macros that are no expression."""
        return all(d.kind != "function" or NOTHING.match(" ".join(d.text.split()))
                   for d in self.declarations)


class FunctionPage:
    def __init__(self, manual, header, family):
        self.manual = manual
        self.header = header
        self.functions = [Function(manual, header, comment) for comment in family]
        self.names = [name for comment in family for name in comment.names]
        self.page = manual.page(self.names[0], 3)

    def text(self):
        page = self.page
        what = FAMILIES[self.names[0]][0] if self.names[0] in FAMILIES else \
            short(self.functions[0].comment.summary)
        page.name_section(self.names, what)
        page.head("LIBRARY")
        page.put("SLUB memory allocator library (libslub, \\-lslub)")
        self.synopsis()
        page.head("DESCRIPTION")
        for one in self.functions:
            if len(self.functions) > 1:
                page.put(f".SS {one.tag}")
            page.blocks(one.parts["description"])
        self.section("returns", "RETURN VALUE", "Returns", "None.")
        self.section("errors", "ERRORS", "Errors:",
                     "None: there is no value that could tell of one.")
        self.section("context", "CONTEXT", "Context:")
        self.section("cost", "COST")
        self.section("from", "HISTORY")
        self.see_also()
        return page.text()

    def synopsis(self):
        self.page.head("SYNOPSIS")
        self.page.put(".nf", f"\\fB#include <{self.header.name}>\\fR")
        for one in self.functions:
            for declaration in one.declarations:
                self.page.put(".PP", *prototype(declaration))
        self.page.put(".fi")

    def section(self, name, title, label=None, none=None):
        """What each function says of it, once for those that say the same.  @label: a comment
        without it lacks something, unless @none tells enough of a function without a value."""
        said = {}                       # lines: whose
        for one in self.functions:
            if one.parts[name]:
                said.setdefault(tuple(self.lines(name, one)), []).append(one)
            elif none and one.returns_nothing():
                said.setdefault((none,), []).append(one)
            elif label:
                self.manual.problem(
                    self.header, one.comment.line,
                    f"the comment of {one.comment.names[0]} has no '{label}'")
        if said:
            self.page.head(title)
        for lines, whose in said.items():
            if len(whose) == len(self.functions):
                self.page.put(*lines)
            else:
                self.page.put(".PP", ", ".join(one.tag for one in whose) + ":", ".RS 4", *lines,
                              ".RE")

    def lines(self, name, one):
        start, blocks_ = len(self.page.lines), one.parts[name]
        if name == "from":
            blocks_[0].text = "From: " + blocks_[0].text
        self.page.blocks(blocks_)
        made = self.page.lines[start:]
        del self.page.lines[start:]
        return made

    def see_also(self):
        top = self.manual.header_page(self.header)
        pages = {self.manual.top.get(name, name) for name in self.page.seen
                 if self.manual.sections[name] == 3 or name.startswith("slub-")}
        names = [(name, self.manual.sections[name]) for name in pages - {self.names[0], top}]
        names += [(top, 7), ("libslub", 7)]
        names.sort(key=lambda item: (item[1], item[0]))
        self.page.head("SEE ALSO")
        lines = [f".BR {escape(name)} ({section})" for name, section in names]
        self.page.put(*(line + " ," for line in lines[:-1]), lines[-1])


class HeaderPage:
    def __init__(self, manual, header, name):
        self.manual = manual
        self.header = header
        self.page = manual.page(name, 7)

    def text(self):
        page = self.page
        head = self.header.head
        lead, _, rest = head.text.partition("\n\n")
        what = " ".join(lead.split()).rstrip(".")
        names = [page.name, *self.manual.described_with_header(self.header)]
        page.name_section(names, re.sub(r"^([\w ,-]+): ", r"\1: ", what))
        page.head("SYNOPSIS")
        page.put(".nf", f"\\fB#include <{self.header.name}>\\fR", ".PP",
                 "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs slub)", ".fi")
        page.head("DESCRIPTION")
        found = [block for block in blocks(rest or lead + ".") if block is not None]
        page.blocks(self.without_from(found))
        self.functions()
        self.declared("CONSTANTS", ("constant",))
        self.declared("TYPES", ("struct", "enum", "typedef"))
        self.names_of_parts()
        self.history(head)
        page.head("SEE ALSO")
        page.put(".BR libslub (7)")
        return page.text()

    @staticmethod
    def without_from(found):
        for block in found:
            if isinstance(block, Text):
                block.text = re.split(r"(?:^|(?<=\s))From: ", block.text)[0]
            if not isinstance(block, Text) or block.text.strip():
                yield block

    def history(self, head):
        found = re.search(r"(?:^|\s)From: (.*?)(?:\n\n|$)", head.text, re.DOTALL)
        if found:
            self.page.head("HISTORY")
            self.page.sentences("From: " + found.group(1))

    def functions(self):
        comments = [c for c in self.header.comments if c.names]
        if not comments:
            return
        self.page.head("FUNCTIONS")
        for comment in comments:
            self.page.put(".TP", ", ".join(
                f"\\fB{escape(name)}\\fR(3)" for name in comment.names))
            self.page.sentences(short(comment.summary))

    def declared(self, title, kinds):
        """Each run of declarations under the comment that they share."""
        found = [d for d in self.header.declarations if d.kind in kinds]
        if not found:
            return
        self.page.head(title)
        runs = []
        for declaration in found:
            comment = declaration.comment
            if comment and comment.names:
                comment = None
            if not runs or runs[-1][0] is not comment or comment is None:
                runs.append((comment, []))
            runs[-1][1].append(declaration)
        for comment, declarations in runs:
            self.page.put(".PP")
            if comment:
                self.page.blocks(b for b in blocks(comment.text) if b is not None)
                self.page.put(".PP")
            self.page.verbatim("\n".join(d.text.replace(" SLUB_NOEXCEPT", "")
                                         for d in declarations).split("\n"))

    def names_of_parts(self):
        """Of a header that consists of others: what each of them declares."""
        with open(self.header.path, encoding="utf-8") as file:
            parts = re.findall(r"#include <(slub/(?!cpp/)\w+/[\w.]+)>", file.read())
        own = [part for part in parts if not part.startswith("slub/arch/")]
        if not own:
            return
        self.page.head("NAMES")
        for part in own:
            path = os.path.join(self.manual.folder, part.split("/", 1)[1])
            names = sorted({d.name for d in Header(path, part).declarations
                            if not d.name.lower().startswith("slub_")})
            self.page.put(".TP", f"\\fI{escape(part)}\\fR", escape(", ".join(names)))
