/* SPDX-License-Identifier: MIT */
/*
 * What other processes may read of the library: docs/operate/inspection.md draws it.
 *
 * A reader finds the exported data symbol `slub_abi_state` and copies it with
 * process_vm_readv(2).  From there it follows the addresses to the page map, the
 * descriptors, the areas and the caches; none of these is behind a lock, so a
 * reader checks each value against the ranges and bounds each walk.
 *
 * A reader must refuse a `magic` or `version` that it does not know.  Within a
 * version fields are only ever appended; `size` says how many bytes the
 * writer had.  Everything up to `library_version` lies at the same place in each
 * version, so that a reader which refuses can name the release.  Numbers are in the
 * byte order of the machine.
 */
#ifndef SLUB_INSPECT_ABI_H
#define SLUB_INSPECT_ABI_H

#include <stdint.h>

#include "features/misuse/misuse_last.h"
#include "features/guard/guard_place.h"

#define SLUB_ABI_SYMBOL  "slub_abi_state"
#define SLUB_ABI_MAGIC   "SLUBABI"	/* eight bytes with its NUL */
#define SLUB_ABI_VERSION 6u

/*
 * Behind the head of the spare list (int32_t): how many objects it has, unless the main list's
 * room lies there (backend tid), and the room that the main list has without objects.  0 or less:
 * not known.  Then the main list is set against the cache's capacity_now, and the spare list is
 * that long less this share of it, which is at most KEPT_MAX.
 */
#define SLUB_ABI_SPARE_NR 8
#define SLUB_ABI_SPARE_LIMIT 12
#define SLUB_ABI_KEPT_SHARE 4
#define SLUB_ABI_KEPT_MAX 16

/*
 * A list of a CPU whose room is below 0 is a short one: ROOM_SHORT - room objects, and in the
 * spare's place FOREIGN - its room, of slabs of others.
 */
#define SLUB_ABI_ROOM_SHORT (-(1 << 30))
#define SLUB_ABI_LOCAL_FOREIGN 32
/*
 * The local list of a slab, of a cache with LOCAL: the first word at descriptor_state of the
 * slab's second descriptor, where descriptor_count has the room that the list would have without
 * objects; 0: there is none.  Its head is a place in the slab, in units of 1 << UNIT_SHIFT bytes.
 */
#define SLUB_ABI_LOCAL_ROOM 0x7ffull
#define SLUB_ABI_LOCAL_HEAD_SHIFT 21
#define SLUB_ABI_LOCAL_HEAD 0xfffull
#define SLUB_ABI_LOCAL_UNIT_SHIFT 4

#define SLUB_ABI_BARN_CHAINS 32
#define SLUB_ABI_BARN_SHIFT 48

enum slub_abi_backend {
	SLUB_ABI_BACKEND_NONE = 0,	/* not started yet */
	SLUB_ABI_BACKEND_RSEQ = 1,
	SLUB_ABI_BACKEND_THREAD = 2,
	SLUB_ABI_BACKEND_TID = 3,
	SLUB_ABI_BACKEND_LOCK = 4,
};

enum slub_abi_cpu_number {
	SLUB_ABI_CPU_NONE = 0,
	SLUB_ABI_CPU_MM_CID = 1,	/* rseq mm_cid: threads that run at once */
	SLUB_ABI_CPU_CPU_ID = 2,	/* rseq cpu_id */
	SLUB_ABI_CPU_THREAD = 3,	/* a number per thread (backend thread) */
	SLUB_ABI_CPU_GETCPU = 4,	/* getcpu(2), a hint only */
};

enum slub_abi_layout {
	SLUB_ABI_LAYOUT_ALIGNED64 = 0,
	SLUB_ABI_LAYOUT_INNER56 = 1,
	SLUB_ABI_LAYOUT_LOCK56 = 2,
};

enum slub_abi_huge {
	SLUB_ABI_HUGE_NEVER = 0,
	SLUB_ABI_HUGE_BLOCK = 1,
	SLUB_ABI_HUGE_ALWAYS = 2,
	SLUB_ABI_HUGE_AUTO = 3,
};

