/* SPDX-License-Identifier: MIT */
/* Reads the file that slub_profile_write() writes (docs/operate/profile.md). */
#include "profile.h"
#include "slub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define FRAMES_MAX 256
#define BYTES_MAX (64u << 20)	/* some 50,000 stacks of the deepest */

struct reader {
	struct profile *profile;
	struct input_lines input;
	const char *path;
	size_t line;
	uint64_t samples, live_samples;	/* of the next site */
	uint32_t stack;			/* likewise */
	struct build_id {
		uint64_t start;		/* first, as in a mapping */
		char hex[130];
	} *ids;
	size_t nr_ids;
};

static bool next_line(struct reader *reader)
{
	ssize_t length = input_line(&reader->input, '\n');
	char *line = reader->input.line;

	if (length < 0)
		return false;
	if (line[length - 1] == '\n') {
		/* Behind the line's own end, which is a control as well. */
		line[length - 1] = '\0';
		strcpy(line + strlen(clean_string(line)), "\n");
	} else {
		clean_string(line);
	}
	return true;
}

static void *grow(void *array, size_t nr, size_t size)
{
	/* Doubles whenever the number is a power of two. */
	if (nr & (nr - 1))
		return array;
	return must_have(realloc(array, (nr ? 2 * nr : 1) * size));
}

static int damaged(const struct reader *reader, const char *what)
{
	complain("profile: '%s', line %zu: %s", reader->path, reader->line,
		 what);
	return STATUS_UNREADABLE;
}

/* ---- lines ---- */

static int read_comment(struct reader *reader, const char *line)
{
	struct profile *profile = reader->profile;
	struct build_id id;
	unsigned int version;
	uint64_t alive;

	if (sscanf(line, "# slub-profile %u", &version) == 1) {
		if (version == VERSION)
			return 0;
		complain("profile: '%s' is of version %u; slub "
			 SLUB_TOOL_VERSION " reads version %d. Use the slub of "
			 "the libslub that wrote it", reader->path, version,
			 VERSION);
		return STATUS_UNREADABLE;
	}
	if (sscanf(line, "# build-id %" SCNx64 " %128[0-9a-f]", &id.start,
		   id.hex) == 2) {
		reader->ids = grow(reader->ids, reader->nr_ids, sizeof(id));
		reader->ids[reader->nr_ids++] = id;
		return 0;
	}
	sscanf(line, "# mean_bytes %" SCNu64, &profile->mean_bytes);
	sscanf(line, "# pid %" SCNu64, &profile->pid);
	sscanf(line, "# start_ns %" SCNu64, &profile->start_ns);
	sscanf(line, "# written_ns %" SCNu64, &profile->written_ns);
	sscanf(line, "# lost %" SCNu64, &profile->lost);
	sscanf(line, "# samples %" SCNu64 " %" SCNu64, &reader->live_samples,
	       &reader->samples);
	sscanf(line, "# stack %" SCNu32, &reader->stack);
	sscanf(line, "# trails %" SCNu64, &profile->last_trail);
	if (sscanf(line, "# alive %" SCNu64, &alive) == 1) {
		profile->alive = grow(profile->alive, profile->nr_alive, sizeof(alive));
		profile->alive[profile->nr_alive++] = alive;
	}
	return 0;
}

/* The number of the location at @address. */
static size_t find_location(struct profile *profile, uint64_t address)
{
	struct profile_location *location;
	size_t at = 0, found;

	found = index_next(&profile->addresses, address, &at);
	if (found != INDEX_NONE)
		return found;
	index_add(&profile->addresses, address, profile->nr_locations);
	profile->locations = grow(profile->locations, profile->nr_locations,
				  sizeof(*location));
	location = &profile->locations[profile->nr_locations];
	*location = (struct profile_location){ .address = address };
	return profile->nr_locations++;
}

/* Of the site that is being made: the number of its location. */
static size_t add_frame(struct profile *profile, uint64_t address)
{
	size_t number = find_location(profile, address - 1);

	profile->frames = grow(profile->frames, profile->nr_frames, sizeof(*profile->frames));
	profile->frames[profile->nr_frames++] = number;
	return number;
}

static bool read_frames(struct reader *reader, const char *text,
			struct profile_site *site)
{
	struct profile *profile = reader->profile;

	site->first = profile->nr_frames;
	while (site->nr_frames < FRAMES_MAX) {
		char *end;
		uint64_t address;

		text += strspn(text, " \n");
		if (!*text)
			return true;
		address = strtoull(text, &end, 16);
		if (end == text || !address)
			return false;
		add_frame(profile, address);
		site->nr_frames++;
		text = end;
	}
	return false;
}

