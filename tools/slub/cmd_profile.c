/* SPDX-License-Identifier: MIT */
/* slub profile: a heap profile of a process or a file, as a table, as JSON or for pprof. */
#include "json.h"
#include "mailbox.h"
#include "output.h"
#include "profile.h"
#include "request.h"
#include "slub.h"
#include "symbols.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOP_DEFAULT 20

static void print_profile_help(FILE *to)
{
	fputs("usage: slub profile [OPTION...] PID|FILE\n\n"
	      "Samples what a process allocates for some seconds, and prints the call stacks\n"
	      "and what is still in use.  Turns a FILE that a process wrote\n"
	      "(SLUB_PROFILE_FILE) into pprof's format; then: pprof -top FILE.pb.gz\n\n"
	      "  slub profile --seconds=30 --leaks 1234\n\n"
	      "  -p, --process=PID     the process; of a process, too:\n"
	      "      --seconds=N         how long (default: 10)\n"
	      "      --leaks             wait as long again, and print what is still in use\n"
	      "      --bytes=N           mean bytes between samples (default: 512K)\n"
	      "      --timeout=SECONDS   wait this long for an answer\n"
	      "      --no-wake           wait only; wake no thread of it to answer\n"
	      "      --frame-pointers    stacks as the process walks them, none unwound\n"
	      "      --output=OUT      write pprof's format to OUT, - for standard output\n"
	      "      --text            print a table (the default of a process)\n"
	      "  -j, --json            print one JSON object instead\n"
	      "      --alloc           of all allocations, not of what is in use\n"
	      "  -N, --lines=K         the first K call stacks (default: 20; 0: all)\n"
	      "  -h, --help            print this\n", to);
	print_statuses(to);
}

struct wish {
	const char *target;
	const char *output;
	bool text, json, alloc, leaks, help;
	bool is_live;			/* an option that is for a process */
	double lines;
	struct profile_live live;
};

/* ---- the table ---- */

static enum profile_value order_by;

static int compare(const void *a, const void *b)
{
	const struct profile_site *x = a, *y = b;
	uint64_t p = x->values[order_by], q = y->values[order_by];

	return (p < q) - (p > q);
}

static void print_frame(const struct profile *profile, size_t number)
{
	const struct profile_location *at = &profile->locations[number];
	const char *path = NULL;

	if (at->mapping)
		path = profile->mappings[at->mapping - 1].path;
	if (at->function && at->file)
		printf("        %s  %s:%u\n", at->function, at->file, at->line);
	else if (at->function)
		printf("        %s  (%s)\n", at->function, path ? path : "?");
	else
		printf("        0x%" PRIx64 "  (%s)\n", at->address,
		       path ? path : "?");
	symbol_print_outers(at, "           ");
}

/* One standard deviation of a sum of @samples weights, in percent of it. */
static double deviation(uint64_t samples)
{
	return samples ? 100 / sqrt((double)samples) : 0;
}

static void print_site(const struct profile *profile,
		       const struct profile_site *site, bool alloc,
		       double total)
{
	uint64_t samples = alloc ? site->samples : site->live_samples;
	uint64_t bytes = site->values[order_by];

	printf("%14" PRIu64 " %5.1f%% %12" PRIu64 " %7" PRIu64 " %5.1f%%\n",
	       bytes, total > 0 ? 100 * (double)bytes / total : 0,
	       site->values[alloc ? VALUE_ALLOC_OBJECTS :
				    VALUE_INUSE_OBJECTS],
	       samples, deviation(samples));
	for (size_t i = 0; i < site->nr_frames; i++)
		print_frame(profile, profile->frames[site->first + i]);
	if (!site->nr_frames)
		puts("        (no call stack)");
}

static void print_text(struct profile *profile, const struct wish *wish)
{
	uint64_t total = 0, samples = 0;
	size_t nr = profile->nr_sites;

	order_by = wish->alloc ? VALUE_ALLOC_SPACE : VALUE_INUSE_SPACE;
	for (size_t i = 0; i < nr; i++) {
		const struct profile_site *site = &profile->sites[i];

		total += site->values[order_by];
		samples += wish->alloc ? site->samples : site->live_samples;
	}
	if (nr)
		qsort(profile->sites, nr, sizeof(*profile->sites), compare);
	printf("%s: about %" PRIu64 " bytes (+- %.1f%%), from %" PRIu64
	       " samples, one in %" PRIu64 " bytes\n",
	       wish->alloc ? "allocated" : "in use", total,
	       deviation(samples), samples, profile->mean_bytes);
	if (profile->lost)
		printf("%" PRIu64 " samples were lost for want of room\n",
		       profile->lost);
	if (profile->is_unwound)
		printf("call stacks: %" PRIu64 " samples unwound, %" PRIu64
		       " walked by the process, %" PRIu64 " trails lost\n",
		       profile->stacks_unwound, profile->stacks_walked,
		       profile->trails_lost);
	printf("\n%14s %6s %12s %7s %6s\n", "BYTES", "SHARE", "OBJECTS",
	       "SAMPLES", "+-");
	for (size_t i = 0; i < nr && (!wish->lines || i < wish->lines); i++) {
		if (profile->sites[i].values[order_by])
			print_site(profile, &profile->sites[i], wish->alloc,
				   (double)total);
	}
}

