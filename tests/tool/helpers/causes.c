/* SPDX-License-Identifier: MIT */
/*
 * A program whose memory stays for one cause, which the argument names; then it answers: each
 * line that it reads makes it allocate, so that it hears of a request.
 */
#include <slub/cache.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MEGABYTES ((size_t)1 << 20)
#define BYTES_MAX (48 * MEGABYTES)

static void **objects;
static size_t nr;

static void fill(size_t size)
{
	nr = BYTES_MAX / size;
	objects = calloc(nr, sizeof(*objects));
	for (size_t i = 0; i < nr; i++)
		objects[i] = memset(malloc(size), 1, size);
}

/* All but the first of each @every. */
static void empty(size_t every)
{
	for (size_t i = 0; i < nr; i++) {
		if (!every || i % every)
			free(objects[i]);
	}
}

static void burst(size_t number, size_t size)
{
	void **some = mmap(NULL, number * sizeof(*some), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < number; i++)
		some[i] = memset(malloc(size), 1, size);
	for (size_t i = 0; i < number; i++)
		free(some[i]);
	munmap(some, number * sizeof(*some));
}

static void make(const char *cause)
{
	if (!strcmp(cause, "live")) {
		fill(64);
	} else if (!strcmp(cause, "fork")) {
		fill(64);
	} else if (!strcmp(cause, "large")) {
		fill(4 * MEGABYTES);
	} else if (!strcmp(cause, "holes")) {
		fill(64);
		empty(40);	/* one on each page */
	} else if (!strcmp(cause, "spare")) {
		fill(1024);
		empty(16);	/* one on a page in four */
	} else if (!strcmp(cause, "held")) {
		fill(256 * 1024);
		empty(0);
	} else if (!strcmp(cause, "lists")) {
		/* As often as it takes the lists to grow with the bursts. */
		for (size_t size = 256; size <= 2048; size += 128) {
			for (int i = 0; i < 40; i++)
				burst(1500, size);
		}
	} else if (!strcmp(cause, "tables")) {
		for (int i = 0; i < 12000; i++) {
			char name[32];

			snprintf(name, sizeof(name), "cache-%d", i);
			slub_cache_create(name, 64 + (size_t)i % 8 * 64, 0,
					  SLUB_CACHE_NO_MERGE, NULL);
		}
	} else if (!strcmp(cause, "elsewhere")) {
		memset(mmap(NULL, BYTES_MAX, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, BYTES_MAX);
	}
}

int main(int argc, char **argv)
{
	int c;

	make(argc > 1 ? argv[1] : "");
	if (argc > 1 && !strcmp(argv[1], "fork")) {
		pid_t child = fork();

		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
		printf("ready\n%d\n", (int)child);
	} else {
		puts("ready");
	}
	fflush(stdout);
	while ((c = getchar()) != EOF) {
		/* More than the lists have, so that it hears. */
		burst(5000, 3000);
	}
	return 0;
}
