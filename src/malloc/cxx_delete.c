/* SPDX-License-Identifier: MIT */
/*
 * The forms of C++'s operator delete.  The size and the alignment that some are told are
 * not needed; see sized.c.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "malloc/cxx.h"

/* The program's own; NULL: it has none.  Const after start. */
static struct {
	void (*one)(void *ptr);
	void (*many)(void *ptr);
	void (*one_aligned)(void *ptr, size_t align);
	void (*many_aligned)(void *ptr, size_t align);
} program_delete;

#pragma GCC diagnostic ignored "-Wunused-parameter"
static void own_delete(void *ptr)
{
	fast_free(ptr);
}

static void own_delete_many(void *ptr)
{
	if (unlikely(program_delete.one))
		program_delete.one(ptr);
	else
		fast_free(ptr);
}

static void own_delete_aligned(void *ptr, size_t align)
{
	fast_free(ptr);
}

static void own_delete_many_aligned(void *ptr, size_t align)
{
	if (unlikely(program_delete.one_aligned))
		program_delete.one_aligned(ptr, align);
	else
		fast_free(ptr);
}

CXX_BASE(void, _ZdlPv, own_delete, void *ptr)
CXX_BASE(void, _ZdaPv, own_delete_many, void *ptr)
CXX_BASE(void, _ZdlPvSt11align_val_t, own_delete_aligned, void *ptr, size_t a)
CXX_BASE(void, _ZdaPvSt11align_val_t, own_delete_many_aligned, void *ptr,
	 size_t a)

#define CXX_DELETE_SIZED(name, own)					\
	CXX_FUNCTION(void, name, void *ptr, size_t n)			\
	{								\
		if (unlikely(own))					\
			own(ptr);					\
		else							\
			fast_free_sized(ptr, n, 0);			\
	}
#define CXX_DELETE_SIZED_ALIGNED(name, own)				\
	CXX_FUNCTION(void, name, void *ptr, size_t n, size_t a)		\
	{								\
		if (unlikely(own))					\
			own(ptr, a);					\
		else							\
			fast_free_sized(ptr, n, a);			\
	}
#define CXX_DELETE_NOTHROW(name, own)					\
	CXX_FUNCTION(void, name, void *ptr, const void *tag)		\
	{								\
		if (unlikely(own))					\
			own(ptr);					\
		else							\
			fast_free(ptr);					\
	}
#define CXX_DELETE_ALIGNED_NOTHROW(name, own)				\
	CXX_FUNCTION(void, name, void *ptr, size_t a, const void *tag)	\
	{								\
		if (unlikely(own))					\
			own(ptr, a);					\
		else							\
			fast_free(ptr);					\
	}

CXX_DELETE_SIZED(_ZdlPvm, program_delete.one)
CXX_DELETE_SIZED(_ZdaPvm, program_delete.many)
CXX_DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t, program_delete.one_aligned)
CXX_DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t, program_delete.many_aligned)
CXX_DELETE_NOTHROW(_ZdlPvRKSt9nothrow_t, program_delete.one)
CXX_DELETE_NOTHROW(_ZdaPvRKSt9nothrow_t, program_delete.many)
CXX_DELETE_ALIGNED_NOTHROW(_ZdlPvSt11align_val_tRKSt9nothrow_t,
			   program_delete.one_aligned)
CXX_DELETE_ALIGNED_NOTHROW(_ZdaPvSt11align_val_tRKSt9nothrow_t,
			   program_delete.many_aligned)

/* ---- start ---- */

/* The C++ library's own is found where the archive's names are not. */
static bool is_of_library(void *function)
{
	Dl_info used, library;

	return dladdr(function, &used) &&
	       dladdr((void *)_ZSt15get_new_handlerv, &library) &&
	       used.dli_fbase == library.dli_fbase;
}

void *cxx_replaced(const char *name, void *linked, void *own)
{
	void *used = linked == own ? dlsym(RTLD_DEFAULT, name) : linked;

	return !used || used == own || is_of_library(used) ? NULL : used;
}

CXX_LOOK_AT_PROGRAM(program_delete, _ZdlPv, _ZdaPv, own_delete)
