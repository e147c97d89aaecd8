/* SPDX-License-Identifier: MIT */
/*
 * api_storm: what is not about single objects.  Groups with limits and handlers, pressure, the
 * reserve, shrinkers that come and go in callbacks, words of the CPUs, traces; and what happens
 * to a thread: signals, other CPUs, an end in the middle, libraries that come and go.
 */
#include "api_storm.h"

#include <dlfcn.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

static struct slub_group *tenant, *tenants[2];	/* the first is above the others */
static uintptr_t word, word32;

/* ---- groups ---- */

static bool handle_limit(struct slub_group *group, size_t bytes, void *arg)
{
	void *block;

	(void)arg;
	if (slub_group_enter(tenants[0]))
		return false;
	block = malloc(bytes % 2000);
	if (slub_group_leave(tenants[0]))
		fire_fail("a handler cannot leave its group");
	free(block);
	malloc_trim(0);
	return slub_group_limit_get(group, SLUB_GROUP_MAX) < bytes;
}

static int visit_group(struct slub_group *group, void *arg)
{
	struct slub_group_stats stats;

	/* One that is deleted meanwhile may be visited. */
	if (!slub_group_stats(group, &stats) && stats.depth > SLUB_GROUP_DEPTH_MAX)
		fire_fail("a group in the depth of %u", stats.depth);
	return ++*(int *)arg > 50;
}

static void take_limits(struct thread *t)
{
	struct slub_group *group = tenants[below(t, 2)];
	struct slub_group_memory memory;
	int seen = 0;

	switch (below(t, 6)) {
	case 0:
		check_is(slub_group_limit_set(group, SLUB_GROUP_MAX,
					      below(t, 2) ? SLUB_GROUP_NO_LIMIT :
							    20000 + below(t, 200000)),
			 0, -EBUSY, "slub_group_limit_set");
		break;
	case 1:
		check_is(slub_group_limit_set(group, SLUB_GROUP_LOW, below(t, 100000)), 0, 0,
			 "slub_group_limit_set");
		break;
	case 2:
		check_is(slub_group_handler_set(group, below(t, 2) ? handle_limit : NULL, NULL),
			 0, 0, "slub_group_handler_set");
		break;
	case 3:
		if (!below(t, 20))
			check_is(slub_group_memory(group, &memory), 0, 0,
				 "slub_group_memory");
		break;
	case 4:
		slub_group_for_each(visit_group, &seen);
		break;
	case 5:
		if (slub_group_current() && !slub_group_root())
			fire_fail("in a group without a root");
		break;
	}
}

/* A thread in one of the groups that all share, in which memory may be refused. */
static void take_tenant(struct thread *t)
{
	struct slub_group *group = tenants[below(t, 2)];
	void *some[30];
	size_t nr = below(t, 30), bytes = below(t, 60000);
	uint32_t token;

	check_is(slub_group_enter(group), 0, 0, "slub_group_enter");
	for (size_t i = 0; i < nr; i++)
		some[i] = below(t, 3) ? malloc(8 + below(t, 3000)) : slub_cache_alloc(shared);
	token = slub_group_charge(below(t, 2) ? group : NULL, bytes);
	if (below(t, 2))
		check_is(slub_group_leave(group), 0, 0, "slub_group_leave");
	slub_cache_free_bulk(NULL, nr, some);
	if (token) {
		slub_group_uncharge(token, bytes / 2);
		slub_group_uncharge(token, bytes - bytes / 2);
	}
	if (slub_group_current() == group)
		check_is(slub_group_leave(group), 0, 0, "slub_group_leave");
}

/* A group below another that ends while something is charged to it. */
static void take_orphan(struct thread *t)
{
	struct slub_group *group = slub_group_create("orphan", tenants[below(t, 2)]);
	struct head *heads[6];
	size_t size = 500;

	if (!group && is_refused("a group below another"))
		return;
	check_is(slub_group_enter(group), 0, 0, "slub_group_enter");
	for (int i = 0; i < 6; i++) {
		heads[i] = malloc(size);
		if (heads[i])
			object_mark(t, heads[i], size, NULL);
	}
	if (below(t, 2)) {
		check_is(slub_group_leave(group), 0, 0, "slub_group_leave");
		check_is(slub_group_destroy(group), 0, 0, "slub_group_destroy");
	} else {
		check_is(slub_group_destroy(group), 0, 0, "slub_group_destroy");
		check_is(slub_group_leave(group), 0, 0, "slub_group_leave");
	}
	for (int i = 0; i < 6; i++) {
		if (below(t, 4) || !heads[i])
			object_free(heads[i]);
		else
			object_keep(t, heads[i]);
	}
}

