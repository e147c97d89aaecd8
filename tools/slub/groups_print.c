/* SPDX-License-Identifier: MIT */
/* Memory groups as a table, as JSON and as OpenMetrics. */
#include "groups.h"
#include "slub.h"
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 40		/* the library's groups lie 32 deep at the most */
#define PATH_SIZE (DEPTH_MAX * SLUB_ABI_GROUP_NAME)

/* "root/tenant-7" */
static const char *path_of(const struct groups *groups, uint32_t number,
			   char path[PATH_SIZE])
{
	char *at = path + PATH_SIZE - 1;

	*at = '\0';
	for (int i = 0; i < DEPTH_MAX && number && number < groups->nr; i++) {
		const char *name = groups->views[number].name;
		size_t n = strnlen(name, SLUB_ABI_GROUP_NAME);

		if (at - path < (ptrdiff_t)n + 1)
			break;
		if (*at)
			*--at = '/';
		at -= n;
		memcpy(at, name, n);
		number = groups->views[number].parent;
	}
	return at;
}

/* ---- order ---- */

struct entry {
	const struct group_view *group;
	const char *path;
};

static int compare_paths(const void *a, const void *b)
{
	return strverscmp(((const struct entry *)a)->path,
			  ((const struct entry *)b)->path);
}

static int compare_live(const void *a, const void *b)
{
	uint64_t x = group_live(((const struct entry *)a)->group);
	uint64_t y = group_live(((const struct entry *)b)->group);

	return x != y ? compare_numbers(y, x) : compare_paths(a, b);
}

static void free_entries(struct entry *entries, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free((char *)entries[i].path);
	free(entries);
}

/* The living ones in order. */
static struct entry *make_entries(const struct groups *groups, bool by_name,
				  size_t *nr)
{
	struct entry *entries = must_have(calloc(groups->nr, sizeof(*entries)));
	char path[PATH_SIZE];

	*nr = 0;
	for (uint32_t n = 1; n < groups->nr; n++) {
		if (!groups->views[n].number)
			continue;
		entries[*nr].group = &groups->views[n];
		entries[(*nr)++].path = must_have(strdup(path_of(groups, n, path)));
	}
	qsort(entries, *nr, sizeof(*entries), by_name ? compare_paths : compare_live);
	return entries;
}

/* ---- a table ---- */

static const char *limit_text(char buf[SIZE_TEXT], uint64_t limit, bool exact)
{
	if (limit < SLUB_ABI_GROUP_NO_LIMIT)
		return size_text(buf, limit, exact);
	snprintf(buf, SIZE_TEXT, "-");
	return buf;
}

/* With room for a path of this many letters beside all columns, none is left out. */
#define PATH_COLUMNS 16
#define ALL_COLUMNS (80 + PATH_COLUMNS)

static void print_group(FILE *to, const struct entry *entry, bool exact, bool narrow)
{
	const struct group_view *group = entry->group;
	const uint64_t *fields = group->fields;
	char live[SIZE_TEXT], slabs[SIZE_TEXT], large[SIZE_TEXT];
	char peak[SIZE_TEXT], low[SIZE_TEXT], high[SIZE_TEXT], max[SIZE_TEXT];

	fprintf(to, "%8s %8s %8s %8s ",
		size_text(live, group_live(group), exact),
		size_text(slabs, group->slab_bytes, exact),
		size_text(large, group->large_bytes, exact),
		size_text(peak, fields[SLUB_ABI_GROUP_PEAK], exact));
	if (!narrow)
		fprintf(to, "%8s %8s ", limit_text(low, fields[SLUB_ABI_GROUP_LOW], exact),
			limit_text(high, fields[SLUB_ABI_GROUP_HIGH], exact));
	fprintf(to, "%8s %8" PRIu64 " ", limit_text(max, fields[SLUB_ABI_GROUP_MAX], exact),
		fields[SLUB_ABI_GROUP_FAILURES]);
	if (!narrow)
		fprintf(to, "%7u ", group->nr_threads);
	fprintf(to, "%s\n", entry->path);
}

void groups_print(FILE *to, const struct groups *groups, bool by_name,
		  bool exact, size_t columns, size_t rows)
{
	bool narrow = columns < ALL_COLUMNS;
	size_t nr;
	struct entry *entries = make_entries(groups, by_name, &nr);

	fprintf(to, "%8s %8s %8s %8s ", "LIVE", "SLABS", "LARGE", "PEAK");
	if (!narrow)
		fprintf(to, "%8s %8s ", "LOW", "HIGH");
	fprintf(to, "%8s %8s ", "MAX", "FAILURES");
	fprintf(to, "%s%s\n", narrow ? "" : "THREADS ", "GROUP");
	for (size_t i = 0; i < nr && i < rows; i++)
		print_group(to, &entries[i], exact, narrow);
	if (groups->nr_beyond && rows > nr)
		fprintf(to, "and %" PRIu64 " groups for which the file has no "
			"place\n", groups->nr_beyond);
	free_entries(entries, nr);
}

