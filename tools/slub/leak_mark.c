/* SPDX-License-Identifier: MIT */
/*
 * One pass over the heap marks what the roots lead to.
 *
 * The heap is read once, from its lowest address up.  What an object points to is marked at once
 * where the object is marked by then; else its edges are kept, up to three, in as few bits as
 * numbers of objects need, for a list in random order leads from anywhere to anywhere and a system
 * call for each step would take the time.  Where there is no room for edges, and for objects with
 * more of them, memory is read again when they are reached, all that is pending of a slab at once.
 */
#include "leak.h"
#include "progress.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#define STACK_MAX (1u << 19)

/* ---- edges, packed ---- */

static void edge_put(struct leaks *leaks, uint64_t number, uint64_t target)
{
	uint64_t bit = number * leaks->width;
	uint64_t *word = &leaks->edges[bit / 64];

	bit %= 64;
	word[0] |= target << bit;
	if (bit + leaks->width > 64)
		word[1] |= target >> (64 - bit);
}

/* ---- marks ---- */

static void pend(struct leaks *leaks, uint64_t object)
{
	struct leak_block *block = leak_block_of(leaks, object);
	struct leak_slab *slab = &leaks->slabs[block->slab];

	block->pending |= leak_bit(object);
	if (slab->next)
		return;
	slab->next = LEAK_LAST;
	if (leaks->queue_last)
		leaks->slabs[leaks->queue_last - 1].next = block->slab + 1;
	else
		leaks->queue_first = block->slab + 1;
	leaks->queue_last = block->slab + 1;
}

static inline bool is_open(const struct leaks *leaks, uint64_t object)
{
	const struct leak_block *block = leak_block_of(leaks, object);

	return block->allocated & ~block->marked & leak_bit(object);
}

void leak_mark_follow(struct leaks *leaks, uint64_t object)
{
	if (leaks->nr_stack < STACK_MAX)
		leaks->stack[leaks->nr_stack++] = object;
	else
		pend(leaks, object);
}

void leak_mark_object(struct leaks *leaks, uint64_t object)
{
	struct leak_block *block = leak_block_of(leaks, object);

	if (!is_open(leaks, object))
		return;
	block->marked |= leak_bit(object);
	if (leaks->is_counting) {
		uint64_t bytes;

		leak_object_at(leaks, object, &bytes);
		leaks->reached++;
		leaks->reached_bytes += bytes;
	}
	/* Others the pass comes to yet, or were walked: leak_chain.c. */
	if (object < leaks->swept && !(block->pending & leak_bit(object)))
		leak_mark_follow(leaks, object);
}

/* The next object that @word may lead to, in one of its forms; LEAK_NONE: none of these. */
static inline uint64_t seen_as(const struct leaks *leaks, uint64_t word, unsigned int view)
{
	const struct leak_view *v = &leaks->options.views[view];

	return leak_object_in(leaks, (word & v->mask) >> v->right << v->left);
}

void leak_mark_words(struct leaks *leaks, const uint64_t *words, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		for (unsigned int view = 0; view < leaks->options.nr_views; view++) {
			uint64_t object = seen_as(leaks, words[i], view);

			if (object != LEAK_NONE)
				leak_mark_object(leaks, object);
		}
	}
}

/* An address in an instruction lies at any byte. */
static void mark_code(struct leaks *leaks, const uint64_t *words, size_t nr)
{
	const char *bytes = (const char *)words;

	for (size_t at = 0; at + sizeof(uint64_t) <= nr * sizeof(uint64_t); at++) {
		uint64_t word;

		memcpy(&word, bytes + at, sizeof(word));
		leak_mark_words(leaks, &word, 1);
	}
}

/* A stretch of a list has been walked before: leak_chain.c. */
static void mark_chain(struct leaks *leaks, uint64_t object)
{
	size_t block = object / LEAK_BLOCK_OBJECTS;

	if (object % LEAK_BLOCK_OBJECTS)
		return;
	if (leaks->chains[block])
		leak_mark_object(leaks,
				 (uint64_t)(leaks->chains[block] - 1) * LEAK_BLOCK_OBJECTS);
	if (leaks->ways[block] && leaks->ways[block] != LEAK_WAY_OVER)
		leak_mark_object(leaks, leaks->ways[block] - 1);
}

#define LANES 64

/* Objects that were marked, side by side: what they lead to. */
struct lanes {
	uint64_t objects[LANES], first[LANES];
	unsigned int nr[LANES];
	uint64_t targets[LANES * LEAK_EDGES_MAX];
	unsigned int nr_lanes, nr_targets;
};

