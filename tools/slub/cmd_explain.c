/* SPDX-License-Identifier: MIT */
/*
 * slub explain: what an address is, and if it is of a guarded object (option
 * guard), what went wrong there: read from a core, or from a process that lives
 * or was stopped.
 */
#include "core.h"
#include "explain.h"
#include "slub.h"
#include "symbols.h"
#include "view.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA 1	/* of the JSON; a change of meaning makes it 2 */

const char *const guard_errors[GUARD_ERRORS] = {
	"freed twice", "freed by a pointer into it", "bytes beside it written",
	"freed to another cache", "freed with another size",
	"freed by another kind of call", "asked about where it is none",
};

static void print_explain_help(FILE *to)
{
	fputs("usage: slub explain [OPTION...] PID|CORE [ADDRESS]\n\n"
	      "Says what lies at ADDRESS (hexadecimal): which object, and what\n"
	      "allocated and freed it, if it lies between guard pages\n"
	      "(SLUB_GUARD=N) or letter U watches it (`slub debug`); else which\n"
	      "cache or block.  For a core file the default is the address at\n"
	      "which the process died, with the instruction and the stack, or\n"
	      "what the library ended it for.  For a process the default is all\n"
	      "that was found so far.\n\n"
	      "  slub explain core.1234\n\n"
	      "  -p, --process=TARGET   the process, or its core file\n"
	      "  -j, --json             print one JSON object\n"
	      "  -h, --help             print this\n", to);
	print_statuses(to);
}

/* ---- guarded objects ---- */

static void print_track(const struct guard *guard, const struct source *source,
			const char *what, const struct track *track)
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
	symbols_print(&source->process, frames, nr, STACK_OF_CALLS);
}

static void print_place(const struct guard *guard, const struct source *source,
			const struct guard_place *place)
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

static void print_found(const struct guard *guard, const struct source *source,
			const struct guard_place *place)
{
	printf("0x%" PRIx64 " of %" PRIu64 " bytes (%s):", place->object,
	       place->bytes, place->name);
	for (int i = 0; i < GUARD_ERRORS; i++) {
		if (place->errors & 1u << i)
			printf(" %s", guard_errors[i]);
	}
	putchar('\n');
	print_place(guard, source, place);
}

static void print_errors(const struct guard *guard,
			 const struct source *source)
{
	for (; guard; guard = guard->next) {
		uint32_t nr = guard->places ? guard->pool.nr_places : 0;

		for (uint32_t n = 0; n < nr; n++) {
			if (guard->places[n].errors)
				print_found(guard, source, &guard->places[n]);
		}
	}
}

/* What was found there at frees, and what there was no place for. */
struct guard_sums guard_sums(const struct guard *guard)
{
	struct guard_sums sums = { 0, 0 };

	for (; guard; guard = guard->next) {
		sums.lost += guard->pool.bytes ? guard->pool.lost : 0;
		sums.errors += guard->pool.bytes ? guard->pool.errors : 0;
	}
	return sums;
}

void guard_count(const struct guard *guard, uint64_t counts[GUARD_STATES])
{
	memset(counts, 0, GUARD_STATES * sizeof(*counts));
	for (; guard; guard = guard->next) {
		uint32_t nr = guard->places ? guard->pool.nr_places : 0;

		for (uint32_t n = 0; n < nr; n++) {
			uint32_t state = guard->places[n].state;

			if (state == GUARD_WAITING)
				state = GUARD_FREED;
			counts[state % GUARD_STATES]++;
		}
	}
}

static void print_summary(const struct guard *guard,
			  const struct source *source)
{
	struct guard_sums sums = guard_sums(guard);
	uint64_t counts[GUARD_STATES];

	if (!guard->pool.bytes) {
		printf("%s guards no objects; SLUB_GUARD=N guards one in N\n",
		       source->label);
		return;
	}
	guard_count(guard, counts);
	printf("%s guards ", source->label);
	if (guard->pool.every)
		printf("one object in %" PRIu64, guard->pool.every);
	else
		printf("no object by chance");
	printf(": %" PRIu64 " are allocated, %" PRIu64 " freed and kept, %" PRIu64
	       " found no place; %" PRIu64 " errors at frees\n",
	       counts[GUARD_LIVE],
	       counts[GUARD_FREED], sums.lost, sums.errors);
}

/* ---- the rest of the heap ---- */

static void match(const struct piece *piece, void *arg)
{
	struct search *search = arg;
	uint64_t bytes = piece->pages * search->snapshot->abi.page_bytes;

	if (search->address - piece->address >= bytes)
		return;
	search->piece = *piece;
	search->found = true;
}

