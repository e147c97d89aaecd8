/* SPDX-License-Identifier: MIT */
/*
 * From code addresses to functions and lines: as `slub profile` does it, with
 * the mappings that the process or the core names.  Without elfutils, or for a
 * file that is gone, the file and the offset in it.
 */
#include "symbols.h"
#include "profile.h"
#include "snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mapping *mapping_of(const struct process *process,
					uint64_t address)
{
	for (size_t i = 0; i < process->nr_mappings; i++) {
		if (address >= process->mappings[i].start &&
		    address < process->mappings[i].end)
			return &process->mappings[i];
	}
	return NULL;
}

static void print_location(const struct process *process,
			   const struct profile_location *location)
{
	const struct mapping *m = mapping_of(process, location->address);

	printf("\t0x%" PRIx64, location->address + 1);
	if (location->function)
		printf(" %s", location->function);
	if (location->file)
		printf(" (%s:%u)", location->file, location->line);
	else if (m && *m->path)
		printf(" (%s+0x%" PRIx64 ")", m->path,
		       location->address + 1 - m->start + m->offset);
	putchar('\n');
}

static void put_location(struct json *json, const struct process *process,
			 const struct profile_location *location)
{
	const struct mapping *m = mapping_of(process, location->address);

	json_open(json, NULL);
	json_address(json, "address", location->address + 1);
	if (location->function)
		json_string(json, "function", location->function);
	if (location->file) {
		json_string(json, "file", location->file);
		json_number(json, "line", location->line);
	} else if (m && *m->path) {
		json_string(json, "mapping", m->path);
		json_address(json, "offset", location->address + 1 - m->start +
			     m->offset);
	}
	json_close(json);
}

/* Looks up those of @names, which the caller has made room for. */
static void look_up(struct profile *names, const struct process *process)
{
	if (!profile_mappings_of(names, process))
		return;
	for (size_t i = 0; i < names->nr_locations; i++)
		names->locations[i].mapping =
			profile_mapping_at(names, process,
					   names->locations[i].address);
	profile_find_symbols(names);
}

static void symbols_find(const struct process *process,
			 const uint64_t *addresses, size_t nr,
			 struct json *json)
{
	struct profile names = {
		.locations = calloc(nr ? nr : 1, sizeof(*names.locations)),
	};

	for (; names.locations && names.nr_locations < nr; names.nr_locations++)
		names.locations[names.nr_locations].address =
			addresses[names.nr_locations] - 1;
	look_up(&names, process);
	for (size_t i = 0; i < names.nr_locations; i++) {
		if (json)
			put_location(json, process, &names.locations[i]);
		else
			print_location(process, &names.locations[i]);
	}
	profile_free(&names);
}

void symbols_print(const struct process *process, const uint64_t *addresses,
		   size_t nr)
{
	symbols_find(process, addresses, nr, NULL);
}

void symbols_put(struct json *json, const struct process *process,
		 const uint64_t *addresses, size_t nr)
{
	json_open_array(json, "stack");
	symbols_find(process, addresses, nr, json);
	json_close(json);
}

/* ---- one function ---- */

#define NAMES_MAX 64

static struct {
	uint64_t address;
	char *name;
} names[NAMES_MAX];
static size_t nr_names;

static char *find_name(const struct process *process, uint64_t address)
{
	struct profile names = {
		.locations = calloc(1, sizeof(*names.locations)),
	};
	char *name;

	if (!names.locations)
		return NULL;
	names.nr_locations = 1;
	names.locations[0].address = address;
	look_up(&names, process);
	name = names.locations[0].function;
	names.locations[0].function = NULL;
	profile_free(&names);
	return name;
}

const char *symbol_name(const struct process *process, uint64_t address)
{
	char *name;

	if (!process || !address)
		return NULL;
	for (size_t i = 0; i < nr_names; i++) {
		if (names[i].address == address)
			return names[i].name;
	}
	/* More constructors than that: they are shown by their addresses. */
	if (nr_names == NAMES_MAX)
		return NULL;
	name = find_name(process, address);
	if (name)
		clean_text(name, strlen(name) + 1);
	names[nr_names].address = address;
	names[nr_names++].name = name;
	return name;
}
