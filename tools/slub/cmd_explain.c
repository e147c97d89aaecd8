/* SPDX-License-Identifier: MIT */
/*
 * slub explain: what an address is, and if it is of a guarded object (option
 * guard), what went wrong there: read from a core, or from a process that lives
 * or was stopped.
 */
#include "core.h"
#include "guard.h"
#include "heap.h"
#include "slub.h"
#include "symbols.h"
#include "view.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void print_explain_help(FILE *to)
{
	fputs("usage: slub explain PID|CORE [ADDRESS]\n\n"
	      "Says what lies at ADDRESS (hexadecimal): which object, allocated\n"
	      "and freed by whom, if it is one between guard pages (SLUB_GUARD=N);\n"
	      "else which cache or block.  Of a core file ADDRESS is by default\n"
	      "the one that the process died of.  Without any, what was found\n"
	      "so far.\n\n"
	      "  -h, --help             prints this\n\n"
	      "Exit status: 0 done, 1 libslub is not in use there, 2 the arguments\n"
	      "make no sense, 3 no permission, 4 no such process or file, 5 damaged\n"
	      "or of an unknown version.\n", to);
}

/* ---- guarded objects ---- */

static void print_track(const struct guard *guard, const struct source *source,
			const char *what, const struct slub_abi_track *track)
{
	uint64_t when = track->when_ns + guard->pool.clock_offset_ns;
	uint64_t frames[GUARD_FRAMES_MAX];
	char time[32];
	size_t nr = guard_stack(guard, source, track, frames);

	if (!nr)
		return;
	printf("%s %s.%03u by thread %u on CPU %u\n", what,
	       time_text(time, when), (unsigned int)(when / 1000000 % 1000),
	       track->thread, track->cpu);
	symbols_print(&source->process, frames, nr);
}

static void print_place(const struct guard *guard, const struct source *source,
			const struct slub_abi_guard_place *place)
{
	print_track(guard, source, "allocated", &place->allocated);
	print_track(guard, source, "freed", &place->freed);
}

static void print_relation(const struct guard_finding *f)
{
	static const char *const words[] = {
		[GUARD_INSIDE_LIVE] = "in an allocated object: byte %" PRIu64
				      " of",
		[GUARD_INSIDE_FREED] = "use after free: byte %" PRIu64 " of",
		[GUARD_BEFORE] = "underrun: %" PRIu64 " bytes before",
		[GUARD_BEHIND] = "overrun: %" PRIu64 " bytes behind the end of",
		[GUARD_BEFORE_FREED] = "underrun after free: %" PRIu64
				       " bytes before",
		[GUARD_BEHIND_FREED] = "overrun after free: %" PRIu64
				       " bytes behind the end of",
	};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	printf(words[f->relation], f->distance);
#pragma GCC diagnostic pop
	printf(" object 0x%" PRIx64 " of %" PRIu64 " bytes (%s)\n",
	       f->place->object, f->place->bytes, f->place->name);
}

static void explain_guarded(const struct guard *guard,
			    const struct source *source, uint64_t address)
{
	struct guard_finding f = guard_find(guard, address);

	printf("0x%" PRIx64 ": ", address);
	if (f.relation == GUARD_APART) {
		puts("between guard pages, where no object has been yet");
		return;
	}
	print_relation(&f);
	print_place(guard, source, f.place);
}

static void print_errors(const struct guard *guard,
			 const struct source *source)
{
	static const char *const words[] = {
		"freed twice", "freed by a pointer into it",
		"bytes beside it written", "freed to another cache",
		"freed with another size",
	};
	const int nr_words = sizeof(words) / sizeof(words[0]);

	for (uint32_t n = 0; n < guard->pool.nr_places; n++) {
		const struct slub_abi_guard_place *place = &guard->places[n];

		if (!place->errors)
			continue;
		printf("0x%" PRIx64 " of %" PRIu64 " bytes (%s):",
		       place->object, place->bytes, place->name);
		for (int i = 0; i < nr_words; i++) {
			if (place->errors & 1u << i)
				printf(" %s", words[i]);
		}
		putchar('\n');
		print_place(guard, source, place);
	}
}

static void print_summary(const struct guard *guard,
			  const struct source *source)
{
	uint64_t counts[4] = { 0 };

	if (!guard->pool.bytes) {
		printf("%s guards no objects; SLUB_GUARD=N guards one in N\n",
		       source->label);
		return;
	}
	for (uint32_t n = 0; n < guard->pool.nr_places; n++)
		counts[guard->places[n].state & 3]++;
	printf("%s guards one object in %" PRIu64 ": %" PRIu64
	       " are allocated, %" PRIu64 " freed and kept, %" PRIu64
	       " found no place; %" PRIu64 " errors at frees\n",
	       source->label, guard->pool.every, counts[SLUB_ABI_GUARD_LIVE],
	       counts[SLUB_ABI_GUARD_FREED], guard->pool.lost,
	       guard->pool.errors);
}

/* ---- the rest of the heap ---- */

struct search {
	const struct snapshot *snapshot;
	uint64_t address;
	struct piece piece;
	bool found;
};

