/* SPDX-License-Identifier: MIT */
/*
 * Words of per-CPU memory (slub/percpu.h): what the inline sequences leave.
 *
 * Under backend rseq the CPU's own threads alone change a word of an area, by sequences, which
 * are not atomic towards other CPUs.  Under the others, and in the shared area, anybody does
 * by atomic instructions.  So a thread that cannot run a sequence works on the shared area,
 * and a sum over all areas and the shared one is exact.
 */
#include "core/percpu/percpu.h"

#include <limits.h>

#include "core/percpu/percpu_internal.h"

/* Gives this thread what it needs to have an area, unless it may not now. */
static void word_enter(void)
{
	if (!slub_thread.locks_held)
		percpu_enter();
	percpu_remember();
}

/* Where an atomic instruction may change the word at @offset. */
static void *word_shared(uintptr_t offset)
{
	char *area = NULL;

	if (percpu_backend != BACKEND_RSEQ)
		area = percpu_area(percpu_cpu_hint());
	return (area ? area : percpu_shared_area()) + offset;
}

/*
 * What a sequence has for an output is used where it ran to its end only: gcc 12
 * has been seen to leave it unset where it jumps to `failed`.
 */
#define TRY_FUNCTION(name_, arguments_, found_, statement_, result_)	\
static bool name_ arguments_						\
{									\
	uintptr_t t;							\
									\
	for (int i = 0; i < ABORTS_MAX; i++) {				\
		found_;							\
									\
		statement_;						\
		result_;						\
		return true;						\
aborted:								\
		continue;						\
	}								\
failed:									\
	return false;							\
}

TRY_FUNCTION(try_fetch_add, (uintptr_t offset, int64_t n, int64_t *old),
	     int64_t found = n,
	     RSEQ_FETCH_ADD("q", "", offset, found, t), *old = found)
TRY_FUNCTION(try_add32, (uintptr_t offset, int32_t n), ,
	     RSEQ_ADD("l", "k", offset, n, t), )
TRY_FUNCTION(try_cmpxchg, (uintptr_t offset, int64_t *old, int64_t value),
	     int64_t found = *old,
	     RSEQ_CMPXCHG("q", "", offset, found, value, t), *old = found)
TRY_FUNCTION(try_cmpxchg32, (uintptr_t offset, int32_t *old, int32_t value),
	     int32_t found = *old,
	     RSEQ_CMPXCHG("l", "k", offset, found, value, t), *old = found)

SLUB_EXPORT int64_t (slub_percpu_fetch_add)(uintptr_t offset, int64_t n)
{
	int64_t old;

	word_enter();
	if (percpu_backend == BACKEND_RSEQ && try_fetch_add(offset, n, &old))
		return old;
	return __atomic_fetch_add((int64_t *)word_shared(offset), n,
				  __ATOMIC_RELAXED);
}

SLUB_EXPORT void (slub_percpu_add)(uintptr_t offset, int64_t n)
{
	if (unlikely(!slub_percpu_try_add(offset, n)))
		(slub_percpu_fetch_add)(offset, n);
}

static __attribute__((__noinline__)) void add32_slowly(uintptr_t offset,
						       int32_t n)
{
	word_enter();
	if (percpu_backend == BACKEND_RSEQ && try_add32(offset, n))
		return;
	__atomic_fetch_add((int32_t *)word_shared(offset), n,
			   __ATOMIC_RELAXED);
}

SLUB_EXPORT void (slub_percpu_add32)(uintptr_t offset, int32_t n)
{
	if (unlikely(!slub_percpu_try_add32(offset, n)))
		add32_slowly(offset, n);
}

#define WORD_CMPXCHG(name_, type_, try_)				\
SLUB_EXPORT type_ (name_)(uintptr_t offset, type_ old, type_ value)	\
{									\
	word_enter();							\
	if (percpu_backend != BACKEND_RSEQ || !try_(offset, &old, value)) \
		__atomic_compare_exchange_n((type_ *)word_shared(offset), \
					    &old, value, false,		\
					    __ATOMIC_RELAXED,		\
					    __ATOMIC_RELAXED);		\
	return old;							\
}

