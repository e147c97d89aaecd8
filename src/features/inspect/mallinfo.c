/* SPDX-License-Identifier: MIT */
/*
 * glibc's statistics functions, in its words:
 *
 *   arena     slabs, and free memory that is kept
 *   ordblks   free objects in slabs, and 1 for the memory that is kept; so it is never
 *             0, as glibc's, by which programs divide
 *   hblks     large blocks; hblkhd their bytes
 *   uordblks  bytes of objects that the program has, at their size
 *   smblks    objects in the CPUs' lists and the barns; fsmblks their bytes.  They are
 *             free, as glibc's in fast bins, and no part of uordblks
 *   fordblks  the rest of arena
 *   keepcost  free memory that is kept
 *
 * malloc_stats() and malloc_info() print what slub_value_read() knows of the heap, by its names.
 *
 * They walk the heap: their cost grows with it (about a millisecond per GiB),
 * and on a heap in use they are estimates.  How many objects lie in a CPU's
 * list is always one, to within a list's length.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "features/inspect/inspect.h"
#include "slub/version.h"
#include "features/idle/idle.h"

#if defined(__GLIBC__)	/* no other C library has the structures */
void mallinfo_fill(struct mallinfo2 *info, const struct heap_census *census)
{
	memset(info, 0, sizeof(*info));
	info->arena = census->slab_bytes + census->dirty_bytes;
	info->ordblks = census->free + 1;
	info->hblks = census->large_blocks;
	info->hblkhd = census->large_bytes;
	info->smblks = census->cached;
	info->fsmblks = census->cached_bytes;
	info->uordblks = census->object_bytes - census->cached_bytes;
	/* Estimates, on a heap in use: the parts are not to exceed the whole. */
	info->uordblks = min_size(info->uordblks, info->arena);
	info->fordblks = info->arena - info->uordblks;
	info->keepcost = census->dirty_bytes;
}

SLUB_EXPORT struct mallinfo2 mallinfo2(void)
{
	struct mallinfo2 info;
	struct heap_census census = { .slab_bytes = 0 };

	if (slub_start())
		census_heap(&census);
	mallinfo_fill(&info, &census);
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
	info.ordblks = clamp_int(wide.ordblks);
	info.hblks = clamp_int(wide.hblks);
	info.hblkhd = clamp_int(wide.hblkhd);
	info.smblks = clamp_int(wide.smblks);
	info.fsmblks = clamp_int(wide.fsmblks);
	info.uordblks = clamp_int(wide.uordblks);
	info.fordblks = clamp_int(wide.fordblks);
	info.keepcost = clamp_int(wide.keepcost);
	return info;
}
#endif

SLUB_EXPORT void malloc_stats(void)
{
	char buf[1024];
	struct text text = { buf, sizeof(buf), 0 };
	struct heap_census census, *heap = &census;

	if (!slub_start())
		return;
	census_heap(heap);
	text_printf(&text, "slub %s\n", SLUB_VERSION_STRING);
#define VALUE_HEAP(name, kind, expression)					\
	text_printf(&text, "%14zu %s\n", (size_t)(expression), #name);
#include "features/inspect/value.def"
	sys_call4(SYS_write, 2, (long)buf, (long)text.used_bytes, 0);
}

/* A program chooses the names of its caches. */
static void xml_text(struct text *text, const char *s)
{
	for (; *s; s++) {
		if (*s == '<')
			text_printf(text, "&lt;");
		else if (*s == '&')
			text_printf(text, "&amp;");
		else if (*s == '"')
			text_printf(text, "&quot;");
		else
			text_printf(text, "%c", *s);
	}
}

static int xml_cache(const struct slub_cache *cache, const char *name,
		     const struct cache_census *census, void *out)
{
	char buf[640];
	struct text text = { buf, sizeof(buf), 0 };

	if (!census->objects)
		return 0;
	text_printf(&text, "<cache name=\"");
	xml_text(&text, name);
	text_printf(&text, "\" size=\"%u\" active=\"%zu\" "
		    "cached=\"%zu\" objects=\"%zu\" slabs=\"%zu\"/>\n",
		    __atomic_load_n(&cache->size, __ATOMIC_RELAXED), census->active,
		    min_size(cache_nr_cached(cache), census->active),
		    census->objects, census->slabs);
	fwrite(buf, 1, text.used_bytes, out);
	return 0;
}

SLUB_EXPORT int malloc_info(int options, FILE *out)
{
	char buf[1536];
	struct text text = { buf, sizeof(buf), 0 };
	struct heap_census census, *heap = &census;

	if (options || !slub_start()) {
		errno = EINVAL;
		return -1;
	}
	fputs("<malloc version=\"slub-1\">\n", out);
	census_each(xml_cache, out);
	census_heap(heap);
#define XML_NUMBER "count"
#define XML_BYTES "size"
#define VALUE_HEAP(name, kind, expression)					\
	text_printf(&text, "<total type=\"%s\" %s=\"%zu\"/>\n", #name, XML_##kind,	\
		    (size_t)(expression));
#include "features/inspect/value.def"
	text_printf(&text, "<system type=\"current\" size=\"%zu\"/>\n</malloc>\n",
		    heap->committed_bytes);
	fwrite(buf, 1, text.used_bytes, out);
	return ferror(out) ? -1 : 0;
}
