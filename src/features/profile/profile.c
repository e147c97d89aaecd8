/* SPDX-License-Identifier: MIT */
/*
 * The book of samples and sites, and when it is kept.
 *
 *   +---------+--------------+---------------------+------------------------+---------+
 *   | buckets | buckets      | sites, in the order | samples: those alive,  | their   |
 *   | of sites| of samples   | they were seen      | and a list of free ones| trails  |
 *   +---------+--------------+---------------------+------------------------+---------+
 *
 * The book is mapped once, as large as it can get; only pages that were used have
 * memory.  A sample that finds no room is counted as lost.
 *
 * Locks: book_lock protects the book.  The thread that samples holds no lock while it
 * reads and stores a stack, or tells a tracer.
 */
#define _GNU_SOURCE
#include "core/base/turn.h"
#include "core/base/hash.h"
#include "features/profile/profile.h"
#include "features/profile/profile_trail.h"
#include "features/watch/watch.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "features/profile/probe.h"

#define SITES_MAX (1u << 17)
#define SITE_BUCKETS (1u << 14)
#define SAMPLES_MAX (1u << 20)
#define SAMPLE_BUCKETS (1u << 16)

struct sample {
	void *object;
	uint64_t weight;
	uint64_t bytes;
	uint32_t site;
	uint32_t next;		/* in its bucket, or free; + 1 */
};

/* A number is an index in sites or samples, + 1; 0: none. */
struct book {
	uint32_t site_buckets[SITE_BUCKETS];
	uint32_t sample_buckets[SAMPLE_BUCKETS];
	struct profile_site sites[SITES_MAX];
	struct sample samples[SAMPLES_MAX];
	uint64_t trails[SAMPLES_MAX];	/* of the samples; 0: none */
};

static struct lock book_lock fork_writes = LOCK_INIT;
/* under book_lock */
static struct book *book;
static struct profile_state state;
static uint32_t free_first;
static uint32_t nr_samples_used;	/* the places behind these were never used */

/* One start or stop at a time. */
static struct turn changing;
/* Sampling is on, and only because a tracer has attached to a probe. */
static _Atomic bool for_tracers;
static struct os_file_id file_before;

/* ---- the book, under the lock ---- */

static void book_clear(void)
{
	memset(book->site_buckets, 0, sizeof(book->site_buckets));
	memset(book->sample_buckets, 0, sizeof(book->sample_buckets));
	state.nr_sites = 0;
	state.lost = 0;
	free_first = 0;
	nr_samples_used = 0;
}

static uint32_t *sample_bucket(const void *object)
{
	uint64_t h = ((uintptr_t)object >> 4) * HASH_MULTIPLIER;

	return &book->sample_buckets[h >> 48 & (SAMPLE_BUCKETS - 1)];
}

/* The number of the site with @stack, a new one if need be; 0: there is no room. */
static uint32_t site_find(uint32_t stack)
{
	uint32_t *bucket = &book->site_buckets[stack % SITE_BUCKETS];
	struct profile_site *site;

	for (uint32_t n = *bucket; n; n = book->sites[n - 1].next) {
		if (book->sites[n - 1].stack == stack)
			return n;
	}
	if (state.nr_sites == SITES_MAX)
		return 0;
	site = &book->sites[state.nr_sites++];
	memset(site, 0, sizeof(*site));
	site->stack = stack;
	site->next = *bucket;
	*bucket = state.nr_sites;
	return *bucket;
}

static uint32_t sample_place(void)
{
	uint32_t n = free_first;

	if (n)
		free_first = book->samples[n - 1].next;
	else if (nr_samples_used < SAMPLES_MAX)
		n = ++nr_samples_used;
	return n;
}

/* @sign: 1 to add, -1 to take away. */
static void sums_add(struct profile_sums *sums, const struct sample *sample, uint64_t sign)
{
	sums->samples += sign;
	sums->weight += sign * sample->weight;
	sums->bytes += sign * sample->bytes;
}

/* The trails have no memory in a process that never drew one. */
static void set_trail(uint32_t place, uint64_t trail)
{
	if (unlikely(trails_were_drawn()))
		book->trails[place - 1] = trail;
}

static void book_enter(struct sample *sample, uint32_t stack, uint64_t trail)
{
	uint32_t *bucket = sample_bucket(sample->object);
	uint32_t place;

	sample->site = site_find(stack);
	place = sample->site ? sample_place() : 0;
	if (!place) {
		state.lost++;
		return;
	}
	sample->next = *bucket;
	*bucket = place;
	book->samples[place - 1] = *sample;
	set_trail(place, trail);
	sums_add(&book->sites[sample->site - 1].all, sample, 1);
	sums_add(&book->sites[sample->site - 1].live, sample, 1);
}

