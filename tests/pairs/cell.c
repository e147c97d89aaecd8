/* SPDX-License-Identifier: MIT */
/*
 * What becomes of two features A and B:
 *
 *   A begins, B begins                 and B first
 *     A's around: B's around: work     and the other nesting
 *     A ends, work, B ends             and B first
 *   all counts are what they were
 *
 * Work is: both allocate, both disturb, each block has its stamp, both count, each frees what the
 * other or malloc made, and some blocks stay for whatever comes next.
 */
#include "pairs.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>

#define CALL(cell, feature, op)						\
	do {								\
		(cell)->doing_of = (feature)->name;			\
		(cell)->doing = #op;					\
		(feature)->op(cell);					\
		(cell)->doing = "after " #op;				\
	} while (0)

/* ---- messages ---- */

static const char *mode(void)
{
	const char *mode = getenv("PAIRS_MODE");

	return mode ? mode : "as it is";
}

static int describe(const struct cell *cell, char *text, size_t size)
{
	return snprintf(text, size, "FAIL: pairs.%s [%s]: %s begins, %s ends first%s, %s: %s: ",
			cell->name, mode(), cell->outer ? cell->outer : "nothing",
			cell->first ? cell->first : "nothing",
			cell->is_child ? ", in the child" : "",
			cell->doing_of ? cell->doing_of : "-", cell->doing ? cell->doing : "-");
}

void cell_fail(struct cell *cell, const char *format, ...)
{
	char text[1000];
	int length = describe(cell, text, sizeof(text) - 2);
	va_list arguments;

	va_start(arguments, format);
	length += vsnprintf(text + length, sizeof(text) - 1 - (size_t)length, format, arguments);
	va_end(arguments);
	if (length > (int)sizeof(text) - 2)
		length = sizeof(text) - 2;
	text[length++] = '\n';
	if (write(STDOUT_FILENO, text, (size_t)length) < 0)
		_exit(2);
	_exit(1);
}

static struct cell *watched;

static void hung(int signal)
{
	(void)signal;
	cell_fail(watched, "never ends, context %#x", watched->context);
}

void cell_watch(struct cell *cell)
{
	const char *seconds = getenv("PAIRS_WATCHDOG");

	watched = cell;
	signal(SIGALRM, hung);
	alarm(seconds ? (unsigned int)atoi(seconds) : 100);
}

bool cell_expect(struct cell *cell, long answer, const char *call, int other)
{
	if (answer && answer != other)
		cell_fail(cell, "%s: %ld", call, answer);
	return !answer;
}

/* ---- who is there ---- */

const struct feature *cell_other(struct cell *cell, const struct feature *feature)
{
	return cell->pair[cell->pair[0] == feature];
}

bool cell_has(struct cell *cell, const struct feature *feature)
{
	return (cell->pair[0] == feature && cell->is_there[0]) ||
	       (cell->pair[1] == feature && cell->is_there[1]);
}

void cell_barrier(struct cell *cell)
{
	if (cell_is_in(cell, IN_READER | IN_HANDLER))
		return;
	slub_deferred_barrier();
	cell->handed_over = 0;
}

/* ---- work ---- */

static void take_some(struct cell *cell)
{
	static const size_t sizes[] = { 24, 200, 1000, 5000, 33000, LARGE };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct feature *maker = i % 3 < 2 ? cell->pair[i % 3] : NULL;

		cell->doing_of = maker ? maker->name : "malloc";
		cell->doing = "alloc";
		block_take(cell, maker, sizes[(i + cell->random) % 6]);
	}
	cell->random++;
}

/* All but each fourth, by each way there is. */
static void give_some(struct cell *cell)
{
	for (int i = 0; i < BLOCKS; i++) {
		const struct feature *by = i % 3 < 2 ? cell->pair[i % 3] : NULL;

		if (!cell->blocks[i].at || i % 4 == 3)
			continue;
		cell->doing_of = by ? by->name : "its maker";
		cell->doing = by ? "release" : "free";
		block_give(cell, &cell->blocks[i], by);
	}
}

static void work(struct cell *cell)
{
	for (unsigned int round = 0; round < cell->rounds; round++) {
		take_some(cell);
		for (int i = 0; i < 2; i++)
			if (cell->is_there[i] && cell->pair[i]->disturb &&
			    !cell_is_in(cell, cell->pair[i]->disturb_not))
				CALL(cell, cell->pair[i], disturb);
		cell->doing = "stamps";
		blocks_check(cell);
		for (int i = 0; i < 2; i++)
			if (cell->is_there[i] && cell->pair[i]->check)
				CALL(cell, cell->pair[i], check);
		give_some(cell);
	}
}

void cell_nest(struct cell *cell)
{
	const struct feature *next = cell->nest[cell->depth++];

	if (!next)
		work(cell);
	else if (next->around && cell_has(cell, next) && !cell_is_in(cell, next->around_not))
		CALL(cell, next, around);
	else
		cell_nest(cell);
	cell->depth--;
}

static void nest(struct cell *cell, int outer)
{
	cell->nest[0] = cell->pair[outer];
	cell->nest[1] = cell->pair[!outer];
	cell->nest[2] = NULL;
	cell->depth = 0;
	cell_nest(cell);
}

/* ---- beginning and end ---- */

static void begin(struct cell *cell, int which)
{
	cell->is_changing = true;
	if (cell->pair[which]->enter)
		CALL(cell, cell->pair[which], enter);
	cell->is_there[which] = true;
	cell->is_changing = false;
}