/* Where a slab has holes, `carved` is a sum and says nothing of a place. */
static enum object_kind kind_of(const struct search *search,
				const struct cache_view *cache, uint64_t n)
{
	const struct piece *piece = &search->piece;

	if (cache_field(cache, SLUB_ABI_CACHE_DEBUG))
		return OBJECT_WATCHED;
	if (n >= cache_field(cache, SLUB_ABI_CACHE_OBJECTS))
		return OBJECT_BEHIND;
	if (!piece->holes)
		return n < piece->carved ? OBJECT_USED : OBJECT_NEVER_USED;
	return piece_is_hole(piece, search->snapshot->abi.page_bytes, n,
			     cache_field(cache, SLUB_ABI_CACHE_SIZE)) ?
		       OBJECT_HOLE : OBJECT_USED;
}

struct search_object search_object(const struct search *search)
{
	const struct cache_view *cache =
		&search->snapshot->caches[search->piece.cache];
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_SIZE);
	uint64_t offset = search->address - search->piece.address;
	uint64_t n = size ? offset / size : 0;

	return (struct search_object){
		cache, search->piece.address + n * size, offset - n * size,
		kind_of(search, cache, n),
	};
}

static void print_object(const struct search *search)
{
	static const char *const words[] = {
		[OBJECT_WATCHED] = "in a slab of the watched cache",
		[OBJECT_NEVER_USED] = "never used so far, in a slab of",
		[OBJECT_HOLE] = "free, and without memory, in a slab of",
		[OBJECT_BEHIND] = "behind the last object of a slab of",
	};
	struct search_object object = search_object(search);

	if (object.kind == OBJECT_WATCHED && print_watched(search))
		return;
	if (object.kind == OBJECT_USED)
		printf("byte %" PRIu64 " of object 0x%" PRIx64 " of %s, which "
		       "is not guarded: what allocated it was not recorded\n",
		       object.offset, object.address, object.cache->name);
	else
		printf("%s %s\n", words[object.kind], object.cache->name);
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
	case PIECE_IDLE:
	case PIECE_FREE:
		puts("free memory of libslub's heap");
		break;
	case PIECE_UNREADABLE:
		puts("in libslub's heap, in a part that the core does not have");
	}
}

static int explain_plain(struct source *source, const struct guard *guard,
			 uint64_t address, struct json *json)
{
	struct snapshot snapshot;
	struct search search = { .snapshot = &snapshot, .address = address };
	int status = source_snapshot(source, &snapshot);

	if (status)
		return status;
	if (guard->pool.bytes)
		search.clock_offset_ns = guard->pool.clock_offset_ns;
	else if (!source->process.core)
		search.clock_offset_ns = clock_offset_now();
	heap_walk(&source->process, &snapshot, match, &search);
	if (json) {
		json_address(json, "address", address);
		put_piece(json, &search);
	} else {
		printf("0x%" PRIx64 ": ", address);
		print_piece(&search);
	}
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
	complain("explain: '%s' is not an address; addresses are hexadecimal numbers, as "
		 "in 0x7f0012345678", text);
	return false;
}

/* What the process died of, if it is known. */
static int signal_of(const struct source *source)
{
	const struct core *core = source->process.core;

	return core ? core->signal : 0;
}

/* What to explain: asked for, or what the process died of. */
static bool choose_address(const struct source *source, const char *text,
			   uint64_t *address)
{
	int signal = signal_of(source);

	if (text)
		return true;
	if (!signal || !source->process.core->has_fault)
		return false;
	*address = source->process.core->fault;
	return true;
}

static void print_signal(const struct source *source, const uint64_t *address)
{
	int signal = signal_of(source);
	struct core_stack stack;

	if (!signal)
		return;
	printf("it died of signal %d (%s)", signal, strsignal(signal));
	if (address)
		printf(" at 0x%" PRIx64, *address);
	else if (source->process.core->has_no_address)
		printf(" at an address that no memory can have: a pointer was overwritten, or "
		       "read from freed memory");
	putchar('\n');
	core_stack_read(&stack, &source->process);
	if (!stack.nr)
		return;
	printf("%s thread %d\n", address ? "accessed by" : "died in",
	       (int)source->process.core->thread.id);
	symbols_print(&source->process, stack.frames, stack.nr, STACK_INTERRUPTED);
	if (!stack.is_whole)
		puts("\t... (its callers are not known)");
	print_missing(&source->process, stack.frames, stack.nr);
}

/* What a user does next who has a core and no culprit. */
static void print_next(const struct source *source, const struct guard *guard, bool by_library)
{
	if (!signal_of(source) || guard->pool.bytes)
		return;
	if (by_library)
		puts("to find the cause: `slub run --guard=1 -- PROGRAM`, or SLUB_DEBUG=FZPU, "
		     "names who allocated and freed the block; then explain that core");
	else
		puts("to find the cause: `slub run --guard=1 -- PROGRAM` dies where memory is "
		     "misused; then explain that core");
}

