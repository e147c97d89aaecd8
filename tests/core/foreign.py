#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""foreign.py LIBRARY...: which functions of other libraries this one calls, and from where.

Each undefined symbol of LIBRARY is listed below with the reason for it, and no other.  What is
reachable from an allocation, a free or the start (by calls, jumps and addresses of functions
that are taken on the way) may be replaced by a preloaded library, and allocate: so those are
few, and the list says why they are right there.
"""
import collections
import re
import subprocess
import sys

# In a request, or at the start.
IN_REQUESTS = {
    "__errno_location": "the address of a thread's variable",
    "abort": "the end of the process, after certain corruption",
    "getauxval": "the loader's own array; at the start, and once for the size of a page",
    "pthread_setspecific": "backend `thread`: once a thread; without a lock",
    "pthread_key_create": "the constructor; in a request of a second thread where no library for "
                          "threads was loaded then; without a lock",
    "dl_iterate_phdr": "finds the C++ library of an operator new that fails, and functions that "
                       "glibc has elsewhere before 2.34; without a lock",
    "_ZSt15get_new_handlerv": "an operator new that fails",
    "_ZNSt9bad_allocD1Ev": "an operator new that fails",
    "__cxa_allocate_exception": "an operator new that fails",
    "__cxa_throw": "an operator new that fails",
}
# Never in a request.
ELSEWHERE = {
    "__clone": "the program's clone()",
    "__register_atfork": "the constructor",
    "pthread_atfork": "the constructor",
    "__cxa_finalize": "the compiler's, at the end",
    "dlsym": "operators of the program's own, tables of frames: the constructor, and dlopen()",
    "dladdr": "as dlsym",
    "ferror": "malloc_info(), malloc_stats()",
    "fwrite": "malloc_info(), malloc_stats()",
    "pthread_create": "slub_pressure_start_thread()",
    "pthread_join": "slub_pressure_stop_thread()",
    "sigprocmask": "slub_pressure_start_thread()",
    "sigfillset": "slub_pressure_start_thread()",
    "stat": "option pressure, in the constructor",
    "__xstat": "as stat, which it was before glibc 2.33",
    "_IO_list_lock": "fork",
    "_IO_list_unlock": "fork",
    "_IO_list_resetlock": "fork",
}
# No functions, or none that is called.
DATA = {
    "__environ", "environ", "__libc_stack_end", "__rseq_offset", "__rseq_size",
    "__libc_single_threaded", "_ZTISt9bad_alloc",
    "_ZTVSt9bad_alloc", "__gmon_start__", "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable", "_GLOBAL_OFFSET_TABLE_", "__ehdr_start", "etext",
    "__start_slub_text_new", "__stop_slub_text_new", "__start_slub_text_new_many",
    "__stop_slub_text_new_many", "slub_start_only", "slub_start_only_end", "__popcountdi2",
}
# A sanitizer's runtime has them, weakly; it owns malloc() then.
RUNTIME = re.compile("__(asan|tsan|msan|lsan|interceptor)_")

ROOTS = ("malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign",
         "valloc", "pvalloc", "reallocarray", "malloc_usable_size", "free_sized",
         "free_aligned_sized", "slub_cache_alloc", "slub_cache_free", "slub_cache_alloc_flags",
         "slub_cache_alloc_bulk", "slub_cache_free_bulk", "slub_malloc", "slub_free",
         "slub_free_deferred", "slub_bucket_alloc", "slub_bucket_free", "slub_mempool_alloc",
         "slub_mempool_free", "slub_percpu_alloc", "slub_percpu_free", "_Znwm", "_ZdlPv")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def undefined(library):
    flags = ["-D"] if ".so" in library else []
    for line in output("nm", "--undefined-only", *flags, library).splitlines():
        if " U " in line or " w " in line:
            yield line.split()[-1].split("@")[0]


def graph(library):
    """Functions, and what each names: calls, jumps, addresses."""
    edges, here = collections.defaultdict(set), None
    for line in output("objdump", "-d", "--no-show-raw-insn", library).splitlines():
        begin = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        if begin:
            here = begin[1]
            continue
        for name in re.findall(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>", line):
            edges[here.replace(".cold", "")].add(name.split("@")[0].replace(".cold", ""))
    return edges


def reached(edges):
    """The functions that a request comes to, and for each the one it comes from."""
    seen, left = {root: None for root in ROOTS}, list(ROOTS)
    while left:
        here = left.pop()
        for name in edges[here]:
            if name not in seen:
                seen[name] = here
                left.append(name)
    return seen


def way(seen, name):
    names = []
    while name:
        names.append(name)
        name = seen[name]
    return " <- ".join(names)


def main():
    failures = []
    for library in sys.argv[1:]:
        names = {name for name in undefined(library) if not RUNTIME.match(name)}
        for name in sorted(names - set(IN_REQUESTS) - set(ELSEWHERE) - DATA):
            failures.append(f"{library} calls {name}, which is in no list")
        if ".so" not in library:
            continue
        seen = reached(graph(library))
        for name in sorted(names & set(seen) - set(IN_REQUESTS) - DATA):
            failures.append(f"a request reaches {name}: {way(seen, name)}")
        found = sorted(names & set(seen) & set(IN_REQUESTS))
        print(f"{library}: {len(names)} foreign symbols, {len(seen)} functions reached, among them "
              f"{', '.join(found)}")
        # Else the way through the code was not found at all.
        if "abort" not in found:
            failures.append("nothing was found")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