/* Entries of the page map: what stands for a slot, or one of these. */
enum slub_abi_map {
	SLUB_ABI_MAP_NONE = 0,
	SLUB_ABI_MAP_LARGE = 32,	/* first page of a large block */
	SLUB_ABI_MAP_SPECIAL_END = 96,	/* the rest are caches' */
};

/* A descriptor's flags: type, order << 8, node << 16, and two bits. */
enum slub_abi_page {
	SLUB_ABI_PAGE_NONE = 0,
	SLUB_ABI_PAGE_FREE = 1,		/* first page of a free block */
	SLUB_ABI_PAGE_SLAB = 2,
	SLUB_ABI_PAGE_LARGE = 3,
};
#define SLUB_ABI_PAGE_DIRTY (1u << 24)	/* free, memory is behind it */
#define SLUB_ABI_PAGE_RUN   (1u << 25)	/* large, of whole superblocks */

/* A slab's counters, the second word of its state. */
#define SLUB_ABI_STATE_INUSE  ((1ull << 30) - 1)
#define SLUB_ABI_STATE_LISTED (1ull << 62)	/* on its node's partial list */
#define SLUB_ABI_STATE_FROZEN (1ull << 63)	/* objects are carved from it */

/* A number within a structure; bytes is 0 if this library has none. */
struct slub_abi_field {
	uint16_t offset;
	uint16_t bytes;
};

/* Of a cache. */
enum slub_abi_cache_field {
#define CACHE_FIELD(field, member) SLUB_ABI_CACHE_##field,
#include "features/inspect/field.def"
	SLUB_ABI_CACHE_FIELDS_KNOWN,
	SLUB_ABI_CACHE_FIELDS = 32,
};

/*
 * A further name of a cache, the one given last first.  Never unmapped, but used
 * again: the list may change under a reader.
 */
struct slub_abi_alias {
	uint64_t next;			/* address, or 0 */
	char name[48];
};

/* Bits of SLUB_ABI_CACHE_FLAGS; the others are the library's. */
enum slub_abi_cache_flag {
	SLUB_ABI_FLAG_HWCACHE_ALIGN = 1 << 0,
	SLUB_ABI_FLAG_TYPESAFE_BY_RCU = 1 << 2,
	SLUB_ABI_FLAG_ACCOUNT = 1 << 3,
	SLUB_ABI_FLAG_RECLAIM_ACCOUNT = 1 << 4,
};

/*
 * Counters of a cache: words of 32 bits, one set in each CPU's area and in the
 * shared one, counted on the slow paths since the start; the fast path counts
 * nothing.
 */
enum slub_abi_stat {
#define COUNTED(number, stat, name, meaning) SLUB_ABI_STAT_##stat = number,
#include "core/slab/stat.def"
	SLUB_ABI_STATS = 32,
};

/* Of a cache's part on one node. */
enum slub_abi_node_field {
#define NODE_FIELD(field, member) SLUB_ABI_NODE_##field,
#include "features/inspect/field.def"
	SLUB_ABI_NODE_FIELDS_KNOWN,
	SLUB_ABI_NODE_FIELDS = 16,
};

/* Of how a cache is watched: where things lie, from an object's address on. */
enum slub_abi_watch_field {
	SLUB_ABI_WATCH_LEFT,		/* bytes of a slab before its first object */
	SLUB_ABI_WATCH_TRACK,		/* of the alloc track, the free track behind; 0: none */
	SLUB_ABI_WATCH_REQUESTED,	/* of the size asked for, uint64_t; 0: none */
	SLUB_ABI_WATCH_OWNER,		/* of the owner, uint32_t; 0: none */
	SLUB_ABI_WATCH_BUGS,		/* no place: how many were found so far */
	SLUB_ABI_WATCH_FIELDS_KNOWN,
	SLUB_ABI_WATCH_FIELDS = 8,
};

