/* SPDX-License-Identifier: MIT */
/*
 * The table of caches in the form of /proc/slabinfo, version 2.1, for the
 * tools and the eyes that know it.  Objects in the CPUs' lists and in the
 * barns count as active, as they do in the kernel.
 */
#include "inspect/inspect.h"

#include <string.h>

#define BUFFER_BYTES 32768

static const char header[] =
	"slabinfo - version: 2.1\n"
	"# name            <active_objs> <num_objs> <objsize> <objperslab> "
	"<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : "
	"slabdata <active_slabs> <num_slabs> <sharedavail>\n";

static void slabinfo_line(struct text *text, const struct slub_cache *cache)
{
	struct cache_census census;

	census_cache(cache, &census);
	if (!census.slabs)
		return;
	text_printf(text, "%-17s %6zu %6zu %6u %4u %4u : tunables %4u %4u %4u "
		    ": slabdata %6zu %6zu %6u\n", cache->name, census.active,
		    census.objects, cache->size, cache->objects,
		    1u << cache->order, 0u, 0u, 0u, census.slabs, census.slabs,
		    0u);
}

/* The list of caches runs from the newest: from the largest class down. */
static void slabinfo_lines(struct text *text)
{
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = cache_first();

		for (uint32_t skip = CLASS_NR - 1 - c; skip; skip--)
			cache = cache->next;
		slabinfo_line(text, cache);
	}
}

/* Replaces %p by the process's number. */
static void expand_path(const char *path, struct text *out)
{
	for (; *path; path++) {
		if (path[0] == '%' && path[1] == 'p') {
			text_printf(out, "%ld",
				    sys_call4(SYS_getpid, 0, 0, 0, 0));
			path++;
		} else {
			text_printf(out, "%c", *path);
		}
	}
	out->buf[out->used_bytes] = '\0';
}

int slabinfo_write(const char *path)
{
	static char buf[BUFFER_BYTES];
	char name[512];
	struct text text = { buf, sizeof(buf), 0 };
	struct text expanded = { name, sizeof(name) - 1, 0 };

	text_printf(&text, "%s", header);
	slabinfo_lines(&text);
	if (strncmp(path, "stderr", 7) == 0)
		return sys_call4(SYS_write, 2, (long)buf,
				 (long)text.used_bytes, 0) < 0;
	expand_path(path, &expanded);
	return os_file_write(name, buf, text.used_bytes);
}
