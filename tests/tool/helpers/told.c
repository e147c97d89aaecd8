/* SPDX-License-Identifier: MIT */
/* Tells of itself what `slub stats --json` tells, whenever there is a line on its input. */
#include <slub/slub.h>
#include <string.h>
#include <unistd.h>

static char text[2 << 20];

static void construct(void *object)
{
	memset(object, 0, 100);
}

static int fill(void)
{
	struct slub_cache *cache = slub_cache_create("told", 100, 0, SLUB_CACHE_ACCOUNT,
						     construct);
	void *object = NULL;

	for (int i = 0; cache && i < 3000; i++) {
		if (i % 3)
			slub_cache_free(cache, object);
		object = slub_cache_alloc(cache);
	}
	return object ? 0 : -1;
}

/* A signal cuts a write to a pipe short. */
static int print(const char *from, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(1, from, bytes);

		if (n <= 0)
			return -1;
		from += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int main(void)
{
	char byte, few[10] = "unchanged";
	long bytes;

	if (fill() || write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0) {
		/* Cut short it is the beginning, and says the same length. */
		bytes = slub_stats_json(text, sizeof(text));
		if (bytes <= 0 || slub_stats_json(few, 5) != bytes || strcmp(few, "{\"ki") ||
		    slub_stats_json(NULL, 0) != bytes || slub_stats_json(NULL, 5) >= 0 ||
		    (size_t)bytes != strlen(text))
			return 2;
		/* On one line, but for the end. */
		for (long i = 0; i < bytes - 1; i++)
			text[i] = text[i] == '\n' ? ' ' : text[i];
		if (print(text, (size_t)bytes))
			return 3;
	}
	return 0;
}
