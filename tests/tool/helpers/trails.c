/* SPDX-License-Identifier: MIT */
/* profile_trail.c: which trails of a ring are taken, waited for, and lost. */
#include "trails.h"

static bool open_reader(struct trail_reader *reader)
{
	return trail_reader_open(reader, memory, (uintptr_t)&ring);
}

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

static void test_all(void)
{
	refuse_rings();
	take_each_once();
	tell_nobody();
	lose_what_is_written_over();
	wait_for_what_is_not_written();
	refuse_trails();
}
