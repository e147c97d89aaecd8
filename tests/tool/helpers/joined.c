/* SPDX-License-Identifier: MIT */
/*
 * profile_join.c: what was unwound is put in place of what the process walked.  How a trail is
 * unwound stands in its copy.
 */
#include "one_hash.h"
#include "trails.h"

static int nr_unwound, nr_open;
static bool has_unwinder = true;
static int draws;		/* while one is unwound the process goes on */

struct unwinder *unwinder_open(const struct process *process)
{
	(void)process;
	nr_open += has_unwinder;
	return has_unwinder ? (struct unwinder *)&memory : NULL;
}

void unwinder_close(struct unwinder *unwinder)
{
	nr_open -= unwinder == (struct unwinder *)&memory;
}

size_t unwind(struct unwinder *unwinder, const struct profile_trail *trail, uint64_t *frames,
	      size_t frames_max, bool *is_whole)
{
	size_t nr = trail->copy_bytes / sizeof(*frames);

	(void)unwinder;
	nr_unwound++;
	memcpy(frames, trail->copy, (nr < frames_max ? nr : frames_max) * sizeof(*frames));
	*is_whole = trail->flags & WHOLE;
	for (int i = 0; i < draws; i++)
		draw();
	return nr;
}

static void begin_anew(void)
{
	begin();
	nr_unwound = 0;
}

static void add_site(struct profile *profile, uint32_t stack, uint64_t samples,
		     const uint64_t *frames, size_t nr)
{
	struct profile_site site = { .samples = samples, .live_samples = samples - 1,
				     .stack = stack };

	for (int v = 0; v < NR_VALUES; v++)
		site.values[v] = 100000 * (uint64_t)(v + 1);
	profile_add_site(profile, &site, frames, nr);
}

static struct trail_book *open_book(void)
{
	struct trail_book *book = trail_book_open(NULL, memory, (uintptr_t)&ring);

	EXPECT(book != NULL, true);
	return book;
}

static void expect_frames(const struct profile *profile, const struct profile_site *site,
			  const uint64_t *frames, size_t nr)
{
	EXPECT(site->nr_frames, nr);
	for (size_t i = 0; i < nr && i < site->nr_frames; i++)
		EXPECT(profile->locations[profile->frames[site->first + i]].address + 1,
		       frames[i]);
}

static void refuse_books(void)
{
	begin_anew();
	EXPECT(trail_book_open(NULL, memory, 0) != NULL, false);
	has_unwinder = false;
	EXPECT(trail_book_open(NULL, memory, (uintptr_t)&ring) != NULL, false);
	has_unwinder = true;
	EXPECT(nr_open, 0);
}

