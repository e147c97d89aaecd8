/* SPDX-License-Identifier: MIT */
/* Features that say where a thread is, or when memory is free: deferred frees, readers, signal
 * handlers, children, threads, shrinkers, pressure, moves, trims. */
#include "pairs.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---- deferred ---- */

static void deferred_release(struct cell *cell, void *block)
{
	slub_free_deferred(block);
	cell->handed_over++;
}

static void deferred_disturb(struct cell *cell)
{
	for (size_t i = 0; i < 20; i++)
		deferred_release(cell, malloc(i % 10 ? 50 * i : LARGE));
}

/* Sheaves that are not full may be counted as such. */
static void deferred_check(struct cell *cell)
{
	size_t sheaves = (size_t)slub_percpu_cpus() * 62;

	if (slub_deferred_pending() > cell->handed_over + sheaves)
		cell_fail(cell, "%zu deferred frees pending of %zu", slub_deferred_pending(),
			  cell->handed_over);
}

static bool deferred_leave(struct cell *cell)
{
	if (cell_is_in(cell, IN_READER))
		return false;
	cell_barrier(cell);
	if (slub_deferred_pending())
		cell_fail(cell, "%zu pending after a barrier", slub_deferred_pending());
	return true;
}

const struct feature feature_deferred = {
	.name = "deferred",
	.leave = deferred_leave,
	.release = deferred_release,
	.disturb = deferred_disturb,
	.check = deferred_check,
	.release_not = IN_HANDLER,
	.disturb_not = IN_HANDLER,
};

/* ---- reader ---- */

static int section;

/* From the first deferred free on, in any thread, there is somebody who waits for readers. */
static void reader_enter(struct cell *cell)
{
	slub_free_deferred(malloc(10));
	cell->handed_over++;
	section = slub_read_lock();
	cell->context |= IN_READER;
}

static void reader_around(struct cell *cell)
{
	int index = slub_read_lock();

	cell_nest(cell);
	slub_read_unlock(index);
}

static bool reader_leave(struct cell *cell)
{
	cell->context &= ~(unsigned int)IN_READER;
	slub_read_unlock(section);
	return true;
}

const struct feature feature_reader = {
	.name = "reader",
	.enter = reader_enter,
	.leave = reader_leave,
	.around = reader_around,
};

/* ---- handler ---- */

enum { STORM_NS = 300000 };

static struct cell *handled;
static timer_t timer;

/* Interrupts whatever it is, the library too: it may be refused memory there, and no more. */
static void storm(int signal)
{
	const struct feature *other = cell_other(handled, &feature_handler);
	int saved = errno, reader = slub_read_lock();
	struct loose loose[4];

	(void)signal;
	for (size_t i = 0; i < 4; i++) {
		size_t size = 24 << (4 * i);	/* the last one is large */

		loose[i].maker = i % 2 && other->alloc && cell_has(handled, other) &&
			!handled->is_changing && !(other->alloc_not & IN_HANDLER) ? other : NULL;
		loose[i].at = loose[i].maker ? other->alloc(handled, &size) : malloc(size);
		if (loose[i].at)
			memset(loose[i].at, 0x77, size < 200 ? size : 200);
	}
	for (int i = 0; i < 4; i++) {
		if (!loose[i].at)
			continue;
		if (loose[i].maker)
			loose[i].maker->free(handled, loose[i].at);
		else
			free(loose[i].at);
	}
	slub_read_unlock(reader);
	errno = saved;
}

static void raised(int signal)
{
	unsigned int before = handled->context;
	int saved = errno;

	(void)signal;
	handled->context |= IN_HANDLER;
	cell_nest(handled);
	handled->context = before;
	errno = saved;
}

void signal_storm(struct cell *cell, void (*handler)(int), long ns)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct itimerspec every = { { 0, ns }, { 0, ns } };

	if (!ns) {
		/* A timer does not come along into a child. */
		if (!cell->is_child)
			timer_delete(timer);
		signal(SIGUSR2, SIG_IGN);
		return;
	}
	sigaction(SIGUSR2, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &every, NULL))
		cell_fail(cell, "timer: errno %d", errno);
}

static void handler_enter(struct cell *cell)
{
	struct sigaction action = { .sa_handler = raised, .sa_flags = SA_RESTART };

	handled = cell;
	sigaction(SIGUSR1, &action, NULL);
	signal_storm(cell, storm, STORM_NS);
}

static void handler_around(struct cell *cell)
{
	(void)cell;
	pthread_kill(pthread_self(), SIGUSR1);
}

static bool handler_leave(struct cell *cell)
{
	signal_storm(cell, NULL, 0);
	signal(SIGUSR1, SIG_IGN);
	return true;
}

const struct feature feature_handler = {
	.name = "handler",
	.enter = handler_enter,
	.leave = handler_leave,
	.around = handler_around,
	.around_not = IN_CALLBACK | IN_MIGRATE,
};

/* ---- fork ---- */

