/* SPDX-License-Identifier: MIT */
/*
 * What holds where a feature is left out: each call of core/base/features.h, weakly.  A library
 * that has the feature has its function instead.
 *
 * Most of these are never called: the word that a call depends on is written by the feature
 * alone.
 */
#include "core/base/compiler.h"
#include "core/base/features.h"

/* The parameters are those of the functions that stand here instead. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define WITHOUT __attribute__((__weak__))

/* ---- the process ---- */

WITHOUT void features_start(uint32_t nr_nodes) { }
WITHOUT void features_open(const struct os_cpus *cpus, uint32_t nr_nodes) { }
WITHOUT void features_constructed(void) { }
WITHOUT void features_end(void) { }
WITHOUT void features_fork_prepare(void) { }
WITHOUT void features_fork_finish(bool in_child) { }
WITHOUT void slab_features_fork_prepare(void) { }
WITHOUT void slab_features_fork_finish(bool in_child) { }
WITHOUT void page_features_fork_prepare(void) { }
WITHOUT void page_features_fork_finish(bool in_child) { }

/* ---- objects of a cache that is not plain ---- */

WITHOUT void *debug_alloc(struct slub_cache *twin, size_t bytes) { return NULL; }
WITHOUT void debug_free(struct slub_cache *twin, void *object, const void *frame) { }
WITHOUT void debug_note_free(const struct slub_cache *twin, const void *object) { }
WITHOUT size_t debug_ask_size(struct slub_cache *twin, const void *object) { return 0; }
WITHOUT size_t debug_object_bytes(const struct slub_cache *cache, const void *object) { return 0; }
WITHOUT void account_carved(const struct slub_cache *cache, void *first, uint32_t nr) { }
WITHOUT bool account_free(struct slub_cache *cache, void *object) { return true; }
WITHOUT void account_settle(const struct slub_cache *cache, void *chain) { }
WITHOUT void sample_gone(void *object) { }

/* ---- pages ---- */

WITHOUT bool page_growth_ask(size_t bytes, enum growth_cause cause) { return false; }
WITHOUT void page_tight_look(void) { }
WITHOUT void page_group_look(size_t superblocks) { }
WITHOUT size_t page_limit_follow(bool is_auto) { return 0; }
WITHOUT void page_limit_reread(void) { }

WITHOUT struct page *reserve_claim(struct zone *zone, char **whole, size_t *dirty) { return NULL; }
WITHOUT void reserve_keep(struct zone *zone, struct page *page, size_t dirty) { }
WITHOUT void reserve_refill(void) { }
WITHOUT void *page_reserve_take(uint32_t order, uint32_t node) { return NULL; }
WITHOUT void *reserve_take_large(size_t bytes, size_t align) { return NULL; }
WITHOUT void *fence_alloc(size_t bytes, size_t align, bool *is_zero) { return NULL; }
WITHOUT void *fence_alloc_reserve(size_t bytes, size_t align) { return NULL; }
WITHOUT void fence_free(void *ptr, size_t own, uint32_t flags) { }
WITHOUT void *fence_resize(void *ptr, size_t bytes) { return NULL; }
WITHOUT bool fence_open(void *base, size_t pages) { return true; }
WITHOUT size_t fence_nr_pages(void) { return 0; }
WITHOUT bool fence_flush(void) { return false; }
WITHOUT bool gap_close(void *block, uint32_t order, uint32_t node) { return false; }
WITHOUT void gap_open(void *block, uint32_t order, uint32_t node) { }
WITHOUT size_t large_asked(const void *ptr) { return 0; }
WITHOUT bool large_pad_is_right(const void *ptr) { return true; }

/* ---- slabs, caches ---- */

WITHOUT void slab_give_back_later(struct page *slab) { }
WITHOUT void holes_carve(const struct slub_cache *cache, const struct page *slab,
	uint32_t *first, uint32_t *count) { }
WITHOUT uint32_t holes_carved(struct page *slab) { return 0; }
WITHOUT void holes_forget(struct slub_cache *cache, struct page *slab) { }
WITHOUT void objects_taken(struct slub_cache *cache, struct page *slab) { }
WITHOUT void slab_sparse_look(struct slub_cache *cache) { }
WITHOUT void slab_empty_left(void) { }
WITHOUT void slab_left_look(struct slub_cache *cache) { }
WITHOUT void slab_shrink_begins(bool is_all) { }
WITHOUT void slab_grace_look(uint32_t steps) { }
WITHOUT void front_copy(const struct slub_cache *cache) { }
WITHOUT void front_part(struct slub_cache *cache) { }
WITHOUT void stats_file_update(struct slub_cache *cache) { }
WITHOUT void debug_mailbox_answer(void) { }
/* As much of it as is read, all 0: nobody asks. */
struct debug_mailbox {
	uint32_t words[DEBUG_MAILBOX_STATE_AT / 4 + 1];
};
WITHOUT struct debug_mailbox slub_debug_mailbox;

/* ---- malloc ---- */

WITHOUT void *account_malloc(size_t bytes) { return NULL; }
WITHOUT void *account_alloc(size_t bytes, size_t align, bool *is_zero) { return NULL; }
WITHOUT bool account_large(void *ptr) { return true; }
WITHOUT struct slub_cache *sizeclass_accounted(struct slub_cache *cache) { return NULL; }
WITHOUT void account_free_object(void *ptr, struct slub_cache *cache) { }
WITHOUT int group_charge(uint32_t owner, size_t bytes) { return 0; }
WITHOUT void group_uncharge(uint32_t owner, size_t bytes) { }
WITHOUT void *sample_alloc(struct slub_cache *cache, size_t bytes) { return NULL; }
WITHOUT void *sample_alloc_slowly(struct slub_cache *cache, size_t bytes, size_t align)
{
	return NULL;
}
WITHOUT void *large_alloc_told(size_t bytes, size_t align, bool *is_zero) { return NULL; }
WITHOUT void sample_large(void *ptr, size_t bytes) { }
WITHOUT size_t outside_bytes(const void *ptr) { return 0; }
WITHOUT enum outside_kind outside_find(const void *ptr) { return OUTSIDE_NOT; }
WITHOUT bool outside_ask(const void *ptr, const char *call) { return true; }
WITHOUT bool outside_free(void *ptr) { return false; }
WITHOUT void *guard_alloc_empty(struct slub_cache *cache, size_t align) { return NULL; }
WITHOUT void *handler_alloc(size_t bytes, size_t align) { return NULL; }
WITHOUT bool sized_check(void *ptr, size_t told, size_t align) { return true; }
WITHOUT bool debug_free_foreign(const char *call, const void *ptr) { return false; }

/* ---- certain corruption: nobody can say it ---- */

WITHOUT void misuse_found(enum misuse what, const char *call, const void *address,
	const char *where) { __builtin_trap(); }
WITHOUT bool foreign_found(const char *call, const void *ptr) { return false; }
WITHOUT void misuse_exit(bool begins) { }

/* ---- memory is short, or is to go back ---- */

WITHOUT bool reclaim_more(int *priority, size_t bytes) { return false; }
WITHOUT void *cache_alloc_from_reserve(struct slub_cache *cache, unsigned int flags)
{
	return NULL;
}
WITHOUT void slab_purge_objects(uint64_t deadline_ns, int node) { }
