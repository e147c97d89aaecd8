/* SPDX-License-Identifier: MIT */
/*
 * The tracee's share of the public interface: every inline sequence of slub/percpu.h and
 * slub/cache.h, in this program's own text, one function each, and the library's functions
 * behind them.  Each word and list has a twin in plain C that goes through the same
 * operations; at the end of a round the two must be the same.
 *
 * STEP_MUTANT leaves out the store to rseq_cs: the harness must find that.
 */
#ifdef STEP_MUTANT
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <slub/arch/x86_64.h>
#define STEP_ANNOUNCE "leaq 3b(%%rip), %[t]\n\t"
#else
#include <slub/arch/aarch64.h>
#define STEP_ANNOUNCE "adrp %[t], 3b\n\tadd %[t], %[t], :lo12:3b\n\t"
#endif
#undef SLUB_SEQ_ENTER
#define SLUB_SEQ_ENTER							\
	".pushsection __rseq_cs, \"aw\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long 0, 0\n\t"						\
	".quad 1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	STEP_ANNOUNCE							\
	"nop\n"								\
	"1:\n\t"
#endif
#include <slub/cache.h>
#include <slub/group.h>
#include <slub/rcu.h>

#include "single_step/step.h"

#define NODES 48
#define BULK_MAX 100

struct thing {
	uint64_t words[12];
};

static void construct(void *memory)
{
	((struct thing *)memory)->words[11] = 0xc0;
}

SLUB_CACHE_DEFINE_STATIC(plain_things, struct thing, 0, NULL);
SLUB_CACHE_DEFINE_STATIC(made_things, struct thing, 0, construct);
SLUB_CACHE_DEFINE_STATIC(charged_things, struct thing, SLUB_CACHE_ACCOUNT, NULL);
/* Those with link and check word in front, behind, and a link in the middle. */
#define CACHES 3
static struct slub_cache *caches[CACHES] = { &plain_things, &made_things };

struct node {
	void *link;
	atomic_int owners;
};

/* The twins of what lies in per-CPU memory. */
static struct {
	atomic_llong sum, fetched, exchanged;
	atomic_int sum32;
} twin;

static uintptr_t sum, sum32, fetched, exchanged, list;
static struct node nodes[NODES];
static struct slub_group *group;
/* Odd while the rival is at it. */
static atomic_uint rival_turns;
static uint64_t next_id = 1ull << 40;
static __thread bool in_handler;

/* ---- one function for each sequence, so that a failure names it ---- */

#define APART __attribute__((__noinline__, __noclone__))

APART static void seq_add(int64_t n)
{
	slub_percpu_add(sum, n);
}

APART static void seq_add32(int32_t n)
{
	slub_percpu_add32(sum32, n);
}

APART static int64_t seq_fetch_add(int64_t n)
{
	return slub_percpu_add_return(fetched, n) - n;
}

APART static int64_t seq_cmpxchg(int64_t old, int64_t new)
{
	return slub_percpu_cmpxchg(exchanged, old, new);
}

APART static int32_t seq_cmpxchg32(int32_t old, int32_t new)
{
	return slub_percpu_cmpxchg32(sum32, old, new);
}

APART static bool seq_push(struct node *node)
{
	return slub_percpu_push(list, node, 1000);
}

APART static struct node *seq_pop(void)
{
	return slub_percpu_pop(list);
}

APART static void *seq_cache_alloc(struct slub_cache *cache)
{
	return slub_cache_alloc(cache);
}

APART static void seq_cache_free(struct slub_cache *cache, void *object)
{
	slub_cache_free(cache, object);
}

APART static int seq_read_lock(void)
{
	return slub_read_lock();
}

APART static void seq_read_unlock(int index)
{
	slub_read_unlock(index);
}

/* ---- words ---- */

static void exchange_add(int64_t n, bool inlined)
{
	int64_t old = slub_percpu_read(exchanged), found;

	for (;;) {
		found = inlined ? seq_cmpxchg(old, old + n) :
				  (slub_percpu_cmpxchg)(exchanged, old,
							   old + n);
		if (found == old)
			break;
		old = found;
	}
	atomic_fetch_add(&twin.exchanged, n);
}

static void exchange_add32(int32_t n, bool inlined)
{
	int32_t old = 0, found;

	for (;;) {
		found = inlined ? seq_cmpxchg32(old, old + n) :
				  (slub_percpu_cmpxchg32)(sum32, old, old + n);
		if (found == old)
			break;
		old = found;
	}
	atomic_fetch_add(&twin.sum32, n);
}

