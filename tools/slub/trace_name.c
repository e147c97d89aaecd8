/* SPDX-License-Identifier: MIT */
/*
 * Addresses to names, as `slub profile` finds them: the process's mappings are
 * told to elfutils, and a file that is another one by now is not asked.
 */
#include "trace_name.h"
#include "elf_image.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- mappings ---- */

/* Of the file's first mapping, for that has its head. */
static char *build_id_of(const struct process *process, const char *path)
{
	const struct mapping *first = process_file(process, path);
	char hex[130];

	return first && elf_image_build_id(process, first->start, hex,
					   sizeof(hex)) ?
	       strdup(hex) : NULL;
}

static bool add_mappings(struct profile *names, const struct process *process)
{
	size_t size;
	FILE *maps = open_memstream(&names->maps, &size);

	names->mappings = calloc(process->nr_mappings + 1,
				 sizeof(*names->mappings));
	if (!maps || !names->mappings)
		return false;
	for (size_t i = 0, file = 0; i < process->nr_mappings; i++) {
		const struct mapping *from = &process->mappings[i];
		struct profile_mapping *to =
			&names->mappings[names->nr_mappings];

		if (*from->path != '/' || from->deleted)
			continue;
		*to = (struct profile_mapping){
			from->start, from->end, from->offset,
			strdup(from->path), build_id_of(process, from->path),
			false,
		};
		if (!to->path)
			break;
		/* elfutils tells files apart by their inodes. */
		file += !names->nr_mappings || strcmp(to[-1].path, to->path);
		names->nr_mappings++;
		fprintf(maps, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64
			" 00:00 %zu %s\n", from->start, from->end,
			from->offset, file, from->path);
	}
	return !fclose(maps);
}

static size_t mapping_of(const struct profile *names, uint64_t address)
{
	for (size_t i = 0; i < names->nr_mappings; i++) {
		if (address >= names->mappings[i].start &&
		    address < names->mappings[i].end)
			return i + 1;
	}
	return 0;
}

/* ---- locations ---- */

static int compare_locations(const void *a, const void *b)
{
	const struct profile_location *one = a, *other = b;

	return one->address < other->address ? -1 :
	       one->address > other->address;
}

/* Each address once, less one as in every profile, in their order. */
static bool add_locations(struct profile *names, const struct traces *traces)
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
		all[kept].mapping = mapping_of(names, all[kept].address);
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
	if (traces->nr && add_mappings(names, process) &&
	    add_locations(names, traces))
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
