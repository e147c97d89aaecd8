/* SPDX-License-Identifier: MIT */
/*
 * Shrinkers whose callbacks lie, never stop, sleep, throw, come and go, or wait for themselves:
 * what docs/internals/reclaim.md says becomes of each.
 */
#include <slub/cache.h>
#include <slub/group.h>
#include <slub/rcu.h>
#include <slub/shrinker.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "throws.h"

namespace {

using Control = slub_shrink_control;

struct Liar : slub_shrinker {
	std::function<size_t(Control *)> on_count = [](Control *) { return 0; };
	std::function<size_t(Control *)> on_scan = [](Control *) { return SLUB_SHRINK_STOP; };

	explicit Liar(unsigned int flags = 0) : slub_shrinker()
	{
		name = "liar";
		count = [](slub_shrinker *s, Control *c) noexcept {
			return static_cast<Liar *>(s)->on_count(c);
		};
		scan = [](slub_shrinker *s, Control *c) noexcept {
			return static_cast<Liar *>(s)->on_scan(c);
		};
		seeks = SLUB_SHRINKER_SEEKS;
		this->flags = flags;
	}
	~Liar() { slub_shrinker_destroy(this); }
};

/* Calls of scan in one visit at the most. */
constexpr size_t VISIT = 4096;

/* What a thread does that has nothing to do with a callback which does not return. */
bool works_as_usual()
{
	slub_cache *cache = slub_cache_create("as-usual", 200, 0, 0, nullptr);
	slub_group *group = slub_group_create("as-usual", nullptr);
	bool good = cache && group && slub_group_enter(group) == 0;
	std::vector<void *> blocks;

	for (size_t i = 0; i < 20000; i++) {
		blocks.push_back(malloc(i % 1000 == 0 ? 1 << 20 : 16 + i % 5000));
		good = good && blocks.back();
	}
	for (void *block : blocks)
		free(block);
	good = slub_group_leave(group) == 0 && slub_group_destroy(group) == 0 && good;
	slub_free_deferred(slub_cache_alloc(cache));
	slub_deferred_barrier();
	Liar other;
	good = slub_shrinker_create(&other) == 0 && good;
	slub_shrink(0);
	good = slub_shrinker_destroy(&other) == 0 && good;
	return slub_cache_destroy(cache) == 0 && good;
}

/* This program once more, with --act NAME and VARIABLE=value. */
int run_again(const char *variable, const char *value, const char *name,
	      std::string *errors = nullptr)
{
	return harness::in_child([&] {
		setenv(variable, value, 1);
		execl("/proc/self/exe", "lies", "--act", name, nullptr);
		_exit(126);
	}, errors, 120);
}

/* ---- frees less, frees more, never stops ---- */

TEST(ShrinkerLies, FreesLessThanItSays)
{
	Liar liar;
	size_t scans = 0;

	/* All it is asked for, it says, and has as many as before. */
	liar.on_count = [](Control *) { return 1000000; };
	liar.on_scan = [&](Control *c) { scans++; return c->nr_to_scan; };
	ASSERT_EQ(slub_shrinker_create(&liar), 0);
	EXPECT_EQ(slub_shrink(1), VISIT * 128);
	EXPECT_EQ(scans, VISIT);
	EXPECT_EQ(liar.freed, VISIT * 128);
	scans = 0;
	slub_shrink_all();
	EXPECT_LE(scans, 10 * VISIT);
	EXPECT_TRUE(works_as_usual());
}

TEST(ShrinkerLies, FreesMoreThanItSays)
{
	Liar liar;
	size_t objects = 1000, scans = 0;

	liar.on_count = [&](Control *) { return objects ? objects : SLUB_SHRINK_EMPTY; };
	liar.on_scan = [&](Control *) { scans++; objects = 0; return 0; };
	ASSERT_EQ(slub_shrinker_create(&liar), 0);
	EXPECT_EQ(slub_shrink(0), 0u);
	EXPECT_EQ(objects, 0u);
	EXPECT_LE(scans, 2000u / 128 + 1);
	scans = 0;
	slub_shrink(0);
	EXPECT_EQ(scans, 0u);
	EXPECT_EQ(liar.freed, 0u);
}

TEST(ShrinkerLies, AlwaysSaysThatThereIsMore)
{
	for (size_t batch : { (size_t)0, (size_t)1, SIZE_MAX }) {
		Liar liar;
		size_t scans = 0;

		liar.batch = batch;
		liar.on_count = [](Control *) { return SLUB_SHRINK_EMPTY - 1; };
		liar.on_scan = [&](Control *) { scans++; return 1; };
		ASSERT_EQ(slub_shrinker_create(&liar), 0);
		for (int priority = SLUB_SHRINK_PRIORITY_MAX; priority >= 0; priority--) {
			scans = 0;
			slub_shrink(priority);
			EXPECT_LE(scans, VISIT) << priority;
		}
		if (batch != SIZE_MAX) {
			EXPECT_EQ(liar.cut_short, (uint64_t)SLUB_SHRINK_PRIORITY_MAX + 1);
		}
	}
}

/* A group at its maximum believes usage, not callbacks. */
TEST(ShrinkerLies, AGroupAtItsMaximumIsNotDeceived)
{
	slub_group *group = slub_group_create("deceived", nullptr);
	struct slub_group_stats stats = {};
	size_t scans = 0, held = 1000;
	bool says_less = false;
	{
		Liar liar(SLUB_SHRINKER_GROUP_AWARE);

		slub_group_limit_set(group, SLUB_GROUP_MAX, 1000);
		uint32_t token = slub_group_charge(group, 1000);
		ASSERT_NE(token, 0u);
		liar.on_count = [&](Control *) { return 1 << 20; };
		liar.on_scan = [&](Control *c) {
			scans++;
			if (!says_less)
				return c->nr_to_scan;	/* and gives nothing back */
			slub_group_uncharge(token, held);
			held = 0;
			return (size_t)0;		/* and gave all back */
		};
		slub_shrinker_create(&liar);
		slub_shrinker_mark(&liar, group, 0);
		errno = 0;
		EXPECT_EQ(slub_group_charge(group, 1), 0u);
		EXPECT_EQ(errno, ENOMEM);
		EXPECT_LE(scans, (SLUB_SHRINK_PRIORITY_MAX + 1) * VISIT);
		EXPECT_EQ(slub_group_stats(group, &stats), 0);
		EXPECT_EQ(stats.usage, 1000u);
		EXPECT_EQ(stats.failures, 1u);
		EXPECT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 999), -EBUSY);
		says_less = true;
		EXPECT_EQ(slub_group_charge(group, 1), token);
		EXPECT_EQ(held, 0u);
		slub_group_uncharge(token, 1);
		EXPECT_EQ(slub_group_stats(group, &stats), 0);
		EXPECT_EQ(stats.usage, 0u);
	}
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* In a process that may have 64 MiB; see act_at_the_limit(). */
TEST(ShrinkerLies, AtTheLimitARequestFailsAfterABoundedNumberOfVisits)
{
	std::string errors;
	int status = run_again("SLUB_OPTIONS", "limit=64M,verbose=1", "limit", &errors);

	EXPECT_EQ(harness::describe_status(status), "exit 0") << errors;
	/* Said once. */
	size_t at = errors.find("shrinker 'liar': asked 4096 times in one visit");
	EXPECT_NE(at, errors.npos) << errors;
	EXPECT_EQ(errors.find("in one visit", at + 60), errors.npos) << errors;
}

