/* SPDX-License-Identifier: MIT */
/*
 * Long lists, walked from many places at once.
 *
 * A list in random order is the worst there is: each step misses the processor's cache or, where
 * the edges of an object were not kept, takes a system call, and no two can be made at once.  So
 * before anything is known of a list, it is walked from the first object of each block, a station,
 * up to the next one or to a fork in the way.  From each of these another walker has begun: so many
 * that their misses overlap, and that one system call reads what a thousand of them need.
 *
 * To reach a station is to reach its way, and not to look at each object of it again.  An object
 * that leads nowhere but on, and back to where the walker came from, is walked: `pending`, and not
 * `marked`.  Where something else leads to it, it is marked and nothing more.  At the end the ways
 * of stations that were not reached are walked once more, and left again, up to an object that was
 * marked; what is walked then was reached.
 *
 *   CHAIN-1  a station leads to the end of its way (`ways`), and to another station (`chains`),
 *            whether it is reached or not; what is reached marks both (leak_mark.c);
 *   CHAIN-2  an object that is walked is on one way, and leads to no object but its neighbours
 *            there and the end;
 *   CHAIN-3  in another's way, whoever is reached reaches the rest of the way.
 *
 * It costs each object a second visit, and saves nothing where few lists are long; so it begins
 * where much is open once the pass is over.
 */
#include "leak.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define LANES 64
#define NOWHERE UINT32_MAX
/* A ring need not pass through a first object. */
#define STEPS_MAX 2048
/* ... nor one whose objects are read.  One end that is missing halves what is known of a list. */
#define READS_MAX 2048
#define OPEN_MIN (1u << 16)
#define OPEN_SHARE 8
#define SORT_BITS 8
/* One system call reads so many pieces, and so much; what lies nearer together is one piece. */
#define PIECES_MAX 1024
#define BATCH_BYTES (256u << 10)
#define GAP_BYTES 2048

struct walker {
	uint32_t object, before;
	uint32_t from;			/* number of the block */
};

struct walk {
	struct leaks *leaks;
	bool is_undo;			/* of what was not reached */
	/* Those of now, and in the place of those that are taken, those of the next turn. */
	struct walker *walkers;
	size_t nr, taken, kept, room;
	size_t next_block;		/* whose first object is to be the next walker */
	struct walker lanes[LANES];
	uint64_t first[LANES];
	unsigned int nr_edges[LANES];
	unsigned int steps[LANES];
	unsigned int nr_lanes;
};

static bool is_open(const struct leak_block *block, uint64_t object)
{
	return block->allocated & ~block->marked & leak_bit(object);
}

/* ---- where a way goes on ---- */

static int32_t cache_of(const struct leaks *leaks, uint64_t object)
{
	return leaks->slabs[leak_block_of(leaks, object)->slab].cache;
}

/* Of several targets those of the same cache: a list has nodes of one kind. */
static unsigned int keep_like(const struct leaks *leaks, uint64_t object, uint64_t *targets,
			      unsigned int nr)
{
	int32_t cache = cache_of(leaks, object);
	unsigned int kept = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (cache_of(leaks, targets[i]) == cache)
			targets[kept++] = targets[i];
	}
	return kept;
}

/* Not where it came from, and not itself. */
static unsigned int keep_onward(const struct walker *walker, uint64_t *targets, unsigned int nr)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (targets[i] != walker->object && targets[i] != walker->before)
			targets[kept++] = targets[i];
	}
	return kept;
}

/*
 * Of a list linked both ways the first object has two ways: the first one, as all others that
 * begin there.  False: there is none, or a fork.
 */
static bool choose(const struct leaks *leaks, const struct walker *walker, uint64_t *targets,
		   unsigned int nr, uint64_t *target)
{
	unsigned int most = walker->before == NOWHERE ? 2 : 1;

	if (nr > 1)
		nr = keep_like(leaks, walker->object, targets, nr);
	if (!nr || nr > most)
		return false;
	*target = targets[0];
	return true;
}

/* @walker ends, or goes on without what it comes by being walked; @end is not walked. */
static void way_end(const struct walk *walk, const struct walker *walker, uint64_t end)
{
	uint32_t *way = &walk->leaks->ways[walker->from];

	if (!walk->is_undo && !*way)
		*way = (uint32_t)(end + 1);
}

