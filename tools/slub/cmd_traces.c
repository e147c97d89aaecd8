/* SPDX-License-Identifier: MIT */
/*
 * slub traces: who allocated what is allocated, and who freed what was there
 * before; the kernel's alloc_traces and free_traces.  The process is only read.
 */
#include "cache_name.h"
#include "request.h"
#include "trace_print.h"
#include "view.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define NR_ALL 1e9

enum { OPTION_ALLOC = REQUEST_FIRST_OWN, OPTION_FREE };

static const char *const kind_names[] = {
	[TRACE_ALLOC] = "alloc_traces", [TRACE_FREE] = "free_traces",
};

struct job {
	bool kinds[2];			/* by enum trace_kind; none: both */
	double nr_max;			/* stacks of each cache */
	const char *pattern;
	int status;
};

static void print_traces_help(FILE *to)
{
	fputs("usage: slub traces [OPTION...] TARGET [CACHE]\n\n"
	      "Prints the call stacks that allocated the objects in use, the most\n"
	      "objects first, and those that freed what was in their place before,\n"
	      "for the caches that letter U watches (`slub debug`).  CACHE is a\n"
	      "name; '*' and '?' in it make it a pattern.  All without it.  The\n"
	      "process is not stopped.  A statistics file has no stacks.\n\n"
	      "  slub traces -N 5 1234 'malloc-*'\n\n"
	      "      --alloc           allocations only\n"
	      "      --free            frees only\n"
	      "  -N, --lines=K         the first K stacks of each cache only\n",
	      to);
	request_print_help(to, false);
}

/* ---- printing ---- */

/* The rows of one cache from @from on; how many there are. */
static size_t rows_of(const struct traces *traces, size_t from)
{
	size_t end = from;

	while (end < traces->nr &&
	       traces->rows[end].cache == traces->rows[from].cache)
		end++;
	return end - from;
}

static void print_heading(const struct snapshot *now,
			  const struct traces *traces, size_t from, size_t nr,
			  enum trace_kind kind, bool color)
{
	uint64_t count = 0, bytes = 0, waste = 0;
	char name[CACHE_NAME_SIZE];

	for (size_t i = from; i < from + nr; i++) {
		count += traces->rows[i].count;
		bytes += traces->rows[i].bytes;
		waste += traces->rows[i].waste;
	}
	cache_plain_name(now, &now->caches[traces->rows[from].cache], name);
	printf("%s%s/%s: %" PRIu64 " objects, %" PRIu64 " bytes asked for, %"
	       PRIu64 " wasted%s\n", color ? "\033[1m" : "", name,
	       kind_names[kind], count, bytes, waste, color ? "\033[0m" : "");
}

static void print_text(const struct snapshot *now, const struct traces *traces,
		       const struct profile *names, enum trace_kind kind,
		       const struct job *job, bool color)
{
	size_t nr;

	if (!traces->nr)
		printf("nothing that is %s there was watched by letter U\n",
		       kind == TRACE_ALLOC ? "allocated" : "freed");
	for (size_t from = 0; from < traces->nr; from += nr) {
		nr = rows_of(traces, from);
		print_heading(now, traces, from, nr, kind, color);
		for (size_t i = 0; i < nr && i < job->nr_max; i++)
			trace_print(traces, &traces->rows[from + i], names,
				    now->abi.nr_nodes);
	}
}

static void put_cache(struct json *json, const struct snapshot *now,
		      const struct traces *traces, const struct profile *names,
		      size_t from, size_t nr, const struct job *job)
{
	const struct cache_view *cache = &now->caches[traces->rows[from].cache];
	char name[CACHE_NAME_SIZE], letters[8];

	json_open(json, NULL);
	cache_plain_name(now, cache, name);
	json_string(json, "cache", name);
	json_string(json, "letters", watch_letters(cache, letters));
	json_open_array(json, "traces");
	for (size_t i = 0; i < nr && i < job->nr_max; i++) {
		json_open(json, NULL);
		trace_put(json, traces, &traces->rows[from + i], names);
		json_close(json);
	}
	json_close(json);
	json_close(json);
}

static void put_kind(struct json *json, const struct snapshot *now,
		     const struct traces *traces, const struct profile *names,
		     enum trace_kind kind, const struct job *job)
{
	size_t nr;

	json_open_array(json, kind_names[kind]);
	for (size_t from = 0; from < traces->nr; from += nr) {
		nr = rows_of(traces, from);
		put_cache(json, now, traces, names, from, nr, job);
	}
	json_close(json);
}

/* ---- the process ---- */

static void print_kind(struct json *json, const struct snapshot *now,
		       enum trace_kind kind, const struct request *request,
		       const struct job *job)
{
	struct traces traces;
	struct profile names;

	traces_collect(&traces, now, kind, job->pattern);
	trace_names_find(&names, now->process, &traces);
	if (json)
		put_kind(json, now, &traces, &names, kind, job);
	else
		print_text(now, &traces, &names, kind, job, request->color);
	profile_free(&names);
	traces_free(&traces);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	bool is_json = request->format == FORMAT_JSON;
	struct json json = { .to = stdout };
	struct job *job = arg;

	(void)before;
	job->status = traces_check(now, "traces", job->pattern);
	if (job->status)
		return;
	if (is_json)
		json_open_snapshot(&json, now, "traces");
	for (enum trace_kind k = TRACE_ALLOC; k <= TRACE_FREE; k++) {
		if (job->kinds[k])
			print_kind(is_json ? &json : NULL, now, k, request, job);
	}
	if (is_json)
		json_close(&json);
}

/* ---- options ---- */

static int parse(int argc, char **argv, struct request *request,
		 struct job *job)
{
	const struct own_option own[] = {
		{ "alloc", OPTION_ALLOC, .on = &job->kinds[TRACE_ALLOC] },
		{ "free", OPTION_FREE, .on = &job->kinds[TRACE_FREE] },
		{ "lines", 'N', .number = &job->nr_max, .min = 1, .max = NR_ALL },
	};
	int status = request_parse(request, argc, argv, own, 3, NULL);

	if (status)
		return status;
	if (!job->kinds[TRACE_ALLOC] && !job->kinds[TRACE_FREE])
		job->kinds[TRACE_ALLOC] = job->kinds[TRACE_FREE] = true;
	if (request->help)
		return 0;
	if (request->format == FORMAT_OPENMETRICS) {
		complain("traces: stacks are no metric; use --json");
		return STATUS_USAGE;
	}
	status = request_check(request, argc, argv, 1);
	if (!status && optind < argc)
		job->pattern = argv[optind];
	return status;
}

static int traces_main(int argc, char **argv)
{
	struct job job = { .nr_max = NR_ALL, .pattern = "" };
	struct request request;
	int status;

	request_init(&request, "traces");
	status = parse(argc, argv, &request, &job);
	if (status)
		return status;
	if (request.help) {
		print_traces_help(stdout);
		return 0;
	}
	status = request_run(&request, print, &job);
	return status ? status : job.status;
}

const struct command cmd_traces = {
	.name = "traces",
	.summary = "prints the stacks that allocated and freed watched objects",
	.print_help = print_traces_help,
	.main = traces_main,
};
