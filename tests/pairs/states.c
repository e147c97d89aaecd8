/* SPDX-License-Identifier: MIT */
/* Features in force or not: the command, letters, guard, profile, limit, reserve, group. */
#include "pairs.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>

#include "features/debug/mailbox.h"

/* ---- command ---- */

static struct debug_mailbox *mailbox(struct cell *cell)
{
	static struct debug_mailbox *box;

	if (!box)
		box = dlsym(RTLD_DEFAULT, "slub_debug_mailbox");
	if (!box)
		cell_fail(cell, "no mailbox");
	return box;
}

/* Each allocation of a watched cache takes a slow path, where requests are answered. */
static struct slub_cache *door(struct cell *cell)
{
	static struct slub_cache *cache;

	if (!cache)
		cache = slub_cache_create("door", 64, 0, SLUB_CACHE_NO_MERGE, NULL);
	if (!cache || slub_cache_debug(cache, SLUB_CACHE_CONSISTENCY_CHECKS))
		cell_fail(cell, "no watched cache");
	return cache;
}

long command_ask(struct cell *cell, unsigned int operation, const char *text)
{
	enum { VISITS = 20000 };
	static uint64_t id = 1000;
	struct debug_mailbox *box = mailbox(cell);
	struct debug_request request = { 0 };
	struct slub_cache *cache = door(cell);

	request.id = ++id;
	request.operation = operation;
	snprintf(request.text, sizeof(request.text), "%s", text);
	request.check = debug_request_check(&request);
	box->request = request;
	__atomic_store_n(&box->state, MAILBOX_NUMBER(id) | MAILBOX_REQUEST, __ATOMIC_SEQ_CST);
	for (int visits = 0; visits < VISITS; visits++) {
		if (__atomic_load_n(&box->answered, __ATOMIC_ACQUIRE) == id)
			return box->result;
		slub_cache_free(cache, slub_cache_alloc(cache));
		/* Another thread answers. */
		while ((__atomic_load_n(&box->state, __ATOMIC_ACQUIRE) & MAILBOX_STATE) ==
		       MAILBOX_TAKEN)
			sched_yield();
	}
	cell_fail(cell, "'%s' (%u) was not answered: state %#x, %zu refused, context %#x", text,
		  operation, box->state, (size_t)box->nr_refused, cell->context);
}

static void command_disturb(struct cell *cell)
{
	static const struct {
		unsigned int operation;
		const char *text;
	} asked[] = {
		{ MAILBOX_DEBUG, "FZ,malloc-*" }, { MAILBOX_VALIDATE, "" },
		{ MAILBOX_SHRINK, "pair*" },	  { MAILBOX_DEBUG, "-,malloc-*" },
		{ MAILBOX_PROFILE, "start 512" }, { MAILBOX_SET, "retain=2M" },
		{ MAILBOX_NODE, "0" },		  { MAILBOX_PROFILE, "stop" },
		{ MAILBOX_GUARD, "3" },		  { MAILBOX_SHRINK, "malloc-*" },
		{ MAILBOX_GUARD, "0" },		  { MAILBOX_SET, "retain=16M" },
	};
	static unsigned int next;

	for (int i = 0; i < 3; i++, next++) {
		unsigned int which = next % (sizeof(asked) / sizeof(*asked));
		long result = command_ask(cell, asked[which].operation, asked[which].text);

		if (result < 0 || (asked[which].operation == MAILBOX_VALIDATE && result))
			cell_fail(cell, "'%s' (%u) answers %ld", asked[which].text,
				  asked[which].operation, result);
	}
}

static bool command_leave(struct cell *cell)
{
	command_ask(cell, MAILBOX_DEBUG, "-,malloc-*");
	command_ask(cell, MAILBOX_GUARD, "0");
	command_ask(cell, MAILBOX_PROFILE, "stop");
	return true;
}

const struct feature feature_command = {
	.name = "command",
	.leave = command_leave,
	.disturb = command_disturb,
	/* Nobody answers there. */
	.disturb_not = IN_HANDLER | IN_CALLBACK | IN_MIGRATE,
};

/* ---- letters ---- */

static void letters_set(struct cell *cell, const char *setting)
{
	int changed = slub_debug(setting);

	if (changed < 0)
		cell_fail(cell, "slub_debug(%s): %d", setting, changed);
}

static void letters_enter(struct cell *cell)
{
	letters_set(cell, "FZPU");
}

static void letters_disturb(struct cell *cell)
{
	static unsigned int turn;

	letters_set(cell, turn++ % 2 ? "FZPU" : "-,malloc-*");
}

static void letters_check(struct cell *cell)
{
	long bugs;

	if (cell_is_in(cell, IN_HANDLER))
		return;
	bugs = slub_validate_all();
	if (bugs)
		cell_fail(cell, "slub_validate_all: %ld", bugs);
}

static bool letters_leave(struct cell *cell)
{
	letters_check(cell);
	letters_set(cell, "-");
	return true;
}

const struct feature feature_letters = {
	.name = "letters",
	.enter = letters_enter,
	.leave = letters_leave,
	.disturb = letters_disturb,
	.check = letters_check,
	.disturb_not = IN_HANDLER,
};