/* ---- throws ---- */

TEST(ShrinkerLies, WhatThrowsEndsInTerminate)
{
	for (auto throws : { count_throws, scan_throws, visitor_throws, handler_throws,
			     isolate_throws, migrate_throws }) {
		std::string errors;
		int status = harness::in_child([&] {
			std::set_terminate([] { _exit(42); });
			throws();
		}, &errors);

		EXPECT_EQ(harness::describe_status(status), "exit 42") << errors;
	}
}

/* ---- comes and goes ---- */

TEST(ShrinkerLies, ACallbackMayUnregisterAndFreeAnother)
{
	std::vector<Liar *> all(100);
	size_t called = 0;

	/* Each takes out the next and the one before. */
	auto take = [&](size_t n) {
		if (!all[n])
			return;
		EXPECT_EQ(slub_shrinker_destroy(all[n]), 0);
		memset((void *)static_cast<slub_shrinker *>(all[n]), 0x6b, 64);
		all[n]->state = 0;
		delete all[n];
		all[n] = nullptr;
	};
	for (size_t i = 0; i < all.size(); i++) {
		all[i] = new Liar;
		all[i]->on_count = [&, i](Control *) {
			called++;
			if (i % 2 == 0)
				return (size_t)1000;	/* goes on to scan */
			take((i + 1) % all.size());
			take(i - 1);
			return (size_t)0;
		};
		all[i]->on_scan = [&, i](Control *) {
			take((i + 1) % all.size());
			return SLUB_SHRINK_STOP;
		};
		ASSERT_EQ(slub_shrinker_create(all[i]), 0);
	}
	slub_shrink(0);
	EXPECT_GT(called, 0u);
	EXPECT_LT(called, 100u);
	slub_shrink(0);
	for (size_t i = 0; i < all.size(); i++)
		take(i);
}

