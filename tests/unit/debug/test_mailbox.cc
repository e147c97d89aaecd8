/* SPDX-License-Identifier: MIT */
/*
 * features/watch/debug_mailbox.c: each request, its answer, in how many pieces, and who may give
 * it.
 */
#include <cerrno>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/guard/guard.h"
#include "features/watch/watch.h"
}

#include <slub/debug.h>

#include "mailbox.h"

extern "C" struct debug_mailbox slub_debug_mailbox;
extern "C" void debug_mailbox_answer(void);
extern "C" bool debug_mailbox_serve(void);

static struct slub_cache *asked_cache;
static int asked_answer;
static unsigned nr_asked, nr_refusals;
static uint32_t purged_node;
/* The time, a microsecond later each time that it is asked for. */
static uint64_t clock_ns = 1000000000;

/* The linker sends the library's calls to these (--wrap). */
extern "C" int __real_cache_debug_by(struct slub_cache *cache, const char *setting,
				     enum switch_patience patience);

/* The first @nr_refusals answers are @asked_answer, of one cache. */
extern "C" int __wrap_cache_debug_by(struct slub_cache *cache, const char *setting,
				     enum switch_patience patience)
{
	if (!asked_cache || cache != asked_cache)
		return asked_cache ? 0 : __real_cache_debug_by(cache, setting, patience);
	EXPECT_EQ(patience, SWITCH_AT_ONCE);
	nr_asked++;
	if (!nr_refusals)
		return 1;
	nr_refusals--;
	return asked_answer;
}

extern "C" uint64_t __wrap_os_clock_ns(void)
{
	return clock_ns += 1000;
}

extern "C" size_t __wrap_page_purge_node(uint32_t node)
{
	purged_node = node;
	return 3;
}

