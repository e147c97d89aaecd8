/* SPDX-License-Identifier: MIT */
/* slub exporter: the numbers of a heap for Prometheus, as a file or over HTTP. */
#include "exporter.h"
#include "openmetrics.h"
#include "output.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPTION_TEXTFILE = 1000, OPTION_LISTEN, OPTION_WATCH };

struct job {
	const char *target;
	const char *textfile;
	const char *listen;		/* a port, or "" */
	double seconds;			/* 0: once */
	bool listens;
	bool help;
};

static void print_exporter_help(FILE *to)
{
	fputs("usage: slub exporter [OPTION...] TARGET\n\n"
	      "Prints the numbers of a heap for Prometheus.  The process is not\n"
	      "stopped.\n\n"
	      "  slub exporter 1234 --listen=9782\n\n"
	      "  -p, --process=TARGET  a PID, a core file, or a statistics file\n"
	      "      --textfile=FILE   put them into FILE, which is replaced as a whole\n"
	      "      --watch=SECONDS   print, or write, again and again\n"
	      "      --listen[=PORT]   answer GET /metrics on 127.0.0.1, or on the\n"
	      "                        socket that systemd hands over (LISTEN_FDS)\n"
	      "  -h, --help            print this\n", to);
	print_statuses(to);
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
	return -1;
}

static int check(const struct job *job, int argc, char **argv)
{
	const char *why = NULL;

	if (!job->target || !*job->target)
		why = "needs a process: a PID, or the name of a statistics file";
	else if (job->textfile && job->listens)
		why = "--textfile or --listen, not both";
	else if (job->textfile && !*job->textfile)
		why = "--textfile needs the name of a file";
	else if (job->seconds && job->listens)
		why = "--watch or --listen, not both: who asks says when";
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

/* Each time anew: the file of the statistics may be another one by now. */
static int print_metrics(FILE *to, void *arg)
{
	const struct job *job = arg;
	struct snapshot now;
	struct source source;
	int status = source_open(&source, "exporter", job->target);

	if (status)
		return status;
	status = source_snapshot(&source, &now);
	if (!status) {
		metrics_print(to, METRICS_PROMETHEUS, &now);
		snapshot_free(&now);
	}
	source_close(&source);
	return status;
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
	FILE *nowhere = open_memstream(&text, &size);
	int status = nowhere ? print_metrics(nowhere, job) : STATUS_FAILED;

	if (nowhere)
		fclose(nowhere);
	free(text);
	/* An unreadable source is an error now, and not of the first request. */
	return status ? status : exporter_serve(job->listen, print_metrics, job);
}

static int exporter(int argc, char **argv)
{
	struct job job = { .target = NULL };
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
	.summary = "gives the numbers of a heap to Prometheus",
	.print_help = print_exporter_help,
	.main = exporter,
};