/* From one stage to the next, memory that all of them need is on its way. */
static void lanes_fill(struct leaks *leaks, struct lanes *lanes)
{
	lanes->nr_lanes = lanes->nr_targets = 0;
	while (lanes->nr_lanes < LANES && leaks->nr_stack) {
		uint64_t object = leaks->stack[--leaks->nr_stack];

		__builtin_prefetch(leak_block_of(leaks, object));
		lanes->objects[lanes->nr_lanes++] = object;
	}
	for (unsigned int i = 0; i < lanes->nr_lanes; i++) {
		uint64_t object = lanes->objects[i];
		const struct leak_block *block = leak_block_of(leaks, object);

		lanes->nr[i] = 0;
		if (block->unknown & leak_bit(object)) {
			pend(leaks, object);
			continue;
		}
		lanes->first[i] = leak_edges_of(block, leak_bit(object), &lanes->nr[i]);
		if (lanes->nr[i])
			__builtin_prefetch(&leaks->edges[lanes->first[i] * leaks->width / 64]);
	}
}

static void lanes_read(struct leaks *leaks, struct lanes *lanes)
{
	for (unsigned int i = 0; i < lanes->nr_lanes; i++) {
		for (unsigned int k = 0; k < lanes->nr[i]; k++) {
			uint64_t target = leak_edge_get(leaks, lanes->first[i] + k);

			__builtin_prefetch(leak_block_of(leaks, target));
			lanes->targets[lanes->nr_targets++] = target;
		}
	}
}

/* As long as more than @least wait: a long list is nothing to follow while the pass goes on. */
static void drain(struct leaks *leaks, size_t least)
{
	struct lanes lanes;

	while (leaks->nr_stack > least) {
		lanes_fill(leaks, &lanes);
		lanes_read(leaks, &lanes);
		for (unsigned int i = 0; i < lanes.nr_targets; i++)
			leak_mark_object(leaks, lanes.targets[i]);
		for (unsigned int i = 0; leaks->chains && i < lanes.nr_lanes; i++)
			mark_chain(leaks, lanes.objects[i]);
	}
}

/* ---- what was not kept ---- */

#define SPAN_BYTES_MAX (64u << 10)

/* Objects @first to @last of a slab by one read, for some of them are pending. */
static void read_span(struct leaks *leaks, uint64_t first, uint64_t last)
{
	uint64_t bytes, start = leak_object_at(leaks, first, &bytes);
	uint64_t end = leak_object_at(leaks, last, &bytes) + bytes;
	bool is_read = end - start <= LEAK_BUFFER_BYTES &&
		       leak_copy(leaks, start, leaks->buffer, end - start);

	for (uint64_t object = first; object <= last; object++) {
		struct leak_block *block = leak_block_of(leaks, object);
		uint64_t at;

		if (!(block->pending & block->marked & leak_bit(object)))
			continue;
		block->pending &= ~leak_bit(object);
		at = leak_object_at(leaks, object, &bytes);
		if (is_read)
			leak_mark_words(leaks, (const uint64_t *)(leaks->buffer + (at - start)),
					bytes / 8);
		else
			leak_read(leaks, (struct leak_range){ at, at + bytes, false },
				  leak_mark_words);
	}
}

/* Pending objects of a slab that lie near each other are read together. */
static void read_pending(struct leaks *leaks, struct leak_slab *slab)
{
	uint64_t nr = leak_slab_nr(leaks, slab), size;
	uint64_t base = (uint64_t)slab->block * LEAK_BLOCK_OBJECTS, first = LEAK_NONE, last = 0;

	leak_object_at(leaks, base, &size);
	for (uint64_t i = 0; i < nr; i++) {
		struct leak_block *block = &leaks->blocks[slab->block + i / LEAK_BLOCK_OBJECTS];

		if (!(block->pending & block->marked)) {
			i |= LEAK_BLOCK_OBJECTS - 1;
			continue;
		}
		if (!(block->pending & block->marked & leak_bit(i)))
			continue;
		if (first != LEAK_NONE && (i + 1 - (first - base)) * size > SPAN_BYTES_MAX) {
			read_span(leaks, first, last);
			first = LEAK_NONE;
		}
		if (first == LEAK_NONE)
			first = base + i;
		last = base + i;
	}
	if (first != LEAK_NONE)
		read_span(leaks, first, last);
}

void leak_mark_rest(struct leaks *leaks)
{
	drain(leaks, 0);
	while (leaks->queue_first && !leaks->error) {
		struct leak_slab *slab = &leaks->slabs[leaks->queue_first - 1];

		leaks->queue_first = slab->next == LEAK_LAST ? 0 : slab->next;
		if (!leaks->queue_first)
			leaks->queue_last = 0;
		slab->next = 0;
		read_pending(leaks, slab);
		drain(leaks, 0);
	}
}

/* ---- the pass ---- */

/* Is @target one of the @found ones? */
static bool is_among(const uint64_t *targets, unsigned int found, uint64_t target)
{
	for (unsigned int k = 0; k < found; k++) {
		if (targets[k] == target)
			return true;
	}
	return false;
}

