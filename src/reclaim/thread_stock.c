/* SPDX-License-Identifier: MIT */
/*
 * The stock of a thread that is in a group: what it allocates and frees there
 * is charged by one addition to a word of its own.
 *
 *   fast    add to `bytes`; below 0: undo, and go slow
 *   slow    fill from the owner's stock, or with a batch of charges (charge.c)
 *   switch  enter and leave (enter.c): what the owner has in stock comes along, and what is
 *           left over goes back there (stock.c)
 *   room    how much may lie there.  It grows by doubling where what the thread
 *           allocates and frees in turn is more (thread_stock_batch()), to a small
 *           part of what is left below the limits; another group, or one that
 *           is tight, has it begin anew
 *   back    what another's things are charged with that become this owner's, as
 *           long as it is one and the same other: one word, {owner, bytes}
 *
 * Whose a stock is, and for how long: enter.c.  Its memory stays a stock's, so others
 * may read it at any time (STOCK-1: bytes of a stock are its owner's; who reads both
 * looks at the owner again).
 *
 * A handler may interrupt its thread anywhere here, allocate, free, enter and
 * leave.  `is_switching` tells it that the stock is between two owners, bytes
 * below 0 that the fast path is about to undo what it took: then entering and
 * leaving leave the stock to its owner, and charges go past it.  Where a handler
 * may have written the place above the innermost group, it is written again.
 * `room` may be of before or after: it bounds what a thread keeps, and no sum is made
 * of it.
 */
#include "reclaim/group.h"

#define STOCKS_MAX BITS_NR

struct pool thread_stock_pool = POOL_INIT(sizeof(struct thread_stock),
					  STOCKS_MAX);
uint32_t group_generation = 1;
/* A stock that has grown has room for this part of what is left below limits. */
#define GROWN_SHARE 64

/* What was to be given back: 0, or a charge_word(). */
static uint64_t take_back(struct thread_stock *stock)
{
	uint64_t word;

	do {
		word = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	} while (word && !thread_stock_change(&stock->back, word, 0));
	return word;
}

void thread_stock_give_back(uint64_t word)
{
	if (charge_word_bytes(word))
		charge_return(charge_word_owner(word), charge_word_bytes(word));
}

static size_t take_all(struct thread_stock *stock)
{
	int64_t bytes = __atomic_load_n(&stock->bytes, __ATOMIC_RELAXED);

	if (bytes <= 0)
		return 0;
	thread_stock_add(stock, -bytes);
	return (size_t)bytes;
}

void thread_stock_put_away(struct thread_stock *stock)
{
	size_t left = take_all(stock);

	if (left)
		charge_return(stock_owner(stock), left);
	thread_stock_give_back(take_back(stock));
}

static bool is_mine(uint32_t owner)
{
	const struct group_thread *thread = &group_thread;

	/* A handler may be in another group than its stock. */
	return thread->stock != &no_stock && !thread->is_switching &&
	       stock_owner(thread->stock) == owner &&
	       slub_thread.self.owner == owner;
}

bool thread_stock_use(uint32_t owner)
{
	uint32_t generation = __atomic_load_n(&group_generation,
					      __ATOMIC_SEQ_CST);

	if (!is_mine(owner))
		return false;
	if (group_thread.stock->generation == generation)
		return true;
	if (charge_is_tight(owner) || slub_thread.locks_held)
		return false;
	/* Whom it is given back to may be tight now. */
	thread_stock_give_back(take_back(group_thread.stock));
	__atomic_store_n(&group_thread.stock->generation, generation,
			 __ATOMIC_RELAXED);
	return true;
}

size_t thread_stock_fill(uint32_t owner, size_t bytes)
{
	if (!thread_stock_use(owner))
		return bytes;
	thread_stock_add(group_thread.stock, (int64_t)bytes);
	return 0;
}

