/* SPDX-License-Identifier: MIT */
/*
 * The corpus of misuse: see crime.h.
 *
 *   crime --list       a line for each crime: name, kind, what letters report
 *   crime NAME         commits it, then allocates on for a while
 *   crime --twin NAME  does the same without the wrong step
 *   crime --twins      all twins, in one process
 *
 * Status 0: it lived to the end.  77: the wrong access was stopped where it was
 * made.  78: a block was handed out twice afterwards.
 */
#include "crime.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define STOPPED 77
#define TWICE 78

#define SIZES(name, ...) const size_t name[] = { __VA_ARGS__, SIZES_END }
SIZES(every_size, 8, 24, 64, 200, 1000, 4096, 10000, 32768, 40000, 200000,
      1 << 20, 4 << 20);
SIZES(small_sizes, 8, 24, 64, 200, 1000, 4096, 10000, 32768);
SIZES(large_sizes, 40000, 200000, 1 << 20, 4 << 20);
/* Sizes that fill a block of theirs to the last byte. */
SIZES(whole_sizes, 16, 64, 512, 4096, 32768, 1 << 16, 1 << 20);
SIZES(of_0, 0);
SIZES(of_1, 1);
SIZES(of_20, 20);
SIZES(of_24, 24);
SIZES(of_40, 40);
SIZES(of_50, 50);
SIZES(of_64, 64);
SIZES(of_256, 256);
SIZES(of_300, 300);
SIZES(of_2000, 2000);
SIZES(of_5000, 5000);
SIZES(of_20000, 20000);
SIZES(of_4M, 4 << 20);

bool innocent;
static volatile bool is_wrong;
static bool was_twice;

static struct rows *all;

rows::rows(const struct row *rows_of_file) : first(rows_of_file), next(all)
{
	all = this;
}

void begin_wrong(void)
{
	is_wrong = true;
}

void end_wrong(void)
{
	is_wrong = false;
}

static void on_fault(int signal_number)
{
	if (is_wrong)
		_exit(STOPPED);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void catch_faults(void)
{
	static char stack[64 << 10];
	stack_t alternate = {};
	struct sigaction action = {};

	alternate.ss_sp = stack;
	alternate.ss_size = sizeof(stack);
	sigaltstack(&alternate, NULL);
	action.sa_handler = on_fault;
	action.sa_flags = SA_ONSTACK | SA_NODEFER;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

char *hide(void *p)
{
	void *volatile kept = p;

	return (char *)kept;
}

static void *get_raw(size_t size, enum how how)
{
	switch (how) {
	case CALLOC:
		return calloc(1, size);
	case REALLOC:
		return realloc(malloc(size / 2 + 1), size);
	case ALIGNED:
		return aligned_alloc(64, size);
	case NEW:
		return operator new(size);
	case ARRAY:
		return operator new[](size);
	default:
		return malloc(size);
	}
}

char *get(size_t size, enum how how)
{
	char *p = hide(get_raw(size, how));

	if (!p)
		abort();
	memset(p, 'x', size);
	return p;
}

void put(void *p, enum how how)
{
	if (how == NEW)
		operator delete(p);
	else if (how == ARRAY)
		operator delete[](p);
	else
		free(p);
}

void traffic(size_t size, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(get(size));
}

void crowd(size_t size, size_t n)
{
	char *blocks[1024];

	for (size_t i = 0; i < n; i++) {
		blocks[i] = get(size);
		for (size_t k = 0; k < i; k++)
			was_twice |= blocks[k] == blocks[i];
		if (was_twice)
			return;
	}
	for (size_t i = 0; i < n; i++)
		put(blocks[i]);
}

struct call {
	void (*call)(void *);
	void *arg;
};

static void *thread_main(void *arg)
{
	struct call *call = (struct call *)arg;

	call->call(call->arg);
	return NULL;
}

void in_thread(void (*call)(void *), void *arg)
{
	struct call c = { call, arg };
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_main, &c))
		abort();
	pthread_join(thread, NULL);
}

/* ---- the rows ---- */

static void name_of(const struct row *row, size_t size, char *buf, size_t room)
{
	if (row->sizes[1] == SIZES_END)
		snprintf(buf, room, "%s", row->name);
	else
		snprintf(buf, room, "%s-%zu", row->name, size);
}

static void run(const struct row *row, size_t size)
{
	row->commit(row, size);
	end_wrong();
	traffic(size, size > 32768 ? 10 : 200);
	crowd(size, size > 32768 ? 4 : 32);
}

typedef bool visitor(const struct row *row, size_t size, const char *arg);

/* Until @visit says so. */
static bool for_each(visitor *visit, const char *arg)
{
	for (const struct rows *rows = all; rows; rows = rows->next) {
		for (const struct row *row = rows->first; row->name; row++) {
			for (size_t i = 0; row->sizes[i] != SIZES_END; i++) {
				if (visit(row, row->sizes[i], arg))
					return true;
			}
		}
	}
	return false;
}

static bool list_it(const struct row *row, size_t size, const char *arg)
{
	char name[64];

	(void)arg;
	name_of(row, size, name, sizeof(name));
	printf("%s\t%s\t%s\n", name, row->kind, row->report ? row->report : "");
	return false;
}

static bool run_named(const struct row *row, size_t size, const char *arg)
{
	char name[64];

	name_of(row, size, name, sizeof(name));
	if (strcmp(name, arg))
		return false;
	run(row, size);
	return true;
}

static bool run_it(const struct row *row, size_t size, const char *arg)
{
	(void)arg;
	run(row, size);
	return false;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for_each(list_it, NULL);
		return 0;
	}
	catch_faults();
	innocent = argc > 1 && !strncmp(argv[1], "--twin", 6);
	if (argc == 2 && !strcmp(argv[1], "--twins"))
		for_each(run_it, NULL);
	else if (argc < 2 || !for_each(run_named, argv[argc - 1])) {
		fprintf(stderr, "usage: crime --list | --twins | [--twin] NAME\n");
		return 2;
	}
	return was_twice ? TWICE : 0;
}
