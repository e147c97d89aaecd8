/* SPDX-License-Identifier: MIT */
/*
 * core/page/pagemap.c and page.h: the range, the map, and the descriptors in their three layouts.
 */
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "harness.h"
#include "start.h"

namespace {

class pagemap : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		static bool started;

		if (!started)
			start::page(64ul << 20, 16ul << 20);
		started = true;
		ASSERT_EQ(pagemap_commit(16ul << 20), 0);
	}
};

TEST_F(pagemap, range_is_laid_out_as_it_says)
{
	EXPECT_EQ(heap_start % SUPERBLOCK_BYTES, 0u);
	EXPECT_EQ(heap_reserved_bytes, 64ul << 20);
	EXPECT_GT(heap_start, pagemap_base);
	EXPECT_LE(heap_start + heap_reserved_bytes, pagemap_base + range_reserved_bytes);
	/* Descriptors and links lie before the map, so it need not answer for them. */
	EXPECT_LE((uintptr_t)page_of((char *)heap_start + heap_reserved_bytes), pagemap_base);
	EXPECT_LE((uintptr_t)page_link(page_link_bias, (char *)heap_start + heap_reserved_bytes),
		  pagemap_base);
}

TEST_F(pagemap, commit_grows_and_stops_at_the_reservation)
{
	size_t before = pagemap_committed();

	EXPECT_GE(before, 16ul << 20);
	EXPECT_EQ(pagemap_commit(8ul << 20), 0);
	EXPECT_EQ(pagemap_committed(), before) << "never shrinks";
	EXPECT_LT(pagemap_commit(heap_reserved_bytes + 1), 0);
	EXPECT_EQ(pagemap_committed(), before);
}

TEST_F(pagemap, strangers_have_no_entry)
{
	int on_stack;
	static int in_data;
	void *elsewhere = malloc(10);

	for (const void *addr : std::initializer_list<const void *>{
		     nullptr, (void *)1, &on_stack, &in_data, elsewhere, (void *)UINTPTR_MAX,
		     (void *)(pagemap_base - 1), (void *)&percpu_pop, (void *)(1ul << 63),
		     (char *)heap_start + heap_reserved_bytes }) {
		EXPECT_FALSE(pagemap_covers(addr)) << addr;
		EXPECT_EQ(pagemap_get(addr), (uint32_t)MAP_NONE) << addr;
	}
	/* The library's own structures are in the range and belong to nobody. */
	EXPECT_EQ(pagemap_get((void *)pagemap_base), (uint32_t)MAP_NONE);
	EXPECT_EQ(pagemap_get((char *)heap_start - 1), (uint32_t)MAP_NONE);
	free(elsewhere);
}

TEST_F(pagemap, entries_are_of_their_pages_alone)
{
	char *at = (char *)heap_start + 5 * PAGE_BYTES;

	pagemap_set(at, 3, 4096);
	EXPECT_EQ(pagemap_get(at - 1), (uint32_t)MAP_NONE);
	for (size_t i = 0; i < 3 * PAGE_BYTES; i += 511)
		EXPECT_EQ(pagemap_get(at + i), 4096u);
	EXPECT_EQ(pagemap_get(at + 3 * PAGE_BYTES), (uint32_t)MAP_NONE);
	pagemap_set(at, 3, MAP_NONE);
	EXPECT_EQ(pagemap_get(at), (uint32_t)MAP_NONE);
	/* The largest slot there can be fits an entry. */
	pagemap_set(at, 1, AREA_BYTES - SLOT_BYTES);
	EXPECT_EQ(pagemap_get(at), (uint32_t)(AREA_BYTES - SLOT_BYTES));
	pagemap_set(at, 1, MAP_NONE);
}

TEST_F(pagemap, descriptors_and_links_are_there)
{
	struct page *last = nullptr;
	void **last_link = nullptr;

	for (size_t at = 0; at < pagemap_committed(); at += PAGE_BYTES) {
		char *addr = (char *)heap_start + at;
		struct page *page = page_of(addr);

		ASSERT_EQ(page_address(page), addr);
		ASSERT_EQ(page_of(addr + PAGE_BYTES - 1), page);
		if (last) {
			ASSERT_EQ((char *)page - (char *)last, DESCRIPTOR_BYTES);
		}
		void **link = page_link(page_link_bias, addr);

		ASSERT_EQ(link, page_link(page_link_bias, addr + PAGE_BYTES - 1));
		ASSERT_EQ(*link, nullptr);
		if (last_link) {
			ASSERT_EQ(link - last_link, 1);
		}
		*link = addr;		/* readable and writable */
		*link = nullptr;
		last_link = link;
		page->count = 1;	/* readable and writable */
		page->count = 0;
		last = page;
	}
}

