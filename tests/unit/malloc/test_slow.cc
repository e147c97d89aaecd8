/* SPDX-License-Identifier: MIT */
/* core/malloc/slow.c: what a call gets that is out of the ordinary. */
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "harness.h"
#include "lists.h"
#include "slub.h"
#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "core/malloc/front.h"
#include "features/profile/sample.h"
#include <slub/bucket.h>
#include <slub/shrinker.h>
}
#undef _Static_assert

namespace {

/* As in a signal handler that interrupted the holder of a lock. */
struct under_a_lock {
	under_a_lock() { slub_thread.locks_held++; }
	~under_a_lock() { slub_thread.locks_held--; }
};

TEST(slow, bytes_of_every_kind_of_block)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	void *object = malloc(100), *large = malloc(100000);
	int on_stack;

	EXPECT_EQ(block_bytes(object), 112u);
	EXPECT_EQ(block_bytes(large), 106496u) << "a class";
	EXPECT_EQ(block_bytes(nullptr), 0u);
	EXPECT_EQ(block_bytes(&on_stack), 0u);
	EXPECT_FALSE(ptr_is_foreign(object));
	EXPECT_FALSE(ptr_is_foreign(large));
	EXPECT_TRUE(ptr_is_foreign(&on_stack));
	EXPECT_TRUE(ptr_is_foreign((char *)large + PAGE_BYTES)) << "no start of a block";
	free(object);
	free(large);
}

TEST(slow, resize_keeps_a_block_that_is_well_used)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	void *object = malloc(1000);

	EXPECT_EQ(slow_resize(object, 1024), object);
	EXPECT_EQ(slow_resize(object, 600), object);
	EXPECT_EQ(slow_resize(object, 512), object);
	EXPECT_EQ(slow_resize(object, 300), nullptr);
	EXPECT_EQ(slow_resize(object, 1025), nullptr);
	free(object);
	object = malloc(128);
	EXPECT_EQ(slow_resize(object, 1), object) << "not worth a copy";
	free(object);
	object = malloc(200000);
	EXPECT_EQ(slow_resize(object, 100), nullptr) << "goes to a class";
	EXPECT_EQ(slow_resize(object, 150000), object);
	EXPECT_EQ(block_bytes(object), 160u << 10) << "a class";
	free(object);
}

/* Half of a size of a page or more is worth a copy, what room to grow has is not. */
TEST(slow, resize_gives_pages_back)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	void *object = malloc(20000);

	EXPECT_EQ(slow_resize(object, 10500), nullptr);
	EXPECT_EQ(slow_resize(object, 13700), object);
	free(object);
	object = malloc(6000);
	EXPECT_EQ(slow_resize(object, 3200), object) << "less than a page";
	free(object);
}

TEST(slow, what_grows_keeps_the_room_that_it_got)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	void *text = malloc(40000), *now;
	size_t had = 0;

	for (size_t n = 40016; n < 200000; n += 16, text = now) {
		now = realloc(text, n);
		ASSERT_NE(now, nullptr);
		ASSERT_GE(block_bytes(now), n);
		if (now == text) {
			ASSERT_GE(block_bytes(now), had) << n;
		}
		had = block_bytes(now);
	}
	now = realloc(text, 150000);
	EXPECT_EQ(now, text);
	EXPECT_LE(block_bytes(now), 160u << 10) << "it got shorter";
	free(now);
}

std::vector<bool> large_when_gone;

/* A profile that only looks whether a block is one while its end is told. */
const struct sample_keeper looking = {
	[](void *, size_t, double) {},
	[](void *object) { large_when_gone.push_back(pagemap_get(object) == MAP_LARGE); },
	[] {},
};

/* Afterwards its address may be another thread's block, whose sample would be struck out. */
TEST(slow, the_end_of_a_large_block_is_told_before_it_moves)
{
	const struct sample_keeper *keeper = ::sample_keeper;
	bool was_on = sample_was_on;
	void *block = malloc(4 << 20), *behind = malloc(4 << 20), *to;
	void *between = malloc(4 << 20);

	large_when_gone.reserve(8);
	::sample_keeper = &looking;
	sample_was_on = true;
	to = realloc(block, 64 << 20);
	::sample_keeper = keeper;
	sample_was_on = was_on;
	EXPECT_NE(to, block);
	ASSERT_FALSE(large_when_gone.empty());
	EXPECT_TRUE(large_when_gone.front());
	free(to);
	free(behind);
	free(between);
}

