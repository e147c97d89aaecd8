/* SPDX-License-Identifier: MIT */
/*
 * A program that was recorded, played again.  Each thread does what it did, in its order; what
 * order the threads have among each other the clocks of their CPUs say, but for what one needs of
 * another: a free waits for its allocation, and a thread for what was done before its first call.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"
#include "scale.h"

/* An operation, and the next one of the same thread: 1 + its place in @played. */
struct played {
	uint32_t next;
	uint32_t place, to;
	uint32_t bytes;
	uint8_t kind;		/* enum step_kind */
};

static struct played *played;
static uint64_t nr_played, nr_done;
static uint32_t first[RECORD_THREADS], last[RECORD_THREADS];	/* 1 + a place; 0: none */
static uint32_t nr_recorded;

/* ---- addresses become places: each allocation has one of its own ---- */

struct known {
	uint64_t address;	/* 0: none, 1: gone */
	uint32_t place;
};

static struct known *known;
static size_t known_end;

static struct known *known_find(uint64_t address, bool may_be_new)
{
	size_t at = (address * 0x9e3779b97f4a7c15u >> 20) % known_end;
	struct known *gone = NULL;

	for (; known[at].address && known[at].address != address; at = (at + 1) % known_end) {
		if (known[at].address == 1 && !gone)
			gone = &known[at];
	}
	if (known[at].address || !may_be_new)
		return known[at].address ? &known[at] : NULL;
	return gone ? gone : &known[at];
}

/* What lies at @address is a new one from here on. */
static uint32_t known_add(uint64_t address)
{
	static uint32_t nr;
	struct known *at = known_find(address, true);

	at->address = address;
	at->place = nr++;
	return at->place;
}

/* It goes; false: it came before the recording did. */
static bool known_take(uint64_t address, uint32_t *place)
{
	struct known *at = known_find(address, false);

	if (!at)
		return false;
	at->address = 1;
	*place = at->place;
	return true;
}

/* ---- reading ---- */

static void play(uint32_t thread, enum step_kind kind, uint32_t place, uint32_t to, uint32_t bytes)
{
	uint32_t number = (uint32_t)++nr_played;

	played[number - 1] = (struct played){ 0, place, to, bytes, (uint8_t)kind };
	if (last[thread])
		played[last[thread] - 1].next = number;
	else
		first[thread] = number;
	last[thread] = number;
}

/* What realloc() is moving, of each thread: 1 + its place. */
static uint32_t moving[RECORD_THREADS];

static void record_add(const struct record *record)
{
	uint32_t thread = record->thread, place;

	switch ((enum record_kind)record->kind) {
	case RECORD_NONE:
		break;
	case RECORD_ALLOC:
		play(thread, STEP_ALLOC, known_add(record->address), 0, record->bytes);
		break;
	case RECORD_FREE:
		if (known_take(record->address, &place))
			play(thread, STEP_FREE, place, 0, 0);
		break;
	case RECORD_RESIZE:
		moving[thread] = known_take(record->address, &place) ? 1 + place : 0;
		break;
	case RECORD_RESIZED:
		if (moving[thread])
			play(thread, STEP_RESIZE, moving[thread] - 1, known_add(record->address),
			     record->bytes);
		else
			play(thread, STEP_ALLOC, known_add(record->address), 0, record->bytes);
		moving[thread] = 0;
	}
}

/* In the order in which they began; only those before are looked at any more. */
static void first_insert(uint32_t number)
{
	uint32_t at = nr_recorded++;

	for (; at && first[at - 1] > number; at--)
		first[at] = first[at - 1];
	first[at] = number;
}

bool trace_read(const char *path, uint64_t nr_steps)
{
	static uint64_t steps[RECORD_THREADS];
	const struct record_head *head;
	const struct record *records;
	struct stat is;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t nr;

	if (fd < 0 || fstat(fd, &is) || (size_t)is.st_size < sizeof(*head))
		return false;
	head = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (head == MAP_FAILED || head->magic != RECORD_MAGIC)
		return false;
	records = (const struct record *)(head + 1);
	nr = ((size_t)is.st_size - sizeof(*head)) / sizeof(*records);
	if (nr > head->nr)
		nr = head->nr;
	known_end = 2 * nr + 1;
	known = own_memory(known_end * sizeof(*known));
	played = own_memory((nr + 1) * sizeof(*played));
	objects = own_memory((nr + 1) * sizeof(*objects));
	for (uint64_t i = 0; i < nr; i++) {
		uint32_t thread = records[i].thread;

		if (thread >= RECORD_THREADS || steps[thread]++ >= nr_steps)
			continue;
		record_add(&records[i]);
	}
	for (uint32_t i = 0; i < RECORD_THREADS; i++) {
		if (first[i])
			first_insert(first[i]);
	}
	nr_threads = nr_recorded;
	return nr_recorded;
}

uint64_t trace_operations(void)
{
	return nr_played;
}

/* ---- playing ---- */

static bool trace_begin(uint32_t threads)
{
	return threads == nr_recorded;
}

/* What was done before its first call has been done. */
static bool trace_starts(uint32_t number)
{
	return nr_done + 1 >= first[number];
}

/*
 * No thread is so many operations ahead of what was recorded: what was done before others were
 * waited for does not come after it.
 */
#define AHEAD 512

static bool is_ahead(uint32_t number)
{
	uint32_t most = nr_recorded < machine.nr_cpus ? nr_recorded : machine.nr_cpus;

	return number > nr_done + (uint64_t)AHEAD * most;
}

/* state[0]: 1 + what it does next, but before the first; 0: it is over. */
static void trace_next(struct thread *thread, struct step *step)
{
	uint32_t number = (uint32_t)thread->state[0];
	const struct played *now;

	if (!thread->steps && !number)
		number = first[thread->number];
	step->kind = STEP_NOTHING;
	if (!number) {
		step->kind = STEP_END;
		return;
	}
	now = &played[number - 1];
	thread->state[0] = number;
	if (is_ahead(number))
		return;
	if (now->kind != STEP_ALLOC && !objects[now->place])
		return;		/* another thread makes it */
	*step = (struct step){ (enum step_kind)now->kind, now->place, now->to, now->bytes };
	thread->state[0] = now->next;
	nr_done++;
}

const struct work work_trace = { "trace", 0, 0, true, trace_begin, trace_starts, trace_next };
