/* SPDX-License-Identifier: MIT */
/* Promise: slub/cpp/group.hpp, slub/cpp/shrinker.hpp, and objects of slub::cache<T> that move. */
#include <array>
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include <slub/malloc.h>
#include <slub/slub.hpp>

namespace {

TEST(cpp_group, charges_what_a_block_allocates)
{
	slub::group tenant("cpp-tenant");
	void *inside_block, *outside_block;

	EXPECT_EQ(slub_group_current(), nullptr);
	{
		slub::group_guard inside(tenant);
		EXPECT_EQ(slub_group_current(), tenant.handle());
		inside_block = ::operator new(100000);
	}
	EXPECT_EQ(slub_group_current(), nullptr);
	size_t with_one = tenant.stats().usage;
	EXPECT_GE(with_one, 100000u);
	outside_block = ::operator new(100000);
	EXPECT_EQ(tenant.stats().usage, with_one);
	::operator delete(inside_block);
	EXPECT_LT(tenant.stats().usage, 100000u);
	::operator delete(outside_block);
}

TEST(cpp_group, refuses_more_than_its_limit)
{
	slub::group parent("cpp-parent"), child("cpp-child", parent);

	EXPECT_EQ(parent.limit(SLUB_GROUP_MAX), SLUB_GROUP_NO_LIMIT);
	parent.set_limit(SLUB_GROUP_MAX, 4 << 20);
	EXPECT_EQ(parent.limit(SLUB_GROUP_MAX), 4u << 20);
	slub::group_guard inside(child);
	EXPECT_THROW(::operator delete(::operator new(5 << 20)), std::bad_alloc);
	void *block = ::operator new(3 << 20);
	EXPECT_THROW(parent.set_limit(SLUB_GROUP_MAX, 1 << 20), std::system_error);
	EXPECT_EQ(parent.limit(SLUB_GROUP_MAX), 4u << 20) << "it stayed";
	::operator delete(block);
}

TEST(cpp_group, moves_and_says_what_was_wrong)
{
	slub::group first("cpp-first");
	slub_group *handle = first.handle();
	slub::group second(std::move(first));

	EXPECT_EQ(first.handle(), nullptr);
	EXPECT_EQ(second.handle(), handle);
	EXPECT_THROW(slub::group_guard inside(first), std::system_error);
	for (const char *name : { "", "a b", static_cast<const char *>(nullptr) }) {
		try {
			slub::group bad(name);
			FAIL();
		} catch (const std::system_error &error) {
			EXPECT_EQ(error.code().value(), EINVAL);
			EXPECT_NE(strstr(error.what(), "slub::group '"), nullptr);
		}
	}
}

TEST(cpp_shrinker, is_asked_as_long_as_it_lives)
{
	size_t left = 1000, asked = 0;

	{
		slub::shrinker shrinker("cpp", [&] { return left; }, [&](size_t n) {
			size_t freed = n < left ? n : left;

			asked++;
			left -= freed;
			return freed;
		});
		slub_shrink_all();
		EXPECT_GT(asked, 0u);
		EXPECT_EQ(shrinker.freed(), 1000 - left);
	}
	size_t before = asked;
	slub_shrink_all();
	EXPECT_EQ(asked, before);
}

/* The limit of a group asks its own shrinkers, and those of nobody else. */
TEST(cpp_shrinker, gives_back_what_its_group_has)
{
	slub::group tenant("cpp-full"), other("cpp-other");
	std::vector<void *> kept;
	size_t others_asked = 0;

	tenant.set_limit(SLUB_GROUP_MAX, 4 << 20);
	kept.reserve(64);
	slub::shrinker own(tenant, "cpp-own", [&] { return kept.size(); }, [&](size_t n) {
		size_t freed = 0;

		for (; freed < n && !kept.empty(); freed++, kept.pop_back())
			slub_free(kept.back());
		return freed;
	});
	slub::shrinker aside(other, "cpp-aside", [&] { return others_asked++, size_t(0); },
			     [](size_t) { return size_t(0); });

	slub::group_guard inside(tenant);
	for (int i = 0; i < 32; i++) {
		/* not new: SHARED DATA in slub/shrinker.h */
		void *block = slub_malloc(1 << 20);

		ASSERT_NE(block, nullptr);
		kept.push_back(block);
	}
	EXPECT_GE(own.freed(), 28u);
	EXPECT_LE(tenant.stats().usage, 4u << 20);
	EXPECT_EQ(others_asked, 0u);
	while (!kept.empty()) {
		slub_free(kept.back());
		kept.pop_back();
	}
}

TEST(cpp_shrinker, of_a_group_that_is_not_there)
{
	slub::group first("cpp-gone"), second(std::move(first));

	EXPECT_THROW(slub::shrinker(first, "cpp", [] { return size_t(0); },
				    [](size_t) { return size_t(0); }),
		     std::system_error);
	EXPECT_NO_THROW(slub::shrinker(second, "cpp", [] { return size_t(0); },
				       [](size_t) { return size_t(0); }));
}

TEST(cpp_shrinker, needs_two_functions)
{
	EXPECT_THROW(slub::shrinker("cpp", nullptr, [](size_t) { return size_t(0); }),
		     std::system_error);
	EXPECT_THROW(slub::shrinker("cpp", [] { return size_t(0); }, nullptr), std::system_error);
	EXPECT_THROW(slub::shrinker("cpp", [] { return size_t(0); },
				    [](size_t) { return size_t(0); }, 2000000),
		     std::system_error);
}

/* Two calls that destroy each other's shrinker: none of the two may be gone while it is called. */
void destroy_each_other()
{
	std::unique_ptr<slub::shrinker> two[2];
	std::atomic<bool> taken[2] = {};
	std::atomic<int> inside{0};

	for (int i = 0; i < 2; i++) {
		two[i].reset(new slub::shrinker("cpp", [&, i]() -> size_t {
			if (taken[i].exchange(true))
				return 0;
			for (inside++; inside < 2;)
				std::this_thread::yield();
			two[!i].reset();
			return 0;
		}, [](size_t) { return size_t(0); }));
	}
	std::thread one([] { slub_shrink(SLUB_SHRINK_PRIORITY_MAX); });
	std::thread other([] { slub_shrink(SLUB_SHRINK_PRIORITY_MAX); });
	one.join();
	other.join();
}

TEST(cpp_shrinker, is_not_destroyed_while_it_is_called)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	EXPECT_DEATH(destroy_each_other(), "slub::shrinker: destroyed where");
}

