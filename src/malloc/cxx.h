/* SPDX-License-Identifier: MIT */
/*
 * The C++ operators new and delete, by their names in the Itanium C++ ABI.
 *
 * A program may replace some of them and leave the others, which then work by its own:
 * new[] by its new, delete of a size by its delete.  So an operator that is not
 * replaced asks whether the one below it is (cxx_replaced()); and all are weak, for
 * programs that link the archive.
 */
#ifndef SLUB_CXX_H
#define SLUB_CXX_H

#include "malloc/malloc.h"

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
#define CXX_REPLACED(name, own) cxx_replaced(#name, (void *)name, (void *)own)

/* cxx_library.c, which is in the shared library only */
/* The function @name of the C++ library that the code at @caller uses; NULL: none. */
void *cxx_library_function(const char *name, const void *caller);

#endif