TEST(ShrinkerLies, AVisitorMayUnregisterWhatItVisits)
{
	std::vector<std::unique_ptr<Liar>> all;
	auto visit = [](slub_shrinker *s, void *nr) {
		if (!strcmp(s->name, "liar")) {
			EXPECT_EQ(slub_shrinker_destroy(s), 0);
			++*static_cast<int *>(nr);
		}
		return 0;
	};
	int nr = 0;

	for (int i = 0; i < 10; i++) {
		all.emplace_back(new Liar);
		slub_shrinker_create(all.back().get());
	}
	EXPECT_EQ(slub_shrinker_for_each(visit, &nr), 0);
	EXPECT_EQ(nr, 10);
}

TEST(ShrinkerLies, ACallbackThatRegistersForEverComesToAnEnd)
{
	std::vector<std::unique_ptr<Liar>> all;
	std::function<size_t(Control *)> one_more = [&](Control *) {
		all.emplace_back(new Liar);
		all.back()->on_count = one_more;
		int err = slub_shrinker_create(all.back().get());
		EXPECT_TRUE(err == 0 || err == -ENOSPC) << err;
		if (err)
			all.pop_back();
		return 0;
	};

	one_more(nullptr);
	slub_shrink(12);
	EXPECT_GT(all.size(), 1u);
	EXPECT_LE(all.size(), 65536u);
	/* There is room again. */
	all.clear();
	Liar after;
	EXPECT_EQ(slub_shrinker_create(&after), 0);
	slub_shrink(12);
}

TEST(ShrinkerLies, ACallbackThatRegistersItselfAnewComesToAnEnd)
{
	Liar liar;
	size_t calls = 0;

	liar.on_count = [&](Control *) {
		calls++;
		EXPECT_EQ(slub_shrinker_destroy(&liar), 0);
		EXPECT_EQ(slub_shrinker_create(&liar), 0);
		return 0;
	};
	ASSERT_EQ(slub_shrinker_create(&liar), 0);
	slub_shrink(12);
	EXPECT_GE(calls, 1u);
	EXPECT_LE(calls, 65536u);
}

