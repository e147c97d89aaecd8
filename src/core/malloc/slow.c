/* SPDX-License-Identifier: MIT */
/*
 * The slow paths: every decision of malloc and free that the fast paths leave.
 */
#include "core/base/list.h"
#include "core/malloc/front.h"
#include "core/slab/switches.h"

#include <errno.h>

/* ---- the fast paths ---- */

__attribute__((__noinline__)) void fast_paths_open_now(void)
{
	/* acquire: pairs with the release in malloc_open() */
	if (slub_thread.self.base != slub_cpu_base ||
	    unlikely(!__atomic_load_n(&malloc_paged_limit, __ATOMIC_ACQUIRE)))
		return;
	front_fill();
	slub_thread.free_limit = fast_free_limit();
	slub_thread.malloc_limit = MALLOC_LIMIT;
	/* The last look: a handler may have come in between, and changed either. */
	compiler_barrier();
	if (unlikely(group_current()))
		slub_thread.malloc_limit = 0;
	if (unlikely(slub_thread.self.base != slub_cpu_base))
		slub_thread.malloc_limit = slub_thread.free_limit = 0;
	/* The fast path was closed for that (core/page/budget.c), perhaps. */
	if (likely(!slub_thread.locks_held))
		slab_visit(page_purge_visit());
}

/* ---- free ---- */

/*
 * Large blocks that a signal handler freed while it might take no lock, because it had
 * interrupted the holder of one.  They are linked through their first word.  Objects of
 * caches wait in core/slab/free.c.
 */
static void *frees_put_off;

/* A large block begins with a page. */
static bool is_at_large(const void *ptr)
{
	return !((uintptr_t)ptr % PAGE_BYTES);
}

bool ptr_is_foreign(const void *ptr)
{
	uint32_t entry = pagemap_get(ptr);

	if (entry == MAP_LARGE)
		return !is_at_large(ptr);
	return entry == MAP_NONE && !outside_find(ptr);
}

/* Reports a pointer that is not ours, once per process. */
static cold void foreign_warn(const char *what, const void *ptr)
{
	/* Debugging reports in its own form, and goes on. */
	if (debug_free_foreign(what, ptr) || foreign_found(what, ptr))
		return;
	log_once("%s: pointer %p is not from this library; left alone (further "
		 "ones are not reported)", what, ptr);
}

/* @ptr does not look like an allocated block of an ordinary cache.  Is it a block? */
static cold usual bool ptr_is_block_after_all(const void *ptr, const char *call,
					      struct slub_cache *cache)
{
	if (cache)
		return suspect_free(cache, (void *)ptr, call);
	if (!ptr_is_foreign(ptr))
		return outside_ask(ptr, call);
	foreign_warn(call, ptr);
	return false;
}

bool ptr_is_block(const void *ptr, const char *call)
{
	struct slub_cache *cache = cache_of(ptr);

	if (likely(cache) && (!KEYS || cache->debug ||
			      (free_is_plain(cache, ptr) &&
			       !suspect_is_uncarved(cache, ptr))))
		return true;
	return ptr_is_block_after_all(ptr, call, cache);
}

static void free_large(void *ptr)
{
	if (unlikely(!is_at_large(ptr))) {
		foreign_warn("free", ptr);
		return;
	}
	if (unlikely(slub_thread.locks_held)) {
		stack_push(&frees_put_off, ptr, (void **)ptr);
		return;
	}
	if (SLUB_CONFIG_HARDENED && !large_pad_is_right(ptr)) {
		misuse_found(MISUSE_BEYOND, "free", ptr, "large block");
		return;
	}
	sample_block_gone(ptr);
	large_free(ptr);
}

static void free_by_entry(void *ptr, uint32_t entry)
{
	struct slub_cache *cache;

	switch (entry) {
	case MAP_NONE:
		if (outside_free(ptr))
			return;
		if (unlikely(sanitizer.owns_malloc))
			sanitizer_free(ptr);
		else
			foreign_warn("free", ptr);
		return;
	case MAP_LARGE:
		free_large(ptr);
		return;
	}
	cache = cache_of_entry(entry);
	if (cache)
		cache_free(cache, ptr);
}

void frees_finish(void)
{
	void *ptr = stack_take(&frees_put_off);

	cache_free_postponed();

	while (ptr) {
		void *next = *(void **)ptr;

		free_by_entry(ptr, pagemap_get(ptr));
		ptr = next;
	}
}

SLUB_EXPORT void slub_free(void *object)
{
	fast_free(object);
}

