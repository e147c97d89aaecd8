/* SPDX-License-Identifier: MIT */
/*
 * Promise: per-CPU memory is packed, zero, aligned and apart on every CPU; bad input is answered as
 * slub/percpu.h says; static and virtual configuration, and CPUs that do not exist, work.
 */
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "api.h"

namespace {

TEST(percpu_alloc, refuses_bad_input)
{
	struct { size_t size, align; int err; } bad[] = {
		{ 0, 4, EINVAL },	   { 0, 0, EINVAL },	      { 8, 0, EINVAL },
		{ 8, 3, EINVAL },	   { 8, 8192, EINVAL },	      { 8, SIZE_MAX, EINVAL },
		{ 8, (size_t)1 << 63, EINVAL },
		{ SIZE_MAX, 8, EINVAL },   { (size_t)1 << 63, 8, EINVAL },
		{ PTRDIFF_MAX, 8, ENOSPC }, { (size_t)1 << 40, 8, ENOSPC },
		{ (size_t)1 << 32, 4096, ENOSPC }, { (size_t)1 << 30, 8, ENOSPC },
	};
	size_t before = slub_percpu_bytes();

	for (auto &one : bad) {
		errno = 0;
		EXPECT_EQ(slub_percpu_alloc(one.size, one.align), 0u) << one.size;
		EXPECT_EQ(errno, one.err) << one.size << " " << one.align;
	}
	EXPECT_EQ(slub_percpu_bytes(), before);
}

TEST(percpu_free, refuses_what_was_not_allocated)
{
	uintptr_t one = slub_percpu_alloc(64, 8), two = slub_percpu_alloc(64, 8);
	size_t before = slub_percpu_bytes();

	ASSERT_NE(one, 0u);
	EXPECT_EQ(slub_percpu_free(0), 0);
	for (uintptr_t bad : { (uintptr_t)1, (uintptr_t)32, one + 1, one + 4, one + 8, one + 60,
			       two + 32, one - 1, (uintptr_t)65535, (uintptr_t)1 << 20,
			       (uintptr_t)1 << 31, (uintptr_t)1 << 40, (uintptr_t)-4,
			       (uintptr_t)-1, (uintptr_t)&before })
		EXPECT_EQ(slub_percpu_free(bad), -EINVAL) << std::hex << bad;
	EXPECT_EQ(slub_percpu_bytes(), before);
	EXPECT_EQ(slub_percpu_free(one), 0);
	EXPECT_EQ(slub_percpu_free(one), -EINVAL) << "a second time";
	EXPECT_EQ(slub_percpu_bytes(), before - 64);
	EXPECT_EQ(slub_percpu_free(two), 0);
}

TEST(percpu_ptr, is_null_where_there_is_nothing)
{
	uintptr_t offset = slub_percpu_alloc(8, 8);

	EXPECT_NE(slub_percpu_ptr(offset, 0), nullptr);
	EXPECT_NE(slub_percpu_ptr(offset, SLUB_PERCPU_SHARED), nullptr);
	EXPECT_EQ(slub_percpu_ptr(offset, 8192), nullptr);
	EXPECT_EQ(slub_percpu_ptr(offset, ~0u), nullptr);
	EXPECT_EQ(slub_percpu_ptr(0, 0), nullptr);
	EXPECT_EQ(slub_percpu_ptr(32, 0), nullptr);
	EXPECT_EQ(slub_percpu_ptr((uintptr_t)1 << 40, 0), nullptr);
	EXPECT_EQ(slub_percpu_free(offset), 0);
}

TEST(percpu_next, walks_the_areas_in_order_and_ends_with_the_shared_one)
{
	int nr = 0, last = -1;

	slub_percpu_for_each(cpu) {
		EXPECT_GT(cpu, last);
		last = cpu;
		nr++;
	}
	EXPECT_EQ(last, SLUB_PERCPU_SHARED);
	EXPECT_GE(nr, 1);
	EXPECT_EQ(slub_percpu_next(SLUB_PERCPU_SHARED), -1);
	EXPECT_EQ(slub_percpu_next(100000), SLUB_PERCPU_SHARED);
	EXPECT_EQ(slub_percpu_next(-2), slub_percpu_next(-2));
}

TEST(percpu_ptr, copies_lie_apart_and_at_one_distance)
{
	uintptr_t one = slub_percpu_alloc(16, 16), two = slub_percpu_alloc(16, 16);

	for (unsigned cpu = 0; cpu < 20; cpu++) {
		auto *a = static_cast<char *>(slub_percpu_ptr(one, cpu));
		auto *b = static_cast<char *>(slub_percpu_ptr(two, cpu));

		ASSERT_NE(a, nullptr);
		EXPECT_EQ((uintptr_t)(b - a), two - one);
		EXPECT_EQ((uintptr_t)a % 16, 0u);
		memset(a, (int)cpu + 1, 16);
		memset(b, 0xee, 16);
	}
	for (unsigned cpu = 0; cpu < 20; cpu++)
		for (int i = 0; i < 16; i++)
			EXPECT_EQ(static_cast<char *>(slub_percpu_ptr(one, cpu))[i], (int)cpu + 1);
	EXPECT_EQ(slub_percpu_free(one), 0);
	EXPECT_EQ(slub_percpu_free(two), 0);
}

/* The example of the kernel's proposal: an array of pointers and padding would take 1,280. */
TEST(percpu_alloc, thirty_two_counters_take_128_bytes)
{
	std::set<uintptr_t> counters;
	size_t before = slub_percpu_bytes();

	while (counters.size() < 32)
		ASSERT_TRUE(counters.insert(slub_percpu_alloc(4, 4)).second);
	EXPECT_EQ(slub_percpu_bytes() - before, 128u);
	for (uintptr_t counter : counters)
		EXPECT_EQ(slub_percpu_free(counter), 0);
	EXPECT_EQ(slub_percpu_bytes(), before);
}

TEST(percpu_alloc, is_zero_on_every_cpu_also_when_used_before)
{
	for (int round = 0; round < 50; round++) {
		size_t size = 1 + (size_t)round * 7;
		uintptr_t offset = slub_percpu_alloc(size, 4);

		ASSERT_NE(offset, 0u);
		slub_percpu_for_each(cpu) {
			auto *copy = static_cast<char *>(slub_percpu_ptr(offset, (unsigned)cpu));

			ASSERT_EQ(harness::first_nonzero(copy, size), size) << cpu;
			memset(copy, 0xff, size);
		}
		EXPECT_EQ(slub_percpu_free(offset), 0);
	}
}

TEST(percpu_alloc, random_against_a_model)
{
	struct held { size_t size; unsigned char byte; };
	std::map<uintptr_t, held> model;
	harness::Random random(42);
	size_t before = slub_percpu_bytes(), bytes = 0;

	slub_percpu_ptr(slub_percpu_alloc(4, 4), 5);	/* a CPU that never runs */
	before = slub_percpu_bytes();
	for (int i = 0; i < 20000; i++) {
		if (random.below(model.size() + 1) < 300) {
			size_t align = (size_t)4 << random.below(11);
			size_t size = 1 + random.below(random.below(8) ? 64 : 20000);
			uintptr_t at = slub_percpu_alloc(size, align);

			ASSERT_NE(at, 0u);
			ASSERT_EQ(at % align, 0u);
			auto next = model.lower_bound(at);
			if (next != model.end()) {
				ASSERT_LE(at + size, next->first);
			}
			if (next != model.begin()) {
				--next;
				ASSERT_LE(next->first + next->second.size, at);
			}
			auto *copy = slub_percpu_ptr(at, 5);
			ASSERT_EQ(harness::first_nonzero(copy, size), size);
			memset(copy, i % 255 + 1, size);
			model[at] = { size, (unsigned char)(i % 255 + 1) };
			bytes += (size + 3) / 4 * 4;
		} else {
			auto one = model.begin();
			std::advance(one, random.below(model.size()));
			auto *copy = static_cast<unsigned char *>(slub_percpu_ptr(one->first, 5));
			for (size_t b = 0; b < one->second.size; b++)
				ASSERT_EQ(copy[b], one->second.byte);
			ASSERT_EQ(slub_percpu_free(one->first), 0);
			bytes -= (one->second.size + 3) / 4 * 4;
			model.erase(one);
		}
		ASSERT_EQ(slub_percpu_bytes() - before, bytes);
	}
	for (auto &one : model)
		EXPECT_EQ(slub_percpu_free(one.first), 0);
	EXPECT_EQ(slub_percpu_bytes(), before);
}

/* How many of the blocks that threads allocate and free at once were wrong. */
int wrong_by_many_threads()
{
	std::atomic<int> wrong{ 0 };
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&wrong, t] {
			for (int i = 0; i < 3000; i++) {
				size_t size = 8 + (size_t)(i + t) % 50 * 8;
				uintptr_t at = slub_percpu_alloc(size, 8);
				auto *copy = static_cast<char *>(slub_percpu_ptr(at, 3));

				wrong += !copy || harness::first_nonzero(copy, size) != size;
				harness::fill(copy, size, at);
				wrong += !harness::intact(copy, size, at);
				wrong += slub_percpu_free(at) != 0;
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	return wrong;
}

/* A thread's start may be the first use of a size class, whose cache gets its counters then. */
TEST(percpu_alloc, by_many_threads)
{
	EXPECT_EQ(wrong_by_many_threads(), 0);

	size_t before = slub_percpu_bytes();
	EXPECT_EQ(wrong_by_many_threads(), 0);
	EXPECT_EQ(slub_percpu_bytes(), before);
}

/* ---- configurations, each in a process of its own ---- */

struct configuration {
	std::vector<std::string> settings;
	const char *act;
};

class configured : public testing::TestWithParam<configuration> {};

TEST_P(configured, works)
{
	std::string errors;
	int status = api::run_again(GetParam().settings, GetParam().act, &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << "\n" << errors;
}

INSTANTIATE_TEST_SUITE_P(
	settings, configured,
	testing::Values(
		configuration{ { "SLUB_PERCPU_BYTES=64K" }, "fill-64K" },
		configuration{ { "SLUB_PERCPU_BYTES=4K" }, "fill-32K" },
		configuration{ { "SLUB_PERCPU_BYTES=1M" }, "fill-1M" },
		configuration{ {}, "large" },
		configuration{ { "SLUB_HUGE=always" }, "large" },
		configuration{ { "SLUB_PERCPU_BYTES=256M" }, "very-large" },
		configuration{ { "SLUB_TEST_CPUS=4096" }, "cpus-4096" },
		configuration{ { "SLUB_TEST_CPUS=4096", "SLUB_PERCPU_BYTES=64K" }, "cpus-4096" },
		configuration{ { "SLUB_TEST_CPUS=2" }, "cpus-2" }));

void act_fill(size_t expected)
{
	/* With more than that, 64 KiB in front of the far slots come on top. */
	size_t most = expected > (64u << 10) ? expected + (64u << 10) : expected;
	std::vector<uintptr_t> all;

	/* Size classes are made at their first use, and each takes per-CPU memory: all before. */
	all.reserve(most / 8);
	size_t before = slub_percpu_bytes();

	for (int round = 0; round < 2; round++) {
		for (uintptr_t at; (at = slub_percpu_alloc(8, 8));)
			all.push_back(at);
		MUST(errno == ENOSPC);
		MUST(before + all.size() * 8 <= most);
		MUST(before + all.size() * 8 >= expected - 64);
		/* Every second one: then nothing larger fits, and what fits is found. */
		for (size_t i = 0; i < all.size(); i += 2)
			MUST(slub_percpu_free(all[i]) == 0);
		MUST(!slub_percpu_alloc(16, 8) && errno == ENOSPC);
		for (size_t i = 0; i < all.size(); i += 2)
			MUST((all[i] = slub_percpu_alloc(8, 4)));
		for (uintptr_t at : all)
			MUST(slub_percpu_free(at) == 0);
		all.clear();
		MUST(slub_percpu_bytes() == before);
	}
	uintptr_t whole = slub_percpu_alloc(expected - before - 1024, 4096 >> 9);
	MUST(whole && slub_percpu_free(whole) == 0);
}

/* Room that was passed by when something larger was looked for is found again. */
void act_fragmented()
{
	std::vector<uintptr_t> fours;
	uintptr_t at;

	while ((at = slub_percpu_alloc(16, 16)))
		fours.push_back(at);
	size_t n = fours.size();
	MUST(slub_percpu_free(fours[n / 2]) == 0);
	MUST(!slub_percpu_alloc(32, 4));
	MUST(slub_percpu_free(fours[n / 2 + 1]) == 0);
	at = slub_percpu_alloc(32, 4);
	MUST(at == fours[n / 2]);
}

void act_large(size_t bytes)
{
	uintptr_t at = slub_percpu_alloc(bytes, 4096), word = slub_percpu_alloc(8, 8);

	MUST(at && word);
	for (unsigned cpu = 0; cpu < 4; cpu++) {
		auto *copy = static_cast<char *>(slub_percpu_ptr(at, cpu));

		MUST(copy);
		for (size_t i = 0; i < bytes; i += 65536)
			MUST(copy[i] == 0);
		copy[0] = copy[bytes - 1] = 1;
	}
	slub_percpu_add(word, 3);
	MUST(slub_percpu_sum(word) == 3);
	MUST(slub_percpu_free(at) == 0);
	MUST((at = slub_percpu_alloc(bytes, 4096)));
	MUST(*static_cast<char *>(slub_percpu_ptr(at, 1)) == 0);
}

void act_cpus(unsigned cpus)
{
	uintptr_t word = slub_percpu_alloc(8, 8);
	int64_t want = 0, nr = 0;

	MUST(word);
	if (api::backend() != api::THREAD)
		MUST(slub_percpu_cpus() == cpus);
	slub_percpu_add(word, 1000);
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		auto *copy = static_cast<int64_t *>(slub_percpu_ptr(word, cpu));

		MUST(copy);
		*copy += cpu;
		want += cpu;
	}
	MUST(slub_percpu_sum(word) == want + 1000);
	slub_percpu_for_each(cpu)
		nr++;
	MUST(nr >= (int64_t)cpus + 1);
	/* What is allocated now is zero on all of them. */
	std::vector<uintptr_t> more;
	for (int i = 0; i < 1000; i++) {
		more.push_back(slub_percpu_alloc(8, 8));
		MUST(more.back());
		*static_cast<int64_t *>(slub_percpu_ptr(more.back(), cpus - 1)) = 1;
	}
	for (uintptr_t at : more)
		MUST(slub_percpu_sum(at) == 1 && slub_percpu_free(at) == 0);
	uintptr_t again = slub_percpu_alloc(8000, 8);
	MUST(slub_percpu_sum(again) == 0);
}

TEST(percpu_alloc, finds_room_that_was_passed_by)
{
	std::string errors;
	int status = api::run_again({ "SLUB_PERCPU_BYTES=64K" }, "fragmented", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << "\n" << errors;
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	const char *name = api::act_name(argc, argv);

	if (!name)
		return -1;
	std::string act = name;
	if (act == "fill-32K")
		act_fill(32 << 10);
	else if (act == "fill-64K")
		act_fill(64 << 10);
	else if (act == "fill-1M")
		act_fill(1 << 20);
	else if (act == "fragmented")
		act_fragmented();
	else if (act == "large")
		act_large(8 << 20);
	else if (act == "very-large")
		act_large(100 << 20);
	else if (act == "cpus-4096")
		act_cpus(4096);
	else if (act == "cpus-2")
		act_cpus(2);
	else
		return 1;
	return 0;
}
