/* SPDX-License-Identifier: MIT */
/*
 * Threads that the C library did not make (mode F): clone() with the flags of
 * a thread, with a TLS block of its own or with its parent's, and a vfork
 * child, on its parent's stack and TLS.  None of them is registered for rseq;
 * all allocate and free, and so do ordinary threads beside them.
 *
 *	mode_clone --rounds=200
 */
#include "modes/modes.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STACK (256 << 10)
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | \
		      CLONE_THREAD | CLONE_SYSVSEM)

static atomic_int stop;
static uint64_t ops;

static void futex_wait(atomic_int *word, int value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL);
}

/* Set to 0 and woken by the kernel when the raw thread is gone. */
static atomic_int running;

static int raw_thread(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);

	modes_work_alone(&rng, ops);
	return 0;
}

/* A thread control block as ld.so makes one; NULL where it does not say how. */
static void *make_tls(void)
{
	void *(*allocate)(void *) = dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
	void **own = (void **)__builtin_thread_pointer();
	void **tcb;

	tcb = allocate ? allocate(NULL) : NULL;
	if (!tcb)
		return NULL;
#if defined(__x86_64__)
	tcb[0] = tcb[2] = tcb;	/* tcbhead_t: tcb, self */
	tcb[5] = own[5];	/* stack guard */
	tcb[6] = own[6];	/* pointer guard */
#else
	(void)own;		/* ld.so has filled it in */
#endif
	return tcb;
}

static void free_tls(void *tcb)
{
	void (*deallocate)(void *, bool) =
		dlsym(RTLD_DEFAULT, "_dl_deallocate_tls");

	if (deallocate)
		deallocate(tcb, true);
}

/* The caller sleeps until the thread is gone: they may share its TLS. */
static void run_raw(char *stack, void *tls, uint64_t seed)
{
	int flags = THREAD_FLAGS | CLONE_CHILD_CLEARTID |
		    (tls ? CLONE_SETTLS : 0);
	int tid, value;

	atomic_store(&running, 1);
	tid = clone(raw_thread, stack + STACK, flags, (void *)seed, NULL, tls,
		    &running);
	if (tid < 0)
		fire_fail("clone: %s", strerror(errno));
	while ((value = atomic_load(&running)))
		futex_wait(&running, value);
}

static int vm_child(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);

	modes_work_alone(&rng, ops / 10);
	return 0;
}

/* As posix_spawn does it: a stack of its own, its parent's memory and TLS. */
static void run_clone_vfork(char *stack, uint64_t seed)
{
	int pid = clone(vm_child, stack + STACK,
			CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)seed);
	int status;

	if (pid < 0)
		fire_fail("clone: %s", strerror(errno));
	status = fire_wait(pid, 20);
	if (status)
		fire_fail("clone with CLONE_VFORK: status %#x", status);
}

static void run_vfork(void)
{
	static char *const command[] = { "true", NULL };
	static void *volatile objects[200];
	pid_t pid = vfork();
	int status;

	if (pid == 0) {
		for (int i = 0; i < 200; i++)
			objects[i] = malloc(16 + i * 7);
		for (int i = 0; i < 200; i += 2)
			free(objects[i]);
		execv("/bin/true", command);
		_exit(126);
	}
	if (pid < 0)
		fire_fail("vfork: %s", strerror(errno));
	status = fire_wait(pid, 20);
	if (status)
		fire_fail("vfork child: status %#x", status);
	for (int i = 1; i < 200; i += 2)
		free(objects[i]);	/* the child's, in shared memory */
}

static void *beside(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);

	while (!atomic_load(&stop))
		modes_work(&rng, 1000, false);
	return NULL;
}

static unsigned long rounds(unsigned long count, uint64_t *rng)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	unsigned long with_tls = 0;

	if (stack == MAP_FAILED)
		fire_fail("mmap: %s", strerror(errno));
	for (unsigned long i = 0; i < count; i++) {
		void *tls = make_tls();

		if (tls) {
			run_raw(stack, tls, fire_rng(rng));
			free_tls(tls);
			with_tls++;
		}
		run_raw(stack, NULL, fire_rng(rng));
		modes_work(rng, 500, false);
		run_clone_vfork(stack, fire_rng(rng));
		run_vfork();
		modes_work(rng, 500, false);
		if (i % 16 == 0)
			malloc_trim(0);
	}
	return with_tls;
}

int main(int argc, char **argv)
{
	unsigned long count, with_tls;
	pthread_t threads[2];
	uint64_t rng;

	fire_start(argc, argv, "rounds ops limit");
	fire_require_library();
	fire_watchdog(fire_opt("limit", 120));
	rng = fire_seed();
	count = fire_count("rounds", 200);
	ops = fire_opt("ops", 2000);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, beside,
				   (void *)(uintptr_t)fire_rng(&rng)))
			fire_fail("pthread_create: %s", strerror(errno));
	with_tls = rounds(count, &rng);
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	modes_drain();
	printf("%lu rounds, %lu with a TLS block of their own\n", count,
	       with_tls);
	return 0;
}
