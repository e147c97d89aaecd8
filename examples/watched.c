/* SPDX-License-Identifier: MIT */
/*
 * A program that watches its own caches: a write beyond an object, and objects that
 * nobody freed, are found from inside, without a debugger and without a new start.
 *
 * A server can do the same upon a signal or a request of its administrator.  From
 * outside `slub debug`, `slub validate` and `slub traces` do it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slub/slub.h>

#define RECORD_BYTES 40

struct seen {
	const struct slub_cache *cache;
	size_t objects, traces;
};

/* Of all objects with the same call stack. */
static int count_trace(const struct slub_trace *trace, void *arg)
{
	struct seen *seen = arg;

	if (trace->cache != seen->cache)
		return 0;
	seen->traces++;
	seen->objects += trace->count;
	return 0;
}

/* One call stack each: the compiler must not make one of the two. */
__attribute__((noinline)) static void *allocate(struct slub_cache *cache)
{
	return slub_cache_alloc(cache);
}

__attribute__((noinline)) static void release(struct slub_cache *cache, void *record)
{
	slub_cache_free(cache, record);
}

/* How many bugs are found after a write behind the end of @record. */
static long spoil(char *record)
{
	record[RECORD_BYTES] = 1;
	return slub_validate_all();
}

static size_t lines_of(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t lines = 0;
	int c;

	if (!file)
		return 0;
	while ((c = fgetc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

static bool report(struct slub_cache *cache, size_t left)
{
	struct seen allocated = { .cache = cache }, freed = { .cache = cache };
	char path[] = "/tmp/watched-XXXXXX";
	long written;
	bool is_right;
	int fd;

	is_right = !slub_cache_alloc_traces(cache, count_trace, &allocated) &&
		   !slub_cache_free_traces(cache, count_trace, &freed);
	printf("%zu records in use; call stacks: %zu allocated, %zu freed\n",
	       allocated.objects, allocated.traces, freed.traces);
	fd = mkstemp(path);
	written = fd >= 0 ? slub_leaks_write(path) : -1;
	is_right = is_right && written > 0 && lines_of(path) >= (size_t)written;
	if (fd >= 0)
		remove(path);
	return is_right && allocated.objects == left && allocated.traces > 0 &&
	       freed.traces > 0;
}

static int usage(FILE *to, int status)
{
	fputs("usage: watched [--records N]\n\n"
	      "Allocates N records (default: 1000), frees nine in ten of them, and\n"
	      "tells what it finds when it looks at itself.\n", to);
	return status;
}

static long parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "records", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	long records = 1000;
	int letter;
	char *end;

	while ((letter = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
		if (letter == 'h')
			exit(usage(stdout, 0));
		if (letter != 'n')
			exit(usage(stderr, 2));
		records = strtol(optarg, &end, 10);
		if (*end || records < 1 || records > 1000000)
			exit(usage(stderr, 2));
	}
	return records;
}

int main(int argc, char **argv)
{
	long nr = parse(argc, argv), bugs;
	void **records = malloc((size_t)nr * sizeof(void *));
	struct slub_cache *cache;
	size_t left = 0;
	bool is_right;

	cache = slub_cache_create("record", RECORD_BYTES, 8, 0, NULL);
	if (!records || !cache)
		return 1;
	/* As SLUB_DEBUG=FZPU,record; objects from now on are watched. */
	if (slub_debug("FZPU,record") != 1)
		return 1;
	for (long i = 0; i < nr; i++)
		records[i] = allocate(cache);
	for (long i = 0; i < nr; i++) {
		if (i % 10)
			release(cache, records[i]);
	}
	is_right = slub_validate_all() == 0;

	bugs = spoil(records[0]);
	printf("%ld bug found, in %lu lines of a report\n", bugs, slub_cache_errors(cache));
	is_right = is_right && bugs == 1 && slub_validate_all() == 0;
	for (long i = nr / 2; i < nr; i++) {	/* where others were freed */
		if (i % 10)
			records[i] = allocate(cache);
	}
	for (long i = 0; i < nr; i++)
		left += i % 10 == 0 || i >= nr / 2;
	is_right = report(cache, left) && is_right;

	for (long i = 0; i < nr; i++) {
		if (i % 10 == 0 || i >= nr / 2)
			release(cache, records[i]);
	}
	is_right = slub_debug("-,record") == 1 && slub_cache_destroy(cache) == 0 && is_right;
	free(records);
	puts(is_right ? "all as it should be" : "not as it should be");
	return !is_right;
}
