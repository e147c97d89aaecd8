/* SPDX-License-Identifier: MIT */
/* core/page/superblock.c: the heap grows while others take and free what is there. */
#include <atomic>
#include <cerrno>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

#include "start.h"
#include "walk.h"

namespace {

const size_t nr_reserved = 100;
thread_local std::function<bool()> at_map;	/* false: the kernel refuses it */

} /* namespace */

/* os_map_at() and os_map_closed_at() of this program, by the linker's --wrap. */
extern "C" {

int __real_os_map_at(void *start, size_t bytes);
int __real_os_map_closed_at(void *start, size_t bytes);

int __wrap_os_map_at(void *start, size_t bytes)
{
	return at_map && !at_map() ? -ENOMEM : __real_os_map_at(start, bytes);
}

int __wrap_os_map_closed_at(void *start, size_t bytes)
{
	return at_map && !at_map() ? -ENOMEM : __real_os_map_closed_at(start, bytes);
}

}

namespace {

char *take_one(bool may_grow)
{
	size_t nr_clean;

	char *start = superblock_take(1, 1, 0, false, may_grow, &nr_clean);

	return start && heap_open(start + SUPERBLOCK_BYTES) ? start : nullptr;
}

/* @what in another thread; false: it has not ended after ten seconds. */
bool ends_meanwhile(const std::function<void()> &what)
{
	auto done = std::make_shared<std::atomic<bool>>(false);
	std::thread other([done, what] {
		percpu_enter();
		what();
		*done = true;
	});

	for (int i = 0; i < 10000 && !*done; i++)
		usleep(1000);
	if (*done)
		other.join();
	else
		other.detach();
	return *done;
}

class growth : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(nr_reserved * SUPERBLOCK_BYTES, 1ul << 40); });
	}
	void SetUp() override
	{
		at_map = nullptr;
		ASSERT_EQ(superblock_nr_used(), 0u);
	}
	/* All that the heap has by now, without growing. */
	std::vector<char *> take_all()
	{
		std::vector<char *> all;

		while (char *one = take_one(false))
			all.push_back(one);
		return all;
	}
	void give(const std::vector<char *> &all)
	{
		for (char *one : all)
			superblock_free(one, 1, false);
	}
};

/* The first test: the heap has to grow. */
TEST_F(growth, what_is_there_can_be_had_while_more_is_mapped)
{
	std::vector<char *> all;
	int nr_calls = 0;
	char *one;

	all.push_back(take_one(true));
	auto rest = take_all();
	all.insert(all.end(), rest.begin(), rest.end());
	at_map = [&] {
		nr_calls++;
		EXPECT_TRUE(ends_meanwhile([&] {
			superblock_free(all[0], 1, false);
			EXPECT_EQ(take_one(false), all[0]);
			EXPECT_EQ(take_one(false), nullptr) << "what is not published is nobody's";
		})) << "growth holds up who asks for nothing new";
		return true;
	};
	one = take_one(true);
	at_map = nullptr;
	ASSERT_NE(one, nullptr);
	EXPECT_GT(nr_calls, 0);
	EXPECT_EQ(superblock_nr_used(), all.size() + 1);
	all.push_back(one);
	give(all);
}

TEST_F(growth, another_may_be_quicker)
{
	auto all = take_all();
	std::vector<char *> others;
	char *one;

	/* Another thread takes all that comes, once. */
	at_map = [&] {
		at_map = nullptr;
		return true;
	};
	std::thread other([&] {
		percpu_enter();
		for (int i = 0; i < 20; i++)
			others.push_back(take_one(true));
	});
	one = take_one(true);
	other.join();
	std::set<char *> distinct(others.begin(), others.end());
	distinct.insert(one);
	EXPECT_EQ(distinct.size(), 21u);
	EXPECT_EQ(distinct.count(nullptr), 0u);
	others.push_back(one);
	give(others);
	give(all);
}

TEST_F(growth, a_refusal_leaves_the_heap_as_it_was)
{
	auto all = take_all();
	size_t before = pagemap_committed();

	at_map = [] { return false; };
	EXPECT_EQ(take_one(true), nullptr);
	at_map = nullptr;
	EXPECT_EQ(pagemap_committed(), before);
	EXPECT_EQ(superblock_nr_used(), all.size());
	/* Each of its calls in turn. */
	for (int fails = 0; fails < 4; fails++) {
		int nr = 0;

		at_map = [&] { return nr++ != fails; };
		char *one = take_one(true);
		at_map = nullptr;
		if (one) {
			memset(one, 1, SUPERBLOCK_BYTES);
			page_of(one)->count = 1;
			all.push_back(one);
		}
	}
	char *one = take_one(true);
	ASSERT_NE(one, nullptr);
	memset(one, 1, SUPERBLOCK_BYTES);
	all.push_back(one);
	give(all);
}

/* To the end, by four threads: each superblock has one owner, and none is lost. */
TEST_F(growth, threads)
{
	std::vector<std::vector<char *>> mine(4);
	std::vector<std::thread> threads;
	std::set<char *> distinct;

	for (auto &list : mine)
		threads.emplace_back([&list] {
			percpu_enter();
			for (int i = 0; char *one = take_one(true); i++) {
				list.push_back(one);
				if (i > 90 || i % 3)
					continue;
				superblock_free(list.back(), 1, false);
				list.pop_back();
			}
		});
	for (auto &thread : threads)
		thread.join();
	for (auto &list : mine)
		distinct.insert(list.begin(), list.end());
	EXPECT_EQ(distinct.size(), superblock_nr_used());
	for (char *one : take_all())
		distinct.insert(one);
	EXPECT_EQ(distinct.size(), nr_reserved);
	for (char *one : distinct)
		superblock_free(one, 1, false);
}

} /* namespace */
