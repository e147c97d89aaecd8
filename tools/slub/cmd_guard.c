/* SPDX-License-Identifier: MIT */
/* slub guard: has a process put one object in N between guard pages, or none. */
#include "mailbox.h"
#include "slub.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_DIGITS_MAX 12

static void print_guard_help(FILE *to)
{
	fputs("usage: slub debug guard [OPTION...] PID N\n\n"
	      "Has a process put one object in N between guard pages from now\n"
	      "on; 0 for none.  `slub explain` tells what happened to one.\n\n"
	      "  slub debug guard 1234 5000\n\n", to);
	mailbox_print_help(to);
}

static bool is_count(const char *text)
{
	return *text && strlen(text) <= EVERY_DIGITS_MAX &&
	       strspn(text, "0123456789") == strlen(text);
}

static int ask(struct mailbox *mailbox, const char *every)
{
	struct json json = { .to = stdout };
	int64_t result;
	int status = mailbox_open(mailbox);

	if (status)
		return status;
	status = mailbox_ask(mailbox, MAILBOX_GUARD, every, &result);
	if (!status && mailbox->json) {
		mailbox_json_open(mailbox, &json);
		json_number(&json, "every", strtoull(every, NULL, 10));
		json_close(&json);
	} else if (!status && strspn(every, "0") == strlen(every)) {
		printf("%s guards no more objects\n", mailbox->source.label);
	} else if (!status) {
		printf("%s guards one object in %s\n", mailbox->source.label,
		       every);
	}
	mailbox_close(mailbox);
	return status;
}

static int guard(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "guard", .seconds = MAILBOX_SECONDS,
	};
	int status = mailbox_arguments(&mailbox, argc, argv);
	const char *every = mailbox.pattern;

	if (status)
		return status;
	if (mailbox.help) {
		print_guard_help(stdout);
		return 0;
	}
	if (!*every) {
		complain("guard: needs N, of how many objects one is guarded; "
			 "usage: slub debug guard PID N");
		return STATUS_USAGE;
	}
	if (!is_count(every)) {
		complain("guard: '%s' is not a number up to 999999999999; usage: "
			 "slub guard PID N", every);
		return STATUS_USAGE;
	}
	mailbox.pattern = "";
	return ask(&mailbox, every);
}

const struct command cmd_guard = {
	.name = "guard",
	.summary = "has a process put one object in N between guard pages",
	.print_help = print_guard_help,
	.main = guard,
};
