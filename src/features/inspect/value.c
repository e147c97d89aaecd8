/* SPDX-License-Identifier: MIT */
/*
 * slub/control.h: the numbers of `slub stats --json`, by name, in the process itself.
 *
 * Two tables, value.def and core/slab/stat.def, say which there are.  Nothing is allocated: the
 * numbers of one cache lie on the stack.
 */
#include "features/inspect/counter.h"
#include "features/inspect/inspect.h"

#include <errno.h>
#include <string.h>

#include <slub/control.h>

#define CACHES "caches."
#define CACHES_LENGTH (sizeof(CACHES) - 1)
#define WORD_BYTES 32
#define NAME_BYTES (CACHES_LENGTH + SLUB_CACHE_NAME_MAX + 1 + WORD_BYTES)

/* What a number needs. */
enum row_source {
	ROW_PLAIN, ROW_CENSUS,
};

struct row {
	char name[WORD_BYTES];
	uint8_t kind;			/* enum slub_value_kind */
	uint8_t source;
};

/* ---- the heap ---- */

static const struct row heap_rows[] = {
#define VALUE_HEAP(name, kind, expression) { #name, SLUB_VALUE_##kind, ROW_CENSUS },
#include "features/inspect/value.def"
};

#define NR_HEAP_ROWS ARRAY_SIZE(heap_rows)

static cold void heap_numbers(uint64_t *out)
{
	struct heap_census census, *heap = &census;

	census_heap(heap);
#define VALUE_HEAP(name, kind, expression) *out++ = (expression);
#include "features/inspect/value.def"
}

/* ---- a cache ---- */

static const struct row cache_rows[] = {
#define VALUE_FIELD(name, kind, field) { #name, SLUB_VALUE_##kind, ROW_PLAIN },
#define VALUE_NODES(name, kind, field) { #name, SLUB_VALUE_##kind, ROW_PLAIN },
#define VALUE_COUNT(name, kind, expression) { #name, SLUB_VALUE_##kind, ROW_CENSUS },
#define COUNTER(name, ...) { #name, SLUB_VALUE_COUNTER, ROW_PLAIN },
#include "features/inspect/value.def"
#include "core/slab/stat.def"
};

#define NR_CACHE_ROWS ARRAY_SIZE(cache_rows)

static uint64_t nodes_sum(const struct slub_stats_cache *record, int field)
{
	uint64_t sum = 0;

	for (uint32_t n = 0; n < slub_abi_state.nr_nodes; n++)
		sum += record->nodes[n][field];
	return sum;
}

static cold void cache_numbers(const struct cache_census *census,
			       const struct slub_stats_cache *record, uint64_t *out)
{
#define VALUE_FIELD(name, kind, field) *out++ = record->fields[SLUB_ABI_CACHE_##field];
#define VALUE_NODES(name, kind, field) *out++ = nodes_sum(record, SLUB_ABI_NODE_##field);
#define VALUE_COUNT(name, kind, expression) *out++ = (expression);
#define COUNTER(name, meaning, kind, one, other)				\
	*out++ = (uint32_t)counter_number(COUNTER_##kind,			\
					  record->stats[SLUB_ABI_STAT_##one],	\
					  record->stats[SLUB_ABI_STAT_##other]);
#include "features/inspect/value.def"
#include "core/slab/stat.def"
}

static cold void cache_look(const struct slub_cache *cache,
			    const struct cache_census *census, uint64_t *out)
{
	union cache_record space = { .bytes = { 0 } };

	census_record(cache, slub_abi_state.nr_nodes, &space.record);
	cache_numbers(census, &space.record, out);
}

/* ---- reading ---- */

/* NULL: there is none of that name. */
static cold const struct row *find_row(const struct row *rows, size_t nr, const char *name)
{
	for (size_t i = 0; i < nr; i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	return NULL;
}

static cold int read_heap(const char *name, struct slub_value *value)
{
	const struct row *row = find_row(heap_rows, NR_HEAP_ROWS, name);
	uint64_t numbers[NR_HEAP_ROWS];

	if (!row)
		return -ENOENT;
	heap_numbers(numbers);
	*value = (struct slub_value){ numbers[row - heap_rows], row->kind, 0 };
	return 0;
}

static cold const struct slub_cache *find_cache(const char *name, size_t length)
{
	char found[SLUB_CACHE_NAME_MAX + 1];

	for (size_t i = 0; i < CENSUS_SLOTS; i++) {
		const struct slub_cache *cache = census_cache_at(i);

		if (cache && cache_name_copy(cache, found) &&
		    strlen(found) == length && memcmp(found, name, length) == 0)
			return cache;
	}
	return NULL;
}

/* @name is behind "caches.": a cache's, which may have dots, a dot and the value's. */
static cold int read_cache(const char *name, struct slub_value *value)
{
	const char *dot = strrchr(name, '.');
	const struct row *row = dot ? find_row(cache_rows, NR_CACHE_ROWS, dot + 1) : NULL;
	const struct slub_cache *cache = row ? find_cache(name, (size_t)(dot - name)) : NULL;
	struct cache_census census = { .slabs = 0 };
	uint64_t numbers[NR_CACHE_ROWS];

	if (!cache)
		return -ENOENT;
	if (row->source == ROW_CENSUS)
		census_cache(cache, &census);
	cache_look(cache, &census, numbers);
	*value = (struct slub_value){ numbers[row - cache_rows], row->kind, 0 };
	return 0;
}

SLUB_EXPORT cold int slub_value_read(const char *name, struct slub_value *value)
{
	int err = name && value ? slub_begin() : -EINVAL;

	if (err)
		return err;
	if (strncmp(name, CACHES, CACHES_LENGTH) == 0)
		return read_cache(name + CACHES_LENGTH, value);
	return read_heap(name, value);
}

/* ---- all of them ---- */

struct visitor {
	int (*visit)(const char *name, const struct slub_value *value, void *arg);
	void *arg;
};

static cold int visit_rows(const struct visitor *visitor, const char *before,
			   const struct row *rows, size_t nr, const uint64_t *numbers)
{
	for (size_t i = 0; i < nr; i++) {
		struct slub_value value = { numbers[i], rows[i].kind, 0 };
		char name[NAME_BYTES];
		struct text text = { name, sizeof(name) - 1, 0 };
		int ret;

		text_printf(&text, "%s%s", before, rows[i].name);
		name[text.used_bytes] = '\0';
		ret = visitor->visit(name, &value, visitor->arg);
		if (ret)
			return ret;
	}
	return 0;
}

static cold int visit_cache(const struct slub_cache *cache, const char *name,
			    const struct cache_census *census, void *visitor)
{
	uint64_t numbers[NR_CACHE_ROWS];
	char before[NAME_BYTES];
	struct text text = { before, sizeof(before) - 1, 0 };

	cache_look(cache, census, numbers);
	text_printf(&text, CACHES "%s.", name);
	before[text.used_bytes] = '\0';
	return visit_rows(visitor, before, cache_rows, NR_CACHE_ROWS, numbers);
}

SLUB_EXPORT cold int
slub_value_for_each(int (*visit)(const char *name, const struct slub_value *value,
				 void *arg),
		    void *arg)
{
	struct visitor visitor = { visit, arg };
	int ret = visit ? slub_begin() : -EINVAL;
	uint64_t numbers[NR_HEAP_ROWS];

	if (ret)
		return ret;
	heap_numbers(numbers);
	ret = visit_rows(&visitor, "", heap_rows, NR_HEAP_ROWS, numbers);
	return ret ? ret : census_each(visit_cache, &visitor);
}
