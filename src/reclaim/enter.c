/* SPDX-License-Identifier: MIT */
/*
 * Which groups a thread is in, and which stock (thread_stock.c) it has.
 *
 * A thread that enters its first group takes a stock, one that leaves its last one
 * has emptied it and lets go of it.  Nobody tells the library of a thread's end, so
 * it may keep nothing; but it remembers where the stock lies that it had, and takes
 * that again if it is nobody's: one exchange of `owner`, from 0.  A stock's memory
 * stays a stock for ever, so a stale pointer does no harm.  Who finds his taken
 * tries some others, then makes one; so there are about as many as threads are
 * inside at the same time.  (A list per CPU, before: 65 instructions for pop and
 * push, 15 now.)
 *
 *   STOCK-2  a stock of owner 0 is empty and not current, and no thread has it; who
 *            changes that 0 has it until he writes 0 again;
 *   STOCK-3  what a thread has it has under `stock` or, while it `is_switching` and that
 *            is none, under `last_stock`: a handler that interrupts it may fork, and the
 *            child gives back all but these (thread_stock_fork_child()).
 *
 * A thread that ends inside a group keeps its stock for ever.
 */
#include "reclaim/group.h"

#include <errno.h>

struct thread_stock no_stock = { .owner = UINT32_MAX };
__thread struct group_thread group_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden"))) = {
	.stock = &no_stock, .last_stock = &no_stock
};

/* ---- whose a stock is ---- */

/* Stocks that are looked at before one more is made. */
#define STOCKS_TRIED 8

