/* SPDX-License-Identifier: MIT */
/*
 * The sequences as functions, for every CPU: what core/arch/rseq.h promises of each, made of the
 * statements that the CPU's own rseq.h has.  A statement ends in one of three ways: it goes on,
 * or to the label `failed` or `aborted` around it.  @slot_ enters as the offset and is clobbered.
 *
 *   RSEQ_POP_IN(entrance, object, slot, t), RSEQ_PUSH_IN(...)            the link in the first word
 *   RSEQ_POP_LINK(object, slot, t, link), RSEQ_PUSH_LINK(...)            elsewhere in the object
 *   RSEQ_POP_PAGE(object, slot, t, bias), RSEQ_PUSH_PAGE(..., place)     in the table of pages
 *   RSEQ_POP_PAGE_AT(object, slot, t, at, bias)                          and the page's number
 *   RSEQ_POP_KEY_IN(entrance, object, slot, t, key), RSEQ_PUSH_KEY_IN(...)  and a check word
 *   RSEQ_POP_TAIL_IN(entrance, object, slot, t, key), RSEQ_PUSH_TAIL_IN(...)  with the link's key:
 *                                    of the hardened build; pop leaves the tail's offset in t too
 *   RSEQ_POP_LIVE(object, slot, t), RSEQ_PUSH_BOUNDED(object, slot, t, least)  beyond the slots
 *   RSEQ_TAKE(chain, slot, t, room, limit, at), RSEQ_PUT(...)            a whole half
 *   RSEQ_POP_BULK(i, slot, objects, nr, link)                            several objects
 *   RSEQ_PUSH_BULK(slot, head, tail_link, nr)
 *   RSEQ_POP_BULK_KEY(i, slot, objects, nr, key), RSEQ_PUSH_BULK_KEY(slot, head, tail, nr, key)
 *   RSEQ_POP_BULK_LINK_KEY(i, slot, objects, nr, link, key)              tail: the last one's link
 *   RSEQ_ADD, RSEQ_FETCH_ADD, RSEQ_CMPXCHG(suffix, modifier, offset, ...)  a word
 */
#ifndef SLUB_ARCH_RSEQ_FUNCTION_H
#define SLUB_ARCH_RSEQ_FUNCTION_H

#define RSEQ_POP(object_, slot_, t_)					\
	RSEQ_POP_IN(SLUB_SEQ_SELF, object_, slot_, t_)
#define RSEQ_PUSH(object_, slot_, t_)					\
	RSEQ_PUSH_IN(SLUB_SEQ_SELF, object_, slot_, t_)

#define RSEQ_OBJECT_FUNCTION(name_, arguments_, statement_)		\
static always_inline void *name_ arguments_				\
{									\
	uintptr_t slot = offset, t;					\
	void *object;							\
									\
	statement_;							\
	return object;							\
failed:									\
	return sequence_end(NULL);					\
aborted:								\
	return sequence_end(SEQUENCE_ABORTED);				\
}

#define RSEQ_RESULT_FUNCTION(name_, arguments_, statement_)		\
static always_inline enum sequence_result name_ arguments_		\
{									\
	uintptr_t slot = offset, t;					\
									\
	statement_;							\
	return SEQUENCE_DONE;						\
failed:									\
	return SEQUENCE_FAILED;						\
aborted:								\
	return SEQUENCE_RESTART;					\
}

RSEQ_OBJECT_FUNCTION(rseq_pop, (uintptr_t offset), RSEQ_POP(object, slot, t))
RSEQ_RESULT_FUNCTION(rseq_push, (uintptr_t offset, void *object),
		     RSEQ_PUSH(object, slot, t))
/* From a list beyond the slots, where the dummy area ends. */
RSEQ_OBJECT_FUNCTION(rseq_pop_live, (uintptr_t offset),
		     RSEQ_POP_LIVE(object, slot, t))
/* With the link @link bytes into the object. */
RSEQ_OBJECT_FUNCTION(rseq_pop_link, (uintptr_t offset, uintptr_t link),
		     RSEQ_POP_LINK(object, slot, t, link))
