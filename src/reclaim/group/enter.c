/* SPDX-License-Identifier: MIT */
/*
 * Which groups a thread is in, and which stock (thread_stock.c) it uses.
 *
 * A thread takes a stock when it enters its first group.  When it leaves its last one,
 * it empties the stock and releases it.  The library does not learn of a thread's
 * end, so a thread outside of all groups must hold no stock.  It remembers the address
 * of its last one, though, and takes that again if it is free: one exchange of `owner`,
 * from 0.  The memory of a stock is never used for anything else, so a stale address
 * does no harm.  If the remembered stock is taken, the thread tries some others, then
 * makes a new one.  So there are about as many stocks as threads inside groups at the
 * same time.
 *
 *   STOCK-2  a stock with owner 0 is empty and not current, and belongs to no thread.
 *            The thread that changes the 0 owns the stock until it writes 0 again;
 *   STOCK-3  `stock` names the stock that a thread owns.  While `is_switching` is set
 *            and `stock` is &no_stock, `last_stock` names it.  A handler that interrupts
 *            the thread may fork; the child releases all stocks but this one
 *            (thread_stock_fork_child()).
 *
 * A thread that ends inside a group keeps its stock for ever.
 */
#include "reclaim/group/group.h"

#include <errno.h>

struct thread_stock no_stock = { .owner = UINT32_MAX };
__thread struct group_thread group_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden"))) = {
	.stock = &no_stock, .last_stock = &no_stock
};

/* ---- taking a stock ---- */

/* So many stocks are tried before a new one is made. */
#define STOCKS_TRIED 8

