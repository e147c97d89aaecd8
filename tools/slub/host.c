/* SPDX-License-Identifier: MIT */
/* All processes on libslub that this one may read. */
#include "host.h"
#include "core/base/glob.h"
#include "cache_name.h"
#include "container.h"
#include "slub.h"
#include "source.h"
#include "view.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Leaves only those that are meant, and have memory. */
static void keep_caches(struct snapshot *snapshot, const char *pattern)
{
	size_t nr = 0;

	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if (snapshot->caches[i].slabs &&
		    cache_is_called(snapshot, &snapshot->caches[i], pattern ? pattern : ""))
			snapshot->caches[nr++] = snapshot->caches[i];
	}
	snapshot->nr_caches = nr;
}

void host_choose(struct metrics_one *one, struct snapshot *snapshot,
		 const struct host_filter *filter)
{
	size_t each = METRICS_SERIES_OF_CACHE +
		      (filter->events ? metrics_events(snapshot) : 0);
	size_t room = filter->series_max > METRICS_SERIES_OF_PROCESS ?
		      (filter->series_max - METRICS_SERIES_OF_PROCESS) / each : 0;

	/* Of all caches, before any of them is left out. */
	account_make(&one->account, snapshot);
	keep_caches(snapshot, filter->cache);
	cache_sort(snapshot, NULL, SORT_BYTES);
	one->snapshot = snapshot;
	one->events = filter->events;
	one->nr_caches = snapshot->nr_caches;
	if (filter->series_max && one->nr_caches > room)
		one->nr_caches = room;
}

/* @file: the name of its statistics file, or NULL. */
static char *make_labels(const struct snapshot *snapshot, const char *file)
{
	char container[CONTAINER_NAME], *text = NULL;
	size_t size;
	FILE *to = must_have(open_memstream(&text, &size));

	/* What a file says may be of another namespace, or of long ago. */
	container[0] = '\0';
	if (!file)
		container_of_process((pid_t)snapshot->pid, container);
	fprintf(to, "pid=\"%u\",comm=\"", snapshot->pid);
	metrics_put_label(to, snapshot->name);
	fputs("\",container=\"", to);
	metrics_put_label(to, container);
	if (file) {
		fputs("\",file=\"", to);
		metrics_put_label(to, file);
	}
	fputc('"', to);
	fclose(to);
	return must_have(text);
}

static bool is_wanted(const char *name, const struct host_filter *filter)
{
	return !filter->comm ||
	       glob_matches(filter->comm, strlen(filter->comm), name, strlen(name));
}

/* A process that is read itself may have a file too: its number and its start say so. */
static bool is_there(const struct host *host, const struct snapshot *snapshot)
{
	for (size_t i = 0; i < host->nr; i++) {
		const struct snapshot *other = host->ones[i].snapshot;

		if (other->pid == snapshot->pid &&
		    other->abi.start_ns == snapshot->abi.start_ns)
			return true;
	}
	return false;
}

static void add(struct host *host, struct source *source, const struct host_filter *filter,
		const char *file)
{
	struct snapshot *snapshot = must_have(malloc(sizeof(*snapshot)));
	uint32_t version;

	/* One that has just ended is none any more, and not each file is of statistics. */
	if (source_look(source, snapshot, &version)) {
		free(snapshot);
		return;
	}
	if (!is_wanted(snapshot->name, filter) || is_there(host, snapshot)) {
		snapshot_free(snapshot);
		free(snapshot);
		return;
	}
	host->ones = must_have(reallocarray(host->ones, host->nr + 1, sizeof(*host->ones)));
	host->ones[host->nr] = (struct metrics_one){ .labels = make_labels(snapshot, file) };
	host_choose(&host->ones[host->nr++], snapshot, filter);
	/* It is closed, and nobody walks this heap again. */
	snapshot->process = NULL;
}

static void try_process(struct host *host, pid_t pid, const struct host_filter *filter)
{
	struct source source;
	int error = source_try(&source, pid);

	if (error) {
		host->nr_unreadable += error == -EACCES;
		return;
	}
	if (is_wanted(source.process.name, filter))
		add(host, &source, filter, NULL);
	source_close(&source);
}

static int compare_pids(const void *one, const void *other)
{
	return compare_numbers((uint64_t)*(const pid_t *)one, (uint64_t)*(const pid_t *)other);
}

pid_t *host_processes(size_t *nr)
{
	DIR *folder = opendir("/proc");
	pid_t *pids = NULL;
	struct dirent *entry;

	*nr = 0;
	while (folder && (entry = readdir(folder))) {
		long pid = strtol(entry->d_name, NULL, 10);

		if (pid < 1 || pid == (long)getpid())
			continue;
		pids = must_have(reallocarray(pids, *nr + 1, sizeof(*pids)));
		pids[(*nr)++] = (pid_t)pid;
	}
	if (folder)
		closedir(folder);
	if (*nr)
		qsort(pids, *nr, sizeof(*pids), compare_pids);
	return pids;
}

static void read_folder(struct host *host, const struct host_filter *filter)
{
	struct dirent **entries;
	int nr = scandir(filter->folder, &entries, NULL, alphasort);

	for (int i = 0; i < nr; i++) {
		char *path = text_of("%s/%s", filter->folder, entries[i]->d_name);
		struct source source = { .kind = SOURCE_STATS, .target = path };

		if (entries[i]->d_name[0] != '.')
			add(host, &source, filter, clean_string(entries[i]->d_name));
		free(path);
		free(entries[i]);
	}
	if (nr >= 0)
		free(entries);
}

void host_read(struct host *host, const struct host_filter *filter)
{
	size_t nr;
	pid_t *pids = host_processes(&nr);

	*host = (struct host){ .nr = 0 };
	for (size_t i = 0; i < nr; i++)
		try_process(host, pids[i], filter);
	free(pids);
	if (filter->folder)
		read_folder(host, filter);
}

void host_free(struct host *host)
{
	for (size_t i = 0; i < host->nr; i++) {
		struct snapshot *snapshot = (struct snapshot *)host->ones[i].snapshot;

		free(host->ones[i].labels);
		snapshot_free(snapshot);
		free(snapshot);
	}
	free(host->ones);
}
