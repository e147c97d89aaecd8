/* SPDX-License-Identifier: MIT */
/*
 * Allocates all the time, at the end of a chain of 20 functions, and in another thread by another
 * chain of two.  Compiled without frame pointers, so the register has anything in it: each function
 * keeps a value there across its call.
 *
 * usage: chain [fork|burst|short|map FILE]
 *   fork    there is a child, which does the same, and says its PID
 *   burst   a thousand allocations, then a longer pause
 *   map     calls also the code in FILE, which calls what it is given, and removes FILE
 *   short   ends after a third of a second or more
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINK __attribute__((__noinline__, __noclone__)) uint64_t

static void *volatile kept;

/* So many values live across the call that one of them is in each register that is kept. */
#define CHAIN(name, next)							\
	LINK name(uint64_t *v);							\
	LINK name(uint64_t *v)							\
	{									\
		uint64_t a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5];	\
		uint64_t room[6 + sizeof(#name)];				\
										\
		memcpy(room, v, 6 * sizeof(*v));				\
		__asm__ __volatile__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f)); \
		room[0] += next(room);						\
		__asm__ __volatile__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f)); \
		return room[0] + a + b + c + d + e + f;				\
	}

LINK link_00(uint64_t *v);
LINK link_00(uint64_t *v)
{
	void *volatile block = malloc(2000);

	free(block);
	block = malloc(1000);
	/* It stays: so lists run empty, and the process looks into its mailbox. */
	*(void **)block = kept;
	kept = block;
	return v[0];
}

CHAIN(link_01, link_00)
CHAIN(link_02, link_01)
CHAIN(link_03, link_02)
CHAIN(link_04, link_03)
CHAIN(link_05, link_04)
CHAIN(link_06, link_05)
CHAIN(link_07, link_06)
CHAIN(link_08, link_07)
CHAIN(link_09, link_08)
CHAIN(link_10, link_09)
CHAIN(link_11, link_10)
CHAIN(link_12, link_11)
CHAIN(link_13, link_12)
CHAIN(link_14, link_13)
CHAIN(link_15, link_14)
CHAIN(link_16, link_15)
CHAIN(link_17, link_16)
CHAIN(link_18, link_17)
CHAIN(link_19, link_18)

LINK other_0(uint64_t *v);
LINK other_0(uint64_t *v)
{
	void *volatile block = malloc(3000);

	free(block);
	return v[0];
}

CHAIN(other_1, other_0)

static void *other(void *arg)
{
	uint64_t v[6] = { 1, 2, 3, 4, 5, 6 };

	for (int i = 0; i < 60000; i++) {
		v[0] += other_1(v);
		usleep(1000);
	}
	return arg;
}

typedef uint64_t through_fn(uint64_t (*next)(uint64_t *), uint64_t *v);

static through_fn *map_and_remove(const char *path)
{
	int fd = open(path, O_RDONLY);
	void *mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	close(fd);
	return mapped == MAP_FAILED || unlink(path) ? NULL : (through_fn *)(uintptr_t)mapped;
}

int main(int argc, char **argv)
{
	uint64_t v[6] = { 1, 2, 3, 4, 5, 6 };
	const char *way = argc > 1 ? argv[1] : "";
	int rounds = strcmp(way, "short") ? 60000 : 300;
	int calls = strcmp(way, "burst") ? 1 : 1000;
	through_fn *through = NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, other, NULL))
		return 1;
	if (argc > 2)
		through = map_and_remove(argv[2]);
	if (!strcmp(way, "fork")) {
		printf("%d\n", (int)fork());
		fflush(stdout);
	}
	if (write(1, "ready\n", 6) != 6)
		return 1;
	/* An end, for a test that is killed leaves it behind. */
	for (int i = 0; i < rounds; i++) {
		for (int j = 0; j < calls; j++)
			v[0] += link_19(v) + (through ? through(other_1, v) : 0);
		usleep(calls == 1 ? 1000 : 50000);
	}
	return 0;
}
