/* SPDX-License-Identifier: MIT */
/*
 * Which groups a thread is in, and which stock (thread_stock.c) it uses.
 *
 * A thread takes a stock when it enters its first group, and empties and releases it when
 * it leaves its last one, since nobody tells the library of a thread's end.  It remembers
 * the address, and takes that stock again if it is free, else one of some others, else a
 * new one.  So there are about as many stocks as threads inside groups at the same time.
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
#include "features/groups/group.h"

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

/*
 * An empty stock, which belongs to @owner from here on; &no_stock if there is no memory
 * for another.
 */
static struct thread_stock *stock_get(struct group_thread *thread,
				      uint32_t owner)
{
	struct thread_stock *stock = thread->last_stock;

	if (stock_try(stock, owner))
		return stock;
	stock = stock_take_free(thread, owner);

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

/* ---- entering an owner ---- */

/*
 * Counts this thread into the owner.  If it @takes the owner's stock, *@bytes says how
 * much that was.  False: its group is deleted.  Else owner_is_of() is to follow.
 */
static always_inline bool owner_enter(struct group_owner *owner, bool takes,
				      size_t *bytes)
{
	uint64_t word = __atomic_load_n(&owner->word, __ATOMIC_RELAXED);

	do {
		if (unlikely(word & OWNER_DEAD))
			return false;
		*bytes = takes ? owner_stock(word) : 0;
	} while (unlikely(!owner_word_change(&owner->word, &word, word +
					     OWNER_INSIDE - *bytes)));
	return true;
}

/* False: the number was read before the group was deleted, and is another's. */
static always_inline bool owner_is_of(const struct group_owner *owner,
				      const struct slub_group *group)
{
	return likely(__atomic_load_n(&owner->group, __ATOMIC_RELAXED) == group);
}

/* ---- switching between groups ---- */

static always_inline void stop_using(struct thread_stock *stock)
{
	__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
	compiler_barrier();
}

/* False: this is a handler, and it interrupted a switch or the fast path. */
static always_inline bool switch_begin(struct group_thread *thread)
{
	if (unlikely(thread->is_switching || thread->stock->bytes < 0)) {
		stop_using(thread->stock);
		return false;
	}
	thread->is_switching = true;
	compiler_barrier();
	return true;
}

static cold int switch_end_tight(struct group_thread *thread, uint32_t owner)
{
	thread->is_switching = false;
	thread_stock_use(owner);
	return 0;
}

/* Both the thread and @stock are in the group of @owner now. */
static always_inline int switch_end(struct group_thread *thread,
				    struct thread_stock *stock, uint32_t owner)
{
	uint32_t generation = __atomic_load_n(&group_generation,
					      __ATOMIC_SEQ_CST);

	if (charge_is_tight_anywhere())
		return switch_end_tight(thread, owner);
	if (likely(stock != &no_stock))
		__atomic_store_n(&stock->generation, generation,
				 __ATOMIC_RELAXED);
	compiler_barrier();
	thread->is_switching = false;
	return 0;
}

/* Releases the empty @stock and ends the switch; the thread is in no group. */
static always_inline void switch_out(struct group_thread *thread,
				     struct thread_stock *stock)
{
	compiler_barrier();
	thread->stock = &no_stock;
	if (likely(stock != &no_stock))
		stock_release(stock);
	compiler_barrier();
	thread->is_switching = false;
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

/* From here on @stock is @owner's. */
static void stock_hand_on(struct thread_stock *stock, uint32_t owner)
{
	if (stock == &no_stock || stock_owner(stock) == owner)
		return;
	thread_stock_put_away(stock);
	__atomic_store_n(&stock->owner, owner, __ATOMIC_RELEASE);
}

/* A stock starts with @bytes, and with the smallest room. */
static always_inline void stock_fill(struct thread_stock *stock, size_t bytes)
{
	stock->room = THREAD_STOCK_MAX;
	stock->has_overflowed = false;
	thread_stock_add(stock, (int64_t)bytes);
}

/*
 * Pushes @group on the thread's groups; the owner has counted the thread already.  Written
 * twice: a handler may overwrite a place above the innermost group.
 *
 * The thread works for @owner, and its malloc takes the slow path from here on (see
 * core/base/thread.h).  The order matters: if the limit came first, malloc in a handler
 * between the two stores would find no group, and open the fast path again.
 */
static always_inline void go_in(struct group_thread *thread, uint32_t place,
				uint32_t group, uint32_t owner)
{
	thread->groups[place] = group;
	thread->owners[place] = owner;
	compiler_barrier();
	thread->nr = (uint16_t)(place + 1);
	compiler_barrier();
	thread->groups[place] = group;
	thread->owners[place] = owner;
	compiler_barrier();
	slub_thread.self.owner = owner;
	compiler_barrier();
	slub_thread.malloc_limit = 0;
}

/* For a handler that interrupted a switch: enters without touching the stock. */
static cold int enter_alone(const struct slub_group *group, uint32_t number,
			    uint32_t owner)
{
	size_t bytes;

	if (!owner_enter(owner_of(owner), false, &bytes))
		return -EINVAL;
	if (!owner_is_of(owner_of(owner), group)) {
		owner_leave_slowly(owner, 0);
		return -EINVAL;
	}
	go_in(&group_thread, group_thread.nr, number, owner);
	return 0;
}

/* The group is deleted: the thread stays where it is. */
static cold int enter_not(struct group_thread *thread)
{
	uint32_t owner = slub_thread.self.owner;

	if (owner)
		switch_end_tight(thread, owner);
	else
		switch_out(thread, thread->stock);
	return -EINVAL;
}

static cold int enter_back_out(struct group_thread *thread, uint32_t owner,
			       size_t bytes)
{
	owner_leave_slowly(owner, bytes);
	return enter_not(thread);
}

/*
 * @owner is perhaps that of @group, which has @number.  @is_new: the thread is in no group,
 * and @stock is empty, and @owner's.
 */
static always_inline int enter_with(const struct slub_group *group,
				    uint32_t number, uint32_t owner,
				    struct thread_stock *stock, bool is_new)
{
	struct group_thread *thread = &group_thread;
	struct group_owner *at = owner_of(owner);
	size_t bytes;

	compiler_barrier();
	thread->stock = stock;
	compiler_barrier();
	if (unlikely(!owner_enter(at, is_new || stock != &no_stock, &bytes)))
		return enter_not(thread);
	if (unlikely(!owner_is_of(at, group)))
		return enter_back_out(thread, owner, bytes);
	go_in(thread, is_new ? 0 : thread->nr, number, owner);
	if (!is_new)
		stock_hand_on(stock, owner);
	if (is_new || stock != &no_stock)
		stock_fill(stock, bytes);
	return switch_end(thread, stock, owner);
}

/* A stock that serves an outer group is emptied, and serves the new one. */
static __attribute__((__noinline__)) int
enter_slowly(const struct slub_group *group, uint32_t number, uint32_t owner)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock;

	if (thread->nr == SLUB_GROUP_NESTING_MAX)
		return -ENOSPC;
	if (!switch_begin(thread))
		return enter_alone(group, number, owner);
	stock = thread->stock;
	if (stock == &no_stock)
		stock = stock_get(thread, owner);
	else
		stop_using(stock);
	return enter_with(group, number, owner, stock, false);
}

/*
 * From no group into one, with the stock that the thread had last, this calls nothing but
 * at its end, so no register is saved.
 */
SLUB_EXPORT int slub_group_enter(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;
	uint32_t number = group_number_checked(group), owner;
	struct thread_stock *stock;

	/* Group and owner mostly have the same number: fetch both lines at once. */
	group_prefetch(number);
	if (unlikely(!number ||
		     /* acquire: as in group_is_alive() */
		     !__atomic_load_n(&group->is_alive, __ATOMIC_ACQUIRE)))
		return -EINVAL;
	owner = owner_number(group->owner);
	if (unlikely(thread->nr || thread->is_switching))
		return enter_slowly(group, number, owner);
	thread->is_switching = true;
	compiler_barrier();
	stock = thread->last_stock;
	if (unlikely(!stock_try(stock, owner))) {
		thread->is_switching = false;
		return enter_slowly(group, number, owner);
	}
	return enter_with(group, number, owner, stock, true);
}

/* ---- leaving ---- */

/* For all cases: any nesting, and a handler that interrupted a switch. */
static __attribute__((__noinline__)) int leave_slowly(const struct slub_group *group)
{
	struct group_thread *thread = &group_thread;
	uint32_t nr = thread->nr, old, owner;
	struct thread_stock *stock;
	uint64_t back = 0;
	size_t bytes = 0;
	bool is_alone;

	if (!nr || group_at(thread->groups[nr - 1]) != group)
		return -EINVAL;
	old = thread->owners[nr - 1];
	owner = nr > 1 ? thread->owners[nr - 2] : 0;
	is_alone = !switch_begin(thread);
	stock = thread->stock;
	stop_using(stock);
	/* `nr` first: a handler that leaves a group returns to the one that `nr` names. */
	thread->nr = (uint16_t)(nr - 1);
	compiler_barrier();
	slub_thread.self.owner = owner;
	compiler_barrier();
	if (is_alone) {
		owner_leave_slowly(old, 0);
		return 0;
	}
	if (stock_owner(stock) == old)
		bytes = stock_empty(stock, &back);
	else	/* A handler may have given the stock to another owner. */
		thread_stock_put_away(stock);
	owner_leave_slowly(old, bytes);
	thread_stock_give_back(back);
	if (!owner) {
		switch_out(thread, stock);
		return 0;
	}
	/* To an outer group, where the thread is counted already. */
	if (stock == &no_stock)
		thread->stock = stock = stock_get(thread, owner);
	compiler_barrier();
	stock_hand_on(stock, owner);
	if (stock != &no_stock)
		stock_fill(stock, stock_take(owner, 0, true));
	return switch_end(thread, stock, owner);
}

/* @bytes and @back were taken out of the stock already. */
static __attribute__((__noinline__)) int
leave_rest(uint32_t owner, size_t bytes, uint64_t back)
{
	owner_leave_slowly(owner, bytes);
	thread_stock_give_back(back);
	return 0;
}

/* As slub_group_enter(): out of the only group this calls nothing but at its end. */
SLUB_EXPORT int slub_group_leave(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock = thread->stock;
	uint32_t owner = thread->owners[0];
	uint64_t *at, word, back;
	size_t bytes;

	if (unlikely(thread->nr != 1 ||
		     group_at(thread->groups[0]) != group ||
		     stock_owner(stock) != owner || !switch_begin(thread)))
		return leave_slowly(group);
	stop_using(stock);
	thread->nr = 0;		/* first, as in leave_slowly() */
	compiler_barrier();
	slub_thread.self.owner = 0;
	compiler_barrier();
	bytes = stock_empty(stock, &back);
	switch_out(thread, stock);
	/* The rules are those of stock.c. */
	at = &owner_of(owner)->word;
	word = __atomic_load_n(at, __ATOMIC_RELAXED);
	if (unlikely(back || word & OWNER_DEAD || charge_is_tight_anywhere() ||
		     owner_stock(word) + bytes >
			     __atomic_load_n(&stock_max, __ATOMIC_RELAXED)) ||
	    unlikely(!owner_word_change(at, &word,
					word - OWNER_INSIDE + bytes)))
		return leave_rest(owner, bytes, back);
	return 0;
}

SLUB_EXPORT struct slub_group *slub_group_current(void)
{
	const struct group_thread *thread = &group_thread;

	return thread->nr ? group_of_number(thread->groups[thread->nr - 1]) :
			    NULL;
}
