/* SPDX-License-Identifier: MIT */
/*
 * features/shrinkers/shrinker_map.c, walk.c: which pairs of a group and a shrinker a walk asks, in
 * which order, on which node, and when a mark goes.  The clock is the test's own.
 */
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
#include "features/reclaim/reclaim_internal.h"
}
#undef _Static_assert

static uint64_t now_ns = 1000;
static unsigned nr_looks, nr_inside;
static std::function<void *(struct pool *)> *get;
static unsigned nr_put;

/* The linker sends the library's calls to these (--wrap). */
extern "C" uint64_t __wrap_os_clock_ns(void)
{
	struct walker *walker = walker_next(nullptr);

	/* Between two visits a walk is in no shrinker: it is waited for by nobody. */
	nr_looks += walker != nullptr;
	nr_inside += walker && walker->inside;
	return now_ns;
}

extern "C" void *__real_pool_get(struct pool *pool);

extern "C" void *__wrap_pool_get(struct pool *pool)
{
	return get && *get ? (*get)(pool) : __real_pool_get(pool);
}

extern "C" void __real_pool_put(struct pool *pool, void *item);

extern "C" void __wrap_pool_put(struct pool *pool, void *item)
{
	nr_put++;
	__real_pool_put(pool, item);
}

namespace {

constexpr int NR = 150;	/* of three units */
constexpr uint64_t OWED = (1ull << 50) - 1;

struct Asked {
	int n;			/* of which shrinker */
	struct slub_group *group;
	int node, priority;

	bool operator==(const Asked &other) const
	{
		return n == other.n && group == other.group && node == other.node &&
		       priority == other.priority;
	}
};

void PrintTo(const Asked &asked, std::ostream *out)
{
	*out << "shrinker " << asked.n << " for " << (void *)asked.group << " on " << asked.node
	     << " at " << asked.priority;
}

struct slub_shrinker all[NR];
std::vector<Asked> *asked;
std::function<size_t(int)> *has;

size_t counts(struct slub_shrinker *shrinker, struct slub_shrink_control *control) noexcept
{
	int n = (int)(shrinker - all);

	asked->push_back({ n, control->group, control->node, control->priority });
	return *has ? (*has)(n) : 0;
}

size_t scans(struct slub_shrinker *, struct slub_shrink_control *control) noexcept
{
	return control->nr_to_scan;
}

class Marks : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::percpu();
		asked = new std::vector<Asked>;
		has = new std::function<size_t(int)>;
		get = new std::function<void *(struct pool *)>;
	}
	void SetUp() override
	{
		asked->clear();
		*has = nullptr;
		*get = nullptr;
		for (struct slub_shrinker &shrinker : all) {
			shrinker = SLUB_SHRINKER_INIT("marked", counts, scans);
			shrinker.flags = SLUB_SHRINKER_GROUP_AWARE | SLUB_SHRINKER_NUMA_AWARE;
			ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
		}
		top = slub_group_create("top", nullptr);
		child = slub_group_create("child", top);
		ASSERT_TRUE(top && child);
	}
	void TearDown() override
	{
		for (struct slub_shrinker &shrinker : all)
			slub_shrinker_destroy(&shrinker);
		if (child) {
			EXPECT_EQ(slub_group_destroy(child), 0);
		}
		EXPECT_EQ(slub_group_destroy(top), 0);
		/* Nothing is left of it but units. */
		walks_until_stale();
		EXPECT_EQ(walker_next(nullptr), nullptr);
	}
	static void mark(int n, struct slub_group *group, int node = 0)
	{
		EXPECT_EQ(slub_shrinker_mark(&all[n], group, node), 0);
	}
	static struct map_unit *unit(int n, struct slub_group *group, int node = 0)
	{
		struct map_unit *unit = map_first(group_number(group), (uint32_t)node);

		while (unit && unit->number != all[n].id / 64)
			unit = map_next(unit);
		return unit;
	}
	static bool is_marked(int n, struct slub_group *group, int node = 0)
	{
		struct map_unit *found = unit(n, group, node);

		return found && bit_is_set(&found->set, all[n].id % 64);
	}
	static bool has_any(struct slub_group *group, int node = 0)
	{
		return bit_is_set(map_groups[node].words, group_number(group));
	}
	static std::vector<Asked> walk(int priority, struct slub_group *group, size_t freed = 0)
	{
		asked->clear();
		EXPECT_EQ(shrinkers_run(priority, group), freed);
		return *asked;
	}
	/* The walker that a walk will use has been in so many. */
	static uint32_t next_walk()
	{
		struct walker *walker = walker_begin();
		uint32_t walks = walker->walks;

		walker_end(walker);
		return walks + 1;
	}
	static void walks_until_stale()
	{
		for (int i = 0; i < 33; i++)
			shrinkers_run(12, nullptr);
	}

	struct slub_group *top, *child;
};

