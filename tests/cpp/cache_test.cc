/* SPDX-License-Identifier: MIT */
/* slub::cache<T>: what is constructed is destructed, whatever goes wrong between. */
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <slub/slub.hpp>

namespace {

int alive;

struct counted {
	explicit counted(int value) : value(value)
	{
		alive++;
	}
	counted(const counted &) = delete;
	~counted()
	{
		alive--;
	}
	int value;
	char rest[52];
};

struct throwing {
	explicit throwing(bool now)
	{
		if (now)
			throw std::runtime_error("no");
	}
	char bytes[40] = {};
};

struct alignas(256) wide {
	char byte = 1;
};

struct plain {
	long a, b;
};

int error_of(const std::function<void()> &action, std::string *text = nullptr)
{
	try {
		action();
	} catch (const std::system_error &error) {
		if (text)
			*text = error.what();
		return error.code().value();
	}
	return 0;
}

TEST(cpp_cache, constructs_and_destructs)
{
	slub::cache<counted> cache("cpp-counted");

	alive = 0;
	counted *object = cache.make(7);
	EXPECT_EQ(object->value, 7);
	EXPECT_EQ(alive, 1);
	cache.destroy(object);
	EXPECT_EQ(alive, 0);
	cache.destroy(nullptr);
	EXPECT_EQ(alive, 0);
}

TEST(cpp_cache, gives_distinct_objects_of_its_own)
{
	slub::cache<plain> cache("cpp-distinct");
	std::set<plain *> seen;

	for (long i = 0; i < 1000; i++) {
		plain *object = cache.make(i, -i);
		EXPECT_EQ(slub_cache_of(object), cache.handle());
		EXPECT_TRUE(seen.insert(object).second);
	}
	long sum = 0;
	for (plain *object : seen) {
		EXPECT_EQ(object->a, -object->b);
		sum += object->a;
		cache.destroy(object);
	}
	EXPECT_EQ(sum, 999L * 1000 / 2);
}

TEST(cpp_cache, unique_pointer_returns_its_object)
{
	slub::cache<counted> cache("cpp-unique");

	alive = 0;
	{
		auto first = cache.make_unique(1);
		slub::cache<counted>::unique_ptr second = std::move(first);

		EXPECT_FALSE(first);
		EXPECT_EQ(second->value, 1);
		EXPECT_EQ(alive, 1);
		EXPECT_EQ(sizeof(second), 16u);
	}
	EXPECT_EQ(alive, 0);
	EXPECT_NO_THROW(cache.close());
}

TEST(cpp_cache, a_constructor_that_throws_leaves_nothing)
{
	slub::cache<throwing> cache("cpp-throwing");

	for (int i = 0; i < 10000; i++)
		EXPECT_THROW((void)cache.make(true), std::runtime_error);
	EXPECT_THROW((void)cache.try_make(true), std::runtime_error);
	EXPECT_THROW((void)cache.make_unique(true), std::runtime_error);
	EXPECT_NO_THROW(cache.close());	// would say EBUSY if one were left
}

TEST(cpp_cache, objects_are_aligned)
{
	slub::cache<wide> cache("cpp-wide");
	std::vector<slub::cache<wide>::unique_ptr> all;

	for (int i = 0; i < 100; i++) {
		all.push_back(cache.make_unique());
		EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().get()) % 256, 0u);
	}
	EXPECT_GE(cache.stride(), 256u);
}

TEST(cpp_cache, moves)
{
	slub::cache<counted> first("cpp-move");
	slub_cache *handle = first.handle();
	counted *object = first.make(3);
	slub::cache<counted> second = std::move(first);

	EXPECT_EQ(first.handle(), nullptr);
	EXPECT_EQ(second.handle(), handle);
	EXPECT_STREQ(second.name(), "cpp-move");
	second.destroy(object);

	slub::cache<counted> third("cpp-move-2");
	third = std::move(second);
	EXPECT_STREQ(third.name(), "cpp-move");
	EXPECT_NO_THROW(slub::cache<counted>("cpp-move-2"));	// given back by the move
	static_assert(!std::is_copy_constructible_v<slub::cache<counted>>);
}

