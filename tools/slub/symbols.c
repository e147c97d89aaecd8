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

/* What the mappings would look like in /proc; only those of files. */
static char *maps_text(const struct process *process)
{
	const char *last = "";
	char *text = NULL;
	size_t bytes, inode = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *m = &process->mappings[i];

		/* Neighbours are taken for one file by the inode. */
		inode += strcmp(m->path, last) != 0;
		last = m->path;
		if (*m->path == '/' && !strchr(m->path, '\n'))
			fprintf(to, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64
				" 00:00 %zu %s\n", m->start, m->end, m->offset,
				inode, m->path);
	}
	fclose(to);
	return text;
}

/* The names of files and functions are the process's. */
static void print_plain(const char *text)
{
	for (; *text; text++)
		putchar((*text & 0xe0) && *text != 0x7f ? *text : '?');
}

static void print_location(const struct process *process,
			   const struct profile_location *location)
{
	const struct mapping *m = mapping_of(process, location->address);

	printf("\t0x%" PRIx64, location->address + 1);
	if (location->function) {
		putchar(' ');
		print_plain(location->function);
	}
	if (location->file) {
		printf(" (");
		print_plain(location->file);
		printf(":%u)", location->line);
	} else if (m && *m->path) {
		printf(" (");
		print_plain(m->path);
		printf("+0x%" PRIx64 ")",
		       location->address + 1 - m->start + m->offset);
	}
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

static void symbols_find(const struct process *process,
			 const uint64_t *addresses, size_t nr,
			 struct json *json)
{
	struct profile_mapping all = { .end = UINT64_MAX };
	struct profile profile = {
		.nr_locations = nr, .mappings = &all, .nr_mappings = 1,
		.maps = maps_text(process),
	};

	profile.locations = calloc(nr ? nr : 1, sizeof(*profile.locations));
	if (!profile.locations)
		profile.nr_locations = 0;
	for (size_t i = 0; i < profile.nr_locations; i++) {
		profile.locations[i].address = addresses[i] - 1;
		profile.locations[i].mapping = 1;
	}
	profile_find_symbols(&profile);
	for (size_t i = 0; i < profile.nr_locations; i++) {
		if (json)
			put_location(json, process, &profile.locations[i]);
		else
			print_location(process, &profile.locations[i]);
		free(profile.locations[i].function);
		free(profile.locations[i].symbol);
		free(profile.locations[i].file);
	}
	free(profile.locations);
	free(profile.maps);
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
	struct profile_mapping all = { .end = UINT64_MAX };
	struct profile_location location = { .address = address, .mapping = 1 };
	struct profile profile = {
		.locations = &location, .nr_locations = 1,
		.mappings = &all, .nr_mappings = 1, .maps = maps_text(process),
	};

	profile_find_symbols(&profile);
	free(location.symbol);
	free(location.file);
	free(profile.maps);
	return location.function;
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
