/* SPDX-License-Identifier: MIT */
/*
 * Reacting to memory pressure: a bounded walk per event, with more pressure the
 * longer it lasts.
 */
#define _GNU_SOURCE
#include "features/pressure/pressure.h"

#include "core/base/turn.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define WALK_NS 100000000u
#define WALK_INTERVAL_NS 50000000u
/* After so long a quiet time it begins anew. */
#define QUIET_NS 10000000000u
#define PRIORITY_STEP 2
/* A walk that gave back this share, and so much, was enough: do no more. */
#define ENOUGH_SHARE 32
#define ENOUGH_BYTES ((size_t)1 << 20)
/* From here on objects are moved, too. */
#define PRIORITY_MOVE 8

static struct turn opening;	/* one thread at a time opens, or handles */
static int epoll_fd = -1;	/* changed under `opening` */
static struct source sources[SOURCES_MAX] rarely_touched;
static int nr_sources;

static struct slub_pressure_stats stats;
/* under `opening` */
static int priority = SLUB_SHRINK_PRIORITY_MAX;
static uint64_t last_walk_ns;
static bool was_enough;		/* what the last walk gave back */

/* Returns how many of @nr sources can be watched; those that cannot go (a plain file). */
static int watch(int fd, int nr)
{
	int nr_watched = 0;

	for (int i = 0; i < nr; i++) {
		struct source *source = &sources[i];
		struct epoll_event event = { .events = source->poll_events };

		if (sys_call4(SYS_epoll_ctl, fd, EPOLL_CTL_ADD, source->fd,
			      (long)&event)) {
			log_message("memory pressure: source 0x%x cannot be watched",
				    source->kind);
			sources_close(source, 1);
			continue;
		}
		__atomic_fetch_or(&stats.sources, source->kind, __ATOMIC_RELAXED);
		sources[nr_watched++] = *source;
	}
	return nr_watched;
}

/* @min: the number that the descriptor gets if it is free, or a higher one. */
static int open_all(int min)
{
	int fd = (int)sys_call4(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return fd;
	fd = descriptor_keep(fd, min);
	nr_sources = watch(fd, sources_open(sources));
	if (!nr_sources) {
		close_fd(fd);
		return -ENOENT;
	}
	__atomic_store_n(&epoll_fd, fd, __ATOMIC_RELEASE);
	return fd;
}

/* What the program has closed, or given to others, is left alone. */
static void close_all(void)
{
	int fd = epoll_fd;

	__atomic_store_n(&epoll_fd, -1, __ATOMIC_RELEASE);
	descriptor_close(fd);
	sources_close(sources, nr_sources);
	nr_sources = 0;
}

/* Under `opening`: are all descriptors what they were?  DESCRIPTOR-1 */
static bool is_whole(void)
{
	for (int i = 0; i < nr_sources; i++) {
		if (!source_is_whole(&sources[i]))
			return false;
	}
	return descriptor_is_kept(epoll_fd);
}

/* Under its old number, if that is free: the program may poll it. */
static int open_anew(void)
{
	static bool is_said;
	int number = epoll_fd;

	if (!is_said)
		log_message("memory pressure: the program closed descriptors of "
			    "this library; they are opened anew");
	is_said = true;
	close_all();
	__atomic_store_n(&stats.sources, 0, __ATOMIC_RELAXED);
	return open_all(number);
}

SLUB_EXPORT int slub_pressure_fd(void)
{
	int fd = __atomic_load_n(&epoll_fd, __ATOMIC_ACQUIRE);

	if (slub_thread.locks_held || !slub_start() || !turn_try(&opening))
		return fd >= 0 ? fd : slub_thread.locks_held ? -EDEADLK : -EAGAIN;
	fd = epoll_fd;
	if (fd < 0)
		fd = open_all(DESCRIPTOR_MIN);
	else if (!is_whole())
		fd = open_anew();
	turn_end(&opening);
	return fd;
}

/*
 * Looks at all sources; returns how many had an event.  One that is over would be ready
 * for ever, and the thread never sleep: it is watched no more.  It stays open, and what is
 * watched stands in the statistics, until a fork or the end.
 */
static int read_events(enum severity *worst)
{
	int events = 0;

	for (int i = 0; i < nr_sources; i++) {
		enum severity said = SEVERITY_NONE;

		if (sources[i].is_over)
			continue;
		said = source_look(&sources[i]);
		if (sources[i].is_over)
			sys_call4(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_DEL,
				  sources[i].fd, 0);
		events += said != SEVERITY_NONE;
		if (said > *worst)
			*worst = said;
	}
	return events;
}

/* The longer it lasts in vain, the more. */
static void choose_priority(enum severity worst, uint64_t now)
{
	static const int first[] = { SLUB_SHRINK_PRIORITY_MAX, 8, 4, 2 };

	if (!last_walk_ns || now - last_walk_ns > QUIET_NS)
		priority = SLUB_SHRINK_PRIORITY_MAX;
	else if (was_enough)
		priority = (int)min_size((size_t)priority + PRIORITY_STEP,
					 SLUB_SHRINK_PRIORITY_MAX);
	else if (priority >= PRIORITY_STEP)
		priority -= PRIORITY_STEP;
	else
		priority = 0;
	if (priority > first[worst])
		priority = first[worst];
}

static void walk(enum severity worst, uint64_t now)
{
	struct reclaim_result result;

	choose_priority(worst, now);
	result = reclaim_for(priority, WALK_NS);
	if (priority <= PRIORITY_MOVE)
		result.bytes += reclaim_move(now + WALK_NS);
	was_enough = result.bytes >= max_size(reclaim_used() / ENOUGH_SHARE,
					      ENOUGH_BYTES);
	last_walk_ns = os_clock_ns();
	__atomic_store_n(&stats.priority, priority, __ATOMIC_RELAXED);
	reclaim_count(&stats.walks, 1);
	reclaim_count(&stats.cut_short, result.is_cut_short);
	reclaim_count(&stats.objects, result.objects);
	reclaim_count(&stats.bytes, result.bytes);
	log_message("memory pressure: priority %d, %lu objects and %lu bytes "
		    "freed", priority, result.objects, result.bytes);
}

static int handle_lost(void)
{
	int number = epoll_fd, fd = open_anew();

	if (fd < 0)
		return -EINVAL;
	return fd == number ? 0 : -EBADF;
}

SLUB_EXPORT int slub_pressure_handle(void)
{
	enum severity worst = SEVERITY_NONE;
	uint64_t now;
	int events;

	if (__atomic_load_n(&epoll_fd, __ATOMIC_ACQUIRE) < 0)
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!turn_try(&opening))
		return 0;
	if (unlikely(!is_whole())) {
		events = handle_lost();
		turn_end(&opening);
		return events;
	}
	events = read_events(&worst);
	now = os_clock_ns();
	reclaim_count(&stats.events, (uint64_t)events);
	if (events && last_walk_ns && now - last_walk_ns < WALK_INTERVAL_NS)
		reclaim_count(&stats.merged, (uint64_t)events);
	else if (events)
		walk(worst, now);
	turn_end(&opening);
	return events;
}

