/* SPDX-License-Identifier: MIT */
/* Promise: slub/cpp/bucket.hpp, pool.hpp, profile.hpp, reserve.hpp, and domains of rcu.hpp. */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include <slub/slub.hpp>

namespace {

template <class T> constexpr bool moves_only = std::is_nothrow_move_constructible_v<T> &&
					       !std::is_copy_constructible_v<T> &&
					       !std::is_copy_assignable_v<T>;
static_assert(moves_only<slub::bucket> && moves_only<slub::pool<long>> &&
	      moves_only<slub::profile> && moves_only<slub::group> &&
	      moves_only<slub::cache<long>>);
static_assert(!std::is_move_constructible_v<slub::srcu>, "readers know its address");
static_assert(!std::is_copy_constructible_v<slub::srcu_guard> &&
	      !std::is_copy_constructible_v<slub::read_guard> &&
	      !std::is_copy_constructible_v<slub::reserve_guard>);

int error_of(const std::function<void()> &work)
{
	try {
		work();
	} catch (const std::system_error &error) {
		return error.code().value();
	} catch (const std::bad_alloc &) {
		return ENOMEM;
	}
	return 0;
}

TEST(cpp_bucket, holds_blocks_and_frees_them_at_its_end)
{
	for (int round = 0; round < 2; round++) {	/* the name is free again */
		slub::bucket bucket("cpp-bucket");
		void *small = bucket.allocate(100), *large = bucket.allocate(100000);
		void *page = bucket.allocate(10, 4096);

		EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 4096, 0u);
		EXPECT_EQ(bucket.stats().live_blocks, 3u);
		std::memset(small, 7, 100);
		small = bucket.reallocate(small, 5000);
		EXPECT_EQ(static_cast<char *>(small)[99], 7);
		bucket.deallocate(small);
		bucket.deallocate(nullptr);
		std::free(large);
		EXPECT_EQ(bucket.stats().live_blocks, 1u);
		EXPECT_EQ(error_of([] { slub::bucket again("cpp-bucket"); }), EEXIST);
	}
	EXPECT_EQ(error_of([] { slub::bucket bad("a blank"); }), EINVAL);
	EXPECT_EQ(error_of([] { slub::bucket bad(nullptr); }), EINVAL);
}

TEST(cpp_bucket, moves_clears_and_closes)
{
	slub::bucket first(std::string("cpp-first")), other("cpp-other");
	slub_bucket *handle = first.handle();

	EXPECT_NE(first.try_allocate(10), nullptr);
	slub::bucket second(std::move(first));
	EXPECT_EQ(first.handle(), nullptr);
	EXPECT_EQ(second.handle(), handle);
	EXPECT_EQ(first.try_allocate(10), nullptr) << "it has no bucket any more";
	EXPECT_EQ(error_of([&] { (void)first.allocate(10); }), ENOMEM);
	EXPECT_TRUE(second.clear());
	EXPECT_EQ(second.stats().live_blocks, 0u);
	EXPECT_NE(second.try_allocate(10), nullptr);
	other = std::move(second);
	EXPECT_EQ(other.handle(), handle);
	other.close();
	EXPECT_EQ(other.handle(), nullptr);
	slub::bucket again("cpp-first");
}

TEST(cpp_bucket, charges_a_group)
{
	slub::group payer("cpp-payer");
	slub::bucket charged("cpp-charged", SLUB_CACHE_ACCOUNT), plain("cpp-uncharged");

	EXPECT_EQ(error_of([&] { plain.set_group(payer); }), EINVAL);
	charged.set_group(payer);
	void *block = charged.allocate(100000);
	size_t with_one = payer.stats().usage;

	EXPECT_GE(with_one, 100000u);
	charged.unset_group();
	EXPECT_NE(charged.allocate(100000), nullptr);
	EXPECT_EQ(payer.stats().usage, with_one);
	charged.deallocate(block);
	EXPECT_LT(payer.stats().usage, 100000u);
}

TEST(cpp_bucket, is_memory_for_containers)
{
	slub::bucket bucket("cpp-containers");
	slub::memory_resource memory(bucket), same(bucket), heap;
	{
		std::pmr::vector<std::pmr::string> names(&memory);

		for (int i = 0; i < 100; i++)
			names.emplace_back("a name that is too long for the string itself");
		EXPECT_GE(bucket.stats().live_blocks, 101u);
		EXPECT_EQ(memory, same);
		EXPECT_NE(memory, heap);
		EXPECT_EQ(memory.bucket(), bucket.handle());
	}
	EXPECT_EQ(bucket.stats().live_blocks, 0u);
}

struct element {
	explicit element(int number) : number(number)
	{
		if (number < 0)
			throw std::out_of_range("negative");
		alive++;
	}
	~element()
	{
		alive--;
	}
	int number;
	char data[500] = {};
	static int alive;
};
int element::alive;