static int explain_text(struct source *source, const struct guard *guard,
			const char *text, uint64_t address)
{
	bool has_address = choose_address(source, text, &address), by_library = false;
	struct misuse_last misuse;

	if (!text)
		print_signal(source, has_address ? &address : NULL);
	if (!text && misuse_read(&misuse, source)) {
		print_misuse(&misuse, source);
		by_library = misuse_was_the_end(&misuse, source);
		/* What its guard found there is told as it was found. */
		if (!has_address && by_library && !guard_of(guard, misuse.address)) {
			address = misuse.address;
			has_address = true;
		}
	}
	if (has_address && !guard_of(guard, address)) {
		int status = explain_plain(source, guard, address, NULL);

		if (!status && !text)
			print_next(source, guard, by_library);
		return status;
	}
	if (has_address) {
		explain_guarded(guard_of(guard, address), source, address);
	} else {
		print_summary(guard, source);
		print_errors(guard, source);
		print_next(source, guard, by_library);
	}
	return 0;
}

static int explain_json(struct source *source, const struct guard *guard,
			const char *text, uint64_t address)
{
	bool has_address = choose_address(source, text, &address);
	struct misuse_last misuse;
	char *printed = NULL;
	size_t length;
	struct json json = { .to = must_have(open_memstream(&printed, &length)) };
	int status = 0;

	json_open(&json, NULL);
	json_string(&json, "kind", "explain");
	json_number(&json, "schema", SCHEMA);
	json_number(&json, "pid", (uint64_t)source->process.pid);
	if (signal_of(source)) {
		json_number(&json, "signal", (uint64_t)signal_of(source));
		put_death(&json, source);
	}
	if (!text && misuse_read(&misuse, source))
		put_misuse(&json, &misuse, source);
	if (has_address && !guard_of(guard, address)) {
		status = explain_plain(source, guard, address, &json);
	} else if (has_address) {
		json_address(&json, "address", address);
		put_guarded(&json, guard_of(guard, address), source, address);
	} else {
		put_found(&json, guard, source);
	}
	json_close(&json);
	fclose(json.to);
	if (!status)
		fputs(printed, stdout);
	free(printed);
	return status;
}

static int explain_source(struct source *source, const char *text,
			  uint64_t address, bool json)
{
	struct guard guard;
	int error = guard_read(&guard, source), status;

	if (error) {
		if (error == -EPROTO)
			complain_version_of("explain", source->label,
					    source->state.abi.library_version,
					    "its guarded objects",
					    guard.pool.version,
					    GUARD_VERSION);
		else
			complain("explain: %s: what it says of its guarded "
				 "objects makes no sense", source->label);
		guard_free(&guard);
		return STATUS_UNREADABLE;
	}
	status = (json ? explain_json : explain_text)(source, &guard, text,
						      address);
	guard_free(&guard);
	return status;
}

struct arguments {
	bool help;
	bool json;
	const char *target;
	const char *text;		/* the address, NULL: none */
	uint64_t address;
};

/* 0, or an exit status after a message. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{ "process", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int letter;

	while ((letter = getopt_long(argc, argv, ":p:jh", options,
				     NULL)) != -1) {
		if (letter == 'p')
			arguments->target = optarg;
		else if (letter == 'j')
			arguments->json = true;
		else if (letter != 'h')
			return option_refused(letter, argv, options);
		arguments->help |= letter == 'h';
	}
	if (arguments->help)
		return 0;
	if (!arguments->target && optind < argc)
		arguments->target = argv[optind++];
	if (!arguments->target || argc - optind > 1) {
		complain("explain takes a PID or core file, and an address; "
			 "usage: slub explain PID|CORE [ADDRESS]");
		return STATUS_USAGE;
	}
	arguments->text = argv[optind];
	return !arguments->text ||
	       parse_address(arguments->text, &arguments->address) ?
	       0 : STATUS_USAGE;
}

/* "0x4a... 1234": says how it would be. */
static bool is_reversed(const struct arguments *arguments)
{
	const char *target = arguments->target;

	if (!arguments->text || strncmp(target, "0x", 2) || !access(target, F_OK))
		return false;
	complain("explain: the process comes before the address; usage: slub explain %.40s %.40s",
		 arguments->text, target);
	return true;
}

static int explain(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct source source;
	int status = parse(argc, argv, &arguments);

	if (status)
		return status;
	if (arguments.help) {
		print_explain_help(stdout);
		return 0;
	}
	if (is_reversed(&arguments))
		return STATUS_USAGE;
	status = source_open(&source, "explain", arguments.target);
	if (status)
		return status;
	if (source.kind == SOURCE_STATS) {
		struct snapshot now;

		/* Anything that is no core file is taken for one until it is read. */
		status = source_snapshot(&source, &now);
		if (status)
			return status;
		snapshot_free(&now);
		complain("explain: '%s' is a statistics file; it takes a "
			 "process or a core file", arguments.target);
		return STATUS_USAGE;
	}
	status = explain_source(&source, arguments.text, arguments.address,
				arguments.json);
	source_close(&source);
	return status;
}

const struct command cmd_explain = {
	.name = "explain",
	.summary = "says what an address is, and what went wrong there",
	.print_help = print_explain_help,
	.main = explain,
};