WORD_CMPXCHG(slub_percpu_cmpxchg, int64_t, try_cmpxchg)
WORD_CMPXCHG(slub_percpu_cmpxchg32, int32_t, try_cmpxchg32)

/* The area this thread would work on now, if it has entered; or NULL. */
static char *area_own(void)
{
	if (percpu_backend != BACKEND_RSEQ)
		return percpu_area(percpu_cpu_hint());
	return slub_thread.self.base == slub_cpu_base ? percpu_area(percpu_cid()) : NULL;
}

static char *area_of_thread(void)
{
	char *area = area_own();

	return area ? area : percpu_shared_area();
}

static char *area_now(void)
{
	word_enter();
	return area_of_thread();
}

void *percpu_head(uint32_t slot)
{
	return __atomic_load_n((void **)(area_now() + slot), __ATOMIC_RELAXED);
}

uint32_t slot_main_nr(const struct slot *slot, int32_t limit)
{
	int32_t own = (int32_t)__atomic_load_n(&slot->spare.unused, __ATOMIC_RELAXED);
	int32_t room = __atomic_load_n(percpu_room(slot), __ATOMIC_RELAXED);

	if (own > 0)
		limit = own;
	if (room <= ROOM_SHORT)
		return (uint32_t)(ROOM_SHORT - room);
	return room >= 0 && room < limit ? (uint32_t)(limit - room) : 1;
}

uint32_t slot_spare_nr(const struct slot *slot, uint32_t otherwise)
{
	int32_t nr = __atomic_load_n(&slot->spare.room, __ATOMIC_RELAXED);

	if (__atomic_load_n(percpu_room(slot), __ATOMIC_RELAXED) <= ROOM_SHORT)
		return (uint32_t)(LOCAL_FOREIGN - nr);
	return nr > 0 && percpu_backend != BACKEND_TID ? (uint32_t)nr : otherwise;
}

const struct slot *percpu_lists(uint32_t slot)
{
	/* The shared area has no far slots. */
	static const struct slot none;
	char *area = area_own();

	return area ? (const struct slot *)(area + slot) : &none;
}

void *percpu_glance(uint32_t slot, int32_t *room)
{
	char *half = area_of_thread() + slot;

	*room = __atomic_load_n(percpu_room((struct slot *)half),
				__ATOMIC_RELAXED);
	return __atomic_load_n((void **)half, __ATOMIC_RELAXED);
}

SLUB_EXPORT int64_t slub_percpu_read(uintptr_t offset)
{
	return __atomic_load_n((int64_t *)(area_now() + offset),
			       __ATOMIC_RELAXED);
}

/* ---- all CPUs ---- */

SLUB_EXPORT int slub_percpu_next(int cpu)
{
	uint32_t end = percpu_copies_end();

	if (cpu == SLUB_PERCPU_SHARED)
		return -1;
	for (uint32_t cid = (uint32_t)(cpu + 1); cid < end; cid++) {
		if (percpu_copies(cid))
			return (int)cid;
	}
	return SLUB_PERCPU_SHARED;
}

SLUB_EXPORT void *slub_percpu_ptr(uintptr_t offset, unsigned int cpu)
{
	char *area;

	if (offset_is_slots(offset) || !percpu_is_committed(offset))
		return NULL;
	if (cpu == SLUB_PERCPU_SHARED)
		return percpu_shared_area() + offset;
	area = percpu_copies(cpu);
	if (!area && !slub_thread.locks_held)
		area = percpu_copies_make(cpu);
	return area ? area + offset : NULL;
}

