/* SPDX-License-Identifier: MIT */
/*
 * The search.  A process that runs is read twice: what was not found the first time, and is
 * allocated and not found the second time either, is a leak.  A pointer that was on its way from
 * one place to another at the one moment lies somewhere at the other.  Where the second look finds
 * less than the first the process is a busy one, and is looked at again.
 */
#include "leak.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of the heap, for what is known of objects and for edges; less beside a small one. */
#define MEMORY_SHARE 11
#define MEMORY_MIN ((uint64_t)1 << 20)
#define LOOKS_MAX 8

static int refuse_ended(const struct leaks *leaks)
{
	complain("leaks: %s ended during the search; a core file of it can be searched",
		 leaks->source->label);
	return STATUS_NO_TARGET;
}

/* Is it the program still that the search began with?  0, or an exit status after a message. */
static int look_again(struct leaks *leaks)
{
	struct slub_abi now;
	const struct slub_abi *before = &leaks->snapshot.abi;
	int error = leaks->error;

	if (leaks->process->core)
		return 0;
	if (!error)
		error = process_read(leaks->process, leaks->source->state.address, &now,
				     sizeof(now) < before->size ? sizeof(now) : before->size);
	if (error == -ESRCH)
		return refuse_ended(leaks);
	if (error || memcmp(now.magic, before->magic, sizeof(now.magic)) ||
	    now.start_ns != before->start_ns) {
		complain("leaks: %s started another program during the search; search again",
			 leaks->source->label);
		return STATUS_FAILED;
	}
	return 0;
}

/* Mappings come and go. */
static int refresh_mappings(struct leaks *leaks)
{
	struct process *process = &leaks->source->process, fresh;

	if (process->core)
		return 0;
	if (process_open(&fresh, process->pid))
		return refuse_ended(leaks);
	for (size_t i = 0; i < process->nr_mappings; i++)
		free(process->mappings[i].path);
	free(process->mappings);
	process->mappings = fresh.mappings;
	process->nr_mappings = fresh.nr_mappings;
	fresh.mappings = NULL;
	fresh.nr_mappings = 0;
	process_close(&fresh);
	/* That of the library's file was one of those. */
	leaks->source->state.file = NULL;
	return 0;
}

static void make_edges(struct leaks *leaks)
{
	uint64_t known = leaks->nr_slabs * sizeof(*leaks->slabs) +
			 leaks->nr_blocks * sizeof(*leaks->blocks) +
			 (leaks->heap_bytes >> leaks->page_shift) * sizeof(uint32_t) +
			 leaks->nr_blocks * LEAK_CHAIN_BYTES;
	uint64_t bytes = leaks->heap_used / MEMORY_SHARE;

	bytes = bytes > known + MEMORY_MIN ? bytes - known : MEMORY_MIN;
	leaks->width = 64 - (unsigned int)__builtin_clzll((uint64_t)leaks->nr_blocks *
							  LEAK_BLOCK_OBJECTS + 1);
	leaks->edges_max = bytes * 8 / leaks->width;
	if (leaks->edges_max > UINT32_MAX)
		leaks->edges_max = UINT32_MAX;
	leaks->edges = leak_reserve(bytes + 64);
	leaks->edges_bytes = bytes + 64;
}

static void free_edges(struct leaks *leaks)
{
	if (leaks->edges)
		munmap(leaks->edges, leaks->edges_bytes);
	leaks->edges = NULL;
}

static void suspects_keep(struct leaks *leaks, bool again)
{
	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		struct leak_block *block = &leaks->blocks[i];
		uint64_t open = block->allocated & ~block->marked;

		block->suspect = again ? block->suspect & open : open;
	}
}

/* All others count as reached: only what nothing led to before may be a leak. */
static void marks_set(struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->nr_blocks; i++) {
		struct leak_block *block = &leaks->blocks[i];

		block->suspect &= block->allocated;
		block->marked = block->allocated & ~block->suspect;
	}
}

#define SAMPLE_BYTES_MAX 256u

