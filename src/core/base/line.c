/* SPDX-License-Identifier: MIT */
#include "core/base/line.h"

#include "core/base/syscall.h"

struct lock line_lock fork_writes = LOCK_INIT;

enum place_state { PLACE_WAITS, PLACE_HAS_TURN, PLACE_OVER };

/* A place in the line, on the stack of its thread. */
struct place {
	struct list list;
	struct line *line;
	struct place *outer;	/* this thread's own, which a handler interrupted */
	bool (*is_over)(const void *arg);
	const void *arg;
	uint32_t state;		/* atomic; enum place_state */
	uint32_t self, forks;
	bool is_lined;		/* it was put into the line */
};

/* A second: how long a wake-up that got lost is believed in. */
#define LOOK_MS 1000u
#define LOOKS_PER_MS (1000000u / WAIT_NS)

static bool place_waits(const struct place *place)
{
	/* acquire: pairs with the release in place_tell() */
	return __atomic_load_n(&place->state, __ATOMIC_ACQUIRE) == PLACE_WAITS;
}

/* What is under line_lock to others: a handler of this thread looks at it without. */
static bool is_lined(const struct place *place)
{
	return __atomic_load_n(&place->is_lined, __ATOMIC_RELAXED) &&
	       place->forks == turn_forks;
}

static void lined_set(struct place *place, bool is_lined)
{
	__atomic_store_n(&place->is_lined, is_lined, __ATOMIC_RELAXED);
}

/* LINE-3: the place of this thread that a handler may stand in. */
static struct place *place_find(const struct line *line)
{
	struct place *p = slub_thread.place;

	for (; p; p = p->outer) {
		uint32_t state = __atomic_load_n(&p->state, __ATOMIC_RELAXED);

		if (p->line == line && (state == PLACE_HAS_TURN ||
					(state == PLACE_WAITS && is_lined(p))))
			break;
	}
	return p;
}

/* LINE-4; under line_lock. */
static void line_begin(struct line *line)
{
	if (likely(line->waiters.next && line->forks == turn_forks))
		return;
	list_init(&line->waiters);
	line->nr_unless = 0;
	line->forks = turn_forks;
}

static uint64_t owner_of(const struct place *place, const struct line *line)
{
	return (uint64_t)turn_forks << 32 | place->self |
	       (list_is_empty(&line->waiters) ? 0 : TURN_WAITED);
}

/* Under line_lock. */
static void line_remove(struct line *line, struct place *place)
{
	list_remove(&place->list);
	line->nr_unless -= place->is_over != NULL;
	lined_set(place, false);
}

/* ---- coming ---- */

/*
 * Takes a turn that is nobody's, or says that it is waited for: LINE_OVER, it is another's.
 * Under line_lock.
 */
static enum line_answer place_ask(struct line *line, const struct place *place)
{
	uint64_t owner = __atomic_load_n(&line->turn.owner, __ATOMIC_RELAXED);