TEST(cpp_cache, close_says_what_is_left)
{
	slub::cache<plain> cache("cpp-busy");
	plain *object = cache.make(1, 2);
	std::string text;

	EXPECT_EQ(error_of([&] { cache.close(); }, &text), EBUSY);
	EXPECT_NE(text.find("cpp-busy"), std::string::npos) << text;
	EXPECT_EQ(object->b, 2);
	plain *another = cache.make(3, 4);	// as usable as before
	EXPECT_EQ(another->a, 3);
	cache.destroy(object);
	cache.destroy(another);
	EXPECT_NO_THROW(cache.close());
	EXPECT_EQ(cache.handle(), nullptr);
}

TEST(cpp_cache, errors_are_clear)
{
	slub::cache<plain> taken("cpp-taken");
	std::string text;
	auto make = [](const char *name, unsigned long flags = 0) {
		return [=] { slub::cache<plain> cache(name, flags); };
	};

	EXPECT_EQ(error_of(make("cpp-taken"), &text), EEXIST);
	EXPECT_NE(text.find("there is a cache of that name"), std::string::npos) << text;
	EXPECT_EQ(error_of(make("two words"), &text), EINVAL);
	EXPECT_NE(text.find("no blanks"), std::string::npos) << text;
	EXPECT_EQ(error_of(make(""), &text), EINVAL);
	EXPECT_EQ(error_of(make(nullptr), &text), EINVAL);
	EXPECT_NE(text.find("(no name)"), std::string::npos) << text;
	EXPECT_EQ(error_of(make(std::string(48, 'x').c_str())), EINVAL);
	EXPECT_EQ(error_of(make("cpp-flag", 1ul << 40), &text), EINVAL);
	EXPECT_NE(text.find("flag"), std::string::npos) << text;
	EXPECT_EQ(error_of([] {
		slub::cache<counted> cache("cpp-typesafe", SLUB_CACHE_TYPESAFE_BY_RCU);
	}, &text), EINVAL);
	EXPECT_NE(text.find("destructor"), std::string::npos) << text;
}

TEST(cpp_cache, arguments_beyond_the_usual)
{
	slub_cache_args args = {};

	args.name = "cpp-args";
	args.size = 200;
	args.align = 64;
	slub::cache<plain> cache(args);
	EXPECT_GE(cache.stride(), 200u);
	auto object = cache.make_unique(1, 2);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(object.get()) % 64, 0u);

	args.name = "cpp-args-2";
	args.size = 8;
	EXPECT_EQ(error_of([&] { slub::cache<plain> small(args); }), EINVAL);
	args.size = 0;
	args.ctor = [](void *) {};
	EXPECT_EQ(error_of([&] { slub::cache<plain> constructed(args); }), EINVAL);
}

TEST(cpp_cache, is_shared_by_threads)
{
	slub::cache<plain> cache("cpp-threads");
	std::vector<std::vector<plain *>> made(4);
	auto each = [](auto work) {
		std::vector<std::thread> threads;

		for (size_t i = 0; i < 4; i++)
			threads.emplace_back(work, i);
		for (std::thread &thread : threads)
			thread.join();
	};

	each([&](size_t i) {
		for (long n = 0; n < 20000; n++) {
			made[i].push_back(cache.make(static_cast<long>(i), n));
			if (n % 3 == 0) {
				cache.destroy(made[i].back());
				made[i].pop_back();
			}
		}
	});
	each([&](size_t i) {	// each destroys what another made
		for (plain *object : made[(i + 1) % 4]) {
			EXPECT_EQ(object->a, static_cast<long>((i + 1) % 4));
			cache.destroy(object);
		}
	});
	EXPECT_TRUE(cache.shrink());
	EXPECT_EQ(cache.stats().double_free, 0u);
	EXPECT_NO_THROW(cache.close());
}

} // namespace