SLUB_EXPORT int slub_pressure_stats(struct slub_pressure_stats *out)
{
	if (!out)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	out->sources = __atomic_load_n(&stats.sources, __ATOMIC_RELAXED);
	out->priority = __atomic_load_n(&stats.priority, __ATOMIC_RELAXED);
	out->events = __atomic_load_n(&stats.events, __ATOMIC_RELAXED);
	out->merged = __atomic_load_n(&stats.merged, __ATOMIC_RELAXED);
	out->walks = __atomic_load_n(&stats.walks, __ATOMIC_RELAXED);
	out->cut_short = __atomic_load_n(&stats.cut_short, __ATOMIC_RELAXED);
	out->objects = __atomic_load_n(&stats.objects, __ATOMIC_RELAXED);
	out->bytes = __atomic_load_n(&stats.bytes, __ATOMIC_RELAXED);
	return 0;
}

/* -1: it is not the library's any more, which slub_pressure_handle() sees to. */
static int fd_to_poll(void)
{
	int fd = __atomic_load_n(&epoll_fd, __ATOMIC_ACQUIRE);

	if (fd < 0 || !turn_try(&opening))
		return fd;
	if (!descriptor_is_kept(epoll_fd))
		fd = -1;
	turn_end(&opening);
	return fd;
}

/* ---- the thread, if somebody asks for it ---- */

/* Two looks, and it is back within a second. */
#define IDLE_NS 300000000l
/* Between two parts of what another process asks for. */
#define SERVE_PAUSE_NS 1000000l

enum thread_state_now { THREAD_NONE, THREAD_STARTING, THREAD_RUNS, THREAD_ENDS };

static uint32_t thread_state;
static pthread_t thread;
static uint32_t thread_number;	/* thread_self() of that thread, while it runs */
/* const while the thread runs */
static int wake_fd = -1;

static bool is_to_end(void)
{
	return __atomic_load_n(&thread_state, __ATOMIC_ACQUIRE) == THREAD_ENDS;
}

/* -1: the program closed it, so a thread that stops this one waits until it looks. */
static int wake_fd_kept(void)
{
	return descriptor_is_kept(wake_fd) ? wake_fd : -1;
}

/* Waits for an event or a wake-up; false: IDLE_NS have passed. */
static bool pressure_wait(void)
{
	struct pollfd fds[2] = { { wake_fd_kept(), POLLIN, 0 },
				 { fd_to_poll(), POLLIN, 0 } };
	struct timespec timeout = { 0, IDLE_NS };

	return sys_call6(SYS_ppoll, (long)fds, 2, (long)&timeout, 0, 8, 0) > 0;
}

