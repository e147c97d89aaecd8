/* SPDX-License-Identifier: MIT */
/*
 * Many objects at once, all or nothing; and objects put aside (prefill).
 */
#include "features/misuse/misuse.h"
#include "features/groups/owned.h"
#include "features/profile/sample.h"
#include "features/typed/typed.h"

#include <errno.h>
#include <string.h>

/* ---- one sequence, and no look at what is out of the ordinary ---- */

/* As pop_bulk_here(), of objects that do not begin with link and check word. */
static __attribute__((__noinline__)) size_t
pop_bulk_plain(const struct slub_cache *cache, size_t nr, void **objects)
{
	bool is_keyed = cache_is_keyed(cache);
	long n = is_keyed ?
		rseq_pop_bulk_link_key(cache->kept_slot, objects, (long)nr, cache->link) :
		rseq_pop_bulk(cache->plain_slot, objects, (long)nr, cache->link);

	for (long i = 0; is_keyed && i < n; i++)
		key_clear(keyed_place(cache, objects[i]));
	return n < 0 ? 0 : (size_t)n;
}

/* How many were in this CPU's list, up to @nr; 0 also where it has to be asked. */
static always_inline size_t pop_bulk_here(const struct slub_cache *cache,
					  size_t nr, void **objects)
{
	/* An empty one where programs must not pop; and that of no cache, 0. */
	long n;

	if (unlikely(!cache_begins_keyed(cache)))
		return pop_bulk_plain(cache, nr, objects);
	n = rseq_pop_bulk_key(cache->inline_slot, objects, (long)nr);
	for (long i = 0; i < n; i++)
		key_clear(objects[i]);
	return unlikely(n < 0) ? 0 : (size_t)n;
}

/* Is @object of the cache with @entry in the page map? */
static always_inline bool is_of(const void *object, uint16_t entry,
				uintptr_t base, size_t limit)
{
	size_t page = ((uintptr_t)object - base) >> PAGE_SHIFT;

	return likely(page < limit && ((const uint16_t *)base)[page] == entry);
}

/*
 * Do they all lie on the slab of the first?  One branch a call, not one an object:
 * where they are mixed nobody can foretell it.
 */
static always_inline bool are_together(const struct slub_cache *cache, size_t nr,
				       void **objects)
{
	const uintptr_t first = (uintptr_t)objects[0];
	uintptr_t apart = (uintptr_t)objects[nr - 1] ^ first;

	if (apart > cache->slab_mask)
		return false;
#pragma GCC unroll 4
	for (size_t i = 1; i < nr; i++)
		apart |= (uintptr_t)objects[i] ^ first;
	return apart <= cache->slab_mask;
}

/*
 * Links objects[0 .. nr), and returns how many, up to the first that is not of @cache, is like the
 * one before, or looks free; the last of these has no link yet.  The map is not asked for others
 * than the first if they @are_of_one_slab.  @link: the cache's, here and below.
 */
static always_inline size_t link_here(const struct slub_cache *cache, size_t nr, void **objects,
				      bool are_of_one_slab, uintptr_t link, bool is_keyed)
{
	const uintptr_t base = pagemap_base;
	const size_t limit = __atomic_load_n(&pagemap_limit, __ATOMIC_RELAXED);
	const uint16_t entry = (uint16_t)cache->slot;
	char *last = objects[0];
	size_t i;

	if (!is_of(last, entry, base, limit) || (is_keyed && key_seems_set(last + link)))
		return 0;
#pragma GCC unroll 4
	for (i = 1; i < nr; i++) {
		char *object = objects[i];

		if ((!are_of_one_slab && !is_of(object, entry, base, limit)) ||
		    unlikely(object == last || (is_keyed && key_seems_set(object + link))))
			break;
		if (is_keyed)
			link_set_keyed(last + link, object);
		else
			*(void **)(last + link) = object;
		last = object;
	}
	return i;
}

/* Of accounted caches 0: their frees have to look at the owner. */
static always_inline uint32_t push_slot(const struct slub_cache *cache)
{
	return cache->inline_slot | cache->plain_slot | cache->kept_slot;
}

