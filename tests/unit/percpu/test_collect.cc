/* SPDX-License-Identifier: MIT */
/*
 * core/percpu/collect.c: the lists of every CPU are emptied while threads work on them, and each
 * object is in one place all the while.
 */
#include <atomic>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "harness.h"
#include "start.h"

#include "objects.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

namespace {

const int32_t list_length = 24;

/* A cache in small: objects, a slot for them, and a stock behind the lists. */
class store {
public:
	explicit store(bool paged) : pool(600, paged), held(pool.nr)
	{
		pool.list = slot = percpu_alloc_slots(1);
		for (size_t i = 0; i < pool.nr; i++)
			stock.push_back(pool.at(i));
	}
	/* From now on this thread owns it: nobody else did. */
	void *claim(void *object)
	{
		long i = pool.index(object);

		if (i < 0 || held[(size_t)i].exchange(1) != 0)
			errors++;
		return object;
	}
	void release(void *object)
	{
		if (held[(size_t)pool.index(object)].exchange(0) != 1)
			errors++;
	}
	void *alloc()
	{
		void *object = percpu_pop(slot, pool.bias), *chain;

		if (object)
			return claim(object);
		percpu_enter();
		chain = percpu_take(slot + SLOT_SPARE, 0);
		if (!chain)
			chain = from_stock(list_length / 2);
		if (!chain)
			return nullptr;
		claim(chain);
		object = pool.next(chain);
		if (object && !percpu_put(slot, object, list_length))
			to_stock(object);
		return chain;
	}
	void free(void *object)
	{
		void *full;

		release(object);
		if (percpu_push(slot, object, pool.bias))
			return;
		percpu_enter();
		full = percpu_take(slot, list_length);
		pool.set_next(object, nullptr);
		if (!percpu_put(slot, object, list_length - 1))
			to_stock(object);
		if (full && !percpu_put(slot + SLOT_SPARE, full, 0))
			to_stock(full);
	}
	/* Each is claimed once on the way, so that one in two chains would be found. */
	size_t to_stock(void *chain)
	{
		std::lock_guard<std::mutex> guard(mutex);
		size_t n = 0;

		while (chain && n <= pool.nr) {
			void *next = pool.next(chain);

			release(claim(chain));
			stock.push_back(chain);
			chain = next;
			n++;
		}
		return n;
	}
	void expect_all_in_stock()
	{
		std::vector<int> seen(pool.nr);

		EXPECT_EQ(errors, 0);
		EXPECT_EQ(stock.size(), pool.nr);
		for (void *object : stock)
			seen[(size_t)pool.index(object)]++;
		for (size_t i = 0; i < pool.nr; i++)
			EXPECT_EQ(seen[i], 1) << "object " << i;
	}
	objects pool;
	uint32_t slot;
	std::atomic<int> errors{0};

private:
	void *from_stock(size_t n)
	{
		std::lock_guard<std::mutex> guard(mutex);
		void *chain = nullptr;

		for (; n && !stock.empty(); n--) {
			pool.set_next(stock.back(), chain);
			chain = stock.back();
			stock.pop_back();
		}
		return chain;
	}
	std::vector<std::atomic<int>> held;
	std::mutex mutex;
	std::vector<void *> stock;
};

class collect : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::percpu(); });
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	}
	static inline struct collection all;
	/* Empties the lists of all CPUs into the stocks; returns how many objects that were. */
	static size_t empty_cpus(std::vector<store *> stores)
	{
		size_t n = 0;

		all.next = 0;
		all.end = percpu_areas_end();
		while (percpu_collect(&all)) {
			for (uint32_t i = 0; i < all.nr_lists; i++) {
				for (store *s : stores) {
					if (collection_slot(&all, i) != s->slot)
						continue;
					n += s->to_stock(all.lists[i].main.head);
					n += s->to_stock(all.lists[i].spare.head);
				}
			}
		}
		return n;
	}
	static void work(std::vector<store *> stores, uint64_t seed, int nr)
	{
		harness::Random random(seed);
		std::vector<std::pair<store *, void *>> mine;

		for (int i = 0; i < nr; i++) {
			store *s = stores[random.below(stores.size())];

			if (mine.size() < 60 && random.below(2)) {
				void *object = s->alloc();
				if (object)
					mine.emplace_back(s, object);
			} else if (!mine.empty()) {
				mine.back().first->free(mine.back().second);
				mine.pop_back();
			}
		}
		for (auto &one : mine)
			one.first->free(one.second);
	}
};