TEST(cpp_pool, has_elements_when_there_is_no_memory)
{
	slub::pool<element> pool("cpp-pool", 3);

	EXPECT_EQ(pool.stats().available, 3u);
	element *made = pool.make(1);
	auto owned = pool.make_unique(2);
	element *kept = pool.make_reserved(3);

	EXPECT_EQ(pool.stats().available, 2u);
	EXPECT_EQ(made->number + owned->number + kept->number, 6);
	EXPECT_EQ(error_of([&] { pool.close(); }), EBUSY);
	EXPECT_THROW((void)pool.make_reserved(-1), std::out_of_range);
	EXPECT_EQ(pool.stats().available, 2u) << "it is back";
	EXPECT_THROW((void)pool.wait(-1), std::out_of_range);
	EXPECT_EQ(pool.stats().available, 3u) << "the cache's own fills the pool";
	EXPECT_EQ(element::alive, 3);
	pool.destroy(made);
	pool.destroy(kept);
	pool.destroy(nullptr);
	EXPECT_EQ(pool.stats().available, 3u);
	pool.resize(5);
	EXPECT_EQ(pool.stats().available, 5u);
	EXPECT_EQ(error_of([&] { pool.resize(0); }), EINVAL);
	EXPECT_STREQ(pool.cache().name(), "cpp-pool");
	owned.reset();
	EXPECT_EQ(element::alive, 0);
	pool.close();
	EXPECT_EQ(error_of([] { slub::pool<element> none("cpp-pool", 0); }), EINVAL);
	slub::pool<element> again(slub::cache<element>("cpp-pool"), 1);
}

TEST(cpp_pool, moves_with_its_elements)
{
	slub::pool<element> first("cpp-moving-pool", 1);
	auto one = first.wait_unique(4);
	slub::pool<element> second(std::move(first));

	EXPECT_EQ(first.handle(), nullptr);
	one.reset();
	EXPECT_EQ(second.stats().available, 1u);
	auto two = second.make_unique(5);
	EXPECT_EQ(two->number, 5);
}

/* All elements are out, and there is no memory: a waiter gets the one that comes back. */
TEST(cpp_pool, waits)
{
	slub::group poor("cpp-poor");
	slub::cache<element> from("cpp-waited", SLUB_CACHE_ACCOUNT);

	slub_cache_group_set(from.handle(), poor.handle());
	slub::pool<element> pool(std::move(from), 1);
	poor.set_limit(SLUB_GROUP_MAX, poor.stats().usage);
	element *only = pool.make(1);

	EXPECT_EQ(pool.try_make(2), nullptr);
	EXPECT_THROW((void)pool.make(2), std::bad_alloc);
	std::thread waiter([&] { pool.destroy(pool.wait(3)); });

	while (pool.stats().waiters == 0)
		std::this_thread::yield();
	pool.destroy(only);
	waiter.join();
	EXPECT_EQ(element::alive, 0);
	pool.close();
}

TEST(cpp_reserve, the_right_ends_with_the_guard)
{
	slub::set_reserve(256 << 10);
	EXPECT_GE(slub::reserve_bytes(), 256u << 10);
	{
		slub::reserve_guard right, nested;
	}
	EXPECT_EQ(slub_reserve_leave(), -EINVAL) << "nobody is inside";
	EXPECT_EQ(error_of([] { slub::set_reserve(SIZE_MAX / 2); }), ENOMEM);
	slub::set_reserve(0);
	EXPECT_EQ(slub::reserve_bytes(), 0u);
}

TEST(cpp_profile, samples_while_it_lives)
{
	std::string path = "/tmp/slub-cpp-" + std::to_string(getpid()) + ".heap";
	{
		slub::profile sampled(1);
		slub::profile moved(std::move(sampled));
		std::vector<int> kept(10000);

		moved.write(path);
		EXPECT_EQ(std::remove(path.c_str()), 0);
		EXPECT_EQ(error_of([&] { moved.write("/nowhere/heap"); }), ENOENT);
		moved.stop();
		moved.write(path);
		EXPECT_EQ(std::remove(path.c_str()), 0);
	}
	EXPECT_EQ(error_of([] { slub::profile bad(SIZE_MAX); }), EINVAL);
}

TEST(cpp_srcu, waits_for_its_readers_only)
{
	slub::srcu domain, other;
	slub::srcu_guard elsewhere(other);
	std::uint64_t cookie;
	{
		slub::srcu_guard reading(domain), nested(domain);

		cookie = domain.start_poll();
		EXPECT_FALSE(domain.poll(cookie));
	}
	while (!domain.poll(cookie))
		std::this_thread::yield();
	domain.synchronize();
	EXPECT_FALSE(other.poll(other.start_poll()));
}

TEST(cpp_srcu, a_reader_in_another_thread)
{
	slub::srcu domain;
	std::atomic<int> stage{ 0 };
	std::atomic<bool> is_over{ false };
	std::thread reader([&] {
		slub::srcu_guard reading(domain);

		stage = 1;
		while (stage != 2)
			std::this_thread::yield();
		is_over = true;
	});

	while (stage != 1)
		std::this_thread::yield();
	EXPECT_FALSE(domain.poll(domain.start_poll()));
	stage = 2;
	domain.synchronize();
	EXPECT_TRUE(is_over);
	reader.join();
}

} // namespace
