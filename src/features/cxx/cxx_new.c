/* SPDX-License-Identifier: MIT */
/*
 * The forms of C++'s operator new: the fast path of malloc() without the C++ library's two calls.
 *
 * A request that fails goes on in the same operator of the caller's own C++ library
 * (cxx_library.c), for C can neither throw nor catch.  That operator calls malloc() once
 * more, then the new_handler as long as there is one, and throws std::bad_alloc; its
 * nothrow form catches that.
 *
 * Only in the shared library: a program that links the archive has the operators of its
 * C++ library, for a static library could not be found at the moment of the failure.
 */
#include <stdlib.h>

#include "features/cxx/cxx.h"

/* The program's own; NULL: it has none.  Const after start. */
static struct {
	void *(*one)(size_t n);
	void *(*many)(size_t n);
	void *(*one_aligned)(size_t n, size_t align);
	void *(*many_aligned)(size_t n, size_t align);
} program_new;

static void *try_aligned(size_t bytes, size_t align)
{
	if (align <= MALLOC_ALIGN)
		return fast_alloc(bytes);
	return is_power_of_two(align) ? alloc_aligned(bytes, align) : NULL;
}

/* ---- a program linked with the shared library and with a static C++ library ---- */

/*
 * Its operators are ours, so the linker left the static library's out.  The weak references
 * make the linker export the other parts: the handler if the program sets one, and the
 * exception if the program catches it.
 */
extern void *__cxa_allocate_exception(size_t bytes) __attribute__((weak));
extern void __cxa_throw(void *exception, void *type, void (*end)(void *))
	__attribute__((weak));
extern void *_ZTVSt9bad_alloc[] __attribute__((weak));	/* its table, */
extern char _ZTISt9bad_alloc[] __attribute__((weak));	/* type */
extern void _ZNSt9bad_allocD1Ev(void *) __attribute__((weak));	/* and destructor */

static cold void throw_bad_alloc(void)
{
	void **exception;

	if (__cxa_allocate_exception && __cxa_throw && _ZTVSt9bad_alloc &&
	    _ZTISt9bad_alloc && _ZNSt9bad_allocD1Ev) {
		exception = __cxa_allocate_exception(sizeof(void *));
		*exception = &_ZTVSt9bad_alloc[2];
		__cxa_throw(exception, _ZTISt9bad_alloc, _ZNSt9bad_allocD1Ev);
	}
	log_always("operator new: out of memory, and no C++ library to throw "
		   "std::bad_alloc");
	abort();
}

static cold void *handle_failure(size_t bytes, size_t align)
{
	void *ptr;

	do {
		new_handler handler = _ZSt15get_new_handlerv ?
					      _ZSt15get_new_handlerv() : NULL;

		if (!handler)
			throw_bad_alloc();
		handler();
		ptr = try_aligned(bytes, align);
	} while (!ptr);
	return ptr;
}

/* ---- new ---- */

typedef void *plain_new(size_t n);
typedef void *aligned_new(size_t n, size_t align);

/* @ptr, which may be NULL, is asked for by the operator of @call. */
static always_inline void *called(void *ptr, uint64_t call)
{
	if (SLUB_CONFIG_HARDENED && likely(ptr))
		hardened_called(ptr, call);
	return ptr;
}

/* The C++ library's operator has got @ptr by malloc(), or by another operator. */
static cold void *called_again(void *ptr, uint64_t call)
{
	if (SLUB_CONFIG_HARDENED && ptr)
		hardened_called(ptr, hardened_call(ptr) ^ call);
	return ptr;
}

static cold void *fail(const char *name, size_t n, const void *caller)
{
	plain_new *next = (plain_new *)cxx_library_function(name, caller);

	return next ? next(n) : handle_failure(n, 1);
}

/*
 * libstdc++ 12 rounds a size up to the alignment without a look at an overflow, and would
 * find memory for 0 bytes.  This size fails as well, and does not overflow.
 */
static size_t size_to_round(size_t n)
{
	return min_size(n, PTRDIFF_MAX);
}

static cold void *fail_aligned(const char *name, size_t n, size_t align,
			       const void *caller)
{
	aligned_new *next = (aligned_new *)cxx_library_function(name, caller);

	return next ? next(size_to_round(n), align) : handle_failure(n, align);
}

#define CALLER __builtin_return_address(0)