static void join_a_site(void)
{
	static const uint64_t walked[] = { 0x1000, 0x2000 },
			      other[] = { 0x10, 0x20, 0x1000, 0x4000 };
	uint64_t alive[] = { 4, 1, 2 };
	struct profile profile = { .last_trail = 4, .nr_alive = 3 };
	struct trail_book *book;

	begin_anew();
	book = open_book();
	EXPECT(trail_book_is_over(book), false);
	EXPECT(trail_book_work(book), false);
	profile.alive = memcpy(malloc(sizeof(alive)), alive, sizeof(alive));
	add_site(&profile, 4, 7, walked, 1);
	add_site(&profile, 5, 9, walked, 2);
	for (int i = 0; i < 3; i++)
		draw();
	write_trail(++ring.drawn, 5, other, 4);
	draw();				/* behind the profile */
	EXPECT(trail_book_work(book), true);
	EXPECT(nr_unwound, 1);
	trail_book_finish(book, true);
	EXPECT(nr_unwound, 5);
	EXPECT(trail_book_work(book), false);
	trail_book_join(book, &profile, 1);
	EXPECT(profile.nr_sites, 4);
	/* 2 and 3 of the plain stack, 4 of the other one. */
	EXPECT(profile.sites[0].samples, 7);
	EXPECT(profile.sites[1].samples, 9 - 3);
	EXPECT(profile.sites[1].live_samples, 8 - 2);
	EXPECT(profile.sites[1].values[VALUE_ALLOC_OBJECTS], 100000 - 9);
	EXPECT(profile.sites[1].values[VALUE_ALLOC_SPACE], 200000 - 9000);
	EXPECT(profile.sites[1].values[VALUE_INUSE_OBJECTS], 300000 - 6);
	EXPECT(profile.sites[1].values[VALUE_INUSE_SPACE], 400000 - 6000);
	EXPECT(profile.sites[2].samples, 2);
	EXPECT(profile.sites[2].live_samples, 1);
	EXPECT(profile.sites[2].values[VALUE_ALLOC_OBJECTS], 5);
	EXPECT(profile.sites[2].values[VALUE_ALLOC_SPACE], 5000);
	EXPECT(profile.sites[2].values[VALUE_INUSE_OBJECTS], 2);
	EXPECT(profile.sites[2].values[VALUE_INUSE_SPACE], 2000);
	expect_frames(&profile, &profile.sites[2], plain + 1, 3);
	EXPECT(profile.sites[3].samples, 1);
	EXPECT(profile.sites[3].live_samples, 1);
	expect_frames(&profile, &profile.sites[3], other + 2, 2);
	EXPECT(profile.is_unwound, true);
	EXPECT(profile.stacks_unwound, 3);
	EXPECT(profile.stacks_walked, 7 + 6);
	EXPECT(profile.trails_lost, 0);
	profile_free(&profile);
	trail_book_close(book);
	EXPECT(nr_open, 0);
}

/* Half an object is rounded up, and no more is taken off than there is. */
static void take_off_no_more(void)
{
	static const uint64_t walked[] = { 0x1000 };
	struct profile profile = { .last_trail = 10 };
	struct trail_book *book;

	begin_anew();
	book = open_book();
	add_site(&profile, 5, 2, walked, 1);
	profile.sites[0].live_samples = 0;
	profile.sites[0].values[VALUE_ALLOC_SPACE] = 2999;
	profile.sites[0].values[VALUE_ALLOC_OBJECTS] = 3;
	draw();
	slot_of(1)->weight = 127;
	draw();
	slot_of(2)->weight = 256;
	trail_book_finish(book, true);
	trail_book_join(book, &profile, 0);
	EXPECT(profile.nr_sites, 1);	/* the first is empty */
	EXPECT(profile.sites[0].values[VALUE_ALLOC_OBJECTS], 1);
	EXPECT(profile.sites[0].values[VALUE_ALLOC_SPACE], 3000);
	EXPECT(profile.sites[0].values[VALUE_INUSE_OBJECTS], 0);
	EXPECT(profile.sites[0].samples, 2);
	EXPECT(profile.sites[0].live_samples, 0);
	EXPECT(profile.stacks_unwound, 2);
	EXPECT(profile.stacks_walked, 0);
	profile_free(&profile);
	trail_book_close(book);
	/* 128 of 256 */
	begin_anew();
	book = open_book();
	profile = (struct profile){ .last_trail = 10 };
	add_site(&profile, 5, 3, walked, 1);
	draw();
	slot_of(1)->weight = 128;
	trail_book_finish(book, true);
	trail_book_join(book, &profile, 0);
	EXPECT(profile.nr_sites, 2);
	EXPECT(profile.sites[0].samples, 2);
	EXPECT(profile.sites[1].values[VALUE_ALLOC_OBJECTS], 1);
	profile_free(&profile);
	trail_book_close(book);
}

