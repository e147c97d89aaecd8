/* SPDX-License-Identifier: MIT */
/*
 * The bytes around an object, and in a free one: where they lie, writing them, checking
 * them; and the tracks of the last allocation and the last free.
 */
#include "features/debug/debug.h"

#include <string.h>

/* ---- the layout: the kernel's calculate_sizes() ---- */

#define WORD sizeof(void *)

/* Behind the object: the link, the tracks, the size, the owner. */
static size_t lay_behind(struct debug_layout *layout, size_t size,
			 uint32_t flags)
{
	bool behind = flags & (SLUB_CACHE_POISON | SLUB_CACHE_RED_ZONE | DEBUG_KEPT) ||
		      size < 2 * WORD;

	layout->inuse = (uint32_t)size;
	if (!behind) {
		/* Small overruns of a neighbour miss the middle. */
		layout->link = (uint32_t)round_down(layout->object_size / 2,
						    WORD);
	} else {
		layout->link = (uint32_t)size;
		size += WORD;
	}
	if (layout->link >= LINK_OFFSET_MAX)
		layout->link = DEBUG_LINK_OUTSIDE;
	/* Atomic: has_tracks() glances at a layout that is made anew. */
	__atomic_store_n(&layout->track,
			 flags & SLUB_CACHE_STORE_USER ? (uint32_t)size : 0,
			 __ATOMIC_RELAXED);
	layout->size = 0;
	if (flags & SLUB_CACHE_STORE_USER)
		size += 2 * sizeof(struct track);
	if (flags & DEBUG_SIZED && flags & (SLUB_CACHE_STORE_USER | SLUB_CACHE_RED_ZONE)) {
		layout->size = (uint32_t)size;
		size += sizeof(uint64_t);
	}
	layout->owner = 0;
	if (flags & DEBUG_OWNED) {
		layout->owner = (uint32_t)size;
		size += WORD;
	}
	return size;
}

bool debug_layout_make(struct debug_layout *layout, const char *name,
		       size_t size, size_t align, uint32_t flags, size_t most)
{
	size_t end;

	if (size > most)
		return false;
	align = max_size(align, WORD);
	layout->name = name;
	layout->flags = flags;
	layout->object_size = (uint32_t)size;
	layout->align = (uint32_t)align;
	layout->left = flags & SLUB_CACHE_RED_ZONE ? (uint32_t)align : 0;
	size = round_up(size, WORD);
	/* At least one byte of the right zone. */
	if (flags & SLUB_CACHE_RED_ZONE && size == layout->object_size)
		size += WORD;
	end = lay_behind(layout, size, flags);
	layout->end = (uint32_t)end;
	/* Padding that an underrun of the next object would hit. */
	if (flags & SLUB_CACHE_RED_ZONE)
		end += WORD;
	end = round_up(end + layout->left, align);
	layout->stride = (uint32_t)end;
	return end <= most;
}

/* ---- tracks ---- */

bool debug_calls_are_told;

bool call_is_wrong(uint32_t was, enum alloc_call call)
{
	return debug_calls_are_told && was != CALL_UNKNOWN && was != call &&
	       was <= CALL_NEW_MANY;
}

static void track_set(struct track *track, const struct stack *stack, uint32_t number)
{
	*track = (struct track){
		.caller = stack->nr ? stack->frames[0] : 1,
		.when_ns = os_clock_ns(),
		.stack = number,
		.thread = os_thread_id(),
		.cpu = (uint16_t)os_cpu_current(),
		.call = stack->call,
	};
}

void track_now(struct track *track, const struct stack *stack)
{
	track_set(track, stack, stack_store(stack));
}

void track_frame_now(struct track *track, const void *frame, bool is_whole)
{
	struct stack stack;

	if (is_whole)
		stack_read(&stack, frame);
	else
		stack_read_caller(&stack, frame);
	track_set(track, &stack, is_whole ? stack_store(&stack) : 0);
}

struct track *track_of(const struct debug_layout *layout, const void *object,
		       enum track_kind kind)
{
	if (!layout->track)
		return NULL;
	return (struct track *)((char *)object + layout->track) + kind;
}

/*
 * A write that jumps over the zones may hit a track.  What others set later (call, is_freed) has no
 * part in it.  0 of one that was never written.
 */
static uint16_t track_sum(const struct track *track)
{
	uint64_t x = track->caller * 0x9e3779b97f4a7c15u + track->when_ns * 0xd1342543de82ef95u +
		     ((uint64_t)track->stack << 32 | track->thread) * 0xf1de83e19937733du +
		     track->cpu * 0xbf58476d1ce4e5b9u;

	return (uint16_t)((x ^ x >> 32) * 0x94d049bb133111ebu >> 48);
}

