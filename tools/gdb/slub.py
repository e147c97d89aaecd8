# SPDX-License-Identifier: MIT
"""gdb commands for programs on libslub, live or in a core file.

    (gdb) source slub.py
    (gdb) slub caches          the caches, as slabinfo prints them
    (gdb) slub object ADDR     whose object it is, and whether it is in use
    (gdb) slub slab ADDR       the slab that ADDR lies in, object by object

They read what docs/operate/inspection.md describes: no debugging information of the
library is needed, and nothing is called in the program.
"""

import ctypes
import struct

import gdb

ABI_VERSION = 6
ROW = 64
STEPS_MAX = 1 << 20

MAP_NONE, MAP_LARGE = 0, 32
TYPE_FREE, TYPE_SLAB, TYPE_LARGE = 1, 2, 3
INUSE = (1 << 30) - 1
LISTED, FROZEN = 1 << 62, 1 << 63

CACHE_FIELDS = ["name", "slot", "list_slot", "size", "object_size", "align", "flags", "order",
                "objects", "capacity", "capacity_now", "min_partial", "carve_batch", "users",
                "ctor", "debug", "link", "stats", "watch", "slack", "usersize", "useroffset",
                "aliases", "accounted", "owners", "owners_here", "unguarded", "root", "barn",
                "in_barns"]
NODE_FIELDS = ["slabs", "partial", "objects", "carved", "slabs_peak"]
BARN_CHAINS = 32
BARN_SHIFT = 48
TRACK_FIELDS = ["caller", "when", "stack", "thread", "cpu", "is_freed"]

u8, u16, u32, u64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64


class Field(ctypes.Structure):
    _fields_ = [("offset", u16), ("bytes", u16)]


class Abi(ctypes.Structure):
    """struct slub_abi of src/features/inspect/abi.h, version 6."""
    _fields_ = [
        ("magic", ctypes.c_char * 8), ("version", u32), ("size", u32), ("ready", u32),
        ("backend", u32), ("cpu_number", u32), ("page_size", u32), ("layout", u32), ("smp", u32),
        ("nr_cpus_possible", u32), ("nr_cpus_allowed", u32), ("nr_cpus_quota", u32),
        ("nr_nodes", u32), ("membarrier", u32), ("huge", u32), ("range_start", u64),
        ("range_bytes", u64), ("heap_start", u64), ("heap_bytes", u64), ("retain_bytes", u64),
        ("library_version", ctypes.c_char * 16), ("self", u64), ("start_ns", u64), ("map", u64),
        ("map_stride", u32), ("page_bytes", u32), ("descriptors", u64),
        ("descriptor_stride", u32), ("descriptor_flags", u16), ("descriptor_count", u16),
        ("descriptor_holes", u16), ("descriptor_state", u16), ("descriptor_state_align", u32),
        ("base_table", u64), ("dummy_area", u64), ("shared_area", u64), ("nr_areas", u32),
        ("area_bytes", u32), ("slot_bytes", u32), ("slot_head", u16), ("slot_room", u16),
        ("slot_spare_head", u16), ("barn_oldest", u16), ("barn_newest", u16),
        ("barn_chains", u16), ("stat_words", u8 * 32),
        ("slot_owners", u64), ("nr_slots", u32), ("cache_bytes", u32), ("cache_nodes", u32),
        ("node_bytes", u32), ("cache_fields", Field * 32), ("node_fields", Field * 16),
        ("options", u64), ("nr_options", u32), ("option_bytes", u32), ("guard", u64),
        ("stacks", u64), ("stack_unit", u32), ("stack_nr", u16), ("stack_frames", u16),
        ("watch_bytes", u32), ("track_bytes", u32), ("watch_fields", Field * 8),
        ("track_fields", Field * 8), ("groups", u64), ("descriptor_owner", u16),
        ("reserved_owner", u16 * 3), ("deferred", u64), ("deferred_added", u32),
        ("reserved_deferred", u32), ("limit", u64), ("far_owners", u64), ("far_entry", u32),
        ("nr_far_slots", u32),
    ]


def read(address, size):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.MemoryError:
        raise gdb.GdbError(f"slub: cannot read {size} bytes at {address:#x}")


def word(address):
    return struct.unpack("<Q", read(address, 8))[0]


def get(data, field):
    return int.from_bytes(data[field.offset:field.offset + field.bytes], "little")


def symbol_address():
    try:
        return int(gdb.parse_and_eval("(unsigned long)&slub_abi_state"))
    except gdb.error:
        raise gdb.GdbError("slub: no symbol slub_abi_state: this program does not use libslub")


