/* SPDX-License-Identifier: MIT */
/* A watched cache, and what is reported of it, kept line by line and not written. */
#ifndef SLUB_TESTS_UNIT_REPORTED_H
#define SLUB_TESTS_UNIT_REPORTED_H

#include <cstdarg>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "features/groups/owned.h"
#include "features/watch/watch.h"
}
#undef _Static_assert
#undef _Atomic

#include <slub/debug.h>
#include <slub/group.h>

/* No container: these run before a constructor does. */
static char lines[64][200];
static unsigned nr_lines, nr_finished, nr_stacks, nr_traces;
static char traced[64];
static const void *about, *also[64], *slab_start, *last_frame;
static size_t slab_bytes;
static unsigned nr_reclaims;
static unsigned nr_also;

extern "C" void __real_stack_read(struct stack *stack, const void *frame);

/* The linker sends the library's calls to these (--wrap). */
extern "C" void __wrap_report_bug(struct debug_case *found, const void *object, const char *format,
				  ...)
{
	va_list args;

	about = object;
	slab_start = found->slab.start;
	slab_bytes = found->slab.bytes;
	found->bugs++;
	va_start(args, format);
	vsnprintf(lines[nr_lines++ % 64], sizeof(lines[0]), format, args);
	va_end(args);
}

extern "C" void __wrap_report_fix(struct debug_case *found, const char *format, ...)
{
	va_list args;

	found->fixes++;
	va_start(args, format);
	vsnprintf(lines[nr_lines++ % 64], sizeof(lines[0]), format, args);
	va_end(args);
}

extern "C" void __wrap_report_also(struct debug_case *, const void *object)
{
	also[nr_also++ % 64] = object;
}

extern "C" void __wrap_report_trace(const struct debug_layout *layout, const char *what,
				    const void *object, const struct debug_slab *slab)
{
	snprintf(traced, sizeof(traced), "%s %s %p %u", layout->name, what, object, slab->inuse);
	nr_traces++;
}

extern "C" void __wrap_report_finish(struct debug_case *)
{
	nr_finished++;
}

extern "C" void __real_slab_reclaim_if_needed(void);

extern "C" void __wrap_slab_reclaim_if_needed(void)
{
	nr_reclaims++;
	__real_slab_reclaim_if_needed();
}

extern "C" void __wrap_stack_read(struct stack *stack, const void *frame)
{
	nr_stacks++;
	last_frame = frame;
	__real_stack_read(stack, frame);
}

namespace {

constexpr unsigned long ALL = SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE |
			      SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER;

std::string text(const char *format, ...)
{
	char line[200];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return line;
}

class Reported : public testing::Test {
protected:
	void make(unsigned long letters)
	{
		cache = slub_cache_create("reported", 64, 0, SLUB_CACHE_NO_MERGE | letters,
					  nullptr);
		ASSERT_NE(cache, nullptr);
		object = (char *)slub_cache_alloc(cache);
		twin = cache_of(object);
		ASSERT_NE(twin, cache);
		slab = slab_of(twin, object);
		node = watched_node(twin, slab);
		forget();
	}
	void TearDown() override
	{
		if (cache) {
			EXPECT_EQ(slub_cache_destroy(cache), 0);
		}
	}
	void forget()
	{
		nr_lines = nr_finished = nr_stacks = nr_traces = nr_also = 0;
		about = nullptr;
	}
	/* Exactly these lines, in one case, and as many errors. */
	void expect(const std::vector<std::string> &wanted)
	{
		std::vector<std::string> said(lines, lines + nr_lines);

		EXPECT_EQ(said, wanted);
		EXPECT_EQ(nr_finished, !wanted.empty());
		errors += wanted.size();
		EXPECT_EQ(slub_cache_errors(cache), errors);
		forget();
	}
	struct slub_cache_stats stats()
	{
		struct slub_cache_stats now = {};

		slub_cache_stats(cache, &now);
		return now;
	}

	struct slub_cache *cache = nullptr, *twin;
	char *object;
	struct page *slab;
	struct cache_node *node;
	unsigned long errors = 0;
};

} /* namespace */

#endif