void track_store(const struct debug_layout *layout, void *object, enum track_kind kind,
		 const struct track *track)
{
	struct track *place = track_of(layout, object, kind);

	*place = *track;
	place->sum = track_sum(place);
}

/* ---- bytes ---- */

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
	uint64_t requested = size;

	if (layout->size) {
		memcpy(o + layout->size, &requested, sizeof(requested));
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

const unsigned char *bytes_wrong(const unsigned char *p, size_t n, unsigned char right)
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

/* What a write to these bytes was.  The stack of the report is of whoever has found it. */
enum write { WRITE_BEHIND, WRITE_IN_FRONT, WRITE_BETWEEN, WRITE_FREED, WRITE_FREED_AROUND };

static const char *const meanings[] = {
	[WRITE_BEHIND] = "The program wrote behind the end of this block.",
	[WRITE_IN_FRONT] = "The program wrote in front of the start of this block, or behind the "
			   "end of the one before it.",
	[WRITE_BETWEEN] = "The program wrote behind the end of a block, or in front of the start "
			  "of the next one.",
	[WRITE_FREED] = "The program wrote to this block after its free.",
	[WRITE_FREED_AROUND] = "The program wrote beside this block, which is free, or to the "
			       "block after its free.",
};

/* Reports and restores what is not @right between @p and @p + @n. */
static bool check_bytes(struct debug_case *found, const void *object, enum write write,
			const char *what, unsigned char *p, size_t n,
			unsigned char right)
{
	const unsigned char *wrong = bytes_wrong(p, n, right);
	const unsigned char *end = p + n;

	if (likely(!wrong))
		return true;
	while (end[-1] == right)
		end--;
	found->meaning = meanings[write];
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
	bool is_used = state == OBJECT_USED;
	unsigned char zone = is_used ? DEBUG_ZONE_USED : DEBUG_ZONE_FREE;
	size_t size = object_requested(layout, object);
	bool ok = true;

	if (!(layout->flags & SLUB_CACHE_RED_ZONE))
		return true;
	ok &= check_bytes(found, object, is_used ? WRITE_IN_FRONT : WRITE_FREED_AROUND,
			  "Left Redzone", object - layout->left, layout->left, zone);
	ok &= check_bytes(found, object, is_used ? WRITE_BEHIND : WRITE_FREED_AROUND,
			  "Right Redzone",
			  object + layout->object_size,
			  layout->inuse - layout->object_size, zone);
	if (layout->size && is_used)
		ok &= check_bytes(found, object, WRITE_BEHIND, "malloc Redzone",
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
	ok &= check_bytes(found, object, WRITE_FREED, "Poison", object, last,
			  DEBUG_POISON);
	ok &= check_bytes(found, object, WRITE_FREED, "End Poison", object + last, 1,
			  DEBUG_POISON_END);
	return ok;
}

/* What it was nobody knows: it is forgotten, so that it is said once. */
static bool check_track(struct debug_case *found, const void *object, enum track_kind kind)
{
	struct track *track = track_of(found->layout, object, kind);
	const char *what = kind == TRACK_ALLOC ? "Alloc" : "Free";

	if (likely(!track || track->sum == track_sum(track)))
		return true;
	*track = (struct track){ .call = CALL_UNKNOWN };
	found->meaning = meanings[WRITE_BETWEEN];
	report_bug(found, object, "%s track overwritten", what);
	report_fix(found, "%s track of %p forgotten", what, object);
	return false;
}

bool object_check(struct debug_case *found, void *object,
		  enum object_state state)
{
	const struct debug_layout *layout = found->layout;
	unsigned char *o = object;
	bool ok = check_zones(found, o, state);

	ok &= check_track(found, o, TRACK_ALLOC);
	ok &= check_track(found, o, TRACK_FREE);

	/* Without zones, what lies between object and link is padding. */
	if ((layout->flags & (SLUB_CACHE_POISON | SLUB_CACHE_RED_ZONE)) == SLUB_CACHE_POISON)
		ok &= check_bytes(found, o, WRITE_BEHIND, "Alignment padding",
				  o + layout->object_size,
				  layout->inuse - layout->object_size,
				  DEBUG_PADDING);
	if (state == OBJECT_FREE)
		ok &= check_poison(found, o);
	if (layout->flags & SLUB_CACHE_POISON)
		ok &= check_bytes(found, o, WRITE_BETWEEN, "Object padding",
				  o + layout->end,
				  layout->stride - layout->left - layout->end,
				  DEBUG_PADDING);
	return ok;
}

void object_check_padding(struct debug_case *found, char *from, char *end)
{
	if (found->layout->flags & SLUB_CACHE_POISON)
		check_bytes(found, NULL, WRITE_BETWEEN, "Padding", (unsigned char *)from,
			    (size_t)(end - from), DEBUG_PADDING);
}
