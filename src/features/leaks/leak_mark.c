/* SPDX-License-Identifier: MIT */
/*
 * Marks what the roots lead to, and puts in order what they do not.
 *
 * An object that was marked waits on a stack until its words are looked at.  Of a list in random
 * order each step misses the processor's caches; where several wait, the next ones are fetched
 * meanwhile.  What the stack has no room for waits by a bit.
 */
#include "features/leaks/leak.h"

#include "features/profile/profile.h"

/* ---- marks ---- */

static void push(struct leak_search *search, struct leak_object object)
{
	if (likely(search->nr_stack < LEAK_STACK_MAX)) {
		__builtin_prefetch((void *)leak_start(search, object));
		search->stack[search->nr_stack++] = object;
		return;
	}
	*leak_word(search, search->pending, object) |= leak_bit(object);
	search->is_pending = true;
}

static void mark(struct leak_search *search, struct leak_object object)
{
	uint64_t *word = leak_word(search, search->marked, object), bit = leak_bit(object);

	if (*word & bit || !(*leak_word(search, search->allocated, object) & bit))
		return;
	*word |= bit;
	search->reached++;
	search->reached_bytes += search->slabs[object.slab].object_size;
	push(search, object);
}

void leak_mark_words(struct leak_search *search, const uintptr_t *words, size_t nr)
{
	struct leak_object object;

	for (size_t i = 0; i < nr; i++) {
		if (leak_find(search, words[i], &object))
			mark(search, object);
	}
}

/* The words of @object go to @use. */
static void object_read(struct leak_search *search, struct leak_object object,
			leak_words_user *use)
{
	const struct leak_slab *slab = &search->slabs[object.slab];
	uintptr_t start = leak_start(search, object);

	if (unlikely(slab->is_careful))
		leak_read(search, start, start + slab->object_size, false, use);
	else
		use(search, (uintptr_t *)start, slab->object_size / sizeof(uintptr_t));
}

static void stack_drain(struct leak_search *search)
{
	while (search->nr_stack)
		object_read(search, search->stack[--search->nr_stack], leak_mark_words);
}

typedef void object_user(struct leak_search *search, struct leak_object object);

/* Calls @use for each object of slab @number that has its bit in @map, and none in @but. */
static void each_in(struct leak_search *search, uint32_t number, const uint64_t *map,
		    const uint64_t *but, object_user *use)
{
	const struct leak_slab *slab = &search->slabs[number];

	for (uint32_t nr = 0; nr < slab->nr; nr += 64) {
		uint64_t bits = map[slab->word + nr / 64];

		if (but)
			bits &= ~but[slab->word + nr / 64];
		for (; bits; bits &= bits - 1)
			use(search, (struct leak_object){ number, nr +
							  (uint32_t)__builtin_ctzll(bits) });
	}
}

static void each(struct leak_search *search, const uint64_t *map, const uint64_t *but,
		 object_user *use)
{
	for (uint32_t i = 0; i < search->nr_slabs; i++)
		each_in(search, i, map, but, use);
}

static void pending_read(struct leak_search *search, struct leak_object object)
{
	*leak_word(search, search->pending, object) &= ~leak_bit(object);
	object_read(search, object, leak_mark_words);
	stack_drain(search);
}

void leak_mark_rest(struct leak_search *search)
{
	stack_drain(search);
	while (search->is_pending) {
		search->is_pending = false;
		each(search, search->pending, NULL, pending_read);
	}
}

void leak_mark_own(struct leak_search *search)
{
	for (uint32_t i = 0; i < search->nr_slabs; i++) {
		if (search->slabs[i].is_root)
			each_in(search, i, search->allocated, search->marked, mark);
	}
}

/* ---- leaks in order ---- */

/* While the words of a leak are looked at. */
static struct leak_object whose;

static void led_to_note(struct leak_search *search, const uintptr_t *words, size_t nr)
{
	struct leak_object object;

	for (size_t i = 0; i < nr; i++) {
		if (leak_find(search, words[i], &object) &&
		    (object.slab != whose.slab || object.nr != whose.nr))
			*leak_word(search, search->led_to, object) |= leak_bit(object);
	}
}

static void object_leads(struct leak_search *search, struct leak_object object)
{
	whose = object;
	object_read(search, object, led_to_note);
}

static uint32_t stack_of(const struct leak_slab *slab, const void *object)
{
	const struct debug_layout *layout = slab->is_single ? NULL : slab->cache->debug;

	if (slab->stack)
		return slab->stack;
	if (layout && layout->track)
		return track_of(layout, object, TRACK_ALLOC)->stack;
	return profile_stack_of(object);
}

/* @object stands for what it leads to. */
static void found_add(struct leak_search *search, struct leak_object object, bool is_ring)
{
	const struct leak_slab *slab = &search->slabs[object.slab];
	struct leak_shared *shared = search->shared;
	uintptr_t start = leak_start(search, object);

	search->reached = search->reached_bytes = 0;
	mark(search, object);
	leak_mark_rest(search);
	if (shared->nr_found == SLUB_LEAKS_VISITED_MAX)
		return;
	shared->found[shared->nr_found++] = (struct leak_found){
		.object = start, .bytes = slab->object_size,
		.beneath = search->reached - 1,
		.beneath_bytes = search->reached_bytes - slab->object_size,
		.cache = slab->cache, .stack = stack_of(slab, (void *)start),
		.is_ring = is_ring,
	};
}

static void direct_add(struct leak_search *search, struct leak_object object)
{
	found_add(search, object, false);
}

static void ring_add(struct leak_search *search, struct leak_object object)
{
	if (!(*leak_word(search, search->marked, object) & leak_bit(object)))
		found_add(search, object, true);
}

/* From here on a leak is all that is allocated. */
static size_t rest_keep(struct leak_search *search)
{
	size_t nr = 0;

	for (size_t i = 0; i < search->nr_words; i++) {
		search->allocated[i] &= ~search->marked[i];
		search->marked[i] = 0;
		nr += (size_t)__builtin_popcountll(search->allocated[i]);
	}
	return nr;
}

size_t leak_group(struct leak_search *search)
{
	size_t nr = rest_keep(search);

	if (!nr)
		return 0;
	each(search, search->allocated, search->marked, object_leads);
	each(search, search->allocated, search->led_to, direct_add);
	each(search, search->allocated, search->marked, ring_add);
	return nr;
}
