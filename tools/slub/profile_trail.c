/* SPDX-License-Identifier: MIT */
/*
 * Reads the ring of trails in another process, which goes on writing: a trail is taken if its
 * state is the same before and after (TRAIL-1).
 */
#include "profile_trail.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than any library has. */
#define SLOTS_MAX 65536

/* A process that has ended, or runs another program, gives nothing. */
static bool read_at(const struct trail_reader *reader, uint64_t address, void *to, size_t bytes)
{
	return pread(reader->memory, to, bytes, (off_t)address) == (ssize_t)bytes;
}

static bool read_ring(struct trail_reader *reader)
{
	struct trail_ring *ring = &reader->ring;

	reader->is_gone = !read_at(reader, reader->address, ring, sizeof(*ring)) ||
			  memcmp(ring->magic, TRAIL_MAGIC, sizeof(ring->magic));
	return !reader->is_gone && ring->version == TRAIL_VERSION && ring->slots &&
	       ring->nr_slots && ring->nr_slots <= SLOTS_MAX &&
	       ring->slot_bytes == TRAIL_SLOT_BYTES;
}

/* So the process knows that there is a reader, which may be far behind all the time. */
static void say_how_far(struct trail_reader *reader)
{
	uint64_t read = reader->next - 1;

	if (read == reader->ring.read)
		return;
	if (pwrite(reader->memory, &read, sizeof(read),
		   (off_t)(reader->address + offsetof(struct trail_ring, read))) !=
	    (ssize_t)sizeof(read))
		reader->is_gone = true;
}

bool trail_reader_open(struct trail_reader *reader, int memory, uint64_t address)
{
	*reader = (struct trail_reader){ .memory = memory, .address = address };
	if (!address || !read_ring(reader))
		return false;
	reader->next = reader->ring.drawn + 1;
	reader->trail = malloc(TRAIL_SLOT_BYTES);
	return reader->trail;
}

void trail_reader_close(struct trail_reader *reader)
{
	free(reader->trail);
	reader->trail = NULL;
}

enum look { LOOK_TAKEN, LOOK_EARLY, LOOK_LATE };

static enum look look(struct trail_reader *reader, uint64_t number)
{
	struct profile_trail *trail = reader->trail;
	uint64_t whole = 2 * number, state;
	uint64_t slot = reader->ring.slots + number % reader->ring.nr_slots * TRAIL_SLOT_BYTES;

	if (!read_at(reader, slot, trail, sizeof(*trail)) || trail->state > whole + 1)
		return LOOK_LATE;
	if (trail->state != whole)
		return LOOK_EARLY;
	if (trail->copy_bytes > TRAIL_COPY_MAX || trail->sp >= TRAIL_REGISTERS ||
	    !read_at(reader, slot + sizeof(*trail), trail->copy, trail->copy_bytes) ||
	    !read_at(reader, slot, &state, sizeof(state)) || state != whole)
		return LOOK_LATE;
	return LOOK_TAKEN;
}

/* What was written over. */
static void skip_lost(struct trail_reader *reader)
{
	const struct trail_ring *ring = &reader->ring;

	if (ring->drawn - reader->next < ring->nr_slots)
		return;
	reader->nr_lost += ring->drawn - ring->nr_slots + 1 - reader->next;
	reader->next = ring->drawn - ring->nr_slots + 1;
}

/* The threads that drew these numbers had not come so far, for they did not run. */
static bool take_early(struct trail_reader *reader, bool is_last)
{
	for (size_t i = 0; i < reader->nr_early;) {
		enum look found = look(reader, reader->early[i]);

		if (found == LOOK_EARLY && !is_last) {
			i++;
			continue;
		}
		reader->early[i] = reader->early[--reader->nr_early];
		if (found == LOOK_TAKEN)
			return true;
		reader->nr_lost++;
	}
	return false;
}

static bool take_next(struct trail_reader *reader, bool is_last)
{
	for (uint64_t end = reader->ring.drawn; reader->next <= end;) {
		enum look found;

		skip_lost(reader);
		found = look(reader, reader->next++);
		if (found == LOOK_TAKEN)
			return true;
		if (found == LOOK_EARLY && !is_last && reader->nr_early < TRAILS_EARLY_MAX)
			reader->early[reader->nr_early++] = reader->next - 1;
		else
			reader->nr_lost++;
	}
	return false;
}

const struct profile_trail *trail_take(struct trail_reader *reader, bool is_last)
{
	bool is_taken;

	if (!read_ring(reader))
		return NULL;
	is_taken = take_early(reader, is_last) || take_next(reader, is_last);
	say_how_far(reader);
	if (!is_taken)
		return NULL;
	reader->nr_taken++;
	return reader->trail;
}
