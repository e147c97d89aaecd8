/* SPDX-License-Identifier: MIT */
/*
 * Forks out of a process whose threads allocate all the time, and forks from a
 * signal handler that interrupted malloc while other processes send signals.
 * Every child checks what it inherited, allocates, frees and ends; one that
 * does not end in time has met a lock that its parent held.
 *
 *	fork_storm --forks=1000 --handler-forks=200 --threads=8
 */
#include "fire.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MAX_THREADS 64
#define HELD 256
#define CHILD_SECONDS 20
#define SENDERS 2

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

static struct object inherited[HELD];
static unsigned int thread_count;
static atomic_int stop;
static atomic_uint handler_forks;
static unsigned int handler_forks_wanted;
static atomic_ullong worker_ops;
static pthread_t workers[MAX_THREADS];

static struct object make(uint64_t *rng)
{
	struct object made = { .size = fire_size(rng), .id = fire_rng(rng) };

	made.start = malloc(made.size);
	if (!made.start)
		fire_fail("%zu bytes: %s", made.size, strerror(errno));
	fire_stamp(made.start, made.size, made.id);
	return made;
}

static void unmake(struct object *object, const char *where)
{
	fire_unstamp(object->start, object->size, object->id, where);
	free(object->start);
	object->start = NULL;
}

/* What a child does: no call but those of malloc, and _exit. */
static void be_child(uint64_t seed, bool free_inherited)
{
	uint64_t rng = fire_rng_state(seed);
	struct object own[64] = { { 0 } };

	for (int i = 0; i < 400; i++) {
		struct object *one = &own[fire_below(&rng, 64)];

		if (one->start)
			unmake(one, "child's own object");
		else
			*one = make(&rng);
	}
	if (free_inherited)
		for (int i = 0; i < HELD; i++)
			unmake(&inherited[i], "inherited object");
	free(malloc(3 << 20));
	for (int i = 0; i < 64; i++)
		if (own[i].start)
			unmake(&own[i], "child's own object");
	malloc_trim(0);
	_exit(0);
}

static void await(pid_t child, const char *kind, unsigned long number)
{
	int status = fire_wait(child, CHILD_SECONDS);

	if (status == -1)
		fire_fail("%s %lu: the child hung", kind, number);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fire_fail("%s %lu: the child ended with status %#x", kind,
			  number, status);
}

/* Busy threads; the handler below interrupts them within malloc and free. */
static void *work(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);
	struct object own[64] = { { 0 } };
	uint64_t ops = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct object *one = &own[fire_below(&rng, 64)];

		if (one->start)
			unmake(one, "thread's object");
		else
			*one = make(&rng);
		ops++;
	}
	for (int i = 0; i < 64; i++)
		if (own[i].start)
			unmake(&own[i], "thread's object");
	atomic_fetch_add(&worker_ops, ops);
	return NULL;
}

static void start_workers(uint64_t *rng)
{
	atomic_store(&stop, 0);
	for (unsigned int i = 0; i < thread_count; i++)
		if (pthread_create(&workers[i], NULL, work,
				   (void *)(uintptr_t)fire_rng(rng)))
			fire_fail("pthread_create: %s", strerror(errno));
}

static void end_workers(void)
{
	atomic_store(&stop, 1);
	for (unsigned int i = 0; i < thread_count; i++)
		pthread_join(workers[i], NULL);
}

static void storm(unsigned long forks, uint64_t *rng)
{
	start_workers(rng);
	for (unsigned long i = 0; i < forks; i++) {
		uint64_t seed = fire_rng(rng);
		pid_t child = fork();

		if (child < 0)
			fire_fail("fork: %s", strerror(errno));
		if (!child)
			be_child(seed, true);
		await(child, "fork", i);
	}
	end_workers();
}

static void on_signal(int signal)
{
	int saved = errno;
	unsigned int number = atomic_fetch_add(&handler_forks, 1);
	pid_t child;

	(void)signal;
	if (number < handler_forks_wanted) {
		child = fork();
		if (child < 0)
			fire_fail("fork in a handler: %s", strerror(errno));
		if (!child)
			be_child(number + 1, false);
		await(child, "fork in a handler", number);
	}
	errno = saved;
}

/* Another process that signals this one as fast as the handlers end. */
static pid_t start_sender(void)
{
	const struct timespec pause = { .tv_nsec = 300000 };
	pid_t target = getpid();
	pid_t child = fork();

	if (child < 0)
		fire_fail("fork: %s", strerror(errno));
	if (child)
		return child;
	signal(SIGUSR1, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == target && !kill(target, SIGUSR1))
		nanosleep(&pause, NULL);
	_exit(0);
}

static void block_signal(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

static void storm_in_handlers(unsigned int forks, uint64_t *rng)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	struct sigaction action = {
		.sa_handler = on_signal, .sa_flags = SA_RESTART,
	};
	pid_t senders[SENDERS];

	handler_forks_wanted = forks;
	sigaction(SIGUSR1, &action, NULL);
	start_workers(rng);
	block_signal(SIG_BLOCK);	/* only the busy threads take it */
	for (int i = 0; i < SENDERS; i++)
		senders[i] = start_sender();
	while (atomic_load(&handler_forks) < forks)
		nanosleep(&pause, NULL);
	for (int i = 0; i < SENDERS; i++) {
		kill(senders[i], SIGKILL);
		waitpid(senders[i], NULL, 0);
	}
	end_workers();
}

int main(int argc, char **argv)
{
	unsigned long forks, in_handlers;
	uint64_t rng;

	fire_start(argc, argv, "forks handler-forks threads limit");
	fire_isolate();
	fire_require_library();
	forks = fire_count("forks", 1000);
	in_handlers = fire_count("handler-forks", 200);
	thread_count = fire_opt("threads", 8);
	if (!thread_count || thread_count > MAX_THREADS)
		fire_fail("--threads: 1 to %d are wanted", MAX_THREADS);
	fire_watchdog(fire_opt("limit", 240));
	rng = fire_seed();
	for (int i = 0; i < HELD; i++)
		inherited[i] = make(&rng);
	storm(forks, &rng);
	printf("%lu forks out of %u busy threads\n", forks, thread_count);
	storm_in_handlers(in_handlers, &rng);
	printf("%lu forks from signal handlers\n", in_handlers);
	for (int i = 0; i < HELD; i++)
		unmake(&inherited[i], "inherited object");
	printf("threads did %llu operations\n",
	       (unsigned long long)worker_ops);
	return worker_ops ? 0 : 1;
}