TEST_F(Marks, EachPairIsAskedOnItsNode)
{
	mark(0, child);
	mark(64, child);
	mark(149, child);
	mark(149, top, 2);
	mark(3, nullptr, OS_NODES_MAX - 1);
	*has = [](int) { return (size_t)1; };
	/* The newest unit first. */
	EXPECT_EQ(walk(5, nullptr), std::vector<Asked>({
		{ 149, child, 0, 5 }, { 64, child, 0, 5 }, { 0, child, 0, 5 },
		{ 149, top, 2, 5 }, { 3, nullptr, OS_NODES_MAX - 1, 5 } }));
	EXPECT_EQ(walk(5, top).size(), 4u);
	EXPECT_EQ(walk(5, child).size(), 3u);
	for (int n : { 0, 64, 149 }) {
		EXPECT_EQ(slub_shrinker_destroy(&all[n]), 0);
		ASSERT_EQ(slub_shrinker_create(&all[n]), 0);
	}
	EXPECT_EQ(walk(5, child).size(), 0u) << "by another number now";
}

/* What is owed lies with the pair. */
TEST_F(Marks, DebtsAreThePairs)
{
	mark(2, child);
	mark(70, child);
	mark(70, top);
	*has = [](int n) { return n == 2 ? (size_t)4096 : 8192; };
	for (uint64_t i = 1; i <= 3; i++) {
		walk(12, nullptr);
		EXPECT_EQ((uint64_t)unit(2, child)->deferred[all[2].id % 64] & OWED, 2 * i);
		EXPECT_EQ((uint64_t)unit(70, child)->deferred[all[70].id % 64] & OWED, 4 * i);
		EXPECT_EQ((uint64_t)unit(70, top)->deferred[all[70].id % 64] & OWED, 4 * i);
	}
	EXPECT_EQ(all[2].deferred[0], 0);
	/* A mark more changes nothing. */
	mark(70, child);
	EXPECT_EQ((uint64_t)unit(70, child)->deferred[all[70].id % 64] & OWED, 12u);
	/* What was freed is counted, of all of them. */
	EXPECT_EQ(walk(0, child, 8192 + 16384).size(), 2u);
	EXPECT_EQ((uint64_t)unit(70, child)->deferred[all[70].id % 64] & OWED, 12u)
		<< "twice of what there is, and no more";
}

/* Who says twice that there is nothing is asked no more; a group without marks is left out. */
TEST_F(Marks, WhereThereIsNothingTheyGo)
{
	int calls = 0;

	mark(1, child);
	mark(65, child);
	*has = [](int n) { return n == 1 ? SLUB_SHRINK_EMPTY : (size_t)0; };
	EXPECT_EQ(walk(7, child), std::vector<Asked>({ { 65, child, 0, 7 }, { 1, child, 0, 7 },
						       { 1, child, 0, 7 } }));
	EXPECT_FALSE(is_marked(1, child));
	EXPECT_TRUE(is_marked(65, child));
	EXPECT_TRUE(has_any(child));
	EXPECT_EQ(walk(7, child).size(), 1u) << "0 is not nothing";
	*has = [](int) { return SLUB_SHRINK_EMPTY; };
	EXPECT_EQ(walk(7, child).size(), 2u);
	EXPECT_FALSE(is_marked(65, child));
	EXPECT_FALSE(has_any(child));
	EXPECT_EQ(walk(7, child).size(), 0u);
	mark(65, child);
	EXPECT_TRUE(has_any(child));
	/* Something came in between. */
	*has = [&](int) { return calls++ ? (size_t)256 : SLUB_SHRINK_EMPTY; };
	EXPECT_EQ(walk(0, child, 512).size(), 2u);
	EXPECT_TRUE(is_marked(65, child));
	EXPECT_TRUE(has_any(child));
	/* It goes in its own callback: the mark is its last one's. */
	*has = [](int n) {
		slub_shrinker_destroy(&all[n]);
		return SLUB_SHRINK_EMPTY;
	};
	EXPECT_EQ(walk(0, child).size(), 1u);
	EXPECT_TRUE(is_marked(65, child)) << "for it was not asked twice";
	ASSERT_EQ(slub_shrinker_create(&all[65]), 0);
	mark(65, child);
	calls = 0;
	*has = [&](int n) {
		if (calls++)
			slub_shrinker_destroy(&all[n]);
		return calls > 1 ? (size_t)100 : SLUB_SHRINK_EMPTY;
	};
	EXPECT_EQ(walk(0, child).size(), 2u);
	EXPECT_FALSE(is_marked(65, child));
}

