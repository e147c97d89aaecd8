/* SPDX-License-Identifier: MIT */
/*
 * The core as a whole: starts its layers in order, takes their locks around fork, and says
 * good-bye at exit.  src/features/features.c does the same for what stands beside the core.
 *
 * Start happens in the first call that needs the slow path, which may come
 * before any constructor has run; what has to wait for the C library (fork
 * handlers, the thread-exit key) is done by a constructor.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "core/base/bytes.h"
#include "core/base/turn.h"
#include "core/base/line.h"
#include "core/malloc/malloc.h"
#include "core/os/start_only.h"
#include "core/slab/key.h"

enum start_state { START_NOT, START_UNDER_WAY, START_DONE };

static _Atomic uint32_t state;

/* What the constructor was given: `environ` is not set that early. */
static char **constructor_environment;

static void read_options(void)
{
	static bool done;

	if (done || os_is_secure())
		return;
	done = true;
	if (constructor_environment)
		option_read(constructor_environment);
	else
		os_environment_read(option_read);
}

/* What is wanted here, nobody has begun to use: memory and addresses go back. */
static cold bool start_failed(const char *why)
{
	static bool is_told;

	/* Each request tries again. */
	if (!is_told)
		log_message("%s; allocations fail", why);
	is_told = true;
	sizeclass_exit();
	pagemap_exit();
	percpu_exit();
	os_places_forget();
	return false;
}

#define FAST_MEMORY_SHARE 16
/*
 * Without any, a program that allocates and frees one size clears a page for each slab: 81,034
 * faults in mimalloc-bench's glibc-simple, 309 with it, and 47,318 to 1,063 in espresso, at the
 * same peaks.
 */
#define COMPACT_RETAIN (128 << 10)

/* SLUB_MODE stands for two numbers; each counts where it is given by itself. */
static void settle_mode(const struct os_limits *limits)
{
	switch ((enum option_mode)option_value(OPTION_mode)) {
	case MODE_BALANCED:
		break;
	case MODE_COMPACT:
		option_preset(OPTION_retain, COMPACT_RETAIN);
		option_preset(OPTION_huge, HUGE_NEVER);
		break;
	case MODE_FAST:
		option_preset(OPTION_retain, min_size(limits->memory_bytes,
						      limits->address_bytes) /
					     FAST_MEMORY_SHARE);
		break;
	}
}

static bool start_layers(void)
{
	struct os_limits limits;
	struct os_cpus cpus;
	uint32_t nr_nodes, pid;

	bytes_init();
	sanitizer_find();
	/* Found here, so that no request asks the loader for it. */
	os_vdso();
	os_page_size();
	os_sandbox_read("/proc/self/status");
	pid = os_sandbox_pid();
	os_output_init(pid);
	os_thread_id_find(pid);
	read_options();
	os_limits_read(&limits);
	settle_mode(&limits);
	os_cpus_read(&cpus);
	nr_nodes = os_nodes_read();
	if (SLUB_CONFIG_HARDENED)
		hardened_init();
	if (!SLUB_CONFIG_SMP && cpus.allowed > 1) {
		log_message("uniprocessor build on %u CPUs: staying on one",
			    cpus.allowed);
		os_cpu_pin();
	}
	if (percpu_init() || pagemap_init(&limits) || superblock_init(nr_nodes))
		return start_failed("no address space to start with");
	page_purge_init(&limits);
	block_init(nr_nodes);
	slab_init(nr_nodes);
	if (sizeclass_init())
		return start_failed("no room for the size classes");
	percpu_start(&cpus);
	features_start(nr_nodes);
	malloc_open();
	features_open(&cpus, nr_nodes);
	return true;
}

static cold usual bool core_start(void)
{
	uint32_t now = START_NOT;

	if (__atomic_compare_exchange_n(&state, &now, START_UNDER_WAY, false,
					__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		slub_thread.flags |= THREAD_IN_INIT;
		/* What failed for want of memory may succeed next time. */
		now = start_layers() ? START_DONE : START_NOT;
		slub_thread.flags &= ~(uint32_t)THREAD_IN_INIT;
		__atomic_store_n(&state, now, __ATOMIC_RELEASE);
		return now == START_DONE;
	}
	for (unsigned int i = 0; now == START_UNDER_WAY; i++) {
		/* A handler that interrupted the start gets nothing. */
		if (slub_thread.flags & THREAD_IN_INIT)
			return false;
		sys_wait(i);
		now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
	}
	return now == START_DONE;
}

usual bool slub_start(void)
{
	if (likely(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == START_DONE))
		return true;
	return core_start();
}

/*
 * A fork begins the start itself, unless a thread has, so that no child finds one half done.
 * A thread that asks meanwhile waits; a request in the forking thread gets nothing.
 */
static bool start_is_held;	/* by a fork, which alone writes it */

static cold void start_fork_hold(void)
{
	uint32_t now = START_NOT;

	/* A handler forks in the middle of it: the child goes on with it. */
	if (slub_thread.flags & THREAD_IN_INIT)
		return;
	for (unsigned int i = 0;
	     !__atomic_compare_exchange_n(&state, &now, START_UNDER_WAY, false,
					  __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);
	     i++) {
		if (now == START_DONE)
			return;
		sys_wait(i);
		now = START_NOT;
	}
	slub_thread.flags |= THREAD_IN_INIT;
	start_is_held = true;
}

static cold void start_fork_let_go(void)
{
	if (!start_is_held || !(slub_thread.flags & THREAD_IN_INIT))
		return;
	start_is_held = false;
	slub_thread.flags &= ~(uint32_t)THREAD_IN_INIT;
	__atomic_store_n(&state, START_NOT, __ATOMIC_RELEASE);
}

/*
 * glibc's fork takes the lock of its list of streams after the handlers have
 * run, and a thread that holds it may wait for one that allocates: take it
 * first, as glibc itself does for its malloc.
 */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));
