/* SPDX-License-Identifier: MIT */
/*
 * What people come for, each with its command.  The commands name a process of this machine that
 * could be meant: the one on libslub with the largest heap.
 */
#include "tour.h"
#include "host.h"
#include "slub.h"
#include "source.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

#define NR_SHOWN 3

struct found {
	pid_t pid;
	char name[32];
	uint64_t heap_bytes;
};

/* @nr are in @shown, the largest first; where there is no room the smallest goes. */
static size_t keep_largest(struct found shown[NR_SHOWN], size_t nr, const struct found *one)
{
	size_t at = nr < NR_SHOWN ? nr++ : NR_SHOWN - 1;

	if (nr == NR_SHOWN && at == NR_SHOWN - 1 && shown[at].pid &&
	    shown[at].heap_bytes >= one->heap_bytes)
		return nr;
	for (; at && shown[at - 1].heap_bytes < one->heap_bytes; at--)
		shown[at] = shown[at - 1];
	shown[at] = *one;
	return nr;
}

/* How many processes on libslub there are that this one may read. */
static size_t find(struct found shown[NR_SHOWN])
{
	size_t nr_pids, nr = 0, all = 0;
	pid_t *pids = host_processes(&nr_pids);

	for (size_t i = 0; i < nr_pids; i++) {
		struct source source;
		struct found one = { .pid = pids[i] };

		if (source_try(&source, pids[i]))
			continue;
		one.heap_bytes = source.state.abi.heap_bytes;
		memcpy(one.name, source.process.name, sizeof(one.name));
		nr = keep_largest(shown, nr, &one);
		all++;
		source_close(&source);
	}
	free(pids);
	return all;
}

static void print_found(FILE *to, const struct found shown[NR_SHOWN], size_t all)
{
	char size[SIZE_TEXT];

	if (!all) {
		fputs("No process here is on libslub, or none that you may read.\n", to);
		return;
	}
	fputs("On libslub here, the largest heap first:\n", to);
	for (size_t i = 0; i < all && i < NR_SHOWN; i++)
		fprintf(to, "  %7d %-15s %7s\n", (int)shown[i].pid, shown[i].name,
			size_text(size, shown[i].heap_bytes, false));
	if (all > NR_SHOWN)
		fprintf(to, "  and %zu more\n", all - NR_SHOWN);
}

void tour_print(FILE *to)
{
	struct found shown[NR_SHOWN] = { { .pid = 0 } };
	size_t all = find(shown);
	char pid[16] = "PID";

	if (all)
		snprintf(pid, sizeof(pid), "%d", (int)shown[0].pid);
	fprintf(to, "slub runs programs on libslub's malloc, and looks into them as they run.\n\n"
		"  Run a program on it:\n"
		"      slub run -- redis-server\n"
		"  Why is its memory so large, and why does it not go down?\n"
		"      slub stats %s\n"
		"  Which of its memory grows, and which is lost?\n"
		"      slub top %s\n"
		"      slub leaks %s\n"
		"  It crashed, or damages its heap: where, and by what code?\n"
		"      slub run --debug=FZPU -- PROGRAM\n"
		"      slub explain CORE\n"
		"  Watch all programs of this host, or pod, by Prometheus:\n"
		"      slub exporter --listen=:9782\n\n", pid, pid, pid);
	print_found(to, shown, all);
	fputs("`slub --help` lists all commands, `slub help COMMAND` explains one.\n", to);
}
