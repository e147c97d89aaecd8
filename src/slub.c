/* SPDX-License-Identifier: MIT */
/*
 * The composition root: the only file that names every layer.  It starts them
 * in order, takes their locks around fork, and says good-bye at exit.
 *
 * Start happens in the first call that needs the slow path, which may come
 * before any constructor has run; what has to wait for the C library (fork
 * handlers, the thread-exit key) is done by a constructor.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "inspect/inspect.h"

enum start_state { START_NOT, START_UNDER_WAY, START_DONE, START_FAILED };

static _Atomic uint32_t state;

static void read_options(void)
{
	static char buf[16384];
	static char *table[512];

	if (os_is_secure())
		return;
	option_read(os_environment(buf, sizeof(buf), table,
				   ARRAY_SIZE(table)));
}

static bool start_layers(void)
{
	struct os_limits limits;
	struct os_cpus cpus;
	uint32_t nr_nodes;

	read_options();
	os_limits_read(&limits);
	os_cpus_read(&cpus);
	nr_nodes = os_nodes_read();
	if (!SLUB_CONFIG_SMP && cpus.allowed > 1) {
		log_message("uniprocessor build on %u CPUs: staying on one",
			    cpus.allowed);
		os_cpu_pin();
	}
	if (pagemap_init(&limits, cpus.possible)) {
		log_message("no address space to reserve; allocations fail");
		return false;
	}
	superblock_init();
	page_purge_init(&limits);
	block_init(nr_nodes);
	slab_init(nr_nodes, &cpus);
	if (sizeclass_init() || emergency_init()) {
		log_message("no memory to start with; allocations fail");
		return false;
	}
	percpu_start(&cpus);
	malloc_open();
	abi_publish(&cpus, nr_nodes);
	return true;
}

static cold bool start(void)
{
	uint32_t now = START_NOT;

	if (__atomic_compare_exchange_n(&state, &now, START_UNDER_WAY, false,
					__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		slub_thread.flags |= THREAD_IN_INIT;
		now = start_layers() ? START_DONE : START_FAILED;
		slub_thread.flags &= ~(uint32_t)THREAD_IN_INIT;
		__atomic_store_n(&state, now, __ATOMIC_RELEASE);
		return now == START_DONE;
	}
	/* A handler that interrupted the start gets nothing. */
	while (now == START_UNDER_WAY &&
	       !(slub_thread.flags & THREAD_IN_INIT)) {
		sys_call4(SYS_sched_yield, 0, 0, 0, 0);
		now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
	}
	return now == START_DONE;
}

bool slub_start(void)
{
	if (likely(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == START_DONE))
		return true;
	return start();
}

/* By LOCK-1 nobody who is waited for here waits for one of these. */
void slub_fork_prepare(void)
{
	percpu_fork_prepare();
	slab_fork_prepare();
	page_fork_prepare();
}

void slub_fork_finish(bool in_child)
{
	page_fork_finish(in_child);
	slab_fork_finish(in_child);
	percpu_fork_finish(in_child);
	if (in_child)
		abi_update();
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
static void library_constructor(void)
{
	if (!slub_start())
		return;
	percpu_thread_init();
	pthread_atfork(slub_fork_prepare, fork_parent, fork_child);
}

__attribute__((destructor))
static void library_destructor(void)
{
	const char *path = option_text(OPTION_slabinfo);

	if (state != START_DONE || !path)
		return;
	if (slabinfo_write(path))
		log_message("option slabinfo: cannot write '%s'", path);
}