RSEQ_RESULT_FUNCTION(rseq_push_link,
		     (uintptr_t offset, void *object, uintptr_t link),
		     RSEQ_PUSH_LINK(object, slot, t, link))
/* With a check word. */
RSEQ_OBJECT_FUNCTION(rseq_pop_key, (uintptr_t offset),
		     RSEQ_POP_KEY_IN(SLUB_SEQ_SELF, object, slot, t, slub_key))
RSEQ_RESULT_FUNCTION(rseq_push_key, (uintptr_t offset, void *object),
		     RSEQ_PUSH_KEY_IN(SLUB_SEQ_SELF, object, slot, t, slub_key))
/* With the link in the table of pages; see slot.h. */
RSEQ_OBJECT_FUNCTION(rseq_pop_page, (uintptr_t offset, uintptr_t bias),
		     RSEQ_POP_PAGE(object, slot, t, bias))
RSEQ_RESULT_FUNCTION(rseq_push_page,
		     (uintptr_t offset, void *object, uintptr_t bias),
		     RSEQ_PUSH_PAGE(object, slot, t, page_link(bias, object)))
/* Onto such a list, whose room counts down from 0 to @least. */
RSEQ_RESULT_FUNCTION(rseq_push_bounded,
		     (uintptr_t offset, void *object, int32_t least),
		     RSEQ_PUSH_BOUNDED(object, slot, t, least))
RSEQ_OBJECT_FUNCTION(rseq_take, (uintptr_t offset, int64_t room),
		     RSEQ_TAKE(object, slot, t, (int32_t)room, half_limit(room),
			       half_limit_at(offset, room)))
RSEQ_RESULT_FUNCTION(rseq_put, (uintptr_t offset, void *chain, int64_t room),
		     RSEQ_PUT(chain, slot, t, (int32_t)room, half_limit(room),
			      half_limit_at(offset, room)))

/*
 * Takes up to @nr objects off the list at @slot into @objects; returns how many, 0
 * for an empty list and where percpu_remember() is to be called, -1 for an abort.  The
 * stores to @objects are the caller's own memory: a restart writes them again.
 */
static always_inline long rseq_pop_bulk(uintptr_t slot, void **objects,
					long nr, uintptr_t link)
{
	long i;	/* from -nr up to 0, counted from the end of @objects */

	RSEQ_POP_BULK(i, slot, objects, nr, link);
	return i;
failed:
	return (long)sequence_end(NULL);
aborted:
	return (long)sequence_end((void *)-1l);
}

/* The same of objects with check words; 0 also where one of them is wrong. */
static always_inline long rseq_pop_bulk_key(uintptr_t slot, void **objects, long nr)
{
	long i;

	RSEQ_POP_BULK_KEY(i, slot, objects, nr, slub_key);
	return i;
failed:
	return (long)sequence_end(NULL);
aborted:
	return (long)sequence_end((void *)-1l);
}

/* ... behind links @link bytes into the objects. */
static always_inline long rseq_pop_bulk_link_key(uintptr_t slot, void **objects, long nr,
						 uintptr_t link)
{
	long i;

	RSEQ_POP_BULK_LINK_KEY(i, slot, objects, nr, link, slub_key);
	return i;
failed:
	return (long)sequence_end(NULL);
aborted:
	return (long)sequence_end((void *)-1l);
}

/*
 * Puts the chain of @nr objects from @head to the one with @tail_link in front of the list at
 * @slot if there is room for all of them; fails also where percpu_remember() is to be called.
 */
static always_inline enum sequence_result
rseq_push_bulk(uintptr_t slot, void *head, void **tail_link, int32_t nr)
{
	RSEQ_PUSH_BULK(slot, head, tail_link, nr);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

/* The same with check words. */
static always_inline enum sequence_result
rseq_push_bulk_key(uintptr_t slot, void *head, void **tail_link, int32_t nr)
{
	RSEQ_PUSH_BULK_KEY(slot, head, tail_link, nr, slub_key);
	return SEQUENCE_DONE;
failed:
	return SEQUENCE_FAILED;
aborted:
	return SEQUENCE_RESTART;
}

#endif
