/* SPDX-License-Identifier: MIT */
/* A group is deleted, and its owner is another's, at each step of a call that names the group. */
#include "group_steps.h"

namespace {

/* The group is all that holds its owner, which is another group's as soon as it can be. */
class ADelete : public BelowTop {
protected:
	void begin() override { used_before = owner_pool.nr_used; }
	/*
	 * At each instruction of @work the group is deleted, and one more made: in another
	 * structure, for who names a group that was deleted before the call names the next one.
	 */
	void at_each_step(const std::function<void()> &work, const std::function<void()> &check,
			  const std::function<void()> &prepare = [] {})
	{
		steps::for_each([&](unsigned step) {
			int index = slub_srcu_read_lock(&group_domain);
			uint64_t passed = 0;
			bool hit;

			group = make("short", top);
			next = nullptr;
			prepare();
			/* Each instruction up to the hold, and then one in 32. */
			hit = steps::interrupt(step, [&] {
				return ++passed < 300 ? passed : passed / 32 * 32;
			}, work, [&] {
				other.call([&] {
					EXPECT_EQ(slub_group_destroy(group), 0);
					next = make("next", top);
				});
			});
			slub_srcu_read_unlock(&group_domain, index);
			if (!hit) {
				EXPECT_EQ(slub_group_destroy(group), 0);
			}
			check();
			if (next) {
				EXPECT_EQ(slub_group_destroy(next), 0);
			}
			EXPECT_EQ(usage(top), 0u) << step;
			EXPECT_EQ(owner_pool.nr_used, used_before) << step;
			EXPECT_EQ(nr_tight, 0u) << step;
			EXPECT_EQ(groups_with_low, 0u) << step;
			return hit && !HasFailure();
		});
	}
	static size_t usage(struct slub_group *group)
	{
		struct slub_group_stats stats = {};

		EXPECT_EQ(slub_group_stats(group, &stats), 0);
		return stats.usage;
	}

	steps::Other other;
	struct slub_group *group, *next;
	uint32_t used_before;
};

/* It is charged to the group, then to its parent, or refused; to the next one never. */
TEST_F(ADelete, InTheMiddleOfACharge)
{
	int charged = 0, refused = 0;
	uint32_t token;

	at_each_step([&] { token = slub_group_charge(group, 1000); }, [&] {
		if (next) {
			EXPECT_EQ(usage(next), 0u);
		}
		EXPECT_EQ(usage(top), token ? 1000u : 0u);
		charged += token != 0;
		refused += !token;
		slub_group_uncharge(token, 1000);
	});
	EXPECT_GT(charged, 0);
	EXPECT_GT(refused, 0);
}

TEST_F(ADelete, InTheMiddleOfAPlaceBeingSet)
{
	int set = 0, refused = 0;
	uint32_t place;

	at_each_step([&] { place = 0, (void)group_place_set(&place, group); }, [&] {
		uint32_t owner = 0;

		if (place) {
			EXPECT_EQ(group_charge_place(&place, 1000, &owner), 0);
			EXPECT_EQ(usage(top), 1000u);
			if (next) {
				EXPECT_EQ(usage(next), 0u);
			}
			group_uncharge(owner, 1000);
		}
		set += place != 0;
		refused += !place;
		group_place_set(&place, nullptr);
	});
	EXPECT_GT(set, 0);
	EXPECT_GT(refused, 0);
}

/* A group that is made tight by a charge that must not fail is not for ever, if it is dead. */
TEST_F(ADelete, InTheMiddleOfAChargeAboveTheMaximum)
{
	uint32_t token;

	at_each_step([&] { group_charge_anyway(token, 200000); }, [&] {
		slub_group_uncharge(token, 100);
		group_uncharge(token, 200000);
	}, [&] {
		/* So that there is an owner who answers for the other. */
		token = slub_group_charge(group, 100);
		slub_group_limit_set(group, SLUB_GROUP_MAX, 100000);
	});
}

/* What is set while a group dies is not found in the next one, nor counted for ever. */
TEST_F(ADelete, InTheMiddleOfALimitBeingSet)
{
	at_each_step([&] { slub_group_limit_set(group, SLUB_GROUP_LOW, 5000); }, [&] {
		if (next) {
			EXPECT_EQ(slub_group_limit_get(next, SLUB_GROUP_LOW), 0u);
		}
	});
}

/* A handler that is set while its group dies is set for no group that comes after it. */
TEST_F(ADelete, InTheMiddleOfAHandlerBeingSet)
{
	slub_group_handler_fn *handler = [](struct slub_group *, size_t, void *) noexcept {
		return false;
	};
	int set = 0, refused = 0, err;

	at_each_step([&] { err = slub_group_handler_set(group, handler, this); }, [&] {
		EXPECT_EQ(group->handler.first, 0u);
		EXPECT_EQ(group->handler.second, 0u);
		set += !err;
		refused += err == -EINVAL;
	});
	EXPECT_GT(set, 0);
	EXPECT_GT(refused, 0);
}

} /* namespace */