TEST_F(collect, one_at_a_time)
{
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	struct collection second;
	EXPECT_FALSE(percpu_collect_begin(&second, COLLECT_USED));
	std::thread([&] { EXPECT_FALSE(percpu_collect_begin(&second, COLLECT_USED)); }).join();
	percpu_collect_end();
	EXPECT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	percpu_collect_end();
}

/* Nobody is stopped for it, so that another CPU's lists stay. */
TEST_F(collect, here_is_this_cpu)
{
	objects more(4, false);
	uint32_t slot = percpu_alloc_slots(1);
	struct slot lists[1];
	struct collection here = {};

	percpu_enter();
	percpu_take(slot, 0);
	ASSERT_TRUE(percpu_put(slot, more.chain({ 1, 2 }), 4));
	here.lists = lists;
	here.nr_lists_max = 1;
	percpu_collection_init(&here, COLLECT_HERE, slot, 1);
	size_t n = 0;
	while (percpu_collect(&here))
		for (uint32_t i = 0; i < here.nr_lists; i++)
			n += more.walk(here.lists[i].main.head).size();
	/* It may have come to another CPU in between. */
	if (n) {
		EXPECT_EQ(n, 2u);
		EXPECT_EQ(percpu_head(slot), nullptr);
	}
	EXPECT_TRUE(here.is_whole);
	percpu_free_slots(slot, 1);
}

TEST_F(collect, no_area_no_lists)
{
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	EXPECT_EQ(collect_cpu(&all, percpu_areas_end() + 3), nullptr);
	EXPECT_EQ(collect_cpu(&all, AREAS_MAX), nullptr);
	percpu_collect_end();
}

TEST_F(collect, takes_both_lists_and_leaves_none)
{
	start::one_cpu stays;
	store plain(false);
	std::vector<void *> mine;

	for (int i = 0; i < 100; i++)
		mine.push_back(plain.alloc());
	for (void *object : mine)
		plain.free(object);
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	EXPECT_GT(empty_cpus({ &plain }), (size_t)list_length);
	EXPECT_TRUE(all.is_whole);
	EXPECT_EQ(percpu_pop(plain.slot, 0), nullptr);
	EXPECT_EQ(percpu_take(plain.slot + SLOT_SPARE, 0), nullptr);
	EXPECT_EQ(empty_cpus({ &plain }), 0u);
	percpu_collect_end();
	plain.expect_all_in_stock();
	/* The CPU is not stopped any more. */
	void *object = plain.alloc();
	plain.free(object);
	EXPECT_EQ(percpu_pop(plain.slot, 0), object);
	ASSERT_TRUE(percpu_put(plain.slot + SLOT_SPARE, plain.pool.chain({ 0 }), 0));
}

/* Under backend tid a neighbour's transaction id lies where an empty spare has no room. */
TEST_F(collect, a_slot_leaves_its_neighbours_alone)
{
	uint32_t first = percpu_alloc_slots(3);
	struct slot out = {};
	struct collection one = {};
	ASSERT_NE(first, 0u);
	percpu_area_make(9);
	auto *slots = (struct slot *)(percpu_area(9) + first);

	for (struct slot *neighbour : { &slots[0], &slots[2] }) {
		neighbour->main.room = neighbour->spare.room = 7;
		neighbour->main.unused = neighbour->spare.unused = 8;
	}
	percpu_collection_init(&one, COLLECT_ALL, first + SLOT_BYTES, 1);
	one.lists = &out;
	one.nr_lists_max = 1;
	EXPECT_NE(collect_cpu(&one, 9), nullptr);
	for (struct slot *neighbour : { &slots[0], &slots[2] }) {
		EXPECT_EQ(neighbour->main.room, 7);
		EXPECT_EQ(neighbour->main.unused, 8u);
		EXPECT_EQ(neighbour->spare.room, 7);
		EXPECT_EQ(neighbour->spare.unused, 8u);
	}
	percpu_free_slots(first, 3);
}

