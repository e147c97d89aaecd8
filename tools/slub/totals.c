/* SPDX-License-Identifier: MIT */
/* slabinfo's totals: sums, averages and extremes over all caches. */
#include "totals.h"
#include "view.h"

#include <inttypes.h>
#include <stdio.h>

struct spread {
	uint64_t nr, sum, min, max;
};

static void spread_add(struct spread *spread, uint64_t value)
{
	if (!spread->nr || value < spread->min)
		spread->min = value;
	if (value > spread->max)
		spread->max = value;
	spread->sum += value;
	spread->nr++;
}

static uint64_t average(const struct spread *spread)
{
	return spread->nr ? spread->sum / spread->nr : 0;
}

static void spread_print(const char *name, const struct spread *spread,
			 bool is_size, bool exact)
{
	uint64_t values[] = { average(spread), spread->min, spread->max,
			      spread->sum };

	printf("%-16s", name);
	for (int i = 0; i < 4; i++) {
		char text[SIZE_TEXT];

		printf(" %14s", size_text(text, values[i],
					  !is_size || exact));
	}
	putchar('\n');
}

struct totals {
	struct spread objects, slabs, partial, memory, used, loss, size;
	uint64_t aliases, active, partial_objects;
};

static void totals_add(struct totals *t, const struct snapshot *snapshot,
		       const struct cache_view *cache)
{
	uint64_t bytes = cache_bytes(snapshot, cache);
	uint64_t used = cache->active *
			cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);

	if (used > bytes)
		used = bytes;
	spread_add(&t->objects, cache->active);
	spread_add(&t->slabs, cache->slabs);
	spread_add(&t->partial, cache_partial(cache));
	spread_add(&t->memory, bytes);
	spread_add(&t->used, used);
	spread_add(&t->loss, bytes - used);
	spread_add(&t->size, cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE));
	t->aliases += cache_aliases(cache);
	t->active += cache->slabs > 0;
	t->partial_objects += cache->active > cache->full *
			cache_field(cache, SLUB_ABI_CACHE_OBJECTS) ?
		cache->active - cache->full *
			cache_field(cache, SLUB_ABI_CACHE_OBJECTS) : 0;
}

void totals_print(const struct snapshot *snapshot, bool exact)
{
	struct totals t = { .aliases = 0 };
	char memory[SIZE_TEXT], loss[SIZE_TEXT];

	for (size_t i = 0; i < snapshot->nr_caches; i++)
		totals_add(&t, snapshot, &snapshot->caches[i]);
	puts("Slabcache Totals");
	puts("----------------");
	printf("Slabcaches : %10zu   Aliases  : %7" PRIu64 "   Active: %7"
	       PRIu64 "\n", snapshot->nr_caches, t.aliases, t.active);
	printf("Memory used: %10s   # Loss   : %7s   MRatio: %6.0f%%\n",
	       size_text(memory, t.memory.sum, exact),
	       size_text(loss, t.loss.sum, exact),
	       percent(t.used.sum, t.memory.sum));
	printf("# Objects  : %10" PRIu64 "   # PartObj: %7" PRIu64
	       "   ORatio: %6.0f%%\n", t.objects.sum, t.partial_objects,
	       percent(t.partial_objects, t.objects.sum));
	printf("\n%-16s %14s %14s %14s %14s\n", "Per Cache", "Average", "Min",
	       "Max", "Total");
	puts("-----------------------------------------------------------------"
	     "-----------");
	spread_print("#Objects", &t.objects, false, exact);
	spread_print("#Slabs", &t.slabs, false, exact);
	spread_print("#PartSlab", &t.partial, false, exact);
	spread_print("Memory", &t.memory, true, exact);
	spread_print("Used", &t.used, true, exact);
	spread_print("Loss", &t.loss, true, exact);
	spread_print("Objsize", &t.size, true, exact);
}
