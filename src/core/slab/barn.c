/* SPDX-License-Identifier: MIT */
/*
 * Barns: the full chains of each CPU, in memory of that CPU.
 *
 * A CPU takes back the chain that it put there last, so the lines of these objects
 * are in its caches, and no other CPU writes to them.  Only a CPU that has none
 * takes one of another, the oldest: so what one thread allocates and another frees
 * crosses over once per chain.  With one barn for all CPUs of a node, neighbours in
 * a line ended on the lists of two CPUs, and each link that one wrote was a miss for
 * the other (four threads, 200,000 objects of 16 bytes: 60 ns a pair on two CPUs and
 * 38 on one).
 *
 * The barns of a cache take chains on credit: each chain that is fetched, or that would
 * have been there to fetch had it not been refused, allows four more.  So they grow to
 * what is really passed around, and a program that only frees fills none: a list of
 * scattered objects would keep as many slabs.  What all barns hold is part of the
 * budget for free memory (core/page/budget.c).
 *
 * Scattered chains go to the slabs at once, while their objects are in the CPU's caches.
 * In a barn each object would pin a slab, and each link would be a miss: when a request
 * takes the chain back, and when the barns are emptied.  (300,000 objects of 400 bytes,
 * freed at random: 124 ns for an object's allocation and free before, 66 since.  A million
 * of all sizes: 109 and 115.  docs/notes.md, "Local lists", has more.)
 *
 * Locks: barn->lock.  Each change is one store to `oldest` or `newest`, behind the
 * store of a new entry; so the child of a fork finds every barn whole, and only makes
 * the locks free.
 */
#include "core/slab/slab_internal.h"

/*
 *  63 ......... 48 47 ................................... 0
 * +---------------+----------------------------------------+
 * |  objects      |  first object                          |
 * +---------------+----------------------------------------+
 */
#define ENTRY_SHIFT BARN_ENTRY_SHIFT

static uint64_t entry_make(void *chain, uint32_t nr)
{
	/* A whole slab's freelist may be longer; the number is an estimate. */
	return (uint64_t)min_size(nr, UINT16_MAX) << ENTRY_SHIFT |
	       (uintptr_t)chain;
}

static void *entry_chain(uint64_t entry)
{
	return (void *)(uintptr_t)(entry & ((1ull << ENTRY_SHIFT) - 1));
}

static uint32_t entry_nr(uint64_t entry)
{
	return (uint32_t)(entry >> ENTRY_SHIFT);
}

usual struct barn *barn_of(const struct slub_cache *cache, uint32_t cid)
{
	char *area = percpu_area(cid);
	uint32_t offset = __atomic_load_n(&cache->barn, __ATOMIC_RELAXED);

	return area && offset ? (struct barn *)(area + offset) : NULL;
}

uint32_t barn_nr(const struct barn *barn)
{
	uint32_t nr = __atomic_load_n(&barn->newest, __ATOMIC_RELAXED) -
		      __atomic_load_n(&barn->oldest, __ATOMIC_RELAXED);

	/* Two loads: a guess. */
	return nr <= BARN_CHAINS ? nr : 0;
}

/*
 * What CPUs write that change the lengths of their lists or look for room.  Nothing else lies in
 * the line, or each slow free would wait for it.
 */
static struct {
	_Atomic size_t list_bytes;	/* may lie in the lists of one CPU: see capacity_grow() */
	struct slub_cache *_Atomic with_chains;	/* whose turn it is to give */
	struct slub_cache *_Atomic at_rest;
} align_to(64) written;

static void barn_count(struct slub_cache *cache, uint64_t entry, int n)
{
	ptrdiff_t bytes = (ptrdiff_t)entry_nr(entry) * cache->size;

	__atomic_fetch_add(&cache->in_barns, (uint32_t)n * entry_nr(entry),
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&page_kept_bytes, n * bytes, __ATOMIC_RELAXED);
}

#define CREDIT_PER_GET 4
#define CREDIT_MAX 1024

/* Both are estimates: a lost update makes a chain go, or not. */
static uint32_t read(const uint32_t *what)
{
	return __atomic_load_n(what, __ATOMIC_RELAXED);
}

static void write(uint32_t *what, uint32_t value)
{
	__atomic_store_n(what, value, __ATOMIC_RELAXED);
}

static void credit_earn(struct slub_cache *cache)
{
	write(&cache->barn_credit,
	      (uint32_t)min_size(read(&cache->barn_credit) + CREDIT_PER_GET,
				 CREDIT_MAX));
}

