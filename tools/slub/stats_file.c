/* SPDX-License-Identifier: MIT */
/* The statistics file that a process keeps, or has left behind. */
#include "stats_file.h"
#include "groups.h"
#include "input.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)64 << 20)
#define NR_RECORDS_MAX 4096u
/* What version 1 began with; what is behind it reads as 0 if not there. */
#define HEAD_SIZE_MIN (offsetof(struct slub_stats_head, abi) + \
		       offsetof(struct slub_abi, option_bytes) + 4)

struct file {
	char *bytes;
	size_t size_bytes;
};

/* A copy: the writer may be at it. */
static int read_all(struct file *file, const char *path)
{
	int error = 0;

	file->bytes = input_all(path, FILE_BYTES_MAX, &file->size_bytes, &error);
	return error == -EFBIG ? -EBADMSG : error;
}

/* The @nr * @bytes at @offset; NULL: the file is shorter. */
static const char *part(const struct file *file, uint64_t offset, uint64_t nr,
			uint64_t bytes)
{
	uint64_t all;

	if (__builtin_mul_overflow(nr, bytes, &all) ||
	    offset > file->size_bytes || all > file->size_bytes - offset)
		return NULL;
	return file->bytes + offset;
}

static int read_head(const struct file *file, struct slub_stats_head *head,
		     uint32_t *version)
{
	if (file->size_bytes < sizeof(head->magic) + 8)
		return -ENODATA;
	memcpy(head, file->bytes, file->size_bytes < sizeof(*head) ?
				  file->size_bytes : sizeof(*head));
	if (memcmp(head->magic, SLUB_STATS_MAGIC, sizeof(head->magic)))
		return -ENOEXEC;
	*version = head->version;
	if (head->version != SLUB_STATS_VERSION)
		return -EPROTO;
	if (file->size_bytes < sizeof(*head))
		return -ENODATA;
	if (head->size >= HEAD_SIZE_MIN && head->size < sizeof(*head))
		memset((char *)head + head->size, 0,
		       sizeof(*head) - head->size);
	if (memcmp(head->abi.magic, SLUB_ABI_MAGIC, sizeof(head->abi.magic)) ||
	    head->abi.version != SLUB_ABI_VERSION)
		return -EBADMSG;
	return 0;
}

static bool head_is_sane(const struct slub_stats_head *head)
{
	size_t nodes = head->nr_nodes * sizeof(uint64_t) *
		       SLUB_ABI_NODE_FIELDS;

	return head->size >= HEAD_SIZE_MIN && abi_is_sane(&head->abi) &&
	       head->nr_nodes == head->abi.nr_nodes &&
	       head->record_bytes >= sizeof(struct slub_stats_cache) + nodes &&
	       head->nr_records <= NR_RECORDS_MAX &&
	       head->option_bytes >= sizeof(struct slub_abi_option);
}

/* A few lines of a record that was being written may be older than others. */
static bool read_record(const struct slub_stats_head *head, const char *bytes,
			struct cache_view *cache)
{
	struct slub_stats_cache record;
	uint64_t per_slab;

	memcpy(&record, bytes, sizeof(record));
	*cache = (struct cache_view){ .slot = record.slot };
	cache->damaged = record.sequence & 1;
	memcpy(cache->name, record.name, sizeof(record.name));
	clean_text(cache->name, sizeof(cache->name));
	memcpy(cache->fields, record.fields, sizeof(record.fields));
	memcpy(cache->stats, record.stats, sizeof(record.stats));
	for (uint32_t n = 0; n < head->nr_nodes; n++)
		memcpy(cache->nodes[n], bytes + sizeof(record) +
		       n * sizeof(cache->nodes[n]), sizeof(cache->nodes[n]));
	per_slab = cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
	if (!record.slot || cache_field(cache, SLUB_ABI_CACHE_ORDER) > 16 ||
	    !per_slab || per_slab >= 1u << 24 ||
	    cache_field(cache, SLUB_ABI_CACHE_SIZE) >= 1ull << 40 ||
	    cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE) >= 1ull << 40)
		return false;
	cache->carved = record.carved;
	cache->active = record.active;
	cache->cached = record.cached;
	return record.slabs < 1ull << 40 && record.active < 1ull << 44 &&
	       record.partial < 1ull << 40;
}

/*
 * What the program holds follows from the counters, which are of the last
 * moment.  Without them: what the census found, which may be older, and what
 * was carved since, which most likely is in use.
 */
static void correct_active(const struct snapshot *snapshot,
			   struct cache_view *cache)
{
	uint64_t carved = cache_node_sum(snapshot, cache,
					 SLUB_ABI_NODE_NR_CARVED);

	if (snapshot_counts(snapshot, SLUB_ABI_STAT_OBJECTS_OUT) &&
	    snapshot_counts(snapshot, SLUB_ABI_STAT_OBJECTS_BACK))
		cache->active = (uint32_t)
			(cache->stats[SLUB_ABI_STAT_OBJECTS_OUT] -
			 cache->stats[SLUB_ABI_STAT_OBJECTS_BACK]);
	else if (carved > cache->carved && carved < 1ull << 40)
		cache->active += carved - cache->carved;
	if (carved < 1ull << 40)
		cache->carved = carved;
}

/*
 * The nodes' numbers are of the last moment, those of the census a little
 * older: they are made to fit.
 */
