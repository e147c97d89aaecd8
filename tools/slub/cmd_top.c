/* SPDX-License-Identifier: MIT */
/* slub top: the kernel's slabtop, for the caches of a process. */
#include "account.h"
#include "attribute.h"
#include "groups.h"
#include "openmetrics.h"
#include "top.h"

#include <string.h>
#include <unistd.h>

static void print_top_help(FILE *to)
{
	fputs("usage: slub top [OPTION...] TARGET\n\n"
	      "Shows the caches of a process, the largest first, again and again; text,\n"
	      "once, where the output is no terminal.  The process is not stopped.\n\n"
	      "  slub top --sort=g 1234\n\n"
	      "      --delay=SECONDS   between two looks (default 3)\n"
	      "      --human           sizes with a letter\n"
	      "      --groups          memory groups instead of caches\n"
	      "      --sort=KEY        the order (default c):\n", to);
	sort_print_help(to);
	request_print_help(to, true);
}

enum { OPTION_HUMAN = REQUEST_FIRST_OWN, OPTION_GROUPS, OPTION_DELAY, OPTION_SORT };

static int set_sort(int letter, void *arg)
{
	struct top *top = arg;

	(void)letter;
	if (strlen(optarg) == 1 && sort_key_is_known(optarg[0])) {
		top->key = (enum sort_key)optarg[0];
		return 0;
	}
	complain("top: --sort=%s: not one of %s", optarg, sort_keys());
	return STATUS_USAGE;
}

static int parse(int argc, char **argv, struct request *request,
		 struct top *top)
{
	const struct own_option own[] = {
		{ "delay", OPTION_DELAY, .number = &top->delay_seconds, .min = 0.1,
		  .max = 86400 },
		{ "sort", OPTION_SORT, .set = set_sort,
		  .argument = required_argument },
		{ "human", OPTION_HUMAN, .on = &top->human },
		{ "groups", OPTION_GROUPS, .on = &top->groups },
	};
	int status = request_parse(request, argc, argv, own, 4, top);

	return status || request->help ? status :
	       request_check(request, argc, argv, 0);
}

static void print_json(const struct snapshot *now)
{
	struct json json = { .to = stdout };
	struct account account;

	account_make(&account, now);
	json_open_snapshot(&json, now, "top");
	account_json(&json, &account, now);
	json_totals(&json, now, "heap");
	json_open_array(&json, "caches");
	for (size_t i = 0; i < now->nr_caches; i++) {
		if (!now->caches[i].slabs)
			continue;
		json_open(&json, NULL);
		attributes_put(&json, now, &now->caches[i]);
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
}

static void print(struct snapshot *now, const struct snapshot *before,
		  const struct request *request, void *arg)
{
	struct top *top = arg;

	if (top->groups && request->format != FORMAT_TEXT) {
		top->status = groups_show(now, request, false, false, 0);
	} else if (request->format == FORMAT_OPENMETRICS) {
		metrics_print(stdout, METRICS_OPENMETRICS, now);
	} else if (request->format == FORMAT_JSON) {
		cache_sort(now, before, top->key);
		print_json(now);
	} else {
		top->status = top_print(stdout, now, before, top, (size_t)-1);
	}
}

static int top_once(const struct request *request, struct top *top)
{
	int status = request_run(request, print, top);

	return status ? status : top->status;
}

static int top_main(int argc, char **argv)
{
	struct top top = { .key = SORT_BYTES, .delay_seconds = 3 };
	struct request request;
	int status;

	request_init(&request, "top");
	status = parse(argc, argv, &request, &top);
	if (status)
		return status;
	if (request.help) {
		print_top_help(stdout);
		return 0;
	}
	if (request.once || request.watch_seconds ||
	    request.format != FORMAT_TEXT || !isatty(STDOUT_FILENO) ||
	    !isatty(STDIN_FILENO))
		return top_once(&request, &top);
	return top_screen(&request, &top);
}

const struct command cmd_top = {
	.name = "top",
	.summary = "shows the caches of a process, as slabtop does",
	.print_help = print_top_help,
	.main = top_main,
};