#define WORD_SUM(name_, type_)						\
SLUB_EXPORT type_ name_(uintptr_t offset)				\
{									\
	type_ sum = 0;							\
									\
	slub_percpu_for_each(cpu) {					\
		type_ *word = slub_percpu_ptr(offset, (unsigned int)cpu); \
									\
		if (word)						\
			sum += __atomic_load_n(word, __ATOMIC_RELAXED);	\
	}								\
	return sum;							\
}

WORD_SUM(slub_percpu_sum, int64_t)
WORD_SUM(slub_percpu_sum32, int32_t)

/* ---- lists ---- */

/* The list of the shared area, for threads without a CPU: under its lock. */
static struct lock *shared_lock(void)
{
	return area_own_lock(percpu_shared_area());
}

/* Under its lock; a look whether there is something, or how much, takes none. */
static void shared_set(struct half *half, void *head, int32_t room)
{
	__atomic_store_n(&half->head, head, __ATOMIC_RELAXED);
	__atomic_store_n(&half->room, room, __ATOMIC_RELAXED);
}

SLUB_EXPORT bool (slub_percpu_push)(uintptr_t list, void *object,
				       uint32_t limit)
{
	int32_t least = -(int32_t)min_size(limit, 1u << 30);
	struct half *half;
	bool done;

	word_enter();
	sanitizer_release(object);
	if (percpu_backend != BACKEND_RSEQ || slub_thread.locks_held ||
	    slub_thread.self.base == slub_cpu_base)
		return percpu_push_bounded((uint32_t)list, object, least);
	half = area_half(percpu_shared_area(), list);
	lock_acquire(shared_lock());
	done = half->room > least;
	if (done) {
		*(void **)object = half->head;
		shared_set(half, object, half->room - 1);
	}
	lock_release(shared_lock());
	return done;
}

/*
 * What aborted pops have added.  With something in it the room of a list is below 0, so on
 * another CPU by now it is not taken for one with objects.
 */
void percpu_room_mend(uint32_t list)
{
	int32_t room = 0;

	if (percpu_backend == BACKEND_RSEQ)
		room = __atomic_load_n((int32_t *)(area_now() + list + SLOT_ROOM),
				       __ATOMIC_RELAXED);
	if (unlikely(room > 0))
		try_cmpxchg32(list + SLOT_ROOM, &room, 0);
}

SLUB_EXPORT void *(slub_percpu_pop)(uintptr_t list)
{
	struct half *half = area_half(percpu_shared_area(), list);
	void *object;

	word_enter();
	object = percpu_pop((uint32_t)list, 0);
	if (!object)
		percpu_room_mend((uint32_t)list);
	if (!object && !slub_thread.locks_held &&
	    __atomic_load_n(&half->head, __ATOMIC_RELAXED)) {
		lock_acquire(shared_lock());
		object = half->head;
		if (object)
			shared_set(half, *(void **)object, half->room + 1);
		lock_release(shared_lock());
	}
	sanitizer_acquire(object);
	return object;
}

/* Puts @chain in front of @all. */
static void *chain_join(void *chain, void *all)
{
	void **link = &chain;

	while (*link)
		link = *link;
	*link = all;
	return chain;
}

SLUB_EXPORT cold void *slub_percpu_list_drain(uintptr_t list)
{
	struct half *half = area_half(percpu_shared_area(), list);
	struct slot lists[COLLECT_CPUS];
	struct collection taken = { .lists = lists,
				    .nr_lists_max = COLLECT_CPUS };
	void *all = NULL;

	percpu_collection_init(&taken, COLLECT_ALL, (uint32_t)list, 1);
	while (percpu_collect(&taken)) {
		for (uint32_t i = 0; i < taken.nr_lists; i++)
			all = chain_join(lists[i].main.head, all);
	}
	lock_acquire(shared_lock());
	all = chain_join(half->head, all);
	shared_set(half, NULL, 0);
	lock_release(shared_lock());
	for (void **object = all; unlikely(sanitizer.is_told) && object; object = *object)
		sanitizer_tell_order(object, false);
	return all;
}
