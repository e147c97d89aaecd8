/* SPDX-License-Identifier: MIT */
/*
 * The files of a process or a core, as profile_find_symbols() takes them: what the process
 * runs has the build ID that lies in its memory, which the file may have no more.
 */
#include "elf_image.h"
#include "process.h"
#include "profile.h"
#include "slub.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of the file's first mapping, for that has its head. */
static char *build_id_of(const struct process *process, const char *path)
{
	const struct mapping *first = process_file(process, path);
	char hex[130];

	return first && elf_image_build_id(process, first->start, hex,
					   sizeof(hex)) ?
	       must_have(strdup(hex)) : NULL;
}

void profile_mappings_of(struct profile *names, const struct process *process)
{
	size_t size;
	FILE *maps = must_have(open_memstream(&names->maps, &size));

	names->mappings = must_have(calloc(process->nr_mappings, sizeof(*names->mappings)));
	for (size_t i = 0, file = 0; i < process->nr_mappings; i++) {
		const struct mapping *from = &process->mappings[i];
		struct profile_mapping *to =
			&names->mappings[names->nr_mappings];

		if (*from->path != '/' || from->deleted)
			continue;
		*to = (struct profile_mapping){
			from->start, from->end, from->offset,
			must_have(strdup(from->path)), NULL, false,
		};
		/* elfutils tells files apart by their inodes. */
		file += !names->nr_mappings || strcmp(to[-1].path, to->path);
		names->nr_mappings++;
		fprintf(maps, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64
			" 00:00 %zu %s\n", from->start, from->end,
			from->offset, file, from->path);
	}
	must_have(fclose(maps) ? NULL : names->maps);
}

size_t profile_mapping_at(struct profile *names, const struct process *process,
			  uint64_t address)
{
	for (size_t i = 0; i < names->nr_mappings; i++) {
		struct profile_mapping *mapping = &names->mappings[i];

		if (address < mapping->start || address >= mapping->end)
			continue;
		if (!mapping->build_id)
			mapping->build_id = build_id_of(process, mapping->path);
		return i + 1;
	}
	return 0;
}
