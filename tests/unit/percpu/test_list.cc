/* SPDX-License-Identifier: MIT */
/* core/percpu/list.c: the four operations under the backend of SLUB_FASTPATH, against a model. */
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <set>

#include "harness.h"
#include "start.h"

#include "objects.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

namespace {

const size_t nr_objects = 48;
uint32_t first_slot;
const uint32_t nr_slots = 4;

struct list_model {
	std::deque<long> main, spare;
	long room = 0;
};

class list : public testing::TestWithParam<int> {
protected:
	static void SetUpTestSuite()
	{
		static objects early(1, false);

		if (first_slot)
			return;
		/* Before the start nothing is there, and nothing is touched. */
		percpu_enter();
		EXPECT_EQ(slub_thread.flags & THREAD_CHECKED, 0) << "it is to ask again";
		EXPECT_EQ(percpu_pop(32, 0), nullptr);
		EXPECT_FALSE(percpu_push(32, early.at(0), 0));
		EXPECT_EQ(percpu_take(32, 1), nullptr);
		EXPECT_FALSE(percpu_put(32, early.at(0), 1));
		harness::stay_on_this_cpu();
		start::percpu();
		first_slot = percpu_alloc_slots(nr_slots);
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		percpu_enter();
		ASSERT_NE(my_area(), nullptr);
		empty_all();
	}
	/* This thread stays on one CPU, so there is one area. */
	static char *my_area()
	{
		char *mine = nullptr;

		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			if (!percpu_area(cid))
				continue;
			EXPECT_EQ(mine, nullptr);
			mine = percpu_area(cid);
		}
		return mine;
	}
	static int32_t &room_of(uint32_t slot)
	{
		return *(int32_t *)(my_area() + slot +
				    (percpu_backend == BACKEND_TID ? AREA_LIVE : SLOT_ROOM));
	}
	static void empty_all()
	{
		for (uint32_t s = 0; s < nr_slots; s++) {
			uint32_t slot = first_slot + s * SLOT_BYTES;

			percpu_take(slot, 0);
			percpu_take(slot + SLOT_SPARE, 0);
			room_of(slot) = 0;
		}
	}
	objects pool{nr_objects, GetParam(), first_slot};
};

TEST_P(list, last_in_first_out_within_its_room)
{
	uint32_t slot = first_slot;

	EXPECT_FALSE(percpu_push(slot, pool.at(0), pool.bias)) << "no room yet";
	ASSERT_TRUE(percpu_put(slot, pool.chain({ 0 }), 2)) << "an empty list takes a chain";
	EXPECT_TRUE(percpu_push(slot, pool.at(1), pool.bias));
	EXPECT_TRUE(percpu_push(slot, pool.at(2), pool.bias));
	EXPECT_FALSE(percpu_push(slot, pool.at(3), pool.bias)) << "full";
	EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(2));
	EXPECT_TRUE(percpu_push(slot, pool.at(3), pool.bias)) << "room for one again";
	EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(3));
	EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(1));
	EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(0));
	EXPECT_EQ(percpu_pop(slot, pool.bias), nullptr);
}

TEST_P(list, main_and_spare_and_slots_are_apart)
{
	uint32_t slot = first_slot, other = first_slot + SLOT_BYTES;

	ASSERT_TRUE(percpu_put(slot, pool.chain({ 0, 1 }), 5));
	ASSERT_TRUE(percpu_put(slot + SLOT_SPARE, pool.chain({ 2, 3 }), 0));
	EXPECT_FALSE(percpu_put(slot, pool.chain({ 4 }), 5));
	EXPECT_FALSE(percpu_put(slot + SLOT_SPARE, pool.chain({ 4 }), 5));
	EXPECT_EQ(percpu_pop(other, pool.bias), nullptr);
	EXPECT_EQ(pool.walk(percpu_take(slot + SLOT_SPARE, 0)), (std::vector<long>{ 2, 3 }));
	EXPECT_EQ(percpu_take(slot + SLOT_SPARE, 0), nullptr);
	EXPECT_EQ(pool.walk(percpu_take(slot, 5)), (std::vector<long>{ 0, 1 }));
	EXPECT_EQ(percpu_take(slot, 5), nullptr);
}

