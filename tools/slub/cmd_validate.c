/* SPDX-License-Identifier: MIT */
/* slub validate: has a process check all objects of its watched caches. */
#include "found.h"
#include "mailbox.h"
#include "slub.h"

#include <inttypes.h>

static void print_validate_help(FILE *to)
{
	fputs("usage: slub validate [OPTION...] PID [CACHE]\n\n"
	      "Has a process check every object of its watched caches (`slub\n"
	      "debug`), and prints how many bugs that found, and how many were\n"
	      "found before, as the program ran.  The process reports them\n"
	      "itself, where SLUB_DEBUG_REPORT says.  The exit status is 7 if\n"
	      "there are or were any.  CACHE is a name; '*' and '?' in it make it\n"
	      "a pattern.  All without it.\n\n"
	      "  slub validate 1234\n\n", to);
	mailbox_print_help(to);
}

/* Bugs that were found before this validation, which counts its own too. */
static uint64_t earlier_of(const struct found *found, uint64_t bugs)
{
	return found->bugs > bugs ? found->bugs - bugs : 0;
}

static void print_earlier(const struct found *found, uint64_t earlier,
			  const struct snapshot *now)
{
	const char *before = "", *path;

	printf(" now; %" PRIu64 " found before, at the program's calls or by an earlier "
	       "validate; in all: ", earlier);
	for (size_t i = 0; i < found->nr; i++) {
		printf("%s%s %" PRIu64, before, found->caches[i].name, found->caches[i].bugs);
		before = ", ";
	}
	putchar('\n');
	if (reports_of(now, &path) == REPORTS_NOWHERE)
		printf("their reports went nowhere; `slub set %u verbose 1` writes later ones "
		       "to its standard error\n", now->pid);
}

static void print_text(uint64_t bugs, size_t nr, const struct found *found,
		       const struct snapshot *now)
{
	uint64_t earlier = earlier_of(found, bugs);

	printf("%" PRIu64 " bug%s in %zu watched cache%s", bugs, bugs == 1 ? "" : "s", nr,
	       nr == 1 ? "" : "s");
	if (earlier)
		print_earlier(found, earlier, now);
	else
		putchar('\n');
}

static void print_json(const struct mailbox *mailbox, uint64_t bugs, size_t nr,
		       const struct found *found)
{
	struct json json = { .to = stdout };

	mailbox_json_open(mailbox, &json);
	json_number(&json, "bugs", bugs);
	json_number(&json, "caches", nr);
	if (found->is_known)
		json_number(&json, "earlier", earlier_of(found, bugs));
	json_close(&json);
}

/* What was found, with what the process found by itself.  0, 7, or the status after a message. */
static int print_found(struct mailbox *mailbox, uint64_t bugs, size_t nr)
{
	struct snapshot now;
	struct found found;
	int status = source_snapshot(&mailbox->source, &now);

	if (status)
		return status;
	found_read(&found, &now, mailbox->pattern);
	if (mailbox->json)
		print_json(mailbox, bugs, nr, &found);
	else
		print_text(bugs, nr, &found, &now);
	status = bugs || found.bugs ? STATUS_FOUND : 0;
	found_free(&found);
	snapshot_free(&now);
	return status;
}

static int print_bugs(struct mailbox *mailbox)
{
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
	return status ? status : print_found(mailbox, (uint64_t)bugs, nr);
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