/* Nothing to fetch: it pays to keep more, if some was refused. */
static void *missed(struct slub_cache *cache)
{
	uint32_t refused = read(&cache->barn_refused);

	if (refused) {
		write(&cache->barn_refused, refused - 1);
		credit_earn(cache);
	}
	return NULL;
}

static bool barn_refuse(struct slub_cache *cache)
{
	uint32_t refused = read(&cache->barn_refused);

	if (refused < CREDIT_MAX)
		write(&cache->barn_refused, refused + 1);
	return false;
}

static uint64_t take_newest(struct barn *barn)
{
	uint64_t entry = 0;

	lock_acquire(&barn->lock);
	if (barn->newest != barn->oldest) {
		entry = barn->chains[(barn->newest - 1) % BARN_CHAINS];
		__atomic_store_n(&barn->newest, barn->newest - 1,
				 __ATOMIC_RELAXED);
	}
	lock_release(&barn->lock);
	return entry;
}

static uint64_t barn_take_oldest(struct barn *barn)
{
	uint64_t entry = 0;

	lock_acquire(&barn->lock);
	if (barn->newest != barn->oldest) {
		entry = barn->chains[barn->oldest % BARN_CHAINS];
		__atomic_store_n(&barn->oldest, barn->oldest + 1,
				 __ATOMIC_RELAXED);
	}
	lock_release(&barn->lock);
	return entry;
}

/* Barns of other CPUs that one look goes over. */
#define OTHERS_MAX 64

static uint64_t take_from_others(struct slub_cache *cache, uint32_t cid)
{
	uint32_t end = percpu_areas_end();

	for (uint32_t i = 1; i <= end && i <= OTHERS_MAX; i++) {
		struct barn *barn = barn_of(cache, (cid + i) % end);
		uint64_t entry;

		if (!barn || !barn_nr(barn))
			continue;
		entry = barn_take_oldest(barn);
		if (entry)
			return entry;
	}
	return 0;
}

void *barn_get(struct slub_cache *cache, uint32_t *nr)
{
	uint32_t cid = percpu_here();
	struct barn *own;
	uint64_t entry = 0;

	if (!read(&cache->in_barns))
		return missed(cache);
	own = barn_of(cache, cid);
	inject(INJECT_barn);
	if (own && barn_nr(own))
		entry = take_newest(own);
	if (!entry)
		entry = take_from_others(cache, cid);
	if (!entry)
		return missed(cache);
	barn_count(cache, entry, -1);
	credit_earn(cache);
	*nr = entry_nr(entry);
	return entry_chain(entry);
}

/* The next cache in turn that @gives; NULL: none does. */
static cold struct slub_cache *next_in_turn(struct slub_cache *_Atomic *hand,
					    bool (*gives)(struct slub_cache *cache))
{
	struct slub_cache *first = __atomic_load_n(hand, __ATOMIC_RELAXED);
	struct slub_cache *cache = first ? cache_next(first) : NULL;

	for (int round = 0; round < 2; round++) {
		for (; cache; cache = cache_next(cache)) {
			if (!gives(cache))
				continue;
			__atomic_store_n(hand, cache, __ATOMIC_RELAXED);
			return cache;
		}
		cache = cache_first();
	}
	return NULL;
}

static bool has_chains(struct slub_cache *cache)
{
	return read(&cache->in_barns);
}

/*
 * False: @cache has to go without.  Where there is no room, each cache that holds chains gives
 * one, so that a program that goes on to other sizes has the budget for these.
 */
static cold bool barn_make_room(const struct slub_cache *cache)
{
	struct slub_cache *other = next_in_turn(&written.with_chains, has_chains);

	return other && other != cache && cache_empty_barns_by_one(other);
}

static bool has_room(const struct slub_cache *cache, size_t bytes)
{
	return page_budget_has_room(bytes) ||
	       (barn_make_room(cache) && page_budget_has_room(bytes));
}

#define LINKS_LOOKED_AT 8

bool chain_is_scattered(struct slub_cache *cache, void *chain)
{
	for (uint32_t i = 0; i < LINKS_LOOKED_AT; i++) {
		void *next = chain_next_near(cache, chain);

		if (!next || ((uintptr_t)next ^ (uintptr_t)chain) <= cache->slab_mask)
			return false;
		chain = next;
	}
	return true;
}

