/* SPDX-License-Identifier: MIT */
/* <kunit/test.h>, as far as drm_buddy_test.c uses it.  An assertion ends its test, no more. */
#ifndef KERNEL_KUNIT_H
#define KERNEL_KUNIT_H

#include <setjmp.h>

#include "stand_in.h"

struct kunit {
	const char *name;
	bool has_failed;
	jmp_buf end;
};

struct kunit_case {
	void (*run)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char name[32];
	int (*init)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(function) { function, #function }

void kunit_suite_add(struct kunit_suite *suite);
#define kunit_test_suite(suite)						\
	__attribute__((__constructor__)) static void kunit_suite_(void)	\
	{								\
		kunit_suite_add(&suite);				\
	}								\
	extern int kernel_no_symbol

__printf(2, 3) void kunit_err(struct kunit *test, const char *format, ...);

#define KUNIT_FAIL(test, ...)						\
	((test)->has_failed = true, kunit_err(test, __VA_ARGS__))
#define KUNIT_CHECK_(test, condition, otherwise, ...)			\
	do {								\
		if (!(condition)) {					\
			KUNIT_FAIL(test, "" __VA_ARGS__);		\
			otherwise;					\
		}							\
	} while (0)
#define KUNIT_END_(test) longjmp((test)->end, 1)

#define KUNIT_ASSERT_TRUE_MSG(test, condition, ...)			\
	KUNIT_CHECK_(test, condition, KUNIT_END_(test), __VA_ARGS__)
#define KUNIT_ASSERT_FALSE_MSG(test, condition, ...)			\
	KUNIT_CHECK_(test, !(condition), KUNIT_END_(test), __VA_ARGS__)
#define KUNIT_ASSERT_EQ_MSG(test, a, b, ...)				\
	KUNIT_CHECK_(test, (a) == (b), KUNIT_END_(test), __VA_ARGS__)
#define KUNIT_EXPECT_TRUE_MSG(test, condition, ...)			\
	KUNIT_CHECK_(test, condition, , __VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, condition, ...)			\
	KUNIT_CHECK_(test, !(condition), , __VA_ARGS__)
#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...)				\
	KUNIT_CHECK_(test, (a) == (b), , __VA_ARGS__)
#define KUNIT_ASSERT_TRUE(test, condition)				\
	KUNIT_ASSERT_TRUE_MSG(test, condition, "%s is false\n", #condition)
#define KUNIT_ASSERT_FALSE(test, condition)				\
	KUNIT_ASSERT_FALSE_MSG(test, condition, "%s is true\n", #condition)
#define KUNIT_EXPECT_TRUE(test, condition)				\
	KUNIT_EXPECT_TRUE_MSG(test, condition, "%s is false\n", #condition)
#define KUNIT_EXPECT_FALSE(test, condition)				\
	KUNIT_EXPECT_FALSE_MSG(test, condition, "%s is true\n", #condition)
#define KUNIT_EXPECT_EQ(test, a, b)					\
	KUNIT_EXPECT_EQ_MSG(test, a, b, "%s is not %s\n", #a, #b)

#endif