TEST_P(list, failed_push_leaves_the_object_alone)
{
	void *mark = pool.at(11);

	pool.link(pool.at(0)) = mark;
	ASSERT_FALSE(percpu_push(first_slot, pool.at(0), pool.bias));
	EXPECT_EQ(pool.link(pool.at(0)), mark);
}

TEST_P(list, nothing_is_popped_whose_check_word_is_wrong)
{
	uint32_t slot = first_slot;

	if (GetParam() < LINKED_KEYED)
		GTEST_SKIP() << "no check words";
	ASSERT_TRUE(percpu_put(slot, pool.chain({ 0 }), 5));
	ASSERT_TRUE(percpu_push(slot, pool.at(1), pool.bias));
	pool.link(pool.at(1)) = pool.at(7);
	EXPECT_EQ(percpu_pop(slot, pool.bias), nullptr) << "another link";
	pool.link(pool.at(1)) = pool.at(0);
	pool.key(pool.at(1)) ^= 1;
	EXPECT_EQ(percpu_pop(slot, pool.bias), nullptr) << "another word";
	memcpy(&pool.link(pool.at(1)), &pool.link(pool.at(0)), 16);
	EXPECT_EQ(percpu_pop(slot, pool.bias), nullptr) << "that of another object";
	pool.set_next(pool.at(1), pool.at(0));
	EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(1));
	EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(0));
}

/* Behind what a constructor has made, where nothing else is written. */
TEST_P(list, the_link_lies_where_the_caller_says)
{
	if (GetParam() != LINKED_OWN)
		GTEST_SKIP() << "it lies in the table of pages, or in the first word";
	const size_t link = 40, nr = 4;
	size_t elsewhere = 0;

	memset(pool.at(0), 'c', nr * pool.stride);
	room_of(first_slot) = nr;
	for (size_t i = 0; i < nr; i++)
		ASSERT_TRUE(percpu_push(first_slot, pool.at(i), link));
	for (size_t i = 0; i < nr * pool.stride; i++) {
		bool is_link = i % pool.stride >= link && i % pool.stride < link + sizeof(void *);

		elsewhere += !is_link && pool.start[i] != 'c';
	}
	EXPECT_EQ(elsewhere, 0u);
	for (size_t i = nr; i-- > 0;)
		EXPECT_EQ(percpu_pop(first_slot, link), pool.at(i));
	EXPECT_EQ(percpu_pop(first_slot, link), nullptr);
}

/* Backend tid: a list that looks as it did before has another id all the same. */
TEST_P(list, an_id_never_comes_again)
{
	if (percpu_backend != BACKEND_TID)
		GTEST_SKIP() << "the others have none";
	std::set<uint64_t> seen;
	auto is_new = [&] {
		return seen.insert(*(uint64_t *)(my_area() + first_slot + SLOT_ROOM)).second;
	};

	EXPECT_TRUE(is_new());
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(percpu_put(first_slot, pool.chain({ 0, 1 }), 5));
		EXPECT_TRUE(is_new()) << "put";
		EXPECT_EQ(percpu_pop(first_slot, pool.bias), pool.at(0));
		EXPECT_TRUE(is_new()) << "pop";
		EXPECT_TRUE(percpu_push(first_slot, pool.at(0), pool.bias));
		EXPECT_TRUE(is_new()) << "push";
		EXPECT_EQ(percpu_take(first_slot, 0), pool.at(0));
		EXPECT_TRUE(is_new()) << "take";
	}
}

