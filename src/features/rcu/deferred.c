/* SPDX-License-Identifier: MIT */
/*
 * Freeing objects that readers may still look at (slub/rcu.h).
 *
 * The object itself is not touched before its readers have left, so it cannot be linked: its
 * address goes into a sheaf, an array, that the CPU keeps in a per-CPU list.  A thread takes
 * the sheaf off that list; one that is full, or whose objects are SHEAF_HELD_MAX bytes or
 * more, goes to the grace queue as one item.  So a CPU keeps back little memory, whatever
 * its objects are, and a large block goes to the queue at once.
 *
 * A barrier would not find a sheaf that a preempted thread has in its hands: so callers are
 * readers of a domain of their own.  A barrier says that nobody is to touch the lists any
 * more, neither to take a sheaf nor to put one back, and waits for the callers that did not
 * hear that:
 *
 *   SHEAF-1  while there is a barrier that has waited so, the lists are its own.
 *
 * So it takes what lies in all CPUs' lists by plain exchanges, and no CPU need be
 * stopped, which without membarrier(2) cannot be.  Where memory is short a thread may not
 * wait (deferred_drain()): it says the same, and takes the lists only if it finds that the
 * callers have left.
 *
 * SHEAF-3  whoever takes lists is a caller until it has handed the sheaves over, and counts
 * in `barriers`.  A barrier that has found lists empty, and is not the only one, waits for the
 * callers once more, or it would end while another has its sheaves in hand.
 *
 * A caller calls nothing in its section that could come back here: a shrinker, in an
 * allocation of a sheaf, may call the barrier.
 *
 * SHEAF-2  What is pending is what was added less what was released.  Each thread counts
 * an object on its CPU before it goes into a sheaf; whoever releases a sheaf has got it from
 * the queue, behind that.  So a reader of the two numbers that reads the released ones
 * first, by an acquire that pairs with the releaser's, sees no more released than added.
 */
#include "core/base/list.h"
#include "features/reclaim/reclaim.h"
#include "core/slab/switches.h"
#include "features/guard/guard.h"
#include "core/slab/slab_internal.h"
#include "features/typed/typed.h"
#include "features/rcu/rcu.h"

#include <errno.h>

#define SHEAF_BYTES 512
#define SHEAF_OBJECTS ((SHEAF_BYTES - 4 * sizeof(void *)) / sizeof(void *))
#define SHEAF_HELD_MAX ((size_t)64 << 10)
/*
 * So many sheaves in the queue, some half a million objects, and a thread that adds more
 * is held up a little: a thread that was preempted while it releases what is
 * ripe, or a reader, may keep them all waiting while others go on freeing.
 * Not until they are gone, for the caller may be that reader.
 */
#define QUEUE_MOST 8192
/* Sheaves in a CPU's list: those of threads that were moved meanwhile. */
#define SHEAVES_MAX 4
/* Looks for callers of a thread that may not wait for them. */
#define DRAIN_LOOKS 3
/*
 * Before a request is refused readers are given a moment: one that was preempted on a busy
 * machine needs tens of milliseconds.  Where that was in vain, nobody waits again for ten
 * times as long: it may be a reader that stays, or waits for a lock of this thread's.
 */
#define PATIENCE_NS 100000000u
#define PATIENCE_SHARE 10

struct sheaf {
	void *link;		/* of the CPU's list, then of the queue */
	size_t nr;
	size_t bytes;		/* of its objects */
	bool is_spare;		/* of meta_alloc(), never freed */
	void *objects[SHEAF_OBJECTS];
};

_Static_assert(sizeof(struct sheaf) == SHEAF_BYTES, "of its size class");

/* On each CPU: its list of sheaves, and what was ever added there. */
struct per_cpu {
	struct slub_percpu_list list;
	int64_t objects;
	int64_t bytes;
};

