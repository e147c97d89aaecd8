/* SPDX-License-Identifier: MIT */
/*
 * features/groups/handler.c, kept.c: who waits for whom, how often lists are emptied, and whom
 * nobody may wait for.  The clock of the latter is the test's own.
 */
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

static std::vector<uint64_t> *times;	/* one for each look at the clock */

extern "C" uint64_t __real_os_clock_read_ns(int clock);

/* The linker sends the library's calls here (--wrap). */
extern "C" uint64_t __wrap_os_clock_read_ns(int clock)
{
	if (!times || times->empty())
		return __real_os_clock_read_ns(clock);
	uint64_t now = times->front();
	times->erase(times->begin());
	return now;
}

namespace {

unsigned nr_here, nr_all;
bool is_there_none;

const struct kept_charges keeper = {
	[](bool all) { all ? nr_all++ : nr_here++; },
	[] { return is_there_none; },
};

std::atomic<int> nr_asked;

bool handler(struct slub_group *, size_t, void *) noexcept
{
	nr_asked++;
	return true;
}

class Waits : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::percpu();
		times = new std::vector<uint64_t>;
	}
	void SetUp() override
	{
		group = slub_group_create("group", nullptr);
		ASSERT_NE(group, nullptr);
		nr_asked = 0;
	}
	void TearDown() override
	{
		times->clear();
		group_set_kept(nullptr);
		EXPECT_EQ(walker_next(nullptr), nullptr);
		EXPECT_EQ(slub_group_destroy(group), 0);
	}
	/* Another thread is in a call of a handler of @handles meanwhile. */
	template <typename Work> static void while_it_is_called(struct slub_group *handles,
								Work work)
	{
		std::atomic<int> stage{0};
		std::thread other([&] {
			struct walker *walker = walker_begin();

			__atomic_store_n(&walker->handles, handles, __ATOMIC_SEQ_CST);
			stage = 1;
			while (stage < 2)
				std::this_thread::yield();
			walker_end(walker);
		});

		while (stage < 1)
			std::this_thread::yield();
		work();
		stage = 2;
		other.join();
	}

	struct slub_group *group;
};

TEST_F(Waits, NobodyWaitsInACallback)
{
	struct slub_group *beside = slub_group_create("beside", nullptr);

	EXPECT_EQ(group_handler_wait(group), 0);
	while_it_is_called(group, [&] {
		for (uint32_t flag : { THREAD_IN_RECLAIM, THREAD_IN_DEFRAG }) {
			slub_thread.flags |= (uint16_t)flag;
			EXPECT_EQ(group_handler_wait(group), -EDEADLK) << flag;
			EXPECT_EQ(group_handler_wait(beside), 0);
			EXPECT_EQ(slub_group_handler_set(group, handler, nullptr), -EDEADLK);
			slub_thread.flags &= (uint16_t)~flag;
		}
		slub_thread.locks_held++;
		EXPECT_EQ(group_handler_wait(group), -EDEADLK);
		slub_thread.locks_held--;
		struct walker *mine = walker_begin();
		EXPECT_EQ(group_handler_wait(group), -EDEADLK) << "this thread walks";
		EXPECT_EQ(group_handler_wait(beside), 0);
		mine->handles = beside;
		EXPECT_EQ(group_handler_wait(beside), 0) << "it would wait for itself";
		walker_end(mine);
		EXPECT_EQ(group_handler_wait(beside), 0);
	});
	/* The handler is set all the same. */
	EXPECT_TRUE(group_handler_ask(group, 1));
	EXPECT_EQ(nr_asked, 1);
	EXPECT_EQ(slub_group_destroy(beside), 0);
}

/* That call alone is waited for, not the next one of the same walker. */
TEST_F(Waits, ForTheCallThatWas)
{
	std::atomic<int> stage{0};
	std::thread other([&] {
		struct walker *first = walker_begin(), *walker = first;

		__atomic_store_n(&walker->handles, group, __ATOMIC_SEQ_CST);
		stage = 1;
		while (stage < 2)
			std::this_thread::yield();
		usleep(5000);
		walker_end(walker);
		walker = walker_begin();
		EXPECT_EQ(walker, first);
		__atomic_store_n(&walker->handles, group, __ATOMIC_SEQ_CST);
		while (stage < 3)
			std::this_thread::yield();
		walker_end(walker);
	});

	while (stage < 1)
		std::this_thread::yield();
	stage = 2;
	EXPECT_EQ(group_handler_wait(group), 0);
	stage = 3;
	other.join();
}

/* Where all walkers are taken one is waited for, and not for ever. */
TEST_F(Waits, ForAWalkerOfItsOwn)
{
	std::vector<struct walker *> all;

	ASSERT_EQ(slub_group_handler_set(group, handler, nullptr), 0);
	while (struct walker *walker = walker_begin())
		all.push_back(walker);
	EXPECT_FALSE(group_handler_ask(group, 1));
	EXPECT_EQ(nr_asked, 0);
	EXPECT_TRUE(reclaim_is_possible());
	std::atomic<bool> asks{false};
	std::thread other([&] {
		while (!asks)
			std::this_thread::yield();
		usleep(2000);
		walker_end(all.back());
	});
	asks = true;
	EXPECT_TRUE(group_handler_ask(group, 1));
	other.join();
	EXPECT_EQ(nr_asked, 1);
	EXPECT_EQ(walker_begin(), all.back()) << "it was given back";
	for (struct walker *walker : all)
		walker_end(walker);
}

/* Once in a millisecond, and each time anew for who asks later. */
TEST_F(Waits, ForTheNextTimeThatListsAreEmptied)
{
	constexpr uint64_t MS = 1000000, FIRST = 1ull << 50;

	group_set_kept(&keeper);
	nr_all = 0;
	*times = { FIRST, FIRST };
	EXPECT_TRUE(kept_settle_all());
	EXPECT_EQ(nr_all, 1u);
	EXPECT_EQ(times->size(), 0u);
	/* Not a nanosecond earlier. */
	*times = { FIRST + 5, FIRST + MS - 1, FIRST + MS, 1 };
	EXPECT_TRUE(kept_settle_all());
	EXPECT_EQ(nr_all, 2u);
	EXPECT_EQ(*times, std::vector<uint64_t>({ 1 }));
	/* That which has begun at the very moment may have been too early. */
	*times = { FIRST + MS, FIRST + 2 * MS, 1 };
	EXPECT_TRUE(kept_settle_all());
	EXPECT_EQ(nr_all, 3u);
	EXPECT_EQ(*times, std::vector<uint64_t>({ 1 }));
	/* One that was begun later serves. */
	*times = { FIRST + 2 * MS - 1, 1 };
	EXPECT_TRUE(kept_settle_all());
	EXPECT_EQ(nr_all, 3u);
	EXPECT_EQ(*times, std::vector<uint64_t>({ 1 }));
	is_there_none = true;
	EXPECT_FALSE(kept_settle_all());
	is_there_none = false;
	EXPECT_EQ(nr_all, 3u);
	EXPECT_EQ(nr_here, 0u);
}

} /* namespace */
