/* SPDX-License-Identifier: MIT */
/*
 * Works in whatever mode with_mode has made, and says which backend it got.
 *
 *	mode_work --expect=rseq|thread
 *	--late=1	installs a filter once threads run: rseq and membarrier
 *			then fail for a process that has used both
 *	--own=1		has a critical section of its own, as mode E wants
 */
#include "modes/modes.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define THREADS 6

static uint64_t ops;
static bool own;
static pthread_barrier_t midway;

/* Both calls fail from here on, in all threads (TSYNC). */
static void filter_late(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rseq, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 5, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_TSYNC, &program))
		fire_skip("seccomp: %s", strerror(errno));
}

static void *work(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);

	modes_work(&rng, ops / 2, own);
	pthread_barrier_wait(&midway);
	pthread_barrier_wait(&midway);
	modes_work(&rng, ops / 2, own);
	if (rng % 2)
		malloc_trim(0);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *expect;
	pthread_t threads[THREADS];
	uint64_t rng;
	int backend;

	fire_start(argc, argv, "expect late own ops limit");
	fire_require_library();
	fire_watchdog(fire_opt("limit", 120));
	rng = fire_seed();
	ops = fire_count("ops", 600000);
	own = fire_opt("own", 0);
	backend = fire_backend();
	expect = fire_opt_str("expect", NULL);
	if (expect && !getenv("SLUB_FASTPATH") &&
	    strcmp(expect, fire_backend_name(backend)))
		fire_fail("backend %s, expected %s",
			  fire_backend_name(backend), expect);
	pthread_barrier_init(&midway, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work,
				   (void *)(uintptr_t)fire_rng(&rng)))
			fire_fail("pthread_create: %s", strerror(errno));
	pthread_barrier_wait(&midway);
	malloc_trim(0);
	if (fire_opt("late", 0))
		filter_late();
	malloc_trim(0);
	pthread_barrier_wait(&midway);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	modes_drain();
	if (own)
		modes_check_own();
	printf("%llu operations\n", (unsigned long long)ops * THREADS);
	return 0;
}
