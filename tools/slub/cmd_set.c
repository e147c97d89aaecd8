/* SPDX-License-Identifier: MIT */
/* slub set: changes an option of a running process. */
#include "mailbox.h"
#include "settings.h"
#include "slub.h"

#include <string.h>

static void print_set_help(FILE *to)
{
	fputs("usage: slub set [OPTION...] PID NAME VALUE\n\n"
	      "Changes an option of a process from now on, as slub_option_set() does.\n"
	      "VALUE is any that `slub options` names.  NAME is one of\n\n", to);
	settings_print_changeable(to, "  ");
	fputs("\n\n  slub set 1234 retain 64M\n\n", to);
	mailbox_print_help(to);
}

struct wish {
	const char *name;
	const char *value;
};

static int parse(int argc, char **argv, struct mailbox *mailbox, struct wish *wish)
{
	int status = mailbox_process_first(mailbox, argc, argv);
	enum setting setting;

	if (status || mailbox->help)
		return status;
	if (argc - optind != 2) {
		complain("set: takes three arguments: slub set PID NAME VALUE");
		return STATUS_USAGE;
	}
	*wish = (struct wish){ argv[optind], argv[optind + 1] };
	setting = setting_find("set", wish->name);
	if (setting == NR_SETTINGS ||
	    !setting_may_become("set", setting, wish->value))
		return STATUS_USAGE;
	return 0;
}

static int ask(struct mailbox *mailbox, const struct wish *wish)
{
	char text[DEBUG_MAILBOX_TEXT_MAX + 2];
	struct json json = { .to = stdout };
	int64_t result;
	int status;

	snprintf(text, sizeof(text), "%s=%s", wish->name, wish->value);
	status = mailbox_ask(mailbox, MAILBOX_SET, text, &result);
	if (status)
		return status;
	if (mailbox->json) {
		mailbox_json_open(mailbox, &json);
		json_string(&json, "name", wish->name);
		json_string(&json, "value", wish->value);
		json_close(&json);
	} else {
		printf("%s: %s is %s\n", mailbox->source.label, wish->name, wish->value);
	}
	return 0;
}

static int set(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "set", .pattern = "", .seconds = MAILBOX_SECONDS,
	};
	struct wish wish = { NULL, NULL };
	int status = parse(argc, argv, &mailbox, &wish);

	if (status)
		return status;
	if (mailbox.help) {
		print_set_help(stdout);
		return 0;
	}
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	status = ask(&mailbox, &wish);
	mailbox_close(&mailbox);
	return status;
}

const struct command cmd_set = {
	.name = "set",
	.summary = "changes an option of a running process",
	.print_help = print_set_help,
	.main = set,
};
