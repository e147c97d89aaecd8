/* SPDX-License-Identifier: MIT */
/*
 * The four list operations under each backend.
 *
 *   rseq    the restartable sequences; an abort is tried again, a bounded
 *           number of times, for a debugger that single-steps aborts each
 *   thread  the plain twins on the thread's own area.  `busy` tells a signal
 *           handler that it interrupted one, and a drainer that one is under
 *           way: busy = 1, read base | base = dummy, membarrier, read busy
 *           (percpu/collect.c), so at least one of the two sees the other
 *   tid     the kernel's algorithm: {head, transaction id} changed by one
 *           double-word compare-exchange; the id is read before the head, and
 *           changes with every operation, so a head that came back is
 *           not taken for the same list.  Safe from any CPU
 *   lock    the plain twins under the area's lock
 */
#include "percpu/percpu.h"

#include "percpu/percpu_internal.h"

struct slot_check slot_checks[AREA_SLOTS_BYTES / SLOT_BYTES] rarely_touched;

/* ---- rseq ---- */

/* @operation_ again and again, while it is @aborted_; then @result_ of `found`, or 0. */
#define RSEQ_OPERATION(type_, name_, arguments_, found_, operation_, aborted_, result_)	\
static type_ list_##name_##_rseq arguments_				\
{									\
	for (int i = 0; i < ABORTS_MAX; i++) {				\
		found_ found;						\
									\
		if (inject_fails(INJECT_abort))				\
			continue;					\
		found = operation_;					\
		if (likely(found != aborted_))				\
			return result_;					\
	}								\
	return 0;							\
}

static always_inline void *pop_once(uint32_t slot, uintptr_t link)
{
	if (unlikely(slot >= AREA_BYTES))
		return rseq_pop_live(slot);
	return link_is_in_object(link) ? rseq_pop_link(slot, link) :
					 rseq_pop_page(slot, link);
}

