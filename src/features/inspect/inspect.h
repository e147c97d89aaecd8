/* SPDX-License-Identifier: MIT */
/*
 * inspect: what can be said about the library's state.
 *
 * Tests: tests/unit/inspect, tests/tool.
 * Page: docs/operate/inspection.md.
 */
#ifndef SLUB_INSPECT_H
#define SLUB_INSPECT_H

#include "features/inspect/abi.h"
#include "core/malloc/malloc.h"

/* What one cache holds, found by walking its slabs. */
struct cache_census {
	size_t slabs;
	size_t objects;		/* capacity */
	size_t carved;
	size_t active;		/* not on a slab's freelist */
	size_t active_bytes;	/* pages that objects in use can lie in */
	size_t partial;		/* slabs with some objects in use and some not */
	size_t empty;		/* slabs with none in use */
	size_t carving;		/* slabs that objects are carved from */
	size_t partial_active;	/* of active, in partial slabs */
};

/* What all of the heap holds. */
struct heap_census {
	size_t slab_bytes;
	size_t active_bytes;	/* of these, pages that objects in use can lie in */
	size_t object_bytes;	/* active objects at their size */
	size_t objects;
	size_t cached_bytes;	/* of these, in CPUs' lists and barns, about */
	size_t cached;
	size_t free;		/* objects on slabs' freelists, or not carved */
	size_t free_bytes;	/* of these, at their size */
	size_t large_bytes;
	size_t large_blocks;
	size_t dirty_bytes;
	size_t refused_bytes;	/* free, the kernel would not take it back */
	size_t moved_runs;
	size_t committed_bytes;
	size_t deferred_bytes;	/* freed, but readers may still look: in use, as all others */
	size_t deferred_objects;
};

/* census.c: walks the heap without a lock; a moving heap gives estimates */
void census_cache(const struct slub_cache *cache, struct cache_census *out);
void census_heap(struct heap_census *out);
/*
 * One walk for all caches: the census of the cache with slot S is at index
 * slot_number(S).  NULL: no memory.  Ends with census_all_free().
 */
struct cache_census *census_all(void);
void census_all_free(struct cache_census *all);
/*
 * Calls @use for each cache, after one walk, with the objects between guard pages, until it
 * returns what is not 0.  Returns that, or -ENOMEM.
 */
typedef int census_user(const struct slub_cache *cache, const char *name,
			const struct cache_census *census, void *arg);
int census_each(census_user *use, void *arg);
/*
 * The cache whose slot has that number, NULL if there is none; each cache is
 * found once.  Numbers end before CENSUS_SLOTS.
 */
#define CENSUS_SLOTS SLOT_NUMBERS
const struct slub_cache *census_cache_at(size_t number);
/* A struct slub_abi_field. */
#define FIELD(type, member) \
	{ offsetof(struct type, member), sizeof(((struct type *)0)->member) }
/* The number that lies in the structure @from at @field; 0: none does. */
uint64_t field_get(const void *from, struct slub_abi_field field);
/* All numbers of a cache but the census's; @out as in union cache_record. */
union cache_record {
	struct slub_stats_cache record;
	char bytes[sizeof(struct slub_stats_cache) + SLUB_STATS_ALIASES +
		   OS_NODES_MAX * SLUB_ABI_NODE_FIELDS * sizeof(uint64_t)];
};
void census_record(const struct slub_cache *cache, uint32_t nr_nodes,
		   struct slub_stats_cache *out);
/* The same, with what local_nr() said at the last census. */
void census_record_since(const struct slub_cache *cache, uint32_t nr_nodes, size_t nr_local,
			 struct slub_stats_cache *out);

/* Of the objects in use, what was not asked for: an estimate; 0: not known. */
static inline uint64_t slack_bytes(const struct cache_census *census,
				   const struct slub_stats_cache *record)
{
	uint64_t average = record->fields[SLUB_ABI_CACHE_SLACK];
	uint64_t used = census->active - min_size(record->cached, census->active);

	return average ? (average - 1) * used / 256 : 0;
}

/* mallinfo.c */
struct mallinfo2;
void mallinfo_fill(struct mallinfo2 *info, const struct heap_census *census);

/* groups.c */
#define STATS_GROUPS_MAX 1024	/* places in a statistics file, the first unused */
#define STATS_GROUPS_BYTES (sizeof(struct slub_stats_groups) + \
	STATS_GROUPS_MAX * sizeof(struct slub_stats_group))
void groups_describe(struct slub_abi *abi);
/* profile.c */
extern const struct slub_abi_book profile_book SLUB_INTERNAL;
void groups_file_begin(struct slub_stats_groups *out);
/* What is counted for the groups that this thread is in. */
void groups_update(struct slub_stats_groups *out);
/* All numbers of all groups. */
void groups_record(struct slub_stats_groups *out);

/* options.c */
extern struct slub_abi_option slub_abi_options[OPTION_NR] SLUB_INTERNAL;
/* From here on other processes may read and change them. */
void options_publish(void);

/* state.c */
extern SLUB_EXPORT struct slub_abi slub_abi_state;
void abi_publish(const struct os_cpus *cpus, uint32_t nr_nodes);
void abi_update(void);

/*
 * A record of the statistics file, a cache's or a group's, is written between these.  Its
 * sequence is odd meanwhile; false: somebody else is at it.
 */
static inline bool record_begin(uint32_t *sequence)
{
	uint32_t now = __atomic_load_n(sequence, __ATOMIC_RELAXED);

	/* acquire: what is written stays behind it */
	return !(now & 1) &&
	       __atomic_compare_exchange_n(sequence, &now, now + 1, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void record_end(uint32_t *sequence)
{
	/* release: a reader that sees it even sees what was written */
	__atomic_fetch_add(sequence, 1, __ATOMIC_RELEASE);
}

/* stats_file.c: SLUB_STATS_FILE */
void stats_file_open(void);
/* In a forked child: leaves the parent's file alone. */
void stats_file_after_fork(void);

#endif