size_t thread_stock_put(uint32_t owner, size_t bytes)
{
	struct thread_stock *stock;
	int64_t has, sum, stays;

	if (!thread_stock_use(owner))
		return bytes;
	stock = group_thread.stock;
	do {
		has = __atomic_load_n(&stock->bytes, __ATOMIC_RELAXED);
		sum = has + (int64_t)bytes;
		stays = sum > stock->room ? stock->room / 2 : sum;
	} while (!thread_stock_change((uint64_t *)&stock->bytes, (uint64_t)has,
				      (uint64_t)stays));
	stock->has_overflowed |= stays != sum;
	return (size_t)(sum - stays);
}

/*
 * Twice as much where it has overflowed since it was dry last: then the thread goes
 * up and down by more than it has room for.  Who only goes up would gain little.
 */
size_t thread_stock_batch(uint32_t owner)
{
	struct thread_stock *stock;
	int64_t room;

	if (!thread_stock_use(owner))
		return STOCK_BATCH;
	stock = group_thread.stock;
	room = stock->room << stock->has_overflowed;
	if (room > THREAD_STOCK_MAX) {
		size_t share = charge_left(owner) / GROWN_SHARE;

		room = (int64_t)min_size(min_size((size_t)room,
						  THREAD_STOCK_GROWN_MAX),
					 max_size(share, THREAD_STOCK_MAX));
	}
	stock->has_overflowed = false;
	stock->room = room;
	return (size_t)room / 2;
}

bool thread_stock_give(uint32_t owner, size_t bytes)
{
	struct thread_stock *stock = group_thread.stock;
	uint64_t value = charge_word(owner, bytes), word;

	if (!is_mine(group_current()) || !thread_stock_is_current(stock) ||
	    bytes > (size_t)THREAD_STOCK_MAX || slub_thread.locks_held)
		return false;
	group_prefetch(owner);
	do {
		word = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	} while (!thread_stock_change(&stock->back, word, value));
	thread_stock_give_back(word);
	return true;
}

void thread_stock_empty(uint32_t owner)
{
	size_t bytes;

	if (!is_mine(owner))
		return;
	group_thread.stock->room = THREAD_STOCK_MAX;
	bytes = take_all(group_thread.stock);
	if (bytes)
		charge_return(owner, bytes);
}

/* ---- seen from outside ---- */

static int64_t back_of(const struct thread_stock *stock,
		       const struct slub_group *group)
{
	uint64_t word = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);

	if (!charge_word_bytes(word) ||
	    !group_is_below(owner_group(owner_of(charge_word_owner(word))),
			    group))
		return 0;
	return (int64_t)charge_word_bytes(word);
}

static int64_t stock_of(const struct thread_stock *stock,
			const struct slub_group *group)
{
	uint32_t owner = __atomic_load_n(&stock->owner, __ATOMIC_ACQUIRE);
	int64_t bytes = __atomic_load_n(&stock->bytes, __ATOMIC_ACQUIRE);

	if (!owner || bytes <= 0 ||
	    __atomic_load_n(&stock->owner, __ATOMIC_RELAXED) != owner ||
	    !group_is_below(owner_group(owner_of(owner)), group))
		return 0;
	return bytes;
}

int64_t thread_stocks_of(const struct slub_group *group)
{
	int64_t sum = 0;

	for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++) {
		sum += stock_of(pool_item(&thread_stock_pool, n), group);
		sum += back_of(pool_item(&thread_stock_pool, n), group);
	}
	return sum;
}

/*
 * Has this thread @stock, or is about to, or to let go of it?  STOCK-3.  Then it is
 * empty and not current; what is another's and looks so too stays taken.
 */
static bool is_in_hand(const struct thread_stock *stock)
{
	const struct group_thread *thread = &group_thread;

	if (thread->stock != &no_stock)
		return stock == thread->stock;
	return thread->is_switching && stock == thread->last_stock &&
	       !stock->bytes && !stock->back && !stock->generation;
}

void thread_stock_fork_child(void)
{
	for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++) {
		struct thread_stock *stock = pool_item(&thread_stock_pool, n);
		uint32_t owner = stock->owner;
		size_t bytes;

		if (is_in_hand(stock))
			continue;
		thread_stock_give_back(take_back(stock));
		if (!owner)
			continue;
		bytes = take_all(stock);
		if (bytes)
			charge_return(owner, bytes);
		__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
		stock_release(stock);
	}
}
