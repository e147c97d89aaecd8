/* SPDX-License-Identifier: MIT */
/*
 * Charging.
 *
 * A CPU has 64 stocks, words of {owner, bytes} that are chosen by the owner's
 * number: bytes that are charged already and that nobody uses yet.  A charge
 * takes from a stock of its owner, freeing gives to it: one restartable
 * sequence.  A stock that is empty is filled, and one that is full emptied, with
 * an atomic addition to each group up to the root.
 *
 *     63        40 39                            0
 *    +------------+-------------------------------+
 *    |   owner    |             bytes             |
 *    +------------+-------------------------------+
 *
 * What is in a stock can be used without a look at the limits, so a group whose
 * counter, stocks included, has come to its maximum is *tight*: its stocks, and
 * those of the groups below it, are left alone, and every charge is compared
 * with what is used in truth (CHARGE-1: a group that is not tight has a counter
 * of at most its maximum).
 *
 * A thread in a group has a stock of its own before those of the CPUs
 * (thread_stock.c).
 */
#include "reclaim/group.h"

#include <errno.h>

#define STOCKS CHARGE_STOCKS
#define STOCK_BATCH ((size_t)32 << 10)
#define STOCK_MAX (2 * STOCK_BATCH)
#define BYTES_BITS CHARGE_BYTES_BITS
#define BYTES_MASK CHARGE_BYTES_MASK
#define CHARGE_MAX BYTES_MASK

/* Tries of the sequence before a charge goes without a stock. */
#define TRIES 4

/* Above high: how long for a batch at the most. */
#define SLOW_DOWN_MAX_NS 10000000
/* So far below its maximum a group is tight no more. */
#define TIGHT_MARGIN (4 * STOCK_MAX)

uintptr_t charge_stocks;
static uint32_t nr_tight;	/* groups that are */

void charge_init(void)
{
	uintptr_t none = 0, offset;

	if (__atomic_load_n(&charge_stocks, __ATOMIC_RELAXED))
		return;
	offset = percpu_alloc(STOCKS * 8, 64);
	if (offset && !__atomic_compare_exchange_n(&charge_stocks, &none, offset,
						   false, __ATOMIC_RELEASE,
						   __ATOMIC_RELAXED))
		slub_percpu_free(offset);
}

static uintptr_t stock_of(uint32_t owner)
{
	uintptr_t offset = __atomic_load_n(&charge_stocks, __ATOMIC_RELAXED);

	return offset ? offset + owner % STOCKS * 8 : 0;
}

static uint32_t word_owner(uint64_t word)
{
	return (uint32_t)(word >> BYTES_BITS);
}

static uint64_t make_word(uint32_t owner, uint64_t bytes)
{
	return (uint64_t)owner << BYTES_BITS | bytes;
}

static uint64_t stock_change(uintptr_t stock, uint64_t old, uint64_t value)
{
	return (uint64_t)slub_percpu_cmpxchg(stock, (int64_t)old,
					     (int64_t)value);
}

size_t stock_take(uint32_t owner, size_t bytes, bool all)
{
	uintptr_t stock = stock_of(owner);
	/* What this thread saw last: right, most of the time. */
	uint64_t word = group_thread.guess, found;

	for (int i = 0; stock && i < TRIES; i++) {
		size_t has = word_owner(word) == owner ? word & BYTES_MASK : 0;

		if (all)
			bytes = has;
		else if (has < bytes)
			has = 0;
		found = stock_change(stock, word, has ? word - bytes : word);
		if (found == word) {
			group_thread.guess = has ? word - bytes : word;
			return has ? bytes : 0;
		}
		word = found;
	}
	return 0;
}

/*
 * Puts @bytes into this CPU's stock of @owner.  Returns what it has no room
 * for.  What was another owner's stock is taken out if @replaces: then it is in
 * *@out.
 */
static size_t stock_put(uint32_t owner, size_t bytes, bool replaces,
			uint64_t *out)
{
	uintptr_t stock = stock_of(owner);
	uint64_t word = group_thread.guess, found, value;

	*out = 0;
	for (int i = 0; stock && i < TRIES; i++) {
		size_t rest = bytes;

		value = word;
		if (word_owner(word) == owner) {
			uint64_t sum = (word & BYTES_MASK) + bytes;

			rest = sum > STOCK_MAX ? sum - STOCK_BATCH : 0;
			value = make_word(owner, sum - rest);
		} else if (!(word & BYTES_MASK) || replaces) {
			rest = bytes > STOCK_MAX ? bytes - STOCK_BATCH : 0;
			value = make_word(owner, bytes - rest);
		}
		found = stock_change(stock, word, value);
		if (found == word) {
			group_thread.guess = value;
			if (word_owner(word) != owner && value != word)
				*out = word;
			return rest;
		}
		word = found;
	}
	return bytes;
}