/* Which unwound stacks stand for the one that was walked. */
static void join_what_fits(void)
{
	static const uint64_t walked[] = { 0x1000, 0x2000, 0x3000 },
			      first[] = { 0x1000, 0x2000, 0x3000, 0x4000 },
			      strange[] = { 0x10, 0x2000, 0x3000 },
			      brief[] = { 0x10, 0x1000, 0x2000 },
			      equal[] = { 0x10, 0x1000, 0x2000, 0x9000 };
	struct trail_book *book;
	struct profile profile = { .last_trail = 10 };

	begin_anew();
	book = open_book();
	add_site(&profile, 5, 20, walked, 3);
	add_site(&profile, 6, 20, walked, 0);
	write_trail(++ring.drawn, 5, first, 4);		/* nothing of the library before it */
	write_trail(++ring.drawn, 5, strange, 3);	/* without the caller */
	write_trail(++ring.drawn, 5, brief, 3);		/* not whole, and shorter */
	slot_of(3)->flags = 0;
	write_trail(++ring.drawn, 6, brief, 3);		/* no frames were walked */
	write_trail(++ring.drawn, 77, brief, 3);	/* no such site */
	write_trail(++ring.drawn, 5, equal, 4);		/* not whole, and as long */
	slot_of(6)->flags = 0;
	trail_book_finish(book, true);
	EXPECT(nr_unwound, 6);
	trail_book_join(book, &profile, 0);
	EXPECT(profile.nr_sites, 3);
	EXPECT(profile.sites[0].samples, 19);
	EXPECT(profile.sites[1].samples, 20);
	EXPECT(profile.sites[2].samples, 1);
	EXPECT(profile.sites[2].values[VALUE_ALLOC_SPACE], 6000);
	expect_frames(&profile, &profile.sites[2], equal + 1, 3);
	EXPECT(profile.stacks_unwound, 1);
	EXPECT(profile.stacks_walked, 39);
	profile_free(&profile);
	trail_book_close(book);
	/* Whole, though it is shorter. */
	begin_anew();
	book = open_book();
	profile = (struct profile){ .last_trail = 10 };
	add_site(&profile, 5, 20, walked, 3);
	write_trail(++ring.drawn, 5, brief, 3);
	trail_book_finish(book, true);
	trail_book_join(book, &profile, 0);
	EXPECT(profile.nr_sites, 2);
	expect_frames(&profile, &profile.sites[1], brief + 1, 2);
	profile_free(&profile);
	trail_book_close(book);
}

/* One look takes no more than the ring has, the queue keeps 4096, and what is lost is counted. */
static void lose_in_the_book(void)
{
	struct profile profile = { .last_trail = 1 };
	struct trail_book *book;

	begin_anew();
	book = open_book();
	for (int i = 0; i < NR_SLOTS + 7; i++)
		draw();
	slot_of(ring.drawn)->state = 1;
	trail_book_finish(book, false);
	EXPECT(nr_unwound, NR_SLOTS - 1);
	trail_book_finish(book, true);
	EXPECT(nr_unwound, NR_SLOTS - 1);
	trail_book_join(book, &profile, 0);
	EXPECT(profile.trails_lost, 8);
	EXPECT(profile.stacks_unwound, 0);
	ring.magic[3] ^= 1;
	EXPECT(trail_book_work(book), false);
	EXPECT(trail_book_is_over(book), true);
	profile_free(&profile);
	trail_book_close(book);
	/* Each look at it leaves all but one: those stay for the end. */
	begin_anew();
	book = open_book();
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < NR_SLOTS - 4; i++)
			draw();
		EXPECT(trail_book_work(book), true);
	}
	EXPECT(nr_unwound, 100);
	trail_book_finish(book, true);
	EXPECT(nr_unwound, 100 + 4095);
	profile = (struct profile){ .last_trail = 1 };
	trail_book_join(book, &profile, 0);
	EXPECT(profile.trails_lost, 100 * (NR_SLOTS - 4) - 4195);
	profile_free(&profile);
	for (int i = 0; i < 20; i++)
		draw();
	EXPECT(trail_book_work(book), true);
	trail_book_close(book);		/* with some in the queue */
	EXPECT(nr_open, 0);
}

