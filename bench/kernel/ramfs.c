/* SPDX-License-Identifier: MIT */
/*
 * `dd if=/dev/zero of=bigfile` onto ramfs (2014): a file system's path of pages, in this process.
 *
 * A file is a tree of 64 pointers a node, as the page cache's is; its nodes come from a cache,
 * its pages from libslub's page layer. A write of a page looks it up and does not find it, takes
 * a page, writes what a file's page has in its descriptor (file, index, list) and puts it into the
 * tree; then it copies 4,096 zeros. Removing the file frees every page, in the order of the tree.
 * Not here: the system call, the locks of inode and tree, the kernel's accounting.
 *
 *   write       MiB a second of a new file; the heap has its memory already, as the machine has:
 *               a block as large as eight files, never touched, stands beside, and with
 *               SLUB_RETAIN=64G nothing goes back to the system
 *   path        the same without the copy: ns a page
 *   remove      ns a page
 *
 * The descriptors of the file take an 8th less where they have 56 bytes and not 64: the table is by
 * layout.
 */
#include "orig.h"

#include "core/page/page.h"

#include <slub/cache.h>

enum { SLOTS_SHIFT = 6, SLOTS = 1 << SLOTS_SHIFT, HEIGHT = 4 };

struct node {
	void *slot[SLOTS];
};

struct file {
	struct node *root;	/* HEIGHT levels: 2^24 pages, 64 GiB */
	struct list pages;
};

static struct slub_cache *nodes;
static const char zeros[4096];

static void *node_create(void)
{
	void *node = slub_cache_alloc_flags(nodes, SLUB_ALLOC_ZERO);

	if (!node)
		bench_fatal("no node");
	return node;
}

/* Where the page of @index is named; its nodes are made. */
static void **place(struct file *file, size_t index)
{
	struct node *node = file->root;

	for (int level = HEIGHT - 1; level; level--) {
		void **slot = &node->slot[index >> level * SLOTS_SHIFT & (SLOTS - 1)];

		if (!*slot)
			*slot = node_create();
		node = *slot;
	}
	return &node->slot[index & (SLOTS - 1)];
}

static void *page_add(struct file *file, void **at, size_t index)
{
	void *data = block_alloc_touched(0, 0);
	struct page *page;

	if (!data)
		bench_fatal("no page");
	page = page_of(data);
	page_state(page)->first = (uintptr_t)file;
	page_state(page)->second = index;
	list_add_tail(&file->pages, &page->list);
	*at = data;
	return data;
}

static void file_write(struct file *file, size_t pages, bool copies)
{
	for (size_t index = 0; index < pages; index++) {
		void **at = place(file, index);
		void *data = *at ? *at : page_add(file, at, index);

		if (copies)
			memcpy(data, zeros, sizeof(zeros));
		bench_escape(data);
	}
}

static void file_check(struct file *file, size_t pages)
{
	for (size_t index = 0; index < pages; index++) {
		const struct page *page = page_of(*place(file, index));

		if (page_state((struct page *)page)->second != index)
			bench_fatal("page %zu of the file is page %lu", index,
				    (unsigned long)page_state((struct page *)page)->second);
	}
}

static void node_remove(struct node *node, int level)
{
	for (int i = 0; i < SLOTS && node->slot[i]; i++) {
		if (level) {
			node_remove(node->slot[i], level - 1);
			continue;
		}
		list_remove(&page_of(node->slot[i])->list);
		block_free(node->slot[i], 0, 0);
	}
	(slub_cache_free)(nodes, node);
}

static void file_create(struct file *file)
{
	file->root = node_create();
	list_init(&file->pages);
}

static double copied(struct file *file, size_t pages, bool copies)
{
	double began = bench_seconds();

	file_write(file, pages, copies);
	return bench_seconds() - began;
}

static double removed(struct file *file)
{
	double began = bench_seconds();

	node_remove(file->root, HEIGHT - 1);
	return bench_seconds() - began;
}

int main(int argc, char **argv)
{
	struct bench_samples write = { 0 }, path = { 0 }, removal = { 0 };
	struct file file;
	void *beside;
	size_t pages;
	double mib;

	orig_begin("ramfs", argc, argv);
	mib = bench_number("mib", 2048);
	bench_options_done();
	if (mib < 1 || mib > 65536)
		bench_fatal("--mib is 1 to 65536");
	pages = (size_t)mib << 8;
	orig_bind(0);
	beside = bench_malloc(pages * 4096 * 8);
	nodes = slub_cache_create("ramfs_node", sizeof(struct node), 0, 0, NULL);
	if (!nodes)
		bench_fatal("no cache");
	/* The first round takes the memory from the system, and does not count. */
	for (unsigned int i = 0; i <= orig_rounds; i++) {
		double seconds, without, gone;

		file_create(&file);
		without = copied(&file, pages, false);
		removed(&file);
		file_create(&file);
		seconds = copied(&file, pages, true);
		file_check(&file, pages);
		gone = removed(&file);
		if (!i)
			continue;
		bench_sample(&write, mib / seconds);
		bench_sample(&path, without * 1e9 / (double)pages);
		bench_sample(&removal, gone * 1e9 / (double)pages);
	}
	mib = bench_median(&write);
	orig_line("%zu bytes (%.1f GB) copied, %.3f s, %.1f GB/s", pages * 4096,
		  (double)pages * 4096 / 1e9, (double)pages / 256 / mib, mib * BENCH_MIB / 1e9);
	orig_line("    a page: %.1f ns without the copy, %.1f ns to remove",
		  bench_median(&path), bench_median(&removal));
	bench_row("MiB/s", mib, "write");
	bench_row("ns", bench_median(&path), "path/each page");
	bench_row("ns", bench_median(&removal), "remove/each page");
	bench_row("MiB", (double)pages * sizeof(struct page) / BENCH_MIB, "descriptors");
	slub_cache_destroy(nodes);
	free(beside);
	return orig_end();
}
