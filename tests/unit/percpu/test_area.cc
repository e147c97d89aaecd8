/* SPDX-License-Identifier: MIT */
/* core/percpu/area.c: areas are made once and start empty; slots run out in order. */
#include <gtest/gtest.h>
#include <thread>

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <sys/mman.h>

#include "harness.h"
#include "start.h"

namespace {

/* What the library maps until nothing more is to be had, and what it gives back. */
long maps_left = LONG_MAX;
bool os_map_fails;
char *mapped_last;
std::map<char *, size_t> maps;
std::map<char *, size_t> unmapped;	/* to how many bytes */
std::map<char *, size_t> made_huge;
/* The places it asked for, which it did not get while @places_fail is above 0. */
std::vector<size_t> places;
char *place_last;
int places_fail;
bool hides_rseq;
static bool is_ours;	/* the C library registers no thread */

} /* namespace */

/* The linker sends the library's calls here (--wrap). */
extern "C" {

int __real_os_map_at(void *start, size_t bytes);
void *__real_os_map(size_t bytes);
void __real_os_unreserve(void *start, size_t bytes);

int __wrap_os_map_at(void *start, size_t bytes)
{
	if (maps_left-- <= 0)
		return -ENOMEM;
	mapped_last = (char *)start;
	return __real_os_map_at(start, bytes);
}

void *__wrap_os_map(size_t bytes)
{
	void *map = os_map_fails ? nullptr : __real_os_map(bytes);

	if (map)
		maps[(char *)map] = bytes;
	return map;
}

void __wrap_os_unreserve(void *start, size_t bytes)
{
	unmapped[(char *)start] = bytes;
	__real_os_unreserve(start, bytes);
}

void *__real_os_place(size_t bytes);

void *__wrap_os_place(size_t bytes)
{
	places.push_back(bytes);
	place_last = places_fail-- > 0 ? nullptr : (char *)__real_os_place(bytes);
	return place_last;
}

void __real_os_rseq_read(struct os_rseq *rseq);

void __wrap_os_rseq_read(struct os_rseq *rseq)
{
	__real_os_rseq_read(rseq);
	rseq->available &= !hides_rseq;
	rseq->is_ours |= is_ours;
}

int __wrap_os_huge(void *start, size_t bytes, bool on)
{
	if (on)
		made_huge[(char *)start] = bytes;
	return 0;
}

} /* extern "C" */

namespace {

bool is_mapped(char *place)
{
	unsigned char resident;

	return mincore(place, 4096, &resident) == 0;
}

class area : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::option("TEST_CPUS=128"), start::percpu(); });
	}
};

TEST_F(area, backend_is_one_that_was_asked_for)
{
	EXPECT_NE(percpu_backend, BACKEND_NONE);
	EXPECT_TRUE(start::has_wanted_backend() || harness::is_emulated() ||
		    (SLUB_CONFIG_PLAIN_C && percpu_backend == BACKEND_THREAD));
	EXPECT_EQ(percpu_can_stop, os_membarrier_register() && !SLUB_CONFIG_PLAIN_C);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(slub_percpu_cpus(),
			  percpu_backend == BACKEND_THREAD ? (unsigned)AREAS_MAX : 128u);
}

/* Sequences of a backend that has none write to memory of the thread's own. */
TEST_F(area, sequences_find_what_they_need)
{
	auto scratch = (char *)slub_thread.scratch - (char *)__builtin_thread_pointer();
	enum cpu_number number = CPU_NUMBER_GETCPU;
	struct os_rseq rseq;

	os_rseq_read(&rseq);
	if (percpu_backend == BACKEND_RSEQ) {
		number = rseq.has_mm_cid ? CPU_NUMBER_MM_CID : CPU_NUMBER_CPU_ID;
		EXPECT_EQ(slub_rseq_offset(), (intptr_t)rseq.offset);
		EXPECT_EQ(slub_cid_offset(), (intptr_t)rseq.offset +
			  (rseq.has_mm_cid ? RSEQ_MM_CID : RSEQ_CPU_ID));
	} else {
		if (percpu_backend == BACKEND_THREAD)
			number = CPU_NUMBER_THREAD;
		EXPECT_EQ(slub_rseq_offset(), scratch);
		EXPECT_EQ(slub_cid_offset(), scratch + RSEQ_MM_CID);
		EXPECT_EQ((intptr_t)percpu_hint_offset, RSEQ_CPU_ID +
			  (rseq.available ? (intptr_t)rseq.offset : scratch));
	}
	EXPECT_EQ(percpu_cpu_number, number);
}

