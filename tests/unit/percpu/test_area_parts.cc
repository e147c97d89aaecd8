/* SPDX-License-Identifier: MIT */
/* core/percpu/area.c: every area has the same parts, as long as those of the others. */
#include <gtest/gtest.h>

#include <climits>
#include <map>
#include <sys/mman.h>

#include "harness.h"
#include "start.h"

namespace {

/* What the library maps until nothing more is to be had, and what it gives back. */
long maps_left = LONG_MAX;
std::map<char *, size_t> unmapped;	/* to how many bytes */

} /* namespace */

/* The linker sends the library's calls here (--wrap). */
extern "C" {

int __real_os_map_at(void *start, size_t bytes);
void __real_os_unreserve(void *start, size_t bytes);

int __wrap_os_map_at(void *start, size_t bytes)
{
	return maps_left-- <= 0 ? -ENOMEM : __real_os_map_at(start, bytes);
}

void __wrap_os_unreserve(void *start, size_t bytes)
{
	unmapped[(char *)start] = bytes;
	__real_os_unreserve(start, bytes);
}

} /* extern "C" */

namespace {

class area_parts : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::option("TEST_CPUS=128"), start::percpu(); });
	}
};

bool is_mapped(char *page)
{
	unsigned char resident;

	return mincore(page, 1, &resident) == 0;
}

int commit(size_t end, enum area_part part)
{
	lock_acquire(&area_lock);
	int err = percpu_commit(part, end);
	lock_release(&area_lock);
	return err;
}

/* All areas are as long, or none is. */
void fail_halfway(enum area_part part, size_t bytes, std::vector<char *> all)
{
	size_t from = percpu_part_end(part), to = from + bytes;

	for (size_t nr = 0; nr < all.size(); nr++) {
		std::map<char *, size_t> grown;

		for (size_t i = 0; i < nr; i++)
			grown[all[i] + from] = to - from;
		unmapped.clear();
		maps_left = (long)nr;
		EXPECT_EQ(commit(to, part), -ENOMEM) << nr;
		EXPECT_EQ(unmapped, grown) << nr;
		EXPECT_EQ(percpu_part_end(part), from);
		EXPECT_FALSE(percpu_is_committed(from));
		for (char *area : all)
			EXPECT_FALSE(is_mapped(area + from)) << nr;
	}
	maps_left = LONG_MAX;
	EXPECT_EQ(commit(to, part), 0);
	EXPECT_EQ(percpu_part_end(part), to);
	EXPECT_TRUE(percpu_is_committed(to - 1));
	for (char *area : all) {
		EXPECT_EQ(harness::first_nonzero(area + from, bytes), bytes);
		area[to - 1] = 1;
	}
	EXPECT_EQ(commit(from, part), 0) << "never less";
	EXPECT_EQ(commit(to, part), 0) << "there already";
	EXPECT_EQ(percpu_part_end(part), to);
}

TEST_F(area_parts, growth_that_fails_halfway_is_undone)
{
	if (os_page_size() > 32ul << 10)
		GTEST_SKIP() << "the system's pages are larger than a step";
	std::vector<char *> all = { percpu_shared_area() };

	for (uint32_t cid : { 30u, 31u, 32u })
		percpu_area_make(cid);
	for (uint32_t cid = 0; cid < percpu_copies_end(); cid++)
		if (percpu_copies(cid))
			all.push_back(percpu_copies(cid));
	ASSERT_GT(all.size(), 3u);
	EXPECT_EQ(harness::in_child([&] {
		fail_halfway(PART_FIRST, 32768, all);
		fail_halfway(PART_FAR, 65536, all);
		fail_halfway(PART_MORE, 65536, all);
		_exit(HasFailure());
	}), 0);
}

/* An area that is made later has every part that the others have, or is not there. */
TEST_F(area_parts, a_new_one_has_all_parts_or_none)
{
	EXPECT_EQ(harness::in_child([] {
		int failed = commit(AREA_FAR_END + 65536, PART_MORE) ||
			     commit(AREA_FAR + 65536, PART_FAR) ? 1 : 0;

		for (long left = 0; left < 3; left++) {
			maps_left = left;
			unmapped.clear();
			failed |= percpu_copies_make(60) ? 2 : 0;
			failed |= (long)unmapped.size() == left ? 0 : 4;
		}
		maps_left = LONG_MAX;
		char *area = percpu_copies_make(60);
		failed |= area ? 0 : 8;
		for (size_t at : { (size_t)AREA_FAR + 65535, (size_t)AREA_FAR_END + 65535 })
			area[at] = 1;
		failed |= percpu_committed() == AREA_FAR_END + 65536 ? 0 : 16;
		_exit(failed);
	}), 0);
}

} /* namespace */
