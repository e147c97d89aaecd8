/* SPDX-License-Identifier: MIT */
/*
 * The stock of a thread that is in a group: what it allocates and frees there
 * is charged by one addition to a word of its own.
 *
 *   fast    add to `bytes`; below 0: undo, and go slow
 *   slow    fill from the owner's stock, or with a batch of charges (charge.c)
 *   switch  enter and leave: what the owner has in stock comes along, and what is
 *           left over goes back there (stock.c)
 *   room    how much may lie there.  It grows by doubling where what the thread
 *           allocates and frees in turn is more (thread_stock_batch()), to a small
 *           part of what is left below the limits; another group, or one that
 *           is tight, has it begin anew
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
 * leaving leave the stock to its owner, and charges go past it.  Where a handler
 * may have written the place above the innermost group, it is written again.
 * `room` may be of before or after: it bounds what a thread keeps, and no sum is made
 * of it.
 */
#include "reclaim/group.h"

#include <errno.h>

#define STOCKS_MAX BITS_NR

struct pool thread_stock_pool = POOL_INIT(sizeof(struct thread_stock),
					  STOCKS_MAX);
uint32_t group_generation = 1;

/* Of who has none: never current, and not written to. */
static struct thread_stock no_stock;
/* Per CPU: those that no thread has; 0: no lists. */
static uintptr_t idle;
/* In an idle list at the most. */
#define IDLE_MAX 64
/* A stock that has grown has room for this part of what is left below limits. */
#define GROWN_SHARE 64

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

	if (likely(list))
		stock = slub_percpu_pop(list);
	if (unlikely(!stock) && !slub_thread.locks_held)
		stock = pool_get(&thread_stock_pool);
	return stock ? stock : &no_stock;
}

