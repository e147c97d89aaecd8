/* SPDX-License-Identifier: MIT */
/*
 * Every number that the library keeps, by its name: what `slub stats --json` shows,
 * from inside.
 *
 * A server that has a page with its own figures needs no second program to read them.
 * This one prints the names, their kinds and their numbers, and reads each once more
 * by its name alone.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slub/control.h>

struct page {
	long lines;		/* that may still be printed */
	long values;
	long failures;
};

/* One value of the walk over all. */
static int show(const char *name, const struct slub_value *value, void *arg)
{
	static const char *const kinds[] = {
		[SLUB_VALUE_BYTES] = "bytes",
		[SLUB_VALUE_NUMBER] = "number",
		[SLUB_VALUE_COUNTER] = "counter",
	};
	struct page *page = arg;
	struct slub_value again;

	page->values++;
	/* The name is enough, also later; but a cache may be gone by then. */
	if (slub_value_read(name, &again) || again.kind != value->kind)
		page->failures++;
	if (page->lines-- > 0)
		printf("%-32s %-8s %" PRIu64 "\n", name, kinds[value->kind], value->number);
	return 0;
}

static int usage(FILE *to, int status)
{
	fputs("usage: values [--lines N]\n\n"
	      "Prints the first N values of libslub, all without it, and how many\n"
	      "there are.\n", to);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "lines", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct page page = { .lines = 1000000 };
	int letter, err;
	char *end;

	while ((letter = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
		if (letter == 'h')
			return usage(stdout, 0);
		if (letter != 'n')
			return usage(stderr, 2);
		page.lines = strtol(optarg, &end, 10);
		if (*end || page.lines < 1)
			return usage(stderr, 2);
	}
	err = slub_value_for_each(show, &page);
	if (err) {
		fprintf(stderr, "values: %s\n", strerror(-err));
		return 1;
	}
	printf("%ld values, %ld of them not found again\n", page.values, page.failures);
	return page.failures != 0;
}