/* ---- memory is short ---- */

static void take_pressure(struct thread *t)
{
	struct slub_pressure_stats stats;
	struct pollfd ready = { -1, POLLIN, 0 };
	int err;

	switch (below(t, 4)) {
	case 0:
		err = slub_pressure_start_thread();
		if (err != -EAGAIN && err != -EEXIST)
			is_refused_err(err, "slub_pressure_start_thread");
		break;
	case 1:
		check_is(slub_pressure_stop_thread(), 0, -ESRCH, "slub_pressure_stop_thread");
		break;
	case 2:
		slub_pressure_stats(&stats);
		break;
	case 3:
		ready.fd = slub_pressure_fd();
		if (ready.fd >= 0 && poll(&ready, 1, 0) >= 0)
			slub_pressure_handle();
		break;
	}
}

static void take_reserve(struct thread *t)
{
	size_t size = slub_cache_size(shared);

	if (!below(t, 4))
		check_is(slub_reserve_set(below(t, 8) * 65536), 0, -ENOMEM, "slub_reserve_set");
	slub_reserve_enter();
	for (size_t i = below(t, 10); i; i--)
		take_malloc(t);
	object_keep(t, object_mark(t, slub_cache_alloc_flags(shared, SLUB_ALLOC_RESERVE), size,
			shared));
	slub_reserve_leave();
	if (slub_reserve_bytes() > 1ul << 40)
		fire_fail("a reserve of %zu bytes", slub_reserve_bytes());
}

/* A shrinker that makes and ends others, and at times itself, in its callbacks. */
struct busy {
	struct slub_shrinker shrinker;
	struct slub_shrinker other;
	_Atomic enum { IDLE, INSIDE, ENDING, ENDED } state;
	bool ends;
};

static size_t busy_scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	free(malloc(3000));
	(void)shrinker;
	return control->nr_to_scan;
}

static size_t busy_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	struct busy *busy = shrinker->data;
	int idle = IDLE;

	(void)control;
	if (!atomic_compare_exchange_strong(&busy->state, &idle, busy->ends ? ENDING : INSIDE))
		return 20;
	check_is(slub_shrinker_create(&busy->other), 0, 0, "registering in a callback");
	check_is(slub_shrinker_destroy(&busy->other), 0, 0, "unregistering in a callback");
	if (!busy->ends) {
		atomic_store(&busy->state, IDLE);
		return 20;
	}
	check_is(slub_shrinker_destroy(shrinker), 0, -EINVAL, "a callback that ends itself");
	atomic_store(&busy->state, ENDED);
	return 0;
}

static size_t idle_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return SLUB_SHRINK_EMPTY;
}

static int visit_shrinker(struct slub_shrinker *shrinker, void *arg)
{
	(void)arg;
	return !shrinker->count;
}

/* Not on the stack: in a child another thread's stack becomes a third one's. */
static void take_busy(struct thread *t)
{
	struct busy *busy = t->busy ? t->busy : malloc(sizeof(*busy));
	struct slub_shrinker *shrinker = &busy->shrinker;

	if (!busy && is_refused("a busy shrinker"))
		return;
	t->busy = busy;
	memset(busy, 0, sizeof(*busy));
	busy->other.name = shrinker->name = t->name;
	busy->other.scan = shrinker->scan = busy_scan;
	busy->other.count = idle_count;
	shrinker->count = busy_count;
	shrinker->data = busy;
	shrinker->seeks = SLUB_SHRINKER_SEEKS;
	shrinker->flags = below(t, 2) ? SLUB_SHRINKER_GROUP_AWARE : 0;
	busy->ends = below(t, 2);
	check_is(slub_shrinker_create(shrinker), 0, 0, "slub_shrinker_create");
	if (shrinker->flags) {
		slub_shrinker_mark(shrinker, tenants[0], 0);
		slub_shrinker_mark(shrinker, NULL, 0);
	}
	check_is(slub_shrinker_for_each(visit_shrinker, NULL), 0, 0, "slub_shrinker_for_each");
	if (below(t, 2))
		slub_shrink((int)below(t, 4));
	check_is(slub_shrinker_destroy(shrinker), 0, -EINVAL, "slub_shrinker_destroy");
	/* The callback that ended it may be in another thread, and wait for a third. */
	while (atomic_load(&busy->state) == ENDING)
		sched_yield();
}

