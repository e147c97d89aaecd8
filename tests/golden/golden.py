#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Promise: the fast paths of malloc and free are at most 29 and 37 instructions from entry to ret,
with no call and no stack frame, and stay as they are until somebody looks at the change.  Those
of aarch64 are longer: no instruction there has an operand in memory, or an address of 32 bits.

The same of the inline functions of slub/cache.h and slub/percpu.h, compiled into a program: the
whole of them stands in the program's own text, which leaves for the library's functions alone.

usage: golden.py FILE CONFIGURATION FOLDER [--program] [--update]

Follows each function from its entry: conditional branches are not taken, jumps within the function
are followed, the first ret ends it.  In free one branch leads over the way to the local list of a
slab, which is free_local here.  The mnemonics are compared with FOLDER/NAME.txt, whose head
names the compiler and the configuration that it was made with; another one is not compared.
`--update` writes the listings."""

import os
import re
import subprocess
import sys

# The most instructions each may have.
LIBRARY = {"malloc": 29, "free": 37, "free_local": 61}
LIBRARY_AARCH64 = {"malloc": 36, "free": 43}  # of clang, of gcc; the others are 35 and 41
PROGRAM = {"inline_cache_alloc": 30, "inline_cache_alloc_owned": 36,
           "inline_cache_free": 43, "inline_percpu_add": 15}
PROGRAM_AARCH64 = {"inline_cache_alloc": 36, "inline_cache_alloc_owned": 46,
                   "inline_cache_free": 49, "inline_percpu_add": 23}  # clang's, too
# Another way through a function, and the branch that is taken on the usual one.
WAYS = {"free_local": "free"}
TAKEN = {"free": "jg"}
# Where the inline functions go on.
LEAVES = {"slub_cache_alloc", "slub_cache_free", "slub_cache_free_aborted", "slub_cache_claim",
          "slub_percpu_add"}
CONDITIONAL = re.compile(r"^j(?!mp)[a-z]+$")
FRAME = re.compile(r"^(push|pop|enter|leave)|^(sub|add|lea|and|mov)\b.*,\s*%rsp$"
                   r"|^(stp|str|ldp|ldr)\b.*\[sp|^(sub|add)\s+sp,")
CALL = re.compile(r"^(call|bl\b|blr\b)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_aarch64(library):
    return "AArch64" in output("readelf", "-h", library)


def extent(library, function):
    """First and last address of an exported function; it may have other names too."""
    for line in output("readelf", "--wide", "--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[3] == "FUNC" and fields[7].split("@")[0] == function:
            start = int(fields[1], 16)
            return start, start + int(fields[2], 0)
    sys.exit(f"{library}: exports no function {function}")


def disassemble(library, function):
    """{address: instruction}, and the entry."""
    start, end = extent(library, function)
    tool = "aarch64-linux-gnu-objdump" if is_aarch64(library) else "objdump"
    text = output(tool, "-d", "--no-show-raw-insn", f"--start-address={start}",
                  f"--stop-address={end}", library)
    lines = re.findall(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*(?:#.*)?$", text, re.MULTILINE)
    return {int(address, 16): instruction for address, instruction in lines}, start


def fast_path(library, function):
    """The instructions from entry to the first ret, in the order they run."""
    code, address = disassemble(library, WAYS.get(function, function))
    order = sorted(code)
    following = dict(zip(order, order[1:]))
    path = []
    while address in code and len(path) < 200:
        text = re.sub(r"^(?:bnd|addr32|data16|notrack|ds|cs) ", "", code[address])
        path.append(text)
        if text.startswith("ret"):
            return path
        taken = f"|{TAKEN[function]}" if function in TAKEN else ""
        jump = re.match(rf"^(?:jmp|b{taken})\s+([0-9a-f]+)", text)
        address = int(jump.group(1), 16) if jump else following.get(address)
    sys.exit(f"{function}: no ret within the function:\n" + "\n".join(path))


def faults(function, path, most):
    if len(path) > most:
        yield f"{function}: {len(path)} instructions; at most {most}"
    for text in path:
        if CALL.match(text):
            yield f"{function}: calls: {text}"
        if FRAME.match(text):
            yield f"{function}: stack frame: {text}"


def exits(program, function):
    """Where a function calls or jumps to outside of itself; the abort handlers come back, and
    the branches that aarch64 has behind all functions."""
    code, start = disassemble(program, function)
    for text in code.values():
        found = re.match(r"^(?:bnd )?(?:call|j[a-z]+|bl?)\s+\*?\S*\s*<([^>+]+)(\+0x[0-9a-f]+)?>",
                         text)
        if found and found.group(1) != function:
            yield found.group(1).split("@")[0]


def mnemonics(path):
    return [text.split()[0] for text in path]


def compiler_of(library):
    comment = output("readelf", "--string-dump=.comment", library)
    # What clang compiles is linked with files of gcc's.
    for name, pattern in (("clang", r"clang version (\d+\.\d+)"),
                          ("gcc", r"GCC: \(.*?\) (\d+\.\d+)")):
        found = re.search(pattern, comment)
        if found:
            return f"{name} {found.group(1)}"
    return "unknown"


def heading(library, configuration):
    return f"# {compiler_of(library)}, {configuration}"


def write(path_of_file, head, path):
    with open(path_of_file, "w") as file:
        file.write(head + "\n" + "\n".join(mnemonics(path)) + "\n")


def compare(path_of_file, head, function, path):
    """None if equal, else what to say and whether that is no fault."""
    if not os.path.exists(path_of_file):
        return f"{function}: no {path_of_file}; make it with --update", False
    with open(path_of_file) as file:
        golden_head, *golden = file.read().splitlines()
    if golden_head != head:
        return f"{function}: listing not compared: this is '{head}', it is '{golden_head}'", True
    if golden == mnemonics(path):
        return None
    return (f"{function}: changed.\nbefore: {' '.join(golden)}\nnow:    "
            f"{' '.join(mnemonics(path))}\nIf that is as it should be: golden.py --update", False)


def main(library, configuration, folder, *options):
    failed = False
    update = "--update" in options
    is_program = "--program" in options
    functions = PROGRAM if is_program else LIBRARY
    if is_aarch64(library):
        functions = PROGRAM_AARCH64 if is_program else LIBRARY_AARCH64
    head = heading(library, configuration)
    for function in functions:
        path = fast_path(library, function)
        file = os.path.join(folder, f"{function}.txt")
        print(f"{function}: {len(path)} instructions")
        wrong = list(faults(function, path, functions[function]))
        if is_program:
            left = sorted(set(exits(library, function)))
            wrong += [f"{function}: leaves for {name}" for name in left
                      if name not in LEAVES]
            if not left:
                wrong.append(f"{function}: has no slow path")
        for fault in wrong:
            print(fault)
            failed = True
        if update:
            write(file, head, path)
            continue
        difference = compare(file, head, function, path)
        if difference:
            print(difference[0])
            failed = failed or not difference[1]
        if failed:
            print("    " + "\n    ".join(path))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4 or not set(sys.argv[4:]) <= {"--update", "--program"}:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
