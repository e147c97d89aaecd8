# SPDX-License-Identifier: MIT
"""The mutants of a C file: each one change of a token, a condition or a statement.

The file is not parsed.  Comments, strings and the preprocessor's lines are blanked
out, and the kernel's style does the rest: a binary operator has a space on both sides.
"""
import re
from collections import namedtuple

# From @start, @length characters become @text.  @kind is the operator's name.
Mutant = namedtuple("Mutant", "path line start length text kind")

HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                    re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
CONSTANT_LINE = re.compile(r"^#define \w+ +(\(?.*\d.*)$", re.MULTILINE)
# What a build without assertions and injection points has not.
CHECKS = re.compile(r"\b(?:slub_assert|_Static_assert|inject|inject_fails)\s*\(")

BINARY = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"],
    "&": ["|"], "|": ["&"], "^": ["|"], "<<": [">>"], ">>": ["<<"],
    "+=": ["-="], "-=": ["+="], "|=": ["&="], "&=": ["|="],
}
OPERATOR = re.compile(
    r"(?<=\s)(" + "|".join(re.escape(o) for o in sorted(BINARY, key=len, reverse=True))
    + r")(?=\s)")
STEP = re.compile(r"\+\+|--")
NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])")
ORDER = re.compile(r"__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)\b")
WORD = re.compile(r"\b(?:true|false)\b")
INVERTED = re.compile(r"(?<![\w)\]])([!~])(?=[\w(])")
CONDITION = re.compile(r"\b(?:if|while) \(")
DECLARATION = re.compile(
    r"(?:static|const|struct|enum|union|unsigned|signed|u?int\d*_t|u?intptr_t|size_t"
    r"|ptrdiff_t|bool|void|char|short|int|long|float|double|typedef|extern)\b(?!\s*\))")
STATEMENT = re.compile(
    r"(?!return\b.)(?:[\w*(+-].*\)|.*[^=!<>]=[^=].*|.*(?:\+\+|--)|break|continue|return)$",
    re.DOTALL)
LEADING = re.compile(r"\s*(?:else\b|do\b|case\s[^:]*:|default:|\w+:(?=\s))")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def closing(text, start):
    """The place behind the parenthesis that closes the one at @start."""
    depth = 0
    for place in range(start, len(text)):
        if text[place] in "([":
            depth += 1
        elif text[place] in ")]":
            depth -= 1
            if not depth:
                return place + 1
    return len(text)


def without_checks(text):
    for check in reversed(list(CHECKS.finditer(text))):
        end = closing(text, check.end() - 1)
        text = (text[:check.start()]
                + re.sub(r"[^\n]", " ", text[check.start():end]) + text[end:])
    return text


def bodies(code):
    """Where functions begin and end: braces in column 0."""
    start = None
    for match in re.finditer(r"^[{}]", code, re.MULTILINE):
        if match.group() == "{":
            start = match.end()
        elif start is not None:
            yield start, match.start()
            start = None


def token_mutants(code):
    for match in OPERATOR.finditer(code):
        for text in BINARY[match.group(1)]:
            yield match.start(1), len(match.group(1)), text, "operator"
    for match in STEP.finditer(code):
        yield match.start(), 2, "--" if match.group() == "++" else "++", "operator"
    for match in INVERTED.finditer(code):
        yield match.start(), 1, " ", "operator"
    for match in NUMBER.finditer(code):
        yield from constant(match)
    for match in ORDER.finditer(code):
        yield match.start(), len(match.group()), "__ATOMIC_RELAXED", "order"
    for match in WORD.finditer(code):
        other = "false" if match.group() == "true" else "true"
        yield match.start(), len(match.group()), other, "constant"


def constant(match):
    digits = match.group(1)
    is_octal = digits.isdigit() and digits[0] == "0"
    value = int(digits, 8 if is_octal else 0)
    text = str(0 if value == 1 else value + 1) + match.group(2)
    yield match.start(), len(match.group()), text, "constant"


def condition_mutants(code):
    for match in CONDITION.finditer(code):
        start = match.end() - 1
        end = closing(code, start)
        condition = code[start:end]
        # A comparison that is turned round says the same.
        if not OPERATOR.search(condition) and not INVERTED.search(condition):
            yield start, end - start, "(!" + condition + ")", "condition"


def headless(piece):
    """How far conditions, labels and the like reach into a statement."""
    at = 0
    while True:
        lead = LEADING.match(piece, at)
        if lead:
            at = lead.end()
            continue
        head = re.compile(r"\s*(?:if|while|for|switch) (?=\()").match(piece, at)
        if not head:
            return at + len(piece[at:]) - len(piece[at:].lstrip())
        at = closing(piece, head.end())


def statement_mutants(code, start, end):
    """Each statement that ends in a semicolon outside of parentheses, removed."""
    depth, begin = 0, start
    for place in range(start, end):
        letter = code[place]
        depth += (letter in "([") - (letter in ")]")
        if depth or letter not in ";{}":
            continue
        piece = code[begin:place]
        at = headless(piece)
        statement = piece[at:].rstrip()
        if letter == ";" and statement and not DECLARATION.match(statement) \
                and STATEMENT.match(statement):
            yield begin + at, len(statement), "", "statement"
        begin = place + 1


def body_mutants(code, start, end):
    body = code[:end]
    for found in (token_mutants, condition_mutants):
        for at, length, text, kind in found(" " * start + body[start:]):
            yield at, length, text, kind
    yield from statement_mutants(body, start, end)


def constant_mutants(source, code):
    """In a `#define` of a value: they are policy as often as not, but not all are."""
    shown = HIDDEN.sub(blank, source)
    for line in CONSTANT_LINE.finditer(shown):
        for match in NUMBER.finditer(line.group(1)):
            for at, length, text, kind in constant(match):
                yield line.start(1) + at, length, text, kind


ASM_SWAPS = [
    ("jz ", "jnz "), ("jnz ", "jz "), ("je ", "jne "), ("jne ", "je "),
    ("jle ", "jl "), ("jl ", "jle "), ("addl ", "subl "), ("subl ", "addl "),
    ("$0,", "$1,"), ("$1,", "$2,"),
]
ASM_LINE = re.compile(r'^[ \t]*"(?!\d:)([^"\n]*?)(?:\\n(?:\\t)?)?"', re.MULTILINE)


def assembly_mutants(source):
    """In a sequence: another jump or constant, or an instruction less."""
    for line in ASM_LINE.finditer(source):
        text = line.group(1)
        if not re.match(r"[a-z]\w* ", text):
            continue
        yield line.start(1), len(text), "", "assembly"
        for old, new in ASM_SWAPS:
            at = text.find(old)
            if at >= 0:
                yield line.start(1) + at, len(old), new, "assembly"


def mutants(path, source):
    code = DIRECTIVE.sub(blank, HIDDEN.sub(blank, source))
    code = without_checks(code)
    found = set(constant_mutants(source, code))
    for start, end in bodies(code):
        found.update(body_mutants(code, start, end))
    if "asm" in source:
        found.update(assembly_mutants(source))
    for start, length, text, kind in sorted(found):
        if source[start:start + length] != text:
            line = source.count("\n", 0, start) + 1
            yield Mutant(path, line, start, length, text, kind)


def apply(source, mutant):
    """The mutant's text; it has as many lines as the source."""
    end = mutant.start + mutant.length
    removed = source[mutant.start:end]
    lost = removed.count("\n") - mutant.text.count("\n")
    return source[:mutant.start] + mutant.text + "\n" * lost + source[end:]
