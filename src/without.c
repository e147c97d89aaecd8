/* SPDX-License-Identifier: MIT */
/*
 * What holds where a feature is left out: each call of base/features.h, weakly.  A library
 * that has the feature has its function instead.
 *
 * Most of these are never called: the word that a call depends on is written by the feature
 * alone.
 */
#include "base/compiler.h"
#include "base/features.h"

/* malloc/slow.c */
void *slow_alloc(size_t bytes);

/* The parameters are those of the functions that stand here instead. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOTHING(call) __attribute__((__weak__)) void call { }
#define ANSWER(type, call, answer) \
	__attribute__((__weak__)) type call { return answer; }

/* ---- the process ---- */

NOTHING(features_start(uint32_t nr_nodes))
NOTHING(features_open(const struct os_cpus *cpus, uint32_t nr_nodes))
NOTHING(features_constructed(void))
NOTHING(features_end(void))
NOTHING(features_fork_prepare(void))
NOTHING(features_fork_finish(bool in_child))
NOTHING(slab_features_fork_prepare(void))
NOTHING(slab_features_fork_finish(bool in_child))

/* ---- objects of a cache that is not plain ---- */

ANSWER(void *, debug_alloc(struct slub_cache *twin, size_t bytes), NULL)
NOTHING(debug_free(struct slub_cache *twin, void *object, const void *frame))
ANSWER(size_t, debug_ask_size(struct slub_cache *twin, const void *object), 0)
NOTHING(account_carved(const struct slub_cache *cache, void *first, uint32_t nr))
ANSWER(bool, account_free(struct slub_cache *cache, void *object), true)
NOTHING(account_settle(const struct slub_cache *cache, void *chain))
NOTHING(sample_gone(void *object))

/* ---- slabs, caches ---- */

NOTHING(slab_give_back_later(struct page *slab))
NOTHING(holes_carve(const struct slub_cache *cache, const struct page *slab,
	uint32_t *first, uint32_t *count))
ANSWER(uint32_t, holes_carved(struct page *slab), 0)
NOTHING(holes_forget(const struct slub_cache *cache, struct page *slab))
NOTHING(slab_empty_left(void))
NOTHING(slab_shrink_begins(void))
NOTHING(front_copy(const struct slub_cache *cache))
NOTHING(front_part(struct slub_cache *cache))
NOTHING(debug_mailbox_answer(void))

/* ---- malloc ---- */

ANSWER(void *, account_malloc(size_t bytes), slow_alloc(bytes))
ANSWER(void *, account_alloc(size_t bytes, size_t align, bool *is_zero), NULL)
ANSWER(bool, account_large(void *ptr), true)
ANSWER(struct slub_cache *, sizeclass_accounted(struct slub_cache *cache), NULL)
NOTHING(account_free_object(void *ptr, struct slub_cache *cache))
ANSWER(int, group_charge(uint32_t owner, size_t bytes), 0)
NOTHING(group_uncharge_block(uint32_t owner, size_t bytes))
ANSWER(void *, sample_alloc(struct slub_cache *cache, size_t bytes), NULL)
ANSWER(void *, sample_alloc_slowly(struct slub_cache *cache, size_t bytes, size_t align), NULL)
ANSWER(void *, large_alloc_told(size_t bytes, size_t align, bool *is_zero), NULL)
NOTHING(sample_large(void *ptr, size_t bytes))
ANSWER(size_t, outside_bytes(const void *ptr), 0)
ANSWER(enum outside_kind, outside_find(const void *ptr), OUTSIDE_NOT)
ANSWER(bool, outside_ask(const void *ptr, const char *call), true)
ANSWER(bool, outside_free(void *ptr), false)
ANSWER(void *, guard_alloc_empty(struct slub_cache *cache, size_t align), NULL)
ANSWER(void *, handler_alloc(size_t bytes, size_t align), NULL)
ANSWER(bool, sized_check(void *ptr, size_t told, size_t align), true)
ANSWER(bool, debug_free_foreign(const char *call, const void *ptr), false)

/* ---- memory is short, or is to go back ---- */

ANSWER(bool, reclaim_more(int *priority), false)
ANSWER(bool, reclaim_ask(size_t bytes), false)
ANSWER(void *, cache_alloc_from_reserve(struct slub_cache *cache, unsigned int flags), NULL)
NOTHING(slab_purge_objects(uint64_t deadline_ns))
