/* SPDX-License-Identifier: MIT */
/*
 * How the heap of a process stands at one moment, wherever it was read from.
 * Everything in it has been checked: no number of it can lead astray.
 */
#ifndef SLUB_TOOL_SNAPSHOT_H
#define SLUB_TOOL_SNAPSHOT_H

#include "features/inspect/abi.h"
#include "process.h"

#define NR_NODES_MAX 8
#define CACHE_NAME_SIZE 48
#define ALIASES_SIZE 512

struct cache_view {
	char name[CACHE_NAME_SIZE];
	uint32_t slot;
	uint64_t address;		/* 0 in a statistics file */
	uint64_t fields[SLUB_ABI_CACHE_FIELDS];
	uint64_t stats[SLUB_ABI_STATS];
	uint64_t nodes[NR_NODES_MAX][SLUB_ABI_NODE_FIELDS];
	/* by the census */
	uint64_t slabs;
	uint64_t full;			/* slabs with every object in use */
	uint64_t empty;			/* slabs with none */
	uint64_t carving;		/* slabs that objects are carved from */
	uint64_t carved;
	uint64_t active;		/* objects on no slab's freelist */
	uint64_t cached;		/* of these in lists and barns, about */
	char aliases[ALIASES_SIZE];	/* its further names, a blank between two */
	uint64_t guarded;		/* of `active`: between guard pages, in no slab */
	bool damaged;			/* it was being written, or makes no sense */
};

struct snapshot {
	char target[64];		/* "process 12", "core file x" */
	uint32_t pid;
	char name[32];
	char command[240];		/* "" if unknown */
	bool has_exited;
	uint64_t time_ns;		/* of these numbers, CLOCK_REALTIME; 0: unknown */
	uint64_t census_ns;		/* of the slabs' fill, likewise */
	struct slub_abi abi;
	struct cache_view *caches;	/* by name of size; see cache_sort() */
	size_t nr_caches;
	/* By slot_number(): where the cache is in `caches`, a hint; NULL: no memory for it. */
	uint32_t *places;
	struct slub_abi_option *options;
	size_t nr_options;
	uint64_t committed_bytes;
	uint64_t slab_bytes;
	uint64_t active_bytes;		/* of these, pages that objects in use can lie in */
	uint64_t large_bytes;
	uint64_t large_blocks;		/* 0 in a statistics file */
	uint64_t idle_bytes;		/* free, memory behind it; the least */
	uint64_t refused_bytes;		/* free, the kernel would not take it back */
	uint64_t moved_runs;		/* large blocks whose pages came from elsewhere */
	uint64_t mappings;		/* that the heap is in for the kernel; 0: unknown */
	uint64_t deferred_bytes;	/* freed, but readers may still look */
	uint64_t deferred_objects;
	uint32_t nr_areas;		/* of CPUs that were counted; not those stopped */
	const struct process *process;	/* NULL: a file, no heap to walk */
	/* of a statistics file; see groups_read() */
	struct group_view *groups;
	size_t nr_groups;
	uint64_t nr_groups_beyond;
	uint32_t groups_version;	/* 0: it has none */
};

static inline uint64_t cache_field(const struct cache_view *cache,
				   enum slub_abi_cache_field field)
{
	return cache->fields[field];
}

/* Has this build of the library that number? */
static inline bool snapshot_has(const struct snapshot *snapshot,
				enum slub_abi_cache_field field)
{
	return snapshot->abi.cache_fields[field].bytes != 0;
}

static inline bool snapshot_counts(const struct snapshot *snapshot,
				   enum slub_abi_stat stat)
{
	return snapshot->abi.stat_words[stat] != 0xff;
}

/* Names that share it, but the first. */
uint64_t cache_aliases(const struct cache_view *cache);
uint64_t cache_slab_bytes(const struct snapshot *snapshot,
			  const struct cache_view *cache);
/* Bytes of all its slabs. */
uint64_t cache_bytes(const struct snapshot *snapshot,
		     const struct cache_view *cache);
uint64_t cache_capacity(const struct cache_view *cache);
/* Active objects that are not in a list: what the program holds. */
uint64_t cache_used(const struct cache_view *cache);
uint64_t cache_partial(const struct cache_view *cache);
/* One number, summed over the nodes. */
uint64_t cache_node_sum(const struct snapshot *snapshot,
			const struct cache_view *cache,
			enum slub_abi_node_field field);

/* 0, -EBADMSG if the description contradicts itself, or process_read()'s. */
int snapshot_of_process(struct snapshot *snapshot,
			const struct process *process,
			const struct slub_abi *abi);
/*
 * Counters are words of 32 bits.  Those of @now, a later look at what @before is of,
 * go on where these were, also behind 2^32.
 */
void snapshot_continue(struct snapshot *now, const struct snapshot *before);
void snapshot_free(struct snapshot *snapshot);
/* The caches have an order: from here on cache_by_slot() need not search for one. */
void snapshot_index(struct snapshot *snapshot);
/* NULL: there is none. */
const struct cache_view *cache_by_slot(const struct snapshot *snapshot, uint32_t slot);
/* Cleans a name that came from outside: printable letters only. */
void clean_text(char *text, size_t size);
bool abi_is_sane(const struct slub_abi *abi);
/* Fields of a structure of @bytes, and one of them. */
bool fields_are_sane(const struct slub_abi_field *fields, int nr,
		     uint32_t bytes);
uint64_t field_get(const char *from, struct slub_abi_field field);
/* One more name; "..." if there is no room. */
void aliases_add(struct cache_view *cache, const char *name);
/* Adds up what the caches hold, and cleans the remaining text. */
void snapshot_finish(struct snapshot *snapshot);

#endif
