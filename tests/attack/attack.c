/* SPDX-License-Identifier: MIT */
/*
 * The program around each attack (attack.h): its options, its layouts, what becomes of a run.
 *
 *   PROGRAM --cells | --all-cells        a line for each variant: its name, its sizes
 *   PROGRAM --backend                    that of libslub, or "none"
 *   PROGRAM VARIANT SIZE [FIRST [LAST]]  a word for each layout, 1 to 20 if none is named:
 *       goal     the attacker has won
 *       ended    the allocator has ended the program
 *       crash    SIGSEGV or SIGBUS
 *       nothing  the program lived on
 *       hang     it did not end within a while
 *
 * Each layout is a process of its own, forked from one that has hardly used its heap.
 */
#include "attack.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYOUTS = 20, GOAL = 77, SECONDS_MOST = 20 };

enum dialect dialect;
uintptr_t copies[COPIES][WORDS];
int nr_copies;

static char **arguments;	/* of a copy */

bool copy_ask(uintptr_t words[WORDS])
{
	int ends[2], status;
	ssize_t got;
	pid_t pid;

	if (pipe(ends))
		return false;
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		execv("/proc/self/exe", arguments);
		_exit(1);
	}
	close(ends[1]);
	got = read(ends[0], words, WORDS * sizeof(*words));
	close(ends[0]);
	waitpid(pid, &status, 0);
	return got == WORDS * sizeof(*words);
}

static void dialect_find(void)
{
	bool is_slub = dlsym(RTLD_DEFAULT, "slub_cache_create");
	Dl_info of_malloc, of_libc;

	dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc);
	dladdr(dlsym(RTLD_DEFAULT, "getpid"), &of_libc);
	if (is_slub)
		dialect = strstr(of_malloc.dli_fname, "hardened") ?
				  SLUB_HARDENED : SLUB;
	else
		dialect = of_malloc.dli_fbase == of_libc.dli_fbase ? GLIBC :
								     OTHER;
}

static const char *layout_run(const struct attack *attack, size_t size)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(SECONDS_MOST);
		_exit(attack->run(size) ? GOAL : 0);
	}
	if (waitpid(pid, &status, 0) != pid)
		return "lost";
	if (WIFEXITED(status))
		return WEXITSTATUS(status) == GOAL ? "goal" :
		       WEXITSTATUS(status)	   ? "ended" : "nothing";
	switch (WTERMSIG(status)) {
	case SIGSEGV:
	case SIGBUS:
		return "crash";
	case SIGALRM:
		return "hang";
	default:
		return "ended";
	}
}

static const struct attack *attack_named(const char *name)
{
	const struct attack *attack = attacks;

	while (attack->name && strcmp(attack->name, name))
		attack++;
	return attack->name ? attack : NULL;
}

static void cells_print(bool all)
{
	for (const struct attack *attack = attacks; attack->name; attack++) {
		printf("%s", attack->name);
		for (int i = 0; i < SIZES_MOST && attack->sizes[i]; i++)
			printf(" %zu", attack->sizes[i]);
		for (int i = 0; all && i < SIZES_MOST && attack->more[i]; i++)
			printf(" %zu", attack->more[i]);
		printf("\n");
	}
}

/* Line by line, past stdio: it would allocate before the layouts. */
static void say(const char *word)
{
	char line[16];
	int nr = snprintf(line, sizeof(line), "%s\n", word);

	if (write(STDOUT_FILENO, line, (size_t)nr) != nr)
		_exit(1);
}

static void backend_print(void)
{
	static char text[1 << 20];
	long (*json)(char *, size_t) = dlsym(RTLD_DEFAULT, "slub_stats_json");
	char *start = NULL, *end = NULL;

	if (json && json(text, sizeof(text)) > 0)
		start = strstr(text, "\"backend\":");
	if (start)
		start = strchr(start + strlen("\"backend\":"), '"');
	if (start)
		end = strchr(start + 1, '"');
	printf("%.*s\n", end ? (int)(end - start - 1) : 4,
	       end ? start + 1 : "none");
}

static int tell(const struct attack *attack, size_t size)
{
	uintptr_t words[WORDS] = { 0 };

	attack->tell(size, words);
	return write(STDOUT_FILENO, words, sizeof(words)) != sizeof(words);
}

int main(int argc, char **argv)
{
	static char of_layout[16];
	static char *of_copy[] = { "attack", "--tell", NULL, NULL, of_layout,
				   NULL };
	bool is_copy = argc == 5 && !strcmp(argv[1], "--tell");
	const struct attack *attack;
	unsigned int first, last;
	size_t size;

	dialect_find();
	if (argc == 2 && strstr(argv[1], "cells")) {
		cells_print(!strcmp(argv[1], "--all-cells"));
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--backend")) {
		backend_print();
		return 0;
	}
	argv += is_copy;
	argc -= is_copy;
	attack = argc < 3 || argc > 5 ? NULL : attack_named(argv[1]);
	if (!attack) {
		fprintf(stderr, "usage: %s --cells | --all-cells | --backend | "
			"VARIANT SIZE [FIRST [LAST]]\n", argv[0]);
		return 2;
	}
	size = strtoul(argv[2], NULL, 0);
	first = argc > 3 ? (unsigned int)atoi(argv[3]) : 1;
	last = argc > 4 ? (unsigned int)atoi(argv[4]) :
	       argc > 3 ? first : LAYOUTS;
	of_copy[2] = argv[1];
	of_copy[3] = argv[2];
	arguments = of_copy;
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	layout = first;
	if (is_copy)
		return tell(attack, size);
	for (; layout <= last; layout++) {
		snprintf(of_layout, sizeof(of_layout), "%u", layout);
		while (attack->tell && layout == first && nr_copies < COPIES &&
		       copy_ask(copies[nr_copies]))
			nr_copies++;
		say(layout_run(attack, size));
	}
	return 0;
}