/* False: the book has no sample of @object. */
static bool book_remove(const void *object)
{
	uint32_t *link = sample_bucket(object);

	while (*link) {
		uint32_t place = *link;
		struct sample *sample = &book->samples[place - 1];

		if (sample->object != object) {
			link = &sample->next;
			continue;
		}
		sums_add(&book->sites[sample->site - 1].live, sample, (uint64_t)-1);
		set_trail(place, 0);
		/* A reader from outside takes no lock. */
		sample->object = NULL;
		*link = sample->next;
		sample->next = free_first;
		free_first = place;
		return true;
	}
	return false;
}

/* ---- what sampling tells: struct sample_keeper ---- */

static void taken(void *object, size_t bytes, double weight)
{
	struct sample sample = {
		.object = object,
		.weight = (uint64_t)(weight * WEIGHT_ONE + 0.5),
		.bytes = (uint64_t)(weight * (double)bytes + 0.5),
	};
	struct stack stack;
	uint64_t trail;
	uint32_t number;

	stack_read(&stack, __builtin_frame_address(0));
	number = stack_store(&stack);
	lock_acquire(&book_lock);
	/* Here, so that a copy of the book has the samples of all trails up to its last one. */
	trail = trail_draw();
	book_enter(&sample, number, trail);
	lock_release(&book_lock);
	if (unlikely(trail))
		trail_write(trail, number, sample.weight, sample.bytes);
	probe_alloc(object, bytes, sample.bytes);
}

static void gone(void *object)
{
	bool found;

	lock_acquire(&book_lock);
	found = book_remove(object);
	lock_release(&book_lock);
	if (found)
		probe_free(object);
}

/* For a search of leaks, whose copy nobody changes; it may have caught a change half done. */
uint32_t profile_stack_of(const void *object)
{
	uint32_t n = book ? *sample_bucket(object) : 0;

	for (uint32_t i = 0; n && n <= SAMPLES_MAX && i < SAMPLES_MAX; i++) {
		const struct sample *sample = &book->samples[n - 1];

		if (sample->object == object)
			return book->sites[sample->site - 1].stack;
		n = sample->next;
	}
	return 0;
}

/* ---- for a reader from outside ---- */

const struct slub_abi_book profile_book = {
	.size = sizeof(struct slub_abi_book),
	.sample_bytes = sizeof(struct sample),
	.site_bytes = sizeof(struct profile_site),
	.place = (uintptr_t)&book,
	.bytes = sizeof(struct book),
	.nr_samples = (uintptr_t)&nr_samples_used,
	.samples = offsetof(struct book, samples),
	.sites = offsetof(struct book, sites),
	.sample_object = FIELD(sample, object),
	.sample_site = FIELD(sample, site),
	.site_stack = FIELD(profile_site, stack),
};

/* ---- on and off ---- */

static uint64_t choose_seed(void)
{
	uint64_t seed = option_value(OPTION_test_profile_seed);

	return seed ? seed : os_clock_read_ns(CLOCK_REALTIME) ^ os_random_word(0);
}

static size_t choose_mean(void)
{
	size_t mean = option_value(OPTION_profile);

	return mean ? mean : SLUB_PROFILE_BYTES_DEFAULT;
}

static int book_open(size_t mean)
{
	struct book *made = book;

	if (!made)
		made = os_map(sizeof(*made));
	if (!made)
		return -ENOMEM;
	lock_acquire(&book_lock);
	book = made;
	book_clear();
	__atomic_store_n(&state.mean_bytes, mean, __ATOMIC_RELAXED);
	state.start_ns = os_clock_read_ns(CLOCK_REALTIME);
	lock_release(&book_lock);
	return 0;
}

static int start(size_t mean, bool may_wait)
{
	int err = book_open(mean);

	if (err)
		return err;
	/* Made before any sample, so no allocation of the program waits for that. */
	stack_store_base();
	sample_set((double)mean, choose_seed());
	return sizeclass_sample(true, may_wait);
}

/* Begins anew where a profile is on. */
static usual int start_waiting(size_t mean)
{
	if (sample_is_on(SAMPLE_PROFILE))
		sizeclass_sample(false, true);
	return start(mean, true);
}