/* How often a text of @from bytes moves that grows to @to. */
int times_moved(size_t from, size_t to, size_t step)
{
	void *text = malloc(from), *now;
	int times = 0;

	for (size_t n = from; n <= to; n += step, text = now) {
		now = realloc(text, n);
		times += now != text;
	}
	free(text);
	return times;
}

TEST(slow, what_grows_by_small_steps_gets_room)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	/* 8 classes per doubling, of which 2 are taken; the first step is to the second. */
	EXPECT_LE(times_moved(512, 32 << 10, 40), 13);
	EXPECT_LE(times_moved(32 << 10, 1 << 20, 1000), 11);
	/* Too small to be worth it: as exact as malloc. */
	EXPECT_EQ(times_moved(16, 128, 1), 7);
}

TEST(slow, what_grows_by_large_steps_gets_what_is_asked_for)
{
	for (size_t n = 64; n <= 1 << 20; n *= 2) {
		void *block = realloc(malloc(n), 2 * n), *same = malloc(2 * n);

		EXPECT_EQ(block_bytes(block), block_bytes(same)) << n;
		free(block);
		free(same);
	}
}

TEST(slow, room_is_the_next_half_step_and_a_class)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	for (size_t n = REALLOC_ROOM_MIN; n < SUPERBLOCK_BYTES / 2; n += 13) {
		size_t room = size_with_room(n);

		ASSERT_GT(room, n);
		ASSERT_LE(2 * room, 3 * n + 1) << n;
		if (room <= CLASS_BYTES_MAX) {
			ASSERT_EQ(sizeclass_cache(room)->object_size, room) << n;
		}
		ASSERT_TRUE(size_is_worth_keeping(room, n));
	}
}

TEST(slow, sizes_beyond_reason)
{
	bool is_zero;

	for (size_t bytes : { (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 15, SIZE_MAX })
		EXPECT_EQ(slow_alloc_aligned(bytes, 16, &is_zero), nullptr);
	EXPECT_EQ(slow_alloc_aligned(16, (size_t)1 << 63, &is_zero), nullptr);
	errno = 0;
	EXPECT_EQ(slow_alloc(SIZE_MAX), nullptr);
	EXPECT_EQ(errno, ENOMEM);
}

TEST(slow, zero_is_zero)
{
	for (int i = 0; i < 50; i++) {
		bool is_zero = false;
		size_t bytes = 40000 + (size_t)i * 50000;
		auto *ptr = (char *)slow_alloc_aligned(bytes, 16, &is_zero);

		ASSERT_NE(ptr, nullptr);
		if (is_zero) {
			EXPECT_EQ(harness::first_nonzero(ptr, bytes), bytes);
		}
		memset(ptr, 1, bytes);
		free(ptr);
	}
}

TEST(slow, under_a_lock_large_requests_get_emergency_memory)
{
	void *small, *big, *page_aligned;
	{
		under_a_lock handler;

		small = malloc(100000);
		big = malloc(1 << 20);
		page_aligned = aligned_alloc(65536, 10);
	}
	ASSERT_NE(small, nullptr);
	ASSERT_NE(big, nullptr);
	ASSERT_NE(page_aligned, nullptr);
	EXPECT_EQ(pagemap_get(small), (uint32_t)MAP_NONE);
	EXPECT_GT(emergency_bytes(big), 0u);
	for (void *ptr : { small, big, page_aligned }) {
		EXPECT_FALSE(ptr_is_foreign(ptr));
		EXPECT_GT(block_bytes(ptr), 0u);
	}
	EXPECT_EQ((uintptr_t)page_aligned % 65536, 0u);
	memset(small, 1, 100000);
	memset(big, 1, 1 << 20);
	free(small);
	free(page_aligned);
	{
		under_a_lock handler;

		free(big);	/* needs no lock */
	}
	EXPECT_EQ(emergency_bytes(small), 0u);
	EXPECT_EQ(emergency_bytes(big), 0u);
}

TEST(slow, under_a_lock_objects_come_from_lists_and_then_from_mappings)
{
	static void *got[4000];
	size_t n = 0, mapped = 0;
	{
		under_a_lock handler;

		while (n < std::size(got) && (got[n] = malloc(3000)))
			n++;
	}
	EXPECT_GT(n, 64u);
	for (size_t i = 0; i < n; i++) {
		mapped += emergency_bytes(got[i]) > 0;
		harness::fill(got[i], 3000, i);
	}
	EXPECT_GT(mapped, 10u);
	for (size_t i = 0; i < n; i++)
		EXPECT_TRUE(harness::intact(got[i], 3000, i));
	for (size_t i = 0; i < n; i++)
		free(got[i]);
}

TEST(slow, under_a_lock_frees_wait)
{
	void *large = malloc(500000);
	size_t before = large_nr_pages();
	{
		under_a_lock handler;

		free(large);
	}
	EXPECT_EQ(large_nr_pages(), before) << "not yet";
	void *other = malloc(50000);	/* the next call that may take locks */
	free(other);
	EXPECT_EQ(large_nr_pages(), before - (512 << 10) / PAGE_BYTES);
	EXPECT_EQ(pagemap_get(large), (uint32_t)MAP_NONE);
}

/* More than a list holds: what does not fit waits too, and nothing is lost. */
TEST(slow, under_a_lock_frees_of_many_objects_wait)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	std::vector<void *> mine(2000);
	struct cache_census census;
	struct slub_cache *cache = sizeclass_cache(7000);

	for (void *&ptr : mine)
		ptr = malloc(7000);
	{
		under_a_lock handler;

		for (void *ptr : mine)
			free(ptr);
	}
	free(malloc(100000));
	slab_shrink_all();
	slab_shrink_all();
	census_cache(cache, &census);
	EXPECT_EQ(census.active, 0u);
}

