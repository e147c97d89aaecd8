/* SPDX-License-Identifier: MIT */
/* The options and the loop that the commands which print snapshots share. */
#ifndef SLUB_TOOL_REQUEST_H
#define SLUB_TOOL_REQUEST_H

#include "slub.h"
#include "source.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_OPENMETRICS };

struct request {
	const char *command;		/* heads the messages */
	const char *target;		/* a PID or a file */
	const char *cache;		/* a name or a pattern; NULL: all */
	enum format format;
	double watch_seconds;		/* 0: once */
	bool once;
	bool color;
	bool help;
};

/* The long options' values are above every letter. */
enum request_option {
	REQUEST_OPENMETRICS = 1000,
	REQUEST_WATCH,
	REQUEST_ONCE,
	REQUEST_COLOR,
	REQUEST_FIRST_OWN,		/* of the command itself */
};

#define REQUEST_LETTERS "p:jh"
#define REQUEST_OPTIONS                                                   \
	{ "process", required_argument, NULL, 'p' },                      \
	{ "json", no_argument, NULL, 'j' },                               \
	{ "openmetrics", no_argument, NULL, REQUEST_OPENMETRICS },        \
	{ "watch", required_argument, NULL, REQUEST_WATCH },              \
	{ "once", no_argument, NULL, REQUEST_ONCE },                      \
	{ "color", optional_argument, NULL, REQUEST_COLOR },              \
	{ "help", no_argument, NULL, 'h' },                               \
	{ NULL, 0, NULL, 0 }

/*
 * The end of --help: the common options, and the exit statuses.  Without @has_metrics the
 * command refuses --openmetrics.
 */
void request_print_help(FILE *to, bool has_metrics);

/* Color as the terminal and NO_COLOR say. */
void request_init(struct request *request, const char *command);
/* One option.  0, an exit status after a message, or -1: it is not a common one. */
int request_option(struct request *request, int letter);
/* An option of one command, with the first of these that is not NULL. */
struct own_option {
	const char *name;
	int letter;			/* or a number from REQUEST_FIRST_OWN on */
	bool *on;			/* set by it */
	double *number;			/* its argument, from min to max */
	double min, max;
	/* Is given @own; 0, or an exit status after a message. */
	int (*set)(int letter, void *own);
	int argument;			/* for that, as in struct option */
};
/*
 * All options, the common ones and @nr of the command's.  0, or an exit status
 * after a message.
 */
int request_parse(struct request *request, int argc, char **argv,
		  const struct own_option *options, size_t nr, void *own);
/*
 * `slub stats 1234`, as `slub stats -p 1234`: without a target yet, the argument at
 * optind is it.
 */
void request_take_target(const char **target, int argc, char **argv);
/* After the options: 0, or an exit status after a message. */
int request_check(struct request *request, int argc, char **argv,
		  int operands_max);
/* A number from @min to @max; false after a message. */
bool request_number(const char *command, const char *option, const char *text,
		    double min, double max, double *number);
/* As request_number(), of bytes: a whole number, with the units that the library takes. */
bool request_bytes(const char *command, const char *option, const char *text,
		   size_t min, size_t max, double *number);

/*
 * @before is the snapshot before, NULL the first time.  The caches of @now may
 * be put in order.
 */
typedef void snapshot_printer(struct snapshot *now,
			      const struct snapshot *before,
			      const struct request *request, void *arg);

/*
 * Prints once, or every few seconds until the process ends.  A cache that there is not when the
 * first look is made is refused.
 */
int request_run(const struct request *request, snapshot_printer *print,
		void *arg);

#endif
