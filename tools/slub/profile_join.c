/* SPDX-License-Identifier: MIT */
/*
 * From trails to a profile: each trail is unwound, equal stacks are one, and what the profile
 * counts for a stack that the process walked is given to those that its samples were unwound
 * to.  What no trail tells of stays where it was.
 *
 * Trails wait here rather than in the ring, which is small and overwritten.
 */
#include "profile_trail.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX 4096
#define FRAMES_MAX 256
/* Of the library's weights: features/profile/profile.h. */
#define WEIGHT_ONE 256

struct sums {
	uint64_t samples, weight, bytes;
};

struct unwound {
	uint32_t site_stack;		/* as the process walked it */
	bool is_whole;
	size_t first, nr;		/* in frames */
	struct sums all, live;
};

/* A trail that was unwound. */
struct sample {
	uint64_t number, weight, bytes;
	size_t stack;			/* its index */
};

struct trail_book {
	struct trail_reader reader;
	struct unwinder *unwinder;
	struct profile_trail *queue[QUEUE_MAX];
	size_t queue_first, nr_queued;
	uint64_t nr_dropped;		/* the queue was full */
	struct unwound *stacks;
	size_t nr_stacks, stacks_size;
	struct index stack_index;
	uint64_t *frames;
	size_t nr_frames, frames_size;
	struct sample *samples;
	size_t nr_samples, samples_size;
};

static void *grow(void *array, size_t nr, size_t more, size_t *size, size_t unit)
{
	if (nr + more <= *size)
		return array;
	*size = 2 * (nr + more);
	return must_have(reallocarray(array, *size, unit));
}

struct trail_book *trail_book_open(const struct process *process, int memory, uint64_t ring)
{
	struct trail_book *book = must_have(calloc(1, sizeof(*book)));

	if (trail_reader_open(&book->reader, memory, ring)) {
		book->unwinder = unwinder_open(process);
		if (book->unwinder)
			return book;
	}
	trail_book_close(book);
	return NULL;
}

void trail_book_close(struct trail_book *book)
{
	for (; book->nr_queued; book->nr_queued--)
		free(book->queue[book->queue_first++ % QUEUE_MAX]);
	trail_reader_close(&book->reader);
	if (book->unwinder)
		unwinder_close(book->unwinder);
	index_free(&book->stack_index);
	free(book->stacks);
	free(book->frames);
	free(book->samples);
	free(book);
}

/* ---- trails ---- */

static void take_all(struct trail_book *book, bool is_last)
{
	const struct profile_trail *trail;

	/* A process may write for as long as it is read. */
	for (uint32_t i = 0; i <= book->reader.ring.nr_slots; i++) {
		size_t at = (book->queue_first + book->nr_queued) % QUEUE_MAX, bytes;
		struct profile_trail *copy;

		trail = trail_take(&book->reader, is_last);
		if (!trail)
			return;
		bytes = sizeof(*trail) + trail->copy_bytes;
		copy = book->nr_queued < QUEUE_MAX ? malloc(bytes) : NULL;
		if (!copy) {
			book->nr_dropped++;
			continue;
		}
		memcpy(copy, trail, bytes);
		book->queue[at] = copy;
		book->nr_queued++;
	}
}

static size_t find_stack(struct trail_book *book, const struct unwound *stack)
{
	const uint64_t *frames = book->frames + stack->first;
	uint64_t hash = stack->site_stack;
	size_t at = 0, found;

	for (size_t i = 0; i < stack->nr; i++)
		hash = hash_mix(hash, frames[i]);
	while ((found = index_next(&book->stack_index, hash, &at)) != INDEX_NONE) {
		const struct unwound *other = &book->stacks[found];

		if (other->site_stack == stack->site_stack && other->nr == stack->nr &&
		    !memcmp(book->frames + other->first, frames, stack->nr * sizeof(*frames)))
			return found;
	}
	book->stacks = grow(book->stacks, book->nr_stacks, 1, &book->stacks_size, sizeof(*stack));
	index_add(&book->stack_index, hash, book->nr_stacks);
	book->stacks[book->nr_stacks] = *stack;
	book->nr_frames += stack->nr;
	return book->nr_stacks++;
}

static void unwind_one(struct trail_book *book)
{
	size_t at = book->queue_first++ % QUEUE_MAX;
	struct profile_trail *trail = book->queue[at];
	struct unwound stack = { .site_stack = trail->site_stack, .first = book->nr_frames };

	book->nr_queued--;
	book->frames = grow(book->frames, book->nr_frames, FRAMES_MAX, &book->frames_size,
			    sizeof(*book->frames));
	stack.nr = unwind(book->unwinder, trail, book->frames + stack.first, FRAMES_MAX,
			  &stack.is_whole);
	book->samples = grow(book->samples, book->nr_samples, 1, &book->samples_size,
			     sizeof(*book->samples));
	book->samples[book->nr_samples++] = (struct sample){
		trail->state / 2, trail->weight, trail->bytes, find_stack(book, &stack)
	};
	free(trail);
}

bool trail_book_is_over(const struct trail_book *book)
{
	return book->reader.is_gone;
}