/* Would each of its @nr objects pin a slab?  Where slabs are fewer the objects share some. */
static bool pins_slabs(struct slub_cache *cache, void *chain, uint32_t nr)
{
	return nr <= __atomic_load_n(&node_current(cache)->nr_slabs, __ATOMIC_RELAXED) &&
	       chain_is_scattered(cache, chain);
}

bool barn_put(struct slub_cache *cache, void *chain, uint32_t nr)
{
	struct barn *barn = barn_of(cache, percpu_here());
	uint64_t entry = entry_make(chain, nr);
	uint32_t credit = read(&cache->barn_credit);
	bool done;

	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, chain);
	if (!barn || pins_slabs(cache, chain, nr))
		return false;
	if (!credit || !has_room(cache, (size_t)nr * cache->size))
		return barn_refuse(cache);
	inject(INJECT_barn);
	lock_acquire(&barn->lock);
	done = barn->newest - barn->oldest < BARN_CHAINS;
	if (done) {
		barn->chains[barn->newest % BARN_CHAINS] = entry;
		/* release: behind the entry, for a child of a fork */
		__atomic_store_n(&barn->newest, barn->newest + 1,
				 __ATOMIC_RELEASE);
	}
	lock_release(&barn->lock);
	if (!done)
		return barn_refuse(cache);
	write(&cache->barn_credit, credit - 1);
	barn_count(cache, entry, 1);
	return true;
}

void *barn_take(struct slub_cache *cache, uint32_t cid)
{
	struct barn *barn = barn_of(cache, cid);
	uint64_t entry;

	if (!barn || !barn_nr(barn))
		return NULL;
	entry = barn_take_oldest(barn);
	if (!entry)
		return NULL;
	barn_count(cache, entry, -1);
	return entry_chain(entry);
}

static uint32_t nr_objects(const struct barn *barn)
{
	uint32_t nr = 0;

	for (uint32_t i = barn->oldest; i != barn->newest; i++)
		nr += entry_nr(barn->chains[i % BARN_CHAINS]);
	return nr;
}

/* A thread of the parent may have held a lock, or not have counted its chain yet. */
usual void barns_after_fork(void)
{
	ptrdiff_t bytes = 0;
	size_t lists = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		uint32_t nr = 0;

		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			struct barn *barn = barn_of(c, cid);

			if (!barn)
				continue;
			/* Else it is that of the code that a handler interrupted. */
			if (unlikely(barn->lock.word) && !lock_is_mine(&barn->lock))
				barn->lock = (struct lock)LOCK_INIT;
			nr += nr_objects(barn);
		}
		/* What is right already is not written: that would be a page fault. */
		if (unlikely(read(&c->in_barns) != nr))
			write(&c->in_barns, nr);
		bytes += (ptrdiff_t)nr * c->size;
		lists += __atomic_load_n(&c->list_bytes, __ATOMIC_RELAXED);
	}
	if (unlikely(size_read(&written.list_bytes) != lists))
		size_write(&written.list_bytes, lists);
	if (unlikely(__atomic_load_n(&page_kept_bytes, __ATOMIC_RELAXED) != bytes))
		__atomic_store_n(&page_kept_bytes, bytes, __ATOMIC_RELAXED);
}

/* Out of line: it is asked in many places. */
void *chain_next_sound(const struct slub_cache *cache, void *object)
{
	void *next = *link_of(cache, object);

	if (cache_is_keyed(cache) && unlikely(!key_is_right(keyed_place(cache, object))))
		return chain_damaged(cache, object);
	if (!next || !link_is_in_object(cache->link) || cache->debug)
		return next;
	if (unlikely(!link_is_sound(cache, next)) ||
	    (cache_is_keyed(cache) && unlikely(!key_seems_right(cache, next))))
		return chain_damaged(cache, object);
	return next;
}

/* ---- how long lists get ---- */

/*
 * Lists are short at first.  One that is found empty gets longer by a quarter, one that is
 * flushed shorter by a sixteenth.
 *
 * A CPU has a budget for its lists.  They are counted as if they were full: those of caches that
 * somebody has found empty.  Where they hold all that they may, the list that was found empty
 * takes from a cache whose lists nobody found empty since one was last asked to give: what lies
 * in these is not in use.  The lists of a cache are as long on each CPU, so one word counts for
 * all CPUs, and nobody writes to it while lengths stay as they are.
 *
 * CPUs share the budget of the process, but each has enough for a burst of one size.  Divided by
 * 128 CPUs, lists of 512 bytes had 16 objects, and a CPU whose list was empty searched the barns
 * of 64 others (docs/notes.md).
 */
