/* SPDX-License-Identifier: MIT */
/*
 * Promise: per-CPU memory takes pages where something is written, and nowhere else: of offsets in
 * use on CPUs in use. Of 4,096 CPUs that are simulated (SLUB_TEST_CPUS) most never run.
 */
#include <fstream>
#include <set>

#include <slub/percpu.h>

#include "api.h"

namespace {

enum { CPUS = 1024, OBJECTS = 100, SLACK = 64 };

/* Resident pages of this process, by the page tables. */
size_t pages()
{
	std::ifstream file("/proc/self/smaps_rollup");
	std::string word;
	size_t kib = 0;

	while (file >> word) {
		if (word == "Rss:")
			file >> kib;
	}
	return kib / 4;
}

/* Objects of four bytes, one behind the other. */
std::vector<uintptr_t> objects()
{
	std::vector<uintptr_t> offsets(OBJECTS);

	for (uintptr_t &offset : offsets) {
		offset = slub_percpu_alloc(4, 4);
		EXPECT_NE(offset, 0u);
	}
	return offsets;
}

void free_all(const std::vector<uintptr_t> &offsets)
{
	for (uintptr_t offset : offsets)
		EXPECT_EQ(slub_percpu_free(offset), 0);
}

void write_copies(const std::vector<uintptr_t> &offsets, unsigned cpu, int32_t value)
{
	for (uintptr_t offset : offsets) {
		auto *copy = (int32_t *)slub_percpu_ptr(offset, cpu);

		ASSERT_NE(copy, nullptr);
		__atomic_store_n(copy, value, __ATOMIC_RELAXED);
	}
}

/* Where they lie follows from what the library itself has there. */
size_t pages_of(const std::vector<uintptr_t> &offsets)
{
	std::set<uintptr_t> pages;

	for (uintptr_t offset : offsets)
		pages.insert(offset >> 12);
	return pages.size();
}

class sparse : public testing::Test {
protected:
	void SetUp() override
	{
		if (slub_percpu_cpus() < CPUS)
			GTEST_SKIP() << "SLUB_TEST_CPUS=4096";
		pages();	/* what reading takes itself */
	}
};

/* A page for its copies, and none for lists that a CPU which never ran does not have. */
TEST_F(sparse, a_cpu_that_never_ran_takes_the_page_of_its_copies)
{
	std::vector<uintptr_t> offsets = objects();
	size_t before = pages(), grown;

	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		write_copies(offsets, cpu, (int32_t)cpu);
	grown = pages() - before;
	printf("%d objects of 4 bytes on %d CPUs: %zu pages\n", OBJECTS, CPUS, grown);
	EXPECT_LE(grown, CPUS * pages_of(offsets) + SLACK);
	EXPECT_EQ(slub_percpu_sum32(offsets[OBJECTS / 2]), CPUS / 2 * (CPUS - 1));
	free_all(offsets);
}

/* The others' areas have been made, with nothing in them. */
TEST_F(sparse, what_is_zero_is_not_written_when_an_offset_is_used_again)
{
	std::vector<uintptr_t> offsets = objects(), far;
	size_t before, grown;

	/* Offsets of a page that only the first eight CPUs write to. */
	while (far.size() < 2048)
		far.push_back(slub_percpu_alloc(4, 4));
	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		ASSERT_NE(slub_percpu_ptr(far.back(), cpu), nullptr);
	before = pages();
	for (int round = 0; round < 3; round++) {
		for (unsigned cpu = 0; cpu < 8; cpu++)
			write_copies(far, cpu, 1);
		EXPECT_EQ(slub_percpu_sum32(far[round]), 8);
		free_all(far);
		for (uintptr_t &offset : far)
			offset = slub_percpu_alloc(4, 4);
		for (size_t i = 0; i < far.size(); i += 100)
			EXPECT_EQ(slub_percpu_sum32(far[i]), 0);
	}
	grown = pages() - before;
	printf("%zu objects of 4 bytes on 8 CPUs of %d: %zu pages\n", far.size(), CPUS, grown);
	EXPECT_LE(grown, 8 * 4 + (size_t)SLACK);
	free_all(far);
	free_all(offsets);
}

/* What was written from outside is this CPU's when it runs. */
TEST_F(sparse, a_copy_written_before_its_cpu_ran_counts)
{
	uintptr_t offset = slub_percpu_alloc(8, 8);

	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		*(int64_t *)slub_percpu_ptr(offset, cpu) = 1;
	slub_percpu_add(offset, 5);
	free(malloc(100));
	slub_percpu_add(offset, 5);
	EXPECT_EQ(slub_percpu_sum(offset), CPUS + 10);
	EXPECT_EQ(slub_percpu_free(offset), 0);
}

} /* namespace */
