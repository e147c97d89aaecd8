/* SPDX-License-Identifier: MIT */
/* slub::allocator<T> and slub::memory_resource under the standard containers. */
#include <cstring>
#include <forward_list>
#include <gtest/gtest.h>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <slub/slub.hpp>

int sum_in_second_unit(int n);	// second_unit.cc

namespace {

struct mine {
	static constexpr const char *name = "cpp-mine";
};

template <class T> using list = std::list<T, slub::allocator<T>>;
template <class K, class V>
using map = std::map<K, V, std::less<K>, slub::allocator<std::pair<const K, V>>>;
template <class K, class V>
using unordered_map = std::unordered_map<K, V, std::hash<K>, std::equal_to<K>,
					 slub::allocator<std::pair<const K, V>>>;

TEST(cpp_allocator, list)
{
	list<int> numbers;

	for (int i = 0; i < 10000; i++)
		numbers.push_back(i);
	numbers.remove_if([](int i) { return i % 2; });
	EXPECT_EQ(numbers.size(), 5000u);
	int expected = 0;
	for (int i : numbers) {
		EXPECT_EQ(i, expected);
		expected += 2;
	}
	list<int> taken = std::move(numbers);
	list<int> copy = taken;
	taken.splice(taken.end(), copy);
	EXPECT_EQ(taken.size(), 10000u);
}

TEST(cpp_allocator, nodes_lie_in_a_cache_of_their_size)
{
	list<long> numbers;

	numbers.push_back(1);	// two pointers and a long: 24 bytes
	slub_cache *cache = slub_cache_of(&numbers.front());	// inner pointers do
	ASSERT_NE(cache, nullptr);
	EXPECT_STREQ(slub_cache_name(cache), "node-24");
	EXPECT_EQ(slub_cache_size(cache), 24u);

	struct three { void *words[3]; };
	EXPECT_EQ(slub::allocator<three>::cache(), cache);
	EXPECT_EQ(slub::allocator<int>::cache(), nullptr);
}

TEST(cpp_allocator, a_tag_has_caches_of_its_own)
{
	std::list<long, slub::allocator<long, mine>> numbers(3);
	slub_cache *cache = slub_cache_of(&numbers.front());

	ASSERT_NE(cache, nullptr);
	EXPECT_STREQ(slub_cache_name(cache), "cpp-mine-24");
	for (long &number : numbers)
		EXPECT_EQ(slub_cache_of(&number), cache);
}

TEST(cpp_allocator, map)
{
	map<std::string, int> ages;

	for (int i = 0; i < 5000; i++)
		ages["person number " + std::to_string(i)] = i;
	for (int i = 0; i < 5000; i += 3)
		EXPECT_EQ(ages.erase("person number " + std::to_string(i)), 1u);
	EXPECT_EQ(ages.size(), 3333u);
	for (const auto &[name, age] : ages)
		EXPECT_EQ(name, "person number " + std::to_string(age));
	map<std::string, int> copy = ages;
	EXPECT_EQ(copy, ages);
	auto node = copy.extract(copy.begin());
	ages.clear();
	ages.insert(std::move(node));
	EXPECT_EQ(ages.size(), 1u);
}

TEST(cpp_allocator, the_same_containers_in_two_files)
{
	map<int, int> squares;
	slub::cache<long> cache("cpp-first");

	for (int i = 0; i < 100; i++)
		squares[i] = i * i;
	EXPECT_EQ(*cache.make_unique(squares.size()), 100);
	EXPECT_EQ(sum_in_second_unit(100), 328350);
}

TEST(cpp_allocator, unordered_map)
{
	unordered_map<int, std::string> names;

	for (int i = 0; i < 20000; i++)
		names.emplace(i, std::to_string(i));
	for (int i = 0; i < 20000; i++)
		EXPECT_EQ(names.at(i), std::to_string(i));
	names.rehash(100000);
	EXPECT_EQ(names.size(), 20000u);
	names.clear();
	EXPECT_TRUE(names.empty());
}

TEST(cpp_allocator, arrays_and_small_things_come_from_malloc)
{
	std::vector<int, slub::allocator<int>> numbers;

	for (int i = 0; i < 100000; i++)
		numbers.push_back(i);
	EXPECT_EQ(numbers[99999], 99999);
	std::forward_list<char, slub::allocator<char>> letters = { 'a', 'b' };
	EXPECT_EQ(letters.front(), 'a');
	std::basic_string<char, std::char_traits<char>, slub::allocator<char>> text(1000, 'x');
	EXPECT_EQ(text.find_first_not_of('x'), text.npos);
	auto shared = std::allocate_shared<std::string>(slub::allocator<std::string>(), "hello");
	EXPECT_EQ(*shared, "hello");
}

TEST(cpp_allocator, alignment)
{
	struct alignas(128) line { char bytes[128]; };
	std::list<line, slub::allocator<line>> lines(50);
	std::vector<line, slub::allocator<line>> array(3);
	struct alignas(8192) huge { char bytes[8192]; };
	slub::allocator<huge> huges;

	for (const line &one : lines)
		EXPECT_EQ(reinterpret_cast<uintptr_t>(&one) % 128, 0u);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 128, 0u);
	huge *one = huges.allocate(1);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(one) % 8192, 0u);
	huges.deallocate(one, 1);
}

struct tree {	/* a container of its own type, incomplete here */
	std::vector<tree, slub::allocator<tree>> children;
	std::list<tree, slub::allocator<tree>> more;
};