/* ---- fail: letter A ---- */

static void fail_every(struct cell *cell, const char *nr)
{
	cell_expect(cell, slub_option_set("debug_fail", nr), "slub_option_set(debug_fail)", 0);
}

static void fail_enter(struct cell *cell)
{
	fail_every(cell, "0");
	letters_set(cell, "FA");
}

/* What begins or ends meanwhile has its memory; all other allocations may fail. */
static void fail_around(struct cell *cell)
{
	fail_every(cell, "3");
	cell_nest(cell);
	fail_every(cell, "0");
}

static bool fail_leave(struct cell *cell)
{
	letters_set(cell, "-");
	return true;
}

const struct feature feature_fail = {
	.name = "fail",
	.enter = fail_enter,
	.leave = fail_leave,
	.around = fail_around,
	.around_not = IN_HANDLER,
	.refuses = true,
};

/* ---- guard ---- */

static void guard_every(struct cell *cell, const char *nr)
{
	cell_expect(cell, command_ask(cell, MAILBOX_GUARD, nr), "slub guard", 0);
}

static void guard_enter(struct cell *cell)
{
	guard_every(cell, "2");
}

static void guard_disturb(struct cell *cell)
{
	static unsigned int turn;

	guard_every(cell, turn++ % 2 ? "2" : "1");
}

static bool guard_leave(struct cell *cell)
{
	guard_every(cell, "0");
	return true;
}

const struct feature feature_guard = {
	.name = "guard",
	.enter = guard_enter,
	.leave = guard_leave,
	.disturb = guard_disturb,
	.disturb_not = IN_HANDLER | IN_CALLBACK | IN_MIGRATE,
};

/* ---- profile ---- */

static void profile_enter(struct cell *cell)
{
	cell_expect(cell, slub_profile_start(64), "slub_profile_start", 0);
}

static void profile_disturb(struct cell *cell)
{
	static unsigned int turn;

	cell_expect(cell, slub_profile_write("/dev/null"), "slub_profile_write", 0);
	if (turn++ % 2)
		cell_expect(cell, slub_profile_stop(), "slub_profile_stop", 0);
	cell_expect(cell, slub_profile_start(64), "slub_profile_start", 0);
}

static bool profile_leave(struct cell *cell)
{
	cell_expect(cell, slub_profile_stop(), "slub_profile_stop", 0);
	return true;
}

const struct feature feature_profile = {
	.name = "profile",
	.enter = profile_enter,
	.leave = profile_leave,
	.disturb = profile_disturb,
	.disturb_not = IN_HANDLER,
};

/* ---- limit ---- */

enum { PIECE = 512 << 10, ROOM = 6 << 20 };

static void limit_set(struct cell *cell, size_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", bytes);
	cell_expect(cell, slub_option_set("limit", text), "slub_option_set(limit)", 0);
}

static size_t used(struct cell *cell)
{
	static const char *const names[] = { "heap.slab_bytes", "heap.large_bytes" };
	struct slub_value value = { 0 };
	size_t bytes = 0;

	for (int i = 0; i < 2; i++) {
		cell_expect(cell, slub_value_read(names[i], &value), names[i], 0);
		bytes += value.number;
	}
	return bytes;
}

static void limit_enter(struct cell *cell)
{
	limit_set(cell, used(cell) + ROOM);
}

static void limit_disturb(struct cell *cell)
{
	fill_until_refused(cell, &feature_limit, PIECE);
}

static bool limit_leave(struct cell *cell)
{
	limit_set(cell, 0);
	return true;
}

const struct feature feature_limit = {
	.name = "limit",
	.enter = limit_enter,
	.leave = limit_leave,
	.disturb = limit_disturb,
	.disturb_not = IN_HANDLER,
	.refuses = true,
};

/* ---- reserve ---- */

enum { RESERVED = 1 << 20 };

static struct slub_cache *needed;

static void reserve_enter(struct cell *cell)
{
	cell_expect(cell, slub_reserve_set(RESERVED), "slub_reserve_set", 0);
	needed = slub_cache_create("pair-reserve", 120, 0, SLUB_CACHE_ACCOUNT, NULL);
	if (!needed)
		cell_fail(cell, "slub_cache_create: errno %d", errno);
}

static void reserve_around(struct cell *cell)
{
	cell_expect(cell, slub_reserve_enter(), "slub_reserve_enter", 0);
	cell_nest(cell);
	cell_expect(cell, slub_reserve_leave(), "slub_reserve_leave", 0);
}

static void *reserve_alloc(struct cell *cell, size_t *size)
{
	(void)cell;
	*size = 120;
	return slub_cache_alloc_flags(needed, SLUB_ALLOC_RESERVE);
}

static void reserve_free(struct cell *cell, void *block)
{
	(void)cell;
	slub_cache_free(needed, block);
}

