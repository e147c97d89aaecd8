/* SPDX-License-Identifier: MIT */
/*
 * The memory groups of a process: what they use, and which slabs that keeps.
 *
 * Usage counts what is charged in advance, in stocks of owners and threads, and what
 * lies free in lists of CPUs; both are taken off here.  The library takes no
 * part in it, so on a process that runs the sums are estimates.
 */
#include "groups.h"
#include "heap.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL_BYTES_MAX ((size_t)256 << 20)
#define ITEM_BYTES_MAX 4096u
#define NR_GROUPS_MAX  (1u << 16)
#define NR_HEIRS_MAX   64
#define DEPTH_MAX      64
#define SLAB_BYTES_MAX ((size_t)4 << 20)
#define NR_WORDS_MAX   (SLAB_BYTES_MAX / 8)
#define NR_AREAS_MAX   8192u
#define LIST_MAX       (1u << 16)	/* a longer one is none: it was read while it changed */
#define LISTS_MAX      (1u << 25)	/* objects in all of them */

struct pool {
	uint64_t start;
	char *bytes;
	uint32_t nr;		/* the highest number + 1 */
	uint32_t item_bytes;
};

struct reader {
	const struct process *process;
	const struct snapshot *snapshot;
	const struct slub_abi *abi;
	struct slub_abi_groups how;
	struct pool pools[2];	/* groups, owners */
	struct group_view *views;	/* by number */
	/* addresses of free objects in lists, in order */
	uint64_t *listed;
	size_t nr_listed, nr_listed_max;
	size_t nr_looked_at;
};

enum { GROUPS, OWNERS };

/* ---- pools ---- */

static int read_pool(const struct reader *reader,
		     const struct slub_abi_pool *how, struct pool *pool)
{
	int error;

	*pool = (struct pool){ .item_bytes = how->bytes };
	if (how->bytes < 8 || how->bytes > ITEM_BYTES_MAX)
		return -EBADMSG;
	error = process_read(reader->process, how->end, &pool->nr,
			     sizeof(pool->nr));
	if (!error)
		error = process_read(reader->process, how->start, &pool->start,
				     sizeof(pool->start));
	if (error)
		return error;
	if (!pool->start)
		pool->nr = 0;
	if ((size_t)pool->nr * how->bytes > POOL_BYTES_MAX)
		return -EBADMSG;
	pool->bytes = must_have(calloc(pool->nr + 1ul, how->bytes));
	/* Number 0 may not be there: the others begin behind it. */
	return pool->nr < 2 ? 0 :
	       process_read(reader->process, pool->start + how->bytes,
			    pool->bytes + how->bytes,
			    (pool->nr - 1ul) * how->bytes);
}

static const char *item(const struct pool *pool, uint32_t number)
{
	return pool->bytes + (size_t)number * pool->item_bytes;
}

/* 0: the address is none of the pool. */
static uint32_t number_of(const struct pool *pool, uint64_t address)
{
	/* Below its start it is a number that no pool reaches. */
	uint64_t offset = address - pool->start;

	if (offset % pool->item_bytes || offset / pool->item_bytes >= pool->nr)
		return 0;
	return (uint32_t)(offset / pool->item_bytes);
}

/* The living group that answers for @owner's charges; 0: none. */
static uint32_t group_of_owner(const struct reader *reader, uint32_t owner)
{
	const struct pool *owners = &reader->pools[OWNERS];
	uint32_t group;

	for (int i = 0; i < NR_HEIRS_MAX; i++) {
		uint64_t heir;

		if (!owner || owner >= owners->nr)
			return 0;
		heir = field_get(item(owners, owner), reader->how.owner_heir);
		if (!heir)
			break;
		owner = number_of(owners, heir);
	}
	if (!owner || owner >= owners->nr)
		return 0;
	group = number_of(&reader->pools[GROUPS],
			  field_get(item(owners, owner),
				    reader->how.owner_group));
	return reader->views[group].number;
}

static void read_view(const struct reader *reader, uint32_t number)
{
	const char *from = item(&reader->pools[GROUPS], number);
	struct group_view *view = &reader->views[number];

	for (int i = 0; i < SLUB_ABI_GROUP_FIELDS; i++)
		view->fields[i] = field_get(from, reader->how.group_fields[i]);
	if (!view->fields[SLUB_ABI_GROUP_ALIVE])
		return;
	view->number = number;
	view->parent = number_of(&reader->pools[GROUPS],
				 view->fields[SLUB_ABI_GROUP_PARENT]);
	memcpy(view->name, from + reader->how.group_name, sizeof(view->name));
	clean_text(view->name, sizeof(view->name));
}

