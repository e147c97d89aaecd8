/* SPDX-License-Identifier: MIT */
/*
 * The forms of C++'s operator delete.  The size and the alignment that some are told are
 * not needed; see watch/sized.c.
 *
 * Where objects are watched or guarded from the start, a delete looks first whether its block
 * came from the new that it belongs to (debug_free_call()); not in a program that has an
 * operator of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "features/cxx/cxx.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"

/*
 * The program's own; NULL: it has none.  Never NULL where deletes look at their block, so
 * that one test does for both.  Const after start.
 */
static struct {
	void (*one)(void *ptr);
	void (*many)(void *ptr);
	void (*one_aligned)(void *ptr, size_t align);
	void (*many_aligned)(void *ptr, size_t align);
} program_delete;

bool cxx_new_is_ours;
struct cxx_calls cxx_calls = { TAIL_CALL(CALL_UNKNOWN), TAIL_CALL(CALL_UNKNOWN) };
static bool is_looking;

/* False: it was reported, and is to be left alone. */
static cold bool look(void *ptr, enum alloc_call call)
{
	if (guard_owns(ptr))
		return guard_free_call(ptr, call);
	debug_free_call(ptr, call);
	return true;
}

/*
 * Does the program's own @operator free it, or nobody?  @call: what its block must be of.
 */
#define HANDED_ON(operator, call, ptr, ...)				\
	(unlikely(operator) &&						\
	 (is_looking ? !look(ptr, call) :				\
		       (operator(ptr, ##__VA_ARGS__), true)))

static always_inline uint64_t tail_call(enum alloc_call call)
{
	return call == CALL_NEW ? cxx_calls.one : cxx_calls.many;
}

/* Frees what must be of @call. */
static always_inline void delete(void *ptr, enum alloc_call call)
{
	if (SLUB_CONFIG_HARDENED)
		fast_free_called(ptr, tail_call(call));
	else
		fast_free(ptr);
}

static always_inline void delete_sized(void *ptr, size_t n,
				       enum alloc_call call)
{
	if (SLUB_CONFIG_HARDENED)
		fast_free_sized_called(ptr, n, tail_call(call));
	else
		fast_free_sized(ptr, n);
}

static always_inline void delete_told(void *ptr, size_t n, size_t align,
				      enum alloc_call call)
{
	if (!SLUB_CONFIG_HARDENED)
		free_aligned_told(ptr, n, align);
	else if (!ptr || sized_check(ptr, n, align))
		fast_free_called(ptr, tail_call(call));
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
static void own_delete(void *ptr)
{
	if (likely(!is_looking) || look(ptr, CALL_NEW))
		delete(ptr, CALL_NEW);
}

static void own_delete_many(void *ptr)
{
	if (!HANDED_ON(program_delete.one, CALL_NEW_MANY, ptr))
		delete(ptr, CALL_NEW_MANY);
}

static void own_delete_aligned(void *ptr, size_t align)
{
	if (likely(!is_looking) || look(ptr, CALL_NEW))
		delete(ptr, CALL_NEW);
}

static void own_delete_many_aligned(void *ptr, size_t align)
{
	if (!HANDED_ON(program_delete.one_aligned, CALL_NEW_MANY, ptr, align))
		delete(ptr, CALL_NEW_MANY);
}

CXX_BASE(void, _ZdlPv, own_delete, void *ptr)
CXX_BASE(void, _ZdaPv, own_delete_many, void *ptr)
CXX_BASE(void, _ZdlPvSt11align_val_t, own_delete_aligned, void *ptr, size_t a)
CXX_BASE(void, _ZdaPvSt11align_val_t, own_delete_many_aligned, void *ptr,
	 size_t a)

#define CXX_DELETE_SIZED(name, own, call)				\
	CXX_FUNCTION(void, name, void *ptr, size_t n)			\
	{								\
		if (!HANDED_ON(own, call, ptr))				\
			delete_sized(ptr, n, call);			\
	}
#define CXX_DELETE_SIZED_ALIGNED(name, own, call)			\
	CXX_FUNCTION(void, name, void *ptr, size_t n, size_t a)		\
	{								\
		if (!HANDED_ON(own, call, ptr, a))			\
			delete_told(ptr, n, a, call);			\
	}
#define CXX_DELETE_NOTHROW(name, own, call)				\
	CXX_FUNCTION(void, name, void *ptr, const void *tag)		\
	{								\
		if (!HANDED_ON(own, call, ptr))				\
			delete(ptr, call);				\
	}
#define CXX_DELETE_ALIGNED_NOTHROW(name, own, call)			\
	CXX_FUNCTION(void, name, void *ptr, size_t a, const void *tag)	\
	{								\
		if (!HANDED_ON(own, call, ptr, a))			\
			delete(ptr, call);				\
	}

CXX_DELETE_SIZED(_ZdlPvm, program_delete.one, CALL_NEW)
CXX_DELETE_SIZED(_ZdaPvm, program_delete.many, CALL_NEW_MANY)
CXX_DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t, program_delete.one_aligned,
			 CALL_NEW)
CXX_DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t, program_delete.many_aligned,
			 CALL_NEW_MANY)
CXX_DELETE_NOTHROW(_ZdlPvRKSt9nothrow_t, program_delete.one, CALL_NEW)
CXX_DELETE_NOTHROW(_ZdaPvRKSt9nothrow_t, program_delete.many, CALL_NEW_MANY)
CXX_DELETE_ALIGNED_NOTHROW(_ZdlPvSt11align_val_tRKSt9nothrow_t,
			   program_delete.one_aligned, CALL_NEW)
CXX_DELETE_ALIGNED_NOTHROW(_ZdaPvSt11align_val_tRKSt9nothrow_t,
			   program_delete.many_aligned, CALL_NEW_MANY)

/* ---- start ---- */

/* The C++ library's own is found where the archive's names are not. */
static bool is_of_library(void *function)
{
	Dl_info used, library;

	return dladdr(function, &used) &&
	       dladdr((void *)_ZSt15get_new_handlerv, &library) &&
	       used.dli_fbase == library.dli_fbase;
}

usual void *cxx_replaced(const char *name, void *linked, void *own)
{
	void *used = linked == own ? dlsym(RTLD_DEFAULT, name) : linked;

	/* Those of a sanitizer's runtime, which tells new from malloc(). */
	if (unlikely(sanitizer.owns_malloc) && used == own)
		used = dlsym(RTLD_NEXT, name);
	return !used || used == own || is_of_library(used) ? NULL : used;
}

CXX_LOOK_AT_PROGRAM(program_delete, _ZdlPv, _ZdaPv, own_delete)

/* Is there C++ from the start, with no operator of the program's own? */
static bool may_look(void)
{
	return _ZSt15get_new_handlerv && slub_start() && cxx_new_is_ours &&
	       !program_delete.one && !program_delete.many &&
	       !program_delete.one_aligned && !program_delete.many_aligned;
}

/* Behind both looks at the program. */
__attribute__((constructor(104))) static void look_at_blocks(void)
{
	bool may = may_look();

	if (may && option_value(OPTION_check_calls))
		cxx_calls = (struct cxx_calls){ TAIL_CALL(CALL_NEW),
						TAIL_CALL(CALL_NEW_MANY) };
	else
		cxx_calls = (struct cxx_calls){ 0, 0 };
	if (!may || (!option_text(OPTION_debug) && !option_value(OPTION_guard)))
		return;
	program_delete.one = program_delete.many = own_delete;
	program_delete.one_aligned = program_delete.many_aligned =
		own_delete_aligned;
	is_looking = debug_calls_are_told = true;
}