	for (;;) {
		bool is_free = !owner || turn_owner_is_gone(owner);
		uint64_t to = is_free ? owner_of(place, line) : owner | TURN_WAITED;

		if (!is_free && turn_owner_self(owner) == place->self)
			return LINE_REFUSED;
		/* acquire: pairs with the release in line_end() */
		if (__atomic_compare_exchange_n(&line->turn.owner, &owner, to, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return is_free ? LINE_TAKEN : LINE_OVER;
	}
}

/* LINE_OVER: @place is in the line. */
static enum line_answer place_join(struct line *line, struct place *place)
{
	enum line_answer answer;

	lock_acquire(&line_lock);
	line_begin(line);
	answer = place_ask(line, place);
	if (answer == LINE_OVER) {
		place->forks = turn_forks;
		__atomic_store_n(&place->state, PLACE_WAITS, __ATOMIC_RELAXED);
		list_add_tail(&line->waiters, &place->list);
		line->nr_unless += place->is_over != NULL;
		/* From the release of the lock on a handler may stand here. */
		lined_set(place, true);
	}
	lock_release(&line_lock);
	return answer;
}

/* ---- waiting ---- */

/* Sleeps for @ms at the most, and returns how long it was for certain. */
static uint32_t doze(struct place *place, uint32_t ms)
{
	long err = sys_futex_wait(&place->state, PLACE_WAITS, ms * UINT64_C(1000000));

	if (err == -ETIMEDOUT)
		return ms;
	/* Woken, not asleep at all, or interrupted. */
	if (!err || err == -EAGAIN || err == -EINTR)
		return 0;
	for (unsigned int i = 0; i < LOOKS_PER_MS && place_waits(place); i++)
		sys_wait(WAIT_SPINS);
	return 1;
}

/*
 * The turn may have become free though somebody waits: whoever ended it held a lock, or it is
 * a child of a fork.  LINE_OVER: it is another's.  With @leaves the place goes in any case,
 * unless it is about to be told something.
 */
static enum line_answer place_answer(struct line *line, struct place *place, bool leaves)
{
	enum line_answer answer = LINE_OVER;

	lock_acquire(&line_lock);
	if (place_waits(place) && is_lined(place)) {
		answer = place_ask(line, place);
		if (answer == LINE_OVER && leaves)
			answer = LINE_REFUSED;
		if (answer != LINE_OVER)
			line_remove(line, place);
	}
	lock_release(&line_lock);
	return answer;
}

/* Until @place has the turn; LINE_OVER: it is over, or in no line any more (LINE-4). */
static enum line_answer wait_in(struct line *line, struct place *place,
				uint32_t *patience_ms)
{
	uint32_t slept_ms = 0;

	while (place_waits(place) && place->forks == turn_forks) {
		uint32_t ms = doze(place, *patience_ms < LOOK_MS ? *patience_ms : LOOK_MS);
		enum line_answer answer = LINE_OVER;

		slept_ms += ms;
		if (*patience_ms != LINE_PATIENCE_ANY)
			*patience_ms -= ms;
		if (slept_ms >= LOOK_MS || !*patience_ms) {
			answer = place_answer(line, place, !*patience_ms);
			slept_ms = 0;
		}
		if (answer != LINE_OVER)
			return answer;
	}
	return __atomic_load_n(&place->state, __ATOMIC_ACQUIRE) == PLACE_HAS_TURN ?
		       LINE_TAKEN : LINE_OVER;
}

static enum line_answer wait_here(struct line *line, struct place *place,
				  uint32_t patience_ms)
{
	for (;;) {
		enum line_answer answer;

		if (place->is_over && place->is_over(place->arg))
			return LINE_OVER;
		answer = place_join(line, place);
		if (answer == LINE_OVER)
			answer = wait_in(line, place, &patience_ms);
		if (answer != LINE_OVER)
			return answer;
		lined_set(place, false);
	}
}

/* LINE-3.  LINE_OVER: that place is none any more. */
static enum line_answer wait_in_place_of(struct line *line, struct place *outer)
{
	uint32_t patience_ms = LINE_PATIENCE_ANY;
	enum line_answer answer = wait_in(line, outer, &patience_ms);

	/* As if it had been given. */
	if (answer == LINE_TAKEN)
		__atomic_store_n(&outer->state, PLACE_HAS_TURN, __ATOMIC_RELAXED);
	return answer;
}

enum line_answer line_stand(struct line *line, uint32_t patience_ms,
			    bool (*is_over)(const void *arg), const void *arg)
{
	struct place place = { .line = line, .is_over = is_over, .arg = arg,
			       .self = thread_self() }, *outer;
	enum line_answer answer = LINE_OVER;

	if (slub_thread.locks_held)
		return LINE_REFUSED;
	while (answer == LINE_OVER && (outer = place_find(line)))
		answer = wait_in_place_of(line, outer);
	if (answer != LINE_OVER)
		return answer;
	place.outer = slub_thread.place;
	compiler_barrier();
	slub_thread.place = &place;
	compiler_barrier();
	answer = wait_here(line, &place, patience_ms);
	compiler_barrier();
	slub_thread.place = place.outer;
	return answer;
}

/* ---- ending ---- */

/* Its thread goes on from here, and its stack may be gone: a wake-up there does no harm. */
static void place_tell(struct place *place, enum place_state what)
{
	/* release: pairs with the acquire in place_waits() */
	__atomic_store_n(&place->state, what, __ATOMIC_RELEASE);
}

static void place_wake(struct place *place)
{
	sys_futex(&place->state, FUTEX_WAKE_PRIVATE, 1);
}

/* LINE-2: takes out all that are over, into @over, and the first one that is not. */
static struct place *line_next(struct line *line, struct list *over)
{
	struct place *next = NULL;
	struct list *l = line->waiters.next, *behind;

	for (; l != &line->waiters; l = behind) {
		struct place *place = container_of(l, struct place, list);

		behind = l->next;
		if (next && !line->nr_unless)
			break;
		if (place->is_over && place->is_over(place->arg)) {
			line_remove(line, place);
			list_add_tail(over, l);
		} else if (!next) {
			line_remove(line, place);
			next = place;
		}
	}
	return next;
}

static cold void pass(struct line *line)
{
	struct list over;
	struct place *next;

	list_init(&over);
	lock_acquire(&line_lock);
	line_begin(line);
	next = line_next(line, &over);
	/* release: pairs with the acquire in turn_ask() and place_ask() */
	__atomic_store_n(&line->turn.owner, next ? owner_of(next, line) : 0,
			 __ATOMIC_RELEASE);
	if (next)
		place_tell(next, PLACE_HAS_TURN);
	lock_release(&line_lock);
	if (next)
		place_wake(next);
	while (!list_is_empty(&over)) {
		struct place *place = container_of(over.next, struct place, list);

		list_remove(&place->list);
		place_tell(place, PLACE_OVER);
		place_wake(place);
	}
}

usual void line_end(struct line *line)
{
	uint64_t owner = __atomic_load_n(&line->turn.owner, __ATOMIC_RELAXED);

	/* LINE-3 */
	if (unlikely(slub_thread.place) && place_find(line))
		return;
	/* A thread that holds a lock wakes nobody: place_answer() finds the turn free. */
	while (!(owner & TURN_WAITED) || slub_thread.locks_held) {
		if (__atomic_compare_exchange_n(&line->turn.owner, &owner, 0, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
	pass(line);
}