static void words(int n)
{
	seq_add(n);
	(slub_percpu_add)(sum, n);
	atomic_fetch_add(&twin.sum, 2 * n);
	seq_add32(n);
	(slub_percpu_add32)(sum32, n);
	atomic_fetch_add(&twin.sum32, 2 * n);
	seq_fetch_add(n);
	(slub_percpu_fetch_add)(fetched, n);
	atomic_fetch_add(&twin.fetched, 2 * n);
	exchange_add(n, true);
	exchange_add(n, false);
	exchange_add32(n, true);
	exchange_add32(n, false);
	seq_read_unlock(seq_read_lock());
	(slub_srcu_read_unlock)(&slub_rcu_domain,
				   (slub_srcu_read_lock)(&slub_rcu_domain));
}

/* ---- list ---- */

static void own(struct node *node)
{
	if (node < nodes || node >= nodes + NODES)
		fire_fail("list: %p was never pushed", (void *)node);
	if (atomic_fetch_add(&node->owners, 1))
		fire_fail("list: one node has two owners");
}

/* false: it stays with the caller. */
static bool give(struct node *node, bool inlined)
{
	atomic_fetch_sub(&node->owners, 1);
	if (inlined ? seq_push(node) : (slub_percpu_push)(list, node, 1000))
		return true;
	atomic_fetch_add(&node->owners, 1);
	return false;
}

static void lists(bool inlined)
{
	struct node *mine[8];
	unsigned int nr = 0;

	while (nr < 8) {
		struct node *node = inlined ? seq_pop() :
					      (slub_percpu_pop)(list);

		if (!node)
			break;
		own(node);
		mine[nr++] = node;
	}
	while (nr)
		if (give(mine[nr - 1], inlined))
			nr--;
}

/* Everything is in the lists, once; then it is put there again. */
static unsigned int drain(struct node **all)
{
	struct node *node = slub_percpu_list_drain(list);
	unsigned int nr = 0;

	for (; node; node = all[nr - 1]->link) {
		own(node);
		if (nr == NODES)
			fire_fail("list: more nodes than there are");
		all[nr++] = node;
	}
	return nr;
}

/* ---- caches ---- */

static void check_thing(struct slub_cache *cache, struct thing *thing)
{
	if (!thing)
		fire_fail("slub_cache_alloc: %s", strerror(errno));
	if (cache == &made_things && thing->words[11] != 0xc0)
		fire_fail("an object that was not constructed");
}

static void singles(struct slub_cache *cache, unsigned int nr, bool inlined)
{
	struct thing *things[BULK_MAX];
	uint64_t id = next_id;

	next_id += nr;
	for (unsigned int i = 0; i < nr; i++) {
		things[i] = inlined ? seq_cache_alloc(cache) :
				      (slub_cache_alloc)(cache);
		if (!things[i] && in_handler)
			nr = i;		/* it interrupted the library */
		if (i == nr)
			break;
		check_thing(cache, things[i]);
		fire_stamp(things[i], 88, id + i);
	}
	for (unsigned int i = 0; i < nr; i++) {
		fire_unstamp(things[i], 88, id + i, "typed cache");
		if (inlined)
			seq_cache_free(cache, things[i]);
		else
			(slub_cache_free)(cache, things[i]);
	}
}

static void bulk(struct slub_cache *cache, unsigned int nr)
{
	void *things[BULK_MAX];

	if (slub_cache_alloc_bulk(cache, 0, nr, things) != nr)
		fire_fail("slub_cache_alloc_bulk: %s", strerror(errno));
	for (unsigned int i = 0; i < nr; i++) {
		check_thing(cache, things[i]);
		fire_stamp(things[i], 88, next_id + i);
	}
	for (unsigned int i = 0; i < nr; i++)
		fire_unstamp(things[i], 88, next_id + i, "bulk");
	next_id += nr;
	slub_cache_free_bulk(cache, nr, things);
}

/* What the statistics of misuse count, by sequences too. */
static void misuse(void)
{
	void *thing = seq_cache_alloc(&plain_things), *twice[2];

	(slub_cache_free)(&made_things, thing);
	twice[0] = twice[1] = seq_cache_alloc(&plain_things);
	slub_cache_free_bulk(&plain_things, 2, twice);
	thing = seq_cache_alloc(&plain_things);
	(slub_cache_free)(&plain_things, thing);
}

/* ---- groups ---- */

#define CHARGED 12

/* By name, from outside: the group's owner is held meanwhile. */
static void charged_by_name(void)
{
	uint32_t token = slub_group_charge(group, 1000);

	if (!token || slub_group_limit_set(group, SLUB_GROUP_HIGH, SLUB_GROUP_NO_LIMIT))
		fire_fail("group: %s", strerror(errno));
	slub_group_uncharge(token, 1000);
}

