/* SPDX-License-Identifier: MIT */
/*
 * Asks a living process for something (features/debug/mailbox.h).  It does it in its
 * next slow paths; one that neither allocates nor frees is woken (wake.h).
 */
#ifndef SLUB_TOOL_MAILBOX_H
#define SLUB_TOOL_MAILBOX_H

#include "features/debug/mailbox.h"
#include "json.h"
#include "source.h"

#include <stdio.h>

/* What wakes came to. */
struct woken {
	uint32_t nr;			/* that ran the library */
	double ms;			/* all of them */
	pid_t thread;			/* the last one's */
	char name[32];
	const char *call;		/* that it waited in */
	char why_not[160];		/* the last try; "": it did */
	bool ran;			/* because it ran just then */
};

struct mailbox {
	const char *command;		/* heads the messages */
	const char *target;		/* a PID, as it was given */
	const char *pattern;		/* caches; "" for all */
	const char *node;		/* where the options have it; or NULL */
	const struct option *options;	/* NULL: MAILBOX_OPTIONS alone */
	double seconds;			/* to wait for the answer */
	bool blocked;			/* MAILBOX_BLOCKED_TOO */
	bool no_wake;			/* wait only */
	double wake_seconds;		/* without an answer, before; 0: MAILBOX_WAKE_SECONDS */
	bool may_be_unknown;		/* -EINVAL is an answer: of an old library */
	bool help;
	bool json;
	/* by mailbox_open() */
	struct source source;
	uint64_t address;		/* of the mailbox in the process */
	int memory;			/* /proc/PID/mem: of one program */
	size_t box_bytes;		/* of struct debug_mailbox: an older library has less */
	struct woken woken;
};

#define MAILBOX_SECONDS 5
/* The pressure thread, where there is one, comes by after 0.3 s. */
#define MAILBOX_WAKE_SECONDS 0.4

/* The long options' values are above every letter. */
enum { MAILBOX_TIMEOUT = 1000, MAILBOX_BLOCKED, MAILBOX_NO_WAKE, MAILBOX_WAKE_AFTER,
       MAILBOX_OF_NODE };

#define MAILBOX_LETTERS "+:p:jh"
#define MAILBOX_OPTIONS                                                   \
	{ "process", required_argument, NULL, 'p' },                      \
	{ "timeout", required_argument, NULL, MAILBOX_TIMEOUT },          \
	{ "blocked", no_argument, NULL, MAILBOX_BLOCKED },                \
	{ "no-wake", no_argument, NULL, MAILBOX_NO_WAKE },                \
	{ "wake-after", required_argument, NULL, MAILBOX_WAKE_AFTER },    \
	{ "json", no_argument, NULL, 'j' },                               \
	{ "help", no_argument, NULL, 'h' },                               \
	{ NULL, 0, NULL, 0 }

/* The end of --help: the common options, and the exit statuses. */
void mailbox_print_help(FILE *to);

/* One common option.  0, an exit status after a message, or -1: another. */
int mailbox_option(struct mailbox *mailbox, int letter);
/*
 * For [-p] PID and two more arguments: reads the options and takes the process.
 * 0, or an exit status after a message; behind optind is the rest.
 */
int mailbox_process_first(struct mailbox *mailbox, int argc, char **argv);

/* The arguments of a command that is `NAME [-p] PID [CACHE]`; likewise. */
int mailbox_arguments(struct mailbox *mailbox, int argc, char **argv);

/*
 * Finds the process, its mailbox, and a cache that matches the pattern.
 * 0, or an exit status after a message.
 */
int mailbox_open(struct mailbox *mailbox);
/* Asks and waits.  0 and the answer, or an exit status after a message. */
int mailbox_ask(struct mailbox *mailbox, uint32_t operation, const char *text,
		int64_t *result);
void mailbox_close(struct mailbox *mailbox);
/* The head of the answer as JSON; json_close() ends it. */
void mailbox_json_open(const struct mailbox *mailbox, struct json *json);

/* Caches that match and are or were watched. */
int mailbox_watched(struct mailbox *mailbox, size_t *nr);

#endif
