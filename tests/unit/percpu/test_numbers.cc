/* SPDX-License-Identifier: MIT */
/*
 * core/percpu/thread.c: the numbers of backend thread, which come back when their threads end; and
 * how a CPU's number is found under the others.
 */
#include <algorithm>
#include <atomic>
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "start.h"

namespace {

/* How many keys told of the end of the thread that asked for a registration; -1: none asked. */
int keys_at_registration = -1;
/* A C library whose threads are in a library that the program has not loaded. */
bool has_no_threads;

/* Those that tell when this thread ends. */
std::vector<pthread_key_t> keys()
{
	std::vector<pthread_key_t> found;

	/* Not PTHREAD_KEYS_MAX, which the C library that runs may have less of. */
	auto max = (pthread_key_t)sysconf(_SC_THREAD_KEYS_MAX);
	for (pthread_key_t key = 0; key < max; key++) {
		if (pthread_getspecific(key) == &slub_thread)
			found.push_back(key);
	}
	return found;
}

} /* namespace */

/* The linker sends the library's calls here (--wrap). */
extern "C" int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));

extern "C" int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	return has_no_threads ? ENOSYS : __real_pthread_key_create(key, destructor);
}

extern "C" bool __wrap_os_rseq_register(void)
{
	keys_at_registration = (int)keys().size();
	return false;
}

namespace {

class numbers : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::percpu(); });
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		percpu_enter();
	}
};

/* As if this thread were a new one, and the one it was went on. */
uint32_t take_another()
{
	slub_thread.number = 0;
	slub_thread.flags &= ~(uint32_t)THREAD_CHECKED;
	percpu_enter();
	return slub_thread.number;
}

TEST_F(numbers, are_unique_and_come_back)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	const size_t nr = 150;	/* more than a word of the map has bits */

	for (int round = 0; round < 3; round++) {
		std::vector<uint32_t> taken(nr);
		std::vector<std::thread> threads;
		std::atomic<size_t> there{0};

		for (size_t t = 0; t < nr; t++)
			threads.emplace_back([&, t] {
				percpu_enter();
				taken[t] = slub_thread.number;
				there++;
				while (there < nr)
					std::this_thread::yield();
			});
		for (auto &one : threads)
			one.join();
		taken.push_back(slub_thread.number);
		std::sort(taken.begin(), taken.end());
		EXPECT_EQ(std::unique(taken.begin(), taken.end()), taken.end());
		EXPECT_EQ(taken.front(), 1u);
		EXPECT_EQ(taken.back(), nr + 1);
	}
}

/* A thread that took a number before the library had started. */
TEST_F(numbers, a_number_from_before_the_key_comes_back)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	uint32_t number = 0;

	std::thread([&] {
		percpu_enter();
		number = slub_thread.number;
		ASSERT_EQ(keys().size(), 1u);
		pthread_setspecific(keys()[0], nullptr);
		percpu_thread_init();
		EXPECT_EQ(keys().size(), 1u);
	}).join();
	std::thread([&] {
		percpu_enter();
		EXPECT_EQ(slub_thread.number, number);
	}).join();
}

/* What runs later in a thread that ends is not to find lists that are another's by then. */
TEST_F(numbers, one_that_ends_has_no_number_any_more)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	static uint32_t number, last;
	pthread_key_t later;

	ASSERT_EQ(pthread_key_create(&later, [](void *) { last = slub_thread.number; }), 0);
	last = 77;
	std::thread([&] {
		percpu_enter();
		number = slub_thread.number;
		pthread_setspecific(later, &number);
	}).join();
	EXPECT_NE(number, 0u);
	EXPECT_EQ(last, 0u);
	EXPECT_EQ(*area_owner_busy(percpu_area(number - 1)), nullptr);
	/* One that has none may be told that it ends, too. */
	pthread_key_t key = keys().at(0);
	std::thread([&] { pthread_setspecific(key, &slub_thread); }).join();
	EXPECT_NE(slub_thread.number, 0u);
	pthread_key_delete(later);
}

