/* SPDX-License-Identifier: MIT */
/*
 * glibc's statistics functions.  They walk the heap: their cost grows with it
 * (about a millisecond per GiB), and on a heap in use they are estimates.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "inspect/inspect.h"
#include "slub/version.h"

SLUB_EXPORT struct mallinfo2 mallinfo2(void)
{
	struct mallinfo2 info;
	struct heap_census census;

	memset(&info, 0, sizeof(info));
	if (!slub_start())
		return info;
	census_heap(&census);
	info.arena = census.slab_bytes + census.dirty_bytes;
	info.hblkhd = census.large_bytes;
	info.uordblks = census.object_bytes;
	info.fordblks = info.arena - info.uordblks;
	info.keepcost = census.dirty_bytes;
	return info;
}

static int clamp_int(size_t n)
{
	return n > INT_MAX ? INT_MAX : (int)n;
}

SLUB_EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo2 wide = mallinfo2();
	struct mallinfo info;

	memset(&info, 0, sizeof(info));
	info.arena = clamp_int(wide.arena);
	info.hblkhd = clamp_int(wide.hblkhd);
	info.uordblks = clamp_int(wide.uordblks);
	info.fordblks = clamp_int(wide.fordblks);
	info.keepcost = clamp_int(wide.keepcost);
	return info;
}

SLUB_EXPORT void malloc_stats(void)
{
	struct heap_census c;

	census_heap(&c);
	fprintf(stderr,
		"slub %s\n"
		"slab bytes      %12zu\n"
		"object bytes    %12zu\n"
		"large bytes     %12zu\n"
		"idle bytes      %12zu\n"
		"committed bytes %12zu\n",
		SLUB_VERSION_STRING, c.slab_bytes, c.object_bytes,
		c.large_bytes, c.dirty_bytes, c.committed_bytes);
}

static void xml_cache(FILE *out, const struct slub_cache *cache)
{
	struct cache_census census;

	census_cache(cache, &census);
	if (census.slabs)
		fprintf(out, "<cache name=\"%s\" size=\"%u\" active=\"%zu\" "
			"objects=\"%zu\" slabs=\"%zu\"/>\n", cache->name,
			cache->size, census.active, census.objects,
			census.slabs);
}

SLUB_EXPORT int malloc_info(int options, FILE *out)
{
	struct heap_census c;

	if (options) {
		errno = EINVAL;
		return -1;
	}
	census_heap(&c);
	fprintf(out, "<malloc version=\"slub-1\">\n");
	for (struct slub_cache *cache = cache_first(); cache;
	     cache = cache->next)
		xml_cache(out, cache);
	fprintf(out, "<total type=\"slab\" size=\"%zu\"/>\n"
		"<total type=\"object\" count=\"%zu\" size=\"%zu\"/>\n"
		"<total type=\"large\" size=\"%zu\"/>\n"
		"<total type=\"idle\" size=\"%zu\"/>\n"
		"<system type=\"current\" size=\"%zu\"/>\n"
		"</malloc>\n", c.slab_bytes, c.objects, c.object_bytes,
		c.large_bytes, c.dirty_bytes, c.committed_bytes);
	return 0;
}
