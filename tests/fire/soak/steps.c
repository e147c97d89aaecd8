/* SPDX-License-Identifier: MIT */
/*
 * soak: what a thread does once in a while with its objects.
 */
#include "soak.h"

#include <malloc.h>
#include <sys/wait.h>

enum { BOXES = 32, BOX_ROOM = 64, BULK = 64 };

/* Objects that change hands; nobody waits for one, as a child of fork may find it locked. */
static struct box {
	atomic_flag locked;
	struct object objects[BOX_ROOM];
} boxes[BOXES];

static uint64_t below(struct worker *worker, uint64_t bound)
{
	return fire_below(&worker->self.rng, bound);
}

static struct object *any_place(struct worker *worker)
{
	return &worker->held[below(worker, SOAK_HELD)];
}

/* ---- steps ---- */

static void exchange(struct worker *worker)
{
	struct box *box = &boxes[below(worker, BOXES)];
	size_t nr = 1 + below(worker, BOX_ROOM);

	/* acquire, and release below: the table inside is the last holder's. */
	if (atomic_flag_test_and_set_explicit(&box->locked, memory_order_acquire))
		return;
	for (size_t i = 0; i < nr; i++) {
		struct object *place = any_place(worker);
		struct object out = object_take(&box->objects[i]);
		struct object in = object_take(place);

		object_put(&box->objects[i], &in);
		object_put(place, &out);
	}
	atomic_flag_clear_explicit(&box->locked, memory_order_release);
}

static void look(struct worker *worker)
{
	size_t at = below(worker, SOAK_HELD);

	for (size_t i = 0; i < 64; i++) {
		struct object *object = &worker->held[(at + i) % SOAK_HELD];
		struct slub_cache *cache;

		if (!object->start)
			continue;
		object_check(&worker->self, object, "an object in between");
		soak_count(&worker->self.checks, 1);
		cache = slub_cache_of(object->start);
		if (object->kind >= SOAK_CACHE && cache != soak_caches[object->kind - SOAK_CACHE])
			fire_fail("%p is not of the cache it was allocated from", object->start);
		if (malloc_usable_size(object->start) < object->size)
			fire_fail("%p: %zu bytes usable of %u", object->start,
				  malloc_usable_size(object->start), object->size);
	}
}

static void resize(struct worker *worker)
{
	struct object *place = any_place(worker);
	struct object object, before;
	void *moved;

	if (!place->start || place->kind >= SOAK_BUCKET)
		return;
	object = object_take(place);
	before = object;
	object.size = (uint32_t)(8 + below(worker, below(worker, 8) ? 500 : 20000));
	object.kind = SOAK_MALLOC;
	moved = realloc(object.start, object.size);
	if (object_refused(&worker->self, moved, SOAK_MALLOC)) {
		object_put(place, &before);
		return;
	}
	object.start = before.start = moved;
	/* What both have: a byte of a stamp depends on where it is alone. */
	if (before.size > object.size)
		before.size = object.size;
	object_scrub(&worker->self, &before, "an object after realloc");
	object.id = object_id(&worker->self);
	object_stamp(&object);
	object_put(place, &object);
}

static void bulk(struct worker *worker)
{
	uint32_t which = (uint32_t)below(worker, SOAK_CACHES - 1);
	struct slub_cache *cache = soak_caches[which];
	size_t nr = 1 + below(worker, BULK);
	struct object some[BULK];
	void *starts[BULK];

	/* Constructed objects are made one by one, where that is checked. */
	if (SOAK_CACHE + which == SOAK_CONSTRUCTED)
		return;
	if (slub_cache_alloc_bulk(cache, 0, nr, starts) != nr) {
		object_refused(&worker->self, NULL, SOAK_CACHE + which);
		return;
	}
	for (size_t i = 0; i < nr; i++) {
		some[i] = (struct object){
			starts[i], object_id(&worker->self), (uint32_t)slub_cache_size(cache),
			SOAK_CACHE + which,
		};
		object_stamp(&some[i]);
	}
	for (size_t i = 0; i < nr; i++)
		object_scrub(&worker->self, &some[i], "an object of a bulk");
	slub_cache_free_bulk(cache, nr, starts);
}

