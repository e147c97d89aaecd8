/* SPDX-License-Identifier: MIT */
/* Writes and reads of freed memory, beyond a block, before it, and over links. */
#include "crime.h"

static volatile char seen;

static void write_bytes(char *p, int byte, size_t n)
{
	begin_wrong();
	for (size_t i = 0; i < n; i++)
		((volatile char *)p)[i] = (char)byte;
	end_wrong();
}

static void read_bytes(const char *p, size_t n)
{
	begin_wrong();
	for (size_t i = 0; i < n; i++)
		seen = ((const volatile char *)p)[i];
	end_wrong();
}

/* ---- after a free ---- */

/* Where in a block of @size a row means: from the end if below zero. */
static char *place_in(char *p, const struct row *row, size_t size)
{
	return p + (row->at < 0 ? (long)size : 0) + row->at;
}

static void write_freed(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	put(p, row->how);
	traffic(size, row->n);
	if (!innocent)
		write_bytes(place_in(p, row, size), 'w', 1);
}

static void write_freed_word(const struct row *row, size_t size)
{
	char *p = get(size);

	free(p);
	if (!innocent)
		write_bytes(p + row->at, 'w', 8);
}

static void write_freed_all(const struct row *, size_t size)
{
	char *p = get(size);

	free(p);
	if (!innocent)
		write_bytes(p, 'w', size);
}

static void write_it(void *p)
{
	write_bytes((char *)p, 'w', 4);
}

static void write_freed_in_thread(const struct row *, size_t size)
{
	char *p = get(size);

	free(p);
	if (!innocent)
		in_thread(write_it, p + size / 2);
}

static void write_moved(const struct row *row, size_t size)
{
	char *p = get(size);
	char *wall = get(size);
	char *q = hide(realloc(p, size * 20 + 5000));

	if (!innocent && p != q)
		write_bytes(p + row->at, 'w', 4);
	free(q);
	free(wall);
}

static void write_freed_beyond(const struct row *row, size_t size)
{
	char *p = get(size);

	free(p);
	if (!innocent)
		write_bytes(p + row->at, 'f', row->n);
}

static void read_freed(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	put(p, row->how);
	traffic(size, row->n);
	if (!innocent)
		read_bytes(place_in(p, row, size), 1);
}

/* ---- beyond and before ---- */

static void overflow(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	if (!innocent)
		write_bytes(p + size + row->at, 'o', row->n);
	put(p, row->how);
}

/* Exit has to find it. */
static void overflow_kept(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	if (!innocent)
		write_bytes(p + size + row->at, 'o', row->n);
}

static void overflow_of_text(const struct row *, size_t size)
{
	char *text = get(size + 1);
	char *p = get(size);

	text[size - innocent] = '\0';
	begin_wrong();
	strcpy(p, text);	/* the classic: no room for the NUL */
	end_wrong();
	free(p);
	free(text);
}

static void underflow(const struct row *row, size_t size)
{
	char *p = get(size, row->how);

	if (!innocent)
		write_bytes(p - row->at, 'u', row->n);
	put(p, row->how);
}

static void over_read(const struct row *row, size_t size)
{
	char *p = get(size);

	if (!innocent)
		read_bytes(p + size + row->at, row->n);
	free(p);
}

static void under_read(const struct row *row, size_t size)
{
	char *p = get(size);

	if (!innocent)
		read_bytes(p - row->at, row->n);
	free(p);
}

/* ---- over a link ---- */

static char planted[40000] __attribute__((aligned(4096)));

static void plant(char *at, size_t size)
{
	char *link = planted;

	/* A program that ends up there would find a link again. */
	memset(planted, 0, size);
	memcpy(at, &link, sizeof(link));
}

/* What malloc hands out next is what the program wrote. */
static void link_planted(const struct row *, size_t size)
{
	char *p = get(size), *q = get(size);

	free(p);
	free(q);
	if (innocent)
		return;
	begin_wrong();
	plant(q, size);
	end_wrong();
	for (int i = 0; i < 8; i++) {
		if (hide(malloc(size)) == planted)
			_Exit(78);
	}
}

static void link_by_overflow(const struct row *, size_t size)
{
	char *blocks[16];

	for (char *&block : blocks)
		block = get(size);
	for (int i = 1; i < 16; i += 2)
		free(blocks[i]);
	for (int i = 0; i < 16; i += 2) {
		if (!innocent)
			write_bytes(blocks[i] + size, 'o', 16);
	}
	crowd(size, 16);
	for (int i = 0; i < 16; i += 2)
		free(blocks[i]);
}

#define MALLOCS "malloc Redzone overwritten"
#define RIGHT "Right Redzone overwritten"
#define EITHER "(malloc|Right) Redzone overwritten"
#define LEFT "Left Redzone overwritten"
#define POISON "[Pp]oison overwritten"
#define LINK "Freepointer corrupt|Freechain corrupt|[Pp]oison overwritten"