/* It is said where it was asked for and is not to be had, and only there. */
TEST_F(area, without_rseq_it_is_thread)
{
	for (const char *wanted : { "rseq", "auto", "tid" }) {
		for (bool hides : { false, true }) {
			std::string told;

			EXPECT_EQ(harness::in_child([&] {
				struct os_cpus cpus;
				struct os_rseq rseq;

				os_cpus_read(&cpus);
				hides_rseq = hides;
				os_rseq_read(&rseq);
				start::option(std::string("FASTPATH=") + wanted);
				log_enable(true);
				percpu_start(&cpus);
				if (std::string(wanted) == "tid")
					_exit(percpu_backend == BACKEND_TID ||
					      !ARCH_HAS_DOUBLE_WORD ? 0 : 1);
				_exit(percpu_backend == (rseq.available && ARCH_HAS_RSEQ ?
							 BACKEND_RSEQ : BACKEND_THREAD) ? 0 : 1);
			}, &told), 0) << wanted << hides;
			EXPECT_EQ(told.find("using 'lock'") != told.npos,
				  std::string(wanted) == "tid" && !ARCH_HAS_DOUBLE_WORD) << told;
			hides |= harness::is_emulated();	/* it has none */
			if (hides || ARCH_HAS_RSEQ) {
				EXPECT_EQ(told.find("using 'thread'") != told.npos, hides &&
					  std::string(wanted) == "rseq") << wanted << hides << told;
			}
		}
	}
}

/* What no CPU number reaches is left alone: it would cost pages. */
TEST_F(area, tables_are_filled_as_far_as_numbers_reach)
{
	static char front[MAP_FRONT_BYTES] __attribute__((aligned(4096)));
	void *dummy = slub_dummy_base[0];
	auto are = [&](void **table, uint32_t from, uint32_t to, void *what) {
		return std::all_of(table + from, table + to, [=](void *is) { return is == what; });
	};

	for (uint32_t possible : { 1u, 80u, 81u, 1000u, AREAS_MAX + 1u }) {
		EXPECT_EQ(harness::in_child([&] {
			uint32_t first_page = (4096 - TABLE_GAP) / sizeof(void *);
			uint32_t end = std::min<uint32_t>(std::max(possible, first_page),
							  AREAS_MAX);
			struct os_cpus cpus = {};
			int failed = 0;

			cpus.possible = possible;
			memset(slub_cpu_base, 0, sizeof(slub_cpu_base));
			memset(slub_dummy_base, 0, sizeof(slub_dummy_base));
			percpu_map_front_set(front);
			percpu_start(&cpus);
			bool has_copy = percpu_backend == BACKEND_RSEQ;
			if (!has_copy)
				end = AREAS_MAX;
			for (void **table : { slub_cpu_base, slub_dummy_base })
				failed |= are(table, 0, end, dummy) &&
					  are(table, end, AREAS_MAX, nullptr) ? 0 : 1;
			failed |= slub_map_bases == (void **)(front + TABLE_GAP) ? 0 : 2;
			failed |= are(slub_map_bases, 0, end, has_copy ? dummy : nullptr) ? 0 : 4;
			failed |= are(slub_map_bases, end, AREAS_MAX, nullptr) ? 0 : 8;
			percpu_area_make(44);
			failed |= slub_map_bases[44] == (has_copy ? percpu_area(44) : nullptr) ?
				  0 : 16;
			_exit(failed);
		}), 0) << possible;
	}
}