/* CHAIN-2.  False: somebody was here. */
static bool pass(const struct walk *walk, const struct walker *walker, bool is_plain)
{
	struct leak_block *block = leak_block_of(walk->leaks, walker->object);
	uint64_t bit = leak_bit(walker->object);

	if (walk->is_undo) {
		bool was_walked = block->pending & bit;

		block->pending &= ~bit;
		return was_walked;
	}
	if (walk->leaks->ways[walker->from])
		return true;
	if (!is_plain || block->pending & bit) {
		way_end(walk, walker, walker->object);
		return !(block->pending & bit);
	}
	block->pending |= bit;
	return true;
}

/* True: @walker goes on, from an object with @nr targets. */
static bool go(const struct walk *walk, struct walker *walker, uint64_t *targets, unsigned int nr)
{
	struct leaks *leaks = walk->leaks;
	uint64_t target;

	nr = keep_onward(walker, targets, nr);
	if (walker->before != NOWHERE && !pass(walk, walker, nr <= 1))
		return false;
	if (!choose(leaks, walker, targets, nr, &target)) {
		way_end(walk, walker, LEAK_WAY_OVER - 1);
		return false;
	}
	if (target % LEAK_BLOCK_OBJECTS == 0) {
		way_end(walk, walker, target);
		leaks->chains[walker->from] = (uint32_t)(target / LEAK_BLOCK_OBJECTS) + 1;
		return false;
	}
	walker->before = walker->object;
	walker->object = (uint32_t)target;
	return true;
}

/* CHAIN-3: @walker takes back a way, and is at an object that was reached from elsewhere. */
static void rest_keep(const struct walk *walk, const struct walker *walker)
{
	struct leaks *leaks = walk->leaks;
	struct leak_block *block = leak_block_of(leaks, walker->object);
	uint32_t way = leaks->ways[walker->from];

	if (block->pending & leak_bit(walker->object)) {
		block->pending &= ~leak_bit(walker->object);
		leak_mark_follow(leaks, walker->object);
	}
	if (way != LEAK_WAY_OVER)
		leak_mark_object(leaks, way - 1);
}

/* Is there nothing to do for @walker where it is now? */
static bool is_at_end(const struct walk *walk, const struct walker *walker)
{
	const struct leaks *leaks = walk->leaks;
	const struct leak_block *block = leak_block_of(leaks, walker->object);

	/* A ring may end where it begins. */
	if (walk->is_undo && walker->before != NOWHERE &&
	    walker->object + 1 == leaks->ways[walker->from])
		return true;
	if (is_open(block, walker->object))
		return false;
	if (!walk->is_undo)
		way_end(walk, walker, walker->object);
	else if (walker->before != NOWHERE)
		rest_keep(walk, walker);
	return true;
}

/* ---- by edges ---- */

static bool next_walker(struct walk *walk, struct walker *walker)
{
	const struct leaks *leaks = walk->leaks;

	if (walk->taken < walk->nr) {
		*walker = walk->walkers[walk->taken++];
		return true;
	}
	while (walk->next_block < leaks->nr_blocks) {
		size_t i = walk->next_block++;

		if (!is_open(&leaks->blocks[i], 0) ||
		    leaks->slabs[leaks->blocks[i].slab].cache < 0 ||
		    (walk->is_undo && !leaks->ways[i]))
			continue;
		*walker = (struct walker){ (uint32_t)(i * LEAK_BLOCK_OBJECTS), NOWHERE,
					   (uint32_t)i };
		return true;
	}
	return false;
}

static void lane_add(struct walk *walk, struct walker walker)
{
	__builtin_prefetch(leak_block_of(walk->leaks, walker.object));
	walk->steps[walk->nr_lanes] = 0;
	walk->lanes[walk->nr_lanes++] = walker;
}

/* It waits for a read, or ends where there is no room. */
static void keep(struct walk *walk, struct walker walker)
{
	size_t end = walk->taken < walk->nr ? walk->taken : walk->room;

	if (walk->kept < end)
		walk->walkers[walk->kept++] = walker;
	else
		way_end(walk, &walker, walker.object);
}

static void lane_end(struct walk *walk, unsigned int i)
{
	unsigned int last = --walk->nr_lanes;

	walk->lanes[i] = walk->lanes[last];
	walk->first[i] = walk->first[last];
	walk->nr_edges[i] = walk->nr_edges[last];
	walk->steps[i] = walk->steps[last];
}