static always_inline bool push_linked(const struct slub_cache *cache, size_t nr,
				      void **objects, uintptr_t link, bool is_keyed)
{
	const uint32_t slot = push_slot(cache);
	void **tail = (void **)((char *)objects[nr - 1] + link);
	enum sequence_result result =
		is_keyed ? rseq_push_bulk_key(slot, objects[0], tail, (int32_t)nr) :
			   rseq_push_bulk(slot, objects[0], tail, (int32_t)nr);

	return result == SEQUENCE_DONE;
}

/* They were linked, and are not free all the same. */
static __attribute__((__noinline__)) bool
unlink_keyed(size_t nr, void **objects, uintptr_t link)
{
	for (size_t i = 0; i < nr; i++)
		key_clear((char *)objects[i] + link);
	return false;
}

static always_inline bool push_all_here(const struct slub_cache *cache, size_t nr,
					void **objects, uintptr_t link, bool is_keyed)
{
	size_t linked = are_together(cache, nr, objects) ?
				link_here(cache, nr, objects, true, link, is_keyed) :
				link_here(cache, nr, objects, false, link, is_keyed);

	if (likely(linked == nr && push_linked(cache, nr, objects, link, is_keyed)))
		return true;
	/* One that had a key before is none of them. */
	return is_keyed && linked ? unlink_keyed(linked, objects, link) : false;
}

static __attribute__((__noinline__)) bool
push_plain_here(const struct slub_cache *cache, size_t nr, void **objects)
{
	return push_all_here(cache, nr, objects, cache->link, cache_is_keyed(cache));
}

/*
 * Frees objects[0 .. nr), if all are of @cache, one no function of whose has to look
 * at what is freed (its link is then within the object), and there is room for them.
 * Otherwise links have been written, and will be again.
 */
static always_inline bool push_bulk_here(const struct slub_cache *cache,
					 size_t nr, void **objects)
{
	const uint32_t slot = push_slot(cache);

	if (!ARCH_HAS_RSEQ || unlikely(!slot || slot != cache->list_slot))
		return false;
	return likely(cache_begins_keyed(cache)) ? push_all_here(cache, nr, objects, 0, true) :
						   push_plain_here(cache, nr, objects);
}

/* ---- alloc ---- */

/* Objects from behind the CPU's list; less than @nr: no memory. */
static size_t alloc_behind(struct slub_cache *cache, size_t nr, void **objects)
{
	struct cache_node *node = node_current(cache);
	size_t have = 0;

	while (have < nr) {
		uint32_t length = chain_length(cache);
		void *chain = chain_fetch(cache, node, &length);
		size_t before = have, n;

		if (!chain)
			break;
		while (have < nr && chain) {
			void *object = chain_head(cache, chain);

			if (unlikely(!object)) {
				chain = NULL;
				break;
			}
			chain = chain_next(cache, object);
			objects[have++] = chain_unchained(cache, object);
		}
		n = have - before;
		if (chain)
			chain_store(cache, chain,
				    length > n ? length - (uint32_t)n : 1);
	}
	return have;
}

/* Objects from the CPU's list. */
static size_t pop_some(struct slub_cache *cache, size_t nr, void **objects)
{
	size_t have = percpu_pop_bulk(cache->list_slot, list_link(cache), objects,
				      (uint32_t)min_size(nr, UINT32_MAX));

	for (size_t i = 0; cache_has_keys(cache) && i < have; i++)
		key_drop(cache, objects[i]);
	return have;
}

/* From there and from behind it; less than @nr: no memory, or a maximum is in the way. */
static size_t alloc_some(struct slub_cache *cache, size_t nr, void **objects)
{
	uint32_t owner = 0;
	size_t have;

	if (cache->is_accounted && !account_begin(cache, nr, &owner))
		return 0;
	have = pop_some(cache, nr, objects);
	if (have < nr && !slub_thread.locks_held) {
		list_clear_way(cache, cache->list_slot, capacity_now(cache));
		cache_free_postponed();
		percpu_enter();
		have += alloc_behind(cache, nr - have, objects + have);
	}
	if (cache->is_accounted) {
		for (size_t i = 0; i < have; i++)
			account_take(cache, objects[i], owner);
		account_cancel(cache, nr - have, owner);
	}
	return have;
}

