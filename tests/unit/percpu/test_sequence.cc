/* SPDX-License-Identifier: MIT */
/*
 * The restartable sequences (arch/<cpu>/rseq.h) against their plain-C twins
 * (core/arch/fallback/sequence.h): the same operations on two areas must leave the same behind.
 */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "harness.h"
#include "start.h"

#include "objects.h"

#if ARCH_HAS_RSEQ

namespace {

const uint32_t slots[] = { 32, 64, 4096, 65536 - 32 };
const size_t nr_objects = 64;

/* The table of areas names @area whatever CPU this thread is on. */
void use_area(char *area)
{
	for (uint32_t cid = 0; cid < AREAS_MAX; cid++)
		percpu_base_set(cid, area);
}

class sequence : public testing::TestWithParam<bool> {
protected:
	static void SetUpTestSuite()
	{
		static bool started;

		if (started)
			return;
		started = true;
		setenv("SLUB_FASTPATH", "rseq", 1);
		start::percpu();
		percpu_enter();
	}
	void SetUp() override
	{
		if (percpu_backend != BACKEND_RSEQ)
			GTEST_SKIP() << "no rseq area is registered in this process";
		ASSERT_EQ(slub_thread.self.base, slub_cpu_base);
		for (char *&area : areas) {
			/* An aborted sequence is looked at wherever it worked, in far slots too. */
			area = (char *)aligned_alloc(4096, AREA_FAR_END);
			memset(area, 0, AREA_FAR_END);
			*(uint32_t *)(area + AREA_LIVE) = 1;
		}
		use_area(areas[0]);
	}
	void TearDown() override
	{
		use_area(nullptr);
		for (char *area : areas)
			free(area);
	}
	/* Both start from the same. */
	void set(uint32_t offset, size_t head, int32_t room)
	{
		for (int side = 0; side < 2; side++) {
			struct half *half = area_half(areas[side], offset);

			half->head = head < nr_objects ? pool[side].at(head) : nullptr;
			half->room = room;
		}
	}

	/*
	 * An aborted sequence may leave its room behind, and the limit, never its head: the twin
	 * is then given both, for they bound memory and nothing else depends on them.
	 */
	void aborted(uint32_t offset, int64_t new_room, bool sets_room)
	{
		struct half *ours = area_half(areas[0], offset);
		struct half *twin = area_half(areas[1], offset);
		auto limit = (int32_t)(new_room >> 32);

		nr_aborts++;
		ASSERT_EQ(pool[0].index(ours->head), pool[1].index(twin->head));
		if (sets_room)
			ASSERT_TRUE(ours->room == twin->room || ours->room == (int32_t)new_room ||
				    (ours->room == limit && (offset & SLOT_SPARE || limit < 0)));
		else
			ASSERT_LE(std::abs((long)ours->room - twin->room), 1);
		twin->room = ours->room;
		if (!sets_room || offset & SLOT_SPARE)
			return;
		ASSERT_TRUE(ours[1].unused == twin[1].unused || ours[1].unused == (uint32_t)limit);
		twin[1].unused = ours[1].unused;
	}
	void *pop(uint32_t slot)
	{
		uintptr_t bias = pool[0].bias;

		for (;;) {
			void *object = bias ? rseq_pop_page(slot, bias) : rseq_pop(slot);

			if (object != SEQUENCE_ABORTED)
				return object;
			aborted(slot, 0, false);
		}
	}
	bool push(uint32_t slot, void *object)
	{
		uintptr_t bias = pool[0].bias;

		for (;;) {
			enum sequence_result ret = bias ? rseq_push_page(slot, object, bias) :
							  rseq_push(slot, object);
			if (ret != SEQUENCE_RESTART)
				return ret == SEQUENCE_DONE;
			aborted(slot, 0, false);
		}
	}
	void *take(uint32_t half, int64_t room)
	{
		for (;;) {
			void *chain = rseq_take(half, room);

			if (chain != SEQUENCE_ABORTED)
				return chain;
			aborted(half, room, true);
		}
	}
	bool put(uint32_t half, void *chain, int64_t room)
	{
		for (;;) {
			enum sequence_result ret = rseq_put(half, chain, room);

			if (ret != SEQUENCE_RESTART)
				return ret == SEQUENCE_DONE;
			aborted(half, room, true);
		}
	}
	/* Everything in the areas, with objects by number. */
	void expect_same()
	{
		for (uint32_t offset = 0; offset < AREA_BYTES; offset += sizeof(struct half)) {
			struct half *ours = area_half(areas[0], offset);
			struct half *twin = area_half(areas[1], offset);

			ASSERT_EQ(pool[0].walk(ours->head), pool[1].walk(twin->head)) << offset;
			ASSERT_EQ(ours->room, twin->room) << offset;
			ASSERT_EQ(ours->unused, twin->unused) << offset;
		}
	}
	void random_operations(uint64_t seed, int nr);

