/* SPDX-License-Identifier: MIT */
/*
 * Forks of a process whose second thread takes its first lock at that moment.  A process that is
 * alone forks without the library's locks, so that thread has to wait, or the fork to notice it:
 * else the child finds a lock held by a thread that it does not have, and hangs.
 *
 *	fire_first_lock --families=400
 */
#include "fire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define CHILD_SECONDS 20
#define FORKS 3		/* of a family; at the first its thread has just begun */
#define LIVE 64

static atomic_int may_begin, is_over;

static void allocate(uint64_t seed, int rounds)
{
	uint64_t rng = fire_rng_state(seed);
	void *live[LIVE] = { NULL };

	for (int i = 0; rounds < 0 ? !atomic_load(&is_over) : i < rounds; i++) {
		size_t at = fire_rng(&rng) % LIVE, size = fire_size(&rng);

		free(live[at]);
		live[at] = malloc(size);
		if (!live[at])
			fire_fail("%zu bytes: %s", size, strerror(errno));
		*(volatile char *)live[at] = 1;
	}
	for (size_t i = 0; i < LIVE; i++)
		free(live[i]);
}

static void *second_thread(void *seed)
{
	while (!atomic_load(&may_begin))
		;
	allocate((uintptr_t)seed, -1);
	return NULL;
}

static void child_wait(pid_t pid, const char *whose)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fire_fail("%s: %s", whose, strerror(errno));
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fire_fail("%s: hangs", whose);
	if (status)
		fire_fail("%s: status %x", whose, (unsigned int)status);
}

/* @pause: how long after the thread the first fork begins, in turns of a loop. */
static void family(uint64_t seed, unsigned int pause)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, second_thread, (void *)(uintptr_t)(seed | 1)))
		fire_fail("no thread");
	atomic_store(&may_begin, 1);
	for (volatile unsigned int i = 0; i < pause; i++)
		;
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(CHILD_SECONDS);
			allocate(seed + 1, 500);
			_exit(0);
		}
		child_wait(pid, "a child");
	}
	atomic_store(&is_over, 1);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	uint64_t families, seed;

	fire_start(argc, argv, "families seed");
	fire_require_library();
	families = fire_count("families", 400);
	seed = fire_seed();
	for (uint64_t i = 0; i < families; i++) {
		pid_t pid = fork();

		if (!pid) {
			family(seed + i, (unsigned int)(i % 40) * 250);
			_exit(0);
		}
		child_wait(pid, "a family");
	}
	return 0;
}
