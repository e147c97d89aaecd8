/* SPDX-License-Identifier: MIT */
/*
 * What two threads, or a thread and its handler, do to groups at once, at each step of the one.
 */
#include <algorithm>
#include <vector>

#include "group_steps.h"

namespace {

constexpr size_t KIB = 1024;

/* Of an owner and its group. */
uint64_t state_of(const struct slub_group *group, const struct group_owner *owner)
{
	return steps::digest(group->is_alive, group->usage, group->nr_children, group->nr_below,
			     owner->heir, owner->outstanding, owner->word);
}

/* ---- two deletes at once ---- */

std::vector<std::pair<int, struct slub_group *>> asked;

struct Shrinkers {
	static constexpr int NR = 192;
	struct slub_shrinker all[NR] = {};

	Shrinkers()
	{
		for (struct slub_shrinker &shrinker : all) {
			shrinker.count = count;
			shrinker.scan = count;
			shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
			shrinker.seeks = SLUB_SHRINKER_SEEKS;
			EXPECT_EQ(slub_shrinker_create(&shrinker), 0);
		}
	}
	~Shrinkers()
	{
		for (struct slub_shrinker &shrinker : all)
			slub_shrinker_destroy(&shrinker);
	}
	static size_t count(struct slub_shrinker *shrinker,
			    struct slub_shrink_control *control) noexcept
	{
		asked.push_back({ (int)shrinker->id, control->group });
		return 0;
	}
	void mark(int n, struct slub_group *group)
	{
		EXPECT_EQ(slub_shrinker_mark(&all[n], group, 0), 0);
	}
	/* Is shrinker @n asked on behalf of @group? */
	bool is_asked(int n, struct slub_group *group)
	{
		asked.clear();
		shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, group);
		return std::find(asked.begin(), asked.end(),
				 std::make_pair((int)all[n].id, group)) != asked.end();
	}
};

class TwoDeletes : public GroupSteps {
protected:
	/* Below one that stays: a parent and its child, each with something of a shrinker. */
	void prepare()
	{
		used_before = owner_pool.nr_used;
		top = make("top");
		parent = make("parent", top);
		child = make("child", parent);
		parents = parent->owner;
		childs = child->owner;
		token = slub_group_charge(child, 1000);
		ASSERT_NE(token, 0u);
		/* One has one unit, the other two. */
		shrinkers.mark(10, parent);
		shrinkers.mark(70, child);
		shrinkers.mark(140, child);
	}
	uint64_t state()
	{
		return steps::digest(state_of(parent, parents), state_of(child, childs),
				     bits_next(&map_groups[0], 0, BITS_NR, true), map_state(parent),
				     map_state(child), map_state(top));
	}
	static uint64_t map_state(struct slub_group *group)
	{
		struct map_unit *unit = map_first(group_number(group), 0);
		uint64_t state = 0;

		for (; unit; unit = map_next(unit))
			state = steps::digest(state, unit->number, unit->set);
		return state;
	}
	/* What was the two's is the one's that stays, and no owner is there twice. */
	void check()
	{
		struct slub_group_stats stats;
		std::vector<struct slub_group *> more;
		std::vector<uint32_t> owners = { token, group_owner_number(top) };

		ASSERT_EQ(slub_group_stats(top, &stats), 0);
		EXPECT_EQ(stats.usage, 1000u);
		EXPECT_EQ(stats.nr_children, 0u);
		for (int n : { 10, 70, 140 })
			EXPECT_TRUE(shrinkers.is_asked(n, top)) << n;
		for (int i = 0; i < 4; i++) {
			more.push_back(make("more"));
			owners.push_back(group_owner_number(more.back()));
		}
		std::sort(owners.begin(), owners.end());
		EXPECT_EQ(std::unique(owners.begin(), owners.end()), owners.end());
		for (struct slub_group *group : more)
			EXPECT_EQ(slub_group_destroy(group), 0);
		slub_group_uncharge(token, 1000);
		ASSERT_EQ(slub_group_stats(top, &stats), 0);
		EXPECT_EQ(stats.usage, 0u);
		EXPECT_EQ(slub_group_destroy(top), 0);
		EXPECT_EQ(owner_pool.nr_used, used_before);
	}

	Shrinkers shrinkers;
	steps::Other other;
	struct slub_group *top, *parent, *child;
	struct group_owner *parents, *childs;
	uint32_t token, used_before;
};