	/* No cache has given a slot its secret: links of all of them are encoded alike. */
	objects pool[2] = { { nr_objects, GetParam(), slots[0] },
			    { nr_objects, GetParam(), slots[0] } };
	char *areas[2];
	long nr_aborts = 0;
};

void sequence::random_operations(uint64_t seed, int nr)
{
	harness::Random random(seed);
	std::vector<size_t> idle;

	for (size_t i = 0; i < nr_objects; i++)
		idle.push_back(i);
	for (int i = 0; i < nr; i++) {
		uint32_t slot = slots[random.below(std::size(slots))];
		uint32_t half = slot + (random.below(2) ? SLOT_SPARE : 0);
		int64_t room = (int64_t)random.below(12) - 2;
		std::vector<size_t> some;
		std::vector<long> got, want;

		if (room > 0 && half == slot)
			room = list_room((int32_t)room + 2, (int32_t)random.below(5));

		switch (random.below(6)) {
		case 0: case 1:
			got = { pool[0].index(pop(slot)) };
			want = { pool[1].index(plain_pop(areas[1], slot, pool[1].bias)) };
			break;
		case 2: case 3:
			if (idle.empty())
				continue;
			got = { push(slot, pool[0].at(idle.back())) };
			want = { plain_push(areas[1], slot, pool[1].at(idle.back()),
					    pool[1].bias) };
			if (want[0])
				idle.pop_back();
			ASSERT_EQ(got, want);
			continue;
		case 4:
			got = pool[0].walk(take(half, room));
			want = pool[1].walk(plain_take(areas[1], half, room));
			break;
		case 5:
			for (size_t n = random.below(5) + 1; n && !idle.empty(); n--) {
				some.push_back(idle.back());
				idle.pop_back();
			}
			if (some.empty())
				continue;
			got = { put(half, pool[0].chain(some), room) };
			want = { plain_put(areas[1], half, pool[1].chain(some), room) };
			if (!want[0])
				idle.insert(idle.end(), some.begin(), some.end());
			ASSERT_EQ(got, want);
			continue;
		}
		ASSERT_EQ(got, want);
		for (long number : want)
			if (number >= 0)
				idle.push_back((size_t)number);
		if (i % 1024 == 0) {
			ASSERT_NO_FATAL_FAILURE(expect_same());
		}
	}
	expect_same();
}

TEST_P(sequence, does_what_its_twin_does)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		for (uint32_t slot : slots)
			for (uint32_t half : { slot, slot + SLOT_SPARE })
				set(half, nr_objects, (int32_t)(seed % 4) * 5);
		ASSERT_NO_FATAL_FAILURE(random_operations(seed, 50000)) << seed;
	}
}

/* A signal sends a thread in the middle of a sequence to the abort handler. */
TEST_P(sequence, aborts_change_nothing_that_matters)
{
	struct sigaction action = {}, old;
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = {};

	action.sa_handler = [](int) {};
	sigaction(SIGALRM, &action, &old);
	for (uint32_t slot : slots)
		set(slot, nr_objects, 8);
	setitimer(ITIMER_REAL, &often, nullptr);
	random_operations(99, 1000000);
	setitimer(ITIMER_REAL, &never, nullptr);
	sigaction(SIGALRM, &old, nullptr);
	RecordProperty("aborts", (int)nr_aborts);
}