/* Do blocks wait that handlers could not free? */
static bool frees_are_pending(void)
{
	return unlikely(!stack_is_empty(&cache_postponed) ||
			!stack_is_empty(&frees_put_off));
}

/*
 * The fast path of the other backends, whose lists the fast path of rseq cannot find:
 * it tries the list, and looks at nothing else.
 */
static always_inline bool slow_free_to_list(void *ptr)
{
	struct slub_cache *cache;

	/* The hardened build looks at each object. */
	if (SLUB_CONFIG_HARDENED || percpu_backend == BACKEND_RSEQ ||
	    unlikely(!pagemap_covers(ptr)))
		return false;
	cache = cache_of_entry(pagemap_get_covered(ptr));
	if (unlikely(!cache || cache->is_accounted || cache->is_sampled))
		return false;
	if (KEYS && (cache->debug || unlikely(!free_is_plain(cache, ptr))))
		return false;
	if (likely(percpu_push(cache->list_slot, ptr, list_link(cache))))
		return true;
	/* Nothing came of it, but it may be marked. */
	if (cache_has_keys(cache))
		key_drop(cache, ptr);
	return false;
}

static __attribute__((__noinline__)) void free_to_any(void *ptr)
{
	int kept = errno;
	uint32_t entry;

	if (!ptr)
		return;
	if (frees_are_pending() && !slub_thread.locks_held)
		frees_finish();
	/* malloc()'s may be closed on purpose (core/page/budget.c): a free leaves it so. */
	if (unlikely(slub_thread.free_limit != fast_free_limit()))
		fast_paths_open_now();
	entry = pagemap_get(ptr);
	if (likely(entry == MAP_LARGE))
		free_large(ptr);
	else
		free_by_entry(ptr, entry);
	errno = kept;
}

void slow_free(void *ptr)
{
	if (!slow_free_to_list(ptr))
		free_to_any(ptr);
}

/* ---- alloc ---- */

static struct slub_cache *class_for(size_t bytes, size_t align)
{
	struct slub_cache *cache = sizeclass_get(bytes, align);
	struct slub_cache *accounted = NULL;

	/* A larger class may stand in for the one that was charged: then no owner. */
	if (unlikely(group_current()) && cache == sizeclass_fitting(bytes, align))
		accounted = sizeclass_accounted(cache);
	return accounted ? accounted : cache;
}

static void *class_alloc(size_t bytes, size_t align)
{
	struct slub_cache *cache = class_for(bytes, align);

	if (unlikely(!cache))
		return NULL;
	if (unlikely(sample_is_wanted()))
		return sample_alloc_slowly(cache, bytes,
					   max_size(align, MALLOC_ALIGN));
	return cache_alloc_sized(cache, bytes);
}

/* One try, from the source that this thread may use now. */
static void *alloc_once(size_t bytes, size_t align, bool *is_zero)
{
	void *ptr = NULL;

	*is_zero = false;
	if (max_size(bytes, align) <= CLASS_BYTES_MAX && align <= PAGE_BYTES)
		ptr = class_alloc(bytes, align);
	else if (!slub_thread.locks_held)
		ptr = likely(!sample_is_wanted() && !guard_watches_block()) ?
			      large_alloc(bytes, align, is_zero) :
			      large_alloc_told(bytes, align, is_zero);
	if (!ptr && slub_thread.locks_held)
		ptr = handler_alloc(bytes, align);
	return ptr;
}

/* When all else has failed, for a thread with the right to it. */
static cold void *alloc_from_reserve(size_t bytes, size_t align, bool *is_zero)
{
	struct slub_cache *cache;

	*is_zero = false;
	if (max_size(bytes, align) > CLASS_BYTES_MAX || align > PAGE_BYTES)
		return slub_thread.flags & THREAD_RESERVE ?
			       large_alloc_reserve(bytes, align) : NULL;
	cache = class_for(bytes, align);
	return cache ? cache_alloc_from_reserve(cache, 0) : NULL;
}

static cold void *alloc_after_reclaim(size_t bytes, size_t align,
				      bool *is_zero)
{
	int priority = RECLAIM_FIRST;
	void *ptr = NULL;

	if (slub_thread.locks_held || cache_refused() ||
	    !large_is_possible(bytes, align))
		return NULL;
	while (!ptr && !cache_is_refused() && reclaim_more(&priority, bytes))
		ptr = alloc_once(bytes, align, is_zero);
	if (ptr || cache_refused())
		return ptr;
	/* The heap has no addresses to grow to; a mapping may find some elsewhere. */
	if (unlikely(superblock_is_walled_in()) &&
	    page_limit_room() > bytes / PAGE_BYTES)
		ptr = handler_alloc(bytes, align);
	return ptr ? ptr : alloc_from_reserve(bytes, align, is_zero);
}