/*
 * Is each object looked at that this cache hands out?  With a guard only those are
 * drawn that are to be guarded.
 */
static bool is_looked_at(const struct slub_cache *cache)
{
	return cache_is_watched(cache) || unlikely(sanitizer.is_there) ||
	       (sample_is_on(SAMPLE_PROFILE) &&
		!(sample_is_on(SAMPLE_GUARD) && cache_sample_slot(cache)));
}

static size_t alloc_rest(struct slub_cache *cache, unsigned int flags,
			 size_t nr, void **objects, bool may_be_guarded)
{
	bool looked_at = is_looked_at(cache);
	size_t have = 0;

	/* Otherwise the guarded ones were drawn; in the hardened build lists have other ends. */
	if (!looked_at && SLUB_CONFIG_HARDENED)
		may_be_guarded = false;
	else if (!looked_at)
		have = alloc_some(cache, nr, objects);
	for (; have < nr; have++) {
		/* Not by a look at the switch: it may be on at the next object. */
		objects[have] = may_be_guarded ?
					slub_cache_alloc_flags(cache, flags) :
					cache_alloc_unguarded(cache, flags);
		if (!objects[have])
			break;
	}
	return have;
}

/*
 * What is put aside (prefill) is linked, and a guarded object has no room for a
 * link behind it: so only what goes to the caller @may_be_guarded.
 */
static __attribute__((__noinline__)) size_t
alloc_bulk(struct slub_cache *cache, unsigned int flags, size_t nr,
	   void **objects, size_t have, bool may_be_guarded)
{
	cache = cache_usable(cache);
	if (!cache)
		return 0;
	if ((flags & SLUB_ALLOC_ZERO && cache->ctor) ||
	    flags & ~(unsigned int)(SLUB_ALLOC_ZERO | SLUB_ALLOC_RESERVE |
				    SLUB_ALLOC_NO_RESERVE)) {
		errno = EINVAL;
		return 0;
	}
	if (unlikely(sample_is_wanted()) && may_be_guarded && !have)
		have = sample_bulk_guarded(cache, nr, objects);
	have += alloc_rest(cache, flags, nr - have, objects + have,
			   may_be_guarded);
	if (have < nr) {
		slub_cache_free_bulk(cache, have, objects);
		errno = ENOMEM;
		return 0;
	}
	for (size_t i = 0; flags & SLUB_ALLOC_ZERO && i < nr; i++) {
		memset(objects[i], 0, cache->object_size);
		sanitizer_written(objects[i], cache->object_size);
	}
	sanitizer_written(objects, nr * sizeof(*objects));
	return nr;
}

SLUB_EXPORT SLUB_HOT size_t slub_cache_alloc_bulk(struct slub_cache *cache,
						  unsigned int flags, size_t nr,
						  void **objects)
{
	size_t have = 0;

	if (likely(!flags && nr - 1 < SEQUENCE_OBJECTS_MAX &&
		   !sample_is_wanted())) {
		have = pop_bulk_here(cache_real(cache), nr, objects);
		if (likely(have == nr))
			return nr;
	}
	return alloc_bulk(cache, flags, nr, objects, have, true);
}

/* ---- free ---- */

/* Links objects[0 .. nr) into a chain; they are of @cache, which takes chains. */
static void **chain_link(struct slub_cache *cache, size_t nr, void **objects)
{
	const uintptr_t link = cache->link;

	if (likely(link_is_in_object(link) && !cache_is_keyed(cache))) {
		for (size_t i = 0; i + 1 < nr; i++)
			*(void **)((char *)objects[i] + link) = objects[i + 1];
		*(void **)((char *)objects[nr - 1] + link) = NULL;
		return (void **)((char *)objects[nr - 1] + link);
	}
	for (size_t i = 0; i + 1 < nr; i++)
		chain_set_next(cache, objects[i], objects[i + 1]);
	chain_set_next(cache, objects[nr - 1], NULL);
	return link_of(cache, objects[nr - 1]);
}

/*
 * Objects of one cache whose owners have been seen to.  Chains are about as long as lists
 * are by now: a barn counts them so.
 */