/* Marks of a shrinker that went stay for some walks, for the next may want them. */
TEST_F(Marks, OfWhomThereIsNoMore)
{
	mark(1, child);
	mark(2, child);
	mark(66, top);
	for (int n : { 1, 66 })
		EXPECT_EQ(slub_shrinker_destroy(&all[n]), 0);
	bool is_there = true;
	/* The look at the walker is one of its walks, too. */
	if (next_walk() % 2 == 0)
		next_walk();
	for (int i = 0; i < 64; i++) {
		is_there = is_there && next_walk() % 32;
		walk(12, nullptr);
		EXPECT_EQ(is_marked(1, child), is_there) << i;
		EXPECT_EQ(is_marked(66, top), is_there) << i;
		EXPECT_EQ(has_any(top), is_there) << i;
		EXPECT_TRUE(is_marked(2, child));
		if (!is_there)
			break;
	}
	/* That of a group that is dead goes, whoever has its shrinker's number. */
	uint32_t number = group_number(child);
	bit_clear(groups_alive.words, number);
	walks_until_stale();
	EXPECT_FALSE(is_marked(2, child));
	EXPECT_FALSE(has_any(child));
	bit_set(groups_alive.words, number);
}

/* A group's marks are its parent's when it is deleted; what was owed is nobody's. */
TEST_F(Marks, OfAGroupThatIsDeleted)
{
	const int last = OS_NODES_MAX - 1;

	mark(0, child);
	mark(149, child);
	mark(70, child, 1);
	mark(71, child, last);
	mark(1, top);
	for (int n : { 0, 149 })
		for (int64_t &owed : unit(n, child)->deferred)
			owed = 5;
	struct slub_group *gone = child;
	EXPECT_EQ(slub_group_destroy(child), 0);
	child = nullptr;
	for (int n : { 0, 1, 149 })
		EXPECT_TRUE(is_marked(n, top)) << n;
	EXPECT_TRUE(is_marked(70, top, 1));
	EXPECT_TRUE(is_marked(71, top, last));
	for (int node : { 0, 1, last }) {
		EXPECT_TRUE(has_any(top, node));
		EXPECT_FALSE(has_any(gone, node));
	}
	EXPECT_FALSE(has_any(top, 2));
	for (int n : { 0, 149 }) {
		EXPECT_FALSE(is_marked(n, gone));
		for (int64_t &owed : unit(n, gone)->deferred)
			EXPECT_EQ(owed, 0);
		for (int64_t &owed : unit(n, top)->deferred)
			EXPECT_EQ(owed, 0);
	}
	EXPECT_EQ(walk(3, nullptr).size(), 5u);
}

/* A child of fork finds the groups' marks as the pairs' are, and a parent leaves them. */
TEST_F(Marks, AForkMendsWhatWasHalfDone)
{
	const int last = OS_NODES_MAX - 1;
	struct { int n; struct slub_group *group; int node; } const pairs[] = {
		{ 0, nullptr, 0 }, { 1, top, 0 }, { 2, child, 0 }, { 3, nullptr, last },
		{ 140, child, last }, { 5, top, 1 },
	};

	for (auto &pair : pairs)
		mark(pair.n, pair.group, pair.node);
	for (enum fork_step step : { FORK_PARENT, FORK_CHILD }) {
		for (auto &pair : pairs)
			bit_clear(map_groups[pair.node].words, group_number(pair.group));
		map_fork(FORK_BEGINS);
		map_fork(step);
		for (auto &pair : pairs)
			EXPECT_EQ(has_any(pair.group, pair.node), step == FORK_CHILD) << pair.n;
		EXPECT_FALSE(has_any(top, 2));
		EXPECT_FALSE(has_any(child, 1));
	}
}