/* Areas @from to @from + 4, and five slots of which the middle three are looked at. */
class chosen : public collect {
protected:
	void SetUp() override
	{
		collect::SetUp();
		if (IsSkipped())
			return;
		first = percpu_alloc_slots(5);
		for (uint32_t cid = FROM; cid < FROM + 5; cid++)
			percpu_area_make(cid);
	}
	void TearDown() override
	{
		if (!IsSkipped())
			percpu_free_slots(first, 5);
	}
	struct slot *at(uint32_t cid)
	{
		return (struct slot *)(percpu_area(cid) + first);
	}
	void begin(enum collect_from from)
	{
		memset(&some, 0xff, sizeof(some));
		percpu_collection_init(&some, from, first + SLOT_BYTES, 3);
		EXPECT_EQ(some.nr_lists, 0u);
		EXPECT_EQ(some.next, 0u);
		EXPECT_EQ(some.end, percpu_areas_end());
		EXPECT_TRUE(some.is_whole);
		some.lists = lists;
		some.nr_lists_max = 15;
		some.next = FROM;
		some.end = FROM + 5;
	}
	/* How many CPUs were looked into. */
	uint32_t collect_all()
	{
		uint32_t nr = 0;

		while (percpu_collect(&some))
			nr += some.nr_lists / 3;
		return nr;
	}
	static const uint32_t FROM = 30;
	uint32_t first = 0;
	struct slot lists[20];
	struct collection some;
	objects pool{5, false};
};

TEST_F(chosen, cpus_with_something_there)
{
	const struct {
		enum collect_from from;
		uint32_t nr;
	} kinds[] = { { COLLECT_ALL, 5 }, { COLLECT_USED, 3 }, { COLLECT_LISTS, 2 } };

	for (auto &kind : kinds) {
		at(FROM + 1)[3].main.room = 1;
		at(FROM + 2)[3].spare.head = pool.chain({ 0 });
		at(FROM + 3)[1].main.head = pool.chain({ 1 });
		/* Neighbours: they are not asked for. */
		at(FROM + 4)[0].spare.head = pool.chain({ 2 });
		at(FROM + 4)[4].main.head = pool.chain({ 3 });
		begin(kind.from);
		EXPECT_EQ(collect_all(), kind.nr) << kind.from;
		EXPECT_EQ(at(FROM + 4)[0].spare.head, pool.at(2));
		EXPECT_EQ(at(FROM + 4)[4].main.head, pool.at(3));
		EXPECT_EQ(at(FROM + 3)[1].main.head, kind.nr ? nullptr : pool.at(1));
	}
	EXPECT_FALSE(percpu_peek(FROM + 7, first)) << "there is no area";
	EXPECT_TRUE(percpu_peek(FROM + 4, first + SLOT_SPARE));
	EXPECT_FALSE(percpu_peek(FROM + 4, first));
}

