/* SPDX-License-Identifier: MIT */
/* Which pages of a process have memory behind them. */
#include "resident.h"
#include "input.h"
#include "progress.h"
#include "slub.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* See proc_pid_pagemap(5). */
#define PRESENT   (1ull << 63)
#define EXCLUSIVE (1ull << 56)

static FILE *open_of_process(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return input_kernel(path);
}

/* By the kernel's own counts, which lag behind by some pages for each CPU. */
static uint64_t quick_rss(pid_t pid)
{
	FILE *file = open_of_process(pid, "statm");
	uint64_t pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The kernel adds it up page by page. */
static void read_rss(struct resident *resident, pid_t pid)
{
	FILE *file = open_of_process(pid, "smaps_rollup");
	uint64_t rss = 0, anonymous = 0, share = 0;
	char line[256];

	progress_begin("adding up RSS");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Rss: %" SCNu64 " kB", &rss) != 1 &&
		    sscanf(line, "Anonymous: %" SCNu64 " kB", &anonymous) != 1)
			sscanf(line, "Pss_Anon: %" SCNu64 " kB", &share);
	}
	progress_end();
	if (file)
		fclose(file);
	resident->rss_bytes = rss ? rss * 1024 : quick_rss(pid);
	/* A kernel before 5.4 does not say, and each number is rounded. */
	resident->shares = !anonymous || share + share / 64 + 64 < anonymous;
}

bool resident_open(struct resident *resident, pid_t pid)
{
	*resident = (struct resident){ .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE) };
	resident->pagemap = open_of_process(pid, "pagemap");
	if (resident->pagemap)
		read_rss(resident, pid);
	return resident->pagemap;
}

void resident_close(struct resident *resident)
{
	if (resident->pagemap)
		fclose(resident->pagemap);
	resident->pagemap = NULL;
}

/*
 * Has a page memory of its own?  One that was read and never written to has not: it is
 * the kernel's page of zeros, which looks like a page that a relative has too.
 */
static bool is_resident(const struct resident *resident, uint64_t word)
{
	return word & PRESENT && (word & EXCLUSIVE || resident->shares);
}

/* The word of page number @page; 0: nothing is mapped there. */
static uint64_t word_of(struct resident *resident, uint64_t page)
{
	ssize_t done;

	if (page - resident->first < resident->nr)
		return resident->words[page - resident->first];
	done = pread(fileno(resident->pagemap), resident->words, sizeof(resident->words),
		     (off_t)(page * sizeof(resident->words[0])));
	resident->first = page;
	resident->nr = done > 0 ? (size_t)done / sizeof(resident->words[0]) : 0;
	return resident->nr ? resident->words[0] : 0;
}

uint64_t resident_bytes(struct resident *resident, uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes, sum = 0;

	if (!resident->pagemap || end < address)
		return 0;
	while (address < end) {
		uint64_t page = address / resident->page_bytes;
		uint64_t next = (page + 1) * resident->page_bytes;

		/* A page of the heap may be a part of one of the system's. */
		if (is_resident(resident, word_of(resident, page)))
			sum += (next < end ? next : end) - address;
		address = next;
	}
	return sum;
}