static void reconcile(const struct snapshot *snapshot,
		      struct cache_view *cache)
{
	uint64_t slabs = cache_node_sum(snapshot, cache,
					SLUB_ABI_NODE_NR_SLABS);
	uint64_t partial = cache_node_sum(snapshot, cache,
					  SLUB_ABI_NODE_NR_PARTIAL);
	uint64_t most;

	if (slabs < 1ull << 40)
		cache->slabs = slabs;
	correct_active(snapshot, cache);
	most = cache_capacity(cache);
	if (cache->active > most)
		cache->active = most;
	/* Empty ones are not told from partial ones: few are kept. */
	if (!cache->active)
		partial = 0;
	if (partial > cache->slabs)
		partial = cache->slabs;
	cache->full = cache->active ? cache->slabs - partial : 0;
	cache->empty = cache->active ? 0 : cache->slabs;
}

/* The names at the end of a record, a NUL after each. */
static void read_aliases(const struct slub_stats_head *head, const char *bytes,
			 struct cache_view *cache)
{
	size_t nodes = sizeof(struct slub_stats_cache) +
		       head->nr_nodes * sizeof(cache->nodes[0]);
	char names[SLUB_STATS_ALIASES], *name = names;

	if (head->record_bytes < nodes + sizeof(names) ||
	    !cache_aliases(cache))
		return;
	memcpy(names, bytes + nodes, sizeof(names));
	names[sizeof(names) - 1] = '\0';
	while (name < names + sizeof(names) && *name) {
		size_t size = strlen(name) + 1;

		clean_text(name, size);
		aliases_add(cache, name);
		name += size;
	}
}

static int read_records(struct snapshot *snapshot, const struct file *file,
			const struct slub_stats_head *head)
{
	const char *bytes = part(file, head->records_offset, head->nr_records,
				 head->record_bytes);

	if (!bytes)
		return -ENODATA;
	snapshot->caches = must_have(calloc(head->nr_records, sizeof(*snapshot->caches)));
	for (uint32_t i = 0; i < head->nr_records; i++) {
		struct cache_view *cache =
			&snapshot->caches[snapshot->nr_caches];

		if (read_record(head, bytes, cache)) {
			reconcile(snapshot, cache);
			read_aliases(head, bytes, cache);
			snapshot->nr_caches++;
		}
		bytes += head->record_bytes;
	}
	return 0;
}

static int read_options(struct snapshot *snapshot, const struct file *file,
			const struct slub_stats_head *head)
{
	const char *bytes = part(file, head->options_offset, head->nr_options,
				 head->option_bytes);

	if (!bytes)
		return -ENODATA;
	snapshot->options = must_have(calloc(head->nr_options, sizeof(*snapshot->options)));
	for (uint32_t i = 0; i < head->nr_options; i++) {
		struct slub_abi_option *option = &snapshot->options[i];

		memcpy(option, bytes + (size_t)i * head->option_bytes,
		       sizeof(*option));
		clean_text(option->name, sizeof(option->name));
		clean_text(option->text, sizeof(option->text));
	}
	snapshot->nr_options = head->nr_options;
	return 0;
}

static void take_head(struct snapshot *snapshot,
		      const struct slub_stats_head *head)
{
	const uint64_t *totals = head->totals;

	snapshot->abi = head->abi;
	snapshot->pid = head->pid;
	snapshot->has_exited = head->state == SLUB_STATS_EXITED;
	snapshot->time_ns = head->update_ns;
	snapshot->census_ns = head->census_ns;
	memcpy(snapshot->name, head->name, sizeof(head->name));
	clean_text(snapshot->name, sizeof(head->name));
	memcpy(snapshot->command, head->command, sizeof(head->command));
	clean_text(snapshot->command, sizeof(head->command));
	snapshot->committed_bytes = totals[SLUB_STATS_COMMITTED_BYTES];
	snapshot->active_bytes = totals[SLUB_STATS_ACTIVE_BYTES];
	snapshot->large_bytes = totals[SLUB_STATS_LARGE_BYTES];
	snapshot->idle_bytes = totals[SLUB_STATS_IDLE_BYTES];
	snapshot->refused_bytes = totals[SLUB_STATS_REFUSED_BYTES];
	snapshot->moved_runs = totals[SLUB_STATS_MOVED_RUNS];
	snapshot->deferred_bytes = totals[SLUB_STATS_DEFERRED_BYTES];
	snapshot->deferred_objects = totals[SLUB_STATS_DEFERRED_OBJECTS];
}

int stats_file_read(struct snapshot *snapshot, const char *path,
		    uint32_t *version)
{
	struct file file = { NULL, 0 };
	struct slub_stats_head head = { .version = 0 };
	int error = read_all(&file, path);

	*snapshot = (struct snapshot){ .pid = 0 };
	if (!error)
		error = read_head(&file, &head, version);
	if (!error && !head_is_sane(&head))
		error = -EBADMSG;
	if (!error) {
		take_head(snapshot, &head);
		error = read_records(snapshot, &file, &head);
	}
	if (!error)
		error = read_options(snapshot, &file, &head);
	if (!error && head.groups_offset > file.size_bytes)
		error = -ENODATA;
	if (!error && head.groups_offset)
		error = groups_of_file(snapshot,
				       file.bytes + head.groups_offset,
				       file.size_bytes - head.groups_offset);
	free(file.bytes);
	if (error)
		snapshot_free(snapshot);
	else
		snapshot_finish(snapshot);
	return error;
}