static void match(const struct piece *piece, void *arg)
{
	struct search *search = arg;
	uint64_t bytes = piece->pages * search->snapshot->abi.page_bytes;

	if (search->address - piece->address >= bytes)
		return;
	search->piece = *piece;
	search->found = true;
}

static void print_object(const struct search *search)
{
	const struct cache_view *cache =
		&search->snapshot->caches[search->piece.cache];
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t offset = search->address - search->piece.address;
	uint64_t n = size ? offset / size : 0;

	if (n >= search->piece.carved)
		printf("never used so far, in a slab of %s\n", cache->name);
	else if (cache_field(cache, SLUB_ABI_CACHE_DEBUG))
		printf("in a slab of the watched cache %s\n", cache->name);
	else
		printf("byte %" PRIu64 " of object 0x%" PRIx64 " of %s, which "
		       "is not guarded: who had it is not known\n",
		       offset - n * size, search->piece.address + n * size,
		       cache->name);
}

static void print_piece(const struct search *search)
{
	if (!search->found) {
		puts("not of libslub's heap");
		return;
	}
	switch (search->piece.kind) {
	case PIECE_SLAB:
		print_object(search);
		break;
	case PIECE_LARGE:
		printf("byte %" PRIu64 " of the large block 0x%" PRIx64
		       " of %" PRIu64 " pages\n",
		       search->address - search->piece.address,
		       search->piece.address, search->piece.pages);
		break;
	case PIECE_EMERGENCY:
		puts("in the pool for signal handlers");
		break;
	case PIECE_IDLE:
	case PIECE_FREE:
		puts("free memory of libslub's heap");
		break;
	case PIECE_UNREADABLE:
		puts("in libslub's heap, in a part that the core does not have");
	}
}

static int explain_plain(struct source *source, uint64_t address)
{
	struct snapshot snapshot;
	struct search search = { &snapshot, address, { .pages = 0 }, false };
	int status = source_snapshot(source, &snapshot);

	if (status)
		return status;
	heap_walk(&source->process, &snapshot, match, &search);
	printf("0x%" PRIx64 ": ", address);
	print_piece(&search);
	snapshot_free(&snapshot);
	return 0;
}

/* ---- arguments ---- */

static bool parse_address(const char *text, uint64_t *address)
{
	char *end;

	errno = 0;
	*address = strtoull(text, &end, 16);
	if (!errno && end != text && !*end && *text != '-')
		return true;
	complain("explain: '%s' is no address; it is a hexadecimal number, as "
		 "in 0x7f0012345678", text);
	return false;
}

/* What to explain: asked for, or what the process died of. */
static bool choose_address(const struct source *source, const char *text,
			   uint64_t *address)
{
	const struct core *core = source->process.core;

	if (text || !core || !core->signal)
		return text;
	if (core->signal != SIGSEGV && core->signal != SIGBUS) {
		printf("it died of signal %d (%s)\n", core->signal,
		       strsignal(core->signal));
		return false;
	}
	*address = core->fault;
	printf("it died of signal %d (%s) at 0x%" PRIx64 "\n", core->signal,
	       strsignal(core->signal), core->fault);
	return true;
}

static int explain_source(struct source *source, const char *text,
			  uint64_t address)
{
	struct guard guard;
	int error = guard_read(&guard, source), status = 0;

	if (error) {
		guard_free(&guard);
		complain("explain: %s: what it says of its guarded objects %s",
			 source->label, error == -EPROTO ?
			 "is of a version that this command does not know" :
			 "makes no sense");
		return STATUS_UNREADABLE;
	}
	if (!choose_address(source, text, &address)) {
		print_summary(&guard, source);
		print_errors(&guard, source);
	} else if (guard_has(&guard, address)) {
		explain_guarded(&guard, source, address);
	} else {
		status = explain_plain(source, address);
	}
	guard_free(&guard);
	return status;
}

static int explain(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct source source;
	uint64_t address = 0;
	const char *text;
	int letter = getopt_long(argc, argv, "+:h", options, NULL), status;

	if (letter == 'h') {
		print_explain_help(stdout);
		return 0;
	}
	if (letter != -1)
		return option_refused(letter, argv, options);
	if (argc - optind < 1 || argc - optind > 2) {
		complain("explain takes a PID or core file, and an address; "
			 "usage: slub explain PID|CORE [ADDRESS]");
		return STATUS_USAGE;
	}
	text = argv[optind + 1];
	if (text && !parse_address(text, &address))
		return STATUS_USAGE;
	status = source_open(&source, "explain", argv[optind]);
	if (status)
		return status;
	if (source.kind == SOURCE_STATS) {
		complain("explain: '%s' is a statistics file; it takes a "
			 "process or a core file", argv[optind]);
		return STATUS_USAGE;
	}
	status = explain_source(&source, text, address);
	source_close(&source);
	return status;
}

const struct command cmd_explain = {
	.name = "explain",
	.summary = "says what an address is, and what went wrong there",
	.print_help = print_explain_help,
	.main = explain,
};
