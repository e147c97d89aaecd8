/* SPDX-License-Identifier: MIT */
/*
 * An object of a watched cache: what its place says of it, as `slub traces` reads that.  Whether it
 * is free its slab's freelist says, for a watched cache has no lists; where links are encoded its
 * tracks do.
 */
#include "cache_name.h"
#include "explain.h"
#include "symbols.h"
#include "trace.h"
#include "view.h"

#include <inttypes.h>
#include <time.h>

static const char *const track_names[] = {
	[TRACE_ALLOC] = "allocated", [TRACE_FREE] = "freed",
};

uint64_t clock_offset_now(void)
{
	struct timespec real, steady;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_MONOTONIC, &steady);
	return (uint64_t)(real.tv_sec - steady.tv_sec) * 1000000000u +
	       (uint64_t)(real.tv_nsec - steady.tv_nsec);
}

/* ---- the place ---- */

/* Its fields without tracks, too; of the object and all around it. */
static bool layout_read(const struct search *search, const struct cache_view *cache,
			struct watch *watch)
{
	const struct snapshot *snapshot = search->snapshot;
	uint64_t stride = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);

	*watch = (struct watch){ .left = UINT64_MAX };
	if (!trace_fields_fit(&snapshot->abi))
		return false;
	watch_read(snapshot->process, &snapshot->abi, cache, watch);
	return watch->left < stride && size <= stride - watch->left &&
	       (!watch->requested || (watch->requested < stride &&
				      watch->left + watch->requested + 8 <= stride));
}

static uint64_t bytes_asked(const struct search *search, const struct cache_view *cache,
			    const struct watch *watch, uint64_t object)
{
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE), bytes;

	if (!watch->requested ||
	    process_read(search->snapshot->process, object + watch->requested, &bytes,
			 sizeof(bytes)) || bytes > size)
		return size;
	return bytes;
}

static void read_tracks(struct watched_object *found, const struct search *search,
			const struct watch *watch)
{
	const struct slub_abi *abi = &search->snapshot->abi;
	const struct slub_abi_field *fields = abi->track_fields;
	char tracks[2 * 1024];

	if (!watch->is_known ||
	    process_read(search->snapshot->process, found->address + watch->track, tracks,
			 2 * (size_t)abi->track_bytes))
		return;
	for (int i = 0; i < 2; i++) {
		const char *from = tracks + (size_t)i * abi->track_bytes;

		found->tracks[i] = (struct watched_track){
			.caller = field_get(from, fields[SLUB_ABI_TRACK_CALLER]),
			.when_ns = field_get(from, fields[SLUB_ABI_TRACK_WHEN]),
			.stack = (uint32_t)field_get(from, fields[SLUB_ABI_TRACK_STACK]),
			.thread = (uint32_t)field_get(from, fields[SLUB_ABI_TRACK_THREAD]),
			.cpu = (uint32_t)field_get(from, fields[SLUB_ABI_TRACK_CPU]),
		};
	}
}

/* A list that changes meanwhile, or is damaged, ends somewhere. */
static bool is_on_freelist(const struct search *search, const struct cache_view *cache,
			   uint64_t object)
{
	uint64_t link = cache_field(cache, SLUB_ABI_CACHE_LINK);
	uint64_t bytes = search->piece.pages * search->snapshot->abi.page_bytes;
	uint64_t at = search->piece.free_first;

	for (uint64_t i = cache_field(cache, SLUB_ABI_CACHE_OBJECTS); i && at; i--) {
		uint64_t place = link < 4096 ? at + link : link + (at >> 12) * 8;

		if (at == object)
			return true;
		if (at - search->piece.address >= bytes ||
		    process_read(search->snapshot->process, place, &at, sizeof(at)))
			break;
	}
	return false;
}

static bool is_freed_by_tracks(const struct watched_object *found)
{
	const struct watched_track *tracks = found->tracks;

	return tracks[TRACE_FREE].caller &&
	       tracks[TRACE_FREE].when_ns >= tracks[TRACE_ALLOC].when_ns;
}

static void relate(struct watched_object *found, uint64_t address)
{
	uint64_t offset = address - found->address;

	if (address < found->address) {
		found->relation = WATCHED_BEFORE;
		found->distance = found->address - address;
	} else if (offset < found->bytes) {
		found->relation = WATCHED_INSIDE;
		found->distance = offset;
	} else {
		found->relation = WATCHED_BEHIND;
		found->distance = offset - found->bytes;
	}
}

bool watched_find(struct watched_object *found, const struct search *search)
{
	const struct snapshot *snapshot = search->snapshot;
	struct search_object place = search_object(search);
	const struct cache_view *cache = place.cache;
	struct watch watch;

	*found = (struct watched_object){ .address = 0 };
	if (!layout_read(search, cache, &watch) ||
	    search->address - search->piece.address >=
	    cache_field(cache, SLUB_ABI_CACHE_OBJECTS) * cache_field(cache, SLUB_ABI_CACHE_SIZE))
		return false;
	found->address = place.address + watch.left;
	found->bytes = bytes_asked(search, cache, &watch, found->address);
	cache_plain_name(snapshot, cache, found->cache);
	watch_letters(cache, found->letters);
	read_tracks(found, search, &watch);
	found->is_free = snapshot_has(snapshot, SLUB_ABI_CACHE_LINK) ?
			 is_on_freelist(search, cache, found->address) :
			 is_freed_by_tracks(found);
	relate(found, search->address);
	return true;
}

