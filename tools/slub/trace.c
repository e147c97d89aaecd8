/* SPDX-License-Identifier: MIT */
/*
 * Reading tracks: each slab of a watched cache is copied in one piece, what is
 * free is found by its freelist, and the tracks of the rest are counted by call
 * stack.  What a living process changes meanwhile may be seen halfway; every
 * offset is checked, and a track that makes no sense is left out.
 */
#include "trace.h"
#include "cache_name.h"
#include "heap.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLAB_BYTES_MAX (4u << 20)
#define LAYOUT_MAX     1024u
#define LETTER_U       (1u << 3)

struct reader {
	const struct process *process;
	const struct snapshot *snapshot;
	const struct slub_abi *abi;
	const char *pattern;
	enum trace_kind kind;
	struct traces *traces;
	struct watch *watches;		/* by index of the cache */
	uint64_t store;			/* trace_store() */
	char *slab;			/* the copy */
	uint64_t slab_bytes;		/* of it that are in use */
	unsigned char *free;		/* a byte per object */
	uint64_t free_size;
};

/* ---- caches ---- */

const char *watch_letters(const struct cache_view *cache, char *buf)
{
	uint64_t bits = cache_field(cache, SLUB_ABI_CACHE_DEBUG);
	static const char letters[] = "FZPUTA";
	char *out = buf;

	for (int i = 0; letters[i]; i++) {
		if (bits >> i & 1)
			*out++ = letters[i];
	}
	*out = '\0';
	return buf;
}

bool cache_is_traced(const struct snapshot *snapshot,
		     const struct cache_view *cache, const char *pattern)
{
	return cache_field(cache, SLUB_ABI_CACHE_DEBUG) & LETTER_U &&
	       cache_is_called(snapshot, cache, pattern);
}

static bool fields_fit(const struct slub_abi_field *fields, int nr,
		       uint32_t bytes)
{
	for (int i = 0; i < nr; i++) {
		if (fields[i].bytes > 8 ||
		    (uint32_t)fields[i].offset + fields[i].bytes > bytes)
			return false;
	}
	return bytes <= LAYOUT_MAX;
}

bool trace_fields_fit(const struct slub_abi *abi)
{
	return abi->track_bytes &&
	       fields_fit(abi->watch_fields, SLUB_ABI_WATCH_FIELDS, abi->watch_bytes) &&
	       fields_fit(abi->track_fields, SLUB_ABI_TRACK_FIELDS, abi->track_bytes);
}

bool watch_read(const struct process *process, const struct slub_abi *abi,
		const struct cache_view *cache, struct watch *watch)
{
	const struct slub_abi_field *fields = abi->watch_fields;
	uint64_t stride = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);
	uint64_t tracks = 2ull * abi->track_bytes;
	char layout[LAYOUT_MAX];

	if (process_read(process, cache_field(cache, SLUB_ABI_CACHE_WATCH), layout,
			 abi->watch_bytes))
		return false;
	watch->left = field_get(layout, fields[SLUB_ABI_WATCH_LEFT]);
	watch->track = field_get(layout, fields[SLUB_ABI_WATCH_TRACK]);
	watch->requested = field_get(layout, fields[SLUB_ABI_WATCH_REQUESTED]);
	watch->is_known = watch->left < stride && size <= stride &&
			  watch->track && watch->track < stride &&
			  watch->left + watch->track + tracks <= stride &&
			  watch->requested < stride &&
			  watch->left + watch->requested + 8 <= stride;
	return watch->is_known;
}

/* ---- a slab ---- */

/* The first word of its state: its first free object. */
static bool read_freelist(const struct reader *reader, uint64_t slab,
			  uint64_t *first)
{
	const struct slub_abi *abi = reader->abi;
	uint64_t align = abi->descriptor_state_align;
	uint64_t at = abi->descriptors + (slab - abi->heap_start) /
		      abi->page_bytes * abi->descriptor_stride;

	at = (at + abi->descriptor_state + align - 1) & -align;
	return !process_read(reader->process, at, first, sizeof(*first));
}

static bool read_link(const struct reader *reader,
		      const struct cache_view *cache, uint64_t object,
		      uint64_t slab, uint64_t *next)
{
	uint64_t link = cache_field(cache, SLUB_ABI_CACHE_LINK);
	uint64_t at = object - slab + link;

	if (link >= 4096)
		return !process_read(reader->process, link + (object >> 12) * 8,
				     next, sizeof(*next));
	if (at + sizeof(*next) > reader->slab_bytes)
		return false;
	memcpy(next, reader->slab + at, sizeof(*next));
	return true;
}

/* What its freelist names; a list that was changed meanwhile is cut. */
static void mark_free(struct reader *reader, const struct cache_view *cache,
		      const struct watch *watch, uint64_t slab, uint64_t first)
{
	uint64_t stride = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t nr = cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
	uint64_t object = first;

	memset(reader->free, 0, nr);
	while (object) {
		uint64_t offset = object - slab - watch->left;
		uint64_t i = offset / stride;

		if (offset % stride || i >= nr || reader->free[i])
			return;
		reader->free[i] = 1;
		if (!read_link(reader, cache, object, slab, &object))
			return;
	}
}