/* A number that would not come back is given back at once. */
TEST_F(numbers, a_key_that_cannot_be_set_is_no_owner)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	EXPECT_EQ(harness::in_child([] {
		pthread_key_t key = 0;
		int failed = 0;

		/* Where a thread has it now. */
		std::thread([&] { percpu_enter(), key = keys().at(0); }).join();
		pthread_key_delete(key);
		if (pthread_setspecific(key, nullptr) == 0)
			_exit(0);	/* this C library does not look */
		std::thread([&] {
			percpu_enter();
			failed |= slub_thread.number ? 1 : 0;
		}).join();
		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
			if (cid != slub_thread.number - 1 && percpu_area(cid))
				failed |= *area_owner_busy(percpu_area(cid)) ? 2 : 0;
		_exit(failed);
	}), 0);
}

/* Where the C library registers no thread: what could not be given back is not taken. */
TEST_F(numbers, a_thread_is_registered_when_its_key_is_set)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "backend rseq only";
	for (bool has_keys : { true, false })
		EXPECT_EQ(harness::in_child([&] {
			pthread_key_t key;

			percpu_registers = true;
			keys_at_registration = -1;
			while (!has_keys && pthread_key_create(&key, nullptr) == 0)
				;
			percpu_thread_init();
			std::thread([] { percpu_enter(); }).join();
			_exit(keys_at_registration == (has_keys ? 1 : -1) ? 0 : 1);
		}), 0) << has_keys;
}

/* As glibc before 2.34 (core/old_glibc.c); the first thread needs no key. */
TEST_F(numbers, a_key_is_made_when_threads_come)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	EXPECT_EQ(harness::in_child([] {
		int failed = 0;

		pthread_key_delete(keys().at(0));
		has_no_threads = true;
		percpu_thread_init();
		failed |= keys().empty() && take_another() ? 0 : 1;
		std::thread([&] {
			percpu_enter();
			failed |= slub_thread.number ? 2 : 0;
			/* Not while it holds a lock: the loader has one. */
			has_no_threads = false;
			slub_thread.locks_held++;
			percpu_enter();
			failed |= slub_thread.number ? 4 : 0;
			slub_thread.locks_held--;
			percpu_enter();
			failed |= slub_thread.number && keys().size() == 1 ? 0 : 8;
		}).join();
		uint32_t number = 0;
		for (int i = 0; i < 2; i++)
			std::thread([&] {
				percpu_enter();
				failed |= i && slub_thread.number != number ? 16 : 0;
				number = slub_thread.number;
				failed |= keys().size() == 1 ? 0 : 32;
			}).join();
		_exit(failed);
	}), 0);
}

TEST_F(numbers, a_thread_is_registered_when_threads_come)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "backend rseq only";
	if (percpu_registers)
		GTEST_SKIP() << "the library has registered this thread already";
	EXPECT_EQ(harness::in_child([] {
		int failed = 0;

		percpu_registers = true;
		has_no_threads = true;
		percpu_thread_init();
		keys_at_registration = -1;
		take_another();
		failed |= keys_at_registration == 0 ? 0 : 1;
		keys_at_registration = -1;
		std::thread([&] {
			percpu_enter();
			failed |= keys_at_registration == -1 ? 0 : 2;
			has_no_threads = false;
			percpu_enter();
			failed |= keys_at_registration == 1 ? 0 : 4;
		}).join();
		_exit(failed);
	}), 0);
}

TEST_F(numbers, other_backends_need_no_key)
{
	if (percpu_backend == BACKEND_THREAD || percpu_registers)
		GTEST_SKIP() << "it does";
	pthread_key_t before, after;

	ASSERT_EQ(pthread_key_create(&before, nullptr), 0);
	percpu_thread_init();
	ASSERT_EQ(pthread_key_create(&after, nullptr), 0);
	EXPECT_EQ(after, before + 1);
	pthread_key_delete(before);
	pthread_key_delete(after);
}

/* As struct rseq begins in every kernel that has mm_cid. */
TEST(rseq, words_lie_where_the_kernel_has_them)
{
	struct {
		uint32_t cpu_id_start, cpu_id;
		uint64_t rseq_cs;
		uint32_t flags, node_id, mm_cid, end;
	} kernels;
	auto offset = [&](void *word) { return (char *)word - (char *)&kernels; };

	EXPECT_EQ(offset(&kernels.cpu_id_start), RSEQ_CPU_ID_START);
	EXPECT_EQ(offset(&kernels.cpu_id), RSEQ_CPU_ID);
	EXPECT_EQ(offset(&kernels.rseq_cs), RSEQ_CS);
	EXPECT_EQ(offset(&kernels.mm_cid), RSEQ_MM_CID);
	EXPECT_EQ(offset(&kernels.end), RSEQ_BYTES_MM_CID);
}