/* The parent is deleted, all of it, while its child's delete is at any step. */
TEST_F(TwoDeletes, TheParentInTheMiddleOfItsChild)
{
	int done = 0;

	steps::for_each([&](unsigned step) {
		int child_err = -1, parent_err = -1;
		bool hit;

		prepare();
		hit = steps::interrupt(step, [&] { return state(); },
				       [&] { child_err = slub_group_destroy(child); }, [&] {
			other.call([&] { parent_err = slub_group_destroy(parent); });
		});
		EXPECT_EQ(child_err, 0);
		done += hit && !parent_err;
		if (parent_err) {
			EXPECT_EQ(slub_group_destroy(parent), 0);
		}
		check();
		return hit && !HasFailure();
	});
	EXPECT_GE(done, 3);
}

/* The child has been unhung, and its delete goes on while its parent's is at any step. */
TEST_F(TwoDeletes, TheChildInTheMiddleOfItsParent)
{
	int done = 0;

	steps::for_each([&](unsigned step) {
		int child_err = -1, parent_err = -1;
		bool hit, is_over = false;
		sem_t unhung, go_on;

		prepare();
		sem_init(&unhung, 0, 0);
		sem_init(&go_on, 0, 0);
		other.begin([&] {
			steps::interrupt(0, [&] { return child->is_alive; },
					 [&] { child_err = slub_group_destroy(child); }, [&] {
				sem_post(&unhung);
				while (sem_wait(&go_on))
					continue;
			});
		});
		while (sem_wait(&unhung))
			continue;
		hit = steps::interrupt(step, [&] { return state(); },
				       [&] { parent_err = slub_group_destroy(parent); }, [&] {
			sem_post(&go_on);
			other.finish();
			is_over = true;
		});
		if (!is_over) {
			sem_post(&go_on);
			other.finish();
		}
		EXPECT_EQ(child_err, 0);
		EXPECT_EQ(parent_err, 0);
		check();
		done += hit;
		return hit && !HasFailure();
	});
	EXPECT_GE(done, 3);
}

/* A group is deleted at any step of a mark for it: it is its parent's then, or refused. */
TEST_F(TwoDeletes, InTheMiddleOfAMark)
{
	int refused = 0, moved = 0;

	steps::for_each([&](unsigned step) {
		uint64_t passed = 0;
		int err = -1;
		bool hit;

		prepare();
		hit = steps::interrupt(step, [&] { return ++passed; }, [&] {
			err = slub_shrinker_mark(&shrinkers.all[40], child, 0);
		}, [&] {
			other.call([&] { EXPECT_EQ(slub_group_destroy(child), 0); });
		});
		if (!hit) {
			EXPECT_EQ(slub_group_destroy(child), 0);
		}
		refused += err == -EINVAL;
		moved += !err;
		EXPECT_TRUE(err == -EINVAL || shrinkers.is_asked(40, parent)) << step;
		EXPECT_EQ(slub_group_destroy(parent), 0);
		check();
		return hit && !HasFailure();
	});
	EXPECT_GT(refused, 0);
	EXPECT_GT(moved, 0);
}

