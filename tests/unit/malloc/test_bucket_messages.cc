/* SPDX-License-Identifier: MIT */
/* features/buckets: what is said of a bucket where messages are asked for, line by line. */
#include <csignal>
#include <gtest/gtest.h>
#include <functional>
#include <string>
#include <sys/wait.h>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include <slub/bucket.h>
}
#undef _Static_assert

namespace {

/* Whole lines, in a child that asks for them. */
TEST(BucketMessages, SayWhatWasWrong)
{
	struct slub_bucket *bucket = slub_bucket_create("says", 0);
	const std::string of_name = "the name must have 1 to 41 printable characters without "
				    "blanks";
	const std::string of_flags = "unknown flag, or one that is not for buckets";
	const std::string of_others = " is not of this bucket; freed where it belongs";
	char *foreign = (char *)malloc(64);
	const auto flag = (unsigned long)SLUB_CACHE_TYPESAFE_BY_RCU;
	char address[32];

	snprintf(address, sizeof(address), "%p", (void *)foreign);
	struct {
		std::function<void()> work;
		std::string line;
	} const rows[] = {
		{ [] { slub_bucket_create("a b", 0); }, "slub_bucket_create(a b): " + of_name },
		{ [] { slub_bucket_create(nullptr, 0); }, "slub_bucket_create(NULL): " + of_name },
		{ [=] { slub_bucket_create("new", flag); },
		  "slub_bucket_create(new): " + of_flags },
		{ [] { slub_bucket_create("says", 0); },
		  "slub_bucket_create(says): there is a bucket of that name" },
		{ [=] { slub_bucket_alloc(bucket, 100); slub_bucket_alloc(bucket, 50000);
			slub_bucket_alloc(bucket, 60); slub_bucket_destroy(bucket); },
		  "slub_bucket_destroy(says): 3 blocks of 53424 bytes are still allocated, 1 of "
		  "them large" },
		{ [=] { slub_bucket_aligned_alloc(bucket, 48, 1); },
		  "slub_bucket_aligned_alloc: the alignment must be a power of two, not 48" },
		{ [=] { slub_bucket_free(bucket, foreign); },
		  std::string("slub_bucket_free(says): ") + address + of_others },
		{ [=] { slub_bucket_free(nullptr, foreign); },
		  std::string("slub_bucket_free(?): ") + address + of_others },
		{ [=] { slub_bucket_realloc(bucket, foreign, 1); },
		  std::string("slub_bucket_realloc(says): ") + address +
		  " is not of this bucket; left alone" },
		{ [=] { slub_bucket_realloc(nullptr, foreign, 1); },
		  std::string("slub_bucket_realloc(?): ") + address +
		  " is not of this bucket; left alone" },
		{ [] { slub_bucket_clear(nullptr); }, "slub_bucket_clear: 0x0 is not a bucket" },
		{ [=] { slub_bucket_destroy((struct slub_bucket *)memset(foreign, 1, 64)); },
		  std::string("slub_bucket_destroy: ") + address + " is not a bucket" },
		{ [=] { slub_bucket_alloc((struct slub_bucket *)memset(foreign, 1, 64), 1); },
		  std::string("slub_bucket_alloc: ") + address + " is not a bucket" },
		{ [=] { slub_bucket_destroy(bucket); slub_bucket_free(nullptr, nullptr); }, "" },
	};

	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	for (auto &row : rows) {
		std::string said;
		int status = harness::in_child([&] { log_enable(true); row.work(); _exit(0); },
					       &said);

		EXPECT_EQ(harness::describe_status(status), "exit 0");
		EXPECT_EQ(said.substr(said.find(' ') + 1),
			  row.line.empty() ? "" : row.line + "\n");
	}
	free(foreign);
	EXPECT_EQ(slub_bucket_destroy(bucket), 0);
}

TEST(BucketMessages, APanicSaysTheError)
{
	for (const char *name : { "a b", (const char *)nullptr }) {
		std::string said;
		int status = harness::in_child([=] { slub_bucket_create(name, SLUB_CACHE_PANIC); },
					       &said);

		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		EXPECT_EQ(said.substr(said.find(' ') + 1),
			  std::string("slub_bucket_create(") + (name ? name : "NULL") +
			  "): error 22, and SLUB_CACHE_PANIC was asked for\n");
	}
}

} /* namespace */