/* What is allocated in a group is given back to it by threads inside and outside. */
static void charged(void)
{
	struct slub_group_stats stats;
	void *small[CHARGED], *paged[CHARGED], *things[CHARGED];
	uint64_t id = next_id;	/* a handler takes some, too */

	next_id += CHARGED;
	charged_by_name();
	slub_group_enter(group);
	for (unsigned int i = 0; i < CHARGED; i++) {
		small[i] = malloc(100);
		paged[i] = malloc(5000);
		things[i] = seq_cache_alloc(&charged_things);
		if (!small[i] || !paged[i] || !things[i])
			fire_fail("in a group: %s", strerror(errno));
		fire_stamp(small[i], 88, id + i);
	}
	for (unsigned int i = 0; i < CHARGED; i++) {
		if (i == CHARGED / 2)
			slub_group_leave(group);
		fire_unstamp(small[i], 88, id + i, "charged");
		free(small[i]);
		free(paged[i]);
		seq_cache_free(&charged_things, things[i]);
	}
	if (slub_group_stats(group, &stats) || stats.usage)
		fire_fail("group: %zu bytes are left", stats.usage);
}

/* ---- what the tracee calls ---- */

void step_api_start(void)
{
	sum = slub_percpu_alloc(8, 8);
	sum32 = slub_percpu_alloc(4, 4);
	fetched = slub_percpu_alloc(8, 8);
	exchanged = slub_percpu_alloc(8, 8);
	list = slub_percpu_alloc(sizeof(struct slub_percpu_list),
				 SLUB_PERCPU_LIST_ALIGN);
	caches[2] = slub_cache_create_args(&(struct slub_cache_args){
		.name = "placed_things", .size = sizeof(struct thing),
		.free_pointer_offset = 40, .has_free_pointer_offset = true });
	if (!caches[2])
		fire_fail("slub_cache_create_args: %s", strerror(errno));
	group = slub_group_create("stepped", NULL);
	if (!group || !sum || !sum32 || !fetched || !exchanged || !list)
		fire_fail("slub_percpu_alloc: %s", strerror(errno));
	for (unsigned int i = 0; i < NODES; i++) {
		own(&nodes[i]);
		while (!give(&nodes[i], true))
			;
	}
}

static void compare(void)
{
	if (slub_percpu_sum(sum) != twin.sum ||
	    slub_percpu_sum32(sum32) != twin.sum32 ||
	    slub_percpu_sum(fetched) != twin.fetched ||
	    slub_percpu_sum(exchanged) != twin.exchanged)
		fire_fail("words: %lld %d %lld %lld, their twins %lld %d %lld %lld",
			  (long long)slub_percpu_sum(sum),
			  slub_percpu_sum32(sum32),
			  (long long)slub_percpu_sum(fetched),
			  (long long)slub_percpu_sum(exchanged), twin.sum,
			  twin.sum32, twin.fetched, twin.exchanged);
}

/* Only if the rival is idle all the while are the twins to be compared. */
static void check(void)
{
	unsigned int turn = rival_turns, nr;
	struct node *all[NODES + 1];

	if (turn & 1)
		return;
	nr = drain(all);
	if (turn == rival_turns) {
		compare();
		if (nr != NODES)
			fire_fail("list: %u nodes of %u are left", nr, NODES);
	}
	while (nr)
		if (give(all[nr - 1], true))
			nr--;
}

void step_api_round(unsigned int round)
{
	struct slub_cache *cache = caches[round % CACHES];

	/* Here, for it leaves the nodes in the list of this CPU. */
	check();
	words((int)(round % 100) + 1);
	lists(true);
	lists(false);
	singles(cache, 20, true);
	singles(cache, 20, false);
	bulk(cache, 16);
	bulk(cache, BULK_MAX);
	singles(cache, BULK_MAX, true);
	misuse();
	charged();
	slub_free_deferred(seq_cache_alloc(cache));
	slub_deferred_barrier();
}

void step_api_handler(void)
{
	in_handler = true;
	words(1);
	lists(true);
	singles(&plain_things, 4, true);
	in_handler = false;
}

void step_api_rival(void)
{
	rival_turns++;
	for (int i = 0; i < 20; i++) {
		words(3);
		lists(i % 2);
		for (int k = 0; k < 30; k++)
			seq_cache_free(caches[k % CACHES],
				       seq_cache_alloc(caches[k % CACHES]));
	}
	rival_turns++;
}