static struct slub_cache sheaf_cache;
static uintptr_t sheaves;	/* offset of struct per_cpu; 0: none; const after start */
static struct deferred_numbers added_shared;	/* where there is none */
static struct deferred_numbers released;
static uint64_t handed_over;	/* objects that went to the queue, or past it */
static void *spares;		/* sheaves of meta_alloc() */
static struct slub_srcu callers = SLUB_SRCU_INIT;
static uint64_t barriers;	/* under way */

/* ---- counts: SHEAF-2 ---- */

static void count_added(size_t bytes)
{
	if (likely(sheaves != 0)) {
		slub_percpu_add(sheaves + offsetof(struct per_cpu, objects), 1);
		slub_percpu_add(sheaves + offsetof(struct per_cpu, bytes),
				(int64_t)bytes);
		return;
	}
	__atomic_fetch_add(&added_shared.objects, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&added_shared.bytes, bytes, __ATOMIC_RELAXED);
}

static struct deferred_numbers added(void)
{
	struct deferred_numbers sum = {
		__atomic_load_n(&added_shared.objects, __ATOMIC_RELAXED),
		__atomic_load_n(&added_shared.bytes, __ATOMIC_RELAXED),
	};

	if (likely(sheaves != 0)) {
		sum.objects += (uint64_t)slub_percpu_sum(
			sheaves + offsetof(struct per_cpu, objects));
		sum.bytes += (uint64_t)slub_percpu_sum(
			sheaves + offsetof(struct per_cpu, bytes));
	}
	return sum;
}

/* release: the counts of what was added; pairs with the acquire in deferred_count() */
static void count_released(size_t nr, size_t bytes)
{
	__atomic_fetch_add(&released.objects, nr, __ATOMIC_RELEASE);
	__atomic_fetch_add(&released.bytes, bytes, __ATOMIC_RELEASE);
}

/* Not below 0: in a child a handler goes on with what its parent had in hand. */
static uint64_t difference(uint64_t more, uint64_t less)
{
	return (int64_t)(more - less) > 0 ? more - less : 0;
}

void deferred_count(struct deferred_numbers *out)
{
	struct deferred_numbers gone = {
		__atomic_load_n(&released.objects, __ATOMIC_ACQUIRE),
		__atomic_load_n(&released.bytes, __ATOMIC_ACQUIRE),
	};
	struct deferred_numbers sum = added();

	out->objects = difference(sum.objects, gone.objects);
	out->bytes = difference(sum.bytes, gone.bytes);
}

uint32_t deferred_counts(const struct deferred_numbers **out)
{
	*out = &released;
	return sheaves ? (uint32_t)(sheaves + offsetof(struct per_cpu, objects)) : 0;
}

SLUB_EXPORT size_t slub_deferred_pending(void)
{
	struct deferred_numbers pending;

	deferred_count(&pending);
	return pending.objects;
}

/* What @object keeps from being used.  The tracks of a watched one learn of its free. */
static size_t note_free(const void *object)
{
	const struct slub_cache *cache = cache_of(object);

	if (likely(cache)) {
		if (unlikely(cache->debug != NULL))
			debug_note_free(cache, object);
		return __atomic_load_n(&cache->size, __ATOMIC_RELAXED);
	}
	/* A block that a handler got has a mapping of its own: 0 bytes of the heap. */
	if (pagemap_get(object) == MAP_LARGE)
		return large_bytes(object);
	return guard_owns(object) ? guard_bytes(object) : 0;
}

/* ---- sheaves ---- */

/*
 * Not below 0: in a child what its own thread was at may not be counted.
 * release: what the lists have lost; pairs with the acquire in may_use_lists()
 */
static void barrier_over(void)
{
	uint64_t now = __atomic_load_n(&barriers, __ATOMIC_RELAXED);

	while (now && !__atomic_compare_exchange_n(&barriers, &now, now - 1, true,
						   __ATOMIC_RELEASE,
						   __ATOMIC_RELAXED))
		;
}

static void sheaf_end(struct sheaf *sheaf)
{
	if (likely(!sheaf->is_spare))
		cache_free(&sheaf_cache, sheaf);
	else
		stack_push(&spares, sheaf, &sheaf->link);
}

