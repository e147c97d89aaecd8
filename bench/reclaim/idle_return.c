/* SPDX-License-Identifier: MIT */
/*
 * What stays resident after a burst, one second after the last call: beside what is alive, and
 * beside the pages on which something is alive, which no allocator can give back.
 *
 *   live     usable bytes of the blocks that are kept
 *   pinned   bytes of the pages that a kept block touches
 *   rest     RSS after the wait, less RSS before the burst
 *   excess   rest less pinned: free memory that was kept, and what the allocator's own tables need
 *
 * For any allocator, by LD_PRELOAD.  One shape a run: bursts leave tables behind.
 *
 * Usage: idle_return SHAPE [--wait MS] [--mib N]; without SHAPE: their names
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u

struct shape {
	const char *name;
	size_t least, most;	/* sizes, spread evenly over their logarithm */
	unsigned int keep_one_in;	/* 0: none */
	unsigned int run;	/* so many neighbours are kept, or freed, together */
	int shuffled;		/* freed in random order */
	int threads;		/* another thread than the one that allocated frees */
};

static const struct shape shapes[] = {
	{ "freed", 208, 208, 0, 1, 0, 0 },
	{ "freed-random", 208, 208, 0, 1, 1, 0 },
	{ "freed-mixed", 16, 32768, 0, 1, 1, 0 },
	{ "freed-large", 65536, 4194304, 0, 1, 1, 0 },
	{ "freed-by-others", 16, 8192, 0, 1, 1, 1 },
	{ "tenth", 208, 208, 10, 1, 0, 0 },
	{ "tenth-mixed", 16, 32768, 10, 1, 1, 0 },
	{ "tenth-in-runs", 208, 208, 10, 4000, 0, 0 },
	{ "half-in-runs", 16, 2048, 2, 4000, 1, 0 },
	{ "half-large", 65536, 4194304, 2, 1, 1, 0 },
};

struct block {
	char *start;
	size_t bytes;
	int kept;
};

static uint64_t state = 88172645463325252u;

static uint64_t random_next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static size_t random_size(const struct shape *shape)
{
	size_t base = shape->least;

	while (base < shape->most && random_next() % 3)
		base *= 2;
	if (base >= shape->most)
		return shape->most;
	return base + random_next() % base;
}

static size_t resident(void)
{
	char text[4096], *at;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	text[n] = '\0';
	if (file)
		fclose(file);
	at = strstr(text, "Rss:");
	return at ? strtoul(at + 4, NULL, 10) * 1024 : 0;
}

static void mark_kept(const struct shape *shape, struct block *blocks, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		blocks[i].kept = shape->keep_one_in && i / shape->run % shape->keep_one_in == 0;
}

static void shuffle(struct block *blocks, size_t nr)
{
	for (size_t i = nr; i-- > 1;) {
		size_t j = random_next() % (i + 1);
		struct block other = blocks[i];

		blocks[i] = blocks[j];
		blocks[j] = other;
	}
}

struct work {
	struct block *blocks;
	size_t nr;
};

static void *free_blocks(void *arg)
{
	struct work *work = arg;

	for (size_t i = 0; i < work->nr; i++) {
		if (!work->blocks[i].kept)
			free(work->blocks[i].start);
	}
	return NULL;
}

static void free_all(const struct shape *shape, struct block *blocks, size_t nr)
{
	struct work work[4];
	pthread_t threads[4];

	if (!shape->threads) {
		work[0] = (struct work){ blocks, nr };
		free_blocks(&work[0]);
		return;
	}
	for (size_t i = 0; i < 4; i++) {
		work[i] = (struct work){ blocks + nr / 4 * i, i < 3 ? nr / 4 : nr - nr / 4 * 3 };
		pthread_create(&threads[i], NULL, free_blocks, &work[i]);
	}
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* Bytes of pages that kept blocks touch; @pages has room for all. */
static size_t pinned_bytes(const struct block *blocks, size_t nr, uintptr_t *pages)
{
	size_t n = 0, different = 0;

	for (size_t i = 0; i < nr; i++) {
		uintptr_t first = (uintptr_t)blocks[i].start / PAGE;
		uintptr_t last = ((uintptr_t)blocks[i].start + blocks[i].bytes - 1) / PAGE;

		for (; blocks[i].kept && first <= last; first++)
			pages[n++] = first;
	}
	qsort(pages, n, sizeof(*pages), compare);
	for (size_t i = 0; i < n; i++)
		different += i == 0 || pages[i] != pages[i - 1];
	return different * PAGE;
}

static size_t burst(const struct shape *shape, struct block *blocks, size_t bytes)
{
	size_t nr = 0;

	for (size_t left = bytes; left; nr++) {
		size_t size = random_size(shape);

		blocks[nr].start = malloc(size);
		blocks[nr].bytes = malloc_usable_size(blocks[nr].start);
		memset(blocks[nr].start, 1, size);
		left -= size < left ? size : left;
	}
	return nr;
}

static void measure(const struct shape *shape, size_t bytes, unsigned int wait_ms)
{
	size_t room = bytes / shape->least + 1;
	size_t pages_room = bytes / PAGE + 2 * room + 1024;
	/* From outside the heap, and resident before the burst. */
	struct block *blocks = memset(valloc((room + 1) * sizeof(*blocks)), 1,
				      (room + 1) * sizeof(*blocks));
	uintptr_t *pages = memset(valloc(pages_room * sizeof(*pages)), 1,
				  pages_room * sizeof(*pages));
	size_t before = resident(), live = 0, rest, pinned, nr, peak;

	nr = burst(shape, blocks, bytes);
	mark_kept(shape, blocks, nr);
	for (size_t i = 0; i < nr; i++)
		live += blocks[i].kept ? blocks[i].bytes : 0;
	if (shape->shuffled)
		shuffle(blocks, nr);
	peak = resident() - before;
	free_all(shape, blocks, nr);
	usleep(wait_ms * 1000);
	rest = resident();
	rest = rest > before ? rest - before : 0;
	pinned = pinned_bytes(blocks, nr, pages);
	printf("%s %zu %zu %zu %zu %lld\n", shape->name, peak, live, pinned, rest,
	       (long long)rest - (long long)pinned);
}

int main(int argc, char **argv)
{
	size_t mib = 256;
	unsigned int wait_ms = 1000;

	for (int i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--wait"))
			wait_ms = (unsigned int)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--mib"))
			mib = (size_t)atoi(argv[i + 1]);
	}
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (argc < 2)
			puts(shapes[i].name);
		else if (!strcmp(argv[1], shapes[i].name))
			return measure(&shapes[i], mib << 20, wait_ms), 0;
	}
	return argc < 2 ? 0 : 2;
}