/* ---- words, sections, traces ---- */

static void take_words(struct thread *t)
{
	int64_t found = slub_percpu_read(word);
	int32_t sum = 0;

	slub_percpu_cmpxchg(word, found, found);
	slub_percpu_cmpxchg32(word32, 0, 0);
	for (size_t i = below(t, 50); i; i--) {
		int32_t n = (int32_t)below(t, 100);

		slub_percpu_add32(word32, n);
		slub_percpu_add_return(word, n);
		sum += n;
	}
	slub_percpu_add32(word32, -sum);
	slub_percpu_add(word, -sum);
	slub_percpu_sum32(word32);
	slub_percpu_for_each(cpu)
		if (!slub_percpu_ptr(word, (unsigned int)cpu))
			fire_fail("CPU %d has an area and no copy", cpu);
	if (slub_percpu_bytes() < 12 || !slub_percpu_cpus())
		fire_fail("%zu bytes of CPUs", slub_percpu_bytes());
}

static void take_poll(struct thread *t)
{
	static struct slub_srcu domain = SLUB_SRCU_INIT;
	uint64_t cookie = slub_srcu_start_poll(&domain);
	int index = slub_srcu_read_lock(&domain);

	take_malloc(t);
	slub_srcu_poll(&domain, cookie);
	slub_srcu_read_unlock(&domain, index);
	while (!t->is_child && below(t, 2) && !slub_srcu_poll(&domain, cookie))
		sched_yield();
	if (slub_deferred_pending() > 1ul << 40)
		fire_fail("%zu deferred frees", slub_deferred_pending());
}

static int visit_trace(const struct slub_trace *trace, void *arg)
{
	(void)arg;
	return trace->count > 1ul << 40;
}

static void take_traces(struct thread *t)
{
	int err;

	switch (below(t, 6)) {
	case 0:
		err = slub_cache_debug(shared, below(t, 2) ? SLUB_CACHE_STORE_USER : 0);
		if (err != -EBUSY)
			is_refused_err(err, "slub_cache_debug");
		break;
	case 1:
		err = slub_cache_alloc_traces(shared, visit_trace, NULL);
		if (err != -EINVAL)
			is_refused_err(err, "slub_cache_alloc_traces");
		break;
	case 2:
		err = slub_cache_free_traces(NULL, visit_trace, NULL);
		if (err != -EINVAL)
			is_refused_err(err, "slub_cache_free_traces");
		break;
	case 3:
		slub_leaks_write("/dev/null");
		break;
	case 4:
		err = slub_profile_write("/dev/null");
		if (err != -EINVAL)
			is_refused_err(err, "slub_profile_write");
		break;
	case 5:
		check_is((long)slub_cache_errors(shared), 0, 0, "lines about the shared cache");
		break;
	}
}

/* ---- what happens to threads ---- */

static void handle(int signal)
{
	int saved = errno, index;
	struct head *head;
	char *block, *moved;

	(void)signal;
	index = slub_srcu_read_lock(&slub_rcu_domain);
	block = malloc(700);
	if (block)
		memset(block, 1, 700);
	head = slub_cache_alloc(shared);
	if (head)
		memset(head, 2, 100);
	slub_percpu_add(word, 5);
	if (!slub_group_enter(tenants[1])) {
		free(malloc(100));
		if (slub_group_leave(tenants[1]))
			fire_fail("a signal handler cannot leave its group");
	}
	slub_percpu_add(word, -5);
	slub_cache_free(shared, head);
	moved = realloc(block, 5000);
	free(moved ? moved : block);
	slub_srcu_read_unlock(&slub_rcu_domain, index);
	errno = saved;
}

static void take_signal(struct thread *t)
{
	if (t->is_child)
		raise(SIGUSR1);
	else
		pthread_kill(thread_id(thread_any(t)), SIGUSR1);
}

static void take_affinity(struct thread *t)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	CPU_ZERO(&one);
	CPU_SET(below(t, 64), &one);
	CPU_AND(&one, &one, &all);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
	for (int i = 0; i < 8; i++)
		take_malloc(t);
	sched_setaffinity(0, sizeof(all), &all);
}

static pthread_key_t key;

/* Runs after others' destructors as well: the library's own may be through. */
static void end_again(void *arg)
{
	uintptr_t rounds = (uintptr_t)arg;

	free(malloc(100));
	slub_cache_free(shared, slub_cache_alloc(shared));
	slub_percpu_add(word, 1);
	slub_percpu_add(word, -1);
	if (rounds > 1)
		pthread_setspecific(key, (void *)(rounds - 1));
}

