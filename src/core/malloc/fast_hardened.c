/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of the hardened build, in the place of core/malloc/fast.c: the same lists, but
 * links are encoded, and each object has a tail that is looked at and written on each way.
 */
#include "core/malloc/malloc.h"

#if SLUB_CONFIG_HARDENED
#include "core/malloc/fast.h"

/* Pops an object for @bytes.  NULL: the list is empty, or the sequence was aborted. */
static always_inline void *class_pop(size_t bytes)
{
	struct front front = front_sizes();
	uintptr_t slot = front_slot(front, bytes), t;
	void *object;

	RSEQ_POP_IN(front, object, slot, t);
	/* Tells the compiler that the result is not NULL. */
	if (!object)
		__builtin_unreachable();
	return object;
failed:
aborted:
	return sequence_end(NULL);
}

/* What malloc() does behind class_pop(). */
static __attribute__((__noinline__)) void *alloc_unpopped(size_t bytes)
{
	return hardened_sealed(slow_alloc(bytes), bytes);
}

/* An object that hardened_is_sound() does not find so. */
static __attribute__((__noinline__)) void *
alloc_looked_at(const struct slot_check *g, void *object, size_t bytes)
{
	if (!hardened_look(g, object))
		return alloc_unpopped(bytes);
	*(void **)object = NULL;
	seal_new(object, bytes, g->tail, tail_key(g, object));
	return object;
}

/*
 * malloc() of the hardened build, with class_pop() in it: what is not a jump to another function
 * would need a frame, and the class's data a second look.
 */
static always_inline void *alloc_hardened(size_t bytes)
{
	struct front front = front_sizes();
	uintptr_t slot = front_slot(front, bytes), t;
	const struct slot_check *g = slot_check(slot);
	uint64_t key;
	void *object;

	/* This leaves the offset of the tail in t. */
	RSEQ_POP_TAIL_IN(front, object, slot, t, key);
	if (!object)
		__builtin_unreachable();
	key = tail_key_by(key);
	if (!is_of_cache(g, object) || !is_sound(g, object, t, key))
		return alloc_looked_at(g, object, bytes);
	*(void **)object = NULL;
	seal_new(object, bytes, t, key);
	return object;
failed:
aborted:
	return alloc_unpopped(bytes);
}

/* The data of the class for @bytes. */
static always_inline const struct slot_check *class_check(size_t bytes)
{
	return slot_check(malloc_slot[size_index(bytes)]);
}

/* @object, popped for @bytes, or another if somebody has damaged it; then it has no link. */
static inline void *handed_out(void *object, size_t bytes)
{
	const struct slot_check *g = class_check(bytes);

	if (!hardened_may_hand_out(g, object))
		return alloc_unpopped(bytes);
	if (is_paged(bytes))
		*page_link(page_link_bias, object) = LINK_USED;
	else
		*(void **)object = NULL;
	seal_new(object, bytes, g->tail, tail_key(g, object));
	return object;
}

/* Without a class, or of a page or more; of a thread in a group; of no bytes. */
static __attribute__((__noinline__)) void *alloc_paged(size_t bytes)
{
	void *object;

	if (unlikely(!bytes)) {
		/* Where any access faults; NULL: no room, so as any other. */
		object = guard_alloc_empty(sizeclass_cache(0), MALLOC_ALIGN);
		if (likely(object))
			return object;
		object = fast_pop(0);
		return object ? object : alloc_unpopped(0);
	}
	if (unlikely(group_current()))
		return hardened_sealed(account_malloc(bytes), bytes);
	object = list_pop_if_paged(bytes);
	if (unlikely(!object))
		return alloc_unpopped(bytes);
	return handed_out(object, bytes);
}

/*
 * A push of @ptr, an object of @cache, was not done: it looks free since before the push.
 * False: it is free, and that was reported.
 */
static bool push_undo(void *ptr, struct slub_cache *cache)
{
	hardened_unpush(entry_check(pagemap_get(ptr)), ptr);
	return !cache_may_have_keys(cache) || suspect_aborted(cache, ptr);
}

static cold __attribute__((__noinline__)) void
free_behind(void *ptr, uintptr_t slot, struct slub_cache *cache)
{
	uintptr_t t;

	if (!hardened_may_push_far(ptr, slot, TAIL_CALL_ANY))
		goto refused;
	RSEQ_PUSH(ptr, slot, t);
	return;
aborted:
	if (!push_undo(ptr, cache))
		return;
	goto refused;
failed:
	push_undo(ptr, cache);
refused:
	free_unpushed(ptr, cache);
}