/* Shrinkers that unregister and free each other while three threads walk over them. */
struct Cannibals {
	static constexpr size_t NR = 24;
	struct Cannibal : Liar {
		std::atomic<unsigned> life{ 42 };
	};
	std::atomic<Cannibal *> places[NR] = {};
	std::mutex lock;
	std::vector<Cannibal *> stuck;	/* -EDEADLK: to be finished from outside */
	std::atomic<size_t> eaten{ 0 }, wrong{ 0 };

	Cannibal *make()
	{
		auto *one = new Cannibal;

		one->on_count = [this, one](Control *) {
			wrong += one->life != 42;
			eat();
			return (size_t)0;
		};
		wrong += slub_shrinker_create(one) != 0;
		return one;
	}
	/* Takes one out, maybe itself, and puts a new one in its place. */
	void eat()
	{
		static std::atomic<uint64_t> seed;
		size_t n = harness::Random(seed++).below(NR);
		Cannibal *one = places[n].exchange(nullptr);

		if (!one)
			return;
		finish(one, slub_shrinker_destroy(one));
		places[n] = make();
		eaten++;
	}
	void finish(Cannibal *one, int err)
	{
		if (err) {
			std::lock_guard<std::mutex> hold(lock);
			wrong += err != -EDEADLK;
			stuck.push_back(one);
			return;
		}
		one->life = 0;
		delete one;
	}
};

TEST(ShrinkerLies, CallbacksThatUnregisterEachOtherWhileOthersWalk)
{
	Cannibals all;
	std::vector<std::thread> walkers;

	for (auto &place : all.places)
		place = all.make();
	for (int i = 0; i < 3; i++) {
		walkers.emplace_back([&] {
			while (all.eaten < 3000)
				slub_shrink(12);
		});
	}
	for (auto &walker : walkers)
		walker.join();
	EXPECT_EQ(all.wrong, 0u);
	for (auto &place : all.places)
		all.finish(place, slub_shrinker_destroy(place));
	for (size_t i = 0; i < all.stuck.size(); i++) {
		EXPECT_EQ(slub_shrinker_destroy(all.stuck[i]), 0);
		delete all.stuck[i];
	}
	EXPECT_EQ(all.wrong, 0u);
}

/* ---- sleeps, and waits for itself ---- */

TEST(ShrinkerLies, ACallbackThatSleepsHoldsUpNobodyElse)
{
	std::atomic<bool> inside{ false }, wake{ false };
	std::thread::id sleeper;
	Liar liar;

	liar.on_count = [&](Control *) {
		if (std::this_thread::get_id() != sleeper)
			return 0;
		inside = true;
		while (!wake)
			usleep(100);
		return 0;
	};
	ASSERT_EQ(slub_shrinker_create(&liar), 0);
	std::thread walker([&] {
		sleeper = std::this_thread::get_id();
		slub_shrink(0);
	});
	while (!inside)
		usleep(100);
	EXPECT_TRUE(works_as_usual());
	EXPECT_EQ(harness::in_child([] { _exit(works_as_usual() ? 0 : 1); }, nullptr, 120), 0);
	EXPECT_TRUE(inside && !wake);
	wake = true;
	walker.join();
}

/* Callbacks run in the thread that allocates, with what it holds: hence trylock. */
TEST(ShrinkerLies, ACallbackThatTriesTheLockOfTheAllocatingThreadIsLeftOut)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	slub_group *group = slub_group_create("locked", nullptr);
	uint32_t token;
	size_t busy = 0;
	{
		Liar polite(SLUB_SHRINKER_GROUP_AWARE);

		slub_group_limit_set(group, SLUB_GROUP_MAX, 1000);
		token = slub_group_charge(group, 1000);
		polite.on_count = [](Control *) { return 1; };
		polite.on_scan = [&](Control *) {
			if (pthread_mutex_trylock(&lock)) {
				busy++;
				return SLUB_SHRINK_STOP;
			}
			slub_group_uncharge(token, 1000);
			pthread_mutex_unlock(&lock);
			return (size_t)1;
		};
		slub_shrinker_create(&polite);
		slub_shrinker_mark(&polite, group, 0);
		pthread_mutex_lock(&lock);
		errno = 0;
		EXPECT_EQ(slub_group_charge(group, 1), 0u);
		EXPECT_EQ(errno, ENOMEM);
		EXPECT_GT(busy, 0u);
		pthread_mutex_unlock(&lock);
		EXPECT_EQ(slub_group_charge(group, 1), token);
	}
	slub_group_uncharge(token, 1);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* In a process of its own, which ends with the thread that hangs: see act_deadlock(). */
