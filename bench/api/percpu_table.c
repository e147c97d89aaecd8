/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU objects as they become many: time of an allocation and memory, over CPUs (2 to 4,096, of
 * which most do not exist: SLUB_CPUS) and objects of eight bytes (1 to 100,000).  Each cell in a
 * process of its own; a table on stderr, the rows as usual.
 *
 *	percpu_table [--table]
 */
#define _GNU_SOURCE
#include "bench.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slub/percpu.h>

static const unsigned int cpus[] = { 2, 8, 32, 128, 512, 1024, 4096 };
static const unsigned int objects[] = { 1, 10, 100, 1000, 10000, 100000 };

enum {
	CPUS = sizeof(cpus) / sizeof(cpus[0]),
	OBJECTS = sizeof(objects) / sizeof(objects[0]),
	OBJECT_BYTES = 8,
};

struct cell {
	double ns;		/* per allocation */
	double mib;		/* resident, when every CPU has written every object */
};

/* In a process of its own: allocates, writes everywhere, tells the pipe. */
static void measure(unsigned int nr_cpus, unsigned int nr, int to)
{
	uintptr_t *offsets = bench_map(nr * sizeof(*offsets));
	double began, before;
	struct cell cell;

	/* The areas of CPUs that ran; what follows pays for all of them. */
	for (unsigned int cpu = 0; cpu < nr_cpus; cpu++)
		slub_percpu_ptr(slub_percpu_alloc(4, 4), cpu);
	before = bench_memory(0).rss;
	began = bench_seconds();
	for (unsigned int i = 0; i < nr; i++) {
		offsets[i] = slub_percpu_alloc(OBJECT_BYTES, OBJECT_BYTES);
		if (!offsets[i])
			bench_fatal("%u objects on %u CPUs: only %u fit", nr, nr_cpus, i);
	}
	cell.ns = (bench_seconds() - began) * 1e9 / nr;
	for (unsigned int cpu = 0; cpu < nr_cpus; cpu++) {
		for (unsigned int i = 0; i < nr; i++)
			*(int64_t *)slub_percpu_ptr(offsets[i], cpu) = 1;
	}
	cell.mib = (bench_memory(0).rss - before) / BENCH_MIB;
	if (slub_percpu_sum(offsets[nr - 1]) != (int64_t)nr_cpus)
		bench_fatal("a wrong sum");
	if (write(to, &cell, sizeof(cell)) != sizeof(cell))
		bench_fatal("write");
	_exit(0);
}

static struct cell run(unsigned int nr_cpus, unsigned int nr)
{
	char cpus_text[16], nr_text[16], to_text[16];
	struct cell cell = { 0, 0 };
	int ends[2], status;
	pid_t child;

	if (pipe(ends))
		bench_fatal("pipe");
	snprintf(cpus_text, sizeof(cpus_text), "%u", nr_cpus);
	snprintf(nr_text, sizeof(nr_text), "%u", nr);
	snprintf(to_text, sizeof(to_text), "%d", ends[1]);
	child = fork();
	if (!child) {
		setenv("SLUB_CPUS", cpus_text, 1);
		execl("/proc/self/exe", "percpu_table", "--cell-cpus", cpus_text, "--cell-objects",
		      nr_text, "--cell-to", to_text, NULL);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], &cell, sizeof(cell)) != sizeof(cell))
		cell.ns = -1;
	close(ends[0]);
	waitpid(child, &status, 0);
	return cell;
}

static void print_table(struct cell cells[OBJECTS][CPUS])
{
	for (int memory = 0; memory < 2; memory++) {
		fprintf(stderr, "%-24s", memory ? "MiB resident, CPUs:" : "ns per alloc, CPUs:");
		for (int c = 0; c < CPUS; c++)
			fprintf(stderr, "%10u", cpus[c]);
		fprintf(stderr, "\n");
		for (int o = 0; o < OBJECTS; o++) {
			fprintf(stderr, "%16u objects", objects[o]);
			for (int c = 0; c < CPUS; c++)
				fprintf(stderr, memory ? "%10.2f" : "%10.0f",
					memory ? cells[o][c].mib : cells[o][c].ns);
			fprintf(stderr, "\n");
		}
	}
}

int main(int argc, char **argv)
{
	static struct cell cells[OBJECTS][CPUS];
	unsigned int cell_cpus, cell_objects;
	double budget;
	int cell_to;
	bool table;

	bench_begin("api_percpu_table", argc, argv);
	cell_cpus = (unsigned int)bench_number("cell-cpus", 0);
	cell_objects = (unsigned int)bench_number("cell-objects", 0);
	cell_to = (int)bench_number("cell-to", -1);
	/* What would take more memory than this is left out. */
	budget = bench_number("mib", 4096);
	table = bench_flag("table");
	bench_options_done();
	if (cell_cpus)
		measure(cell_cpus, cell_objects, cell_to);
	for (int o = 0; o < OBJECTS; o++) {
		for (int c = 0; c < CPUS; c++) {
			double mib = (double)objects[o] * OBJECT_BYTES * cpus[c] / BENCH_MIB;

			if (mib > budget)
				continue;
			cells[o][c] = run(cpus[c], objects[o]);
			bench_row("ns", cells[o][c].ns, "alloc/%u/%u", objects[o], cpus[c]);
			bench_row("MiB", cells[o][c].mib, "memory/%u/%u", objects[o], cpus[c]);
		}
	}
	if (table)
		print_table(cells);
	return bench_end();
}