/* A walk found nothing, and clears the group's bit: a mark that comes at any moment stays. */
TEST_F(GroupSteps, AMarkWhileAWalkTidies)
{
	constexpr uint32_t ID = 70;
	struct slub_group *group = make("group");
	uint32_t number = group_number(group), instruction = 0;

	ASSERT_EQ(map_mark(number, 0, ID), 0);
	struct map_unit *unit = map_first(number, 0);
	while (unit->number != ID / 64)
		unit = map_next(unit);
	unsigned nr = steps::for_each([&](unsigned step) {
		/* volatile: the last step is one of interrupt()'s own */
		volatile bool is_marked = false;

		map_unmark(unit, ID);
		bool done = steps::interrupt(step, [&] { return ++instruction; },
					     [&] { map_tidy(number, 0); }, [&] {
			EXPECT_EQ(map_mark(number, 0, ID), 0);
			is_marked = true;
		});
		EXPECT_EQ(bit_is_set(map_groups[0].words, number), is_marked) << step;
		return done;
	});
	EXPECT_GT(nr, 10u);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* ---- a handler and the owners' lock ---- */

/* A handler, at any step of who makes groups, drops the last reference to an owner. */
TEST_F(GroupSteps, AHandlerDropsTheLastReference)
{
	constexpr unsigned NR = 3000;
	std::vector<uint32_t> tokens;
	std::vector<struct slub_group *> made;
	uint32_t used = owner_pool.nr_used;
	unsigned held = 0;

	for (unsigned i = 0; i < NR; i++) {
		struct slub_group *group = make("short-lived");

		tokens.push_back(slub_group_charge(group, 100));
		ASSERT_NE(tokens.back(), 0u);
		ASSERT_EQ(slub_group_destroy(group), 0);
	}
	EXPECT_EQ(owner_pool.nr_used, used + NR);
	for (int i = 0; i < 4; i++)
		steps::run([&] { made.push_back(make("stepped")); }, [&] {
			/* Nothing but what the library may do there. */
			bool holds = lock_is_mine(&owner_pool.lock);

			if (tokens.empty() || (!holds && tokens.size() % 8 == 7))
				return !tokens.empty();
			held += holds;
			slub_group_uncharge(tokens.back(), 100);
			tokens.pop_back();
			return true;
		});
	EXPECT_GT(held, 10u);
	for (uint32_t token : tokens)
		slub_group_uncharge(token, 100);
	for (struct slub_group *group : made)
		EXPECT_EQ(slub_group_destroy(group), 0);
	EXPECT_EQ(owner_pool.nr_used, used);
}

/* ---- a maximum ---- */

/* Threads in a group, with something in stock each. */
class Maximum : public GroupSteps {
protected:
	static constexpr size_t MAX = 1024 * KIB;

	struct slub_group *group;
	steps::Other inside[3], other;
	size_t charged;

	static uint64_t state(const struct slub_group *group)
	{
		return steps::digest(group->usage, group->tight, nr_tight, group_generation);
	}
	/* As many pieces as the group gives, up to @most in all. */
	static size_t take(struct slub_group *group, size_t piece, size_t most)
	{
		size_t sum = 0;

		while (sum + piece <= most && slub_group_charge(group, piece))
			sum += piece;
		return sum;
	}
	void prepare()
	{
		group = make("limited");
		ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, MAX), 0);
		charged = 0;
		for (steps::Other &thread : inside)
			thread.call([this] {
				uint32_t owner = group_owner_number(group);

				EXPECT_EQ(slub_group_enter(group), 0);
				EXPECT_EQ(take(nullptr, KIB, 80 * KIB), 80 * KIB);
				slub_group_uncharge(owner, 80 * KIB);
			});
	}
	/* Those inside use what they have in stock. */
	void use_stocks()
	{
		for (steps::Other &thread : inside)
			thread.call([this] { charged += take(nullptr, KIB, MAX); });
	}
	void check_and_clean()
	{
		uint32_t owner = group_owner_number(group);

		EXPECT_LE(charged, MAX);
		for (steps::Other &thread : inside)
			thread.call([this] { EXPECT_EQ(slub_group_leave(group), 0); });
		slub_group_uncharge(owner, charged);
		EXPECT_EQ(slub_group_destroy(group), 0);
		EXPECT_EQ(nr_tight, 0u);
	}
};

/* While a thread makes a group tight, another that finds it so counts stocks as free. */
TEST_F(Maximum, TheSecondThatMakesAGroupTight)
{
	steps::for_each([&](unsigned step) {
		uint32_t token = 0;
		bool hit;

		prepare();
		while (MAX - (size_t)group->usage > 34 * KIB)
			charged += take(group, KIB, KIB);
		EXPECT_EQ(group->tight & 1, 0u);
		hit = steps::interrupt(step, [&] { return state(group); },
				       [&] { token = slub_group_charge(group, 40 * KIB); }, [&] {
			other.call([&] { charged += take(group, 8 * KIB, MAX); });
			use_stocks();
		});
		if (token)
			charged += 40 * KIB;
		use_stocks();
		check_and_clean();
		return hit && !HasFailure();
	});
}

/* While a thread finds that a group is tight no more, another fills it. */
TEST_F(Maximum, WhoFindsAGroupTightNoMore)
{
	unsigned loosened = 0;

	steps::for_each([&](unsigned step) {
		constexpr size_t BACK = 700 * KIB;
		uint64_t passed = 0;
		uint32_t owner;
		int64_t before;
		bool hit;

		prepare();
		owner = group_owner_number(group);
		charged += take(group, BACK, BACK);
		charged += take(group, 16 * KIB, MAX);
		EXPECT_EQ(group->tight & 1, 1u);
		before = group->usage;
		/* From when it is given back on, each instruction. */
		hit = steps::interrupt(step, [&] { return passed += group->usage != before; },
				       [&] { slub_group_uncharge(owner, BACK); }, [&] {
			other.call([&] { charged += take(group, 8 * KIB, MAX); });
		});
		charged -= BACK;
		loosened += !(group->tight & 1);
		use_stocks();
		check_and_clean();
		return hit && !HasFailure();
	});
	EXPECT_GT(loosened, 0u);
}

/* ---- a handler that forks ---- */

bool is_every_stock_free()
{
	for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++) {
		auto *stock = (struct thread_stock *)pool_item(&thread_stock_pool, n);

		if (stock->owner || stock->bytes || stock->back)
			return false;
	}
	return true;
}