static void *be_cancelled(void *arg)
{
	struct thread *t = arg;

	pthread_setspecific(key, (void *)3);
	for (;;) {
		take_malloc(t);
		free(malloc(200));
		pthread_testcancel();
	}
	return NULL;
}

static void *leave_early(void *arg)
{
	struct thread *t = arg;

	pthread_setspecific(key, (void *)2);
	take_malloc(t);
	pthread_exit(NULL);
}

static void take_end(struct thread *t)
{
	bool cancelled = below(t, 2);
	pthread_t id;

	/* The dynamic linker's lists may be half changed there: nothing to unwind by. */
	if (t->is_child)
		return;
	if (!is_thread(pthread_create(&id, NULL, cancelled ? be_cancelled : leave_early, t)))
		return;
	if (cancelled)
		pthread_cancel(id);
	pthread_join(id, NULL);
}

static const char *const names[] = { "libstdc++.so.6", "libresolv.so.2", "libm.so.6" };

static void take_library(struct thread *t)
{
	void *library = NULL;

	/* Without memory for a unique symbol, of which libstdc++ has some, glibc gives up. */
	if (!t->is_child && !is_refusing())
		library = dlopen(names[below(t, 3)], below(t, 2) ? RTLD_NOW : RTLD_LAZY);
	take_malloc(t);
	if (library)
		dlclose(library);
}

static void take_vfork(struct thread *t)
{
	pid_t child = vfork();

	if (child == 0) {
		free(malloc(300));
		_exit(0);
	}
	if (child < 0)
		fire_fail("vfork: errno %d", errno);
	check_is(fire_wait(child, STORM_HUNG_SECONDS), 0, 0, "the vfork child's status");
	take_malloc(t);
}

static void take_report(struct thread *t)
{
	struct mallinfo2 info = mallinfo2();
	FILE *file = below(t, 2) ? fopen("/dev/null", "w") : NULL;

	if (info.uordblks > info.arena + info.hblkhd + (1ul << 30))
		fire_fail("%zu bytes in use", info.uordblks);
	if (!file)
		return;
	malloc_info(0, file);
	fclose(file);
}

const struct step other_steps[] = {
	{ "limits", take_limits, 8 },	{ "tenant", take_tenant, 25 },
	{ "orphan", take_orphan, 8 },	{ "pressure", take_pressure, 4 },
	{ "reserve", take_reserve, 10 }, { "busy", take_busy, 6 },
	{ "words", take_words, 30 },	{ "poll", take_poll, 10 },
	{ "traces", take_traces, 6 },	{ "signal", take_signal, 60 },
	{ "affinity", take_affinity, 10 }, { "end", take_end, 4 },
	{ "library", take_library, 2 },	{ "vfork", take_vfork, 2 },
	{ "report", take_report, 2 },
	{ NULL, NULL, 0 },
};

/* The first never leaves again, with what it allocates: it shall be there before any storm. */
void others_load(void)
{
	dlopen(names[0], RTLD_NOW);
}

void others_start(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };

	tenant = slub_group_create("tenant", NULL);
	tenants[0] = slub_group_create("tenant-0", tenant);
	tenants[1] = slub_group_create("tenant-1", tenant);
	word = slub_percpu_alloc(8, 8);
	word32 = slub_percpu_alloc(4, 4);
	if (!tenants[0] || !tenants[1] || !word || !word32 ||
	    pthread_key_create(&key, end_again) || sigaction(SIGUSR1, &action, NULL))
		fire_fail("no groups or words for all, errno %d", errno);
}

void others_end(void)
{
	struct slub_group_stats stats;

	check_is(slub_percpu_sum(word), 0, 0, "the sum of a word");
	check_is(slub_percpu_sum32(word32), 0, 0, "the sum of a half word");
	slub_percpu_free(word);
	slub_percpu_free(word32);
	pthread_key_delete(key);
	check_is(slub_group_stats(tenant, &stats), 0, 0, "slub_group_stats");
	if (stats.usage)
		fire_fail("the tenants still have %zu bytes", stats.usage);
	check_is(slub_group_destroy(tenants[0]), 0, 0, "slub_group_destroy");
	check_is(slub_group_destroy(tenants[1]), 0, 0, "slub_group_destroy");
	check_is(slub_group_destroy(tenant), 0, 0, "slub_group_destroy");
}
