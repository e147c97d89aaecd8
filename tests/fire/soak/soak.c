/* SPDX-License-Identifier: MIT */
/*
 * Soak: every object is stamped when it is allocated and looked at, all of it, before it is freed
 * and at random in between, by more threads than there are CPUs, while signals arrive whose
 * handlers do the same, threads end and others take their objects over, processes fork and their
 * children look at all that they inherited, threads change their CPUs, memory is trimmed, groups
 * come, go and refuse, and debugging is switched on and off.  The first thing that is wrong ends
 * the program with what was found and whose it is.
 *
 * --pairs=N     allocations with their frees to be checked, all threads and children together
 * --threads=N   that allocate (default: four for each CPU, 8 at the least)
 * --hz=N        signals a second for each thread (default 50)
 * --limit=N     seconds without a pair after which the program counts as hung (default 600)
 * --log=FILE    gets one line when the run has ended well: tests/fire/soak/run adds them up
 * --damage=byte|twice   does, once, what a faulty allocator would: it must be found
 *
 * SIGTERM and SIGINT end a run early: what has been done is checked and logged.
 */
#include "soak.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum {
	DISTURBERS = 2,
	ROW = 8,		/* objects of one kind */
	PART = 128,		/* objects of a burst */
	BURST = 512,		/* pairs between two rarer steps */
	CHILD_BURSTS = 40,
	BYTES_LEFT = 1 << 18,
};

struct worker workers[SOAK_THREADS];
unsigned int nr_workers;
atomic_bool soak_stop;
static volatile sig_atomic_t asked_to_end;
static struct soak_children *children;
static unsigned int hz;
static atomic_ullong handled;
static __thread struct worker *of_this_thread;

/* ---- a thread ---- */

/*
 * In a part of the table that a CPU's cache holds, another one each time; some objects of one
 * kind and size in a row, as most programs ask for them, so that a pair is cheap.
 */
static void burst(struct worker *worker)
{
	size_t part = fire_below(&worker->self.rng, SOAK_HELD / PART) * PART;

	for (int i = 0; i < BURST / ROW; i++) {
		uint64_t bits = fire_rng(&worker->self.rng);
		struct object *row = &worker->held[part + (bits >> 24) % (PART / ROW) * ROW];

		for (int k = 0; k < ROW; k++)
			if (row[k].start)
				object_free(&worker->self, &row[k], "the thread's object");
		for (int k = 0; k < ROW; k++)
			object_make(&worker->self, &row[k], bits);
	}
}

/* An object changes while it is held, or is handed out twice. */
static void damage(struct worker *worker)
{
	const char *how = fire_opt_str("damage", "");
	struct object *one = &worker->held[0], *other = &worker->held[1];

	if (!*how || worker != workers)
		return;
	if (!one->start)
		object_make(&worker->self, one, 0);
	if (other->start)
		object_free(&worker->self, other, "the thread's object");
	if (!strcmp(how, "byte"))
		((char *)one->start)[one->size - 1] ^= 1;
	else
		object_put(other, one);
}

static void on_signal(int signal)
{
	struct worker *worker = of_this_thread;
	int saved = errno;

	(void)signal;
	if (!worker)
		return;
	for (int i = 0; i < 8; i++) {
		uint64_t bits = fire_rng(&worker->handler.rng);
		struct object *place = &worker->handled[bits >> 20 & (SOAK_HANDLED - 1)];

		if (place->start)
			object_free(&worker->handler, place, "the handler's object");
		else
			object_make(&worker->handler, place, fire_rng(&worker->handler.rng));
	}
	/* relaxed: a number to be printed. */
	atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
	errno = saved;
}

static void block_signal(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(how, &set, NULL);
}

/* A timer for the calling thread alone. */
static timer_t ring(void)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM,
	};
	struct itimerspec every = {
		.it_interval = { 1 / hz, 1000000000 / hz % 1000000000 },
	};
	timer_t timer;

	event._sigev_un._tid = gettid();
	every.it_value = every.it_interval;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &every, NULL))
		fire_fail("timer: %s", strerror(errno));
	return timer;
}

/* relaxed: the number alone is handed over. */
static bool is_to_end(void)
{
	return atomic_load_explicit(&soak_stop, memory_order_relaxed) ||
	       (atomic_load_explicit(&ends_wanted, memory_order_relaxed) &&
		atomic_exchange_explicit(&ends_wanted, 0, memory_order_relaxed));
}

