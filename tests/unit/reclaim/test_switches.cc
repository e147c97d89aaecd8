/* SPDX-License-Identifier: MIT */
/*
 * features/groups/enter.c: a group that dies while it is entered, a handler that interrupted a
 * switch of groups, and stocks that cannot be had.
 */
#include <cerrno>
#include <functional>
#include <thread>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

static std::function<void *(struct pool *)> *get;

extern "C" void *__real_pool_get(struct pool *pool);

/* The linker sends the library's calls here (--wrap). */
extern "C" void *__wrap_pool_get(struct pool *pool)
{
	return get && *get ? (*get)(pool) : __real_pool_get(pool);
}

namespace {

class Switches : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::percpu();
		get = new std::function<void *(struct pool *)>;
	}
	void SetUp() override
	{
		top = slub_group_create("top", nullptr);
		child = slub_group_create("child", top);
		ASSERT_TRUE(top && child);
		owner = group_owner_number(child);
		*get = nullptr;
	}
	void TearDown() override
	{
		EXPECT_EQ(inside(child) + inside(top), 0u);
		EXPECT_EQ(stats(top).usage, 0u);
		EXPECT_EQ(slub_group_destroy(child), 0);
		EXPECT_EQ(slub_group_destroy(top), 0);
	}
	static struct slub_group_stats stats(struct slub_group *group)
	{
		struct slub_group_stats now;

		EXPECT_EQ(slub_group_stats(group, &now), 0);
		return now;
	}
	/* How many threads are. */
	static unsigned inside(struct slub_group *group)
	{
		return (unsigned)((group->owner->word & ~OWNER_DEAD) / OWNER_INSIDE);
	}

	struct slub_group *top, *child;
	uint32_t owner;
};

/* A handler that interrupted a switch is counted, and leaves its thread's stock alone. */
TEST_F(Switches, AHandlerInTheMiddleOfASwitch)
{
	struct group_thread *thread = &group_thread;

	for (bool in_group : { false, true }) {
		if (in_group) {
			ASSERT_EQ(slub_group_enter(top), 0);
		}
		struct thread_stock *stock = thread->stock;
		thread->is_switching = true;
		EXPECT_EQ(slub_group_enter(child), 0);
		EXPECT_EQ(slub_group_current(), child);
		EXPECT_EQ(inside(child), 1u);
		EXPECT_EQ(thread->stock, stock);
		EXPECT_TRUE(thread->is_switching);
		EXPECT_EQ(thread->nr, in_group + 1);
		EXPECT_EQ(slub_thread.malloc_limit, 0u);
		EXPECT_EQ(slub_group_charge(nullptr, 100), owner);
		slub_group_uncharge(owner, 100);
		EXPECT_EQ(slub_group_leave(top), -EINVAL);
		EXPECT_EQ(slub_group_leave(child), 0);
		EXPECT_EQ(inside(child), 0u);
		EXPECT_EQ(thread->stock, stock);
		EXPECT_TRUE(thread->is_switching);
		EXPECT_EQ(slub_group_current(), in_group ? top : nullptr);
		EXPECT_EQ(group_current(), in_group ? group_owner_number(top) : 0);
		/* Of a group that is deleted, or whose owner is another's by now. */
		struct slub_group *dead = slub_group_create("dead", nullptr);
		dead->owner->word |= OWNER_DEAD;
		EXPECT_EQ(slub_group_enter(dead), -EINVAL);
		dead->owner->word &= ~OWNER_DEAD;
		dead->owner->group = child;
		EXPECT_EQ(slub_group_enter(dead), -EINVAL);
		dead->owner->group = dead;
		EXPECT_EQ(inside(dead), 0u);
		EXPECT_EQ(thread->nr, in_group);
		thread->is_switching = false;
		EXPECT_EQ(slub_group_destroy(dead), 0);
		if (in_group) {
			EXPECT_EQ(slub_group_leave(top), 0);
		}
	}
	EXPECT_EQ(inside(top), 0u);
	/* The fast path is about to undo a subtraction. */
	ASSERT_EQ(slub_group_enter(top), 0);
	thread_stock_add(thread->stock, -1000000);
	int64_t bytes = thread->stock->bytes;
	EXPECT_EQ(slub_group_enter(child), 0);
	EXPECT_EQ(thread->stock->bytes, bytes);
	EXPECT_EQ(stock_owner(thread->stock), group_owner_number(top));
	EXPECT_EQ(thread->stock->generation, 0u) << "nor do charges use it";
	EXPECT_FALSE(thread->is_switching);
	EXPECT_EQ(slub_group_leave(child), 0);
	EXPECT_EQ(thread->stock->bytes, bytes);
	thread_stock_add(thread->stock, 1000000);
	EXPECT_EQ(slub_group_leave(top), 0);
	EXPECT_EQ(inside(child) + inside(top), 0u);
}

