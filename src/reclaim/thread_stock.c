/* SPDX-License-Identifier: MIT */
/*
 * The stock of a thread that is in a group: what it allocates and frees there
 * is charged by one addition to a word of its own.
 *
 *   fast    add to `bytes`; below 0: undo, and go slow
 *   slow    fill from the CPU's stock, or with a batch of charges (charge.c)
 *   switch  enter and leave: the CPU gets what is left over
 *   back    what another's things are charged with that become this owner's, as
 *           long as it is one and the same other: one word, {owner, bytes}
 *
 * A stock is taken from the pool when a thread enters its first group, and put
 * back when it leaves its last one; a thread that ends before that keeps it for
 * ever.  So others may read it at any time (STOCK-1: bytes of a stock are its
 * owner's; who reads both looks at the owner again).
 *
 * A handler may interrupt its thread anywhere here, allocate, free, enter and
 * leave.  `is_switching` tells it that the stock is between two owners, bytes
 * below 0 that the fast path is about to undo what it took: then entering and
 * leaving leave the stock to its owner, and charges go past it.
 */
#include "reclaim/group.h"

#define STOCKS_MAX BITS_NR

struct pool thread_stock_pool = POOL_INIT(sizeof(struct thread_stock),
					  STOCKS_MAX);
uint32_t group_generation = 1;

/* Of who gets none: never current. */
static struct thread_stock no_stock;
/* Per CPU: those that no thread has; 0: no lists. */
static uintptr_t idle;
/* In an idle list at the most. */
#define IDLE_MAX 64

void thread_stock_init(void)
{
	uintptr_t none = 0, offset;

	if (__atomic_load_n(&idle, __ATOMIC_RELAXED))
		return;
	offset = percpu_alloc(sizeof(struct slub_percpu_list),
			      SLUB_PERCPU_LIST_ALIGN);
	if (offset && !__atomic_compare_exchange_n(&idle, &none, offset, false,
						   __ATOMIC_RELEASE,
						   __ATOMIC_RELAXED))
		slub_percpu_free(offset);
}

static struct thread_stock *stock_get(void)
{
	uintptr_t list = __atomic_load_n(&idle, __ATOMIC_ACQUIRE);
	struct thread_stock *stock = NULL;

	if (list)
		stock = percpu_pop((uint32_t)list, 0);
	if (!stock && !slub_thread.locks_held)
		stock = pool_get(&thread_stock_pool);
	return stock ? stock : &no_stock;
}

static void stock_release(struct thread_stock *stock)
{
	uintptr_t list = __atomic_load_n(&idle, __ATOMIC_ACQUIRE);

	if (stock == &no_stock ||
	    (list && percpu_push_bounded((uint32_t)list, stock, -IDLE_MAX)))
		return;
	/* In a handler it would be a lock too many: it is lost. */
	if (!slub_thread.locks_held)
		pool_put(&thread_stock_pool, stock);
}

/* What was to be given back: 0, or a word for give_back(). */
static uint64_t take_back(struct thread_stock *stock)
{
	uint64_t word;

	do {
		word = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	} while (word && !thread_stock_change(&stock->back, word, 0));
	return word;
}

static void give_back(uint64_t word)
{
	if (word & CHARGE_BYTES_MASK)
		charge_return((uint32_t)(word >> CHARGE_BYTES_BITS),
			      word & CHARGE_BYTES_MASK);
}

static size_t take_all(struct thread_stock *stock)
{
	int64_t bytes = __atomic_load_n(&stock->bytes, __ATOMIC_RELAXED);

	if (bytes <= 0)
		return 0;
	thread_stock_add(stock, -bytes);
	return (size_t)bytes;
}

static bool is_mine(uint32_t owner)
{
	const struct group_thread *thread = &group_thread;

	return thread->stock && thread->stock != &no_stock &&
	       !thread->is_switching && thread->stock->owner == owner;
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
	give_back(take_back(group_thread.stock));
	__atomic_store_n(&group_thread.stock->generation, generation,
			 __ATOMIC_RELAXED);
	return true;
}

void thread_stock_switch(uint32_t owner)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock;
	uint32_t old;
	size_t left;

	/* In a handler that interrupted this very function, or the fast path. */
	if (thread->is_switching ||
	    (thread->stock && thread->stock->bytes < 0)) {
		if (thread->stock)
			thread->stock->generation = 0;
		slub_thread.self.owner = owner;
		return;
	}
	thread->is_switching = true;
	compiler_barrier();
	if (!thread->stock)
		thread->stock = stock_get();
	stock = thread->stock;
	__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
	compiler_barrier();
	old = stock->owner;
	left = take_all(stock);
	if (left)
		charge_return(old, left);
	give_back(take_back(stock));
	__atomic_store_n(&stock->owner, owner, __ATOMIC_RELEASE);
	slub_thread.self.owner = owner;
	if (!owner) {
		thread->stock = NULL;
		stock_release(stock);
	}
	compiler_barrier();
	thread->is_switching = false;
	/* It can be used at once, unless something is tight. */
	if (owner)
		thread_stock_use(owner);
}

size_t thread_stock_put(uint32_t owner, size_t bytes)
{
	if (!thread_stock_use(owner) ||
	    group_thread.stock->bytes >= THREAD_STOCK_MAX)
		return bytes;
	thread_stock_add(group_thread.stock, (int64_t)bytes);
	return 0;
}

bool thread_stock_give(uint32_t owner, size_t bytes)
{
	struct thread_stock *stock = group_thread.stock;
	uint64_t value = (uint64_t)owner << CHARGE_BYTES_BITS | bytes, word;

	if (!is_mine(group_current()) || !thread_stock_is_current(stock) ||
	    bytes > (size_t)THREAD_STOCK_MAX || slub_thread.locks_held)
		return false;
	do {
		word = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	} while (!thread_stock_change(&stock->back, word, value));
	give_back(word);
	return true;
}

void thread_stock_empty(uint32_t owner)
{
	size_t bytes;

	if (!is_mine(owner))
		return;
	bytes = take_all(group_thread.stock);
	if (bytes)
		charge_return(owner, bytes);
}

/* ---- seen from outside ---- */

static int64_t back_of(const struct thread_stock *stock,
		       const struct slub_group *group)
{
	uint64_t word = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);

	if (!(word & CHARGE_BYTES_MASK) ||
	    !group_is_below(owner_group(owner_of((uint32_t)(
				    word >> CHARGE_BYTES_BITS))), group))
		return 0;
	return (int64_t)(word & CHARGE_BYTES_MASK);
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

void thread_stock_fork_child(void)
{
	for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++) {
		struct thread_stock *stock = pool_item(&thread_stock_pool, n);
		uint32_t owner = stock->owner;
		size_t bytes;

		if (stock == group_thread.stock)
			continue;
		give_back(take_back(stock));
		if (!owner)
			continue;
		bytes = take_all(stock);
		if (bytes)
			charge_return(owner, bytes);
	}
}