/* As many at a time as there is room for; and every one of them goes on. */
TEST_F(chosen, cpus_as_many_as_there_is_room_for)
{
	std::vector<uint32_t> nr;

	begin(COLLECT_ALL);
	some.nr_lists_max = 8;
	memset(lists, 0x77, sizeof(lists));
	for (uint32_t cid = FROM; cid < FROM + 5; cid++)
		at(cid)[2].main.head = pool.at(cid - FROM);
	while (percpu_collect(&some)) {
		nr.push_back(some.nr_lists);
		for (uint32_t i = 0; i < some.nr_lists; i++)
			EXPECT_EQ(pool.index(lists[i].main.head),
				  i % 3 == 1 ? (long)(nr.size() * 2 - 2 + i / 3) : -1);
		for (uint32_t i = 0; i < some.nr_lists; i++)
			EXPECT_EQ(lists[i].main.room + lists[i].spare.room +
				  (int)(lists[i].main.unused + lists[i].spare.unused), 0);
		EXPECT_EQ(lists[8].main.head, (void *)0x7777777777777777);
	}
	EXPECT_EQ(nr, (std::vector<uint32_t>{ 6, 6, 3 }));
	EXPECT_EQ(some.nr_lists, 0u);
	begin(COLLECT_ALL);
	some.end = FROM + 1;
	EXPECT_EQ(collect_all(), 1u) << "not the one behind it";
	for (uint32_t cid = 0; SLUB_CONFIG_SMP && cid < percpu_areas_end(); cid++)
		if (percpu_area(cid)) {
			EXPECT_EQ(slub_cpu_base[cid], percpu_area(cid)) << cid;
		}
	begin(COLLECT_ALL);
	some.nr_slots = 0;
	EXPECT_FALSE(percpu_collect(&some)) << "no slots";
	percpu_collection_init(&some, COLLECT_ALL, 0, 1);
	EXPECT_EQ(some.end, 0u) << "slot 0 is no cache's";
}

TEST_F(chosen, all_slots_but_the_areas_own)
{
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	EXPECT_EQ(all.from, COLLECT_USED);
	EXPECT_EQ(all.start, (uint32_t)SLOT_BYTES);
	EXPECT_EQ(all.nr_slots, percpu_slots_end() / SLOT_BYTES - 1);
	EXPECT_EQ(all.lists, percpu_areas.collect);
	EXPECT_EQ(all.nr_lists_max, (uint32_t)COLLECT_LISTS_MAX);
	EXPECT_FALSE(percpu_collect_more(&all, COLLECT_USED)) << "no far ones";
	percpu_collect_end();
}

/* An operation that is under way in the collector's own thread is waited for by nobody. */
TEST_F(collect, own_thread_in_the_middle_of_an_operation)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	percpu_enter();
	uint32_t number = slub_thread.number - 1;
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	slub_thread.busy = 1;
	EXPECT_EQ(collect_cpu(&all, number), nullptr);
	EXPECT_FALSE(all.is_whole);
	slub_thread.busy = 0;
	EXPECT_NE(collect_cpu(&all, number), nullptr);
	percpu_collect_end();
}

/* ... and it does not wait for a lock whose holder may wait for it. */
TEST_F(collect, own_thread_in_the_middle_waits_for_no_lock)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	std::atomic<bool> held{false}, done{false}, waited{false};
	std::thread holder([&] {
		lock_acquire(&area_lock);
		held = true;
		while (!done && !(area_lock.word & LOCK_WAITERS))
			std::this_thread::yield();
		waited = !done;
		lock_release(&area_lock);
	});

	percpu_enter();
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	while (!held)
		std::this_thread::yield();
	slub_thread.busy = 1;
	EXPECT_EQ(collect_cpu(&all, slub_thread.number - 1), nullptr);
	slub_thread.busy = 0;
	done = true;
	holder.join();
	EXPECT_FALSE(waited);
	percpu_collect_end();
}