/* How much each CPU has for what programs allocate, and how much place that takes. */
TEST_F(area, room_is_as_the_options_say)
{
	if (os_page_size() > 32ul << 10 || getenv("SLUB_PERCPU_BYTES"))
		GTEST_SKIP() << "the system's pages are larger than a step, or how much is set";
	const struct {
		const char *bytes;
		int fail;	/* too much for this address space */
		size_t room;
	} cases[] = {
		{ nullptr, 0, (32ul << 20) - AREA_FAR_END },
		{ nullptr, 1, 32ul << 10 },
		{ "PERCPU_BYTES=100000", 0, 128ul << 10 },
		{ "PERCPU_BYTES=64K", 0, 64ul << 10 },
		{ "PERCPU_BYTES=40000", 0, 64ul << 10 },
		{ "PERCPU_BYTES=8K", 0, 32ul << 10 },
	};

	percpu_area_make(20);
	percpu_area_make(21);
	for (auto &one : cases) {
		/* 256 GiB, and those of the parent lie where the child would have them. */
		if (SLUB_CONFIG_PLAIN_C && one.room > 16ul << 20)
			continue;	/* ThreadSanitizer's runtime leaves no second place */
		EXPECT_EQ(harness::in_child([&] {
			size_t stride = AREA_FAR_END + (one.room > AREA_FAR - AREA_BYTES ?
							one.room : 0);
			int failed = 0;

			percpu_exit();
			os_places_forget();
			if (one.bytes)
				start::option(one.bytes);
			places.clear();
			places_fail = one.fail;
			places_fail += 100;
			failed |= percpu_init() == -ENOMEM ? 0 : 64;
			places.clear();
			places_fail = one.fail;
			failed |= percpu_init() ? 1 : 0;
			failed |= percpu_area(21) - percpu_area(20) == (ptrdiff_t)stride ? 0 : 2;
			failed |= places.size() == one.fail + 1u ? 0 : 4;
			char *end = percpu_area(20) + (AREAS_MAX - 20) * stride;
			failed |= places.back() == (AREAS_MAX + 2) * stride &&
				  end <= place_last + places.back() ? 0 : 8;
			failed |= percpu_committed() == AREA_BYTES + (32ul << 10) ? 0 : 16;
			failed |= slub_percpu_alloc(one.room + 4, 4) || errno != ENOSPC ? 32 : 0;
			failed |= slub_percpu_alloc(4, 4) == AREA_BYTES ? 0 : 128;
			_exit(failed);
		}), 0) << (one.bytes ? one.bytes : "");
	}
}

/* Where the C library registers no thread the library does, if there are sequences. */
TEST_F(area, threads_are_registered_where_sequences_need_it)
{
	for (const char *wanted : { "rseq", "thread", "tid", "lock" })
		for (bool ours : { false, true })
			EXPECT_EQ(harness::in_child([&] {
				struct os_cpus cpus;
				struct os_rseq rseq;

				os_cpus_read(&cpus);
				is_ours = ours;
				os_rseq_read(&rseq);
				start::option(std::string("FASTPATH=") + wanted);
				percpu_start(&cpus);
				_exit(percpu_registers == (rseq.is_ours &&
							   percpu_backend == BACKEND_RSEQ) ? 0 : 1);
			}), 0) << wanted << ours;
}

/* A bit each, in words of 64. */
TEST_F(area, each_number_is_itself_alone)
{
	EXPECT_EQ(harness::in_child([] {
		std::vector<void *> bases(slub_cpu_base, slub_cpu_base + AREAS_MAX);
		std::set<uint32_t> made;

		for (uint32_t cid = 0; cid < AREAS_MAX; cid++)
			if (percpu_area(cid))
				made.insert(cid);
		for (uint32_t one : { 71, 72, 63, 64, 65, 127, 128, 129, 4096, 8190, 8191 }) {
			percpu_area_make(one);
			made.insert(one);
			bases[one] = percpu_area(one);
			for (uint32_t cid = 0; cid < AREAS_MAX; cid++) {
				bool is = made.count(cid);

				if (!percpu_area(cid) != !is || !percpu_copies(cid) != !is)
					_exit(1);
				if (SLUB_CONFIG_SMP && slub_cpu_base[cid] != bases[cid])
					_exit(2);
			}
			if (percpu_areas_end() != *made.rbegin() + 1 ||
			    percpu_copies_end() != *made.rbegin() + 1)
				_exit(3);
		}
		_exit(0);
	}), 0);
}

