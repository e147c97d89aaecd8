/* SPDX-License-Identifier: MIT */
/*
 * The state of each thread, its registration, and the thread numbers of
 * backend thread.  The destructor of a key gives a thread's number back, or ends the
 * registration that the library made; other threads have no destructor.
 *
 * Locks: area_lock protects the numbers.
 */
#define _GNU_SOURCE
#include "core/percpu/percpu.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/percpu/percpu_internal.h"

__thread struct thread_state slub_thread = {
	.self.base = slub_dummy_base,
	.self.area = (char *)&percpu_no_area,
	/* No CPU number; see percpu_hint_offset. */
	.scratch[RSEQ_CPU_ID / 8] = (uint64_t)UINT32_MAX << 32,
};
_Static_assert(RSEQ_CPU_ID == 4, "the upper half");
/* What programs see of it, inline (slub/percpu.h). */
extern SLUB_API __thread struct slub_percpu_self slub_percpu_self
	__attribute__((alias("slub_thread")));
_Static_assert(offsetof(struct thread_state, self) == 0, "an alias of it");

/* Backend thread: which numbers are taken; under area_lock. */
static uint64_t numbers[AREAS_MAX / 64] rarely_touched;
static pthread_key_t exit_key;
uint32_t percpu_nr_threads;
/*
 * Without a key no number would come back, so none is given out.  A program that has loaded no
 * library for threads (glibc before 2.34, core/old_glibc.c) has a key from its second thread on.
 */
enum key_state { KEY_NOT_YET, KEY_WAITS, KEY_UNDER_WAY, KEY_MADE, KEY_FAILED };
static enum key_state exit_key_state;

/* The lowest free number; AREAS_MAX: there is none. */
static uint32_t number_find(void)
{
	uint32_t number = AREAS_MAX;

	lock_acquire(&area_lock);
	for (uint32_t i = 0; i < AREAS_MAX / 64; i++) {
		if (~numbers[i]) {
			number = i * 64 + (uint32_t)__builtin_ctzl(~numbers[i]);
			break;
		}
	}
	lock_release(&area_lock);
	return number;
}

/*
 * Takes @number, which goes with @area; false: another thread has it by now.
 *
 * The order of the stores matters, for a signal handler may fork in between.  In the
 * child percpu_fork_finish() frees the numbers and areas of all other threads.  Before
 * the first store it frees this number too, and the three stores follow.  After the first
 * store it knows that this thread has the number, and sets the bit itself.
 */
static bool area_number_take(uint32_t number, char *area)
{
	bool is_free;

	lock_acquire(&area_lock);
	is_free = !(numbers[number / 64] >> number % 64 & 1);
	if (is_free) {
		slub_thread.number = number + 1;
		compiler_barrier();
		__atomic_store_n(area_owner_busy(area), &slub_thread.busy, __ATOMIC_RELAXED);
		compiler_barrier();
		numbers[number / 64] |= 1ul << number % 64;
	}
	lock_release(&area_lock);
	return is_free;
}

/*
 * Ends a registration of ours: the kernel must not write to storage that is gone.  The thread
 * is on the slow path from here on, and is not registered again (THREAD_CHECKED).
 */
static cold void registration_end(void)
{
	percpu_leave();
	slub_thread.self.rseq = 0;
	slub_thread.self.cid = 0;
	compiler_barrier();
	os_rseq_unregister();
}

/* Runs in a thread that ends; its lists stay for the next owner. */
static void thread_exit(void *unused)
{
	uint32_t number = slub_thread.number;
	char *area;

	(void)unused;
	if (percpu_backend == BACKEND_RSEQ)
		registration_end();
	if (!number)
		return;
	number--;
	slub_thread.number = 0;
	area = percpu_area(number);
	lock_acquire(&area_lock);
	__atomic_store_n(area_owner_busy(area), NULL, __ATOMIC_RELAXED);
	numbers[number / 64] &= ~(1ul << number % 64);
	lock_release(&area_lock);
}

static cold enum key_state exit_key_make(void)
{
	int err = pthread_key_create(&exit_key, thread_exit);

	return !err ? KEY_MADE : err == ENOSYS ? KEY_WAITS : KEY_FAILED;
}

