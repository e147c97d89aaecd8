/* SPDX-License-Identifier: MIT */
/*
 * Reads what the account of a process's memory is made of: which pages of the heap have memory,
 * and, of a sample of each cache's slabs with free objects, which pages no object keeps.
 */
#include "account.h"
#include "heap.h"
#include "input.h"
#include "resident.h"
#include "slub.h"
#include "spare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Slabs of a cache that are looked at page by page; all of them would take as long as a core. */
#define SAMPLES 64u
/* The library keeps its areas of CPUs in a place of their own, this far apart at the most. */
#define AREA_DISTANCE ((uint64_t)32 << 20)
#define NR_AREAS_MAX 8192u
/* As src/core/page/budget.c has it. */
#define RETAIN_SHARE 8
#define RETAIN_MIN ((uint64_t)1 << 20)
#define RETAIN_MAX ((uint64_t)16 << 20)

struct sample {
	uint64_t seen, step;		/* every which slab is looked at */
	uint64_t bytes, spare;		/* of those that were */
};

struct reader {
	const struct snapshot *snapshot;
	struct resident *resident;	/* NULL: not known */
	struct account_cache *caches;
	struct sample *samples;
	struct spare *spare;
	struct account_input input;
};

/* ---- the heap ---- */

/* What the heap itself knows of a slab's memory: not carved, none; a hole, none. */
static uint64_t carved_bytes(const struct reader *reader, const struct piece *piece)
{
	uint64_t holes = (uint64_t)__builtin_popcountll(piece->holes);

	/* One with holes was carved to its end: only objects that touch one count no more. */
	if (holes)
		return piece->pages > holes ?
		       (piece->pages - holes) * reader->snapshot->abi.page_bytes : 0;
	return piece_carved_bytes(piece, reader->snapshot);
}

static uint64_t piece_bytes(const struct reader *reader, const struct piece *piece)
{
	uint64_t bytes = piece->pages * reader->snapshot->abi.page_bytes;

	if (reader->resident)
		return resident_bytes(reader->resident, piece->address, bytes);
	switch (piece->kind) {
	case PIECE_SLAB:
		return carved_bytes(reader, piece);
	case PIECE_LARGE:
	case PIECE_IDLE:
		return bytes;
	case PIECE_FREE:
	case PIECE_UNREADABLE:
		break;
	}
	return 0;
}

static void add_sparse(struct reader *reader, const struct piece *piece, uint64_t bytes)
{
	const struct cache_view *view = &reader->snapshot->caches[piece->cache];
	struct account_cache *cache = &reader->caches[piece->cache];
	struct sample *sample = &reader->samples[piece->cache];
	uint64_t size = cache_field(view, SLUB_ABI_CACHE_SIZE);

	cache->sparse += bytes;
	cache->sparse_used += (piece->inuse - piece->local) * size;
	cache->sparse_room += piece->carved * size;
	if (sample->seen++ % sample->step)
		return;
	sample->bytes += bytes;
	sample->spare += spare_bytes(reader->spare, reader->snapshot, piece, reader->resident);
}

static void add_piece(const struct piece *piece, void *arg)
{
	struct reader *reader = arg;
	uint64_t bytes = piece_bytes(reader, piece);

	if (piece->kind == PIECE_LARGE) {
		reader->input.large += bytes;
	} else if (piece->kind != PIECE_SLAB || !piece->inuse) {
		reader->input.held += bytes;
	} else {
		reader->caches[piece->cache].slabs += bytes;
		if (piece->inuse < piece->carved || piece->holes)
			add_sparse(reader, piece, bytes);
	}
}

static void begin_caches(struct reader *reader)
{
	for (size_t i = 0; i < reader->snapshot->nr_caches; i++) {
		const struct cache_view *view = &reader->snapshot->caches[i];
		uint64_t size = cache_field(view, SLUB_ABI_CACHE_SIZE);
		uint64_t guarded = view->guarded;
		uint64_t used = cache_used(view);

		/* Objects between guard pages lie in no slab. */
		reader->caches[i].used = (used > guarded ? used - guarded : 0) * size;
		reader->caches[i].cached = view->cached * size;
		reader->samples[i].step = cache_partial(view) / SAMPLES + 1;
	}
}

static void end_caches(struct reader *reader)
{
	for (size_t i = 0; i < reader->snapshot->nr_caches; i++) {
		const struct sample *sample = &reader->samples[i];

		if (sample->bytes)
			reader->caches[i].spare = (uint64_t)
				((double)reader->caches[i].sparse *
				 (double)sample->spare / (double)sample->bytes);
	}
}

/* ---- what lies beside the heap ---- */

static uint64_t resident_between(struct reader *reader, const struct process *process,
				 uint64_t start, uint64_t end)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < process->nr_mappings; i++) {
		uint64_t from = process->mappings[i].start, to = process->mappings[i].end;

		from = from > start ? from : start;
		to = to < end ? to : end;
		if (from < to)
			sum += resident_bytes(reader->resident, from, to - from);
	}
	return sum;
}

