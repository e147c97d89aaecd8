/* SPDX-License-Identifier: MIT */
/*
 * Charging.
 *
 * A charge takes bytes from a stock, and a free adds to it: the thread's if it is in the
 * group (thread_stock.c), else the owner's (stock.c).  An empty stock is filled, and a full
 * one emptied, by an atomic addition to each group up to the root.
 *
 * Bytes in a stock are used without a look at the limits.  So a group becomes *tight* when
 * its counter, stocks included, reaches its maximum.  While it is tight, its stocks and
 * those of the groups below are not used, and every charge is compared with the usage
 * without stocks.  (CHARGE-1: the counter of a group that is not tight is at most its
 * maximum.)  Before a request is refused, the owners' stocks are uncharged.
 */
#include "features/groups/group.h"

#include <errno.h>

#define CHARGE_MAX CHARGE_BYTES_MASK

/* The longest pause for a batch above high. */
#define SLOW_DOWN_MAX_NS 10000000
/* A group so far below its maximum is no longer tight. */
#define TIGHT_MARGIN (4 * STOCK_MAX)

/*
 * The word `tight` of a group: a number that differs after each change, and two bits.
 *
 *   TIGHT       stocks are not used;
 *   TIGHT_TOLD  all threads know: group_generation has changed since
 *
 * CHARGE-2: a thread that charges a tight group beyond its maximum changes the word, then
 * looks at the stocks.  A thread that wants to end the tight state reads the word, then
 * the usage, then exchanges the word.  So it has seen the charge, or its exchange fails
 * and the group stays tight.
 *
 * CHARGE-3: a dead group is not tight once all charges that met it are over, or no stock
 * would be used until the structure is used again.  A charge that finds the group alive,
 * and reaches its maximum after the delete has looked, makes the group tight, executes a
 * fence, and looks whether the group lives (set_tight()).  The delete makes the group dead,
 * executes a fence, and looks whether it is tight (group_wind_up()).  One of the two sees
 * the other's store.
 */
#define TIGHT 1u
#define TIGHT_TOLD 2u
#define TIGHT_CHANGE 4u

uint32_t nr_tight;

/* ---- counters ---- */

static bool is_tight(const struct slub_group *group)
{
	return __atomic_load_n(&group->tight, __ATOMIC_RELAXED) & TIGHT;
}