static always_inline enum sequence_result push_once(uint32_t slot, void *object,
						    uintptr_t link)
{
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
RSEQ_OPERATION(void *, take, (uint32_t half, int32_t room), void *,
	       rseq_take(half, room), SEQUENCE_ABORTED, found)
RSEQ_OPERATION(bool, put, (uint32_t half, void *chain, int32_t room),
	       enum sequence_result, rseq_put(half, chain, room),
	       SEQUENCE_RESTART, found == SEQUENCE_DONE)

/* ---- thread and lock: an area that is ours for the moment ---- */

static always_inline void *thread_area_enter(void)
{
	uint32_t number = slub_thread.number;

	if (unlikely(!number ||
		     __atomic_load_n(&slub_thread.busy, __ATOMIC_RELAXED)))
		return NULL;
	__atomic_store_n(&slub_thread.busy, 1, __ATOMIC_RELAXED);
	compiler_barrier();	/* see the head of this file */
	inject(INJECT_busy);
	return __atomic_load_n(&slub_cpu_base[number - 1], __ATOMIC_ACQUIRE);
}

static always_inline void thread_area_leave(void)
{
	inject(INJECT_leave);
	/* release: pairs with the acquire in wait_not_busy() */
	__atomic_store_n(&slub_thread.busy, 0, __ATOMIC_RELEASE);
}

static always_inline void *lock_area_enter(void)
{
	/* No CPU is ever stopped: the dummy area means that there is none. */
	char *area = __atomic_load_n(&slub_cpu_base[percpu_cpu_read()],
				     __ATOMIC_ACQUIRE);

	if (unlikely(slub_thread.locks_held || !area_is_live(area)))
		return NULL;
	lock_acquire(area_own_lock(area));
	return area;
}

static always_inline void lock_area_leave(char *area)
{
	inject(INJECT_leave);
	lock_release(area_own_lock(area));
}

static always_inline void *area_enter(enum backend backend)
{
	return backend == BACKEND_THREAD ? thread_area_enter() :
					   lock_area_enter();
}

static always_inline void area_leave(enum backend backend, void *area)
{
	if (backend == BACKEND_THREAD)
		thread_area_leave();
	else
		lock_area_leave(area);
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

/* The dummy area has slots only. */
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
	       (uint32_t half, int32_t room), plain_take(area, half, room))
AREA_OPERATION(bool, put_area, percpu_backend,
	       (uint32_t half, void *chain, int32_t room),
	       plain_put(area, half, chain, room))

/* ---- tid ---- */

/* The main list as a double word, with its room beside the spare. */
static struct double_word *tid_pair(char *area, uint32_t slot)
{
	return (struct double_word *)(area + slot);
}

static int32_t *tid_room(char *area, uint32_t slot)
{
	return (int32_t *)(area + slot + AREA_LIVE);
}

/*
 * The id is read first: if it is still the same when the exchange happens, so
 * is everything that was read after it.
 */
static struct double_word tid_read(struct double_word *pair)
{
	struct double_word now;

	now.second = __atomic_load_n(&pair->second, __ATOMIC_ACQUIRE);
	now.first = __atomic_load_n(&pair->first, __ATOMIC_ACQUIRE);
	return now;
}

/*
 * A bound, and yet it must not be stored late: a thread that was preempted in
 * between would make an empty list full, and one of slub/percpu.h would stay so.
 */
static void tid_room_add(char *area, uint32_t slot, int32_t n)
{
	__atomic_fetch_add(tid_room(area, slot), n, __ATOMIC_RELAXED);
}

/*
 * May be stale, and then anything: another thread has taken the object, and
 * its program writes there.  The taker's exchange has changed the id, which was
 * read before the head (tid_read()), so this thread's exchange fails, and what
 * was read here is dropped.
 */
static may_race uintptr_t tid_next(uint32_t slot, uintptr_t link, void *object)
{
	void **place = object_link(link, object);
	void *next = __atomic_load_n(place, __ATOMIC_RELAXED);

	return link_is_encoded(slot, link) ? link_decode(slot, place, next) :
					     (uintptr_t)next;
}

/* Is the list still the one that was read? */
static bool tid_is(char *area, uint32_t slot, const struct double_word *read)
{
	struct double_word now;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	now = tid_read(tid_pair(area, slot));
	return now.first == read->first && now.second == read->second;
}

/* The dummy area if there is none: nothing is on it, and nothing fits. */
static always_inline char *tid_area(void)
{
	return __atomic_load_n(&slub_cpu_base[percpu_cpu_read()],
			       __ATOMIC_ACQUIRE);
}

static __attribute__((__noinline__)) void *list_pop_tid(uint32_t slot,
							uintptr_t link)
{
	char *area = tid_area();
	struct double_word old, new;

	/* The dummy area has slots only. */
	if (unlikely(slot >= AREA_BYTES && !area_is_live(area)))
		return NULL;
	old = tid_read(tid_pair(area, slot));
	do {
		if (!old.first)
			return NULL;
		/* May be stale: then the id has changed and this is dropped. */
		new.first = tid_next(slot, link, (void *)old.first);
		if (SLUB_CONFIG_HARDENED && !link_is_plausible(new.first) &&
		    tid_is(area, slot, &old))
			return NULL;
		inject(INJECT_tid);
		new.second = old.second + 1;
	} while (!double_word_exchange(tid_pair(area, slot), &old, new));
	tid_room_add(area, slot, 1);
	return (void *)old.first;
}

static always_inline bool tid_push(char *area, uint32_t slot, void *object,
				   uintptr_t link, int32_t least)
{
	struct double_word old, new;

	if (__atomic_load_n(tid_room(area, slot), __ATOMIC_RELAXED) <= least)
		return false;
	old = tid_read(tid_pair(area, slot));
	do {
		void **place = object_link(link, object);
		uintptr_t next = link_is_encoded(slot, link) ?
				 link_decode(slot, place,
					     (void *)old.first) :
				 old.first;

		__atomic_store_n(place, (void *)next, __ATOMIC_RELAXED);
		inject(INJECT_tid);
		new.first = (uintptr_t)object;
		new.second = old.second + 1;
	} while (!double_word_exchange(tid_pair(area, slot), &old, new));
	tid_room_add(area, slot, -1);
	return true;
}

static __attribute__((__noinline__)) bool
list_push_tid(uint32_t slot, void *object, uintptr_t link)
{
	return tid_push(tid_area(), slot, object, link, 0);
}

/* For the lists of slub/percpu.h, whose room counts down from 0. */
bool percpu_tid_push(uint32_t list, void *object, int32_t least)
{
	char *area = percpu_area(percpu_cpu_hint());

	return area && tid_push(area, list, object, 0, least);
}

static void *tid_take(char *area, uint32_t half, int32_t room)
{
	struct double_word old, new;

	/* The spare is one word. */
	if (half & SLOT_SPARE)
		return __atomic_exchange_n((void **)(area + half), NULL,
					   __ATOMIC_ACQ_REL);
	old = tid_read(tid_pair(area, half));
	do {
		if (!old.first)
			return NULL;
		new.first = 0;
		new.second = old.second + 1;
	} while (!double_word_exchange(tid_pair(area, half), &old, new));
	__atomic_store_n(tid_room(area, half), room, __ATOMIC_RELAXED);
	return (void *)old.first;
}

static void *list_take_tid(uint32_t half, int32_t room)
{
	char *area = percpu_area(percpu_cpu_hint());

	return area ? tid_take(area, half, room) : NULL;
}

static bool list_put_tid(uint32_t half, void *chain, int32_t room)
{
	char *area = percpu_area(percpu_cpu_hint());
	struct double_word old, new;
	void *none = NULL;

	if (!area)
		return false;
	if (half & SLOT_SPARE)
		return __atomic_compare_exchange_n((void **)(area + half),
						   &none, chain, false,
						   __ATOMIC_ACQ_REL,
						   __ATOMIC_RELAXED);
	old = tid_read(tid_pair(area, half));
	do {
		if (old.first)
			return false;
		new.first = (uintptr_t)chain;
		new.second = old.second + 1;
	} while (!double_word_exchange(tid_pair(area, half), &old, new));
	__atomic_store_n(tid_room(area, half), room, __ATOMIC_RELAXED);
	return true;
}

/*
 * For percpu_collect(), from any CPU.  An empty list loses its room, too, as under
 * the other backends: a thread that pushed and was preempted before it said so may have
 * taken it off a list that was emptied meanwhile, and one of slub/percpu.h with
 * a limit of 1 would be full and empty for ever.
 */
void *percpu_tid_take(char *area, uint32_t half)
{
	void *chain = tid_take(area, half, 0);

	if (!chain && !(half & SLOT_SPARE))
		__atomic_store_n(tid_room(area, half), 0, __ATOMIC_RELAXED);
	return chain;
}

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

void *percpu_pop(uint32_t slot, uintptr_t link)
{
	LIST_RETURN(pop, thread, lock, slot, link)
	return NULL;
}

bool percpu_push(uint32_t slot, void *object, uintptr_t link)
{
	LIST_RETURN(push, thread, lock, slot, object, link)
	return false;
}

void *percpu_take(uint32_t half, int32_t room)
{
	LIST_RETURN(take, area, area, half, room)
	return NULL;
}

bool percpu_put(uint32_t half, void *chain, int32_t room)
{
	LIST_RETURN(put, area, area, half, chain, room)
	return false;
}
