/* SPDX-License-Identifier: MIT */
/* <linux/list.h>, as far as the files of steps use it; written from its documentation. */
#ifndef KERNEL_LIST_H
#define KERNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A ring.  The head is one of it, and no entry. */
struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }

#define container_of(p, type, member)					\
	((type *)((char *)(p) - offsetof(type, member)))

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head->prev = head;
}

static inline void __list_add(struct list_head *entry, struct list_head *prev,
			      struct list_head *next)
{
	entry->prev = prev;
	entry->next = next;
	prev->next = entry;
	next->prev = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	__list_add(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	__list_add(entry, head->prev, head);
}

/* Whoever uses the links of an entry that is in no list gets a fault. */
static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = (struct list_head *)0x100;
	entry->prev = (struct list_head *)0x122;
}

static inline void list_replace(struct list_head *old, struct list_head *entry)
{
	__list_add(entry, old->prev, old->next);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

/* @list's entries behind those of @head; @list is not emptied. */
static inline void list_splice_tail(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->next->prev = head->prev;
	head->prev->next = list->next;
	list->prev->next = head;
	head->prev = list->prev;
}

#define list_entry container_of
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member)			\
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(entry, member)					\
	list_entry((entry)->member.next, __typeof__(*(entry)), member)
#define list_prev_entry(entry, member)					\
	list_entry((entry)->member.prev, __typeof__(*(entry)), member)

#define list_for_each(link, head)					\
	for (link = (head)->next; link != (head); link = link->next)
#define list_for_each_entry_from(entry, head, member)			\
	for (; &(entry)->member != (head); entry = list_next_entry(entry, member))
#define list_for_each_entry_from_reverse(entry, head, member)		\
	for (; &(entry)->member != (head); entry = list_prev_entry(entry, member))
#define list_for_each_entry(entry, head, member)			\
	for (entry = list_first_entry(head, __typeof__(*(entry)), member); \
	     &(entry)->member != (head); entry = list_next_entry(entry, member))
#define list_for_each_entry_reverse(entry, head, member)		\
	for (entry = list_last_entry(head, __typeof__(*(entry)), member); \
	     &(entry)->member != (head); entry = list_prev_entry(entry, member))
#define list_for_each_entry_continue(entry, head, member)		\
	for (entry = list_next_entry(entry, member);			\
	     &(entry)->member != (head); entry = list_next_entry(entry, member))
#define list_for_each_entry_safe(entry, after, head, member)		\
	for (entry = list_first_entry(head, __typeof__(*(entry)), member), \
	     after = list_next_entry(entry, member);			\
	     &(entry)->member != (head);				\
	     entry = after, after = list_next_entry(after, member))

#endif