code_in(new) static void *own_new(size_t n)
{
	void *ptr = called(fast_alloc(n), cxx_calls.one);

	return likely(ptr) ? ptr : called_again(fail("_Znwm", n, CALLER),
						cxx_calls.one);
}

code_in(new_many) static void *own_new_many(size_t n)
{
	void *ptr;

	if (unlikely(program_new.one))
		return program_new.one(n);
	ptr = called(fast_alloc(n), cxx_calls.many);
	return likely(ptr) ? ptr : called_again(fail("_Znam", n, CALLER),
						cxx_calls.many);
}

code_in(new) static void *own_new_aligned(size_t n, size_t align)
{
	void *ptr = called(try_aligned(n, align), cxx_calls.one);

	return likely(ptr) ? ptr :
		called_again(fail_aligned("_ZnwmSt11align_val_t", n, align,
					  CALLER), cxx_calls.one);
}

code_in(new_many) static void *own_new_many_aligned(size_t n, size_t align)
{
	void *ptr;

	if (unlikely(program_new.one_aligned))
		return program_new.one_aligned(n, align);
	ptr = called(try_aligned(n, align), cxx_calls.many);
	return likely(ptr) ? ptr :
		called_again(fail_aligned("_ZnamSt11align_val_t", n, align,
					  CALLER), cxx_calls.many);
}

CXX_BASE(void *, _Znwm, own_new, size_t n)
CXX_BASE(void *, _Znam, own_new_many, size_t n)
CXX_BASE(void *, _ZnwmSt11align_val_t, own_new_aligned, size_t n, size_t a)
CXX_BASE(void *, _ZnamSt11align_val_t, own_new_many_aligned, size_t n, size_t a)

/* ---- new that does not throw ---- */

typedef void *nothrow_new(size_t n, const void *tag);
typedef void *nothrow_new_aligned(size_t n, size_t align, const void *tag);

/* Where no C++ library is found nothing catches, so the handler is not called. */
static cold void *fail_nothrow(const char *name, plain_new *own, size_t n,
			       const void *tag, const void *caller)
{
	nothrow_new *next = (nothrow_new *)cxx_library_function(name, caller);

	if (next)
		return next(n, tag);
	return own ? own(n) : NULL;
}

static cold void *fail_nothrow_aligned(const char *name, aligned_new *own,
				       size_t n, size_t align, const void *tag,
				       const void *caller)
{
	nothrow_new_aligned *next =
		(nothrow_new_aligned *)cxx_library_function(name, caller);

	if (next)
		return next(size_to_round(n), align, tag);
	return own ? own(n, align) : NULL;
}

/* The C++ library's form works by the program's operator new, and catches. */
#define CXX_NEW_NOTHROW(name, which, section)				\
	code_in(section) CXX_FUNCTION(void *, name, size_t n, const void *tag)		\
	{								\
		void *ptr = likely(!program_new.which) ? fast_alloc(n) : NULL; \
									\
		if (likely(ptr))					\
			return called(ptr, cxx_calls.which);		\
		return called_again(fail_nothrow(#name, program_new.which, n, \
						 tag, CALLER),		\
				    cxx_calls.which);			\
	}
#define CXX_NEW_ALIGNED_NOTHROW(name, which, section)			\
	code_in(section) CXX_FUNCTION(void *, name, size_t n, size_t a, const void *tag)	\
	{								\
		void *ptr = likely(!program_new.which##_aligned) ?	\
				    try_aligned(n, a) : NULL;		\
									\
		if (likely(ptr))					\
			return called(ptr, cxx_calls.which);		\
		return called_again(fail_nothrow_aligned(#name,		\
				    program_new.which##_aligned, n, a, tag, \
				    CALLER), cxx_calls.which);		\
	}

CXX_NEW_NOTHROW(_ZnwmRKSt9nothrow_t, one, new)
CXX_NEW_NOTHROW(_ZnamRKSt9nothrow_t, many, new_many)
CXX_NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, one, new)
CXX_NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, many, new_many)

/* ---- start ---- */

CXX_LOOK_AT_PROGRAM(program_new, _Znwm, _Znam, own_new)

/* Behind the look at the program, and before the deletes' (104). */
__attribute__((constructor(103))) static void tell_deletes(void)
{
	cxx_new_is_ours = !program_new.one && !program_new.many &&
			  !program_new.one_aligned &&
			  !program_new.many_aligned;
}
