/* SPDX-License-Identifier: MIT */
/*
 * features/rcu/grace.c: nothing is released while a reader is inside, everything is once, in the
 * order of the grace periods, and a queue that many add to stays short.
 */
#include <atomic>
#include <mutex>
#include <thread>

#include "typed.h"

namespace {

struct item {
	void *link;
	std::atomic<int> released{ 0 };
	uint64_t batch = 0;
};

std::mutex order_mutex;
std::vector<struct item *> order;

void release_item(void **link)
{
	auto *one = (struct item *)link;

	one->released++;
	std::lock_guard<std::mutex> guard(order_mutex);
	order.push_back(one);
}

struct grace : typed {
	struct grace_queue queue = {};

	void SetUp() override
	{
		/* Not typed's: most of this needs no list emptied. */
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		queue.release = release_item;
		order.clear();
	}
};

/* This is the child, then. */
void fork_with(struct grace_queue *queue)
{
	lock_fork(&queue->lock, FORK_BEGINS);
	turn_forks++;
	lock_fork(&queue->lock, FORK_CHILD);
}

TEST_F(grace, waits_for_the_readers_that_are_inside)
{
	std::vector<struct item> items(10);
	int reader = slub_read_lock();

	for (auto &one : items)
		grace_add(&queue, &one.link);
	for (int i = 0; i < 100; i++)
		grace_poll(&queue);
	EXPECT_EQ(order.size(), 0u);
	EXPECT_EQ(grace_nr(&queue), 10u);
	slub_read_unlock(reader);
	grace_flush(&queue);
	EXPECT_EQ(grace_nr(&queue), 0u);
	for (auto &one : items)
		EXPECT_EQ(one.released, 1);
}

TEST_F(grace, a_reader_that_came_later_is_not_waited_for)
{
	std::vector<struct item> items(2);

	grace_add(&queue, &items[0].link);
	grace_flush(&queue);
	int reader = slub_read_lock();
	EXPECT_EQ(items[0].released, 1);
	grace_add(&queue, &items[1].link);
	grace_poll(&queue);
	EXPECT_EQ(items[1].released, 0);
	slub_read_unlock(reader);
	grace_flush(&queue);
	EXPECT_EQ(items[1].released, 1);
}

/* Of what waits behind it: there is no step more at which a reader could get in between. */
TEST_F(grace, the_next_period_begins_as_the_one_before_ends)
{
	std::vector<struct item> items(2);
	int reader = slub_read_lock();

	grace_add(&queue, &items[0].link);
	grace_add(&queue, &items[1].link);
	slub_read_unlock(reader);
	EXPECT_EQ(queue.fresh_nr, 1u);
	EXPECT_TRUE(grace_poll(&queue));
	EXPECT_EQ(items[0].released, 1);
	EXPECT_EQ(queue.fresh_nr, 0u);
	EXPECT_EQ(queue.waiting_nr, 1u);
	EXPECT_TRUE(grace_poll(&queue));
	EXPECT_EQ(items[1].released, 1);
}

TEST_F(grace, batches_are_released_one_after_the_other)
{
	std::vector<struct item> items(1000);

	for (size_t i = 0; i < items.size(); i++) {
		/* A reader inside now and then makes batches of different sizes. */
		int reader = i % 7 == 0 ? slub_read_lock() : -1;

		items[i].batch = i;
		grace_add(&queue, &items[i].link);
		if (reader >= 0)
			slub_read_unlock(reader);
		/* What is done came before what is not. */
		uint64_t done = queue.done;
		for (size_t k = 0; k < done; k++)
			ASSERT_EQ(items[k].released, 1) << k << " of " << done;
	}
	grace_flush(&queue);
	EXPECT_EQ(order.size(), items.size());
}

TEST_F(grace, each_item_once_whoever_polls)
{
	const size_t nr = 20000, nr_threads = 4, often = 1000;
	std::vector<struct item> items(nr * nr_threads);
	std::vector<std::thread> threads;
	std::atomic<uint64_t> most{ 0 };
	std::atomic<bool> stop{ false };

	for (size_t t = 0; t < nr_threads; t++) {
		threads.emplace_back([&, t] {
			for (size_t i = 0; i < nr; i++) {
				grace_add(&queue, &items[t * nr + i].link);
				/* Too much, if others release while it is read. */
				uint64_t done = __atomic_load_n(&queue.done, __ATOMIC_ACQUIRE);
				uint64_t now = grace_nr(&queue);
				bool exact = __atomic_load_n(&queue.done, __ATOMIC_ACQUIRE) == done;
				if (exact && now > most)
					most = now;
				/* Polling alone gets there, whoever is preempted where. */
				while (i % often == 0 && grace_nr(&queue) > often) {
					grace_poll(&queue);
					std::this_thread::yield();
				}
			}
		});
	}
	std::thread reader([&] {
		while (!stop)
			slub_read_unlock(slub_read_lock());
	});
	for (auto &thread : threads)
		thread.join();
	stop = true;
	reader.join();
	grace_flush(&queue);
	for (auto &one : items)
		ASSERT_EQ(one.released, 1);
	EXPECT_EQ(queue.done, queue.added);
	EXPECT_EQ(queue.unreleased, 0u);
	EXPECT_EQ(queue.ripe, nullptr);
	EXPECT_LE(most, (often + 1) * nr_threads + often) << "not more than each adds in between";
}

/* In a child what other threads had in their hands is lost, and nothing is waited for. */
TEST_F(grace, a_forked_child_gives_up_what_others_were_releasing)
{
	std::vector<struct item> items(8);

	for (auto &one : items)
		grace_add(&queue, &one.link);
	grace_flush(&queue);
	/* As if another thread had taken two of a batch of five. */
	queue.added += 5;
	queue.batch = queue.unreleased = 5;
	queue.ripe = &items[0].link;
	queue.ripe_nr = 3;
	items[0].link = &items[1].link;
	items[1].link = &items[2].link;
	items[2].link = nullptr;
	fork_with(&queue);
	grace_flush(&queue);
	EXPECT_EQ(queue.done, queue.added);
	EXPECT_EQ(items[0].released, 2);
	EXPECT_EQ(items[2].released, 2);
	EXPECT_EQ(items[3].released, 1);
	grace_add(&queue, &items[4].link);
	grace_flush(&queue);
	EXPECT_EQ(items[4].released, 2);
}

/* The code that a handler interrupted has the lock, and goes on with what it has read. */
TEST_F(grace, a_child_that_a_handler_forked_amid_a_change_gives_up_no_more)
{
	std::vector<struct item> items(3);

	/* Another thread has four of a batch of five; this one had one, and counts it off. */
	queue.added = queue.batch = queue.unreleased = 5;
	lock_acquire(&queue.lock);
	uint64_t unreleased = queue.unreleased;
	fork_with(&queue);
	queue.unreleased = unreleased - 1;
	lock_release(&queue.lock);
	for (auto &one : items)
		grace_add(&queue, &one.link);
	for (int i = 0; i < 100 && queue.done < queue.added; i++) {
		slub_srcu_synchronize(&slub_rcu_domain);
		grace_poll(&queue);
	}
	EXPECT_EQ(queue.done, queue.added);
	for (auto &one : items)
		EXPECT_EQ(one.released, 1);
}

struct grace_queue *forks;	/* as from a handler: the next release of it, in a child */

void release_and_fork(void **link)
{
	if (forks) {
		fork_with(forks);
		forks = nullptr;
	}
	release_item(link);
}

/* There the thread goes on with what it had in its own hands. */
TEST_F(grace, a_child_that_a_handler_forked_amid_a_release_loses_nothing)
{
	std::vector<struct item> items(12);
	int reader = slub_read_lock();

	queue.release = release_and_fork;
	/* Nine for one grace period, three for the next. */
	for (int i = 0; i < 8; i++) {
		items[i].link = queue.fresh;
		queue.fresh = &items[i].link;
	}
	queue.fresh_nr = queue.added = 8;
	for (int i = 8; i < 12; i++)
		grace_add(&queue, &items[i].link);
	ASSERT_EQ(queue.waiting_nr, 9u);
	forks = &queue;
	slub_read_unlock(reader);
	/* All are released before it says that they are. */
	while (queue.done < queue.added) {
		grace_poll(&queue);
		EXPECT_LE(queue.done, order.size());
	}
	for (auto &one : items)
		EXPECT_EQ(one.released, 1);
	EXPECT_EQ(queue.unreleased, 0u);
}

/* Slabs full of @objects become empty while a reader is inside; returns its section. */
int empty_under_a_reader(struct slub_cache *cache, std::vector<void *> &objects)
{
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, objects.size(), objects.data()), objects.size());
	int reader = slub_read_lock();
	slub_cache_free_bulk(cache, objects.size(), objects.data());
	cache_flush(cache);
	cache_shrink_nodes(cache);
	return reader;
}

