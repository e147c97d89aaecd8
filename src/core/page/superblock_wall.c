/* SPDX-License-Identifier: MIT */
/*
 * What the program has mapped, at addresses of its own choice, where the heap is to grow.
 *
 * It is passed over, in steps that become longer, so that a large mapping takes few calls; what
 * a step took too much, and what the program unmaps, is used again where the heap can grow no more.
 *
 * One request makes WALL_TRIES at the most, and the next one goes on from there.  Meanwhile the
 * heap counts as walled in, and malloc() looks elsewhere (features/outside).
 *
 * Locks: grow_lock protects everything here, over the system calls too.
 */
#include "core/page/superblock_growth.h"

#include <errno.h>

#define WALL_TRIES 5
/* Behind the end of the heap: 1, 4, 32, 256, 2,048 superblocks and so on. */
#define STEP_SHIFT 3

struct wall wall;
static _Atomic size_t nr_strange;	/* superblocks passed over, not ours since */
static size_t refill_end;		/* what was passed over is looked at from there down */

bool superblock_is_walled_in(void)
{
	return __atomic_load_n(&wall.is_around, __ATOMIC_RELAXED);
}

void wall_init(void)
{
	nr_strange = refill_end = wall.nr_steps = 0;
}

static bool may_try(const struct wall_request *request)
{
	return request->passes && request->nr_tries < WALL_TRIES;
}

cold void wall_strange_add(size_t n)
{
	size_add(&nr_strange, n);
}

/*
 * The next strange ones, downwards, @most of them: returns how many and where.  Highest
 * first: what a step took too much lies behind what it was for.
 */
static size_t strange_run(size_t *first, size_t most)
{
	size_t end = refill_end, n = 0;

	while (end > 0 && !superblock_is_strange(end - 1))
		end--;
	while (n < min_size(end, most) && superblock_is_strange(end - 1 - n))
		n++;
	refill_end = *first = end - n;
	return n;
}

/*
 * Each of them once.  What is mapped is handed over as the heap's end is, by a number, for states
 * are changed under the other lock; while one waits, whose state is still strange, none is tried.
 */
static enum growth strange_refill(size_t most, struct wall_request *request)
{
	size_t left = size_read(&nr_strange), first, n;

	if (growth_is_unsettled())
		return PASSED;
	while (left && may_try(request)) {
		n = strange_run(&first, min_size(most, left));
		if (!n) {
			refill_end = superblock_nr_mapped();
			n = strange_run(&first, min_size(most, left));
		}
		left -= n;
		request->nr_tries++;
		if (os_map_at(superblock_address(first), n * SUPERBLOCK_BYTES))
			continue;
		superblock_add_strange(first, n);
		size_add(&nr_strange, -n);
		return PASSED;
	}
	return WALLED;
}

cold enum growth wall_refill(size_t n, struct wall_request *request)
{
	enum growth growth = request->passes ? strange_refill(n, request) : REFUSED;

	if (request->passes)
		wall_around_set(growth == WALLED);
	return growth;
}

cold enum growth wall_end_of_heap(size_t n, struct wall_request *request)
{
	return size_read(&nr_strange) ? wall_refill(n, request) : REFUSED;
}

/* Where the next try is; @least: where the heap ends, @most: the last place. */
static size_t place_next(size_t least, size_t most)
{
	size_t step = wall.nr_steps ? (size_t)1 << (STEP_SHIFT * wall.nr_steps - 1) : 1;

	wall.nr_steps++;
	if (step < most - least)
		return least + step;
	wall.nr_steps = 0;
	return most;
}

cold enum growth wall_pass(size_t n, struct wall_request *request)
{
	size_t end = superblock_nr_mapped();
	size_t most = heap_reserved_bytes / SUPERBLOCK_BYTES - n, first = end;
	int err = -EEXIST;

	request->met_at = end;
	while (may_try(request) && first < most && err == -EEXIST) {
		request->nr_tries++;
		first = place_next(end, most);
		err = pagemap_commit_behind(first * SUPERBLOCK_BYTES,
					    (first + n) * SUPERBLOCK_BYTES);
	}
	if (err == -EEXIST || err == -EADDRINUSE)
		return wall_refill(n, request);
	if (err)
		return REFUSED;
	wall_strange_add(first - end);
	superblock_go_on(first, n);
	return PASSED;
}