static void sheaf_release(void **item)
{
	struct sheaf *sheaf = container_of(item, struct sheaf, link);

	cache_free_deferred(sheaf->nr, sheaf->objects);
	count_released(sheaf->nr, sheaf->bytes);
	sheaf_end(sheaf);
}

static struct grace_queue queue fork_writes = { .release = sheaf_release };

usual int deferred_init(void)
{
	int err = cache_create(&sheaf_cache, "slub-sheaf", SHEAF_BYTES);

	if (err)
		return err;
	sheaf_cache.is_unguarded = true;
	sheaves = percpu_alloc(sizeof(struct per_cpu), SLUB_PERCPU_LIST_ALIGN);
	return sheaves ? 0 : -ENOMEM;
}

static void sheaf_hand_over(struct sheaf *sheaf)
{
	__atomic_fetch_add(&handed_over, sheaf->nr, __ATOMIC_RELAXED);
	grace_put(&queue, &sheaf->link);
}

/* Inside `callers`: SHEAF-1. */
static bool may_use_lists(void)
{
	return likely(!__atomic_load_n(&barriers, __ATOMIC_ACQUIRE));
}

/* Inside `callers`: one off this CPU's list; NULL: there is none, or it may not be used. */
static struct sheaf *sheaf_pop(void)
{
	struct sheaf *sheaf = NULL;

	if (may_use_lists()) {
		sheaf = percpu_pop((uint32_t)sheaves, 0);
		if (unlikely(!sheaf) && sheaves)
			percpu_room_mend((uint32_t)sheaves);
	}
	return sheaf;
}

/* One that a reader may get for want of memory; NULL: not even that. */
static cold struct sheaf *sheaf_spare(void)
{
	struct sheaf *sheaf = stack_take(&spares), *rest, *next;

	if (!sheaf) {
		sheaf = meta_alloc(sizeof(*sheaf));
		if (sheaf)
			sheaf->is_spare = true;
		return sheaf;
	}
	for (rest = sheaf->link; rest; rest = next) {
		next = rest->link;
		stack_push(&spares, rest, &rest->link);
	}
	return sheaf;
}

/* Outside of `callers`, for this may call shrinkers. */
static struct sheaf *sheaf_make(void)
{
	struct sheaf *sheaf = cache_alloc(&sheaf_cache);

	if (likely(sheaf))
		sheaf->is_spare = false;
	else if (srcu_is_inside())
		sheaf = sheaf_spare();
	if (likely(sheaf))
		sheaf->nr = sheaf->bytes = 0;
	return sheaf;
}

/* Inside `callers`.  True: the sheaf went to the queue. */
static bool sheaf_add(struct sheaf *sheaf, void *object, size_t bytes)
{
	inject(INJECT_sheaf);
	sheaf->objects[sheaf->nr++] = object;
	sheaf->bytes += bytes;
	if (sheaf->nr < SHEAF_OBJECTS && sheaf->bytes < SHEAF_HELD_MAX &&
	    may_use_lists() && sheaves &&
	    percpu_push_bounded((uint32_t)sheaves, sheaf, -SHEAVES_MAX))
		return false;
	sheaf_hand_over(sheaf);
	return true;
}

/* There is no memory for a sheaf. */
static cold void free_after_readers(void *object, size_t bytes)
{
	const struct slub_cache *cache = cache_of(object);

	if (cache)
		stat_add(cache, STAT_FREE_RCU_SHEAF_FAIL);
	/* No list will have it. */
	__atomic_fetch_add(&handed_over, 1, __ATOMIC_RELAXED);
	/* It would wait for itself: so the object stays, and counts as pending. */
	if (srcu_is_inside()) {
		log_once("slub_free_deferred: no memory, and called by a reader: %p is lost",
			 object);
		return;
	}
	slub_srcu_synchronize(&slub_rcu_domain);
	slub_free(object);
	count_released(1, bytes);
}