/* The thread stays where it is, and its stock is its group's. */
TEST_F(Switches, AGroupThatDiesWhileItIsEntered)
{
	struct group_thread *thread = &group_thread;
	struct slub_group *dead = slub_group_create("dead", nullptr);

	for (bool in_group : { false, true }) {
		if (in_group) {
			ASSERT_EQ(slub_group_enter(top), 0);
			EXPECT_NE(slub_group_charge(nullptr, 100), 0u);
		}
		struct thread_stock *stock = thread->stock;
		size_t used = stats(top).usage;
		for (bool is_dead : { true, false }) {
			if (is_dead)
				dead->owner->word |= OWNER_DEAD;
			else
				dead->owner->group = child;
			EXPECT_EQ(slub_group_enter(dead), -EINVAL);
			dead->owner->word &= ~OWNER_DEAD;
			dead->owner->group = dead;
			EXPECT_EQ(inside(dead), 0u);
			EXPECT_EQ(thread->nr, in_group);
			EXPECT_FALSE(thread->is_switching);
			EXPECT_EQ(thread->stock, stock);
			EXPECT_EQ(slub_group_current(), in_group ? top : nullptr);
			EXPECT_EQ(stats(top).usage, used);
			if (in_group) {
				EXPECT_TRUE(thread_stock_is_current(stock));
				EXPECT_EQ(stock_owner(stock), group_owner_number(top));
			} else {
				EXPECT_EQ(thread->last_stock->owner, 0u);
			}
		}
		if (in_group) {
			slub_group_uncharge(group_owner_number(top), 100);
			EXPECT_EQ(slub_group_leave(top), 0);
		}
	}
	EXPECT_EQ(slub_group_destroy(dead), 0);
}

/* In a group at its maximum no stock is used; in one beside it is. */
TEST_F(Switches, WhileAGroupIsTight)
{
	struct slub_group *beside = slub_group_create("beside", nullptr);

	ASSERT_EQ(slub_group_limit_set(child, SLUB_GROUP_MAX, 1 << 20), 0);
	group_charge_anyway(owner, 2 << 20);
	ASSERT_EQ(nr_tight, 1u);
	for (struct slub_group *outer : { (struct slub_group *)nullptr, beside }) {
		if (outer) {
			ASSERT_EQ(slub_group_enter(outer), 0);
		}
		ASSERT_EQ(slub_group_enter(child), 0);
		EXPECT_FALSE(thread_stock_is_current(group_thread.stock));
		EXPECT_FALSE(group_thread.is_switching);
		ASSERT_EQ(slub_group_leave(child), 0);
		ASSERT_EQ(slub_group_enter(beside), 0);
		EXPECT_TRUE(thread_stock_is_current(group_thread.stock));
		EXPECT_FALSE(group_thread.is_switching);
		ASSERT_EQ(slub_group_leave(beside), 0);
		if (outer) {
			EXPECT_TRUE(thread_stock_is_current(group_thread.stock));
			ASSERT_EQ(slub_group_leave(outer), 0);
		}
	}
	group_uncharge(owner, 2 << 20);
	EXPECT_EQ(nr_tight, 0u);
	EXPECT_EQ(slub_group_destroy(beside), 0);
}