/* In the child this thread goes on with its stock, and nobody else has it. */
void fork_while_one_enters_and_leaves(struct slub_group *group)
{
	uint32_t owner = group_owner_number(group);

	steps::for_each([&](unsigned step) {
		uint32_t has = 0, passed = 0;
		bool good = false, hit;

		hit = steps::interrupt(step, [&] { return ++passed; }, [&] {
			good = !slub_group_enter(group);
			has = group_thread.stock->owner;
			good = good && !slub_group_leave(group);
		}, [&] { thread_stock_fork_child(); });
		EXPECT_TRUE(good) << step;
		EXPECT_EQ(has, owner) << step;
		EXPECT_TRUE(is_every_stock_free()) << step;
		EXPECT_EQ(group_usage(group), 0u) << step;
		return hit && !testing::Test::HasFailure();
	});
}

TEST_F(GroupSteps, a_handler_forks_while_its_thread_enters_or_leaves)
{
	struct slub_group *group = make("forked");

	/* So there is something in stock. */
	uint32_t token = slub_group_charge(group, KIB);
	ASSERT_NE(token, 0u);
	slub_group_uncharge(token, KIB);
	fork_while_one_enters_and_leaves(group);
	/* A thread that has no stock to come back to. */
	std::thread([&] {
		steps::for_each([&](unsigned step) {
			uint32_t passed = 0;
			bool hit;

			group_thread.last_stock = &no_stock;
			hit = steps::interrupt(step, [&] { return ++passed; },
					       [&] { slub_group_enter(group); },
					       [&] { thread_stock_fork_child(); });
			EXPECT_EQ(group_thread.stock->owner, group_owner_number(group)) << step;
			EXPECT_EQ(slub_group_leave(group), 0) << step;
			EXPECT_TRUE(is_every_stock_free()) << step;
			EXPECT_EQ(group_usage(group), 0u) << step;
			return hit && !HasFailure();
		});
	}).join();
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* ---- a handler and its argument ---- */

struct Pair {
	slub_group_handler_fn *handler;
	int called = 0, mixed = 0;
};

Pair pairs[2];

template <int N> bool answer(struct slub_group *, size_t, void *arg) noexcept
{
	pairs[N].called++;
	pairs[N].mixed += arg != &pairs[N];
	return false;
}

/*
 * Charges what does not fit, by steps, and replaces the handler @before steps before @at_call,
 * where it was called the last time.  False, and @at_call is what it was now, if the handler was
 * called before it was replaced.
 */
bool replace_before_the_call(struct slub_group *group, uint64_t before, uint64_t &at_call)
{
	int called = pairs[0].called + pairs[1].called;
	uint64_t at = 0;
	bool done = false;
	steps::Other other;

	EXPECT_EQ(slub_group_handler_set(group, pairs[0].handler, &pairs[0]), 0);
	/* Reclaim comes before that, 15,000 steps that do not matter here. */
	steps::run_from_call((const void *)group_handler_ask, [&] {
		EXPECT_EQ(slub_group_charge(group, 8 * KIB), 0u);
	}, [&] {
		at++;
		if (pairs[0].called + pairs[1].called > called)
			return false;
		if (at + before < at_call)
			return true;
		done = true;
		/* It waits for this thread's call, if that has been announced. */
		other.begin([&] {
			slub_group_handler_set(group, pairs[1].handler, &pairs[1]);
		});
		while (__atomic_load_n(&group->handler.second, __ATOMIC_RELAXED) !=
		       (uintptr_t)&pairs[1])
			sched_yield();
		return false;
	});
	if (done)
		other.finish();
	EXPECT_EQ(pairs[0].called + pairs[1].called, called + 1);
	if (!done)
		at_call = at;
	return done;
}

/* A handler that is replaced while it is asked gets its own argument, or the other does. */
TEST_F(GroupSteps, a_handler_has_its_own_argument)
{
	struct slub_group *group = make("asked");
	uint64_t at_call = UINT64_MAX;

	pairs[0].handler = answer<0>;
	pairs[1].handler = answer<1>;
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 4 * KIB), 0);
	/* Where it is called: what matters lies right before that. */
	ASSERT_FALSE(replace_before_the_call(group, 0, at_call));
	ASSERT_EQ(pairs[0].called, 1);
	for (uint64_t before = 1; before < 60; before++) {
		while (!replace_before_the_call(group, before, at_call))
			continue;
	}
	EXPECT_GT(pairs[1].called, 0);
	EXPECT_EQ(pairs[0].mixed + pairs[1].mixed, 0);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

} /* namespace */
