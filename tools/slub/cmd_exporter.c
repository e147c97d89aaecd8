/* SPDX-License-Identifier: MIT */
/* slub exporter: the numbers of heaps for Prometheus, as a file or over HTTP. */
#include "exporter.h"
#include "host.h"
#include "output.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	OPTION_TEXTFILE = 1000, OPTION_LISTEN, OPTION_WATCH, OPTION_COMM, OPTION_CACHE,
	OPTION_METRICS, OPTION_SERIES, OPTION_EVENTS, OPTION_FILES,
};

#define SERIES_MAX 200		/* of one process among all, unless an option says otherwise */

struct job {
	const char *target;		/* NULL: all processes */
	const char *textfile;
	const char *listen;		/* an address, or "" */
	const char *metrics;		/* a pattern, or NULL: all */
	double seconds;			/* 0: once */
	double series;			/* -1: as the target has it */
	struct host_filter filter;
	bool listens;
	bool help;
};

static void print_exporter_help(FILE *to)
{
	fputs("usage: slub exporter [OPTION...] [TARGET]\n\n"
	      "Prints the numbers of heaps for Prometheus: of TARGET, or of every process on\n"
	      "libslub that it may read, with the labels pid, comm and container.\n\n"
	      "  slub exporter --listen=:9782\n\n"
	      "  -p, --process=TARGET  a PID, a core file, or a statistics file\n"
	      "      --files=FOLDER    all processes, and the statistics files in FOLDER\n"
	      "      --comm=PATTERN    only processes so called, such as 'redis*'\n"
	      "      --cache=PATTERN   only caches so called\n"
	      "      --metrics=PATTERN only metrics so called, such as 'slub_memory*'\n"
	      "      --events          the counters of each cache too\n"
	      "      --series=N        at most N a process, the largest caches first; 0 for all\n"
	      "                        (200 by default, all of a TARGET)\n"
	      "      --textfile=FILE   put them into FILE, which is replaced as a whole\n"
	      "      --watch=SECONDS   print, or write, again and again\n"
	      "      --listen[=[ADDRESS:]PORT]  answer GET /metrics; 127.0.0.1 without ADDRESS,\n"
	      "                        all with nothing before the colon; or on the socket\n"
	      "                        that systemd hands over (LISTEN_FDS)\n"
	      "  -h, --help            print this\n", to);
	print_statuses(to);
}

static int take_filter(struct job *job, int letter)
{
	switch (letter) {
	case OPTION_COMM:
		job->filter.comm = optarg;
		return 0;
	case OPTION_FILES:
		job->filter.folder = optarg;
		return 0;
	case OPTION_CACHE:
		job->filter.cache = optarg;
		return 0;
	case OPTION_METRICS:
		job->metrics = optarg;
		return 0;
	case OPTION_EVENTS:
		job->filter.events = true;
		return 0;
	case OPTION_SERIES:
		return request_number("exporter", "series", optarg, 0, 1e6, &job->series) ?
		       0 : STATUS_USAGE;
	}
	return -1;
}

static int take_option(struct job *job, int letter)
{
	switch (letter) {
	case 'p':
		job->target = optarg;
		return 0;
	case OPTION_TEXTFILE:
		job->textfile = optarg;
		return 0;
	case OPTION_LISTEN:
		job->listens = true;
		job->listen = optarg ? optarg : "";
		return 0;
	case OPTION_WATCH:
		return request_number("exporter", "watch", optarg, 0.1, 86400,
				      &job->seconds) ? 0 : STATUS_USAGE;
	case 'h':
		job->help = true;
		return 0;
	}
	return take_filter(job, letter);
}

static int check(const struct job *job, int argc, char **argv)
{
	const char *why = NULL;

	if (job->target && !*job->target)
		why = "needs a process: a PID, or the name of a core or statistics file";
	else if (job->target && (job->filter.comm || job->filter.folder))
		why = "a target, or --comm and --files, not both";
	else if (job->textfile && job->listens)
		why = "--textfile or --listen, not both";
	else if (job->textfile && !*job->textfile)
		why = "--textfile needs the name of a file";
	else if (job->seconds && job->listens)
		why = "--watch or --listen, not both: the scraper says when";
	if (why)
		complain("exporter: %s", why);
	else if (argc > optind)
		complain("exporter: '%s' is one argument too many", argv[optind]);
	else
		return 0;
	return STATUS_USAGE;
}

