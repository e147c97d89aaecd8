/* SPDX-License-Identifier: MIT */
/* Who allocated, or freed, what: objects counted by call stack (letter U). */
#include <errno.h>

#include "core/base/hash.h"
#include "features/watch/watch.h"

#include <slub/debug.h>

/*
 * Room for call stacks, of each cache those of its own.  If there are more, the count begins again
 * with four times the room; the store of stacks is full at some 700,000.
 */
#define TRACES_MIN 8192u
#define TRACES_MAX (1u << 21)

struct sums {
	struct slub_trace trace;
	uint32_t stack;
	uintptr_t caller;
};

struct table {
	enum track_kind kind;
	uint64_t now;
	uint32_t nr;
	uint32_t room;		/* a power of two */
	bool is_full;		/* what was counted is not all */
	struct sums sums[];
};

static size_t table_bytes(uint32_t room)
{
	return sizeof(struct table) + room * sizeof(struct sums);
}

static uint32_t slot_of(const struct table *table,
			const struct slub_cache *cache,
			const struct track *track)
{
	uint64_t h = (uintptr_t)cache >> 6 ^ track->caller ^
		     (uint64_t)track->stack << 32;

	return (uint32_t)(h * HASH_MULTIPLIER >> 32) & (table->room - 1);
}

/* The row of a track; NULL when so many are in use that finding one would take long. */
static struct sums *row_of(struct table *table,
			   const struct slub_cache *cache,
			   const struct track *track)
{
	uint32_t i = slot_of(table, cache, track);

	for (;; i = (i + 1) & (table->room - 1)) {
		struct sums *s = &table->sums[i];

		if (!s->trace.count && table->nr >= table->room / 4 * 3)
			return NULL;
		if (!s->trace.count) {
			s->trace.cache = cache;
			s->trace.age_min_ns = UINT64_MAX;
			s->trace.thread_min = UINT32_MAX;
			s->stack = track->stack;
			s->caller = track->caller;
			table->nr++;
			return s;
		}
		if (s->trace.cache == cache && s->stack == track->stack &&
		    s->caller == track->caller)
			return s;
	}
}

static void count(struct table *table, const struct slub_cache *cache,
		  const struct debug_layout *layout, const void *object)
{
	const struct track *track = track_of(layout, object, table->kind);
	size_t bytes = object_requested(layout, object);
	struct slub_trace *t;
	struct sums *row;
	uint64_t age;

	if (!track || !track->caller || table->is_full)
		return;
	/* Its free waits for readers, or for a lock: nobody's leak. */
	if (__atomic_load_n(&track_of(layout, object, TRACK_ALLOC)->is_freed,
			    __ATOMIC_RELAXED))
		return;
	row = row_of(table, cache, track);
	if (!row) {
		table->is_full = true;
		return;
	}
	t = &row->trace;
	age = table->now > track->when_ns ? table->now - track->when_ns : 0;
	t->count++;
	t->bytes += bytes;
	t->waste += layout->object_size - bytes;
	t->age_sum_ns += age;
	t->age_min_ns = min_size(t->age_min_ns, age);
	t->age_max_ns = max_size(t->age_max_ns, age);
	t->thread_min = (uint32_t)min_size(t->thread_min, track->thread);
	t->thread_max = (uint32_t)max_size(t->thread_max, track->thread);
	if (track->cpu < 256)
		t->cpus[track->cpu / 64] |= 1ull << track->cpu % 64;
}

static void count_slab(struct slub_cache *twin, struct page *slab, void *arg)
{
	struct free_marks marks;

	if (!(twin->debug->flags & SLUB_CACHE_STORE_USER))
		return;
	watched_mark_free(twin, slab, &marks);
	for (uint32_t i = 0; i < twin->objects; i++) {
		if (!mark_is_set(&marks, i))
			count(arg, watch_original(watch_of(twin)), twin->debug,
			      watched_object(twin, slab, i));
	}
}

/* Moves the rows in use to the front; most objects first (Shell's sort). */
static void sort(struct table *table)
{
	struct sums *s = table->sums;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < table->room; i++) {
		if (s[i].trace.count)
			s[nr++] = s[i];
	}
	table->nr = nr;
	for (uint32_t gap = nr / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11) {
		for (uint32_t i = gap; i < nr; i++) {
			struct sums row = s[i];
			uint32_t at = i;

			for (; at >= gap && s[at - gap].trace.count < row.trace.count; at -= gap)
				s[at] = s[at - gap];
			s[at] = row;
		}
	}
}