/*
 * Objects that the @nr words point to, up to LEAK_EDGES_MAX + 1.  With @open only those that are
 * not marked: to look at each is a miss in the cache, which an object of few edges is spared.
 */
static unsigned int collect(const struct leaks *leaks, uint64_t self, const uint64_t *words,
			    size_t nr, bool open, uint64_t targets[LEAK_EDGES_MAX + 1])
{
	unsigned int found = 0;

	for (size_t i = 0; i < nr && found <= LEAK_EDGES_MAX; i++) {
		for (unsigned int view = 0; view < leaks->options.nr_views; view++) {
			uint64_t target = seen_as(leaks, words[i], view);

			if (target == LEAK_NONE || target == self || found > LEAK_EDGES_MAX ||
			    is_among(targets, found, target) || (open && !is_open(leaks, target)))
				continue;
			targets[found++] = target;
		}
	}
	return found;
}

unsigned int leak_targets(const struct leaks *leaks, uint64_t self, const uint64_t *words,
			  size_t nr, uint64_t targets[LEAK_EDGES_MAX + 1])
{
	return collect(leaks, self, words, nr, false, targets);
}

static void keep_edges(struct leaks *leaks, uint64_t object, const uint64_t *words, size_t nr)
{
	struct leak_block *block = leak_block_of(leaks, object);
	uint64_t targets[LEAK_EDGES_MAX + 1], bit = leak_bit(object);
	unsigned int found = collect(leaks, object, words, nr, false, targets);

	if (found > LEAK_EDGES_MAX)
		found = collect(leaks, object, words, nr, true, targets);
	if (found > LEAK_EDGES_MAX || leaks->nr_edges + found > leaks->edges_max) {
		block->unknown |= bit;
		return;
	}
	if (!(block->one | block->two))
		block->edge = (uint32_t)leaks->nr_edges;
	block->one |= found & 1 ? bit : 0;
	block->two |= found & 2 ? bit : 0;
	for (unsigned int i = 0; i < found; i++)
		edge_put(leaks, leaks->nr_edges++, targets[i]);
}

/* @words: a copy of object number @object of a slab of @shape. */
static void sweep_object(struct leaks *leaks, const struct leak_shape *shape, uint64_t object,
			 uint64_t address, const uint64_t *words)
{
	struct leak_block *block = leak_block_of(leaks, object);
	uint64_t bit = leak_bit(object);

	if (leak_is_free(leaks, shape, address, words)) {
		block->allocated &= ~bit;
		return;
	}
	if (shape->is_library)
		block->marked |= bit;
	if (block->marked & bit)
		leak_mark_words(leaks, words, shape->object_size / 8);
	else
		keep_edges(leaks, object, words, shape->object_size / 8);
}

/* Objects @first to @end of a slab, less one, all of them allocated. */
static void sweep_run(struct leaks *leaks, const struct leak_slab *slab, uint64_t first,
		      uint64_t end)
{
	const struct leak_shape *shape = &leaks->shapes[slab->cache];
	uint64_t start = slab->address + shape->left + first * shape->size;
	uint64_t base = (uint64_t)slab->block * LEAK_BLOCK_OBJECTS;
	uint64_t bytes = (end - first) * shape->size - (shape->size - shape->object_size);

	if (!leak_copy(leaks, start, leaks->buffer, bytes)) {
		/* It went; or it is too much for a core that was cut. */
		for (uint64_t n = first; n < end; n++)
			leak_block_of(leaks, base + n)->unknown |= leak_bit(base + n);
		leaks->swept = base + end;
		return;
	}
	for (uint64_t n = first; n < end; n++) {
		uint64_t at = (n - first) * shape->size;

		leaks->swept = base + n;
		sweep_object(leaks, shape, base + n, start + at,
			     (const uint64_t *)(leaks->buffer + at));
	}
	leaks->swept = base + end;
}

/* A large block, or one between guard pages: read if it is marked, else when it is. */
static void sweep_large(struct leaks *leaks, uint64_t object)
{
	struct leak_block *block = leak_block_of(leaks, object);
	uint64_t bytes, at;

	leaks->swept = object + 1;
	if (!(block->allocated & leak_bit(object)))
		return;
	block->unknown |= leak_bit(object);
	at = leak_object_at(leaks, object, &bytes);
	if (block->marked & leak_bit(object))
		leak_read(leaks, (struct leak_range){ at, at + bytes, false }, leak_mark_words);
}

static bool is_allocated(const struct leaks *leaks, const struct leak_slab *slab, uint64_t n)
{
	return leaks->blocks[slab->block + n / LEAK_BLOCK_OBJECTS].allocated & leak_bit(n);
}