/* ---- counters ---- */

static void note_peak(struct slub_group *group, int64_t usage)
{
	int64_t peak = __atomic_load_n(&group->peak, __ATOMIC_RELAXED);

	while (usage > peak &&
	       !__atomic_compare_exchange_n(&group->peak, &peak, usage, true,
					    __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		continue;
}

static void set_tight(struct slub_group *group, bool on)
{
	if (__atomic_exchange_n(&group->is_tight, on, __ATOMIC_SEQ_CST) == on)
		return;
	/* seq_cst: before the look at the stocks that follows */
	__atomic_fetch_add(&nr_tight, on ? 1u : -1u, __ATOMIC_SEQ_CST);
	/* Threads look at their stocks anew; 0 stands for "do so". */
	if (!__atomic_add_fetch(&group_generation, 1, __ATOMIC_SEQ_CST))
		__atomic_add_fetch(&group_generation, 1, __ATOMIC_SEQ_CST);
}

void charge_tight_update(struct slub_group *group)
{
	size_t max = limit_of(group, SLUB_GROUP_MAX);
	int64_t usage = __atomic_load_n(&group->usage, __ATOMIC_RELAXED);

	if (usage > (int64_t)max)
		set_tight(group, true);
	else if (!group->is_alive ||
		 (size_t)usage + min_size(TIGHT_MARGIN, max / 2) <= max)
		set_tight(group, false);
}

static void uncharge_up_to(struct slub_group *group,
			   const struct slub_group *end, size_t bytes)
{
	for (; group != end; group = group->parent) {
		__atomic_fetch_sub(&group->usage, (int64_t)bytes,
				   __ATOMIC_RELAXED);
		if (unlikely(__atomic_load_n(&group->is_tight,
					     __ATOMIC_RELAXED)))
			charge_tight_update(group);
	}
}

bool charge_is_tight(uint32_t number)
{
	struct slub_group *g;
	int index;

	if (likely(!__atomic_load_n(&nr_tight, __ATOMIC_RELAXED)))
		return false;
	index = slub_srcu_read_lock(&group_domain);
	g = owner_group(owner_of(number));
	while (g && !__atomic_load_n(&g->is_tight, __ATOMIC_RELAXED))
		g = g->parent;
	slub_srcu_read_unlock(&group_domain, index);
	return g != NULL;
}

/* NULL: charged.  Else the group whose maximum is in the way. */
static struct slub_group *charge_up(struct slub_group *group, size_t bytes,
				    bool forces)
{
	for (struct slub_group *g = group; g; g = g->parent) {
		int64_t usage = __atomic_add_fetch(&g->usage, (int64_t)bytes,
						   __ATOMIC_RELAXED);

		if (!forces && usage > (int64_t)limit_of(g, SLUB_GROUP_MAX)) {
			set_tight(g, true);
			uncharge_up_to(group, g->parent, bytes);
			return g;
		}
		note_peak(g, usage);
		inject(INJECT_charge);
	}
	return NULL;
}

static void uncharge_owner(uint32_t number, size_t bytes)
{
	struct group_owner *owner = owner_of(number);
	int index;

	if (!bytes)
		return;
	prefetch_charged(number);
	index = slub_srcu_read_lock(&group_domain);
	uncharge_up_to(owner_group(owner), NULL, bytes);
	slub_srcu_read_unlock(&group_domain, index);
	owner_drop(owner, (int64_t)bytes);
}

/* ---- stocks, seen from outside ---- */

static int64_t stocks_in(const char *area, uintptr_t offset,
			 const struct slub_group *group)
{
	const uint64_t *words = (const uint64_t *)(area + offset);
	int64_t sum = 0;

	for (uint32_t i = 0; i < STOCKS; i++) {
		uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

		if (word & BYTES_MASK &&
		    group_is_below(owner_group(owner_of(word_owner(word))),
				   group))
			sum += (int64_t)(word & BYTES_MASK);
	}
	return sum;
}

int64_t stocks_of(const struct slub_group *group)
{
	uintptr_t offset = __atomic_load_n(&charge_stocks, __ATOMIC_ACQUIRE);
	int64_t sum = 0;

	if (!offset)
		return 0;
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		const char *area = percpu_area(cid);

		if (area)
			sum += stocks_in(area, offset, group);
	}
	return sum + stocks_in(percpu_shared_area(), offset, group) +
	       thread_stocks_of(group);
}

size_t group_usage(const struct slub_group *group)
{
	int index = slub_srcu_read_lock(&group_domain);
	int64_t usage = __atomic_load_n(&group->usage, __ATOMIC_RELAXED) -
			stocks_of(group);

	slub_srcu_read_unlock(&group_domain, index);
	return usage > 0 ? (size_t)usage : 0;
}

/* ---- limits ---- */

/*
 * The first group from @group up that is full in truth: what lies in stocks
 * counts as used at first, but is not.
 */
static struct slub_group *find_full(struct slub_group *group, size_t bytes)
{
	for (; group; group = group->parent) {
		size_t max = limit_of(group, SLUB_GROUP_MAX);

		if (max != SLUB_GROUP_NO_LIMIT &&
		    group_usage(group) + bytes > max)
			break;
	}
	return group;
}

/*
 * One attempt.  0: charged.  Else -ENOMEM, and *@full is the group whose
 * maximum is in the way.
 */
static int charge_once(struct group_owner *owner, size_t bytes, bool forces,
		       struct slub_group **full)
{
	int index = slub_srcu_read_lock(&group_domain);
	struct slub_group *group = owner_group(owner);

	*full = charge_up(group, bytes, forces);
	if (*full) {
		*full = find_full(group, bytes);
		if (!*full)
			charge_up(group, bytes, true);
	}
	slub_srcu_read_unlock(&group_domain, index);
	if (*full)
		return -ENOMEM;
	owner_hold(owner, (int64_t)bytes);
	return 0;
}

static bool may_reclaim(void)
{
	return !slub_thread.locks_held &&
	       !(slub_thread.flags & (THREAD_IN_RECLAIM | THREAD_IN_INIT));
}

/* What the program itself can do about it; true: try again. */
static bool ask_handler(struct slub_group *group, size_t bytes)
{
	slub_group_handler_fn *handler =
		__atomic_load_n(&group->handler, __ATOMIC_ACQUIRE);
	bool again;

	if (!handler || !reclaim_enter())
		return false;
	again = handler(group, bytes, group->handler_arg);
	reclaim_leave();
	return again;
}

/* After what this thread may just have freed. */
static int charge_again(struct group_owner *owner, size_t bytes,
			struct slub_group **full)
{
	if (!charge_once(owner, bytes, false, full))
		return 0;
	kept_settle_here();
	return charge_once(owner, bytes, false, full);
}

/* After what anybody may have freed. */
static int charge_settled(struct group_owner *owner, size_t bytes,
			  struct slub_group **full)
{
	if (!charge_again(owner, bytes, full))
		return 0;
	return kept_settle_all() ? charge_once(owner, bytes, false, full) :
				   -ENOMEM;
}

static int charge_at_max(struct group_owner *owner, size_t bytes,
			 struct slub_group *full)
{
	struct slub_group *first = full;
	int priority = SLUB_PRIORITY_MAX;
	size_t freed = 0;

	reclaim_count(&full->max_hits, 1);
	for (; priority >= 0; priority--) {
		size_t n = reclaim_group(full, priority);

		freed += n;
		if (n && !charge_again(owner, bytes, &full))
			return 0;
	}
	/* Others may have freed something too: ask at the end. */
	if (freed ? !charge_settled(owner, bytes, &full) :
		    !charge_once(owner, bytes, false, &full))
		return 0;
	if (ask_handler(full, bytes) &&
	    !charge_settled(owner, bytes, &full))
		return 0;
	reclaim_count(&first->failures, 1);
	return -ENOMEM;
}

static void slow_down(size_t over, size_t high)
{
	/* The full time from an eighth above high on. */
	group_sleep(over < high / 8 ? over / (high / 8 / 1000 + 1) *
					   (SLOW_DOWN_MAX_NS / 1000) :
				   SLOW_DOWN_MAX_NS);
}

/* The first group from @owner's up that is above high; NULL: none. */
static struct slub_group *find_above_high(struct group_owner *owner)
{
	int index = slub_srcu_read_lock(&group_domain);
	struct slub_group *g = owner_group(owner);

	for (; g; g = g->parent) {
		size_t high = limit_of(g, SLUB_GROUP_HIGH);

		if ((size_t)__atomic_load_n(&g->usage, __ATOMIC_RELAXED) >
			    high && group_usage(g) > high)
			break;
	}
	slub_srcu_read_unlock(&group_domain, index);
	return g;
}

static void handle_high(struct group_owner *owner)
{
	struct slub_group *group = find_above_high(owner);
	size_t usage, high;
	int priority = SLUB_PRIORITY_MAX;

	if (!group)
		return;
	kept_settle_here();
	group = find_above_high(owner);
	if (!group)
		return;
	reclaim_count(&group->high_hits, 1);
	high = limit_of(group, SLUB_GROUP_HIGH);
	for (; priority >= 0; priority--) {
		if (reclaim_group(group, priority))
			kept_settle_here();
		usage = group_usage(group);
		if (usage <= high)
			return;
	}
	slow_down(usage - high, high);
}

/* ---- the two calls ---- */

/* Gives back what this CPU has in stock for @number. */
static void stock_empty(uint32_t number)
{
	size_t bytes = stock_take(number, 0, true);

	uncharge_owner(number, bytes);
}

/* Charges a batch more than asked for, if there is room; false: there is not. */
static bool charge_batch(uint32_t number, size_t bytes)
{
	struct slub_group *full;
	uint64_t other;
	size_t rest;

	/* Another owner's last charge may go: that takes a lock. */
	if (slub_thread.locks_held || !stock_of(number) ||
	    charge_is_tight(number) ||
	    charge_once(owner_of(number), bytes + STOCK_BATCH, false, &full))
		return false;
	if (!thread_stock_put(number, STOCK_BATCH))
		return true;
	rest = stock_put(number, STOCK_BATCH, true, &other);
	uncharge_owner(number, rest);
	if (other)
		uncharge_owner(word_owner(other), other & BYTES_MASK);
	return true;
}

static int charge_slow(uint32_t number, size_t bytes)
{
	struct group_owner *owner = owner_of(number);
	bool forces = !may_reclaim();
	struct slub_group *full;

	if (!charge_batch(number, bytes)) {
		if (charge_is_tight(number)) {
			thread_stock_empty(number);
			stock_empty(number);
		}
		if (charge_once(owner, bytes, forces, &full) &&
		    charge_settled(owner, bytes, &full) &&
		    charge_at_max(owner, bytes, full))
			return -ENOMEM;
	}
	if (!forces)
		handle_high(owner);
	return 0;
}

bool group_charge_stock(uint32_t owner, size_t bytes)
{
	size_t more;

	if (!thread_stock_use(owner))
		return false;
	if (group_charge_fast(bytes))
		return true;
	more = stock_take(owner, 0, true);
	if (more)
		more = thread_stock_put(owner, more);
	if (more)
		charge_return(owner, more);
	return group_charge_fast(bytes);
}

int group_charge(uint32_t owner, size_t bytes)
{
	if (likely(group_charge_stock(owner, bytes)))
		return 0;
	if (!charge_is_tight(owner) && stock_take(owner, bytes, false))
		return 0;
	return bytes ? charge_slow(owner, bytes) : 0;
}

void group_charge_anyway(uint32_t owner, size_t bytes)
{
	struct slub_group *full;

	if (charge_is_tight(owner) || !stock_take(owner, bytes, false))
		charge_once(owner_of(owner), bytes, true, &full);
}

/* Who frees one object of an owner mostly frees more: its stock replaces others. */
void charge_return(uint32_t number, size_t bytes)
{
	uint64_t other = 0;
	size_t rest = bytes;

	if (likely(!charge_is_tight(number)))
		rest = stock_put(number, bytes, !slub_thread.locks_held,
				 &other);
	if (unlikely(rest))
		uncharge_owner(number, rest);
	if (unlikely(other))
		uncharge_owner(word_owner(other), other & BYTES_MASK);
}

/* Into the stock that this thread used last, if it is @owner's and has room. */
static bool give_again(uint32_t owner, size_t bytes)
{
	uint64_t word = group_thread.guess;

	if (word_owner(word) != owner ||
	    (word & BYTES_MASK) + bytes > STOCK_MAX ||
	    __atomic_load_n(&nr_tight, __ATOMIC_RELAXED) ||
	    stock_change(stock_of(owner), word, word + bytes) != word)
		return false;
	group_thread.guess = word + bytes;
	return true;
}

void group_uncharge(uint32_t owner, size_t bytes)
{
	bool done = owner == group_current() ?
			    !thread_stock_put(owner, bytes) :
			    thread_stock_give(owner, bytes) ||
				    give_again(owner, bytes);

	if (!done)
		charge_return(owner, bytes);
}

/* ---- public ---- */

SLUB_EXPORT uint32_t slub_group_charge(struct slub_group *group, size_t bytes)
{
	uint32_t owner = group_current();

	if (group)
		owner = group_is_alive(group) ? group_owner_number(group) : 0;
	if (!owner || bytes > CHARGE_MAX / 2) {
		errno = EINVAL;
		return 0;
	}
	if (!group_charge(owner, bytes))
		return owner;
	errno = ENOMEM;
	return 0;
}

SLUB_EXPORT void slub_group_uncharge(uint32_t token, size_t bytes)
{
	if (token && token < pool_end(&owner_pool))
		group_uncharge(token, bytes);
}