TEST_F(area, tables_name_the_dummy_until_an_area_is_made)
{
	if (!SLUB_CONFIG_SMP)
		GTEST_SKIP() << "there is one area";
	void *dummy = slub_dummy_base[0];

	EXPECT_EQ(percpu_area(70), nullptr);
	EXPECT_EQ(slub_cpu_base[70], dummy);
	percpu_area_make(70);
	char *made = percpu_area(70);
	ASSERT_NE(made, nullptr);
	EXPECT_EQ(slub_cpu_base[70], made);
	EXPECT_EQ(slub_dummy_base[70], dummy);
	if (percpu_backend == BACKEND_RSEQ) {
		EXPECT_EQ(slub_map_bases[70], made);
	}
	EXPECT_EQ(percpu_areas_end(), 71u);
	EXPECT_EQ(percpu_area(69), nullptr);
	EXPECT_EQ(harness::first_nonzero(dummy, AREA_BYTES), (size_t)AREA_BYTES);
}

/* cpu_id of a thread that is not registered is -1 or -2. */
TEST_F(area, tables_name_the_dummy_before_their_first_entry)
{
	void *dummy = slub_dummy_base[0];

	for (void **table : { slub_dummy_base, slub_cpu_base, slub_map_bases }) {
		EXPECT_EQ(*(table - 1), dummy);
		EXPECT_EQ(*(table - 2), dummy);
	}
}

TEST_F(area, fresh_area_is_empty_and_live)
{
	percpu_area_make(7);
	char *made = percpu_area(7);
	ASSERT_NE(made, nullptr);
	uint32_t number = *(uint32_t *)(made + AREA_NUMBER);
	EXPECT_NE(*(uint32_t *)(made + AREA_LIVE), 0u);
	EXPECT_EQ(number, percpu_backend == BACKEND_RSEQ ? 7u : AREA_NUMBER_NONE);
	auto key = *(uintptr_t *)(made + AREA_KEY);
	/* Sequences alone look there. */
	EXPECT_EQ(key, KEYS && percpu_backend == BACKEND_RSEQ ? slub_key : 0);
	*(uint32_t *)(made + AREA_LIVE) = 0;
	*(uint32_t *)(made + AREA_NUMBER) = 0;
	*(uintptr_t *)(made + AREA_KEY) = 0;
	EXPECT_EQ(harness::first_nonzero(made, AREA_BYTES), (size_t)AREA_BYTES);
	*(uint32_t *)(made + AREA_LIVE) = 1;
	*(uint32_t *)(made + AREA_NUMBER) = number;
	*(uintptr_t *)(made + AREA_KEY) = key;
}

TEST_F(area, making_one_again_keeps_it)
{
	percpu_area_make(8);
	char *made = percpu_area(8);
	area_half(made, 320)->room = 42;
	percpu_area_make(8);
	EXPECT_EQ(percpu_area(8), made);
	EXPECT_EQ(area_half(made, 320)->room, 42);
	area_half(made, 320)->room = 0;
}

TEST_F(area, numbers_beyond_the_table_have_none)
{
	percpu_area_make(0);
	long before = maps_left;

	for (uint32_t cid : { (uint32_t)AREAS_MAX, AREAS_MAX + 1u, UINT32_MAX }) {
		percpu_area_make(cid);
		EXPECT_EQ(percpu_area(cid), nullptr) << cid;
		EXPECT_EQ(percpu_copies(cid), nullptr) << cid;
		EXPECT_EQ(percpu_copies_make(cid), nullptr) << cid;
	}
	EXPECT_EQ(maps_left, before) << "mapped beyond the last";
	EXPECT_LE(percpu_areas_end(), (uint32_t)AREAS_MAX);
}