/* Of a library that says nothing of it, or no sense, the heap profile is not known. */
static void read_book(struct leaks *leaks)
{
	struct slub_abi_book *book = &leaks->book;

	if (leaks->snapshot.abi.book &&
	    !process_read(leaks->process, leaks->snapshot.abi.book, book, sizeof(*book)) &&
	    book->size >= sizeof(*book) && book->sample_bytes &&
	    book->sample_bytes <= SAMPLE_BYTES_MAX && book->site_bytes &&
	    book->site_bytes <= SAMPLE_BYTES_MAX &&
	    fields_are_sane(&book->sample_object, 1, book->sample_bytes) &&
	    fields_are_sane(&book->sample_site, 1, book->sample_bytes) &&
	    fields_are_sane(&book->site_stack, 1, book->site_bytes))
		return;
	*book = (struct slub_abi_book){ .place = 0 };
}

static int first_look(struct leaks *leaks, const struct leak_stop *stop)
{
	int status = refresh_mappings(leaks);

	if (!status)
		status = source_snapshot(leaks->source, &leaks->snapshot);
	if (status)
		return status;
	if (guard_read(&leaks->guard, leaks->source)) {
		complain("leaks: %s: what it says of its guarded objects makes no sense",
			 leaks->source->label);
		return STATUS_UNREADABLE;
	}
	read_book(leaks);
	leak_index_make(leaks, false);
	make_edges(leaks);
	leak_roots_find(leaks, stop);
	leak_mark(leaks);
	status = look_again(leaks);
	if (!status)
		suspects_keep(leaks, false);
	return status;
}

static uint64_t nr_suspects(const struct leaks *leaks)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < leaks->nr_blocks; i++)
		nr += (uint64_t)__builtin_popcountll(leaks->blocks[i].suspect);
	return nr;
}

static int look_later(struct leaks *leaks)
{
	int status = refresh_mappings(leaks);

	if (status)
		return status;
	leak_index_make(leaks, true);
	status = look_again(leaks);
	if (status)
		return status;
	marks_set(leaks);
	leak_roots_find(leaks, NULL);
	leak_mark(leaks);
	suspects_keep(leaks, true);
	return look_again(leaks);
}

/* Until two looks find the same. */
static int look_on(struct leaks *leaks, struct leak_still *still)
{
	uint64_t nr = nr_suspects(leaks), before;
	int status;

	leaks->looks = 1;
	do {
		before = nr;
		leak_still_wait(leaks, still, leaks->options.interval_ms);
		status = look_later(leaks);
		if (status)
			return status;
		leak_still_look(leaks, still);
		leaks->looks++;
		nr = nr_suspects(leaks);
	} while (nr && nr != before && leaks->looks < LOOKS_MAX);
	return 0;
}

static int look_repeatedly(struct leaks *leaks)
{
	struct leak_still *still = leak_still_open(leaks);
	int status = look_on(leaks, still);

	leak_still_close(still);
	return status;
}

static int refuse_hardened(const struct leaks *leaks)
{
	complain("leaks: %s runs on the hardened library, which hides the links of free objects: "
		 "what is free cannot be told from what leaks; run it on libslub.so, or ask "
		 "`slub watched`", leaks->source->label);
	return STATUS_FAILED;
}

static int refuse_foreign(const struct leaks *leaks)
{
	complain("leaks: %s is of another kind of machine, whose registers this command does not "
		 "know; search it there", leaks->source->label);
	return STATUS_UNREADABLE;
}

static int find_stopped(struct leaks *leaks)
{
	struct leak_stop stop;
	int status = leak_stop(leaks, &stop);

	if (status)
		return status;
	status = first_look(leaks, &stop);
	leak_go_on(leaks, &stop);
	return status;
}

int leaks_find(struct leaks *leaks, struct source *source, const struct leak_options *options)
{
	bool is_core = source->process.core;
	int status;

	*leaks = (struct leaks){ .source = source, .process = &source->process,
				 .options = *options };
	leaks->buffer = must_have(malloc(LEAK_BUFFER_BYTES + 64));
	if (!source->state.abi.cache_fields[SLUB_ABI_CACHE_LINK].bytes)
		return refuse_hardened(leaks);
	if (leak_is_foreign(leaks->process))
		return refuse_foreign(leaks);
	if (!is_core && options->stop)
		return find_stopped(leaks);
	status = first_look(leaks, NULL);
	if (!status && !is_core && nr_suspects(leaks))
		status = look_repeatedly(leaks);
	return status;
}

void leaks_free(struct leaks *leaks)
{
	leak_index_free(leaks);
	leak_roots_free(&leaks->roots);
	guard_free(&leaks->guard);
	snapshot_free(&leaks->snapshot);
	free_edges(leaks);
	free(leaks->stack);
	free(leaks->buffer);
}
