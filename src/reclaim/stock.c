/* SPDX-License-Identifier: MIT */
/*
 * What owners have in stock: bytes that are charged already, up to the root, and
 * that nobody uses yet.
 *
 * It is part of one word of the owner, with the number of threads inside, so a
 * thread that enters a group becomes one of those inside and takes what lies there
 * along, and one that leaves puts it back and is gone, by one atomic instruction
 * each.  Nothing has to make room for it, whatever number of groups there is: the
 * groups above are touched when a stock is empty or full, not when a request is for
 * another group than the last.
 *
 *     63     62          40 39                       0
 *    +------+--------------+--------------------------+
 *    | dead |    inside    |          bytes           |
 *    +------+--------------+--------------------------+
 *
 * Why that is right, by what may happen at once to a word:
 *
 *   take, put, enter, leave   each is one compare-exchange of the whole word, so a
 *           byte in it is taken once; it was counted in the usage of all groups up
 *           to the root, and in `outstanding`, by who charged it, and is until
 *           somebody takes it out and gives it back there (GROUP-4);
 *   the group is deleted      one exchange makes it dead and takes what is in it:
 *           a put before that is in what was taken, one after it finds it dead and
 *           gives the bytes back itself.  So a dead word is without bytes for ever;
 *   the last reference        `outstanding` has 1 for the group and all that are
 *           inside together.  Who makes the word dead while nobody is inside, or is
 *           the last to leave a dead one, drops it: of these there is one, since
 *           nobody enters a dead one;
 *   a stale number            who enters by the hint of a group finds an owner, if
 *           perhaps one that was made anew for another group meanwhile.  Once
 *           inside, the owner stays what it is: a look at whose it is tells;
 *   a group becomes tight     as for stocks of threads: set_tight() comes first,
 *           then the look at the stocks.  A put that read "not tight" before lands
 *           in the stock, where each further look finds it; nothing takes from it,
 *           as takers look too.
 *
 * All stocks together are bounded, so with many groups each has little.  Those of
 * threads grow, these do not: nobody is inside who would see to it that they shrink.
 */
#include "reclaim/group.h"

/* In all owners' stocks together at the most, where there are many. */
#define STOCKS_TOTAL ((size_t)128 << 20)

size_t stock_max = STOCK_MAX;

void stock_set_max(uint32_t nr_owners)
{
	__atomic_store_n(&stock_max, min_size(STOCK_MAX,
					      STOCKS_TOTAL / (nr_owners + 1)),
			 __ATOMIC_RELAXED);
}

/* @word with @bytes more; *@rest: what there is no room for, or more than that. */
static uint64_t with_more(uint64_t word, size_t bytes, size_t *rest)
{
	size_t max = __atomic_load_n(&stock_max, __ATOMIC_RELAXED);
	uint64_t sum = owner_stock(word) + bytes;

	*rest = sum > max ? sum - max / 2 : 0;
	if (unlikely(word & OWNER_DEAD))
		*rest = bytes;
	return word + bytes - *rest;
}

size_t stock_take(uint32_t owner, size_t bytes, bool all)
{
	uint64_t *at = &owner_of(owner)->word;
	uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED);
	size_t has;

	do {
		has = owner_stock(word);
		if (!has || (!all && has < bytes))
			return 0;
		if (all)
			bytes = has;
	} while (!owner_word_change(at, &word, word - bytes));
	return bytes;
}

size_t stock_put(uint32_t owner, size_t bytes)
{
	uint64_t *at = &owner_of(owner)->word;
	uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED), value;
	size_t rest;

	do {
		value = with_more(word, bytes, &rest);
	} while (value != word && !owner_word_change(at, &word, value));
	return rest;
}

void owner_leave_slowly(uint32_t number, size_t bytes)
{
	struct group_owner *owner = owner_of(number);
	uint64_t word = __atomic_load_n(&owner->word, __ATOMIC_RELAXED), value;
	bool is_tight = charge_is_tight(number);
	size_t rest;

	do {
		value = with_more(word - OWNER_INSIDE, is_tight ? 0 : bytes,
				  &rest);
	} while (!owner_word_change(&owner->word, &word, value));
	if (unlikely(is_tight))
		rest += bytes;
	if (unlikely(rest))
		charge_drop(number, rest);
	if (unlikely(value == OWNER_DEAD))
		owner_drop(owner, 1);
}

void owner_kill(struct group_owner *owner)
{
	uint64_t word = __atomic_load_n(&owner->word, __ATOMIC_RELAXED), value;

	do {
		value = (word | OWNER_DEAD) - owner_stock(word);
	} while (!owner_word_change(&owner->word, &word, value));
	if (owner_stock(word))
		charge_drop(pool_number(&owner_pool, owner), owner_stock(word));
	if (value == OWNER_DEAD)
		owner_drop(owner, 1);
}

/* ---- seen from outside ---- */

static size_t stock_in(struct group_owner *owner, const struct slub_group *top)
{
	uint64_t word = __atomic_load_n(&owner->word, __ATOMIC_RELAXED);

	if (!owner_stock(word) || !group_is_below(owner_group(owner), top))
		return 0;
	return owner_stock(word);
}

/* Nobody but its own owner can have something in stock for it. */
static bool is_alone(const struct slub_group *group)
{
	return group && !__atomic_load_n(&group->nr_below, __ATOMIC_ACQUIRE);
}

/*
 * Those of threads first: a thread that enters takes what its owner has along, tight
 * or not, and would have it counted twice.  One that leaves a tight group puts
 * nothing back.
 */
int64_t stocks_of(const struct slub_group *group)
{
	int64_t sum = thread_stocks_of(group);

	compiler_barrier();
	if (is_alone(group))
		return sum + (int64_t)stock_in(group->owner, group);
	for (uint32_t n = 1; n < pool_end(&owner_pool); n++)
		sum += (int64_t)stock_in(owner_of(n), group);
	return sum;
}

static bool drain(struct group_owner *owner, const struct slub_group *top)
{
	uint32_t number = pool_number(&owner_pool, owner);
	size_t bytes = stock_in(owner, top) ? stock_take(number, 0, true) : 0;

	if (bytes)
		charge_drop(number, bytes);
	return bytes != 0;
}

bool stocks_drain(const struct slub_group *top)
{
	bool done = false;

	/* An owner's last charge may go: that takes a lock. */
	if (slub_thread.locks_held)
		return false;
	if (is_alone(top))
		return drain(top->owner, top);
	for (uint32_t n = 1; n < pool_end(&owner_pool); n++)
		done |= drain(owner_of(n), top);
	return done;
}
