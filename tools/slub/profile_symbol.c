/* SPDX-License-Identifier: MIT */
/*
 * From addresses to functions, files and lines, by elfutils, from the files that
 * the process had mapped.  A file that has another build ID by now is not asked:
 * wrong names would be worse than none.
 */
#include "demangle.h"
#include "profile.h"
#include "progress.h"
#include "slub.h"

#include <string.h>

#if SLUB_TOOL_LIBDW
#include <elfutils/libdwfl.h>

#include "profile_elf.h"

static Dwfl *open_modules(const struct profile *profile)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = profile_elf_find,
		.find_debuginfo = profile_elf_debuginfo,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);
	FILE *maps;

	if (!dwfl || !profile->maps || !*profile->maps)
		return dwfl;
	maps = fmemopen(profile->maps, strlen(profile->maps), "r");
	if (maps) {
		dwfl_report_begin(dwfl);
		dwfl_linux_proc_maps_report(dwfl, maps);
		dwfl_report_end(dwfl, NULL, NULL);
		fclose(maps);
	}
	return dwfl;
}

static bool is_same_build(Dwfl_Module *module, const char *hex)
{
	const unsigned char *id;
	GElf_Addr where;
	int bytes;

	/* Reads the file, and with it the ID. */
	GElf_Addr bias;
	if (!dwfl_module_getelf(module, &bias))
		return false;
	bytes = dwfl_module_build_id(module, &id, &where);
	if (!hex || bytes <= 0)
		return true;
	if (strlen(hex) != 2 * (size_t)bytes)
		return false;
	for (int i = 0; i < bytes; i++) {
		char digits[3];

		snprintf(digits, sizeof(digits), "%02x", id[i]);
		if (memcmp(digits, hex + 2 * i, 2))
			return false;
	}
	return true;
}

static void name_location(Dwfl_Module *module,
			  struct profile_location *location)
{
	const char *name = dwfl_module_addrname(module, location->address);
	Dwfl_Line *line = dwfl_module_getsrc(module, location->address);
	const char *file = NULL;
	int number = 0;

	if (name) {
		location->function = demangle(name);
		if (location->function)
			location->symbol = strdup(name);
		else
			location->function = strdup(name);
	}
	if (line)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	clean_string(location->function);
	if (file) {
		location->file = clean_string(strdup(file));
		location->line = (unsigned int)number;
	}
}

void profile_find_symbols(struct profile *profile)
{
	Dwfl *dwfl = open_modules(profile);

	for (size_t i = 0; dwfl && i < profile->nr_locations; i++) {
		struct profile_location *location = &profile->locations[i];
		struct profile_mapping *mapping;
		Dwfl_Module *module;

		progress("looking up functions", i, profile->nr_locations);
		if (!location->mapping)
			continue;
		mapping = &profile->mappings[location->mapping - 1];
		module = dwfl_addrmodule(dwfl, location->address);
		if (!module || !is_same_build(module, mapping->build_id))
			continue;
		name_location(module, location);
		mapping->has_symbols |= location->function != NULL;
	}
	progress_end();
	if (dwfl)
		dwfl_end(dwfl);
}

#else

/* pprof can find them itself where it finds the files. */
void profile_find_symbols(struct profile *profile)
{
	(void)profile;
	complain("profile: built without elfutils: no names of functions");
}

#endif
