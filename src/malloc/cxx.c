/* SPDX-License-Identifier: MIT */
/*
 * The C++ operators new and delete, by their names in the Itanium C++ ABI.
 *
 * Where memory is short, the new_handler is called and the request tried again
 * until there is none, then std::bad_alloc is thrown, or nullptr returned by
 * the nothrow forms.  Both come from the program's libstdc++ or libc++, to
 * which there are weak references only.
 *
 * A program may replace some of them and leave the others, which then work by its own:
 * new[] by its new, delete of a size by its delete.  So what is not replaced looks
 * whether that is (program_new, program_delete); and all are weak, for who links the
 * archive.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "malloc/malloc.h"

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc(). */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

static new_handler current_handler(void)
{
	new_handler (*get)(void) = _ZSt15get_new_handlerv;

	/* The C++ library may have been loaded after this one. */
	if (!get)
		get = (new_handler (*)(void))dlsym(RTLD_DEFAULT,
						   "_ZSt15get_new_handlerv");
	return get ? get() : NULL;
}

static cold void throw_bad_alloc(void)
{
	void (*throw)(void) = _ZSt17__throw_bad_allocv;

	if (!throw)
		throw = (void (*)(void))dlsym(RTLD_DEFAULT,
					      "_ZSt17__throw_bad_allocv");
	if (throw)
		throw();
	log_always("operator new: out of memory, and no C++ library to throw "
		   "std::bad_alloc");
	abort();
}

static void *try_alloc(size_t bytes, size_t align)
{
	if (align <= MALLOC_ALIGN)
		return fast_alloc(bytes);
	if (!is_power_of_two(align))
		return NULL;
	return alloc_aligned(bytes, align);
}

static cold void *handle_failure(size_t bytes, size_t align)
{
	void *ptr;

	do {
		new_handler handler = current_handler();

		if (!handler)
			throw_bad_alloc();
		handler();
		ptr = try_alloc(bytes, align);
	} while (!ptr);
	return ptr;
}

static always_inline void *new_object(size_t bytes, size_t align)
{
	void *ptr = try_alloc(bytes, align);

	return likely(ptr) ? ptr : handle_failure(bytes, align);
}

/* ---- what the program has replaced; NULL: nothing.  Const after start ---- */

static struct {
	void *(*one)(size_t n);
	void *(*many)(size_t n);
	void *(*one_aligned)(size_t n, size_t align);
	void *(*many_aligned)(size_t n, size_t align);
} program_new;

static struct {
	void (*one)(void *ptr);
	void (*many)(void *ptr);
	void (*one_aligned)(void *ptr, size_t align);
	void (*many_aligned)(void *ptr, size_t align);
} program_delete;

#define CXX SLUB_EXPORT __attribute__((weak))

/* The declaration that -Wmissing-prototypes wants, and the definition. */
#define CXX_FUNCTION(type, name, ...)					\
	CXX type name(__VA_ARGS__);					\
	CXX type name(__VA_ARGS__)
