/* SPDX-License-Identifier: MIT */
/* slub stats: the numbers of a heap, as a whole and cache by cache. */
#include "account.h"
#include "attribute.h"
#include "cache_name.h"
#include "openmetrics.h"
#include "request.h"
#include "view.h"

#include <inttypes.h>
#include <string.h>

static void print_stats_help(FILE *to)
{
	fputs("usage: slub stats [OPTION...] TARGET [CACHE]\n\n"
	      "Prints what a heap holds, and every number of each cache that is\n"
	      "called CACHE: a name; '*' and '?' in it make it a pattern.  The\n"
	      "process is not stopped.\n\n"
	      "  slub stats 1234 'malloc-6*'\n\n", to);
	request_print_help(to, true);
}

static void print_title(const struct snapshot *now)
{
	printf("%s", now->target);
	if (now->name[0])
		printf(" (%s, PID %u)", now->name, now->pid);
	printf(", libslub %s\n", now->abi.library_version);
}

static void print_identity(const struct snapshot *now)
{
	char when[32], since[32];

	if (now->command[0])
		printf("command      %s\n", now->command);
	printf("backend      %s, CPU number %s, layout %s\n",
	       state_backend(&now->abi), state_cpu_number(&now->abi),
	       state_layout(&now->abi));
	printf("since        %s\n", time_text(since, now->abi.start_ns));
	if (!now->process)
		printf("as of        %s%s\n", time_text(when, now->time_ns),
		       now->has_exited ? ", when it exited" : "");
}

static void print_bytes(const char *name, uint64_t bytes,
			const struct snapshot *before, uint64_t bytes_before)
{
	char text[SIZE_TEXT];

	printf("%-12s %10s %14" PRIu64, name, size_text(text, bytes, false),
	       bytes);
	if (before)
		printf("  %+" PRId64, (int64_t)(bytes - bytes_before));
	putchar('\n');
}

struct sums {
	uint64_t used, used_bytes, cached, cached_bytes, free, free_bytes;
};

static struct sums sum_objects(const struct snapshot *snapshot)
{
	struct sums sums = { 0 };

	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		const struct cache_view *cache = &snapshot->caches[i];
		/* Zones and tracks of a watched object are no use to the program. */
		uint64_t size = cache_field(cache, cache_field(cache, SLUB_ABI_CACHE_DEBUG) ?
					    SLUB_ABI_CACHE_OBJECT_SIZE :
					    SLUB_ABI_CACHE_SIZE);
		uint64_t free = cache_capacity(cache) - cache->active;

		sums.used += cache_used(cache);
		sums.used_bytes += cache_used(cache) * size;
		sums.cached += cache->cached;
		sums.cached_bytes += cache->cached * size;
		sums.free += free;
		sums.free_bytes += free * size;
	}
	return sums;
}

static void print_mappings(const struct snapshot *now)
{
	fputs("mappings     ", stdout);
	if (now->mappings)
		printf("%" PRIu64 " of the heap, ", now->mappings);
	printf("%" PRIu64 " large blocks moved\n", now->moved_runs);
}

static void print_totals(const struct snapshot *now,
			 const struct snapshot *before)
{
	static const struct snapshot none;
	const struct snapshot *old = before ? before : &none;
	struct sums sums = sum_objects(now), past = sum_objects(old);

	print_bytes("committed", now->committed_bytes, before,
		    old->committed_bytes);
	print_bytes("slabs", now->slab_bytes, before, old->slab_bytes);
	print_bytes("  in use", sums.used_bytes, before, past.used_bytes);
	print_bytes("  in lists", sums.cached_bytes, before,
		    past.cached_bytes);
	print_bytes("  free", sums.free_bytes, before, past.free_bytes);
	print_bytes("large", now->large_bytes, before, old->large_bytes);
	print_bytes("idle", now->idle_bytes, before, old->idle_bytes);
	print_bytes("refused", now->refused_bytes, before, old->refused_bytes);
	print_bytes("deferred", now->deferred_bytes, before, old->deferred_bytes);
	print_mappings(now);
	printf("objects      %" PRIu64 " in use, %" PRIu64 " in lists, %" PRIu64
	       " free in slabs\n", sums.used, sums.cached, sums.free);
}

static void print_account(const struct snapshot *now)
{
	struct account account;

	account_make(&account, now);
	account_print(stdout, &account, now);
}

static void print_text(const struct snapshot *now,
		       const struct snapshot *before, const char *pattern)
{
	print_title(now);
	print_account(now);
	print_identity(now);
	print_totals(now, before);
	for (size_t i = 0; pattern && i < now->nr_caches; i++) {
		if (!cache_is_called(now, &now->caches[i], pattern))
			continue;
		printf("\n%s\n", now->caches[i].name);
		attributes_print(now, &now->caches[i]);
	}
}

static void print_json(const struct snapshot *now, const char *pattern)
{
	struct json json = { .to = stdout };
	struct sums sums = sum_objects(now);
	struct account account;

	account_make(&account, now);
	json_open_snapshot(&json, now, "stats");
	account_json(&json, &account, now);
	json_totals(&json, now);
	if (now->mappings)
		json_number(&json, "mappings", now->mappings);
	json_open(&json, "objects");
	json_number(&json, "used", sums.used);
	json_number(&json, "used_bytes", sums.used_bytes);
	json_number(&json, "cached", sums.cached);
	json_number(&json, "cached_bytes", sums.cached_bytes);
	json_number(&json, "free", sums.free);
	json_number(&json, "free_bytes", sums.free_bytes);
	json_close(&json);
	json_open_array(&json, "caches");
	for (size_t i = 0; i < now->nr_caches; i++) {
		if (pattern && !cache_is_called(now, &now->caches[i], pattern))
			continue;
		json_open(&json, NULL);
		attributes_put(&json, now, &now->caches[i]);
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	const char *pattern = arg;

	switch (request->format) {
	case FORMAT_TEXT:
		print_text(now, before, pattern);
		break;
	case FORMAT_JSON:
		print_json(now, pattern);
		break;
	case FORMAT_OPENMETRICS:
		metrics_print(stdout, METRICS_OPENMETRICS, now);
	}
}

static int stats(int argc, char **argv)
{
	struct request request;
	int status;

	request_init(&request, "stats");
	status = request_parse(&request, argc, argv, NULL, 0, NULL);
	if (status)
		return status;
	if (request.help) {
		print_stats_help(stdout);
		return 0;
	}
	status = request_check(&request, argc, argv, 1);
	if (status)
		return status;
	request.cache = optind < argc ? argv[optind] : NULL;
	return request_run(&request, print, (void *)request.cache);
}

const struct command cmd_stats = {
	.name = "stats",
	.summary = "prints the numbers of a heap and of its caches",
	.print_help = print_stats_help,
	.main = stats,
};
