// SPDX-License-Identifier: MIT
// Promise: with SLUB_GUARD=N one allocation in N, of malloc and of typed caches, lies between pages
// that nobody may touch; it is as good as any other, and the first wrong access ends the program.
// Run with N=1 and N=64.
#include "guard.h"

extern "C" void free_sized(void *, size_t);

namespace {

TEST(Guard, takes_one_malloc_in_n)
{
	const uint64_t nr = every() == 1 ? 2000 : 200000;

	expect_share(count(nr, [] { return malloc(50); }, free), nr);
	expect_share(count(nr, [] { return malloc(5000); }, free), nr);
	expect_share(count(nr, [] { return aligned_alloc(256, 512); }, free), nr);
}

TEST(Guard, takes_one_typed_object_in_n)
{
	const uint64_t nr = every() == 1 ? 2000 : 200000;
	struct slub_cache *cache = slub_cache_create("guarded-share", 72, 0, 0, nullptr);

	expect_share(count(nr, [=] { return slub_cache_alloc(cache); },
			   [=](void *p) { slub_cache_free(cache, p); }), nr);
	expect_share(count(nr, [=] { return slub_cache_alloc(cache); }, slub_free), nr);
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

TEST(Guard, takes_one_large_block_in_n)
{
	const uint64_t nr = every() == 1 ? 500 : 50000;

	expect_share(count(nr, [] { return malloc(100000); }, free), nr);
	expect_share(count(nr, [] { return aligned_alloc(4096, 40960); }, free), nr);
	// These are too large for a place.
	EXPECT_EQ(0u, count(200, [] { return malloc(3 << 20); }, free));
	EXPECT_EQ(0u, larger()->errors);
}

TEST(Guard, large_blocks_are_as_good_as_any)
{
	for (int i = 0; i < 300; i++) {
		size_t bytes = 33000 + 997 * i, more = bytes + 5000;
		char *p = (char *)malloc(bytes);

		ASSERT_GE(malloc_usable_size(p), bytes);
		harness::fill(p, bytes, i);
		p = (char *)realloc(p, more);
		ASSERT_TRUE(harness::intact(p, bytes, i));
		harness::fill(p, 100, i);
		p = (char *)realloc(p, 100);
		ASSERT_TRUE(harness::intact(p, 100, i));
		free(p);
		p = (char *)calloc(1, bytes);
		for (size_t at = 0; at < bytes; at += 100)
			ASSERT_EQ(0, p[at]);
		free(p);
	}
	EXPECT_EQ(0u, larger()->errors);
}

TEST(Guard, takes_one_in_n_of_a_bulk)
{
	const uint64_t nr = every() == 1 ? 2000 : 200000;
	struct slub_cache *cache = slub_cache_create("guarded-bulk", 72, 0, 0, nullptr);
	uint64_t guarded = 0;
	void *objects[50];

	for (uint64_t i = 0; i < nr; i += 50) {
		ASSERT_EQ(50u, slub_cache_alloc_bulk(cache, SLUB_ALLOC_ZERO, 50, objects));
		for (void *p : objects) {
			guarded += is_guarded(p);
			ASSERT_EQ(0, memcmp(p, "\0\0\0\0\0\0\0", 8));
			memset(p, 'x', 72);
		}
		slub_cache_free_bulk(cache, 50, objects);
	}
	expect_share(guarded, nr);
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_EQ(0u, pool()->errors);
}

TEST(Guard, takes_one_in_n_of_a_bucket)
{
	const uint64_t nr = every() == 1 ? 2000 : 200000;
	struct slub_bucket *bucket = slub_bucket_create("guarded-bucket", 0);
	struct slub_bucket_stats stats;

	expect_share(count(nr, [=] { return slub_bucket_alloc(bucket, 50); },
			   [=](void *p) { slub_bucket_free(bucket, p); }), nr);
	char *p = (char *)slub_bucket_alloc(bucket, 50);
	strcpy(p, "kept");
	p = (char *)slub_bucket_realloc(bucket, p, 60);
	p = (char *)slub_bucket_realloc(bucket, p, 400);
	EXPECT_STREQ("kept", p);
	EXPECT_EQ(0, slub_bucket_stats(bucket, &stats));
	EXPECT_EQ(1u, stats.live_blocks);
	EXPECT_EQ(0u, stats.refused);
	EXPECT_EQ(-EBUSY, slub_bucket_destroy(bucket));
	slub_bucket_free(bucket, p);
	EXPECT_EQ(0, slub_bucket_destroy(bucket));
	EXPECT_EQ(0u, pool()->errors);
}

// What lies between guard pages is charged to nobody, and so is nothing when it is gone.
TEST(Guard, takes_one_accounted_object_in_n)
{
	const uint64_t nr = every() == 1 ? 2000 : 200000;
	struct slub_group *group = slub_group_create("guarded", nullptr);
	struct slub_cache *cache = slub_cache_create("guarded-account", 72, 0, SLUB_CACHE_ACCOUNT,
						     nullptr);

	ASSERT_NE(nullptr, group);
	slub_group_enter(group);
	expect_share(count(nr, [=] { return slub_cache_alloc(cache); },
			   [=](void *p) { slub_cache_free(cache, p); }), nr);
	free(malloc(100000));
	slub_group_leave(group);
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_EQ(0, slub_group_destroy(group));
}

TEST(Guard, objects_are_as_good_as_any)
{
	harness::Random random(7);
	std::vector<std::pair<char *, size_t>> live(300);

	for (int i = 0; i < 20000; i++) {
		size_t n = random.below(live.size());
		char *&p = live[n].first;
		size_t &bytes = live[n].second;

		if (!p) {
			bytes = random.below(i % 10 ? 200 : 20000);
			p = (char *)malloc(bytes);
			ASSERT_GE(malloc_usable_size(p), bytes);
		} else if (i % 3) {
			ASSERT_TRUE(harness::intact(p, bytes, n));
			free(p);
			p = nullptr;
			continue;
		} else {
			size_t more = random.below(400), kept = bytes < more ? bytes : more;

			ASSERT_TRUE(harness::intact(p, bytes, n));
			harness::fill(p, kept, n);
			p = (char *)realloc(p, more + 1);
			ASSERT_TRUE(harness::intact(p, kept, n));
			bytes = more + 1;
		}
		ASSERT_EQ(0u, (uintptr_t)p % 16);
		harness::fill(p, bytes, n);
	}
	for (auto &block : live)
		free(block.first);
	char *zeros = (char *)calloc(10, 30);
	for (int i = 0; i < 300; i++)
		ASSERT_EQ(0, zeros[i]);
	free(zeros);
	EXPECT_EQ(0u, pool()->errors);
}

TEST(Guard, alignment_is_kept)
{
	for (size_t align = 16; align <= 4096; align *= 2) {
		for (size_t bytes = 1; bytes < 9000; bytes += 777) {
			void *p = aligned_alloc(align, bytes);

			ASSERT_EQ(0u, (uintptr_t)p % align) << bytes;
			memset(p, 1, bytes);
			free(p);
		}
	}
	EXPECT_EQ(0u, pool()->errors);
}

/* No address has so many zeros: fuzzing got 1 << 52 for an answer. */
TEST(Guard, an_alignment_beyond_all_places_is_refused)
{
	for (int bit = 40; bit < 64; bit++) {
		for (size_t bytes : { 0, 1, 100 }) {
			EXPECT_EQ(aligned_alloc(harness::opaque((size_t)1 << bit), bytes), nullptr)
				<< bit << ", " << bytes;
		}
	}
}

TEST(Guard, threads_and_children)
{
	std::vector<std::thread> threads;
	std::atomic<int> damaged(0);

	for (int t = 0; t < 4; t++)
		threads.emplace_back([t, &damaged] {
			harness::Random random(t);

			for (int i = 0; i < 5000; i++) {
				size_t bytes = random.below(300);
				char *p = (char *)malloc(bytes);

				harness::fill(p, bytes, t);
				damaged += !harness::intact(p, bytes, t);
				free(p);
			}
		});
	for (int i = 0; i < 10; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			for (int n = 0; n < 1000; n++)
				free(malloc(100));
			_exit(0);
		}
		waitpid(child, &status, 0);
		EXPECT_EQ(0, status);
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(0, damaged);
	EXPECT_EQ(0u, pool()->errors);
}

// Constructed each time, for it is a new object each time.
void construct(void *object)
{
	strcpy((char *)object, "made");
}

TEST(Guard, constructors_run)
{
	struct slub_cache *cache = slub_cache_create("guarded-ctor", 100, 0, 0, construct);

	for (int i = 0; i < 1000; i++) {
		char *p = (char *)slub_cache_alloc(cache);

		ASSERT_STREQ("made", p);
		slub_cache_free(cache, p);
	}
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

// What the compiler must not see through.
char *volatile hidden;

char *guarded_64(bool right)
{
	hidden = guarded([] { return malloc(64); }, right, 64);
	return hidden;
}

typedef void crime(char *object);

int signal_of(crime commit, bool right)
{
	int status;
	pid_t child = fork();

	if (!child) {
		commit(guarded_64(right));
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Guard, a_wrong_access_ends_the_program)
{
	auto overrun = [](char *p) { p[64] = 1; };
	auto underrun = [](char *p) { hidden = p - 1; *hidden = 1; };
	auto read_freed = [](char *p) { free(p); hidden = p + *(volatile char *)p; };
	auto write_freed = [](char *p) { free(p); *(volatile char *)(p + 40) = 1; };

	EXPECT_EQ(SIGSEGV, signal_of(overrun, true));
	EXPECT_EQ(SIGSEGV, signal_of(underrun, false));
	EXPECT_EQ(SIGSEGV, signal_of(read_freed, true));
	EXPECT_EQ(SIGSEGV, signal_of(read_freed, false));
	EXPECT_EQ(SIGSEGV, signal_of(write_freed, false));
	EXPECT_EQ(0, signal_of([](char *p) { p[63] = 1; free(p); }, true));
}

TEST(Guard, wrong_frees_are_counted_and_left_alone)
{
	uint64_t errors = pool()->errors;
	char *p = guarded_64(true);

	ASSERT_NE(nullptr, p);
	free(p + 16);
	EXPECT_EQ(errors + 1, pool()->errors);
	memset(p, 'x', 64);
	free(p);
	free(p);
	EXPECT_EQ(errors + 2, pool()->errors);
	p = guarded_64(false);
	p[64] = 'o';	/* in the rest of its page */
	free(p);
	EXPECT_EQ(errors + 3, pool()->errors);
	free_sized(guarded_64(true), 64);
	EXPECT_EQ(errors + 3, pool()->errors);
	free_sized(guarded_64(true), 20);
	EXPECT_EQ(errors + 4, pool()->errors);
}

// Tools say when an object was freed by this, in days of the calendar.
TEST(Guard, knows_what_its_clock_is_behind)
{
	auto read_ns = [](clockid_t clock) {
		struct timespec now;

		clock_gettime(clock, &now);
		return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	};

	EXPECT_NEAR(pool()->clock_offset_ns, read_ns(CLOCK_REALTIME) - read_ns(CLOCK_MONOTONIC),
		    60e9);
}

// `commit` is told a guarded block of 64 bytes: what is written must have these words.
void expect_words(const char *words, crime commit, bool right)
{
	std::string errors;
	int status = harness::in_child(
		[=] {
			commit(guarded_64(right));
			_exit(0);
		},
		&errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
	EXPECT_NE(errors.find(words), errors.npos) << words << " not in: " << errors;
}

// Run with SLUB_ON_ERROR=report: in the words of any other block, and the block stays as it is.
TEST(Guard, wrong_frees_are_said_as_of_other_blocks)
{
	auto twice = [](char *p) { free(p); free(p); };
	auto again = [](char *p) { free(p); hidden = (char *)realloc(p, 100); };
	auto inside = [](char *p) { free(p + 16); memset(p, 'x', 64); free(p); };
	auto asked = [](char *p) { malloc_usable_size(p + 16); };
	auto beyond = [](char *p) { p[64] = 'o'; free(p); memset(p, 'x', 64); };
	auto at_exit = [](char *p) { p[64] = 'o'; exit(0); };
	auto behind_all = [](char *) { free((char *)pool()->base + pool()->bytes - 16); };

	expect_words(": double free: free(", twice, true);
	expect_words(": double free: realloc(", again, true);
	expect_words(": pointer inside a block: free(", inside, true);
	expect_words(": pointer inside a block: malloc_usable_size(", asked, true);
	expect_words(": a write beyond a block: free(", beyond, false);
	expect_words(": a write beyond a block: 0x", at_exit, false);
	expect_words(": pointer to no block: free(", behind_all, true);
}

TEST(Guard, a_cache_with_a_guarded_object_stays)
{
	struct slub_cache *cache = slub_cache_create("guarded-left", 64, 0, 0, nullptr);
	struct slub_cache *other = slub_cache_create("guarded-other", 64, 0, 0, nullptr);
	void *p = guarded([=] { return slub_cache_alloc(cache); }, true, 64);
	uint64_t errors = pool()->errors;

	ASSERT_NE(nullptr, p);
	EXPECT_EQ(cache, slub_cache_of(p));
	EXPECT_EQ(-EBUSY, slub_cache_destroy(cache));
	slub_cache_free(other, p);
	EXPECT_EQ(errors + 1, pool()->errors);
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_EQ(0, slub_cache_destroy(other));
}

// Where the cache is watched by then its guarded objects are reported, and no other's.
TEST(Guard, a_watched_cache_reports_its_guarded_objects)
{
	struct slub_cache *caches[2];
	void *objects[2];

	for (int i = 0; i < 2; i++) {
		caches[i] = slub_cache_create(i ? "guarded-two" : "guarded-one", 64, 0, 0, nullptr);
		objects[i] = guarded([=] { return slub_cache_alloc(caches[i]); }, true, 64);
		ASSERT_NE(nullptr, objects[i]);
		ASSERT_EQ(0, slub_cache_debug(caches[i], SLUB_CACHE_RED_ZONE));
	}
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(-EBUSY, slub_cache_destroy(caches[i]));
		EXPECT_EQ(2u, slub_cache_errors(caches[i]));
		slub_cache_free(caches[i], objects[i]);
		EXPECT_EQ(0, slub_cache_destroy(caches[i]));
	}
}

// Counted as any other object, by whatever counts objects that are allocated.
TEST(Guard, counts_of_live_objects_have_them)
{
	struct slub_cache *cache = slub_cache_create("guarded-counted", 72, 0, 0, nullptr);
	auto visit = [](void *, void *nr) { ++*(size_t *)nr; return 0; };
	struct mallinfo2 before, now;
	std::vector<void *> live;
	size_t nr = 0;

	for (int i = 0; i < 500; i++)
		live.push_back(slub_cache_alloc(cache));
	EXPECT_EQ(0, slub_cache_for_each_object(cache, visit, &nr));
	EXPECT_EQ(500u, nr);
	for (void *p : live)
		slub_cache_free(cache, p);
	EXPECT_EQ(0, slub_cache_destroy(cache));

	live.clear();
	// What lies in lists is an estimate, so it takes many to be seen.
	before = mallinfo2();
	while (live.size() < 500)
		live.push_back(guarded([] { return malloc(6000); }, live.size() % 2, 6000));
	now = mallinfo2();
	EXPECT_GE(now.uordblks, before.uordblks + 250 * 6000);
	EXPECT_GE(now.arena, now.uordblks);
	for (void *p : live)
		free(p);
	before = mallinfo2();
	char *large = guarded([] { return malloc(100000); }, false, 100000);
	now = mallinfo2();
	EXPECT_EQ(now.hblks, before.hblks + 1);
	EXPECT_GE(now.hblkhd, before.hblkhd + 100000);
	free(large);
}

TEST(Guard, copies_are_checked_and_wrong_frees_are_counted)
{
	struct slub_cache_args args = {};
	struct slub_cache_stats stats;
	struct slub_cache *cache, *other;

	args.name = "guarded-window";
	args.size = 64;
	args.useroffset = 16;
	args.usersize = 8;
	cache = slub_cache_create_args(&args);
	other = slub_cache_create("guarded-wrong", 64, 0, 0, nullptr);
	char *p = guarded([=] { return slub_cache_alloc(cache); }, true, 64);

	ASSERT_NE(nullptr, p);
	EXPECT_TRUE(slub_copy_allowed(p + 16, 8));
	EXPECT_FALSE(slub_copy_allowed(p + 16, 9));
	EXPECT_FALSE(slub_copy_allowed(p, 1));
	slub_cache_free(other, p);
	slub_cache_free(cache, p);
	EXPECT_EQ(0, slub_cache_stats(cache, &stats));
	EXPECT_EQ(1u, stats.wrong_cache);
	EXPECT_EQ(1u, stats.double_free);
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_EQ(0, slub_cache_destroy(other));
}

TEST(Guard, other_ways_to_free)
{
	struct slub_cache *cache = slub_cache_create("guarded-ways", 64, 0, 0, nullptr);
	uint64_t errors = pool()->errors;
	void *objects[100];

	for (int round = 0; round < 20; round++) {
		for (void *&p : objects)
			p = slub_cache_alloc(cache);
		if (round % 2) {
			slub_cache_free_bulk(cache, 100, objects);
			continue;
		}
		for (void *p : objects)
			slub_free_deferred(p);
	}
	slub_deferred_barrier();
	EXPECT_EQ(0, slub_cache_destroy(cache));
	EXPECT_EQ(errors, pool()->errors);
}

// No place left: allocations go on unguarded.  The last test, for it takes them all.
// What is put aside is linked, which a guarded object has no room for: none of it is one.
TEST(Guard, what_is_put_aside_is_not_guarded)
{
	for (int watched = 0; watched < 2; watched++) {
		struct slub_cache *cache = slub_cache_create("guarded-prefill", 64, 0, 0,
							     [](void *p) { memset(p, 0x5a, 64); });
		struct slub_prefill prefill = {};
		unsigned char wanted[64];

		ASSERT_TRUE(cache);
		memset(wanted, 0x5a, sizeof(wanted));
		if (watched) {
			ASSERT_EQ(0, slub_cache_debug(cache, SLUB_CACHE_RED_ZONE |
					SLUB_CACHE_STORE_USER));
		}
		for (size_t nr : { 5, 300 }) {
			ASSERT_EQ(0, slub_cache_prefill(cache, &prefill, nr));
			for (size_t i = 0; i < nr - 2; i++) {
				void *p = slub_prefill_alloc(&prefill);

				ASSERT_TRUE(p);
				ASSERT_EQ(0, memcmp(p, wanted, sizeof(wanted)));
				slub_cache_free(cache, p);
			}
			slub_prefill_return(&prefill);
		}
		EXPECT_EQ(0u, slub_cache_errors(cache));
		EXPECT_EQ(0, slub_cache_destroy(cache));
	}
}

// What was freed last is what a late access meets first: its place rests for half a round.
TEST(Guard, a_place_rests_before_it_is_used_again)
{
	if (every() != 1)
		GTEST_SKIP() << "not each allocation is guarded";
	struct guard_pool *own = (struct guard_pool *)slub_abi_state.guard;
	struct slub_cache *cache = slub_cache_create("guarded-rest", 72, 0, 0, nullptr);
	// The place that is taken where this one is looked at first.
	auto take = [=](uint32_t at) {
		own->next = at;
		void *p = slub_cache_alloc(cache);
		EXPECT_TRUE(is_guarded(p));
		auto place = (uint32_t)(((uintptr_t)p - own->base) / own->place_bytes);
		slub_cache_free(cache, p);
		return place;
	};
	// Of all that are free: so many allocations ago they became it.
	auto age = [=](uint64_t turns) {
		for (uint32_t i = 0; i < own->nr_places; i++) {
			auto *known = (struct guard_place *)(own->places + i * own->place_size);

			if (known->state == GUARD_FREED)
				known->turn = own->turns - turns;
		}
	};
	auto age_one = [=](uint32_t i, uint64_t turns) {
		auto *known = (struct guard_place *)(own->places + i * own->place_size);

		ASSERT_EQ((uint32_t)GUARD_FREED, known->state);
		known->turn = own->turns - turns;
	};
	// Among places of which none is in use, nor waits: tests before have left some.
	uint32_t idle = 0, from = 0;
	while (idle < 16 && from + idle < own->nr_places) {
		auto *known = (struct guard_place *)(own->places +
						     (from + idle) * own->place_size);

		if (known->state == GUARD_FREED || known->state == GUARD_NEVER) {
			idle++;
		} else {
			from += idle + 1;
			idle = 0;
		}
	}
	ASSERT_EQ(idle, 16u);
	const uint32_t first = take(from), second = take(first + 1);

	ASSERT_NE(first, second);
	age(own->nr_places);
	EXPECT_EQ(first, take(first));
	EXPECT_EQ(second, take(first)) << "freed just now";
	age(own->nr_places);
	age_one(first, own->nr_places / 2 - 1);
	EXPECT_EQ(second, take(first)) << "one turn too early";
	age_one(first, own->nr_places / 2);
	EXPECT_EQ(first, take(first));
	// Where all are new the first that is free is better than none.
	age(0);
	EXPECT_EQ(first, take(first));
	EXPECT_EQ(0, slub_cache_destroy(cache));
}

TEST(Guard, more_than_there_are_places)
{
	std::vector<void *> live;
	uint64_t lost = pool()->lost;

	for (uint64_t i = 0; i < every() * 5000; i++) {
		live.push_back(malloc(20));
		ASSERT_NE(nullptr, live.back());
		memset(live.back(), 'm', 20);
	}
	EXPECT_GT(pool()->lost, lost);
	for (void *p : live)
		free(p);
}

} // namespace
