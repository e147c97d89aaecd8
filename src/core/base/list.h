/* SPDX-License-Identifier: MIT */
/*
 * Lists whose links live in their members: a circular doubly linked one, and a stack.
 *
 * The stack is one that every thread may push to, a signal handler too, for no lock is taken.
 * Nothing is ever popped: it is taken whole, or never, so an item that comes back is not
 * mistaken for the one that was there (ABA).  Macros, for each stack has items of a type of
 * its own.
 */
#ifndef SLUB_BASE_LIST_H
#define SLUB_BASE_LIST_H

#include "core/base/compiler.h"

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_insert(struct list *item, struct list *prev,
			       struct list *next)
{
	item->prev = prev;
	item->next = next;
	/* Whole forwards at each step: a child may find it so after a fork. */
	compiler_barrier();
	prev->next = item;
	next->prev = item;
}

static inline void list_add_head(struct list *head, struct list *item)
{
	list_insert(item, head, head->next);
}

static inline void list_add_tail(struct list *head, struct list *item)
{
	list_insert(item, head->prev, head);
}

/* The item's links are cleared: a second removal would fault at once. */
static inline void list_remove(struct list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	item->next = NULL;
	item->prev = NULL;
}

/* ---- the stack ---- */

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