static int parse(struct job *job, int argc, char **argv)
{
	static const struct option options[] = {
		{ "process", required_argument, NULL, 'p' },
		{ "textfile", required_argument, NULL, OPTION_TEXTFILE },
		{ "listen", optional_argument, NULL, OPTION_LISTEN },
		{ "watch", required_argument, NULL, OPTION_WATCH },
		{ "comm", required_argument, NULL, OPTION_COMM },
		{ "files", required_argument, NULL, OPTION_FILES },
		{ "cache", required_argument, NULL, OPTION_CACHE },
		{ "metrics", required_argument, NULL, OPTION_METRICS },
		{ "series", required_argument, NULL, OPTION_SERIES },
		{ "events", no_argument, NULL, OPTION_EVENTS },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, status;

	while ((letter = getopt_long(argc, argv, ":p:h", options, NULL)) != -1) {
		status = take_option(job, letter);
		if (status < 0)
			return option_refused(letter, argv, options);
		if (status)
			return status;
	}
	if (job->help)
		return 0;
	request_take_target(&job->target, argc, argv);
	return check(job, argc, argv);
}

/* Alone it has all series that there are, unless somebody wants fewer. */
static void print_one(FILE *to, const struct job *job, struct snapshot *now)
{
	struct host_filter filter = job->filter;
	struct metrics_one one = { .snapshot = now };

	if (job->series >= 0 || filter.cache || filter.events) {
		filter.series_max = job->series > 0 ? (size_t)job->series : 0;
		host_choose(&one, now, &filter);
	} else {
		account_make(&one.account, now);
		one.nr_caches = now->nr_caches;
		one.events = true;
	}
	metrics_print_all(to, METRICS_PROMETHEUS, &one, 1, job->metrics);
}

/* Each time anew: the file of the statistics may be another one by now. */
static int print_target(FILE *to, const struct job *job)
{
	struct snapshot now;
	struct source source;
	int status = source_open(&source, "exporter", job->target);

	if (status)
		return status;
	status = source_snapshot(&source, &now);
	if (!status) {
		print_one(to, job, &now);
		snapshot_free(&now);
	}
	source_close(&source);
	return status;
}

static int print_metrics(FILE *to, void *arg)
{
	const struct job *job = arg;
	struct host_filter filter = job->filter;
	struct host host;

	if (job->target)
		return print_target(to, job);
	filter.series_max = job->series < 0 ? SERIES_MAX : (size_t)job->series;
	host_read(&host, &filter);
	metrics_print_gauge(to, "slub_processes", "Processes on libslub that were read.",
			    host.nr);
	metrics_print_gauge(to, "slub_processes_unreadable",
			    "Processes that the exporter has no permission to look at.",
			    host.nr_unreadable);
	metrics_print_all(to, METRICS_PROMETHEUS, host.ones, host.nr, job->metrics);
	host_free(&host);
	return 0;
}

/* Another user's collector reads it; it has names and numbers, and neither address nor content. */
#define MODE_PUBLISHED 0644

/* A reader of the file sees the old one or the new one. */
static int write_textfile(struct job *job)
{
	struct output output;
	int error = output_open(&output, job->textfile, MODE_PUBLISHED), status = 0;

	if (!error) {
		status = print_metrics(output.to, job);
		error = output_close(&output, !status);
	}
	if (!error)
		return status;
	complain("exporter: cannot write %s: %s", job->textfile, output_why(error));
	return STATUS_FAILED;
}

static int print_or_write(struct job *job)
{
	int status;

	if (job->textfile)
		return write_textfile(job);
	status = print_metrics(stdout, job);
	/* main() says what is wrong with it. */
	return fflush(stdout) || ferror(stdout) ? STATUS_FAILED : status;
}

static int print_on(struct job *job)
{
	struct timespec pause = { (time_t)job->seconds,
		(long)((job->seconds - (double)(time_t)job->seconds) * 1e9) };
	int status = print_or_write(job);

	while (!status && job->seconds) {
		nanosleep(&pause, NULL);
		status = print_or_write(job);
	}
	return status;
}

static int serve(struct job *job)
{
	char *text = NULL;
	size_t size;
	FILE *nowhere = must_have(open_memstream(&text, &size));
	int status = print_metrics(nowhere, job);

	fclose(nowhere);
	free(text);
	/* An unreadable source is an error now, and not of the first request. */
	return status ? status : exporter_serve(job->listen, print_metrics, job);
}

static int exporter(int argc, char **argv)
{
	struct job job = { .series = -1 };
	int status = parse(&job, argc, argv);

	if (status)
		return status;
	if (job.help) {
		print_exporter_help(stdout);
		return 0;
	}
	if (job.listens)
		return serve(&job);
	return print_on(&job);
}

const struct command cmd_exporter = {
	.name = "exporter",
	.summary = "serves the numbers of all heaps to Prometheus",
	.print_help = print_exporter_help,
	.main = exporter,
};