static void sweep_slab(struct leaks *leaks, const struct leak_slab *slab)
{
	const struct leak_shape *shape = &leaks->shapes[slab->cache];
	uint64_t most = shape->size < LEAK_BUFFER_BYTES ? LEAK_BUFFER_BYTES / shape->size : 1;

	for (uint64_t n = 0; n < shape->nr; n++) {
		uint64_t end = n;

		if (shape->size > LEAK_BUFFER_BYTES) {
			sweep_large(leaks, (uint64_t)slab->block * LEAK_BLOCK_OBJECTS + n);
			continue;
		}

		while (end < shape->nr && end - n < most && is_allocated(leaks, slab, end))
			end++;
		if (end > n)
			sweep_run(leaks, slab, n, end);
		n = end > n ? end - 1 : n;
	}
}

static void begin(struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		struct leak_block *block = &leaks->blocks[i];

		block->one = block->two = block->unknown = block->pending = 0;
	}
	if (leaks->nr_edges)
		memset(leaks->edges, 0, (leaks->nr_edges * leaks->width + 63) / 64 * 8 + 8);
	leaks->nr_edges = leaks->nr_stack = 0;
	leaks->swept = 0;
	if (!leaks->stack)
		leaks->stack = must_have(malloc(STACK_MAX * sizeof(*leaks->stack)));
}

static void mark_roots(struct leaks *leaks)
{
	leak_mark_words(leaks, leaks->roots.words, leaks->roots.nr_words);
	for (size_t i = 0; i < leaks->roots.nr; i++)
		leak_read(leaks, leaks->roots.ranges[i],
			  leaks->roots.ranges[i].is_code ? mark_code : leak_mark_words);
	for (size_t i = 0; i < leaks->nr_strangers; i++)
		leak_read(leaks, leaks->strangers[i], leak_mark_words);
}

void leak_mark(struct leaks *leaks)
{
	begin(leaks);
	mark_roots(leaks);
	for (size_t i = 0; i < leaks->nr_slabs && !leaks->error; i++) {
		const struct leak_slab *slab = &leaks->slabs[i];

		if (slab->cache < 0)
			sweep_large(leaks, (uint64_t)slab->block * LEAK_BLOCK_OBJECTS);
		else
			sweep_slab(leaks, slab);
		drain(leaks, LANES / 4);
		if (!(i % 1024))
			progress("following pointers", i, leaks->nr_slabs);
	}
	leaks->swept = LEAK_NONE;
	leak_chains_walk(leaks);
	leak_mark_rest(leaks);
	leak_chains_settle(leaks);
	leak_mark_rest(leaks);
	leak_chains_free(leaks);
	progress_end();
}

/* ---- once more, for those that order what was found ---- */

struct edge_visit {
	leak_edge_visitor *visit;
	void *arg;
};

static struct edge_visit visiting;

static void visit_words(struct leaks *leaks, const uint64_t *words, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		for (unsigned int view = 0; view < leaks->options.nr_views; view++) {
			uint64_t object = seen_as(leaks, words[i], view);

			if (object != LEAK_NONE)
				visiting.visit(leaks, object, visiting.arg);
		}
	}
}

/* Of what was not kept: from a copy of its slab, for the next one asks for its neighbour. */
static bool visit_copy(struct leaks *leaks, uint64_t object)
{
	const struct leak_block *block = leak_block_of(leaks, object);
	const struct leak_slab *slab = &leaks->slabs[block->slab];
	uint64_t bytes, at = leak_object_at(leaks, object, &bytes);
	const struct leak_shape *shape;

	if (slab->cache < 0)
		return false;
	shape = &leaks->shapes[slab->cache];
	if (shape->left + shape->nr * shape->size > LEAK_BUFFER_BYTES)
		return false;
	if (leaks->copied != block->slab + 1) {
		leaks->copied = 0;
		if (!leak_copy(leaks, slab->address, leaks->buffer,
			       shape->left + shape->nr * shape->size))
			return false;
		leaks->copied = block->slab + 1;
	}
	visit_words(leaks, (const uint64_t *)(leaks->buffer + (at - slab->address)), bytes / 8);
	return true;
}

void leak_edges(struct leaks *leaks, uint64_t object, leak_edge_visitor *visit, void *arg)
{
	const struct leak_block *block = leak_block_of(leaks, object);
	uint64_t bytes, at, first;
	unsigned int nr;

	if (block->unknown & leak_bit(object)) {
		visiting = (struct edge_visit){ visit, arg };
		if (visit_copy(leaks, object))
			return;
		at = leak_object_at(leaks, object, &bytes);
		leaks->copied = 0;
		leak_read(leaks, (struct leak_range){ at, at + bytes, false }, visit_words);
		return;
	}
	first = leak_edges_of(block, leak_bit(object), &nr);
	for (unsigned int i = 0; i < nr; i++)
		visit(leaks, leak_edge_get(leaks, first + i), arg);
}
