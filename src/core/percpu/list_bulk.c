/* SPDX-License-Identifier: MIT */
/* Several objects in one sequence: 16 cost little more than one. */
#include "core/percpu/percpu.h"

#include "core/percpu/percpu_internal.h"

static uint32_t pop_bulk_rseq(uint32_t slot, uintptr_t link, void **objects,
			      uint32_t nr)
{
	uint32_t have = 0;

	for (int aborts = 0; have < nr && aborts < ABORTS_MAX;) {
		uint32_t n = (uint32_t)min_size(nr - have,
						SEQUENCE_OBJECTS_MAX);
		long got;

		percpu_remember();
		scale_area(slot);
		got = link == LINK_KEYED && KEYS ? rseq_pop_bulk_key(slot, objects + have, n) :
		      link_is_keyed(link) ? rseq_pop_bulk_link_key(slot, objects + have, n,
								   link - LINK_KEYED) :
					    rseq_pop_bulk(slot, objects + have, n, link);
		if (got == 0)
			break;
		if (got < 0)
			aborts++;
		else
			have += (uint32_t)got;
	}
	return have;
}

RSEQ_OPERATION(bool, push_bulk,
	       (uint32_t slot, uintptr_t link, void *head, void **tail_link, uint32_t nr),
	       enum sequence_result,
	       (percpu_remember(), scale_area(slot),
		link_is_keyed(link) ?
			rseq_push_bulk_key(slot, head, tail_link, (int32_t)nr) :
			rseq_push_bulk(slot, head, tail_link, (int32_t)nr)),
	       SEQUENCE_RESTART, found == SEQUENCE_DONE)
RSEQ_OPERATION(bool, push_bounded,
	       (uint32_t list, void *object, int32_t least),
	       enum sequence_result, rseq_push_bounded(list, object, least),
	       SEQUENCE_RESTART, found == SEQUENCE_DONE)

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

/* Is a list one CPU's or thread's for the moment (percpu_area_enter())? */
static bool areas_are_entered(void)
{
	return percpu_backend == BACKEND_THREAD || percpu_backend == BACKEND_LOCK;
}

uint32_t percpu_pop_bulk(uint32_t slot, uintptr_t link, void **objects,
			 uint32_t nr)
{
	uint32_t n = 0;

	if (!SLUB_CONFIG_HARDENED && areas_are_entered()) {
		void *area = percpu_area_enter();

		if (area) {
			n = plain_pop_bulk(area, slot, link, objects, nr);
			percpu_area_leave(area);
		}
		return n;
	}
	if (!SLUB_CONFIG_HARDENED && percpu_backend == BACKEND_RSEQ &&
	    link_is_in_object(link))
		return pop_bulk_rseq(slot, link, objects, nr);
	while (n < nr && (objects[n] = percpu_pop(slot, link)) != NULL)
		n++;
	return n;
}

bool percpu_push_bulk(uint32_t slot, uintptr_t link, void *head, void **tail_link,
		      uint32_t nr)
{
	bool done = false;
	void *area;

	/* The caller's chain has no encoded end: one by one. */
	if (SLUB_CONFIG_HARDENED)
		return false;
	if (percpu_backend == BACKEND_RSEQ)
		return list_push_bulk_rseq(slot, link, head, tail_link, nr);
	area = areas_are_entered() ? percpu_area_enter() : NULL;
	if (area) {
		done = plain_push_bulk(area, slot, link, head, tail_link, nr);
		percpu_area_leave(area);
	}
	return done;
}

bool percpu_push_bounded(uint32_t list, void *object, int32_t least)
{
	bool done = false;
	void *area;

	if (percpu_backend == BACKEND_RSEQ)
		return list_push_bounded_rseq(list, object, least) ||
		       push_first(list, object, least);
	if (percpu_backend == BACKEND_TID)
		return percpu_tid_push(list, object, least);
	area = areas_are_entered() ? percpu_area_enter() : NULL;
	if (area) {
		done = plain_push_bounded(area, list, object, least);
		percpu_area_leave(area);
	}
	return done;
}