static void put_stack(struct json *json, const struct profile *profile,
		      const struct profile_site *site)
{
	json_open_array(json, "stack");
	for (size_t i = 0; i < site->nr_frames; i++) {
		const struct profile_location *at =
			&profile->locations[profile->frames[site->first + i]];

		json_open(json, NULL);
		json_address(json, "address", at->address);
		if (at->function)
			json_string(json, "function", at->function);
		if (at->file)
			json_string(json, "file", at->file);
		if (at->file)
			json_number(json, "line", at->line);
		if (at->mapping)
			json_string(json, "object",
				    profile->mappings[at->mapping - 1].path);
		symbol_put_outers(json, at);
		json_close(json);
	}
	json_close(json);
}

/* All numbers, and as many stacks as are wanted; the order is the table's. */
static void print_json(struct profile *profile, const struct wish *wish)
{
	struct json json = { .to = stdout };

	order_by = wish->alloc ? VALUE_ALLOC_SPACE : VALUE_INUSE_SPACE;
	if (profile->nr_sites)
		qsort(profile->sites, profile->nr_sites, sizeof(*profile->sites), compare);
	json_open(&json, NULL);
	json_string(&json, "kind", "profile");
	json_number(&json, "schema", 1);
	json_number(&json, "pid", profile->pid);
	json_number(&json, "mean_bytes", profile->mean_bytes);
	json_real(&json, "start_time", (double)profile->start_ns / 1e9);
	json_real(&json, "time", (double)profile->written_ns / 1e9);
	json_number(&json, "lost", profile->lost);
	if (profile->is_unwound) {
		json_number(&json, "stacks_unwound", profile->stacks_unwound);
		json_number(&json, "stacks_walked", profile->stacks_walked);
		json_number(&json, "trails_lost", profile->trails_lost);
	}
	json_open_array(&json, "sites");
	for (size_t i = 0; i < profile->nr_sites && (!wish->lines || i < wish->lines); i++) {
		const struct profile_site *site = &profile->sites[i];

		json_open(&json, NULL);
		json_number(&json, "alloc_objects", site->values[VALUE_ALLOC_OBJECTS]);
		json_number(&json, "alloc_bytes", site->values[VALUE_ALLOC_SPACE]);
		json_number(&json, "inuse_objects", site->values[VALUE_INUSE_OBJECTS]);
		json_number(&json, "inuse_bytes", site->values[VALUE_INUSE_SPACE]);
		json_number(&json, "samples", site->samples);
		json_number(&json, "inuse_samples", site->live_samples);
		put_stack(&json, profile, site);
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
}

/* ---- the command ---- */

/* What comes by a pipe may take its time. */
#define FILE_SECONDS 60.0

/* Whoever may not read the process's own form may not read another one. */
static mode_t mode_of_source(const char *target)
{
	struct stat status;

	return is_pid(target) || stat(target, &status) || !S_ISREG(status.st_mode) ?
	       OUTPUT_PRIVATE : status.st_mode & 0666;
}

static int write_proto(const struct profile *profile, const struct wish *wish)
{
	char *name = wish->output ? NULL : text_of("%s.pb.gz", wish->target);
	int status;

	status = profile_write_proto(profile, name ? name : wish->output,
				     mode_of_source(wish->target));
	free(name);
	return status;
}

static int show(struct wish *wish)
{
	struct profile profile;
	bool is_process = is_pid(wish->target);
	int status = is_process ? profile_of_process(&profile, wish->target, &wish->live) :
				  profile_read(&profile, wish->target, INPUT_STREAM,
					       FILE_SECONDS);

	if (!status) {
		profile_find_symbols(&profile);
		if (wish->json)
			print_json(&profile, wish);
		else if (wish->text || (is_process && !wish->output))
			print_text(&profile, wish);
		else
			status = write_proto(&profile, wish);
	}
	profile_free(&profile);
	return status;
}

enum { OPTION_SECONDS = 1000, OPTION_LEAKS, OPTION_BYTES, OPTION_TIMEOUT, OPTION_NO_WAKE,
       OPTION_FRAME_POINTERS, OPTION_OUTPUT,
       OPTION_TEXT, OPTION_ALLOC };

#define SECONDS_MAX 86400

/* One that is for a process; -1: another. */
static int read_live(struct wish *wish, int letter)
{
	struct profile_live *live = &wish->live;
	bool is_good = true;

	switch (letter) {
	case OPTION_SECONDS:
		is_good = request_number("profile", "seconds", optarg, 0.1, SECONDS_MAX,
					 &live->seconds);
		break;
	case OPTION_TIMEOUT:
		is_good = request_number("profile", "timeout", optarg, 0.1, SECONDS_MAX,
					 &live->timeout);
		break;
	case OPTION_BYTES:
		is_good = request_bytes("profile", "bytes", optarg, 1, 1ul << 36,
					&live->bytes);
		break;
	case OPTION_NO_WAKE:
		live->no_wake = true;
		break;
	case OPTION_FRAME_POINTERS:
		live->frame_pointers = true;
		break;
	case OPTION_LEAKS:
		live->leaks = true;
		break;
	default:
		return -1;
	}
	wish->is_live = true;
	return is_good ? 0 : STATUS_USAGE;
}

static int read_option(struct wish *wish, int letter)
{
	switch (letter) {
	case 'p': wish->target = optarg; return 0;
	case OPTION_OUTPUT: wish->output = optarg; return 0;
	case OPTION_TEXT: wish->text = true; return 0;
	case OPTION_ALLOC: wish->alloc = true; return 0;
	case 'j': wish->json = true; return 0;
	case 'h': wish->help = true; return 0;
	case 'N':
		return request_number("profile", "lines", optarg, 0, 1e9, &wish->lines) ?
		       0 : STATUS_USAGE;
	}
	return read_live(wish, letter);
}

static int read_wish(struct wish *wish, int argc, char **argv)
{
	static const struct option options[] = {
		{ "process", required_argument, NULL, 'p' },
		{ "seconds", required_argument, NULL, OPTION_SECONDS },
		{ "leaks", no_argument, NULL, OPTION_LEAKS },
		{ "bytes", required_argument, NULL, OPTION_BYTES },
		{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
		{ "no-wake", no_argument, NULL, OPTION_NO_WAKE },
		{ "frame-pointers", no_argument, NULL, OPTION_FRAME_POINTERS },
		{ "output", required_argument, NULL, OPTION_OUTPUT },
		{ "text", no_argument, NULL, OPTION_TEXT },
		{ "json", no_argument, NULL, 'j' },
		{ "alloc", no_argument, NULL, OPTION_ALLOC },
		{ "lines", required_argument, NULL, 'N' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, status;

	while ((letter = getopt_long(argc, argv, ":p:jN:h", options, NULL)) != -1) {
		status = read_option(wish, letter);
		if (status < 0)
			return option_refused(letter, argv, options);
		if (status)
			return status;
	}
	if (!wish->target && optind < argc)
		wish->target = argv[optind++];
	return 0;
}

/* 0, or an exit status after a message. */
static int check(const struct wish *wish, int argc)
{
	if (!wish->target || !*wish->target || optind < argc) {
		complain("profile takes one process or one file; usage: slub profile "
			 "[OPTION...] PID|FILE");
		return STATUS_USAGE;
	}
	if ((wish->text || wish->json) && wish->output) {
		complain("profile: --text and --json print to standard output; --output "
			 "is for pprof's format");
		return STATUS_USAGE;
	}
	if (wish->is_live && !is_pid(wish->target)) {
		complain("profile: '%s' is a file; --seconds, --leaks, --bytes, --timeout, "
			 "--no-wake and --frame-pointers are for a process", wish->target);
		return STATUS_USAGE;
	}
	return 0;
}

static int profile_main(int argc, char **argv)
{
	struct wish wish = {
		.lines = TOP_DEFAULT,
		.live = { .seconds = 10, .timeout = MAILBOX_SECONDS, .bytes = 524288 },
	};
	int status = read_wish(&wish, argc, argv);

	if (status)
		return status;
	if (wish.help) {
		print_profile_help(stdout);
		return 0;
	}
	status = check(&wish, argc);
	return status ? status : show(&wish);
}

const struct command cmd_profile = {
	.name = "profile",
	.summary = "profiles a process, or turns a profile into pprof's format",
	.print_help = print_profile_help,
	.main = profile_main,
};
