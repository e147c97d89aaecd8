/* SPDX-License-Identifier: MIT */
/* The thread that waits for memory pressure, if somebody asks for it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "reclaim/pressure/pressure.h"

/* Two looks, and it is back within a second. */
#define IDLE_MS 300

enum thread_state_now { THREAD_NONE, THREAD_STARTING, THREAD_RUNS, THREAD_ENDS };

static uint32_t state;
static pthread_t thread;
/* const while the thread runs */
static int wake_fd = -1;

static bool is_to_end(void)
{
	return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == THREAD_ENDS;
}

/* -1: the program closed it, so a thread that stops this one waits until it looks. */
static int wake_fd_kept(void)
{
	return descriptor_is_kept(wake_fd) ? wake_fd : -1;
}

/*
 * Programs close all descriptors there are (closefrom(3) of a daemon): poll() returns
 * at once then, for ever.  So a thread that was woken for nothing sleeps without them.
 */
static void *thread_main(void *unused)
{
	(void)unused;
	while (!is_to_end()) {
		bool is_woken = pressure_wait(wake_fd_kept(), true, IDLE_MS);

		if (slub_pressure_handle() > 0)
			continue;
		reclaim_idle();
		if (is_woken && !is_to_end())
			pressure_wait(-1, false, IDLE_MS);
	}
	return NULL;
}

static int thread_make(void)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, thread_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err ? -EAGAIN : 0;
}

static int start(void)
{
	int fd = slub_pressure_fd();
	int err;

	if (fd < 0 && fd != -ENOENT)
		return fd;
	wake_fd = (int)sys_call4(SYS_eventfd2, 0, EFD_CLOEXEC, 0, 0);
	if (wake_fd < 0)
		return wake_fd;
	wake_fd = descriptor_keep(wake_fd, DESCRIPTOR_MIN);
	err = thread_make();
	if (err) {
		close_fd(wake_fd);
		wake_fd = -1;
	}
	return err;
}

SLUB_EXPORT int slub_pressure_start_thread(void)
{
	uint32_t none = THREAD_NONE;
	int err;

	if (!__atomic_compare_exchange_n(&state, &none, THREAD_STARTING, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return -EEXIST;
	err = start();
	/* release: pairs with the acquire in stop */
	__atomic_store_n(&state, err ? THREAD_NONE : THREAD_RUNS,
			 __ATOMIC_RELEASE);
	return err;
}

SLUB_EXPORT int slub_pressure_stop_thread(void)
{
	uint32_t runs = THREAD_RUNS;
	uint64_t one = 1;

	if (!__atomic_compare_exchange_n(&state, &runs, THREAD_ENDS, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return -ESRCH;
	sys_call4(SYS_write, wake_fd_kept(), (long)&one, sizeof(one), 0);
	pthread_join(thread, NULL);
	descriptor_close(wake_fd);
	wake_fd = -1;
	__atomic_store_n(&state, THREAD_NONE, __ATOMIC_RELEASE);
	return 0;
}

usual void pressure_thread_fork_child(void)
{
	state = THREAD_NONE;
	if (wake_fd >= 0)
		descriptor_close(wake_fd);
	wake_fd = -1;
}

usual void pressure_start(void)
{
	if (pressure_options.wants_thread && slub_pressure_start_thread())
		log_message("option pressure: no thread could be started");
}