/* False: it is another thread's. */
static always_inline bool stock_try(struct thread_stock *stock, uint32_t owner)
{
	uint32_t nobody = 0;

	/* acquire: pairs with the release in stock_release() */
	return __atomic_compare_exchange_n(&stock->owner, &nobody, owner, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Before it is tried: STOCK-3. */
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

/* &no_stock: there is none for this thread. */
static __attribute__((__noinline__)) struct thread_stock *
stock_find(struct group_thread *thread, uint32_t owner)
{
	struct thread_stock *stock = stock_take_free(thread, owner);

	while (!stock && !slub_thread.locks_held) {
		stock = pool_get(&thread_stock_pool);
		if (!stock)
			return &no_stock;
		stock_will_be(thread, stock);
		/* From the moment it is there others find it, too. */
		if (!stock_try(stock, owner))
			stock = NULL;
	}
	return stock ? stock : &no_stock;
}

/* One that is empty, and @owner's from here on. */
static always_inline struct thread_stock *stock_get(struct group_thread *thread,
						    uint32_t owner)
{
	struct thread_stock *stock = thread->last_stock;

	if (stock_try(stock, owner))
		return stock;
	return stock_find(thread, owner);
}

/* ---- in and out ---- */

/* Does an owner whose word is @word take @bytes as they are?  As in stock.c. */
static always_inline bool owner_takes(uint64_t word, size_t bytes)
{
	return !(word & OWNER_DEAD) && !charge_is_tight_anywhere() &&
	       owner_stock(word) + bytes <=
		       __atomic_load_n(&stock_max, __ATOMIC_RELAXED);
}

/* This thread no more is inside, and puts @bytes back. */
static inline void owner_leave(uint32_t number, size_t bytes)
{
	uint64_t *at = &owner_of(number)->word;
	uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (unlikely(!owner_takes(word, bytes)) ||
	    unlikely(!owner_word_change(at, &word,
					word - OWNER_INSIDE + bytes)))
		owner_leave_slowly(number, bytes);
}

/*
 * This thread is inside from now on, and has what was in stock, *@bytes, if it
 * @takes that.  False: @number is not @group's owner, or that is deleted.
 */
static always_inline bool owner_enter(uint32_t number,
				      const struct slub_group *group,
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
	owner_leave(number, *bytes);
	return false;
}

static always_inline void stop_using(struct thread_stock *stock)
{
	if (unlikely(stock == &no_stock))
		return;
	__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
	compiler_barrier();
}

/* False: in a handler that interrupted a switch, or the fast path. */
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

/* The thread is in the group of @owner, and @stock is. */
static always_inline void switch_end(struct group_thread *thread,
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

/* It is @owner's, has nothing else, and begins anew with @bytes. */
static always_inline void stock_begin(struct thread_stock *stock, size_t bytes)
{
	stock->room = THREAD_STOCK_MAX;
	stock->has_overflowed = false;
	thread_stock_add(stock, (int64_t)bytes);
}

static always_inline void place_write(struct group_thread *thread,
				      uint32_t place, uint32_t group,
				      uint32_t owner)
{
	thread->groups[place] = group;
	thread->owners[place] = owner;
	compiler_barrier();
}

/* The thread goes into @group, and is inside already. */
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
 * The thread is in @owner's group, and its malloc goes slow from here on; see
 * base/thread.h.  In this order: a handler's malloc in between would find no group, and
 * open the fast path again.
 */
static always_inline void go_slow(uint32_t owner)
{
	slub_thread.self.owner = owner;
	compiler_barrier();
	slub_thread.malloc_limit = 0;
}

/* In a handler, or where there is no stock: the stock stays as it is. */
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

/* It is deleted: the thread goes on where it is. */
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

/* From one group into another: the stock goes along, without what is in it. */
static __attribute__((__noinline__)) bool
enter_deeper(const struct slub_group *group, uint32_t number, uint32_t owner)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock = thread->stock;
	size_t bytes;

	stop_using(stock);
	if (unlikely(!owner_enter(owner, group, true, &bytes)))
		return enter_not(thread);
	go_in(thread, number, owner);
	thread_stock_put_away(stock);
	__atomic_store_n(&stock->owner, owner, __ATOMIC_RELEASE);
	stock_begin(stock, bytes);
	go_slow(owner);
	switch_end(thread, stock, owner);
	return true;
}

static bool enter(const struct slub_group *group, uint32_t number,
		  uint32_t owner)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock;
	size_t bytes;

	if (unlikely(!switch_begin(thread)))
		return enter_alone(group, number, owner);
	if (unlikely(thread->stock != &no_stock))
		return enter_deeper(group, number, owner);
	stock = stock_get(thread, owner);
	compiler_barrier();
	thread->stock = stock;
	compiler_barrier();
	if (unlikely(!owner_enter(owner, group, stock != &no_stock, &bytes)))
		return enter_not(thread);
	go_in(thread, number, owner);
	if (likely(stock != &no_stock))
		stock_begin(stock, bytes);
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
	owner_leave(old, 0);
}

/* Back to the group of @owner, which the thread is in already. */
static __attribute__((__noinline__)) void
leave_to(struct group_thread *thread, struct thread_stock *stock,
	 uint32_t owner)
{
	if (unlikely(stock == &no_stock))
		thread->stock = stock = stock_get(thread, owner);
	else
		__atomic_store_n(&stock->owner, owner, __ATOMIC_RELEASE);
	compiler_barrier();
	if (likely(stock != &no_stock))
		stock_begin(stock, stock_take(owner, 0, true));
	switch_end(thread, stock, owner);
}

/* What @stock has for @old, which its thread leaves. */
static always_inline void stock_leave(struct thread_stock *stock, uint32_t old)
{
	uint64_t back;
	size_t bytes;

	/* A handler may have left it to another. */
	if (unlikely(stock_owner(stock) != old)) {
		if (stock != &no_stock)
			thread_stock_put_away(stock);
		owner_leave(old, 0);
		return;
	}
	/* No handler changes it now: it is used by nobody. */
	bytes = (size_t)__atomic_load_n(&stock->bytes, __ATOMIC_RELAXED);
	back = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	__atomic_store_n(&stock->bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&stock->back, 0, __ATOMIC_RELAXED);
	owner_leave(old, bytes);
	if (back)
		thread_stock_give_back(back);
}

static always_inline void leave(struct group_thread *thread)
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
	/* In this order: a handler that leaves goes back to whom `nr` says. */
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

/* Whatever the thread is in, and whoever is in the way. */
static __attribute__((__noinline__)) int enter_slowly(struct slub_group *group)
{
	uint32_t number = group_number_checked(group);
	const struct group_hint *hint = hint_of(number);
	uint32_t owner = hint ? __atomic_load_n(&hint->owner,
						__ATOMIC_RELAXED) : 0;

	if (unlikely(group_thread.nr == SLUB_GROUP_NESTING_MAX))
		return group_is_alive(group) ? -ENOSPC : -EINVAL;
	if (likely(number && owner && enter(group, number, owner)))
		return 0;
	/* There was no memory for a hint, or it is not of its life. */
	if (!group_is_alive(group) ||
	    !enter(group, number, group_owner_number(group)))
		return -EINVAL;
	return 0;
}

/* Between two switches again, in no group, with nothing in @stock. */
static always_inline void enter_back_out(struct group_thread *thread,
					 struct thread_stock *stock)
{
	thread->stock = &no_stock;
	compiler_barrier();
	stock_release(stock);
	compiler_barrier();
	thread->is_switching = false;
}

/* The hint was of an earlier life of the group: inside is somebody else's. */
static cold int enter_elsewhere(struct slub_group *group, uint32_t owner,
				size_t bytes)
{
	owner_leave(owner, bytes);
	enter_back_out(&group_thread, group_thread.stock);
	return enter_slowly(group);
}

static cold int enter_tight(uint32_t owner)
{
	group_thread.is_switching = false;
	thread_stock_use(owner);
	return 0;
}

/*
 * The usual case, in a line: from no group into one that lives, with the stock that
 * the thread had last.  All else is a tail call, so that nothing is kept over one.
 */
SLUB_EXPORT int slub_group_enter(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;
	uint32_t number = group_number_checked(group);
	struct thread_stock *stock;
	uint32_t owner, generation;
	uint64_t *at, word, rest;

	/* Mostly they have the same number: both are fetched at once. */
	__builtin_prefetch(&owner_of(number)->word, 1);
	if (unlikely(!number || number >= pool_end(&hint_pool) || thread->nr ||
		     thread->is_switching))
		return enter_slowly(group);
	/* By the hint: these lie in fewer lines than groups. */
	owner = __atomic_load_n(&hint_at(number)->owner, __ATOMIC_RELAXED);
	if (unlikely(!owner))
		return enter_slowly(group);
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
		enter_back_out(thread, stock);
		return enter_slowly(group);
	}
	if (unlikely(__atomic_load_n(&owner_of(owner)->group,
				     __ATOMIC_RELAXED) != group))
		return enter_elsewhere(group, owner, word - rest);
	place_write(thread, 0, number, owner);
	thread->nr = 1;
	compiler_barrier();
	place_write(thread, 0, number, owner);
	stock_begin(stock, word - rest);
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

/* @bytes and @back are in no stock any more. */
static __attribute__((__noinline__)) int
leave_rest(uint32_t owner, size_t bytes, uint64_t back)
{
	owner_leave_slowly(owner, bytes);
	thread_stock_give_back(back);
	return 0;
}

static __attribute__((__noinline__)) int leave_and_give_back(uint64_t back)
{
	uint64_t *at = &owner_of(charge_word_owner(back))->word;
	uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED);
	size_t bytes = charge_word_bytes(back);

	if (unlikely(!owner_takes(word, bytes)) ||
	    unlikely(!owner_word_change(at, &word, word + bytes)))
		charge_return(charge_word_owner(back), bytes);
	return 0;
}

/* The same: the only group that the thread is in. */
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
	/* In this order, as in leave(). */
	thread->nr = 0;
	compiler_barrier();
	slub_thread.self.owner = 0;
	compiler_barrier();
	/* No handler changes it now: it is not current. */
	bytes = (size_t)__atomic_load_n(&stock->bytes, __ATOMIC_RELAXED);
	back = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	__atomic_store_n(&stock->bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&stock->back, 0, __ATOMIC_RELAXED);
	enter_back_out(thread, stock);
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