/* In a child the stock that its thread is about to have stays taken, and no other one. */
TEST_F(Switches, AForkInTheMiddleOfOne)
{
	struct group_thread *thread = &group_thread;
	struct thread_stock *mine = (struct thread_stock *)pool_get(&thread_stock_pool);
	struct thread_stock *others = (struct thread_stock *)pool_get(&thread_stock_pool);
	struct thread_stock *last = thread->last_stock;

	ASSERT_TRUE(mine && others);
	thread->last_stock = mine;
	for (bool is_switching : { true, false }) {
		mine->owner = others->owner = owner;
		thread->is_switching = is_switching;
		thread_stock_fork_child();
		EXPECT_EQ(mine->owner, is_switching ? owner : 0);
		EXPECT_EQ(others->owner, 0u);
		mine->owner = 0;
	}
	/* With something in it, or current, it was in use before. */
	thread->is_switching = true;
	for (int i = 0; i < 2; i++) {
		mine->owner = owner;
		group_charge_anyway(owner, 1000);
		mine->bytes = i ? 0 : 1000;
		mine->generation = (uint32_t)i;
		thread_stock_fork_child();
		EXPECT_EQ(mine->owner, 0u);
		EXPECT_EQ(mine->bytes, 0);
		EXPECT_EQ(mine->generation, 0u);
		if (i)
			group_uncharge(owner, 1000);
	}
	thread->is_switching = false;
	thread->last_stock = last;
}

/* A new stock that another thread takes first is that one's; without memory there is none. */
TEST_F(Switches, AStockThatAnotherThreadTakesFirst)
{
	/* A thread that has had none; all that there are belong to somebody. */
	std::thread([this] {
		struct thread_stock *first = nullptr;
		uint32_t end = pool_end(&thread_stock_pool);
		std::vector<uint32_t> owners(end);
		auto each = [](uint32_t n) {
			return (struct thread_stock *)pool_item(&thread_stock_pool, n);
		};

		for (uint32_t n = 1; n < end; n++) {
			owners[n] = each(n)->owner;
			each(n)->owner = UINT32_MAX;
		}
		*get = [&](struct pool *pool) -> void * {
			if (pool != &thread_stock_pool)
				return __real_pool_get(pool);
			auto *stock = (struct thread_stock *)__real_pool_get(pool);
			if (!first)
				(first = stock)->owner = UINT32_MAX;
			return stock;
		};
		EXPECT_EQ(slub_group_enter(child), 0);
		EXPECT_NE(group_thread.stock, &no_stock);
		EXPECT_NE(group_thread.stock, first);
		EXPECT_EQ(stock_owner(group_thread.stock), owner);
		EXPECT_EQ(slub_group_leave(child), 0);
		EXPECT_EQ(first->owner, UINT32_MAX);
		/* Again, and there is no memory: charges go past it. */
		struct thread_stock *second = group_thread.last_stock;
		second->owner = UINT32_MAX;
		*get = [](struct pool *pool) {
			return pool == &thread_stock_pool ? nullptr : __real_pool_get(pool);
		};
		EXPECT_EQ(slub_group_enter(child), 0);
		EXPECT_EQ(group_thread.stock, &no_stock);
		EXPECT_EQ(no_stock.generation, 0u);
		EXPECT_EQ(slub_group_charge(nullptr, 1000), owner);
		EXPECT_EQ(stats(child).usage, 1000u);
		EXPECT_EQ(slub_group_enter(top), 0);
		EXPECT_EQ(group_thread.stock, &no_stock);
		EXPECT_EQ(slub_group_leave(top), 0);
		slub_group_uncharge(owner, 1000);
		EXPECT_EQ(no_stock.bytes, 0);
		EXPECT_EQ(no_stock.owner, UINT32_MAX);
		EXPECT_EQ(slub_group_leave(child), 0);
		EXPECT_EQ(group_thread.stock, &no_stock);
		EXPECT_EQ(inside(child), 0u);
		*get = nullptr;
		first->owner = second->owner = 0;
		for (uint32_t n = 1; n < end; n++)
			each(n)->owner = owners[n];
		/* One of those is free again: it is taken, and none made. */
		uint32_t made = pool_end(&thread_stock_pool);
		EXPECT_EQ(slub_group_enter(child), 0);
		EXPECT_NE(group_thread.stock, &no_stock);
		EXPECT_EQ(pool_end(&thread_stock_pool), made);
		EXPECT_EQ(slub_group_leave(child), 0);
	}).join();
}

} /* namespace */