/* A track: the thread and the stack of the last allocation or free of an object. */
enum slub_abi_track_field {
	SLUB_ABI_TRACK_CALLER,		/* an address; 0: nobody did */
	SLUB_ABI_TRACK_WHEN,		/* ns of CLOCK_MONOTONIC */
	SLUB_ABI_TRACK_STACK,		/* its number; 0: not stored */
	SLUB_ABI_TRACK_THREAD,
	SLUB_ABI_TRACK_CPU,
	SLUB_ABI_TRACK_IS_FREED,	/* of an allocation: not 0 while its free waits */
	SLUB_ABI_TRACK_FIELDS_KNOWN,
	SLUB_ABI_TRACK_FIELDS = 8,
};

enum slub_abi_option_kind {
	SLUB_ABI_OPTION_ENUM = 0,
	SLUB_ABI_OPTION_SIZE = 1,
	SLUB_ABI_OPTION_TEXT = 2,
	SLUB_ABI_OPTION_NUMBER = 3,	/* not of bytes */
};

/* The value of a size that the library chooses. */
#define SLUB_ABI_OPTION_AUTO UINT64_MAX

/* Of `given`: by slub_option_set(), not at the start. */
#define SLUB_ABI_GIVEN_LATER 2u

struct slub_abi_option {
	char name[24];
	uint32_t kind;			/* enum slub_abi_option_kind */
	uint32_t given;			/* 0: this is the default, or SLUB_ABI_GIVEN_LATER */
	uint64_t value;			/* a number of bytes, or a choice's */
	uint64_t min;			/* of a size */
	uint64_t max;
	char text[200];			/* the choice or text; may be cut */
};

struct slub_abi {
	char magic[8];
	uint32_t version;
	uint32_t size;			/* bytes of this structure */
	uint32_t ready;			/* 1 once the library has started */
	uint32_t backend;		/* enum slub_abi_backend */
	uint32_t cpu_number;		/* enum slub_abi_cpu_number */
	uint32_t page_size;		/* bytes, the system's */
	uint32_t layout;		/* enum slub_abi_layout */
	uint32_t smp;			/* 0: uniprocessor build */
	uint32_t nr_cpus_possible;	/* at the most */
	uint32_t nr_cpus_allowed;	/* affinity at start */
	uint32_t nr_cpus_quota;		/* 0: not read any more */
	uint32_t nr_nodes;
	uint32_t membarrier;		/* 1: stop-a-CPU works */
	uint32_t huge;			/* enum slub_abi_huge */
	uint64_t range_start;		/* the reserved range */
	uint64_t range_bytes;
	uint64_t heap_start;		/* first byte that objects may occupy */
	uint64_t heap_bytes;		/* committed so far */
	uint64_t retain_bytes;		/* free memory kept before it is purged */
	char library_version[16];

	/* since version 2; from stat_words on, since version 3 */
	uint64_t self;			/* address of this structure */
	uint64_t start_ns;		/* when it started, CLOCK_REALTIME */
	/* the map: one entry for each page from range_start on */
	uint64_t map;
	uint32_t map_stride;		/* 2: entries are uint16_t */
	uint32_t page_bytes;		/* of a page of the heap: 4096 */
	/* descriptors: one for each page from heap_start on */
	uint64_t descriptors;
	uint32_t descriptor_stride;
	uint16_t descriptor_flags;	/* offsets; uint32_t */
	uint16_t descriptor_count;	/* uint32_t: objects carved, or pages */
	uint16_t descriptor_holes;	/* uint64_t: bits for pages of a slab */
	uint16_t descriptor_state;	/* two words, {freelist, counters} */
	uint32_t descriptor_state_align; /* round its address up to this */
	/* base table: for each CPU number its area, dummy_area, or NULL */
	uint64_t base_table;
	uint64_t dummy_area;		/* it has none, or it is stopped */
	uint64_t shared_area;		/* counters of threads without a CPU */
	uint32_t nr_areas;		/* entries of the table */
	uint32_t area_bytes;		/* of an area, that hold slots */
	/* a slot: offsets of its words; see core/arch/slot.h */
	uint32_t slot_bytes;
	uint16_t slot_head;
	uint16_t slot_room;
	uint16_t slot_spare_head;
	/*
	 * A barn: chains from number *oldest to *newest (uint32_t) less 1, number n in word
	 * n % SLUB_ABI_BARN_CHAINS: how many objects, << SLUB_ABI_BARN_SHIFT, and the first.
	 */
	uint16_t barn_oldest;
	uint16_t barn_newest;
	uint16_t barn_chains;
	/* word of a counter behind its cache's offset; 0xff: there is none */
	uint8_t stat_words[SLUB_ABI_STATS];
	/* caches: slot_owners[entry / slot_bytes] is the cache, or NULL; see far_entry */
	uint64_t slot_owners;
	uint32_t nr_slots;
	uint32_t cache_bytes;
	uint32_t cache_nodes;		/* offset of the pointers to nodes */
	uint32_t node_bytes;
	struct slub_abi_field cache_fields[SLUB_ABI_CACHE_FIELDS];
	struct slub_abi_field node_fields[SLUB_ABI_NODE_FIELDS];
	uint64_t options;		/* struct slub_abi_option[] */
	uint32_t nr_options;
	uint32_t option_bytes;
	/* struct guard_pool; 0, or behind `size`: this library has none */
	uint64_t guard;