TEST_F(area, areas_do_not_overlap)
{
	percpu_area_make(20);
	percpu_area_make(21);
	EXPECT_GE(percpu_area(21) - percpu_area(20), AREA_FAR_END);
}

/* They are no CPU's, whatever its number, and as large as any when they have grown. */
TEST_F(area, shared_and_collection_area_lie_before_the_first)
{
	percpu_area_make(20);
	percpu_area_make(21);
	ptrdiff_t stride = percpu_area(21) - percpu_area(20);
	char *first = percpu_area(20) - 20 * stride;
	EXPECT_LE((char *)percpu_areas.collect + AREA_BYTES, percpu_shared_area());
	EXPECT_LE(percpu_shared_area() + stride, first);
}

/* Without memory a CPU, or a thread, stays on the dummy area; later it gets its own. */
TEST_F(area, without_memory_none_is_made)
{
	maps_left = 0;
	percpu_area_make(40);
	EXPECT_EQ(percpu_area(40), nullptr);
	EXPECT_EQ(percpu_copies(40), nullptr);
	EXPECT_EQ(percpu_copies_make(40), nullptr);
	if (SLUB_CONFIG_SMP) {
		EXPECT_EQ(slub_cpu_base[40], slub_dummy_base[0]);
	}
	maps_left = LONG_MAX;
	for (int i = 0; i < 65 && !percpu_area(40); i++)	/* one of 65 asks the kernel */
		percpu_area_make(40);
	EXPECT_NE(percpu_area(40), nullptr);
	if (percpu_backend != BACKEND_THREAD)
		return;
	EXPECT_EQ(harness::in_child([] {
		percpu_enter();
		slub_thread.number = 0;
		slub_thread.flags &= ~(uint32_t)THREAD_CHECKED;
		maps_left = 0;
		percpu_enter();	/* it would have the second number */
		_exit(percpu_area(1) || slub_thread.number ? 1 : 0);
	}), 0);
}

/* Threads without a CPU have their lists there, under its lock. */
TEST_F(area, fork_holds_the_lock_of_the_shared_one)
{
	lock_fork_begin();
	percpu_fork_prepare();
	EXPECT_TRUE(lock_is_mine(area_own_lock(percpu_shared_area())));
	EXPECT_TRUE(lock_is_mine(&area_lock));
	percpu_fork_finish(false);
	EXPECT_FALSE(lock_is_mine(area_own_lock(percpu_shared_area())));
	EXPECT_FALSE(lock_is_mine(&area_lock));
}

/* Backend lock: whichever is not held at a fork may be held in the child for ever. */
TEST_F(area, fork_holds_the_lock_of_each)
{
	percpu_area_make(0);
	percpu_area_make(20);
	if (percpu_backend != BACKEND_LOCK)
		GTEST_SKIP() << "areas have no lock under this backend";
	lock_fork_begin();
	percpu_fork_prepare();
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
		if (percpu_area(cid)) {
			EXPECT_TRUE(lock_is_mine(area_own_lock(percpu_area(cid)))) << cid;
		}
	percpu_fork_finish(false);
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
		if (percpu_area(cid)) {
			EXPECT_FALSE(lock_is_mine(area_own_lock(percpu_area(cid)))) << cid;
		}
}

TEST_F(area, many_threads_make_one)
{
	std::vector<std::thread> threads;
	char *seen[8] = {};

	for (auto &place : seen)
		threads.emplace_back([&place] {
			percpu_area_make(50);
			place = percpu_area(50);
		});
	for (auto &thread : threads)
		thread.join();
	for (char *place : seen)
		EXPECT_EQ(place, percpu_area(50));
	EXPECT_NE(seen[0], nullptr);
}

