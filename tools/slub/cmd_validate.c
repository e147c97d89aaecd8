/* SPDX-License-Identifier: MIT */
/* slub validate: has a process check all objects of its watched caches. */
#include "mailbox.h"
#include "slub.h"

#include <inttypes.h>

static void print_validate_help(FILE *to)
{
	fputs("usage: slub debug validate [OPTION...] PID [CACHE]\n\n"
	      "Has a process check every object of its watched caches (`slub\n"
	      "debug`), and prints how many bugs that found.  The process\n"
	      "reports them itself, where SLUB_DEBUG_REPORT says; the exit\n"
	      "status is 1 too if there are any.  CACHE is a\n"
	      "name; '*' and '?' in it make it a pattern.  All without it.\n\n"
	      "  slub debug validate 1234\n\n", to);
	mailbox_print_help(to);
}

static int print_bugs(struct mailbox *mailbox)
{
	struct json json = { .to = stdout };
	int64_t bugs;
	size_t nr;
	int status = mailbox_watched(mailbox, &nr);

	if (status)
		return status;
	if (!nr) {
		complain("validate: %s watches no such cache; `slub debug %s %s "
			 "FZPU` switches it on", mailbox->source.label,
			 mailbox->target,
			 *mailbox->pattern ? mailbox->pattern : "'*'");
		return STATUS_FAILED;
	}
	status = mailbox_ask(mailbox, MAILBOX_VALIDATE, mailbox->pattern,
			     &bugs);
	if (status)
		return status;
	if (mailbox->json) {
		mailbox_json_open(mailbox, &json);
		json_number(&json, "bugs", (uint64_t)bugs);
		json_number(&json, "caches", nr);
		json_close(&json);
		return bugs ? STATUS_NO : 0;
	}
	printf("%" PRId64 " bug%s in %zu watched cache%s\n", bugs,
	       bugs == 1 ? "" : "s", nr, nr == 1 ? "" : "s");
	return bugs ? STATUS_NO : 0;
}

static int validate(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "validate", .seconds = MAILBOX_SECONDS,
	};
	int status = mailbox_arguments(&mailbox, argc, argv);

	if (status)
		return status;
	if (mailbox.help) {
		print_validate_help(stdout);
		return 0;
	}
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	status = print_bugs(&mailbox);
	mailbox_close(&mailbox);
	return status;
}

const struct command cmd_validate = {
	.name = "validate",
	.summary = "has a process check the objects of its watched caches",
	.print_help = print_validate_help,
	.main = validate,
};