/* A word that the kernel keeps, or that says there is none such. */
TEST_F(numbers, the_cpu_is_what_the_word_says)
{
	if (!SLUB_CONFIG_SMP)
		GTEST_SKIP() << "there is one CPU";
	static thread_local uint32_t word;
	uintptr_t kernels = percpu_hint_offset;

	percpu_hint_offset = (uintptr_t)&word - (uintptr_t)__builtin_thread_pointer();
	for (uint32_t cpu : { 0u, 1u, 77u, AREAS_MAX - 1u }) {
		word = cpu;
		EXPECT_EQ(percpu_cpu_read(), cpu);
	}
	for (uint32_t none : { (uint32_t)AREAS_MAX, AREAS_MAX + 1u, UINT32_MAX }) {
		word = none;
		EXPECT_LT(percpu_cpu_read(), (uint32_t)AREAS_MAX) << none;
	}
	percpu_hint_offset = kernels;
}

TEST_F(numbers, one_is_by_1_above_that_of_its_area)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	ASSERT_NE(slub_thread.number, 0u);
	EXPECT_EQ(percpu_cpu_hint(), slub_thread.number - 1);
	std::thread([] { EXPECT_EQ(percpu_cpu_hint(), (uint32_t)AREAS_MAX) << "it has none"; })
		.join();
}

TEST_F(numbers, each_number_has_a_bit_of_its_own)
{
	for (uint32_t own : { 0u, 1u, 63u, 64u, 65u, 127u, 4159u, AREAS_MAX - 1u }) {
		std::vector<uint64_t> map(AREAS_MAX / 64);
		std::vector<uint32_t> set;

		map[own / 64] = 1ull << own % 64;
		for (uint32_t cid = 0; cid < AREAS_MAX; cid++)
			if (area_bit_is_set(map.data(), cid))
				set.push_back(cid);
		EXPECT_EQ(set, std::vector<uint32_t>{ own });
	}
}

/* The lock of an area, or its owner: in a word that no sequence looks at. */
TEST_F(numbers, an_area_has_its_owner_in_slot_0)
{
	percpu_area_make(20);
	auto *slot = (struct slot *)percpu_area(20);

	EXPECT_EQ((void *)area_own_lock((char *)slot), (void *)&slot->spare.head);
	EXPECT_EQ((void *)area_owner_busy((char *)slot), (void *)&slot->spare.head);
}

TEST_F(numbers, there_are_as_many_numbers_as_areas)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	EXPECT_EQ(harness::in_child([] {
		std::vector<bool> seen(AREAS_MAX + 1);

		seen[slub_thread.number] = true;
		for (int i = 1; i < AREAS_MAX; i++) {
			uint32_t number = take_another();

			if (!number || number > AREAS_MAX || seen[number])
				_exit(1);
			seen[number] = true;
		}
		_exit(take_another() ? 2 : 0);
	}), 0);
	/* The child of a fork has its own alone, also in a later word of the map. */
	EXPECT_EQ(harness::in_child([] {
		while (take_another() != 65)
			;
		percpu_numbers_after_fork();
		for (uint32_t i = 1; i <= 64; i++)
			if (take_another() != i)
				_exit(1);
		_exit(take_another() == 66 ? 0 : 2);
	}), 0);
}

/* Nobody would take the number back: the thread that has one keeps it, others get none. */
TEST_F(numbers, without_a_key_no_number_is_given_out)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	EXPECT_EQ(harness::in_child([] {
		pthread_key_t key;
		int failed = 0;

		pthread_setspecific(keys().at(0), nullptr);
		while (pthread_key_create(&key, nullptr) == 0)
			;
		percpu_thread_init();
		failed |= keys().empty() ? 0 : 1;
		failed |= slub_thread.number ? 0 : 2;
		std::thread([&] {
			percpu_enter();
			failed |= slub_thread.number ? 4 : 0;
		}).join();
		_exit(failed);
	}), 0);
}

} /* namespace */
