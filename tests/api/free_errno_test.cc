/* SPDX-License-Identifier: MIT */
/*
 * Promise: whatever frees keeps errno, also where the call has to do something else on its way: to
 * look at the clock, give memory back, answer another process, or report.
 */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <new>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "mailbox.h"
#include "harness.h"
#include <slub/slub.h>

extern "C" void free_sized(void *, size_t);
extern "C" void free_aligned_sized(void *, size_t, size_t);
extern "C" struct debug_mailbox slub_debug_mailbox;

static const int mark = 12345;
static bool clock_sets_errno;

/*
 * The C library's, as it may be under a filter of system calls: it does its work and sets errno.
 * The library asks the kernel's own code where there is any, and this one elsewhere.
 */
extern "C" int clock_gettime(clockid_t clock, struct timespec *now) noexcept
{
	long ret = syscall(SYS_clock_gettime, clock, now);

	if (clock_sets_errno)
		errno = EPERM;
	return ret ? -1 : 0;
}

struct Form {
	const char *name;
	void *(*make)(size_t n);
	void (*end)(void *object, size_t n);
};

static const size_t typed_bytes = 200;
static struct slub_cache *typed;
static struct slub_bucket *bucket;
static struct slub_group *group;

static void *make_plain(size_t n)
{
	return malloc(n);
}

static void *make_typed(size_t)
{
	return slub_cache_alloc(typed);
}

static void *make_in_group(size_t n)
{
	void *object;

	slub_group_enter(group);
	object = malloc(n);
	slub_group_leave(group);
	return object;
}

static const Form forms[] = {
	{ "free", make_plain, [](void *p, size_t) { free(p); } },
	{ "slub_free", make_plain, [](void *p, size_t) { slub_free(p); } },
	{ "realloc to 0", make_plain, [](void *p, size_t) { (void)!realloc(p, 0); } },
	{ "free_sized", make_plain, [](void *p, size_t n) { free_sized(p, n); } },
	{ "free_aligned_sized", [](size_t n) { return aligned_alloc(64, n); },
	  [](void *p, size_t n) { free_aligned_sized(p, 64, n); } },
	{ "delete", [](size_t n) { return operator new(n); },
	  [](void *p, size_t) { operator delete(p); } },
	{ "free in a group", make_in_group, [](void *p, size_t) { free(p); } },
	{ "slub_cache_free", make_typed,
	  [](void *p, size_t) { slub_cache_free(typed, p); } },
	{ "slub_cache_free_bulk", make_typed,
	  [](void *p, size_t) { slub_cache_free_bulk(typed, 1, &p); } },
	{ "free of an object", make_typed, [](void *p, size_t) { free(p); } },
	{ "slub_free_deferred", make_plain, [](void *p, size_t) { slub_free_deferred(p); } },
	{ "slub_bucket_free", [](size_t n) { return slub_bucket_alloc(bucket, n); },
	  [](void *p, size_t) { slub_bucket_free(bucket, p); } },
};

class FreeErrno : public testing::Test {
protected:
	void SetUp() override
	{
		if (typed)
			return;
		typed = slub_cache_create("errno-typed", typed_bytes, 8, 0, nullptr);
		bucket = slub_bucket_create("errno-bucket", 0);
		group = slub_group_create("errno-group", slub_group_root());
		ASSERT_TRUE(typed && bucket && group);
	}

	static void expect_kept(const Form &form, size_t n, size_t nr)
	{
		std::vector<void *> objects(nr);
		size_t wrong = 0;

		for (void *&object : objects) {
			object = form.make(n);
			ASSERT_NE(object, nullptr) << form.name;
			memset(object, 1, std::min(n, typed_bytes));
		}
		for (void *object : objects) {
			errno = mark;
			form.end(object, n);
			wrong += errno != mark;
		}
		EXPECT_EQ(wrong, 0u) << form.name << " of " << n << " bytes; frees that changed "
				     << "errno, of " << nr;
	}
};

TEST_F(FreeErrno, KeptAsMemoryGoesBack)
{
	clock_sets_errno = true;
	const size_t sizes[] = { 24, typed_bytes, 3000, 9000, 30000, 100000, 1 << 20 };

	for (const Form &form : forms) {
		for (size_t n : sizes)
			expect_kept(form, n, std::min<size_t>((16u << 20) / n, 20000));
	}
	clock_sets_errno = false;
}

/* Without per-CPU memory what is asked for is done in part, and errors come up inside. */
static void fill_percpu_memory()
{
	for (size_t bytes = 1 << 20; bytes >= 4;) {
		if (!slub_percpu_alloc(bytes, 4))
			bytes /= 2;
	}
}

TEST_F(FreeErrno, KeptWhereAnotherProcessIsAnswered)
{
	struct debug_mailbox *box = &slub_debug_mailbox;
	uint64_t number = 0;

	fill_percpu_memory();
	for (const Form &form : forms) {
		std::vector<void *> objects(3000);
		size_t wrong = 0;

		for (void *&object : objects)
			object = form.make(typed_bytes);
		number++;
		harness::post(box, harness::request(number, MAILBOX_DEBUG,
						    number % 2 ? "-" : "FZPU"));
		for (void *object : objects) {
			errno = mark;
			form.end(object, typed_bytes);
			wrong += errno != mark;
		}
		EXPECT_EQ(wrong, 0u) << form.name;
		/* Whatever answers: the next form is to find the box empty. */
		for (int i = 0; i < 1000 && !harness::is_answered(box, number); i++) {
			for (void *&object : objects)
				object = harness::opaque(malloc(typed_bytes));
			for (void *object : objects)
				free(object);
		}
		EXPECT_TRUE(harness::is_answered(box, number)) << form.name;
	}
	slub_debug("-");
}

TEST_F(FreeErrno, KeptByWhatIsRefused)
{
	static long object[2];
	void *block = malloc(100);

	clock_sets_errno = true;
	for (const Form &form : forms) {
		if (strcmp(form.name, "realloc to 0") == 0 ||
		    strcmp(form.name, "slub_free_deferred") == 0)
			continue;
		errno = mark;
		form.end(harness::opaque(object + 1), 8);
		EXPECT_EQ(errno, mark) << form.name;
	}
	errno = mark;
	free_sized(harness::opaque(block), 50000);
	EXPECT_EQ(errno, mark);
}
