/* SPDX-License-Identifier: MIT */
/* slub guard: has a process put one object in N between guard pages, or none. */
#include "core/base/size.h"
#include "mailbox.h"
#include "slub.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MAX 999999999999u

static void print_guard_help(FILE *to)
{
	fputs("usage: slub guard [OPTION...] PID N\n\n"
	      "Has a process put one object in N between guard pages from now\n"
	      "on; 0 for none.  `slub explain` tells what happened to it.\n\n"
	      "  slub guard 1234 5000\n\n", to);
	mailbox_print_help(to);
}

/* Units are for the library's numbers too: SLUB_GUARD=5K. */
static bool parse_count(const char *text, size_t *count)
{
	return size_parse(text, strlen(text), false, count) && *count <= EVERY_MAX;
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
		printf("%s no longer guards objects\n", mailbox->source.label);
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
	char digits[32];
	size_t count;

	if (status)
		return status;
	if (mailbox.help) {
		print_guard_help(stdout);
		return 0;
	}
	if (!*every) {
		complain("guard: needs N: one object in N is guarded; "
			 "usage: slub guard PID N");
		return STATUS_USAGE;
	}
	if (!parse_count(every, &count)) {
		complain("guard: '%s' is not a number up to 999999999999; usage: "
			 "slub guard PID N", every);
		return STATUS_USAGE;
	}
	mailbox.pattern = "";
	snprintf(digits, sizeof(digits), "%zu", count);
	return ask(&mailbox, digits);
}

const struct command cmd_guard = {
	.name = "guard",
	.summary = "has a process put one object in N between guard pages",
	.print_help = print_guard_help,
	.main = guard,
};
