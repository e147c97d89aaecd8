/* SPDX-License-Identifier: MIT */
/*
 * The C++ operators new and delete, by their names in the Itanium C++ ABI.
 *
 * A program may replace some of them and leave the others, which then work by its own:
 * new[] by its new, delete of a size by its delete.  So an operator that is not
 * replaced asks whether the one below it is (cxx_replaced()); and all are weak, for
 * programs that link the archive.
 *
 * Tests: tests/contract/operators_test.cc, tests/contract/replaced_operators_test.cc,
 * tests/contract/plugin_operators_test.py, tests/misuse/operators, tests/cpp.
 * Page: docs/api/cpp.md.
 */
#ifndef SLUB_CXX_H
#define SLUB_CXX_H

#include "core/malloc/malloc.h"
#include "features/hardened/hardened.h"

#define CXX SLUB_EXPORT __attribute__((weak))

/* The declaration that -Wmissing-prototypes wants, and the definition. */
#define CXX_FUNCTION(type, name, ...)					\
	CXX type name(__VA_ARGS__);					\
	CXX type name(__VA_ARGS__)
/* An operator that others work by: known by a name of our own, too. */
#define CXX_BASE(type, name, own, ...)					\
	CXX type name(__VA_ARGS__) __attribute__((alias(#own)));

/* Before the constructors of others, which may call the operators. */
#define CXX_START __attribute__((constructor(102)))

/* std::get_new_handler(): NULL in a process without a C++ library at its start. */
typedef void (*new_handler)(void);
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));

/* cxx_delete.c */
/*
 * The program's own function @name, or NULL: it has none.  @linked is what this library
 * calls by that name: in a program that is linked with the archive the program's, in
 * the shared library always @own (-Bsymbolic-functions).
 */
void *cxx_replaced(const char *name, void *linked, void *own);
/*
 * Are all forms of operator new this library's?  cxx_new.c says so, which a program that is
 * linked with the archive and has its own leaves out.  After CXX_START.
 */
extern bool cxx_new_is_ours SLUB_INTERNAL;
/*
 * Hardened build: what new and new[] write into the tails of their blocks, and what their deletes
 * want to find there (TAIL_CALL()).  Until the start has looked at the program nobody knows;
 * in a program that has operators of its own they count as malloc's.  Const after start.
 */
struct cxx_calls {
	uint64_t one, many;
};
extern struct cxx_calls cxx_calls SLUB_INTERNAL;
#define CXX_REPLACED(name, own) cxx_replaced(#name, (void *)name, (void *)own)

/*
 * Fills in @program, whose members are the program's own operators, at the start.  @one and
 * @many are the plain operators' names; @own is our name of the first, and the others'
 * beginning.  What works by one of the operators is as good as replaced with it.  Most
 * programs are not C++, and have no library to look for.
 */
#define CXX_LOOK_AT_PROGRAM(program, one_, many_, own)			\
	CXX_START static void look_at_the_program(void)			\
	{								\
		if (!_ZSt15get_new_handlerv)				\
			return;						\
		program.one = CXX_REPLACED(one_, own);			\
		program.many = CXX_REPLACED(many_, own##_many);		\
		program.one_aligned =					\
			CXX_REPLACED(one_##St11align_val_t, own##_aligned); \
		program.many_aligned = CXX_REPLACED(			\
			many_##St11align_val_t, own##_many_aligned);	\
		if (!program.many)					\
			program.many = program.one;			\
		if (!program.many_aligned)				\
			program.many_aligned = program.one_aligned;	\
	}


/* cxx_library.c, which is in the shared library only */
/* The function @name of the C++ library that the code at @caller uses; NULL: none. */
void *cxx_library_function(const char *name, const void *caller);

#endif
