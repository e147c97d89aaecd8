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
	const struct heap_census sum = heap_census_of(now);
	const struct heap_census past = heap_census_of(before ? before : &none);

	print_bytes("committed", sum.committed_bytes, before, past.committed_bytes);
	print_bytes("slabs", sum.slab_bytes, before, past.slab_bytes);
	print_bytes("  active", sum.active_bytes, before, past.active_bytes);
	print_bytes("  in use", sum.object_bytes - sum.cached_bytes, before,
		    past.object_bytes - past.cached_bytes);
	print_bytes("  in lists", sum.cached_bytes, before, past.cached_bytes);
	print_bytes("  free", sum.free_bytes, before, past.free_bytes);
	print_bytes("large", sum.large_bytes, before, past.large_bytes);
	print_bytes("idle", sum.dirty_bytes, before, past.dirty_bytes);
	print_bytes("refused", sum.refused_bytes, before, past.refused_bytes);
	print_bytes("deferred", sum.deferred_bytes, before, past.deferred_bytes);
	print_mappings(now);
	printf("objects      %" PRIu64 " in use, %" PRIu64 " in lists, %" PRIu64
	       " free in slabs\n", sum.objects - sum.cached, sum.cached, sum.free);
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
	struct account account;

	account_make(&account, now);
	json_open_snapshot(&json, now, "stats");
	account_json(&json, &account, now);
	json_totals(&json, now, "heap");
	if (now->mappings)
		json_number(&json, "mappings", now->mappings);
	json_totals(&json, now, "objects");
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
