/* SPDX-License-Identifier: MIT */
/*
 * spare.c on a made slab: four pages with 16 objects of 1,024 bytes; which pages nothing keeps,
 * by the freelist, by what is not carved, and by holes.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "spare.h"

#define PAGE 4096u
#define SLAB 0x100000u
#define NR   16u

static char slab[4 * PAGE];
static uint64_t first;			/* the head of its freelist */
static struct cache_view cache;
static struct process process;
static struct snapshot now = {
	.caches = &cache, .nr_caches = 1, .process = &process,
	.abi = { .page_bytes = PAGE, .heap_start = SLAB, .descriptors = 0x9000,
		 .descriptor_stride = 64, .descriptor_state = 16, .descriptor_state_align = 16 },
};

int process_read(const struct process *of, uint64_t address, void *to, size_t bytes)
{
	EXPECT(of == &process, true);
	if (address == 0x9010 && bytes == sizeof(first)) {
		memcpy(to, &first, bytes);
		return 0;
	}
	if (address < SLAB || address + bytes > SLAB + sizeof(slab))
		return -EFAULT;
	memcpy(to, slab + (address - SLAB), bytes);
	return 0;
}

bool piece_is_hole(const struct piece *piece, uint64_t page_bytes, uint64_t n, uint64_t size)
{
	return piece->holes >> (n * size / page_bytes) & 1;
}

/* Of the last page only the first half. */
uint64_t resident_bytes(struct resident *resident, uint64_t address, uint64_t bytes)
{
	EXPECT(resident->page_bytes, PAGE);
	return address == SLAB + 3 * PAGE ? bytes / 2 : bytes;
}

/* The freelist is of these objects, in this order. */
static void make(const char *objects)
{
	uint64_t *link = &first;

	memset(slab, 0x5a, sizeof(slab));
	for (; *objects; objects++) {
		uint64_t i = (uint64_t)(strchr("0123456789abcdef", *objects) -
					"0123456789abcdef");

		*link = SLAB + i * 1024;
		link = (uint64_t *)(void *)(slab + i * 1024);
	}
	*link = 0;
	cache = (struct cache_view){ .name = "made" };
	cache.fields[SLUB_ABI_CACHE_SIZE] = 1024;
	cache.fields[SLUB_ABI_CACHE_OBJECTS] = NR;
	cache.fields[SLUB_ABI_CACHE_ORDER] = 2;
}

static uint64_t pages_with(struct piece piece, struct resident *resident)
{
	struct spare *spare = spare_new();
	uint64_t bytes;

	piece.kind = PIECE_SLAB;
	piece.address = SLAB;
	piece.pages = 4;
	bytes = spare_bytes(spare, &now, &piece, resident);
	spare_free(spare);
	return bytes;
}

static uint64_t pages(struct piece piece)
{
	return pages_with(piece, NULL) / PAGE;
}

int main(void)
{
	const struct piece whole = { .carved = NR, .inuse = 8 };
	static struct resident resident = { .page_bytes = PAGE };

	make("3210");
	EXPECT(pages(whole), 1);
	make("0145672389abcdef");
	EXPECT(pages(whole), 4);
	EXPECT(pages_with(whole, &resident), 3 * PAGE + PAGE / 2);
	make("012456789abd");
	EXPECT(pages(whole), 2);
	make("");
	EXPECT(pages(whole), 0);
	/* A list that bites its tail, or leads elsewhere, ends there. */
	make("4567");
	*(uint64_t *)(void *)(slab + 7 * 1024) = SLAB + 4 * 1024;
	EXPECT(pages(whole), 1);
	*(uint64_t *)(void *)(slab + 5 * 1024) = SLAB + 6 * 1024 + 8;
	EXPECT(pages(whole), 0);
	/* With a hole in page 1 twelve are counted, and the last four are carved all the same. */
	make("0123");
	EXPECT(pages((struct piece){ .carved = 12, .inuse = 8, .holes = 1 << 1 }), 1);
	/* Without one these are to be carved, and the library leaves such a slab alone. */
	EXPECT(pages((struct piece){ .carved = 12, .inuse = 8 }), 0);
	EXPECT(pages((struct piece){ .carved = NR, .inuse = 8, .frozen = true }), 0);
	/* Caches whose free objects have to stay as they are. */
	cache.fields[SLUB_ABI_CACHE_CTOR] = 1;
	EXPECT(pages(whole), 0);
	make("0123");
	cache.fields[SLUB_ABI_CACHE_DEBUG] = 1;
	EXPECT(pages(whole), 0);
	make("0123");
	cache.fields[SLUB_ABI_CACHE_FLAGS] = SLUB_ABI_FLAG_TYPESAFE_BY_RCU;
	EXPECT(pages(whole), 0);
	make("0123");
	cache.fields[SLUB_ABI_CACHE_ORDER] = 7;
	EXPECT(pages(whole), 0);
	cache.fields[SLUB_ABI_CACHE_ORDER] = 0;
	EXPECT(pages(whole), 0);
	make("0123");
	cache.fields[SLUB_ABI_CACHE_OBJECTS] = NR + 1;	/* more than it has room for */
	EXPECT(pages(whole), 0);
	return failures != 0;
}