static void reserve_check(struct cell *cell)
{
	size_t bytes = slub_reserve_bytes();

	/* It may have been used where a limit was in the way, and is filled first. */
	if (bytes > RESERVED || (bytes < RESERVED &&
				 !cell_has(cell, &feature_limit) && !cell_is_in(cell, IN_READER)))
		cell_fail(cell, "%zu bytes in a reserve of %d", bytes, RESERVED);
}

static void reserve_disturb(struct cell *cell)
{
	cell_expect(cell, slub_reserve_set(RESERVED / 2), "slub_reserve_set", -ENOMEM);
	cell_expect(cell, slub_reserve_set(RESERVED), "slub_reserve_set", -ENOMEM);
}

static bool reserve_leave(struct cell *cell)
{
	if (!cell_expect(cell, slub_cache_destroy(needed), "slub_cache_destroy",
			 cell_is_in(cell, IN_READER) ? -EDEADLK : 0))
		return false;
	cell_expect(cell, slub_reserve_set(0), "slub_reserve_set", 0);
	if (slub_reserve_bytes())
		cell_fail(cell, "%zu bytes in no reserve", slub_reserve_bytes());
	return true;
}

const struct feature feature_reserve = {
	.name = "reserve",
	.enter = reserve_enter,
	.leave = reserve_leave,
	.around = reserve_around,
	.alloc = reserve_alloc,
	.free = reserve_free,
	.disturb = reserve_disturb,
	.check = reserve_check,
	.disturb_not = IN_HANDLER,
};

/* ---- group ---- */

static struct slub_group *group;

static void group_enter(struct cell *cell)
{
	group = slub_group_create("pair", NULL);
	if (!group)
		cell_fail(cell, "slub_group_create: errno %d", errno);
}

static void group_around(struct cell *cell)
{
	unsigned int before = cell->context;

	cell_expect(cell, slub_group_enter(group), "slub_group_enter", 0);
	cell->context |= IN_GROUP;
	cell_nest(cell);
	cell->context = before;
	cell_expect(cell, slub_group_leave(group), "slub_group_leave", 0);
}

static void *group_alloc(struct cell *cell, size_t *size)
{
	int saved;
	void *block;

	cell_expect(cell, slub_group_enter(group), "slub_group_enter", 0);
	block = malloc(*size);
	saved = errno;
	cell_expect(cell, slub_group_leave(group), "slub_group_leave", 0);
	errno = saved;
	return block;
}

static void group_free(struct cell *cell, void *block)
{
	(void)cell;
	free(block);
}

static size_t usage(struct cell *cell)
{
	struct slub_group_stats stats = { 0 };

	cell_expect(cell, slub_group_stats(group, &stats), "slub_group_stats", 0);
	return stats.usage;
}

/* The group's maximum is reached with the other's memory, which comes back by the other's way. */
static void group_disturb(struct cell *cell)
{
	struct slub_group_memory memory;

	cell_expect(cell, slub_group_limit_set(group, SLUB_GROUP_MAX, usage(cell) + ROOM),
		    "slub_group_limit_set", 0);
	cell_expect(cell, slub_group_enter(group), "slub_group_enter", 0);
	fill_until_refused(cell, &feature_group, PIECE);
	cell_expect(cell, slub_group_leave(group), "slub_group_leave", 0);
	cell_expect(cell, slub_group_limit_set(group, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT),
		    "slub_group_limit_set", 0);
	cell_expect(cell, slub_group_memory(group, &memory), "slub_group_memory", 0);
}

static void group_check(struct cell *cell)
{
	/* Large blocks between guard pages are charged to nobody. */
	bool is_guarded = cell_has(cell, &feature_guard) || cell_has(cell, &feature_command);
	size_t least = 0, bytes;

	if (cell_is_in(cell, IN_HANDLER))
		return;
	cell_barrier(cell);
	for (int i = 0; i < BLOCKS; i++)
		if (cell->blocks[i].at && cell->blocks[i].maker == &feature_group &&
		    (cell->blocks[i].size < LARGE / 4 || !is_guarded))
			least += cell->blocks[i].size;
	bytes = usage(cell);
	if (bytes < least)
		cell_fail(cell, "a group of blocks of %zu bytes is charged %zu", least, bytes);
}

/* By turns with blocks that are charged still, to its parent from then on. */
static bool group_leave(struct cell *cell)
{
	bool is_empty = !cell_is_in(cell, IN_READER);

	for (int i = 0; i < BLOCKS; i++)
		is_empty &= !cell->blocks[i].at || !cell->blocks[i].in_group;
	if (is_empty && !cell->is_there[cell->pair[0] == &feature_group]) {
		cell_barrier(cell);
		if (usage(cell))
			cell_fail(cell, "an empty group is charged %zu", usage(cell));
	}
	cell_expect(cell, slub_group_destroy(group), "slub_group_destroy", 0);
	return true;
}

const struct feature feature_group = {
	.name = "group",
	.enter = group_enter,
	.leave = group_leave,
	.around = group_around,
	.alloc = group_alloc,
	.free = group_free,
	.disturb = group_disturb,
	.check = group_check,
	/* In a callback a charge is made without regard to limits. */
	.disturb_not = IN_HANDLER | IN_CALLBACK,
};