bool trail_book_work(struct trail_book *book)
{
	take_all(book, false);
	if (!book->nr_queued)
		return false;
	unwind_one(book);
	return true;
}

void trail_book_finish(struct trail_book *book, bool is_last)
{
	take_all(book, is_last);
	/* A process that is still sampling goes on meanwhile, and fills the ring. */
	for (size_t nr = book->nr_queued; nr; nr--) {
		unwind_one(book);
		if (!is_last)
			take_all(book, false);
	}
}

/* ---- the profile ---- */

static int number_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sums_add(struct sums *sums, const struct sample *sample)
{
	sums->samples++;
	sums->weight += sample->weight;
	sums->bytes += sample->bytes;
}

/* The profile counts samples between two looks at it. */
static void add_up(struct trail_book *book, struct profile *profile, uint64_t after)
{
	if (profile->nr_alive)
		qsort(profile->alive, profile->nr_alive, sizeof(*profile->alive), number_order);
	for (size_t i = 0; i < book->nr_samples; i++) {
		const struct sample *sample = &book->samples[i];
		struct unwound *stack = &book->stacks[sample->stack];

		if (sample->number <= after || sample->number > profile->last_trail)
			continue;
		sums_add(&stack->all, sample);
		if (profile->nr_alive &&
		    bsearch(&sample->number, profile->alive, profile->nr_alive,
			    sizeof(*profile->alive), number_order))
			sums_add(&stack->live, sample);
	}
}

/* A profile of a living process says where each site's stack is kept: by that they are told. */
static struct profile_site *site_of(struct profile *profile, const struct index *index,
				    uint32_t stack)
{
	size_t at = 0, found;

	while ((found = index_next(index, stack, &at)) != INDEX_NONE) {
		if (profile->sites[found].stack == stack)
			return &profile->sites[found];
	}
	return NULL;
}

/*
 * Both ways know the caller of malloc, the first frame of the site: what lies before it is the
 * library's.  0: the two do not fit, or the process came further.
 */
static size_t frames_before(const struct trail_book *book, const struct unwound *stack,
			    const struct profile *profile, const struct profile_site *site)
{
	const uint64_t *frames = book->frames + stack->first;
	uint64_t caller;

	if (!site->nr_frames)
		return 0;
	caller = profile->locations[profile->frames[site->first]].address + 1;
	for (size_t i = 1; i < stack->nr; i++) {
		if (frames[i] == caller)
			return stack->is_whole || stack->nr - i >= site->nr_frames ? i : 0;
	}
	return 0;
}

static void take_off(uint64_t *from, uint64_t what)
{
	*from -= *from < what ? *from : what;
}

static void move_sums(struct profile_site *from, struct profile_site *to,
		      const struct unwound *stack)
{
	to->samples = stack->all.samples;
	to->live_samples = stack->live.samples;
	to->values[VALUE_ALLOC_OBJECTS] = (stack->all.weight + WEIGHT_ONE / 2) / WEIGHT_ONE;
	to->values[VALUE_ALLOC_SPACE] = stack->all.bytes;
	to->values[VALUE_INUSE_OBJECTS] = (stack->live.weight + WEIGHT_ONE / 2) / WEIGHT_ONE;
	to->values[VALUE_INUSE_SPACE] = stack->live.bytes;
	for (int v = 0; v < NR_VALUES; v++)
		take_off(&from->values[v], to->values[v]);
	take_off(&from->samples, to->samples);
	take_off(&from->live_samples, to->live_samples);
}

/* What has gone to other stacks altogether; rounding may have left an object. */
static void drop_empty(struct profile *profile)
{
	size_t nr = 0;

	for (size_t i = 0; i < profile->nr_sites; i++) {
		if (profile->sites[i].samples)
			profile->sites[nr++] = profile->sites[i];
	}
	profile->nr_sites = nr;
}

void trail_book_join(struct trail_book *book, struct profile *profile, uint64_t after)
{
	size_t nr_walked = profile->nr_sites;
	struct index sites = { .size = 0 };
	uint64_t nr_unwound = 0, nr_all = 0;

	for (size_t i = 0; i < nr_walked; i++)
		index_add(&sites, profile->sites[i].stack, i);
	add_up(book, profile, after);
	for (size_t i = 0; i < book->nr_stacks; i++) {
		const struct unwound *stack = &book->stacks[i];
		struct profile_site *site = site_of(profile, &sites, stack->site_stack);
		struct profile_site added = { .stack = stack->site_stack };
		size_t before = site ? frames_before(book, stack, profile, site) : 0;

		if (!before || !stack->all.samples)
			continue;
		nr_unwound += stack->all.samples;
		move_sums(site, &added, stack);
		profile_add_site(profile, &added, book->frames + stack->first + before,
				 stack->nr - before);
	}
	index_free(&sites);
	drop_empty(profile);
	for (size_t i = 0; i < profile->nr_sites; i++)
		nr_all += profile->sites[i].samples;
	profile->stacks_unwound = nr_unwound;
	profile->stacks_walked = nr_all - (nr_all < nr_unwound ? nr_all : nr_unwound);
	profile->trails_lost = book->reader.nr_lost + book->nr_dropped;
	profile->is_unwound = true;
}
