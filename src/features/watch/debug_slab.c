/* SPDX-License-Identifier: MIT */
/*
 * Slabs of watched objects.  A new slab is written in full, its freelist is
 * whole from the start, and it changes under the node's lock only.
 */
#include "features/groups/owned.h"
#include "features/watch/watch.h"

#include <string.h>

/* ---- places ---- */

uint32_t watched_index(const struct slub_cache *twin, struct page *slab,
		       const void *object)
{
	return (uint32_t)((size_t)((const char *)object -
				   (char *)page_address(slab)) / twin->size);
}

bool watched_is_object(const struct slub_cache *twin, struct page *slab,
		       const void *object)
{
	uintptr_t offset = (uintptr_t)object - (uintptr_t)page_address(slab) -
			   watch_left(twin);

	return offset % twin->size == 0 && offset / twin->size < twin->objects;
}

void case_slab(struct debug_case *found, const struct slub_cache *twin,
	       struct page *slab)
{
	struct double_word state = slab_read(slab);

	found->slab = (struct debug_slab){
		.start = page_address(slab),
		.bytes = PAGE_BYTES << twin->order,
		.page = slab,
		.objects = state_objects(state),
		.inuse = state_inuse(state),
		.freelist = (void *)state.first,
	};
}

void watched_set_state(struct page *slab, void *first, uintptr_t counters)
{
	struct double_word old = slab_read(slab);
	struct double_word new = { (uintptr_t)first, counters };

	while (!slab_update(slab, &old, new))
		;
}

/* ---- a slab comes and goes ---- */

static char *padding_start(const struct slub_cache *twin, struct page *slab)
{
	return (char *)page_address(slab) +
	       (size_t)twin->objects * twin->size;
}

static char *slab_end(const struct slub_cache *twin, struct page *slab)
{
	return (char *)page_address(slab) + (PAGE_BYTES << twin->order);
}

static void init_objects(struct slub_cache *twin, struct page *slab)
{
	char *padding = padding_start(twin, slab);

	for (uint32_t i = 0; i < twin->objects; i++) {
		char *object = watched_object(twin, slab, i);

		object_init(twin->debug, object - watch_left(twin));
		if (twin->is_accounted)
			*object_owner(twin, object) = OWNER_FREE;
		/* A constructor may allocate; no lock is held. */
		if (twin->ctor)
			twin->ctor(object);
		*link_of(twin, object) = i + 1 < twin->objects ?
			watched_object(twin, slab, i + 1) : NULL;
	}
	if (twin->debug->flags & SLUB_CACHE_POISON)
		memset(padding, DEBUG_PADDING,
		       (size_t)(slab_end(twin, slab) - padding));
}

struct page *watched_slab_new(struct slub_cache *twin, uint32_t node)
{
	void *block = block_alloc_touched(twin->order, node);
	struct page *slab;

	if (!block)
		return NULL;
	slab = page_of(block);
	page_flags_write(slab, page_flags_make(TYPE_SLAB, twin->order, node));
	sanitizer_slab(block, PAGE_BYTES << twin->order, SANITIZER_SLAB_BEGINS);
	/* Not before it is on a list does the page map name it. */
	init_objects(twin, slab);
	sanitizer_slab(block, PAGE_BYTES << twin->order, SANITIZER_SLAB_READY);
	slab_count_set(slab, twin->objects);
	watched_set_state(slab, watched_object(twin, slab, 0),
			  state_make(twin->objects, 0));
	stat_add(twin, STAT_SLAB_ALLOC);
	return slab;
}

void watched_slab_discard(struct slub_cache *twin, struct page *slab)
{
	uint32_t node = page_node(slab);

	stat_add(twin, STAT_SLAB_FREE);
	sanitizer_slab(page_address(slab), PAGE_BYTES << twin->order, SANITIZER_SLAB_ENDS);
	page_flags_write(slab, 0);
	block_free(page_address(slab), twin->order, node);
}

/* ---- the freelist ---- */

static void set_inuse(struct page *slab, uint32_t inuse)
{
	struct double_word state = slab_read(slab);

	watched_set_state(slab, (void *)state.first,
			  (state.second & ~STATE_COUNT_MASK) | inuse);
}

static void marks_add(struct free_marks *marks, uint32_t i, void *object)
{
	marks->words[i / 64] |= 1ull << i % 64;
	marks->nr++;
	marks->last = object;
}

/*
 * The objects that a list that was cut has lost: their zones still say that
 * they are free.
 */
static void freelist_mend(struct debug_case *found,
			  const struct slub_cache *twin, struct page *slab,
			  struct free_marks *marks)
{
	const struct debug_layout *layout = twin->debug;
	uint32_t nr = 0;