int commit(size_t end)
{
	lock_acquire(&area_lock);
	int err = percpu_commit(PART_FIRST, end);
	lock_release(&area_lock);
	return err;
}

TEST_F(area, pages_are_huge_where_that_was_asked_for)
{
	size_t from = percpu_committed();
	std::map<char *, size_t> grown = { { percpu_shared_area() + from, 65536 } };

	percpu_area_make(33);
	EXPECT_TRUE(made_huge.empty());
	for (uint32_t cid = 0; cid < percpu_copies_end(); cid++)
		if (percpu_copies(cid))
			grown[percpu_copies(cid) + from] = 65536;
	EXPECT_EQ(harness::in_child([&] {
		start::option("HUGE=always");
		_exit(commit(from + 65536) || made_huge != grown ? 1 : 0);
	}), 0);
}

/* What had been given out is to be had again after a start that has failed. */
TEST_F(area, an_exit_takes_everything_back)
{
	EXPECT_EQ(harness::in_child([] {
		char *start = (char *)percpu_areas.collect;
		int failed = 0;

		if (!percpu_alloc_slots(2) || !slub_percpu_alloc(100000, 8))
			_exit(1);
		size_t committed = percpu_committed(), first = percpu_part_end(PART_FIRST);
		unmapped.clear();
		percpu_exit();
		failed |= percpu_shared_area() ? 2 : 0;
		char *more = start + AREA_BYTES + AREA_FAR_END;
		failed |= unmapped[start] == AREA_BYTES + first ? 0 : 4;
		failed |= unmapped[more] == committed - AREA_FAR_END ? 0 : 4;
		/* And the maps of what is taken. */
		for (auto &one : unmapped)
			failed |= one.first == start || one.first == more ||
				  maps[one.first] == one.second ? 0 : 8;
		failed |= unmapped.size() == 3 ? 0 : 8;
		failed |= slub_percpu_free(AREA_BYTES) == -EINVAL ? 0 : 128;
		failed |= percpu_init() ? 16 : 0;
		failed |= percpu_committed() < committed ? 0 : 32;
		failed |= percpu_slots_end() == SLOT_BYTES && !slub_percpu_bytes() ? 0 : 64;
		_exit(failed);
	}), 0);
}

/* A start without memory says so, leaves nothing, and may be tried again. */
TEST_F(area, a_start_that_fails_can_be_tried_again)
{
	EXPECT_EQ(harness::in_child([] {
		int failed = 0;

		percpu_exit();
		maps_left = 0;
		failed |= percpu_init() != -ENOMEM || percpu_shared_area() ? 1 : 0;
		maps_left = LONG_MAX;
		os_map_fails = true;
		failed |= percpu_init() != -ENOMEM || percpu_shared_area() ? 2 : 0;
		failed |= is_mapped(mapped_last) ? 4 : 0;
		os_map_fails = false;
		failed |= percpu_init() || !percpu_shared_area() ? 8 : 0;
		failed |= is_mapped(mapped_last) ? 0 : 16;
		failed |= percpu_init() ? 32 : 0;
		_exit(failed);
	}), 0);
}

TEST_F(area, slots_are_given_once_until_there_are_none)
{
	uint32_t before = percpu_slots_end(), left = (AREA_NEAR_BYTES - before) / SLOT_BYTES;

	EXPECT_GE(before, (uint32_t)SLOT_BYTES);
	EXPECT_EQ(percpu_alloc_slots(left + 1), 0u);
	EXPECT_EQ(percpu_slots_end(), before);
	EXPECT_EQ(percpu_alloc_slots(2), before);
	EXPECT_EQ(percpu_alloc_slots(1), before + 2 * SLOT_BYTES);
	for (uint32_t i = 3; i < left; i++)
		ASSERT_EQ(percpu_alloc_slots(1), before + i * SLOT_BYTES);
	EXPECT_EQ(percpu_alloc_slots(1), 0u);
	EXPECT_EQ(percpu_slots_end(), (uint32_t)AREA_NEAR_BYTES);
}

} /* namespace */
