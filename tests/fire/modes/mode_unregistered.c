/* SPDX-License-Identifier: MIT */
/*
 * Threads that the kernel has not registered for rseq, or no longer, use all that has a
 * sequence: malloc, per-CPU words and lists, readers, caches.  Registered threads do the same
 * beside them, so one that runs a sequence without the kernel's protection is found out:
 * by a sum, an object with two owners, a reader that never leaves.
 *
 *	mode_unregistered --rounds=2000
 *
 *	FIRST   a thread that ends its registration before anything else
 *	CHILD   one that such a thread has made: the C library does not register it
 *	LATER   one that ends its registration after it has used the library; not where
 *	        sequences read mm_cid, which is 0 then, and a CPU's number (docs/internals/rseq.md)
 */
#include "modes/modes.h"
#include "modes/own_section.h"

#include <slub/slub.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif
#define OFFSET_MM_CID_END 28
#define SIGNATURE RSEQ_SIG
#define BATCH 40

enum kind { REGISTERED, FIRST, CHILD, LATER, NR_KINDS };
#define OF_EACH 2

/* What each object of the caches begins with; the constructor's work is not undone by a free. */
struct object {
	atomic_ulong owner;
};

static struct slub_cache *caches[3];
static const size_t cache_sizes[] = { 64, 200, 9000 };
static const char *const cache_names[] = { "small", "middle", "paged" };
static struct slub_srcu domain = SLUB_SRCU_INIT;
static uintptr_t word, word32, list;
static unsigned long rounds;
static atomic_ulong added, added32, pushed, popped, next_owner = 1;

static void construct(void *memory)
{
	struct object *object = memory;

	atomic_init(&object->owner, 0);
}

static void take_over(void *memory, unsigned long owner)
{
	struct object *object = memory;

	if (!object)
		fire_fail("an allocation failed: %s", strerror(errno));
	if (atomic_exchange(&object->owner, owner))
		fire_fail("an object of two threads");
}

static void let_go(void *memory, unsigned long owner)
{
	struct object *object = memory;

	if (atomic_exchange(&object->owner, 0) != owner)
		fire_fail("an object was another thread's meanwhile");
}

static void use_cache(struct slub_cache *cache, unsigned long owner)
{
	void *objects[BATCH];

	for (int i = 0; i < BATCH; i++)
		take_over(objects[i] = slub_cache_alloc(cache), owner);
	for (int i = 0; i < BATCH; i++) {
		let_go(objects[i], owner);
		slub_cache_free(cache, objects[i]);
	}
	if (slub_cache_alloc_bulk(cache, 0, BATCH, objects) != BATCH)
		fire_fail("a bulk allocation failed: %s", strerror(errno));
	for (int i = 0; i < BATCH; i++)
		take_over(objects[i], owner);
	for (int i = 0; i < BATCH; i++)
		let_go(objects[i], owner);
	slub_cache_free_bulk(cache, BATCH, objects);
}

static void use_words(void)
{
	unsigned long wide = 2, narrow = 1;

	slub_percpu_add(word, 1);
	slub_percpu_add32(word32, 1);
	slub_percpu_add_return(word, 1);
	for (int i = 0; i < BATCH; i++) {
		int64_t old = slub_percpu_read(word);

		wide += slub_percpu_cmpxchg(word, old, old + 1) == old;
		narrow += slub_percpu_cmpxchg32(word32, i, i + 1) == i;
	}
	atomic_fetch_add(&added, wide);
	atomic_fetch_add(&added32, narrow);
}

static void use_list(void)
{
	unsigned long in = 0, out = 0;

	for (int i = 0; i < BATCH; i++) {
		void *node = malloc(16);

		if (node && slub_percpu_push(list, node, 1000))
			in++;
		else
			free(node);
	}
	for (int i = 0; i < BATCH; i++) {
		void *node = slub_percpu_pop(list);

		out += node != NULL;
		free(node);
	}
	atomic_fetch_add(&pushed, in);
	atomic_fetch_add(&popped, out);
}