	if (!(layout->flags & SLUB_CACHE_RED_ZONE))
		return;
	for (uint32_t i = 0; i < twin->objects; i++) {
		char *object = watched_object(twin, slab, i);

		if (mark_is_set(marks, i) ||
		    (unsigned char)object[-1] != DEBUG_ZONE_FREE)
			continue;
		*link_of(twin, object) = NULL;
		if (marks->last)
			*link_of(twin, marks->last) = object;
		else
			watched_set_state(slab, object,
					  slab_read(slab).second);
		marks_add(marks, i, object);
		nr++;
	}
	report_fix(found, "%u free objects found by their zones", nr);
}

void *watched_mark_free(const struct slub_cache *twin, struct page *slab,
			struct free_marks *marks)
{
	void *object = (void *)slab_read(slab).first;

	memset(marks, 0, sizeof(*marks));
	while (object && watched_is_object(twin, slab, object)) {
		uint32_t i = watched_index(twin, slab, object);

		if (mark_is_set(marks, i))
			break;
		marks_add(marks, i, object);
		object = *link_of(twin, object);
	}
	return object;
}

static void walk_freelist(struct debug_case *found,
			  const struct slub_cache *twin, struct page *slab,
			  struct free_marks *marks)
{
	void *wrong = watched_mark_free(twin, slab, marks);
	void *last = marks->last;

	if (!wrong)
		return;
	if (watched_is_object(twin, slab, wrong))
		report_bug(found, last, "Freelist cycle at %p", wrong);
	else if (last)
		report_bug(found, last, "Freechain corrupt");
	else
		report_bug(found, NULL, "Freepointer corrupt");
	/* The list ends behind @last, or before its first. */
	if (last)
		*link_of(twin, last) = NULL;
	else
		watched_set_state(slab, NULL, slab_read(slab).second);
	freelist_mend(found, twin, slab, marks);
}

static void check_freelist(struct debug_case *found,
			   const struct slub_cache *twin, struct page *slab,
			   struct free_marks *marks)
{
	uint32_t inuse;

	walk_freelist(found, twin, slab, marks);
	inuse = state_inuse(slab_read(slab));
	if (inuse == twin->objects - marks->nr)
		return;
	report_bug(found, NULL, "Wrong object count. Counter is %u but "
		   "counted were %u", inuse, twin->objects - marks->nr);
	set_inuse(slab, twin->objects - marks->nr);
	report_fix(found, "Object count adjusted");
}

/* ---- the slab ---- */

void watched_check_slab(struct debug_case *found,
			const struct slub_cache *twin, struct page *slab)
{
	struct double_word state = slab_read(slab);

	case_slab(found, twin, slab);
	if (page_type(slab) != TYPE_SLAB || page_order(slab) != twin->order) {
		report_bug(found, NULL, "Not a valid slab page, flags=0x%x",
			   page_flags_read(slab));
		page_flags_write(slab, page_flags_make(TYPE_SLAB, twin->order,
						       page_node(slab)));
		report_fix(found, "Flags of the slab restored");
	}
	if (state_objects(state) != twin->objects) {
		report_bug(found, NULL, "Wrong number of objects. Found %u "
			   "but should be %u", state_objects(state),
			   twin->objects);
		watched_set_state(slab, (void *)state.first,
				  state_make(twin->objects, state.second &
					     (STATE_FROZEN | STATE_LISTED |
					      STATE_COUNT_MASK)));
		report_fix(found, "Number of objects adjusted");
	}
	if (slab->count != twin->objects) {
		report_bug(found, NULL, "Wrong number of objects made. Found "
			   "%u but should be %u", slab->count, twin->objects);
		slab_count_set(slab, twin->objects);
		report_fix(found, "Number of objects adjusted");
	}
	if (state_inuse(state) > twin->objects) {
		struct free_marks marks;

		report_bug(found, NULL, "inuse %u > max %u",
			   state_inuse(state), twin->objects);
		walk_freelist(found, twin, slab, &marks);
		set_inuse(slab, twin->objects - marks.nr);
		report_fix(found, "Object count adjusted");
	}
}

void watched_check(struct debug_case *found, const struct slub_cache *twin,
		   struct page *slab, struct free_marks *marks)
{
	watched_check_slab(found, twin, slab);
	check_freelist(found, twin, slab, marks);
}

void watched_validate(struct debug_case *found, const struct slub_cache *twin,
		      struct page *slab)
{
	struct free_marks marks;

	watched_check(found, twin, slab, &marks);
	for (uint32_t i = 0; i < twin->objects; i++)
		object_check(found, watched_object(twin, slab, i),
			     mark_is_set(&marks, i) ? OBJECT_FREE :
						      OBJECT_USED);
	object_check_padding(found, padding_start(twin, slab),
			     slab_end(twin, slab));
}