static void note_peak(struct slub_group *group, int64_t usage)
{
	int64_t peak = __atomic_load_n(&group->peak, __ATOMIC_RELAXED);

	while (usage > peak &&
	       !__atomic_compare_exchange_n(&group->peak, &peak, usage, true,
					    __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		continue;
}

static void tell_threads(void)
{
	/* Threads look at their stocks anew.  0 is skipped: a stock with 0 is not current. */
	if (!__atomic_add_fetch(&group_generation, 1, __ATOMIC_SEQ_CST))
		__atomic_add_fetch(&group_generation, 1, __ATOMIC_SEQ_CST);
}

/*
 * On return the group is tight and all threads have been told, even if another thread is
 * doing the same: the caller looks at the stocks next, and counts their bytes as free.
 * Each call makes a new word: CHARGE-2.
 */
static void make_tight(struct slub_group *group)
{
	uint32_t word = __atomic_load_n(&group->tight, __ATOMIC_RELAXED), value;
	bool counted = false;

	do {
		/* Counted before any thread can see that the group is tight. */
		if (!(word & TIGHT) && !counted)
			__atomic_fetch_add(&nr_tight, 1, __ATOMIC_SEQ_CST);
		counted |= !(word & TIGHT);
		value = (word + TIGHT_CHANGE) | TIGHT;
		/* seq_cst: before the look at the stocks that follows */
	} while (!__atomic_compare_exchange_n(&group->tight, &word, value, true,
					      __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	if (counted && word & TIGHT)
		__atomic_fetch_sub(&nr_tight, 1, __ATOMIC_SEQ_CST);
	if (value & TIGHT_TOLD)
		return;
	tell_threads();
	/* A thread that has changed the word since tells the others itself. */
	__atomic_compare_exchange_n(&group->tight, &value, value | TIGHT_TOLD,
				    false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static void set_tight(struct slub_group *group)
{
	make_tight(group);
	inject(INJECT_tight);
	/* CHARGE-3 */
	full_fence();
	if (unlikely(!__atomic_load_n(&group->is_alive, __ATOMIC_RELAXED)))
		charge_tight_update(group);
}

/* False: the word has changed, and is no longer @word. */
static bool set_loose(struct slub_group *group, uint32_t word)
{
	uint32_t value = (word + TIGHT_CHANGE) & ~(TIGHT | TIGHT_TOLD);

	if (!__atomic_compare_exchange_n(&group->tight, &word, value, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	__atomic_fetch_sub(&nr_tight, 1, __ATOMIC_SEQ_CST);
	tell_threads();
	return true;
}

static bool is_above_max(const struct slub_group *group)
{
	return __atomic_load_n(&group->usage, __ATOMIC_RELAXED) >
	       (int64_t)limit_of(group, SLUB_GROUP_MAX);
}

/* Is it dead, or so far below its maximum that stocks may be used? */
static bool may_be_loose(const struct slub_group *group)
{
	size_t max = limit_of(group, SLUB_GROUP_MAX);
	int64_t margin = (int64_t)min_size(TIGHT_MARGIN, max / 2);

	return !__atomic_load_n(&group->is_alive, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&group->usage, __ATOMIC_RELAXED) + margin <=
		       (int64_t)max;
}

void charge_tight_update(struct slub_group *group)
{
	uint32_t word;

	do {
		/* acquire: the word is read before usage and maximum (CHARGE-2) */
		word = __atomic_load_n(&group->tight, __ATOMIC_ACQUIRE);
		if (!may_be_loose(group)) {
			if (is_above_max(group))
				set_tight(group);
			return;
		}
	} while (word & TIGHT && !set_loose(group, word));
}

static void uncharge_up_to(struct slub_group *group,
			   const struct slub_group *end, size_t bytes)
{
	for (; group != end; group = group->parent) {
		__atomic_fetch_sub(&group->usage, (int64_t)bytes,
				   __ATOMIC_RELAXED);
		if (unlikely(is_tight(group)))
			charge_tight_update(group);
	}
}

bool charge_is_tight_up(uint32_t number)
{
	struct slub_group *g;
	int index;

	index = slub_srcu_read_lock(&group_domain);
	g = owner_group(owner_of(number));
	while (g && !is_tight(g))
		g = g->parent;
	slub_srcu_read_unlock(&group_domain, index);
	return g != NULL;
}

size_t charge_left(uint32_t number)
{
	int index = slub_srcu_read_lock(&group_domain);
	struct slub_group *g = owner_group(owner_of(number));
	size_t left = SLUB_GROUP_NO_LIMIT;

	for (; g; g = g->parent) {
		int64_t usage = __atomic_load_n(&g->usage, __ATOMIC_RELAXED);
		size_t low = limit_of(g, SLUB_GROUP_LOW);
		size_t limit = min_size(limit_of(g, SLUB_GROUP_HIGH),
					limit_of(g, SLUB_GROUP_MAX));

		/* Memory below low is protected: stocks must not use that up. */
		if (usage < (int64_t)low)
			limit = min_size(limit, low);
		left = usage < (int64_t)limit ?
		       min_size(left, (size_t)((int64_t)limit - usage)) : 0;
	}
	slub_srcu_read_unlock(&group_domain, index);
	return left;
}

/* The counters of a group and of those above it, as one charge has left them. */
struct usages {
	int64_t of[SLUB_GROUP_DEPTH_MAX + 1];
};

/* Returns NULL if the bytes are charged, else the group whose maximum is in the way. */
static struct slub_group *add_up(struct slub_group *group, size_t bytes,
				 bool forces, struct usages *usages)
{
	size_t nr = 0;

	for (struct slub_group *g = group; g; g = g->parent) {
		int64_t usage = __atomic_add_fetch(&g->usage, (int64_t)bytes,
						   __ATOMIC_RELAXED);

		if (unlikely(usage > (int64_t)limit_of(g, SLUB_GROUP_MAX))) {
			set_tight(g);
			if (!forces) {
				uncharge_up_to(group, g->parent, bytes);
				return g;
			}
		}
		usages->of[nr++] = usage;
		inject(INJECT_charge);
	}
	return NULL;
}

/* The same; a charge counts for the peaks only if no group refuses it. */
static struct slub_group *charge_up(struct slub_group *group, size_t bytes,
				    bool forces)
{
	struct usages usages;
	struct slub_group *full = add_up(group, bytes, forces, &usages);
	size_t nr = 0;

	/* As many as above: a group keeps its parents. */
	for (struct slub_group *g = group; g && !full; g = g->parent)
		note_peak(g, usages.of[nr++]); /* NOLINT(*CallAndMessage) */
	return full;
}

void charge_drop(uint32_t number, size_t bytes)
{
	struct group_owner *owner = owner_of(number);
	int index;

	if (!bytes)
		return;
	/* Group and owner mostly have the same number. */
	group_prefetch(number);
	__builtin_prefetch(group_at(number), 1);
	index = slub_srcu_read_lock(&group_domain);
	uncharge_up_to(owner_group(owner), NULL, bytes);
	slub_srcu_read_unlock(&group_domain, index);
	owner_drop(owner, (int64_t)bytes);
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

/* The first group from @group up that is full even without the bytes in stocks. */
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
 * Some counter is too high, perhaps only because of bytes in stocks.  Charged first, looked at
 * afterwards: of two requests that fit one at a time never are both granted.
 */
static struct slub_group *charge_in_truth(struct slub_group *group,
					  size_t bytes)
{
	struct slub_group *full = find_full(group, bytes);
	struct usages usages;
	size_t nr = 0;

	if (full)
		return full;
	add_up(group, bytes, true, &usages);
	full = find_full(group, 0);
	if (full)
		uncharge_up_to(group, NULL, bytes);
	/* What a counter has beyond its maximum lies in stocks, and nobody used it. */
	for (struct slub_group *g = group; g && !full; g = g->parent) {
		int64_t max = (int64_t)limit_of(g, SLUB_GROUP_MAX);
		int64_t usage = usages.of[nr++]; /* NOLINT(*CallAndMessage) */

		note_peak(g, usage < max ? usage : max);
	}
	return full;
}

/* One attempt: 0, or -ENOMEM, and the maximum of *@full is in the way. */
static int charge_once(struct group_owner *owner, size_t bytes, bool forces,
		       struct slub_group **full)
{
	int index = slub_srcu_read_lock(&group_domain);
	struct slub_group *group = owner_group(owner);

	*full = charge_up(group, bytes, forces);
	if (*full && stocks_drain(*full))
		*full = charge_up(group, bytes, forces);
	if (*full)
		*full = charge_in_truth(group, bytes);
	slub_srcu_read_unlock(&group_domain, index);
	if (*full)
		return -ENOMEM;
	owner_hold(owner, (int64_t)bytes);
	return 0;
}

/* Tries again, with the charges that this CPU's lists, or @all, keep given back. */
static int charge_again(struct group_owner *owner, size_t bytes, bool all,
			struct slub_group **full)
{
	if (!charge_once(owner, bytes, false, full))
		return 0;
	kept_settle_here();
	if (!charge_once(owner, bytes, false, full))
		return 0;
	return all && kept_settle_all() ?
		       charge_once(owner, bytes, false, full) : -ENOMEM;
}

static int charge_at_max(struct group_owner *owner, size_t bytes,
			 struct slub_group *full)
{
	struct slub_group *first = full;
	int priority = SLUB_SHRINK_PRIORITY_MAX;
	size_t freed = 0;

	reclaim_count(&full->max_hits, 1);
	for (; priority >= 0; priority--) {
		size_t n = reclaim_group(full, priority);

		freed += n;
		if (n && !charge_again(owner, bytes, false, &full))
			return 0;
	}
	freed += reclaim_drain();
	/* Other threads may have freed something too: try once more at the end. */
	if (freed ? !charge_again(owner, bytes, true, &full) :
		    !charge_once(owner, bytes, false, &full))
		return 0;
	if (group_handler_ask(full, bytes) &&
	    !charge_again(owner, bytes, true, &full))
		return 0;
	reclaim_count(&first->failures, 1);
	return -ENOMEM;
}

static void slow_down(size_t over, size_t high)
{
	/* The full time from an eighth above high on. */
	sys_sleep_ns(over < high / 8 ? over / (high / 8 / 1000 + 1) *
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

		if ((size_t)__atomic_load_n(&g->usage, __ATOMIC_RELAXED) <=
		    high)
			continue;
		/* Or each charge would come here again. */
		stocks_drain(g);
		if (group_usage(g) > high)
			break;
	}
	slub_srcu_read_unlock(&group_domain, index);
	return g;
}

static void handle_high(struct group_owner *owner)
{
	struct slub_group *group = find_above_high(owner);
	size_t usage, high;
	int priority = SLUB_SHRINK_PRIORITY_MAX;

	if (group) {
		kept_settle_here();
		group = find_above_high(owner);
	}
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

/* Charges more than asked for, to fill the stock.  False: there is no room for it. */
static bool charge_batch(uint32_t number, size_t bytes)
{
	size_t max = __atomic_load_n(&stock_max, __ATOMIC_RELAXED), more;
	struct slub_group *full;

	if (slub_thread.locks_held || charge_is_tight(number))
		return false;
	more = thread_stock_batch(number);
	if (more <= STOCK_BATCH)
		more = min_size(more, max / 2);
	if (charge_once(owner_of(number), bytes + more, false, &full))
		return false;
	thread_stock_fill(number, more);
	return true;
}

static int charge_slow(uint32_t number, size_t bytes)
{
	struct group_owner *owner = owner_of(number);
	bool forces = !reclaim_is_possible();
	struct slub_group *full;

	if (!charge_batch(number, bytes)) {
		if (charge_is_tight(number)) {
			thread_stock_empty(number);
			charge_drop(number, stock_take(number, 0, true));
		}
		if (charge_once(owner, bytes, forces, &full) &&
		    charge_again(owner, bytes, true, &full) &&
		    charge_at_max(owner, bytes, full))
			return -ENOMEM;
	}
	if (!forces)
		handle_high(owner);
	return 0;
}

/* Out of what this thread and the owner have in stock. */
static bool group_charge_stock(uint32_t owner, size_t bytes)
{
	size_t more;

	if (!thread_stock_use(owner))
		return false;
	if (group_charge_fast(bytes))
		return true;
	more = stock_take(owner, 0, true);
	if (more)
		thread_stock_fill(owner, more);
	return group_charge_fast(bytes);
}

bool group_charge_try(uint32_t owner, size_t bytes)
{
	struct slub_group *full;

	if (group_charge_stock(owner, bytes))
		return true;
	if (!charge_batch(owner, bytes) &&
	    (charge_is_tight(owner) ||
	     charge_once(owner_of(owner), bytes, false, &full)))
		return false;
	if (reclaim_is_possible())
		handle_high(owner_of(owner));
	return true;
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

void charge_return(uint32_t number, size_t bytes)
{
	if (likely(!charge_is_tight(number)))
		bytes = stock_put(number, bytes);
	if (unlikely(bytes))
		charge_drop(number, bytes);
}

/* So much the stock may exceed its room: more would be too much, for no other can drain it. */
#define EXCESS_MAX ((size_t)1 << 20)

void group_uncharge(uint32_t owner, size_t bytes)
{
	if (bytes <= EXCESS_MAX && likely(group_uncharge_fast(owner, bytes)))
		return;
	if (owner == group_current())
		bytes = thread_stock_put(owner, bytes);
	else if (thread_stock_give(owner, bytes))
		bytes = 0;
	if (bytes)
		charge_return(owner, bytes);
}

/* ---- public ---- */

/* The caller holds @owner.  Returns @owner, or 0 with errno. */
static uint32_t charge_held(uint32_t owner, size_t bytes)
{
	int err = EINVAL;

	if (owner && bytes <= CHARGE_MAX / 2) {
		if (!group_charge(owner, bytes))
			return owner;
		err = ENOMEM;
	}
	errno = err;
	return 0;
}

/* A thread in the group holds its owner already; any other thread has to take it. */
SLUB_EXPORT uint32_t slub_group_charge(struct slub_group *group, size_t bytes)
{
	uint32_t owner, token;

	if (!group)
		return charge_held(group_current(), bytes);
	owner = group_hold(group);
	token = charge_held(owner, bytes);
	group_drop(owner);
	return token;
}

SLUB_EXPORT void slub_group_uncharge(uint32_t token, size_t bytes)
{
	if (token && token < pool_end(&owner_pool))
		group_uncharge(token, bytes);
}