static inline void *alloc_or_reclaim(size_t bytes, size_t align, bool *is_zero)
{
	void *ptr = alloc_once(bytes, align, is_zero);

	return likely(ptr) ? ptr : alloc_after_reclaim(bytes, align, is_zero);
}

void *slow_alloc_uncharged(size_t bytes, size_t align, bool *is_zero)
{
	uint8_t growth = thread_growth_set(THREAD_GROWTH_ONCE);
	void *ptr = alloc_or_reclaim(bytes, align, is_zero);

	thread_growth_set(growth);
	return ptr;
}

/* What a list had none of, in the same request. */
static cold void *alloc_again(size_t bytes)
{
	bool is_zero;

	if (!slub_thread.locks_held)
		frees_finish();
	return alloc_or_reclaim(bytes, MALLOC_ALIGN, &is_zero);
}

void *slow_alloc_aligned(size_t bytes, size_t align, bool *is_zero)
{
	*is_zero = false;
	if (unlikely(!slub_start()))
		return NULL;
	fast_paths_open();
	if (!slub_thread.locks_held)
		frees_finish();
	grace_look(max_size(bytes, align) > CLASS_BYTES_MAX ? GRACE_STEPS_LARGE : 1);
	if (bytes > PTRDIFF_MAX || align > PTRDIFF_MAX)
		return NULL;
	if (unlikely(group_current()))
		return account_alloc(bytes, align, is_zero);
	return slow_alloc_uncharged(bytes, align, is_zero);
}

/* A large block that was kept whole.  NULL: there is none, or a longer way has to look. */
static always_inline void *slow_alloc_kept(size_t bytes)
{
	/* A limit of 0: the library has not started. */
	if (unlikely(!malloc_paged_limit || slub_thread.locks_held ||
		     sample_is_wanted() || guard_watches_large ||
		     sanitizer.is_there) ||
	    frees_are_pending() || SLUB_CONFIG_HARDENED)
		return NULL;
	return large_alloc_kept(bytes);
}

/* Is there a list of such objects?  Not for a thread in a group: they need an owner. */
static always_inline bool has_list(size_t bytes)
{
	/* acquire: pairs with the release in malloc_open() */
	return bytes < __atomic_load_n(&malloc_paged_limit, __ATOMIC_ACQUIRE) &&
	       likely(!group_current());
}

/* The counterpart of slow_free_to_list(). */
static always_inline void *alloc_from_list(size_t bytes)
{
	uint32_t slot;
	void *ptr;

	if (SLUB_CONFIG_HARDENED || percpu_backend == BACKEND_RSEQ ||
	    !has_list(bytes))
		return NULL;
	slot = __atomic_load_n(&malloc_slot[size_index(bytes)],
			       __ATOMIC_RELAXED);
	ptr = percpu_pop(slot, bytes > CLASS_WORD_MAX ? page_link_bias : KEYS ? LINK_KEYED : 0);
	if (KEYS && ptr)
		key_drop(sizeclass_cache(bytes), ptr);
	return ptr;
}

/*
 * A size that is rounded up to its alignment has a class whose objects are so aligned
 * (class_fitting()).  So the list of that class will do, unless it is empty.
 */
SLUB_HOT void *alloc_aligned(size_t bytes, size_t align)
{
	size_t rounded = bytes_aligned(bytes, align);
	void *ptr = NULL;
	bool is_zero;

	if (SLUB_CONFIG_HARDENED && unlikely(!bytes)) {
		ptr = guard_alloc_empty(sizeclass_cache(0), align);
		if (likely(ptr))
			return ptr;
	}
	/* Rounding up may have wrapped around. */
	if (likely(align <= PAGE_BYTES && rounded >= bytes)) {
		ptr = fast_pop(rounded);
		if (unlikely(!ptr))
			ptr = alloc_from_list(rounded);
	}
	if (unlikely(!ptr))
		ptr = slow_alloc_aligned(bytes, align, &is_zero);
	return hardened_sealed(ptr, bytes);
}

cold void *slow_alloc_fresh(size_t bytes)
{
	struct slub_cache *cache;

	if (unlikely(sanitizer.is_there || slub_thread.locks_held) || frees_are_pending() ||
	    !has_list(bytes))
		return NULL;
	cache = sizeclass_get(bytes, MALLOC_ALIGN);
	return likely(cache) ? cache_alloc_fresh(cache, bytes) : NULL;
}