size_t nr_asked;

size_t one_to_give(struct slub_shrinker *, struct slub_shrink_control *) noexcept
{
	nr_asked++;
	return 1;
}

/* A length read from a broken file must not cost a program its caches. */
#if defined(__GLIBC__)	/* its malloc_trim(3) */
/* Nor is anything given back: the holder may be at it. */
TEST(slow, under_a_lock_nothing_is_trimmed)
{
	malloc_trim(0);
	free(harness::opaque(memset(malloc(8 << 20), 1, 8 << 20)));
	{
		under_a_lock held;

		EXPECT_EQ(malloc_trim(0), 0);
	}
	EXPECT_EQ(malloc_trim(0), 1);
}
#endif

TEST(slow, nobody_gives_up_anything_for_what_can_never_be_had)
{
	struct slub_shrinker shrinker = {};
	struct slub_bucket *bucket = slub_bucket_create("impossible", 0);

	shrinker.count = shrinker.scan = one_to_give;
	ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	for (size_t bytes : { heap_reserved_bytes + 1, (size_t)1 << 50, (size_t)PTRDIFF_MAX }) {
		EXPECT_EQ(malloc(bytes), nullptr);
		EXPECT_EQ(calloc(1, bytes), nullptr);
		EXPECT_EQ(aligned_alloc(64, bytes), nullptr);
		EXPECT_EQ(aligned_alloc((size_t)1 << 50, 64), nullptr);
		EXPECT_EQ(slub_bucket_alloc(bucket, bytes), nullptr);
	}
	EXPECT_EQ(nr_asked, 0u);
	page_limit_set(page_used_bytes() + (8 << 20));
	EXPECT_EQ(malloc(1 << 30), nullptr) << "more than the limit";
	EXPECT_EQ(nr_asked, 0u);
	page_limit_set(0);
	EXPECT_EQ(slub_shrinker_destroy(&shrinker), 0);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST(slow, what_a_bucket_refuses_is_said_where_messages_are_asked_for)
{
	static char verbose[] = "SLUB_VERBOSE=1";
	char *environment[] = { verbose, nullptr };
	std::string said;
	int status = harness::in_child([&] {
		option_read(environment);
		struct slub_bucket *bucket = slub_bucket_create("said", 0);

		if (!bucket || slub_bucket_create("said", 0) || slub_bucket_create("a b", 0) ||
		    slub_bucket_create("flag", 1ul << 63))
			_exit(1);
		slub_bucket_alloc(bucket, 100);
		slub_bucket_alloc(bucket, 1 << 20);
		_exit(slub_bucket_destroy(bucket) == -EBUSY ? 0 : 2);
	}, &said);

	EXPECT_EQ(status, 0) << harness::describe_status(status);
	for (const char *what : { "there is a bucket of that name", "printable characters",
				  "unknown flag", "2 blocks of ", "1 of them large" })
		EXPECT_NE(said.find(what), said.npos) << what << ": " << said;
}

/* The start of the library sets the paged one last, and a thread may look in between. */
TEST(slow, the_fast_paths_are_open_once_the_library_has_started)
{
	const size_t limit = malloc_paged_limit;
	size_t before[2], after[2];

	/* Nothing is held that would close them again (core/page/budget.c). */
	malloc_trim(0);
	slub_thread.malloc_limit = slub_thread.free_limit = 0;
	malloc_paged_limit = 0;
	fast_paths_open();
	before[0] = slub_thread.malloc_limit;
	before[1] = slub_thread.free_limit;
	malloc_paged_limit = limit;
	fast_paths_open();
	after[0] = slub_thread.malloc_limit;
	after[1] = slub_thread.free_limit;
	EXPECT_EQ(before[0], 0u);
	EXPECT_EQ(before[1], 0u);
	if (percpu_backend != BACKEND_RSEQ) {
		EXPECT_EQ(after[0], 0u) << "no area is this thread's";
		EXPECT_EQ(after[1], 0u);
		return;
	}
	EXPECT_EQ(after[0], MALLOC_LIMIT);
	EXPECT_EQ(after[1], fast_free_limit());
}

/* What lies behind the pages that free() was told of goes the longer way, and tells it. */
TEST(slow, a_thread_frees_where_the_map_has_grown)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "what was freed last is not what comes next";
	start::one_cpu stays;
	void *object = malloc(48);
	const size_t open = slub_thread.free_limit;

	ASSERT_NE(object, nullptr);
	slub_thread.free_limit = 1;
	free(object);
	EXPECT_EQ(slub_thread.free_limit, percpu_backend == BACKEND_RSEQ ? open : 1);
	EXPECT_EQ(malloc(48), object) << "on the list all the same";
	free(object);
	slub_thread.free_limit = open;
}