static void free_later(void *object)
{
	size_t bytes = note_free(object);
	struct sheaf *sheaf;
	bool is_handed_over;
	int index;

	sanitizer_release(object);
	grace_use();
	count_added(bytes);
	index = slub_srcu_read_lock(&callers);
	sheaf = sheaf_pop();
	if (unlikely(!sheaf)) {
		slub_srcu_read_unlock(&callers, index);
		sheaf = sheaf_make();
		if (unlikely(!sheaf)) {
			free_after_readers(object, bytes);
			return;
		}
		index = slub_srcu_read_lock(&callers);
	}
	is_handed_over = sheaf_add(sheaf, object, bytes);
	slub_srcu_read_unlock(&callers, index);
	if (likely(!is_handed_over))
		return;
	grace_poll(&queue);
	if (unlikely(grace_nr(&queue) > QUEUE_MOST))
		sys_wait(WAIT_SPINS);
}

SLUB_EXPORT void slub_free_deferred(void *object)
{
	int kept = errno;

	if (object && slub_start())
		free_later(object);
	errno = kept;
}

/* ---- what lies in the lists ---- */

static void hand_over_all(struct sheaf *sheaf)
{
	while (sheaf) {
		struct sheaf *next = sheaf->link;

		sheaf_hand_over(sheaf);
		sheaf = next;
	}
}

/* The list of CPU number @cid; NULL: it has none. */
static struct slot *list_of(uint32_t cid)
{
	char *area = percpu_area(cid);

	return area && sheaves ? (struct slot *)(area + sheaves) : NULL;
}

/* SHEAF-1, inside `callers`: SHEAF-3.  Of two barriers at once one gets each list. */
static void take_all(void)
{
	/* Of these two backends a list is a number too, or has a lock. */
	if (percpu_backend == BACKEND_TID || percpu_backend == BACKEND_LOCK) {
		if (sheaves)
			hand_over_all(slub_percpu_list_drain(sheaves));
		return;
	}
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		struct slot *list = list_of(cid);

		/* An aborted sequence may leave an empty list less room than it has. */
		/* acquire: pairs with the exchange of another barrier (SHEAF-3) */
		if (!list || (!__atomic_load_n(&list->main.head, __ATOMIC_ACQUIRE) &&
			      !__atomic_load_n(&list->main.room, __ATOMIC_RELAXED)))
			continue;
		__atomic_store_n(&list->main.room, 0, __ATOMIC_RELAXED);
		hand_over_all(__atomic_exchange_n(&list->main.head, NULL,
						  __ATOMIC_ACQ_REL));
	}
}

static void take_lists(void)
{
	int index = slub_srcu_read_lock(&callers);

	take_all();
	slub_srcu_read_unlock(&callers, index);
}

SLUB_EXPORT int slub_deferred_barrier(void)
{
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (srcu_is_inside()) {
		deferred_drain();
		return -EDEADLK;
	}
	if (!grace_is_used())
		return 0;
	__atomic_fetch_add(&barriers, 1, __ATOMIC_SEQ_CST);
	/* A thread that did not see that is done, and its sheaf in a list or the queue. */
	slub_srcu_synchronize(&callers);
	take_lists();
	/* acquire: pairs with the release in barrier_over() */
	if (__atomic_load_n(&barriers, __ATOMIC_ACQUIRE) > 1)
		slub_srcu_synchronize(&callers);	/* SHEAF-3 */
	barrier_over();
	grace_flush(&queue);
	return 0;
}

/* ---- without waiting ---- */

/* True: something was there. */
static bool hand_over_here(void)
{
	int index = slub_srcu_read_lock(&callers);
	struct sheaf *sheaf = sheaf_pop();

	if (sheaf)
		sheaf_hand_over(sheaf);
	slub_srcu_read_unlock(&callers, index);
	return sheaf;
}