static const struct row accesses[] = {
	{ "write freed", "write-freed-at-0", write_freed, every_size, 0, 0, MALLOC, POISON },
	{ "write freed", "write-freed-last", write_freed, every_size, -1, 0, MALLOC,
	  "oison overwritten" },
	{ "write freed", "write-freed-at-31", write_freed, of_64, 31, 0, MALLOC, POISON },
	{ "write freed", "write-freed-at-62", write_freed, of_64, 62, 0, MALLOC, POISON },
	{ "write freed", "write-freed-after-1", write_freed, of_64, 8, 1, MALLOC, POISON },
	{ "write freed", "write-freed-after-10", write_freed, of_64, 8, 10, MALLOC, POISON },
	{ "write freed", "write-freed-after-1000", write_freed, of_64, 8, 1000, MALLOC, POISON },
	{ "write freed", "write-freed-5000", write_freed, of_5000, 4500, 0, MALLOC, POISON },
	{ "write freed", "write-freed-word-8", write_freed_word, small_sizes + 1, 8, 0, MALLOC,
	  POISON },
	{ "write freed", "write-freed-all", write_freed_all, every_size, 0, 0, MALLOC, POISON },
	{ "write freed", "write-freed-thread", write_freed_in_thread, every_size + 2, 0, 0, MALLOC,
	  POISON },
	{ "write freed", "write-moved", write_moved, small_sizes + 2, 0, 0, MALLOC, POISON },
	{ "write freed", "write-deleted", write_freed, of_64, 20, 0, NEW, POISON },
	{ "write freed", "write-deleted-array", write_freed, of_300, 200, 0, ARRAY, POISON },
	{ "write freed", "write-freed-zone", write_freed_beyond, of_64, 64, 1, MALLOC, RIGHT },
	{ "read freed", "read-freed-at-0", read_freed, every_size, 0, 0, MALLOC, NULL },
	{ "read freed", "read-freed-last", read_freed, every_size, -1, 0, MALLOC, NULL },
	{ "read freed", "read-freed-after-1", read_freed, of_64, 8, 1, MALLOC, NULL },
	{ "read freed", "read-freed-after-10", read_freed, of_64, 8, 10, MALLOC, NULL },
	{ "read freed", "read-deleted", read_freed, of_64, 20, 0, NEW, NULL },
	{ "overflow", "overflow-by-1", overflow, every_size, 0, 1, MALLOC, EITHER },
	{ "overflow", "overflow-whole-by-1", overflow, whole_sizes, 0, 1, MALLOC, RIGHT },
	{ "overflow", "overflow-1-by-1", overflow, of_1, 0, 1, MALLOC, MALLOCS },
	{ "overflow", "overflow-by-8", overflow, every_size, 0, 8, MALLOC, EITHER },
	{ "overflow", "overflow-40-by-2", overflow, of_40, 0, 2, MALLOC, MALLOCS },
	{ "overflow", "overflow-40-by-64", overflow, of_40, 0, 64, MALLOC, EITHER },
	{ "overflow", "overflow-40-by-256", overflow, of_40, 0, 256, MALLOC, EITHER },
	{ "overflow", "overflow-40-by-1024", overflow, of_40, 0, 1024, MALLOC, EITHER },
	{ "overflow", "overflow-40-by-4096", overflow, of_40, 0, 4096, MALLOC, EITHER },
	{ "overflow", "overflow-last-of-slack", overflow, of_20, 11, 1, MALLOC, MALLOCS },
	{ "overflow", "overflow-jump-16", overflow, of_64, 16, 4, MALLOC, NULL },
	{ "overflow", "overflow-jump-32", overflow, of_64, 32, 4, MALLOC, NULL },
	{ "overflow", "overflow-jump-64", overflow, of_64, 64, 4, MALLOC, NULL },
	{ "overflow", "overflow-jump-100", overflow, of_64, 100, 4, MALLOC, NULL },
	{ "overflow", "overflow-jump-1000", overflow, of_64, 1000, 4, MALLOC, NULL },
	{ "overflow", "overflow-jump-4096", overflow, large_sizes, 4096, 4, MALLOC, NULL },
	{ "overflow", "overflow-kept-by-1", overflow_kept, every_size, 0, 1, MALLOC, EITHER },
	{ "overflow", "overflow-kept-by-16", overflow_kept, of_20, 0, 16, MALLOC, MALLOCS },
	{ "overflow", "overflow-of-text", overflow_of_text, every_size + 1, 0, 0, MALLOC, EITHER },
	{ "overflow", "overflow-calloc", overflow, of_50, 0, 1, CALLOC, MALLOCS },
	{ "overflow", "overflow-realloc", overflow, of_50, 0, 1, REALLOC, MALLOCS },
	{ "overflow", "overflow-aligned", overflow, of_256, 0, 1, ALIGNED, EITHER },
	{ "overflow", "overflow-new", overflow, of_50, 0, 4, NEW, MALLOCS },
	{ "overflow", "overflow-array", overflow, of_300, 0, 4, ARRAY, MALLOCS },
	{ "underflow", "underflow-by-1", underflow, every_size, 1, 1, MALLOC, LEFT },
	{ "underflow", "underflow-by-8", underflow, every_size, 8, 8, MALLOC, LEFT },
	{ "underflow", "underflow-by-16", underflow, of_40, 16, 16, MALLOC, LEFT },
	{ "underflow", "underflow-by-128", underflow, of_5000, 128, 128, MALLOC, LEFT },
	{ "underflow", "underflow-jump-100", underflow, of_64, 100, 4, MALLOC, NULL },
	{ "underflow", "underflow-array", underflow, of_300, 4, 4, ARRAY, LEFT },
	{ "over-read", "over-read-1", over_read, every_size, 0, 1, MALLOC, NULL },
	{ "over-read", "over-read-64", over_read, every_size, 0, 64, MALLOC, NULL },
	{ "under-read", "under-read-1", under_read, every_size, 1, 1, MALLOC, NULL },
	{ "under-read", "under-read-64", under_read, every_size, 64, 64, MALLOC, NULL },
	{ "link", "link-planted", link_planted, small_sizes, 0, 0, MALLOC, LINK },
	{ "link", "link-by-overflow", link_by_overflow, small_sizes, 0, 0, MALLOC, EITHER },
	{ "link", "link-behind-zone", write_freed_beyond, of_64, 72, 8, MALLOC,
	  "Freechain corrupt|Freepointer corrupt" },
	{}
};

static const struct rows accesses_here(accesses);