/* None of its blocks lies behind the limit, or each free would go the longer way. */
TEST(slow, a_thread_frees_all_that_is_in_the_map)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "no area is this thread's";
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "each free is looked at";
	std::vector<void *> blocks;

	for (size_t bytes = 1; bytes < 60000; bytes += bytes / 3 + 1) {
		for (int i = 0; i < 20; i++) {
			blocks.push_back(malloc(bytes));
			EXPECT_LT(front_place(front_map(), blocks.back()),
				  slub_thread.free_limit) << bytes;
		}
	}
	for (void *block : blocks)
		free(block);
}

#if defined(__GLIBC__) && defined(__x86_64__)
/* A thread of clone(): what lies above its stack is the caller's. */
TEST(slow, a_thread_without_libc_has_no_more_than_its_stack)
{
	constexpr size_t STACK = 256 << 10, ABOVE = 4096;
	char *stack = (char *)mmap(nullptr, STACK + ABOVE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *top = stack + STACK;

	ASSERT_NE(stack, MAP_FAILED);
	harness::fill(top, ABOVE, 1);
	int status = harness::in_child([&] {
		static int told;
		int arg = 7;
		/* This thread stands still meanwhile, so they can share what is its own. */
		int child = clone([](void *to) { told = *(int *)to; return 0; }, top,
				  CLONE_VM | CLONE_VFORK | CLONE_SETTLS | SIGCHLD, &arg, nullptr,
				  (void *)pthread_self(), nullptr);

		if (child <= 0 || harness::wait_for(child) || told != 7)
			_exit(1);
		_exit(harness::intact(top, ABOVE, 1) ? 0 : 2);
	});
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	munmap(stack, STACK + ABOVE);
}
#endif

TEST(slow, foreign_pointers_are_left_alone_and_reported_once)
{
	std::string errors;
	/* As another allocator has them. */
	void *mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	EXPECT_EQ(harness::in_child([=] {
		log_enable(true);
		for (int i = 0; i < 3; i++)
			slow_free(mapped);
		if (*static_cast<long *>(mapped))
			abort();
	}, &errors), 0);
	munmap(mapped, 4096);
	EXPECT_EQ(errors.find("not from this library"), errors.rfind("not from this library"));
	EXPECT_NE(errors.find("free: pointer 0x"), std::string::npos) << errors;
}

} /* namespace */
