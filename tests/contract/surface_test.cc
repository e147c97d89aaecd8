/* SPDX-License-Identifier: MIT */
/* Promise: the rest of the C library's malloc interface is there and tells of this heap. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <vector>

#include "harness.h"

static const size_t mib = 1 << 20;

class Holding {
public:
	Holding(size_t bytes, size_t each)
	{
		for (size_t i = 0; i < bytes / each; i++)
			blocks.push_back(memset(malloc(each), 1, each));
	}
	~Holding()
	{
		for (void *block : blocks)
			free(block);
	}

private:
	std::vector<void *> blocks;
};

TEST(Surface, MalloptKnowsTheOptions)
{
	EXPECT_EQ(mallopt(M_ARENA_MAX, 1), 1);
	EXPECT_EQ(mallopt(M_ARENA_TEST, 1), 1);
	EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 128 << 10), 1);
	EXPECT_EQ(mallopt(M_MMAP_MAX, 65536), 1);
	EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 128 << 10), 1);
	EXPECT_EQ(mallopt(M_TOP_PAD, 0), 1);
	EXPECT_EQ(mallopt(M_MXFAST, 64), 1);
	EXPECT_EQ(mallopt(M_CHECK_ACTION, 3), 1);
	EXPECT_EQ(mallopt(M_PERTURB, 0), 1);
}

static size_t in_use()
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

TEST(Surface, Mallinfo2CountsWhatIsHeld)
{
	for (size_t each : {size_t{200}, size_t{1024}, size_t{50000}, 5 * mib}) {
		size_t before = in_use();
		{
			Holding holding(64 * mib, each);
			/* What lies in the lists of CPUs is known to within a list. */
			EXPECT_GE(in_use(), before + 59 * mib) << "holding blocks of " << each;
			EXPECT_LE(in_use(), before + 90 * mib) << "holding blocks of " << each;
			struct mallinfo2 info = mallinfo2();
			EXPECT_GE(info.arena + info.hblkhd, info.uordblks);
		}
		EXPECT_LE(in_use(), before + 20 * mib) << "after freeing blocks of " << each;
	}
}

TEST(Surface, MallinfoAgreesWithMallinfo2)
{
	Holding holding(32 * mib, 1000);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
	struct mallinfo2 wide = mallinfo2();

	EXPECT_NEAR(double(narrow.uordblks), double(wide.uordblks), double(mib));
	EXPECT_NEAR(double(narrow.arena), double(wide.arena), double(mib));
}

TEST(Surface, TrimGivesMemoryBack)
{
	malloc_trim(0);
	size_t before = harness::resident_bytes();
	{
		Holding holding(128 * mib, 1000);
		EXPECT_GE(harness::resident_bytes(), before + 120 * mib);
	}
	int given = malloc_trim(0);
	EXPECT_TRUE(given == 0 || given == 1);
	EXPECT_LE(harness::resident_bytes(), before + 16 * mib);
}

/* Names of the elements that are open at the end of `text`, or "bad" on any error. */
static std::vector<std::string> open_elements(const std::string &text)
{
	std::vector<std::string> open;

	for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
		size_t end = text.find('>', at);
		if (end == text.npos)
			return {"bad: no > after offset " + std::to_string(at)};
		std::string tag = text.substr(at + 1, end - at - 1);
		std::string name = tag.substr(0, tag.find_first_of(" /\n"));
		if (tag[0] == '?')
			continue;
		if (tag[0] == '/') {
			if (open.empty() || open.back() != tag.substr(1))
				return {"bad: </" + tag.substr(1) + "> closes nothing"};
			open.pop_back();
		} else if (tag.back() != '/') {
			open.push_back(name);
		}
	}
	return open;
}

TEST(Surface, MallocInfoWritesXml)
{
	char *text = nullptr;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	ASSERT_NE(stream, nullptr);
	EXPECT_EQ(malloc_info(0, stream), 0);
	fclose(stream);
	std::string xml(text, length);
	free(text);

	EXPECT_EQ(xml.find("<malloc version="), 0u) << xml.substr(0, 80);
	EXPECT_NE(xml.find("</malloc>"), xml.npos);
	EXPECT_EQ(open_elements(xml), std::vector<std::string>{});
	EXPECT_EQ(xml.find('&'), xml.npos);
}

TEST(Surface, MallocInfoRefusesUnknownFlags)
{
	FILE *stream = fopen("/dev/null", "w");

	ASSERT_NE(stream, nullptr);
	EXPECT_NE(malloc_info(1, stream), 0);
	fclose(stream);
}

TEST(Surface, MallocStatsWritesToStderrAlone)
{
	testing::internal::CaptureStderr();
	testing::internal::CaptureStdout();
	malloc_stats();
	std::string errors = testing::internal::GetCapturedStderr();
	EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
	EXPECT_GT(errors.size(), 10u);
	EXPECT_EQ(errors.back(), '\n');
}

/* The names under which the C library exports the same functions to itself and to old programs. */
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);
void __libc_free(void *);
}

TEST(Surface, LibcNamesMixWithThePlainOnes)
{
	void *blocks[] = {__libc_malloc(100),	    __libc_calloc(10, 10),
			  __libc_realloc(nullptr, 100), __libc_memalign(64, 100),
			  __libc_valloc(100),	    __libc_pvalloc(100)};

	for (void *&block : blocks) {
		ASSERT_NE(block, nullptr);
		EXPECT_GE(malloc_usable_size(block), 100u);
		harness::fill(block, 100, 5);
		block = realloc(block, 3000);
		ASSERT_NE(block, nullptr);
		EXPECT_TRUE(harness::intact(block, 100, 5));
		__libc_free(block);
	}
	for (void *&block : blocks)
		block = __libc_realloc(malloc(50), 5000);
	for (void *block : blocks)
		free(block);
}
