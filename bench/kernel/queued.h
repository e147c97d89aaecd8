/* SPDX-License-Identifier: MIT */
/*
 * qmempool with two queues of its own, on libslub's public headers: a queue per CPU before a shared
 * queue before a cache; 16 objects at a time move from one to the next.
 *
 *   alloc   this CPU's queue -> 16 off the shared queue -> 16 off the cache, by bulk
 *   free    this CPU's queue -> 16 into the shared queue -> 16 into the cache, by bulk
 *
 * What keeps a CPU's queue whole while one thread works on it is chosen when this is compiled in:
 *
 *   QUEUED_SEQUENCE   a restartable sequence, slub_percpu_push() and slub_percpu_pop(): any thread,
 *                     signal handlers too. The kernel has nothing like it.
 *   QUEUED_PLAIN      nothing: the caller stays on its CPU and no handler uses the pool. That is
 *                     qmempool_alloc_softirq(), for callers that nothing of their kind interrupts.
 *   QUEUED_MASKED     a mark that a handler looks at: it puts its work off until the mark goes, as
 *                     local_bh_disable() makes softirqs wait until local_bh_enable().
 *   QUEUED_BLOCKED    all signals blocked by the kernel meanwhile, two system calls.
 *
 * In the last three a queue belongs to a thread that is bound to its CPU; queued_enter() names it.
 */
#ifndef SEED_QUEUED_H
#define SEED_QUEUED_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <slub/cache.h>

enum { QUEUED_BULK = 16, QUEUED_LOCAL_MAX = 256 };
enum queued_guard { QUEUED_SEQUENCE, QUEUED_PLAIN, QUEUED_MASKED, QUEUED_BLOCKED };

#define QUEUED_INLINE static inline __attribute__((__always_inline__, __unused__))

/* --- the shared queue --- */

/*
 * Under a lock that nobody waits for: who finds it taken does as if the queue were full, or empty.
 * So a handler may come while its thread has it, and a thread that lost its CPU holds nobody up.
 */
struct queued_shared {
	uint32_t is_taken;
	uint32_t nr, size;
	void **place;
} __attribute__((__aligned__(64)));

QUEUED_INLINE bool queued_shared_take(struct queued_shared *shared)
{
	/* acquire: pairs with the release in queued_shared_leave() */
	return !__atomic_exchange_n(&shared->is_taken, 1, __ATOMIC_ACQUIRE);
}

QUEUED_INLINE void queued_shared_leave(struct queued_shared *shared)
{
	__atomic_store_n(&shared->is_taken, 0, __ATOMIC_RELEASE);
}

QUEUED_INLINE bool queued_shared_put(struct queued_shared *shared, void **objects, uint32_t nr)
{
	bool has_room;

	if (!queued_shared_take(shared))
		return false;
	has_room = shared->nr + nr <= shared->size;
	for (uint32_t i = 0; has_room && i < nr; i++)
		shared->place[shared->nr++] = objects[i];
	queued_shared_leave(shared);
	return has_room;
}

QUEUED_INLINE bool queued_shared_get(struct queued_shared *shared, void **objects, uint32_t nr)
{
	bool has_some;

	if (!queued_shared_take(shared))
		return false;
	has_some = shared->nr >= nr;
	for (uint32_t i = 0; has_some && i < nr; i++)
		objects[i] = shared->place[--shared->nr];
	queued_shared_leave(shared);
	return has_some;
}

/* --- a thread's queue, for the guards that are none in hardware --- */

struct queued_local {
	uint32_t nr;
	volatile uint32_t masked;	/* handlers put their work off */
	volatile uint32_t pending;	/* what was put off */
	void (*run)(void);		/* it, when the mark goes */
	void *object[QUEUED_LOCAL_MAX];
};

static __thread struct queued_local *queued_local __attribute__((__unused__));

/* In a handler: false, and it is run later, where the mark stands. */
QUEUED_INLINE bool queued_may_run(void)
{
	if (!queued_local || !queued_local->masked)
		return true;
	queued_local->pending = 1;
	return false;
}

QUEUED_INLINE void queued_mask(void)
{
	queued_local->masked++;
	__asm__ __volatile__("" ::: "memory");
}

QUEUED_INLINE void queued_unmask(void)
{
	__asm__ __volatile__("" ::: "memory");
	/* Whoever comes behind this line runs by himself; who came before it is pending. */
	queued_local->masked--;
	if (__builtin_expect(queued_local->pending != 0, 0) && !queued_local->masked) {
		queued_local->pending = 0;
		queued_local->run();
	}
}

/* --- the pool --- */

struct queued_pool {
	struct slub_cache *cache;
	uintptr_t list;			/* a queue per CPU */
	uint32_t local_max;
	struct queued_shared shared;
};