/* One that others work by: known by a name of our own, too. */
#define CXX_BASE(type, name, own, ...)					\
	CXX type name(__VA_ARGS__) __attribute__((alias(#own)));

/* ---- new ---- */

static void *own_new(size_t n)
{
	return new_object(n, 1);
}

static void *own_new_many(size_t n)
{
	return unlikely(program_new.one) ? program_new.one(n) :
					   new_object(n, 1);
}

static void *own_new_aligned(size_t n, size_t align)
{
	return new_object(n, align);
}

static void *own_new_many_aligned(size_t n, size_t align)
{
	return unlikely(program_new.one_aligned) ?
		       program_new.one_aligned(n, align) :
		       new_object(n, align);
}

CXX_BASE(void *, _Znwm, own_new, size_t n)
CXX_BASE(void *, _Znam, own_new_many, size_t n)
CXX_BASE(void *, _ZnwmSt11align_val_t, own_new_aligned, size_t n, size_t a)
CXX_BASE(void *, _ZnamSt11align_val_t, own_new_many_aligned, size_t n, size_t a)

typedef void *nothrow_new(size_t bytes, const void *tag);
typedef void *nothrow_new_aligned(size_t bytes, size_t align, const void *tag);

/*
 * A handler, or the program's own operator new, may throw, and the nothrow forms
 * have to catch it, which C cannot say.  The C++ library's own form can: it calls
 * operator new, which is the one above or the program's, and catches.
 */
static cold void *nothrow_by_library(void *next, size_t bytes, size_t align,
				     const void *tag)
{
	if (align <= MALLOC_ALIGN)
		return ((nothrow_new *)next)(bytes, tag);
	return ((nothrow_new_aligned *)next)(bytes, align, tag);
}

static cold void *nothrow_failure(const char *name, size_t bytes, size_t align,
				  const void *tag)
{
	void *next = dlsym(RTLD_NEXT, name);

	if (!next || !current_handler())
		return NULL;
	return nothrow_by_library(next, bytes, align, tag);
}

static always_inline void *new_nothrow(const char *name, size_t bytes,
				       size_t align, const void *tag)
{
	void *ptr = try_alloc(bytes, align);

	return likely(ptr) ? ptr : nothrow_failure(name, bytes, align, tag);
}

/* Without a C++ library nobody can throw. */
#define CXX_NEW_NOTHROW(name, own)					\
	CXX_FUNCTION(void *, name, size_t n, const void *tag)		\
	{								\
		void *next;						\
									\
		if (likely(!own))					\
			return new_nothrow(#name, n, 1, tag);		\
		next = dlsym(RTLD_NEXT, #name);				\
		return next ? ((nothrow_new *)next)(n, tag) : own(n);	\
	}
#define CXX_NEW_ALIGNED_NOTHROW(name, own)				\
	CXX_FUNCTION(void *, name, size_t n, size_t a, const void *tag)	\
	{								\
		void *next;						\
									\
		if (likely(!own))					\
			return new_nothrow(#name, n, a, tag);		\
		next = dlsym(RTLD_NEXT, #name);				\
		return next ? ((nothrow_new_aligned *)next)(n, a, tag) :\
			      own(n, a);				\
	}

CXX_NEW_NOTHROW(_ZnwmRKSt9nothrow_t, program_new.one)
CXX_NEW_NOTHROW(_ZnamRKSt9nothrow_t, program_new.many)
CXX_NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t,
			program_new.one_aligned)
CXX_NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t,
			program_new.many_aligned)

/* ---- delete: the size and the alignment are not needed; see sized.c ---- */

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

/* Is it the C++ library's, which is found where the archive's names are not? */
static bool is_of_library(void *function)
{
	Dl_info used, library;

	return dladdr(function, &used) &&
	       dladdr((void *)_ZSt15get_new_handlerv, &library) &&
	       used.dli_fbase == library.dli_fbase;
}

/*
 * What the program calls by @name, unless it is @own.  @linked is what this library
 * does: in a program linked with the archive the same, in the shared one always
 * @own (-Bsymbolic-functions).
 */
static void *replaced(const char *name, void *linked, void *own)
{
	void *used = linked == own ? dlsym(RTLD_DEFAULT, name) : linked;

	return !used || used == own || is_of_library(used) ? NULL : used;
}

#define REPLACED(name, own) replaced(#name, (void *)name, (void *)own)

/* Before the constructors of others, which may call them. */
__attribute__((constructor(102)))
static void look_at_the_program(void)
{
	/* Most programs are not C++, and have no such library. */
	if (!_ZSt15get_new_handlerv)
		return;
	program_new.one = REPLACED(_Znwm, own_new);
	program_new.many = REPLACED(_Znam, own_new_many);
	program_new.one_aligned = REPLACED(_ZnwmSt11align_val_t,
					   own_new_aligned);
	program_new.many_aligned = REPLACED(_ZnamSt11align_val_t,
					    own_new_many_aligned);
	program_delete.one = REPLACED(_ZdlPv, own_delete);
	program_delete.many = REPLACED(_ZdaPv, own_delete_many);
	program_delete.one_aligned = REPLACED(_ZdlPvSt11align_val_t,
					      own_delete_aligned);
	program_delete.many_aligned = REPLACED(_ZdaPvSt11align_val_t,
					       own_delete_many_aligned);
	/* What works by one of them is as good as replaced. */
	if (!program_new.many)
		program_new.many = program_new.one;
	if (!program_new.many_aligned)
		program_new.many_aligned = program_new.one_aligned;
	if (!program_delete.many)
		program_delete.many = program_delete.one;
	if (!program_delete.many_aligned)
		program_delete.many_aligned = program_delete.one_aligned;
}