/* The same operation on a list and on its model. */
class list_random : public list {
protected:
	void pop()
	{
		long want = model->main.empty() ? -1 : model->main.front();

		ASSERT_EQ(pool.index(percpu_pop(slot, pool.bias)), want);
		if (want < 0)
			return;
		model->main.pop_front();
		model->room++;
		idle.push_back((size_t)want);
	}
	void push()
	{
		if (idle.empty())
			return;
		bool pushed = percpu_push(slot, pool.at(idle.back()), pool.bias);

		/* An aborted sequence took the last of the room; the next one found none. */
		if (!pushed && model->room == 1 && room_of(slot) == 0) {
			model->room = 0;
			corrected++;
		}
		ASSERT_EQ(pushed, model->room > 0);
		if (!pushed)
			return;
		model->main.push_front((long)idle.back());
		model->room--;
		idle.pop_back();
	}
	void take(bool spare, int32_t room)
	{
		std::deque<long> &chain = spare ? model->spare : model->main;
		void *got = percpu_take(slot + (spare ? SLOT_SPARE : 0), room);

		ASSERT_EQ(pool.walk(got), std::vector<long>(chain.begin(), chain.end()));
		if (!chain.empty() && !spare)
			model->room = room;
		for (long number : chain)
			idle.push_back((size_t)number);
		chain.clear();
	}
	void put(bool spare, int32_t room)
	{
		std::deque<long> &chain = spare ? model->spare : model->main;
		size_t n = std::min<size_t>(random.below(6) + 1, idle.size());
		std::vector<size_t> some(idle.end() - (ptrdiff_t)n, idle.end());

		if (some.empty())
			return;
		ASSERT_EQ(percpu_put(slot + (spare ? SLOT_SPARE : 0), pool.chain(some), room),
			  chain.empty());
		if (!chain.empty())
			return;
		idle.resize(idle.size() - n);
		chain.assign(some.begin(), some.end());
		if (!spare)
			model->room = room;
	}
	harness::Random random{3};
	std::vector<size_t> idle;
	uint32_t slot;
	struct list_model *model;
	long corrected = 0;
};

TEST_P(list_random, does_what_the_model_does)
{
	struct list_model models[nr_slots];
	const int rounds = 300000;

	for (size_t i = 0; i < nr_objects; i++)
		idle.push_back(i);
	for (int i = 0; i < rounds && !HasFailure(); i++) {
		uint64_t s = random.below(nr_slots), what = random.below(6);
		bool spare = random.below(2);
		auto room = (int32_t)random.below(10);

		slot = first_slot + (uint32_t)s * SLOT_BYTES;
		model = &models[s];
		/* An aborted restartable sequence may leave the room one off. */
		if (room_of(slot) != model->room) {
			ASSERT_LE(std::abs(room_of(slot) - model->room), 1);
			corrected++;
			model->room = room_of(slot);
		}
		if (what < 2)
			pop();
		else if (what < 4)
			push();
		else if (what < 5)
			take(spare, room);
		else
			put(spare, room);
	}
	EXPECT_LT(corrected, rounds / 100);
	empty_all();
}

/* A signal handler that interrupted an operation, or the holder of a lock. */
TEST_P(list, handler_in_the_middle_of_an_operation_gets_nothing)
{
	ASSERT_TRUE(percpu_put(first_slot, pool.chain({ 0, 1 }), 5));
	if (percpu_backend == BACKEND_THREAD)
		slub_thread.busy = 1;
	else if (percpu_backend == BACKEND_LOCK)
		slub_thread.locks_held = 1;
	else
		GTEST_SKIP() << "the others have nothing to be in the middle of";
	EXPECT_EQ(percpu_pop(first_slot, pool.bias), nullptr);
	EXPECT_FALSE(percpu_push(first_slot, pool.at(2), pool.bias));
	EXPECT_EQ(percpu_take(first_slot, 1), nullptr);
	EXPECT_FALSE(percpu_put(first_slot + SLOT_SPARE, pool.at(2), 1));
	if (percpu_backend == BACKEND_THREAD) {
		EXPECT_EQ(slub_thread.busy, 1u);
	}
	slub_thread.busy = 0;
	slub_thread.locks_held = 0;
	EXPECT_EQ(pool.walk(percpu_take(first_slot, 0)), (std::vector<long>{ 0, 1 }));
}

