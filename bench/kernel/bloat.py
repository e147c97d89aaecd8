# SPDX-License-Identifier: MIT
"""The bytes of functions in two builds, as the kernel's bloat-o-meter lists them."""
import re
import subprocess

# What a program runs that allocates and frees, before anything is slow.
FAST = re.compile(r"^(malloc|calloc|realloc|free|free_sized|free_aligned_sized|aligned_alloc"
                  r"|posix_memalign|_Zn[wa]m|_Zd[la]Pv|cache_alloc|cache_free|percpu_pop"
                  r"|percpu_push|percpu_take|percpu_put|slow_alloc|slow_free|slab_update"
                  r"|slub_cache_alloc\w*|slub_cache_free\w*|slub_percpu_\w+)$")


def functions(library):
    """name -> bytes of the code symbols of a library that keeps its symbol table."""
    done = subprocess.run(["nm", "-S", "--defined-only", library], capture_output=True, text=True,
                          check=True)
    sizes = {}
    for line in done.stdout.split("\n"):
        found = re.match(r"^\w+ (\w+) [tTwW] (\S+)$", line)
        if found:
            # A part that the compiler put elsewhere belongs to its function.
            name = re.sub(r"\.(cold|part|isra|constprop)(\.\d+)*", "", found.group(2))
            sizes[name] = sizes.get(name, 0) + int(found.group(1), 16)
    return sizes


def rows(library):
    """What the code of a library takes, as rows of a table."""
    sizes = functions(library)
    fast = sum(size for name, size in sizes.items() if FAST.match(name))
    return [{"name": "code/fast path", "unit": "bytes", "value": fast},
            {"name": "code/malloc and free", "unit": "bytes",
             "value": sizes["malloc"] + sizes["free"]},
            {"name": "code/all of the library", "unit": "bytes", "value": sum(sizes.values())}]


def compare(old, new):
    """[(function, old, new)] of those that differ, by growth; and the sums over all."""
    before, after = functions(old), functions(new)
    changed = [(name, before.get(name, 0), after.get(name, 0))
               for name in sorted(before.keys() | after.keys())
               if before.get(name, 0) != after.get(name, 0)]
    changed.sort(key=lambda one: (one[1] - one[2], one[0]))
    return changed, sum(before.values()), sum(after.values())


def summary(changed):
    """bloat-o-meter's first line."""
    grown = [new - old for _, old, new in changed if new > old]
    shrunk = [old - new for _, old, new in changed if new < old]
    added = sum(old == 0 for _, old, _ in changed)
    removed = sum(new == 0 for _, _, new in changed)
    return (f"add/remove: {added}/{removed} "
            f"grow/shrink: {len(grown) - added}/{len(shrunk) - removed} "
            f"up/down: {sum(grown)}/-{sum(shrunk)} ({sum(grown) - sum(shrunk)})")


def table(title, old, new):
    """The lines for one option: the summary of the library, the fast path's functions by name."""
    changed, before, after = compare(old, new)
    fast = [one for one in changed if FAST.match(one[0])]
    lines = ["", title, "", summary(changed), f"{'function':32}{'old':>8}{'new':>8}{'delta':>8}"]
    lines += [f"{name:32}{was:8}{now:8}{now - was:+8}" for name, was, now in fast]
    if not fast:
        lines.append("no function of the fast path changes its size")
    lines.append(f"{'all code of the library':32}{before:8}{after:8}{after - before:+8}")
    record = {"summary": summary(changed), "old": before, "new": after,
              "functions": {name: [was, now] for name, was, now in changed}}
    return lines, record
