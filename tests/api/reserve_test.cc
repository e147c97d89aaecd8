/* SPDX-License-Identifier: MIT */
/*
 * slub/reserve.h: when there is no other memory, a thread with the right to the reserve gets
 * every size and alignment that the header names, and no other thread gets any.
 */
#include <atomic>
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <thread>
#include <vector>

#include <slub/slub.h>

namespace {

const size_t KiB = 1024, MiB = 1024 * KiB;

struct kept {
	struct kept *next;
};

/* All that malloc() has, the largest first.  Nothing may be asserted until it is given back. */
class Drained {
public:
	Drained()
	{
		for (size_t bytes = 4 * MiB; bytes >= 16; bytes /= 2) {
			while (void *block = malloc(bytes))
				push(block);
		}
		/* Single pages, at addresses of all alignments. */
		for (size_t align = 32 * KiB; align >= 4 * KiB; align /= 2) {
			void *block;

			while (!posix_memalign(&block, align, 16))
				push(block);
		}
		/* Classes between them, too: their slabs have room. */
		for (size_t bytes = 32 * KiB; bytes >= 16; bytes -= 16) {
			while (void *block = malloc(bytes))
				push(block);
		}
	}
	~Drained()
	{
		while (all) {
			struct kept *next = all->next;

			free(all);
			all = next;
		}
	}

private:
	void push(void *block)
	{
		auto *kept = (struct kept *)block;

		kept->next = all;
		all = kept;
	}
	struct kept *all = nullptr;
};

struct tried {
	size_t bytes, align = 0;
	bool with_right = false, without = false;	/* served? */
	bool is_aligned = false;
	size_t before = 0, after = 0;	/* slub_reserve_bytes(), when it was freed */
};

class reserve : public testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_EQ(slub_reserve_set(4 * MiB), 0);
		ASSERT_EQ(slub_option_set("limit", "16M"), 0);
	}
	void TearDown() override
	{
		EXPECT_EQ(slub_option_set("limit", "0"), 0);
		EXPECT_EQ(slub_reserve_set(0), 0);
	}
};

void *get(size_t bytes, size_t align)
{
	void *block = nullptr;

	if (!align)
		return malloc(bytes);
	return posix_memalign(&block, align, bytes) ? nullptr : block;
}

void try_one(struct tried *t)
{
	void *block;

	t->before = slub_reserve_bytes();
	block = get(t->bytes, t->align);
	t->without = block;
	free(block);
	slub_reserve_enter();
	block = get(t->bytes, t->align);
	t->with_right = block;
	t->is_aligned = !((uintptr_t)block % (t->align ? t->align : 16));
	if (block)
		memset(block, 0x5a, t->bytes);
	free(block);
	slub_reserve_leave();
	t->after = slub_reserve_bytes();
}

TEST_F(reserve, serves_every_size_and_alignment_that_the_header_names)
{
	static struct tried all[] = {
		{ 16 }, { 1000 }, { 3840 }, { 3841 }, { 4096 }, { 5000 },
		{ 8192 }, { 9000 }, { 16384 }, { 20000 }, { 28672 },
		{ 28673 }, { 32768 }, { 32769 }, { 100 * KiB }, { 500 * KiB },
		{ 128, 32 }, { 128, 64 }, { 128, 256 }, { 100, 2048 }, { 100, 4096 },
		{ 5000, 4096 }, { 100, 8192 }, { 100, 32768 }, { 40000, 32768 },
		{ 100 * KiB, 65536 },
	};

	{
		Drained drained;

		for (struct tried &t : all)
			try_one(&t);
	}
	for (struct tried &t : all) {
		SCOPED_TRACE(std::to_string(t.bytes) + " aligned to " + std::to_string(t.align));
		EXPECT_TRUE(t.with_right);
		EXPECT_TRUE(t.is_aligned);
		EXPECT_FALSE(t.without);
		EXPECT_EQ(t.after, t.before) << "what is freed fills the reserve";
	}
}

TEST_F(reserve, of_more_than_1_MiB_serves_nothing)
{
	static struct tried all[] = { { MiB + 1 }, { 2 * MiB }, { (size_t)1 << 40 },
				      { SIZE_MAX / 4 }, { 100, (size_t)1 << 40 } };

	{
		Drained drained;

		for (struct tried &t : all)
			try_one(&t);
	}
	for (struct tried &t : all) {
		EXPECT_FALSE(t.with_right) << t.bytes;
		EXPECT_EQ(t.after, t.before);
	}
}

/* What came out of it grows, shrinks and moves like any block. */
TEST_F(reserve, blocks_are_resized)
{
	bool right = true;
	size_t before, after, failed = 0;

	{
		Drained drained;
		char *block;

		before = slub_reserve_bytes();
		slub_reserve_enter();
		block = (char *)calloc(1, 128);
		for (size_t bytes : { (size_t)3000, (size_t)6000, 40 * KiB, 90 * KiB, 300 * KiB,
				      50 * KiB, (size_t)100 }) {
			char *to = block ? (char *)realloc(block, bytes) : nullptr;

			if (!to && !failed)
				failed = bytes;
			if (!to)
				break;
			block = to;
			for (int i = 0; i < 100; i++)
				right &= !block[i];
		}
		free(block);
		slub_reserve_leave();
		after = slub_reserve_bytes();
	}
	EXPECT_EQ(failed, 0u);
	EXPECT_TRUE(right);
	EXPECT_EQ(after, before);
}

/* All of it, in pieces of one size: none is given out twice, and each block comes back. */
TEST_F(reserve, is_given_out_to_the_last_block)
{
	for (size_t bytes : { 32 * KiB, 33 * KiB, 64 * KiB, 200 * KiB }) {
		static char *got[256];
		size_t nr = 0, before, after, overlaps = 0;

		{
			Drained drained;

			before = slub_reserve_bytes();
			slub_reserve_enter();
			while (nr < 256 && (got[nr] = (char *)malloc(bytes)))
				memset(got[nr], (int)nr, bytes), nr++;
			for (size_t i = 0; i < nr; i++) {
				for (size_t at = 0; at < bytes; at += 512)
					overlaps += got[i][at] != (char)i;
				free(got[i]);
			}
			slub_reserve_leave();
			after = slub_reserve_bytes();
		}
		EXPECT_GE(nr * bytes, 2 * MiB) << bytes;
		EXPECT_EQ(overlaps, 0u);
		EXPECT_EQ(after, before);
	}
}

/* Several at once, and others that free meanwhile. */
TEST_F(reserve, by_several_threads)
{
	std::vector<std::thread> threads;
	static std::atomic<unsigned> wrong;
	size_t before, after;

	{
		std::atomic<bool> go{ false };

		for (int n = 1; n <= 4; n++)
			threads.emplace_back([n, &go] {
				while (!go)
					std::this_thread::yield();
				slub_reserve_enter();
				for (size_t i = 0; i < 500; i++) {
					size_t bytes = 1000 + i * 7919 % 200000;
					char *block = (char *)malloc(bytes);

					if (!block)
						continue;
					block[0] = block[bytes - 1] = (char)n;
					if (i % 16 == 0)
						std::this_thread::yield();
					wrong += block[0] != (char)n || block[bytes - 1] != (char)n;
					free(block);
				}
				slub_reserve_leave();
			});
		Drained drained;

		before = slub_reserve_bytes();
		go = true;
		for (std::thread &thread : threads)
			thread.join();
		after = slub_reserve_bytes();
	}
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(after, before);
}

} /* namespace */