/* ---- rows ---- */

static uint64_t hash_of(size_t cache, uint64_t caller, uint32_t stack)
{
	return hash_mix(hash_mix(caller, stack), cache);
}

uint64_t trace_store(const struct process *process, const struct slub_abi *abi)
{
	uint64_t store;

	return process_read(process, abi->stacks, &store, sizeof(store)) ? 0 : store;
}

uint32_t trace_stack_read(const struct process *process, const struct slub_abi *abi, uint64_t store,
			  uint32_t stack, uint64_t frames[TRACE_FRAMES_MAX])
{
	uint64_t at = store + (uint64_t)stack * abi->stack_unit;
	uint32_t nr = 0;

	if (!stack || !store || process_read(process, at + abi->stack_nr, &nr, sizeof(nr)) ||
	    !nr || nr > TRACE_FRAMES_MAX ||
	    process_read(process, at + abi->stack_frames, frames, nr * sizeof(frames[0])))
		return 0;
	return nr;
}

static void read_stack(const struct reader *reader, struct trace *row)
{
	row->nr_frames = trace_stack_read(reader->process, reader->abi, reader->store, row->stack,
					  row->frames);
	if (row->nr_frames || row->caller <= 1)
		return;
	row->frames[0] = row->caller;
	row->nr_frames = 1;
}

static struct trace *row_of(struct reader *reader, size_t cache,
			    uint64_t caller, uint32_t stack)
{
	struct traces *traces = reader->traces;
	uint64_t hash = hash_of(cache, caller, stack);
	size_t at = 0, found;
	struct trace *row;

	while ((found = index_next(&traces->index, hash, &at)) != INDEX_NONE) {
		row = &traces->rows[found];
		if (row->cache == cache && row->caller == caller &&
		    row->stack == stack)
			return row;
	}
	/* Doubled whenever the number is a power of two. */
	if (!(traces->nr & (traces->nr - 1))) {
		size_t room = traces->nr ? 2 * traces->nr : 1;

		traces->rows = must_have(reallocarray(traces->rows, room, sizeof(*row)));
	}
	row = &traces->rows[traces->nr];
	*row = (struct trace){
		.cache = cache, .caller = caller, .stack = stack,
		.when_min = UINT64_MAX, .thread_min = UINT32_MAX,
	};
	read_stack(reader, row);
	index_add(&traces->index, hash, traces->nr++);
	return row;
}

static void add_track(struct traces *traces, struct trace *row,
		      uint64_t when, uint32_t thread, uint64_t cpu)
{
	row->when_sum += when;
	if (when < row->when_min)
		row->when_min = when;
	if (when > row->when_max)
		row->when_max = when;
	if (when > traces->now_ns)
		traces->now_ns = when;
	if (thread < row->thread_min)
		row->thread_min = thread;
	if (thread > row->thread_max)
		row->thread_max = thread;
	if (cpu < TRACE_CPUS_MAX)
		row->cpus[cpu / 64] |= 1ull << cpu % 64;
}

/* @track: of the allocation.  A library of before does not say. */
static bool is_being_freed(const struct reader *reader, const char *track)
{
	return field_get(track, reader->abi->track_fields[SLUB_ABI_TRACK_IS_FREED]);
}

/* @object: in the copy. */
static void count_object(struct reader *reader, const struct piece *piece,
			 const struct watch *watch, const char *object)
{
	const struct slub_abi_field *fields = reader->abi->track_fields;
	const struct cache_view *cache =
		&reader->snapshot->caches[piece->cache];
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);
	const char *track = object + watch->track +
			    reader->kind * reader->abi->track_bytes;
	uint64_t caller = field_get(track, fields[SLUB_ABI_TRACK_CALLER]);
	uint64_t bytes = size;
	struct trace *row;

	if (watch->requested)
		memcpy(&bytes, object + watch->requested, sizeof(bytes));
	if (bytes > size)
		bytes = size;
	/* It is about to be free: nobody's leak. */
	if (is_being_freed(reader, object + watch->track))
		return;
	/* In the middle of being handed out: it has no track yet. */
	if (!caller && reader->kind == TRACE_ALLOC)
		return;
	row = row_of(reader, piece->cache, caller, !caller ? 0 : (uint32_t)
		     field_get(track, fields[SLUB_ABI_TRACK_STACK]));
	row->count++;
	row->bytes += bytes;
	row->waste += size - bytes;
	if (piece->node < 32)
		row->nodes |= 1u << piece->node;
	if (caller)
		add_track(reader->traces, row,
			  field_get(track, fields[SLUB_ABI_TRACK_WHEN]),
			  (uint32_t)field_get(track,
					      fields[SLUB_ABI_TRACK_THREAD]),
			  field_get(track, fields[SLUB_ABI_TRACK_CPU]));
}

