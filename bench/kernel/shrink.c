/* SPDX-License-Identifier: MIT */
/*
 * Walking over shrinkers, under a read-write lock and without a lock (see registry.h).
 *
 *   passes    a second, of all threads together, 1 to 64 threads walking; instructions in user
 *             mode per pass and per cycle, where the processor's counters may be read
 *   idle      microseconds of a pass when no group has anything
 *   storm     file systems mounted and unmounted a second, while nobody walks and while every other
 *             CPU walks; what the kernel's first lock-free walk was taken back for
 *
 * With --walk=ROW it makes --passes passes over that registry and nothing else, for a profiler,
 * which counts what orig_walk() calls.
 */
#include "registry.h"
#include "instructions.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS_MAX = 64 };

static unsigned int nr_groups = 4000, nr_active;
static double seconds = 1;
static _Atomic unsigned int ready;	/* walkers that have their counters */
static _Atomic bool go, stop;

/* --- walkers --- */

struct walker {
	pthread_t thread;
	const struct orig_registry *registry;
	unsigned int number;
	uint64_t passes, asked, instructions, cycles;
	bool counted;
};

static void *walk(void *arg)
{
	struct walker *walker = arg;
	int instructions = instructions_open(), cycles = clock_cycles_open();
	unsigned int spins = 0;

	orig_bind(walker->number % orig_cpus);
	ready++;
	while (!go)
		orig_relax(&spins);
	walker->instructions = counter_read(instructions);
	walker->cycles = counter_read(cycles);
	do {
		walker->asked += walker->registry->pass();
		walker->passes++;
	} while (!stop);
	walker->instructions = counter_read(instructions) - walker->instructions;
	walker->cycles = counter_read(cycles) - walker->cycles;
	walker->counted = instructions >= 0 && cycles >= 0 && walker->cycles;
	counter_close(instructions);
	counter_close(cycles);
	return NULL;
}

/* Opening a counter may take a tenth of a second: nobody walks before all have theirs. */
static void start(struct walker *walkers, unsigned int threads,
		  const struct orig_registry *registry, unsigned int first_cpu)
{
	unsigned int spins = 0;

	ready = 0;
	go = stop = false;
	for (unsigned int i = 0; i < threads; i++) {
		walkers[i] = (struct walker){ .registry = registry, .number = first_cpu + i };
		if (pthread_create(&walkers[i].thread, NULL, walk, &walkers[i]))
			bench_fatal("thread %u cannot be started", i);
	}
	while (ready < threads)
		orig_relax(&spins);
	go = true;
}

static struct walker finish(struct walker *walkers, unsigned int threads)
{
	struct walker sum = { .counted = true };

	stop = true;
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(walkers[i].thread, NULL);
		sum.passes += walkers[i].passes;
		sum.asked += walkers[i].asked;
		sum.instructions += walkers[i].instructions;
		sum.cycles += walkers[i].cycles;
		sum.counted &= walkers[i].counted;
	}
	return sum;
}

/* --- the measurements --- */

static void counted(const struct orig_registry *registry, unsigned int threads,
		    const struct walker *sum)
{
	double each = (double)sum->instructions / (double)sum->passes;
	double per_cycle = (double)sum->instructions / (double)sum->cycles;

	orig_line("%s, %u threads: %.0f instructions a pass, %.2f per cycle", registry->name,
		  threads, each, per_cycle);
	bench_row("", each, "instructions a pass/%u/%s", threads, registry->row);
	bench_row("", per_cycle, "instructions per cycle/%u/%s", threads, registry->row);
}

static void passes(const struct orig_registry *registry, unsigned int threads)
{
	struct walker walkers[THREADS_MAX], sum;
	double began, rate, share;

	start(walkers, threads, registry, 0);
	began = bench_seconds();
	bench_sleep(seconds);
	sum = finish(walkers, threads);
	rate = (double)sum.passes / (bench_seconds() - began);
	share = (double)sum.asked / (double)sum.passes / (nr_active ? nr_active : 1);
	orig_line("%s, %u threads: %.1f passes/s, %.1f %% of the active shrinkers asked",
		  registry->name, threads, rate, 100 * share);
	bench_row("/s", rate, "passes/%u/%s", threads, registry->row);
	if (sum.counted)
		counted(registry, threads, &sum);
	else if (threads == 1)
		orig_left_out("instructions and cycles: no performance counters here");
}

