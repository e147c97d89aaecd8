/* SPDX-License-Identifier: MIT */
/*
 * A stack that every thread may push to, a signal handler too, for no lock is taken.  Nothing
 * is ever popped: it is taken whole, or never, so an item that comes back is not mistaken for
 * the one that was there (ABA).
 *
 * Macros, for each stack has items of a type of its own.
 */
#ifndef SLUB_BASE_STACK_H
#define SLUB_BASE_STACK_H

#include "base/compiler.h"

/* @link_ points to the link of @item_. */
#define stack_push(top_, item_, link_)					\
	do {								\
		*(link_) = __atomic_load_n(top_, __ATOMIC_RELAXED);	\
		/* release: pairs with the acquire of a thread that finds the item */ \
	} while (!__atomic_compare_exchange_n(top_, link_, item_, true,	\
					      __ATOMIC_RELEASE,		\
					      __ATOMIC_RELAXED))

#define stack_is_empty(top_) (!__atomic_load_n(top_, __ATOMIC_RELAXED))

/* All items, the last one first; NULL: there is none. */
#define stack_take(top_)						\
	(likely(stack_is_empty(top_)) ? NULL :				\
	 __atomic_exchange_n(top_, NULL, __ATOMIC_ACQUIRE))

#endif
