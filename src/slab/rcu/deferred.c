/* SPDX-License-Identifier: MIT */
/*
 * Freeing objects that readers may still look at (slub/rcu.h).
 *
 * The object itself is not touched before its readers have left, so it cannot be linked: its
 * address goes into a sheaf, an array, that the CPU keeps in a per-CPU list.  A thread takes
 * the sheaf off that list; a full one goes to the grace queue as one item.
 *
 * A barrier would not find a sheaf that a preempted thread has in its hands: so callers are
 * readers of a domain of their own.  A barrier says that nobody is to touch the lists any
 * more, neither to take a sheaf nor to put one back, and waits for the callers that did not
 * hear that:
 *
 *   SHEAF-1  while there is a barrier that has waited so, the lists are its own.
 *
 * So it takes what lies in all CPUs' lists by plain exchanges, and no CPU need be
 * stopped, which without membarrier(2) cannot be.
 */
#include "slab/slab_internal.h"

#include <errno.h>

#define SHEAF_BYTES 512
#define SHEAF_OBJECTS ((SHEAF_BYTES - 2 * sizeof(void *)) / sizeof(void *))
/*
 * So many sheaves in the queue, some half a million objects, and a thread that adds more
 * is held up a little: a thread that was preempted while it releases what is
 * ripe, or a reader, may keep them all waiting while others go on freeing.
 * Not until they are gone, for the caller may be that reader.
 */
#define QUEUE_MOST 8192
/* Sheaves in a CPU's list: those of threads that were moved meanwhile. */
#define SHEAVES_MAX 4

struct sheaf {
	void *link;		/* of the CPU's list, then of the queue */
	size_t nr;
	void *objects[SHEAF_OBJECTS];
};

_Static_assert(sizeof(struct sheaf) == SHEAF_BYTES, "of its size class");

static struct slub_cache sheaf_cache;
static uintptr_t sheaves;	/* per-CPU offset of a list; const after start */
static uint64_t objects_pending;	/* but for those in CPUs' sheaves */
static struct slub_srcu callers = SLUB_SRCU_INIT;
static uint64_t barriers;	/* under way */
static bool is_used;

/*
 * Not below 0: in a child what its own thread was at may not be counted.
 * release: of barriers, what the lists have lost; pairs with the acquire in may_use_lists()
 */