TEST_F(grace, slabs_of_typesafe_caches_wait)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	struct slub_cache *cache = make("typesafe", 256, SLUB_CACHE_TYPESAFE_BY_RCU);
	std::vector<void *> objects(2000);
	int reader = empty_under_a_reader(cache, objects);
	EXPECT_FALSE(cache_has_slabs(cache));
	for (void *object : objects)
		ASSERT_EQ(cache_of(object), cache) << "its memory is still of its kind";
	slub_read_unlock(reader);
	cache_settle(cache);
	for (void *object : objects)
		ASSERT_EQ(cache_of(object), nullptr);
	end(cache);
}

size_t nr_visited;

void visit_waiting(struct slub_cache *cache, struct page *slab, void *which)
{
	struct slab_iterator iterator;

	if (cache == which && slab_iterate(&iterator, cache, slab)) {
		while (slab_next(&iterator))
			nr_visited++;
	}
}

/* What links them in the queue is not taken for holes in them. */
TEST_F(grace, slabs_that_wait_have_no_holes)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	slab_shrink_all();
	size_t used = page_used_bytes();
	/* Of 3,000 bytes there are as many on a slab as bits in an address. */
	for (size_t size : { 256u, 2000u, 3000u }) {
		struct slub_cache *cache = make("typesafe", size, SLUB_CACHE_TYPESAFE_BY_RCU);
		size_t nr = 1000;
		std::vector<void *> objects(nr);

		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
		int reader = slub_read_lock();
		slub_cache_free_bulk(cache, nr, objects.data());
		cache_flush(cache);
		cache_shrink_nodes(cache);
		nr_visited = 0;
		slab_for_each(visit_waiting, cache);
		EXPECT_EQ(nr_visited, 0u) << "objects that nobody has";
		slub_read_unlock(reader);
		cache_settle(cache);
		end(cache);
	}
	slab_shrink_all();
	EXPECT_EQ(page_used_bytes(), used);
}

} /* namespace */
