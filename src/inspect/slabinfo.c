/* SPDX-License-Identifier: MIT */
/*
 * The table of caches in the form of /proc/slabinfo, version 2.1, for the
 * tools and the eyes that know it.  Objects in the CPUs' lists and in the
 * barns count as active, as they do in the kernel.
 */
#define _GNU_SOURCE
#include "inspect/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define LINE_BYTES 160
#define BUFFER_BYTES (CENSUS_SLOTS * LINE_BYTES)

static const char header[] =
	"slabinfo - version: 2.1\n"
	"# name            <active_objs> <num_objs> <objsize> <objperslab> "
	"<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : "
	"slabdata <active_slabs> <num_slabs> <sharedavail>\n";

/* In the order of the caches' slots, which is mostly that of their making. */
static int slabinfo_line(const struct slub_cache *cache, const char *name,
			 const struct cache_census *census, void *arg)
{
	if (census->objects)
		text_printf(arg, "%-17s %6zu %6zu %6u %4u %4u : tunables %4u %4u %4u "
			    ": slabdata %6zu %6zu %6u\n", name, census->active,
			    census->objects,
			    __atomic_load_n(&cache->size, __ATOMIC_RELAXED),
			    __atomic_load_n(&cache->objects, __ATOMIC_RELAXED),
			    1u << __atomic_load_n(&cache->order, __ATOMIC_RELAXED),
			    0u, 0u, 0u, census->slabs, census->slabs, 0u);
	return 0;
}

long slabinfo_write(const char *path)
{
	char buf[OS_PATH_BYTES];
	const char *name = os_path(path, buf, sizeof(buf));
	struct text text = { NULL, BUFFER_BYTES, 0 };
	bool is_stderr;
	long fd, err;

	if (!name)
		return -ENAMETOOLONG;
	text.buf = os_map(BUFFER_BYTES);
	if (!text.buf)
		return -ENOMEM;
	is_stderr = strcmp(name, "stderr") == 0;
	fd = err = is_stderr ? 2 : os_output_open(name, O_TRUNC);
	if (fd >= 0) {
		text_printf(&text, "%s", header);
		census_each(slabinfo_line, &text);
		err = os_write_all(fd, text.buf, text.used_bytes);
		if (!is_stderr)
			sys_close(fd);
	}
	os_unreserve(text.buf, BUFFER_BYTES);
	return err;
}

static struct os_file_id before;

void slabinfo_start(const char *path)
{
	os_output_expect(&before, path);
}

void slabinfo_finish(const char *path)
{
	os_output_finish(&before, "slabinfo", path, slabinfo_write);
}
