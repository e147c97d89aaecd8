/* SPDX-License-Identifier: MIT */
/* A circular doubly linked list whose links live in its members. */
#ifndef SLUB_BASE_LIST_H
#define SLUB_BASE_LIST_H

#include "base/compiler.h"

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

#endif