	/*
	 * Watched caches.  A stored stack is at its number times stack_unit
	 * behind the address that stands at `stacks` (0 there: none is stored):
	 * uint32_t how many frames at stack_nr, their addresses at stack_frames.
	 */
	uint64_t stacks;
	uint32_t stack_unit;
	uint16_t stack_nr;
	uint16_t stack_frames;
	uint32_t watch_bytes;
	uint32_t track_bytes;
	struct slub_abi_field watch_fields[SLUB_ABI_WATCH_FIELDS];
	struct slub_abi_field track_fields[SLUB_ABI_TRACK_FIELDS];
	/* struct slub_abi_groups; 0, or behind `size`: this library has none */
	uint64_t groups;
	/*
	 * Of a descriptor: the owner of the large block, or of the object of a
	 * page or more, that starts there, uint32_t.  Where this is
	 * descriptor_state: in what the state leaves of the 24 bytes from there on.
	 */
	uint16_t descriptor_owner;
	uint16_t reserved_owner[3];
	/*
	 * What was freed deferred: two words of 64 bits, how many objects and of how many
	 * bytes.  Each area has what was added, at deferred_added, and at the address
	 * `deferred` stands what has been freed of all that; 0, or behind `size`: this library
	 * has none.
	 */
	uint64_t deferred;
	uint32_t deferred_added;
	uint32_t reserved_deferred;
	/*
	 * Where, in pages, the limit in force stands (uint64_t), which changes with a cgroup's;
	 * UINT64_MAX there: none.  0, or behind `size`: this library does not say.
	 */
	uint64_t limit;
	/*
	 * From far_entry on an entry of the map is no offset: far_owners[entry - far_entry] is
	 * the cache.  nr_far_slots is 0, or behind `size`: this library has none.
	 */
	uint64_t far_owners;
	uint32_t far_entry;
	uint32_t nr_far_slots;
	/*
	 * Where counts of 64 bits stand: superblocks of 2 MiB that the kernel would not take back;
	 * pages of free blocks, the same, one for each node, refused_stride bytes apart; and runs
	 * whose pages came from elsewhere.  0, or behind `size`: this library does not say.
	 */
	uint64_t refused_superblocks;
	uint64_t refused_pages;
	uint64_t moved_runs;
	uint32_t refused_stride;
	uint32_t reserved_refused;
	/* struct slub_abi_book; 0, or behind `size`: this library does not say */
	uint64_t book;
	/*
	 * Where the library keeps heap_start for itself (uint64_t): no pointer to the object that
	 * begins there.  0, or behind `size`: this library does not say.
	 */
	uint64_t heap_start_place;
	/*
	 * struct misuse_last: what the library has said last of certain corruption.  0, or behind
	 * `size`: this library does not say.
	 */
	uint64_t misuse;
};

/*
 * The book of the heap profile, whose address stands at `place` (0 there: none was made).  In it,
 * at `samples`, lie sampled objects, and at `sites` the sites that allocated them, whose numbers
 * begin with 1.  A sample with an object is alive.
 */
