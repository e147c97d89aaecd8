/* SPDX-License-Identifier: MIT */
/*
 * Where a program keeps its pointers: data of each object file, stacks, thread-local storage, and
 * whatever else it has mapped, less the heap and what the library knows of each object.  The
 * library's other data stays in: it has what a program gave it, and objects on their way to a list.
 */
#include "core.h"
#include "leak.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

/* A leaf function may use so much below the stack pointer. */
#define RED_ZONE 128
#define HOLES_MAX 16
/* glibc's descriptor of a thread, at the least; a stack ends so near behind it. */
#define DESCRIPTOR_WORDS 288
#define STACK_ROOM (64u << 10)

struct hunt {
	struct leaks *leaks;
	struct leak_range holes[HOLES_MAX];	/* what is no root */
	size_t nr_holes;
};

static void hole_add(struct hunt *hunt, uint64_t start, uint64_t bytes)
{
	if (bytes && hunt->nr_holes < HOLES_MAX)
		hunt->holes[hunt->nr_holes++] = (struct leak_range){ start, start + bytes, false };
}

/* The table of links of objects of a page or more: a word for each page of the heap. */
static void links_add(struct hunt *hunt)
{
	struct leaks *leaks = hunt->leaks;

	for (size_t i = 0; i < leaks->snapshot.nr_caches; i++) {
		uint64_t link = leaks->shapes[i].link;

		if (link < 4096)
			continue;
		hole_add(hunt, link + (leaks->heap_start >> 12) * 8, (leaks->heap_bytes >> 12) * 8);
		return;
	}
}

/* Where the library says itself where the heap begins, as an object may. */
static void state_add(struct hunt *hunt)
{
	const struct slub_abi *abi = &hunt->leaks->snapshot.abi;

	hole_add(hunt, hunt->leaks->source->state.address, abi->size);
	if (abi->heap_start_place)
		hole_add(hunt, abi->heap_start_place, sizeof(abi->heap_start));
}

static void holes_find(struct hunt *hunt)
{
	const struct leaks *leaks = hunt->leaks;
	const struct slub_abi *abi = &leaks->snapshot.abi;
	uint64_t pages = leaks->heap_bytes >> leaks->page_shift, book;

	hole_add(hunt, abi->heap_start, abi->range_start + abi->range_bytes - abi->heap_start);
	hole_add(hunt, abi->map, (abi->range_bytes >> leaks->page_shift) * abi->map_stride);
	hole_add(hunt, abi->descriptors, pages * abi->descriptor_stride);
	links_add(hunt);
	state_add(hunt);
	if (leaks->book.place &&
	    !process_read(leaks->process, leaks->book.place, &book, sizeof(book)))
		hole_add(hunt, book, book ? leaks->book.bytes : 0);
	for (const struct guard *guard = &leaks->guard; guard; guard = guard->next) {
		hole_add(hunt, guard->pool.base, guard->places ? guard->pool.bytes : 0);
		hole_add(hunt, guard->pool.places, guard->places ?
			 (uint64_t)guard->pool.nr_places * guard->pool.place_size : 0);
	}
}

static void range_add(struct leak_roots *roots, uint64_t start, uint64_t end, bool is_code)
{
	size_t nr = roots->nr;

	if (start >= end)
		return;
	if (!(nr & (nr - 1)))
		roots->ranges = must_have(reallocarray(roots->ranges, nr ? 2 * nr : 1,
						       sizeof(*roots->ranges)));
	roots->ranges[roots->nr++] = (struct leak_range){ start, end, is_code };
}

/* All of it but the holes from number @hole on. */
static void add_around(struct hunt *hunt, uint64_t start, uint64_t end, bool is_code, size_t hole)
{
	for (; hole < hunt->nr_holes && start < end; hole++) {
		const struct leak_range *out = &hunt->holes[hole];

		if (out->end <= start || out->start >= end)
			continue;
		if (out->start > start)
			add_around(hunt, start, out->start, is_code, hole + 1);
		start = out->end;
	}
	range_add(&hunt->leaks->roots, start, end, is_code);
}

/*
 * The descriptor of a thread that has ended, behind its stack: glibc keeps both, for the next
 * thread or for a join.  It names itself twice, has a ring of robust mutexes that is empty, and
 * before that, where the thread's number was, 0, or -1 after a join.
 */
struct left_stack {
	uint64_t low, high;		/* the stack, without its guard */
	uint64_t kept;			/* so far the descriptor has what is in use, a result too */
	uint64_t end;
};

/* Three words in a row: the block, its bytes, and those of its guard. */
static bool find_block(const uint64_t *words, struct left_stack *left)
{
	for (size_t i = 0; i + 2 < DESCRIPTOR_WORDS; i++) {
		uint64_t start = words[i], bytes = words[i + 1], guard = words[i + 2];

		if (start && start < left->high && bytes > left->high - start &&
		    bytes - (left->high - start) <= STACK_ROOM && guard < left->high - start) {
			left->low = start + guard;
			return true;
		}
	}
	return false;
}