static int read_site(struct reader *reader, const char *line)
{
	struct profile *profile = reader->profile;
	struct profile_site site = { .samples = reader->samples,
				     .live_samples = reader->live_samples,
				     .stack = reader->stack };
	uint64_t *v = site.values;
	int end = 0;

	if (sscanf(line, " %" SCNu64 ": %" SCNu64 " [%" SCNu64 ": %" SCNu64
		   "] @%n", &v[VALUE_INUSE_OBJECTS], &v[VALUE_INUSE_SPACE],
		   &v[VALUE_ALLOC_OBJECTS], &v[VALUE_ALLOC_SPACE],
		   &end) != 4 || !end)
		return damaged(reader, "neither a sample, nor a comment, nor "
			       "MAPPED_LIBRARIES:");
	if (!read_frames(reader, line + end, &site))
		return damaged(reader, "an address that is none");
	profile->sites = grow(profile->sites, profile->nr_sites, sizeof(site));
	profile->sites[profile->nr_sites++] = site;
	return 0;
}

/* start-end perms offset device inode path */
static void read_map(struct reader *reader, const char *line)
{
	struct profile *profile = reader->profile;
	struct profile_mapping mapping = { .path = NULL };
	char perms[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n",
		   &mapping.start, &mapping.end, perms, &mapping.offset,
		   &path) != 4 || !path || perms[2] != 'x')
		return;
	mapping.path = must_have(strndup(line + path, strcspn(line + path, "\n")));
	profile->mappings = grow(profile->mappings, profile->nr_mappings,
				 sizeof(mapping));
	profile->mappings[profile->nr_mappings++] = mapping;
}

/* ---- the whole ---- */

/* An input that could not be read has its own message, read_parts()'s. */
static int refuse(const struct reader *reader, const char *what)
{
	if (!reader->input.error)
		complain("profile: '%s' is %s", reader->path, what);
	return STATUS_UNREADABLE;
}

static int read_header(struct reader *reader)
{
	static const char start[] = "heap profile: ";

	if (!next_line(reader) ||
	    strncmp(reader->input.line, start, strlen(start)) ||
	    !strstr(reader->input.line, "@ heapprofile"))
		return refuse(reader, "no heap profile of libslub; slub_profile_write() makes "
			      "them");
	reader->line = 2;
	if (!next_line(reader) ||
	    strncmp(reader->input.line, "# slub-profile ", 15))
		return refuse(reader, "a heap profile, but not one of libslub");
	return read_comment(reader, reader->input.line);
}

static int read_sites(struct reader *reader)
{
	int status = 0;

	while (!status && next_line(reader)) {
		const char *line = reader->input.line;

		reader->line++;
		if (!strcmp(line, "MAPPED_LIBRARIES:\n"))
			return 0;
		status = *line == '#' ? read_comment(reader, line) :
					read_site(reader, line);
	}
	return status ? status : refuse(reader, "cut short: it has no MAPPED_LIBRARIES:");
}

static void read_maps(struct reader *reader)
{
	size_t bytes = 0;
	FILE *copy = must_have(open_memstream(&reader->profile->maps, &bytes));

	while (next_line(reader)) {
		fputs(reader->input.line, copy);
		read_map(reader, reader->input.line);
	}
	fclose(copy);
}

/* Of a mapping or a build ID, which both begin with it. */
static uint64_t start_of(const void *element)
{
	uint64_t start;

	memcpy(&start, element, sizeof(start));
	return start;
}

static int start_order(const void *a, const void *b)
{
	uint64_t one = start_of(a), other = start_of(b);

	return compare_numbers(one, other);
}

/* How many of @nr, @size bytes apart, do not start above @address. */
static size_t nr_up_to(const void *array, size_t nr, size_t size,
		       uint64_t address)
{
	size_t low = 0;

	while (low < nr) {
		size_t middle = low + (nr - low) / 2;

		if (start_of((const char *)array + middle * size) <= address)
			low = middle + 1;
		else
			nr = middle;
	}
	return low;
}

/* Build IDs are told by where a file's first page lies. */
static void assign_build_ids(struct reader *reader)
{
	struct profile *profile = reader->profile;

	if (reader->nr_ids)
		qsort(reader->ids, reader->nr_ids, sizeof(*reader->ids),
		      start_order);
	for (size_t m = 0; m < profile->nr_mappings; m++) {
		struct profile_mapping *mapping = &profile->mappings[m];
		size_t nr = nr_up_to(reader->ids, reader->nr_ids,
				     sizeof(*reader->ids), mapping->start);
		const struct build_id *best = nr ? &reader->ids[nr - 1] : NULL;

		/* A file without an ID may lie behind one that has one. */
		if (best && best->start + mapping->offset + (64 << 20) >
				    mapping->start)
			mapping->build_id = must_have(strdup(best->hex));
	}
}

static void assign_mapping(const struct profile *profile, struct profile_location *location)
{
	size_t nr = nr_up_to(profile->mappings, profile->nr_mappings,
			     sizeof(*profile->mappings), location->address);

	if (nr && location->address < profile->mappings[nr - 1].end)
		location->mapping = nr;
}

