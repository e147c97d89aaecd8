/* SPDX-License-Identifier: MIT */
/*
 * The stock of an owner: bytes that are charged already, up to the root, and not used yet.
 *
 * The stock shares one word with the number of threads inside, so a thread enters a group
 * and takes the stock along by one atomic instruction, and leaves by another.  However many
 * groups there are, those above are touched only when a stock is empty or full.
 *
 *     63     62          40 39                       0
 *    +------+--------------+--------------------------+
 *    | dead |    inside    |          bytes           |
 *    +------+--------------+--------------------------+
 *
 * take, put, enter, leave   each is one compare-exchange of the whole word, so each byte
 *         is taken once.  It counts in the usage of all groups up to the root, and in
 *         `outstanding`, until a thread takes it out and uncharges it (GROUP-4);
 * the group is deleted      one exchange makes the word dead and takes its bytes.  A later
 *         put finds the word dead, and uncharges its bytes itself;
 * the last reference        the group and all threads inside count as 1 together in
 *         `outstanding`.  The thread that makes the word dead while no thread is inside
 *         drops that 1, or the last one that leaves a dead word: none enters one;
 * a stale number            the owner that a thread enters may be another group's by
 *         then.  Once the thread is inside, that cannot change: the thread looks;
 * a group becomes tight     set_tight() comes first, the look at the stocks second.  A put
 *         that read "not tight" before adds to the stock, where each later look finds
 *         it.  Nothing takes from that stock, since takers look at `tight` as well.
 *
 * All stocks together are bounded, so with many groups each is small.  Stocks of threads
 * grow; these do not, since no thread inside would shrink them again.
 */
#include "features/groups/group.h"

/* The most that all owners' stocks hold together, where there are many. */
#define STOCKS_TOTAL ((size_t)128 << 20)

size_t stock_max = STOCK_MAX;

void stock_set_max(uint32_t nr_owners)
{
	__atomic_store_n(&stock_max, min_size(STOCK_MAX,
					      STOCKS_TOTAL / (nr_owners + 1)),
			 __ATOMIC_RELAXED);
}

/* @word with @bytes more.  If that is too much, half the bound stays; *@rest: the excess. */
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
		charge_drop(owner_number(owner), owner_stock(word));
	if (value == OWNER_DEAD)
		owner_drop(owner, 1);
}

/* ---- for other files ---- */

static size_t stock_in(struct group_owner *owner, const struct slub_group *top)
{
	uint64_t word = __atomic_load_n(&owner->word, __ATOMIC_RELAXED);

	if (!owner_stock(word) || !group_is_below(owner_group(owner), top))
		return 0;
	return owner_stock(word);
}

/* Only its own owner can hold stock for it: there are no groups below. */
static bool is_alone(const struct slub_group *group)
{
	return group && !__atomic_load_n(&group->nr_below, __ATOMIC_ACQUIRE);
}

/*
 * Threads' stocks come first: a thread that enters takes its owner's stock along, tight
 * or not, and in the other order those bytes would be counted twice.  A thread that
 * leaves a tight group puts nothing back.
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
	uint32_t number = owner_number(owner);
	size_t bytes = stock_in(owner, top) ? stock_take(number, 0, true) : 0;

	if (bytes)
		charge_drop(number, bytes);
	return bytes != 0;
}

bool stocks_drain(const struct slub_group *top)
{
	bool done = false;

	/* This may drop the last charge of an owner, which takes a lock. */
	if (slub_thread.locks_held)
		return false;
	if (is_alone(top))
		return drain(top->owner, top);
	for (uint32_t n = 1; n < pool_end(&owner_pool); n++)
		done |= drain(owner_of(n), top);
	return done;
}
