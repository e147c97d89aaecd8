/* SPDX-License-Identifier: MIT */
/*
 * The hardened build: a block that another kind of call frees than allocated it.
 *
 * A program that has operators of its own is known at the start (features/cxx/cxx_delete.c).  A
 * library that binds its operators to itself (-Bsymbolic) is not: its delete may free by free()
 * what the C++ library has by our new, a string for one, and the other way round.  So a call of
 * another kind is no misuse if its caller lies in an object that has an operator delete; and
 * then nothing is checked any more; nor if the operators behind ours are no C++ library's of its
 * own: rust-lld deletes by ours what libLLVM, which has a C++ library in it, has by its new.  An
 * object that hides its operator is not known: that takes SLUB_CHECK_CALLS=0.
 */
#define _GNU_SOURCE
#include "core/os/loaded.h"
#include "features/debug/debug.h"
#include "core/slab/slab_internal.h"

#include <dlfcn.h>
#include <string.h>

static _Atomic bool calls_are_mixed;

#if defined(__GLIBC__)
struct caller {
	const void *address;
	bool has_delete;
};

static int look_at_caller(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct caller *caller = arg;
	struct object object;

	(void)bytes;
	if (!object_holds(info, caller->address))
		return 0;
	caller->has_delete = object_read(&object, info) && object_symbol(&object, "_ZdlPv");
	return 1;
}
#endif

/*
 * Does the object that the code at @address is of have an operator delete of its own, or another
 * one that is no C++ library?
 */
static cold bool has_operators(uintptr_t address)
{
#if defined(__GLIBC__)
	struct caller caller = { .address = (const void *)address };
	void *found;
	Dl_info own;

	dl_iterate_phdr(look_at_caller, &caller);
	if (caller.has_delete)
		return true;
	found = dlsym(RTLD_NEXT, "_ZdlPv");
	return found && dladdr(found, &own) && own.dli_fname &&
	       !strstr(own.dli_fname, "/libstdc++") && !strstr(own.dli_fname, "/libc++");
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
