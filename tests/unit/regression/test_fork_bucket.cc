/* SPDX-License-Identifier: MIT */
/* A child is forked while another thread makes a bucket's cache of a size class. */
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness.h"
#include "steps.h"

#include <slub/bucket.h>

namespace {

/* In the child: both the class that was being made and another can be used. */
int use(slub_bucket *bucket)
{
	for (size_t bytes : { 100, 1000 }) {
		void *first = slub_bucket_alloc(bucket, bytes);
		void *second = slub_bucket_alloc(bucket, bytes);

		if (!first || !second || first == second)
			return 10;
		slub_bucket_free(bucket, first);
		slub_bucket_free(bucket, second);
	}
	return 0;
}

TEST(fork_bucket, a_class_that_was_being_made_is_not_lost)
{
	unsigned nr = steps::for_each([](unsigned step) {
		slub_bucket *bucket = slub_bucket_create("forked", 0);
		int status = -1;
		void *object = nullptr;
		steps::Other other;

		EXPECT_NE(bucket, nullptr);
		bool has_step = steps::between_locks(step, [&] {
			object = slub_bucket_alloc(bucket, 100);
		}, [&] {
			other.call([&] {
				pid_t pid = fork();

				if (!pid) {
					alarm(20);
					_exit(use(bucket));
				}
				status = harness::wait_for(pid);
			});
		});
		EXPECT_NE(object, nullptr) << step;
		if (has_step) {
			EXPECT_EQ(harness::describe_status(status), "exit 0") << step;
		}
		slub_bucket_free(bucket, object);
		EXPECT_EQ(slub_bucket_destroy(bucket), 0);
		return has_step && !testing::Test::HasFailure();
	});
	EXPECT_GT(nr, 5u);
}

} /* namespace */
