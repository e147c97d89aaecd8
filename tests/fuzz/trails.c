/* SPDX-License-Identifier: MIT */
/*
 * A ring of trails, whatever is in it, read while it changes, and joined to a profile.  The input
 * is a profile, a NUL, and what the readings of the ring give.  Frames are taken from the trail's
 * copy: elfutils is not tested here.
 */
#include "readers.h"

#include <string.h>
#include <unistd.h>

#include "../../tools/slub/profile_trail.h"

#define SLOTS (1ul << 40)
#define RING (1l << 30)
#define FRAMES 8

static struct input readings;

static void give_ring(struct trail_ring *ring)
{
	memcpy(ring->magic, TRAIL_MAGIC, sizeof(ring->magic));
	ring->version = TRAIL_VERSION;
	ring->slot_bytes = TRAIL_SLOT_BYTES;
	ring->nr_slots = take_byte(&readings) + 1u;
	ring->slots = SLOTS;
	ring->drawn = take_number(&readings, 2) % (2 * ring->nr_slots);
}

static void give_trail(struct profile_trail *trail)
{
	trail->weight = take_number(&readings, 2);
	trail->bytes = take_number(&readings, 2);
	trail->site_stack = take_below(&readings, 4);
	trail->sp = take_below(&readings, TRAIL_REGISTERS + 1);
	trail->copy_bytes = take_below(&readings, 16) ? take_below(&readings, 80) :
							take_number(&readings, 3);
}

/* What is asked for, or now and then any bytes; or nothing, as of a process that has ended. */
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at)
{
	uint64_t state = ((uint64_t)at - SLOTS) / TRAIL_SLOT_BYTES * 2;
	unsigned int how = take_byte(&readings);

	(void)fd;
	memset(to, 0, bytes);
	for (size_t i = 0; i < bytes && how % 16 == 1; i++)
		((unsigned char *)to)[i] = take_byte(&readings);
	if (how % 16 == 1)
		return (ssize_t)bytes;
	if (at == RING)
		give_ring(to);
	else if (bytes == sizeof(struct profile_trail))
		give_trail(to);
	else
		*(unsigned char *)to = take_byte(&readings);
	/* One in 16 is written over, or not ready. */
	if (at != RING && (uint64_t)at % TRAIL_SLOT_BYTES == 0)
		memcpy(to, &(uint64_t){ state + how % 16 / 15 }, sizeof(state));
	return how ? (ssize_t)bytes : 0;
}

/* Files of the target are written in this way too. */
ssize_t __real_pwrite(int fd, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	return fd < 0 ? (ssize_t)bytes : __real_pwrite(fd, from, bytes, at);
}

struct unwinder *__wrap_unwinder_open(const struct process *process);
struct unwinder *__wrap_unwinder_open(const struct process *process)
{
	(void)process;
	return (struct unwinder *)&readings;
}

void __wrap_unwinder_close(struct unwinder *unwinder);
void __wrap_unwinder_close(struct unwinder *unwinder)
{
	(void)unwinder;
}

size_t __wrap_unwind(struct unwinder *unwinder, const struct profile_trail *trail,
		     uint64_t *frames, size_t frames_max, bool *is_whole);
size_t __wrap_unwind(struct unwinder *unwinder, const struct profile_trail *trail,
		     uint64_t *frames, size_t frames_max, bool *is_whole)
{
	size_t nr = trail->copy_bytes / sizeof(*frames);

	(void)unwinder;
	expect(trail->copy_bytes <= TRAIL_COPY_MAX && trail->sp < TRAIL_REGISTERS);
	nr = nr < FRAMES ? nr : FRAMES;
	expect(nr <= frames_max);
	memcpy(frames, trail->copy, nr * sizeof(*frames));
	for (size_t i = 0; i < nr; i++)
		frames[i] = frames[i] % 8 + 1;	/* so some are the profile's */
	*is_whole = trail->copy_bytes % 2;
	return nr;
}

static void join(void *arg)
{
	struct profile profile = { .pid = 0 };
	uint64_t first = take_below(&readings, 16), last = take_number(&readings, 2);
	struct trail_book *book = trail_book_open(NULL, -1, RING);

	if (book) {
		for (int i = 0; i < 8; i++)
			trail_book_work(book);
		trail_book_finish(book, false);
		trail_book_finish(book, true);
	}
	if (!profile_read(&profile, arg, INPUT_FILE, 60) && book) {
		profile.last_trail += last;
		trail_book_join(book, &profile, first);
		for (size_t i = 0; i < profile.nr_sites; i++)
			expect(profile.sites[i].first + profile.sites[i].nr_frames <=
			       profile.nr_frames);
	}
	profile_free(&profile);
	if (book)
		trail_book_close(book);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t profile = strnlen((const char *)data, size);

	if (profile == size)
		return -1;
	readings = (struct input){ data + profile + 1, size - profile - 1 };
	reader_call(join, (void *)(uintptr_t)reader_file(data, profile));
	return 0;
}