static uint64_t areas_bytes(struct reader *reader, const struct process *process)
{
	static uint64_t table[NR_AREAS_MAX];
	const struct slub_abi *abi = &reader->snapshot->abi;
	uint64_t low = abi->shared_area, high = abi->shared_area;

	if (abi->nr_areas > NR_AREAS_MAX ||
	    process_read(process, abi->base_table, table, abi->nr_areas * sizeof(table[0])))
		return 0;
	for (uint32_t i = 0; i < abi->nr_areas; i++) {
		if (!table[i] || table[i] == abi->dummy_area)
			continue;
		low = table[i] < low ? table[i] : low;
		high = table[i] > high ? table[i] : high;
	}
	return resident_between(reader, process, low, high + AREA_DISTANCE);
}

/* The mappings of now: those that the snapshot's process was opened with may be old. */
static void read_tables(struct reader *reader)
{
	const struct slub_abi *abi = &reader->snapshot->abi;
	uint64_t start = abi->descriptors < abi->range_start ? abi->descriptors :
							       abi->range_start;
	struct process process;

	if (process_open(&process, reader->snapshot->process->pid))
		return;
	reader->input.tables = resident_between(reader, &process, start, abi->heap_start) +
			       areas_bytes(reader, &process);
	process_close(&process);
}

/* A name to tell a mapping by. */
static void name_place(struct account *account, const char *path)
{
	const char *slash = strrchr(path, '/');

	snprintf(account->place, sizeof(account->place), "%s",
		 slash && slash[1] ? slash + 1 : *path ? path : ACCOUNT_NO_FILE);
	clean_string(account->place);
}

/* The mapping outside of the heap's places with the most memory. */
static void find_place(struct account *account, const struct snapshot *snapshot)
{
	const struct slub_abi *abi = &snapshot->abi;
	char path[64], line[4352], name[4096] = "";
	uint64_t start = 0, end, kib;
	bool is_heap = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/smaps", snapshot->pid);
	file = input_kernel(path);
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s", &start, &end) == 2) {
			name[0] = '\0';
			sscanf(line, "%*s %*s %*s %*s %*s %4095[^\n]", name);
			is_heap = end > abi->descriptors &&
				  start < abi->heap_start + abi->heap_bytes;
		} else if (sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1 && !is_heap &&
			   kib * 1024 > account->largest_bytes) {
			account->largest_bytes = kib * 1024;
			name_place(account, name);
		}
	}
	if (file)
		fclose(file);
}

/* ---- all ---- */

static uint64_t retain_bytes(const struct snapshot *snapshot, uint64_t used)
{
	uint64_t share = used / RETAIN_SHARE;

	for (size_t i = 0; i < snapshot->nr_options; i++) {
		const struct slub_abi_option *option = &snapshot->options[i];

		if (option->given && !strcmp(option->name, "retain"))
			return option->value;
	}
	if (share < RETAIN_MIN)
		return RETAIN_MIN;
	return share < RETAIN_MAX ? share : RETAIN_MAX;
}

/* A statistics file has sums alone. */
static void read_file(struct reader *reader)
{
	const struct snapshot *snapshot = reader->snapshot;

	reader->input.large = snapshot->large_bytes;
	reader->input.held = snapshot->idle_bytes;
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		const struct cache_view *view = &snapshot->caches[i];
		struct account_cache *cache = &reader->caches[i];
		uint64_t empty = view->empty * cache_slab_bytes(snapshot, view);

		cache->slabs = cache_bytes(snapshot, view) - empty;
		reader->input.held += empty;
		cache->sparse = cache_partial(view) * cache_slab_bytes(snapshot, view);
		cache->sparse_room = (cache_capacity(view) - view->guarded) *
				     cache_field(view, SLUB_ABI_CACHE_SIZE);
		cache->sparse_used = cache->used + cache->cached;
	}
}

static void read_process(struct reader *reader)
{
	const struct process *process = reader->snapshot->process;
	struct resident *resident = must_have(malloc(sizeof(*resident)));

	if (!process->core && resident_open(resident, process->pid)) {
		reader->resident = resident;
		reader->input.rss = resident->rss_bytes;
	}
	reader->spare = spare_new();
	heap_walk(process, reader->snapshot, add_piece, reader);
	spare_free(reader->spare);
	if (reader->resident) {
		read_tables(reader);
		resident_close(resident);
	}
	free(resident);
}

void account_make(struct account *account, const struct snapshot *snapshot)
{
	size_t nr = snapshot->nr_caches;
	struct reader reader = { .snapshot = snapshot };

	reader.caches = must_have(calloc(nr + 1, sizeof(*reader.caches)));
	reader.samples = must_have(calloc(nr + 1, sizeof(*reader.samples)));
	begin_caches(&reader);
	if (snapshot->process)
		read_process(&reader);
	else
		read_file(&reader);
	end_caches(&reader);
	reader.input.caches = reader.caches;
	reader.input.nr_caches = nr;
	reader.input.retain = retain_bytes(snapshot, snapshot->slab_bytes +
						     snapshot->large_bytes);
	account_sum(account, &reader.input);
	account->may_shrink = snapshot->process && !snapshot->process->core;
	if (account->why == ACCOUNT_ELSEWHERE)
		find_place(account, snapshot);
	free(reader.caches);
	free(reader.samples);
}