/* The dummy area ends behind its slots, and whatever lies there is no list. */
TEST_P(list, an_area_that_is_not_live_has_slots_only)
{
	if (GetParam() != LINKED_OWN)
		GTEST_SKIP() << "lists behind the slots hold objects with links of their own";
	alignas(4096) static char other[AREA_FAR_END + 4096];
	char *mine = my_area();
	uint32_t cid = 0;

	while (percpu_area(cid) != mine)
		cid++;
	pool.list = AREA_BYTES;
	for (uint32_t list : { AREA_BYTES, AREA_BYTES + 64, AREA_FAR_END })
		for (bool is_live : { false, true }) {
			*(void **)(other + list) = pool.chain({ 1, 2 });
			*(uint32_t *)(other + AREA_LIVE) = is_live;
			percpu_base_set(cid, other);
			void *got = percpu_pop(list, 0);
			percpu_base_set(cid, mine);
			EXPECT_EQ(pool.index(got), is_live ? 1 : -1) << list;
			EXPECT_EQ(pool.index(*(void **)(other + list)), is_live ? 2 : 1) << list;
		}
}

#if defined(__x86_64__)
/* Backend tid: whenever another thread changes the list, an operation begins again. */
TEST_P(list, an_exchange_that_fails_is_tried_again)
{
	STEPS_OR_SKIP();
	if (SLUB_INSTRUMENTED)
		GTEST_SKIP() << "the steps of AddressSanitizer's checks take minutes";
	if (percpu_backend != BACKEND_TID)
		GTEST_SKIP() << "the others exchange nothing";
	uint32_t slot = first_slot;
	void *got = nullptr;
	/* Each of them leaves objects 1 and 2 on the list, or gets them. */
	const std::function<void()> calls[] = {
		[&] { EXPECT_TRUE(percpu_put(slot, pool.chain({ 1, 2 }), 5)); },
		[&] {
			EXPECT_TRUE(percpu_push(slot, pool.at(2), pool.bias));
			EXPECT_TRUE(percpu_push(slot, pool.at(1), pool.bias));
		},
		[&] { got = percpu_take(slot, 5); },
		[&] {
			got = percpu_pop(slot, pool.bias);
			EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(2));
		},
	};

	for (auto &call : calls) {
		bool gets = &call - calls >= 2, done = false;

		for (unsigned step = 0; !done && !HasFailure(); step++) {
			unsigned left = step;

			empty_all();
			if (gets) {
				ASSERT_TRUE(percpu_put(slot, pool.chain({ 1, 2 }), 5));
			}
			room_of(slot) = 5;
			done = true;
			steps::run(call, [&] {
				if (left--)
					return true;
				done = false;
				EXPECT_TRUE(percpu_push(slot, pool.at(9), pool.bias));
				EXPECT_EQ(percpu_pop(slot, pool.bias), pool.at(9));
				return false;
			});
			if (!gets)
				got = percpu_take(slot, 0);
			EXPECT_EQ(pool.index(got), 1) << step;
			if (&call - calls != 3) {
				EXPECT_EQ(pool.walk(got), (std::vector<long>{ 1, 2 })) << step;
			}
			EXPECT_EQ(percpu_pop(slot, pool.bias), nullptr) << step;
		}
	}
}

/* A pusher that is preempted before it has counted, while its object is taken. */
TEST_P(list, a_drained_list_is_not_full_for_ever)
{
	STEPS_OR_SKIP();
	if (percpu_backend != BACKEND_TID)
		GTEST_SKIP() << "the others count and push at once";
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "links in slots are encoded, those of a program's lists are not";
	void *drained = nullptr;
	auto head = [] { return *(volatile uint64_t *)(my_area() + first_slot); };

	ASSERT_TRUE(steps::interrupt(0, head, [&] {
		EXPECT_TRUE(percpu_push_bounded(first_slot, pool.at(1), -1));
	}, [&] { drained = slub_percpu_list_drain(first_slot); }));
	EXPECT_EQ(drained, pool.at(1));
	EXPECT_EQ(slub_percpu_list_drain(first_slot), nullptr);
	EXPECT_TRUE(percpu_push_bounded(first_slot, pool.at(2), -1));
	EXPECT_EQ(slub_percpu_list_drain(first_slot), pool.at(2));
}
#endif

const auto kind = [](const auto &info) { return linked_name(info.param); };

INSTANTIATE_TEST_SUITE_P(link, list, testing::Range(0, LINKED_WAYS), kind);
INSTANTIATE_TEST_SUITE_P(link, list_random, testing::Range(0, LINKED_WAYS), kind);

} /* namespace */
