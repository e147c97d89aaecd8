/* SPDX-License-Identifier: MIT */
/* What slub top shows. */
#include "top.h"
#include "groups.h"

#include <inttypes.h>

struct sums {
	uint64_t objects, active, slabs, active_slabs, bytes, active_bytes;
	uint64_t caches, active_caches, min, max;
};

static struct sums sum(const struct snapshot *now)
{
	struct sums s = { .min = UINT64_MAX };

	for (size_t i = 0; i < now->nr_caches; i++) {
		const struct cache_view *cache = &now->caches[i];
		uint64_t size = cache_field(cache, SLUB_ABI_CACHE_SIZE);

		s.objects += cache_capacity(cache);
		s.active += cache->active;
		s.slabs += cache->slabs;
		s.active_slabs += cache->slabs - cache->empty;
		s.bytes += cache_bytes(now, cache);
		s.active_bytes += cache->active * size;
		s.caches++;
		s.active_caches += cache->active > 0;
		if (cache->slabs && size < s.min)
			s.min = size;
		if (cache->slabs && size > s.max)
			s.max = size;
	}
	if (s.min == UINT64_MAX)
		s.min = 0;
	return s;
}

static void print_pair(FILE *to, const char *what, uint64_t active,
		       uint64_t total)
{
	fprintf(to, " %-34s : %" PRIu64 " / %" PRIu64 " (%.1f%%)\n", what,
		active, total, percent(active, total));
}

static void print_identity(FILE *to, const struct snapshot *now)
{
	char when[32];

	fprintf(to, " %s", now->target);
	if (now->name[0])
		fprintf(to, " (%s)", now->name);
	if (!now->process)
		fprintf(to, ", as of %s%s", time_text(when, now->time_ns),
			now->has_exited ? ", when it exited" : "");
	fputc('\n', to);
}

static void print_head(FILE *to, const struct snapshot *now)
{
	struct sums s = sum(now);
	char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT];

	print_identity(to, now);
	print_pair(to, "Active / Total Objects (% used)", s.active, s.objects);
	print_pair(to, "Active / Total Slabs (% used)", s.active_slabs,
		   s.slabs);
	print_pair(to, "Active / Total Caches (% used)", s.active_caches,
		   s.caches);
	fprintf(to, " %-34s : %s / %s (%.1f%%)\n",
		"Active / Total Size (% used)",
		size_text(a, s.active_bytes, false),
		size_text(b, s.bytes, false), percent(s.active_bytes,
						      s.bytes));
	fprintf(to, " %-34s : %s / %s / %s\n", "Minimum / Average / Maximum Object",
		size_text(a, s.min, false),
		size_text(b, s.active ? s.active_bytes / s.active : 0, false),
		size_text(c, s.max, false));
	fprintf(to, " %-34s : %s / %s / %s\n", "Large / Idle / Committed",
		size_text(a, now->large_bytes, false),
		size_text(b, now->idle_bytes, false),
		size_text(c, now->committed_bytes, false));
}

/* "+1.0M", "" for nothing. */
static const char *growth_text(char *buf, int64_t growth)
{
	uint64_t size = growth < 0 ? -(uint64_t)growth : (uint64_t)growth;

	buf[0] = '\0';
	if (growth)
		size_text(buf + 1, size, false);
	if (growth)
		buf[0] = growth < 0 ? '-' : '+';
	return buf;
}

static void print_cache(FILE *to, const struct snapshot *now,
			const struct snapshot *before,
			const struct cache_view *cache, const struct top *top)
{
	uint64_t capacity = cache_capacity(cache);
	char size[SIZE_TEXT], all[SIZE_TEXT], growth[SIZE_TEXT + 1];
	char waste[SIZE_TEXT], slack[SIZE_TEXT], fast[SIZE_TEXT] = "-";
	double share = cache_fast_percent(cache);

	if (share > 0)
		snprintf(fast, sizeof(fast), "%.1f%%", share);
	snprintf(size, sizeof(size), "%.2fK",
		 (double)cache_field(cache, SLUB_ABI_CACHE_SIZE) / 1024);
	snprintf(all, sizeof(all), "%" PRIu64 "K",
		 cache_bytes(now, cache) / 1024);
	if (top->human) {
		size_text(size, cache_field(cache, SLUB_ABI_CACHE_SIZE),
			  false);
		size_text(all, cache_bytes(now, cache), false);
	}
	fprintf(to, "%7" PRIu64 " %7" PRIu64 " %3.0f%% %8s %6" PRIu64 " %8"
		PRIu64 " %10s %7" PRIu64 " %7s", capacity,
		cache->active, percent(cache->active, capacity), size,
		cache->slabs, cache_field(cache, SLUB_ABI_CACHE_OBJECTS), all,
		cache->cached, size_text(waste, cache_waste(now, cache),
					 false));
	if (!top->narrow)
		fprintf(to, " %7s %6s", slack_text(slack, cache, false), fast);
	fprintf(to, " %7s %s\n",
		growth_text(growth, cache_growth(now, before, cache)),
		cache->name);
}

static int print_groups(FILE *to, const struct snapshot *now,
			const struct top *top, size_t rows)
{
	struct groups groups;
	int status = groups_read(&groups, now, "top");

	if (status)
		return status;
	print_head(to, now);
	groups_print(to, &groups, top->key == SORT_NAME, false, rows);
	groups_free(&groups);
	return 0;
}

static void print_caches(FILE *to, struct snapshot *now,
			 const struct snapshot *before, const struct top *top,
			 size_t rows)
{
	print_head(to, now);
	fprintf(to, "%7s %7s %4s %8s %6s %8s %10s %7s %7s%s %7s %s\n", "OBJS",
		"ACTIVE", "USE", "OBJ SIZE", "SLABS", "OBJ/SLAB", "CACHE SIZE",
		"CACHED", "WASTE", top->narrow ? "" : "   SLACK   FAST",
		"GROWTH", "NAME");
	cache_sort(now, before, top->key);
	for (size_t i = 0; i < now->nr_caches && rows; i++) {
		if (!now->caches[i].slabs)
			continue;
		print_cache(to, now, before, &now->caches[i], top);
		rows--;
	}
}

int top_print(FILE *to, struct snapshot *now, const struct snapshot *before,
	      const struct top *top, size_t rows)
{
	if (top->groups)
		return print_groups(to, now, top, rows);
	print_caches(to, now, before, top, rows);
	return 0;
}
