/* SPDX-License-Identifier: MIT */
/*
 * slub watched: who allocated what is allocated now, in the caches watched
 * by letter U, of all caches together; read as `slub traces` reads it.
 */
#include "cache_name.h"
#include "request.h"
#include "trace_print.h"
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NR_ALL 1e9

struct job {
	const char *pattern;		/* of caches' names */
	double nr_max;
	int status;
};

static void print_watched_help(FILE *to)
{
	fputs("usage: slub watched [OPTION...] TARGET [CACHE]\n\n"
	      "Lists the objects in use by the call stack that allocated them, the\n"
	      "most first: those allocated while letter U watched their cache\n"
	      "(`slub debug`).  CACHE is a name; '*' and '?' in it make it a\n"
	      "pattern.  All without it.  The process is not stopped.  A\n"
	      "statistics file has no stacks.\n\n"
	      "  slub watched -N 10 1234\n\n"
	      "  -N, --lines=K         the first K stacks only\n", to);
	request_print_help(to, false);
}

/* ---- the process ---- */

/* All caches together, the most first. */
static int compare(const void *a, const void *b)
{
	const struct trace *one = a, *other = b;

	if (one->count != other->count)
		return compare_numbers(other->count, one->count);
	return compare_numbers(other->bytes, one->bytes);
}

/* ---- printing ---- */

static void print_text(const struct snapshot *now, const struct traces *traces,
		       const struct profile *names, const struct job *job)
{
	if (!traces->nr)
		puts("nothing that is allocated there was watched by letter U");
	for (size_t i = 0; i < traces->nr && i < job->nr_max; i++)
		trace_print_leak(now, traces, &traces->rows[i], names);
}

static void print_json(const struct snapshot *now, const struct traces *traces,
		       const struct profile *names, const struct job *job)
{
	struct json json = { .to = stdout };
	char name[CACHE_NAME_SIZE];

	json_open_snapshot(&json, now, "watched");
	json_open_array(&json, "watched");
	for (size_t i = 0; i < traces->nr && i < job->nr_max; i++) {
		const struct trace *trace = &traces->rows[i];

		json_open(&json, NULL);
		cache_plain_name(now, &now->caches[trace->cache], name);
		json_string(&json, "cache", name);
		trace_put(&json, traces, trace, names);
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	struct job *job = arg;
	struct traces traces;
	struct profile names;

	(void)before;
	job->status = traces_check(now, "watched", job->pattern);
	if (job->status)
		return;
	traces_collect(&traces, now, TRACE_ALLOC, job->pattern);
	trace_names_find(&names, now->process, &traces);
	if (traces.nr)
		qsort(traces.rows, traces.nr, sizeof(*traces.rows), compare);
	(request->format == FORMAT_JSON ? print_json : print_text)
		(now, &traces, &names, job);
	profile_free(&names);
	traces_free(&traces);
}

/* ---- options ---- */

static int parse(int argc, char **argv, struct request *request,
		 struct job *job)
{
	const struct own_option own[] = {
		{ "lines", 'N', .number = &job->nr_max, .min = 1, .max = NR_ALL },
	};
	int status = request_parse(request, argc, argv, own, 1, NULL);

	if (status)
		return status;
	if (request->help)
		return 0;
	if (request->format == FORMAT_OPENMETRICS) {
		complain("watched: stacks are no metric; use --json");
		return STATUS_USAGE;
	}
	status = request_check(request, argc, argv, 1);
	if (!status && optind < argc)
		job->pattern = argv[optind];
	return status;
}

static int watched(int argc, char **argv)
{
	struct job job = { .nr_max = NR_ALL, .pattern = "" };
	struct request request;
	int status;

	request_init(&request, "watched");
	status = parse(argc, argv, &request, &job);
	if (status)
		return status;
	if (request.help) {
		print_watched_help(stdout);
		return 0;
	}
	status = request_run(&request, print, &job);
	return status ? status : job.status;
}

const struct command cmd_watched = {
	.name = "watched",
	.summary = "lists the watched objects in use, by call stack",
	.print_help = print_watched_help,
	.main = watched,
};