/* The lists that a collector holds would be lost to the child. */
#if defined(__x86_64__)
TEST_F(collect, fork_waits_for_a_collector)
{
	STEPS_OR_SKIP();
	steps::Other other;

	for (unsigned step = 0; step < 200 && !HasFailure(); step++) {
		unsigned left = step;
		bool ended = false;

		other.call([] { EXPECT_TRUE(percpu_collect_begin(&all, COLLECT_USED)); });
		lock_fork_begin();
		/* Not while it holds the lock of lines, which the collector's end waits for. */
		steps::run(percpu_fork_prepare, [&] {
			if (left) {
				left--;
				return true;
			}
			if (slub_thread.locks_held)
				return true;
			other.call(percpu_collect_end);
			ended = true;
			return false;
		});
		if (!ended) {	/* it sleeps before that */
			EXPECT_GT(step, 30u);
			other.call(percpu_collect_end);
			percpu_fork_finish(false);
			break;
		}
		EXPECT_TRUE(slub_thread.flags & THREAD_FORKING) << step;
		EXPECT_FALSE(percpu_collect_begin(&all, COLLECT_USED));
		percpu_fork_finish(false);
		EXPECT_FALSE(slub_thread.flags & THREAD_FORKING);
		EXPECT_TRUE(percpu_collect_begin(&all, COLLECT_USED)) << step;
		percpu_collect_end();
	}
}
#endif

/* Can the child of a fork by this thread collect, and the parent after it? */
std::pair<bool, bool> collects_after_fork(struct collection *all)
{
	pid_t child;

	lock_fork_begin();
	percpu_fork_prepare();
	child = fork();
	turn_forks += !child;
	percpu_fork_finish(!child);
	if (!child)
		_exit(percpu_collect_begin(all, COLLECT_USED) ? 1 : 0);
	return { harness::wait_for(child) != 0, percpu_collect_begin(all, COLLECT_USED) };
}

/* One that lasts longer than fork waits is over in the child, and goes on in the parent. */
TEST_F(collect, a_child_inherits_its_own_collection_only)
{
	std::thread([] { EXPECT_TRUE(percpu_collect_begin(&all, COLLECT_USED)); }).join();
	EXPECT_EQ(collects_after_fork(&all), std::make_pair(true, false));
	percpu_collect_end();
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	EXPECT_EQ(collects_after_fork(&all), std::make_pair(false, false));
	percpu_collect_end();
	EXPECT_EQ(collects_after_fork(&all), std::make_pair(true, true));
	percpu_collect_end();
}

TEST_F(collect, every_object_is_moved_once_while_threads_work)
{
	store plain(false), paged(true);
	std::vector<store *> stores = { &plain, &paged };
	std::vector<std::thread> threads;
	std::atomic<int> running{4};
	size_t collected = 0, rounds = 0;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			work(stores, 10 + (uint64_t)t, 600000);
			running--;
		});
	while (running) {
		if (percpu_collect_begin(&all, COLLECT_USED)) {
			collected += empty_cpus(stores);
			percpu_collect_end();
			rounds++;
		}
		std::this_thread::yield();
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_GT(rounds, 0u);
	EXPECT_GT(collected, 0u);
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	empty_cpus(stores);
	percpu_collect_end();
	plain.expect_all_in_stock();
	paged.expect_all_in_stock();
}

TEST_F(collect, threads_come_and_go)
{
	store plain(false), paged(true);
	std::vector<store *> stores = { &plain, &paged };
	std::atomic<bool> stop{false};
	std::thread collector([&] {
		while (!stop) {
			if (percpu_collect_begin(&all, COLLECT_USED)) {
				empty_cpus(stores);
				percpu_collect_end();
			}
			usleep(200);
		}
	});

	for (uint64_t round = 0; round < 60; round++) {
		std::vector<std::thread> threads;

		for (uint64_t t = 0; t < 4; t++)
			threads.emplace_back(work, stores, round * 4 + t, 1000);
		for (auto &thread : threads)
			thread.join();
	}
	stop = true;
	collector.join();
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	empty_cpus(stores);
	percpu_collect_end();
	plain.expect_all_in_stock();
	paged.expect_all_in_stock();
	/* Lists were left to the next owners, not lost with their threads. */
	if (percpu_backend == BACKEND_THREAD) {
		EXPECT_LT(percpu_areas_end(), 30u);
	}
}

} /* namespace */