static void free_chains(struct slub_cache *cache, size_t nr, void **objects)
{
	size_t most = min_size(max_size((size_t)capacity_now(cache),
					CAPACITY_MIN),
			       (size_t)cache->capacity);

	for (; nr; objects += min_size(nr, most), nr -= min_size(nr, most)) {
		uint32_t n = (uint32_t)min_size(nr, most), had;
		void **tail = chain_link(cache, n, objects);
		void *full;

		if (percpu_push_bulk(cache->list_slot, list_link(cache), objects[0], tail, n))
			continue;
		percpu_enter();
		/* Make room: what is there goes on as a full list would. */
		had = slot_main_nr(percpu_lists(cache->list_slot), capacity_now(cache));
		full = percpu_take(cache->list_slot, capacity_now(cache));
		if (full)
			chain_retire(cache, full, had);
		if (!percpu_push_bulk(cache->list_slot, list_link(cache), objects[0], tail, n)) {
			chain_set_next(cache, objects[n - 1], NULL);
			chain_retire(cache, objects[0], n);
		}
	}
	cache_filled(cache);
}

/*
 * Sees to the charges of a run, or marks it as free, where @cache has either; returns how
 * many may go onto a list, up to the first that is out of the ordinary.
 */
static size_t settle(struct slub_cache *cache, size_t nr, void **objects)
{
	size_t i = 0;

	if (cache->is_accounted)
		return account_free_many(cache, nr, objects);
	if (!cache_has_keys(cache))
		return nr;
	for (; i < nr && free_is_plain(cache, objects[i]); i++)
		key_set(cache, objects[i]);
	return i;
}

/* A run of objects of one cache. */
static void free_run(struct slub_cache *cache, size_t nr, void **objects)
{
	bool takes_chains = nr > 1 && cache_takes_chains(cache);

	while (nr) {
		size_t n = takes_chains ? settle(cache, nr, objects) : 0;

		if (n)
			free_chains(cache, n, objects);
		/* One with an owner that is free already has been reported. */
		if (n < nr && !(takes_chains && cache->is_accounted))
			cache_free(cache, objects[n]);
		n += n < nr;
		objects += n;
		nr -= n;
	}
}

/* The same object twice in a row, which would link it to itself. */
static void report_twice(struct slub_cache *owner, const void *object)
{
	stat_add(owner, STAT_DOUBLE_FREE);
	misuse_found(MISUSE_DOUBLE_FREE, "slub_cache_free_bulk", object,
		     owner->name);
}

/*
 * How many from the start on are of one cache, all with @entry in the page map,
 * and none like the one before it.
 */
static size_t run_length(size_t nr, void **objects, uint32_t entry)
{
	size_t end = 1;

	while (end < nr && objects[end] != objects[end - 1] &&
	       pagemap_get(objects[end]) == entry)
		end++;
	return end;
}

static __attribute__((__noinline__)) void
free_bulk(struct slub_cache *cache, size_t nr, void **objects, bool is_deferred)
{
	int kept = errno;
	size_t i = 0;

	/* For the next one, if it is another CPU. */
	percpu_remember();
	while (i < nr) {
		uint32_t entry = pagemap_get(objects[i]);
		struct slub_cache *owner = cache_of_entry(entry);
		size_t n;

		if (unlikely(owner && i && objects[i] == objects[i - 1])) {
			report_twice(owner, objects[i++]);
			continue;
		}
		if (!owner || (cache && owner != cache)) {
			if (cache)
				slub_cache_free(cache, objects[i]);
			else
				slub_free(objects[i]);
			i++;
			continue;
		}
		n = run_length(nr - i, objects + i, entry);
		if (is_deferred)
			stat_add_many(owner, STAT_FREE_RCU_SHEAF, (uint32_t)n);
		cache_free_postponed();
		free_run(owner, n, objects + i);
		i += n;
	}
	errno = kept;
}

SLUB_EXPORT SLUB_HOT void slub_cache_free_bulk(struct slub_cache *cache,
					       size_t nr, void **objects)
{
	if (likely(cache))
		cache = cache_real(cache);
	if (likely(cache && nr - 1 < SEQUENCE_OBJECTS_MAX) &&
	    push_bulk_here(cache, nr, objects))
		return;
	free_bulk(cache, nr, objects, false);
}