static bool leave(struct cell *cell, int which)
{
	const struct feature *feature = cell->pair[which], *other = cell->pair[!which];

	if (cell->is_there[!which] && other->drop)
		CALL(cell, other, drop);
	if (feature->alloc) {
		cell->doing_of = other->name;
		cell->doing = "release";
		blocks_give_all(cell, feature, other);
	}
	cell->doing_of = feature->name;
	cell->doing = "leave";
	if (feature->leave && !feature->leave(cell))
		return false;
	cell->is_there[which] = false;
	return true;
}

/* False: not while the other one goes on. */
static bool end(struct cell *cell, int which)
{
	bool has_ended;

	cell->is_changing = true;
	has_ended = leave(cell, which);
	cell->is_changing = false;
	return has_ended;
}

/* ---- what must be as before ---- */

struct account {
	size_t used_bytes, heap_bytes, group_bytes, reserve_bytes, percpu_bytes;
};

static uint64_t value(struct cell *cell, const char *name)
{
	struct slub_value value = { 0 };

	cell_expect(cell, slub_value_read(name, &value), name, 0);
	return value.number;
}

static struct account account(struct cell *cell)
{
	struct slub_group_stats stats = { 0 };
	struct account account;

	cell->doing_of = "the end";
	cell->doing = "barrier";
	slub_deferred_barrier();
	cell->handed_over = 0;
	if (slub_deferred_pending())
		cell_fail(cell, "%zu deferred frees are pending after a barrier",
			  slub_deferred_pending());
	cell->doing = "trim";
	slub_shrink_all();
	malloc_trim(0);
	cell->doing = "account";
	cell_expect(cell, slub_group_stats(slub_group_root(), &stats), "slub_group_stats", 0);
	account.used_bytes = value(cell, "objects.used_bytes") + value(cell, "heap.large_bytes");
	account.heap_bytes = value(cell, "heap.slab_bytes") +
		value(cell, "heap.large_bytes") + value(cell, "heap.idle_bytes");
	account.group_bytes = stats.usage;
	account.reserve_bytes = slub_reserve_bytes();
	account.percpu_bytes = slub_percpu_bytes();
	return account;
}

static void compare(struct cell *cell, const char *what, size_t before, size_t now, size_t more)
{
	if (now > before + more || (!more && now != before))
		cell_fail(cell, "%s: %zu bytes before and %zu now", what, before, now);
}

/* What a heap that was in use may keep: slabs with the C library's objects, for one. */
enum { HEAP_MORE = 1 << 20 };

/*
 * Of per-CPU memory: lists of the caches that are made when the first object of a size is
 * sampled; and where a child has left a section, the counters that a thread that is gone was in.
 */
static size_t percpu_more(struct cell *cell)
{
	static const struct feature *const sampled[] = {
		&feature_profile, &feature_command, &feature_guard,
	};

	for (size_t i = 0; i < 3; i++)
		if (cell->pair[0] == sampled[i] || cell->pair[1] == sampled[i])
			return 16 << 10;
	return cell->is_child ? 64 : 0;
}

static void account_compare(struct cell *cell, const struct account *before,
			    const struct account *now)
{
	compare(cell, "objects and large blocks", before->used_bytes, now->used_bytes, 0);
	compare(cell, "charged to groups", before->group_bytes, now->group_bytes, 0);
	compare(cell, "the reserve", before->reserve_bytes, now->reserve_bytes, 0);
	compare(cell, "per-CPU memory", before->percpu_bytes, now->percpu_bytes,
		percpu_more(cell));
	compare(cell, "the heap after a trim", before->heap_bytes, now->heap_bytes, HEAP_MORE);
}

/* ---- a cell ---- */

static void compose(struct cell *cell, int outer, int first)
{
	cell->outer = cell->pair[outer]->name;
	cell->first = cell->pair[first]->name;
	begin(cell, outer);
	work(cell);
	begin(cell, !outer);
	nest(cell, 0);
	nest(cell, 1);
	if (end(cell, first)) {
		work(cell);
		if (!end(cell, !first))
			cell_fail(cell, "cannot end");
	} else if (!end(cell, !first) || !end(cell, first)) {
		cell_fail(cell, "cannot end, though the other has");
	}
	cell->doing = "free";
	blocks_give_all(cell, NULL, NULL);
}

static void settle(struct cell *cell, struct account *before, bool is_first)
{
	struct account now = account(cell);

	if (is_first)
		*before = now;
	else
		account_compare(cell, before, &now);
	if (cell->is_child)
		_exit(0);
}

/* The first two fill what stays: the C library's buffers, the library's own structures. */
static void generic(struct cell *cell)
{
	struct account before;

	for (int i = 0; i < 6; i++) {
		compose(cell, i & 1, i >> 1 & 1);
		settle(cell, &before, i < 2);
	}
}

static void meet(struct cell *cell, meeting *meeting)
{
	struct account before;

	cell->outer = cell->first = "the meeting";
	for (int i = 0; i < 3; i++) {
		meeting(cell);
		settle(cell, &before, !i);
	}
}

/* malloc makes a cache of a size when it is first asked for, by a handler maybe; in a group too. */
static void touch_classes(void)
{
	for (size_t size = 1; size < LARGE; size += size / 16 + 1) {
		void *volatile block = malloc(size);

		free(block);
	}
}

void cell_run(struct cell *cell, meeting *special)
{
	cell_watch(cell);
	touch_classes();
	if (cell->pair[0] == &feature_group || cell->pair[1] == &feature_group) {
		struct slub_group *group = slub_group_create("touch", NULL);

		cell_expect(cell, slub_group_enter(group), "slub_group_enter", 0);
		touch_classes();
		cell_expect(cell, slub_group_leave(group), "slub_group_leave", 0);
		cell_expect(cell, slub_group_destroy(group), "slub_group_destroy", 0);
	}
	if (!special || !getenv("PAIRS_MEETING"))
		generic(cell);
	if (special)
		meet(cell, special);
}