/* @localq from 2 x 16 to QUEUED_LOCAL_MAX. */
static __attribute__((__unused__)) bool queued_create(struct queued_pool *pool,
						      struct slub_cache *cache,
						      uint32_t localq, uint32_t sharedq)
{
	memset(pool, 0, sizeof(*pool));
	pool->cache = cache;
	pool->local_max = localq;
	pool->shared.size = sharedq;
	pool->list = slub_percpu_alloc(sizeof(struct slub_percpu_list), SLUB_PERCPU_LIST_ALIGN);
	pool->shared.place = (void **)calloc(sharedq, sizeof(void *));
	return pool->list && pool->shared.place;
}

static __attribute__((__unused__)) void queued_destroy(struct queued_pool *pool)
{
	void *object, *next;

	while (queued_shared_get(&pool->shared, &object, 1))
		slub_cache_free(pool->cache, object);
	for (object = slub_percpu_list_drain(pool->list); object; object = next) {
		next = *(void **)object;
		slub_cache_free(pool->cache, object);
	}
	slub_percpu_free(pool->list);
	free(pool->shared.place);
}

static __attribute__((__unused__)) void queued_enter(struct queued_local *local, void (*run)(void))
{
	local->nr = local->masked = local->pending = 0;
	local->run = run;
	queued_local = local;
}

static __attribute__((__unused__)) void queued_leave(struct queued_pool *pool)
{
	slub_cache_free_bulk(pool->cache, queued_local->nr, queued_local->object);
	queued_local = NULL;
}

/* --- 16 at a time --- */

/* The first of them is the caller's, the others are this CPU's. */
static __attribute__((__noinline__, __unused__)) void *
queued_refill(struct queued_pool *pool, bool is_sequence)
{
	void *object[QUEUED_BULK];

	if (!queued_shared_get(&pool->shared, object, QUEUED_BULK) &&
	    !slub_cache_alloc_bulk(pool->cache, 0, QUEUED_BULK, object))
		return NULL;
	for (uint32_t i = QUEUED_BULK - 1; i; i--) {
		if (!is_sequence)
			queued_local->object[queued_local->nr++] = object[i];
		else if (!slub_percpu_push(pool->list, object[i], pool->local_max))
			slub_cache_free(pool->cache, object[i]);
	}
	return object[0];
}

/* @object, for which there is no room, and 15 more. */
static __attribute__((__noinline__, __unused__)) void
queued_flush(struct queued_pool *pool, void *last, bool is_sequence)
{
	void *object[QUEUED_BULK] = { last };
	uint32_t nr = 1;

	while (nr < QUEUED_BULK) {
		void *one = is_sequence ? slub_percpu_pop(pool->list) :
					  queued_local->object[--queued_local->nr];

		if (!one)
			break;
		object[nr++] = one;
	}
	if (nr < QUEUED_BULK || !queued_shared_put(&pool->shared, object, nr))
		slub_cache_free_bulk(pool->cache, nr, object);
}

/* --- alloc and free --- */

QUEUED_INLINE void *queued_take(struct queued_pool *pool, bool is_sequence)
{
	void *object;

	if (is_sequence)
		object = slub_percpu_pop(pool->list);
	else
		object = queued_local->nr ? queued_local->object[--queued_local->nr] : NULL;
	return __builtin_expect(object != NULL, 1) ? object : queued_refill(pool, is_sequence);
}

QUEUED_INLINE void queued_give(struct queued_pool *pool, void *object, bool is_sequence)
{
	if (is_sequence) {
		if (__builtin_expect(!slub_percpu_push(pool->list, object, pool->local_max), 0))
			queued_flush(pool, object, true);
	} else if (__builtin_expect(queued_local->nr < pool->local_max, 1)) {
		queued_local->object[queued_local->nr++] = object;
	} else {
		queued_flush(pool, object, false);
	}
}

QUEUED_INLINE void queued_guard_on(enum queued_guard guard, sigset_t *old)
{
	sigset_t all;

	if (guard == QUEUED_MASKED)
		queued_mask();
	if (guard != QUEUED_BLOCKED)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, old);
}

QUEUED_INLINE void queued_guard_off(enum queued_guard guard, const sigset_t *old)
{
	if (guard == QUEUED_MASKED)
		queued_unmask();
	if (guard == QUEUED_BLOCKED)
		pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* @guard is a constant where it is called, so each is code of its own. */
QUEUED_INLINE void *queued_alloc(struct queued_pool *pool, enum queued_guard guard)
{
	sigset_t old;
	void *object;

	queued_guard_on(guard, &old);
	object = queued_take(pool, guard == QUEUED_SEQUENCE);
	queued_guard_off(guard, &old);
	return object;
}

QUEUED_INLINE void queued_free(struct queued_pool *pool, void *object, enum queued_guard guard)
{
	sigset_t old;

	queued_guard_on(guard, &old);
	queued_give(pool, object, guard == QUEUED_SEQUENCE);
	queued_guard_off(guard, &old);
}

#endif