static __attribute__((__noinline__)) void free_paged(void *ptr)
{
	uintptr_t slot = paged_slot(ptr), t;
	void **link;

	if (!slot)
		return;
	if (!hardened_may_push_page(ptr, slot))
		goto refused;
	link = page_link(page_link_bias, ptr);
	RSEQ_PUSH_PAGE(ptr, slot, t, link);
	return;
aborted:
	/* The link may have been written; the object is not free all the same. */
	*link = LINK_USED;
failed:
	hardened_unpush(entry_check(pagemap_get(ptr)), ptr);
refused:
	slow_free(ptr);
}

SLUB_HOT void *fast_pop(size_t bytes)
{
	size_t less = bytes - MALLOC_LIMIT_LESS;
	void *object = likely(less < front_malloc_limit()) ?
			       class_pop(bytes) : pop_paged(bytes);

	return object ? handed_out(object, bytes) : object;
}

static always_inline void *alloc_inline(size_t bytes)
{
	return unlikely(bytes - MALLOC_LIMIT_LESS >= front_malloc_limit()) ?
		       alloc_paged(bytes) : alloc_hardened(bytes);
}

/* What the fast path has left; @call as for hardened_may_push(). */
static __attribute__((__noinline__)) void free_called(void *ptr, uint64_t call)
{
	if (ptr && likely(hardened_may_call(ptr, call, NULL)))
		free_paged(ptr);
}

/* @ptr, which is no foreign pointer, may have more to be filled than is done inline. */
static __attribute__((__noinline__)) void
free_far(void *ptr, uintptr_t slot, uint64_t call)
{
	uintptr_t t;

	if (!hardened_may_push_far(ptr, slot, call)) {
		free_called(ptr, call);
		return;
	}
	RSEQ_PUSH(ptr, slot, t);
	return;
failed:
aborted:
	free_aborted(ptr);
}

/*
 * @is_told: the program has named a size, @told.  @call: TAIL_CALL() of what it must be of.
 */
static always_inline void free_inline(void *ptr, bool is_told, size_t told, uint64_t call)
{
	struct front front = front_map();
	size_t place = front_place(front, ptr);
	uintptr_t slot, t;
	uint64_t key;

	if (is_told && ptr && unlikely(!sized_check(ptr, told, 0)))
		return;
	if (unlikely(place >= front_free_limit())) {
		free_called(ptr, call);
		return;
	}
	slot = front_entry(front, place);
	if (!hardened_may_push(ptr, slot, call, &key)) {
		free_far(ptr, slot, call);
		return;
	}
	RSEQ_PUSH_TAIL_IN(front, ptr, slot, t, key);
	return;
failed:
aborted:
	/* It was looked at, and marked. */
	free_aborted(ptr);
}

SLUB_HOT void *fast_alloc(size_t bytes)
{
	return alloc_inline(bytes);
}

SLUB_HOT void fast_free(void *ptr)
{
	free_inline(ptr, false, 0, TAIL_CALL_ANY);
}

SLUB_HOT void fast_free_sized(void *ptr, size_t told)
{
	free_inline(ptr, true, told, TAIL_CALL(CALL_MALLOC));
}

SLUB_HOT void fast_free_called(void *ptr, uint64_t call)
{
	free_inline(ptr, false, 0, call);
}

SLUB_HOT void fast_free_sized_called(void *ptr, size_t told, uint64_t call)
{
	free_inline(ptr, true, told, call);
}

/* The C functions are these, under their public names (interpose.c). */
SLUB_EXPORT SLUB_HOT void *malloc(size_t bytes)
{
	return alloc_inline(bytes);
}

SLUB_EXPORT SLUB_HOT void free(void *ptr)
{
	free_inline(ptr, false, 0, TAIL_CALL(CALL_MALLOC));
}

#if defined(__GLIBC__)
/* glibc's internal names of the same functions. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
SLUB_EXPORT void *__libc_malloc(size_t bytes) __attribute__((alias("malloc")));
SLUB_EXPORT void __libc_free(void *ptr) __attribute__((alias("free")));
#endif

#endif