/* The words of a descriptor, odd and even: none is used twice, and all lie within. */
TEST_F(pagemap, layout)
{
	for (size_t i = 0; i < 8; i++) {
		struct page *page = page_of((char *)heap_start + i * PAGE_BYTES);
		char *start = (char *)page;
		std::vector<int> users(DESCRIPTOR_BYTES);
		struct part { void *at; size_t bytes; } parts[] = {
			{ &page->flags, 4 }, { &page->count, 4 }, { &page->holes, 8 },
			{ page_state(page), 16 }, { &page->list, 16 },
		};

		if (SLUB_CONFIG_LAYOUT != 2) {
			EXPECT_EQ((uintptr_t)page_state(page) % 16, 0u)
				<< "the processor exchanges aligned double words only";
		}
		EXPECT_EQ((uintptr_t)page % 8, 0u);
		for (auto &part : parts) {
			auto offset = (size_t)((char *)part.at - start);

			ASSERT_LE(offset + part.bytes, (size_t)DESCRIPTOR_BYTES);
			for (size_t b = 0; b < part.bytes; b++)
				EXPECT_EQ(users[offset + b]++, 0) << i << " byte " << offset + b;
		}
	}
}

TEST_F(pagemap, flags_keep_their_parts_apart)
{
	struct page page = {};

	for (auto type : { TYPE_NONE, TYPE_FREE, TYPE_SLAB, TYPE_LARGE })
		for (uint32_t order = 0; order <= BLOCK_ORDER_MAX; order++)
			for (uint32_t node = 0; node < OS_NODES_MAX; node++) {
				page.flags = page_flags_make(type, order, node) | PAGE_LOCK_BIT |
					     PAGE_RUN | PAGE_DIRTY;
				EXPECT_EQ(page_type(&page), type);
				EXPECT_EQ(page_order(&page), order);
				EXPECT_EQ(page_node(&page), node);
			}
}

bool is_mapped(uintptr_t addr)
{
	return msync((void *)round_down(addr, os_page_size()), 1, MS_ASYNC) == 0;
}

/* A start that fails behind this one gives all of it back, and the next begins anew. */
TEST_F(pagemap, a_second_start_begins_anew)
{
	EXPECT_EQ(harness::in_child([] {
		const uintptr_t parts[] = { pagemap_base, heap_start, page_link_bias ?
			(uintptr_t)page_link(page_link_bias, (void *)heap_start) : 0,
			(uintptr_t)page_of((void *)heap_start), (uintptr_t)meta_alloc(8) };
		struct os_limits limits;

		for (uintptr_t part : parts)
			if (!is_mapped(part))
				_exit(1);
		pagemap_exit();
		os_places_forget();
		for (uintptr_t part : parts)
			if (is_mapped(part))
				_exit(2);
		os_limits_read(&limits);
		if (pagemap_init(&limits) || pagemap_committed() ||
		    pagemap_commit(SUPERBLOCK_BYTES))
			_exit(3);
		pagemap_set((void *)heap_start, 1, MAP_LARGE);
		_exit(pagemap_get((void *)heap_start) == MAP_LARGE ? 0 : 4);
	}), 0);
}

/* The limit as it is when the heap grows counts, and some of it is for others. */
TEST_F(pagemap, a_limit_set_later_holds)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "an emulator heeds no limit";
	EXPECT_EQ(harness::in_child([] {
		struct rlimit limit = { 48ul << 20, RLIM_INFINITY };
		size_t committed = pagemap_committed();

		/* Half of a small one. */
		setrlimit(RLIMIT_AS, &limit);
		if (pagemap_commit(26ul << 20) != -ENOMEM || pagemap_committed() != committed)
			_exit(1);
		limit.rlim_cur = RLIM_INFINITY;
		setrlimit(RLIMIT_AS, &limit);
		_exit(pagemap_commit(26ul << 20) ? 2 : 0);
	}), 0);
}

} /* namespace */