class Cache:
    def __init__(self, heap, data, nodes):
        for name, field in zip(CACHE_FIELDS, heap.abi.cache_fields):
            setattr(self, name, get(data, field))
        self.name = heap.string(self.name)
        self.nodes = [{name: get(node, field)
                       for name, field in zip(NODE_FIELDS, heap.abi.node_fields)}
                      for node in nodes]
        # A watched one: bytes in front of its slabs' first object, and where tracks are.
        self.left = self.track = 0
        if self.watch:
            layout = read(self.watch, heap.abi.watch_bytes)
            self.left, self.track = (get(layout, field) for field in heap.abi.watch_fields[:2])

    def index_of(self, slab, address):
        """The object that @address is in, or the one whose zone it is in."""
        return max(address - slab.start - self.left, 0) // self.size

    def start_of(self, slab, index):
        return slab.start + self.left + index * self.size


class Slab:
    """The slab that @address lies in."""

    def __init__(self, heap, cache, address):
        self.bytes = heap.abi.page_bytes << cache.order
        self.start = address // self.bytes * self.bytes
        flags, self.carved, self.freelist, self.state = heap.descriptor(self.start)
        self.holes = heap.holes(cache, self.start)
        self.size, self.page_bytes = cache.size, heap.abi.page_bytes
        if flags & 0xff != TYPE_SLAB:
            raise gdb.GdbError(f"slub: the descriptor of the slab at {self.start:#x} is damaged "
                               f"(flags {flags:#x})")
        self.node = flags >> 16 & 0xff
        self.inuse = self.state & INUSE

    def has_memory(self, index):
        """False: the object was never used, or the page of it went back to the system."""
        if not self.holes:
            return index < self.carved
        first = index * self.size // self.page_bytes
        last = ((index + 1) * self.size - 1) // self.page_bytes
        return not (self.holes >> first | self.holes >> last) & 1

    def words(self):
        if self.state & FROZEN:
            return "objects are carved from it"
        if self.state & LISTED:
            return "on the partial list"
        return "full"