namespace {

unsigned nr_tries;
long told;

int set_answers(char *text)
{
	nr_tries++;
	return strcmp(text, "later") == 0 && nr_tries < 5 ? -EBUSY : (int)told;
}

long profile_answers(const char *)
{
	nr_tries++;
	return told;
}

int guard_answers(uint64_t every)
{
	nr_tries++;
	return every == 7 ? -EBUSY : (int)told;
}

class Mailbox : public testing::Test {
protected:
	void SetUp() override
	{
		static char attach[] = "SLUB_ATTACH=1";
		char *environment[] = { attach, nullptr };

		option_read(environment);
		debug_mailbox_set = set_answers;
		debug_mailbox_profile = profile_answers;
		guard_switch = guard_answers;
		cache = slub_cache_create("mailbox-a", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
		nr_tries = nr_asked = nr_refusals = 0;
		told = 0;
	}
	void TearDown() override
	{
		asked_cache = nullptr;
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
	long asked(uint32_t operation, const char *what, uint64_t every_ns = 0)
	{
		static uint64_t id = 100;
		struct debug_request request = harness::request(++id, operation, what);

		harness::post(&slub_debug_mailbox, request);
		for (pieces = 0; pieces < 100000; pieces++) {
			if (harness::is_answered(&slub_debug_mailbox, id))
				break;
			clock_ns += every_ns;
			debug_mailbox_answer();
			EXPECT_EQ(slub_debug_mailbox.begun, id);
			EXPECT_LE(slub_debug_mailbox.done, slub_debug_mailbox.total);
		}
		EXPECT_TRUE(harness::is_answered(&slub_debug_mailbox, id));
		return slub_debug_mailbox.result;
	}
	bool is_done(const struct debug_request &request)
	{
		harness::post(&slub_debug_mailbox, request);
		debug_mailbox_answer();
		return harness::is_answered(&slub_debug_mailbox, request.id);
	}

	struct slub_cache *cache;
	unsigned pieces;
};

unsigned live_caches()
{
	unsigned nr = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c))
		nr += cache_is_live(c) && !cache_is_twin(c);
	return nr;
}

TEST_F(Mailbox, EachOperationAnswers)
{
	struct {
		uint32_t operation;
		const char *text;
		long answer, told;
	} const rows[] = {
		{ MAILBOX_DEBUG, "?", -EINVAL, 0 }, { MAILBOX_DEBUG, "F,nobody", 0, 0 },
		{ MAILBOX_DEBUG, "F,mailbox-a", 1, 0 }, { MAILBOX_VALIDATE, "mailbox-a", 0, 0 },
		{ MAILBOX_VALIDATE, "nobody", -EINVAL, 0 }, { MAILBOX_SHRINK, "mailbox-*", 1, 0 },
		{ MAILBOX_SHRINK, "nobody", 0, 0 }, { MAILBOX_DEBUG, "-,mailbox-a", 1, 0 },
		{ MAILBOX_GUARD, "x", -EINVAL, 0 }, { MAILBOX_GUARD, "5x", -EINVAL, 0 },
		{ MAILBOX_GUARD, "5", 0, 0 }, { MAILBOX_GUARD, "5", -ENOMEM, -ENOMEM },
		{ MAILBOX_GUARD, "0", 0, 0 }, { MAILBOX_GUARD, "0", -ENOMEM, -ENOMEM },
		{ MAILBOX_SET, "a=b", 0, 0 }, { MAILBOX_SET, "a=b", -ENOENT, -ENOENT },
		{ MAILBOX_PROFILE, "start 5", 1, 1 }, { MAILBOX_PROFILE, "start 5", 0, 0 },
		{ MAILBOX_PROFILE, "stop", 0, 0 }, { MAILBOX_PROFILE, "stop", -EINVAL, -EINVAL },
		{ MAILBOX_NODE, "0", 3 * (long)PAGE_BYTES, 0 }, { MAILBOX_NODE, "x", -EINVAL, 0 },
		{ MAILBOX_NODE, "0x", -EINVAL, 0 }, { MAILBOX_NODE, "99", -EINVAL, 0 },
		{ 0, "", -EINVAL, 0 }, { 99, "", -EINVAL, 0 },
	};

	for (auto &row : rows) {
		told = row.told;
		EXPECT_EQ(asked(row.operation, row.text), row.answer)
			<< row.operation << " " << row.text;
	}
	purged_node = 77;
	EXPECT_EQ(asked(MAILBOX_NODE, std::to_string(slab_nr_nodes()).c_str()), -EINVAL);
	EXPECT_EQ(purged_node, 77u);
	EXPECT_EQ(asked(MAILBOX_NODE, "0"), 3 * (long)PAGE_BYTES);
	EXPECT_EQ(purged_node, 0u);
	debug_mailbox_set = nullptr;
	debug_mailbox_profile = nullptr;
	guard_switch = nullptr;
	for (uint32_t operation : { MAILBOX_SET, MAILBOX_PROFILE, MAILBOX_GUARD })
		EXPECT_EQ(asked(operation, "5"), -EINVAL);
}

TEST_F(Mailbox, OneCacheIsAPiece)
{
	const unsigned nr = live_caches();

	EXPECT_EQ(asked(MAILBOX_SHRINK, ""), (long)nr);
	EXPECT_EQ(pieces, nr + 1);
	EXPECT_EQ(slub_debug_mailbox.done, percpu_numbers_end());
	EXPECT_EQ(slub_debug_mailbox.total, percpu_numbers_end());
	EXPECT_EQ(asked(MAILBOX_SHRINK, "mailbox-a"), 1);
	EXPECT_EQ(pieces, 2u);
	EXPECT_EQ(asked(MAILBOX_SHRINK, "nobody"), 0);
	EXPECT_EQ(pieces, 1u);
	EXPECT_EQ(asked(MAILBOX_SET, "a=b"), 0);
	EXPECT_EQ(pieces, 1u);
	EXPECT_EQ(slub_debug_mailbox.done, 0u);
	EXPECT_EQ(slub_debug_mailbox.total, 0u);
}

/* A part of the time that has passed since the last piece. */
TEST_F(Mailbox, WhereSlowPathsAreRareOneDoesMore)
{
	const unsigned nr = live_caches();

	ASSERT_GT(nr, 20u);
	EXPECT_EQ(asked(MAILBOX_SHRINK, "", 50000000), (long)nr);
	EXPECT_EQ(pieces, 2u);
	EXPECT_EQ(asked(MAILBOX_SHRINK, "", 900000), (long)nr);
	EXPECT_EQ(pieces, nr + 1);
	/* None that would wait for others. */
	EXPECT_EQ(asked(MAILBOX_SET, "later", 50000000), 0);
	EXPECT_EQ(pieces, 5u);
}

/* By a thread that does nothing else: all at once, in a handler or not. */
TEST_F(Mailbox, AThreadThatServesDoesAll)
{
	const struct debug_request request = harness::request(71, MAILBOX_SHRINK, "");

	EXPECT_FALSE(debug_mailbox_serve());
	harness::post(&slub_debug_mailbox, request);
	slub_thread.locks_held++;
	EXPECT_FALSE(debug_mailbox_serve());
	slub_thread.locks_held--;
	EXPECT_FALSE(harness::is_answered(&slub_debug_mailbox, 71));
	EXPECT_FALSE(debug_mailbox_serve());
	EXPECT_TRUE(harness::is_answered(&slub_debug_mailbox, 71));
}

/* As often as TRIES_MAX says, and no longer. */
TEST_F(Mailbox, WhatIsBusyIsComeBackTo)
{
	EXPECT_EQ(asked(MAILBOX_SET, "later"), 0);
	EXPECT_EQ(nr_tries, 5u);
	nr_tries = 0;
	told = -EBUSY;
	EXPECT_EQ(asked(MAILBOX_SET, "x"), -EBUSY);
	EXPECT_EQ(nr_tries, 1000u);
	nr_tries = 0;
	EXPECT_EQ(asked(MAILBOX_PROFILE, "x"), -EBUSY);
	EXPECT_EQ(nr_tries, 1000u);
	nr_tries = 0;
	EXPECT_EQ(asked(MAILBOX_GUARD, "7"), -EBUSY);
	EXPECT_EQ(nr_tries, 1000u);
}

TEST_F(Mailbox, ACacheThatIsBusyIsComeBackTo)
{
	struct {
		int answer;
		unsigned refusals, asked;
		long result;
	} const rows[] = {
		{ 0, 0, 1, 1 }, { -EAGAIN, 3, 4, 1 }, { -EBUSY, 3, 4, 1 },
		{ -EAGAIN, 5000, 1000, 1 }, { -EBUSY, 5000, 1000, -EBUSY },
		{ -ENOMEM, 1, 1, -ENOMEM },
		{ 0, 1, 1, 0 },
	};

	asked_cache = cache;
	for (auto &row : rows) {
		asked_answer = row.answer;
		nr_refusals = row.refusals;
		nr_asked = 0;
		EXPECT_EQ(asked(MAILBOX_DEBUG, "F"), row.result) << row.answer;
		EXPECT_EQ(nr_asked, row.asked) << row.answer;
	}
}

TEST_F(Mailbox, WhatIsNotWholeIsNotDone)
{
	struct debug_request request = harness::request(11, MAILBOX_SET, "a=b"), other;

	EXPECT_TRUE(is_done(request));
	EXPECT_EQ(nr_tries, 1u);
	other = request;
	other.id = 12;
	other.check++;
	EXPECT_FALSE(is_done(other)) << "a sum that is wrong";
	EXPECT_EQ(slub_debug_mailbox.state, (uint32_t)MAILBOX_IDLE);
	other = harness::request(13, MAILBOX_SET, "a=b");
	memset(other.text, 'x', sizeof(other.text));
	other.check = debug_request_check(&other);
	EXPECT_FALSE(is_done(other)) << "a text without an end";
	other.text[sizeof(other.text) - 1] = 0;
	other.check = debug_request_check(&other);
	EXPECT_TRUE(is_done(other));
	other = harness::request(0, MAILBOX_SET, "a=b");
	slub_debug_mailbox.answered = 5;
	EXPECT_FALSE(is_done(other)) << "withdrawn";
	/* The number in the state is another's. */
	other = harness::request(14, MAILBOX_SET, "a=b");
	slub_debug_mailbox.request = other;
	slub_debug_mailbox.state = (MAILBOX_NUMBER(14) ^ 0x100) | MAILBOX_REQUEST;
	debug_mailbox_answer();
	EXPECT_FALSE(harness::is_answered(&slub_debug_mailbox, 14));
	EXPECT_EQ(nr_tries, 2u);
	/* Not asked at all, or taken by another. */
	for (uint32_t state : { MAILBOX_IDLE, MAILBOX_TAKEN }) {
		other = harness::request(15, MAILBOX_SET, "a=b");
		slub_debug_mailbox.request = other;
		slub_debug_mailbox.state = MAILBOX_NUMBER(15) | state;
		debug_mailbox_answer();
		EXPECT_EQ(slub_debug_mailbox.state, MAILBOX_NUMBER(15) | state);
	}
	EXPECT_EQ(nr_tries, 2u);
	slub_debug_mailbox.state = MAILBOX_IDLE;
}

TEST_F(Mailbox, WhoIsInTheLibraryDoesNotAnswer)
{
	struct debug_request request = harness::request(21, MAILBOX_SET, "a=b");
	const uint16_t before = slub_thread.flags;
	const uint64_t refused = slub_debug_mailbox.nr_refused;

	for (uint32_t flag : { THREAD_IN_STATS, THREAD_IN_RECLAIM, THREAD_IN_INIT, THREAD_FORKING,
			       THREAD_IN_DEFRAG, THREAD_SIGNALS_WAIT }) {
		slub_thread.flags = (uint16_t)(before | flag);
		bool was_done = is_done(request);
		slub_thread.flags = before;
		EXPECT_FALSE(was_done) << flag;
	}
	slub_thread.locks_held++;
	bool was_done = is_done(request);
	slub_thread.locks_held--;
	EXPECT_FALSE(was_done);
	EXPECT_EQ(slub_debug_mailbox.nr_refused, refused) << "these are no handlers";
	EXPECT_TRUE(is_done(request));
	EXPECT_EQ(nr_tries, 1u);
}

TEST_F(Mailbox, WhoMayBeAHandlerIsCounted)
{
	const uint64_t refused = slub_debug_mailbox.nr_refused;
	sigset_t one, before;

	signal(SIGUSR1, [](int) {});
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, &before);
	EXPECT_FALSE(is_done(harness::request(31, MAILBOX_SET, "a=b")));
	EXPECT_EQ(slub_debug_mailbox.nr_refused, refused + 1);
	EXPECT_TRUE(is_done(harness::request(32, MAILBOX_SET, "a=b", MAILBOX_BLOCKED_TOO)));
	EXPECT_EQ(slub_debug_mailbox.nr_refused, refused + 1);
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	EXPECT_TRUE(is_done(harness::request(33, MAILBOX_SET, "a=b")));
	signal(SIGUSR1, SIG_DFL);
	EXPECT_EQ(nr_tries, 2u);
}