struct thing {
	explicit thing(long number) : number(number), self(this)
	{
	}
	thing(const thing &from) : number(from.number), self(this)
	{
	}
	~thing()
	{
		self = nullptr;
	}
	long number;
	thing *self;	/* wrong where an object was moved by its bytes */
	char rest[80];
};

struct table {
	std::set<thing *> all;
	bool refuses = false;
	long moved = 0;

	bool isolate(thing *t) noexcept { return all.count(t) != 0; }
	bool migrate(thing *from, void *to) noexcept
	{
		if (refuses)
			return false;
		all.insert(new (to) thing(*from));
		all.erase(from);
		from->~thing();
		moved++;
		return true;
	}
};

void move_things(slub::cache<thing> &things)
{
	struct table table;
	std::vector<thing *> made;
	long sum = 0, found = 0;

	for (long i = 0; i < 20000; i++)
		made.push_back(things.make(i));
	for (long i = 0; i < 20000; i++) {
		if (i % 16) {
			things.destroy(made[i]);
			continue;
		}
		table.all.insert(made[i]);
		sum += i;
	}
	EXPECT_EQ(things.defrag(), -EOPNOTSUPP);
	things.set_mover(table);
	table.refuses = true;
	things.defrag();
	EXPECT_EQ(table.moved, 0);
	table.refuses = false;
	EXPECT_GT(things.defrag(), 0);
	EXPECT_GT(table.moved, 0);
	EXPECT_EQ(table.all.size(), 20000u / 16);
	for (thing *t : table.all) {
		EXPECT_EQ(t->self, t);
		found += t->number;
		things.destroy(t);
	}
	EXPECT_EQ(found, sum);
	things.pin();
	EXPECT_EQ(things.defrag(), -EOPNOTSUPP);
	things.close();
}

TEST(cpp_cache, objects_move_by_their_copy_constructor)
{
	slub::cache<thing> things("cpp-moving");

	move_things(things);
}

TEST(cpp_cache, objects_of_a_charged_cache_move_with_their_charge)
{
	slub::cache<thing> things("cpp-charged", SLUB_CACHE_ACCOUNT);

	move_things(things);
}

/* Makes room by raising the limit. */
bool raise_limit(slub_group *group, size_t bytes, void *arg) noexcept
{
	*static_cast<size_t *>(arg) += bytes;
	return slub_group_limit_set(group, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT) == 0;
}

TEST(cpp_group, its_handler_is_asked_before_a_request_is_refused)
{
	slub::group tenant("cpp-handler");
	size_t asked = 0;

	tenant.set_limit(SLUB_GROUP_MAX, 1 << 20);
	tenant.set_handler(raise_limit, &asked);
	{
		slub::group_guard inside(tenant);
		std::vector<char> block(4 << 20);
	}
	EXPECT_GE(asked, size_t(4) << 20);
	tenant.set_handler(nullptr, nullptr);
}

TEST(cpp_control, options_and_values_by_name)
{
	std::vector<char> block(3 << 20);
	std::string text = slub::stats_json();
	bool found = false;

	slub::set_option("retain", "7M");
	EXPECT_EQ(slub::option("retain"), "7340032");
	EXPECT_THROW(slub::set_option("retain", "much"), std::system_error);
	EXPECT_THROW(slub::option("none"), std::system_error);
	slub::shrink_node(0);
	EXPECT_LT(slub::shrink_node(), 1u << 20) << "most went the first time";
	EXPECT_THROW(slub::shrink_node(64), std::system_error);
	EXPECT_GE(slub::value("heap.large_bytes").number, uint64_t(3) << 20);
	EXPECT_THROW(slub::value("heap.none"), std::system_error);
	for (auto &[name, value] : slub::values())
		found |= name == "objects.used" && value.number > 0;
	EXPECT_TRUE(found);
	EXPECT_EQ(text.find("{\"kind\": \"stats\""), 0u) << text.substr(0, 50);
	EXPECT_EQ(text.substr(text.size() - 2), "}\n");
	delete new std::array<char, 60>;
	EXPECT_NE(slub::find_cache("malloc-64"), nullptr);
	EXPECT_EQ(slub::find_cache("none"), nullptr);

	const slub_cache *wanted = slub::find_cache("malloc-64"), *seen = nullptr;
	auto see = [&](slub_cache *cache) {
		seen = cache == wanted ? cache : seen;
		return seen ? -7 : 0;
	};
	EXPECT_EQ(slub::for_each_cache(see), -7);
	EXPECT_EQ(seen, wanted);
	EXPECT_EQ(slub::for_each_cache([](slub_cache *) { return 0; }), 0);
}

} /* namespace */
