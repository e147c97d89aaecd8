/* SPDX-License-Identifier: MIT */
/* slub profile: a heap profile, for pprof or as a table. */
#include "profile.h"
#include "slub.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP_DEFAULT 20

static void print_profile_help(FILE *to)
{
	fputs("usage: slub profile [OPTION...] FILE\n\n"
	      "Turns a heap profile of libslub into pprof's format.  A process\n"
	      "writes one at exit (SLUB_PROFILE_FILE=FILE), or when it calls\n"
	      "slub_profile_write().\n\n"
	      "  -o, --output=OUT  writes to OUT, - for standard output\n"
	      "                    (default: FILE.pb.gz)\n"
	      "  -t, --text        prints a table of who allocated, instead\n"
	      "  -a, --alloc       the table is about all allocations, not\n"
	      "                    about what is in use\n"
	      "  -n, --lines=N     call stacks in the table (default: 20; 0: all)\n"
	      "  -h, --help        prints this\n\n"
	      "Then: pprof -top FILE.pb.gz, or pprof -http=: FILE.pb.gz\n\n"
	      "Exit status: 0 done; 2 arguments that make no sense;\n"
	      "3 no permission; 4 no such file; 5 no profile, or a damaged one.\n",
	      to);
}

struct wish {
	const char *output;
	bool text, alloc, help;
	size_t lines;
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
	printf("\n%14s %6s %12s %7s %6s\n", "BYTES", "SHARE", "OBJECTS",
	       "SAMPLES", "+-");
	for (size_t i = 0; i < nr && (!wish->lines || i < wish->lines); i++) {
		if (profile->sites[i].values[order_by])
			print_site(profile, &profile->sites[i], wish->alloc,
				   (double)total);
	}
}

/* ---- the command ---- */

static int write_proto(const struct profile *profile, const struct wish *wish,
		       const char *path)
{
	char *name = NULL;
	int status;

	if (!wish->output && asprintf(&name, "%s.pb.gz", path) < 0) {
		complain("profile: out of memory");
		return 125;
	}
	status = profile_write_proto(profile, name ? name : wish->output);
	free(name);
	return status;
}

static int convert(const struct wish *wish, const char *path)
{
	struct profile profile;
	int status = profile_read(&profile, path);

	if (!status) {
		profile_find_symbols(&profile);
		if (wish->text)
			print_text(&profile, wish);
		else
			status = write_proto(&profile, wish, path);
	}
	profile_free(&profile);
	return status;
}

static bool read_lines(struct wish *wish, const char *text)
{
	char *end;

	wish->lines = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end)
		return true;
	complain("profile: --lines takes a number, not '%s'", text);
	return false;
}

static int read_wish(struct wish *wish, int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "text", no_argument, NULL, 't' },
		{ "alloc", no_argument, NULL, 'a' },
		{ "lines", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int letter;

	while ((letter = getopt_long(argc, argv, ":o:tan:h", options,
				     NULL)) != -1) {
		switch (letter) {
		case 'o': wish->output = optarg; break;
		case 't': wish->text = true; break;
		case 'a': wish->alloc = true; break;
		case 'h': wish->help = true; break;
		case 'n':
			if (!read_lines(wish, optarg))
				return STATUS_USAGE;
			break;
		default:
			return option_refused(letter, argv, options);
		}
	}
	return 0;
}

static int profile_main(int argc, char **argv)
{
	struct wish wish = { .lines = TOP_DEFAULT };
	int status = read_wish(&wish, argc, argv);

	if (status)
		return status;
	if (wish.help) {
		print_profile_help(stdout);
		return 0;
	}
	if (argc - optind != 1) {
		complain("profile takes one file; usage: slub profile "
			 "[OPTION...] FILE");
		return STATUS_USAGE;
	}
	if (wish.text && wish.output) {
		complain("profile: --text prints to standard output; --output "
			 "is for pprof's format");
		return STATUS_USAGE;
	}
	return convert(&wish, argv[optind]);
}

const struct command cmd_profile = {
	.name = "profile",
	.summary = "turns a heap profile into pprof's format",
	.print_help = print_profile_help,
	.main = profile_main,
};
