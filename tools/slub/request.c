/* SPDX-License-Identifier: MIT */
/* The options and the loop that the commands which print snapshots share. */
#include "request.h"
#include "core/base/size.h"
#include "cache_absent.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void request_print_help(FILE *to, bool has_metrics)
{
	fputs("  -p, --process=TARGET  a PID, a core file, or a statistics file\n"
	      "  -j, --json            one JSON object", to);
	fputs(has_metrics ? "      --openmetrics  for monitoring\n" : "\n", to);
	fputs("      --watch=SECONDS   again and again      --once         whatever else\n"
	      "      --color[=WHEN]    always, never, auto  -h, --help     print this\n", to);
	print_statuses(to);
}

static bool wants_color(void)
{
	const char *no = getenv("NO_COLOR");

	return !(no && *no) && isatty(STDOUT_FILENO);
}

void request_init(struct request *request, const char *command)
{
	*request = (struct request){
		.command = command,
		.color = wants_color(),
	};
}

bool request_number(const char *command, const char *option, const char *text,
		    double min, double max, double *number)
{
	char *end;

	errno = 0;
	*number = strtod(text, &end);
	if (!errno && end != text && !*end && isfinite(*number) &&
	    *number >= min && *number <= max)
		return true;
	complain("%s: --%s=%s: not a number from %g to %g", command, option,
		 text, min, max);
	return false;
}

bool request_bytes(const char *command, const char *option, const char *text,
		   size_t min, size_t max, double *number)
{
	size_t bytes;
	bool is_good = size_parse(text, strlen(text), true, &bytes) && bytes >= min &&
		       bytes <= max;

	if (is_good)
		*number = (double)bytes;
	else
		complain("%s: --%s=%s: not a number of bytes from %zu to %zu, such as 64K or "
			 "64KiB (units K, M, G and T)", command, option, text, min, max);
	return is_good;
}

static int set_color(struct request *request, const char *when)
{
	if (!when || !strcmp(when, "always")) {
		request->color = true;
	} else if (!strcmp(when, "never")) {
		request->color = false;
	} else if (strcmp(when, "auto")) {
		complain("%s: --color=%s: not one of always, never, auto",
			 request->command, when);
		return STATUS_USAGE;
	}
	return 0;
}

int request_option(struct request *request, int letter)
{
	switch (letter) {
	case 'p':
		request->target = optarg;
		return 0;
	case 'j':
		request->format = FORMAT_JSON;
		return 0;
	case REQUEST_OPENMETRICS:
		request->format = FORMAT_OPENMETRICS;
		return 0;
	case REQUEST_WATCH:
		return request_number(request->command, "watch", optarg, 0.1,
				      86400, &request->watch_seconds) ?
		       0 : STATUS_USAGE;
	case REQUEST_ONCE:
		request->once = true;
		return 0;
	case REQUEST_COLOR:
		return set_color(request, optarg);
	case 'h':
		request->help = true;
		return 0;
	}
	return -1;
}

static int set_own(const struct request *request,
		   const struct own_option *option, void *own)
{
	if (option->on) {
		*option->on = true;
		return 0;
	}
	if (option->number)
		return request_number(request->command, option->name, optarg,
				      option->min, option->max,
				      option->number) ? 0 : STATUS_USAGE;
	return option->set(option->letter, own);
}

/* Of @letter, which may be a common one. */
static int set_option(struct request *request, int letter,
		      const struct own_option *options, size_t nr, void *own)
{
	for (size_t i = 0; i < nr; i++) {
		if (options[i].letter == letter)
			return set_own(request, &options[i], own);
	}
	return request_option(request, letter);
}

#define NR_OWN_MAX 40

/* What getopt_long() wants: the table, and the letters with their colons. */
static void make_options(const struct own_option *own, size_t nr,
			 struct option *options, char *letters)
{
	static const struct option common[] = { REQUEST_OPTIONS };

	letters += sprintf(letters, ":" REQUEST_LETTERS);
	for (size_t i = 0; i < nr; i++) {
		int argument = own[i].number ? required_argument :
					       own[i].argument;

		options[i] = (struct option){ own[i].name, argument, NULL,
					      own[i].letter };
		if (own[i].letter < REQUEST_OPENMETRICS)
			letters += sprintf(letters, "%c%.*s", own[i].letter,
					   argument, "::");
	}
	memcpy(options + nr, common, sizeof(common));
}

int request_parse(struct request *request, int argc, char **argv,
		  const struct own_option *own_options, size_t nr, void *own)
{
	struct option options[NR_OWN_MAX + 16];
	char letters[sizeof(REQUEST_LETTERS) + 3 * NR_OWN_MAX + 2];
	int letter, status;

	make_options(own_options, nr, options, letters);
	while ((letter = getopt_long(argc, argv, letters, options, NULL)) !=
	       -1) {
		status = set_option(request, letter, own_options, nr, own);
		if (status < 0)
			return option_refused(letter, argv, options);
		if (status)
			return status;
	}
	return 0;
}

void request_take_target(const char **target, int argc, char **argv)
{
	if (!*target && optind < argc)
		*target = argv[optind++];
}

int request_check(struct request *request, int argc, char **argv,
		  int operands_max)
{
	request_take_target(&request->target, argc, argv);
	if (!request->target || !*request->target) {
		complain("%s: needs a process: a PID, or the name of a core or "
			 "statistics file", request->command);
		return STATUS_USAGE;
	}
	if (argc - optind > operands_max) {
		complain("%s: '%s' is one argument too many", request->command,
			 argv[optind + operands_max]);
		return STATUS_USAGE;
	}
	if (request->format == FORMAT_OPENMETRICS && request->watch_seconds) {
		complain("%s: --openmetrics is one text with an end: it cannot "
			 "be watched", request->command);
		return STATUS_USAGE;
	}
	return 0;
}

static void sleep_for(double seconds)
{
	struct timespec left = { (time_t)seconds,
				 (long)(fmod(seconds, 1) * 1e9) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static void separate(const struct request *request)
{
	if (request->format != FORMAT_TEXT)
		return;
	fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
}

static int run_opened(const struct request *request, struct source *source,
		      snapshot_printer *print, void *arg)
{
	struct snapshot now, before;
	bool has_before = false;
	int status;

	for (;;) {
		status = source_snapshot(source, &now);
		if (status)
			break;
		if (!has_before && request->cache &&
		    !cache_is_there(&now, request->cache, true)) {
			status = cache_refuse(source, request->command, &now, request->cache);
			snapshot_free(&now);
			break;
		}
		if (has_before) {
			snapshot_continue(&now, &before);
			separate(request);
			print(&now, &before, request, arg);
			snapshot_free(&before);
		} else {
			print(&now, NULL, request, arg);
		}
		before = now;
		has_before = true;
		if (!request->watch_seconds || request->once ||
		    fflush(stdout) || ferror(stdout))
			break;
		sleep_for(request->watch_seconds);
	}
	if (has_before)
		snapshot_free(&before);
	return status;
}

int request_run(const struct request *request, snapshot_printer *print,
		void *arg)
{
	struct source source;
	int status = source_open(&source, request->command, request->target);

	if (status)
		return status;
	status = run_opened(request, &source, print, arg);
	source_close(&source);
	return status;
}
