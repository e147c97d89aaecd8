/* SPDX-License-Identifier: MIT */
/* Objects for lists to hold. */
#ifndef SLUB_TESTS_UNIT_OBJECTS_H
#define SLUB_TESTS_UNIT_OBJECTS_H

#include <vector>

#include "slub.h"

/*
 * Where they are linked: in their first words, a page each in a table, in their first words beside
 * check words, or so behind what they keep.
 */
enum linked { LINKED_OWN, LINKED_PAGED, LINKED_KEYED, LINKED_BEHIND };
#define LINKED_WAYS (KEYS ? 4 : 2)
inline const char *linked_name(int how)
{
	static const char *const names[] = { "own", "paged", "keyed", "behind" };

	return names[how];
}

struct objects {
	size_t nr, stride;
	char *start;
	void **links;
	uintptr_t bias;		/* what the operations on lists are told */
	uintptr_t list;		/* links are as they are in the lists of this slot */

	/* Beyond the slots no build encodes links. */
	objects(size_t count, int how, uintptr_t slot = AREA_BYTES)
		: nr(count), stride(how == LINKED_PAGED ? 4096 : 64), list(slot)
	{
		start = (char *)os_reserve(nr * stride);
		links = (void **)calloc(nr, sizeof(*links));
		if (!start || os_commit(start, nr * stride))
			abort();
		bias = how == LINKED_PAGED ? (uintptr_t)links -
			((uintptr_t)start >> LINK_PAGE_SHIFT) * sizeof(*links) :
		       how == LINKED_KEYED ? LINK_KEYED :
		       how == LINKED_BEHIND ? 40 | LINK_KEYED : 0;
	}
	objects(const objects &) = delete;
	~objects()
	{
		os_unreserve(start, nr * stride);
		free(links);
	}
	void *at(size_t i) const { return start + i * stride; }
	/* -1 for NULL, -2 for what is none of these. */
	long index(const void *object) const
	{
		size_t offset = (size_t)((const char *)object - start);

		if (!object)
			return -1;
		return offset < nr * stride && offset % stride == 0 ?
		       (long)(offset / stride) : -2;
	}
	void *&link(void *object) const { return *list_link_of(bias, object); }
	uintptr_t &key(void *object) const { return *key_of(&link(object)); }
	void *next(void *object) const
	{
		void *const &word = link(object);

		return link_is_encoded(list, bias) ? (void *)link_decode(list, &word, word) : word;
	}
	void set_next(void *object, void *to) const
	{
		void *&word = link(object);

		if (link_is_keyed(bias))
			link_set_keyed(&word, to);
		else
			word = link_is_encoded(list, bias) ?
				       (void *)link_encode(list, &word, to) : to;
	}
	/* Links the numbered objects; NULL for none. */
	void *chain(const std::vector<size_t> &numbers) const
	{
		void *head = nullptr;

		for (size_t i = numbers.size(); i-- > 0;) {
			set_next(at(numbers[i]), head);
			head = at(numbers[i]);
		}
		return head;
	}
	/* The numbers along a chain; stops at what is no object or comes round again. */
	std::vector<long> walk(void *head) const
	{
		std::vector<long> list;

		for (; head && list.size() <= nr; head = next(head)) {
			list.push_back(index(head));
			if (list.back() < 0)
				break;
		}
		return list;
	}
};

/* What is taken off one CPU, by slots; nullptr: nothing can be. */
inline struct slot *collect_cpu(struct collection *all, uint32_t cid)
{
	all->from = COLLECT_ALL;
	all->next = cid;
	all->end = cid + 1;
	return percpu_collect(all) && all->nr_lists ? all->lists - 1 : nullptr;
}

#endif