TEST_F(Marks, WithoutMemoryNoneIsMade)
{
	int n;
	unsigned calls = 0, put = nr_put, same = 0;

	/* The first of a unit that none before has had. */
	for (n = 64; all[n].id % 64; n++)
		continue;
	*get = [&](struct pool *) { return calls++, (void *)nullptr; };
	EXPECT_EQ(slub_shrinker_mark(&all[n], child, 0), -ENOMEM);
	EXPECT_EQ(calls, 1u);
	EXPECT_FALSE(has_any(child));
	EXPECT_EQ(unit(n, child), nullptr);
	/* Another thread makes the same one meanwhile: one is given back. */
	calls = 0;
	*get = [&](struct pool *pool) {
		if (!calls++) {
			EXPECT_EQ(slub_shrinker_mark(&all[n + 1], child, 0), 0);
		}
		return __real_pool_get(pool);
	};
	mark(n, child);
	EXPECT_EQ(calls, 2u);
	*get = nullptr;
	EXPECT_EQ(nr_put, put + 1);
	mark(n + 2, child);
	EXPECT_EQ(nr_put, put + 1);
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(is_marked(n + i, child));
	for (auto *each = map_first(group_number(child), 0); each; each = map_next(each))
		same += each->number == all[n].id / 64;
	EXPECT_EQ(same, 1u);
}

/* Where a group is promised memory it is asked at the last, unless it is the one that is full. */
TEST_F(Marks, WhoIsSpared)
{
	struct {
		size_t low_of_top, low_of_child;
		int64_t usage;
		int priority;
		bool from_top;
		size_t asked;
	} const rows[] = {
		{ 0, 0, 0, 1, false, 2 }, { 0, 100, 0, 1, false, 1 }, { 0, 100, 100, 1, false, 1 },
		{ 0, 100, 101, 1, false, 2 }, { 0, 100, 0, 0, false, 2 },
		{ 100, 100, 0, 1, false, 0 }, { 100, 100, 0, 0, false, 2 },
		{ 100, 100, 0, 1, true, 1 }, { 100, 0, 0, 1, true, 2 }, { 0, 100, 0, 1, true, 1 },
		{ 100, 100, 0, 0, true, 2 },
	};

	mark(0, top);
	mark(1, child);
	for (auto &row : rows) {
		charge_set_low(top, row.low_of_top);
		charge_set_low(child, row.low_of_child);
		child->usage = top->usage = row.usage;
		EXPECT_EQ(walk(row.priority, row.from_top ? top : nullptr).size(), row.asked)
			<< &row - rows;
		child->usage = top->usage = 0;
	}
	/* Those beside the group that is full are not asked at all. */
	struct slub_group *beside = slub_group_create("beside", nullptr);
	mark(3, beside);
	mark(4, nullptr);
	charge_set_low(top, 0);
	charge_set_low(child, 0);
	EXPECT_EQ(walk(0, top).size(), 2u);
	EXPECT_EQ(walk(0, child).size(), 1u);
	EXPECT_EQ(walk(0, nullptr).size(), 4u);
	EXPECT_EQ(slub_group_destroy(beside), 0);
}