/* What fails leaves the slot, and what it was given, as they were. */
TEST_P(sequence, failure_touches_nothing)
{
	std::vector<char> before(AREA_BYTES);
	void *object = pool[0].at(7), *mark = pool[0].at(9);

	auto expect_untouched = [&](const char *what) {
		EXPECT_EQ(memcmp(areas[0], before.data(), AREA_BYTES), 0) << what;
		EXPECT_EQ(pool[0].link(object), mark) << what;
	};
	for (uint32_t slot : slots) {
		for (int32_t room : { 0, -1, INT32_MIN, 5 }) {
			set(slot, nr_objects, room);
			set(slot + SLOT_SPARE, nr_objects, room);
			pool[0].link(object) = mark;
			memcpy(before.data(), areas[0], AREA_BYTES);
			EXPECT_EQ(pop(slot), nullptr);
			expect_untouched("pop of nothing");
			EXPECT_EQ(take(slot, 3), nullptr);
			EXPECT_EQ(take(slot + SLOT_SPARE, 3), nullptr);
			expect_untouched("take of nothing");
			if (room > 0)
				continue;
			EXPECT_FALSE(push(slot, object));
			expect_untouched("push without room");
			set(slot, 3, room);
			memcpy(before.data(), areas[0], AREA_BYTES);
			EXPECT_FALSE(push(slot, object));
			EXPECT_FALSE(put(slot, object, 3));
			expect_untouched("push and put where there is something");
			*(uint32_t *)(areas[0] + AREA_LIVE) = 0;
			memcpy(before.data(), areas[0], AREA_BYTES);
			EXPECT_FALSE(put(slot + SLOT_SPARE, object, 3));
			expect_untouched("put into an area that is not live");
			*(uint32_t *)(areas[0] + AREA_LIVE) = 1;
		}
	}
}

/* A store to the dummy area would fault here. */
TEST_P(sequence, never_writes_the_dummy_area)
{
	char *dummy = (char *)slub_dummy_base[0];

	use_area(nullptr);
	ASSERT_EQ(slub_cpu_base[0], (void *)dummy);
	ASSERT_EQ((uintptr_t)dummy % 4096, 0u);
	if ((uintptr_t)dummy % os_page_size())
		GTEST_SKIP() << "the system's pages are larger";
	ASSERT_EQ(mprotect(dummy, AREA_FAR_END, PROT_READ), 0);
	/* free() looks at the entry of a far slot, at any byte. */
	for (uint32_t entry = AREA_NEAR_BYTES; entry < AREA_NEAR_BYTES + FAR_SLOTS; entry++)
		ASSERT_FALSE(push(entry, pool[0].at(0)));
	for (uint32_t slot = 0; slot < AREA_FAR_END; slot += SLOT_BYTES) {
		if (!offset_is_slots(slot))
			continue;
		ASSERT_EQ(pop(slot), nullptr);
		ASSERT_FALSE(push(slot, pool[0].at(0)));
		for (uint32_t half : { slot, slot + SLOT_SPARE }) {
			ASSERT_EQ(take(half, 9), nullptr);
			ASSERT_FALSE(put(half, pool[0].at(0), 9));
		}
		if (!GetParam()) {
			void *object = pool[0].at(0), *popped[9];

			ASSERT_EQ(percpu_pop_bulk(slot, 0, popped, 9), 0u);
			ASSERT_FALSE(percpu_push_bulk(slot, 0, object, &pool[0].link(object), 1));
		}
	}
	EXPECT_EQ(harness::first_nonzero(dummy, AREA_FAR_END), (size_t)AREA_FAR_END);
	mprotect(dummy, AREA_FAR_END, PROT_READ | PROT_WRITE);
}

/* The number by which a thread finds its area is the one that the kernel wrote last. */
TEST_P(sequence, the_number_is_the_kernels)
{
	if (!SLUB_CONFIG_SMP)
		GTEST_SKIP() << "there is one number";
	auto word = (volatile uint32_t *)((char *)__builtin_thread_pointer() + slub_cid_offset());
	int seen = 0;

	/* Between two equal readings it may have been another now and then, never always. */
	for (int i = 0; i < 1000; i++) {
		uint32_t before = *word, asked = percpu_cid(), after = *word;

		seen += before == asked && asked == after;
	}
	EXPECT_GT(seen, 0);
}

/* Slot 0 has neither head nor room, so that what maps to it leaves the fast path. */
TEST_P(sequence, slot_0_takes_nothing)
{
	EXPECT_EQ(pop(0), nullptr);
	EXPECT_FALSE(push(0, pool[0].at(0)));
	EXPECT_EQ(take(0, 5), nullptr);
	EXPECT_EQ(area_half(areas[0], 0)->room, 0);
}

/* Only the hardened build looks at a link: it goes into the head whatever a program made of it. */
TEST_P(sequence, any_link_becomes_the_head)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "there such a link ends the list";
	void *const odd = (void *)0x8000000000000001;
	const uint32_t slot = 4096;

	set(slot, 3, 5);
	for (objects &side : pool)
		side.link(side.at(3)) = odd;
	EXPECT_EQ(pop(slot), pool[0].at(3));
	EXPECT_EQ(plain_pop(areas[1], slot, pool[1].bias), pool[1].at(3));
	for (char *area : areas)
		EXPECT_EQ(area_half(area, slot)->head, odd);
	set(slot, nr_objects, 0);
}

