/* SPDX-License-Identifier: MIT */
/*
 * The sequences of core/arch/rseq.h in plain C: the specification that the
 * assembly is tested against, and what the backends thread and lock run,
 * on an area that nobody else touches meanwhile.
 *
 * The stores to `head` stay the last ones, for the sake of fork: the child may
 * inherit an area in the middle of a sequence.  All stores to a half are whole
 * words: others glance at them for a count or a guess (features/idle/left.c, percpu_peek).
 */
#ifndef SLUB_ARCH_FALLBACK_SEQUENCE_H
#define SLUB_ARCH_FALLBACK_SEQUENCE_H

#include "core/arch/slot.h"

static inline struct half *area_half(void *area, uintptr_t offset)
{
	return (struct half *)((char *)area + offset);
}

static inline bool area_is_live(const void *area)
{
	return *(const uint32_t *)((const char *)area + AREA_LIVE) != 0;
}

static inline void half_set_room(struct half *half, int32_t room)
{
	__atomic_store_n(&half->room, room, __ATOMIC_RELAXED);
}

/* The room of a whole half, and its limit. */
static inline void half_begin(void *area, uintptr_t offset, int64_t room)
{
	__atomic_store_n((int32_t *)((char *)area + offset + half_limit_at(offset, room)),
			 half_limit(room), __ATOMIC_RELAXED);
	half_set_room(area_half(area, offset), (int32_t)room);
}

static inline void half_commit(struct half *half, void *head)
{
	compiler_barrier();
	__atomic_store_n(&half->head, head, __ATOMIC_RELAXED);
	compiler_barrier();
}

/* The object behind @object in the list at @offset; see link_is_encoded(). */
static inline void *plain_next(uintptr_t offset, uintptr_t link, void *object)
{
	void **place = list_link_of(link, object);

	if (!link_is_encoded(offset, link))
		return *place;
	return (void *)link_decode(offset, place, *place);
}

static inline void plain_set_next(uintptr_t offset, uintptr_t link,
				  void *object, void *next)
{
	void **place = list_link_of(link, object);

	if (link_is_keyed(link))
		link_set_keyed(place, next);
	else if (!link_is_encoded(offset, link))
		*place = next;
	else
		*place = (void *)link_encode(offset, place, next);
}

static inline void *plain_pop(void *area, uintptr_t offset, uintptr_t link)
{
	struct half *half = area_half(area, offset);
	void *object = half->head;
	void *next;

	if (!object)
		return NULL;
	if (link_is_keyed(link) && !key_is_right(list_link_of(link, object)))
		return NULL;
	next = plain_next(offset, link, object);
	if (SLUB_CONFIG_HARDENED && !link_is_plausible((uintptr_t)next))
		return NULL;
	half_set_room(half, half->room + 1);
	half_commit(half, next);
	return object;
}

static inline bool plain_push(void *area, uintptr_t offset, void *object,
			      uintptr_t link)
{
	struct half *half = area_half(area, offset);

	if (half->room <= 0)
		return false;
	plain_set_next(offset, link, object, half->head);
	half_set_room(half, half->room - 1);
	half_commit(half, object);
	return true;
}

/* On a list of slub/percpu.h: room counts down from 0 to @least. */
static inline bool plain_push_bounded(void *area, uintptr_t offset,
				      void *object, int32_t least)
{
	struct half *half = area_half(area, offset);

	if (!area_is_live(area) || half->room <= least)
		return false;
	*(void **)object = half->head;
	half_set_room(half, half->room - 1);
	half_commit(half, object);
	return true;
}

static inline uint32_t plain_pop_bulk(void *area, uintptr_t offset,
				      uintptr_t link, void **objects,
				      uint32_t nr)
{
	struct half *half = area_half(area, offset);
	void *object = half->head;
	uint32_t i;

	for (i = 0; i < nr && object; i++) {
		if (link_is_keyed(link) && !key_is_right(list_link_of(link, object)))
			break;
		objects[i] = object;
		object = *list_link_of(link, object);
	}
	if (i) {
		half_set_room(half, half->room + (int32_t)i);
		half_commit(half, object);
	}
	return i;
}

static inline bool plain_push_bulk(void *area, uintptr_t offset, uintptr_t link, void *head,
				   void **tail_link, uint32_t nr)
{
	struct half *half = area_half(area, offset);

	if (half->room < (int32_t)nr)
		return false;
	if (link_is_keyed(link))
		link_set_keyed(tail_link, half->head);
	else
		*tail_link = half->head;
	half_set_room(half, half->room - (int32_t)nr);
	half_commit(half, head);
	return true;
}

static inline void *plain_take(void *area, uintptr_t offset, int64_t room)
{
	struct half *half = area_half(area, offset);
	void *chain = half->head;

	if (!chain)
		return NULL;
	half_begin(area, offset, room);
	half_commit(half, NULL);
	return chain;
}

static inline bool plain_put(void *area, uintptr_t offset, void *chain,
			     int64_t room)
{
	struct half *half = area_half(area, offset);

	if (!area_is_live(area) || half->head)
		return false;
	half_begin(area, offset, room);
	half_commit(half, chain);
	return true;
}

#endif
