/* SPDX-License-Identifier: MIT */
/*
 * The four list operations under each backend: the restartable sequences (rseq), the plain
 * twins on the thread's own area (thread) or under the area's lock (lock), and tid.c.
 *
 * Backend thread: `busy` tells a signal handler that it interrupted an operation, and a
 * collector that one is under way: busy = 1, read base | base = dummy, membarrier, read busy
 * (collect.c), so at least one of the two sees the other.
 */
#include "core/percpu/percpu.h"

#include "core/percpu/percpu_internal.h"

struct slot_check slot_checks[SLOT_CHECKS] rarely_touched;
const uint64_t link_encode_by = LINK_ENCODE_BY, link_decode_by = LINK_DECODE_BY;

/* ---- rseq ---- */

static always_inline void *pop_once(uint32_t slot, uintptr_t link)
{
	scale_area(slot);
	if (unlikely(!offset_is_slots(slot)))
		return rseq_pop_live(slot);
	if (link_is_keyed(link))
		return rseq_pop_key(slot);
	return link_is_in_object(link) ? rseq_pop_link(slot, link) :
					 rseq_pop_page(slot, link);
}

static always_inline enum sequence_result push_once(uint32_t slot, void *object,
						    uintptr_t link)
{
	scale_area(slot);
	if (link_is_keyed(link)) {
		/* Whatever it says: the caller has looked, or this is the second try. */
		*key_of(object) = 0;
		return rseq_push_key(slot, object);
	}
	return link_is_in_object(link) ? rseq_push_link(slot, object, link) :
					 rseq_push_page(slot, object, link);
}

__attribute__((__noinline__))
RSEQ_OPERATION(void *, pop, (uint32_t slot, uintptr_t link), void *,
	       pop_once(slot, link), SEQUENCE_ABORTED, found)
__attribute__((__noinline__))
RSEQ_OPERATION(bool, push, (uint32_t slot, void *object, uintptr_t link),
	       enum sequence_result, push_once(slot, object, link),
	       SEQUENCE_RESTART, found == SEQUENCE_DONE)
RSEQ_OPERATION(void *, take, (uint32_t half, int64_t room), void *,
	       (scale_area(half), rseq_take(half, room)), SEQUENCE_ABORTED, found)
RSEQ_OPERATION(bool, put, (uint32_t half, void *chain, int64_t room),
	       enum sequence_result, (scale_area(half), rseq_put(half, chain, room)),
	       SEQUENCE_RESTART, found == SEQUENCE_DONE)

/* ---- thread and lock: an area that is ours for the moment ---- */

static always_inline void *area_enter(enum backend backend)
{
	uint32_t number = slub_thread.number;
	char *area;

	if (backend == BACKEND_THREAD) {
		if (unlikely(!number || __atomic_load_n(&slub_thread.busy,
							__ATOMIC_RELAXED)))
			return NULL;
		__atomic_store_n(&slub_thread.busy, 1, __ATOMIC_RELAXED);
		compiler_barrier();	/* see the head of this file */
		inject(INJECT_busy);
		return __atomic_load_n(&slub_cpu_base[number - 1],
				       __ATOMIC_ACQUIRE);
	}
	/* No CPU is ever stopped: the dummy area means that there is none. */
	area = __atomic_load_n(&slub_cpu_base[percpu_cpu_read()], __ATOMIC_ACQUIRE);
	if (unlikely(slub_thread.locks_held || !area_is_live(area)))
		return NULL;
	lock_acquire(area_own_lock(area));
	return area;
}

static always_inline void area_leave(enum backend backend, void *area)
{
	inject(INJECT_leave);
	/* release: pairs with the acquire in wait_not_busy() */
	if (backend == BACKEND_THREAD)
		__atomic_store_n(&slub_thread.busy, 0, __ATOMIC_RELEASE);
	else
		lock_release(area_own_lock(area));
}

void *percpu_area_enter(void)
{
	return area_enter(percpu_backend);
}

