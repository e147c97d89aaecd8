/* SPDX-License-Identifier: MIT */
/*
 * scale (--work NAME | --trace FILE) [--cpus N] [--nodes N] [--steps N] [--warm N] [--seed N]
 *       [--threads N] [--moves N] [--sites]
 *
 * Runs a loop on N pretended CPUs and prints what was counted: one line "NAME VALUE" for each
 * count, and with --sites one for each place of the code, "site PC PC... COUNT...".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include <slub/control.h>

#include "core/page/page.h"

#include "scale.h"

/* A thread goes to another CPU about so often, where there are no more threads than CPUs. */
#define MOVES_EVERY 20000
/* ... and otherwise makes room for the next one after so many steps. */
#define SLICE_STEPS 2000
/* How much later a thread looks again whether what it waits for is there. */
#define LOOK_AGAIN_NS 1000

uint32_t nr_threads;

static struct {
	const char *work, *trace;
	uint64_t steps, warm, seed, moves;
	bool sites;
} options = { .steps = 20000, .warm = 20000, .seed = 1 };

/* A pretended thread, and what the library keeps for a real one. */
struct runner {
	struct thread thread;
	struct thread_state state;
	uint64_t moves_at;
	bool is_over;
};

static struct runner *runners;
static uint32_t *queues[CPUS_MAX];	/* of each CPU, the first one runs */
static uint32_t queue_ends[CPUS_MAX];
static const struct work *work;
static uint32_t nr_begun, nr_left;
static uint64_t nr_done;	/* operations of all */
static uint64_t seed_program;	/* how long the program takes in between */

/* ---- who runs where ---- */

static void move_later(struct runner *runner)
{
	uint64_t every = options.moves ? options.moves :
			 work->moves_every ? work->moves_every : MOVES_EVERY;

	runner->moves_at = runner->thread.steps + every / 2 +
			   random_next(&runner->thread.seed) % every;
}