static void fork_around(struct cell *cell)
{
	pid_t child;
	int status;

	if (cell->is_child) {
		cell_nest(cell);
		return;
	}
	child = fork();
	if (child < 0)
		cell_fail(cell, "fork: errno %d", errno);
	if (!child) {
		cell->is_child = true;
		cell_watch(cell);
	} else {
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			cell_fail(cell, "the child's status is %#x", status);
	}
	blocks_check(cell);
	cell_nest(cell);
	/* The thread would end the process, in the middle. */
	if (cell->is_child && cell_is_in(cell, IN_THREAD))
		_exit(0);
}

const struct feature feature_fork = {
	.name = "fork",
	.around = fork_around,
	/* fork() of the C library is not for handlers. */
	.around_not = IN_HANDLER,
};

/* ---- thread ---- */

static void *thread_run(void *arg)
{
	cell_nest(arg);
	return NULL;
}

/* It is in no group, no section and no handler, and its frees are another thread's. */
static void thread_around(struct cell *cell)
{
	unsigned int before = cell->context;
	pthread_t thread;
	int err;

	cell->context = (before & IN_READER) | IN_THREAD;
	err = pthread_create(&thread, NULL, thread_run, cell);
	if (!err)
		pthread_join(thread, NULL);
	else if (err != EAGAIN && err != ENOMEM)
		cell_fail(cell, "pthread_create: %d", err);
	cell->context = before;
}

const struct feature feature_thread = {
	.name = "thread",
	.around = thread_around,
	.around_not = IN_HANDLER | IN_CALLBACK | IN_MIGRATE,
};

/* ---- shrinker ---- */

enum { IDLE = 6 };

static struct loose idle[IDLE];
static size_t nr_idle;
static struct cell *shrunk;
static bool nests_in_scan;

static void idle_give(struct cell *cell)
{
	while (nr_idle)
		loose_give(cell, &feature_shrinker, idle[--nr_idle]);
}

static size_t shrinker_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return nests_in_scan ? 1 : nr_idle;
}

static size_t shrinker_scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	unsigned int before = shrunk->context;
	size_t nr = nr_idle;

	(void)shrinker, (void)control;
	shrunk->context |= IN_CALLBACK;
	idle_give(shrunk);
	if (nests_in_scan) {
		nests_in_scan = false;
		cell_nest(shrunk);
	}
	shrunk->context = before;
	return nr ? nr : SLUB_SHRINK_STOP;
}

static struct slub_shrinker shrinker;

static void shrinker_enter(struct cell *cell)
{
	shrunk = cell;
	shrinker = (struct slub_shrinker)SLUB_SHRINKER_INIT("pair", shrinker_count, shrinker_scan);
	cell_expect(cell, slub_shrinker_create(&shrinker), "slub_shrinker_create", 0);
}

static void shrinker_around(struct cell *cell)
{
	nests_in_scan = true;
	slub_shrink(0);
	if (!nests_in_scan)
		return;
	nests_in_scan = false;
	cell_nest(cell);
}

static void shrinker_disturb(struct cell *cell)
{
	while (nr_idle < IDLE) {
		struct loose loose = loose_take(cell, &feature_shrinker, nr_idle % 2 ? LARGE : 300);

		if (!loose.at)
			break;
		idle[nr_idle++] = loose;
	}
	slub_shrink_all();
	if (nr_idle && !cell_is_in(cell, IN_CALLBACK) && !cell_has(cell, &feature_pressure))
		cell_fail(cell, "slub_shrink_all leaves %zu idle", nr_idle);
}

static bool shrinker_leave(struct cell *cell)
{
	cell_expect(cell, slub_shrinker_destroy(&shrinker), "slub_shrinker_destroy", 0);
	idle_give(cell);
	return true;
}

const struct feature feature_shrinker = {
	.name = "shrinker",
	.enter = shrinker_enter,
	.leave = shrinker_leave,
	.around = shrinker_around,
	.disturb = shrinker_disturb,
	.drop = idle_give,
	.around_not = IN_HANDLER | IN_CALLBACK | IN_MIGRATE,
	.disturb_not = IN_HANDLER,
};

/* ---- trim ---- */

static int trim_visit(struct slub_cache *cache, void *arg)
{
	int answer = slub_cache_shrink(cache);

	if (strncmp(slub_cache_name(cache), "pair", 4))
		return 0;
	return cell_expect(arg, answer, "slub_cache_shrink",
			   cell_is_in(arg, IN_READER) && answer == -EDEADLK ? -EDEADLK : 1) * 0;
}

static void trim_disturb(struct cell *cell)
{
	long bytes = slub_node_shrink(SLUB_NODE_ANY);

	if (bytes < 0)
		cell_fail(cell, "slub_node_shrink: %ld", bytes);
	slub_cache_for_each(trim_visit, cell);
	malloc_trim(0);
}

const struct feature feature_trim = {
	.name = "trim",
	.disturb = trim_disturb,
	.disturb_not = IN_HANDLER,
};