void percpu_area_leave(void *area)
{
	area_leave(percpu_backend, area);
}

/* An operation on the area that is ours for the moment; 0: there is none. */
#define AREA_OPERATION(result_, name_, backend_, arguments_, operation_)	\
static result_ list_##name_ arguments_					\
{									\
	void *area = area_enter(backend_);				\
	result_ result;							\
									\
	if (!area)							\
		return 0;						\
	result = operation_;						\
	area_leave(backend_, area);					\
	return result;							\
}

/* The dummy area has no memory of programs. */
#define PLAIN_POP							\
	(slot < AREA_BYTES || area_is_live(area) ?			\
	 plain_pop(area, slot, link) : NULL)

/* One function for each backend: this is malloc's way where it is chosen. */
always_inline AREA_OPERATION(void *, pop_thread, BACKEND_THREAD,
			     (uint32_t slot, uintptr_t link), PLAIN_POP)
__attribute__((__noinline__))
AREA_OPERATION(void *, pop_lock, BACKEND_LOCK,
	       (uint32_t slot, uintptr_t link), PLAIN_POP)
always_inline AREA_OPERATION(bool, push_thread, BACKEND_THREAD,
			     (uint32_t slot, void *object, uintptr_t link),
			     plain_push(area, slot, object, link))
__attribute__((__noinline__))
AREA_OPERATION(bool, push_lock, BACKEND_LOCK,
	       (uint32_t slot, void *object, uintptr_t link),
	       plain_push(area, slot, object, link))
AREA_OPERATION(void *, take_area, percpu_backend,
	       (uint32_t half, int64_t room), plain_take(area, half, room))
AREA_OPERATION(bool, put_area, percpu_backend,
	       (uint32_t half, void *chain, int64_t room),
	       plain_put(area, half, chain, room))

/* ---- the choice ---- */

/* The function of the backend returns, if there is one. */
#define LIST_RETURN(name_, thread_, lock_, ...)				\
	switch (percpu_backend) {					\
	case BACKEND_THREAD:						\
		return list_##name_##_##thread_(__VA_ARGS__);		\
	case BACKEND_TID:						\
		return list_##name_##_tid(__VA_ARGS__);			\
	case BACKEND_LOCK:						\
		return list_##name_##_##lock_(__VA_ARGS__);		\
	case BACKEND_RSEQ:						\
		return list_##name_##_rseq(__VA_ARGS__);		\
	case BACKEND_NONE:						\
		break;							\
	}

/* With link and check word elsewhere in the object; only programs have a sequence for one. */
static bool is_one_of_several(uintptr_t link)
{
	return unlikely(link_is_keyed(link) && link != LINK_KEYED) &&
	       percpu_backend == BACKEND_RSEQ;
}

static cold void *pop_one(uint32_t slot, uintptr_t link)
{
	void *object;

	return percpu_pop_bulk(slot, link, &object, 1) ? object : NULL;
}

static cold bool push_one(uint32_t slot, void *object, uintptr_t link)
{
	return percpu_push_bulk(slot, link, object, list_link_of(link, object), 1);
}

void *percpu_pop(uint32_t slot, uintptr_t link)
{
	if (is_one_of_several(link))
		return pop_one(slot, link);
	LIST_RETURN(pop, thread, lock, slot, link)
	return NULL;
}

bool percpu_push(uint32_t slot, void *object, uintptr_t link)
{
	if (is_one_of_several(link))
		return push_one(slot, object, link);
	LIST_RETURN(push, thread, lock, slot, object, link)
	return false;
}

void *percpu_take(uint32_t half, int32_t limit)
{
	/* In both halves: below 0, too. */
	const int64_t room = (int64_t)((uint32_t)limit * UINT64_C(0x100000001));

	LIST_RETURN(take, area, area, half, room)
	return NULL;
}

bool percpu_put(uint32_t half, void *chain, int64_t room)
{
	LIST_RETURN(put, area, area, half, chain, room)
	return false;
}
