/* SPDX-License-Identifier: MIT */
/*
 * The hardened build: a block that another kind of call frees than allocated it.
 *
 * A program that has operators of its own is known at the start (malloc/cxx/cxx_delete.c).  A
 * library that binds its operators to itself (-Bsymbolic) is not: its delete may free by free()
 * what the C++ library has by our new, a string for one, and the other way round.  So a call of
 * another kind is no misuse if its caller lies in an object that has an operator delete; and
 * then nothing is checked any more.  An object that hides its operator is not known: that
 * takes SLUB_CHECK_CALLS=0.
 */
#define _GNU_SOURCE
#include "slab/slab_internal.h"

#include <dlfcn.h>

static _Atomic bool calls_are_mixed;

/* Does the object that the code at @address is of have an operator delete of its own? */
static cold bool has_operators(uintptr_t address)
{
#if defined(__GLIBC__)
	void *map = NULL, *found;
	Dl_info at, own;

	if (!dladdr1((void *)address, &at, &map, RTLD_DL_LINKMAP) || !map)
		return false;
	/* It is looked for in that object first. */
	found = dlsym(map, "_ZdlPv");
	return found && dladdr(found, &own) && own.dli_fbase == at.dli_fbase;
#else
	(void)address;
	return false;
#endif
}

/* @frame: of the function that has found a call of another kind. */
static cold bool is_mixed(const void *frame)
{
	struct stack stack = { 0 };

	if (__atomic_load_n(&calls_are_mixed, __ATOMIC_RELAXED))
		return true;
	/* The linker's lists have a lock, and an error of its functions takes memory. */
	if (slub_thread.locks_held)
		return false;
	stack_read(&stack, frame);
	if (!stack.nr || !has_operators(stack.frames[0]))
		return false;
	__atomic_store_n(&calls_are_mixed, true, __ATOMIC_RELAXED);
	return true;
}

/* The opposite of TAIL_CALL(). */
static enum alloc_call alloc_call_of(uint64_t call)
{
	return (enum alloc_call)(call >> 62 ^ CALL_MALLOC);
}

bool hardened_may_call(const void *ptr, uint64_t call, const char *name)
{
	const struct slub_cache *cache;
	uint64_t was;
	char where[96] = "";
	struct text text = { where, sizeof(where) - 1, 0 };

	if (call == TAIL_CALL_ANY || call == TAIL_CALL(CALL_UNKNOWN))
		return true;
	was = hardened_call(ptr);
	if (likely(was == call || was == TAIL_CALL(CALL_UNKNOWN)))
		return true;
	if (is_mixed(__builtin_frame_address(0)))
		return true;
	cache = cache_of(ptr);
	text_printf(&text, "%s, of %s", cache ? cache->name : "large block",
		    call_name(alloc_call_of(was)));
	misuse_found(MISUSE_CALL, name ? name : call_free_name(alloc_call_of(call)), ptr, where);
	return false;
}