/* Where the edges of all lanes lie. */
static void lanes_find(struct walk *walk)
{
	const struct leaks *leaks = walk->leaks;

	for (unsigned int i = 0; i < walk->nr_lanes;) {
		struct walker walker = walk->lanes[i];
		const struct leak_block *block = leak_block_of(leaks, walker.object);
		uint64_t bit = leak_bit(walker.object);

		if (is_at_end(walk, &walker)) {
			lane_end(walk, i);
			continue;
		}
		if (walk->steps[i]++ == STEPS_MAX) {
			way_end(walk, &walker, walker.object);
			lane_end(walk, i);
			continue;
		}
		if (block->unknown & bit) {
			keep(walk, walker);
			lane_end(walk, i);
			continue;
		}
		walk->first[i] = leak_edges_of(block, bit, &walk->nr_edges[i]);
		__builtin_prefetch(&leaks->edges[walk->first[i] * leaks->width / 64]);
		i++;
	}
}

static void lanes_step(struct walk *walk)
{
	struct leaks *leaks = walk->leaks;

	for (unsigned int i = walk->nr_lanes; i--;) {
		struct walker *walker = &walk->lanes[i];
		uint64_t targets[LEAK_EDGES_MAX];

		for (unsigned int k = 0; k < walk->nr_edges[i]; k++)
			targets[k] = leak_edge_get(leaks, walk->first[i] + k);
		if (go(walk, walker, targets, walk->nr_edges[i]))
			__builtin_prefetch(leak_block_of(leaks, walker->object));
		else
			lane_end(walk, i);
	}
}

/* All walkers, until each of them is at its end or is kept. */
static void walk_lanes(struct walk *walk)
{
	struct walker walker;

	for (;;) {
		while (walk->nr_lanes < LANES && next_walker(walk, &walker))
			lane_add(walk, walker);
		if (!walk->nr_lanes)
			return;
		lanes_find(walk);
		lanes_step(walk);
	}
}

/* ---- by reads ---- */

static void sort_few(struct walker *walkers, size_t nr)
{
	for (size_t i = 1; i < nr; i++) {
		struct walker walker = walkers[i];
		size_t k = i;

		for (; k && walkers[k - 1].object > walker.object; k--)
			walkers[k] = walkers[k - 1];
		walkers[k] = walker;
	}
}

/* In place, by the bits from @shift on downwards. */
static void sort(struct walker *walkers, size_t nr, int shift)
{
	size_t next[1u << SORT_BITS], end[1u << SORT_BITS] = { 0 }, at = 0;
	const unsigned int mask = (1u << SORT_BITS) - 1;

	if (nr <= 32 || shift < 0) {
		sort_few(walkers, nr);
		return;
	}
	for (size_t i = 0; i < nr; i++)
		end[walkers[i].object >> shift & mask]++;
	for (size_t i = 0; i <= mask; i++) {
		next[i] = at;
		at += end[i];
		end[i] = at;
	}
	/* Each goes to its place, and what was there goes on to its own. */
	for (size_t i = 0; i <= mask; i++) {
		while (next[i] < end[i]) {
			struct walker walker = walkers[next[i]];
			size_t digit = walker.object >> shift & mask;

			for (; digit != i; digit = walker.object >> shift & mask) {
				struct walker other = walkers[next[digit]];

				walkers[next[digit]++] = walker;
				walker = other;
			}
			walkers[next[i]++] = walker;
		}
	}
	for (size_t i = 0; i <= mask; i++)
		sort(walkers + (i ? end[i - 1] : 0), end[i] - (i ? end[i - 1] : 0),
		     shift - SORT_BITS);
}

/* The walker's next step by a copy of its object. */
static void step_by_words(struct walk *walk, struct walker walker, const uint64_t *words, size_t nr)
{
	struct leaks *leaks = walk->leaks;
	uint64_t targets[LEAK_EDGES_MAX + 1];
	unsigned int found = leak_targets(leaks, walker.object, words, nr, targets);

	if (found > LEAK_EDGES_MAX)
		way_end(walk, &walker, walker.object);
	else if (go(walk, &walker, targets, found))
		keep(walk, walker);
}