struct slub_abi_book {
	uint32_t size;			/* of this structure */
	uint32_t sample_bytes;
	uint32_t site_bytes;
	uint32_t reserved;
	uint64_t place;
	uint64_t bytes;
	uint64_t nr_samples;		/* where, uint32_t, those that were ever used stand */
	uint64_t samples;
	uint64_t sites;
	struct slub_abi_field sample_object;
	struct slub_abi_field sample_site;
	struct slub_abi_field site_stack;
};

/*
 * Memory groups.  Three kinds of structures, each with a number from 1 on: number
 * n lies at the address that stands at `start`, plus n * bytes.
 *
 *   group     as group_fields say
 *   owner     charges go to the group at GROUP, or, if HEIR is not 0, to the group of
 *             the owner there; the low owner_stock_bits of OWNER_STOCK are bytes that
 *             are charged to it in advance
 *   stock     of a thread: bytes that are charged to the owner in advance, and those
 *             that are given back to another
 *
 * What is given back to another is a word of {owner << stock_shift, bytes}.
 *
 * What an object, or a large block, is charged to is its owner's number, a word of
 * 32 bits; SLUB_ABI_OWNER_FREE: it is free.  An object in a CPU's list may be free
 * without that bit, and is charged to its owner until somebody takes it.
 *
 * A reader must refuse a `version` that it does not know; fields are only appended.
 */
#define SLUB_ABI_GROUPS_VERSION 1u
#define SLUB_ABI_OWNER_FREE (1u << 31)
#define SLUB_ABI_GROUP_NAME 48

/* Of a group. */
enum slub_abi_group_field {
	SLUB_ABI_GROUP_PARENT,		/* an address; 0: the root */
	SLUB_ABI_GROUP_ALIVE,
	SLUB_ABI_GROUP_USAGE,		/* stocks and objects in lists included */
	SLUB_ABI_GROUP_PEAK,		/* the most that was */
	SLUB_ABI_GROUP_LOW,
	SLUB_ABI_GROUP_HIGH,		/* from 2^62 on: no limit */
	SLUB_ABI_GROUP_MAX,
	SLUB_ABI_GROUP_FAILURES,
	SLUB_ABI_GROUP_MAX_HITS,
	SLUB_ABI_GROUP_HIGH_HITS,
	SLUB_ABI_GROUP_FIELDS_KNOWN,
	SLUB_ABI_GROUP_FIELDS = 16,
};
#define SLUB_ABI_GROUP_NO_LIMIT (1ull << 62)

struct slub_abi_pool {
	uint64_t start;			/* where its address stands; 0 there: none yet */
	uint64_t end;			/* where, uint32_t, the highest number + 1 stands */
	uint32_t bytes;
	uint32_t reserved;
};

struct slub_abi_groups {
	uint32_t version;
	uint32_t size;			/* of this structure */
	struct slub_abi_pool groups;
	struct slub_abi_pool owners;
	struct slub_abi_pool thread_stocks;
	uint64_t stocks;		/* reserved, 0; once those of CPUs */
	uint32_t nr_stocks;		/* reserved, 0 */
	uint32_t stock_shift;
	struct slub_abi_field group_fields[SLUB_ABI_GROUP_FIELDS];
	uint32_t group_name;		/* offset of a string in a group */
	uint32_t stock_back;		/* in a thread's, of such a word; 0: none */
	struct slub_abi_field owner_group;
	struct slub_abi_field owner_heir;
	struct slub_abi_field stock_owner;
	struct slub_abi_field stock_bytes;	/* signed; below 0: none */
	struct slub_abi_field owner_stock;	/* of 0 bytes: owners have none */
	uint32_t owner_stock_bits;
};

/*
 * The statistics file (SLUB_STATS_FILE): this head, the options, and from
 * records_offset on nr_records records of record_bytes.
 */
#define SLUB_STATS_MAGIC   "SLUBSTA"
#define SLUB_STATS_VERSION 2u

enum slub_stats_state {
	SLUB_STATS_RUNNING = 1,		/* or killed: look for the process */
	SLUB_STATS_EXITED = 2,
};