static void subtract(uint64_t *count, uint64_t nr)
{
	uint64_t now = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(count, &now, now - min_size(nr, now),
					    true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

static void sheaf_release(void **item)
{
	struct sheaf *sheaf = container_of(item, struct sheaf, link);

	cache_free_deferred(sheaf->nr, sheaf->objects);
	subtract(&objects_pending, sheaf->nr);
	cache_free(&sheaf_cache, sheaf);
}

static struct grace_queue queue = { .release = sheaf_release };

usual int deferred_init(void)
{
	int err = cache_create(&sheaf_cache, "slub-sheaf", SHEAF_BYTES);

	if (err)
		return err;
	sheaf_cache.is_unguarded = true;
	sheaves = percpu_alloc(sizeof(struct slub_percpu_list),
			       SLUB_PERCPU_LIST_ALIGN);
	return sheaves ? 0 : -ENOMEM;
}

static void sheaf_hand_over(struct sheaf *sheaf)
{
	__atomic_fetch_add(&objects_pending, sheaf->nr, __ATOMIC_RELAXED);
	grace_add(&queue, &sheaf->link);
	if (unlikely(grace_nr(&queue) > QUEUE_MOST))
		sys_wait(WAIT_SPINS);
}

/* Inside `callers`: SHEAF-1. */
static bool may_use_lists(void)
{
	return likely(!__atomic_load_n(&barriers, __ATOMIC_ACQUIRE));
}

static struct sheaf *sheaf_get(void)
{
	struct sheaf *sheaf = NULL;

	if (may_use_lists()) {
		sheaf = percpu_pop((uint32_t)sheaves, 0);
		if (sheaf)
			return sheaf;
		percpu_room_mend((uint32_t)sheaves);
	}
	sheaf = cache_alloc(&sheaf_cache);
	if (sheaf)
		sheaf->nr = 0;
	return sheaf;
}

static void sheaf_add(struct sheaf *sheaf, void *object)
{
	inject(INJECT_sheaf);
	sheaf->objects[sheaf->nr++] = object;
	if (sheaf->nr == SHEAF_OBJECTS || !may_use_lists() ||
	    !percpu_push_bounded((uint32_t)sheaves, sheaf, -SHEAVES_MAX))
		sheaf_hand_over(sheaf);
}

/* There is no memory for a sheaf. */
static cold void free_after_readers(void *object)
{
	const struct slub_cache *cache = cache_of(object);

	if (cache)
		stat_add(cache, STAT_FREE_RCU_SHEAF_FAIL);
	slub_srcu_synchronize(&slub_rcu_domain);
	slub_free(object);
}

static void free_later(void *object)
{
	struct sheaf *sheaf;
	int index;

	if (unlikely(!__atomic_load_n(&is_used, __ATOMIC_RELAXED)))
		__atomic_store_n(&is_used, true, __ATOMIC_RELAXED);
	sanitizer_release(object);
	index = slub_srcu_read_lock(&callers);
	sheaf = sheaf_get();
	if (likely(sheaf != NULL))
		sheaf_add(sheaf, object);
	slub_srcu_read_unlock(&callers, index);
	if (unlikely(!sheaf))
		free_after_readers(object);
}

SLUB_EXPORT void slub_free_deferred(void *object)
{
	int kept = errno;

	if (object && slub_start())
		free_later(object);
	errno = kept;
}

static void hand_over_all(struct sheaf *sheaf)
{
	while (sheaf) {
		struct sheaf *next = sheaf->link;

		sheaf_hand_over(sheaf);
		sheaf = next;
	}
}

/* SHEAF-1; of two barriers at once one gets each list. */
static void take_lists(void)
{
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		char *area = percpu_area(cid);
		struct slot *list = area ? (struct slot *)(area + sheaves) :
					   NULL;

		/* An aborted sequence may leave an empty list less room than it has. */
		if (!list || (!__atomic_load_n(&list->main.head, __ATOMIC_RELAXED) &&
			      !__atomic_load_n(&list->main.room, __ATOMIC_RELAXED)))
			continue;
		__atomic_store_n(&list->main.room, 0, __ATOMIC_RELAXED);
		hand_over_all(__atomic_exchange_n(&list->main.head, NULL,
						  __ATOMIC_RELAXED));
	}
}

SLUB_EXPORT void slub_deferred_barrier(void)
{
	if (!sheaves || !__atomic_load_n(&is_used, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&barriers, 1, __ATOMIC_SEQ_CST);
	/* A thread that did not see that is done, and its sheaf in a list or the queue. */
	slub_srcu_synchronize(&callers);
	/* Of these two backends a list is a number too, or has a lock. */
	if (percpu_backend == BACKEND_TID || percpu_backend == BACKEND_LOCK)
		hand_over_all(slub_percpu_list_drain(sheaves));
	else
		take_lists();
	subtract(&barriers, 1);
	grace_flush(&queue);
}

void deferred_poll(void)
{
	grace_poll(&queue);
}

SLUB_EXPORT size_t slub_deferred_pending(void)
{
	size_t nr = __atomic_load_n(&objects_pending, __ATOMIC_RELAXED);

	slub_percpu_for_each(cpu) {
		struct slot *list;
		int32_t room;

		if (!sheaves)
			break;
		list = slub_percpu_ptr(sheaves, (unsigned int)cpu);
		room = list ? __atomic_load_n(percpu_room(list), __ATOMIC_RELAXED) : 0;
		/* How full they are is theirs to know: half, say. */
		if (room < 0)
			nr += (size_t)-room * (SHEAF_OBJECTS / 2);
	}
	return nr;
}

static uint64_t objects_in(void *const *item)
{
	uint64_t nr = 0;

	for (; item; item = *item)
		nr += container_of(item, struct sheaf, link)->nr;
	return nr;
}

/* What other threads had in hand, or waited for, is nothing to the child. */
static void count_anew(void)
{
	objects_pending = objects_in(queue.fresh) + objects_in(queue.waiting) +
			  objects_in(queue.ripe);
	barriers = 0;
}

usual void deferred_fork(enum fork_step step)
{
	lock_fork(&queue.lock, step);
	if (step == FORK_CHILD)
		count_anew();
}