#if defined(__x86_64__)
/* The sequences of malloc and free, whose free objects have a check word. */
class keyed : public sequence {
protected:
	/* Links beside check words are as they are, in every build. */
	keyed()
	{
		pool[0].list = AREA_BYTES;
		if (!KEYS)
			slub_key = (uintptr_t)KEY_TOP << KEY_TOP_SHIFT | 0x1234567890;
	}

	/* The list holds objects @head and 4, the second word of object 3 is @key. */
	void begin(size_t head, int32_t room, uintptr_t key)
	{
		pool[0].link(pool[0].at(3)) = pool[0].at(4);
		link_set_keyed(pool[0].at(4), nullptr);
		*word(3) = key;
		set(SLOT, head, room);
	}
	/* Until nothing aborts. */
	void *pop(size_t head, int32_t room, uintptr_t key)
	{
		void *object;

		do {
			begin(head, room, key);
			object = rseq_pop_key(SLOT);
		} while (object == SEQUENCE_ABORTED);
		return object;
	}
	bool push(int32_t room, uintptr_t key)
	{
		enum sequence_result result;

		do {
			begin(4, room, key);
			pool[0].link(pool[0].at(3)) = nullptr;
			result = rseq_push_key(SLOT, pool[0].at(3));
		} while (result == SEQUENCE_RESTART);
		return result == SEQUENCE_DONE;
	}
	uintptr_t *word(size_t number) { return key_of(pool[0].at(number)); }
	void expect(std::vector<long> list, int32_t room, uintptr_t key)
	{
		struct half *half = area_half(areas[0], SLOT);

		EXPECT_EQ(pool[0].walk(half->head), list);
		EXPECT_EQ(half->room, room);
		EXPECT_EQ(*word(3), key);
	}
	/* That of object 3 with a link to object 4. */
	uintptr_t right() { return key_made(pool[0].at(3), (uintptr_t)pool[0].at(4)); }
	static const uint32_t SLOT = 4096;
};

TEST_P(keyed, pop_takes_what_has_the_right_word)
{
	EXPECT_EQ(pop(3, 5, right()), pool[0].at(3));
	expect({ 4 }, 6, right());
	for (uintptr_t other : { (uintptr_t)0, slub_key, right() ^ 1, right() ^ (uintptr_t)1 << 63,
				 key_made(pool[0].at(3), 0),
				 key_made(pool[0].at(5), (uintptr_t)pool[0].at(4)) }) {
		EXPECT_EQ(pop(3, 5, other), nullptr);
		expect({ 3, 4 }, 5, other);
	}
	EXPECT_EQ(pop(nr_objects, 5, right()), nullptr);
	expect({}, 5, right());
}

TEST_P(keyed, push_takes_what_does_not_look_free_and_marks_it)
{
	for (uintptr_t other : { (uintptr_t)0, ~right(), right() ^ (uintptr_t)1 << 48,
				 right() << 16 }) {
		EXPECT_TRUE(push(2, other));
		expect({ 3, 4 }, 1, right());
	}
	EXPECT_TRUE(push(1, 0));
	expect({ 3, 4 }, 0, right());
	for (uintptr_t other : { right(), slub_key, (uintptr_t)KEY_TOP << KEY_TOP_SHIFT }) {
		EXPECT_FALSE(push(2, other)) << "it may be free already";
		expect({ 4 }, 2, other);
	}
	for (int32_t room : { 0, -1 }) {
		EXPECT_FALSE(push(room, 7)) << "no room";
		expect({ 4 }, room, 7);
	}
}

INSTANTIATE_TEST_SUITE_P(link, keyed, testing::Values(false),
			 [](const auto &) { return "own"; });
#endif

TEST(link, is_an_offset_below_a_page)
{
	EXPECT_TRUE(link_is_in_object(0));
	EXPECT_TRUE(link_is_in_object(4095));
	EXPECT_FALSE(link_is_in_object(4096));
	EXPECT_FALSE(link_is_in_object(UINTPTR_MAX));
}

INSTANTIATE_TEST_SUITE_P(link, sequence, testing::Values(false, true),
			 [](const auto &info) { return info.param ? "paged" : "own"; });

} /* namespace */

#else

TEST(sequence, DISABLED_this_build_has_none) {}

#endif
