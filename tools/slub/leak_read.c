/* SPDX-License-Identifier: MIT */
/*
 * Memory of a process, as much as is there.  Pages that nobody touched are left out: to read one
 * would give a living process page tables for it, and there may be a tebibyte of them.
 */
#include "core.h"
#include "input.h"
#include "leak.h"
#include "slub.h"

#include <errno.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGEMAP_ENTRIES 512u
#define PAGEMAP_THERE (3ull << 62)	/* in memory, or in swap */

bool leak_copy(struct leaks *leaks, uint64_t address, void *to, size_t bytes)
{
	int error = process_read(leaks->process, address, to, bytes);

	if (error == -ESRCH)
		leaks->error = error;
	return !error;
}

size_t leak_copy_pieces(struct leaks *leaks, const struct iovec *pieces, size_t nr)
{
	struct iovec here = { leaks->buffer, LEAK_BUFFER_BYTES };
	char *to = leaks->buffer;
	ssize_t done = -1;
	size_t read = 0;

	if (!leaks->process->core)
		done = process_vm_readv(leaks->process->pid, &here, 1, pieces, nr, 0);
	/* A core, or nothing at all was there. */
	if (done < 0)
		done = 0;
	for (; read < nr; to += pieces[read++].iov_len) {
		size_t bytes = pieces[read].iov_len;

		if ((size_t)done >= bytes)
			done -= (ssize_t)bytes;
		else if (!leak_copy(leaks, (uintptr_t)pieces[read].iov_base, to, bytes))
			break;
		else
			done = 0;
	}
	return read;
}

/* All that can be read, page by page where it is not all. */
static void read_run(struct leaks *leaks, uint64_t start, uint64_t end, leak_visitor *visit)
{
	uint64_t page = 1ull << leaks->page_shift;

	while (start < end && !leaks->error) {
		size_t bytes = end - start < LEAK_BUFFER_BYTES ? (size_t)(end - start) :
								 LEAK_BUFFER_BYTES;

		if (leak_copy(leaks, start, leaks->buffer, bytes)) {
			visit(leaks, (const uint64_t *)leaks->buffer, bytes / 8);
			start += bytes;
			continue;
		}
		for (uint64_t at = start; at < start + bytes; at += page) {
			if (leak_copy(leaks, at, leaks->buffer, page))
				visit(leaks, (const uint64_t *)leaks->buffer, page / 8);
		}
		start += bytes;
	}
}

/* ---- of a living process ---- */

static FILE *pagemap_of(const struct process *process)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)process->pid);
	return input_kernel(path);
}

static void read_present(struct leaks *leaks, struct leak_range range, leak_visitor *visit, int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), entries[PAGEMAP_ENTRIES];
	uint64_t run = 0, at = range.start & -page;

	/* What is not read yet begins at @run; 0: nothing is there. */
	while (at < range.end && !leaks->error) {
		ssize_t got = pread(fd, entries, sizeof(entries), (off_t)(at / page * 8));

		if (got < 8) {
			read_run(leaks, run ? run : at, range.end, visit);
			return;
		}
		for (ssize_t i = 0; i < got / 8 && at < range.end; i++, at += page) {
			bool there = entries[i] & PAGEMAP_THERE;

			if (there && !run)
				run = at > range.start ? at : range.start;
			if (!there && run)
				read_run(leaks, run, at, visit);
			if (!there)
				run = 0;
		}
	}
	if (run)
		read_run(leaks, run, range.end, visit);
}

/* ---- of a core ---- */

static void read_core(struct leaks *leaks, struct leak_range range, leak_visitor *visit)
{
	const struct core *core = leaks->process->core;

	for (size_t i = 0; i < core->nr_segments; i++) {
		const struct core_segment *segment = &core->segments[i];
		uint64_t start = segment->start, end = segment->start + segment->file_bytes;

		if (start < range.start)
			start = range.start;
		if (end > range.end)
			end = range.end;
		if (start < end)
			read_run(leaks, start, end, visit);
	}
}

void leak_read(struct leaks *leaks, struct leak_range range, leak_visitor *visit)
{
	FILE *pagemap;

	range.start = (range.start + 7) & -8ull;
	if (leaks->process->core) {
		read_core(leaks, range, visit);
		return;
	}
	pagemap = pagemap_of(leaks->process);
	if (!pagemap) {
		read_run(leaks, range.start, range.end, visit);
		return;
	}
	read_present(leaks, range, visit, fileno(pagemap));
	fclose(pagemap);
}