static void runners_make(void)
{
	runners = own_memory(nr_threads * sizeof(*runners));
	for (uint32_t cpu = 0; cpu < machine.nr_cpus; cpu++)
		queues[cpu] = own_memory((nr_threads + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < nr_threads; i++) {
		struct runner *runner = &runners[i];

		/* What a thread begins with, which this one is as yet. */
		runner->state = slub_thread;
		runner->thread.number = i;
		runner->thread.seed = (options.seed * nr_threads + i + 1) * 0x9e3779b97f4a7c15u;
		move_later(runner);
	}
	seed_program = options.seed * 0x9e3779b97f4a7c15u;
	nr_left = nr_threads;
	percpu_nr_threads = nr_threads;
	machine.nr_active = nr_threads < machine.nr_cpus && !work->moves_every ?
			    nr_threads : machine.nr_cpus;
}

/* Those whose time has come, each on the CPU with the fewest. */
static void threads_begin(double now)
{
	while (nr_begun < nr_threads && (!work->starts || work->starts(nr_begun))) {
		uint32_t best = 0;

		for (uint32_t cpu = 1; cpu < machine.nr_cpus; cpu++) {
			if (queue_ends[cpu] < queue_ends[best])
				best = cpu;
		}
		if (!queue_ends[best] && machine.clock_ns[best] < now)
			machine.clock_ns[best] = now;
		runners[nr_begun].thread.cpu = best;
		queues[best][queue_ends[best]++] = nr_begun++;
	}
}

/* The first one goes behind the others. */
static void queue_turn(uint32_t cpu)
{
	uint32_t *queue = queues[cpu], now = queue[0];

	memmove(queue, queue + 1, (queue_ends[cpu] - 1) * sizeof(*queue));
	queue[queue_ends[cpu] - 1] = now;
}

/* The first one of @cpu changes places with the first one of another, or of nobody. */
static void move(uint32_t cpu, struct runner *runner)
{
	uint32_t to = (uint32_t)(random_next(&runner->thread.seed) >> 33) % machine.nr_cpus;
	uint32_t other = queues[to][0];

	move_later(runner);
	if (to == cpu)
		return;
	queues[to][0] = runner->thread.number;
	runner->thread.cpu = to;
	if (queue_ends[to]) {
		queues[cpu][0] = other;
		runners[other].thread.cpu = cpu;
		return;
	}
	queue_ends[to] = 1;
	queue_ends[cpu]--;
	memmove(queues[cpu], queues[cpu] + 1, queue_ends[cpu] * sizeof(uint32_t));
	/* The CPU was idle until now. */
	if (machine.clock_ns[to] < machine.clock_ns[cpu])
		machine.clock_ns[to] = machine.clock_ns[cpu];
}

static uint32_t cpu_next(void)
{
	uint32_t best = CPUS_MAX;

	for (uint32_t cpu = 0; cpu < machine.nr_cpus; cpu++) {
		if (queue_ends[cpu] &&
		    (best == CPUS_MAX || machine.clock_ns[cpu] < machine.clock_ns[best]))
			best = cpu;
	}
	return best;
}

/* ---- an operation ---- */

/* The list that malloc() took an object from, or free() puts it on. */
static void list_used(const void *object)
{
	uint32_t entry = pagemap_get(object);

	if (entry >= MAP_SPECIAL_END)
		scale_area(entry_slot(entry));
}

static void step_do(const struct step *step)
{
	void **place = &objects[step->place];
	void *object;

	switch (step->kind) {
	case STEP_ALLOC:
		*place = malloc(step->bytes ? step->bytes : 1);
		list_used(*place);
		shadow_object(*place, step->bytes);
		break;
	case STEP_FREE:
		/* Its first words are written in a sequence. */
		shadow_object(*place, 2 * sizeof(void *));
		list_used(*place);
		free(*place);
		*place = NULL;
		break;
	case STEP_RESIZE:
		object = realloc(*place, step->bytes ? step->bytes : 1);
		*place = NULL;
		objects[step->to] = object;
		shadow_object(object, step->bytes);
		break;
	case STEP_NOTHING:
	case STEP_END:
		break;
	}
}

/* As the runner, whose state this thread has meanwhile. */
static void run(struct runner *runner, const struct step *step)
{
	double began = *machine_clock();

	machine_enter(runner->thread.cpu);
	slub_thread = runner->state;
	shadow_depth = 0;
	step_do(step);
	runner->state = slub_thread;
	runner->thread.steps++;
	nr_done++;
	shadow_count(EVENT_OPERATIONS, 1, 0);
	shadow_count(EVENT_NS, *machine_clock() - began, 0);
	/* Not the same each time, or all CPUs would walk in step. */
	*machine_clock() += (double)(random_next(&seed_program) % (2 * NS_PROGRAM));
}

static void queue_leave(struct runner *runner, uint32_t cpu)
{
	runner->is_over = true;
	nr_left--;
	queue_ends[cpu]--;
	memmove(queues[cpu], queues[cpu] + 1, queue_ends[cpu] * sizeof(uint32_t));
}

static void cpu_step(uint32_t cpu)
{
	struct runner *runner = &runners[queues[cpu][0]];
	struct step step = { .kind = STEP_NOTHING };

	machine.cpu = cpu;
	work->next(&runner->thread, &step);
	if (step.kind == STEP_END) {
		queue_leave(runner, cpu);
		return;
	}
	if (step.kind == STEP_NOTHING) {
		*machine_clock() += LOOK_AGAIN_NS;
		queue_turn(cpu);
		return;
	}
	run(runner, &step);
	if (runner->thread.steps >= runner->moves_at)
		move(cpu, runner);
	else if (queue_ends[cpu] > 1 && runner->thread.steps % SLICE_STEPS == 0)
		queue_turn(cpu);
}

/* ---- the whole ---- */

/*
 * All together make the steps of warming up, or half of a recording, and then what counts: as much
 * for each CPU.
 */
static void run_all(void)
{
	uint64_t share = nr_threads > machine.nr_cpus ? nr_threads : machine.nr_cpus;
	uint64_t warm = options.trace ? trace_operations() / 2 : options.warm * share;
	uint64_t end = options.trace ? UINT64_MAX : warm + options.steps * share;
	bool is_warm = false;

	while (nr_left && nr_done < end) {
		threads_begin(*machine_clock());
		if (!is_warm && nr_done >= warm) {
			shadow_reset();
			is_warm = true;
		}
		cpu_step(cpu_next());
	}
}

static void print(void)
{
	struct slub_value lists = { 0 };
	double most = 0;

	for (uint32_t cpu = 0; cpu < machine.nr_cpus; cpu++) {
		if (most < machine.clock_ns[cpu])
			most = machine.clock_ns[cpu];
	}
	printf("cpus %u\nthreads %u\n", machine.nr_cpus, nr_threads);
	for (int i = 0; i < EVENT_NR; i++)
		printf("%s %.1f\n", event_names[i], shadow_total((enum event)i));
	slub_value_read("objects.cached_bytes", &lists);
	printf("lists_bytes %llu\n", (unsigned long long)lists.number);
	if (options.sites)
		shadow_sites_print();
}

static uint64_t count(const char *text, uint64_t most)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || end == text || !n || n > most) {
		dprintf(2, "scale: '%s' is no number from 1 to %llu\n", text,
			(unsigned long long)most);
		exit(2);
	}
	return n;
}