static bool streams_are_held fork_writes;

/*
 * A handler that forked in the middle of this would find that the thread holds some of
 * the locks, and release them before the interrupted fork; and the C library's fork takes
 * locks of its own in between.  So signals wait meanwhile, except those that the thread
 * itself causes, and those that the C library sends to other threads.
 */
#define SIGNAL_BIT(nr) (1ull << ((nr) - 1))
#if defined(__GLIBC__)
#define SIGNALS_OF_LIBC 0
#else
#define SIGNALS_OF_LIBC SIGNAL_BIT(34)	/* musl's, for all threads at once */
#endif
#define SIGNALS_LET_IN (SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGTRAP) |	\
			SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) |	\
			SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGSYS) |	\
			SIGNAL_BIT(32) | SIGNAL_BIT(33) | SIGNALS_OF_LIBC)

/* What was blocked before, as the kernel has it; with THREAD_SIGNALS_WAIT. */
static __thread uint64_t signals_blocked
	__attribute__((tls_model("initial-exec")));

/* In this order: a handler may fork until they are blocked, and the flag is its own then. */
static void signals_hold(void)
{
	uint64_t held = ~SIGNALS_LET_IN, before = 0;

	if (slub_thread.flags & THREAD_SIGNALS_WAIT)
		return;
	sys_call4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&held, (long)&before,
		  sizeof(held));
	signals_blocked = before;
	slub_thread.flags |= THREAD_SIGNALS_WAIT;
}

static void signals_let_in(void)
{
	uint64_t before = signals_blocked;

	if (!(slub_thread.flags & THREAD_SIGNALS_WAIT))
		return;
	slub_thread.flags &= (uint16_t)~THREAD_SIGNALS_WAIT;
	compiler_barrier();
	sys_call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0,
		  sizeof(before));
}

/* This process was forked without one of the locks: LOCK-4. */
static bool is_torn;

static void locks_take(void)
{
	lock_fork_begin_alone();
	percpu_fork_prepare();
	lock_fork(&line_lock, FORK_BEGINS);
	features_fork_prepare();
	slab_fork_prepare();
	page_fork_prepare();
}

static void locks_let_go(bool in_child)
{
	if (in_child && !lock_fork_is_whole()) {
		is_torn = true;
		return;
	}
	lock_fork_release_begin();
	page_fork_finish(in_child);
	slab_fork_finish(in_child);
	lock_fork(&line_lock, fork_end(in_child));
	percpu_fork_finish(in_child);
	features_fork_finish(in_child);
	percpu_fork_let_collect();
	lock_fork_release_end(in_child);
}

static void streams_hold(void)
{
	/* A thread that is the only one starts no other meanwhile: glibc's fork does not either. */
	if (!_IO_list_lock || !_IO_list_unlock || !_IO_list_resetlock || os_is_alone())
		return;
	_IO_list_lock();
	streams_are_held = true;
}

static void streams_let_go(bool in_child)
{
	if (!streams_are_held)
		return;
	streams_are_held = false;
	if (in_child)
		_IO_list_resetlock();
	else
		_IO_list_unlock();
}

/*
 * The holder of a lock may be interrupted by a handler that forks, and waits for the list of
 * streams: so a fork that cannot have a lock in time lets go of everything, that list too, and
 * begins anew.  A fork in such a handler goes on without (LOCK-4).
 */
static void locks_hold(void)
{
	bool interrupted_holder = slub_thread.locks_held;

	streams_hold();
	for (unsigned int round = 0; likely(!is_torn); round++) {
		locks_take();
		if (likely(lock_fork_is_whole()) || interrupted_holder)
			return;
		locks_let_go(false);
		streams_let_go(false);
		lock_fork_pause(round);
		streams_hold();
	}
}

void slub_fork_prepare(void)
{
	signals_hold();
	if (unlikely(__atomic_load_n(&state, __ATOMIC_ACQUIRE) != START_DONE))
		start_fork_hold();
	locks_hold();
}

void slub_fork_finish(bool in_child)
{
	if (in_child) {
		turn_forks++;
		double_word_after_fork();
	}
	if (likely(!is_torn))
		locks_let_go(in_child);
	streams_let_go(in_child);
	if (unlikely(__atomic_load_n(&state, __ATOMIC_RELAXED) != START_DONE))
		start_fork_let_go();
	signals_let_in();
}

static void fork_parent(void)
{
	slub_fork_finish(false);
}

static void fork_child(void)
{
	slub_fork_finish(true);
}

__attribute__((constructor(101)))
static void library_constructor(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	/* Another C library calls it without arguments, and has set `environ`. */
#if defined(__GLIBC__)
	constructor_environment = environment;
#endif
	if (slub_start())
		sanitizer_begin((void *)heap_start, heap_reserved_bytes);
	percpu_thread_init();
	os_alone_find();
	pthread_atfork(slub_fork_prepare, fork_parent, fork_child);
	features_constructed();
}

/* Behind the others, and not where the start has failed: it is tried again. */
__attribute__((constructor(105))) static usual void start_words_close(void)
{
	if (__atomic_load_n(&state, __ATOMIC_RELAXED) == START_DONE)
		start_only_close();
}

__attribute__((destructor))
static void library_destructor(void)
{
	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != START_DONE || is_torn)
		return;
	misuse_exit(true);
	suspect_lists();
	if (SLUB_CONFIG_HARDENED)
		hardened_finish();
	features_end();
	misuse_exit(false);
}