/* ---- what each has ---- */

/* Calls for the group and those above it. */
#define FOR_EACH_UP(view, reader, n)                                         \
	for (int depth_ = 0; depth_ < DEPTH_MAX && (n) &&                    \
	     ((view) = &(reader)->views[n]) != NULL; (n) = (view)->parent,   \
	     depth_++)

static void add_ahead(const struct reader *reader, uint32_t owner,
		      uint64_t bytes)
{
	uint32_t n = group_of_owner(reader, owner);
	struct group_view *view;

	FOR_EACH_UP(view, reader, n)
		view->ahead_bytes += bytes;
}

static void add_object(const struct reader *reader, uint32_t owner,
		       const struct cache_view *cache,
		       const struct piece *piece)
{
	uint32_t n = group_of_owner(reader, owner);
	struct group_view *view;

	FOR_EACH_UP(view, reader, n) {
		view->objects++;
		view->object_bytes += cache_field(cache,
						  SLUB_ABI_CACHE_OBJECT_SIZE);
		if (view->last_slab != piece->address)
			view->slab_bytes += piece->pages *
					    reader->abi->page_bytes;
		view->last_slab = piece->address;
	}
}

static uint64_t descriptor_of(const struct reader *reader, uint64_t address)
{
	const struct slub_abi *abi = reader->abi;

	return abi->descriptors + (address - abi->heap_start) /
				  abi->page_bytes * abi->descriptor_stride;
}

static uint32_t read_page_owner(const struct reader *reader, uint64_t address)
{
	const struct slub_abi *abi = reader->abi;
	uint64_t at = descriptor_of(reader, address) + abi->descriptor_owner;
	uint32_t owner = 0;

	/* It has what the state, moved up to where it may lie, leaves. */
	if (abi->descriptor_owner == abi->descriptor_state &&
	    at % abi->descriptor_state_align == 0)
		at += 16;
	return process_read(reader->process, at, &owner, sizeof(owner)) ? 0 :
	       owner;
}

/* Of an object in a slab of @cache; 0: not known. */
static uint32_t read_owner(const struct reader *reader,
			   const struct cache_view *cache, uint64_t object)
{
	uint64_t slab = object & -cache_slab_bytes(reader->snapshot, cache);
	uint64_t i = (object - slab) / cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint32_t owner = 0;

	if (!cache_field(cache, SLUB_ABI_CACHE_OWNERS_HERE))
		return read_page_owner(reader, object);
	return process_read(reader->process, slab + 4 * i +
			    cache_field(cache, SLUB_ABI_CACHE_OWNERS), &owner,
			    sizeof(owner)) ? 0 : owner;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return compare_numbers(x, y);
}

static void tally_object(const struct reader *reader,
			 const struct cache_view *cache,
			 const struct piece *piece, uint64_t object,
			 uint32_t owner)
{
	uint32_t charged = owner & ~SLUB_ABI_OWNER_FREE;

	if (!charged)
		return;
	if (owner & SLUB_ABI_OWNER_FREE ||
	    (reader->nr_listed &&
	     bsearch(&object, reader->listed, reader->nr_listed,
		     sizeof(object), compare_addresses)))
		add_ahead(reader, charged,
			  cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE));
	else
		add_object(reader, charged, cache, piece);
}

/* Watched ones have their owner behind them. */
static void tally_watched(const struct reader *reader,
			  const struct cache_view *cache,
			  const struct piece *piece, uint64_t nr)
{
	const struct slub_abi_field *fields = reader->abi->watch_fields;
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t left, owner;
	char layout[512];

	if (reader->abi->watch_bytes > sizeof(layout) ||
	    !fields_are_sane(fields, SLUB_ABI_WATCH_FIELDS,
			     reader->abi->watch_bytes) ||
	    process_read(reader->process,
			 cache_field(cache, SLUB_ABI_CACHE_WATCH), layout,
			 reader->abi->watch_bytes))
		return;
	left = field_get(layout, fields[SLUB_ABI_WATCH_LEFT]);
	owner = field_get(layout, fields[SLUB_ABI_WATCH_OWNER]);
	for (uint64_t i = 0; owner && i < nr; i++) {
		uint64_t object = piece->address + left + i * size;
		uint32_t word;

		if (!process_read(reader->process, object + owner, &word,
				  sizeof(word)))
			tally_object(reader, cache, piece, object, word);
	}
}