void cache_free_deferred(size_t nr, void **objects)
{
	free_bulk(NULL, nr, objects, true);
}

/* ---- prefill ---- */

/*
 * The cache that says where an object that is put aside has its link: a watched object
 * has it elsewhere than the others, whose place may be a red zone there.
 */
static struct slub_cache *linked_by(const struct slub_prefill *prefill,
				    const void *object)
{
	struct slub_cache *owner = cache_of(object);

	return owner ? owner : prefill->cache;
}

/* Objects that are put aside are free to the program, and keep what is in them. */
static void tell_aside(const struct slub_cache *cache, void *object)
{
	sanitizer_back(object, cache->object_size, true,
		       cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU);
}

static void *take_back(struct slub_prefill *prefill)
{
	void *object = prefill->head;
	struct slub_cache *by = linked_by(prefill, object);

	if (unlikely(!chain_is_plain(by, object))) {
		prefill->head = NULL;
		prefill->nr = 0;
		return NULL;
	}
	prefill->head = chain_is_encoded(by) ?
				hardened_next_aside(by, object) :
				*link_of(by, object);
	prefill->nr--;
	sanitizer_out(object, by->object_size, true);
	return chain_unchained(by, object);
}

SLUB_EXPORT int slub_cache_prefill(struct slub_cache *cache,
				   struct slub_prefill *prefill, size_t nr)
{
	void *objects[64];
	bool fast = true, wants = prefill->nr < nr;

	if (cache)
		cache = cache_usable(cache);
	if (!cache || (prefill->nr && prefill->cache != cache))
		return -EINVAL;
	if (!prefill->nr)
		*prefill = (struct slub_prefill){ .cache = cache };
	while (prefill->nr < nr) {
		size_t n = min_size(nr - prefill->nr, ARRAY_SIZE(objects));
		size_t have = SLUB_CONFIG_HARDENED || is_looked_at(cache) ||
			      cache->is_accounted ?
				      0 : pop_some(cache, n, objects);

		fast &= have == n;
		if (have < n &&
		    !alloc_bulk(cache, 0, n, objects, have, false)) {
			slub_prefill_return(prefill);
			return -ENOMEM;
		}
		while (n) {
			void *object = objects[--n];

			chain_set_next(linked_by(prefill, object), object,
				       prefill->head);
			prefill->head = object;
			prefill->nr++;
			tell_aside(cache, object);
		}
	}
	if (wants)
		stat_add(cache, nr > (size_t)cache->capacity ?
					STAT_SHEAF_PREFILL_OVERSIZE :
				fast ? STAT_SHEAF_PREFILL_FAST :
				       STAT_SHEAF_PREFILL_SLOW);
	return 0;
}

SLUB_EXPORT void *slub_prefill_alloc(struct slub_prefill *prefill)
{
	return prefill->head ? take_back(prefill) : NULL;
}

/* To the CPU's list; false: there is no room for all, or a look at each is due. */
static bool push_some(struct slub_cache *cache, size_t nr, void **objects)
{
	void **tail;

	if (!cache_takes_chains(cache) || cache->is_accounted ||
	    run_length(nr, objects, cache->slot) < nr ||
	    pagemap_get(objects[0]) != cache->slot)
		return false;
	tail = chain_link(cache, nr, objects);
	if (!percpu_push_bulk(cache->list_slot, list_link(cache), objects[0], tail,
			      (uint32_t)nr))
		return cache_is_keyed(cache) && unlink_keyed(nr, objects, cache->link);
	cache_filled(cache);
	return true;
}

SLUB_EXPORT void slub_prefill_return(struct slub_prefill *prefill)
{
	bool fast = true, had = prefill->nr;
	void *objects[64];

	while (prefill->head) {
		size_t n = 0;

		while (prefill->head && n < ARRAY_SIZE(objects)) {
			objects[n] = take_back(prefill);
			n += objects[n] != NULL;
		}
		if (!n || push_some(prefill->cache, n, objects))
			continue;
		fast = false;
		slub_cache_free_bulk(prefill->cache, n, objects);
	}
	if (had)
		stat_add(prefill->cache, fast ? STAT_SHEAF_RETURN_FAST :
						STAT_SHEAF_RETURN_SLOW);
}