class Heap:
    """The state of the library, read once per command."""

    def __init__(self):
        address = symbol_address()
        self.abi = Abi.from_buffer_copy(read(address, ctypes.sizeof(Abi)))
        if self.abi.magic != b"SLUBABI" or self.abi.version != ABI_VERSION:
            raise gdb.GdbError(f"slub: libslub describes itself in version {self.abi.version}; "
                               f"these commands read version {ABI_VERSION}; use the slub.py "
                               "that came with that library")
        if not self.abi.ready:
            raise gdb.GdbError("slub: libslub has not started yet")
        self.caches = {}
        self.add_caches(self.abi.slot_owners, self.abi.nr_slots, 0, self.abi.slot_bytes)
        if self.abi.size >= ctypes.sizeof(Abi) and self.abi.nr_far_slots:
            self.add_caches(self.abi.far_owners, self.abi.nr_far_slots, self.abi.far_entry, 1)

    def add_caches(self, owners, nr, first, step):
        """Those of @nr owners; entries of the map begin at @first."""
        pointers = struct.iter_unpack("<Q", read(owners, nr * 8))
        for number, (pointer,) in enumerate(pointers):
            if pointer:
                self.add_cache(first + number * step, pointer)

    def add_cache(self, slot, pointer):
        data = read(pointer, self.abi.cache_bytes)
        where = self.abi.cache_nodes
        nodes = [read(struct.unpack_from("<Q", data, where + 8 * n)[0], self.abi.node_bytes)
                 for n in range(self.abi.nr_nodes)]
        cache = Cache(self, data, nodes)
        if cache.slot == slot:
            self.caches[slot] = cache

    @staticmethod
    def string(address, most=64):
        text = b""
        while b"\0" not in text and len(text) < most:
            text += read(address + len(text), 1)
        return text.split(b"\0")[0].decode("ascii", "replace")

    def in_heap(self, address):
        return 0 <= address - self.abi.heap_start < self.abi.heap_bytes

    def map_entry(self, address):
        page = (address - self.abi.range_start) // self.abi.page_bytes
        return struct.unpack("<H", read(self.abi.map + 2 * page, 2))[0]

    def descriptor(self, address):
        """Flags, count, and the two words of the state."""
        abi = self.abi
        page = (address - abi.heap_start) // abi.page_bytes
        at = abi.descriptors + page * abi.descriptor_stride
        align = abi.descriptor_state_align
        state = (at + abi.descriptor_state + align - 1) // align * align
        flags, = struct.unpack("<I", read(at + abi.descriptor_flags, 4))
        count, = struct.unpack("<I", read(at + abi.descriptor_count, 4))
        return (flags, count) + struct.unpack("<QQ", read(state, 16))

    def holes(self, cache, slab):
        """A bit for each page that went back to the system.  A slab that has any was carved to
        its end once; its `carved` counts the objects that touch none of them."""
        has_links = self.abi.cache_fields[CACHE_FIELDS.index("link")].bytes
        if not has_links or cache.link >= 4096 or cache.watch:
            return 0
        page = (slab - self.abi.heap_start) // self.abi.page_bytes
        return word(self.abi.descriptors + page * self.abi.descriptor_stride +
                    self.abi.descriptor_holes)

    def link(self, cache, obj):
        if cache.link < 4096:
            return word(obj + cache.link)
        return word(cache.link + (obj >> 12) * 8)

    def chain(self, cache, obj):
        """The objects of a list, until one lies outside or it is too long."""
        for _ in range(STEPS_MAX):
            if not obj or not self.in_heap(obj):
                return
            yield obj
            obj = self.link(cache, obj)

    def frames(self, number):
        """The return addresses of a stored stack."""
        store = word(self.abi.stacks)
        if not number or not store:
            return []
        at = store + number * self.abi.stack_unit
        nr, = struct.unpack("<I", read(at + self.abi.stack_nr, 4))
        return [word(at + self.abi.stack_frames + 8 * i) for i in range(min(nr, 64))]

    def cpu_lists(self, cache):
        """(words, head) for every list that a CPU has."""
        table = read(self.abi.base_table, 8 * self.abi.nr_areas)
        for cpu, (area,) in enumerate(struct.iter_unpack("<Q", table)):
            if area in (0, self.abi.dummy_area):
                continue
            slot = area + cache.list_slot
            yield f"the list of CPU number {cpu}", word(slot + self.abi.slot_head)
            yield f"the spare list of CPU number {cpu}", word(slot + self.abi.slot_spare_head)

    def barn_lists(self, cache):
        table = read(self.abi.base_table, 8 * self.abi.nr_areas)
        for cpu, (area,) in enumerate(struct.iter_unpack("<Q", table)):
            if area in (0, self.abi.dummy_area) or not cache.barn:
                continue
            barn = area + cache.barn
            oldest, newest = (struct.unpack("<I", read(barn + at, 4))[0]
                              for at in (self.abi.barn_oldest, self.abi.barn_newest))
            for n in range(min((newest - oldest) % 2**32, BARN_CHAINS)):
                entry = word(barn + self.abi.barn_chains + 8 * ((oldest + n) % BARN_CHAINS))
                yield f"the barn of CPU number {cpu}", entry % (1 << BARN_SHIFT)

    def free_objects(self, cache, slab):
        """Where each free object of the slab is: address -> words."""
        found = {obj: "the slab's freelist" for obj in self.chain(cache, slab.freelist)}
        for words, head in [*self.cpu_lists(cache), *self.barn_lists(cache)]:
            for obj in self.chain(cache, head):
                if slab.start <= obj < slab.start + slab.bytes:
                    found[obj] = words
        return found

    def cache_of(self, address):
        """The cache, or None after words about what is there instead."""
        if not self.in_heap(address):
            print(f"{address:#x} is not in the heap of libslub "
                  f"({self.abi.heap_start:#x}, {self.abi.heap_bytes} bytes)")
            return None
        entry = self.map_entry(address)
        if entry in self.caches:
            return self.caches[entry]
        if entry == MAP_LARGE:
            pages = self.descriptor(address)[1]
            start = address // self.abi.page_bytes * self.abi.page_bytes
            print(f"{address:#x} is in the first page of a large block: {start:#x}, "
                  f"{pages * self.abi.page_bytes} bytes")
        else:
            print(f"{address:#x} is in no slab: free, or inside a large block")
        return None

    def slabs(self):
        """(cache, address, descriptor) of every slab."""
        at, end = self.abi.heap_start, self.abi.heap_start + self.abi.heap_bytes
        pages = self.abi.heap_bytes // self.abi.page_bytes
        first = (at - self.abi.range_start) // self.abi.page_bytes
        table = read(self.abi.map + 2 * first, 2 * pages)
        while at < end:
            number = (at - self.abi.heap_start) // self.abi.page_bytes
            entry, = struct.unpack_from("<H", table, 2 * number)
            cache = self.caches.get(entry)
            size = self.abi.page_bytes
            if cache and at % (size << cache.order) == 0:
                seen = self.descriptor(at)
                if seen[0] & 0xff == TYPE_SLAB:
                    size <<= cache.order
                    yield cache, at, seen
            at += size


