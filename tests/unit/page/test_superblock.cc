/* SPDX-License-Identifier: MIT */
/* core/page/superblock.c: first fit, growth and purging, against a list of who has what. */
#include <gtest/gtest.h>

#include <sys/mman.h>

#include "giving.h"
#include "start.h"
#include "walk.h"

namespace {

const size_t nr_reserved = 150;	/* several words of a map */

enum state { CLEAN, DIRTY, USED };

struct run {
	size_t first, n;
};

class superblock : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(nr_reserved * SUPERBLOCK_BYTES, 1ul << 40); });
	}
	/* Other tests of this program have left everything free; purge it. */
	void SetUp() override
	{
		purge_superblocks(0);
		states.assign(nr_reserved, CLEAN);
		ASSERT_EQ(superblock_nr_used(), 0u);
		ASSERT_EQ(superblock_nr_dirty(), 0u);
	}
	void TearDown() override
	{
		while (!runs.empty())
			release(runs.size() - 1, true);
		expect_counts();
	}
	static char *address(size_t index)
	{
		return (char *)heap_start + index * SUPERBLOCK_BYTES;
	}
	static void **link(size_t index)
	{
		return page_link(page_link_bias, address(index));
	}
	/* The lowest place where @n of them fit; nr_reserved: none. */
	size_t first_fit(size_t n, size_t align)
	{
		for (size_t i = 0; i + n <= nr_reserved; i++) {
			size_t length = 0;

			if ((uintptr_t)address(i) / SUPERBLOCK_BYTES % align)
				continue;
			while (length < n && states[i + length] != USED)
				length++;
			if (length == n)
				return i;
		}
		return nr_reserved;
	}
	void use(size_t first, size_t n, bool write)
	{
		for (size_t i = first; i < first + n; i++) {
			states[i] = USED;
			for (size_t page = 0; write && page < SUPERBLOCK_PAGES; page += 64)
				address(i)[page * PAGE_BYTES] = 1;
		}
	}
	bool alloc(size_t n, size_t align)
	{
		size_t want = first_fit(n, align);
		bool is_zero = false, all_clean = true;
		char *got = superblock_alloc(n, align, 0, false, &is_zero);

		if (want == nr_reserved) {
			EXPECT_EQ(got, nullptr) << n << " aligned to " << align;
			return false;
		}
		EXPECT_EQ(got, address(want)) << n << " aligned to " << align;
		if (got != address(want))
			return false;
		for (size_t i = want; i < want + n; i++)
			all_clean = all_clean && states[i] == CLEAN;
		EXPECT_EQ(is_zero, all_clean);
		for (size_t page = 0; is_zero && page < n * SUPERBLOCK_PAGES; page += 64)
			EXPECT_EQ(got[page * PAGE_BYTES], 0);
		use(want, n, true);
		runs.push_back({ want, n });
		return true;
	}
	void release(size_t at, bool dirty)
	{
		struct run run = runs[at];

		runs[at] = runs.back();
		runs.pop_back();
		if (!dirty)
			os_purge(address(run.first), run.n * SUPERBLOCK_BYTES);
		superblock_free(address(run.first), run.n, dirty);
		for (size_t i = run.first; i < run.first + run.n; i++)
			states[i] = dirty ? DIRTY : CLEAN;
	}
	void expect_counts()
	{
		size_t dirty = 0, used = 0;

		for (enum state state : states) {
			dirty += state == DIRTY;
			used += state == USED;
		}
		EXPECT_EQ(superblock_nr_dirty(), dirty * SUPERBLOCK_PAGES);
		EXPECT_EQ(superblock_nr_used(), used);
		EXPECT_EQ(page_nr_dirty(), dirty * SUPERBLOCK_PAGES);
	}
	std::vector<enum state> states;
	std::vector<run> runs;
};

TEST_F(superblock, lowest_hole_that_fits)
{
	for (size_t n : { 1, 2, 3, 1, 4, 1 })
		ASSERT_TRUE(alloc(n, 1));
	/* Holes of 2 at 1 and of 4 at 7. */
	release(1, true);
	for (size_t i = 0; i < runs.size(); i++)
		if (runs[i].first == 7)
			release(i, false);
	expect_counts();
	ASSERT_TRUE(alloc(3, 1));
	EXPECT_EQ(runs.back().first, 7u);
	ASSERT_TRUE(alloc(1, 1));
	EXPECT_EQ(runs.back().first, 1u);
}

TEST_F(superblock, alignment)
{
	for (size_t align : { 1, 2, 4, 8, 16 }) {
		ASSERT_TRUE(alloc(1, 1));
		ASSERT_TRUE(alloc(2, align)) << align;
		EXPECT_EQ((uintptr_t)address(runs.back().first) % (align * SUPERBLOCK_BYTES), 0u);
	}
}