static void tally_slab(const struct reader *reader, const struct piece *piece)
{
	const struct cache_view *cache =
		&reader->snapshot->caches[piece->cache];
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t bytes = piece->pages * reader->abi->page_bytes;
	uint64_t nr = piece->holes ? cache_field(cache, SLUB_ABI_CACHE_OBJECTS)
				   : piece->carved;
	bool is_here = cache_field(cache, SLUB_ABI_CACHE_OWNERS_HERE);
	static uint32_t words[NR_WORDS_MAX];

	if (!cache_field(cache, SLUB_ABI_CACHE_ACCOUNTED) ||
	    nr > NR_WORDS_MAX || nr * size > bytes)
		return;
	if (cache_field(cache, SLUB_ABI_CACHE_WATCH)) {
		tally_watched(reader, cache, piece, nr);
		return;
	}
	if (is_here && process_read(reader->process, piece->address +
				    cache_field(cache, SLUB_ABI_CACHE_OWNERS),
				    words, nr * sizeof(words[0])))
		return;
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t object = piece->address + i * size;

		if (piece_is_hole(piece, reader->abi->page_bytes, i, size))
			continue;
		tally_object(reader, cache, piece, object, is_here ? words[i] :
			     read_page_owner(reader, object));
	}
}

static void tally_piece(const struct piece *piece, void *arg)
{
	const struct reader *reader = arg;
	struct group_view *view;
	uint32_t n;

	if (piece->kind == PIECE_SLAB)
		tally_slab(reader, piece);
	if (piece->kind != PIECE_LARGE)
		return;
	n = group_of_owner(reader, read_page_owner(reader, piece->address));
	FOR_EACH_UP(view, reader, n)
		view->large_bytes += piece->pages * reader->abi->page_bytes;
}

/* ---- stocks ---- */

static void tally_word(const struct reader *reader, uint64_t word)
{
	uint32_t shift = reader->how.stock_shift;

	add_ahead(reader, (uint32_t)(word >> shift),
		  word & ((1ull << shift) - 1));
}

static void tally_thread_stocks(const struct reader *reader,
				const struct pool *stocks)
{
	struct slub_abi_field back = { (uint16_t)reader->how.stock_back, 8 };

	for (uint32_t i = 1; i < stocks->nr; i++) {
		const char *at = item(stocks, i);
		uint32_t owner = (uint32_t)field_get(at,
						     reader->how.stock_owner);
		int64_t bytes = (int64_t)field_get(at,
						   reader->how.stock_bytes);
		uint32_t group = group_of_owner(reader, owner);

		if (group)
			reader->views[group].nr_threads++;
		if (bytes > 0)
			add_ahead(reader, owner, (uint64_t)bytes);
		if (reader->how.stock_back)
			tally_word(reader, field_get(at, back));
	}
}

static void tally_owner_stocks(const struct reader *reader)
{
	const struct pool *owners = &reader->pools[OWNERS];
	uint64_t mask = (1ull << reader->how.owner_stock_bits) - 1;

	for (uint32_t i = 1; i < owners->nr; i++)
		add_ahead(reader, i, field_get(item(owners, i),
					       reader->how.owner_stock) & mask);
}

/* ---- objects in lists ---- */

static void list_add(struct reader *reader, uint64_t object)
{
	if (reader->nr_listed == reader->nr_listed_max) {
		reader->nr_listed_max = reader->nr_listed_max * 2 + 1024;
		reader->listed = must_have(reallocarray(reader->listed, reader->nr_listed_max,
							sizeof(*reader->listed)));
	}
	reader->listed[reader->nr_listed++] = object;
}

static uint64_t next_of(const struct reader *reader, uint64_t link,
			uint64_t object)
{
	uint64_t at = link < 4096 ? object + link :
		      link + (object >> 12) * 8;
	uint64_t next = 0;

	return process_read(reader->process, at, &next, sizeof(next)) ? 0 :
	       next;
}

static void read_list(struct reader *reader, const struct cache_view *cache,
		      uint64_t object)
{
	uint64_t link = cache_field(cache, SLUB_ABI_CACHE_LINK);
	const struct slub_abi *abi = reader->abi;

	for (uint32_t n = 0; n < LIST_MAX && object >= abi->heap_start &&
	     object < abi->heap_start + abi->heap_bytes &&
	     reader->nr_looked_at < LISTS_MAX; n++) {
		uint32_t owner = read_owner(reader, cache, object);

		reader->nr_looked_at++;
		if (owner && !(owner & SLUB_ABI_OWNER_FREE))
			list_add(reader, object);
		object = next_of(reader, link, object);
	}
}

