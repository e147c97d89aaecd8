/* SPDX-License-Identifier: MIT */
/* core/percpu/list_bulk.c: several objects at once are what as many single operations would be. */
#include <deque>
#include <gtest/gtest.h>

#include "harness.h"
#include "start.h"

#include "objects.h"

namespace {

const size_t nr_objects = 400;

/* Once for all, whichever test comes first. */
void start_once()
{
	static bool started;

	if (started)
		return;
	started = true;
	/* Before the start there are no lists. */
	objects early(1, LINKED_OWN);
	void *none[1];
	EXPECT_EQ(percpu_pop_bulk(SLOT_BYTES, 0, none, 1), 0u);
	EXPECT_FALSE(percpu_push_bulk(SLOT_BYTES, 0, early.at(0), &early.link(early.at(0)), 1));
	EXPECT_FALSE(percpu_push_bounded(SLOT_BYTES, early.at(0), -1));
	harness::stay_on_this_cpu();
	start::percpu();
}

class bulk : public testing::TestWithParam<int> {
protected:
	static void SetUpTestSuite()
	{
		start_once();
		if (!slot)
			slot = percpu_alloc_slots(1);
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		percpu_enter();
		/* Gives the list its room, and leaves it empty. */
		percpu_take(slot, 0);
		ASSERT_TRUE(percpu_put(slot, pool.chain({ 0 }), 1000));
		ASSERT_EQ(percpu_pop(slot, pool.bias), pool.at(0));
	}
	void TearDown() override
	{
		if (!IsSkipped())
			percpu_take(slot, 0);
	}
	/* Pushes pool[from .. from + nr), the first in front. */
	bool push(size_t from, size_t nr)
	{
		std::vector<size_t> numbers;

		for (size_t i = 0; i < nr; i++)
			numbers.push_back(from + i);
		void *head = pool.chain(numbers);
		return percpu_push_bulk(slot, pool.bias, head,
					&pool.link(pool.at(from + nr - 1)), (uint32_t)nr);
	}
	/* Where several cannot be pushed at once, callers push one by one. */
	static bool pushes_many()
	{
		return percpu_backend != BACKEND_TID && !SLUB_CONFIG_HARDENED;
	}
	bool push_each(const std::vector<size_t> &numbers)
	{
		for (size_t i = numbers.size(); i-- > 0;)
			if (!percpu_push(slot, pool.at(numbers[i]), pool.bias))
				return false;
		return true;
	}
	std::vector<long> pop(size_t nr)
	{
		std::vector<void *> got(nr + 1, this);
		uint32_t n = percpu_pop_bulk(slot, pool.bias, got.data(), (uint32_t)nr);
		std::vector<long> numbers;

		EXPECT_LE(n, nr);
		/* Of what was not popped nothing but the place behind it may be written. */
		EXPECT_EQ(got[nr], this);
		for (uint32_t i = 0; i < n; i++)
			numbers.push_back(pool.index(got[i]));
		return numbers;
	}
	static uint32_t slot;
	objects pool{nr_objects, GetParam(), slot};
};

uint32_t bulk::slot;

/* For what is added next to the CPU's words: the thread may have come from another CPU. */
TEST_P(bulk, the_area_is_remembered)
{
	void *got[2];

	if (percpu_backend != BACKEND_RSEQ || SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the others have no sequence for many";
	slub_thread.self.area = (char *)&percpu_no_area;
	ASSERT_TRUE(push(0, 2));
	EXPECT_EQ(slub_thread.self.area, percpu_area(percpu_cid()));
	slub_thread.self.area = (char *)&percpu_no_area;
	EXPECT_EQ(percpu_pop_bulk(slot, pool.bias, got, 2), 2u);
	if (GetParam() != LINKED_PAGED) {
		EXPECT_EQ(slub_thread.self.area, percpu_area(percpu_cid()));
	}
	slub_thread.self.area = (char *)&percpu_no_area;
	percpu_remember();
}

TEST_P(bulk, pops_in_order_and_no_more_than_there_is)
{
	for (size_t i = 0; i < 10; i++)
		ASSERT_TRUE(percpu_push(slot, pool.at(i), pool.bias));
	EXPECT_EQ(pop(0), (std::vector<long>{}));
	EXPECT_EQ(pop(3), (std::vector<long>{ 9, 8, 7 }));
	EXPECT_EQ(pop(1), (std::vector<long>{ 6 }));
	EXPECT_EQ(pop(100), (std::vector<long>{ 5, 4, 3, 2, 1, 0 }));
	EXPECT_EQ(pop(100), (std::vector<long>{}));
}

TEST_P(bulk, pushes_in_front_if_there_is_room_for_all)
{
	if (!pushes_many()) {
		EXPECT_FALSE(push(0, 2)) << "its callers push one by one";
		return;
	}
	percpu_take(slot, 0);
	ASSERT_TRUE(percpu_put(slot, pool.chain({ 390 }), 5));
	EXPECT_FALSE(push(0, 6));
	EXPECT_EQ(pool.walk(pool.at(0)).size(), 6u) << "the chain is left alone";
	EXPECT_TRUE(push(0, 3));
	EXPECT_FALSE(push(3, 3));
	EXPECT_TRUE(push(3, 2));
	EXPECT_FALSE(percpu_push(slot, pool.at(100), pool.bias));
	EXPECT_EQ(pop(10), (std::vector<long>{ 3, 4, 0, 1, 2, 390 }));
	EXPECT_TRUE(push(0, 6)) << "room for six again";
	EXPECT_FALSE(percpu_push(slot, pool.at(100), pool.bias));
}

TEST_P(bulk, random_against_a_model)
{
	harness::Random random(5);
	std::deque<long> model;
	std::vector<long> idle;
	int skipped = 0;

	for (size_t i = 0; i < nr_objects; i++)
		idle.push_back((long)i);
	for (int i = 0; i < 60000; i++) {
		size_t nr = 1 + random.below(random.below(8) ? 20 : 150);

		if (random.below(2) && nr <= idle.size()) {
			std::vector<size_t> numbers(idle.end() - (ptrdiff_t)nr, idle.end());
			void *head = pool.chain(numbers);
			void **tail = &pool.link(pool.at(numbers.back()));

			if (!percpu_push_bulk(slot, pool.bias, head, tail, (uint32_t)nr)) {
				if (pushes_many()) {
					skipped++;
					continue;
				}
				ASSERT_TRUE(push_each(numbers));
			}
			model.insert(model.begin(), numbers.begin(), numbers.end());
			idle.resize(idle.size() - nr);
			continue;
		}
		std::vector<long> got = pop(nr);
		ASSERT_EQ(got.size(), std::min(nr, model.size()));
		for (long number : got) {
			ASSERT_EQ(number, model.front());
			model.pop_front();
			idle.push_back(number);
		}
	}
	EXPECT_LT(skipped, 600);
}

/* None behind a check word that is wrong, and the list stays as it is for who looks at it. */
TEST_P(bulk, stops_at_a_check_word_that_is_wrong)
{
	void *got[9];

	if (GetParam() < LINKED_KEYED)
		GTEST_SKIP() << "no check words";
	for (size_t i = 0; i < 6; i++)
		ASSERT_TRUE(percpu_push(slot, pool.at(i), pool.bias));
	for (bool is_link : { false, true }) {
		void *object = pool.at(3), *link = pool.link(object);
		uintptr_t word = pool.key(object);

		if (is_link)
			pool.link(object) = pool.at(9);
		else
			pool.key(object) ^= 1;
		uint32_t nr = percpu_pop_bulk(slot, pool.bias, got, 9);
		EXPECT_LE(nr, 2u) << "5 and 4 are sound";
		for (uint32_t i = nr; i-- > 0;)
			ASSERT_TRUE(percpu_push(slot, got[i], pool.bias));
		pool.link(object) = link;
		pool.key(object) = word;
	}
	EXPECT_EQ(pop(9), (std::vector<long>{ 5, 4, 3, 2, 1, 0 }));
}

INSTANTIATE_TEST_SUITE_P(links, bulk, testing::Range(0, LINKED_WAYS), [](auto &info) {
	return linked_name(info.param);
});

/* ---- lists with a bound, which count their room down from 0 ---- */

TEST(bounded, stops_at_its_limit)
{
	start_once();
	if (!start::has_wanted_backend())
		GTEST_SKIP() << "this process cannot have that backend";
	objects pool(10, LINKED_OWN);
	auto list = (uint32_t)slub_percpu_alloc(32, 32);

	percpu_enter();
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 4; i++)
			EXPECT_TRUE(percpu_push_bounded(list, pool.at(i), -4));
		EXPECT_FALSE(percpu_push_bounded(list, pool.at(4), -4));
		EXPECT_TRUE(percpu_push_bounded(list, pool.at(4), -5));
		for (size_t i = 5; i-- > 0;)
			EXPECT_EQ(percpu_pop(list, 0), pool.at(i));
		EXPECT_EQ(percpu_pop(list, 0), nullptr);
	}
}

} /* namespace */