static void use_all(uint64_t *rng, unsigned long times)
{
	unsigned long owner = atomic_fetch_add(&next_owner, 1);

	while (times--) {
		unsigned int reader = slub_srcu_read_lock(&domain);

		modes_work(rng, 200, false);
		use_words();
		slub_srcu_read_unlock(&domain, reader);
		use_list();
		for (int i = 0; i < 3; i++)
			use_cache(caches[i], owner);
		slub_free_deferred(slub_cache_alloc(caches[0]));
	}
}

static void unregister(void)
{
	unsigned long sizes[] = { 32, __rseq_size,
				  getauxval(AT_RSEQ_FEATURE_SIZE), 64 };

	if (!__rseq_size)
		return;
	for (int i = 0; i < 4; i++)
		if (!syscall(SYS_rseq, own_rseq(), sizes[i],
			     RSEQ_FLAG_UNREGISTER, SIGNATURE))
			return;
	fire_fail("rseq: %s", strerror(errno));
}

static void *work(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);

	use_all(&rng, rounds);
	return NULL;
}

static void start(pthread_t *thread, void *(*what)(void *), uintptr_t seed)
{
	if (pthread_create(thread, NULL, what, (void *)seed))
		fire_fail("pthread_create: %s", strerror(errno));
}

static void *work_first(void *argument)
{
	unregister();
	return work(argument);
}

static void *work_child(void *argument)
{
	pthread_t child;

	unregister();
	start(&child, work, (uintptr_t)argument);
	pthread_join(child, NULL);
	return NULL;
}

static void *work_later(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);

	use_all(&rng, rounds / 8 + 1);
	if (getauxval(AT_RSEQ_FEATURE_SIZE) < OFFSET_MM_CID_END)
		unregister();
	return work(argument);
}

static void make_caches(void)
{
	for (int i = 0; i < 3; i++) {
		struct slub_cache_args args = {
			.name = cache_names[i],
			.size = cache_sizes[i],
			.ctor = construct,
			.flags = SLUB_CACHE_NO_MERGE,
		};

		caches[i] = slub_cache_create_args(&args);
		if (!caches[i])
			fire_fail("no cache: %s", strerror(errno));
	}
}

static void expect(const char *what, unsigned long found, unsigned long wanted)
{
	printf("%s: %lu\n", what, found);
	if (found != wanted)
		fire_fail("%s: %lu, wanted %lu", what, found, wanted);
}

int main(int argc, char **argv)
{
	static void *(*const works[NR_KINDS])(void *) = {
		work, work_first, work_child, work_later,
	};
	pthread_t threads[NR_KINDS * OF_EACH];
	unsigned long left = 0;
	uint64_t rng;

	fire_start(argc, argv, "rounds limit");
	fire_require_library();
	fire_watchdog(fire_opt("limit", 250));
	rng = fire_seed();
	rounds = fire_count("rounds", 2000);
	word = slub_percpu_alloc(8, 8);
	word32 = slub_percpu_alloc(4, 4);
	list = slub_percpu_alloc(sizeof(struct slub_percpu_list),
				 SLUB_PERCPU_LIST_ALIGN);
	make_caches();
	for (int i = 0; i < NR_KINDS * OF_EACH; i++)
		start(&threads[i], works[i / OF_EACH], fire_rng(&rng));
	for (int i = 0; i < NR_KINDS * OF_EACH; i++)
		pthread_join(threads[i], NULL);
	slub_srcu_synchronize(&domain);
	modes_drain();
	for (void **node = slub_percpu_list_drain(list); node; left++) {
		void **next = *node;

		free(node);
		node = next;
	}
	expect("sum of a word", (unsigned long)slub_percpu_sum(word), added);
	expect("sum of four bytes", (unsigned long)slub_percpu_sum32(word32), added32);
	expect("objects off a list", popped + left, pushed);
	return 0;
}