/* The parent was asked, whatever is in it. */
TEST_F(Mailbox, AChildIsNotAsked)
{
	for (uint32_t state : { MAILBOX_REQUEST, MAILBOX_TAKEN, MAILBOX_IDLE }) {
		struct debug_request request = harness::request(41, MAILBOX_SET, "a=b");

		slub_debug_mailbox.request = request;
		slub_debug_mailbox.state = MAILBOX_NUMBER(41) | state;
		debug_mailbox_after_fork();
		EXPECT_EQ(slub_debug_mailbox.state, (uint32_t)MAILBOX_IDLE) << state;
		EXPECT_EQ(slub_debug_mailbox.request.id, 0u);
	}
	EXPECT_EQ(nr_tries, 0u);
}

TEST_F(Mailbox, APatternIsOfNames)
{
	EXPECT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	EXPECT_TRUE(debug_is_meant(cache, ""));
	EXPECT_TRUE(debug_is_meant(cache, "mailbox-a"));
	EXPECT_TRUE(debug_is_meant(cache, "*-a"));
	EXPECT_FALSE(debug_is_meant(cache, "mailbox"));
	EXPECT_FALSE(debug_is_meant(cache_twin(cache), "")) << "a twin has no name of its own";
	struct slub_cache *first = slub_cache_create("shared-a", 72, 0, 0, nullptr);
	struct slub_cache *second = slub_cache_create("shared-b", 72, 0, 0, nullptr);
	if (cache_real(first) == cache_real(second)) {
		EXPECT_TRUE(debug_is_meant(cache_real(first), "shared-b")) << "an alias";
		EXPECT_FALSE(debug_is_meant(cache_real(first), "shared-c"));
	}
	EXPECT_EQ(slub_cache_destroy(second), 0);
	EXPECT_EQ(slub_cache_destroy(first), 0);
	EXPECT_EQ(slub_cache_debug(cache, 0), 0);
}

} /* namespace */
