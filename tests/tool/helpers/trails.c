/* SPDX-License-Identifier: MIT */
/*
 * profile_trail.c and profile_join.c: a ring of trails in this process is read as that of another
 * one, and what was unwound is put in place of what the process walked.  How a trail is unwound
 * stands in its copy.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile.h"
#include "profile_trail.h"
#include "slub.h"

#define NR_SLOTS 48
#define WHOLE	 1	/* trail.flags */

static struct trail_ring ring;
static _Alignas(16) char slots[NR_SLOTS][TRAIL_SLOT_BYTES];
static int memory, failures, nr_unwound;
static int nr_open;
static bool has_unwinder = true;

static void expect_at(int line, const char *what, uint64_t is, uint64_t expected)
{
	if (is == expected)
		return;
	printf("line %d: %s is %llu, not %llu\n", line, what, (unsigned long long)is,
	       (unsigned long long)expected);
	failures++;
}

#define EXPECT(is, expected) expect_at(__LINE__, #is, is, expected)

/* ---- in place of elfutils ---- */

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
	return nr;
}

/* ---- the process ---- */

static struct profile_trail *slot_of(uint64_t number)
{
	return (struct profile_trail *)slots[number % ring.nr_slots];
}

static void begin(void)
{
	memset(slots, 0, sizeof(slots));
	ring = (struct trail_ring){
		.version = TRAIL_VERSION, .is_on = 1, .nr_slots = NR_SLOTS,
		.slot_bytes = TRAIL_SLOT_BYTES, .slots = (uintptr_t)slots,
	};
	memcpy(ring.magic, TRAIL_MAGIC, sizeof(ring.magic));
	nr_unwound = 0;
}

static void write_trail(uint64_t number, uint32_t stack, const uint64_t *frames, size_t nr)
{
	struct profile_trail *trail = slot_of(number);

	*trail = (struct profile_trail){
		.state = 2 * number, .weight = 256 * number, .bytes = 1000 * number,
		.site_stack = stack, .flags = WHOLE, .sp = 7,
		.copy_bytes = nr * sizeof(*frames),
	};
	memcpy(trail->copy, frames, nr * sizeof(*frames));
}

static const uint64_t plain[] = { 0x10, 0x1000, 0x2000, 0x3000 };

static void draw(void)
{
	write_trail(++ring.drawn, 5, plain, 4);
}

static bool open_reader(struct trail_reader *reader)
{
	return trail_reader_open(reader, memory, (uintptr_t)&ring);
}

/* ---- the ring ---- */

static uint64_t taken(struct trail_reader *reader, bool is_last)
{
	const struct profile_trail *trail = trail_take(reader, is_last);

	return trail ? trail->state / 2 : 0;
}

static void refuse_rings(void)
{
	struct trail_reader reader;

	begin();
	EXPECT(trail_reader_open(&reader, memory, 0), false);
	EXPECT(trail_reader_open(&reader, memory, 16), false);
	EXPECT(reader.is_gone, true);
#define WITH(member, value, is_good) do { \
		begin(); \
		ring.member = value; \
		EXPECT(open_reader(&reader), is_good); \
		EXPECT(reader.is_gone, false); \
		trail_reader_close(&reader); \
	} while (0)
	WITH(version, TRAIL_VERSION + 1, false);
	WITH(slots, 0, false);
	WITH(nr_slots, 0, false);
	WITH(nr_slots, 1, true);
	WITH(nr_slots, 65536, true);
	WITH(nr_slots, 65537, false);
	WITH(slot_bytes, TRAIL_SLOT_BYTES - 1, false);
	WITH(slot_bytes, TRAIL_SLOT_BYTES + 1, false);
	begin();
	ring.magic[7] ^= 1;
	EXPECT(open_reader(&reader), false);
	EXPECT(reader.is_gone, true);
}

static void take_each_once(void)
{
	struct trail_reader reader;

	begin();
	draw();
	draw();
	EXPECT(open_reader(&reader), true);
	/* Those before it are not its own. */
	EXPECT(taken(&reader, true), 0);
	EXPECT(ring.read, 2);
	for (int i = 0; i < 3; i++)
		draw();
	for (uint64_t n = 3; n <= 5; n++) {
		const struct profile_trail *trail = trail_take(&reader, false);

		EXPECT(trail->state, 2 * n);
		EXPECT(trail->bytes, 1000 * n);
		EXPECT(trail->copy_bytes, sizeof(plain));
		EXPECT(memcmp(trail->copy, plain, sizeof(plain)), 0);
		EXPECT(ring.read, n);
	}
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.nr_taken, 3);
	EXPECT(reader.nr_lost, 0);
	EXPECT(reader.is_gone, false);
	/* Nothing to say: nothing is written. */
	ring.read = 5;
	EXPECT(taken(&reader, false), 0);
	ring.magic[0] ^= 1;
	draw();
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.is_gone, true);
	EXPECT(ring.read, 5);
	trail_reader_close(&reader);
	EXPECT((uintptr_t)reader.trail, 0);
}

