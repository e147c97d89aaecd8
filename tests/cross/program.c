/* SPDX-License-Identifier: MIT */
/*
 * What a program does with malloc, in C alone: small enough for an emulator, and for a C library
 * that has no C++ beside it.  Prints "NR checks" and ends with 0, or says which one failed.
 * With an argument: the library must be there (preloaded, or linked), with that backend.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 4000
#define HELD 64

#include "features/inspect/abi.h"

extern char state[] __asm__(SLUB_ABI_SYMBOL) __attribute__((weak));

static _Atomic int nr_checks;

static void check(int holds, const char *what)
{
	if (!holds) {
		printf("failed: %s\n", what);
		exit(1);
	}
	nr_checks++;
}

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 8;
}

/* The backend's name; NULL: the library is not there. */
static const char *backend(void)
{
	static const char *const names[] = { "none", "rseq", "thread", "tid", "lock" };
	const struct slub_abi *abi = (const struct slub_abi *)state;

	free(malloc(1));	/* starts it */
	return abi ? names[abi->backend] : NULL;
}

/* Of "auto", where there are sequences: the kernel knows them, or it does not. */
static const char *usual(void)
{
	errno = 0;
	syscall(SYS_rseq, 0, 0, 0, 0);
	return errno == ENOSYS ? "thread" : "rseq";
}

static void is_there(const char *expected)
{
	const char *found = backend();

	if (!strcmp(expected, "auto"))
		expected = usual();
	check(found != NULL, "the library is there");
	if (strcmp(expected, found)) {
		printf("failed: backend %s, expected %s\n", found, expected);
		exit(1);
	}
	nr_checks++;
}

/* Each block has its size in every 8 bytes, until it is freed. */
static void *churn(void *arg)
{
	unsigned int state = (unsigned int)(uintptr_t)arg;
	uint64_t *held[HELD] = { NULL };
	size_t words[HELD] = { 0 };

	for (int i = 0; i < ROUNDS; i++) {
		unsigned int at = next_random(&state) % HELD;
		size_t n = 1 + next_random(&state) % (i % 50 ? 100 : 20000);
		int same = 1;

		for (size_t w = 0; w < words[at]; w++)
			same &= held[at][w] == words[at];
		check(same, "a block keeps its bytes");
		free(held[at]);
		held[at] = malloc(n * 8);
		check(held[at] && (uintptr_t)held[at] % 16 == 0, "malloc");
		words[at] = n;
		for (size_t w = 0; w < n; w++)
			held[at][w] = n;
	}
	for (int i = 0; i < HELD; i++)
		free(held[i]);
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		check(!pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), "a thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/*
 * What a thread had registered with the kernel ends with it: the storage of the next ones lies
 * there.  Destructors of others run before and behind the library's.
 */
static pthread_key_t key;

/* In the second round of destructors nobody has this thread registered, but glibc. */
static void register_late(void)
{
#if !defined(__GLIBC__)
	uint64_t area[4] __attribute__((aligned(32))) = { 0 };
	long signature = 0x53053053;
	long ret = syscall(SYS_rseq, area, sizeof(area), 0, signature);

	check(!ret || errno == ENOSYS, "a registration of the program's own");
	if (!ret)
		syscall(SYS_rseq, area, sizeof(area), 1, signature);
#endif
}

static void free_late(void *block)
{
	static char again;

	if (block == &again) {
		register_late();
		block = NULL;
	} else {
		pthread_setspecific(key, &again);
	}
	free(block);
	free(malloc(48));
}

static void *short_thread(void *arg)
{
	check(!pthread_setspecific(key, malloc(100)), "a destructor");
	free(malloc((size_t)arg + 1));
	return NULL;
}

static void in_short_threads(void)
{
	pthread_attr_t detached;
	pthread_t thread;

	check(!pthread_key_create(&key, free_late), "a key");
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	for (uintptr_t i = 0; i < 200; i++) {
		int joins = i % 2;

		check(!pthread_create(&thread, joins ? NULL : &detached, short_thread,
				      (void *)i), "a short thread");
		if (joins)
			pthread_join(thread, NULL);
	}
}

static pid_t forked(void)
{
	pid_t child = fork();

	if (!child) {
		churn((void *)9);
		_exit(7);
	}
	return child;
}

static pid_t vforked(void)
{
	pid_t child = vfork();

	if (!child)
		_exit(7);
	return child;
}

static void in_children(void)
{
	for (int i = 0; i < 4; i++) {
		pid_t child = i % 2 ? vforked() : forked();
		int status = -1;

		check(child > 0 && waitpid(child, &status, 0) == child, "a child");
		check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "its end");
		free(malloc(100));
	}
}

static void the_rest(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *block = calloc(1000, 100), *bigger;
	void *aligned = NULL;

	for (int i = 0; i < 100000; i += 1000)
		check(!block[i], "calloc's is zero");
	memset(block, 5, 100000);
	bigger = realloc(block, 5000000);
	check(bigger && bigger[0] == 5 && bigger[99999] == 5, "realloc keeps the bytes");
	free(bigger);
	check(!posix_memalign(&aligned, page, 3 * page), "posix_memalign");
	check((uintptr_t)aligned % page == 0, "it is aligned to a page");
	memset(aligned, 1, 3 * page);
	free(aligned);
	errno = 0;
	check(!malloc(PTRDIFF_MAX) && errno == ENOMEM, "too much is refused");
	free(NULL);
}

/* What grows past its neighbour moves; others get its place, and the system reads it there. */
static void moves(void)
{
	size_t bytes = 4 << 20;
	char *held[8];
	int ends[2];

	check(!pipe(ends), "a pipe");
	for (int i = 0; i < 8; i++) {
		held[i] = malloc(bytes);
		memset(held[i], i + 1, bytes);
	}
	for (int i = 0; i < 8; i += 2) {
		held[i] = realloc(held[i], 2 * bytes);
		check(held[i] && held[i][0] == i + 1 && held[i][bytes - 1] == i + 1,
		      "what moves keeps its bytes");
	}
	for (int i = 0; i < 16; i++) {
		char *block = malloc(bytes), byte = 0;

		memset(block, 77, bytes);
		check(write(ends[1], block + bytes / 2, 1) == 1, "the system reads it");
		check(read(ends[0], &byte, 1) == 1 && byte == 77, "what was written");
		if (i < 8)
			free(held[i]);
		free(block);
	}
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		is_there(argv[1]);
	in_threads();
	in_short_threads();
	in_children();
	the_rest();
	moves();
	printf("%d checks\n", nr_checks);
	return 0;
}