/* features/watch/watch.h: of a later layer, so this one alone has none. */
bool debug_mailbox_serve(void) __attribute__((weak, visibility("hidden")));

/* What other processes ask for (features/debug/mailbox.h), which an idle program would not see. */
static void serve(void)
{
	while (debug_mailbox_serve && debug_mailbox_serve() && !is_to_end())
		sys_sleep_ns(SERVE_PAUSE_NS);
}

/*
 * Programs close all descriptors there are (closefrom(3) of a daemon): poll() returns
 * at once then, for ever.  So a thread that was woken for nothing sleeps without them.
 */
static void *thread_main(void *unused)
{
	(void)unused;
	__atomic_store_n(&thread_number, thread_self(), __ATOMIC_RELAXED);
	while (!is_to_end()) {
		bool is_woken = pressure_wait();

		serve();
		if (slub_pressure_handle() > 0)
			continue;
		reclaim_idle();
		if (is_woken && !is_to_end())
			sys_sleep_ns(IDLE_NS);
	}
	/* A later thread may get its stack, and so its number. */
	__atomic_store_n(&thread_number, 0, __ATOMIC_RELAXED);
	return NULL;
}

static int thread_make(void)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	/* For this thread alone, as pthread_sigmask(3), which came to libc.so.6 with glibc 2.32. */
	sigprocmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, thread_main, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
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

	if (!__atomic_compare_exchange_n(&thread_state, &none, THREAD_STARTING, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return -EEXIST;
	err = start();
	/* release: pairs with the acquire in stop */
	__atomic_store_n(&thread_state, err ? THREAD_NONE : THREAD_RUNS,
			 __ATOMIC_RELEASE);
	return err;
}

SLUB_EXPORT int slub_pressure_stop_thread(void)
{
	uint32_t runs = THREAD_RUNS;
	uint64_t one = 1;

	/* A shrinker that the thread calls: it would wait for itself to end. */
	if (slub_thread.locks_held ||
	    __atomic_load_n(&thread_number, __ATOMIC_RELAXED) == thread_self())
		return -EDEADLK;
	if (!__atomic_compare_exchange_n(&thread_state, &runs, THREAD_ENDS, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return -ESRCH;
	sys_call4(SYS_write, wake_fd_kept(), (long)&one, sizeof(one), 0);
	pthread_join(thread, NULL);
	descriptor_close(wake_fd);
	wake_fd = -1;
	__atomic_store_n(&thread_state, THREAD_NONE, __ATOMIC_RELEASE);
	return 0;
}

usual void pressure_start(void)
{
	if (pressure_options.wants_thread && slub_pressure_start_thread())
		log_message("option pressure: no thread could be started");
}

/* The sources are the parent's: what one reads the other misses. */
usual void pressure_fork_child(void)
{
	/* A write would be a page fault. */
	if (unlikely(thread_state != THREAD_NONE)) {
		thread_state = THREAD_NONE;
		thread_number = 0;
	}
	if (wake_fd >= 0) {
		descriptor_close(wake_fd);
		wake_fd = -1;
	}
	if (epoll_fd < 0)
		return;
	close_all();
	memset(&stats, 0, sizeof(stats));
}

/* ---- SLUB_PRESSURE ---- */

static bool parse_number(const char **s, const char *name, uint32_t *out)
{
	size_t n = strlen(name), value;
	const char *digits = *s + n + 1;

	if (strncmp(*s, name, n) || (*s)[n] != '=' ||
	    *digits < '0' || *digits > '9')
		return false;
	value = os_parse_number(&digits);
	if (value < 1 || value > 10000000 || (*digits && *digits != ','))
		return false;
	*out = (uint32_t)value;
	*s = digits;
	return true;
}

static void complain(const char *s)
{
	char buf[NEAREST_BYTES];
	const char *near = option_nearest("off|thread|some|full|window", s,
					  strcspn(s, "=,"), buf);

	log_complaint("option pressure: '%s' is not known; valid: off, thread, "
		    "some=US, full=US, window=US, with US from 1 to 10000000%s%s%s"
		    "; using the default", s, near ? "; nearest is '" : "",
		    near ? near : "", near ? "'" : "");
}

bool pressure_configure(const char *s)
{
	struct pressure_options options = pressure_options;

	if (!*s)
		return true;
	do {
		if (!strncmp(s, "off", 3) && (!s[3] || s[3] == ',')) {
			options.wants_thread = false;
			s += 3;
		} else if (!strncmp(s, "thread", 6) && (!s[6] || s[6] == ',')) {
			options.wants_thread = true;
			s += 6;
		} else if (!parse_number(&s, "some", &options.some_us) &&
			   !parse_number(&s, "full", &options.full_us) &&
			   !parse_number(&s, "window", &options.window_us)) {
			complain(s);
			return false;
		}
	} while (*s++ == ',');
	pressure_options = options;
	return true;
}