static void stock_release(struct thread_stock *stock)
{
	uintptr_t list = __atomic_load_n(&idle, __ATOMIC_ACQUIRE);

	if (unlikely(stock == &no_stock) ||
	    (likely(list) && slub_percpu_push(list, stock, IDLE_MAX)))
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

static bool is_mine(uint32_t owner)
{
	const struct group_thread *thread = &group_thread;

	/* A handler may be in another group than its stock. */
	return thread->stock && thread->stock != &no_stock &&
	       !thread->is_switching && thread->stock->owner == owner &&
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
	give_back(take_back(group_thread.stock));
	__atomic_store_n(&group_thread.stock->generation, generation,
			 __ATOMIC_RELAXED);
	return true;
}

/* ---- enter and leave ---- */

/* This thread no more is inside, and puts @bytes back. */
static always_inline void owner_leave(uint32_t number, size_t bytes)
{
	uint64_t *at = &owner_of(number)->word;
	uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED);

	/* As one that is put: stock.c. */
	if (unlikely(word & OWNER_DEAD || charge_is_tight_anywhere() ||
		     owner_stock(word) + bytes >
			     __atomic_load_n(&stock_max, __ATOMIC_RELAXED)) ||
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

static inline void stop_using(struct thread_stock *stock)
{
	if (stock && stock != &no_stock)
		__atomic_store_n(&stock->generation, 0, __ATOMIC_RELAXED);
}

/* NULL: in a handler that interrupted such a switch, or the fast path. */
static always_inline struct thread_stock *
switch_begin(struct group_thread *thread)
{
	struct thread_stock *stock = thread->stock;

	if (unlikely(thread->is_switching || (stock && stock->bytes < 0))) {
		stop_using(stock);
		return NULL;
	}
	thread->is_switching = true;
	compiler_barrier();
	/* A handler may have got one for the thread. */
	stock = thread->stock;
	if (stock && stock != &no_stock)
		stop_using(stock);
	else
		thread->stock = stock = stock_get();
	compiler_barrier();
	return stock;
}

/* The thread is in the group of @owner, not 0; if @stock is, it can be used. */
static always_inline void switch_end(struct group_thread *thread,
				     struct thread_stock *stock,
				     uint32_t owner)
{
	uint32_t generation;

	compiler_barrier();
	thread->is_switching = false;
	if (unlikely(stock == &no_stock))
		return;
	generation = __atomic_load_n(&group_generation, __ATOMIC_SEQ_CST);
	/* Unless a handler came by, or something is tight. */
	if (likely(stock->owner == owner && slub_thread.self.owner == owner &&
		   !__atomic_load_n(&nr_tight, __ATOMIC_SEQ_CST)))
		__atomic_store_n(&stock->generation, generation,
				 __ATOMIC_RELAXED);
	else
		thread_stock_use(slub_thread.self.owner);
}

/* What is in @stock goes to whom it is of. */
static __attribute__((__noinline__)) void put_away(struct thread_stock *stock)
{
	size_t left = take_all(stock);

	if (left)
		charge_return(stock->owner, left);
	give_back(take_back(stock));
}

/* It is empty, and becomes @owner's, with @bytes. */
static always_inline void become(struct thread_stock *stock, uint32_t owner,
				 size_t bytes)
{
	__atomic_store_n(&stock->owner, owner, __ATOMIC_RELEASE);
	stock->room = THREAD_STOCK_MAX;
	stock->has_overflowed = false;
	if (bytes)
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
 * base/thread.h.  In this order: a handler's malloc in between would find limits of 0
 * and no group, and put them back.
 */
static always_inline void go_slow(uint32_t owner)
{
	slub_thread.self.owner = owner;
	compiler_barrier();
	slub_thread.malloc_limit = 0;
	slub_thread.malloc_paged_limit = 0;
}

/* In a handler, or where there is no stock: the stock stays as it is. */
static cold bool enter_alone(const struct slub_group *group, uint32_t number,
			     uint32_t owner)
{
	size_t bytes;

	if (!owner_enter(owner, group, false, &bytes))
		return false;
	if (!group_thread.stock)
		group_thread.stock = &no_stock;
	go_in(&group_thread, number, owner);
	go_slow(owner);
	return true;
}

/* It is deleted: the thread goes on where it is. */
static cold bool enter_not(struct group_thread *thread,
			   struct thread_stock *stock)
{
	uint32_t owner = slub_thread.self.owner;

	if (!owner) {
		thread->stock = &no_stock;
		stock_release(stock);
	}
	compiler_barrier();
	thread->is_switching = false;
	if (owner)
		thread_stock_use(owner);
	return false;
}

static always_inline bool enter(const struct slub_group *group, uint32_t number,
				uint32_t owner)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *stock = switch_begin(thread);
	size_t bytes;

	if (unlikely(!stock))
		return enter_alone(group, number, owner);
	if (unlikely(!owner_enter(owner, group, stock != &no_stock, &bytes)))
		return enter_not(thread, stock);
	go_in(thread, number, owner);
	if (stock->owner)
		put_away(stock);
	if (likely(stock != &no_stock))
		become(stock, owner, bytes);
	go_slow(owner);
	switch_end(thread, stock, owner);
	return true;
}

static cold void leave_alone(uint32_t old, uint32_t owner)
{
	slub_thread.self.owner = owner;
	compiler_barrier();
	group_thread.nr--;
	owner_leave(old, 0);
}

/* Back to the group of @owner, which the thread is in already. */
static __attribute__((__noinline__)) void
leave_to(struct group_thread *thread, struct thread_stock *stock,
	 uint32_t owner)
{
	if (stock != &no_stock)
		become(stock, owner, stock_take(owner, 0, true));
	switch_end(thread, stock, owner);
}

static always_inline void leave(struct group_thread *thread)
{
	uint32_t old = thread->owners[thread->nr - 1u];
	uint32_t owner = thread->nr > 1 ? thread->owners[thread->nr - 2u] : 0;
	struct thread_stock *stock = switch_begin(thread);
	uint64_t back;

	if (unlikely(!stock)) {
		leave_alone(old, owner);
		return;
	}
	slub_thread.self.owner = owner;
	compiler_barrier();
	thread->nr--;
	/* A handler may have left it to another. */
	if (unlikely(stock->owner != old))
		put_away(stock);
	back = take_back(stock);
	owner_leave(old, take_all(stock));
	give_back(back);
	if (owner) {
		leave_to(thread, stock, owner);
		return;
	}
	thread->stock = &no_stock;
	if (likely(stock != &no_stock)) {
		__atomic_store_n(&stock->owner, 0, __ATOMIC_RELEASE);
		stock_release(stock);
	}
	compiler_barrier();
	thread->is_switching = false;
}

/* ---- public ---- */

SLUB_EXPORT int slub_group_enter(struct slub_group *group)
{
	uint32_t number = group_number_checked(group);
	const struct group_hint *hint = hint_of(number);
	uint32_t owner;

	/* Mostly they have the same number: both are fetched at once. */
	__builtin_prefetch(&owner_of(number)->word, 1);
	owner = hint ? __atomic_load_n(&hint->owner, __ATOMIC_RELAXED) : 0;
	if (unlikely(group_thread.nr == SLUB_GROUP_NESTING_MAX))
		return group_is_alive(group) ? -ENOSPC : -EINVAL;
	/* By the hint: these lie in fewer lines than groups. */
	if (likely(number && owner && enter(group, number, owner)))
		return 0;
	/* There was no memory for one, or it is not of its life. */
	if (!group_is_alive(group) ||
	    !enter(group, number, group_owner_number(group)))
		return -EINVAL;
	return 0;
}

SLUB_EXPORT int slub_group_leave(struct slub_group *group)
{
	struct group_thread *thread = &group_thread;

	if (!thread->nr ||
	    group_of_number(thread->groups[thread->nr - 1u]) != group)
		return -EINVAL;
	leave(thread);
	return 0;
}

SLUB_EXPORT struct slub_group *slub_group_current(void)
{
	const struct group_thread *thread = &group_thread;

	return thread->nr ? group_of_number(thread->groups[thread->nr - 1]) :
			    NULL;
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
	give_back(word);
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
