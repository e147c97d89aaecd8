/* SPDX-License-Identifier: MIT */
/*
 * Pinning a cache, so that it is not destroyed for a moment; and shutting it, which waits
 * until it is not pinned.
 *
 * A thread that moves, shrinks, settles or inspects the objects of a cache pins it,
 * since the program may destroy the cache at any time.  A thread that destroys the cache,
 * or changes how its objects are moved, shuts it: from then on the cache cannot be
 * pinned, and the thread waits for the existing pins.
 *
 * A shadow or a twin ends with its root and never before, so a pin of it is a pin of the root.
 *
 * The cache counts its pins and its shuts: both are holds.  A child of a fork has one
 * thread, and has to count anew, so each thread keeps a list of its holds, on its stack.
 * A handler may fork at any instruction; therefore a hold is counted before it enters the
 * list and leaves the list before it is uncounted.  The child forgets a hold that is
 * counted and not listed, and hold_end() does not go below 0.  So in the child a count
 * can be too low, but never so high that a thread waits for ever.
 *
 * Locks: cache_lock protects the counts.
 */
#include "core/slab/slab_internal.h"

#include <errno.h>

/* The holds of this thread, the latest one first. */
static __thread struct cache_hold *holds
	__attribute__((tls_model("initial-exec")));

/* ---- counts, under cache_lock ---- */

static void hold_begin(struct cache_hold *hold, struct slub_cache *cache,
		       uint32_t *count)
{
	hold->cache = cache;
	hold->count = count;
	hold->next = holds;
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
	compiler_barrier();
	holds = hold;
}

/* True: somebody waits until there is no such hold, and there is none. */
static bool hold_end(struct cache_hold *hold)
{
	uint32_t nr;

	slub_assert(holds == hold);
	holds = hold->next;
	compiler_barrier();
	nr = __atomic_load_n(hold->count, __ATOMIC_RELAXED);
	/* release: pairs with the acquire in cache_shut() */
	while (nr && !__atomic_compare_exchange_n(hold->count, &nr, nr - 1,
						  false, __ATOMIC_RELEASE,
						  __ATOMIC_RELAXED))
		;
	return nr == 1 && hold->count == &hold->cache->movers && hold->cache->closers;
}

usual void holds_after_fork(void)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		/* Mostly there is nothing to write, and a write is a page fault. */
		if (unlikely(c->movers || c->closers))
			c->movers = c->closers = 0;
	}
	/* A cache that this thread is destroying may be in no list of caches. */
	for (struct cache_hold *h = holds; h; h = h->next)
		*h->count = 0;
	for (struct cache_hold *h = holds; h; h = h->next)
		++*h->count;
}

bool cache_is_held(const struct slub_cache *cache)
{
	for (struct cache_hold *h = holds; h; h = h->next) {
		if (h->cache == cache)
			return true;
	}
	return false;
}

bool thread_holds_cache(void)
{
	return holds;
}

/* ---- pin and shut ---- */

cold static bool pin_itself(struct slub_cache *cache, struct cache_hold *pin)
{
	bool is_open;

	lock_acquire(&cache_lock);
	is_open = cache_is_live(cache) && !cache->closers;
	if (is_open)
		hold_begin(pin, cache, &cache->movers);
	lock_release(&cache_lock);
	return is_open;
}

/*
 * Before its root was pinned, the structure could be reused for another cache: also for
 * the shadow of a program's cache, which is internal and yet can end.
 */
static bool is_still(const struct slub_cache *cache, const struct slub_cache *root,
		     struct cache_hold *pin)
{
	if (cache_is_live(cache) &&
	    __atomic_load_n(&cache->root, __ATOMIC_RELAXED) == root)
		return true;
	cache_unpin(pin);
	return false;
}

bool cache_pin(struct slub_cache *cache, struct cache_hold *pin)
{
	struct slub_cache *root = __atomic_load_n(&cache->root, __ATOMIC_RELAXED);

	return pin_itself(root ? root : cache, pin) && is_still(cache, root, pin);
}

usual bool cache_pin_any(struct slub_cache *cache, struct cache_hold *pin)
{
	struct slub_cache *root = __atomic_load_n(&cache->root, __ATOMIC_RELAXED);
	struct slub_cache *whose = root ? root : cache;

	pin->cache = NULL;
	if (!__atomic_load_n(&whose->is_internal, __ATOMIC_RELAXED) &&
	    !pin_itself(whose, pin))
		return false;
	return is_still(cache, root, pin);
}

void cache_pin_held(struct slub_cache *cache, struct cache_hold *pin)
{
	struct slub_cache *root = __atomic_load_n(&cache->root, __ATOMIC_RELAXED);
	struct slub_cache *whose = root ? root : cache;

	pin->cache = NULL;
	if (__atomic_load_n(&whose->is_internal, __ATOMIC_RELAXED))
		return;
	lock_acquire(&cache_lock);
	hold_begin(pin, whose, &whose->movers);
	lock_release(&cache_lock);
}

bool cache_is_pinned(const struct slub_cache *cache)
{
	bool is_pinned;

	lock_acquire(&cache_lock);
	is_pinned = __atomic_load_n(&cache->movers, __ATOMIC_RELAXED) > 0;
	lock_release(&cache_lock);
	return is_pinned;
}

bool cache_pin_slab(struct slub_cache *cache, const struct page *slab,
		    struct cache_hold *pin)
{
	if (!cache_pin_any(cache, pin))
		return false;
	if (cache_of(page_address(slab)) == cache)
		return true;
	cache_unpin(pin);
	return false;
}

usual void cache_unpin(struct cache_hold *pin)
{
	if (pin->cache)
		cache_open(pin);
}

int cache_shut(struct slub_cache *cache, struct cache_hold *hold)
{
	if (!cache_is_live(cache))
		return -EINVAL;
	/* In a visit of slub_cache_for_each() it would wait for itself. */
	if (cache_is_held(cache))
		return -EDEADLK;
	lock_acquire(&cache_lock);
	hold_begin(hold, cache, &cache->closers);
	lock_release(&cache_lock);
	if (slub_thread.flags & THREAD_IN_DEFRAG && cache_is_pinned(cache)) {
		cache_open(hold);
		return -EDEADLK;
	}
	cache_wait_unpinned(cache);
	return 0;
}

/*
 * A wake-up may get lost, where the kernel refuses futex(2) to another thread, or it refuses
 * it to this one: so it is looked at again.
 */
#define LOOK_NS 1000000000u

void cache_wait_unpinned(struct slub_cache *cache)
{
	uint32_t nr;

	/* acquire: this thread sees what the pinning threads did to the slabs */
	while ((nr = __atomic_load_n(&cache->movers, __ATOMIC_ACQUIRE)) != 0) {
		long err = sys_futex_wait(&cache->movers, nr, LOOK_NS);

		if (err && err != -EAGAIN && err != -EINTR && err != -ETIMEDOUT)
			sys_wait(WAIT_SPINS);
	}
}

void cache_open(struct cache_hold *hold)
{
	struct slub_cache *cache = hold->cache;
	bool is_waited_for;

	lock_acquire(&cache_lock);
	is_waited_for = hold_end(hold);
	lock_release(&cache_lock);
	/* Structures of caches stay structures of caches, so this wakes nobody else. */
	if (is_waited_for)
		sys_futex(&cache->movers, FUTEX_WAKE_PRIVATE, INT32_MAX);
}