/* A process that cannot be told how far its reader is has gone. */
static void tell_nobody(void)
{
	struct trail_reader reader;
	int fd = open("/proc/self/mem", O_RDONLY);

	begin();
	EXPECT(trail_reader_open(&reader, fd, (uintptr_t)&ring), true);
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.is_gone, false);
	draw();
	EXPECT(taken(&reader, false), 1);
	EXPECT(reader.is_gone, true);
	EXPECT(ring.read, 0);
	trail_reader_close(&reader);
	close(fd);
}

static void lose_what_is_written_over(void)
{
	struct trail_reader reader;

	for (uint64_t more = NR_SLOTS - 1; more <= NR_SLOTS + 5; more++) {
		uint64_t lost = more > NR_SLOTS ? more - NR_SLOTS : 0;

		begin();
		open_reader(&reader);
		for (uint64_t i = 0; i < more; i++)
			draw();
		EXPECT(taken(&reader, false), lost + 1);
		EXPECT(reader.nr_lost, lost);
		EXPECT(taken(&reader, false), lost + 2);
		trail_reader_close(&reader);
	}
	/* Its slot has a later one already. */
	begin();
	open_reader(&reader);
	draw();
	draw();
	slot_of(1)->state = 2 * (1 + NR_SLOTS);
	EXPECT(taken(&reader, false), 2);
	EXPECT(reader.nr_lost, 1);
	/* Or a later one is being written. */
	draw();
	draw();
	slot_of(3)->state = 2 * 3 + 2;
	EXPECT(taken(&reader, false), 4);
	EXPECT(reader.nr_lost, 2);
	trail_reader_close(&reader);
}

static void wait_for_what_is_not_written(void)
{
	struct trail_reader reader;

	begin();
	open_reader(&reader);
	for (int i = 0; i < 4; i++)
		draw();
	slot_of(1)->state = 3;		/* it is being written */
	slot_of(3)->state = 0;		/* it was drawn */
	EXPECT(taken(&reader, false), 2);
	EXPECT(taken(&reader, false), 4);
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.nr_early, 2);
	EXPECT(reader.nr_lost, 0);
	slot_of(3)->state = 6;
	EXPECT(taken(&reader, false), 3);
	EXPECT(reader.nr_early, 1);
	EXPECT(taken(&reader, true), 0);
	EXPECT(reader.nr_early, 0);
	EXPECT(reader.nr_lost, 1);
	/* At the end nothing is waited for. */
	draw();
	draw();
	slot_of(5)->state = 1;
	EXPECT(taken(&reader, true), 6);
	EXPECT(reader.nr_early, 0);
	EXPECT(reader.nr_lost, 2);
	EXPECT(reader.nr_taken, 4);
	trail_reader_close(&reader);
	/* So many are waited for. */
	begin();
	open_reader(&reader);
	for (int i = 0; i < TRAILS_EARLY_MAX + 3; i++) {
		draw();
		slot_of(ring.drawn)->state = 1;
	}
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.nr_early, TRAILS_EARLY_MAX);
	EXPECT(reader.nr_lost, 3);
	slot_of(1)->state = 2;
	slot_of(TRAILS_EARLY_MAX)->state = 2 * TRAILS_EARLY_MAX;
	EXPECT(taken(&reader, false), 1);
	EXPECT(taken(&reader, false), TRAILS_EARLY_MAX);
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.nr_early, TRAILS_EARLY_MAX - 2);
	/* One that was early is late now. */
	slot_of(2)->state = 2 * (2 + NR_SLOTS);
	EXPECT(taken(&reader, false), 0);
	EXPECT(reader.nr_early, TRAILS_EARLY_MAX - 3);
	EXPECT(reader.nr_lost, 4);
	trail_reader_close(&reader);
}

static void refuse_trails(void)
{
	struct trail_reader reader;

	begin();
	open_reader(&reader);
	for (int i = 0; i < 5; i++)
		draw();
	slot_of(1)->copy_bytes = TRAIL_COPY_MAX + 1;
	slot_of(2)->copy_bytes = TRAIL_COPY_MAX;
	slot_of(3)->sp = TRAIL_REGISTERS;
	slot_of(4)->sp = TRAIL_REGISTERS - 1;
	EXPECT(taken(&reader, false), 2);
	EXPECT(taken(&reader, false), 4);
	EXPECT(taken(&reader, false), 5);
	EXPECT(reader.nr_lost, 2);
	trail_reader_close(&reader);
}

/* ---- the profile ---- */

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
	begin();
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

	begin();
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

	begin();
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
	begin();
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

	begin();
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
	begin();
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

	begin();
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
	begin();
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

int main(void)
{
	memory = open("/proc/self/mem", O_RDWR);
	if (memory < 0) {
		puts("the test needs /proc");
		return 77;
	}
	refuse_rings();
	take_each_once();
	tell_nobody();
	lose_what_is_written_over();
	wait_for_what_is_not_written();
	refuse_trails();
	refuse_books();
	join_a_site();
	take_off_no_more();
	join_what_fits();
	lose_in_the_book();
	close(memory);
	return failures != 0;
}
