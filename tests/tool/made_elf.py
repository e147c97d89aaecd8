# SPDX-License-Identifier: MIT
"""An ELF file that is made by hand, with what the command looks for, and with what is damaged:

    needed=a.so,b.so dynsym=f,g symtab=h undefined=k	libraries, and symbols of both tables
    interp=/lib/ld.so align=4096 tls=8			interp= (nothing): a static program
    head.machine=3 dynsym.link=9 load.align=1 size=200	another number; where the file ends
"""
import struct

HEAD = {"class": (4, "B"), "data": (5, "B"), "machine": (18, "<H"), "phoff": (32, "<Q"),
        "shoff": (40, "<Q"), "phentsize": (54, "<H"), "phnum": (56, "<H"),
        "shentsize": (58, "<H"), "shnum": (60, "<H")}
SEGMENT = {"type": (0, "<I"), "offset": (8, "<Q"), "filesz": (32, "<Q"), "memsz": (40, "<Q"),
           "align": (48, "<Q")}
SECTION = {"type": (4, "<I"), "offset": (24, "<Q"), "size": (32, "<Q"), "link": (40, "<I")}
SEGMENTS = ("interp", "load", "data", "tls")
SECTIONS = ("none", "dynstr", "dynsym", "dynamic", "strtab", "symtab")
PT_LOAD, PT_INTERP, PT_TLS = 1, 3, 7
SHT_SYMTAB, SHT_STRTAB, SHT_DYNAMIC, SHT_DYNSYM = 2, 3, 6, 11
LOADER = "/lib64/ld-linux-x86-64.so.2"


class Strings:
    def __init__(self):
        self.bytes = b"\0"

    def at(self, text):
        self.bytes += text.encode() + b"\0"
        return len(self.bytes) - len(text) - 1


def symbols(names, undefined, strings):
    table = bytes(24)
    for name in names:
        table += struct.pack("<IBBHQQ", strings.at(name), 0x12, 0, 1, 0x1000, 1)
    for name in undefined:
        table += struct.pack("<IBBHQQ", strings.at(name), 0x12, 0, 0, 0, 0)
    return table


def made(changes):
    """Its bytes."""
    told = dict(change.split("=", 1) for change in changes)

    def names(what):
        return [name for name in told.pop(what, "").split(",") if name]

    dynstr, strtab = Strings(), Strings()
    interpreter = told.pop("interp", LOADER)
    tables = {"dynsym": symbols(names("dynsym"), names("undefined"), dynstr),
              "dynamic": b"".join(struct.pack("<qQ", 1, dynstr.at(name))
                                  for name in names("needed")) + struct.pack("<qQ", 0, 0),
              "symtab": symbols(names("symtab"), [], strtab)}
    tables.update(none=b"", dynstr=dynstr.bytes, strtab=strtab.bytes)
    align, tls = int(told.pop("align", "4096"), 0), int(told.pop("tls", "8"), 0)
    text = interpreter.encode() + b"\0"
    phoff, at = 64, 64 + 56 * len(SEGMENTS)
    segments = {"interp": (PT_INTERP if interpreter else 0, at, len(text), 1),
                "load": (PT_LOAD, 0, at, align), "data": (PT_LOAD, 0, at, 16),
                "tls": (PT_TLS if tls else 0, 0, tls, 8)}
    body, places = text, {}
    kinds = {"none": (0, 0), "dynstr": (SHT_STRTAB, 0), "dynsym": (SHT_DYNSYM, 1),
             "dynamic": (SHT_DYNAMIC, 1), "strtab": (SHT_STRTAB, 0), "symtab": (SHT_SYMTAB, 4)}
    for name in SECTIONS:
        places[name] = at + len(body)
        body += tables[name]
    shoff = at + len(body)
    head = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, 62, 1, 0x1000, phoff,
                       shoff, 0, 64, 56, len(SEGMENTS), 64, len(SECTIONS), 0)
    for name in SEGMENTS:
        kind, offset, size, its = segments[name]
        head += struct.pack("<IIQQQQQQ", kind, 4, offset, 0, 0, size, size, its)
    for name in SECTIONS:
        kind, link = kinds[name]
        body += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, places[name], len(tables[name]), link,
                            0, 1, 0)
    return changed(bytearray(head + body), told, phoff, shoff)


def changed(image, told, phoff, shoff):
    size = told.pop("size", None)
    for name, value in told.items():
        part, _, field = name.partition(".")
        if part == "head":
            start, (at, form) = 0, HEAD[field]
        elif part in SEGMENTS:
            start, (at, form) = phoff + 56 * SEGMENTS.index(part), SEGMENT[field]
        else:
            start, (at, form) = shoff + 64 * SECTIONS.index(part), SECTION[field]
        more = struct.unpack_from(form, image, start + at)[0] if value[0] == "+" else 0
        struct.pack_into(form, image, start + at, more + int(value.removeprefix("+"), 0))
    if size:
        image = image[:int(size, 0) % len(image)]
    return image