#define GROW_SHARE 4
/*
 * Of all CPUs, the least that this is for each that runs the program at a time, and the most for
 * one; not beyond so many budgets.
 */
#define CPUS_BYTES ((size_t)32 << 20)
#define CPU_BYTES_MIN ((size_t)1 << 20)
#define CPU_BYTES_MAX ((size_t)4 << 20)
#define CPU_BUDGETS 4
/* A main list may have one part in so many. */
#define SIZE_SHARE 8
/* A list that others take from keeps so many, and is not counted then until it is wanted. */
#define LIST_OBJECTS_LEFT 4

/*
 * Where numbers are those of CPUs few threads leave objects on many, in lists that nobody empties
 * until the program comes back: so they count, and not the CPUs alone.
 */
static size_t cpu_budget(void)
{
	size_t all = page_budget(), cpus = max_size(percpu_areas_end(), 1);
	size_t threads = __atomic_load_n(&percpu_nr_threads, __ATOMIC_RELAXED);
	size_t at_once = threads ? min_size(threads, cpus) : cpus;
	size_t enough = max_size(CPUS_BYTES, at_once * CPU_BYTES_MIN) / cpus;

	return max_size(all / cpus, min_size(all * CPU_BUDGETS, min_size(enough, CPU_BYTES_MAX)));
}

/* Of a cache's main list. */
static int32_t capacity_most(const struct slub_cache *cache, size_t budget)
{
	return (int32_t)min_size(budget / SIZE_SHARE / cache->size, (size_t)cache->capacity);
}

/* Of main and spare list. */
static size_t bytes_of(const struct slub_cache *cache, int32_t n)
{
	return 2 * (size_t)n * cache->size;
}

/* From now on lists of @cache have so many objects; 0: it is not counted. */
static void count_lists(struct slub_cache *cache, int32_t n)
{
	size_t now = bytes_of(cache, n);
	size_t before = __atomic_exchange_n(&cache->list_bytes, now, __ATOMIC_RELAXED);

	if (now != before)
		__atomic_fetch_add(&written.list_bytes, now - before, __ATOMIC_RELAXED);
}

void capacity_set(struct slub_cache *cache, int32_t n)
{
	__atomic_store_n(&cache->capacity_now, n, __ATOMIC_RELAXED);
	if (__atomic_load_n(&cache->list_bytes, __ATOMIC_RELAXED))
		count_lists(cache, n);
}

cold void capacity_forget(struct slub_cache *cache)
{
	count_lists(cache, 0);
}

/* Nobody has found a list of @cache empty since this was asked last; else, next time. */
static bool barn_is_at_rest(struct slub_cache *cache)
{
	if (!__atomic_load_n(&cache->list_bytes, __ATOMIC_RELAXED))
		return false;
	if (!read(&cache->is_wanted))
		return true;
	write(&cache->is_wanted, 0);
	return false;
}

/* Another cache has shorter lists from now on; false: all are in use. */
static cold bool shorten_another(void)
{
	struct slub_cache *other = next_in_turn(&written.at_rest, barn_is_at_rest);
	struct cache_hold pin;
	int32_t n;

	if (!other || !cache_pin_any(other, &pin))
		return false;
	n = capacity_now(other);
	if (n > LIST_OBJECTS_LEFT)
		capacity_set(other, n - n / GROW_SHARE);
	else
		capacity_forget(other);
	cache_unpin(&pin);
	return true;
}

static bool may_grow(size_t budget, size_t bytes)
{
	return size_read(&written.list_bytes) + bytes <= budget ||
	       (shorten_another() && size_read(&written.list_bytes) + bytes <= budget);
}

void capacity_grow(struct slub_cache *cache)
{
	int32_t n = capacity_now(cache), more = n / GROW_SHARE + 1;
	size_t budget;

	if (!read(&cache->is_wanted))
		write(&cache->is_wanted, 1);
	if (n >= cache->capacity)
		return;
	if (unlikely(!__atomic_load_n(&cache->list_bytes, __ATOMIC_RELAXED)))
		count_lists(cache, n);
	budget = cpu_budget();
	if (n + more <= capacity_most(cache, budget) &&
	    may_grow(budget, bytes_of(cache, more)))
		capacity_set(cache, n + more);
}