enum slub_stats_total {
	SLUB_STATS_COMMITTED_BYTES,	/* of the heap */
	SLUB_STATS_LARGE_BYTES,
	SLUB_STATS_IDLE_BYTES,		/* free, memory is behind it */
	/*
	 * No total: when the process began, in ticks since the boot (proc_pid_stat(5),
	 * starttime).  It tells the process from a later one with its PID.  0: not known.
	 */
	SLUB_STATS_BEGAN_TICKS,
	SLUB_STATS_DEFERRED_BYTES,	/* freed, but readers may still look */
	SLUB_STATS_DEFERRED_OBJECTS,
	SLUB_STATS_REFUSED_BYTES,	/* free, the kernel would not take it back */
	SLUB_STATS_MOVED_RUNS,
	SLUB_STATS_ACTIVE_BYTES,	/* pages that objects in use can lie in; by the census */
	SLUB_STATS_TOTALS_KNOWN,
	SLUB_STATS_TOTALS = 16,
};

struct slub_stats_head {
	char magic[8];
	uint32_t version;
	uint32_t size;			/* bytes of this structure */
	uint32_t state;			/* enum slub_stats_state */
	uint32_t pid;
	uint64_t start_ns;		/* CLOCK_REALTIME, as all times here */
	uint64_t update_ns;		/* when something was written last */
	uint64_t census_ns;		/* when the slabs were counted last */
	char name[16];			/* the kernel's name of the process */
	char command[240];		/* its arguments, a space between them */
	uint32_t options_offset;
	uint32_t nr_options;
	uint32_t option_bytes;
	uint32_t records_offset;
	uint32_t record_bytes;
	uint32_t nr_records;		/* records written so far at the most */
	uint32_t nr_nodes;		/* node arrays in each record */
	uint32_t groups_offset;		/* struct slub_stats_groups; 0: none */
	uint64_t totals[SLUB_STATS_TOTALS];
	struct slub_abi abi;		/* its addresses are of that process */
};

/*
 * A cache.  Its place is that of the slot: those that slot_owners[] has, then the first that
 * far_owners[] has; slot, the entry of the map, is 0 where there is none.  A process may have
 * caches beyond.
 */
struct slub_stats_cache {
	uint32_t sequence;		/* odd: being written */
	uint32_t slot;
	char name[48];
	/* by the census */
	uint64_t slabs;
	uint64_t active;		/* objects on no slab's freelist */
	uint64_t carved;
	uint64_t cached;		/* of these in CPUs' lists and barns, about */
	uint64_t partial;		/* slabs with some objects free */
	uint64_t fields[SLUB_ABI_CACHE_FIELDS];
	uint64_t stats[SLUB_ABI_STATS];
	uint64_t nodes[][SLUB_ABI_NODE_FIELDS];
	/*
	 * Behind the nodes, in the SLUB_STATS_ALIASES bytes that end the record, if
	 * record_bytes has room: further names, a NUL after each, as many as fit.
	 */
};
#define SLUB_STATS_ALIASES 128

/*
 * The groups: this head, and nr_groups places of group_bytes behind it.  The fields are
 * as of the last charge, if that took the slow path; the rest is by the census.
 */
struct slub_stats_groups {
	uint32_t version;		/* SLUB_ABI_GROUPS_VERSION */
	uint32_t size;			/* of this structure */
	uint32_t nr_groups;		/* places written so far at the most */
	uint32_t group_bytes;
	uint32_t nr_beyond;		/* groups that have no place */
	uint32_t reserved[3];
};

struct slub_stats_group {
	uint32_t sequence;		/* odd: being written */
	uint32_t number;		/* 0: there is none here */
	uint32_t parent;		/* its number; 0: this is the root */
	uint32_t nr_threads;		/* that are in it, and in none below it */
	char name[SLUB_ABI_GROUP_NAME];
	uint64_t fields[SLUB_ABI_GROUP_FIELDS];
	/* with those of the groups below it */
	uint64_t stock_bytes;		/* of its usage, charged in advance */
	uint64_t objects;
	uint64_t object_bytes;
	uint64_t slab_bytes;		/* slabs with such an object */
	uint64_t large_bytes;
};

#endif
