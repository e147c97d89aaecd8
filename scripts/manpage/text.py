# SPDX-License-Identifier: MIT
"""A function's comment, taken apart into the sections of a page.

    name, other_name - what it does, in a few words.
                                    (blank)
    Sentences.  @parameter: what it means.
    Returns what, or NULL with errno set:
      EINVAL  why
    Context: where it may be called.  Cost: ...  From: the kernel's name of it.

A label holds up to the next one, or to the end of its paragraph; "Returns and errors: as x()"
stands for both.
"""
import re

SECTIONS = ("description", "returns", "errors", "context", "cost", "from")
WORD = r"(?:returns?|errors?|context|cost|from)"
LABEL = re.compile(
    r"(?:^|(?<=[.;:?!)]\s)|(?<=[.;:?!)]\s\s))"
    rf"((?i:{WORD}(?:,? (?:and )?{WORD})*):(?:\s|$)|Returns?(?= ))")
ERROR = re.compile(r"\s{2,}(-?E[A-Z0-9]{2,}(?:, -?E[A-Z0-9]{2,})*)\s+(\S.*)")
ERROR_NAME = re.compile(r"(?<![\w@])-?E[A-Z0-9]{2,}\b")


class Text:
    """A run of sentences."""

    def __init__(self, text):
        self.text = text


class Verbatim:
    """Lines that stand as they are: code, pictures, tables."""

    def __init__(self, lines):
        indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        self.lines = [line[indent:] for line in lines]


class Entry:
    """A tag and what belongs to it: an error, a parameter."""

    def __init__(self, tag, text):
        self.tag = tag
        self.text = text


def blocks(text):
    """Text, Verbatim and Entry in their order, None where a paragraph ends."""
    for paragraph in re.split(r"\n\s*\n", text):
        yield from paragraph_blocks(paragraph.split("\n"))
        yield None


def paragraph_blocks(lines):
    at = 0
    while at < len(lines):
        start = at
        error = ERROR.match(lines[at])
        if error:
            indent = len(lines[at]) - len(lines[at].lstrip())
            at += 1
            more = []
            while at < len(lines) and not ERROR.match(lines[at]) \
                    and len(lines[at]) - len(lines[at].lstrip()) > indent:
                more.append(lines[at].strip())
                at += 1
            yield Entry(error.group(1), "\n".join([error.group(2)] + more))
        elif lines[at].startswith("  "):
            while at < len(lines) and lines[at].startswith("  ") \
                    and not ERROR.match(lines[at]):
                at += 1
            yield Verbatim(lines[start:at])
        else:
            while at < len(lines) and not lines[at].startswith("  "):
                at += 1
            yield Text("\n".join(lines[start:at]))


class Sections:
    """sections[name]: a list of blocks, for each name of SECTIONS."""

    def __init__(self, comment):
        self.sections = {name: [] for name in SECTIONS}
        self.current = ["description"]
        lead, _, rest = comment.text.partition("\n\n")
        lead = re.sub(r"^[\w,\s]+? - ", "", lead, count=1)
        self.add_text(capital(lead))
        self.current = ["description"]
        for block in blocks(rest) if rest.strip() else ():
            self.add(block)
        self.finish_errors()

    def __getitem__(self, name):
        return self.sections[name]

    def add(self, block):
        if block is None:
            self.current = ["description"]
        elif isinstance(block, Entry):
            self.current = ["errors"]
            self["errors"].append(block)
        elif isinstance(block, Text):
            self.add_text(block.text)
        else:
            self.put(block)

    def put(self, block):
        for name in self.current:
            self[name].append(block)

    def add_text(self, text):
        """Each label opens its sections; so do parameters, within the description."""
        parts = LABEL.split(text)
        self.add_sentences(parts[0])
        for label, sentences in zip(parts[1::2], parts[2::2]):
            self.current = [section_of(word)
                            for word in re.findall(rf"(?i){WORD}", label)]
            if ":" not in label:
                sentences = label + sentences
            if sentences.strip():
                self.put(Text(capital(sentences.strip())))

    def add_sentences(self, text):
        parts = re.split(r"(?:^|(?<=[.;]\s)|(?<=[.;]\s\s))@(\w+): ", text)
        if parts[0].strip():
            self.put(Text(parts[0].strip()))
        for name, meaning in zip(parts[1::2], parts[2::2]):
            self.put(Entry("@" + name, capital(meaning.strip().rstrip(";"), dot=True)))

    def finish_errors(self):
        """What the values say that a table follows for, or names errors itself."""
        returns = [b for b in self["returns"] if isinstance(b, Text)]
        table = [b for b in self["errors"] if isinstance(b, Entry)]
        if table and returns and re.search(r"(?:\bor|[:,])$", returns[-1].text):
            text = returns[-1].text.rstrip(" :,")
            if not table[0].tag.startswith("-"):
                text += " (see ERRORS)."
            elif text.endswith(" or"):
                text += " a negative error number (see ERRORS)."
            else:
                text += ", a negative error number (see ERRORS)."
            returns[-1].text = text
        named = sorted(set(ERROR_NAME.findall(" ".join(b.text for b in returns))))
        if named and not self["errors"]:
            self["errors"].append(Text(f"{', '.join(named)}: see RETURN VALUE."))


def section_of(word):
    word = word.lower()
    return {"return": "returns", "error": "errors"}.get(word, word)


def capital(text, dot=False):
    if text[:1].islower() and not re.match(r"\w*[_(]|(?:enum|struct|void) ", text):
        text = text[0].upper() + text[1:]
    if dot and text and text[-1] not in ".:?":
        text += "."
    return text


def short(summary):
    """The summary as far as the NAME of a page goes."""
    return re.split(r"[;?](?:\s|$)|\.(?:\s|$)", summary, maxsplit=1)[0].replace("@", "")