/* At the deadline, not a moment later; the next goes on with the group it did not come to. */
TEST_F(Marks, AWalkEndsAtItsDeadline)
{
	struct slub_group *groups[5];
	struct slub_shrinker always = SLUB_SHRINKER_INIT("always", counts, scans);
	bool is_cut = true;

	for (int i = 0; i < 5; i++) {
		groups[i] = slub_group_create("one", nullptr);
		mark(i, groups[i], i == 4 ? 1 : 0);
	}
	*has = [](int) { return now_ns += 10, (size_t)1; };
	auto turns = [&](uint64_t ns) {
		std::vector<int> turns;

		asked->clear();
		shrinkers_run_until(9, ns ? now_ns + ns : 0, &is_cut);
		for (auto &each : *asked)
			turns.push_back(each.n);
		return turns;
	};
	typedef std::vector<int> Turns;
	EXPECT_EQ(turns(0), Turns({ 0, 1, 2, 3, 4 }));
	EXPECT_FALSE(is_cut);
	EXPECT_EQ(turns(20), Turns({ 0, 1 })) << "at the moment itself it is over";
	EXPECT_TRUE(is_cut);
	EXPECT_EQ(turns(10), Turns({ 2 }));
	EXPECT_TRUE(is_cut);
	EXPECT_EQ(turns(0), Turns({ 0, 1, 2, 3, 4 })) << "one without a deadline begins anew";
	EXPECT_FALSE(is_cut);
	EXPECT_EQ(turns(21), Turns({ 3, 0, 1 })) << "and leaves the others where they were";
	EXPECT_TRUE(is_cut);
	EXPECT_EQ(turns(1000), Turns({ 2, 3, 0, 1, 4 }));
	EXPECT_FALSE(is_cut);
	EXPECT_EQ(turns(1000), Turns({ 0, 1, 2, 3, 4 }));
	/* The other node's turn comes when this one's is over. */
	EXPECT_EQ(turns(40), Turns({ 0, 1, 2, 3 }));
	EXPECT_TRUE(is_cut);
	EXPECT_EQ(turns(10), Turns({ 0 }));
	/* Those without groups come first. */
	ASSERT_EQ(slub_shrinker_create(&always), 0);
	EXPECT_EQ(turns(10).size(), 1u);
	EXPECT_EQ(asked->front().group, nullptr);
	EXPECT_TRUE(is_cut);
	EXPECT_EQ(turns(20).size(), 2u);
	EXPECT_EQ(asked->back().n, 1) << "the groups' turn is what it was";
	reclaim_configure(3);
	always.flags |= SLUB_SHRINKER_NUMA_AWARE;
	EXPECT_EQ(turns(1000).size(), 3u + 5u);
	reclaim_configure(1);
	EXPECT_GT(nr_looks, 30u);
	EXPECT_EQ(nr_inside, 0u);
	EXPECT_EQ(slub_shrinker_destroy(&always), 0);
	for (struct slub_group *group : groups)
		EXPECT_EQ(slub_group_destroy(group), 0);
	EXPECT_FALSE((turns(1000), is_cut));
}

/* With as many walks as there can be one more finds nothing, and says nothing. */
TEST_F(Marks, WhereTooManyWalk)
{
	std::vector<struct walker *> walkers;
	unsigned visits = 0;
	auto visit = [](struct slub_shrinker *, void *arg) { return ++*(unsigned *)arg, 0; };

	mark(0, child);
	while (struct walker *walker = walker_begin())
		walkers.push_back(walker);
	EXPECT_EQ(walk(0, nullptr).size(), 0u);
	EXPECT_EQ(slub_shrinker_for_each(visit, &visits), 0);
	EXPECT_EQ(visits, 0u);
	for (struct walker *walker : walkers)
		walker_end(walker);
	EXPECT_EQ(walk(0, nullptr).size(), 1u);
	EXPECT_EQ(slub_shrinker_for_each(visit, &visits), 0);
	EXPECT_EQ(visits, (unsigned)NR);
}

/* A number rests before it comes again, and 4,096 come before higher ones. */
TEST_F(Marks, NumbersGoRound)
{
	struct slub_shrinker one = SLUB_SHRINKER_INIT("one", counts, scans);
	uint32_t before = 0, first = 0, rounds = 0;
	uint64_t stamp = 0;

	for (int i = 0; i < 9000; i++) {
		ASSERT_EQ(slub_shrinker_create(&one), 0);
		EXPECT_NE(one.stamp, stamp);
		EXPECT_GT(one.id, 0u);
		EXPECT_LT(one.id, 4096u);
		if (one.id < before) {
			EXPECT_EQ(before, 4095u);
			EXPECT_LE(one.id, (unsigned)NR + 1);
			rounds++;
		} else if (before) {
			/* Those that are taken lie side by side. */
			EXPECT_TRUE(one.id == before + 1 || one.id >= before + NR) << before;
		}
		if (!first)
			first = one.id;
		before = one.id;
		stamp = one.stamp;
		EXPECT_EQ(slub_shrinker_destroy(&one), 0);
	}
	EXPECT_EQ(rounds, 2u);
}

} /* namespace */