/* ---- for programs ---- */

static void put_limit(struct json *json, const char *name, uint64_t limit)
{
	if (limit < SLUB_ABI_GROUP_NO_LIMIT)
		json_number(json, name, limit);
	else
		json_null(json, name);
}

static void put_group(struct json *json, const struct entry *entry)
{
	const struct group_view *group = entry->group;
	const uint64_t *fields = group->fields;

	json_open(json, NULL);
	json_string(json, "path", entry->path);
	json_string(json, "name", group->name);
	json_number(json, "number", group->number);
	if (group->parent)
		json_number(json, "parent", group->parent);
	else
		json_null(json, "parent");
	json_number(json, "live_bytes", group_live(group));
	json_number(json, "ahead_bytes", group->ahead_bytes);
	json_number(json, "peak_bytes", fields[SLUB_ABI_GROUP_PEAK]);
	json_number(json, "objects", group->objects);
	json_number(json, "object_bytes", group->object_bytes);
	json_number(json, "slab_bytes", group->slab_bytes);
	json_number(json, "large_bytes", group->large_bytes);
	json_number(json, "low_bytes", fields[SLUB_ABI_GROUP_LOW]);
	put_limit(json, "high_bytes", fields[SLUB_ABI_GROUP_HIGH]);
	put_limit(json, "max_bytes", fields[SLUB_ABI_GROUP_MAX]);
	json_number(json, "failures", fields[SLUB_ABI_GROUP_FAILURES]);
	json_number(json, "max_hits", fields[SLUB_ABI_GROUP_MAX_HITS]);
	json_number(json, "high_hits", fields[SLUB_ABI_GROUP_HIGH_HITS]);
	json_number(json, "threads", group->nr_threads);
	json_bool(json, "torn", group->damaged);
	json_close(json);
}

static void groups_print_json(const struct groups *groups,
		       const struct snapshot *snapshot)
{
	struct json json = { .to = stdout };
	size_t nr;
	struct entry *entries = make_entries(groups, true, &nr);

	json_open_snapshot(&json, snapshot, "groups");
	json_totals(&json, snapshot, "heap");
	json_number(&json, "groups_left_out", groups->nr_beyond);
	json_open_array(&json, "groups");
	for (size_t i = 0; i < nr; i++)
		put_group(&json, &entries[i]);
	json_close(&json);
	json_close(&json);
	free_entries(entries, nr);
}

static void sample(const char *name, const struct entry *entry,
		   const char *what, uint64_t number)
{
	printf("%s{group=\"", name);
	for (const char *c = entry->path; *c; c++)
		printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	fputs(what ? "\",state=\"" : "", stdout);
	printf("%s\"} %" PRIu64 "\n", what ? what : "", number);
}

static void groups_print_openmetrics(const struct groups *groups)
{
	size_t nr;
	struct entry *entries = make_entries(groups, true, &nr);

	puts("# TYPE slub_group_bytes gauge\n# UNIT slub_group_bytes bytes\n"
	     "# HELP slub_group_bytes Of a memory group and those below it.");
	for (size_t i = 0; i < nr; i++) {
		const struct group_view *group = entries[i].group;

		sample("slub_group_bytes", &entries[i], "live",
		       group_live(group));
		sample("slub_group_bytes", &entries[i], "slab",
		       group->slab_bytes);
		sample("slub_group_bytes", &entries[i], "large",
		       group->large_bytes);
		sample("slub_group_bytes", &entries[i], "peak",
		       group->fields[SLUB_ABI_GROUP_PEAK]);
	}
	puts("# TYPE slub_group_failures counter\n"
	     "# HELP slub_group_failures Requests refused for its maximum.");
	for (size_t i = 0; i < nr; i++)
		sample("slub_group_failures_total", &entries[i], NULL,
		       entries[i].group->fields[SLUB_ABI_GROUP_FAILURES]);
	puts("# EOF");
	free_entries(entries, nr);
}

int groups_show(const struct snapshot *snapshot, const struct request *request,
		bool by_name, bool exact, size_t rows)
{
	struct groups groups;
	int status = groups_read(&groups, snapshot, request->command);

	if (status)
		return status;
	if (request->format == FORMAT_JSON)
		groups_print_json(&groups, snapshot);
	else if (request->format == FORMAT_OPENMETRICS)
		groups_print_openmetrics(&groups);
	else
		groups_print(stdout, &groups, by_name, exact, SIZE_MAX, rows);
	groups_free(&groups);
	return 0;
}