/* Pieces for the walkers from number walk->taken on; how many. */
static size_t find_pieces(const struct walk *walk, struct iovec *pieces)
{
	const struct leaks *leaks = walk->leaks;
	uint64_t end = 0, all = 0;
	size_t nr = 0;

	for (size_t i = walk->taken; i < walk->nr; i++) {
		uint64_t bytes, at = leak_object_at(leaks, walk->walkers[i].object, &bytes);

		if (all && (all + bytes + GAP_BYTES > BATCH_BYTES))
			break;
		if (nr && at < end + GAP_BYTES) {
			pieces[nr - 1].iov_len += at + bytes - end;
			all += at + bytes - end;
		} else if (nr < PIECES_MAX) {
			pieces[nr++] = (struct iovec){ (void *)(uintptr_t)at, bytes };
			all += bytes;
		} else {
			break;
		}
		end = at + bytes;
	}
	return nr;
}

/* Those that one system call serves, and those of the piece that it could not read. */
static void read_some(struct walk *walk)
{
	static struct iovec pieces[PIECES_MAX];
	struct leaks *leaks = walk->leaks;
	size_t nr = find_pieces(walk, pieces), read, i = 0;
	const char *copy = leaks->buffer;

	read = pieces[0].iov_len > BATCH_BYTES ? 0 : leak_copy_pieces(leaks, pieces, nr);
	while (walk->taken < walk->nr) {
		struct walker walker = walk->walkers[walk->taken];
		uint64_t bytes, at = leak_object_at(leaks, walker.object, &bytes);

		while (i <= read && i < nr &&
		       at - (uintptr_t)pieces[i].iov_base >= pieces[i].iov_len)
			copy += pieces[i++].iov_len;
		if (i > read || i == nr)
			return;
		walk->taken++;
		if (i < read)
			step_by_words(walk, walker, (const uint64_t *)
				      (copy + (at - (uintptr_t)pieces[i].iov_base)), bytes / 8);
		else
			way_end(walk, &walker, walker.object);
	}
}

static void walk_reads(struct walk *walk)
{
	while (walk->taken < walk->nr && !walk->leaks->error)
		read_some(walk);
}

/* What was kept is what is to be walked next. */
static void turn(struct walk *walk)
{
	walk->nr = walk->kept;
	walk->taken = walk->kept = 0;
}

/* ---- all ---- */

static bool is_worth_it(const struct leaks *leaks)
{
	uint64_t open = 0, all = 0;

	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		const struct leak_block *block = &leaks->blocks[i];

		all += (uint64_t)__builtin_popcountll(block->allocated);
		open += (uint64_t)__builtin_popcountll(block->allocated & ~block->marked);
	}
	return open >= OPEN_MIN && open >= all / OPEN_SHARE &&
	       leaks->nr_blocks < UINT32_MAX / LEAK_BLOCK_OBJECTS;
}

static void walk_all(struct walk *walk)
{
	struct leaks *leaks = walk->leaks;

	walk->room = leaks->nr_blocks;
	walk->walkers = leak_reserve(walk->room * sizeof(*walk->walkers));
	walk_lanes(walk);
	turn(walk);
	for (int i = 0; i < READS_MAX && walk->nr && !leaks->error; i++) {
		sort(walk->walkers, walk->nr, 32 - SORT_BITS);
		walk_reads(walk);
		turn(walk);
		walk_lanes(walk);
		turn(walk);
	}
	for (size_t i = 0; i < walk->nr; i++)
		way_end(walk, &walk->walkers[i], walk->walkers[i].object);
	munmap(walk->walkers, walk->room * sizeof(*walk->walkers));
}

void leak_chains_walk(struct leaks *leaks)
{
	struct walk walk = { .leaks = leaks };

	if (!is_worth_it(leaks))
		return;
	leaks->chains = leak_reserve(leaks->nr_blocks * sizeof(*leaks->chains));
	leaks->ways = leak_reserve(leaks->nr_blocks * sizeof(*leaks->ways));
	walk_all(&walk);
}

void leak_chains_settle(struct leaks *leaks)
{
	struct walk walk = { .leaks = leaks, .is_undo = true };

	if (!leaks->chains)
		return;
	walk_all(&walk);
	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		struct leak_block *block = &leaks->blocks[i];

		block->marked |= block->pending & block->allocated;
		/* Those in the queue are to be read yet. */
		if (!leaks->slabs[block->slab].next)
			block->pending = 0;
	}
}

void leak_chains_free(struct leaks *leaks)
{
	if (leaks->chains) {
		munmap(leaks->chains, leaks->nr_blocks * sizeof(*leaks->chains));
		munmap(leaks->ways, leaks->nr_blocks * sizeof(*leaks->ways));
	}
	leaks->chains = leaks->ways = NULL;
}
