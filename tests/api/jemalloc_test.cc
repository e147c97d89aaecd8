/* SPDX-License-Identifier: MIT */
/* Promise: slub/jemalloc.h answers jemalloc's names as it says, and wrong uses by an error. */
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <slub/jemalloc.h>

namespace {

bool is_zero(const void *block, size_t from, size_t to)
{
	auto *bytes = static_cast<const unsigned char *>(block);

	for (size_t i = from; i < to; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

/* As of the last write to "epoch". */
size_t seen(const char *name)
{
	size_t value = 0, size = sizeof(value);

	EXPECT_EQ(mallctl(name, &value, &size, nullptr, 0), 0) << name;
	EXPECT_EQ(size, sizeof(value));
	return value;
}

/* Returns the new epoch. */
uint64_t write_epoch()
{
	uint64_t epoch = 1;
	size_t size = sizeof(epoch);

	EXPECT_EQ(mallctl("epoch", &epoch, &size, &epoch, sizeof(epoch)), 0);
	return epoch;
}

size_t number(const char *name)
{
	write_epoch();
	return seen(name);
}

} /* namespace */

TEST(Blocks, HaveTheSizeThatWasForetold)
{
	for (size_t size : { 1, 15, 16, 17, 100, 1000, 5000, 32768, 32769, 100000, 3 << 20 }) {
		void *block = mallocx(size, 0);

		ASSERT_NE(block, nullptr);
		EXPECT_EQ((uintptr_t)block % 8, 0u);
		EXPECT_EQ(sallocx(block, 0), nallocx(size, 0)) << size;
		EXPECT_EQ(sallocx(block, 0), malloc_usable_size(block));
		sdallocx(block, size, 0);
	}
	EXPECT_EQ(nallocx(SIZE_MAX, 0), 0u);
	EXPECT_EQ(nallocx(SIZE_MAX - 100, MALLOCX_ALIGN(4096)), 0u);
	EXPECT_EQ(mallocx(SIZE_MAX / 2, 0), nullptr);
	EXPECT_EQ(mallocx(SIZE_MAX / 2, MALLOCX_ALIGN(64)), nullptr);
	dallocx(nullptr, 0);
}

TEST(Blocks, AreAlignedAsTheFlagsSay)
{
	for (int lg = 0; lg <= 16; lg++) {
		for (size_t size : { 1, 100, 5000, 100000 }) {
			size_t align = (size_t)1 << lg;
			void *block = mallocx(size, MALLOCX_ALIGN(align) | MALLOCX_TCACHE_NONE |
						    MALLOCX_ARENA(3));

			ASSERT_NE(block, nullptr);
			EXPECT_EQ((uintptr_t)block % align, 0u);
			EXPECT_GE(sallocx(block, 0), size);
			EXPECT_GE(nallocx(size, MALLOCX_LG_ALIGN(lg)), size);
			dallocx(block, MALLOCX_TCACHE_NONE);
		}
	}
}

TEST(Blocks, AreZeroWhereTheFlagsSay)
{
	for (int flags : { 0, MALLOCX_ALIGN(256) }) {
		for (size_t size : { 24, 500, 6000, 200000 }) {
			void *dirty = mallocx(size, flags);

			memset(dirty, 0xff, size);
			dallocx(dirty, 0);

			void *block = mallocx(size, flags | MALLOCX_ZERO);

			ASSERT_TRUE(is_zero(block, 0, size)) << size;
			size_t before = sallocx(block, 0);
			memset(block, 0xff, before);
			block = rallocx(block, 3 * size, flags | MALLOCX_ZERO);
			ASSERT_NE(block, nullptr);
			EXPECT_EQ((uintptr_t)block % (flags ? 256 : 8), 0u);
			EXPECT_EQ(((unsigned char *)block)[size - 1], 0xff);
			EXPECT_TRUE(is_zero(block, before, sallocx(block, 0))) << size;
			dallocx(block, 0);
		}
	}
}

TEST(Blocks, ThatCannotGrowStay)
{
	auto *block = static_cast<char *>(mallocx(100, 0));
	size_t size = sallocx(block, 0);

	strcpy(block, "text");
	EXPECT_EQ(xallocx(block, 1 << 20, 0, 0), size);
	EXPECT_EQ(xallocx(block, 10, 0, 0), size);
	EXPECT_STREQ(block, "text");
	EXPECT_EQ(rallocx(block, SIZE_MAX / 2, 0), nullptr);
	EXPECT_EQ(rallocx(block, SIZE_MAX / 2, MALLOCX_ALIGN(64)), nullptr);
	EXPECT_STREQ(block, "text");
	block = static_cast<char *>(rallocx(block, 10, MALLOCX_ALIGN(128)));
	ASSERT_NE(block, nullptr);
	EXPECT_STREQ(block, "text");
	dallocx(block, 0);
}

TEST(Control, StatisticsFollowTheHeap)
{
	size_t allocated = number("stats.allocated"), active = number("stats.active");
	size_t large = number("stats.arenas.0.large.allocated");
	void *block = mallocx(8 << 20, 0);

	ASSERT_NE(block, nullptr);
	EXPECT_GE(number("stats.arenas.0.large.allocated") - large, (size_t)8 << 20);
	EXPECT_GE(number("stats.allocated") - allocated, (size_t)8 << 20);
	EXPECT_GE(number("stats.active") - active, (size_t)8 << 20);
	EXPECT_GE(number("stats.resident"), number("stats.active"));
	EXPECT_GE(number("stats.mapped"), number("stats.active"));
	EXPECT_LE(number("stats.arenas.0.small.allocated"), number("stats.allocated"));
	dallocx(block, 0);
	EXPECT_LT(number("stats.allocated"), allocated + (8 << 20));
}

TEST(Control, StatisticsAreThoseOfTheEpoch)
{
	size_t allocated = number("stats.allocated"), size = sizeof(uint64_t);
	uint64_t epoch = write_epoch(), read = 0;
	void *block = mallocx(8 << 20, 0);

	ASSERT_NE(block, nullptr);
	EXPECT_LT(seen("stats.allocated"), allocated + (8 << 20));
	EXPECT_EQ(mallctl("epoch", &read, &size, nullptr, 0), 0);
	EXPECT_EQ(read, epoch) << "reading is no look";
	EXPECT_LT(seen("stats.arenas.0.large.allocated"), allocated + (8 << 20));
	/* Whatever is written. */
	read = 12345;
	EXPECT_EQ(mallctl("epoch", nullptr, nullptr, &read, sizeof(read)), 0);
	EXPECT_GE(seen("stats.allocated"), allocated + (8 << 20));
	EXPECT_EQ(write_epoch(), epoch + 2);
	dallocx(block, 0);
	EXPECT_GE(seen("stats.allocated"), allocated + (8 << 20));
}

TEST(Control, ActiveIsWhereObjectsInUseCanLie)
{
	/* The slab of the class has room for many, whose pages nobody has used. */
	size_t active = number("stats.active"), resident = number("stats.resident");
	void *block = mallocx(24000, 0);

	ASSERT_NE(block, nullptr);
	EXPECT_GE(number("stats.resident") - resident, (size_t)128 << 10);
	EXPECT_GE(seen("stats.active") - active, (size_t)24000);
	EXPECT_LT(seen("stats.active") - active, (size_t)128 << 10);
	EXPECT_GE(seen("stats.active"), seen("stats.allocated"));
	dallocx(block, 0);
	mallctl("arena.0.purge", nullptr, nullptr, nullptr, 0);
	EXPECT_LT(number("stats.active"), active + 24000);
}

TEST(Control, Constants)
{
	unsigned arenas = 0;
	size_t size = sizeof(arenas);
	const char *version = nullptr;

	EXPECT_EQ(mallctl("arenas.narenas", &arenas, &size, nullptr, 0), 0);
	EXPECT_EQ(arenas, 1u);
	size = sizeof(version);
	EXPECT_EQ(mallctl("version", &version, &size, nullptr, 0), 0);
	EXPECT_STREQ(version, "libslub " SLUB_VERSION_STRING);
	EXPECT_EQ(number("arenas.page"), 4096u);
	EXPECT_EQ(number("arenas.quantum"), 16u);
}

TEST(Control, WhatIsDone)
{
	uint64_t epoch = 7;
	size_t size = sizeof(epoch);

	EXPECT_EQ(mallctl("epoch", &epoch, &size, &epoch, sizeof(epoch)), 0);
	EXPECT_EQ(mallctl("epoch", nullptr, nullptr, &epoch, 4), EINVAL);
	EXPECT_EQ(mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0), 0);
	free(mallocx(64 << 20, MALLOCX_ZERO));
	for (const char *name : { "arena.0.purge", "arena.4096.purge", "arena.12.decay" })
		EXPECT_EQ(mallctl(name, nullptr, nullptr, nullptr, 0), 0) << name;
	EXPECT_LT(number("stats.resident") - number("stats.active"), (size_t)4 << 20);
}

TEST(Control, Profile)
{
	char path[] = "/tmp/jemalloc-test-XXXXXX";
	const char *file = path;
	bool on = true;
	int fd = mkstemp(path);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(mallctl("prof.active", nullptr, nullptr, &on, sizeof(on)), 0);
	void *block = mallocx(16 << 20, 0);
	EXPECT_EQ(mallctl("prof.dump", nullptr, nullptr, &file, sizeof(file)), 0);
	EXPECT_GT(lseek(fd, 0, SEEK_END), 0);
	on = false;
	EXPECT_EQ(mallctl("prof.active", nullptr, nullptr, &on, sizeof(on)), 0);
	file = "/nonexistent/folder/file";
	EXPECT_EQ(mallctl("prof.dump", nullptr, nullptr, &file, sizeof(file)), EFAULT);
	EXPECT_EQ(mallctl("prof.dump", nullptr, nullptr, nullptr, 0), EINVAL);
	EXPECT_EQ(mallctl("prof.active", nullptr, nullptr, &on, 8), EINVAL);
	dallocx(block, 0);
	close(fd);
	unlink(path);
}

TEST(Control, WhatIsNotThere)
{
	size_t value = 1, size = sizeof(value);

	for (const char *name : { "", "stats", "stats.allocatedd", "opt.narenas", "arena.x.purge",
				  "arena.0.purgee", "arena..purge", "prof.reset",
				  "background_thread" })
		EXPECT_EQ(mallctl(name, nullptr, nullptr, nullptr, 0), ENOENT) << name;
	EXPECT_EQ(mallctl(nullptr, nullptr, nullptr, nullptr, 0), EINVAL);
	EXPECT_EQ(mallctl("stats.allocated", nullptr, nullptr, &value, size), EPERM);
	EXPECT_EQ(mallctl("version", nullptr, nullptr, &value, size), EPERM);
	EXPECT_EQ(mallctl("arena.0.purge", &value, &size, nullptr, 0), EPERM);
	EXPECT_EQ(mallctl("prof.dump", &value, &size, nullptr, 0), EPERM);
	/* Room of another size gets what fits, and is told so. */
	size = 4;
	EXPECT_EQ(mallctl("arenas.page", &value, &size, nullptr, 0), EINVAL);
	EXPECT_EQ(size, 4u);
	EXPECT_EQ((uint32_t)value, 4096u);
}

TEST(Print, GivesTheObject)
{
	std::string text;

	malloc_stats_print([](void *arg, const char *part) {
		*static_cast<std::string *>(arg) += part;
	}, &text, "J");
	EXPECT_EQ(text.front(), '{');
	EXPECT_NE(text.find("\"objects\": {"), std::string::npos);
	EXPECT_EQ(text.substr(text.find_last_not_of(" \n"), 1), "}");
}

TEST(Hint, IsYesWhereASlabIsNearlyEmpty)
{
	std::vector<void *> blocks(40000);
	int sparse = 0;

	for (size_t i = 0; i < blocks.size(); i++) {
		blocks[i] = mallocx(200, 0);
		*static_cast<size_t *>(blocks[i]) = i;
	}
	EXPECT_EQ(get_defrag_hint(blocks[20000]), 0) << "its slab is full";
	for (size_t i = 0; i < blocks.size(); i++) {
		if (i % 20)
			dallocx(blocks[i], 0);
	}
	/* What lies free in lists of CPUs counts as used. */
	mallctl("arena.0.purge", nullptr, nullptr, nullptr, 0);
	for (size_t i = 0; i < blocks.size(); i += 20)
		sparse += get_defrag_hint(blocks[i]) != 0;
	EXPECT_GT(sparse, 1000);

	/* As Redis does it: another place, a copy, and the old one is freed. */
	size_t before = number("stats.active");
	for (size_t i = 0; i < blocks.size(); i += 20) {
		if (!get_defrag_hint(blocks[i]))
			continue;
		void *other = mallocx(200, MALLOCX_TCACHE_NONE);

		memcpy(other, blocks[i], 200);
		dallocx(blocks[i], MALLOCX_TCACHE_NONE);
		blocks[i] = other;
	}
	mallctl("arena.0.purge", nullptr, nullptr, nullptr, 0);
	EXPECT_LT(number("stats.active") + (4 << 20), before);
	for (size_t i = 0; i < blocks.size(); i += 20) {
		EXPECT_EQ(*static_cast<size_t *>(blocks[i]), i);
		dallocx(blocks[i], 0);
	}
}
