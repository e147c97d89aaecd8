/* SPDX-License-Identifier: MIT */
/*
 * slub leaks: objects that nothing in the process leads to any more.  `slub watched` lists what
 * is allocated, by call stack (cmd_watched.c).
 */
#include "leak.h"
#include "request.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#define NR_ALL 1e9
#define INTERVAL_MS 300
#define HIGH_BITS 16

struct job {
	bool stop, tagged;
	double interval_ms, shift, nr_max, nr_examples;
};

static void print_leaks_help(FILE *to)
{
	fputs("usage: slub leaks [OPTION...] PID|CORE\n\n"
	      "Finds objects that no pointer leads to: none in the program's data, stacks,\n"
	      "registers and mappings, and none in an object that is reached itself.  The\n"
	      "process needs no option and is not stopped: it is read twice.  The exit status\n"
	      "is 7 if there are leaks.  `slub watched` lists what is allocated, by stack.\n\n"
	      "  slub leaks 1234\n\n"
	      "      --stop            stop the threads meanwhile: registers are read too\n"
	      "      --interval=MS     between the two looks (default 300)\n"
	      "      --examples=N      show N objects of each line (default 1; at most 8)\n"
	      "  -N, --lines=K         the first K lines only\n"
	      "      --tagged          pointers may have a tag in the highest 16 bits\n"
	      "      --shifted=N       ... or be shifted by N bits, to the left or right\n"
	      "  -p, --process=TARGET  the process, or its core file\n"
	      "  -j, --json            print one JSON object\n"
	      "  -h, --help            print this\n", to);
	print_statuses(to);
}

static struct leak_options options_of(const struct job *job)
{
	struct leak_options options = {
		.views = { { UINT64_MAX, 0, 0 } }, .nr_views = 1, .stop = job->stop,
		.interval_ms = (unsigned int)job->interval_ms,
	};
	unsigned int shift = (unsigned int)job->shift;

	if (job->tagged)
		options.views[0].mask = UINT64_MAX >> HIGH_BITS;
	if (shift) {
		options.views[options.nr_views++] = (struct leak_view){ UINT64_MAX, shift, 0 };
		options.views[options.nr_views++] = (struct leak_view){ UINT64_MAX, 0, shift };
	}
	return options;
}

static int print(struct leaks *leaks, const struct request *request, const struct job *job)
{
	size_t lines = (size_t)job->nr_max;
	struct leak_groups groups;
	bool any;

	leak_groups_make(leaks, &groups, (unsigned int)job->nr_examples);
	any = groups.nr_direct;
	if (request->format == FORMAT_JSON)
		leaks_put(leaks, &groups, lines);
	else
		leaks_print(leaks, &groups, lines);
	leak_groups_free(&groups);
	return any ? STATUS_FOUND : 0;
}

static int search(const struct request *request, const struct job *job)
{
	struct leak_options options = options_of(job);
	struct source source;
	struct leaks leaks;
	int status = source_open(&source, "leaks", request->target);

	if (status)
		return status;
	if (source.kind == SOURCE_STATS) {
		complain("leaks: %s is a statistics file, which has no heap; a process or a core "
			 "file has", source.label);
		source_close(&source);
		return STATUS_USAGE;
	}
	status = leaks_find(&leaks, &source, &options);
	if (!status)
		status = print(&leaks, request, job);
	leaks_free(&leaks);
	source_close(&source);
	return status;
}

enum { OPTION_STOP = 1000, OPTION_TAGGED, OPTION_SHIFTED, OPTION_INTERVAL, OPTION_EXAMPLES };

static bool set_number(struct job *job, int letter)
{
	switch (letter) {
	case OPTION_SHIFTED:
		return request_number("leaks", "shifted", optarg, 1, 32, &job->shift);
	case OPTION_INTERVAL:
		return request_number("leaks", "interval", optarg, 0, 3600000, &job->interval_ms);
	case OPTION_EXAMPLES:
		return request_number("leaks", "examples", optarg, 0, LEAK_EXAMPLES,
				      &job->nr_examples);
	default:
		return request_number("leaks", "lines", optarg, 1, NR_ALL, &job->nr_max);
	}
}

/* 0, or an exit status after a message. */
static int set_option(struct request *request, struct job *job, int letter)
{
	job->stop |= letter == OPTION_STOP;
	job->tagged |= letter == OPTION_TAGGED;
	if (letter == 'N' || letter >= OPTION_SHIFTED)
		return set_number(job, letter) ? 0 : STATUS_USAGE;
	return letter >= OPTION_STOP ? 0 : request_option(request, letter);
}

static int parse(int argc, char **argv, struct request *request, struct job *job)
{
	static const struct option options[] = {
		{ "stop", no_argument, NULL, OPTION_STOP },
		{ "tagged", no_argument, NULL, OPTION_TAGGED },
		{ "shifted", required_argument, NULL, OPTION_SHIFTED },
		{ "interval", required_argument, NULL, OPTION_INTERVAL },
		{ "examples", required_argument, NULL, OPTION_EXAMPLES },
		{ "lines", required_argument, NULL, 'N' },
		{ "process", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, status;

	while ((letter = getopt_long(argc, argv, ":N:p:jh", options, NULL)) != -1) {
		if (letter == '?' || letter == ':')
			return option_refused(letter, argv, options);
		status = set_option(request, job, letter);
		if (status)
			return status;
	}
	return request->help ? 0 : request_check(request, argc, argv, 0);
}

static int leaks(int argc, char **argv)
{
	struct job job = { .interval_ms = INTERVAL_MS, .nr_max = NR_ALL, .nr_examples = 1 };
	struct request request;
	int status;

	request_init(&request, "leaks");
	status = parse(argc, argv, &request, &job);
	if (status)
		return status;
	if (request.help) {
		print_leaks_help(stdout);
		return 0;
	}
	return search(&request, &job);
}

const struct command cmd_leaks = {
	.name = "leaks",
	.summary = "finds the objects that no pointer leads to any more",
	.print_help = print_leaks_help,
	.main = leaks,
};
