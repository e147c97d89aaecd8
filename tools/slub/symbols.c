/* SPDX-License-Identifier: MIT */
/*
 * From code addresses to functions and lines: the process's mappings are told to elfutils, and a
 * file that is another one by now is not asked.
 */
#include "symbols.h"
#include "slub.h"
#include "snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is known of each ---- */

static int compare_locations(const void *a, const void *b)
{
	const struct profile_location *one = a, *other = b;

	return compare_numbers(one->address, other->address);
}

/* Each once, in their order. */
static void add_locations(struct profile *names, const uint64_t *addresses, size_t nr)
{
	struct profile_location *all = must_have(calloc(nr, sizeof(*all)));
	size_t kept = 0;

	for (size_t i = 0; i < nr; i++)
		all[i].address = addresses[i] - 1;
	qsort(all, nr, sizeof(*all), compare_locations);
	for (size_t i = 0; i < nr; i++) {
		if (!i || all[i].address != all[i - 1].address)
			all[kept++].address = all[i].address;
	}
	names->locations = all;
	names->nr_locations = kept;
}

void symbols_find(struct profile *names, const struct process *process,
		  const uint64_t *addresses, size_t nr)
{
	*names = (struct profile){ .pid = (uint64_t)process->pid };
	if (!nr)
		return;
	add_locations(names, addresses, nr);
	profile_mappings_of(names, process);
	for (size_t i = 0; i < names->nr_locations; i++)
		names->locations[i].mapping =
			profile_mapping_at(names, process, names->locations[i].address);
	profile_find_symbols(names);
}

const struct profile_location *symbol_at(const struct profile *names, uint64_t address)
{
	struct profile_location key = { .address = address - 1 };

	return names->nr_locations ?
	       bsearch(&key, names->locations, names->nr_locations, sizeof(key),
		       compare_locations) : NULL;
}

/* ---- a name ---- */

const char *symbol_text(const struct profile *names, uint64_t address, char *buf, size_t size)
{
	const struct profile_location *found = symbol_at(names, address);
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
			 address - mapping->start + mapping->offset);
	else
		snprintf(buf, size, "0x%" PRIx64, address);
	clean_text(buf, size);
	return buf;
}

void symbol_print_outers(const struct profile_location *location, const char *before)
{
	for (size_t i = 0; location && i < location->nr_outers; i++) {
		const struct profile_outer *outer = &location->outers[i];

		printf("%s inlined in %s", before, outer->function);
		if (outer->file)
			printf(" (%s:%u)", outer->file, outer->line);
		putchar('\n');
	}
}

void symbol_put_outers(struct json *json, const struct profile_location *location)
{
	if (!location || !location->nr_outers)
		return;
	json_open_array(json, "inlined_in");
	for (size_t i = 0; i < location->nr_outers; i++) {
		const struct profile_outer *outer = &location->outers[i];

		json_open(json, NULL);
		json_string(json, "function", outer->function);
		if (outer->file) {
			json_string(json, "file", outer->file);
			json_number(json, "line", outer->line);
		}
		json_close(json);
	}
	json_close(json);
}

/* ---- a stack ---- */

static void print_location(const struct process *process,
			   const struct profile_location *location, uint64_t address)
{
	const struct mapping *m = process_mapping_at(process, location->address);

	printf("\t0x%" PRIx64, address);
	if (location->function)
		printf(" %s", location->function);
	if (location->file)
		printf(" (%s:%u)", location->file, location->line);
	else if (m && *m->path)
		printf(" (%s+0x%" PRIx64 ")", m->path, address - m->start + m->offset);
	putchar('\n');
	symbol_print_outers(location, "\t   ");
}

static void put_location(struct json *json, const struct process *process,
			 const struct profile_location *location, uint64_t address)
{
	const struct mapping *m = process_mapping_at(process, location->address);

	json_open(json, NULL);
	json_address(json, "address", address);
	if (location->function)
		json_string(json, "function", location->function);
	if (location->file) {
		json_string(json, "file", location->file);
		json_number(json, "line", location->line);
	} else if (m && *m->path) {
		json_string(json, "mapping", m->path);
		json_address(json, "offset", address - m->start + m->offset);
	}
	symbol_put_outers(json, location);
	json_close(json);
}

static void show_stack(const struct process *process, const uint64_t *addresses, size_t nr,
		       enum stack_kind kind, struct json *json)
{
	struct profile names;

	symbols_find(&names, process, addresses, nr);
	for (size_t i = 0; i < nr; i++) {
		const struct profile_location *found = symbol_at(&names, addresses[i]);
		uint64_t address = addresses[i] - (!i && kind == STACK_INTERRUPTED);

		if (json)
			put_location(json, process, found, address);
		else
			print_location(process, found, address);
	}
	profile_free(&names);
}

void symbols_print(const struct process *process, const uint64_t *addresses,
		   size_t nr, enum stack_kind kind)
{
	show_stack(process, addresses, nr, kind, NULL);
}

void symbols_put(struct json *json, const struct process *process,
		 const uint64_t *addresses, size_t nr, enum stack_kind kind)
{
	json_open_array(json, "stack");
	show_stack(process, addresses, nr, kind, json);
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
	uint64_t behind = address + 1;
	struct profile_location *location;
	struct profile found;
	char **whole, *name;

	symbols_find(&found, process, &behind, 1);
	location = found.locations;
	/* The first instruction may be that of an inlined one. */
	whole = location->nr_outers ? &location->outers[location->nr_outers - 1].function :
				      &location->function;
	name = *whole;
	*whole = NULL;
	profile_free(&found);
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