static void assign_mappings(struct profile *profile)
{
	for (size_t i = 0; i < profile->nr_locations; i++)
		assign_mapping(profile, &profile->locations[i]);
}

static int unreadable(const char *path, int error)
{
	complain("profile: cannot read '%s': %s", path,
		 error == -ENOEXEC ? "it is no file" :
		 error == -EFBIG ? "it is longer than any profile" :
		 error == -ETIME ? "it does not end in time" : strerror(-error));
	return error == -EACCES ? STATUS_NO_PERMISSION :
	       error == -ENOENT || error == -ENOTDIR ? STATUS_NO_TARGET :
	       STATUS_UNREADABLE;
}

/* 0, or an exit status after a message. */
static int read_parts(struct reader *reader)
{
	int status = read_header(reader);

	if (!status)
		status = read_sites(reader);
	if (!status)
		read_maps(reader);
	return reader->input.error ? unreadable(reader->path, reader->input.error) : status;
}

int profile_read(struct profile *profile, const char *path, enum input_kinds kinds,
		 double seconds)
{
	struct reader reader = { .profile = profile, .path = path };
	int error, status;

	memset(profile, 0, sizeof(*profile));
	error = input_lines_open(&reader.input, path, kinds, BYTES_MAX, seconds);
	if (error)
		return unreadable(path, error);
	status = read_parts(&reader);
	if (!status) {
		if (profile->nr_mappings)
			qsort(profile->mappings, profile->nr_mappings,
			      sizeof(*profile->mappings), start_order);
		assign_build_ids(&reader);
		assign_mappings(profile);
	}
	input_lines_close(&reader.input);
	free(reader.ids);
	return status;
}

void profile_add_site(struct profile *profile, const struct profile_site *site,
		      const uint64_t *frames, size_t nr)
{
	struct profile_site added = *site;

	added.first = profile->nr_frames;
	added.nr_frames = nr;
	for (size_t i = 0; i < nr; i++) {
		size_t number = add_frame(profile, frames[i]);

		assign_mapping(profile, &profile->locations[number]);
	}
	profile->sites = grow(profile->sites, profile->nr_sites, sizeof(added));
	profile->sites[profile->nr_sites++] = added;
}

/* ---- two of them ---- */

static uint64_t site_hash(const struct profile *profile, const struct profile_site *site)
{
	uint64_t hash = site->nr_frames;

	for (size_t i = 0; i < site->nr_frames; i++)
		hash = hash_mix(hash, profile->locations[
			profile->frames[site->first + i]].address);
	return hash;
}

static bool is_same_site(const struct profile *a, const struct profile_site *x,
			 const struct profile *b, const struct profile_site *y)
{
	bool same = x->nr_frames == y->nr_frames;

	for (size_t i = 0; same && i < x->nr_frames; i++)
		same = a->locations[a->frames[x->first + i]].address ==
		       b->locations[b->frames[y->first + i]].address;
	return same;
}

static void take_off(uint64_t *from, uint64_t what)
{
	*from -= *from < what ? *from : what;
}

void profile_subtract(struct profile *profile, const struct profile *before)
{
	struct index index = { .size = 0 };

	for (size_t i = 0; i < profile->nr_sites; i++)
		index_add(&index, site_hash(profile, &profile->sites[i]), i);
	for (size_t i = 0; i < before->nr_sites; i++) {
		const struct profile_site *old = &before->sites[i];
		struct profile_site *site;
		size_t at = 0, found;

		do {
			found = index_next(&index, site_hash(before, old), &at);
		} while (found != INDEX_NONE &&
			 !is_same_site(profile, &profile->sites[found], before, old));
		if (found == INDEX_NONE)
			continue;
		site = &profile->sites[found];
		for (int v = 0; v < NR_VALUES; v++)
			take_off(&site->values[v], old->values[v]);
		take_off(&site->samples, old->samples);
		take_off(&site->live_samples, old->live_samples);
	}
	index_free(&index);
}

static void free_location(struct profile_location *location)
{
	for (size_t i = 0; i < location->nr_outers; i++) {
		free(location->outers[i].function);
		free(location->outers[i].symbol);
		free(location->outers[i].file);
	}
	free(location->outers);
	free(location->function);
	free(location->symbol);
	free(location->file);
}

void profile_free(struct profile *profile)
{
	for (size_t i = 0; i < profile->nr_locations; i++)
		free_location(&profile->locations[i]);
	for (size_t m = 0; m < profile->nr_mappings; m++) {
		free(profile->mappings[m].path);
		free(profile->mappings[m].build_id);
	}
	free(profile->locations);
	free(profile->mappings);
	free(profile->sites);
	free(profile->frames);
	free(profile->maps);
	free(profile->alive);
	index_free(&profile->addresses);
	memset(profile, 0, sizeof(*profile));
}