/* Room for the copy of a slab, and a byte for each of its objects. */
static bool make_room(struct reader *reader, uint64_t bytes, uint64_t objects)
{
	if (bytes > SLAB_BYTES_MAX)
		return false;
	if (!reader->slab)
		reader->slab = must_have(malloc(SLAB_BYTES_MAX));
	if (objects > reader->free_size) {
		reader->free = must_have(realloc(reader->free, objects));
		reader->free_size = objects;
	}
	reader->slab_bytes = bytes;
	return true;
}

static void visit(const struct piece *piece, void *arg)
{
	struct reader *reader = arg;
	const struct cache_view *cache =
		&reader->snapshot->caches[piece->cache];
	uint64_t stride = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t nr = cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
	uint64_t bytes = piece->pages * reader->abi->page_bytes, first;
	const struct watch *watch;

	if (piece->kind != PIECE_SLAB)
		return;
	watch = &reader->watches[piece->cache];
	if (!watch->is_known || !piece->inuse || nr > bytes / stride ||
	    !make_room(reader, bytes, nr) ||
	    !read_freelist(reader, piece->address, &first) ||
	    process_read(reader->process, piece->address, reader->slab, bytes))
		return;
	mark_free(reader, cache, watch, piece->address, first);
	for (uint64_t i = 0; i < nr; i++) {
		if (!reader->free[i])
			count_object(reader, piece, watch, reader->slab +
				     i * stride + watch->left);
	}
}

/* ---- all ---- */

static const struct snapshot *sorting;

static int compare(const void *a, const void *b)
{
	const struct trace *one = a, *other = b;
	char names[2][CACHE_NAME_SIZE];
	int by_name;

	cache_plain_name(sorting, &sorting->caches[one->cache], names[0]);
	cache_plain_name(sorting, &sorting->caches[other->cache], names[1]);
	by_name = strverscmp(names[0], names[1]);
	if (by_name)
		return by_name;
	/* Watched by other letters before. */
	if (one->cache != other->cache)
		return compare_numbers(one->cache, other->cache);
	if (one->count != other->count)
		return compare_numbers(other->count, one->count);
	if (one->caller != other->caller)
		return compare_numbers(one->caller, other->caller);
	return compare_numbers(one->stack, other->stack);
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool prepare(struct reader *reader)
{
	const struct slub_abi *abi = reader->abi;
	const struct snapshot *snapshot = reader->snapshot;
	bool found = false;

	if (!trace_fields_fit(abi))
		return false;
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if (cache_is_traced(snapshot, &snapshot->caches[i],
				    reader->pattern))
			found |= watch_read(reader->process, abi, &snapshot->caches[i],
					    &reader->watches[i]);
	}
	reader->store = trace_store(reader->process, abi);
	return found;
}

void traces_collect(struct traces *traces, const struct snapshot *snapshot,
		    enum trace_kind kind, const char *pattern)
{
	struct reader reader = {
		.process = snapshot->process, .snapshot = snapshot,
		.abi = &snapshot->abi, .pattern = pattern, .kind = kind,
		.traces = traces,
	};

	*traces = (struct traces){ .rows = NULL };
	reader.watches = must_have(calloc(snapshot->nr_caches, sizeof(*reader.watches)));
	if (prepare(&reader))
		heap_walk(reader.process, snapshot, visit, &reader);
	index_free(&traces->index);
	free(reader.watches);
	free(reader.slab);
	free(reader.free);
	sorting = snapshot;
	if (traces->nr)
		qsort(traces->rows, traces->nr, sizeof(*traces->rows), compare);
	/* A core does not say when the process died: its last track does. */
	if (!snapshot->process->core)
		traces->now_ns = monotonic_ns();
}

void traces_free(struct traces *traces)
{
	free(traces->rows);
	*traces = (struct traces){ .rows = NULL };
}

static bool is_traced(const struct snapshot *snapshot, const char *pattern)
{
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if (cache_is_traced(snapshot, &snapshot->caches[i], pattern))
			return true;
	}
	return false;
}

int traces_check(const struct snapshot *snapshot, const char *command, const char *pattern)
{
	if (!snapshot->process) {
		complain("%s: %s is a statistics file, which has no stacks; "
			 "a process or a core file has", command, snapshot->target);
		return STATUS_USAGE;
	}
	if (!snapshot_has(snapshot, SLUB_ABI_CACHE_WATCH)) {
		complain("%s: %s: its libslub is older than this command and "
			 "does not say where its tracks are", command, snapshot->target);
		return STATUS_UNREADABLE;
	}
	if (!is_traced(snapshot, pattern)) {
		complain("%s: %s watches no such cache by letter U; "
			 "`slub debug` or SLUB_DEBUG switches it on", command,
			 snapshot->target);
		return STATUS_FAILED;
	}
	return 0;
}