static double storm_rate(const struct orig_registry *registry)
{
	double began = bench_seconds(), now = began;
	uint64_t cycles = 0;

	while (now - began < seconds) {
		for (int i = 0; i < 10; i++, cycles++) {
			registry->mount();
			registry->unmount();
		}
		now = bench_seconds();
	}
	return (double)cycles / (now - began);
}

static void storm(const struct orig_registry *registry)
{
	unsigned int threads = orig_cpus - 1 < THREADS_MAX ? orig_cpus - 1 : THREADS_MAX;
	struct walker walkers[THREADS_MAX], sum;
	double alone = storm_rate(registry), during, full;

	if (!threads)
		return;
	start(walkers, threads, registry, 1);
	during = storm_rate(registry);
	sum = finish(walkers, threads);
	/* Groups that a walk skipped do not count. */
	full = (double)sum.asked / nr_active / seconds;
	orig_line("%s: %.0f mounts/s alone, %.0f while %u walk (%.2f), %.1f whole passes/s"
		  " meanwhile", registry->name, alone, during, threads, during / alone, full);
	bench_row("/s", alone, "storm/alone/%s", registry->row);
	bench_row("/s", during, "storm/during walks/%s", registry->row);
	bench_row("/s", full, "storm/passes/%s", registry->row);
	bench_row("x", during / alone, "storm/ratio/%s", registry->row);
}

static void idle(const struct orig_registry *registry)
{
	struct bench_samples samples = { 0 };

	registry->create(nr_groups, 0);
	registry->pass();
	for (unsigned int i = 0; i < orig_rounds * 4; i++) {
		uint64_t first = bench_cycles();

		registry->pass();
		bench_sample(&samples, orig_ns((double)(bench_cycles() - first)) / 1e3);
	}
	orig_line("%s: a pass with nothing to do: %.1f us", registry->name,
		  bench_median(&samples));
	bench_row("us", bench_median(&samples), "idle pass/%s", registry->row);
	registry->destroy();
}

static void measure(const struct orig_registry *registry)
{
	registry->create(nr_groups, nr_active);
	registry->pass();
	orig_line("%s: %u groups, %u active", registry->name, nr_groups, nr_active);
	for (unsigned int threads = 1; threads <= THREADS_MAX; threads *= 2)
		passes(registry, threads);
	storm(registry);
	registry->destroy();
	idle(registry);
}

/* --- for a profiler --- */

/* A name of its own in the program: who counts begins here. */
__attribute__((noinline, noclone)) unsigned int orig_walk(const struct orig_registry *registry,
							  unsigned int nr)
{
	unsigned int asked = 0;

	while (nr--)
		asked += registry->pass();
	return asked;
}

static void profiled(const char *row, unsigned int nr)
{
	static const struct orig_registry *const all[] = {
		&registry_locked, &registry_slub, &registry_slub_whole,
	};
	const struct orig_registry *registry = NULL;

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->row, row) == 0)
			registry = all[i];
	if (!registry)
		bench_fatal("--walk is locked, lock-free or slub_shrink");
	registry->create(nr_groups, nr_active);
	registry->pass();
	orig_line("%s: %u groups, %u active, %u passes: %u asked", registry->name, nr_groups,
		  nr_active, nr, orig_walk(registry, nr));
	registry->destroy();
}

int main(int argc, char **argv)
{
	const char *row;
	unsigned int nr;

	orig_begin("shrink", argc, argv);
	row = bench_string("walk", NULL);
	nr = (unsigned int)bench_number("passes", 10);
	nr_groups = (unsigned int)bench_number("groups", nr_groups);
	seconds = bench_number("seconds", seconds);
	bench_options_done();
	if (nr_groups < 4 || nr_groups > 8000)
		bench_fatal("--groups is 4 to 8000");
	nr_active = nr_groups / 4 * 3;
	orig_bind(0);
	free(bench_malloc(16));		/* starts the library */
	if (row) {
		profiled(row, nr);
		return orig_end();
	}
	measure(&registry_locked);
	measure(&registry_slub);
	measure(&registry_slub_whole);
	if (orig_cpus == 1)
		orig_left_out("the storm during walks: one CPU");
	return orig_end();
}
