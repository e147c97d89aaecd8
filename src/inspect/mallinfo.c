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
	char buf[512];
	struct text text = { buf, sizeof(buf), 0 };
	struct heap_census c;

	if (!slub_start())
		return;
	census_heap(&c);
	text_printf(&text,
		"slub %s\n"
		"slab bytes      %12zu\n"
		"object bytes    %12zu\n"
		"large bytes     %12zu\n"
		"idle bytes      %12zu\n"
		"committed bytes %12zu\n",
		SLUB_VERSION_STRING, c.slab_bytes, c.object_bytes,
		c.large_bytes, c.dirty_bytes, c.committed_bytes);
	sys_call4(SYS_write, 2, (long)buf, (long)text.used_bytes, 0);
}

static void xml_cache(FILE *out, const struct slub_cache *cache)
{
	char buf[256];
	struct text text = { buf, sizeof(buf), 0 };
	struct cache_census census;

	census_cache(cache, &census);
	if (!census.slabs)
		return;
	text_printf(&text, "<cache name=\"%s\" size=\"%u\" active=\"%zu\" "
		    "objects=\"%zu\" slabs=\"%zu\"/>\n", cache->name,
		    cache->size, census.active, census.objects, census.slabs);
	fwrite(buf, 1, text.used_bytes, out);
}

SLUB_EXPORT int malloc_info(int options, FILE *out)
{
	char buf[1024];
	struct text text = { buf, sizeof(buf), 0 };
	struct heap_census c;

	if (options || !slub_start()) {
		errno = EINVAL;
		return -1;
	}
	census_heap(&c);
	fputs("<malloc version=\"slub-1\">\n", out);
	for (struct slub_cache *cache = cache_first(); cache;
	     cache = cache->next)
		xml_cache(out, cache);
	text_printf(&text, "<total type=\"slab\" size=\"%zu\"/>\n"
		"<total type=\"object\" count=\"%zu\" size=\"%zu\"/>\n"
		"<total type=\"large\" size=\"%zu\"/>\n"
		"<total type=\"idle\" size=\"%zu\"/>\n"
		"<system type=\"current\" size=\"%zu\"/>\n"
		"</malloc>\n", c.slab_bytes, c.objects, c.object_bytes,
		c.large_bytes, c.dirty_bytes, c.committed_bytes);
	fwrite(buf, 1, text.used_bytes, out);
	return 0;
}
