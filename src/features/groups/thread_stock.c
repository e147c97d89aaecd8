/* SPDX-License-Identifier: MIT */
/*
 * The stock of a thread in a group: bytes that are charged in advance.  The thread's
 * allocations and frees are charged by one addition to a word of its own.
 *
 *   fast    subtract from `bytes`; if it falls below 0, undo that and go slow
 *   slow    fill the stock from the owner's, or charge a whole batch (charge.c)
 *   switch  entering a group takes the owner's stock along; leaving puts the rest back
 *           there (enter.c, stock.c)
 *   room    the most that may lie in the stock: thread_stock_batch().  It starts again in
 *           another group, and in a group that becomes tight
 *   back    bytes to be returned to one other owner, whose objects became this owner's
 *
 * enter.c says which thread owns a stock, and for how long.  The memory is never used for
 * anything else, so any thread may read it at any time.  (STOCK-1: the bytes of a stock
 * belong to its owner.  A reader of both words looks at the owner a second time.)
 *
 * A handler may interrupt its thread anywhere, and may allocate, free, enter and leave.
 * `is_switching` tells it that the stock is between two owners, bytes below 0 that the fast
 * path is about to undo a subtraction.  In both cases entering and leaving do not touch
 * the stock, and charges bypass it.  `room` is a bound, and no sum depends on it.
 */
#include "features/groups/group.h"

#define STOCKS_MAX BITS_NR

struct pool thread_stock_pool fork_writes = POOL_INIT(sizeof(struct thread_stock),
					  STOCKS_MAX);
uint32_t group_generation = 1;
/* A stock that has grown may hold this share of the bytes below the limits. */
#define GROWN_SHARE 64

/* Takes the bytes to be returned out of the stock: 0, or a charge_word(). */
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

	/* A handler may be in another group than the stock of its thread. */
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
	/* The group that gets these bytes may be tight by now. */
	thread_stock_give_back(take_back(group_thread.stock));
	__atomic_store_n(&group_thread.stock->generation, generation,
			 __ATOMIC_RELAXED);
	return true;
}

void thread_stock_fill(uint32_t owner, size_t bytes)
{
	if (thread_stock_use(owner))
		thread_stock_add(group_thread.stock, (int64_t)bytes);
	else
		charge_return(owner, bytes);
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
 * The room doubles if the stock has overflowed since it ran dry last: then the thread's
 * usage goes up and down by more than the room.  A thread that only allocates would gain
 * little from a larger stock.
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

/* ---- for other threads ---- */

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
 * Does this thread own @stock, or was it interrupted while it took or released it?
 * (STOCK-3.)  In the second case the stock is empty and not current.  Another thread's
 * stock may look the same, and then stays taken in the child.
 */
static bool is_in_hand(const struct thread_stock *stock)
{
	const struct group_thread *thread = &group_thread;

	if (thread->stock != &no_stock)
		return stock == thread->stock;
	return thread->is_switching && stock == thread->last_stock &&
	       !stock->bytes && !stock->back && !stock->generation;
}

usual void thread_stock_fork_child(void)
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