/* A tracer came or went.  Under `changing` this looks at `for_tracers` again. */
static cold void follow_tracers(bool traced)
{
	if (!turn_try(&changing))
		return;
	if (traced && !sample_is_on(SAMPLE_PROFILE)) {
		__atomic_store_n(&for_tracers, true, __ATOMIC_RELAXED);
		if (start(choose_mean(), true))
			__atomic_store_n(&for_tracers, false,
					 __ATOMIC_RELAXED);
	} else if (!traced &&
		   __atomic_load_n(&for_tracers, __ATOMIC_RELAXED)) {
		__atomic_store_n(&for_tracers, false, __ATOMIC_RELAXED);
		sizeclass_sample(false, true);
	}
	turn_end(&changing);
}

static void probes_changed(void)
{
	bool traced = __atomic_load_n(&sample_switch.probe_alloc,
				      __ATOMIC_RELAXED) ||
		      __atomic_load_n(&sample_switch.probe_free,
				      __ATOMIC_RELAXED);
	bool wrong = traced ? !sample_is_on(SAMPLE_PROFILE) :
			      __atomic_load_n(&for_tracers, __ATOMIC_RELAXED);

	if (unlikely(wrong))
		follow_tracers(traced);
}

static const struct sample_keeper keeper = { taken, gone, probes_changed };

SLUB_EXPORT int slub_profile_start(size_t bytes)
{
	int err = bytes <= SLUB_PROFILE_BYTES_MAX ? slub_begin() : -EINVAL;

	if (err)
		return err;
	if (!turn_try(&changing))
		return -EBUSY;
	__atomic_store_n(&for_tracers, false, __ATOMIC_RELAXED);
	err = start_waiting(bytes ? bytes : choose_mean());
	turn_end(&changing);
	return err;
}

cold int profile_stop(bool may_wait)
{
	int err = 0;

	if (!turn_try(&changing))
		return -EBUSY;
	__atomic_store_n(&for_tracers, false, __ATOMIC_RELAXED);
	if (sample_is_on(SAMPLE_PROFILE))
		err = sizeclass_sample(false, may_wait);
	turn_end(&changing);
	return err;
}

SLUB_EXPORT int slub_profile_stop(void)
{
	return slub_thread.locks_held ? -EDEADLK : profile_stop(true);
}

/* Says only whether there is a book: readers of it take its lock. */
bool profile_has_begun(void)
{
	return __atomic_load_n(&state.mean_bytes, __ATOMIC_RELAXED);
}

/* For a slow path, which must not wait; 1: a profile is on already, and stays on. */
cold int profile_begin(size_t mean)
{
	int err = 1;

	if (!turn_try(&changing))
		return -EBUSY;
	if (!sample_is_on(SAMPLE_PROFILE))
		err = start(mean, false);
	turn_end(&changing);
	return err;
}

SLUB_EXPORT int slub_profile_write(const char *path)
{
	if (!path || !profile_has_begun())
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	return (int)profile_write(path);
}

/* ---- a copy ---- */

struct copy {
	struct profile_site sites[SITES_MAX];
	uint64_t trails[SAMPLES_MAX];
};

static cold void copy_trails(struct copy *to, struct profile_state *copied)
{
	copied->last_trail = __atomic_load_n(&trail_ring.drawn, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < nr_samples_used; i++) {
		if (book->trails[i])
			to->trails[copied->nr_trails++] = book->trails[i];
	}
}

int profile_copy(struct profile_state *copied)
{
	struct copy *copy = os_map(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	lock_acquire(&book_lock);
	*copied = state;
	memcpy(copy->sites, book->sites, state.nr_sites * sizeof(*copy->sites));
	/* Also when the ring has gone off: a reader has taken trails. */
	if (trails_were_drawn())
		copy_trails(copy, copied);
	lock_release(&book_lock);
	copied->sites = copy->sites;
	copied->trails = copy->trails;
	return 0;
}

void profile_copy_free(struct profile_state *copy)
{
	os_unreserve((void *)copy->sites, sizeof(struct copy));
}

/* ---- the process ---- */

usual void profile_init(void)
{
	sample_keeper = &keeper;
	debug_mailbox_profile = profile_by_mail;
}

usual void profile_start_by_option(void)
{
	const char *path = option_text(OPTION_profile_file);
	int err;

	if (path)
		os_output_expect(&file_before, path);
	if (!option_value(OPTION_profile) && !path)
		return;
	err = start_waiting(choose_mean());
	if (err)
		log_message("option profile: there is no heap profile, for "
			    "want of memory (error %d)", -err);
}

usual void profile_finish(void)
{
	const char *path = option_text(OPTION_profile_file);

	if (path && profile_has_begun() && !slub_thread.locks_held)
		os_output_finish(&file_before, "profile_file", path, profile_write);
}

usual void profile_fork(enum fork_step step)
{
	lock_fork(&book_lock, step);
	/* Nobody reads the child's. */
	if (step == FORK_CHILD && trails_are_on())
		trails_end();
}
