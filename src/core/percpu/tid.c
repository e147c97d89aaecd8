/* SPDX-License-Identifier: MIT */
/*
 * Backend tid: the kernel's algorithm, all of it.
 *
 * A list is {head, transaction id}, changed by one double-word compare-exchange.  The id
 * is read before the head and changes with every operation, so a head that came back is
 * not taken for the same list.  Safe from any CPU, so no CPU is ever stopped.
 */
#include "core/percpu/percpu.h"

#include "core/percpu/percpu_internal.h"

/* The main list as a double word, with its room beside the spare. */
static struct double_word *tid_pair(char *area, uint32_t slot)
{
	return (struct double_word *)(area + slot);
}

static int32_t *tid_room(char *area, uint32_t slot)
{
	return (int32_t *)(area + slot + AREA_LIVE);
}

/* Of a list that was taken or put whole. */
static void tid_begin(char *area, uint32_t slot, int64_t room)
{
	__atomic_store_n(tid_room(area, slot), (int32_t)room, __ATOMIC_RELAXED);
	if (room >= 0)
		__atomic_store_n((int32_t *)(area + slot + SLOT_LIMIT), half_limit(room),
				 __ATOMIC_RELAXED);
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

/* Added: a store that comes late would make an empty list full, one of slub/percpu.h for ever. */
static void tid_room_add(char *area, uint32_t slot, int32_t n)
{
	__atomic_fetch_add(tid_room(area, slot), n, __ATOMIC_RELAXED);
}

/*
 * May be stale, and then anything, for the object may be another thread's by now.  Its pop has
 * changed the id, so this thread's exchange fails, and what was read here is dropped.  False: this
 * is no link.
 */
static may_race bool tid_next(uint32_t slot, uintptr_t link, void *object, uintptr_t *next)
{
	void **place = list_link_of(link, object);
	void *word = __atomic_load_n(place, __ATOMIC_RELAXED);

	*next = (uintptr_t)word;
	if (link_is_keyed(link))
		return __atomic_load_n(key_of(place), __ATOMIC_RELAXED) ==
		       key_made(place, *next);
	if (!link_is_encoded(slot, link))
		return true;
	*next = link_decode(slot, place, word);
	return link_is_plausible(*next);
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

void *list_pop_tid(uint32_t slot, uintptr_t link)
{
	char *area = tid_area();
	struct double_word old, new;

	/* The dummy area has no memory of programs. */
	if (unlikely(slot >= AREA_BYTES && !area_is_live(area)))
		return NULL;
	old = tid_read(tid_pair(area, slot));
	do {
		if (!old.first)
			return NULL;
		if (unlikely(!tid_next(slot, link, (void *)old.first, &new.first)) &&
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
		void **place = list_link_of(link, object);
		uintptr_t next = link_is_encoded(slot, link) ?
				 link_encode(slot, place,
					     (void *)old.first) :
				 old.first;

		__atomic_store_n(place, (void *)next, __ATOMIC_RELAXED);
		if (link_is_keyed(link))
			__atomic_store_n(key_of(place), key_made(place, next),
					 __ATOMIC_RELAXED);
		inject(INJECT_tid);
		new.first = (uintptr_t)object;
		new.second = old.second + 1;
	} while (!double_word_exchange(tid_pair(area, slot), &old, new));
	tid_room_add(area, slot, -1);
	return true;
}

bool list_push_tid(uint32_t slot, void *object, uintptr_t link)
{
	return tid_push(tid_area(), slot, object, link, 0);
}

/* For the lists of slub/percpu.h, whose room counts down from 0. */
bool percpu_tid_push(uint32_t list, void *object, int32_t least)
{
	char *area = percpu_area(percpu_cpu_hint());

	return area && tid_push(area, list, object, 0, least);
}

static void *tid_take(char *area, uint32_t half, int64_t room)
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
	tid_begin(area, half, room);
	return (void *)old.first;
}

void *list_take_tid(uint32_t half, int64_t room)
{
	char *area = percpu_area(percpu_cpu_hint());

	return area ? tid_take(area, half, room) : NULL;
}

bool list_put_tid(uint32_t half, void *chain, int64_t room)
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
	tid_begin(area, half, room);
	return true;
}

/*
 * From any CPU.  An empty list loses its room, too, as under the other backends: a thread
 * that pushed and was preempted before it said so may have taken it off a list that was
 * emptied meanwhile, and one of slub/percpu.h with a limit of 1 would be full and empty
 * for ever.
 */
static void *tid_empty(char *area, uint32_t half)
{
	void *chain = tid_take(area, half, 0);

	if (!chain && !(half & SLOT_SPARE))
		__atomic_store_n(tid_room(area, half), 0, __ATOMIC_RELAXED);
	return chain;
}

void percpu_tid_collect(char *area, struct collection *collection)
{
	struct slot *to = collection->lists + collection->nr_lists;

	for (uint32_t i = 0; i < collection->nr_slots; i++) {
		uint32_t slot = collection->start + i * SLOT_BYTES;

		to[i] = (struct slot){ { NULL, 0, 0 }, { NULL, 0, 0 } };
		to[i].main.head = tid_empty(area, slot);
		to[i].spare.head = tid_empty(area, slot + SLOT_SPARE);
	}
	collection->nr_lists += collection->nr_slots;
}
