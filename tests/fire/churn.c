/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, stamp, pass on, check and free, while they are moved
 * between CPUs at random and a timer signal, whose handler allocates and frees
 * too, interrupts them.  An object handed out twice, or lost to another's
 * write, shows as a damaged stamp.
 *
 *	churn --ops=100M --threads=16 --hz=2000
 */
#include "fire.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MAX_THREADS 256
#define HELD 512	/* objects that a thread keeps for itself */
#define BOXES 64
#define BOX_ROOM 64
#define HANDLER_HELD 16

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

/* Objects on their way from one thread to another. */
struct box {
	pthread_mutex_t lock;
	unsigned int count;
	struct object objects[BOX_ROOM];
} __attribute__((aligned(64)));

struct worker {
	pthread_t thread;
	atomic_int tid;		/* 0 until it runs */
	uint64_t rng;
	uint64_t number;
	uint64_t next_id;
	uint64_t ops;
	uint64_t allocated;
	uint64_t freed;
	uint64_t passed;
	struct object held[HELD];
};

static struct box boxes[BOXES];
static struct worker workers[MAX_THREADS];
static unsigned int worker_count;
static uint64_t ops_each;
static unsigned int hz;	/* of the signal, in each thread; 0: none */
static atomic_int stop;
static atomic_ullong handled;
static atomic_ullong moves;

/* The handler's own objects: of this thread, touched by no one else. */
static __thread struct object in_handler[HANDLER_HELD];
static __thread uint64_t handler_rng;

static struct object make(uint64_t *rng, uint64_t id)
{
	struct object made = { .size = fire_size(rng), .id = id };
	uint64_t kind = fire_below(rng, 1 << 14);

	if (kind == 0)
		made.size = 65536 + fire_below(rng, 4 << 20);
	if (kind % 16 == 1) {
		size_t align = (size_t)16 << fire_below(rng, 9);

		made.start = memalign(align, made.size);
		if ((uintptr_t)made.start % align)
			fire_fail("memalign(%zu, %zu) = %p", align, made.size,
				  made.start);
	} else if (kind % 16 == 2) {
		made.start = calloc(1, made.size);
		for (size_t i = 0; made.start && i < made.size; i++)
			if (((char *)made.start)[i])
				fire_fail("calloc(%zu): byte %zu not zero",
					  made.size, i);
	} else {
		made.start = malloc(made.size);
	}
	if (!made.start)
		fire_fail("%zu bytes: %s", made.size, strerror(errno));
	fire_stamp(made.start, made.size, id);
	return made;
}

static void unmake(struct object *object, const char *where)
{
	fire_unstamp(object->start, object->size, object->id, where);
	free(object->start);
	object->start = NULL;
}

static void on_alarm(int signal)
{
	int saved = errno;
	struct object *slot;

	(void)signal;
	if (!handler_rng)
		handler_rng = fire_rng_state((uint64_t)gettid());
	slot = &in_handler[fire_below(&handler_rng, HANDLER_HELD)];
	if (slot->start)
		unmake(slot, "signal handler");
	else
		*slot = make(&handler_rng, fire_rng(&handler_rng));
	atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
	errno = saved;
}

/* A timer for the calling thread alone; one for all would wait its turn. */
static timer_t ring(unsigned int hz)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM,
	};
	struct itimerspec every = { .it_interval.tv_nsec = 1000000000 / hz };
	timer_t timer;

	event._sigev_un._tid = gettid();
	every.it_value = every.it_interval;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &every, NULL))
		fire_fail("timer: %s", strerror(errno));
	return timer;
}

static void block_alarm(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(how, &set, NULL);
}

/* Leaves one object in a box and takes another out of it. */
static void exchange(struct worker *self, struct object *object)
{
	struct box *box = &boxes[fire_below(&self->rng, BOXES)];

	pthread_mutex_lock(&box->lock);
	if (box->count < BOX_ROOM) {
		box->objects[box->count++] = *object;
		object->start = NULL;
	} else {
		unsigned int at = fire_below(&self->rng, BOX_ROOM);
		struct object other = box->objects[at];

		box->objects[at] = *object;
		*object = other;
	}
	pthread_mutex_unlock(&box->lock);
	self->passed++;
	if (object->start) {
		unmake(object, "object of another thread");
		self->freed++;
	}
}

static void resize(struct worker *self, struct object *object)
{
	size_t size = fire_size(&self->rng);
	size_t kept = size < object->size ? size : object->size;
	uint64_t id = object->id;
	void *moved = realloc(object->start, size);
	size_t whole = kept / 8 * 8;

	if (!moved)
		fire_fail("realloc to %zu: %s", size, strerror(errno));
	if (fire_stamp_differs(moved, whole, id) != whole)
		fire_fail("realloc %zu to %zu: content lost", object->size,
			  size);
	*object = (struct object){ .start = moved, .size = size, .id = id };
	fire_stamp(moved, size, id);
}