/* The usual case: the list is empty.  All tries are one request's, the first one too. */
static inline void *slow_alloc_listed(struct slub_cache *cache, size_t bytes)
{
	uint8_t growth = thread_growth_set(THREAD_GROWTH_ONCE);
	void *ptr = likely(!sample_is_wanted()) ? cache_alloc_sized(cache, bytes) :
						  sample_alloc(cache, bytes);

	if (unlikely(!ptr))
		ptr = alloc_again(bytes);
	thread_growth_set(growth);
	return ptr;
}

/* From this library, whoever owns malloc() in the process. */
__attribute__((__noinline__)) void *slow_alloc_own(size_t bytes)
{
	struct slub_cache *cache;
	bool is_zero;
	void *ptr = NULL;

	if (bytes >= malloc_paged_limit) {
		grace_look(GRACE_STEPS_LARGE);
		ptr = slow_alloc_kept(bytes);
		if (likely(ptr && (!group_current() || account_large(ptr))))
			return ptr;
		ptr = NULL;
	}
	cache = has_list(bytes) ? sizeclass_get(bytes, MALLOC_ALIGN) : NULL;
	if (likely(cache))
		ptr = slow_alloc_listed(cache, bytes);
	/* Only now, for the cache may have given the thread its entrance. */
	fast_paths_open();
	if (!ptr && !cache)
		ptr = slow_alloc_aligned(bytes, MALLOC_ALIGN, &is_zero);
	if (unlikely(!ptr))
		errno = ENOMEM;
	return ptr;
}

/*
 * A sanitizer's runtime is to see the program's blocks.  What begins here leaves no object in
 * the lists that malloc() looks at first, so it ends up here.
 */
void *slow_alloc(size_t bytes)
{
	void *ptr = alloc_from_list(bytes);

	if (likely(ptr))
		return ptr;
	if (unlikely(sanitizer.owns_malloc) && slub_start())
		return sanitizer_malloc(bytes);
	return slow_alloc_own(bytes);
}

void free_aligned_told(void *ptr, size_t told, size_t align)
{
	if (likely(!ptr || sized_check(ptr, told, align)))
		fast_free(ptr);
}

/* ---- size ---- */

size_t block_bytes(const void *ptr)
{
	uint32_t entry = pagemap_get(ptr);
	struct slub_cache *cache;

	switch (entry) {
	case MAP_NONE:
		return outside_bytes(ptr);
	case MAP_LARGE:
		return SLUB_CONFIG_HARDENED ? large_asked(ptr) :
					      large_bytes(ptr);
	}
	cache = cache_of_entry(entry);
	if (unlikely(cache && cache->debug))
		return debug_ask_size(cache, ptr);
	return cache ? cache_object_bytes(cache, ptr) : 0;
}

/*
 * To a profile the block of the old size goes, and a new one comes.  The old one goes
 * first: once the block has moved, its address may belong to another thread's block,
 * with a sample of its own.  Only a block that can be neither resized nor copied, for
 * want of memory, stays without its sample.
 */
static void *resize_large(void *ptr, size_t bytes)
{
	void *to;

	sample_block_gone(ptr);
	to = large_resize(ptr, bytes);
	if (!to)
		return NULL;
	if (unlikely(sample_is_wanted()))
		sample_large(to, bytes);
	return to;
}

bool block_stays(void *ptr, size_t bytes)
{
	return !SLUB_CONFIG_HARDENED && bytes > CLASS_BYTES_MAX && bytes <= heap_reserved_bytes &&
	       pagemap_get(ptr) == MAP_LARGE && is_at_large(ptr) &&
	       !__atomic_load_n(&sample_was_on, __ATOMIC_RELAXED) &&
	       !sanitizer.is_there && large_stays(ptr, bytes);
}

bool ptr_is_watched(const void *ptr)
{
	struct slub_cache *cache = cache_of(ptr);

	return cache ? cache->debug != NULL :
		       outside_find(ptr) == OUTSIDE_WATCHED;
}

cold void *slow_resize(void *ptr, size_t bytes)
{
	if (pagemap_get(ptr) == MAP_LARGE) {
		if (bytes <= CLASS_BYTES_MAX || slub_thread.locks_held)
			return NULL;
		return resize_large(ptr, bytes);
	}
	/* A watched object always moves: that finds stale pointers. */
	if (ptr_is_watched(ptr))
		return NULL;
	return size_is_worth_keeping(block_bytes(ptr), bytes) ? ptr : NULL;
}