/* False: somebody has a sheaf in hand for longer. */
static bool try_take_lists(void)
{
	uint64_t cookie;
	bool is_mine;

	__atomic_fetch_add(&barriers, 1, __ATOMIC_SEQ_CST);
	cookie = slub_srcu_start_poll(&callers);
	is_mine = slub_srcu_poll(&callers, cookie);
	for (unsigned int i = 0; !is_mine && i < DRAIN_LOOKS; i++) {
		sys_wait(i);
		is_mine = slub_srcu_poll(&callers, cookie);
	}
	if (is_mine)
		take_lists();
	barrier_over();
	return is_mine;
}

/* Or in the hands of threads. */
static bool some_in_lists(void)
{
	return difference(added().objects, __atomic_load_n(&handed_over, __ATOMIC_RELAXED));
}

static void hand_over_lists(void)
{
	if (!some_in_lists())
		return;
	if (!try_take_lists()) {
		while (hand_over_here())
			continue;
	}
}

size_t deferred_drain(void)
{
	uint64_t before = __atomic_load_n(&released.objects, __ATOMIC_RELAXED);

	if (!grace_is_used() || slub_thread.locks_held ||
	    slub_thread.self.sections & THREAD_DRAINING)
		return 0;
	slub_thread.self.sections |= THREAD_DRAINING;
	hand_over_lists();
	grace_drain(&queue);
	grace_drain_slabs();
	slub_thread.self.sections &= ~THREAD_DRAINING;
	return __atomic_load_n(&released.objects, __ATOMIC_RELAXED) - before;
}

static uint64_t bytes_pending(void)
{
	struct deferred_numbers pending = { 0, 0 };

	if (grace_is_used())
		deferred_count(&pending);
	return pending.bytes;
}

/* @end: of the objects, as they were added.  An object that was lost is waited for by nobody. */
static bool is_worth_a_wait(uint64_t end)
{
	return !slub_thread.locks_held && !(slub_thread.self.sections & THREAD_DRAINING) &&
	       difference(end, __atomic_load_n(&released.objects, __ATOMIC_RELAXED)) &&
	       (grace_nr(&queue) || some_in_lists()) && bytes_pending() &&
	       !srcu_is_inside();
}

/*
 * All that was pending at first, for a part of it may be too little: what comes later is not
 * waited for.
 */
size_t deferred_drain_patiently(void)
{
	static uint64_t not_before_ns;	/* in vain until then; an estimate */
	uint64_t end = added().objects, begin;
	size_t nr = deferred_drain();

	if (!is_worth_a_wait(end))
		return nr;
	begin = os_clock_ns();
	if (begin < __atomic_load_n(&not_before_ns, __ATOMIC_RELAXED))
		return nr;
	for (unsigned int i = 0; is_worth_a_wait(end); i++) {
		uint64_t now = os_clock_ns();

		if (now - begin > PATIENCE_NS) {
			__atomic_store_n(&not_before_ns, now + (now - begin) * PATIENCE_SHARE,
					 __ATOMIC_RELAXED);
			break;
		}
		sys_wait_long(i);
		nr += deferred_drain();
	}
	return nr;
}

bool deferred_look(void)
{
	hand_over_here();
	return grace_poll(&queue);
}

/* ---- fork ---- */

static void add_items(void *const *item, struct deferred_numbers *sum)
{
	for (; item; item = *item) {
		const struct sheaf *sheaf = container_of(item, struct sheaf, link);

		sum->objects += sheaf->nr;
		sum->bytes += sheaf->bytes;
	}
}

/* What other threads had in hand, or waited for, is nothing to the child. */
static void count_anew(void)
{
	struct deferred_numbers left = { 0, 0 }, sum = added();

	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		const struct slot *list = list_of(cid);

		if (list)
			add_items(list->main.head, &left);
	}
	handed_over = sum.objects - left.objects;
	add_items(queue.fresh, &left);
	add_items(queue.waiting, &left);
	add_items(queue.ripe, &left);
	released.objects = sum.objects - left.objects;
	released.bytes = sum.bytes - left.bytes;
	barriers = 0;
}

usual void deferred_fork(enum fork_step step)
{
	lock_fork(&queue.lock, step);
	if (step == FORK_CHILD && grace_is_used())
		count_anew();
}