static void one_op(struct worker *self)
{
	struct object *object = &self->held[fire_below(&self->rng, HELD)];
	unsigned int kind;

	if (!object->start) {
		*object = make(&self->rng, self->number << 48 | self->next_id++);
		self->allocated++;
		return;
	}
	kind = fire_below(&self->rng, 16);
	if (kind < 4) {
		exchange(self, object);
	} else if (kind == 4) {
		resize(self, object);
	} else {
		unmake(object, "own object");
		self->freed++;
	}
}

static void *work(void *argument)
{
	struct worker *self = argument;
	timer_t timer = NULL;

	if (hz)
		timer = ring(hz);
	atomic_store(&self->tid, gettid());
	for (self->ops = 0; self->ops < ops_each; self->ops++)
		one_op(self);
	block_alarm(SIG_BLOCK);
	if (hz)
		timer_delete(timer);
	for (unsigned int i = 0; i < HANDLER_HELD; i++)
		if (in_handler[i].start)
			unmake(&in_handler[i], "handler's object");
	return NULL;
}

/* Moves random threads to random sets of the CPUs the process started with. */
static void *move(void *argument)
{
	const struct timespec pause = { .tv_nsec = 300000 };
	uint64_t rng = *(uint64_t *)argument;
	cpu_set_t all, some;

	block_alarm(SIG_BLOCK);
	if (sched_getaffinity(0, sizeof(all), &all))
		fire_fail("sched_getaffinity: %s", strerror(errno));
	while (!atomic_load(&stop)) {
		struct worker *one = &workers[fire_below(&rng, worker_count)];
		uint64_t mask = fire_rng(&rng);

		CPU_ZERO(&some);
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &all) && (mask >> (cpu % 64) & 1))
				CPU_SET(cpu, &some);
		/* By kernel id: a thread that has ended just gives ESRCH. */
		if (CPU_COUNT(&some) && one->tid &&
		    !sched_setaffinity(one->tid, sizeof(some), &some))
			atomic_fetch_add(&moves, 1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void answer_alarm(void)
{
	struct sigaction action = {
		.sa_handler = on_alarm, .sa_flags = SA_RESTART,
	};

	if (sigaction(SIGALRM, &action, NULL))
		fire_fail("sigaction: %s", strerror(errno));
}

static void empty_everything(void)
{
	for (unsigned int i = 0; i < BOXES; i++)
		while (boxes[i].count)
			unmake(&boxes[i].objects[--boxes[i].count], "left in a box");
	for (unsigned int i = 0; i < worker_count; i++)
		for (unsigned int j = 0; j < HELD; j++)
			if (workers[i].held[j].start)
				unmake(&workers[i].held[j], "left by a thread");
}

static void report(bool moving)
{
	uint64_t ops = 0, passed = 0;

	for (unsigned int i = 0; i < worker_count; i++) {
		ops += workers[i].ops;
		passed += workers[i].passed;
	}
	printf("ops %llu threads %u passed %llu signals %llu moves %llu\n",
	       (unsigned long long)ops, worker_count,
	       (unsigned long long)passed, (unsigned long long)handled,
	       (unsigned long long)moves);
	if (ops > 1000000 && hz && !handled)
		fire_fail("no signal was handled");
	if (ops > 1000000 && moving && !moves)
		fire_fail("no thread was moved");
}

int main(int argc, char **argv)
{
	pthread_t mover;
	uint64_t seed;
	bool moving;

	fire_start(argc, argv, "ops threads hz move limit");
	fire_require_library();
	worker_count = fire_opt("threads", 16);
	if (!worker_count || worker_count > MAX_THREADS)
		fire_fail("--threads: 1 to %d are wanted", MAX_THREADS);
	ops_each = fire_count("ops", 20000000) / worker_count + 1;
	hz = fire_opt("hz", 2000);
	moving = fire_opt("move", 1);
	fire_watchdog(fire_opt("limit", 1800));
	seed = fire_seed();
	for (unsigned int i = 0; i < BOXES; i++)
		pthread_mutex_init(&boxes[i].lock, NULL);
	answer_alarm();
	for (unsigned int i = 0; i < worker_count; i++) {
		workers[i].number = i + 1;
		workers[i].rng = fire_rng_state(seed + i);
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			fire_fail("pthread_create: %s", strerror(errno));
	}
	if (moving && pthread_create(&mover, NULL, move, &seed))
		fire_fail("pthread_create: %s", strerror(errno));
	block_alarm(SIG_BLOCK);
	for (unsigned int i = 0; i < worker_count; i++)
		pthread_join(workers[i].thread, NULL);
	atomic_store(&stop, 1);
	if (moving)
		pthread_join(mover, NULL);
	empty_everything();
	report(moving);
	return 0;
}