/* @words: a copy of what lies at @at. */
static bool is_left(const uint64_t *words, uint64_t at, struct left_stack *left)
{
	if (words[0] != at || words[2] != at)
		return false;
	for (size_t i = 3; i + 2 < DESCRIPTOR_WORDS; i++) {
		uint32_t number = (uint32_t)words[i];
		uint64_t ring = at + (i + 2) * 8;

		if (words[i + 1] != ring || words[i + 2] != ring)
			continue;
		left->high = at;
		left->end = at + DESCRIPTOR_WORDS * 8;
		left->kept = number ? at + i * 8 : left->end;
		return (!number || number == UINT32_MAX) && find_block(words, left);
	}
	return false;
}

/* Does the mapping from @start to @end end with one? */
static bool find_left(struct leaks *leaks, uint64_t start, uint64_t end, struct left_stack *left)
{
	uint64_t bytes = end - start < STACK_ROOM ? end - start : STACK_ROOM;
	uint64_t first = end - bytes;

	if (!leak_copy(leaks, first, leaks->buffer, bytes))
		return false;
	for (uint64_t at = (first + 63) & -64ull; at + DESCRIPTOR_WORDS * 8 <= end; at += 64) {
		if (is_left((const uint64_t *)(leaks->buffer + (at - first)), at, left))
			return true;
	}
	return false;
}

/* Nobody uses what a thread that has ended had on its stack, but what it returned. */
static void add_left(struct hunt *hunt, uint64_t start, uint64_t end)
{
	struct left_stack left;

	if (find_left(hunt->leaks, start, end, &left)) {
		add_around(hunt, start, left.low, false, 0);
		add_around(hunt, left.high, left.kept, false, 0);
		start = left.end;
	}
	add_around(hunt, start, end, false, 0);
}

/*
 * A stack is one from its pointer on; what lies below was left there by calls that are over.
 * @is_stack: so much is certain, and not only that somebody's stack pointer leads there.
 */
static void add_mapping(struct hunt *hunt, uint64_t start, uint64_t end, bool is_stack)
{
	const struct leak_roots *roots = &hunt->leaks->roots;
	uint64_t lowest = end;

	for (size_t i = 0; i < roots->nr_stacks; i++) {
		uint64_t sp = roots->stacks[i];

		if (sp >= start && sp < lowest)
			lowest = sp;
	}
	if (is_stack && lowest == end) {
		add_left(hunt, start, end);
		return;
	}
	if (is_stack && lowest - start > RED_ZONE)
		start = (lowest - RED_ZONE) & -8ull;
	add_around(hunt, start, end, false, 0);
}

/* ---- a living process ---- */

static bool is_special(const char *path)
{
	if (!strncmp(path, "/dev/", 5))
		return strncmp(path, "/dev/shm/", 9) && strcmp(path, "/dev/zero");
	return !strcmp(path, "[vvar]") || !strcmp(path, "[vvar_vclock]") ||
	       !strcmp(path, "[vdso]") || !strcmp(path, "[vsyscall]");
}

/* Data that the loader closed once it was relocated lies before what is still written. */
static bool is_closed_data(const struct mapping *mapping, const struct mapping *next)
{
	return !mapping->executable && mapping->path[0] && next->writable &&
	       mapping->end == next->start && !strcmp(mapping->path, next->path);
}

static void find_mappings(struct hunt *hunt)
{
	const struct process *process = hunt->leaks->process;
	char nothing[] = "";
	const struct mapping none = { .path = nothing };

	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];
		const struct mapping *next = i + 1 < process->nr_mappings ? mapping + 1 : &none;
		const struct mapping *before = i ? mapping - 1 : &none;
		bool is_anonymous = !mapping->path[0] || mapping->path[0] == '[';
		bool is_guarded = before->end == mapping->start && !before->readable &&
				  !before->path[0];

		if (!mapping->readable || is_special(mapping->path))
			continue;
		if (mapping->executable && is_anonymous)
			add_around(hunt, mapping->start, mapping->end, true, 0);
		else if (mapping->writable || is_anonymous || is_closed_data(mapping, next))
			add_mapping(hunt, mapping->start, mapping->end,
				    !strcmp(mapping->path, "[stack]") ||
				    (!mapping->path[0] && is_guarded));
	}
}

/* ---- a core ---- */

/* The stack of the first thread is the mapping above all libraries: it has no file. */
static void find_segments(struct hunt *hunt)
{
	const struct core *core = hunt->leaks->process->core;

	for (size_t i = 0; i < core->nr_segments; i++) {
		const struct core_segment *segment = &core->segments[i];
		const struct core_segment *before = i ? segment - 1 : NULL;
		uint64_t end = segment->start + segment->file_bytes;
		bool is_guarded = before && before->end == segment->start &&
				  !before->file_bytes && !before->writable;

		if (segment->writable && segment->executable)
			add_around(hunt, segment->start, end, true, 0);
		else if (segment->file_bytes && !segment->executable)
			add_mapping(hunt, segment->start, end, is_guarded ||
				    segment->start >= 0x7ff000000000);
	}
}

void leak_roots_free(struct leak_roots *roots)
{
	free(roots->ranges);
	free(roots->words);
	free(roots->stacks);
	*roots = (struct leak_roots){ .ranges = NULL };
}

void leak_roots_find(struct leaks *leaks, const struct leak_stop *stop)
{
	struct hunt hunt = { .leaks = leaks };

	leak_roots_free(&leaks->roots);
	leak_threads_read(leaks, stop);
	holes_find(&hunt);
	if (leaks->process->core)
		find_segments(&hunt);
	else
		find_mappings(&hunt);
}