static void read_lists(struct reader *reader, uint64_t area)
{
	const struct slub_abi *abi = reader->abi;

	for (size_t i = 0; i < reader->snapshot->nr_caches; i++) {
		const struct cache_view *cache = &reader->snapshot->caches[i];
		uint64_t slot = area + cache_field(cache,
						   SLUB_ABI_CACHE_LIST_SLOT);
		uint64_t head = 0, spare = 0;

		if (!cache_field(cache, SLUB_ABI_CACHE_ACCOUNTED) ||
		    cache_field(cache, SLUB_ABI_CACHE_WATCH))
			continue;
		if (!process_read(reader->process, slot + abi->slot_head,
				  &head, sizeof(head)))
			read_list(reader, cache, head);
		if (!process_read(reader->process, slot + abi->slot_spare_head,
				  &spare, sizeof(spare)))
			read_list(reader, cache, spare);
	}
}

/* ---- all of it ---- */

static void read_areas(struct reader *reader)
{
	const struct slub_abi *abi = reader->abi;
	bool has_links = snapshot_has(reader->snapshot, SLUB_ABI_CACHE_LINK);
	static uint64_t table[NR_AREAS_MAX];

	if (process_read(reader->process, abi->base_table, table,
			 abi->nr_areas * sizeof(table[0])))
		return;
	for (uint32_t i = 0; i < abi->nr_areas; i++) {
		if (!table[i] || table[i] == abi->dummy_area)
			continue;
		if (has_links)
			read_lists(reader, table[i]);
	}
	if (reader->nr_listed)
		qsort(reader->listed, reader->nr_listed,
		      sizeof(*reader->listed), compare_addresses);
}

static bool how_is_sane(const struct slub_abi_groups *how)
{
	struct slub_abi_field owner[] = { how->owner_group, how->owner_heir,
					  how->owner_stock };
	struct slub_abi_field stock[] = { how->stock_owner, how->stock_bytes };

	return how->size >= sizeof(*how) &&
	       fields_are_sane(how->group_fields, SLUB_ABI_GROUP_FIELDS,
			       how->groups.bytes) &&
	       fields_are_sane(owner, 3, how->owners.bytes) &&
	       fields_are_sane(stock, 2, how->thread_stocks.bytes) &&
	       how->stock_back + 8ull <= how->thread_stocks.bytes &&
	       how->group_name + (uint64_t)SLUB_ABI_GROUP_NAME <=
		       how->groups.bytes &&
	       how->owner_stock_bits > 0 && how->owner_stock_bits < 64 &&
	       how->stock_shift >= 32 && how->stock_shift < 64;
}

static int read_how(struct reader *reader)
{
	struct slub_abi_groups *how = &reader->how;
	int error;

	if (!reader->abi->groups)
		return -ENODATA;
	error = process_read(reader->process, reader->abi->groups, how, 8);
	if (!error && how->version != SLUB_ABI_GROUPS_VERSION)
		return -EPROTO;
	if (!error)
		error = process_read(reader->process, reader->abi->groups, how,
				     sizeof(*how));
	return error ? error : how_is_sane(how) ? 0 : -EBADMSG;
}

static int read_all(struct reader *reader)
{
	struct pool stocks = { .nr = 0 };
	int error = read_pool(reader, &reader->how.groups,
			      &reader->pools[GROUPS]);

	if (!error && reader->pools[GROUPS].nr > NR_GROUPS_MAX)
		error = -EBADMSG;
	if (!error)
		error = read_pool(reader, &reader->how.owners,
				  &reader->pools[OWNERS]);
	if (!error)
		error = read_pool(reader, &reader->how.thread_stocks, &stocks);
	reader->views = must_have(calloc(reader->pools[GROUPS].nr + 1ul,
					 sizeof(*reader->views)));
	if (!error) {
		for (uint32_t n = 1; n < reader->pools[GROUPS].nr; n++)
			read_view(reader, n);
		tally_thread_stocks(reader, &stocks);
		tally_owner_stocks(reader);
		read_areas(reader);
		if (reader->pools[GROUPS].nr > 1)
			heap_walk(reader->process, reader->snapshot, tally_piece, reader);
	}
	free(stocks.bytes);
	return error;
}

int groups_of_process(struct groups *groups, const struct snapshot *snapshot,
		      uint32_t *version)
{
	struct reader reader = {
		.process = snapshot->process,
		.snapshot = snapshot,
		.abi = &snapshot->abi,
	};
	int error = read_how(&reader);

	*version = reader.how.version;
	if (!error)
		error = read_all(&reader);
	groups->views = reader.views;
	groups->nr = error ? 0 : reader.pools[GROUPS].nr;
	free(reader.listed);
	free(reader.pools[GROUPS].bytes);
	free(reader.pools[OWNERS].bytes);
	return error;
}