/* Its objects stay, for the next thread in this place. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	timer_t timer = NULL;

	of_this_thread = worker;
	if (hz)
		timer = ring();
	block_signal(SIG_UNBLOCK);
	atomic_store(&worker->tid, gettid());
	damage(worker);
	do {
		burst(worker);
		step_take(worker);
	} while (!is_to_end());
	group_leave(&worker->self);
	block_signal(SIG_BLOCK);
	if (hz)
		timer_delete(timer);
	atomic_store(&worker->ended, true);
	return NULL;
}

static void worker_start(struct worker *worker)
{
	int err;

	atomic_store(&worker->ended, false);
	err = pthread_create(&worker->thread, NULL, work, worker);
	if (err)
		fire_fail("pthread_create: %s", strerror(err));
}

/* ---- a child ---- */

static void inherited_check(struct owner *owner)
{
	for (unsigned int i = 0; i < nr_workers; i++)
		for (int k = 0; k < SOAK_HELD; k++) {
			struct object *object = &workers[i].held[k];

			if (!object->start)
				continue;
			object_check(owner, object, "an object that a child inherited");
			soak_count(&owner->checks, 1);
		}
}

/* A process with one thread, and the objects of all. */
void soak_child(struct worker *worker)
{
	struct owner *owner = &worker->self;
	struct owner before = *owner;

	/* Its parent may be ended by the watchdog. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	inherited_check(owner);
	atomic_store(&forks_wanted, 0);
	for (int i = 0; i < CHILD_BURSTS; i++) {
		burst(worker);
		step_take(worker);
	}
	for (int k = 0; k < SOAK_HELD; k++)
		if (worker->held[k].start)
			object_free(owner, &worker->held[k], "an object that a child inherited");
	malloc_trim(0);
	atomic_fetch_add(&children->pairs, owner->pairs - before.pairs);
	atomic_fetch_add(&children->checks, owner->checks - before.checks);
	atomic_fetch_add(&children->bytes, owner->bytes - before.bytes);
	atomic_fetch_add(&children->refused, owner->refused - before.refused);
	_exit(0);
}

/* ---- the whole ---- */

static void on_end(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

static void answer_signals(void)
{
	struct sigaction alarm = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction end = { .sa_handler = on_end, .sa_flags = SA_RESTART };

	if (sigaction(SIGALRM, &alarm, NULL) || sigaction(SIGTERM, &end, NULL) ||
	    sigaction(SIGINT, &end, NULL))
		fire_fail("sigaction: %s", strerror(errno));
	block_signal(SIG_BLOCK);
}

static void owner_start(struct owner *owner, uint64_t seed, uint64_t number)
{
	owner->rng = fire_rng_state(seed + number);
	owner->number = number;
}

static void workers_start(uint64_t seed)
{
	size_t bytes = SOAK_HELD * sizeof(struct object);

	for (unsigned int i = 0; i < nr_workers; i++) {
		struct worker *worker = &workers[i];

		worker->held = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (worker->held == MAP_FAILED)
			fire_fail("mmap: %s", strerror(errno));
		owner_start(&worker->self, seed, 2 * i + 1);
		owner_start(&worker->handler, seed, 2 * i + 2);
		worker->handler.in_handler = true;
		worker_start(worker);
	}
}

/* What all have done so far. */
static struct soak_children sum(void)
{
	struct soak_children all = {
		atomic_load(&children->pairs), atomic_load(&children->checks),
		atomic_load(&children->bytes), atomic_load(&children->refused),
	};

	for (unsigned int i = 0; i < nr_workers; i++) {
		struct owner *both[] = { &workers[i].self, &workers[i].handler };

		for (int k = 0; k < 2; k++) {
			all.pairs += both[k]->pairs;
			all.checks += both[k]->checks;
			all.bytes += both[k]->bytes;
			all.refused += both[k]->refused;
		}
	}
	return all;
}

uint64_t soak_pairs(void)
{
	return sum().pairs;
}

/* Puts new threads in the place of those that ended, until enough has been done. */
static void attend(uint64_t pairs, unsigned int limit)
{
	static const struct timespec pause = { .tv_nsec = 5000000 };
	uint64_t done = 0, before = 1;

	while (done < pairs && !asked_to_end) {
		for (unsigned int i = 0; i < nr_workers; i++) {
			if (!atomic_load(&workers[i].ended))
				continue;
			pthread_join(workers[i].thread, NULL);
			worker_start(&workers[i]);
		}
		nanosleep(&pause, NULL);
		done = soak_pairs();
		if (done != before)
			fire_watchdog(limit);
		before = done;
	}
}

static void empty(void)
{
	for (unsigned int i = 0; i < nr_workers; i++) {
		struct worker *worker = &workers[i];

		for (int k = 0; k < SOAK_HELD; k++)
			if (worker->held[k].start)
				object_free(&worker->self, &worker->held[k],
					    "an object at the end");
		for (int k = 0; k < SOAK_HANDLED; k++)
			if (worker->handled[k].start)
				object_free(&worker->handler, &worker->handled[k],
					    "the handler's object at the end");
	}
	boxes_empty(&workers[0].self);
	slub_deferred_barrier();
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 info;

	slub_shrink_all();
	malloc_trim(0);
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void report(uint64_t seed, double seconds)
{
	const char *log = fire_opt_str("log", NULL);
	struct soak_children all = sum();
	char line[512];
	int length, file;

	length = snprintf(line, sizeof(line),
		"pairs=%llu looks=%llu bytes=%llu refused=%llu signals=%llu moves=%llu trims=%llu "
		"shrinks=%llu debug=%llu groups=%llu forks=%llu ends=%llu threads=%u backend=%s "
		"seed=%llu seconds=%.0f faults=0\n",
		(unsigned long long)all.pairs, (unsigned long long)all.checks,
		(unsigned long long)all.bytes, (unsigned long long)all.refused,
		(unsigned long long)handled, (unsigned long long)soak_deeds[DEED_MOVE],
		(unsigned long long)soak_deeds[DEED_TRIM],
		(unsigned long long)soak_deeds[DEED_SHRINK],
		(unsigned long long)soak_deeds[DEED_DEBUG],
		(unsigned long long)soak_deeds[DEED_GROUP],
		(unsigned long long)soak_deeds[DEED_FORK],
		(unsigned long long)soak_deeds[DEED_END], nr_workers,
		fire_backend_name(fire_backend()), (unsigned long long)seed, seconds);
	fputs(line, stdout);
	if (!log)
		return;
	file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (file < 0 || write(file, line, (size_t)length) != length || close(file))
		fire_fail("%s: %s", log, strerror(errno));
}

static unsigned int threads_wanted(void)
{
	cpu_set_t cpus;
	uint64_t nr = 8;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 2)
		nr = 4 * (uint64_t)CPU_COUNT(&cpus);
	nr = fire_opt("threads", nr < SOAK_THREADS ? nr : SOAK_THREADS);
	if (!nr || nr > SOAK_THREADS)
		fire_fail("--threads: 1 to %d are wanted", SOAK_THREADS);
	return (unsigned int)nr;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void run(uint64_t seed, uint64_t pairs, unsigned int limit)
{
	pthread_t disturbers[DISTURBERS];

	workers_start(seed);
	for (uintptr_t i = 0; i < DISTURBERS; i++)
		if (pthread_create(&disturbers[i], NULL, disturb, (void *)(seed + i)))
			fire_fail("no thread");
	attend(pairs, limit);
	atomic_store(&soak_stop, true);
	for (int i = 0; i < DISTURBERS; i++)
		pthread_join(disturbers[i], NULL);
	for (unsigned int i = 0; i < nr_workers; i++)
		pthread_join(workers[i].thread, NULL);
}

int main(int argc, char **argv)
{
	uint64_t named, seed;
	unsigned int limit;
	double started = now();
	size_t before;

	fire_start(argc, argv, "pairs threads hz limit log damage");
	fire_require_library();
	nr_workers = threads_wanted();
	hz = (unsigned int)fire_opt("hz", 50);
	limit = (unsigned int)fire_opt("limit", 600);
	fire_watchdog(limit);
	named = fire_opt("seed", (uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)named);
	seed = fire_rng_state(named);
	children = mmap(NULL, sizeof(*children), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (children == MAP_FAILED)
		fire_fail("mmap: %s", strerror(errno));
	answer_signals();
	before = bytes_in_use();
	objects_start(seed);
	groups_start();
	run(seed, fire_count("pairs", 10000000), limit);
	empty();
	debug_end();
	groups_end();
	objects_end();
	if (bytes_in_use() > before + BYTES_LEFT)
		fire_fail("%zu bytes are in use that nobody has", bytes_in_use() - before);
	report(named, now() - started);
	return 0;
}