/* False: the stock belongs to another thread. */
static always_inline bool stock_try(struct thread_stock *stock, uint32_t owner)
{
	uint32_t nobody = 0;

	/* acquire: pairs with the release in stock_release() */
	return __atomic_compare_exchange_n(&stock->owner, &nobody, owner, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Names the stock before it is taken: STOCK-3. */
static inline void stock_will_be(struct group_thread *thread,
				 struct thread_stock *stock)
{
	thread->last_stock = stock;
	compiler_barrier();
}

static struct thread_stock *stock_take_free(struct group_thread *thread,
					    uint32_t owner)
{
	uint32_t nr = pool_end(&thread_stock_pool) - 1;
	uint32_t first = thread_self() * 2654435769u >> 8;

	for (uint32_t i = 0; i < STOCKS_TRIED && i < nr; i++) {
		struct thread_stock *stock = pool_item(&thread_stock_pool,
						       1 + (first + i) % nr);

		if (__atomic_load_n(&stock->owner, __ATOMIC_RELAXED))
			continue;
		stock_will_be(thread, stock);
		if (stock_try(stock, owner))
			return stock;
	}
	return NULL;
}

/* Returns &no_stock if there is no memory for another. */
static __attribute__((__noinline__)) struct thread_stock *
stock_find(struct group_thread *thread, uint32_t owner)
{
	struct thread_stock *stock = stock_take_free(thread, owner);

	while (!stock && !slub_thread.locks_held) {
		stock = pool_get(&thread_stock_pool);
		if (!stock)
			return &no_stock;
		stock_will_be(thread, stock);
		/* Other threads can find it from now on, and may be faster. */
		if (!stock_try(stock, owner))
			stock = NULL;
	}
	return stock ? stock : &no_stock;
}

/* An empty stock, which belongs to @owner from here on. */
static always_inline struct thread_stock *stock_get(struct group_thread *thread,
						    uint32_t owner)
{
	struct thread_stock *stock = thread->last_stock;

	if (stock_try(stock, owner))
		return stock;
	return stock_find(thread, owner);
}

/* ---- entering and leaving an owner ---- */

/* Can @bytes be added to an owner's @word as it is?  The rules are those of stock.c. */
static always_inline bool owner_takes(uint64_t word, size_t bytes)
{
	return !(word & OWNER_DEAD) && !charge_is_tight_anywhere() &&
	       owner_stock(word) + bytes <=
		       __atomic_load_n(&stock_max, __ATOMIC_RELAXED);
}

/*
 * Counts this thread into the owner.  If it @takes the owner's stock, *@bytes says how
 * much that was.  False: @number is not the owner of @group, or the group is deleted.
 */
static bool owner_enter(uint32_t number, const struct slub_group *group,
			bool takes, size_t *bytes)
{
	struct group_owner *owner = owner_of(number);
	uint64_t word = __atomic_load_n(&owner->word, __ATOMIC_RELAXED);

	do {
		if (unlikely(word & OWNER_DEAD))
			return false;
		*bytes = takes ? owner_stock(word) : 0;
	} while (unlikely(!owner_word_change(&owner->word, &word, word +
					     OWNER_INSIDE - *bytes)));
	if (likely(__atomic_load_n(&owner->group, __ATOMIC_RELAXED) == group))
		return true;
	owner_leave_slowly(number, *bytes);
	return false;
}

/* ---- switching between groups ---- */

static void stop_using(struct thread_stock *stock)
{
	if (unlikely(stock == &no_stock))
		return;
	__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
	compiler_barrier();
}

/* False: this is a handler, and it interrupted a switch or the fast path. */
static bool switch_begin(struct group_thread *thread)
{
	if (unlikely(thread->is_switching || thread->stock->bytes < 0)) {
		stop_using(thread->stock);
		return false;
	}
	thread->is_switching = true;
	compiler_barrier();
	return true;
}

/* Both the thread and @stock are in the group of @owner now. */
static void switch_end(struct group_thread *thread,
				     struct thread_stock *stock, uint32_t owner)
{
	uint32_t generation = __atomic_load_n(&group_generation,
					      __ATOMIC_SEQ_CST);

	compiler_barrier();
	if (likely(!__atomic_load_n(&nr_tight, __ATOMIC_SEQ_CST) &&
		   stock != &no_stock))
		__atomic_store_n(&stock->generation, generation,
				 __ATOMIC_RELAXED);
	compiler_barrier();
	thread->is_switching = false;
	if (unlikely(__atomic_load_n(&nr_tight, __ATOMIC_RELAXED)))
		thread_stock_use(owner);
}

/* A stock starts with @bytes, and with the smallest room. */
static always_inline void stock_fill(struct thread_stock *stock, size_t bytes)
{
	stock->room = THREAD_STOCK_MAX;
	stock->has_overflowed = false;
	thread_stock_add(stock, (int64_t)bytes);
}

/* Takes what is in @stock, which is not current: so no handler changes it now. */
static always_inline size_t stock_empty(struct thread_stock *stock,
					uint64_t *back)
{
	int64_t bytes = __atomic_load_n(&stock->bytes, __ATOMIC_RELAXED);

	*back = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	__atomic_store_n(&stock->bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&stock->back, 0, __ATOMIC_RELAXED);
	return (size_t)bytes;
}

/* The stock is @owner's from here on. */
static void stock_begin(struct thread_stock *stock, uint32_t owner, size_t bytes)
{
	if (unlikely(stock == &no_stock))
		return;
	if (unlikely(stock_owner(stock) != owner)) {
		thread_stock_put_away(stock);
		__atomic_store_n(&stock->owner, owner, __ATOMIC_RELEASE);
	}
	stock_fill(stock, bytes);
}

static always_inline void place_write(struct group_thread *thread,
				      uint32_t place, uint32_t group,
				      uint32_t owner)
{
	thread->groups[place] = group;
	thread->owners[place] = owner;
	compiler_barrier();
}

/* Pushes @group on the thread's groups; the owner has counted the thread already. */
static always_inline void go_in(struct group_thread *thread, uint32_t group,
				uint32_t owner)
{
	uint32_t place = thread->nr;

	place_write(thread, place, group, owner);
	thread->nr = (uint16_t)(place + 1);
	compiler_barrier();
	place_write(thread, place, group, owner);
}

/*
 * The thread works for @owner, and its malloc takes the slow path from here on (see
 * base/thread.h).  The order matters: if the limit came first, malloc in a handler
 * between the two stores would find no group, and open the fast path again.
 */
static always_inline void go_slow(uint32_t owner)
{
	slub_thread.self.owner = owner;
	compiler_barrier();
	slub_thread.malloc_limit = 0;
}

/* For a handler that interrupted a switch: enters without touching the stock. */
static cold bool enter_alone(const struct slub_group *group, uint32_t number,
			     uint32_t owner)
{
	size_t bytes;

	if (!owner_enter(owner, group, false, &bytes))
		return false;
	go_in(&group_thread, number, owner);
	go_slow(owner);
	return true;
}

/* The group is deleted: the thread stays where it is. */
static cold bool enter_not(struct group_thread *thread)
{
	struct thread_stock *stock = thread->stock;
	uint32_t owner = slub_thread.self.owner;

	if (!owner && stock != &no_stock) {
		thread->stock = &no_stock;
		stock_release(stock);
	}
	compiler_barrier();
	thread->is_switching = false;
	if (owner)
		thread_stock_use(owner);
	return false;
}

/*
 * @owner is perhaps that of @group, which has @number.  From no group the thread takes a
 * stock; one that serves an outer group is emptied, and serves the new one.
 */
static bool enter(const struct slub_group *group, uint32_t number,
		  uint32_t owner)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock;
	size_t bytes;

	if (unlikely(!switch_begin(thread)))
		return enter_alone(group, number, owner);
	stock = thread->stock;
	if (likely(stock == &no_stock)) {
		stock = stock_get(thread, owner);
		compiler_barrier();
		thread->stock = stock;
		compiler_barrier();
	} else {
		stop_using(stock);
	}
	if (unlikely(!owner_enter(owner, group, stock != &no_stock, &bytes)))
		return enter_not(thread);
	go_in(thread, number, owner);
	stock_begin(stock, owner, bytes);
	go_slow(owner);
	switch_end(thread, stock, owner);
	return true;
}

static cold void leave_alone(uint32_t old, uint32_t owner)
{
	group_thread.nr--;
	compiler_barrier();
	slub_thread.self.owner = owner;
	compiler_barrier();
	owner_leave_slowly(old, 0);
}

/* Back to the outer group of @owner, where the thread is counted already. */
static void leave_to(struct group_thread *thread, struct thread_stock *stock,
		     uint32_t owner)
{
	if (unlikely(stock == &no_stock))
		thread->stock = stock = stock_get(thread, owner);
	compiler_barrier();
	stock_begin(stock, owner, stock == &no_stock ?
				  0 : stock_take(owner, 0, true));
	switch_end(thread, stock, owner);
}

/* The thread leaves @old: puts the contents of @stock back. */
static void stock_leave(struct thread_stock *stock, uint32_t old)
{
	uint64_t back;
	size_t bytes;

	/* A handler may have given the stock to another owner. */
	if (unlikely(stock_owner(stock) != old)) {
		if (stock != &no_stock)
			thread_stock_put_away(stock);
		owner_leave_slowly(old, 0);
		return;
	}
	bytes = stock_empty(stock, &back);
	owner_leave_slowly(old, bytes);
	thread_stock_give_back(back);
}

static void leave(struct group_thread *thread)
{
	uint32_t old = thread->owners[thread->nr - 1u];
	uint32_t owner = thread->nr > 1 ? thread->owners[thread->nr - 2u] : 0;
	struct thread_stock *stock;

	if (unlikely(!switch_begin(thread))) {
		leave_alone(old, owner);
		return;
	}
	stock = thread->stock;
	stop_using(stock);
	/* `nr` first: a handler that leaves a group returns to the one that `nr` names. */
	thread->nr--;
	compiler_barrier();
	slub_thread.self.owner = owner;
	compiler_barrier();
	stock_leave(stock, old);
	if (unlikely(owner)) {
		leave_to(thread, stock, owner);
		return;
	}
	compiler_barrier();
	thread->stock = &no_stock;
	if (likely(stock != &no_stock))
		stock_release(stock);
	compiler_barrier();
	thread->is_switching = false;
}

/* ---- public ---- */

/* For all cases: any nesting, and any owner. */
static __attribute__((__noinline__)) int enter_slowly(struct slub_group *group)
{
	if (!group_is_alive(group))
		return -EINVAL;
	if (unlikely(group_thread.nr == SLUB_GROUP_NESTING_MAX))
		return -ENOSPC;
	return enter(group, group_number(group), group_owner_number(group)) ?
		       0 : -EINVAL;
}

/* Releases the empty @stock and ends the switch; the thread is in no group. */
static always_inline void switch_back(struct group_thread *thread,
				      struct thread_stock *stock)
{
	thread->stock = &no_stock;
	compiler_barrier();
	stock_release(stock);
	compiler_barrier();
	thread->is_switching = false;
}

/* The group was deleted meanwhile, and the owner is another one's. */
static cold int enter_back_out(uint32_t owner, size_t bytes)
{
	owner_leave_slowly(owner, bytes);
	switch_back(&group_thread, group_thread.stock);
	return -EINVAL;
}

static cold int enter_tight(uint32_t owner)
{
	group_thread.is_switching = false;
	thread_stock_use(owner);
	return 0;
}

/*
 * The usual case, written out in one function: from no group into a live one, with the
 * stock that the thread had last.  All other cases are tail calls, so that no register
 * has to be saved for them: 135 instructions for this and slub_group_leave(), and 203 by
 * enter() and leave().
 */
SLUB_EXPORT int slub_group_enter(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;
	uint32_t number = group_number_checked(group);
	struct thread_stock *stock;
	uint32_t owner, generation;
	uint64_t *at, word, rest;

	/* Group and owner mostly have the same number: fetch both lines at once. */
	prefetch_owner(number);
	/* acquire: as in group_is_alive() */
	if (unlikely(!number || thread->nr || thread->is_switching ||
		     !__atomic_load_n(&group->is_alive, __ATOMIC_ACQUIRE)))
		return enter_slowly(group);
	owner = owner_number(group->owner);
	thread->is_switching = true;
	compiler_barrier();
	stock = thread->last_stock;
	if (unlikely(!stock_try(stock, owner))) {
		thread->is_switching = false;
		return enter_slowly(group);
	}
	compiler_barrier();
	thread->stock = stock;
	compiler_barrier();
	at = &owner_of(owner)->word;
	word = __atomic_load_n(at, __ATOMIC_RELAXED);
	rest = word >> OWNER_STOCK_BITS << OWNER_STOCK_BITS;
	if (unlikely(word & OWNER_DEAD) ||
	    unlikely(!owner_word_change(at, &word, rest + OWNER_INSIDE))) {
		switch_back(thread, stock);
		return enter_slowly(group);
	}
	if (unlikely(__atomic_load_n(&owner_of(owner)->group,
				     __ATOMIC_RELAXED) != group))
		return enter_back_out(owner, word - rest);
	place_write(thread, 0, number, owner);
	thread->nr = 1;
	compiler_barrier();
	place_write(thread, 0, number, owner);
	stock_fill(stock, word - rest);
	go_slow(owner);
	generation = __atomic_load_n(&group_generation, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&nr_tight, __ATOMIC_SEQ_CST)))
		return enter_tight(owner);
	__atomic_store_n(&stock->generation, generation, __ATOMIC_RELAXED);
	compiler_barrier();
	thread->is_switching = false;
	return 0;
}

