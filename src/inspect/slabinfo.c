/* SPDX-License-Identifier: MIT */
/*
 * The table of caches in the form of /proc/slabinfo, version 2.1, for the
 * tools and the eyes that know it.  Objects in the CPUs' lists and in the
 * barns count as active, as they do in the kernel.
 */
#include "inspect/inspect.h"

#include <string.h>

#define LINE_BYTES 160
#define BUFFER_BYTES (CENSUS_SLOTS * LINE_BYTES)

static const char header[] =
	"slabinfo - version: 2.1\n"
	"# name            <active_objs> <num_objs> <objsize> <objperslab> "
	"<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : "
	"slabdata <active_slabs> <num_slabs> <sharedavail>\n";

/* The cache may end meanwhile: then it has no line. */
static void slabinfo_line(struct text *text, const struct slub_cache *cache,
			  const struct cache_census *census)
{
	char name[SLUB_CACHE_NAME_MAX + 1];

	if (!cache_name_copy(cache, name))
		return;
	text_printf(text, "%-17s %6zu %6zu %6u %4u %4u : tunables %4u %4u %4u "
		    ": slabdata %6zu %6zu %6u\n", name, census->active,
		    census->objects,
		    __atomic_load_n(&cache->size, __ATOMIC_RELAXED),
		    __atomic_load_n(&cache->objects, __ATOMIC_RELAXED),
		    1u << __atomic_load_n(&cache->order, __ATOMIC_RELAXED),
		    0u, 0u, 0u, census->slabs, census->slabs, 0u);
}

/* In the order of their slots, which is mostly that of their making. */
static void slabinfo_lines(struct text *text)
{
	struct cache_census *all = census_all_live();

	for (size_t i = 0; all && i < CENSUS_SLOTS; i++) {
		const struct slub_cache *cache = census_cache_at(i);

		if (cache && all[i].objects)
			slabinfo_line(text, cache, &all[i]);
	}
	if (all)
		census_all_free(all);
}

static int table_write(const char *path, struct text *text)
{
	char buf[OS_PATH_BYTES];
	const char *name = os_path(path, buf, sizeof(buf));

	text_printf(text, "%s", header);
	slabinfo_lines(text);
	if (strcmp(path, "stderr") == 0)
		return sys_call4(SYS_write, 2, (long)text->buf,
				 (long)text->used_bytes, 0) < 0;
	return name ? os_file_write(name, text->buf, text->used_bytes) :
		      -36;	/* ENAMETOOLONG */
}

int slabinfo_write(const char *path)
{
	char *buf = os_reserve(BUFFER_BYTES);
	struct text text = { buf, BUFFER_BYTES, 0 };
	int err = -12;	/* ENOMEM */

	if (!buf)
		return err;
	if (!os_commit(buf, BUFFER_BYTES))
		err = table_write(path, &text);
	os_unreserve(buf, BUFFER_BYTES);
	return err;
}
