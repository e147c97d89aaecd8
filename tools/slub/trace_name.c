/* SPDX-License-Identifier: MIT */
/*
 * Addresses to names, as `slub profile` finds them: the process's mappings are
 * told to elfutils, and a file that is another one by now is not asked.
 */
#include "trace_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- locations ---- */

static int compare_locations(const void *a, const void *b)
{
	const struct profile_location *one = a, *other = b;

	return one->address < other->address ? -1 :
	       one->address > other->address;
}

/* Each address once, less one as in every profile, in their order. */
static bool add_locations(struct profile *names, const struct process *process,
			  const struct traces *traces)
{
	struct profile_location *all;
	size_t nr = 0, kept = 0;

	all = calloc(traces->nr * TRACE_FRAMES_MAX + 1, sizeof(*all));
	if (!all)
		return false;
	for (size_t i = 0; i < traces->nr; i++) {
		for (uint32_t n = 0; n < traces->rows[i].nr_frames; n++)
			all[nr++].address = traces->rows[i].frames[n] - 1;
	}
	qsort(all, nr, sizeof(*all), compare_locations);
	for (size_t i = 0; i < nr; i++) {
		if (i && all[i].address == all[i - 1].address)
			continue;
		all[kept] = all[i];
		all[kept].mapping = profile_mapping_at(names, process,
						       all[kept].address);
		kept++;
	}
	names->locations = all;
	names->nr_locations = kept;
	return true;
}

void trace_names_find(struct profile *names, const struct process *process,
		      const struct traces *traces)
{
	*names = (struct profile){ .pid = (uint64_t)process->pid };
	if (traces->nr && profile_mappings_of(names, process) &&
	    add_locations(names, process, traces))
		profile_find_symbols(names);
}

const struct profile_location *
trace_name(const struct profile *names, uint64_t frame)
{
	struct profile_location key = { .address = frame - 1 };

	return names->nr_locations ?
	       bsearch(&key, names->locations, names->nr_locations,
		       sizeof(key), compare_locations) : NULL;
}

const char *trace_name_text(const struct profile *names, uint64_t frame,
			    char *buf, size_t size)
{
	const struct profile_location *found = trace_name(names, frame);
	const struct profile_mapping *mapping =
		found && found->mapping ?
		&names->mappings[found->mapping - 1] : NULL;
	const char *slash = mapping ? strrchr(mapping->path, '/') : NULL;

	/* The end of a long name is worth less than where it is. */
	if (found && found->function && found->file)
		snprintf(buf, size, "%.*s (%s:%u)", (int)size / 2,
			 found->function, found->file, found->line);
	else if (found && found->function)
		snprintf(buf, size, "%s [%s]", found->function,
			 slash ? slash + 1 : "");
	else if (slash)
		snprintf(buf, size, "%s+0x%" PRIx64, slash + 1,
			 frame - mapping->start + mapping->offset);
	else
		snprintf(buf, size, "0x%" PRIx64, frame);
	clean_text(buf, size);
	return buf;
}