static void read_options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "work", 1, NULL, 'w' }, { "trace", 1, NULL, 't' }, { "cpus", 1, NULL, 'c' },
		{ "nodes", 1, NULL, 'n' }, { "steps", 1, NULL, 's' }, { "warm", 1, NULL, 'a' },
		{ "seed", 1, NULL, 'r' }, { "threads", 1, NULL, 'T' }, { "moves", 1, NULL, 'm' },
		{ "sites", 0, NULL, 'S' }, { NULL, 0, NULL, 0 },
	};

	for (int letter; (letter = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (letter) {
		case 'w': options.work = optarg; break;
		case 't': options.trace = optarg; break;
		case 'c': machine.nr_cpus = (uint32_t)count(optarg, CPUS_MAX); break;
		case 'n': machine.nr_nodes = (uint32_t)count(optarg, NODES_MAX); break;
		case 's': options.steps = count(optarg, UINT32_MAX); break;
		case 'a': options.warm = count(optarg, UINT32_MAX); break;
		case 'r': options.seed = count(optarg, UINT32_MAX); break;
		case 'T': nr_threads = (uint32_t)count(optarg, 65536); break;
		case 'm': options.moves = count(optarg, UINT32_MAX); break;
		case 'S': options.sites = true; break;
		default: exit(2);
		}
	}
	if (!options.work == !options.trace) {
		dprintf(2, "scale: --work NAME or --trace FILE\n");
		exit(2);
	}
}

/* Addresses are the same in each run: what lies where decides a little. */
static void addresses_fix(char **argv)
{
	int now = personality(0xffffffff);

	if (now == -1 || now & ADDR_NO_RANDOMIZE)
		return;
	if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) != -1)
		execv("/proc/self/exe", argv);
}

/* Before all constructors: the library's start asks for the machine. */
static void machine_set(int argc, char **argv, char **environment)
{
	(void)environment;
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--cpus") == 0)
			machine.nr_cpus = (uint32_t)atoi(argv[i + 1]);
		if (strcmp(argv[i], "--nodes") == 0)
			machine.nr_nodes = (uint32_t)atoi(argv[i + 1]);
	}
	machine_enter(0);
}

__attribute__((section(".preinit_array"), used))
static void (*const set_first)(int, char **, char **) = machine_set;

int main(int argc, char **argv)
{
	addresses_fix(argv);
	read_options(argc, argv);
	work = options.trace ? &work_trace : work_find(options.work);
	if (!work || (options.trace && !trace_read(options.trace, UINT64_MAX))) {
		dprintf(2, "scale: there is no %s\n", options.trace ? options.trace : options.work);
		return 2;
	}
	if (!nr_threads)
		nr_threads = work->nr_threads ? work->nr_threads : machine.nr_cpus;
	/* The process is as good as one of many threads. */
	__libc_single_threaded = 0;
	free(malloc(1));
	shadow_init();
	runners_make();
	if (!work->begin(nr_threads))
		return 2;
	shadow_is_on = true;
	run_all();
	shadow_is_on = false;
	print();
	return 0;
}