static __attribute__((__noinline__)) int leave_slowly(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;

	if (!thread->nr ||
	    group_of_number(thread->groups[thread->nr - 1u]) != group)
		return -EINVAL;
	leave(thread);
	return 0;
}

/* @bytes and @back were taken out of the stock already. */
static __attribute__((__noinline__)) int
leave_rest(uint32_t owner, size_t bytes, uint64_t back)
{
	owner_leave_slowly(owner, bytes);
	thread_stock_give_back(back);
	return 0;
}

static __attribute__((__noinline__)) int leave_and_give_back(uint64_t back)
{
	thread_stock_give_back(back);
	return 0;
}

/* The usual case again: the thread leaves the only group that it is in. */
SLUB_EXPORT int slub_group_leave(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock = thread->stock;
	uint32_t owner = thread->owners[0];
	uint64_t *at, word, back;
	size_t bytes;

	if (unlikely(thread->nr != 1 || thread->is_switching ||
		     group_at(thread->groups[0]) != group ||
		     stock_owner(stock) != owner || stock->bytes < 0))
		return leave_slowly(group);
	thread->is_switching = true;
	compiler_barrier();
	__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
	compiler_barrier();
	/* `nr` first, as in leave(). */
	thread->nr = 0;
	compiler_barrier();
	slub_thread.self.owner = 0;
	compiler_barrier();
	bytes = stock_empty(stock, &back);
	switch_back(thread, stock);
	at = &owner_of(owner)->word;
	word = __atomic_load_n(at, __ATOMIC_RELAXED);
	if (unlikely(!owner_takes(word, bytes)) ||
	    unlikely(!owner_word_change(at, &word,
					word - OWNER_INSIDE + bytes)))
		return leave_rest(owner, bytes, back);
	return back ? leave_and_give_back(back) : 0;
}

SLUB_EXPORT struct slub_group *slub_group_current(void)
{
	const struct group_thread *thread = &group_thread;

	return thread->nr ? group_of_number(thread->groups[thread->nr - 1]) :
			    NULL;
}
