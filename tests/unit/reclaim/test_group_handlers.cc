/* SPDX-License-Identifier: MIT */
/*
 * What a handler does to groups at each instruction of what its thread does to them: both come
 * out as if the one had come after the other.
 */
#include "group_steps.h"

namespace {

class Handlers : public BelowTop {
protected:
	void begin() override
	{
		child = make("child", top);
		other = make("other", top);
		/* So there is something in stock. */
		for (struct slub_group *group : { top, child, other })
			slub_group_uncharge(slub_group_charge(group, 1000), 1000);
	}
	void end() override
	{
		for (struct slub_group *group : { child, other })
			EXPECT_EQ(slub_group_destroy(group), 0);
	}
	static unsigned inside(struct slub_group *group)
	{
		return (unsigned)(group->owner->word / OWNER_INSIDE);
	}
	/* What a handler does; it says whether all was well. */
	bool in_handler()
	{
		uint32_t owner = group_owner_number(other), token;
		bool good = !slub_group_enter(other) && slub_group_current() == other;

		token = slub_group_charge(nullptr, 300);
		good = good && token == owner && slub_thread.malloc_limit == 0;
		slub_group_uncharge(token, 300);
		return !slub_group_leave(other) && good;
	}
	/* @work at each of its instructions; what is so before it is so afterwards. */
	void at_each_step(const std::function<bool()> &work)
	{
		struct slub_group *before = slub_group_current();
		uint32_t owner = group_current();

		unsigned nr = steps::for_each([&](unsigned step) {
			uint64_t passed = 0;
			bool good = false, handled = true, hit;

			hit = steps::interrupt(step, [&] { return ++passed; },
					       [&] { good = work(); },
					       [&] { handled = in_handler(); });
			EXPECT_TRUE(good) << step;
			EXPECT_TRUE(handled) << step;
			EXPECT_EQ(slub_group_current(), before) << step;
			EXPECT_EQ(group_current(), owner) << step;
			EXPECT_FALSE(group_thread.is_switching) << step;
			EXPECT_EQ(inside(child) + inside(other), 0u) << step;
			EXPECT_EQ(inside(top), before != nullptr) << step;
			for (struct slub_group *group : { top, child, other })
				EXPECT_EQ(group_usage(group), 0u) << step << group->name;
			if (before) {
				EXPECT_EQ(slub_group_charge(nullptr, 100), owner);
				EXPECT_EQ(group_usage(top), 100u);
				slub_group_uncharge(owner, 100);
				EXPECT_EQ(stock_owner(group_thread.stock), owner) << step;
			} else {
				EXPECT_EQ(group_thread.stock, &no_stock) << step;
				EXPECT_EQ(group_thread.last_stock->owner, 0u) << step;
			}
			return hit && !HasFailure();
		});
		EXPECT_GT(nr, 20u);
	}
	/* Enters, charges there, and leaves. */
	bool stay()
	{
		uint32_t owner = group_owner_number(child), token;
		bool good = !slub_group_enter(child) && slub_group_current() == child;

		good = good && group_current() == owner && !slub_thread.malloc_limit;
		token = slub_group_charge(nullptr, 500);
		good = good && token == owner;
		slub_group_uncharge(token, 500);
		return !slub_group_leave(child) && good;
	}

	struct slub_group *child, *other;
};

TEST_F(Handlers, WhileItsThreadEntersAndLeaves)
{
	at_each_step([this] { return stay(); });
}

TEST_F(Handlers, WhileItsThreadEntersAnInnerGroup)
{
	ASSERT_EQ(slub_group_enter(top), 0);
	at_each_step([this] { return stay(); });
	EXPECT_EQ(slub_group_leave(top), 0);
}

TEST_F(Handlers, WhileItsThreadCharges)
{
	const uint32_t owner = group_owner_number(top);

	ASSERT_EQ(slub_group_enter(top), 0);
	at_each_step([&] {
		bool good = slub_group_charge(nullptr, 2000) == owner;

		slub_group_uncharge(owner, 2000);
		return good;
	});
	EXPECT_EQ(slub_group_leave(top), 0);
}

/* At each instruction a handler finds what it needs: a group that is named whole, and charged. */
TEST_F(Handlers, FindGroupsThatAreWhole)
{
	const uint32_t numbers[] = { group_number(top), group_number(child) };
	const uint32_t owners[] = { group_owner_number(top), group_owner_number(child) };
	struct group_thread *thread = &group_thread;
	unsigned wrong = 0, looks = 0;
	auto look = [&] {
		uint32_t self = slub_thread.self.owner;

		looks++;
		for (uint16_t n = 0; n < thread->nr; n++)
			wrong += thread->groups[n] != numbers[n] || thread->owners[n] != owners[n];
		wrong += thread->nr > 2 || (self && self != owners[0] && self != owners[1]);
		/* malloc() in a handler would open its fast path again. */
		wrong += !slub_thread.malloc_limit && !self && thread->nr;
		/* What is current belongs to whom the thread works for. */
		wrong += thread->stock != &no_stock && self && !thread->is_switching &&
			 thread_stock_is_current(thread->stock) &&
			 stock_owner(thread->stock) != self;
		return true;
	};

	for (int i = 0; i < 2; i++) {
		slub_thread.malloc_limit = 4096;
		steps::run([&] { slub_group_enter(top); }, look);
		EXPECT_EQ(wrong, 0u) << "entering";
		steps::run([&] { slub_group_enter(child); }, look);
		EXPECT_EQ(wrong, 0u) << "entering an inner one";
		steps::run([&] { slub_group_leave(child); }, look);
		EXPECT_EQ(wrong, 0u) << "leaving it";
		steps::run([&] { slub_group_leave(top); }, look);
		EXPECT_EQ(wrong, 0u) << "leaving";
	}
	/* As a handler that interrupted a switch enters. */
	slub_thread.malloc_limit = 4096;
	thread->is_switching = true;
	steps::run([&] { slub_group_enter(top); }, look);
	EXPECT_EQ(wrong, 0u) << "entering in a switch";
	steps::run([&] { slub_group_leave(top); }, look);
	EXPECT_EQ(wrong, 0u) << "leaving in a switch";
	thread->is_switching = false;
	EXPECT_GT(looks, 200u);
}

} /* namespace */