static bool has_tracks(const struct slub_cache *cache)
{
	for (struct watch *w = watch_first(); w; w = w->next) {
		if (watch_original(w) && (!cache || watch_original(w) == cache) &&
		    __atomic_load_n(&w->layout.track, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* All that @cache, NULL: each one, has; NULL: there is no memory. */
static struct table *collect(const struct slub_cache *cache,
			     enum track_kind kind)
{
	struct watched_visit slabs = { count_slab, NULL, NULL, cache, NULL };

	for (uint32_t room = TRACES_MIN; room <= TRACES_MAX; room *= 4) {
		struct table *table = os_map(table_bytes(room));

		if (!table)
			return NULL;
		table->kind = kind;
		table->now = os_clock_ns();
		table->room = room;
		slabs.arg = table;
		watched_for_each(&slabs);
		if (!table->is_full)
			return table;
		os_unreserve(table, table_bytes(room));
	}
	return NULL;
}

static int traces(struct slub_cache *cache, enum track_kind kind,
		  int (*visit)(const struct slub_trace *, void *), void *arg)
{
	struct table *table;
	int ret = 0;

	cache = cache_asked(cache);
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!has_tracks(cache))
		return -EINVAL;
	table = collect(cache, kind);
	if (!table)
		return -ENOMEM;
	sort(table);
	for (uint32_t i = 0; i < table->nr && !ret; i++) {
		struct sums *s = &table->sums[i];

		s->trace.frames = stack_frames(s->stack, &s->trace.nr_frames);
		if (!s->trace.frames) {
			s->trace.frames = &s->caller;
			s->trace.nr_frames = 1;
		}
		ret = visit(&s->trace, arg);
	}
	os_unreserve(table, table_bytes(table->room));
	return ret;
}

SLUB_EXPORT int
slub_cache_alloc_traces(struct slub_cache *cache,
			int (*visit)(const struct slub_trace *, void *),
			void *arg)
{
	return traces(cache, TRACK_ALLOC, visit, arg);
}

SLUB_EXPORT int
slub_cache_free_traces(struct slub_cache *cache,
		       int (*visit)(const struct slub_trace *, void *),
		       void *arg)
{
	return traces(cache, TRACK_FREE, visit, arg);
}

/* ---- as text ---- */

struct output {
	const char *path;
	long nr;
};

static void text_cpus(struct text *text, const uint64_t *cpus)
{
	const char *comma = "";

	text_printf(text, " cpus=");
	for (uint32_t i = 0; i < 256; i++) {
		if (!(cpus[i / 64] >> i % 64 & 1))
			continue;
		text_printf(text, "%s%u", comma, i);
		comma = ",";
	}
}

/* The line of the kernel's alloc_traces, with bytes beside the count. */
static int write_trace(const struct slub_trace *t, void *arg)
{
	struct output *out = arg;
	char buf[8192], name[SLUB_CACHE_NAME_MAX + 1] = "?";
	struct text text = { buf, sizeof(buf), 0 };
	unsigned long ms = 1000000;

	/* It may have ended since it was counted. */
	cache_name_copy(t->cache, name);
	text_printf(&text, "%zu %s ", t->count, name);
	sink_describe(&text, t->frames[0]);
	text_printf(&text, " bytes=%zu waste=%zu/%zu age=%lu/%lu/%lums "
		    "pid=%u-%u", t->bytes, t->waste, t->waste / t->count,
		    (unsigned long)t->age_min_ns / ms,
		    (unsigned long)t->age_sum_ns / t->count / ms,
		    (unsigned long)t->age_max_ns / ms, t->thread_min,
		    t->thread_max);
	text_cpus(&text, t->cpus);
	text_printf(&text, "\n");
	sink_describe_all(&text, t->frames, t->nr_frames);
	text_printf(&text, "\n");
	sink_write(out->path, buf, text.used_bytes);
	out->nr++;
	return 0;
}

SLUB_EXPORT long slub_leaks_write(const char *path)
{
	char buf[OS_PATH_BYTES];
	struct output out = { os_path(path, buf, sizeof(buf)), 0 };
	int err;

	if (!out.path)
		return -ENAMETOOLONG;
	sink_forget();
	err = traces(NULL, TRACK_ALLOC, write_trace, &out);
	if (err == -EINVAL)
		return 0;
	return err ? err : out.nr;
}