/* May this thread begin what only a key ends?  The storage of the first thread stays. */
static cold bool exit_key_is_there(void)
{
	enum key_state now = __atomic_load_n(&exit_key_state, __ATOMIC_ACQUIRE);

	if (likely(now == KEY_MADE))
		return true;
	if (now == KEY_FAILED)
		return false;
	if (now == KEY_NOT_YET || os_thread_is_first())
		return true;
	/*
	 * One thread makes it, when it holds no lock, for the loader has one.  Others go without,
	 * and ask again in their next slow call.
	 */
	if (now == KEY_WAITS && !slub_thread.locks_held &&
	    __atomic_compare_exchange_n(&exit_key_state, &now, KEY_UNDER_WAY, false,
					__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		now = exit_key_make();
		__atomic_store_n(&exit_key_state, now, __ATOMIC_RELEASE);
	}
	if (now == KEY_WAITS || now == KEY_UNDER_WAY)
		slub_thread.flags &= ~(uint32_t)THREAD_CHECKED;
	return now == KEY_MADE;
}

/* False: there is a key, and the thread cannot have it. */
static cold bool exit_key_set(void)
{
	return __atomic_load_n(&exit_key_state, __ATOMIC_ACQUIRE) != KEY_MADE ||
	       pthread_setspecific(exit_key, &slub_thread) == 0;
}

void percpu_thread_init(void)
{
	/* A library that could not start yet may still choose `thread`. */
	if (percpu_backend != BACKEND_THREAD && percpu_backend != BACKEND_NONE &&
	    !percpu_registers)
		return;
	__atomic_store_n(&exit_key_state, exit_key_make(), __ATOMIC_RELEASE);
	if (slub_thread.number || slub_thread.self.base == slub_cpu_base)
		exit_key_set();
}

/* Gives this thread a number of its own and an area that goes with it. */
static void thread_number_take(void)
{
	uint32_t number;
	char *area;

	slub_thread.flags |= THREAD_CHECKED;
	/* A handler right before that took one: a second would hide the first. */
	compiler_barrier();
	if (slub_thread.number || !exit_key_is_there())
		return;
	do {
		number = number_find();
		/* None is free: then there is no such area either. */
		percpu_area_make(number);
		area = percpu_area(number);
		if (!area)
			return;
	} while (!area_number_take(number, area));
	/* May allocate: the number is in place, so it comes back here safely. */
	if (!exit_key_set())
		thread_exit(NULL);
}

/* A thread that is not in the child may have been making it. */
void percpu_key_after_fork(void)
{
	if (exit_key_state == KEY_UNDER_WAY)
		exit_key_state = KEY_WAITS;
}

void percpu_numbers_after_fork(void)
{
	memset(numbers, 0, sizeof(numbers));
	if (slub_thread.number) {
		uint32_t number = slub_thread.number - 1;

		numbers[number / 64] = 1ul << number % 64;
	}
}

uint32_t percpu_cid(void)
{
	if (!SLUB_CONFIG_SMP)
		return 0;
	return *(volatile uint32_t *)((char *)__builtin_thread_pointer() +
				      slub_cid_offset());
}

void percpu_leave(void)
{
	/*
	 * In this order, for a signal handler may come in between: without a table it
	 * opens no fast path (fast_paths_open()).
	 */
	slub_thread.self.base = slub_dummy_base;
	compiler_barrier();
	slub_thread.malloc_limit = 0;
	slub_thread.free_limit = 0;
	/* The next slow add of a thread that comes back finds its area again. */
	slub_thread.self.area = (char *)&percpu_no_area;
	compiler_barrier();
}

uint32_t percpu_here(void)
{
	return percpu_backend == BACKEND_RSEQ ? percpu_cid() :
						percpu_cpu_hint();
}

/*
 * Registers this thread where its C library does not.  Before there is a key only the first
 * thread is registered, whose storage stays.  The key comes before the registration: a
 * thread must not take what it cannot give back.
 */
static cold bool thread_register(void)
{
	if (__atomic_load_n(&exit_key_state, __ATOMIC_RELAXED) == KEY_NOT_YET ?
	    !os_thread_is_first() :
	    !exit_key_is_there() || !exit_key_set())
		return false;
	return os_rseq_register();
}

void percpu_thread_open(void)
{
	__atomic_fetch_add(&percpu_nr_threads, 1, __ATOMIC_RELAXED);
	/* Before any sequence: pairs with the fence in claim(), LOCAL-7 of core/slab/local.h. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	slub_thread.flags |= THREAD_CHECKED;
	slub_thread.self.base = slub_cpu_base;
	/* Last: nothing inline runs before.  Today's programs ask for the first, older for both. */
	compiler_barrier();
	slub_thread.self.cid = (uintptr_t)slub_cid_offset();
	compiler_barrier();
	slub_thread.self.rseq = (uintptr_t)slub_rseq_offset();
}

static void rseq_enter(void)
{
	if (!(slub_thread.flags & THREAD_CHECKED)) {
		slub_thread.flags |= THREAD_CHECKED;
		if (percpu_registers ? thread_register() :
				       os_rseq_is_registered())
			percpu_thread_open();
	}
	if (slub_thread.self.base == slub_cpu_base) {
		uint32_t cid = percpu_cid();

		/* The program has ended the registration of this thread. */
		if (unlikely(!os_rseq_has_cpu()))
			percpu_leave();
		else if (cid < AREAS_MAX && !percpu_area(cid))
			percpu_area_make(cid);
	}
}

/*
 * One store: a signal handler that comes in between sees one area or the other,
 * and asks it for its number.
 */
void percpu_remember(void)
{
	char *area;

	if (percpu_backend != BACKEND_RSEQ ||
	    slub_thread.self.base != slub_cpu_base)
		return;
	area = percpu_area(percpu_cid());
	if (area)
		slub_thread.self.area = area;
}

void percpu_enter(void)
{
	uint32_t cpu;

	switch (percpu_backend) {
	case BACKEND_NONE:
		break;
	case BACKEND_RSEQ:
		rseq_enter();
		break;
	case BACKEND_THREAD:
		if (!(slub_thread.flags & THREAD_CHECKED))
			thread_number_take();
		break;
	case BACKEND_TID:
	case BACKEND_LOCK:
		cpu = percpu_cpu_hint();
		if (!percpu_area(cpu))
			percpu_area_make(cpu);
	}
}
