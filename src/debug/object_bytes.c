/* SPDX-License-Identifier: MIT */
/*
 * The bytes around an object, and in a free one: writing them, checking them.
 */
#include "debug/debug.h"

#include <string.h>

void object_set_requested(const struct debug_layout *layout, void *object,
			  size_t size)
{
	uint64_t value = size;

	if (layout->size)
		memcpy((char *)object + layout->size, &value, sizeof(value));
}

static bool has_poison(const struct debug_layout *layout)
{
	return (layout->flags & (SLUB_CACHE_POISON | DEBUG_KEPT)) == SLUB_CACHE_POISON;
}

static void poison(const struct debug_layout *layout, unsigned char *object,
		   size_t size)
{
	if (!has_poison(layout) || !size)
		return;
	memset(object, DEBUG_POISON, size - 1);
	object[size - 1] = DEBUG_POISON_END;
}

void object_mark(const struct debug_layout *layout, void *object,
		 enum object_state state, size_t size)
{
	unsigned char zone = state == OBJECT_USED ? DEBUG_ZONE_USED :
						    DEBUG_ZONE_FREE;
	unsigned char *o = object;
	size_t used = layout->object_size;

	if (layout->size) {
		object_set_requested(layout, object, size);
		if (state == OBJECT_USED)
			used = size;
	}
	poison(layout, o, used);
	if (!(layout->flags & SLUB_CACHE_RED_ZONE))
		return;
	memset(o - layout->left, zone, layout->left);
	memset(o + used, zone, layout->inuse - used);
}

void object_init(const struct debug_layout *layout, char *place)
{
	char *object = place + layout->left;

	if (layout->flags & SLUB_CACHE_POISON)
		memset(place, DEBUG_PADDING, layout->stride);
	if (layout->track)
		memset(object + layout->track, 0, 2 * sizeof(struct track));
	object_mark(layout, object, OBJECT_FREE, 0);
}

/* The first of @n bytes that is not @right; NULL: all are. */
static const unsigned char *first_wrong(const unsigned char *p, size_t n,
					unsigned char right)
{
	const uint64_t word = right * 0x0101010101010101ul;
	const unsigned char *end = p + n;
	uint64_t v;

	for (; (size_t)(end - p) >= sizeof(v); p += sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		if (v != word)
			break;
	}
	for (; p < end; p++) {
		if (*p != right)
			return p;
	}
	return NULL;
}

/* Reports and restores what is not @right between @p and @p + @n. */
static bool check_bytes(struct debug_case *found, const void *object,
			const char *what, unsigned char *p, size_t n,
			unsigned char right)
{
	const unsigned char *wrong = first_wrong(p, n, right);
	const unsigned char *end = p + n;

	if (likely(!wrong))
		return true;
	while (end[-1] == right)
		end--;
	report_bytes(found, object, what, wrong, end, right);
	report_fix(found, "Restoring %s %p-%p=0x%x", what, (void *)wrong,
		   (void *)(end - 1), right);
	memset((void *)wrong, right, (size_t)(end - wrong));
	return false;
}

static bool check_zones(struct debug_case *found, unsigned char *object,
			enum object_state state)
{
	const struct debug_layout *layout = found->layout;
	unsigned char zone = state == OBJECT_USED ? DEBUG_ZONE_USED :
						    DEBUG_ZONE_FREE;
	size_t size = object_requested(layout, object);
	bool ok = true;

	if (!(layout->flags & SLUB_CACHE_RED_ZONE))
		return true;
	ok &= check_bytes(found, object, "Left Redzone", object - layout->left,
			  layout->left, zone);
	ok &= check_bytes(found, object, "Right Redzone",
			  object + layout->object_size,
			  layout->inuse - layout->object_size, zone);
	if (layout->size && state == OBJECT_USED)
		ok &= check_bytes(found, object, "malloc Redzone",
				  object + size, layout->object_size - size,
				  zone);
	return ok;
}

static bool check_poison(struct debug_case *found, unsigned char *object)
{
	const struct debug_layout *layout = found->layout;
	size_t last = layout->object_size - 1;
	bool ok = true;

	if (!has_poison(layout))
		return true;
	ok &= check_bytes(found, object, "Poison", object, last,
			  DEBUG_POISON);
	ok &= check_bytes(found, object, "End Poison", object + last, 1,
			  DEBUG_POISON_END);
	return ok;
}

bool object_check(struct debug_case *found, void *object,
		  enum object_state state)
{
	const struct debug_layout *layout = found->layout;
	unsigned char *o = object;
	bool ok = check_zones(found, o, state);

	/* Without zones, what lies between object and link is padding. */
	if ((layout->flags & (SLUB_CACHE_POISON | SLUB_CACHE_RED_ZONE)) == SLUB_CACHE_POISON)
		ok &= check_bytes(found, o, "Alignment padding",
				  o + layout->object_size,
				  layout->inuse - layout->object_size,
				  DEBUG_PADDING);
	if (state == OBJECT_FREE)
		ok &= check_poison(found, o);
	if (layout->flags & SLUB_CACHE_POISON)
		ok &= check_bytes(found, o, "Object padding",
				  o + layout->end,
				  layout->stride - layout->left - layout->end,
				  DEBUG_PADDING);
	return ok;
}

bool object_check_padding(struct debug_case *found, char *from, char *end)
{
	if (!(found->layout->flags & SLUB_CACHE_POISON))
		return true;
	return check_bytes(found, NULL, "Padding", (unsigned char *)from,
			   (size_t)(end - from), DEBUG_PADDING);
}