/* ---- tracks ---- */

static size_t track_frames(const struct search *search, const struct watched_track *track,
			   uint64_t frames[TRACE_FRAMES_MAX])
{
	const struct snapshot *snapshot = search->snapshot;
	uint32_t nr = trace_stack_read(snapshot->process, &snapshot->abi,
				       trace_store(snapshot->process, &snapshot->abi),
				       track->stack, frames);

	if (nr || track->caller <= 1)
		return nr;
	frames[0] = track->caller;
	return 1;
}

/* What freed an object that is allocated was done to the one in its place before. */
static bool is_of_before(const struct watched_object *found, enum trace_kind kind)
{
	return kind == TRACE_FREE && !found->is_free && !is_freed_by_tracks(found);
}

static void print_when(const struct search *search, const struct watched_track *track)
{
	uint64_t when = track->when_ns + search->clock_offset_ns;
	char time[32];

	if (search->clock_offset_ns)
		printf(" %s.%03u", time_text(time, when), (unsigned int)(when / 1000000 % 1000));
}

static void print_track(const struct search *search, const struct watched_object *found,
			enum trace_kind kind)
{
	const struct watched_track *track = &found->tracks[kind];
	const struct watched_track *alloc = &found->tracks[TRACE_ALLOC];
	uint64_t frames[TRACE_FRAMES_MAX];
	bool is_before = is_of_before(found, kind);
	size_t nr;

	if (!track->caller)
		return;
	printf("%s%s", is_before ? "what was here before was " : "", track_names[kind]);
	print_when(search, track);
	printf(" by thread %u on CPU %u", track->thread, track->cpu);
	if (kind == TRACE_FREE && !is_before && alloc->caller &&
	    track->when_ns >= alloc->when_ns)
		printf(", %" PRIu64 " ms after that", (track->when_ns - alloc->when_ns) / 1000000);
	putchar('\n');
	nr = track_frames(search, track, frames);
	symbols_print(search->snapshot->process, frames, nr, STACK_OF_CALLS);
}

bool print_watched(const struct search *search)
{
	static const char *const words[] = {
		[WATCHED_INSIDE] = "byte %" PRIu64 " of",
		[WATCHED_BEFORE] = "%" PRIu64 " bytes before",
		[WATCHED_BEHIND] = "%" PRIu64 " bytes behind the end of",
	};
	struct watched_object found;

	if (!watched_find(&found, search))
		return false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	printf(words[found.relation], found.distance);
#pragma GCC diagnostic pop
	printf(" the %s object 0x%" PRIx64 " of %" PRIu64 " bytes (%s, watched by %s)\n",
	       found.is_free ? "free" : "allocated", found.address, found.bytes, found.cache,
	       found.letters);
	print_track(search, &found, TRACE_ALLOC);
	print_track(search, &found, TRACE_FREE);
	if (!found.tracks[TRACE_ALLOC].caller && !found.tracks[TRACE_FREE].caller)
		puts("what allocated it was not recorded: letter U does that for objects allocated "
		     "from then on");
	return true;
}

static void put_track(struct json *json, const struct search *search,
		      const struct watched_object *found, enum trace_kind kind)
{
	const struct watched_track *track = &found->tracks[kind];
	uint64_t frames[TRACE_FRAMES_MAX];
	size_t nr;

	if (!track->caller)
		return;
	json_open(json, is_of_before(found, kind) ? "freed_before" : track_names[kind]);
	if (search->clock_offset_ns)
		json_real(json, "time", (double)(track->when_ns + search->clock_offset_ns) / 1e9);
	json_number(json, "thread", track->thread);
	json_number(json, "cpu", track->cpu);
	nr = track_frames(search, track, frames);
	symbols_put(json, search->snapshot->process, frames, nr, STACK_OF_CALLS);
	json_close(json);
}

bool put_watched(struct json *json, const struct search *search)
{
	static const char *const words[] = {
		[WATCHED_INSIDE] = "inside", [WATCHED_BEFORE] = "before",
		[WATCHED_BEHIND] = "behind",
	};
	struct watched_object found;

	if (!watched_find(&found, search))
		return false;
	json_string(json, "letters", found.letters);
	json_address(json, "object", found.address);
	json_number(json, "bytes", found.bytes);
	json_string(json, "state", found.is_free ? "free" : "allocated");
	json_string(json, "where", words[found.relation]);
	json_number(json, "distance", found.distance);
	put_track(json, search, &found, TRACE_ALLOC);
	put_track(json, search, &found, TRACE_FREE);
	return true;
}
