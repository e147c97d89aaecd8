/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of malloc() and free().  malloc: a table gives the slot for the size; pop.
 * free: the map gives the slot for the page; push.
 *
 * The thread's two limits turn away a size without a class, a foreign pointer, a library
 * that has not started and a thread that is not registered.  All other unusual cases (a
 * pointer without a slab, an empty or full list, a CPU that is stopped) find a slot that
 * is empty or has no room, and so take the slow path without a test of their own.  Two further
 * tests are for misuse: is the check word of the object right that is handed out
 * (core/slab/key.h), and does an object begin where one is freed that does not look free.
 * tests/golden holds the listings: no stack frame, no call.
 */
#include "core/malloc/front.h"

/* Pops an object for @bytes.  NULL: the list is empty, or the sequence was aborted. */
static always_inline void *class_pop(size_t bytes)
{
	struct front front = front_sizes();
	uintptr_t slot = front_slot(front, bytes), t;
	void *object;

	if (KEYS)
		RSEQ_POP_KEY_IN(front, object, slot, t, slub_key);
	else
		RSEQ_POP_IN(front, object, slot, t);
	/* Tells the compiler that the result is not NULL. */
	if (!object)
		__builtin_unreachable();
	if (KEYS)
		link_clear_keyed(object);
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

/* The same for classes of a page or more: their links lie in the table of pages. */
static always_inline void *list_pop_paged(size_t bytes)
{
	uintptr_t slot = malloc_slot[size_index(bytes)], t;
	void *object;

	RSEQ_POP_PAGE(object, slot, t, page_link_bias);
	if (!object)
		__builtin_unreachable();
	if (KEYS)
		*page_link(page_link_bias, object) = LINK_USED;
	return object;
failed:
aborted:
	return sequence_end(NULL);
}

/* The hardened build's data of the class for @bytes. */
static always_inline const struct slot_check *class_check(size_t bytes)
{
	return slot_check(malloc_slot[size_index(bytes)]);
}

/*
 * Is it a class of a page or more, with a list?  The size alone decides: a handler may
 * open the fast paths after malloc() has found them closed.
 */
static always_inline bool is_paged(size_t bytes)
{
	return bytes - (CLASS_WORD_MAX + 1) < CLASS_BYTES_MAX - CLASS_WORD_MAX;
}

static always_inline void *list_pop_if_paged(size_t bytes)
{
	return likely(is_paged(bytes) && slub_thread.malloc_limit) ?
		       list_pop_paged(bytes) : NULL;
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

/*
 * The slot that the map names for classes of a page or more has no room, so their frees
 * end up in free_paged(), like the frees of accounted objects.  Requests of threads in
 * groups end up in alloc_paged(), and in the hardened build those of no bytes.
 */
static __attribute__((__noinline__)) void *alloc_paged(size_t bytes)
{
	void *object;

	if (SLUB_CONFIG_HARDENED && unlikely(!bytes)) {
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
		return hardened_sealed(slow_alloc(bytes), bytes);
	return SLUB_CONFIG_HARDENED ? handed_out(object, bytes) : object;
}

/*
 * A push of @ptr, an object of @cache, was aborted.  The push may have written the key,
 * and the object then looks free although it is not.  Without keys there is nothing to
 * undo, but in the hardened build, where it looks free even before the push.
 * False: it is free, and that was reported.
 */
static inline bool push_undo(void *ptr, struct slub_cache *cache)
{
	if (SLUB_CONFIG_HARDENED)
		hardened_unpush(entry_check(pagemap_get(ptr)), ptr);
	return !cache_may_have_keys(cache) || suspect_aborted(cache, ptr);
}

/* An object of @cache that no list here has taken. */
static always_inline void free_unpushed(void *ptr, struct slub_cache *cache)
{
	if (cache->account_path == ACCOUNT_SLOW)
		slow_free(ptr);
	else
		account_free_object(ptr, cache);
}

/*
 * Frees an object of @cache, whose slot is @slot.  It is what free() would have done, had the
 * thread known that the map reaches this page, or had the map room for the slot.  Cold: other
 * code has its place among what every program runs.
 */
static cold __attribute__((__noinline__)) void
free_behind(void *ptr, uintptr_t slot, struct slub_cache *cache)
{
	uintptr_t t;

	if (SLUB_CONFIG_HARDENED &&
	    !hardened_may_push_far(ptr, slot, TAIL_CALL_ANY))
		goto refused;
	if (KEYS)
		RSEQ_PUSH_KEY_IN(SLUB_SEQ_SELF, ptr, slot, t, slub_key);
	else
		RSEQ_PUSH(ptr, slot, t);
	return;
aborted:
	if (!push_undo(ptr, cache))
		return;
	goto refused;
failed:
	if (SLUB_CONFIG_HARDENED)
		push_undo(ptr, cache);
refused:
	free_unpushed(ptr, cache);
}

/* @ptr belongs to @cache, in page @index of the map; no class of malloc from a page on. */
static always_inline void free_others(void *ptr, size_t index, uintptr_t slot,
				      struct slub_cache *cache)
{
	if (cache->account_path == ACCOUNT_PAGED) {
		account_free_object(ptr, cache);
	} else if (unlikely(cache->frees_far ||
			    free_limit_of(index) >= slub_thread.free_limit) &&
		   slub_thread.self.base == slub_cpu_base &&
		   cache_is_at_object(cache, ptr)) {
		fast_paths_open_now();
		free_behind(ptr, cache->frees_far ? cache->list_slot : slot, cache);
	} else {
		free_unpushed(ptr, cache);
	}
}

static __attribute__((__noinline__)) void free_paged(void *ptr)
{
	size_t index = pagemap_index(ptr);
	uintptr_t slot, t;
	void **link;

	if (unlikely(index >= __atomic_load_n(&pagemap_limit, __ATOMIC_RELAXED)))
		goto refused;
	slot = ((uint16_t *)pagemap_base)[index];
	if (slot - malloc_paged_slots >= malloc_paged_slots_bytes) {
		struct slub_cache *cache = cache_of_entry((uint32_t)slot);

		if (!cache)
			goto refused;
		free_others(ptr, index, slot, cache);
		return;
	}
	slot += SLOT_BYTES;
	if (SLUB_CONFIG_HARDENED && !hardened_may_push_page(ptr, slot))
		goto refused;
	link = page_link(page_link_bias, ptr);
	/* Only whole pages: slow_free() knows where the objects of others begin. */
	if (KEYS && unlikely(*link != LINK_USED ||
			     (uintptr_t)ptr % PAGE_BYTES))
		goto refused;
	RSEQ_PUSH_PAGE(ptr, slot, t, link);
	return;
aborted:
	/* The link may have been written; the object is not free all the same. */
	if (SLUB_CONFIG_HARDENED || KEYS)
		*link = LINK_USED;
failed:
	if (SLUB_CONFIG_HARDENED)
		hardened_unpush(entry_check(pagemap_get(ptr)), ptr);
refused:
	slow_free(ptr);
}

static __attribute__((__noinline__)) void free_aborted(void *ptr)
{
	struct slub_cache *cache = cache_of(ptr);

	if (!cache || push_undo(ptr, cache))
		free_paged(ptr);
}

static __attribute__((__noinline__)) void *pop_paged(size_t bytes)
{
	return list_pop_if_paged(bytes);
}

SLUB_HOT void *fast_pop(size_t bytes)
{
	size_t less = bytes - MALLOC_LIMIT_LESS;
	void *object = likely(less < front_malloc_limit()) ?
			       class_pop(bytes) : pop_paged(bytes);

	return SLUB_CONFIG_HARDENED && object ? handed_out(object, bytes) : object;
}

static always_inline void *alloc_inline(size_t bytes)
{
	void *object;

	if (unlikely(bytes - MALLOC_LIMIT_LESS >= front_malloc_limit()))
		return alloc_paged(bytes);
	if (SLUB_CONFIG_HARDENED)
		return alloc_hardened(bytes);
	object = class_pop(bytes);
	return likely(object) ? object : slow_alloc(bytes);
}

/* What the fast path has left, in the hardened build; @call as for hardened_may_push(). */
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

static __attribute__((__noinline__)) void
free_sized_paged(void *ptr, size_t told)
{
	if (!ptr)
		return;
	sized_check(ptr, told, 0);
	free_paged(ptr);
}

static __attribute__((__noinline__)) void
free_sized_aborted(void *ptr, size_t told)
{
	if (!SLUB_CONFIG_HARDENED)
		sized_check(ptr, told, 0);
	free_aborted(ptr);
}

/*
 * @is_told: the program has named a size, @told.  @call: hardened build: TAIL_CALL() of what
 * it must be of.
 */
static always_inline void free_inline(void *ptr, bool is_told, size_t told,
				      uint64_t call)
{
	struct front front = front_map();
	size_t place = front_place(front, ptr);
	uintptr_t slot, t;
	uint64_t key;

	if (SLUB_CONFIG_HARDENED && is_told && ptr &&
	    unlikely(!sized_check(ptr, told, 0)))
		return;
	if (unlikely(place >= front_free_limit())) {
		if (!SLUB_CONFIG_HARDENED)
			goto failed;
		free_called(ptr, call);
		return;
	}
	slot = front_entry(front, place);
	if (SLUB_CONFIG_HARDENED && !hardened_may_push(ptr, slot, call, &key)) {
		free_far(ptr, slot, call);
		return;
	}
	if (KEYS && unlikely(!front_is_start(front, slot, ptr)))
		goto failed;
#if ARCH_HAS_LOCAL
	uintptr_t u, v;

	RSEQ_FREE_KEY_IN(front, ptr, slot, t, u, v, slub_key, local_bias);
	return;
#endif
	if (KEYS)
		RSEQ_PUSH_KEY_IN(front, ptr, slot, t, slub_key);
	else if (SLUB_CONFIG_HARDENED)
		RSEQ_PUSH_TAIL_IN(front, ptr, slot, t, key);
	else
		RSEQ_PUSH_IN(front, ptr, slot, t);
	return;
aborted:
	if (is_told)
		free_sized_aborted(ptr, told);
	else
		free_aborted(ptr);
	return;
failed:
	/* In the hardened build @ptr was looked at, and marked. */
	if (SLUB_CONFIG_HARDENED)
		free_aborted(ptr);
	else if (is_told)
		free_sized_paged(ptr, told);
	else
		free_paged(ptr);
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

#if SLUB_CONFIG_HARDENED
SLUB_HOT void fast_free_called(void *ptr, uint64_t call)
{
	free_inline(ptr, false, 0, call);
}

SLUB_HOT void fast_free_sized_called(void *ptr, size_t told, uint64_t call)
{
	free_inline(ptr, true, told, call);
}
#endif

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