/* Objects of any caches at once. */
static void free_mixed(struct worker *worker)
{
	size_t nr = below(worker, BULK), taken = 0;
	void *starts[BULK];

	for (size_t i = 0; i < nr; i++) {
		struct object object = object_take(any_place(worker));

		if (!object.start)
			continue;
		object_scrub(&worker->self, &object, "an object of a mixed bulk");
		starts[taken++] = object.start;
	}
	slub_cache_free_bulk(NULL, taken, starts);
}

static void free_deferred(struct worker *worker)
{
	for (size_t i = below(worker, 16); i; i--) {
		struct object object = object_take(any_place(worker));

		if (!object.start)
			continue;
		object_scrub(&worker->self, &object, "an object to be freed later");
		slub_free_deferred(object.start);
	}
}

static void prefill(struct worker *worker)
{
	struct slub_prefill aside = { 0 };
	size_t nr = below(worker, 40), used = below(worker, nr + 1);

	if (slub_cache_prefill(soak_caches[0], &aside, nr)) {
		object_refused(&worker->self, NULL, SOAK_CACHE);
		return;
	}
	for (size_t i = 0; i < used; i++) {
		struct object object = {
			slub_prefill_alloc(&aside), object_id(&worker->self),
			(uint32_t)slub_cache_size(soak_caches[0]), SOAK_CACHE,
		};
		struct object *place = any_place(worker);

		if (!object.start)
			fire_fail("nothing put aside after %zu of %zu", i, nr);
		object_stamp(&object);
		if (place->start)
			object_free(&worker->self, place, "the thread's object");
		object_put(place, &object);
	}
	slub_prefill_return(&aside);
}

/* The table empties and fills again: slabs, windows and superblocks come and go. */
static void ebb(struct worker *worker)
{
	size_t from = below(worker, SOAK_HELD), nr = below(worker, SOAK_HELD);

	for (size_t i = 0; i < nr; i++) {
		struct object *place = &worker->held[(from + i) % SOAK_HELD];

		if (place->start)
			object_free(&worker->self, place, "the thread's object");
	}
}

/* Until the next step. */
static void enter(struct worker *worker)
{
	group_enter(&worker->self);
}

/* ---- children ---- */

/* A fork that a disturber asked for, by whoever sees that first. */
static void fork_if_wanted(struct worker *worker)
{
	pid_t child;
	int status;

	/* relaxed: the number alone is handed over. */
	if (!atomic_load_explicit(&forks_wanted, memory_order_relaxed) ||
	    atomic_fetch_sub_explicit(&forks_wanted, 1, memory_order_relaxed) <= 0)
		return;
	child = fork();
	if (child < 0)
		fire_fail("fork: %s", strerror(errno));
	if (!child)
		soak_child(worker);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			fire_fail("waitpid: %s", strerror(errno));
	if (status)
		fire_fail("a child ended with status %#x", status);
}

static const struct {
	void (*take)(struct worker *);
	unsigned int weight;
} steps[] = {
	{ exchange, 30 }, { look, 30 }, { resize, 40 }, { bulk, 15 }, { free_mixed, 10 },
	{ free_deferred, 8 }, { prefill, 6 }, { enter, 12 }, { ebb, 1 },
};

void step_take(struct worker *worker)
{
	size_t nr = sizeof(steps) / sizeof(steps[0]);
	unsigned int all = 0, pick;

	group_leave(&worker->self);
	fork_if_wanted(worker);
	for (size_t i = 0; i < nr; i++)
		all += steps[i].weight;
	pick = (unsigned int)below(worker, all);
	for (size_t i = 0; i < nr; i++) {
		if (pick < steps[i].weight) {
			steps[i].take(worker);
			return;
		}
		pick -= steps[i].weight;
	}
}

/* When no thread is left. */
void boxes_empty(struct owner *owner)
{
	for (int i = 0; i < BOXES; i++)
		for (int k = 0; k < BOX_ROOM; k++)
			if (boxes[i].objects[k].start)
				object_free(owner, &boxes[i].objects[k], "an object in a box");
}
