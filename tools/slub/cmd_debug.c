/* SPDX-License-Identifier: MIT */
/* slub debug: switches the watching of a process's caches on and off. */
#include "found.h"
#include "mailbox.h"
#include "slub.h"

#include <inttypes.h>
#include <string.h>

static void print_debug_help(FILE *to)
{
	fputs("usage: slub debug [OPTION...] PID CACHE LETTERS\n\n"
	      "Has a process watch a cache from now on, or no longer.  CACHE is a name;\n"
	      "'*' and '?' in it make it a pattern.  LETTERS are '-' for none, or any of\n\n"
	      "  F  consistency of slabs and freelists\n"
	      "  Z  red zones around objects\n"
	      "  P  poison in freed objects\n"
	      "  U  the call stacks that allocated and freed an object\n"
	      "  T  a line for each allocation and free\n"
	      "  A  some allocations fail (SLUB_DEBUG_FAIL)\n\n"
	      "  slub debug 1234 'malloc-6*' FZPU\n\n", to);
	mailbox_print_help(to);
}

static int check_letters(const char *letters)
{
	size_t known = strspn(letters, "FZPUTAfzputa");

	if (!strcmp(letters, "-") || (known && !letters[known]))
		return 0;
	if (!*letters)
		complain("debug: no letters; they are any of F Z P U T A, or '-' "
			 "for none");
	else if (letters[known] == 'O' || letters[known] == 'o')
		complain("debug: letter O counts only at the start of a process "
			 "(SLUB_DEBUG)");
	else
		complain("debug: '%c' in '%.20s' is none of F Z P U T A; '-' alone "
			 "is for none", letters[known], letters);
	return STATUS_USAGE;
}

static int parse(int argc, char **argv, struct mailbox *mailbox,
		 const char **letters)
{
	int status = mailbox_process_first(mailbox, argc, argv);

	if (status || mailbox->help)
		return status;
	if (argc - optind != 2) {
		complain("debug: takes three arguments: slub debug PID CACHE "
			 "LETTERS");
		return STATUS_USAGE;
	}
	mailbox->pattern = argv[optind];
	*letters = argv[optind + 1];
	if (!*mailbox->pattern) {
		complain("debug: no cache; '*' is for all");
		return STATUS_USAGE;
	}
	return check_letters(*letters);
}

/* What was done, and where the user hears of what it finds. */
static int print_done(struct mailbox *mailbox, const char *letters, uint64_t nr)
{
	bool is_off = *letters == '-';
	struct json json = { .to = stdout };
	struct snapshot now = { .pid = 0 };
	int status = is_off ? 0 : source_snapshot(&mailbox->source, &now);

	if (status)
		return status;
	if (mailbox->json) {
		mailbox_json_open(mailbox, &json);
		json_number(&json, "caches", nr);
		json_string(&json, "letters", is_off ? "" : letters);
		reports_put(&json, &now);
		json_close(&json);
	} else {
		printf("%" PRIu64 " cache%s: %s\n", nr, nr == 1 ? "" : "s",
		       is_off ? "no longer watched" : letters);
		reports_print(&now);
	}
	snapshot_free(&now);
	return 0;
}

static int switch_letters(struct mailbox *mailbox, const char *letters)
{
	char text[DEBUG_MAILBOX_TEXT_MAX + 2];
	int64_t nr;
	int status;

	snprintf(text, sizeof(text), "%s,%s", letters, mailbox->pattern);
	status = mailbox_ask(mailbox, MAILBOX_DEBUG, text, &nr);
	return status ? status : print_done(mailbox, letters, (uint64_t)nr);
}

static int debug(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "debug", .seconds = MAILBOX_SECONDS,
	};
	const char *letters = NULL;
	int status = parse(argc, argv, &mailbox, &letters);

	if (status)
		return status;
	if (mailbox.help) {
		print_debug_help(stdout);
		return 0;
	}
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	status = switch_letters(&mailbox, letters);
	mailbox_close(&mailbox);
	return status;
}

const struct command cmd_debug = {
	.name = "debug",
	.summary = "switches the checks of a cache on or off, by letters",
	.print_help = print_debug_help,
	.main = debug,
};