def argument(text, command):
    words = gdb.string_to_argv(text)
    if len(words) != 1:
        raise gdb.GdbError(f"slub: usage: slub {command} ADDR")
    return int(gdb.parse_and_eval(words[0])) & (1 << 64) - 1


class Slub(gdb.Command):
    """Commands that look into the heap of libslub."""

    def __init__(self):
        super().__init__("slub", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Caches(gdb.Command):
    """slub caches: the caches of libslub: objects, size, slabs."""

    def __init__(self):
        super().__init__("slub caches", gdb.COMMAND_DATA)

    def invoke(self, text, from_tty):
        heap = Heap()
        slabs, active = {}, {}
        for cache, _, (_, _, _, state) in heap.slabs():
            slabs[cache.slot] = slabs.get(cache.slot, 0) + 1
            active[cache.slot] = active.get(cache.slot, 0) + (state & INUSE)
        print(f"{'Name':21} {'Objects':>8} {'Total':>8} {'Objsize':>8} {'Slabs':>6} O/S O")
        for slot, cache in sorted(heap.caches.items()):
            if slot in slabs:
                print(f"{cache.name:21} {active[slot]:8} {slabs[slot] * cache.objects:8} "
                      f"{cache.object_size:8} {slabs[slot]:6} {cache.objects:3} {cache.order}")


class Object(gdb.Command):
    """slub object ADDR: whose object lies there, and whether it is in use."""

    def __init__(self):
        super().__init__("slub object", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        address = argument(text, "object")
        heap = Heap()
        cache = heap.cache_of(address)
        if not cache:
            return
        slab = Slab(heap, cache, address)
        index = cache.index_of(slab, address)
        if index >= cache.objects:
            print(f"{address:#x} is behind the last object of a slab of {cache.name}")
            return
        start = cache.start_of(slab, index)
        inside = f", {address - start} bytes into it" if address > start else \
            f", {start - address} bytes before it" if address < start else ""
        print(f"{address:#x} is of cache {cache.name}: object {start:#x}, "
              f"{cache.object_size} bytes{inside}")
        print(f"slab {slab.start:#x}, object {index} of {cache.objects}")
        if not slab.has_memory(index):
            print("free, and without memory" if slab.holes else "never used")
            return
        where = heap.free_objects(cache, slab).get(start)
        print(f"free, in {where}" if where else "in use")
        if cache.track:
            track = self.print_track(heap, "allocated", start + cache.track)
            if not where and track["is_freed"]:
                print("its free waits, for readers or for a lock")
            self.print_track(heap, "freed", start + cache.track + heap.abi.track_bytes)

    @staticmethod
    def print_track(heap, what, at):
        data = read(at, heap.abi.track_bytes)
        track = {name: get(data, field)
                 for name, field in zip(TRACK_FIELDS, heap.abi.track_fields)}
        if not track["caller"]:
            return track
        print(f"{what} by thread {track['thread']} on CPU {track['cpu']}, "
              f"{track['when'] / 1e9:.3f} s after the system's start")
        for frame in heap.frames(track["stack"]) or [track["caller"]]:
            words = gdb.execute(f"info symbol {frame - 1:#x}", to_string=True).strip()
            print(f"  {frame:#x} {words}")
        return track


class SlabCommand(gdb.Command):
    """slub slab ADDR: the slab that ADDR lies in, object by object."""

    def __init__(self):
        super().__init__("slub slab", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        address = argument(text, "slab")
        heap = Heap()
        cache = heap.cache_of(address)
        if not cache:
            return
        slab = Slab(heap, cache, address)
        free = heap.free_objects(cache, slab)
        marks = ""
        for i in range(cache.objects):
            where = free.get(cache.start_of(slab, i))
            marks += "_" if not slab.has_memory(i) else "X" if not where else \
                     "." if "slab" in where else "o"
        print(f"slab {slab.start:#x} of cache {cache.name}: {slab.bytes} bytes, node {slab.node}, "
              f"{slab.words()}")
        print(f"{cache.objects} objects of {cache.size} bytes, {slab.carved} carved, "
              f"{marks.count('X')} in use")
        for i in range(0, len(marks), ROW):
            print(f"{i:5} {marks[i:i + ROW]}")
        unused = "free, and without memory" if slab.holes else "never used"
        print(f"X in use   . free in the slab   o free in a list or barn   _ {unused}")


Slub()
Caches()
Object()
SlabCommand()