TEST_F(superblock, extends_in_place_where_it_is_free)
{
	ASSERT_TRUE(alloc(2, 1));
	ASSERT_TRUE(alloc(1, 1));
	ASSERT_TRUE(alloc(1, 1));
	release(1, true);
	/* One is free behind the first run, then comes a used one. */
	EXPECT_FALSE(superblock_extend(address(0), 2, 2));
	expect_counts();
	EXPECT_TRUE(superblock_extend(address(0), 2, 1));
	states[2] = USED;
	runs[0].n = 3;
	expect_counts();
	EXPECT_FALSE(superblock_extend(address(0), 3, 1));
	/* At the end of the heap it grows, until the reservation ends. */
	ASSERT_EQ(runs[1].first, 3u);
	EXPECT_TRUE(superblock_extend(address(3), 1, nr_reserved - 4));
	use(3, nr_reserved - 3, false);
	runs[1].n = nr_reserved - 3;
	EXPECT_FALSE(superblock_extend(address(3), nr_reserved - 3, 1));
	expect_counts();
}

TEST_F(superblock, more_than_there_is)
{
	EXPECT_FALSE(alloc(nr_reserved + 1, 1));
	EXPECT_FALSE(alloc(SIZE_MAX / SUPERBLOCK_BYTES, 1));
	ASSERT_TRUE(alloc(nr_reserved, 1));
	EXPECT_FALSE(alloc(1, 1));
	release(0, false);
	EXPECT_TRUE(alloc(1, 1));
}

TEST_F(superblock, purge_gives_back_the_highest_and_no_more_than_asked_for)
{
	for (int i = 0; i < 12; i++)
		ASSERT_TRUE(alloc(1, 1));
	/* Every other one is free: each is a run of its own. */
	for (size_t first : { 0, 2, 4, 6, 8, 10 })
		for (size_t i = 0; i < runs.size(); i++)
			if (runs[i].first == first)
				release(i, true);
	purge_superblocks(2 * SUPERBLOCK_PAGES);
	for (size_t first : { 4, 6, 8, 10 }) {
		states[first] = CLEAN;
		EXPECT_EQ(resident_pages(address(first), SUPERBLOCK_BYTES), 0u);
	}
	expect_counts();
	EXPECT_GT(resident_pages(address(0), SUPERBLOCK_BYTES), 0u);
	EXPECT_GT(resident_pages(address(1), SUPERBLOCK_BYTES), 0u) << "this one is in use";
	purge_superblocks(0);
	states[0] = states[2] = CLEAN;
	expect_counts();
}

TEST_F(superblock, random_operations)
{
	harness::Random random(5);

	for (int i = 0; i < 4000; i++) {
		switch (random.below(8)) {
		case 0: case 1: case 2:
			alloc(random.below(6) + 1, (size_t)1 << random.below(3));
			break;
		case 3: case 4: case 5:
			if (!runs.empty())
				release(random.below(runs.size()), random.below(4) != 0);
			break;
		case 6: {
			if (runs.empty())
				break;
			struct run &run = runs[random.below(runs.size())];
			size_t more = random.below(3) + 1, end = run.first + run.n, i = 0;

			while (i < more && end + i < nr_reserved && states[end + i] != USED)
				i++;
			ASSERT_EQ(superblock_extend(address(run.first), run.n, more), i == more);
			if (i == more) {
				use(end, more, true);
				run.n += more;
			}
			break;
		}
		case 7:
			if (random.below(10))
				break;
			purge_superblocks(0);
			purge_descriptors();
			for (enum state &state : states)
				state = state == DIRTY ? CLEAN : state;
			break;
		}
		expect_counts();
		ASSERT_FALSE(HasFailure()) << "operation " << i;
	}
}

static size_t nr_resident(const void *start, size_t pages)
{
	std::vector<unsigned char> there(pages);
	size_t nr = 0;

	EXPECT_EQ(mincore((void *)start, pages * PAGE_BYTES, there.data()), 0);
	for (unsigned char page : there)
		nr += page & 1;
	return nr;
}

/* 512 descriptors are seven or eight pages. */
TEST_F(superblock, descriptors_of_clean_superblocks_go_back)
{
	const size_t pages = SUPERBLOCK_PAGES * sizeof(struct page) / PAGE_BYTES;

	if (os_page_size() != PAGE_BYTES)
		GTEST_SKIP() << "the system's pages are larger";
	ASSERT_TRUE(alloc(1, 1));
	ASSERT_TRUE(alloc(2, 1));
	for (size_t i = 0; i < 3 * SUPERBLOCK_PAGES; i++)
		page_flags_write(page_of(address(0)) + i, 1u << 16);
	for (size_t i = 0; i < 3; i++)
		*link(i) = address(i);
	release(1, true);
	purge_descriptors();
	EXPECT_EQ(nr_resident(page_of(address(1)), 2 * pages), 2 * pages) << "they are dirty";
	purge_superblocks(0);
	for (enum state &state : states)
		state = state == DIRTY ? CLEAN : state;
	purge_descriptors();
	EXPECT_EQ(nr_resident(page_of(address(0)), pages), pages) << "it is in use";
	EXPECT_EQ(*link(0), address(0));
	EXPECT_EQ(nr_resident(link(1), 2), 0u) << "a page of links for each superblock";
	EXPECT_EQ(nr_resident(page_of(address(1)), 2 * pages), 0u);
	EXPECT_EQ(page_flags_read(page_of(address(1))), 0u);
	EXPECT_EQ(page_flags_read(page_of(address(0))), 1u << 16);
	page_flags_write(page_of(address(0)), 0);
	*link(0) = nullptr;
	ASSERT_TRUE(alloc(2, 1)) << "they serve as before";
	expect_counts();
}

} /* namespace */
