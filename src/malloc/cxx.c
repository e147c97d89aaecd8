/* SPDX-License-Identifier: MIT */
/*
 * The C++ operators new and delete, by their names in the Itanium C++ ABI.
 *
 * Where memory is short, the new_handler is called and the request tried again
 * until there is none, then std::bad_alloc is thrown, or nullptr returned by
 * the nothrow forms.  Both come from the program's libstdc++ or libc++, to
 * which there are weak references only.
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
	bool is_zero;

	if (align <= MALLOC_ALIGN)
		return fast_alloc(bytes);
	if (!is_power_of_two(align))
		return NULL;
	return slow_alloc_aligned(bytes, align, &is_zero);
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

typedef void *nothrow_new(size_t bytes, const void *tag);
typedef void *nothrow_new_aligned(size_t bytes, size_t align, const void *tag);

/*
 * A handler may throw, and the nothrow forms have to catch it, which C cannot
 * say.  The C++ library's own form can: it calls operator new, which is the one
 * above, and catches.
 */
static cold void *nothrow_failure(const char *name, size_t bytes, size_t align,
				  const void *tag)
{
	void *next = dlsym(RTLD_NEXT, name);

	if (!next || !current_handler())
		return NULL;
	if (align <= MALLOC_ALIGN)
		return ((nothrow_new *)next)(bytes, tag);
	return ((nothrow_new_aligned *)next)(bytes, align, tag);
}

static always_inline void *new_nothrow(const char *name, size_t bytes,
				       size_t align, const void *tag)
{
	void *ptr = try_alloc(bytes, align);

	return likely(ptr) ? ptr : nothrow_failure(name, bytes, align, tag);
}

#define CXX SLUB_EXPORT

/* The declaration that -Wmissing-prototypes wants, and the definition. */
#define CXX_NEW(name)							\
	CXX void *name(size_t n);					\
	CXX void *name(size_t n) { return new_object(n, 1); }
#define CXX_NEW_ALIGNED(name)						\
	CXX void *name(size_t n, size_t a);				\
	CXX void *name(size_t n, size_t a) { return new_object(n, a); }
#define CXX_NEW_NOTHROW(name)						\
	CXX void *name(size_t n, const void *t);			\
	CXX void *name(size_t n, const void *t)				\
	{								\
		return new_nothrow(#name, n, 1, t);			\
	}
#define CXX_NEW_ALIGNED_NOTHROW(name)					\
	CXX void *name(size_t n, size_t a, const void *t);		\
	CXX void *name(size_t n, size_t a, const void *t)		\
	{								\
		return new_nothrow(#name, n, a, t);			\
	}

CXX_NEW(_Znwm)
CXX_NEW(_Znam)
CXX_NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
CXX_NEW_NOTHROW(_ZnamRKSt9nothrow_t)
CXX_NEW_ALIGNED(_ZnwmSt11align_val_t)
CXX_NEW_ALIGNED(_ZnamSt11align_val_t)
CXX_NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
CXX_NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

/* delete: the size and the alignment are not needed; see sized.c */
#define CXX_DELETE(name, ...)						\
	CXX void name(void *ptr, ##__VA_ARGS__);			\
	CXX void name(void *ptr, ##__VA_ARGS__) { fast_free(ptr); }
#define CXX_DELETE_SIZED(name, align, ...)				\
	CXX void name(void *ptr, size_t n, ##__VA_ARGS__);		\
	CXX void name(void *ptr, size_t n, ##__VA_ARGS__)		\
	{								\
		fast_free_sized(ptr, n, align);				\
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
CXX_DELETE(_ZdlPv)
CXX_DELETE(_ZdaPv)
CXX_DELETE_SIZED(_ZdlPvm, 0)
CXX_DELETE_SIZED(_ZdaPvm, 0)
CXX_DELETE(_ZdlPvRKSt9nothrow_t, const void *t)
CXX_DELETE(_ZdaPvRKSt9nothrow_t, const void *t)
CXX_DELETE(_ZdlPvSt11align_val_t, size_t a)
CXX_DELETE(_ZdaPvSt11align_val_t, size_t a)
CXX_DELETE_SIZED(_ZdlPvmSt11align_val_t, a, size_t a)
CXX_DELETE_SIZED(_ZdaPvmSt11align_val_t, a, size_t a)
CXX_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, size_t a, const void *t)
CXX_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, size_t a, const void *t)