TEST(cpp_allocator, incomplete_types)
{
	tree root;

	root.children.resize(3);
	root.children[1].more.emplace_back().children.resize(2);
	EXPECT_EQ(root.children[1].more.front().children.size(), 2u);
}

TEST(cpp_allocator, absurd_numbers)
{
	slub::allocator<long> longs;

	EXPECT_THROW((void)longs.allocate(SIZE_MAX / 4), std::bad_array_new_length);
	EXPECT_THROW((void)longs.allocate(SIZE_MAX / 32), std::bad_alloc);
	long *none = longs.allocate(0);
	longs.deallocate(none, 0);
}

TEST(cpp_allocator, elements_that_throw)
{
	struct picky {
		explicit picky(int i)
		{
			if (i == 3)
				throw i;
		}
		long payload[9] = {};
	};
	std::list<picky, slub::allocator<picky, mine>> all;

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 3; i++)
			all.emplace_back(i);
		EXPECT_THROW(all.emplace_back(3), int);
	}
	EXPECT_EQ(all.size(), 300u);
	slub_cache *cache = slub_cache_of(&all.front());
	all.clear();
	int left = 0;
	slub_cache_for_each_object(cache, [](void *, void *n) {
		++*static_cast<int *>(n);
		return 0;
	}, &left);
	EXPECT_EQ(left, 0);
}

TEST(cpp_allocator, nodes_freed_by_another_thread)
{
	auto *numbers = new list<int>;

	for (int i = 0; i < 10000; i++)
		numbers->push_back(i);
	std::thread([=] { delete numbers; }).join();
	list<int> again(10000, 7);
	EXPECT_EQ(again.back(), 7);
}

TEST(cpp_memory_resource, pmr_containers)
{
	slub::memory_resource memory;
	std::pmr::vector<std::pmr::string> texts(&memory);

	for (int i = 0; i < 1000; i++)
		texts.emplace_back("a text that does not fit into the string itself");
	EXPECT_EQ(texts[999].get_allocator().resource(), &memory);

	std::pmr::unordered_map<int, int> squares(&memory);
	for (int i = 0; i < 1000; i++)
		squares[i] = i * i;
	EXPECT_EQ(squares.at(31), 961);

	std::pmr::monotonic_buffer_resource above(&memory);
	std::pmr::list<int> numbers({ 1, 2, 3 }, &above);
	EXPECT_EQ(numbers.back(), 3);
}

TEST(cpp_memory_resource, equality_and_alignment)
{
	slub::memory_resource one, two;

	EXPECT_TRUE(one.is_equal(two));
	EXPECT_FALSE(one.is_equal(*std::pmr::new_delete_resource()));
	for (size_t align = 1; align <= 8192; align *= 2) {
		for (size_t bytes : { 0, 1, 8, 17, 100, 5000 }) {
			void *block = one.allocate(bytes, align);
			EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % align, 0u);
			two.deallocate(block, bytes, align);
		}
	}
	EXPECT_THROW((void)one.allocate(SIZE_MAX / 2), std::bad_alloc);
}

TEST(cpp_memory_resource, of_a_bucket)
{
	slub_bucket *bucket = slub_bucket_create("cpp-tenant", 0);
	slub_bucket *another = slub_bucket_create("cpp-other", 0);
	struct slub_bucket_stats stats = {};

	ASSERT_NE(bucket, nullptr);
	{
		slub::memory_resource memory(bucket), same(bucket), other(another), malloc;
		std::pmr::list<long> numbers({ 1, 2, 3 }, &memory);

		EXPECT_TRUE(memory.is_equal(same));
		EXPECT_FALSE(memory.is_equal(other));
		EXPECT_FALSE(memory.is_equal(malloc));
		EXPECT_STREQ(slub_cache_name(slub_cache_of(&numbers.front() - 2)),
			     "cpp-tenant-32");
		for (size_t align = 1; align <= 8192; align *= 2) {
			for (size_t bytes : { 0, 1, 100, 5000, 100000 }) {
				void *block = memory.allocate(bytes, align);
				EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % align, 0u);
				memset(block, 1, bytes);
				same.deallocate(block, bytes, align);
			}
		}
		EXPECT_THROW((void)memory.allocate(SIZE_MAX - 8, 64), std::bad_alloc);
		EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
		EXPECT_EQ(stats.live_blocks, 3u);
	}
	EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
	EXPECT_EQ(stats.live_blocks, 0u);
	EXPECT_EQ(stats.refused, 0u);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
	EXPECT_EQ(slub_bucket_destroy(another), 0);
}

TEST(Memory, ReleaseFreesWhatNobodyHolds)
{
	slub_bucket *bucket = slub_bucket_create("cpp-request", 0);
	slub::memory_resource request(bucket);
	struct slub_bucket_stats stats;

	for (int round = 0; round < 2; round++) {
		for (size_t align = 1; align <= 4096; align *= 4) {
			for (size_t bytes : { 1, 100, 5000, 100000 })
				memset(request.allocate(bytes, align), 1, bytes);
		}
		EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
		EXPECT_EQ(stats.live_blocks, 28u);
		EXPECT_TRUE(request.release());
		EXPECT_EQ(slub_bucket_stats(bucket, &stats), 0);
		EXPECT_EQ(stats.live_blocks, 0u);
	}
	EXPECT_TRUE(slub::memory_resource().release()) << "malloc's stays as it is";
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

} // namespace
