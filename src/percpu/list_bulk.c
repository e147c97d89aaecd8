/* SPDX-License-Identifier: MIT */
/*
 * Several objects in one sequence: the cost of a sequence is entering it, so
 * 16 objects cost little more than one.
 */
#include "percpu/percpu.h"

#include "percpu/percpu_internal.h"

static uint32_t pop_bulk_rseq(uint32_t slot, uintptr_t link, void **objects,
			      uint32_t nr)
{
	uint32_t have = 0;

	for (int aborts = 0; have < nr && aborts < ABORTS_MAX;) {
		uint32_t n = (uint32_t)min_size(nr - have,
						SEQUENCE_OBJECTS_MAX);
		long got;

		percpu_remember();
		got = rseq_pop_bulk(slot, objects + have, n, link);
		if (got == 0)
			break;
		if (got < 0)
			aborts++;
		else
			have += (uint32_t)got;
	}
	return have;
}

static bool push_bulk_rseq(uint32_t slot, void *head, void **tail_link,
			   uint32_t nr)
{
	for (int i = 0; i < ABORTS_MAX; i++) {
		enum sequence_result ret;

		percpu_remember();
		ret = rseq_push_bulk(slot, head, tail_link, (int32_t)nr);
		if (likely(ret != SEQUENCE_RESTART))
			return ret == SEQUENCE_DONE;
	}
	return false;
}

static bool push_bounded_rseq(uint32_t list, void *object, int32_t least)
{
	uintptr_t slot = list, t;

	for (int i = 0; i < ABORTS_MAX; i++) {
		slot = list;
		RSEQ_PUSH_BOUNDED(object, slot, t, least);
		return true;
aborted:
		continue;
	}
failed:
	return false;
}

/*
 * An aborted push leaves a list's room one too low, an aborted pop one too high.  A
 * cache's list has it set right each time it is taken or put.  Those of slub/percpu.h are
 * pushed to and popped from only, for as long as the program runs: so one that is empty,
 * and yet full, is begun anew (and see percpu_room_mend()).
 */
static bool push_first(uint32_t list, void *object, int32_t least)
{
	void *had = *(void **)object;

	if (least >= 0 || percpu_head(list))
		return false;
	*(void **)object = NULL;
	if (percpu_put(list, object, -1))
		return true;
	*(void **)object = had;
	return false;
}

/* One after the other, for objects whose links lie elsewhere, and for tid. */
static uint32_t pop_each(uint32_t slot, uintptr_t link, void **objects,
			 uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		objects[i] = percpu_pop(slot, link);
		if (!objects[i])
			break;
	}
	return i;
}

uint32_t percpu_pop_bulk(uint32_t slot, uintptr_t link, void **objects,
			 uint32_t nr)
{
	uint32_t n = 0;
	void *area;

	if (SLUB_CONFIG_HARDENED)
		return pop_each(slot, link, objects, nr);
	switch (percpu_backend) {
	case BACKEND_RSEQ:
		if (link_is_in_object(link))
			return pop_bulk_rseq(slot, link, objects, nr);
		return pop_each(slot, link, objects, nr);
	case BACKEND_TID:
		return pop_each(slot, link, objects, nr);
	case BACKEND_THREAD:
	case BACKEND_LOCK:
		area = percpu_area_enter();
		if (area) {
			n = plain_pop_bulk(area, slot, link, objects, nr);
			percpu_area_leave(area);
		}
		return n;
	case BACKEND_NONE:
		break;
	}
	return 0;
}

bool percpu_push_bulk(uint32_t slot, void *head, void **tail_link, uint32_t nr)
{
	bool done = false;
	void *area;

	/* The caller's chain has no encoded end: one by one. */
	if (SLUB_CONFIG_HARDENED)
		return false;
	switch (percpu_backend) {
	case BACKEND_RSEQ:
		return push_bulk_rseq(slot, head, tail_link, nr);
	case BACKEND_THREAD:
	case BACKEND_LOCK:
		area = percpu_area_enter();
		if (area) {
			done = plain_push_bulk(area, slot, head, tail_link,
					       nr);
			percpu_area_leave(area);
		}
		return done;
	case BACKEND_TID:
	case BACKEND_NONE:
		break;
	}
	return false;
}

bool percpu_push_bounded(uint32_t list, void *object, int32_t least)
{
	bool done = false;
	void *area;

	switch (percpu_backend) {
	case BACKEND_RSEQ:
		return push_bounded_rseq(list, object, least) ||
		       push_first(list, object, least);
	case BACKEND_TID:
		return percpu_tid_push(list, object, least);
	case BACKEND_THREAD:
	case BACKEND_LOCK:
		area = percpu_area_enter();
		if (area) {
			done = plain_push_bounded(area, list, object, least);
			percpu_area_leave(area);
		}
		return done;
	case BACKEND_NONE:
		break;
	}
	return false;
}