TEST(ShrinkerLies, AThreadThatWaitsForItselfHangsAloneAndIsReported)
{
	if (getenv("SLUB_FASTPATH"))
		GTEST_SKIP() << "takes ten seconds, and depends on no backend";
	EXPECT_EQ(harness::describe_status(run_again("SLUB_VERBOSE", "1", "deadlock")), "exit 0");
}

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			dprintf(2, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition,       \
				errno);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Says that it frees all it is asked for, allocates in between, and frees nothing. */
void act_at_the_limit()
{
	Liar liar;
	size_t counts = 0, scans = 0, nested = 0;
	std::vector<void *> blocks, rest;

	blocks.reserve(100000);
	rest.reserve(100000);
	liar.on_count = [&](Control *) { counts++; return (size_t)1 << 40; };
	liar.on_scan = [&](Control *c) {
		size_t before = counts;

		scans++;
		free(malloc(100000));
		nested += counts - before;
		return c->nr_to_scan;
	};
	MUST(slub_shrinker_create(&liar) == 0);
	while (void *block = malloc(20000))
		blocks.push_back(block);
	MUST(errno == ENOMEM);
	MUST(blocks.size() > 1000);
	for (size_t bytes : { (size_t)100, (size_t)20000, (size_t)1 << 20 }) {
		while (void *block = malloc(bytes))
			rest.push_back(block);
		counts = scans = 0;
		MUST(!malloc(bytes) && errno == ENOMEM);
		dprintf(2, "%zu bytes: %zu visits, %zu scans\n", bytes, counts, scans);
		MUST(scans <= counts * VISIT);
		MUST(counts <= 300);
		bool thrown = false;
		try {
			operator delete(operator new(bytes));
		} catch (const std::bad_alloc &) {
			thrown = true;
		}
		MUST(thrown);
		for (void *block : rest)
			free(block);
		rest.clear();
	}
	MUST(nested == 0);
	for (void *block : blocks)
		free(block);
	void *again = malloc(20 << 20);
	MUST(again);
	free(again);
}

/* A thread holds a lock that its own callback wants. */
void act_deadlock()
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static std::atomic<bool> inside;
	static std::thread::id holder;
	static auto *hangs = new Liar;
	std::string said;
	char text[512];
	int ends[2];

	MUST(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
	hangs->on_count = [](Control *) {
		if (std::this_thread::get_id() == holder) {
			inside = true;
			pthread_mutex_lock(&lock);
		}
		return 0;
	};
	slub_shrinker_create(hangs);
	std::thread([] {
		holder = std::this_thread::get_id();
		pthread_mutex_lock(&lock);
		slub_shrink(0);
		_exit(3);	/* it came back */
	}).detach();
	while (!inside)
		usleep(100);
	MUST(works_as_usual());
	std::thread([] {
		slub_shrinker_destroy(hangs);
		_exit(4);
	}).detach();
	MUST(works_as_usual());
	while (said.find("shrinker 'liar': still waiting for its callback") == said.npos) {
		ssize_t got = read(ends[0], text, sizeof(text));

		MUST(got > 0);
		said.append(text, (size_t)got);
	}
	MUST(works_as_usual());
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "--act"))
		return -1;
	strcmp(argv[2], "limit") ? act_deadlock() : act_at_the_limit();
	return 0;
}