/* What is written late is waited for until the end, and what is drawn meanwhile is taken. */
static void keep_up(void)
{
	struct profile profile = { .last_trail = 1 };
	struct trail_book *book;

	begin_anew();
	book = open_book();
	for (int i = 0; i < 4; i++)
		draw();
	slot_of(2)->state = 3;
	EXPECT(trail_book_work(book), true);
	slot_of(2)->state = 4;
	draw();
	slot_of(5)->state = 0;
	trail_book_finish(book, false);
	EXPECT(nr_unwound, 4);
	slot_of(5)->state = 10;
	trail_book_finish(book, true);
	EXPECT(nr_unwound, 5);
	for (int i = 0; i < 5; i++)
		draw();
	draws = NR_SLOTS / 2;
	trail_book_finish(book, false);
	draws = 0;
	trail_book_finish(book, true);
	EXPECT(nr_unwound, 10 + 5 * (NR_SLOTS / 2));
	trail_book_join(book, &profile, 0);
	EXPECT(profile.trails_lost, 0);
	profile_free(&profile);
	trail_book_close(book);
}

/* As of the first, half an object of those alive is rounded up. */
static void round_those_alive(void)
{
	static const uint64_t walked[] = { 0x1000 };
	struct profile profile = { .last_trail = 10, .nr_alive = 1 };
	struct trail_book *book;

	for (uint64_t weight = 127; weight <= 128; weight++) {
		begin_anew();
		book = open_book();
		profile = (struct profile){ .last_trail = 10, .nr_alive = 1 };
		profile.alive = memcpy(malloc(8), (uint64_t[]){ 1 }, 8);
		add_site(&profile, 5, 3, walked, 1);
		draw();
		slot_of(1)->weight = weight;
		trail_book_finish(book, true);
		trail_book_join(book, &profile, 0);
		EXPECT(profile.sites[1].values[VALUE_INUSE_OBJECTS], weight == 128);
		profile_free(&profile);
		trail_book_close(book);
	}
}

/* Stacks are told apart by each of their frames, by their number and by the site. */
static void tell_apart(void)
{
	static const uint64_t walked[] = { 0x1000 },
			      stacks[][4] = {
				      { 0x10, 0x1000, 0x2000, 0x3000 },
				      { 0x18, 0x1000, 0x2000, 0x3000 },
				      { 0x10, 0x1000, 0x2008, 0x3000 },
				      { 0x10, 0x1000, 0x2000, 0x3008 },
			      };
	struct profile profile = { .last_trail = 100 };
	struct trail_book *book;

	begin_anew();
	book = open_book();
	add_site(&profile, 5, 50, walked, 1);
	add_site(&profile, 6, 50, walked, 1);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++)
			write_trail(++ring.drawn, 5, stacks[i], 4);
		write_trail(++ring.drawn, 5, stacks[0], 3);
		write_trail(++ring.drawn, 6, stacks[0], 4);
	}
	trail_book_finish(book, true);
	trail_book_join(book, &profile, 0);
	EXPECT(profile.nr_sites, 8);
	EXPECT(profile.sites[0].samples, 40);
	EXPECT(profile.sites[1].samples, 48);
	for (int i = 0; i < 6; i++) {
		const struct profile_site *site = &profile.sites[2 + i];

		EXPECT(site->samples, 2);
		EXPECT(site->stack, i == 5 ? 6 : 5);
		expect_frames(&profile, site, stacks[i < 4 ? i : 0] + 1, i == 4 ? 2 : 3);
		EXPECT(site->values[VALUE_ALLOC_SPACE], 1000 * (2 * i + 8));
	}
	profile_free(&profile);
	trail_book_close(book);
}

/* Each frame has a part in a stack's hash, and nothing else. */
static void hash_a_stack(void)
{
	struct trail_book *book;

	begin_anew();
	book = open_book();
	draw();
	nr_mixed = 0;
	trail_book_finish(book, true);
	EXPECT(nr_mixed, 4);
	for (int i = 0; i < 4; i++)
		EXPECT(mixed[i], plain[i]);
	trail_book_close(book);
}

static void test_all(void)
{
	refuse_books();
	join_a_site();
	tell_apart();
	has_one_hash = true;
	join_a_site();
	tell_apart();
	has_one_hash = false;
	hash_a_stack();
	take_off_no_more();
	join_what_fits();
	lose_in_the_book();
	keep_up();
	round_those_alive();
}
